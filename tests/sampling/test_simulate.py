"""The samplers against exact probabilities of every possible draw."""

import itertools
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest

from dpcalc.errors import InputError
from dpcalc.numerics.confidence import mean_interval
from dpcalc.sampling import simulate as module
from dpcalc.sampling.hierarchy import Hierarchy, Level
from dpcalc.sampling.schemes import All, Fixed, Poisson
from dpcalc.sampling.simulate import SAMPLERS, Watched, simulate, work
from dpcalc.sampling.trees import tree_of

ROUNDS = 20_000
NAMES = ("clinic", "patient", "visit")
EXAMPLE = [[4, 2, 3], [4, 5]]


def drawn_sets(scheme, sizes, *, rounds=ROUNDS):
    """How often each set was drawn, one Counter for each frame of a round."""
    rng = np.random.default_rng(3)
    parents, children = SAMPLERS[type(scheme)](scheme, np.tile(sizes, rounds), rng)
    assert (np.diff(parents) >= 0).all()
    found = np.split(children, np.searchsorted(parents, np.arange(1, rounds * len(sizes))))
    return [Counter(tuple(sorted(one.tolist())) for one in found[at :: len(sizes)]) for at in range(len(sizes))]


def assert_near(count, probability):
    low, high = mean_interval(count / ROUNDS, ROUNDS, doubt=1e-9)
    assert low <= probability <= high


@pytest.mark.parametrize("crowded", [0, 64])
@pytest.mark.parametrize("size", [1, 2, 4])
def test_fixed_draws_are_all_sets_alike(monkeypatch, crowded, size):
    monkeypatch.setattr(module, "_CROWDED", crowded)
    monkeypatch.setattr(module, "_AT_ONCE", 10_000)
    for frame, sets in zip((4, 5), drawn_sets(Fixed(size=size), [4, 5]), strict=True):
        possible = list(itertools.combinations(range(frame), size))
        assert set(sets) <= set(possible)
        for one in possible:
            assert_near(sets[one], 1 / len(possible))


@pytest.mark.parametrize("rate", [Fraction(1, 50), Fraction(2, 5), Fraction(1)])
def test_poisson_draws_are_independent_coins(rate):
    for frame, sets in zip((3, 1), drawn_sets(Poisson(probability=rate), [3, 1]), strict=True):
        for size in range(frame + 1):
            for one in itertools.combinations(range(frame), size):
                assert_near(sets[one], float(rate**size * (1 - rate) ** (frame - size)))


def test_poisson_draws_of_nothing():
    assert drawn_sets(Poisson(probability=Fraction(0)), [3])[0] == {(): ROUNDS}


def test_everything_is_everything():
    assert drawn_sets(All(), [2, 3], rounds=5) == [{(0, 1): 5}, {(0, 1, 2): 5}]


def tree_hierarchy(*schemes):
    return Hierarchy.of_tree(tree_of(EXAMPLE, NAMES), NAMES, schemes)


def simulated(hierarchy, level, units, rounds=ROUNDS):
    rng = np.random.default_rng(5)
    return simulate(hierarchy, Watched(level=level, units=units), rounds=rounds, rng=rng, tell=lambda _: None)


def test_example_3_1():
    """Tombs, Kotevska, Young 2022, Example 3.1: one of two, one of three or two, one record."""
    hierarchy = tree_hierarchy(Fixed(size=1), Fixed(size=1), Fixed(size=1))
    chances = (
        [1 / 2 / 3 / 4] * 4 + [1 / 2 / 3 / 2] * 2 + [1 / 2 / 3 / 3] * 3 + [1 / 2 / 2 / 4] * 4 + [1 / 2 / 2 / 5] * 5
    )
    for unit, chance in enumerate(chances):
        assert_near(int(simulated(hierarchy, 3, (unit,)).members.sum()), chance)


def test_counts_of_levels():
    hierarchy = tree_hierarchy(All(), Fixed(size=2), All())
    found = simulated(hierarchy, 2, (3, 4), rounds=50)
    assert (found.members == 2).all()
    clinics, patients, visits = found.levels
    assert (clinics.parents, clinics.offered, clinics.drawn) == (50, 100, 100)
    assert (patients.parents, patients.offered, patients.drawn) == (100, 250, 200)
    assert (patients.by_round == 4).all()
    assert visits.drawn == visits.offered == visits.by_round.sum()
    assert set(visits.by_round.tolist()) == {9 + 6, 9 + 7, 9 + 5}


def test_sizes_between_two_ends():
    levels = (
        Level(name="user", count=3, scheme=All()),
        Level(name="session", least=2, count=5, scheme=Fixed(size=1)),
    )
    hierarchy = Hierarchy(levels=levels)
    assert simulated(hierarchy, 2, (0,), rounds=10).levels[1].offered == 10 * (2 + 5 + 5)
    assert_near(int(simulated(hierarchy, 2, (1,)).members.sum()), 1 / 2)
    assert_near(int(simulated(hierarchy, 2, (2,)).members.sum()), 1 / 5)
    assert_near(int(simulated(hierarchy, 2, (11,)).members.sum()), 1 / 5)
    assert simulated(hierarchy, 2, (12,)).members.sum() == 0


def test_many_pieces_are_one_whole(monkeypatch):
    hierarchy = tree_hierarchy(All(), Fixed(size=2), Poisson(probability=Fraction(1, 2)))
    monkeypatch.setattr(module, "_AT_ONCE", 100)
    heard = []
    rng = np.random.default_rng(5)
    found = simulate(hierarchy, Watched(level=1, units=(0,)), rounds=101, rng=rng, tell=heard.append)
    assert found.members.size == 101
    assert heard[-1] == 101
    assert len(heard) > 5
    assert all(level.by_round.sum() == level.drawn for level in found.levels)


def test_what_cannot_be_drawn():
    with pytest.raises(InputError, match="at most 5e\\+07 units"):
        work(Hierarchy(levels=(Level(name="example", count=10**9, scheme=All()),)))
