"""Diagnosis of a loader: the sentence that says what it does in place of the declared scheme."""

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from dpcalc.arrays import IntArray
from dpcalc.audit.draws import LoggedLevel
from dpcalc.audit.p_values import Kind, Statistic
from dpcalc.audit.subsets import all_draws, window_counts
from dpcalc.sampling.schemes import (
    BallsInBins,
    CappedPoisson,
    Fixed,
    Poisson,
    RandomAllocation,
    Shuffle,
    WithReplacement,
)

_MIN_EXPECTED = 20  # expected events whose absence is a pattern: e^-20 by chance
_MIN_DEVIATIONS = 5.0  # standard deviations from which a mean is another one
_EXCEPTIONS = 0.05  # share of the expected events up to which they are exceptions, as a shuffle buffer has them
_MAJORITY = 0.5  # share of draws from which a pattern is that of the loader

Contradicted = Mapping[Kind, Statistic]


def diagnosis(logged: LoggedLevel, contradicted: Sequence[Statistic]) -> str:
    """Return a sentence on the first pattern of a loader that fits the log, else on its least likely test.

    Args:
        logged: the level.
        contradicted: the tests that the log contradicts, at least one.
    """
    # Only contradicted tests count: a pattern that chance can explain accuses nobody.
    by_kind = {test.kind: test for test in contradicted}
    for pattern in _PATTERNS:
        sentence = pattern(logged, by_kind)
        if sentence:
            return sentence
    test = min(contradicted, key=lambda test: test.log_p_value)
    return test.sentence or f"{test.quantity}: expected about {test.expected:,.6g}, got {test.observed:,.6g}"


def _every_entry_repeated(logged: LoggedLevel, by_kind: Contradicted) -> str:
    """Return the sentence on a log in which each unit stands equally often, twice or more, in its batch; else ""."""
    counts, name = logged.counts, logged.level.name
    if Kind.REPEATS not in by_kind or counts.fewest_entries != counts.most_entries or not counts.repeats.number:
        return ""
    times = counts.most_entries
    return f"each {name} of a batch stands {times} times in it: do {times} workers draw with the same seed?"


def _repeated_entries(logged: LoggedLevel, by_kind: Contradicted) -> str:
    """Return the sentence on undeclared repeats within a step, with replacement if they are many; else ""."""
    counts, level = logged.counts, logged.level
    if Kind.REPEATS not in by_kind or not counts.repeats.number or isinstance(level.scheme, WithReplacement):
        return ""
    draws = logged.draws
    # Pairs of equal units among draws with replacement; far fewer repeats are accidents, of merged workers for example.
    by_chance = float((draws.sizes * (draws.sizes - 1) / (2 * draws.frames)).sum())
    scheme = f"`{level.scheme.name}`"
    name = (
        f"this is `with-replacement`, not {scheme}"
        if counts.repeats.number > by_chance / 4
        else f"{scheme} excludes that"
    )
    where = f"(first {logged.first_place(counts.repeats)})"
    return f"{counts.repeats.number:,} times one {level.name} stands several times in a batch {where}: {name}"


def _undeclared_passes(logged: LoggedLevel, by_kind: Contradicted) -> str:
    """Return the sentence on undeclared passes, shuffled or, if sizes differ, balls-in-bins; else ""."""
    level = logged.level
    if Kind.PASSES not in by_kind or isinstance(level.scheme, Shuffle | BallsInBins) or not _has_passes(logged):
        return ""
    name = "shuffle" if _usual_share(logged.draws.sizes) > _MAJORITY else "balls-in-bins"
    return (
        f"each {level.name} once per pass of about {level.window} batches: this is `{name}`, not `{level.scheme.name}`"
    )


def _has_passes(logged: LoggedLevel) -> bool:
    """Return True if units are drawn a third time within a pass much more rarely than chance would have it."""
    # A window as long as a pass meets at most two passes, wherever it begins: no unit is in it three times.
    counts = window_counts(logged)
    return (
        bool(counts)
        and counts[-1].expected >= _MIN_EXPECTED
        and counts[-1].observed <= _EXCEPTIONS * counts[-1].expected
    )


def _bins_in_place_of_shuffle(logged: LoggedLevel, by_kind: Contradicted) -> str:
    """Return the sentence on a declared shuffle whose batches differ in size, as in balls-in-bins; else ""."""
    sizes = logged.draws.sizes
    is_shuffle = isinstance(logged.level.scheme, Shuffle) and Kind.SIZES in by_kind and _has_passes(logged)
    if not is_shuffle or _usual_share(sizes) >= _MAJORITY:
        return ""
    units = f"{sizes.min()} to {sizes.max()} units of level {logged.level.name}"
    return f"batches hold {units}: this is `balls-in-bins`, not `shuffle`"


def _other_drop_last(logged: LoggedLevel, by_kind: Contradicted) -> str:
    """Return the sentence on a declared shuffle whose batches fit the other value of `drop_last`; else ""."""
    scheme = logged.level.scheme
    if not isinstance(scheme, Shuffle) or Kind.SIZES not in by_kind or not _has_passes(logged):
        return ""
    is_full = bool(np.all(logged.draws.sizes == scheme.size))
    if is_full and not scheme.drop_last:
        return "no batch is smaller than the others: the loader leaves out the end of a pass, `drop_last: true`"
    if not is_full and scheme.drop_last:
        return "some batches are smaller: the loader keeps the end of a pass, `drop_last: false`"
    return ""


