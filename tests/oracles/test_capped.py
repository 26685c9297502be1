"""Poisson batches cut to a maximum: their law by counting, published numbers, ranges and merged frames."""

import itertools
from collections import Counter
from fractions import Fraction
from math import comb

import numpy as np
import pytest

from dpcalc.accountants.pld import auto
from dpcalc.guarantee import Adjacency
from dpcalc.mechanisms.additive import Gaussian
from dpcalc.planner.composition import FORWARD, composed
from dpcalc.planner.evaluate import guarantee
from dpcalc.planner.plan import Phase, Plan
from dpcalc.sampling.counts import full_batch
from dpcalc.sampling.hierarchy import Level, tree_of
from dpcalc.sampling.schemes import CappedPoisson, Fixed, Poisson
from tests.oracles.gaussian_mixtures import Mixture, hockey_stick
from tests.oracles.multistage import bound
from tests.runs import of_tree, run_of

HALF = Fraction(1, 2)


def flat_plan(count, rate, cap, *, scheme=None, sigma=1.0, steps=1, least=0, **more):
    """A run over one level of which `cap` examples at most stay in a batch; None cuts nothing."""
    poisson = Poisson(probability=rate)
    scheme = scheme or (poisson if cap is None else CappedPoisson(probability=rate, max_batch_size=cap))
    level = Level(name="example", count=count, min_count=least or count, scheme=scheme)
    return run_of(level, noise=sigma, steps=steps, **more)


def epsilon(plan):
    return guarantee(composed(plan)).epsilon


def counted(count, rate, cap):
    """(Pr[the others fill the batch], Pr[a unit is in it | they do]) by counting every number of others."""
    chances = [comb(count - 1, t) * rate**t * (1 - rate) ** (count - 1 - t) for t in range(count)]
    full = sum(chances[cap:])
    stays = sum((chance * rate * cap / Fraction(t + 1) for t, chance in enumerate(chances) if t >= cap), Fraction(0))
    return full, stays / full if full else 0


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("count", "rate", "cap"),
    [
        (4, HALF, 2),
        (3, HALF, 2),
        (2, HALF, 2),
        (1, HALF, 1),
        (9, Fraction(1), 4),
        (50, Fraction(1, 7), 3),
        (200, Fraction(99, 100), 190),
        (600, Fraction(1, 10**6), 2),
        (300, Fraction(3, 10**15), 1),
        (700, Fraction(1, 3), 699),
    ],
)
def test_full_batches_by_counting(count, rate, cap):
    (full, stays), exact = full_batch(count - 1, rate, cap), counted(count, rate, cap)
    assert abs(full - exact[0]) <= Fraction(1, 2**1200)
    assert abs(full * stays - exact[0] * exact[1]) <= Fraction(1, 2**1200)
    assert full == 0 or 0 < stays < rate
    second_form = cap * sum(comb(count, t) * rate**t * (1 - rate) ** (count - t) for t in range(cap + 1, count + 1))
    assert exact[0] * exact[1] * count == second_form
    scheme = CappedPoisson(probability=rate, max_batch_size=cap)
    assert abs(scheme.rate(count) - (1 - exact[0]) * rate - exact[0] * exact[1]) <= Fraction(1, 2**1190)


def test_a_mean_batch_too_large_to_count_counts_as_full_and_stays_a_bound():
    rate, cap = Fraction(1, 10), 10**12
    assert full_batch(10**13 - 1, rate, cap) is None
    cut, uncut = (epsilon(flat_plan(10**13, rate, most, sigma=2.0, steps=10)) for most in (cap, None))
    assert CappedPoisson(probability=rate, max_batch_size=cap).rate(10**13) == rate
    of_fixed_size = epsilon(flat_plan(10**13, rate, None, scheme=Fixed(size=cap), sigma=2.0, steps=10))
    assert uncut < cut == pytest.approx(of_fixed_size, rel=1e-6)


@pytest.mark.parametrize(
    ("draw", "noise", "published"),
    [
        ((60_000, Fraction(256, 60_000), 300), {"sigma": 1.1, "delta": 1e-5}, 1.73431),
        ((60_000, Fraction(256, 60_000), 260), {"sigma": 1.1, "delta": 1e-5}, 4.24675),
        ((10_000, Fraction(1, 100), 128), {"sigma": 1.0, "delta": 1e-6}, 5.22108),
    ],
)
def test_peers_print_no_less(draw, noise, published):
    """dp_accounting 0.6.0 takes the pair of replace-one, at half the noise, for full batches under every adjacency."""
    for adjacency in ("add-remove", "zero-out"):
        cut, uncut = (
            epsilon(flat_plan(*draw[:2], cap, steps=1000, adjacency=adjacency, **noise)) for cap in (draw[2], None)
        )
        assert uncut < cut <= published


