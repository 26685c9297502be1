"""Solvers: the noise, steps, rate, batch or group size that meets a goal, and the search that they share.

A goal measures plans; its measure falls with more noise. `certified` is an upper bound on the measure, and decides;
`estimate` is cheaper, proves nothing, and only says where to look.
"""

import math
from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Callable
from contextlib import nullcontext, suppress
from dataclasses import replace
from fractions import Fraction
from functools import cache, lru_cache, partial
from operator import attrgetter
from typing import NamedTuple

from dpcalc.accountants.closed_forms import closed_form_epsilon
from dpcalc.accountants.composed_loss import UPPER
from dpcalc.accountants.inversion import largest_inversion
from dpcalc.accountants.pld import auto, epsilon_bounds
from dpcalc.accountants.rdp import rdp
from dpcalc.errors import ConvergenceError, InputError, NoSolution, UnsupportedError, WorkExceededError, one_of
from dpcalc.guarantee import Guarantee, Result
from dpcalc.keys import Exact, keys_of
from dpcalc.losses.moments import Steps
from dpcalc.mechanisms.matrix_factorization import MatrixFactorization, short_text
from dpcalc.numerics import bracket_root, falling_root
from dpcalc.planner.composition import Composition, composed, is_noiseless, releasing_phases
from dpcalc.planner.evaluate import CLOSED_FORM, guarantee
from dpcalc.planner.plan import Phase, Plan
from dpcalc.planner.risk import RISK_WORK, advantage, true_positive_rates
from dpcalc.planner.vary import (
    is_covered,
    largest_group,
    refusal,
    replace_phase,
    select_phase,
    with_epochs,
    with_level,
    with_noise,
    with_scaled_noise,
)
from dpcalc.records import dataclass
from dpcalc.sampling.hierarchy import Level
from dpcalc.sampling.schemes import (
    AnyOrder,
    BallsInBins,
    RandomAllocation,
)
from dpcalc.work import SECOND, allowance, own_allowance, question_of_its_own, spend

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
    alone: bool = False,
) -> tuple[int, int | None]:
    """Return (largest number that meets the goal, next one or None at the end); NoSolution if none does.

    Estimates take the bounds that are the cheapest in the `ranked` run, then those that are at the root. What is
    certified is what would be answered for the number `alone`, if that may depend on what others have paid for.
    """
    # The measure must grow with the number.
    lowest, highest = ends
    at = lru_cache(maxsize=_REMEMBERED)(lambda value: composed(with_value(value)))  # both measures ask for the same

    @cache
    def certified(value: int) -> float:
        if not alone:
            return goal.certified(at(value))
        spend(1.0)
        with question_of_its_own():
            return goal.certified(with_value(value))

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


# Solvers: the noise, steps, rate, batch or group size that meets a goal.
# The search runs on the goal's estimate. The returned value was checked with the certified measure, and so was its
# neighbour that fails.
# Source: docs/theory.md, Theorem 14.1.


ROUGH_SEARCH = "the search was made by a looser bound: with the sharp one it needs more work than one answer may take"
_SEARCH_WORK, _ROUGH_SEARCH_WORK = 14.0 * SECOND, 2.0 * SECOND
_FINEST = 1e-5  # relative distance of a returned real number from the neighbour that fails, at first
_NEAREST = 3e-4  # relative distance from the limit from where one more step of a search ends it
_MIN_NOISE, _MAX_NOISE = 1e-6, 1e9  # range of the search for a noise multiplier
_NUDGE = 1e-5  # relative change of the noise over which a derivative is taken
_MAX_STEPS = 10**15  # whole numbers up to here are exact in float64
_MAX_BINS = 10**5  # of a search at a fixed number of epochs
_FEW_STEPS = 20  # of a pass that drops its last batch: from there on it leaves out less than one unit in 20


