"""Solvers: the noise, steps, rate, batch or group size that meets a goal.

The search runs on the goal's estimate. The returned value was checked with the certified measure, and so was its
neighbour that fails.

Source: docs/theory.md, Theorem 14.1.
"""

import math
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction
from functools import partial
from typing import NamedTuple

from dpcalc.accountants.pld import auto
from dpcalc.errors import ConvergenceError, InputError, UnsupportedError, WorkExceededError
from dpcalc.guarantee import Guarantee, Result
from dpcalc.keys import Exact, keys_of
from dpcalc.mechanisms.matrix_factorization import MatrixFactorization
from dpcalc.numerics.roots import falling_root
from dpcalc.planner.composition import Composition, composed, releasing_phases
from dpcalc.planner.draws import SolvedDraw, fewest_bins, largest_rate, largest_size, most_times
from dpcalc.planner.evaluate import CLOSED_FORM, guarantee
from dpcalc.planner.plan import Phase, Plan
from dpcalc.planner.search import FINEST, Ends, EpsilonGoal, Goal, NoSolution, Value, disagreement_error, largest_whole
from dpcalc.planner.vary import (
    largest_group,
    longest_run,
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
    All,
    AnyOrder,
    BallsInBins,
    CappedPoisson,
    CyclicPoisson,
    Poisson,
    RandomAllocation,
    Scheme,
)
from dpcalc.work import SECOND, allowance

ROUGH_SEARCH = "the search was made by a looser bound: with the sharp one it needs more work than one answer may take"
_SEARCH_WORK, _ROUGH_SEARCH_WORK, _LAST_SEARCH_WORK = 5.0 * SECOND, 2.0 * SECOND, 3.0 * SECOND
NEAREST = 3e-4  # relative distance from the limit from where one more step of a search ends it
_MIN_NOISE, _MAX_NOISE = 1e-6, 1e9  # range of the search for a noise multiplier
_NUDGE = 1e-5  # relative change of the noise over which a derivative is taken
_MAX_STEPS = 10**15  # whole numbers up to here are exact in float64
_MAX_BINS = 10**5  # of a search at a fixed number of epochs


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
    """Return the least noise or largest steps, rate, batch or group for a goal, by looser bounds if work runs out.

    Only a search for epsilon by auto has looser bounds, those by rdp; they are noted.

    The smallest noise (within 1e-4 relative), the most steps (exactly), the largest rate, size or group (exactly).
    With `epochs`, and for discrete Gaussian noise of less than half a unit, a value that meets the goal beside one
    that fails: others beyond may meet it too (docs/theory.md, Remark 14.2).
    """
    search, base = _search_of(quantity, epochs), composed(plan)
    for method, units in _methods(plan, goal):
        # The first search whose work is allowed: one that went on by looser bounds would not end where it began.
        with suppress(WorkExceededError), allowance(units):
            solution = search(base.changed(replace(plan, method=method)), goal, phase)
            main = solution.guarantee if method == plan.method else _noted_as_rough(solution.guarantee)
            return replace(solution, plan=replace(solution.plan, method=plan.method), guarantee=main, epochs=epochs)
    raise ConvergenceError(f"{quantity}: expected a search that takes less work; fewer phases or levels take less")


def _noted_as_rough(main: Guarantee) -> Guarantee:
    """Return the guarantee with the note, once and last, that the search went by a looser bound."""
    return replace(main, notes=(*(note for note in main.notes if note != ROUGH_SEARCH), ROUGH_SEARCH))


def _search_of(quantity: str, epochs: Fraction | None) -> "_Search":
    """Return the search for a quantity; InputError if it is unknown, or cannot be sought at given `epochs`."""
    if quantity not in SOLVABLES:
        raise InputError(f"quantity: expected one of {', '.join(SOLVABLES)}, got {quantity!r}")
    if epochs is None:
        return SOLVABLES[quantity]
    if quantity not in _DRAWN:
        raise InputError(
            f"epochs: expected none beside {quantity}, got {float(epochs):g}; they stay for a rate or batch"
        )
    return partial(_DRAWN[quantity], epochs=epochs)


