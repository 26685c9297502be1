"""Many parts of a one-step bound put together: no part gets smaller, no probability is lost, the likeliest stay."""

import math
from fractions import Fraction

import numpy as np
import pytest

from dpcalc.amplification import bound, groups
from dpcalc.amplification.bound import CountPair, MissedBatch, StepBound

ROUNDED = 1e-14


def random_chances(rng, number):
    """Probabilities of very different sizes that add up to 1."""
    weights = [Fraction(int(10 ** rng.uniform(0, 12))) for _ in range(number)]
    return [weight / sum(weights) for weight in weights]


def random_contexts(rng, number):
    """A law of that many contexts, and of none."""
    found = {()}
    while len(found) <= number:
        members = sorted(int(m) for m in rng.choice(np.arange(1, 6), int(rng.integers(1, 4)), replace=False))
        found.add(tuple((m, int(rng.integers(1, 40))) for m in members))
    return dict(zip(sorted(found), random_chances(rng, number + 1), strict=True))


def members_of(context):
    """Copies of each kind of parent."""
    copies = dict(context)
    return np.array([copies.get(m, 0) for m in range(1, 6)])


@pytest.mark.heavy
@pytest.mark.parametrize("number", [10, 49, 400])
def test_contexts_put_together_are_an_upper_bound(number):
    """In every increasing event at least as likely: some copies of some kinds, or a weighted sum of them, at least."""
    rng = np.random.default_rng([1, number])
    law = random_contexts(rng, number)
    fewer = groups._merge_contexts(law)
    assert sum(fewer.values()) == 1
    assert fewer[()] == law[()]
    assert len(fewer) <= groups._MAX_CONTEXTS + 1
    likeliest = sorted((context for context in law if context), key=lambda one: -law[one])
    for context in likeliest[: groups._MAX_CONTEXTS // 2]:
        assert fewer[context] >= law[context]
    for _ in range(100):
        if rng.random() < 0.5:
            least = rng.integers(0, 20, 5) * (rng.random(5) < 0.5)
            likely = [{one for one in x if (members_of(one) >= least).all()} for x in (law, fewer)]
        else:
            weights = rng.exponential(size=5) * (rng.random(5) < 0.7)
            limit = float(weights @ rng.integers(0, 25, 5))
            likely = [{one for one in x if float(weights @ members_of(one)) >= limit} for x in (law, fewer)]
        before, after = (
            math.fsum(float(x[one]) for one in event) for x, event in zip((law, fewer), likely, strict=True)
        )
        assert before <= after + ROUNDED


def random_parts(rng, number):
    """(probability, bound) with few inclusion probabilities, and distances in multiples of the shift."""
    inclusions = [Fraction(int(rng.integers(1, 10**6)), 10**6) for _ in range(12)]
    found = []
    for chance in random_chances(rng, number):
        inclusion, shift = inclusions[int(rng.integers(12))], int(rng.integers(1, 300))
        missed = (MissedBatch(1 - inclusion, 2 * shift, shift),)
        found.append((chance / 2, StepBound(inclusion=inclusion, shift=shift, missed=missed)))
    return tuple(found)


@pytest.mark.heavy
@pytest.mark.parametrize("number", [10, 64, 65, 300, 700])
def test_bounds_put_together_are_an_upper_bound(number):
    """(K) grows with the inclusion and with every distance: in every event "at least so much of each" more likely."""
    rng = np.random.default_rng([2, number])
    parts = random_parts(rng, number)
    fewer = bound._merge_parts(parts)
    assert len(fewer) <= bound._MAX_PARTS + 1
    assert 0 <= sum(chance for chance, _ in fewer) - sum(chance for chance, _ in parts) < Fraction(1, 2**1500)
    likeliest = sorted(parts, key=lambda part: -part[0])
    assert set(likeliest[: bound._MAX_PARTS // 2 - 1]) <= set(fewer)
    for _, one in fewer:
        assert one.inclusion + sum(one.chances) == 1
        assert one.distances == (2 * one.shift,)
        assert one.distances_swapped == (one.shift,)
    rounded, rounded_fewer = ([(float(chance), one) for chance, one in x] for x in (parts, fewer))
    for _ in range(50):
        shift, inclusion = int(rng.integers(1, 300)), Fraction(int(rng.integers(0, 10**6)), 10**6)
        before, after = (
            math.fsum(p for p, one in x if one.shift >= shift and one.inclusion >= inclusion)
            for x in (rounded, rounded_fewer)
        )
        assert before <= after + ROUNDED


def test_mixtures_over_counts_stay_as_they_are():
    """Neighbours of another kind have no common bound that is known."""
    rng = np.random.default_rng(3)
    pair = CountPair(law=((0, Fraction(1, 2)), (1, Fraction(1, 2))), shift=1, both_ways=False)
    parts = (*random_parts(rng, 200), (Fraction(1, 2), pair))
    assert bound._merge_parts(parts) == parts