@dataclass(frozen=True, kw_only=True)
class Solution(Result):
    """A value that meets the target, and its neighbour that does not.

    Attributes:
        name: "noise_multiplier", "steps", "rate" or "group_size"; "noise_multiplier factor" where all phases were
            scaled.
        value: noise_multiplier float; steps and group_size int; rate Fraction (poisson), or int where batches have a
            size or an expected size.
        key: the config key that holds it: "noise_multiplier", "steps", "rate", "size", "expected" or "group_size".
        goal: what was asked.
        reached: what the goal measures at the value, an upper bound within the limit.
        fails_at: a neighbouring value whose certified bound is above the limit; None if every larger value meets it.
        guarantee: at the value, without a lower end.
        plan: the plan with the value put in.
        epochs: passes over the data that stayed while the rate changed; None where the steps did.
        phase: index, from 0, of the phase that holds the value; of no meaning for a factor or a group.
        level: index, from 0, of the level whose draw the value is; of no meaning but for a rate, size or batch.
    """

    name: str
    value: Value
    key: str
    goal: Goal
    reached: float
    fails_at: Value | None
    guarantee: Guarantee
    plan: Plan
    epochs: Fraction | None = None
    phase: int = 0
    level: int = 0

    def __str__(self) -> str:
        """Return the value and what it gives: "noise_multiplier = 1.223: epsilon <= 2 at delta = 1e-05, ..."."""
        return f"{self.name} = {self.value}: {self.guarantee}"

    def _rows(self) -> list[tuple[str, str]]:
        """Return the value, the target, and what the value gives."""
        return [
            (self.name, str(self.value)),
            (f"target {self.goal.name}", f"{self.goal.limit!r}"),
            *self.guarantee._rows(),
        ]

    def to_dict(self) -> dict[str, object]:
        """Return the solution, without the plan, as a dict for JSON: fractions as floats, the guarantee as a dict."""
        value, fails_at = (
            number if isinstance(number, int | None) else float(number) for number in (self.value, self.fails_at)
        )
        return {
            "name": self.name,
            "key": self.key,
            "value": value,
            "fails_at": fails_at,
            "goal": self.goal.name,
            "target": self.goal.limit,
            "reached": self.reached,
            "guarantee": self.guarantee.to_dict(),
        }


def solve(
    plan: Plan, quantity: str, *, goal: Goal, phase: str | None = None, epochs: Fraction | None = None
) -> Solution:
    """Return the least noise or largest steps, rate, batch or group for a goal, by looser bounds if work runs out."""
    # Only a search for epsilon by auto has looser bounds, those by rdp; they are noted.
    # The smallest noise (within 1e-4 relative), the most steps (exactly), the largest rate, size or group (exactly).
    # With `epochs`, and for discrete Gaussian noise of less than half a unit, a value that meets the goal beside one
    # that fails: others beyond may meet it too (docs/theory.md, Remark 14.2).
    if quantity not in SOLVABLES:
        raise one_of("quantity", SOLVABLES, quantity, noise="sigma", noise_multiplier="sigma")
    search = SOLVABLES[quantity]
    if epochs is not None:
        if quantity not in {"rate", "batch"}:
            raise InputError(
                f"epochs: expected none beside {quantity}, got {float(epochs):g}; they stay for a rate or batch"
            )
        search = partial(search, epochs=epochs)
    # The first search whose work is allowed: one that went on by looser bounds would not end where it began. The last
    # one always ends, but for an allowance around the question.
    searches = [(goal, _SEARCH_WORK)]
    if isinstance(goal, EpsilonGoal) and plan.method == "auto":
        searches.append((replace(goal, looser="rdp"), math.inf if plan.tuning else _ROUGH_SEARCH_WORK))
    if not isinstance(goal, EpsilonGoal) or plan.method in {"auto", "rdp"}:
        searches.append((replace(goal, looser=CLOSED_FORM), math.inf))
    base = composed(plan)
    for asked, units in searches:
        with suppress(WorkExceededError), allowance(units):
            solution = search(base, asked, phase)
            main = solution.guarantee
            if asked.looser:  # said once, and last
                main = replace(main, notes=(*(note for note in main.notes if note != ROUGH_SEARCH), ROUGH_SEARCH))
            return replace(solution, goal=goal, guarantee=main, epochs=epochs)
    raise ConvergenceError(f"{quantity}: expected a search that takes less work; fewer phases or levels take less")