def _fresh_assignment(logged: LoggedLevel, by_kind: Contradicted) -> str:
    """Return the sentence on bins declared `held` of which a unit has moved to another step; else ""."""
    where = logged.first_place(logged.counts.moved)
    if not isinstance(logged.level.scheme, BallsInBins) or Kind.HELD not in by_kind or not where:
        return ""
    return f"{where} is at another step than in the pass before: this is `assignment: fresh`, not `held`"


def _held_assignment(logged: LoggedLevel, by_kind: Contradicted) -> str:
    """Return the sentence on bins declared `fresh` of which at least half of the units stay; else ""."""
    level, scheme = logged.level, logged.level.scheme
    if not isinstance(scheme, BallsInBins) or Kind.OVERLAP not in by_kind:
        return ""
    again = logged.draws.sizes[logged.draws.numbers < level.times - scheme.bins].sum()
    if logged.draws.repeated.sum() < _MAJORITY * again:
        return ""
    return f"units of level {level.name} are at the same step of every pass: this is `assignment: held`, not `fresh`"


def _no_passes(logged: LoggedLevel, by_kind: Contradicted) -> str:
    """Return the sentence on declared passes that repeat units, fixed or, if sizes differ, poisson; else ""."""
    level = logged.level
    if not isinstance(level.scheme, Shuffle | BallsInBins) or Kind.PASSES not in by_kind:
        return ""
    repeats = (
        f"{logged.counts.by_occurrence[2]:,} times one {level.name} repeats within a pass of {level.window} batches"
    )
    name = "fixed" if _usual_share(logged.draws.sizes) > _MAJORITY else "poisson"
    return f"{repeats}: this is `{name}`, not `{level.scheme.name}`"


def _redraws_within_a_period(logged: LoggedLevel, by_kind: Contradicted) -> str:
    """Return the sentence on a unit that is not in all steps of its redraw period; else ""."""
    where, period = logged.first_place(logged.counts.unheld), logged.level.period
    if Kind.HELD not in by_kind or not where:
        return ""
    return f"{where} is not in all steps of its redraw period: the loader draws again within `redraw_every: {period}`"


def _held_draws(logged: LoggedLevel, by_kind: Contradicted) -> str:
    """Return the sentence on draws of which at least half repeat the draw before; else ""."""
    level, draws = logged.level, logged.draws
    has_previous = draws.previous > 0
    same = has_previous & (draws.repeated == draws.sizes) & (draws.sizes == draws.previous)
    share = float(same.sum() / max(int(has_previous.sum()), 1))
    if Kind.OVERLAP not in by_kind or share < _MAJORITY:
        return ""
    duration = "for the whole run" if share == 1 else f"for about {level.period / (1 - share):.0f} steps"
    return (
        f"{100 * share:.3g}% of draws take the same units of level {level.name} as the draw before: the loader holds "
        f"a draw {duration}, see `redraw_every`"
    )


def _constant_sizes(logged: LoggedLevel, by_kind: Contradicted) -> str:
    """Return the sentence on draws that are all of one size where the declared scheme varies it; else ""."""
    level, sizes = logged.level, logged.draws.sizes
    if not _has_wrong_sizes(logged, by_kind) or sizes.min() != sizes.max():
        return ""
    match level.scheme:
        case BallsInBins():
            name = "shuffle"
        case Poisson() | CappedPoisson() | RandomAllocation():
            name = "fixed"
        case _:
            return ""
    batch = f"every batch holds exactly {sizes.max()} units of level {level.name}"
    return f"{batch}: this is `{name}`, not `{level.scheme.name}`"


def _other_fixed_size(logged: LoggedLevel, by_kind: Contradicted) -> str:
    """Return the sentence on `fixed` draws whose sizes differ, or all differ from the declared one; else ""."""
    level, sizes = logged.level, logged.draws.sizes
    if not isinstance(level.scheme, Fixed) or not _has_wrong_sizes(logged, by_kind):
        return ""
    low, high = int(sizes.min()), int(sizes.max())
    if _usual_share(sizes) < _MAJORITY:
        return f"batches hold {low} to {high} units of level {level.name}: this is `poisson`, not `fixed`"
    if low == high:
        return f"every batch holds {high} units of level {level.name}, not the declared {level.scheme.size}"
    return ""


def _has_wrong_sizes(logged: LoggedLevel, by_kind: Contradicted) -> bool:
    """Return True if the log has draws, and their sizes or the units drawn in all are contradicted."""
    return bool(by_kind.keys() & {Kind.SIZES, Kind.TOTAL}) and logged.draws.sizes.size > 0


