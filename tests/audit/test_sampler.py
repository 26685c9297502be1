"""The samplers against exact probabilities of every possible draw."""

import itertools
from collections import Counter
from fractions import Fraction
from math import comb

import numpy as np
import pytest

from dpcalc.audit import sampler
from dpcalc.audit.p_values import mean_interval
from dpcalc.audit.sampler import draw_rounds, draw_units, round_cost
from dpcalc.errors import InputError
from dpcalc.sampling.hierarchy import Episodes, Hierarchy, Level
from dpcalc.sampling.schemes import All, CappedPoisson, Fixed, Poisson, Shuffle, WithReplacement
from dpcalc.sampling.trees import tree_of

ROUNDS = 20_000
NAMES = ("clinic", "patient", "visit")
EXAMPLE = [[4, 2, 3], [4, 5]]


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
    monkeypatch.setattr(sampler, "_DENSE_FACTOR", crowded)
    monkeypatch.setattr(sampler, "CHUNK", 10_000)
    for frame, sets in zip((4, 5), drawn_sets(Fixed(size=size), [4, 5]), strict=True):
        possible = list(itertools.combinations(range(frame), size))
        assert set(sets) <= set(possible)
        for one in possible:
            assert_near(sets[one], 1 / len(possible))


@pytest.mark.parametrize("crowded", [0, 64])
def test_a_draw_of_at_most_a_number_takes_all_of_smaller_frames(monkeypatch, crowded):
    monkeypatch.setattr(sampler, "_DENSE_FACTOR", crowded)
    monkeypatch.setattr(sampler, "CHUNK", 10_000)
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


def test_poisson_draws_of_nothing():
    assert drawn_sets(Poisson(probability=Fraction(0)), [3])[0] == {(): ROUNDS}


def test_everything_is_everything():
    assert drawn_sets(All(), [2, 3], rounds=5) == [{(0, 1): 5}, {(0, 1, 2): 5}]


def test_draws_with_replacement_are_independent():
    for frame, found in zip((3, 2), drawn_sets(WithReplacement(size=2), [3, 2]), strict=True):
        for one in itertools.combinations_with_replacement(range(frame), 2):
            assert_near(found[one], (1 if one[0] == one[1] else 2) / frame**2)


def test_a_shuffle_is_every_order_alike():
    _, children = draw_units(Shuffle(size=2), np.full(ROUNDS, 3), np.random.default_rng(3))
    found = Counter(map(tuple, children.reshape(-1, 3).tolist()))
    for order in itertools.permutations(range(3)):
        assert_near(found[order], 1 / 6)


def test_draws_from_nothing():
    for scheme in (Fixed(size=2), Poisson(probability=Fraction(1, 2)), WithReplacement(size=2), Shuffle(size=2), All()):
        parents, children = draw_units(scheme, np.zeros(0, dtype=np.int64), np.random.default_rng(3))
        assert parents.size == children.size == 0


def tree_hierarchy(*schemes):
    return Hierarchy.of_tree(tree_of(EXAMPLE, NAMES), NAMES, schemes)


def simulated(hierarchy, level, units, rounds=ROUNDS):
    rng = np.random.default_rng(5)
    return draw_rounds(hierarchy, level, units, rounds=rounds, rng=rng, on_progress=lambda _: None)


def test_example_3_1():
    """Tombs, Kotevska, Young 2022, Example 3.1: one of two, one of three or two, one record."""
    hierarchy = tree_hierarchy(Fixed(size=1), Fixed(size=1), Fixed(size=1))
    chances = (
        [1 / 2 / 3 / 4] * 4 + [1 / 2 / 3 / 2] * 2 + [1 / 2 / 3 / 3] * 3 + [1 / 2 / 2 / 4] * 4 + [1 / 2 / 2 / 5] * 5
    )
    for unit, chance in enumerate(chances):
        assert_near(int(simulated(hierarchy, 3, (unit,))[1].sum()), chance)


def test_counts_of_levels():
    hierarchy = tree_hierarchy(All(), Fixed(size=2), All())
    (clinics, patients, visits), members = simulated(hierarchy, 2, (3, 4), rounds=50)
    assert (members == 2).all()
    assert (clinics.frames, clinics.drawn) == ({2: 50}, 100)
    assert (patients.frames, patients.drawn) == ({3: 50, 2: 50}, 200)
    assert (np.concatenate(patients.batches) == 4).all()
    batches = np.concatenate(visits.batches)
    assert visits.drawn == sum(size * times for size, times in visits.frames.items()) == batches.sum()
    assert set(batches.tolist()) == {9 + 6, 9 + 7, 9 + 5}
    assert visits.sizes == [14, 16]


