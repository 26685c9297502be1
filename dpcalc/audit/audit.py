"""Audit a log of batches: build the declared levels, count, test, and say what the loader does instead; its results.

Only contradicted tests count: a pattern that chance can explain accuses nobody. Another scheme is named where the log
has its sizes and its repeats, and not because the declared one is wrong.
"""

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import partial
from itertools import accumulate
from math import ceil

import numpy as np

from dpcalc.audit.laws import (
    EXTREMES,
    FALSE_ALARM,
    OF_NUMBERS,
    Guesses,
    Statistic,
    StatisticKind,
    all_draws,
    statistics_of,
    window_counts,
)
from dpcalc.audit.log import CERTAIN, Block, LoggedLevel, read_blocks
from dpcalc.audit.scores import ScoreAudit
from dpcalc.audit.simulate import drawn_schemes
from dpcalc.charts import LOG, Axis, Chart, Series, x_text
from dpcalc.config.load import Loaded
from dpcalc.config.source import STDIN, visible
from dpcalc.errors import InputError, UnsupportedError, counted
from dpcalc.guarantee import Kind
from dpcalc.mechanisms.matrix_factorization import MatrixFactorization
from dpcalc.numerics import IntArray
from dpcalc.planner.plan import Phase, Plan
from dpcalc.planner.words import shared_facts
from dpcalc.records import dataclass
from dpcalc.report.guarantees import assumes_rows, epsilon_text, unit_json
from dpcalc.report.output import Json, Output, Table, as_given, config_output, lines, rounded_down, rounded_up, yes_no
from dpcalc.sampling.hierarchy import TASK, Hierarchy
from dpcalc.sampling.schemes import All, BallsInBins, CyclicPoisson, Scheme, SummedPoisson

_MIN_EXPECTED = 20  # expected events whose absence is a pattern, e^-20 by chance; draws that show what sizes are
_MIN_DEVIATIONS = 5.0  # standard deviations from which a number is another one
_EXCEPTIONS = 0.05  # share of the expected events up to which they are exceptions, as a shuffle buffer has them
_MAJORITY = 0.5  # share of draws from which a pattern is that of the loader


