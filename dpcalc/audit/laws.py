"""The statistics by which the logged draws of one level are tested, for each scheme; laws of sizes.

Every tested statistic is certain, or a count of events that are independent or negatively associated under the declared
law, given the sizes of draws where it says so. Source: docs/theory.md, Theorem 17.2 and Theorem 17.3.
"""

import math
from collections.abc import Callable, Iterator
from copy import copy
from dataclasses import replace

import numpy as np
from scipy.special import gammaln, logsumexp
from scipy.stats import binom, hypergeom

from dpcalc.arrays import Array, IntArray
from dpcalc.audit.draws import CERTAIN, MAX_UNITS, OCCURRENCES, LoggedLevel
from dpcalc.audit.p_values import Count, Kind, Statistic, certain_test, count_test, log_tail
from dpcalc.errors import UnsupportedError
from dpcalc.sampling.schemes import BallsInBins, CyclicPoisson, RandomAllocation, SummedPoisson

_TAILS = [each for tail in (0.5, 0.2, 0.1, 0.05, 0.02, 0.01, 1e-3) for each in (tail, 1 - tail)]
"""Where a distribution is compared: another tail costs nothing, and below 1e-3 there are too few events."""
_JOINT_TAILS = (0.1, 1e-2, 1e-4)  # of the overlap of two draws
_MAX_OVERLAPS = 4096  # pairs of draws whose distribution is computed, .1 to 1 ms each; spread evenly over the log
_MAX_PARTS = 64  # of a frame whose indices are compared; of smaller frames every place
_UNITS_AT_ONCE = 1_000_000


def statistics_of(level: LoggedLevel) -> Iterator[Statistic]:
    """Yield the tests of one level, chosen by its declared scheme; UnsupportedError if that cannot be tested."""
    # Tests are chosen by the declaration: were they chosen by the log, their number, among which the false alarm is
    # shared, would depend on chance, and honest logs would be contradicted more often than promised.
    scheme = level.scheme
    if level.period > 1 and level.is_shown:
        first = level.first_place(level.unheld)
        sentence = f"{first} is not in all {level.period} steps of its redraw period"
        yield certain_test(Kind.HELD, "changes within a redraw period", int(first != ""), sentence)
    if level.is_last and not level.is_mixed and not (scheme.can_repeat or scheme.is_summed):
        sentence = f"{level.first_place(level.repeats)} stands {level.first_repeat} times in its batch"
        yield certain_test(Kind.REPEATS, "repeats within a step", level.repeats.number, sentence)
    # A schedule that draws belong to is tested as such; else each draw by itself.
    if isinstance(scheme, CyclicPoisson):  # units keep their groups, then `max_batch_size` or else the rate
        sizes = level.draws.sizes
        cycles = level.times // scheme.groups
        yield _moved_test(level, f"is drawn in steps of several of the {scheme.groups} groups")
        if scheme.max_batch_size is not None:
            # How often a batch is cut depends on the sizes of groups, which the log does not tell.
            above = int((sizes > scheme.max_batch_size).sum())
            sentence = f"{above:,} draws hold more than `max_batch_size: {scheme.max_batch_size}`"
            yield certain_test(Kind.LARGEST, "draws of more than max_batch_size", above, sentence)
        elif level.has_known_law and cycles:
            # Each unit is drawn in each cycle with one probability, whatever its group.
            every = level.units * cycles
            rate = float(scheme.probability) * (level.shown or 0.0)
            yield count_test(Kind.TOTAL, "units drawn in all", Count(int(sizes.sum()), every * rate, every))
            yield _spread_test(level, cycles)
            window = level.window // scheme.groups
            yield _repeats_in_windows_test(level, cycles, window, lambda number, of: binom.sf(number - 1, of, rate))
    elif scheme.spans_steps:
        limits = level.limits
        counts = level.counts
        close = level.close
        if limits is not None:  # each unit keeps to its number of steps, separation and epochs
            most = limits.times(level.times)
            unit = int(counts.argmax())
            sentence = f"{level.place(-1, unit)} is in {counts[unit]} steps, at most {most} are declared"
            yield certain_test(Kind.SPREAD, "units in more steps than declared", int((counts > most).sum()), sentence)
            sentence = f"{level.first_place(close)} is fewer than {limits.separation} steps after its step before"
            yield certain_test(Kind.SEPARATION, "draws too soon after the one before", close.number, sentence)
            if limits.fixed_epochs:
                yield _moved_test(level, "is not at its place of the epoch before")
    elif isinstance(scheme, BallsInBins):
        yield from _balls_in_bins_tests(level, scheme)
    elif isinstance(scheme, RandomAllocation):
        yield from _random_allocation_tests(level, scheme.times)
    elif scheme.is_shuffled:
        yield _no_repeats_in_a_pass_test(level)
        if level.is_shown:
            # The last batch of a pass holds what is left of the frame, unless `drop_last` leaves it out.
            left = level.draws.frames - (level.draws.numbers % level.window) * scheme.size
            missing = level.number_of_draws - level.draws.sizes.size
            yield _wrong_size_test(level, np.minimum(left, scheme.size), missing)
            if scheme.is_secret:
                yield from _order_tests(level)
    elif scheme.is_whole:
        yield from _size_tests(level)
    elif scheme.can_repeat:
        if level.is_last and not level.is_mixed:
            draws = level.number_of_draws
            sentence = f"expected {scheme.size} units of level {level.name} in each draw, repetitions included, "
            sentence += f"got {level.entries / max(draws, 1):.5g} on average"
            quantity = "units drawn in all, repetitions included"
            yield certain_test(Kind.TOTAL, quantity, level.entries, sentence, draws * scheme.size)
            if level.has_sizes:
                # Each unit of a frame is hit Binomial(size, 1 / frame) times; a repeat is hit twice or more.
                frames, _, number = all_draws(level)
                expected = float((binom.sf(1, scheme.size, 1 / frames) * frames * number).sum())
                repeats = Count(level.repeats.number, expected, float((frames * number).sum()))
                yield count_test(Kind.REPEATS, "units repeated within a draw", repeats)
        yield from _subset_tests(level)
    elif scheme.has_stand_in or scheme.is_independent or scheme.is_cut or isinstance(scheme, SummedPoisson):
        # Of a sum each unit is counted by itself, so that all its counts are sums of independent ones.
        is_certain = level.is_last and not level.is_mixed and level.has_sizes and level.is_every
        if isinstance(scheme, SummedPoisson) and is_certain:
            frames, _, number = all_draws(level)
            offered = float((frames * number).sum())
            several = float(binom.sf(1, scheme.draws, float(scheme.probability)))
            repeats = Count(level.repeats.number, several * offered, offered)
            yield count_test(Kind.REPEATS, "units repeated within a step", repeats)
        yield from _size_tests(level)
        yield from _subset_tests(level)
    else:
        raise UnsupportedError(f"audit-sampler: expected another scheme than {scheme.name}, which it cannot test")


