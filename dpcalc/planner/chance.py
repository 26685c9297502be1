"""A computed number beside what chance says of it, and where chance comes from."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from numpy.random import Generator

DOUBT = 1e-6
"""Probability with which one interval may miss what it is for."""

Ends = tuple[float, float]


@dataclass(frozen=True, kw_only=True)
class Check:
    """One computed number beside what was drawn.

    Attributes:
        phase: name of the phase, "" for the whole run.
        quantity: what it is.
        computed: both ends of what is claimed, equal where it is exact.
        observed: the estimate from the draws.
        interval: where the truth lies, but for a probability of DOUBT; equal ends where nothing is left to chance.
        trials: independent draws.
        note: a remark, or "".
    """

    phase: str
    quantity: str
    computed: Ends
    observed: float
    interval: Ends
    trials: int
    note: str = ""

    @property
    def agrees(self) -> bool:
        """Whether both can be true."""
        slack = 1e-9 * abs(self.observed)  # the last digits of two ways to add up
        return self.interval[0] <= self.computed[1] + slack and self.computed[0] <= self.interval[1] + slack


@dataclass(frozen=True, kw_only=True)
class Effort:
    """How much is drawn.

    Attributes:
        seed: of the random numbers.
        draws: steps drawn from the sampler of each phase; None for as many as take a second or two.
        runs: training runs whose privacy loss is drawn; likewise.
    """

    seed: int = 1
    draws: int | None = None
    runs: int | None = None


@dataclass(frozen=True, kw_only=True)
class Chance:
    """Where chance comes from.

    Attributes:
        rng: random numbers.
        effort: how many of them are wanted.
        tell: hears which part of the work is done, from 0 to 1.
    """

    rng: Generator
    effort: Effort
    tell: Callable[[float], None]

    def part(self, number: int, parts: int) -> "Chance":
        """The same for one of several equal parts of the work."""
        return replace(self, tell=lambda done: self.tell((number + done) / parts))
