"""Expectations and bounds of the tested statistics, beside enumeration of all draws and exact binomial tails."""

import math
from collections import Counter
from fractions import Fraction
from itertools import combinations, pairwise, product

import numpy as np
import pytest
from scipy.stats import binom

from dpcalc.audit.draws import DeclaredLevel, LevelCounts, LoggedLevel, add_entries
from dpcalc.audit.laws import ShownSizes, statistics_of, window_counts
from dpcalc.audit.p_values import Count, Kind, log_tail
from dpcalc.sampling.schemes import Fixed, Poisson, WithReplacement


@pytest.mark.parametrize(("trials", "rate"), [(1, 0.5), (7, 0.3), (40, 0.01), (300, 0.5), (5000, 0.002), (10**6, 0.9)])
def test_the_bound_is_above_both_binomial_tails_and_not_far(trials, rate):
    spread = math.sqrt(trials * rate * (1 - rate))
    for shift in (-8, -3, -1, 0, 1, 3, 8):
        observed = min(max(round(trials * rate + shift * spread), 0), trials)
        bound = log_tail(Count(observed=observed, expected=trials * rate, trials=trials))
        tail = (
            binom.logsf(observed - 1, trials, rate)
            if observed > trials * rate
            else binom.logcdf(observed, trials, rate)
        )
        assert tail <= bound + 1e-9 <= 1e-9
        assert bound <= tail + math.log(4 + 4 * abs(shift)) + 0.5 * math.log(1 + spread)


def test_impossible_and_certain_counts():
    assert log_tail(Count(observed=1, expected=0, trials=5)) == -math.inf
    assert log_tail(Count(observed=4, expected=5, trials=5)) == -math.inf
    assert log_tail(Count(observed=6, expected=2, trials=5)) == -math.inf  # more than there are, once an exception
    assert log_tail(Count(observed=0, expected=0, trials=0)) == 0
    assert log_tail(Count(observed=5, expected=5, trials=5)) == 0


def level(scheme, *, units, draws, window, shown=1.0):
    return DeclaredLevel(
        number=1,
        name="example",
        scheme=scheme,
        period=1,
        times=draws,
        is_every=True,
        sizes=units,
        parents=1,
        has_sizes=True,
        shown=shown,
        is_mixed=False,
        window=window,
        lag=1,
        limits=None,
        is_last=True,
    )


def logged(declared, batches):
    counts = LevelCounts(level=declared)
    steps = np.repeat(np.arange(len(batches)), [len(batch) for batch in batches])
    units = np.array([unit for batch in batches for unit in batch], dtype=np.int64)
    add_entries([counts], steps, units, end=len(batches))
    return LoggedLevel(level=declared, counts=counts, draws=counts.draws(), place=lambda *_: "", first_step=0)


def of_kind(level_log, kind):
    return next(each for each in statistics_of(level_log) if each.kind is kind)


def every_log(units, sizes):
    """All logs of draws of these sizes, equally likely."""
    return [*product(*(combinations(range(units), size) for size in sizes))]


@pytest.mark.parametrize(
    ("units", "sizes", "window"),
    [(4, (2, 1, 3), 3), (4, (4, 2, 1), 3), (3, (1, 2, 1, 2), 2), (5, (2, 2), 5), (3, (2, 2, 2), 2)],
)
def test_expectations_given_the_sizes_are_those_of_all_logs(units, sizes, window):
    declared = level(Poisson(probability=Fraction(1, 2)), units=units, draws=len(sizes), window=window)
    logs = [logged(declared, log) for log in every_log(units, sizes)]
    for place in range(2):
        counts = [window_counts(each)[place] for each in logs]
        assert len({count.expected for count in counts}) == 1
        assert np.mean([count.observed for count in counts]) == pytest.approx(counts[0].expected, rel=1e-12)
        assert all(count.observed <= count.trials for count in counts)
    statistics = [{test.kind: test for test in statistics_of(each)} for each in logs]
    for kind in (Kind.OVERLAP, Kind.NEIGHBOURS):
        tests = [each[kind] for each in statistics]
        assert len({test.expected for test in tests}) == 1
        assert np.mean([test.observed for test in tests]) == pytest.approx(tests[0].expected, rel=1e-12)


def brute_repeats(log, window):
    """How many units are in a second, and in a third draw of a window."""
    found = [0, 0]
    for begin in range(0, len(log), window):
        times = Counter(unit for batch in log[begin : begin + window] for unit in batch)
        found = [found[0] + sum(n >= 2 for n in times.values()), found[1] + sum(n >= 3 for n in times.values())]
    return found