def _solution(
    solved: Plan | Composition,
    values: tuple[Value, Value | None],
    names: tuple[str, str],
    goal: Goal,
    measure: tuple[float, Guarantee] | None = None,
    *,
    phase: int = 0,
    level: int = 0,
) -> Solution:
    """Return the solution with (value, what fails) and (name, config key); its measure is computed if not given."""
    reached, main = measure or certified_measure(solved, goal)
    (name, key), (value, fails_at) = names, values
    return Solution(
        name=name,
        value=value,
        key=key,
        goal=goal,
        reached=reached,
        fails_at=fails_at,
        guarantee=main,
        plan=composed(solved).stated,
        phase=phase,
        level=level,
    )


def _disagreement_error(name: str, root: float) -> ConvergenceError:
    return ConvergenceError(
        f"{name}: expected the estimate and the certified bound to agree near {root:.6g}, they do not; try --method rdp"
    )


# Noise


def _solve_sigma(base: Composition, goal: Goal, phase: str | None) -> Solution:
    """Return the least noise multiplier, or factor on several, that meets a goal and that a config may state."""
    plan = base.stated
    change: Callable[[float], Plan]
    if phase is None and len(plan.phases) > 1:
        if all(each.noise_multiplier is None for each in plan.phases):
            plan.phases[0].with_noise(1.0)  # says what is missing
        name, place, start, change = "noise_multiplier factor", 0, 1.0, partial(with_scaled_noise, plan)
        noises = [(each.noise_multiplier, _noise_range(each)) for each in plan.phases if each.noise_multiplier]
        least = max((low / noise for noise, (low, _) in noises), default=_MIN_NOISE) * (1 + _FINEST)
        largest = min((high / noise for noise, (_, high) in noises), default=_MAX_NOISE) * (1 - _FINEST)
    else:
        chosen = select_phase(plan, phase, "noise_multiplier")
        name, place = "noise_multiplier", plan.phases.index(chosen)
        start, change = chosen.noise_multiplier or 1.0, partial(with_noise, plan, chosen)
        least, largest = _noise_range(chosen)

    # A pass in secret order is rounded in steps far above a nudge.
    is_secret = any(each.hierarchy.level(1).scheme.is_secret for each in plan.phases)

    def with_value(value: float) -> Composition:
        return base.changed(change(value))

    def root_from(start: float, direction: str) -> tuple[float, str]:
        """Return (noise whose estimate is the limit, or the least, direction that decided); look at one if named."""
        looked_at, ranked, seen = direction, with_value(min(max(start, least), largest)), list[list[int]]()

        def excess(log_noise: float) -> tuple[float, float]:  # nearly a straight line
            nonlocal looked_at
            noise = min(max(math.exp(log_noise), least), largest)
            nudged = min(noise * (1 + _NUDGE), largest)  # at the largest one there is no change to be told
            nearby = None if is_secret else ranked.near(change(nudged))
            estimate = goal.estimate(ranked.near(change(noise)), direction=looked_at, nearby=nearby)
            looked_at = estimate.direction
            value = max(estimate.value, 1e-300)
            return math.log(value / goal.limit), estimate.change / (value * _NUDGE)

        # The bounds that are the cheapest at the start are taken, until they are at the root.
        ends = math.log(least), math.log(largest)
        root = math.log(min(max(start, least), largest))
        while (chosen := [*map(id, ranked.choice)]) not in seen:
            seen.append(chosen)
            root = falling_root(excess, root, ends, value_tolerance=_NEAREST)
            if root in ends:
                break
            ranked = with_value(math.exp(root))
        if root == ends[1] and (reached := certified_measure(with_value(largest), goal)[0]) > goal.limit:
            raise NoSolution(name, goal, largest, reached)
        return {ends[0]: least, ends[1]: largest}.get(root, math.exp(root)), looked_at

    names, solved = (name, "noise_multiplier"), with_value(least)
    root, direction = root_from(start, "") if releasing_phases(plan) else (least, "")
    if root == least and (not releasing_phases(plan) or goal.certified(solved) <= goal.limit):
        return _solution(solved, (least, None), names, goal, phase=place)

    # Upwards to noise that is certified: the distance is doubled, or another direction turns out to cost more.
    searched, step = {direction}, _FINEST
    while True:
        value = min(root * (1 + 2 * step), largest)
        solved = with_value(value)
        reached, main = certified_measure(solved, goal)
        if reached <= goal.limit:
            break
        if value == largest:
            raise NoSolution(name, goal, largest, reached)
        direction = main.direction
        if direction in searched:
            step *= 2
        else:
            root, direction = root_from(root, direction)
            searched.add(direction)
        if step > 0.1:
            raise _disagreement_error(name, root)

    # Downwards to noise that fails. The direction that decided often shows it, at less work than all.
    fails_at: float | None = root if root < value or not goal.looser else value * (1 - step)
    is_sharp = isinstance(goal, EpsilonGoal) and not goal.looser and base.plan.method in {"auto", "pld"}
    while fails_at is not None:
        tried = with_value(fails_at)
        counts = solved.near(change(fails_at)).steps.get(main.direction) if is_sharp and main.direction else None
        if counts and auto(counts, delta=plan.delta).epsilon > goal.limit:
            break
        if goal.certified(tried) > goal.limit:
            break
        fails_at = None if fails_at == least else max(fails_at * (1 - step), least)
    return _solution(solved, (value, fails_at), names, goal, (reached, main), phase=place)