def diagnosis(level: LoggedLevel, contradicted: Sequence[Statistic]) -> str:
    """Return a sentence on the first pattern of a loader that fits the log, else on its least likely test."""
    # In the order of how much a pattern explains: entries that all stand twice, for example, make sizes and passes
    # wrong too, and the reader should hear of the cause.
    counts = level.counts
    draws = level.draws
    scheme = level.scheme
    name = level.name
    declared = f"`{level.scheme.name}`"
    sizes = draws.sizes
    units = f"units of level {level.name}"
    kinds = {test.kind for test in contradicted}
    low = int(sizes.min(initial=0 if not sizes.size else sizes[0]))
    high = int(sizes.max(initial=0))
    usual = float(np.bincount(sizes).max() / sizes.size) if sizes.size else 1.0  # share of the commonest size
    varies = _varies_as_poisson(level, sizes)
    is_poisson = scheme.is_independent or scheme.is_cut
    are_sizes_wrong = bool(kinds & {StatisticKind.SIZES, StatisticKind.TOTAL}) and sizes.size > 0
    hint = _parts_of_a_step(level) if are_sizes_wrong else ""

    if StatisticKind.REPEATS in kinds and level.repeats.number and level.fewest_entries == level.most_entries:
        times = level.most_entries
        return f"each {name} of a batch stands {times} times in it: do {times} workers draw with the same seed?"

    if isinstance(scheme, BallsInBins):
        moved = level.first_place(level.moved)
        if StatisticKind.HELD in kinds and moved:
            return f"{moved} is at another step than in the pass before: this is `assignment: fresh`, not `held`"
        again = sizes[draws.numbers < level.times - scheme.bins].sum()
        if StatisticKind.OVERLAP in kinds and draws.repeated.sum() >= _MAJORITY * again:
            return f"{units} are at the same step of every pass: this is `assignment: held`, not `fresh`"

    unheld = level.first_place(level.unheld)
    if StatisticKind.HELD in kinds and unheld:
        loader = f"the loader draws again within `redraw_every: {level.period}`"
        return f"{unheld} is not in all steps of its redraw period: {loader}"
    has_previous = draws.previous > 0
    same = has_previous & (draws.repeated == sizes) & (sizes == draws.previous)
    share = float(same.sum() / max(int(has_previous.sum()), 1))
    if StatisticKind.OVERLAP in kinds and share >= _MAJORITY:
        duration = "for the whole run" if share == 1 else f"for about {level.period / (1 - share):.0f} steps"
        return (
            f"{100 * share:.3g}% of draws take the same {units} as the draw before: the loader holds a draw "
            f"{duration}, see `redraw_every`"
        )

    # A window as long as a pass meets at most two passes, wherever it begins: no unit is in it three times.
    windows = window_counts(level)
    third = windows[-1] if windows else None
    has_passes = third and third.expected >= _MIN_EXPECTED and third.observed <= _EXCEPTIONS * third.expected
    if StatisticKind.PASSES in kinds and has_passes and not (scheme.is_shuffled or isinstance(scheme, BallsInBins)):
        batches = round(float(draws.frames.mean()) / (float(sizes.sum()) / level.number_of_draws))
        is_named = "shuffle" if usual > _MAJORITY else "balls-in-bins" if varies else ""
        verdict = f"this is `{is_named}`, not {declared}" if is_named else f"{declared} excludes that"
        return f"each {name} once per pass of about {batches} batches: {verdict}{hint}"
    if scheme.is_shuffled and StatisticKind.SIZES in kinds and has_passes:
        if usual < _MAJORITY and varies:
            return f"batches hold {low} to {high} {units}: this is `balls-in-bins`, not `shuffle`"
        if low == high == scheme.size and not scheme.drop_last:
            return "no batch is smaller than the others: the loader leaves out the end of a pass, `drop_last: true`"
        if low < high == scheme.size and usual >= _MAJORITY and scheme.drop_last:
            return "some batches are smaller: the loader keeps the end of a pass, `drop_last: false`"
    if StatisticKind.PASSES in kinds and (scheme.is_shuffled or isinstance(scheme, BallsInBins)):
        repeats = f"{level.by_occurrence[2]:,} times one {name} repeats within a pass of {level.window} batches"
        # Independent draws of a fixed or a Poisson number repeat units as often as chance has it, given their sizes.
        is_chance = all(
            abs(each.observed - each.expected)
            <= _MIN_DEVIATIONS * math.sqrt(each.expected * (1 - each.expected / each.trials)) + 1
            for each in windows
        )
        is_named = ("fixed" if low == high else "poisson" if varies else "") if is_chance else ""
        verdict = f"this is `{is_named}`, not {declared}" if is_named else f"{declared} excludes that"
        return f"{repeats}: {verdict}{hint}"

    if StatisticKind.REPEATS in kinds and level.repeats.number and not scheme.can_repeat:
        where = f"(first {level.first_place(level.repeats)})"
        repeats = f"{level.repeats.number:,} times one {name} stands several times in a batch {where}"
        return f"{repeats}: {_repeats_within_steps(level)}"

    never = np.flatnonzero(counts == 0)
    mean = float(counts.mean())
    by_chance = counts.size * math.exp(-mean)
    if kinds & {StatisticKind.SPREAD, StatisticKind.RAREST} and never.size > _MIN_EXPECTED + 2 * by_chance:
        return f"{never.size:,} {units} are never drawn, first {level.place(-1, int(never[0]))}"
    of_independent = _pairs_and_repeats(level)
    is_pair_explained, is_repeat_explained = (
        abs(observed - expected) <= _MIN_DEVIATIONS * math.sqrt(expected)
        for observed, expected in zip((draws.pairs.sum(), draws.repeated.sum()), of_independent, strict=True)
    )
    doubt = _MIN_DEVIATIONS * math.sqrt((2 + 1 / mean) / counts.size) if mean else math.inf
    is_unequal = float(np.var(counts)) > mean * (1 + doubt)
    if (
        kinds & {StatisticKind.NEIGHBOURS, StatisticKind.JOINT}
        and is_unequal
        and is_pair_explained
        and is_repeat_explained
    ):
        unit = int(counts.argmax())
        often = f"{level.place(-1, unit)} is drawn {counts[unit]:,} times, the mean is {mean:,.1f}"
        return f"{units} are drawn with unequal probabilities, {often}: are they weighted?"
    if StatisticKind.NEIGHBOURS in kinds and not is_pair_explained:
        return f"neighbouring {units} come together more or less often than by chance: are batches cut from blocks?"
    if any(test.kind is StatisticKind.JOINT and test.observed > test.expected for test in contradicted):
        return f"the same {units} come together again and again: do several workers draw with the same seed?"

    if are_sizes_wrong and low == high and (is_poisson or scheme.is_allocated):
        is_named = "shuffle" if isinstance(scheme, BallsInBins) else "fixed"
        return f"every batch holds exactly {high} {units}: this is `{is_named}`, not {declared}{hint}"
    if scheme.has_stand_in and are_sizes_wrong:
        if usual < _MAJORITY:
            verdict = "this is `poisson`, not `fixed`" if varies else "`fixed` excludes that"
            return f"batches hold {low} to {high} {units}: {verdict}{hint}"
        if low == high:
            return f"every batch holds {high} {units}, not the declared {scheme.size}{hint}"
    if is_poisson and kinds & {StatisticKind.SIZES, StatisticKind.LARGEST}:
        maximum = scheme.limit or math.inf
        if high > maximum:
            return f"batches hold up to {high} {units}, more than `max_batch_size: {maximum}`"
        top = int((sizes == high).sum())
        below = int((sizes == high - 1).sum())
        # A law without a maximum has ever fewer draws of ever larger sizes: four times as many at the end are a pile.
        if high < maximum and top >= _MIN_EXPECTED and top > 4 * below:
            return f"{top:,} batches hold {high} {units} and none holds more: they are cut to a maximum"
    if scheme.is_independent and are_sizes_wrong:
        frames, shown, number = all_draws(level)
        rate = float(scheme.probability) * (level.shown or 1.0)
        means = frames * rate
        if not level.is_every:  # an empty draw is not in the log
            with np.errstate(
                divide="ignore"
            ):  # log(0) = -inf for rate 1 leaves the probability of a nonempty draw at 1
                means = means / np.maximum(-np.expm1(frames * np.log1p(-rate)), rate)
        total = float((shown * number).sum())
        expected_total = float((means * number).sum())
        if abs(total - expected_total) >= _MIN_DEVIATIONS * np.sqrt(expected_total):
            mean = total / number.sum()
            stated = expected_total / number.sum()
            change = f"{100 * (mean / stated - 1):+.3g}%"
            return f"a batch holds {mean:.5g} {units} on average, and {stated:.5g} are declared ({change}){hint}"

    test = min(contradicted, key=lambda test: test.log_p_value)
    return (test.sentence or f"{test.quantity}: expected about {test.expected:,.6g}, got {test.observed:,.6g}") + hint


