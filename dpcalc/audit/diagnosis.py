"""Diagnosis of a loader: the sentence that says what it does in place of the declared scheme.

Only contradicted tests count: a pattern that chance can explain accuses nobody. Another scheme is named where the log
has its sizes and its repeats, and not because the declared one is wrong.
"""

import math
from collections.abc import Sequence

import numpy as np

from dpcalc.arrays import IntArray
from dpcalc.audit.draws import LoggedLevel
from dpcalc.audit.laws import all_draws, window_counts
from dpcalc.audit.p_values import Kind, Statistic
from dpcalc.sampling.schemes import BallsInBins, SummedPoisson

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
    are_sizes_wrong = bool(kinds & {Kind.SIZES, Kind.TOTAL}) and sizes.size > 0
    hint = _parts_of_a_step(level) if are_sizes_wrong else ""

    if Kind.REPEATS in kinds and level.repeats.number and level.fewest_entries == level.most_entries:
        times = level.most_entries
        return f"each {name} of a batch stands {times} times in it: do {times} workers draw with the same seed?"

    if isinstance(scheme, BallsInBins):
        moved = level.first_place(level.moved)
        if Kind.HELD in kinds and moved:
            return f"{moved} is at another step than in the pass before: this is `assignment: fresh`, not `held`"
        again = sizes[draws.numbers < level.times - scheme.bins].sum()
        if Kind.OVERLAP in kinds and draws.repeated.sum() >= _MAJORITY * again:
            return f"{units} are at the same step of every pass: this is `assignment: held`, not `fresh`"

    unheld = level.first_place(level.unheld)
    if Kind.HELD in kinds and unheld:
        loader = f"the loader draws again within `redraw_every: {level.period}`"
        return f"{unheld} is not in all steps of its redraw period: {loader}"
    has_previous = draws.previous > 0
    same = has_previous & (draws.repeated == sizes) & (sizes == draws.previous)
    share = float(same.sum() / max(int(has_previous.sum()), 1))
    if Kind.OVERLAP in kinds and share >= _MAJORITY:
        duration = "for the whole run" if share == 1 else f"for about {level.period / (1 - share):.0f} steps"
        return (
            f"{100 * share:.3g}% of draws take the same {units} as the draw before: the loader holds a draw "
            f"{duration}, see `redraw_every`"
        )

    # A window as long as a pass meets at most two passes, wherever it begins: no unit is in it three times.
    windows = window_counts(level)
    third = windows[-1] if windows else None
    has_passes = third and third.expected >= _MIN_EXPECTED and third.observed <= _EXCEPTIONS * third.expected
    if Kind.PASSES in kinds and has_passes and not (scheme.is_shuffled or isinstance(scheme, BallsInBins)):
        batches = round(float(draws.frames.mean()) / (float(sizes.sum()) / level.number_of_draws))
        is_named = "shuffle" if usual > _MAJORITY else "balls-in-bins" if varies else ""
        verdict = f"this is `{is_named}`, not {declared}" if is_named else f"{declared} excludes that"
        return f"each {name} once per pass of about {batches} batches: {verdict}{hint}"
    if scheme.is_shuffled and Kind.SIZES in kinds and has_passes:
        if usual < _MAJORITY and varies:
            return f"batches hold {low} to {high} {units}: this is `balls-in-bins`, not `shuffle`"
        if low == high == scheme.size and not scheme.drop_last:
            return "no batch is smaller than the others: the loader leaves out the end of a pass, `drop_last: true`"
        if low < high == scheme.size and usual >= _MAJORITY and scheme.drop_last:
            return "some batches are smaller: the loader keeps the end of a pass, `drop_last: false`"
    if Kind.PASSES in kinds and (scheme.is_shuffled or isinstance(scheme, BallsInBins)):
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

    if Kind.REPEATS in kinds and level.repeats.number and not scheme.can_repeat:
        where = f"(first {level.first_place(level.repeats)})"
        repeats = f"{level.repeats.number:,} times one {name} stands several times in a batch {where}"
        return f"{repeats}: {_repeats_within_steps(level)}"

    never = np.flatnonzero(counts == 0)
    mean = float(counts.mean())
    by_chance = counts.size * math.exp(-mean)
    if kinds & {Kind.SPREAD, Kind.RAREST} and never.size > _MIN_EXPECTED + 2 * by_chance:
        return f"{never.size:,} {units} are never drawn, first {level.place(-1, int(never[0]))}"
    of_independent = _pairs_and_repeats(level)
    is_pair_explained, is_repeat_explained = (
        abs(observed - expected) <= _MIN_DEVIATIONS * math.sqrt(expected)
        for observed, expected in zip((draws.pairs.sum(), draws.repeated.sum()), of_independent, strict=True)
    )
    doubt = _MIN_DEVIATIONS * math.sqrt((2 + 1 / mean) / counts.size) if mean else math.inf
    is_unequal = float(np.var(counts)) > mean * (1 + doubt)
    if kinds & {Kind.NEIGHBOURS, Kind.JOINT} and is_unequal and is_pair_explained and is_repeat_explained:
        unit = int(counts.argmax())
        often = f"{level.place(-1, unit)} is drawn {counts[unit]:,} times, the mean is {mean:,.1f}"
        return f"{units} are drawn with unequal probabilities, {often}: are they weighted?"
    if Kind.NEIGHBOURS in kinds and not is_pair_explained:
        return f"neighbouring {units} come together more or less often than by chance: are batches cut from blocks?"
    if any(test.kind is Kind.JOINT and test.observed > test.expected for test in contradicted):
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
    if is_poisson and kinds & {Kind.SIZES, Kind.LARGEST}:
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