def _noise_range(phase: Phase) -> tuple[float, float]:
    """Return the least noise multiplier above 0, and the largest one, that a config may state for a phase."""
    declared = keys_of(type(phase.mechanism)).get("noise_multiplier")
    if declared is None or not isinstance(declared.kind, Exact):
        return _MIN_NOISE, _MAX_NOISE
    return max(_MIN_NOISE, float(declared.kind.min_value)), min(_MAX_NOISE, float(declared.kind.max_value))


# Steps and groups


def _solve_steps(base: Composition, goal: Goal, phase: str | None) -> Solution:
    """Return the most steps of one phase that meet a goal; UnsupportedError if more steps may cost less."""
    plan = base.stated
    chosen = select_phase(plan, phase, "steps")
    mechanism, allocation = chosen.mechanism, chosen.hierarchy.allocation
    if isinstance(allocation, RandomAllocation):
        what = f"steps: expected a scheme under which more of them cost more in {chosen.name}, got random-allocation"
        raise UnsupportedError(f"{what}; solve for sigma or rate (the most times)")
    fewest = 1
    if isinstance(mechanism, MatrixFactorization):
        is_limited = isinstance(chosen.hierarchy.level(1).scheme, AnyOrder)
        if not mechanism.strategy.is_rising and (is_limited or mechanism.strategy.max_steps < _MAX_STEPS):
            raise UnsupportedError(
                f"steps: expected a strategy whose cost is proved to rise with them in {chosen.name}, got "
                f"{short_text(mechanism.strategy)}; solve for noise, or compare runs by `dpcalc epsilon`"
            )
        fewest = ((mechanism.limits.max_times or 1) - 1) * mechanism.limits.separation + 1
    if isinstance(allocation, BallsInBins):
        fewest = allocation.bins

    def with_steps(steps: int) -> Plan:
        return replace_phase(plan, chosen, replace(chosen, steps=steps))

    longest = _MAX_STEPS
    if chosen.is_correlated and not isinstance(chosen.hierarchy.level(1).scheme, AnyOrder):  # a bound ends where C does
        lengths = range(fewest + 1, _MAX_STEPS + 1)
        longest = fewest + bisect_left(lengths, 1, key=lambda steps: not is_covered(with_steps(steps)))
    values = largest_whole(
        lambda steps: base.changed(with_steps(steps)),
        (fewest, longest),
        goal,
        "steps",
        ranked=None if plan.parts else base,
    )
    solved = base.changed(with_steps(values[0]))
    return _solution(solved, values, ("steps", "steps"), goal, phase=plan.phases.index(chosen))


def _solve_group(base: Composition, goal: Goal, phase: str | None) -> Solution:
    """Return the largest group that meets a goal; InputError for a named phase, or if an assumed count limits it."""
    if phase is not None:
        raise InputError("--phase: expected none, a group is the same in every phase; leave it out")
    plan, name = base.stated, "group_size"
    ends = 1, largest_group(plan)
    # The chain of a larger group begins as that of a smaller one.
    size, fails_at = largest_whole(lambda size: replace(plan, group_size=size), ends, goal, name, growth=2, alone=True)
    if fails_at is None:
        _refuse_assumed(plan.phases[0].hierarchy.level(plan.unit), "group")
    solved = replace(plan, group_size=size)
    with question_of_its_own():
        measure = certified_measure(solved, goal)
    return _solution(solved, (size, fails_at), (name, name), goal, measure)