def _varies_as_poisson(level: LoggedLevel, numbers: IntArray) -> bool:
    """Return True if the numbers of units or entries of the draws vary as Poisson draws, or several added up, do."""
    frames = level.draws.frames.astype(float)
    if level.is_every and isinstance(level.sizes, int):
        numbers = np.append(numbers, np.zeros(level.parents * level.times - numbers.size, dtype=np.int64))
        frames = np.full(numbers.size, float(level.sizes))
    elif numbers.size and numbers.mean() < 10:  # then draws without entries, which the log does not have, would matter
        return False
    if numbers.size < _MIN_EXPECTED:
        return False
    middle = frames * np.median(numbers / frames)
    kept = np.abs(numbers - middle) <= 6 * np.sqrt(middle + 1)
    if kept.mean() < 1 - _EXCEPTIONS:
        return False
    numbers, frames = numbers[kept], frames[kept]
    rate = float(numbers.sum() / frames.sum())
    if not rate:
        return False
    # Variance over mean: 1 - rate for one draw, 1 - rate / k for the sum of k.
    ratio = float(((numbers - frames * rate) ** 2 / (frames * rate)).mean())
    doubt = _MIN_DEVIATIONS * math.sqrt((2 + 1 / float(numbers.mean())) / numbers.size)
    return 1 - rate - doubt <= ratio <= 1 + doubt


