"""`simulate`: batches of the sampler of Algorithm 1, drawn index by index, beside the computed law of the draws.

How often the protected unit or group is drawn in a step, what each level draws, and the sizes of batches.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from dpcalc.amplification.counts import member_counts
from dpcalc.amplification.groups import Placement
from dpcalc.audit.p_values import Ends, mean_interval
from dpcalc.audit.sampler import (
    children,
    draw_rounds,
    drawn_schemes,
    expected_draws,
    round_cost,
    steps_per_round,
)
from dpcalc.config.load import Loaded
from dpcalc.config.source import visible
from dpcalc.planner.composition import ProtectedUnit, composed
from dpcalc.planner.plan import Plan
from dpcalc.report.output import Json, Output, Table, config_output, lines, yes_no
from dpcalc.report.rounding import as_given, rounded_down, rounded_up
from dpcalc.sampling.counts import CountDistribution, binomial, convolve_power, hypergeometric, mixture
from dpcalc.sampling.hierarchy import Hierarchy
from dpcalc.sampling.paths import one_pass
from dpcalc.sampling.schemes import Poisson, Scheme

MISS_PROBABILITY = 1e-6
"""Probability with which one confidence interval may miss the true value: a run of a thousand checks contradicts a
correct number once in a thousand runs. Ten times more would do so every hundred runs."""
DIGITS = 5
"""Significant digits of computed and drawn numbers."""
_DEFAULT_COST = 4e6  # units looked at in all rounds by default: a second at most
_MIN_ROUNDS, _MAX_ROUNDS = 10, 20_000  # rounds drawn by default
_MAX_TOGETHER = 4  # of a group, up to so many members drawn together are checked; more are too rare to be seen
# Distributions of more counts are merged upwards in `sampling.counts`, and are then upper bounds.
_MAX_EXACT_COUNTS = 48


def simulate_plan(
    plan: Plan, *, seed: int = 1, draws: int | None = None, on_progress: Callable[[float], None]
) -> tuple[list[Json], list[str]]:
    """Return the checks of the phases' sampling, and a note on each whose batches are not drawn.

    `draws` steps of each are drawn, by default a second of work. A check is a computed number, or bounds on it that are
    equal where it is exact, beside its estimate, with an interval that contains the true value but for MISS_PROBABILITY
    (of equal ends where nothing is random).
    """
    protected = composed(plan).likeliest
    rng = np.random.default_rng(seed)
    checks, notes = list[Json](), list[str]()
    for index, phase in enumerate(plan.phases):
        if phase.hierarchy.spans_steps:  # the training code decides who is in which step
            is_cyclic = not phase.hierarchy.level(1).scheme.is_whole
            why = "the training code splits the units into groups" if is_cyclic else "the config states limits alone"
            notes.append(f"no batches of {phase.name} are drawn: {why}; `audit-sampler` tests a log")
            continue
        rounds = int(min(_MAX_ROUNDS, max(_MIN_ROUNDS, _DEFAULT_COST / len(plan.phases) / round_cost(phase.hierarchy))))
        if draws:
            rounds = -(-draws // steps_per_round(phase.hierarchy))
        checks += _phase_checks(plan, protected, index, rounds, rng, on_progress)
    return checks, notes


def _phase_checks(
    plan: Plan,
    protected: ProtectedUnit,
    index: int,
    rounds: int,
    rng: Generator,
    on_progress: Callable[[float], None],
) -> Iterator[Json]:
    phase = plan.phases[index]
    hierarchy = phase.hierarchy
    name = phase.name if len(plan.phases) > 1 else ""
    copies, schemes = drawn_schemes(hierarchy)
    totals, members = draw_rounds(
        hierarchy,
        plan.unit,
        watched_units(plan, protected, index),
        rounds=rounds,
        rng=rng,
        on_progress=lambda share: on_progress((index + share) / len(plan.phases)),
    )

    def check(quantity: str, computed: Ends, observed: float, interval: Ends, draws: int, note: str = "") -> Json:
        slack = 1e-9 * abs(observed)
        return {
            "phase": name,
            "quantity": quantity,
            "computed_lower": computed[0],
            "computed_upper": computed[1],
            "observed": observed,
            "observed_lower": interval[0],
            "observed_upper": interval[1],
            "draws": draws,
            "note": note,
            "agrees": interval[0] <= computed[1] + slack and computed[0] <= interval[1] + slack,
        }

    def frequency_check(quantity: str, computed: Ends, happened: NDArray[np.bool_]) -> Json:  # (rounds, times in each)
        observed, draws = float(happened.mean()), len(happened)
        return check(quantity, computed, observed, _interval(observed, draws), draws)

    # How often k or more of the protected units are drawn together, and one in a round.
    law, is_exact, in_round = member_distribution(plan, protected, index)
    is_of_pass = any(level.scheme.is_shuffled for level in hierarchy.levels)
    units = f"any of {plan.group_size} {plan.unit_name}" if plan.group_size > 1 else f"one {plan.unit_name}"
    together = members.sum(axis=1, keepdims=True) if is_of_pass else members
    for number in range(1, min(max(law), _MAX_TOGETHER) + 1):
        tail = float(sum(p for count, p in law.items() if count >= number))
        if number > 1 and tail * len(together) < 1:  # not expected once in all rounds
            break
        quantity = f"inclusion of {units}" if number == 1 else f"{number} or more draws of {units}"
        when = " in a pass" if is_of_pass else ""
        yield frequency_check(quantity + when, (tail if is_exact else 0.0, tail), together >= number)
    if in_round is not None and members.shape[1] > 1:
        quantity = f"inclusion of {units} in any of {members.shape[1]} steps"
        yield frequency_check(quantity, (in_round, in_round), np.asarray((members > 0).any(axis=1)))

    # Each level. A draw of a certain size is compared as it is, others by intervals.
    ends: list[Ends] = []  # of the mean share of a Poisson draw, else of the mean number drawn from a frame
    for level, scheme, total in zip(hierarchy.levels, schemes, totals, strict=True):
        frames = total.frames.total()
        offered = sum(size * times for size, times in total.frames.items())
        if (scheme.is_independent or scheme.is_summed) and offered:
            offered *= scheme.tried(1)[0]  # once in each of the draws that are added up
            rate = float(scheme.probability)
            share = total.drawn / offered
            ends.append(_interval(share, offered))
            quantity = f"share of {level.name} drawn"
            yield check(quantity, (rate, rate), share, ends[-1], offered)
            continue
        # An exact mean: of equal frames it is the very number of one of them.
        expected = Fraction(0)
        for size, times in total.frames.items():
            expected += times * expected_draws(scheme, size) * scheme.steps_of_a_pass(size) / frames
        mean = total.drawn / max(frames, 1)
        computed = (float(expected), float(expected))
        ends.append((mean, mean))
        if scheme.is_cut and scheme.limit:
            ends[-1] = _interval(mean, max(frames, 1), largest=scheme.limit)
        when = "in a pass" if scheme.is_shuffled or scheme.is_allocated else "at a time"
        yield check(f"{level.name} drawn {when}", computed, mean, ends[-1], frames)

    # The batch size is a product of the levels' numbers if each level has drawn frames that all give the same expected
    # number of draws: of Poisson draws by the share of a frame's units. Else its interval comes from the rounds.
    depth = hierarchy.depth if hierarchy.episodes else max(phase.clip, 1)
    levels = list(zip(hierarchy.levels[:depth], schemes, totals, ends, strict=False))
    total = totals[depth - 1]
    batches = np.concatenate(total.batches)
    if all(
        total.frames and (level.is_equal or scheme.can_repeat or (scheme.has_stand_in and not scheme.at_most))
        for level, scheme, total, _ in levels
    ):
        low = high = float(copies)
        for level, scheme, _, (low_each, high_each) in levels:
            is_share = scheme.is_independent or scheme.is_summed
            factor = (scheme.tried(level.count)[0] if is_share else 1) / scheme.steps_of_a_pass(level.count)
            low = low * low_each * factor
            high = high * high_each * factor
    else:
        largest = copies * math.prod(scheme.max_drawn(level.count) for level, scheme, *_ in levels)
        low, high = _interval(float(batches.mean()), batches.size, largest=largest)
    batch = _expected_batch(hierarchy, copies, schemes[:depth])
    quantity = f"batch size ({hierarchy.level(depth).name})"
    note = f"from {min(total.sizes)} to {max(total.sizes)}"
    yield check(quantity, (batch, batch), float(batches.mean()), (low, high), batches.size, note)


def _interval(mean: float, trials: int, *, largest: int = 1) -> Ends:
    low, high = mean_interval(mean / largest, trials, miss_probability=MISS_PROBABILITY)
    return low * largest, high * largest


def _expected_batch(hierarchy: Hierarchy, copies: int, schemes: tuple[Scheme, ...]) -> float:
    """Return the expected number of units in a step after the draws of these levels, repeated draws included."""
    draws = np.full(1, float(copies))  # of each parent; without a tree, of (the first, all others together)
    for level, scheme in enumerate(schemes, start=1):
        if hierarchy.tree is not None:
            sizes = hierarchy.tree.sizes[level - 1]
            rates = {size: float(expected_draws(scheme, size) / size) for size in {*sizes}}
            draws = np.repeat([rates[size] * drawn for size, drawn in zip(sizes, draws, strict=True)], sizes)
            continue
        fewest, most = hierarchy.level(level).min_count, hierarchy.level(level).count  # the first parent has the fewest
        of_first, of_other = (float(expected_draws(scheme, size)) for size in (fewest, most))
        total = of_first * draws[0] + of_other * (draws.sum() - draws[0])
        first = of_first / fewest * draws[0]
        draws = np.array([first, total - first])
    return float(f"{draws.sum():.13g}")  # what the sum is off by would be rounded up


# Computed distributions of the number of draws, and the watched units of the synthetic data set.


def member_distribution(
    plan: Plan, protected: ProtectedUnit, index: int
) -> tuple[CountDistribution, bool, float | None]:
    """Return the law of draws of the protected units in a step, or in a pass of a shuffle, and whether it is exact.

    An inexact one is an upper bound in stochastic order. Then the probability that some step of a round draws the unit,
    None where it is not computed.
    """
    hierarchy = plan.phases[index].hierarchy
    path = protected.paths[index]
    episodes = hierarchy.episodes
    if episodes is not None:
        if plan.unit == 1:
            law = convolve_power(hypergeometric(path.counts[0], plan.group_size, episodes.ways), episodes.tasks)
        else:
            law = binomial(episodes.tasks, episodes.rate(path.counts))
        return law, True, None
    if 0 < hierarchy.allocated <= len(path.schemes):  # in one step, an allocated level is a Poisson draw at its rate
        schemes = [*path.schemes]
        schemes[hierarchy.allocated - 1] = Poisson(probability=hierarchy.chosen_rate)
        path = replace(path, schemes=tuple(schemes))
    if 0 < hierarchy.summed <= len(path.schemes):  # the path is that of copies
        at = hierarchy.summed - 1
        path = replace(path, schemes=(*path.schemes[:at], hierarchy.levels[at].scheme, *path.schemes[at + 1 :]))
    if plan.group_size == 1 and not any(scheme.can_repeat for scheme in path.schemes):
        on_path = _units_on_path(plan, protected, index)
        rates = [level.scheme.rate(size) for level, (_, size) in zip(hierarchy.levels, on_path, strict=False)]
        has_passes = any(level.scheme.is_shuffled for level in hierarchy.levels)
        in_round = None if has_passes else _round_inclusion(hierarchy, rates)
        return {1: math.prod(rates, start=Fraction(1))}, True, in_round
    law = mixture(member_counts(hierarchy, one_pass(path), plan.unit, protected.group))
    is_exact = all(level.is_equal for level in hierarchy.levels[: plan.unit]) and max(law) <= _MAX_EXACT_COUNTS
    if plan.group_size > 1:
        has_repeated_parents = any(scheme.can_repeat for scheme in path.schemes[:-1])
        is_exact = is_exact and protected.group.placement is not None and not has_repeated_parents
    return law, is_exact, None


def _round_inclusion(hierarchy: Hierarchy, rates: list[Fraction]) -> float:
    """Return the probability that a unit with these rates by level is drawn in a round; no level is shuffled."""

    def any_of(trials: int, probability: float) -> float:
        return -math.expm1(trials * math.log1p(-probability)) if probability < 1 else 1.0

    allocation, levels = hierarchy.allocation, hierarchy.levels
    if allocation is not None:
        # The steps that a unit chooses are different ones, in which what lies below it is drawn independently.
        in_step = math.prod(rates, start=Fraction(1)) / hierarchy.chosen_rate
        return any_of(allocation.visits(allocation.steps_of_a_pass(1)), float(in_step))
    # From the innermost level outwards: a drawn parent stays for several draws of its children, which are independent.
    probability = float(rates[-1])
    for level, below, rate in reversed(list(zip(levels, levels[1 : len(rates)], rates, strict=False))):
        probability = float(rate) * any_of(level.redraw_every // below.redraw_every, probability)
    return probability


def watched_units(plan: Plan, protected: ProtectedUnit, index: int) -> tuple[int, ...]:
    """Return the numbers, from 0, of the protected units in their level; the first ones if no placement is stated."""
    hierarchy = plan.phases[index].hierarchy

    def placed(placement: Placement, parent: int, level: int) -> Iterator[int]:  # always the first children of a parent
        first = int(children(hierarchy, level, np.array([parent]))[0][0])
        if isinstance(placement, int):
            yield from range(first, first + placement)
            return
        for offset, inner in enumerate(placement):
            yield from placed(inner, first + offset, level + 1)

    # A single unit lies on its path; members of a group fill their placement from the first units on.
    if plan.group_size == 1:
        return (_units_on_path(plan, protected, index)[-1][0],)
    placement = protected.group.placement
    return tuple(range(plan.group_size)) if placement is None else tuple(placed(placement, 0, 1))


def _units_on_path(plan: Plan, protected: ProtectedUnit, index: int) -> list[tuple[int, int]]:
    """Return (number of the unit from 0, size of its frame) by level; the first child where no place is stated."""
    unit, places, on_path = 0, protected.paths[index].place, []
    for depth in range(1, plan.unit + 1):
        first, size = children(plan.phases[index].hierarchy, depth, np.array([unit]))
        unit = int(first[0]) + (places[depth - 1] if places else 0)
        on_path.append((unit, int(size[0])))
    return on_path


def simulation_output(checks: Sequence[Json], notes: Sequence[str], seed: int, loaded: Loaded) -> Output:
    """Return the output of `simulate`: a verdict, a row for each check, and notes."""
    contradicted = sum(not check["agrees"] for check in checks)
    verdict = "computed agrees with drawn"
    if contradicted:
        verdict = f"{contradicted} of {len(checks)} computed numbers contradicted"
    texts, rows = [], []
    for check in checks:
        ends: Any = [check[name] for name in ("computed_lower", "computed_upper", "observed_lower", "observed_upper")]
        observed: Any = check["observed"]
        low, high = ends[2:]
        phase, quantity, note = (visible(str(check[name])) for name in ("phase", "quantity", "note"))
        quantity = f"{phase}: {quantity}" if phase else quantity
        computed = _between(*ends[:2])
        drawn = _shown(observed)
        note = f" ({note})" if note else ""
        interval = "" if low == high else _between(low, high)
        draws = str(check["draws"])
        rows.append((quantity, computed, f"{drawn}{note}", interval, draws, yes_no(bool(check["agrees"])), ""))
        between = "" if low == high else f", so between {_shown(low, rounded_down)} and {_shown(high)}"
        end = "" if check["agrees"] else "; NOT the same"
        texts.append(f"{quantity}: computed {computed}, drawn {drawn}{between}, {draws} draws{note}{end}")
    summary = {"agrees": not contradicted, "seed": seed, "doubt": MISS_PROBABILITY}
    return config_output(
        "simulate",
        loaded,
        {**summary, "checks": list(checks), "notes": list(notes)},
        lines=[*lines(summary), *(("checks", text) for text in texts)],
        table=Table(
            headline=f"{verdict}   seed {seed}, intervals miss with probability <= {as_given(MISS_PROBABILITY)}",
            columns=("quantity", "computed", "drawn", "interval", "draws", "agrees", "note"),
            rows=tuple(rows),
        ),
    )


def _between(low: float, high: float) -> str:
    return _shown(high) if low == high else f"{_shown(low, rounded_down)} to {_shown(high)}"


def _shown(value: float, rounding: Callable[..., str] = rounded_up) -> str:
    return str(int(value)) if float(value).is_integer() else rounding(value, digits=DIGITS)