def _refuse_assumed(level: Level, what: str) -> None:
    """Raise InputError if the answer is limited by a number of units that nobody stated."""
    if level.is_assumed:
        raise InputError(f"dataset_size: expected it beside {what}, which it limits, got a rate alone; state it too")


# Draws: the rate, size, times or bins of the outermost level that is sampled


_WithAmount = Callable[[Fraction | int], Plan]


def _solve_draw(
    base: Composition, goal: Goal, phase: str | None, epochs: Fraction | None = None, *, is_batch: bool
) -> Solution:
    """Return the largest rate, size or times, or the fewest bins, or the largest batch (`is_batch`) within a goal."""
    plan = base.stated
    chosen = select_phase(plan, phase, "rate")
    place = next((at for at, each in enumerate(chosen.hierarchy.levels) if not each.scheme.is_whole), None)
    if place is None:
        what = "only `all`" if chosen.hierarchy.episodes is None else "constructed tasks"
        raise InputError(f"rate: expected a level that is sampled, got {what}; there is no rate to choose")
    level = chosen.hierarchy.levels[place]
    scheme, key = level.scheme, level.scheme.amount_key
    is_expected = is_batch and key == "rate"  # what is looked for is the expected size of a batch
    groups: int = getattr(scheme, "groups", 1)

    def with_amount(amount: Fraction | int) -> Plan:
        drawn = scheme.with_amount(Fraction(amount * groups, level.count) if is_expected else amount)
        changed = with_level(plan, chosen, place, replace(level, scheme=drawn))
        return changed if epochs is None else with_epochs(changed, plan.phases.index(chosen), epochs)

    values: tuple[Fraction | int, Fraction | int | None]
    if scheme.is_allocated and is_batch:
        raise InputError(f"batch: expected batches of a stated size, got {scheme.name}; `solve-rate` finds its `bins`")
    if is_expected:
        if not level.is_equal:
            raise InputError(
                f"batch: expected equally many {level.name} everywhere, got {level.min_count} to {level.count}"
            )
        _refuse_assumed(level, "batch")
        limit = level.max_drawn if scheme.is_cut else level.count
        values = largest_whole(with_amount, (1, limit // groups), goal, "batch size")
    elif key == "rate":
        values = _largest_rate(level, goal, with_amount)
    elif key == "times":
        values = largest_whole(with_amount, (1, scheme.steps_of_a_pass(level.count)), goal, key)
    elif isinstance(scheme, BallsInBins):
        values = _fewest_bins(scheme, goal, chosen.steps if epochs is None else _MAX_BINS, with_amount)
    else:
        values = _largest_size(level, goal, with_amount)
    names, number = ("rate", "expected" if is_expected else key), plan.phases.index(chosen)
    return _solution(with_amount(values[0]), values, names, goal, phase=number, level=place)


def _largest_rate(level: Level, goal: Goal, with_rate: _WithAmount) -> tuple[Fraction, Fraction | None]:
    """Return (about the largest rate in a goal, one that fails); NoSolution below 1e-15."""
    # Up to 1 or, of cut batches, their largest size over the count.
    largest = Fraction(level.max_drawn, level.count) if level.scheme.is_cut else Fraction(1)

    def estimated(rate: float) -> float:
        return goal.estimate(with_rate(Fraction(rate))).value

    if goal.certified(with_rate(largest)) <= goal.limit:
        return largest, None
    high = low = float(largest)
    while estimated(low) > goal.limit:
        high, low = low, low / 8
        if low < 1e-15:
            reached, _ = certified_measure(with_rate(Fraction(low)), goal)
            if reached > goal.limit:
                raise NoSolution("rate", goal, low, reached)
            return Fraction(low), Fraction(high)
    _, log_root = bracket_root(
        lambda x: goal.limit - estimated(math.exp(x)), math.log(low), math.log(high), tolerance=1e-9
    )
    root = math.exp(log_root)
    # The estimate may be a little low: growing steps down, until the certified bound agrees.
    step = _FINEST
    value = Fraction(root * (1 - 4 * step))
    while goal.certified(with_rate(value)) > goal.limit:
        step *= 2
        value = Fraction(root * (1 - 4 * step))
        if step > 0.1:
            raise _disagreement_error("rate", root)
    fails_at = min(largest, Fraction(root))
    while goal.certified(with_rate(fails_at)) <= goal.limit:  # it ends, for the largest rate fails
        fails_at = min(largest, fails_at * Fraction(1 + step))
    return value, fails_at


def _fewest_bins(drawn: BallsInBins, goal: Goal, max_bins: int, with_bins: _WithAmount) -> tuple[int, int | None]:
    """Return (the fewest bins that are covered and meet a goal, one less); NoSolution if `max_bins` cost more."""
    start = max_bins
    fewest = 1 + bisect_left(range(1, max_bins), 1, key=lambda bins: is_covered(with_bins(bins)))
    if fewest < max_bins:
        estimated = cache(lambda bins: goal.estimate(with_bins(bins)).value)

        def excess(log_bins: float) -> tuple[float, float]:  # nearly a straight line
            return math.log(max(estimated(round(math.exp(log_bins))), 1e-300) / goal.limit), math.nan

        log_first = math.log(min(max(drawn.bins, fewest), max_bins))
        near = falling_root(excess, log_first, (math.log(fewest), math.log(max_bins)), value_tolerance=_NEAREST)
        start = min(max_bins, max(fewest, math.ceil(math.exp(near))))
    # More bins cost less: the search is for the most bins that can be taken away.
    try:
        fewer, fails_at = largest_whole(
            lambda fewer: with_bins(max_bins - fewer), (0, max_bins - fewest), goal, "bins", start=max_bins - start
        )
    except NoSolution as failure:
        raise NoSolution("bins", goal, max_bins, failure.best_reached) from failure
    return max_bins - fewer, None if fails_at is None else max_bins - fails_at


def _largest_size(level: Level, goal: Goal, with_size: _WithAmount) -> tuple[int, int | None]:
    """Return (the largest size that meets a goal, one that fails), not refused; NoSolution or InputError for none."""

    def accepted(sizes: range) -> int | None:
        return next((size for size in sizes if refusal(with_size(size)) is None), None)

    # Up to one less than the units of the smallest parent, of `at_most` those of the largest.
    largest = max(1, (level.count if level.scheme.at_most else level.min_count) - 1)
    ranges = [(1, largest)]  # in each of which larger sizes cost more, largest first
    if level.scheme.drop_last:
        # The sizes that divide the data leave nobody out of a pass, and the next larger ones the most: among those with
        # equally many steps in a pass larger ones cost more. Sizes of many steps are one range.
        firsts = [level.min_count // (steps + 1) + 1 for steps in range(1, _FEW_STEPS)]
        lasts = [largest, *(min(largest, first - 1) for first in firsts)]
        ranges = [(first, last) for first, last in zip([*firsts, 1], lasts, strict=True) if first <= last]
    failed: list[NoSolution] = []
    for first, last in ranges:
        # A removed group spans a multiple of every size up to its own, so that the search may begin above it.
        together = with_size(last).group_size
        is_spanned = refusal(with_size(min(together, last))) is not None
        smallest = accepted(range(max(first, together + 1) if is_spanned else first, last + 1))
        if smallest is None:
            continue

        def with_accepted(size: int, smallest: int = smallest) -> Plan:  # in the place of a refused size
            return with_size(accepted(range(size, smallest, -1)) or smallest)

        try:
            value, fails_at = largest_whole(with_accepted, (smallest, last), goal, "size")
        except NoSolution as failure:
            failed.append(failure)
            continue
        value = accepted(range(value, smallest, -1)) or smallest
        return value, fails_at or accepted(range(last + 1, ranges[0][1] + 1))
    if not failed:
        goal.certified(with_size(1))  # raises what refuses every size
    raise min(failed, key=lambda failure: failure.best_reached)


SOLVABLES: dict[str, Callable[..., Solution]] = {
    "sigma": _solve_sigma,
    "steps": _solve_steps,
    "rate": partial(_solve_draw, is_batch=False),
    "batch": partial(_solve_draw, is_batch=True),
    "group": _solve_group,
}