def _repeats_within_steps(level: LoggedLevel) -> str:
    """Return what draws so: entries with replacement, or several batches without repeats that are added up.

    Of n units, two entries of a step are the same unit with probability 1 / n if they are drawn with replacement, and
    (k - 1) / (k n - 1) if k batches without repeats are added up, in which a unit stands Binomial(k, rate) times.
    """
    draws, scheme = level.draws, level.scheme
    declared = f"`draws: {scheme.draws}`" if isinstance(scheme, SummedPoisson) else f"`{scheme.name}`"
    by_chance = float((draws.entries * (draws.entries - 1.0) / (2 * draws.frames)).sum())
    equal = float(draws.twice.sum())
    # So the equal pairs are 1 - 1/k of those with replacement, here to within three deviations.
    least = (equal - 3 * math.sqrt(equal)) / by_chance
    most = (equal + 3 * math.sqrt(equal)) / by_chance
    if (
        most < 1 / 2 or least > 1 or draws.sizes.size < _MIN_EXPECTED
    ):  # fewer than of two batches, or more than by chance
        return f"{declared} excludes that"
    fewest = max(2, math.ceil(1 / (1 - least)) if least < 1 else 2)
    batches = f"{fewest} or more"
    if most < 1:
        largest = max(2, math.floor(1 / (1 - most)))
        batches = f"{fewest} to {largest}" if fewest < largest else f"about {round(1 / (1 - equal / by_chance))}"
    are_constant = bool(np.all(draws.entries == draws.entries[0]))
    if are_constant and most >= 1:
        return f"this is `with-replacement`, or {batches} batches without repeats added up in each step, not {declared}"
    if are_constant or _varies_as_poisson(level, draws.entries):
        kind = "batches of one size" if are_constant else "`poisson` batches"
        sentence = f"{batches} {kind} are added up in each step, as accumulated gradients are"
        if are_constant:
            return f"{sentence}: that is not {declared}"
        return f"{sentence}: that is `poisson` with `draws`, the rate of one of them, not {declared}"
    return f"{declared} excludes that; are several batches added up in each step, as accumulated gradients are?"


def _pairs_and_repeats(level: LoggedLevel) -> tuple[float, float]:
    """Return how often independent draws hold both of two neighbours, and a unit of the draw before, given counts."""
    counts = level.counts.astype(float)
    # A unit drawn c times of T is in a draw with probability c / T. Neighbours are units 2k and 2k + 1 of a frame.
    parents = level.parents_of(np.arange(counts.size))
    draws = np.full(level.parents, level.times)
    if not level.is_every:
        draws = np.maximum(np.bincount(level.draws.parents, minlength=level.parents), 1)
    shares = counts / draws[parents]
    place = np.arange(counts.size) - level.first_units(parents)
    is_pair = (place[:-1] % 2 == 0) & (place[1:] > place[:-1])
    return float((shares[:-1] * counts[1:])[is_pair].sum()), float((shares * counts).sum())


def _parts_of_a_step(level: LoggedLevel) -> str:
    """Return the question whether steps are logged in k parts, if draws hold 1/k of the units; else ""."""
    scheme, sizes = level.scheme, level.draws.sizes
    usual, doubt = float(np.bincount(sizes).argmax()), 0.0
    if (scheme.has_stand_in or scheme.is_shuffled) and (sizes == usual).mean() >= _MAJORITY:
        declared = float(scheme.size)
    elif scheme.is_independent:
        declared = float(scheme.probability) * float(level.draws.frames.mean())
        usual = float(sizes.mean())
        doubt = _MIN_DEVIATIONS / math.sqrt(float(sizes.sum()))
    else:
        return ""
    parts = round(declared / usual)
    if level.number > 1 or usual < 2 or parts < 2 or abs(declared / usual - parts) > min(doubt * parts, 0.25):
        return ""
    return f"; they hold {usual:.4g} units, and {declared:.4g} are declared: are {parts} of them one step?"


# Audit a log of batches: build the declared levels of each phase, count, and test.


@dataclass(frozen=True, kw_only=True)
class Audit:
    """The result of an audit."""

    steps: int  # number of steps of the log
    entries: int  # number of entries in all batches
    # (name of the phase, "" if it is the only one; name of the level; test), phase after phase, level after level
    tests: tuple[tuple[str, str, Statistic], ...]
    # for each phase that is contradicted, what the loader does instead; () for a consistent log
    findings: tuple[str, ...]
    notes: tuple[str, ...]  # sentences about what was not tested

    @property
    def agrees(self) -> bool:
        return not any(test.contradicts(len(self.tests)) for *_, test in self.tests)