def _above_maximum(logged: LoggedLevel, by_kind: Contradicted) -> str:
    """Return the sentence on capped Poisson batches that hold more than the declared maximum; else ""."""
    level, sizes = logged.level, logged.draws.sizes
    if not isinstance(level.scheme, CappedPoisson) or not by_kind.keys() & {Kind.SIZES, Kind.LARGEST}:
        return ""
    high, declared = int(sizes.max(initial=0)), level.scheme.max_batch_size
    if high <= declared:
        return ""
    return f"batches hold up to {high} units of level {level.name}, more than `max_batch_size: {declared}`"


def _undeclared_maximum(logged: LoggedLevel, by_kind: Contradicted) -> str:
    """Return the sentence on Poisson batches that pile up at a size below any declared maximum; else ""."""
    level, sizes = logged.level, logged.draws.sizes
    if not isinstance(level.scheme, Poisson | CappedPoisson) or not by_kind.keys() & {Kind.SIZES, Kind.LARGEST}:
        return ""
    high = int(sizes.max(initial=0))
    top, below = int((sizes == high).sum()), int((sizes == high - 1).sum())
    declared = level.scheme.max_batch_size if isinstance(level.scheme, CappedPoisson) else math.inf
    # A law without a maximum has ever fewer draws of ever larger sizes: four times as many at the end are a pile.
    if high >= declared or top < _MIN_EXPECTED or top <= 4 * below:
        return ""
    return f"{top:,} batches hold {high} units of level {level.name} and none holds more: they are cut to a maximum"


def _other_rate(logged: LoggedLevel, by_kind: Contradicted) -> str:
    """Return the sentence on Poisson draws whose mean size is 5 deviations from the declared one; else ""."""
    level, draws = logged.level, logged.draws
    if not isinstance(level.scheme, Poisson) or not by_kind.keys() & {Kind.TOTAL, Kind.SIZES} or not draws.sizes.size:
        return ""
    _, sizes, number = all_draws(logged)
    total = float((sizes * number).sum())
    expected = _expected_total(logged, float(level.scheme.probability) * (level.shown or 1.0))
    if abs(total - expected) < _MIN_DEVIATIONS * np.sqrt(expected):
        return ""
    mean, declared = total / number.sum(), expected / number.sum()
    return (
        f"a batch holds {mean:.5g} units of level {level.name} on average, and {declared:.5g} are declared "
        f"({100 * (mean / declared - 1):+.3g}%)"
    )


def _expected_total(logged: LoggedLevel, rate: float) -> float:
    """Return the expected number of units that all Poisson draws show, given that none is empty unless `is_every`."""
    frames, _, number = all_draws(logged)
    if logged.level.is_every:
        return float((frames * number).sum()) * rate
    with np.errstate(divide="ignore"):  # log(0) = -inf for rate 1 leaves the probability of a nonempty draw at 1
        nonempty = -np.expm1(frames * np.log1p(-rate))
    return float((frames * rate / np.maximum(nonempty, rate) * number).sum())


def _never_drawn(logged: LoggedLevel, by_kind: Contradicted) -> str:
    """Return the sentence on units that are never drawn, if they are far more than by chance; else ""."""
    level, counts = logged.level, logged.counts.counts
    never = np.flatnonzero(counts == 0)
    mean = float(counts.mean()) if counts.size else 0.0
    if not by_kind.keys() & {Kind.SPREAD, Kind.RAREST} or never.size <= _MIN_EXPECTED + 2 * counts.size * np.exp(-mean):
        return ""
    return f"{never.size:,} units of level {level.name} are never drawn, first {logged.place(-1, int(never[0]))}"


def _neighbours(logged: LoggedLevel, by_kind: Contradicted) -> str:
    """Return the sentence on neighbouring units that are drawn together too often or too rarely; else ""."""
    if Kind.NEIGHBOURS not in by_kind:
        return ""
    units = f"neighbouring units of level {logged.level.name}"
    return f"{units} come together more or less often than by chance: are batches cut from blocks?"


def _repeated_groups(logged: LoggedLevel, by_kind: Contradicted) -> str:
    """Return the sentence on draws that share too many units with the draw before; else ""."""
    if Kind.JOINT not in by_kind or by_kind[Kind.JOINT].observed <= by_kind[Kind.JOINT].expected:
        return ""
    units = f"the same units of level {logged.level.name}"
    return f"{units} come together again and again: do several workers draw with the same seed?"


def _usual_share(sizes: IntArray) -> float:
    """Return the share of draws that have the commonest size; 1 without draws."""
    return float(np.bincount(sizes).max() / sizes.size) if sizes.size else 1.0


# In the order of how much a pattern explains: entries that all stand twice, for example, make sizes and passes wrong
# too, and the reader should hear of the cause.
_PATTERNS: tuple[Callable[[LoggedLevel, Contradicted], str], ...] = (
    _every_entry_repeated,
    _fresh_assignment,
    _held_assignment,
    _redraws_within_a_period,
    _held_draws,
    _undeclared_passes,
    _bins_in_place_of_shuffle,
    _other_drop_last,
    _no_passes,
    _repeated_entries,
    _never_drawn,
    _neighbours,
    _repeated_groups,
    _constant_sizes,
    _other_fixed_size,
    _above_maximum,
    _undeclared_maximum,
    _other_rate,
)
