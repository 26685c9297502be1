"""The part that solvers share: search with the estimate, then decide with the certified bound."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from fractions import Fraction
from functools import cache, lru_cache
from operator import attrgetter
from typing import ClassVar, NamedTuple

from dpcalc.accountants.composed_loss import UPPER
from dpcalc.accountants.gaussian import closed_form_epsilon
from dpcalc.accountants.inversion import largest_inversion
from dpcalc.accountants.pld import epsilon_bounds
from dpcalc.accountants.rdp import rdp
from dpcalc.accountants.result import StepCounts
from dpcalc.errors import ConvergenceError, DpcalcError, InputError, UnsupportedError
from dpcalc.numerics.roots import bracket_root
from dpcalc.planner.composition import Composition, composed, is_noiseless
from dpcalc.planner.evaluate import guarantee
from dpcalc.planner.plan import Plan
from dpcalc.planner.risk import advantage, true_positive_rates
from dpcalc.records import dataclass

Value = float | int | Fraction
FINEST = 1e-5  # relative distance of a returned real number from the neighbour that fails, at first
_REMEMBERED = 4  # compositions kept in a search: each may hold megabytes


@dataclass(frozen=True)
class Estimate:
    """An estimate of a goal's measure, without a certificate.

    Attributes:
        value: the measure.
        direction: direction with the largest value; "" where it is not known.
        change: first-order change of the value towards the plan nearby; nan without one, or where it is not known.
    """

    value: float
    direction: str = ""
    change: float = math.nan


@dataclass(frozen=True, kw_only=True)
class Goal(ABC):
    """A measure of plans, which falls with more noise, and its limit.

    Attributes:
        limit: largest allowed value of the measure.
        is_estimate_certified: True if the estimate is the certified bound itself.
    """

    limit: float
    is_estimate_certified: ClassVar[bool] = True

    @property
    @abstractmethod
    def name(self) -> str:
        """Name of the measure, in words."""

    @abstractmethod
    def certified(self, plan: Plan | Composition) -> float:
        """Return a certified upper bound on the measure of a plan."""

    def estimate(
        self,
        plan: Plan | Composition,
        *,
        direction: str = "",  # noqa: ARG002  of use where an estimate is cheaper than the bound
        nearby: Composition | None = None,  # noqa: ARG002  likewise
    ) -> Estimate:
        """Return an estimate of the measure, as cheaply as possible: here the certified bound in both directions."""
        return Estimate(self.certified(plan))


class NoSolution(DpcalcError):
    """No value of the quantity meets the target (exit code 1).

    Attributes:
        name: the quantity.
        goal: what was asked.
        best_value: the value that comes nearest.
        best_reached: what the goal measures there, an upper bound.
    """

    def __init__(self, name: str, goal: Goal, best_value: Value, best_reached: float) -> None:
        """Store the goal and the best value; the message names both."""
        super().__init__(
            f"{name}: no value gives {goal.name} <= {goal.limit!r}; "
            f"the best, {name} {best_value}, gives {best_reached:.6g}"
        )
        self.name, self.goal, self.best_value, self.best_reached = name, goal, best_value, best_reached


def estimate_epsilon(plan: Plan | Composition, *, direction: str = "", nearby: Composition | None = None) -> Estimate:
    """Return the epsilon of a plan: estimated for one run by auto or pld with known losses, else the certified
    bound."""
    composition = composed(plan)
    run = composition.plan
    if is_noiseless(run) or run.method not in {"auto", "pld"} or run.tuning is not None:
        return Estimate(guarantee(composition).epsilon)
    steps = composition.steps
    directions = [direction] if direction in steps else list(steps)
    counts_by_name = {name: steps[name] for name in directions if steps[name]}
    exact = _closed_form_estimate(counts_by_name, run.delta)
    if exact is not None:
        return exact
    try:
        return _inverted_estimate(counts_by_name, run.delta, nearby)
    except UnsupportedError:  # steps of which Renyi divergences alone are known
        return Estimate(guarantee(composition).epsilon)


def _closed_form_estimate(steps: Mapping[str, StepCounts], delta: float) -> Estimate | None:
    """Return the largest closed-form epsilon of all directions; None if one of them has no closed form."""
    exact = {name: closed_form_epsilon(counts, delta=delta, is_upper=True) for name, counts in steps.items()}
    known = [Estimate(epsilon, name) for name, epsilon in exact.items() if epsilon is not None]
    return max(known, key=attrgetter("value"), default=Estimate(0.0)) if len(known) == len(exact) else None


def _inverted_estimate(counts_by_name: Mapping[str, StepCounts], delta: float, nearby: Composition | None) -> Estimate:
    """Return the largest epsilon of the directions by inversion, or certified where that fails, with its change."""
    best, name = largest_inversion(counts_by_name, delta=delta, otherwise=lambda counts, _: _certified(counts, delta))
    change = math.nan if nearby is None else best.epsilon_change(nearby.steps[name])
    return Estimate(best.epsilon, name, change)


def _certified(counts: StepCounts, delta: float) -> float:
    """Return an upper bound on epsilon of one direction by pld, or by rdp if that fails."""
    try:
        return epsilon_bounds(counts, delta=delta, sides=(UPPER,))[0]
    except ConvergenceError:
        return rdp(counts, delta=delta).epsilon


def largest_whole(
    with_value: Callable[[int], Plan | Composition],
    ends: tuple[int, int],
    goal: Goal,
    name: str,
    *,
    growth: int = 16,
    start: int | None = None,
) -> tuple[int, int | None]:
    """Return (largest number that meets the goal, next one, which fails, or None at the end); NoSolution if none does.

    The measure must grow with the number.
    """
    lowest, highest = ends
    at = lru_cache(maxsize=_REMEMBERED)(lambda value: composed(with_value(value)))  # both measures ask for the same
    certified = cache(lambda value: goal.certified(at(value)))
    estimated = certified if goal.is_estimate_certified else cache(lambda value: goal.estimate(at(value)).value)
    first = certified(lowest)
    if first > goal.limit:
        raise NoSolution(name, goal, lowest, first)
    near = _near_root(estimated, ends, goal.limit, growth) if start is None else start
    low, high = _enclosing(lambda value: certified(value) > goal.limit, near, ends)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if certified(middle) > goal.limit else (middle, high)
    return low, (high if high <= highest else None)


def _enclosing(fails: Callable[[int], bool], near: int, ends: tuple[int, int]) -> tuple[int, int]:
    """Return (a number that does not fail, a larger one that does or the upper end + 1), searched from `near`.

    The lower end is taken not to fail.
    """
    lowest, highest = ends
    low, high, reach = near, highest + 1, 1
    while low > lowest and fails(low):
        low, high, reach = max(lowest, low - reach), low, 2 * reach
    reach = 1
    while high == highest + 1 and low < highest:
        step = min(low + reach, highest)
        if fails(step):
            high = step
        else:
            low, reach = step, 2 * reach
    return low, high


def _near_root(estimate: Callable[[int], float], ends: tuple[int, int], limit: float, growth: int) -> int:
    """Return the largest whole number whose estimate is within a limit; the lower end, untested, if there is none."""
    lowest, highest = ends
    low = _rounded_root(estimate, ends, limit, growth)
    while low > lowest and estimate(low) > limit:
        low -= 1
    while low < highest and estimate(low + 1) <= limit:
        low += 1
    return low


def _rounded_root(estimate: Callable[[int], float], ends: tuple[int, int], limit: float, growth: int) -> int:
    """Return a whole number near the one whose estimate is the limit; an end if it is not between the ends."""
    lowest, highest = ends
    low, high = lowest, max(lowest, 1)
    while high < highest and estimate(high) <= limit:
        low, high = high, min(highest, growth * high)
    if high == highest and estimate(highest) <= limit:
        return highest
    if high - low <= 1:
        return low
    log_root, _ = bracket_root(
        lambda x: limit - estimate(round(math.exp(x))), math.log(max(low, 1)), math.log(high), tolerance=1e-3 / high
    )
    return max(lowest, min(highest, round(math.exp(log_root))))


# Goals: an epsilon, or the success of the best attacker.


@dataclass(frozen=True, kw_only=True)
class EpsilonGoal(Goal):
    """Goal of an epsilon at the plan's delta, by the plan's accountant; the limit is finite and > 0."""

    name = "epsilon"
    is_estimate_certified = False

    def __post_init__(self) -> None:
        """Raise InputError unless the limit is finite and > 0."""
        if not 0 < self.limit < math.inf:
            raise InputError(f"target epsilon: expected a finite number > 0, got {self.limit!r}")

    def certified(self, plan: Plan | Composition) -> float:
        """Return a certified upper bound on epsilon."""
        return guarantee(plan).epsilon

    def estimate(self, plan: Plan | Composition, *, direction: str = "", nearby: Composition | None = None) -> Estimate:
        """Return `estimate_epsilon` of the plan."""
        return estimate_epsilon(plan, direction=direction, nearby=nearby)


@dataclass(frozen=True, kw_only=True)
class DetectionGoal(Goal):
    """Goal of a true positive rate of the best attacker that has a given false positive rate.

    Attributes:
        false_positive_rate: in (0, 1); the limit lies between it, which guessing reaches, and 1.
    """

    false_positive_rate: float

    def __post_init__(self) -> None:
        """Raise InputError unless 0 < false positive rate < limit < 1."""
        rate = self.false_positive_rate
        if not 0 < rate < 1:
            raise InputError(f"false positive rate: expected a number between 0 and 1, both excluded, got {rate!r}")
        if not rate < self.limit < 1:
            why = "guessing detects as often as it raises false alarms"
            raise InputError(f"target rate: expected a number between {rate!r} and 1, {why}, got {self.limit!r}")

    @property
    def name(self) -> str:
        """Name of the measure, with its false positive rate."""
        return f"true positive rate at false positive rate {self.false_positive_rate!r}"

    def certified(self, plan: Plan | Composition) -> float:
        """Return an upper bound on the larger true positive rate; UnsupportedError unless auto or pld."""
        rates = true_positive_rates(require_pld_method(plan), (self.false_positive_rate,))
        return max(float(detected[0]) for detected in rates)


@dataclass(frozen=True, kw_only=True)
class AdvantageGoal(Goal):
    """Goal of a largest difference, in (0, 1), of true and false positive rate of any attacker."""

    name = "advantage"

    def __post_init__(self) -> None:
        """Raise InputError unless the limit is in (0, 1)."""
        if not 0 < self.limit < 1:
            raise InputError(f"target advantage: expected a number between 0 and 1, both excluded, got {self.limit!r}")

    def certified(self, plan: Plan | Composition) -> float:
        """Return an upper bound on the advantage; UnsupportedError unless the method is auto or pld."""
        return advantage(require_pld_method(plan))


def require_pld_method(plan: Plan | Composition) -> Composition:
    """Return the composition of a plan; UnsupportedError unless its method is auto or pld, which bound attackers."""
    composition = composed(plan)
    if composition.plan.method not in {"auto", "pld"}:
        raise UnsupportedError(
            f"attacker: expected method auto or pld, got {composition.plan.method}; leave --method out"
        )
    return composition


class Ends(NamedTuple):
    """A value that meets a goal, and the neighbouring value that does not; None if there is none."""

    value: Value
    fails_at: Value | None


def disagreement_error(name: str, root: float) -> ConvergenceError:
    """Return the error for an estimate and a certified bound that do not agree near a root."""
    return ConvergenceError(
        f"{name}: expected the estimate and the certified bound to agree near {root:.6g}, they do not; try --method rdp"
    )