class _PhaseAudit:
    """Levels of one phase, which begins at step `first` of the log, and their counts, from block to block."""

    def __init__(self, phase: Phase, first: int) -> None:
        hierarchy = phase.hierarchy
        self.phase, self.first = phase, first
        # A constructed task is a draw of its own: step s of t tasks becomes the steps s t to s t + t - 1.
        self.tasks, _ = drawn_schemes(hierarchy)
        self.has_tasks = hierarchy.episodes is not None
        self.steps = phase.steps * self.tasks
        self.levels = _declared_levels(phase, self.steps, first, self.place)
        self.entries = 0
        self._waiting = np.zeros((2, 0), dtype=np.int64)

    def add(self, block: Block, log: str) -> None:
        begin, end = np.searchsorted(block.steps, [self.first, self.first + self.phase.steps])
        steps = (block.steps[begin:end] - self.first) * self.tasks
        columns = list(block.paths[begin:end].T)
        lines = block.lines[begin:end]

        def check(index: IntArray, sizes: IntArray, name: str) -> None:
            if np.any(index >= sizes):
                place = int(np.argmax(index >= sizes))
                expected = f"expected an index of {name} from 0 to {sizes[place] - 1}"
                raise InputError(f"{log}:{lines[place]}: {expected}, got {index[place]}")

        if self.has_tasks:
            tasks = columns.pop(0)
            check(tasks, np.full(tasks.size, self.tasks), TASK)
            steps = steps + tasks
        # An index counts from 0 in its own frame; units are numbered through the frames of all parents.
        units = np.zeros(steps.size, dtype=np.int64)
        for index, level in zip(columns, self.levels, strict=True):
            check(index, level.frame_sizes(units), level.name)
            units = level.first_units(units) + index
        self.entries += units.size
        # Whole redraw periods are counted; later entries wait for the next block.
        steps, units = np.concatenate([self._waiting, [steps, units]], axis=1)
        whole = min(max(block.end - self.first, 0) * self.tasks, self.steps)
        if whole < self.steps:
            whole -= whole % self.levels[0].period
        is_whole = steps < whole
        self._waiting = np.array([steps[~is_whole], units[~is_whole]])
        steps, units = steps[is_whole], units[is_whole]
        if not steps.size:
            return
        # One key for each (step, record): a sort of whole numbers is several times as fast as one of pairs.
        records, first = self.levels[-1].units, steps[0]
        keys = np.sort((steps - first) * records + units)
        steps, units = first + keys // records, keys % records
        for level in reversed(self.levels):
            level.add(steps, units, end=whole)
            units = level.parents_of(units)

    def place(self, number: int, step: int, unit: int) -> str:
        """Return words for a unit of level `number`, "step 7: user 3, record 5"; without the step if it is < 0."""
        words: list[str] = []
        for level in reversed(self.levels[:number]):
            parent = int(level.parents_of(np.array([unit]))[0])
            words.append(f"{level.name} {unit - int(level.first_units(np.array([parent]))[0])}")
            unit = parent
        if self.has_tasks and step >= 0:
            words.append(f"{TASK} {step % self.tasks}")
        when = f"step {self.first + step // self.tasks}: " if step >= 0 else ""
        return when + ", ".join(reversed(words))


def audit_log(plan: Plan, path: str, *, on_progress: Callable[[float], None]) -> Audit:
    """Test a log of batches; an honest one contradicts any test with probability at most FALSE_ALARM."""
    # One header describes the whole log, so that its columns must mean the same in every phase.
    columns = {
        (*((TASK,) if phase.hierarchy.episodes else ()), *(level.name for level in phase.hierarchy.levels))
        for phase in plan.phases
    }
    if len(columns) > 1:
        raise UnsupportedError(
            "audit-sampler: expected tasks in every phase or in none, got both; audit them one by one"
        )
    if not plan.steps:
        raise InputError("audit-sampler: expected a run of at least one step, got none")
    ends = list(accumulate(phase.steps for phase in plan.phases))
    audits = [
        _PhaseAudit(phase, end - phase.steps) for phase, end in zip(plan.phases, ends, strict=True) if phase.steps
    ]
    # A block may end one phase and begin the next.
    for block in read_blocks(path, columns.pop(), plan.steps, on_progress=on_progress):
        for each in audits:
            if block.first < each.first + each.phase.steps and block.end > each.first:
                each.add(block, STDIN if path == "-" else path)

    # All tests of all levels share the false alarm equally.
    levels = []
    for audit in audits:
        phase = audit.phase.name if len(plan.phases) > 1 else ""
        levels += [(phase, level, tuple(statistics_of(level))) for level in audit.levels]
    number = max(1, sum(len(tests) for *_, tests in levels))
    judged, findings, contradicted_below = [], [], False
    for phase, level, tests in reversed(levels):
        contradicted = [test for test in tests if test.contradicts(number)]
        # A fault of draws that can leave units without entries shows in the numbers of the level above as well, and a
        # finding for it would send the reader to a level that is in order.
        can_be_hidden = contradicted_below and not level.is_last and not level.is_shown
        if contradicted and not (can_be_hidden and {test.kind for test in contradicted} <= OF_NUMBERS):
            findings.append(f"{f'{phase}: ' if phase else ''}{diagnosis(level, contradicted)}")
        judged += [(phase, level.name, test) for test in reversed(tests)]
        contradicted_below = bool(contradicted)
    return Audit(
        steps=plan.steps,
        entries=sum(each.entries for each in audits),
        tests=tuple(reversed(judged)),
        findings=tuple(reversed(findings)),
        notes=tuple(dict.fromkeys(note for _, level, _ in levels if (note := _note(level)))),
    )


