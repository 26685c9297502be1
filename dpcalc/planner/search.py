"""What solvers share: goals, their cheap estimates, and the search for the largest whole number that meets a goal.

A goal measures plans; its measure falls with more noise. `certified` is an upper bound on the measure, and decides;
`estimate` is cheaper, proves nothing, and only says where to look.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from fractions import Fraction
from functools import cache, lru_cache
from operator import attrgetter
from typing import NamedTuple

from dpcalc.accountants.composed_loss import UPPER
from dpcalc.accountants.gaussian import closed_form_epsilon
from dpcalc.accountants.inversion import largest_inversion
from dpcalc.accountants.pld import epsilon_bounds
from dpcalc.accountants.rdp import rdp
from dpcalc.errors import ConvergenceError, InputError, NoSolution, UnsupportedError
from dpcalc.guarantee import Guarantee
from dpcalc.losses.moments import Steps
from dpcalc.numerics.roots import bracket_root
from dpcalc.planner.composition import Composition, composed, is_noiseless
from dpcalc.planner.evaluate import guarantee
from dpcalc.planner.plan import Plan
from dpcalc.planner.risk import RISK_WORK, advantage, true_positive_rates
from dpcalc.records import dataclass
from dpcalc.work import own_allowance, spend

Value = float | int | Fraction
_REMEMBERED = 4  # compositions kept in a search: each may hold megabytes


class Estimate(NamedTuple):
    """An estimate of a goal's measure, without a certificate."""

    value: float
    direction: str = ""  # with the largest value; "" where it is not known
    change: float = math.nan  # of the value towards the plan nearby, to first order; nan where it is not known


@dataclass(frozen=True, kw_only=True)
class Goal(ABC):
    """A measure of plans and the largest value allowed of it, `limit`; by a `looser` bound where that is named."""

    limit: float
    looser: str = ""  # of epsilon a method; that of an attacker's success is by closed forms, whatever the name

    @property
    @abstractmethod
    def name(self) -> str:
        """Name of the measure, in words."""

    @abstractmethod
    def bound(self, composition: Composition) -> float:
        """Return a certified upper bound on the measure of a plan."""

    def certified(self, plan: Plan | Composition) -> float:
        """Return `bound`; WorkExceededError if the work that is allowed is used up: `bound` would still answer."""
        spend(1.0)
        return self.bound(composed(plan))

    def estimate(
        self,
        plan: Plan | Composition,
        *,
        direction: str = "",  # noqa: ARG002  of use where an estimate is cheaper than the bound
        nearby: Composition | None = None,  # noqa: ARG002  likewise
    ) -> Estimate:
        """Return an estimate of the measure, as cheaply as possible: here the certified bound in both directions."""
        return Estimate(self.certified(plan))


@dataclass(frozen=True, kw_only=True)
class EpsilonGoal(Goal):
    """Goal of an epsilon at the plan's delta, by the plan's accountant; the limit is finite and > 0."""

    name = "epsilon"

    def __post_init__(self) -> None:
        if not 0 < self.limit < math.inf:
            raise InputError(f"target epsilon: expected a finite number > 0, got {self.limit!r}")

    def bound(self, composition: Composition) -> float:
        return guarantee(composition, method=self.looser or None).epsilon

    def estimate(self, plan: Plan | Composition, *, direction: str = "", nearby: Composition | None = None) -> Estimate:
        if self.looser:
            return Estimate(self.certified(plan))
        return estimate_epsilon(plan, direction=direction, nearby=nearby)


@dataclass(frozen=True, kw_only=True)
class AttackGoal(Goal):
    """Goal of the best attacker: a true positive rate at a false positive rate, or the largest difference of both."""

    false_positive_rate: float | None = None  # in (0, limit); None for the advantage, the largest over all rates

    def __post_init__(self) -> None:
        rate, what, why = self.false_positive_rate, "target advantage", ", both excluded"
        if rate is not None:
            if not 0 < rate < 1:
                raise InputError(f"false positive rate: expected a number between 0 and 1, both excluded, got {rate!r}")
            what, why = "target rate", ", guessing detects as often as it raises false alarms"
        if not (rate or 0) < self.limit < 1:
            raise InputError(f"{what}: expected a number between {rate or 0!r} and 1{why}, got {self.limit!r}")

    @property
    def name(self) -> str:
        rate = self.false_positive_rate
        return "advantage" if rate is None else f"true positive rate at false positive rate {rate!r}"

    def bound(self, composition: Composition) -> float:
        with own_allowance(0.0) if self.looser else nullcontext():
            run = require_pld_method(composition)
            if self.false_positive_rate is None:
                return advantage(run)[0]
            rates = true_positive_rates(run, (self.false_positive_rate,))
        return max(float(detected[0]) for detected in rates)


def certified_measure(plan: Plan | Composition, goal: Goal) -> tuple[float, Guarantee]:
    """Return (upper bound on a goal's measure of a plan, the plan's guarantee without a lower end)."""
    # A looser bound that does not meet the goal gives way to the sharp one: no search ends without a value for want of
    # work.
    composition, is_epsilon = composed(plan), isinstance(goal, EpsilonGoal)
    with own_allowance(math.inf) if goal.looser else nullcontext():
        main = guarantee(composition, method=goal.looser if is_epsilon and goal.looser else None)
        reached = main.epsilon if is_epsilon else goal.certified(composition)
    if goal.looser and reached > goal.limit:
        with own_allowance(RISK_WORK):
            return certified_measure(composition, replace(goal, looser=""))
    return reached, main