def _methods(plan: Plan, goal: Goal) -> list[tuple[str, float]]:
    """Return the methods to search by, in turn, each with its units of work."""
    methods = [(plan.method, _SEARCH_WORK)]
    if plan.method == "auto" and isinstance(goal, EpsilonGoal):
        methods += [("rdp", _ROUGH_SEARCH_WORK), (CLOSED_FORM, _LAST_SEARCH_WORK)]
    return methods


class Measure(NamedTuple):
    """A goal's measure of a plan, an upper bound, and the plan's guarantee without a lower end."""

    reached: float
    guarantee: Guarantee


class _NoiseSetting(NamedTuple):
    """The noise that is solved for: its name, a function from a value to the plan with it, where the search begins.

    `ends` are the least and the largest value with which all noise multipliers are ones that a config may state, and
    `phase` is the index, from 0, of the phase; 0 for a factor on all.
    """

    name: str
    with_value: Callable[[float], Plan]
    start: float
    ends: tuple[float, float]
    phase: int


def _noise_setting(plan: Plan, phase: str | None) -> _NoiseSetting:
    """Return the noise to solve for: that of one phase, or a factor on all; UnsupportedError if there is none."""
    if phase is None and len(plan.phases) > 1:
        if all(each.noise_multiplier is None for each in plan.phases):
            plan.phases[0].with_noise(1.0)  # says what is missing
        noises = [(each.noise_multiplier, _noise_range(each)) for each in plan.phases if each.noise_multiplier]
        low = max((least / noise for noise, (least, _) in noises), default=_MIN_NOISE) * (1 + FINEST)
        high = min((largest / noise for noise, (_, largest) in noises), default=_MAX_NOISE) * (1 - FINEST)
        return _NoiseSetting("noise_multiplier factor", partial(with_scaled_noise, plan), 1.0, (low, high), 0)
    chosen = select_phase(plan, phase, "noise_multiplier")
    start = chosen.noise_multiplier or 1.0
    with_value, phase_at = partial(with_noise, plan, chosen), plan.phases.index(chosen)
    return _NoiseSetting("noise_multiplier", with_value, start, _noise_range(chosen), phase_at)


def _noise_range(phase: Phase) -> tuple[float, float]:
    """Return the least noise multiplier above 0, and the largest one, that a config may state for a phase."""
    declared = keys_of(type(phase.mechanism)).get("noise_multiplier")
    if declared is None or not isinstance(declared.kind, Exact):
        return _MIN_NOISE, _MAX_NOISE
    return max(_MIN_NOISE, float(declared.kind.min_value)), min(_MAX_NOISE, float(declared.kind.max_value))


def _solve_sigma(base: Composition, goal: Goal, phase: str | None) -> Solution:
    """Return the least noise multiplier, or factor on several, that meets a goal and that a config may state."""
    setting = _noise_setting(base.stated, phase)
    names = (setting.name, "noise_multiplier")

    def with_value(value: float) -> Composition:
        return base.changed(setting.with_value(value))

    least = setting.ends[0]
    solved, ends, measure = with_value(least), Ends(least, None), None
    if releasing_phases(base.stated):
        root, direction = _noise_root(with_value, setting, goal)
        if root != least or not goal.certified(solved) <= goal.limit:
            value, fails_at, measure = _noise_ends(with_value, root, direction, goal, setting)
            solved, ends = with_value(value), Ends(value, fails_at)
    return replace(_solution(solved, ends, names, goal, measure), phase=setting.phase)