def _note(level: LoggedLevel) -> str:
    """Return the first reason why some tests of a level are left out; "" if none are."""
    if not level.has_sizes:
        reason = "how many there are is not declared, so that only sizes and repeats are tested"
    elif level.is_mixed:
        reason = "is not tested, because a draw with replacement above it mixes several draws"
    elif level.shown is None:
        reason = (
            "some draws leave no entry in the log, not all with the same probability, so that only repeats are tested"
        )
    elif level.scheme.is_cut and not level.is_shown:
        reason = "some draws leave no entry in the log, so that the maximum of a batch is not tested"
    else:
        return ""
    return f"{level.name}: {reason}"


def _declared_levels(
    phase: Phase, steps: int, first_step: int, place_of: Callable[[int, int, int], str]
) -> list[LoggedLevel]:
    """Return the levels of a phase as declared, outermost first; UnsupportedError if a shuffle cannot be audited."""
    hierarchy = phase.hierarchy
    _, schemes = drawn_schemes(hierarchy)
    shuffled = [level for level, scheme in zip(hierarchy.levels, schemes, strict=True) if scheme.is_shuffled]
    if len(shuffled) > 1 or not all(level.is_equal for level in shuffled):
        raise UnsupportedError("audit-sampler: expected at most one shuffle, of frames of one size, got others")
    limits = phase.mechanism.limits if isinstance(phase.mechanism, MatrixFactorization) else None
    declared: list[LoggedLevel] = []
    for place, (level, scheme) in enumerate(zip(hierarchy.levels, schemes, strict=True)):
        if level.is_assumed:
            raise InputError(
                f"data.examples: expected the number of {level.name} that the log is of, got an unknown one"
            )
        # Below a level whose units can be drawn twice at once, two draws are mixed.
        is_mixed = any(each.can_repeat or each.is_summed for each in schemes[:place])
        shown = None if is_mixed else _entry_probability(hierarchy, schemes, place)
        lag = scheme.bins if isinstance(scheme, BallsInBins) else getattr(scheme, "groups", 1)
        if scheme.spans_steps and scheme.is_whole and limits is not None and limits.fixed_epochs:
            lag = limits.separation
        elif scheme.is_secret:
            lag = _draws_of_a_pass(scheme, level.count)
        # A last period or cycle that is cut short is left out if it has fewer draws that show a unit, or steps of some
        # groups alone.
        times = steps // level.redraw_every
        if isinstance(scheme, CyclicPoisson):
            times = steps - steps % scheme.groups
        elif shown and shown >= CERTAIN:
            times = ceil(Fraction(steps, level.redraw_every))
        sizes: IntArray | int = level.count
        if hierarchy.tree is not None:
            sizes = np.array(hierarchy.tree.sizes[place], dtype=np.int64)
        declared.append(
            LoggedLevel(
                number=place + 1,
                name=level.name,
                scheme=scheme,
                period=level.redraw_every,
                times=times,
                is_every=all(each.has_sizes and each.scheme == All() for each in declared),
                sizes=sizes,
                parents=declared[-1].units if declared else 1,
                has_sizes=hierarchy.tree is not None or level.is_equal,
                shown=shown,
                is_mixed=is_mixed,
                window=_draws_of_a_pass(scheme, level.count),
                lag=lag,
                limits=limits if scheme.spans_steps and scheme.is_whole else None,
                is_last=place + 1 == hierarchy.depth,
                place=partial(place_of, place + 1),
                first_step=first_step,
            )
        )
    return declared