def require_pld_method(plan: Plan | Composition) -> Composition:
    """Return the composition of a plan; UnsupportedError unless its method is auto or pld, which bound attackers."""
    composition = composed(plan)
    if composition.plan.method not in {"auto", "pld"}:
        raise UnsupportedError(
            f"attacker: expected method auto or pld, got {composition.plan.method}; leave --method out"
        )
    return composition


def estimate_epsilon(plan: Plan | Composition, *, direction: str = "", nearby: Composition | None = None) -> Estimate:
    """Return epsilon of a plan: estimated for one run by auto or pld with known losses, else the certified bound."""
    composition = composed(plan)
    run = composition.plan
    if is_noiseless(run) or run.method not in {"auto", "pld"} or run.tuning is not None:
        return Estimate(guarantee(composition).epsilon)
    steps = {name: counts for name, counts in composition.steps.items() if counts}
    if direction in composition.steps:
        steps = {name: counts for name, counts in steps.items() if name == direction}
    exact = {name: closed_form_epsilon(counts, delta=run.delta, is_upper=True) for name, counts in steps.items()}
    known = [Estimate(epsilon, name) for name, epsilon in exact.items() if epsilon is not None]
    if len(known) == len(exact):
        return max(known, key=attrgetter("value"), default=Estimate(0.0))

    def certified(counts: Steps) -> float:
        try:
            return epsilon_bounds(counts, delta=run.delta, sides=(UPPER,))[0]
        except ConvergenceError:
            return rdp(counts, delta=run.delta).epsilon

    try:
        best, name = largest_inversion(steps, delta=run.delta, otherwise=certified)
        change = math.nan if nearby is None else best.epsilon_change(nearby.steps[name])
    except UnsupportedError:  # steps of which Renyi divergences alone are known
        return Estimate(guarantee(composition).epsilon)
    return Estimate(best.epsilon, name, change)


def largest_whole(
    with_value: Callable[[int], Plan | Composition],
    ends: tuple[int, int],
    goal: Goal,
    name: str,
    *,
    growth: int = 16,
    start: int | None = None,
    ranked: Composition | None = None,
) -> tuple[int, int | None]:
    """Return (largest number that meets the goal, next one or None at the end); NoSolution if none does.

    Estimates take the bounds that are the cheapest in the `ranked` run, then those that are at the root.
    """
    # The measure must grow with the number.
    lowest, highest = ends
    at = lru_cache(maxsize=_REMEMBERED)(lambda value: composed(with_value(value)))  # both measures ask for the same
    certified = cache(lambda value: goal.certified(at(value)))
    is_estimated = isinstance(goal, EpsilonGoal) and not goal.looser  # the estimate of any other goal is its bound

    def refuse_lowest() -> None:
        reached = certified(lowest)
        if reached > goal.limit and goal.looser:
            reached, _ = certified_measure(at(lowest), goal)
        if reached > goal.limit:
            raise NoSolution(name, goal, lowest, reached)

    def estimated_root(around: Composition | None) -> int:
        """Return the number whose estimate is the limit: between two powers of `growth`, then at the root."""
        direction = ""

        @cache
        def estimated(value: int) -> float:
            nonlocal direction
            if not is_estimated:
                return certified(value)
            found = goal.estimate(at(value) if around is None else around.near(at(value).stated), direction=direction)
            direction = found.direction
            return found.value

        low, high = lowest, max(lowest, 1)
        while high < highest and estimated(high) <= goal.limit:
            low, high = high, min(highest, growth * high)
        if high == highest and estimated(highest) <= goal.limit:
            return highest
        if high - low <= 1:
            return low
        ends_of_root = math.log(max(low, 1)), math.log(high)
        root, _ = bracket_root(
            lambda x: goal.limit - estimated(round(math.exp(x))), *ends_of_root, tolerance=1e-3 / high
        )
        return max(lowest, min(highest, round(math.exp(root))))

    if not is_estimated or ranked is None:
        refuse_lowest()

    near, seen = start, list[list[int]]()
    while near is None or (start is None and ranked is not None and [*map(id, ranked.choice)] not in seen):
        seen += [] if ranked is None else [[*map(id, ranked.choice)]]
        near = estimated_root(ranked)
        ranked = ranked and at(near)

    # What is certified decides: steps of doubling length down to a number that meets the goal and up to one that fails.
    low, high, reach = near, highest + 1, 1
    while low > lowest and certified(low) > goal.limit:
        low, high, reach = max(lowest, low - reach), low, 2 * reach
    if low == lowest:
        refuse_lowest()
    reach = 1
    while high > highest and low < highest:
        tried = min(low + reach, highest)
        if certified(tried) > goal.limit:
            high = tried
        else:
            low, reach = tried, 2 * reach
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if certified(middle) > goal.limit else (middle, high)
    return low, (high if high <= highest else None)