# Sizes of draws.


def _size_tests(level: LoggedLevel) -> Iterator[Statistic]:
    """Yield tests of the sizes of draws from whole frames, or of a fixed size; none if the log hides them."""
    scheme = level.scheme
    needs_frame = scheme.at_most or not scheme.has_stand_in
    if level.shown is None or (needs_frame and not level.has_sizes):
        return
    # Of a batch that was cut, the log must show all units: those that are cut off are not known.
    if scheme.is_cut and not level.is_shown:
        return
    shown = level.shown  # chance of a unit that is tried: to be drawn, and to have entries
    if not (scheme.has_stand_in or scheme.is_whole):
        shown *= float(scheme.probability if scheme.is_cut else scheme.rate(1))
    most = scheme.limit or MAX_UNITS
    frames, sizes, number = all_draws(level)
    if shown >= CERTAIN and not scheme.is_cut:
        yield _wrong_size_test(level, np.minimum(level.draws.frames, most), int(number[sizes == 0].sum()))
        return
    tried = frames if scheme.is_cut else np.minimum(frames, most)
    draws = float(number.sum())
    if level.is_every and not scheme.is_cut:
        every = float((tried * number).sum())
        total = Count(float((sizes * number).sum()), every * shown, every)
        yield count_test(Kind.TOTAL, "units drawn in all", total)

    # The number that the log shows of one draw is binomial, some trials a frame, and cut to a maximum. Where only draws
    # with entries are in the log, its law is conditioned on one unit.
    def upper_tail(size: IntArray) -> Array:
        above = binom.sf(size - 1, tried, shown)
        if not level.is_every:
            above = np.where(size <= 1, 1.0, above / binom.sf(0, tried, shown))
        return np.where(size > most, 0.0, above)

    def lower_tail(size: IntArray) -> Array:
        below = binom.cdf(size, tried, shown)
        if not level.is_every:
            empty = binom.pmf(0, tried, shown)
            below = (below - empty) / (1 - empty)
        return np.where(size >= most, 1.0, below)

    reached = []
    for tail in _TAILS:
        threshold = binom.isf(tail, tried, shown).astype(np.int64) + 1
        expected = float((upper_tail(threshold) * number).sum())
        reached.append(Count(float(number[sizes >= threshold].sum()), expected, draws))
    yield count_test(Kind.SIZES, "draws by size", *reached)
    for kind, tail_of in ((Kind.LARGEST, upper_tail), (Kind.SMALLEST, lower_tail)):
        if not sizes.size:
            yield count_test(kind, f"{kind} draw")
            continue
        chance = tail_of(sizes)
        place = int(np.argmin(chance))
        value = draws * float(chance[place])  # union bound over all draws
        log_p_value = min(0.0, math.log(value)) if value > 0 else -math.inf
        yield Statistic(kind, f"{kind} draw", float(sizes[place]), float(tried[place] * shown), log_p_value)