def _noise_ends(
    with_value: Callable[[float], Composition], root: float, direction: str, goal: Goal, setting: _NoiseSetting
) -> tuple[float, float | None, Measure]:
    """Return (noise that meets a goal, a little less that fails, measure of the first), close above the root."""
    root, step, measure = _noise_above(with_value, root, direction, goal, setting)
    value, fails_at = min(root * (1 + 2 * step), setting.ends[1]), root
    while not _exceeds(with_value(fails_at), goal, measure.guarantee.direction):
        if fails_at == setting.ends[0]:
            return value, None, measure
        fails_at = max(fails_at * (1 - step), setting.ends[0])
    return value, fails_at, measure


def _noise_above(
    with_value: Callable[[float], Composition], root: float, direction: str, goal: Goal, setting: _NoiseSetting
) -> tuple[float, float, Measure]:
    """Return (root, step, measure): step is doubled, or root moved to a costlier direction's, until the goal is met.

    The noise that meets it is root (1 + 2 step), or the largest there is; a step above .1 raises ConvergenceError.
    """
    searched, step, largest = {direction}, FINEST, setting.ends[1]
    while (measure := certified_measure(with_value(min(root * (1 + 2 * step), largest)), goal)).reached > goal.limit:
        if root * (1 + 2 * step) >= largest:
            raise NoSolution(setting.name, goal, largest, measure.reached)
        direction = measure.guarantee.direction
        if direction in searched:
            step *= 2
        else:
            root, direction = _noise_root(with_value, setting._replace(start=root), goal, direction)
            searched.add(direction)
        if step > 0.1:
            raise disagreement_error(setting.name, root)
    return root, step, measure


def _noise_root(
    with_value: Callable[[float], Composition], setting: _NoiseSetting, goal: Goal, direction: str = ""
) -> tuple[float, str]:
    """Return (noise whose estimate is the limit, or the least, direction that decided); NoSolution above the largest.

    A `direction` is the only one to look at.
    """
    looked_at = direction

    def excess(log_noise: float) -> tuple[float, float]:  # nearly a straight line
        """Return (log(estimate / limit) at noise e^log_noise, its derivative); remember the deciding direction."""
        nonlocal looked_at
        noise = min(max(math.exp(log_noise), setting.ends[0]), setting.ends[1])
        nudged = min(noise * (1 + _NUDGE), setting.ends[1])  # at the largest one there is no change to be told
        estimate = goal.estimate(with_value(noise), direction=looked_at, nearby=with_value(nudged))
        looked_at = estimate.direction
        value = max(estimate.value, 1e-300)
        return math.log(value / goal.limit), estimate.change / (value * _NUDGE)

    least, largest = setting.ends
    ends = math.log(least), math.log(largest)
    start = min(max(math.log(setting.start), ends[0]), ends[1])
    estimate = falling_root(excess, start, ends, value_tolerance=NEAREST)
    if estimate == ends[1] and (reached := goal.certified(with_value(largest))) > goal.limit:
        raise NoSolution(setting.name, goal, largest, reached)
    return {ends[0]: least, ends[1]: largest}.get(estimate, math.exp(estimate)), looked_at


def _solve_steps(base: Composition, goal: Goal, phase: str | None) -> Solution:
    """Return the most steps of one phase that meet a goal; UnsupportedError if more steps may cost less."""
    plan = base.stated
    chosen = select_phase(plan, phase, "steps")
    ends = (fewest := _shortest_run(chosen)), longest_run(plan, chosen, (fewest, _MAX_STEPS))

    def with_value(value: int) -> Composition:
        return base.changed(replace_phase(plan, chosen, replace(chosen, steps=value)))

    value, fails_at = largest_whole(with_value, ends, goal, "steps")
    return _solution(with_value(value), Ends(value, fails_at), ("steps", "steps"), goal)


def _shortest_run(phase: Phase) -> int:
    """Return the fewest steps to try, as stated limits demand them; UnsupportedError if more steps may cost less."""
    _refuse_falling_cost(phase)
    if isinstance(phase.hierarchy.allocation, BallsInBins):
        return phase.hierarchy.allocation.bins
    if not isinstance(phase.mechanism, MatrixFactorization):
        return 1
    limits = phase.mechanism.limits
    return ((limits.max_times or 1) - 1) * limits.separation + 1


