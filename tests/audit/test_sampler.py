"""The samplers against exact probabilities of every possible draw."""

import itertools
from collections import Counter
from fractions import Fraction
from math import comb

import numpy as np
import pytest

from dpcalc.audit import simulate
from dpcalc.audit.laws import mean_interval
from dpcalc.audit.simulate import draw_units
from dpcalc.sampling.schemes import CappedPoisson, Fixed, Poisson, Shuffle, WithReplacement

ROUNDS = 20_000


def drawn_sets(scheme, sizes, *, rounds=ROUNDS):
    """How often each set was drawn, one Counter for each frame of a round."""
    rng = np.random.default_rng(3)
    parents, children = draw_units(scheme, np.tile(sizes, rounds), rng)
    assert (np.diff(parents) >= 0).all()
    found = np.split(children, np.searchsorted(parents, np.arange(1, rounds * len(sizes))))
    return [Counter(tuple(sorted(one.tolist())) for one in found[at :: len(sizes)]) for at in range(len(sizes))]


def assert_near(count, probability):
    low, high = mean_interval(count / ROUNDS, ROUNDS, miss_probability=1e-9)
    assert low <= probability <= high


@pytest.mark.parametrize("crowded", [0, 64])
@pytest.mark.parametrize("size", [1, 2, 4])
def test_fixed_draws_are_all_sets_alike(monkeypatch, crowded, size):
    monkeypatch.setattr(simulate, "_DENSE_FACTOR", crowded)
    monkeypatch.setattr(simulate, "CHUNK", 10_000)
    for frame, sets in zip((4, 5), drawn_sets(Fixed(size=size), [4, 5]), strict=True):
        possible = list(itertools.combinations(range(frame), size))
        assert set(sets) <= set(possible)
        for one in possible:
            assert_near(sets[one], 1 / len(possible))


@pytest.mark.heavy
@pytest.mark.parametrize("crowded", [0, 64])
def test_a_draw_of_at_most_a_number_takes_all_of_smaller_frames(monkeypatch, crowded):
    monkeypatch.setattr(simulate, "_DENSE_FACTOR", crowded)
    monkeypatch.setattr(simulate, "CHUNK", 10_000)
    frames = [1, 3, 5]
    for frame, sets in zip(frames, drawn_sets(Fixed(size=3, at_most=True), frames), strict=True):
        possible = list(itertools.combinations(range(frame), min(3, frame)))
        assert set(sets) <= set(possible)
        for one in possible:
            assert_near(sets[one], 1 / len(possible))


@pytest.mark.parametrize("rate", [Fraction(1, 50), Fraction(2, 5), Fraction(1)])
def test_poisson_draws_are_independent_coins(rate):
    for frame, sets in zip((3, 1), drawn_sets(Poisson(probability=rate), [3, 1]), strict=True):
        for size in range(frame + 1):
            for one in itertools.combinations(range(frame), size):
                assert_near(sets[one], float(rate**size * (1 - rate) ** (frame - size)))


@pytest.mark.parametrize(("rate", "cap"), [(Fraction(2, 5), 1), (Fraction(2, 5), 2), (Fraction(1), 3)])
def test_cut_draws_are_coins_of_which_any_so_many_stay(rate, cap):
    scheme = CappedPoisson(probability=rate, max_batch_size=cap)
    for frame, sets in zip((4, 2), drawn_sets(scheme, [4, 2]), strict=True):
        kept = [frame - missing for missing in range(frame + 1) if frame - missing <= cap]
        of_size = {size: comb(frame, size) * rate**size * (1 - rate) ** (frame - size) for size in range(frame + 1)}
        assert {len(one) for one in sets} <= set(kept)
        for size in kept:
            chance = of_size[size] if size < cap else sum(of_size[n] for n in range(size, frame + 1))
            for one in itertools.combinations(range(frame), size):
                assert_near(sets[one], float(chance / comb(frame, size)))


def test_draws_with_replacement_are_independent():
    for frame, found in zip((3, 2), drawn_sets(WithReplacement(size=2), [3, 2]), strict=True):
        for one in itertools.combinations_with_replacement(range(frame), 2):
            assert_near(found[one], (1 if one[0] == one[1] else 2) / frame**2)


def test_a_shuffle_is_every_order_alike():
    _, children = draw_units(Shuffle(size=2), np.full(ROUNDS, 3), np.random.default_rng(3))
    found = Counter(map(tuple, children.reshape(-1, 3).tolist()))
    for order in itertools.permutations(range(3)):
        assert_near(found[order], 1 / 6)