def _wrong_size_test(level: LoggedLevel, expected: IntArray, missing: int) -> Statistic:
    """Return the certain test that no draw has another size than expected, and that none is missing."""
    draws = level.draws
    wrong = np.flatnonzero(draws.sizes != expected)
    sentence = ""
    if wrong.size:
        at = int(wrong[np.argmin(draws.times[wrong])])
        step = level.first_step + int(draws.times[at]) * level.period
        sentence = f"step {step}: expected {expected[at]} units of level {level.name}, got {draws.sizes[at]}"
    elif missing:
        sentence = f"{missing:,} draws of level {level.name} are empty"
    return certain_test(Kind.SIZES, "draws of another size than declared", wrong.size + missing, sentence)


def all_draws(level: LoggedLevel) -> tuple[IntArray, IntArray, IntArray]:
    """Return (size of the frame, units that the log shows of a draw from it, number of such draws), shape (n,) each.

    Empty draws are among them where every parent draws at every time.
    """
    draws = level.draws
    scale = int(draws.sizes.max(initial=0)) + 1
    keys, number = np.unique(draws.frames * scale + draws.sizes, return_counts=True)
    shown = keys // scale, keys % scale, number
    if not level.is_every:
        return shown
    frames, parents = level.frames
    nonempty = np.array([number[shown[0] == frame].sum() for frame in frames])
    empty = frames, np.zeros_like(frames), parents * level.times - nonempty
    sizes, drawn, times = (np.concatenate(columns) for columns in zip(shown, empty, strict=True))
    return sizes[times > 0], drawn[times > 0], times[times > 0]


# Draws that are independent of each other and, given their size, uniform.