def _draws_of_a_pass(scheme: Scheme, count: int) -> int:
    """Return how many draws of mean size take `count` units, rounded up to draws or cycles; `count` for size 0."""
    if scheme.is_shuffled:
        return scheme.steps_of_a_pass(count)
    if isinstance(scheme, CyclicPoisson):
        return scheme.groups * ceil(1 / scheme.probability) if scheme.probability else scheme.groups
    drawn = min(scheme.share(count) * count, Fraction(scheme.max_drawn(count)), Fraction(count))
    return ceil(count / drawn) if drawn else count


def _entry_probability(hierarchy: Hierarchy, schemes: Sequence[Scheme], place: int) -> float | None:
    """Return the probability that a drawn unit of a level, from 0, has an entry in the log; None if it varies."""
    if place + 1 == hierarchy.depth:
        return 1.0
    shown = _entry_probability(hierarchy, schemes, place + 1)
    if shown is None:
        return None
    level = hierarchy.levels[place]
    below = hierarchy.levels[place + 1]
    scheme = schemes[place + 1]
    # Of draws that show any unit. It varies where units choose their steps, and where passes, copies or cut batches
    # hold units without an entry.
    nonempty = set()
    for size in (below.min_count, below.count):
        number, rate = scheme.tried(size)
        if scheme.is_simple or ((scheme.is_whole or scheme.is_cut) and shown >= CERTAIN):
            nonempty.add(1 - (1 - float(rate) * shown) ** number)
        elif (scheme.can_repeat or scheme.is_shuffled) and shown >= CERTAIN:
            nonempty.add(1.0)
        else:  # how many units choose a step depends on the other steps
            return None
    if len(nonempty) > 1:
        return None
    return 1 - (1 - nonempty.pop()) ** (level.redraw_every // below.redraw_every)


# The results of `audit-sampler` and `audit`.


def audit_output(result: Audit, loaded: Loaded, log: str) -> Output:
    """Return the output of `audit-sampler`, of the log of this name: a verdict with findings, a row for each test."""
    verdict = "the log agrees with the declared sampling"
    if not result.agrees:
        verdict = f"the log contradicts the declared sampling: {'; '.join(map(visible, result.findings))}"
    tests, texts, rows = [], [], []
    for phase, name, test in result.tests:
        is_contradicted = test.contradicts(len(result.tests))
        tests.append(
            {
                "phase": phase,
                "level": name,
                "test": str(test.kind),
                "quantity": test.quantity,
                "expected": test.expected,
                "observed": test.observed,
                "p_value": math.exp(test.log_p_value),
                "agrees": not is_contradicted,
            }
        )
        level = f"{f'{visible(phase)}: ' if phase else ''}{visible(name)}"
        expected = f"{x_text(test.expected, 5)}{' (mean)' if test.kind in EXTREMES else ''}"
        logged = x_text(test.observed, 5)
        # Logarithms down to the end: a p-value of 1e-4000 would be 0 as a float, and 0 means impossible.
        p_value = "0"
        if test.log_p_value > math.log(0.01):
            p_value = f"<= {math.ceil(100 * math.exp(test.log_p_value)) / 100:g}"
        elif test.log_p_value > -math.inf:
            p_value = f"<= 1e{math.ceil(test.log_p_value / math.log(10))}"
        note = visible(test.sentence) if is_contradicted else ""
        rows.append((level, test.quantity, expected, logged, p_value, yes_no(not is_contradicted), note))
        end = f"; CONTRADICTED{f': {note}' if note else ''}" if is_contradicted else ""
        texts.append(f"{level}: {test.quantity}: expected {expected}, logged {logged}, p-value {p_value}{end}")
    summary = {
        "agrees": result.agrees,
        "findings": list(result.findings),
        "steps": result.steps,
        "entries": result.entries,
        "false_alarm": FALSE_ALARM,
    }
    return config_output(
        "audit-sampler",
        loaded,
        {"log": log, **summary, "tests": tests, "notes": list(result.notes)},
        lines=[*lines(summary), *(("tests", text) for text in texts)],
        table=Table(
            headline=f"{verdict}\n{counted(result.steps, 'step')}, {result.entries} entries; an honest log is "
            f"contradicted with probability <= {FALSE_ALARM:g}",
            columns=("level", "quantity", "expected", "logged", "p-value", "agrees", "note"),
            rows=tuple(rows),
        ),
    )


def score_output(result: ScoreAudit, loaded: Loaded, path: str) -> Output:
    """Return the output of `audit`: a verdict, p-values, and epsilon by the scores beside that of the config."""
    declared = epsilon_text(result.guarantee.epsilon, Kind.UPPER)
    verdict = "the scores agree with the config" if result.agrees else "the scores contradict the config"
    confidence = f"{1 - result.false_alarm:.12g}"  # 1 - 0.9 is 0.09999999999999998
    shown = f"at least {rounded_down(result.epsilon_lower)} by the scores (confidence {confidence})"
    rules, texts = [], []
    for rule, counts, p_value in result.tests:
        if isinstance(counts, Guesses):
            numbers = {"guesses": counts.guessed, "correct": counts.correct}
            words = f"{counts.correct:,} of {counts.guessed:,} guesses right"
        else:
            numbers = {
                "included": counts.included,
                "true_positives": counts.detected,
                "excluded": counts.excluded,
                "false_positives": counts.false,
            }
            words = (
                f"alarms in {counts.detected:,} of {counts.included:,} runs with the canary and in {counts.false:,} of "
                f"{counts.excluded:,} without"
            )
        rules.append({"rule": rule, **numbers, "p_value": p_value})
        texts.append(f"{rule}: {words}, p-value {_bound_text(p_value)}")
    summary: Json = {
        "agrees": result.agrees,
        "test": "many runs" if result.has_many_runs else "one run",
        "canaries": result.canaries,
        "included": result.included,
        "rules": rules,
        "p_value": result.p_value,
        "false_alarm": result.false_alarm,
        "epsilon_lower": result.epsilon_lower,
        "confidence": float(confidence),
        "epsilon": result.guarantee.epsilon,
        "delta": result.guarantee.delta,
        **unit_json(loaded.plan),
        "assumptions": list(result.assumptions),
    }
    facts = lines({**summary, "rules": texts}, p_value=_bound_text, epsilon_lower=rounded_down, epsilon=rounded_up)
    roc = [
        {"false_positive_rate": false, "true_positive_rate": true, "certified": certified}
        for false, true, certified in result.roc
    ]
    return config_output(
        "audit",
        loaded,
        {"scores": path, **summary, "roc": roc, "notes": list(result.notes)},
        headline=f"{verdict}: p-value {_bound_text(result.p_value)}",
        lines=facts,
        rows=[
            ("run", visible(loaded.plan.name)),
            ("test", str(summary["test"])),
            ("canaries", f"{result.canaries:,}, of which {result.included:,} were in"),
            *(("rule", text) for text in texts),
            (
                "false alarm",
                f"an honest run is contradicted with probability <= {as_given(result.false_alarm)}",
            ),
            ("epsilon", f"{shown}; at most {declared} by the config; delta {as_given(result.guarantee.delta)}"),
            *assumes_rows(result.assumptions),
        ],
    )


def _bound_text(value: float) -> str:
    return f"<= {rounded_up(value, digits=2)}"


def score_chart(result: ScoreAudit, loaded: Loaded) -> Chart:
    rates, detected, certified = zip(*result.roc, strict=True)
    name = "scores of the runs" if result.has_many_runs else "scores of the canaries"
    return Chart(
        title="true over false positive rate of the scores, and its certified bound",
        subtitle=f"{loaded.plan.name or loaded.path}: {shared_facts((loaded.plan,), without=('delta',))}",
        x=Axis(name="false_positive_rate", scale=LOG, title="false positive rate"),
        y=Axis(name="true_positive_rate", scale=LOG, title="true positive rate"),
        series=(
            Series(name="certified", kind=loaded.plan.bound_kind, xs=rates, ys=certified),
            Series(name=name, kind=Kind.ESTIMATE, xs=rates, ys=detected),
            Series(name="guessing", kind=Kind.LOWER, xs=rates, ys=rates, is_reference=True),
        ),
    )