def _refuse_falling_cost(phase: Phase) -> None:
    """Raise UnsupportedError if more steps may cost less: random allocation, or a strategy not proved to rise."""
    if isinstance(phase.hierarchy.allocation, RandomAllocation):
        what = f"steps: expected a scheme under which more of them cost more in {phase.name}, got random-allocation"
        raise UnsupportedError(f"{what}; solve for sigma or rate (the most times)")
    if not isinstance(phase.mechanism, MatrixFactorization):
        return
    limited = isinstance(phase.hierarchy.level(1).scheme, AnyOrder)
    if not phase.mechanism.strategy.is_rising and (limited or phase.mechanism.strategy.max_steps < _MAX_STEPS):
        raise UnsupportedError(
            f"steps: expected a strategy whose cost is proved to rise with them in {phase.name}, got "
            f"{phase.mechanism.strategy.short_text}; solve for noise, or compare runs by `dpcalc epsilon`"
        )


def _solve_rate(base: Composition, goal: Goal, phase: str | None, epochs: Fraction | None = None) -> Solution:
    """Return the largest rate, size or times, or the fewest bins, of the outermost sampled level within a goal."""
    plan = base.stated
    chosen, place = _sampled_level(plan, phase)
    level = chosen.hierarchy.levels[place]
    scheme, with_scheme = level.scheme, _scheme_setter(plan, chosen, place, epochs)
    if isinstance(scheme, Poisson | CappedPoisson | CyclicPoisson):
        rate = _drawn_solution(largest_rate(level, goal, with_scheme), goal)
        return replace(rate, phase=plan.phases.index(chosen), level=place)
    if isinstance(scheme, RandomAllocation):
        return _drawn_solution(most_times(scheme, goal, with_scheme), goal)
    if isinstance(scheme, BallsInBins):
        longest = chosen.steps if epochs is None else _MAX_BINS
        return _drawn_solution(fewest_bins(scheme, goal, longest, with_scheme), goal)
    return _drawn_solution(largest_size(level, goal, with_scheme), goal)


def _drawn_solution(solved: SolvedDraw, goal: Goal) -> Solution:
    """Return the Solution, named "rate", of a draw that was solved for, with its guarantee."""
    return _solution(solved.plan, Ends(solved.value, solved.fails_at), ("rate", solved.key), goal)


def _solve_batch(base: Composition, goal: Goal, phase: str | None, epochs: Fraction | None = None) -> Solution:
    """Return the largest batch, fixed or expected, that meets a goal; InputError for draws that state no batch size."""
    plan = base.stated
    chosen, place = _sampled_level(plan, phase)
    level = chosen.hierarchy.levels[place]
    with_scheme = _scheme_setter(plan, chosen, place, epochs)
    match level.scheme:
        case BallsInBins(name=name) | RandomAllocation(name=name):
            raise InputError(f"batch: expected batches of a stated size, got {name}; `solve-rate` finds its `bins`")
        case Poisson() | CappedPoisson() | CyclicPoisson() as drawn:
            return _largest_expected(level, drawn, goal, with_scheme)
        case _:
            return _drawn_solution(largest_size(level, goal, with_scheme), goal)