def _subset_tests(level: LoggedLevel) -> Iterator[Statistic]:
    """Yield tests of which units are drawn, given the sizes of draws; none without a known law."""
    draws = level.draws
    counts = level.counts
    if not level.has_known_law:
        return
    frames = draws.frames.astype(float)

    # Given the sizes of two draws, their overlap is hypergeometric; it can be no larger than the smaller of them.
    overlap = Count(
        int(draws.repeated[draws.previous > 0].sum()),
        float((draws.sizes * (draws.previous / frames)).sum()),
        float(np.minimum(draws.sizes, draws.previous).sum()),
    )
    yield count_test(Kind.OVERLAP, "units that the previous draw has too", overlap)

    # Two units that come together more often than by chance, such as those of two workers with the same seed, leave the
    # mean overlap of two draws as it is and widen its distribution.
    places = np.flatnonzero(draws.previous > 0)
    places = places[:: max(1, -(-places.size // _MAX_OVERLAPS))]
    columns = [draws.frames[places], draws.previous[places], draws.sizes[places]]
    kinds, kind = np.unique(np.column_stack(columns), axis=0, return_inverse=True)
    kind = kind.reshape(-1)
    joint = []
    for tail in _JOINT_TAILS:
        threshold = binom.isf(tail, kinds[:, 1], kinds[:, 2] / kinds[:, 0]).astype(np.int64) + 1
        chance = hypergeom.sf(threshold - 1, kinds[:, 0], kinds[:, 1], kinds[:, 2])
        many = int((draws.repeated[places] >= threshold[kind]).sum())
        joint.append(Count(many, float(np.nansum(chance[kind])), places.size))
    yield count_test(Kind.JOINT, "draws with many units of the previous one", *joint)

    pairs = draws.frames // 2
    together = pairs * (draws.sizes * (draws.sizes - 1.0)) / np.maximum(frames * (frames - 1), 1.0)
    yield _neighbours_test(level, expected=float(together.sum()), trials=float(pairs.sum()))
    yield count_test(Kind.PASSES, f"units repeated within a pass of {level.window} draws", *window_counts(level))

    # The units drawn furthest above and below their means, given sizes, by a union bound over units.
    trials = np.bincount(draws.parents, minlength=level.parents).astype(float)
    mean = np.bincount(draws.parents, weights=draws.sizes / draws.frames, minlength=level.parents).astype(float)
    extremes = dict.fromkeys((Kind.OFTENEST, Kind.RAREST), (0.0, 0))  # (log tail, unit)
    for begin in range(0, counts.size, _UNITS_AT_ONCE):
        observed = counts[begin : begin + _UNITS_AT_ONCE].astype(float)
        parents = level.parents_of(np.arange(begin, begin + observed.size))
        expected = np.minimum(mean, trials)[parents]
        tried = trials[parents]
        # `log_tail` of many counts at once, which loses digits where trials are many.
        failures = tried - observed
        with np.errstate(divide="ignore", invalid="ignore"):
            exponent = np.where(observed > 0, observed * np.log(observed / expected), 0.0)
            exponent += np.where(failures > 0, failures * np.log(failures / (tried - expected)), 0.0)
        for side in extremes:
            is_on_side = observed > expected if side is Kind.OFTENEST else observed < expected
            tails = np.where(is_on_side, -exponent, 0.0)
            place = int(np.argmin(tails))
            if tails[place] < extremes[side][0]:
                extremes[side] = float(tails[place]), begin + place
    for side, (tail, unit) in extremes.items():
        parent = int(level.parents_of(np.array([unit]))[0])
        # The one that counts is computed again, with all digits.
        count = Count(float(counts[unit]), float(mean[parent]), float(trials[parent]))
        quantity = f"draws of the unit drawn {'most' if side is Kind.OFTENEST else 'least'} often"
        log_p_value = min(0.0, log_tail(count) + math.log(level.units)) if tail < 0 else 0.0
        sentence = f"{level.place(-1, unit)} is drawn {int(counts[unit]):,} times, expected {mean[parent]:,.1f}"
        yield Statistic(side, quantity, count.observed, count.expected, log_p_value, sentence)
    if level.is_every and not level.scheme.is_cut:  # units of a cut draw depend on each other before its size is known
        yield _spread_test(level, level.times)

    # A loader that never reaches some part of each parent, its end for example, shows here before it does in any unit.
    if isinstance(level.sizes, int):
        size = level.sizes
        part = np.arange(size) * min(size, _MAX_PARTS) // size
        drawn = np.bincount(part, weights=counts.reshape(-1, size).sum(axis=0))
        of_parts = (
            Count(float(number), float(draws.sizes.sum() * (units / size)), float(np.minimum(draws.sizes, units).sum()))
            for units, number in zip(np.bincount(part), drawn, strict=True)
        )
        yield count_test(Kind.PARTS, "draws of one part of a frame", *of_parts)


def window_counts(level: LoggedLevel) -> list[Count]:
    """Return counts of units' second and third draws in a pass, given sizes; [] for no draws or a pass of one."""
    draws = level.draws
    if level.window < 2 or not draws.sizes.size:
        return []
    starts = np.diff(draws.parents, prepend=-1) != 0
    starts |= np.diff(draws.numbers // level.window, prepend=-1) != 0
    begins = np.flatnonzero(starts)
    units = draws.frames[begins].astype(float)
    # The number of draws in a window that hold a unit is a sum of independent coins. Its probabilities of 0, 1 and 2
    # follow from the sums of odds and of their squares; draws of a whole frame hold every unit.
    is_whole = draws.sizes == draws.frames
    shares = np.where(is_whole, 0.0, draws.sizes / draws.frames)
    odds = shares / (1 - shares)
    none = np.exp(np.add.reduceat(np.log1p(-shares), begins))
    first = np.add.reduceat(odds, begins)
    second = np.add.reduceat(odds**2, begins)
    whole = np.add.reduceat(is_whole.astype(np.int64), begins)
    exactly = (none, none * first, none * (first**2 - second) / 2)
    counts = []
    for times in range(2, OCCURRENCES + 1):
        below = sum(np.where(whole + other < times, exactly[other], 0.0) for other in range(times))
        expected = float((units * np.clip(1 - below, 0.0, 1.0)).sum())
        counts.append(Count(level.by_occurrence[times], expected, float(units.sum())))
    return counts


def _spread_test(level: LoggedLevel, draws: int) -> Statistic:
    """Return the test of how many units reach several quantiles of how many of `draws` draws hold a unit."""
    scheme = level.scheme
    counts = level.counts
    frames, parents = level.frames
    # A drawn unit without an entry looks like one that was not drawn: both chances are multiplied.
    rates = [scheme.probability if isinstance(scheme, CyclicPoisson) else scheme.rate(int(frame)) for frame in frames]
    probability = np.array(rates, dtype=float) * (level.shown or 0.0)
    reached = []
    for tail in _TAILS:
        threshold = binom.isf(tail, draws, probability) + 1
        expected = float((binom.sf(threshold - 1, draws, probability) * frames * parents).sum())
        of_units = threshold[0]
        if not isinstance(level.sizes, int):
            of_units = np.repeat(threshold[np.searchsorted(frames, level.sizes)], level.sizes)
        reached.append(Count(int((counts >= of_units).sum()), expected, level.units))
    return count_test(Kind.SPREAD, "units by number of draws", *reached)


def _neighbours_test(level: LoggedLevel, *, expected: float, trials: float) -> Statistic:
    together = Count(int(level.draws.pairs.sum()), expected, trials)
    return count_test(Kind.NEIGHBOURS, "neighbouring units in a draw", together)


# Passes, and other draws that depend on the step.


def _no_repeats_in_a_pass_test(level: LoggedLevel) -> Statistic:
    """Return the certain test that units are never drawn a second time within a pass of `window` draws."""
    repeats = level.by_occurrence[2]
    sentence = f"{repeats:,} times one {level.name} is drawn again within a pass of {level.window} batches"
    return certain_test(Kind.PASSES, f"units repeated within a pass of {level.window} draws", repeats, sentence)


def _order_tests(level: LoggedLevel) -> Iterator[Statistic]:
    """Yield tests of passes in secret order: no batch is that of the pass before, and none that of a public seed."""
    draws = level.draws
    known = level.public
    frames = draws.frames.astype(float)
    sizes = draws.sizes.astype(float)
    # The log of the chance that two batches of a size are equal.
    chances = gammaln(sizes + 1) + gammaln(frames - sizes + 1) - gammaln(frames + 1)
    first = draws.numbers % level.window == 0
    others = draws.previous == draws.sizes
    again = others & (draws.repeated == draws.sizes)
    public = chances[first & np.isin(sizes, [size for _, size in known])]

    def test(quantity: str, compared: Array, equal: Array, number: int, sentence: str) -> Statistic:
        # The statistic is the smallest chance of any batch that is equal: the chance that one of so small a chance is.
        log_p_value = min(0.0, float(logsumexp(compared[compared <= equal.min() + 1e-9]))) if number else 0.0
        expected = float(np.exp(compared).sum())
        return Statistic(Kind.ORDER, quantity, number, expected, log_p_value, sentence if number else "")

    places = f"{int(again.sum()):,} of {int(others.sum()):,} batches hold the same {level.name}s"
    sentence = f"{places} as in the pass before: the order is not drawn anew for each pass"
    quantity = "batches that are those of the pass before"
    yield test(quantity, chances[others], chances[again], int(again.sum()), sentence)
    ways = " and ".join(sorted({words for words, _ in known}))
    sentence = f"{len(known)} passes begin as {ways} does, seeded by the number of the pass: the order is not secret"
    quantity = "passes that begin as those of a public seed"
    yield test(quantity, np.repeat(chances[first], 2), public, len(known), sentence)


def _moved_test(level: LoggedLevel, sentence: str) -> Statistic:
    """Return the certain test that the draws of each unit lie multiples of `lag` draws apart."""
    sentence = f"{level.first_place(level.moved)} {sentence}"
    return certain_test(Kind.HELD, "units at another place than in their pass before", level.moved.number, sentence)


def _repeats_in_windows_test(
    level: LoggedLevel, draws: int, window: int, chance: Callable[[int, IntArray], Array]
) -> Statistic:
    """Return the test of repeats in windows, where `chance(n, lengths)` is Pr[n draws of a unit or more]."""
    lengths = np.diff([*range(0, draws, window), draws])
    repeats = []
    for number in range(2, OCCURRENCES + 1):
        expected = level.units * float(chance(number, lengths).sum())
        repeats.append(Count(level.by_occurrence[number], expected, level.units * lengths.size))
    return count_test(Kind.PASSES, f"units repeated within {level.window} draws", *repeats)


def _balls_in_bins_tests(level: LoggedLevel, scheme: BallsInBins) -> Iterator[Statistic]:
    """Yield tests of balls-in-bins: no repeats in a pass, held steps, and choices of bins if the law is known."""
    draws = level.draws
    bins = scheme.bins
    yield _no_repeats_in_a_pass_test(level)
    if scheme.is_held:
        yield _moved_test(level, "is not at its step of the pass before")
    if not level.has_known_law:
        return
    if level.is_shown:
        whole = level.times - level.times % bins
        sentence = f"not every unit of level {level.name} is drawn in each pass of {bins} batches"
        drawn = int(draws.sizes[draws.numbers < whole].sum())
        every = level.units * (whole // bins)
        yield certain_test(Kind.TOTAL, "units drawn in whole passes", drawn, sentence, every)
    independent, times = copy(level), level.times
    if scheme.is_held:  # held choices repeat the first pass: its draws alone are independent of each other
        times = min(bins, times)
        columns = {name: values[draws.numbers < bins] for name, values in vars(draws).items()}
        independent.times = times
        independent.draws = replace(draws, **columns)
    yield from _size_tests(independent)
    chance = (level.shown or 0.0) / bins
    pairs = level.neighbours
    yield _neighbours_test(independent, expected=pairs * times * chance**2, trials=pairs * -(-times // bins))
    if scheme.is_held:
        return
    # Passes are taken in pairs: given the first of a pair, units choose its steps again independently.
    is_second = draws.numbers // bins % 2 == 1
    followed = draws.sizes[~is_second & (draws.numbers < level.times - bins)]
    repeated = draws.repeated[is_second]
    previous = draws.previous[is_second]
    trials = int(followed.sum())
    same = Count(int(repeated.sum()), trials * chance, trials)
    yield count_test(Kind.OVERLAP, "units at the same step of the next pass", same)
    joint = []
    for tail in _JOINT_TAILS:
        expected = binom.sf(binom.isf(tail, followed, chance), followed, chance).sum()
        observed = (repeated > binom.isf(tail, previous, chance)).sum()
        joint.append(Count(int(observed), float(expected), followed.size))
    yield count_test(Kind.JOINT, "draws with many units of that of the pass before", *joint)


def _random_allocation_tests(level: LoggedLevel, times: int) -> Iterator[Statistic]:
    """Yield tests of random allocation: draws of each unit; sizes if the law is known; overlaps if all is shown."""
    counts = level.counts
    steps = level.times
    wrong = counts != times if level.is_shown else counts > times
    unit = int(np.argmax(wrong))
    sentence = f"{level.place(-1, unit)} is drawn {counts[unit]} times, declared {times}"
    yield certain_test(Kind.SPREAD, "units drawn another number of times than declared", int(wrong.sum()), sentence)
    if not level.has_known_law:
        return
    yield from _size_tests(level)
    if not level.is_shown:
        return
    units = level.units
    pairs = level.neighbours
    chance = times / steps
    successive = Count(int(level.draws.repeated.sum()), units * chance * (times - 1), units * (times - 1))
    yield count_test(Kind.OVERLAP, "units that the previous draw has too", successive)
    yield _neighbours_test(level, expected=pairs * chance * times, trials=pairs * times)
    if level.window <= 1:
        yield count_test(Kind.PASSES, f"units repeated within {level.window} draws")
        return
    # Of `times` places among all steps a window of some length holds a hypergeometric number.
    yield _repeats_in_windows_test(
        level, steps, level.window, lambda number, lengths: hypergeom.sf(number - 1, steps, times, lengths)
    )
