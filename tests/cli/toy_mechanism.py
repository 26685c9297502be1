"""A mechanism of one file: randomized response on one bit, by its odds, known by its dominating pair."""

import math
from typing import ClassVar

from dpcalc.keys import exact, key
from dpcalc.losses.loss import Loss
from dpcalc.mechanisms.kinds import PairOnly
from dpcalc.records import dataclass


@dataclass(frozen=True, kw_only=True)
class Toy(PairOnly):
    name: ClassVar[str] = "toy"
    assumptions: ClassVar[tuple[str, ...]] = ("the toy tosses its coin afresh in every step",)
    odds: float = key(exact(1, 1000, "from 1 to 1000"), "Odds of the true bit, for type toy.", advice="say the odds")

    def pair(self):
        loss = math.log(self.odds)
        masses = (math.log(1 / (1 + self.odds)), math.log(self.odds / (1 + self.odds)))
        return Loss(losses=(-loss, loss), log_masses=masses)
