"""What a run can be asked to keep to: an epsilon, or how well an attacker does at best."""

import math
from dataclasses import dataclass

from dpcalc.errors import InputError, UnsupportedError
from dpcalc.planner.evaluate import guarantee
from dpcalc.planner.plan import Plan
from dpcalc.planner.risk import advantage, true_positive_rate
from dpcalc.planner.search import Estimate, estimate


@dataclass(frozen=True, kw_only=True)
class EpsilonGoal:
    """An epsilon at the plan's delta, by the plan's accountant.

    Attributes:
        limit: finite, > 0.
    """

    limit: float

    def __post_init__(self) -> None:
        """Refuse what is no epsilon."""
        if not 0 < self.limit < math.inf:
            raise InputError(f"target epsilon: expected a finite number > 0, got {self.limit!r}")

    @property
    def name(self) -> str:
        """What is measured, in words."""
        return "epsilon"

    def certified(self, plan: Plan) -> float:
        """An upper bound on epsilon."""
        return guarantee(plan).epsilon

    def estimate(self, plan: Plan, *, direction: str = "", nearby: Plan | None = None) -> Estimate:
        """Epsilon by inversion."""
        return estimate(plan, direction=direction, nearby=nearby)


@dataclass(frozen=True, kw_only=True)
class DetectionGoal:
    """The true positive rate of the best attacker that has a given false positive rate.

    Attributes:
        limit: between the false positive rate, which guessing reaches, and 1.
        false_positive_rate: in (0, 1).
    """

    limit: float
    false_positive_rate: float

    def __post_init__(self) -> None:
        """Refuse rates that are none, and those that guessing exceeds."""
        rate = self.false_positive_rate
        if not 0 < rate < 1:
            raise InputError(f"false positive rate: expected a number between 0 and 1, both excluded, got {rate!r}")
        if not rate < self.limit < 1:
            why = "guessing detects as often as it raises false alarms"
            raise InputError(f"target rate: expected a number between {rate!r} and 1, {why}, got {self.limit!r}")

    @property
    def name(self) -> str:
        """What is measured, in words."""
        return f"true positive rate at false positive rate {self.false_positive_rate!r}"

    def certified(self, plan: Plan) -> float:
        """An upper bound on the rate, whichever of the two data sets is to be detected."""
        return true_positive_rate(by_composition(plan), self.false_positive_rate)

    def estimate(self, plan: Plan, *, direction: str = "", nearby: Plan | None = None) -> Estimate:  # noqa: ARG002
        """The same, of both directions: it costs little."""
        return Estimate(self.certified(plan))


@dataclass(frozen=True, kw_only=True)
class AdvantageGoal:
    """The largest difference of true and false positive rate of any attacker.

    Attributes:
        limit: in (0, 1).
    """

    limit: float

    def __post_init__(self) -> None:
        """Refuse what is no difference of rates."""
        if not 0 < self.limit < 1:
            raise InputError(f"target advantage: expected a number between 0 and 1, both excluded, got {self.limit!r}")

    @property
    def name(self) -> str:
        """What is measured, in words."""
        return "advantage"

    def certified(self, plan: Plan) -> float:
        """An upper bound on the advantage."""
        return advantage(by_composition(plan))

    def estimate(self, plan: Plan, *, direction: str = "", nearby: Plan | None = None) -> Estimate:  # noqa: ARG002
        """The same, of both directions: it costs little."""
        return Estimate(self.certified(plan))


def by_composition(plan: Plan) -> Plan:
    """A plan whose attacker is bounded: by the composed losses alone."""
    if plan.method not in {"auto", "pld"}:
        raise UnsupportedError(f"attacker: expected method auto or pld, got {plan.method}; leave --method out")
    return plan