def test_steps_over_different_data_cost_no_more_than_the_published_number():
    """17.904330 is dp_accounting's: 3 steps over 4 units, 2 over 3, rate 1/2, at most 2, sigma 1, delta 1e-6."""
    for adjacency in ("add-remove", "zero-out", "replace-one"):
        parts = [composed(flat_plan(n, HALF, 2, steps=k, adjacency=adjacency)).steps for n, k in ((4, 3), (3, 2))]
        for direction in parts[0]:
            counts = sum((Counter(steps[direction]) for steps in parts), Counter())
            assert 1 < auto(dict(counts), delta=1e-6).epsilon <= 17.904330


@pytest.mark.parametrize("adjacency", ["add-remove", "zero-out", "replace-one"])
def test_a_cap_that_never_cuts_is_no_cap(adjacency):
    plans = [flat_plan(40, HALF, cap, adjacency=adjacency) for cap in (None, 40, 41, 10**9)]
    assert len(set(plans)) == 1
    nearly = [flat_plan(400, Fraction(1, 100), cap, steps=50, adjacency=adjacency) for cap in (None, 399)]
    assert epsilon(nearly[1]) == pytest.approx(epsilon(nearly[0]), rel=1e-4)


def exact_delta(count, rate, cap, sigma, at):
    """The profile of a step under add-remove, D||D': the mean of a Poisson step and one with a stand-in, integrated."""
    full, stays = map(float, counted(count, rate, cap))
    unit = Mixture.on_line([1], [0])
    poisson = hockey_stick(Mixture.on_line([1 - float(rate), float(rate)], [0, 1]), unit, sigma, [at])[0]
    fixed = hockey_stick(Mixture.on_line([1 - stays, stays], [0, 2]), unit, sigma, [at])[0] if full else 0
    return (1 - full) * poisson + full * fixed


def test_the_cost_does_not_fall_with_the_count():
    """The four numbers of docs/theory.md, Theorem 4.9: 4 units cost more than 3, 20 less than 6."""
    expected = {3: 0.1332, 4: 0.1443, 6: 0.1398, 20: 0.0418}
    for count, number in expected.items():
        exact = exact_delta(count, HALF, 2, 1.0, 0.3)
        assert exact == pytest.approx(number, abs=6e-5)
        (steps,) = (s for name, s in composed(flat_plan(count, HALF, 2)).steps.items() if name.startswith(FORWARD))
        ((curve, _),) = steps.items()
        assert curve.delta(0.3) == pytest.approx(exact, rel=1e-9)


@pytest.mark.parametrize(
    ("least", "count", "rate", "cap"),
    [(1, 9, HALF, 2), (1, 60, HALF, 6), pytest.param(5, 400, Fraction(1, 10), 20, marks=pytest.mark.heavy)],
)
@pytest.mark.parametrize("adjacency", ["add-remove", "zero-out", "replace-one"])
def test_a_range_of_counts_is_above_each_of_them(least, count, rate, cap, adjacency):
    of_range = bound(flat_plan(count, rate, cap, least=least, adjacency=adjacency), [0.0, 1.0])
    each = [bound(flat_plan(n, rate, cap, adjacency=adjacency), [0.0, 1.0]) for n in range(least, count + 1)]
    assert (np.max(each, axis=0) <= of_range * (1 + 1e-9)).all()
    assert (of_range <= (2 if count - least > 16 else 1 + 1e-9) * np.max(each, axis=0)).all()


@pytest.mark.heavy
@pytest.mark.usefixtures("fresh_caches")
def test_merged_frames_are_above_each_of_them(monkeypatch):
    sizes = list(range(1, 26))
    names = ["user", "record"]
    schemes = [Poisson(probability=Fraction(1, 5)), CappedPoisson(probability=HALF, max_batch_size=4)]
    hierarchy = of_tree(tree_of(sizes, names), names, schemes)
    mechanism = Gaussian(noise_multiplier=2.0)

    def deltas():
        for unit, clip in itertools.product((1, 2), (1, 2)):
            phase = Phase(name="all", hierarchy=hierarchy, mechanism=mechanism, clip=clip, steps=1)
            yield bound(Plan(phases=(phase,), unit=unit, adjacency=Adjacency.ADD_REMOVE, delta=1e-3), [0.5]).max()

    exact = np.array([*deltas()])
    monkeypatch.setattr("dpcalc.sampling.paths.MAX_PATHS", 4)
    merged = np.array([*deltas()])
    assert (exact <= merged * (1 + 1e-9)).all()
    assert merged[3] > exact[3] * 1.001  # records of users of 25 sizes


def test_whether_a_level_is_drawn_needs_no_law(monkeypatch):
    """A thousand phases of large cut batches once took minutes before any work was counted."""

    def refuse(*_):
        raise AssertionError("the law of a batch was counted")

    monkeypatch.setattr("dpcalc.sampling.schemes.full_batch", refuse)
    plan = flat_plan(10**9, Fraction(1, 1000), 10**6 + 500)
    (level,) = plan.phases[0].hierarchy.levels
    assert (level.is_whole, level.is_drawn) == (False, True)
    assert any(composed(plan).steps.values())
    assert not any(composed(flat_plan(10**9, Fraction(0), 10**6)).steps.values())
