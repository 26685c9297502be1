"""The largest draw of one level that meets a goal: its rate, size or times, or the fewest bins."""

import math
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from functools import cache, partial
from typing import NamedTuple

from dpcalc.numerics.roots import bracket_root, falling_root
from dpcalc.planner.plan import Plan
from dpcalc.planner.search import FINEST, Goal, NoSolution, Value, disagreement_error, largest_whole
from dpcalc.planner.vary import accepted_size, is_covered, is_refused
from dpcalc.sampling.hierarchy import Level
from dpcalc.sampling.schemes import BallsInBins, CappedPoisson, Fixed, RandomAllocation, Scheme, Shuffle

_FEW_STEPS = 20  # of a pass that drops its last batch: from there on it leaves out less than one unit in 20
_NEAR_BINS = 3e-4  # relative distance from the limit at which a search for bins by the estimate ends


class SolvedDraw(NamedTuple):
    """The largest draw of one level within a goal: the plan with it, and the value at its config key."""

    plan: Plan
    value: Value  # the rate, the size or times of the scheme, or the number of its bins, of which the fewest are sought
    fails_at: Value | None  # the neighbouring value that fails; None if there is none
    key: str


def most_times(scheme: RandomAllocation, goal: Goal, with_scheme: Callable[[Scheme], Plan]) -> SolvedDraw:
    """Return the largest number of steps that a unit may choose within a goal; NoSolution if even 1 costs too much."""

    def with_times(times: int) -> Plan:
        return with_scheme(replace(scheme, times=times))

    times, fails_at = largest_whole(with_times, (1, scheme.steps), goal, "times")
    return SolvedDraw(with_times(times), times, fails_at, "times")


def fewest_bins(scheme: BallsInBins, goal: Goal, max_bins: int, with_scheme: Callable[[Scheme], Plan]) -> SolvedDraw:
    """Return the fewest bins up to `max_bins` that are covered and meet a goal; NoSolution if all cost more."""

    def with_bins(bins: int) -> Plan:
        return with_scheme(replace(scheme, bins=bins))

    estimated = cache(lambda bins: goal.estimate(with_bins(bins)).value)

    def excess(log_bins: float) -> tuple[float, float]:  # nearly a straight line
        return math.log(max(estimated(round(math.exp(log_bins))), 1e-300) / goal.limit), math.nan

    fewest, start = 1 + bisect_left(range(1, max_bins), 1, key=lambda bins: is_covered(with_bins(bins))), max_bins
    if fewest < max_bins:  # from where the estimate is about the goal's limit
        log_first = math.log(min(max(scheme.bins, fewest), max_bins))
        near = falling_root(excess, log_first, (math.log(fewest), math.log(max_bins)), value_tolerance=_NEAR_BINS)
        start = min(max_bins, max(fewest, math.ceil(math.exp(near))))
    # More bins cost less: the search is for the most bins that can be taken away.
    ends = (0, max_bins - fewest)
    try:
        fewer, fails_at = largest_whole(
            lambda fewer: with_bins(max_bins - fewer), ends, goal, "bins", start=max_bins - start
        )
    except NoSolution as failure:
        raise NoSolution("bins", goal, max_bins, failure.best_reached) from failure
    next_bins = None if fails_at is None else max_bins - fails_at
    return SolvedDraw(with_bins(max_bins - fewer), max_bins - fewer, next_bins, "bins")


def largest_size(level: Level, goal: Goal, with_scheme: Callable[[Scheme], Plan]) -> SolvedDraw:
    """Return the largest size that meets a goal and is not refused; NoSolution or InputError if there is none."""
    scheme = level.scheme

    def with_size(value: int) -> Plan:
        return with_scheme(replace(scheme, size=value))  # type: ignore[arg-type]  # all but Poisson draws have a size

    def first_accepted(first: int, last: int) -> int | None:  # tried one by one
        return next((size for size in range(first, last + 1) if not is_refused(with_size(size))), None)

    # Ranges of sizes in which larger ones cost more, largest first; below the units of the smallest parent, with
    # `at_most` of the largest. With drop_last the sizes that divide the data leave nobody out of a pass, and the next
    # larger ones the most: among those with equally many steps in a pass larger ones cost more. Sizes of many steps are
    # one range.
    largest = max(1, (level.count if isinstance(scheme, Fixed) and scheme.at_most else level.min_count) - 1)
    ranges = [(1, largest)]
    if isinstance(scheme, Shuffle) and scheme.drop_last:
        firsts = [level.min_count // (steps + 1) + 1 for steps in range(1, _FEW_STEPS)]
        lasts = [largest, *(min(largest, first - 1) for first in firsts)]
        ranges = [(first, last) for first, last in zip([*firsts, 1], lasts, strict=True) if first <= last]

    failed: list[NoSolution] = []
    for first, last in ranges:
        # A removed group spans a multiple of every size up to its own, so that the search may begin above it.
        together = with_size(last).group_size
        is_spanned = is_refused(with_size(min(together, last)))
        smallest = first_accepted(max(first, together + 1) if is_spanned else first, last)
        if smallest is None:
            continue
        accepted = partial(accepted_size, with_size, min_size=smallest)  # a refused size counts as the next smaller one
        try:
            value, fails_at = largest_whole(lambda size: with_size(accepted(size)), (smallest, last), goal, "size")  # noqa: B023
        except NoSolution as failure:
            failed.append(failure)
            continue
        value = accepted(value)
        return SolvedDraw(with_size(value), value, fails_at or first_accepted(last + 1, ranges[0][1]), "size")
    if not failed:
        goal.certified(with_size(1))  # raises what refuses every size
    raise min(failed, key=lambda failure: failure.best_reached)


def largest_rate(level: Level, goal: Goal, with_scheme: Callable[[Scheme], Plan]) -> SolvedDraw:
    """Return about the largest Poisson rate in a goal, up to 1 or, if cut, cap / count; NoSolution below 1e-15."""
    scheme = level.scheme
    largest = Fraction(level.max_drawn, level.count) if isinstance(scheme, CappedPoisson) else Fraction(1)

    def with_rate(value: Fraction) -> Plan:
        return with_scheme(replace(scheme, probability=value))  # type: ignore[arg-type]  # only Poisson draws come here

    def estimated(rate: float) -> float:
        return goal.estimate(with_rate(Fraction(rate))).value

    if goal.certified(with_rate(largest)) <= goal.limit:
        return SolvedDraw(with_rate(largest), largest, None, "rate")

    # The rate at which the estimate equals the goal's limit.
    high = low = float(largest)
    while estimated(low) > goal.limit:
        high, low = low, low / 8
        if low < 1e-15:
            raise NoSolution("rate", goal, low, goal.certified(with_rate(Fraction(low))))
    ends = bracket_root(lambda x: goal.limit - estimated(math.exp(x)), math.log(low), math.log(high), tolerance=1e-9)
    root = math.exp(ends[1])

    # The estimate may be a little low: growing steps down, until the certified bound agrees, then up until it fails.
    step = FINEST
    value = Fraction(root * (1 - 4 * step))
    while goal.certified(with_rate(value)) > goal.limit:
        step *= 2
        value = Fraction(root * (1 - 4 * step))
        if step > 0.1:
            raise disagreement_error("rate", root)
    fails_at = min(largest, Fraction(root))
    while goal.certified(with_rate(fails_at)) <= goal.limit:  # it ends, for the largest rate fails
        fails_at = min(largest, fails_at * Fraction(1 + step))
    return SolvedDraw(with_rate(value), value, fails_at, "rate")