def _largest_expected(
    level: Level, drawn: Poisson | CappedPoisson | CyclicPoisson, goal: Goal, with_scheme: Callable[[Scheme], Plan]
) -> Solution:
    """Return the largest expected batch that meets a goal; InputError unless a stated number of units is everywhere."""
    if not level.is_equal:
        raise InputError(
            f"batch: expected equally many {level.name} everywhere, got {level.min_count} to {level.count}"
        )
    _refuse_assumed(level, "batch")
    groups = drawn.groups if isinstance(drawn, CyclicPoisson) else 1
    limit = level.max_drawn if isinstance(drawn, CappedPoisson) else level.count

    def put_expected(value: int) -> Plan:
        return with_scheme(replace(drawn, probability=Fraction(value * groups, level.count)))

    value, fails_at = largest_whole(put_expected, (1, limit // groups), goal, "batch size")
    return _solution(put_expected(value), Ends(value, fails_at), ("rate", "expected"), goal)


def _sampled_level(plan: Plan, phase: str | None) -> tuple[Phase, int]:
    """Return (phase to change, index of its outermost level that is sampled); InputError if there is none."""
    chosen = select_phase(plan, phase, "rate")
    for place, level in enumerate(chosen.hierarchy.levels):
        if not isinstance(level.scheme, All):
            return chosen, place
    what = "only `all`" if chosen.hierarchy.episodes is None else "constructed tasks"
    raise InputError(f"rate: expected a level that is sampled, got {what}; there is no rate to choose")


def _scheme_setter(plan: Plan, chosen: Phase, place: int, epochs: Fraction | None) -> Callable[[Scheme], Plan]:
    """Return a function from a scheme to the plan with it at one level; its steps stay, or make `epochs` passes."""
    level = chosen.hierarchy.levels[place]

    def with_scheme(scheme: Scheme) -> Plan:
        changed = with_level(plan, chosen, place, replace(level, scheme=scheme))
        return changed if epochs is None else with_epochs(changed, plan.phases.index(chosen), epochs)

    return with_scheme


def _solve_group(base: Composition, goal: Goal, phase: str | None) -> Solution:
    """Return the largest group that meets a goal; InputError for a named phase, or if an assumed count limits it."""
    if phase is not None:
        raise InputError("--phase: expected none, a group is the same in every phase; leave it out")

    plan = base.stated

    def with_value(value: int) -> Plan:
        return replace(plan, group_size=value)

    value, fails_at = largest_whole(with_value, (1, largest_group(plan)), goal, "group_size", growth=2)
    if fails_at is None:
        _refuse_assumed(plan.phases[0].hierarchy.level(plan.unit), "group")
    return _solution(with_value(value), Ends(value, fails_at), ("group_size", "group_size"), goal)


def _refuse_assumed(level: Level, what: str) -> None:
    """Raise InputError if the answer is limited by a number of units that nobody stated."""
    if level.is_assumed:
        raise InputError(f"dataset_size: expected it beside {what}, which it limits, got a rate alone; state it too")


def _exceeds(composition: Composition, goal: Goal, direction: str) -> bool:
    """Return True if the measure is above the goal's limit; a given direction is tried first, where that is cheaper."""
    plan = composition.plan
    if isinstance(goal, EpsilonGoal) and plan.method in {"auto", "pld"} and direction:
        counts = composition.steps.get(direction)
        if counts and auto(counts, delta=plan.delta).epsilon > goal.limit:
            return True
    return goal.certified(composition) > goal.limit


def certified_measure(plan: Plan | Composition, goal: Goal) -> Measure:
    """Return an upper bound on a goal's measure of a plan, and the plan's guarantee, without a lower end."""
    composition = composed(plan)
    main = guarantee(composition)
    return Measure(main.epsilon if isinstance(goal, EpsilonGoal) else goal.certified(composition), main)


def _solution(
    solved: Plan | Composition, ends: Ends, names: tuple[str, str], goal: Goal, measure: Measure | None = None
) -> Solution:
    """Return the solution with these ends and (name, config key); its measure is computed if it is not given."""
    reached, main = measure or certified_measure(solved, goal)
    return Solution(
        name=names[0],
        value=ends.value,
        key=names[1],
        goal=goal,
        reached=reached,
        fails_at=ends.fails_at,
        guarantee=main,
        plan=composed(solved).stated,
    )


_Search = Callable[[Composition, Goal, str | None], Solution]
SOLVABLES: dict[str, _Search] = {
    "sigma": _solve_sigma,
    "steps": _solve_steps,
    "rate": _solve_rate,
    "batch": _solve_batch,
    "group": _solve_group,
}
_DRAWN = {"rate": _solve_rate, "batch": _solve_batch}  # what can change while the epochs stay