def test_sizes_between_two_ends():
    levels = (
        Level(name="user", count=3, scheme=All()),
        Level(name="session", min_count=2, count=5, scheme=Fixed(size=1)),
    )
    hierarchy = Hierarchy(levels=levels)
    assert simulated(hierarchy, 2, (0,), rounds=10)[0][1].frames == {2: 10, 5: 20}
    assert_near(int(simulated(hierarchy, 2, (1,))[1].sum()), 1 / 2)
    assert_near(int(simulated(hierarchy, 2, (2,))[1].sum()), 1 / 5)
    assert_near(int(simulated(hierarchy, 2, (11,))[1].sum()), 1 / 5)
    assert simulated(hierarchy, 2, (12,))[1].sum() == 0


def test_held_draws_last():
    levels = (
        Level(name="user", count=9, scheme=Fixed(size=3), redraw_every=4),
        Level(name="session", count=2, scheme=Fixed(size=1), redraw_every=2),
    )
    users = simulated(Hierarchy(levels=levels), 1, (0,), rounds=300)[1]
    assert users.shape == (300, 4)
    assert (users == users[:, :1]).all()
    assert 0 < users.mean() < 1
    sessions = simulated(Hierarchy(levels=levels), 2, (0,), rounds=300)[1]
    assert (sessions[:, ::2] == sessions[:, 1::2]).all()
    assert (sessions[:, 0] != sessions[:, 2]).any()
    assert (sessions.sum(axis=1) <= 4 * users.max()).all()


def test_what_is_redrawn_is_under_what_is_held():
    levels = (
        Level(name="user", count=9, scheme=Fixed(size=2), redraw_every=4),
        Level(name="session", count=2, scheme=Fixed(size=1)),
    )
    members = simulated(Hierarchy(levels=levels), 2, (0, 1), rounds=300)[1]
    assert (members == members[:, :1]).all()
    assert 0 < members.mean() < 1
    alone = simulated(Hierarchy(levels=levels), 2, (0,), rounds=300)[1]
    assert (alone[:, 0] != alone[:, 1]).any()


def test_a_pass_holds_every_unit_once():
    levels = (
        Level(name="user", count=2, scheme=All()),
        Level(name="session", count=7, scheme=Shuffle(size=3)),
        Level(name="example", count=2, scheme=All()),
    )
    for level, unit in ((2, 8), (3, 27)):
        members = simulated(Hierarchy(levels=levels), level, (unit,), rounds=200)[1]
        assert members.shape == (200, 3)
        assert (members.sum(axis=1) == 1).all()
        assert (members.sum(axis=0) > 0).all()
    counts = simulated(Hierarchy(levels=levels), 1, (0,), rounds=20)[0]
    assert counts[1].sizes == [2, 6]
    assert counts[2].sizes == [4, 12]


def test_built_tasks_are_drawn_one_by_one():
    levels = (Level(name="class", count=4, scheme=All()), Level(name="record", count=5, scheme=All()))
    built = Hierarchy(levels=levels, episodes=Episodes(tasks=2, ways=3, shots=1, queries=1))
    totals, members = simulated(built, 1, (0,))
    for count, chance in ((0, 1 / 16), (1, 6 / 16), (2, 9 / 16)):
        assert_near(int((members == count).sum()), chance)
    assert totals[1].sizes == [12, 12]


def test_many_pieces_are_one_whole(monkeypatch):
    hierarchy = tree_hierarchy(All(), Fixed(size=2), Poisson(probability=Fraction(1, 2)))
    monkeypatch.setattr("dpcalc.audit.sampler.CHUNK", 100)
    heard = []
    rng = np.random.default_rng(5)
    totals, members = draw_rounds(hierarchy, 1, (0,), rounds=101, rng=rng, on_progress=heard.append)
    assert members.shape == (101, 1)
    assert heard[-1] == 1
    assert len(heard) > 5
    assert all(np.concatenate(level.batches).sum() == level.drawn for level in totals)


def test_what_cannot_be_drawn():
    with pytest.raises(InputError, match="at most 2e\\+07 units"):
        round_cost(Hierarchy(levels=(Level(name="example", count=10**9, scheme=All()),)))
