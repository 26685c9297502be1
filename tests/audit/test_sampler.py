"""The samplers against exact probabilities of every possible draw."""

import itertools
from collections import Counter
from fractions import Fraction
from math import comb

import numpy as np
import pytest

from dpcalc.audit.laws import mean_interval
from dpcalc.audit.simulate import draw_units
from dpcalc.sampling.schemes import CappedPoisson, Fixed, Poisson, Shuffle, WithReplacement

ROUNDS = 20_000


def sets(frame, size):
    return itertools.combinations(range(frame), size)


def fixed_law(scheme, frame):
    size = min(scheme.size, frame)
    return {each: Fraction(1, comb(frame, size)) for each in sets(frame, size)}


def poisson_law(scheme, frame, cap=None):
    """Coins, of which any `cap` at most stay."""
    rate, law = scheme.probability, Counter()
    for drawn in range(frame + 1):
        kept = drawn if cap is None else min(drawn, cap)
        chance = comb(frame, drawn) * rate**drawn * (1 - rate) ** (frame - drawn) / comb(frame, kept)
        law.update(dict.fromkeys(sets(frame, kept), chance))
    return law


def replaced_law(_, frame):
    pairs = itertools.combinations_with_replacement(range(frame), 2)
    return {(a, b): Fraction(1 if a == b else 2, frame**2) for a, b in pairs}


def near(count, probability):
    low, high = mean_interval(count / ROUNDS, ROUNDS, miss_probability=1e-9)
    return low <= probability <= high


@pytest.mark.parametrize(
    ("scheme", "law", "frames", "crowded"),
    [
        *((Fixed(size=size), fixed_law, (4, 5), crowded) for size in (1, 2, 4) for crowded in (0, 64)),
        *((Fixed(size=3, at_most=True), fixed_law, (1, 3, 5), crowded) for crowded in (0, 64)),
        *((Poisson(probability=rate), poisson_law, (3, 1), 64) for rate in map(Fraction, ("1/50", "2/5", "1"))),
        *(
            (
                CappedPoisson(probability=Fraction(rate), max_batch_size=cap),
                lambda scheme, frame: poisson_law(scheme, frame, scheme.max_batch_size),
                (4, 2),
                64,
            )
            for rate, cap in (("2/5", 1), ("2/5", 2), ("1", 3))
        ),
        (WithReplacement(size=2), replaced_law, (3, 2), 64),
    ],
)
def test_every_draw_is_as_likely_as_the_law_says(monkeypatch, scheme, law, frames, crowded):
    monkeypatch.setattr("dpcalc.audit.simulate._DENSE_FACTOR", crowded)
    monkeypatch.setattr("dpcalc.audit.simulate.CHUNK", 10_000)
    parents, children = draw_units(scheme, np.tile(frames, ROUNDS), np.random.default_rng(3))
    assert (np.diff(parents) >= 0).all()
    drawn = np.split(children, np.searchsorted(parents, np.arange(1, ROUNDS * len(frames))))
    for place, frame in enumerate(frames):
        found = Counter(tuple(sorted(one.tolist())) for one in drawn[place :: len(frames)])
        expected = law(scheme, frame)
        assert set(found) <= {each for each, chance in expected.items() if chance}
        assert all(near(found[each], float(chance)) for each, chance in expected.items())


def test_a_shuffle_is_every_order_alike():
    _, children = draw_units(Shuffle(size=2), np.full(ROUNDS, 3), np.random.default_rng(3))
    found = Counter(map(tuple, children.reshape(-1, 3).tolist()))
    assert all(near(found[order], 1 / 6) for order in itertools.permutations(range(3)))