def test_counts_are_those_of_plain_loops():
    rng = np.random.default_rng(3)
    declared = level(Poisson(probability=Fraction(1, 4)), units=40, draws=60, window=7)
    log = [sorted(rng.permutation(40)[: rng.integers(0, 12)].tolist()) for _ in range(60)]
    whole = logged(declared, log)
    assert [count.observed for count in window_counts(whole)] == brute_repeats(log, 7)
    assert whole.counts.counts.tolist() == [sum(unit in batch for batch in log) for unit in range(40)]
    overlaps = [len({*before} & {*after}) for before, after in pairwise(log)]
    assert whole.draws.repeated.sum() == sum(overlaps)
    pairs = sum(2 * i in batch and 2 * i + 1 in batch for batch in log for i in range(20))
    assert whole.draws.pairs.sum() == pairs
    # In blocks of steps the same.
    parts = LevelCounts(level=declared)
    for begin in range(0, 60, 9):
        steps = [step for step in range(begin, min(begin + 9, 60)) for _ in log[step]]
        units = [unit for batch in log[begin : begin + 9] for unit in batch]
        add_entries([parts], np.array(steps, dtype=np.int64), np.array(units, dtype=np.int64), end=min(begin + 9, 60))
    assert parts.by_occurrence == whole.counts.by_occurrence
    for name in ("numbers", "sizes", "repeated", "previous", "pairs"):
        assert getattr(parts.draws(), name).tolist() == getattr(whole.draws, name).tolist()


@pytest.mark.parametrize(("frame", "rate", "nonempty"), [(5, 0.3, False), (5, 0.3, True), (8, 0.9, True)])
def test_sizes_of_draws(frame, rate, nonempty):
    """Beside all subsets of a frame, weighted."""
    shown = ShownSizes(probability=rate / 2, is_nonempty=nonempty)
    weights = {
        size: math.comb(frame, size) * (rate / 2) ** size * (1 - rate / 2) ** (frame - size)
        for size in range(frame + 1)
    }
    if nonempty:
        weights.pop(0)
    total = sum(weights.values())
    for size in range(1, frame + 1):
        tail = sum(weight for other, weight in weights.items() if other >= size) / total
        head = sum(weight for other, weight in weights.items() if other <= size) / total
        assert shown.tail(np.array([size]), np.array([frame])) == pytest.approx([tail])
        assert shown.head(np.array([size]), np.array([frame])) == pytest.approx([head])


def test_repeats_with_replacement():
    """Beside all draws of 3 from 4 units, in order: how many units are drawn twice or more."""
    declared = level(WithReplacement(size=3), units=4, draws=1, window=2)
    tests = [of_kind(logged(declared, [batch]), Kind.REPEATS) for batch in product(range(4), repeat=3)]
    assert np.mean([test.observed for test in tests]) == pytest.approx(tests[0].expected)


@pytest.mark.parametrize(
    ("scheme", "rate"),
    [(Poisson(probability=Fraction(1, 5)), 0.2), (Fixed(size=8), 0.2), (WithReplacement(size=8), 1 - 0.975**8)],
)
def test_spread_and_joint_counts_have_their_expected_mean(scheme, rate):
    """Over drawn logs: the expected number of events, whichever threshold is taken."""
    rng = np.random.default_rng(9)
    declared = level(scheme, units=40, draws=50, window=5)
    above, joint, expected = [], [], 0.0
    threshold = int(binom.isf(0.1, 50, rate)) + 1
    for _ in range(300):
        match scheme:
            case Poisson():
                batches = [np.flatnonzero(rng.random(40) < 0.2) for _ in range(50)]
            case Fixed():
                batches = [rng.permutation(40)[:8] for _ in range(50)]
            case _:
                batches = [rng.integers(0, 40, 8) for _ in range(50)]
        whole = logged(declared, batches)
        above.append((whole.counts.counts >= threshold).sum())
        joint.append(whole.draws.repeated.sum() - (whole.draws.sizes * whole.draws.previous / 40).sum())
    expected = 40 * binom.sf(threshold - 1, 50, rate)
    assert abs(np.mean(above) - expected) < 5 * np.std(above) / math.sqrt(300)
    assert abs(np.mean(joint)) < 5 * np.std(joint) / math.sqrt(300)
