"""Unequal sizes: the table along every path, data sets that cannot exceed it, and the costliest paths."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from dpcalc.amplification.bound import path_bound
from dpcalc.amplification.schedule import glued_profile
from dpcalc.guarantee import Adjacency
from dpcalc.sampling.hierarchy import Hierarchy, Level, tree_of
from dpcalc.sampling.paths import path_table, worst_paths
from dpcalc.sampling.schemes import All, Fixed, Poisson, Shuffle
from tests.oracles.adversary import climb, data_sets, excess, telling_epsilons, truth_of
from tests.oracles.brute_force import ADD_REMOVE, RELATIONS, ZERO_OUT
from tests.oracles.transcription import both_directions
from tests.oracles.unequal import (
    UnequalExperiment,
    below,
    children,
    outcome_count,
    random_limited,
    random_unequal,
    unequal_row,
    units,
)
from tests.runs import of_tree
from tests.thinning import thinned

NEVER = 1 + 1e-9
EXAMPLE = [[4, 2, 3], [4, 5]]  # Example 3.1 of the multistage sampling paper


def scheme_of(draw):
    kind, amount = draw
    schemes = {
        "fixed": lambda: Fixed(size=amount),
        "at most": lambda: Fixed(size=amount, at_most=True),
        "poisson": lambda: Poisson(probability=amount),
        "all": All,
    }
    return schemes[kind]()


def hierarchy_of(tree, draws):
    names = [f"level {number}" for number in range(1, len(draws) + 1)]
    return of_tree(tree_of(tree, names), names, [scheme_of(draw) for draw in draws])


def ranged(sizes, draws):
    return Hierarchy(
        levels=tuple(
            Level(name=f"level {number}", min_count=least, count=most, scheme=scheme_of(draw))
            for number, ((least, most), draw) in enumerate(zip(sizes, draws, strict=True), start=1)
        )
    )


def profiles(hierarchy, *, unit, clip, relation, sigma, epsilons):
    """The bound of every costliest path, both directions, shape (paths, 2, epsilons)."""
    found = []
    for (path,) in worst_paths([(hierarchy, clip)], unit=unit):
        profile = glued_profile(path_bound(path, clip=clip, adjacency=Adjacency(relation)), noise_multiplier=sigma)
        found.append([[p.delta(float(eps)) for eps in epsilons] for p in (profile, profile.swapped)])
    return np.array(found)


def told(found):
    """What matters of a row of the table: a distance with probability 0 has no meaning."""
    return found.eta, found.s, found.v, [pair for v, *pair in zip(found.v, found.d, found.d_swapped, strict=True) if v]


def told_by_package(bound):
    return bound.inclusion, bound.shift, bound.chances, [pair for v, *pair in bound.missed if v]


def random_question(rng, most_outcomes=300, *, draw=random_unequal):
    tree, draws = draw(rng, most_outcomes)
    level, clip = int(rng.integers(1, len(draws) + 1)), int(rng.integers(0, len(draws) + 1))
    return tree, draws, level, clip, str(rng.choice(RELATIONS)), float(np.exp(rng.uniform(math.log(0.7), math.log(4))))


@pytest.mark.parametrize("seed", range(60))
def test_every_path_has_the_distances_that_the_words_say(seed):
    rng = np.random.default_rng([seed, 1])
    tree, draws, level, clip, relation, _ = random_question(rng, most_outcomes=10**9)
    hierarchy = hierarchy_of(tree, draws)
    table = path_table([(hierarchy, clip)], unit=level)
    alike = {}
    for unit in units(tree, level):
        alike.setdefault(None if hierarchy.tree is None else kinds(tree, unit), []).append(unit)
    assert len(table.counts) == len(alike)
    for row, (first, *others) in enumerate(alike.values()):
        (path,) = table.paths(row)
        assert path.place in {first, ()}
        found = told_by_package(path_bound(path, clip=clip, adjacency=Adjacency(relation)))
        for unit in (first, *others):
            assert found == told(unequal_row(tree, draws, unit, clip, relation)), (tree, draws, unit, clip)


@pytest.mark.parametrize("seed", range(60))
def test_every_path_has_those_distances_where_draws_are_of_at_most_a_number(seed):
    rng = np.random.default_rng([seed, 11])
    tree, draws, level, clip, relation, _ = random_question(rng, most_outcomes=10**9, draw=random_limited)
    hierarchy = hierarchy_of(tree, draws)
    table = path_table([(hierarchy, clip)], unit=level)
    told_of = {
        told_by_package(path_bound(table.paths(row)[0], clip=clip, adjacency=Adjacency(relation))).__repr__()
        for row in range(len(table.counts))
    }
    wanted = {told(unequal_row(tree, draws, unit, clip, relation)).__repr__() for unit in units(tree, level)}
    assert told_of == wanted, (tree, draws, clip)


@pytest.mark.heavy
@pytest.mark.parametrize("block", thinned(range(20), 3))
def test_no_data_set_exceeds_the_bound_where_draws_are_of_at_most_a_number(block):
    rng = np.random.default_rng([block, 12])
    for _ in range(6):
        tree, draws, level, clip, relation, sigma = random_question(rng, draw=random_limited)
        unit = units(tree, level)[rng.integers(len(units(tree, level)))]
        check_against_data_sets(rng, (tree, draws, unit, clip, relation, sigma), climbing=False)


@pytest.mark.slow
@pytest.mark.parametrize("block", range(20))
def test_no_data_set_exceeds_the_bound_where_draws_are_of_at_most_a_number_at_length(block):
    rng = np.random.default_rng([block, 13])
    for _ in range(20):
        tree, draws, level, clip, relation, sigma = random_question(rng, draw=random_limited)
        unit = units(tree, level)[rng.integers(len(units(tree, level)))]
        check_against_data_sets(rng, (tree, draws, unit, clip, relation, sigma), climbing=True)


@pytest.mark.parametrize("block", thinned(range(12), 4))
def test_some_costliest_path_is_above_each_path_of_such_a_draw(block):
    rng = np.random.default_rng([block, 14])
    epsilons = np.array([0.01, 0.1, 0.7, 2.5, -0.1, -0.7])
    for _ in range(4):
        tree, draws, level, clip, relation, sigma = random_question(rng, most_outcomes=10**12, draw=random_limited)
        hierarchy = hierarchy_of(tree, draws)
        worst = profiles(hierarchy, unit=level, clip=clip, relation=relation, sigma=sigma, epsilons=epsilons)
        for unit in units(tree, level):
            found = both_directions(unequal_row(tree, draws, unit, clip, relation), sigma, epsilons)
            assert (worst >= found * (1 - 1e-9) - 1e-14).all(axis=(1, 2)).any(), (tree, draws, unit, clip, relation)


def kinds(tree, unit):
    """What is under a unit and under each one above it, whatever the order of siblings."""
    return tuple(str(arranged(below(tree, unit[:depth]))) for depth in range(1, len(unit) + 1))


def arranged(tree):
    return tree if isinstance(tree, int) else sorted(map(arranged, tree), key=str)


@pytest.mark.heavy
@pytest.mark.parametrize("block", thinned(range(20), 3))
def test_no_data_set_exceeds_the_bound_of_its_own_path(block):
    rng = np.random.default_rng([block, 2])
    for _ in range(6):
        tree, draws, level, clip, relation, sigma = random_question(rng)
        unit = units(tree, level)[rng.integers(len(units(tree, level)))]
        check_against_data_sets(rng, (tree, draws, unit, clip, relation, sigma), climbing=False)


@pytest.mark.slow
@pytest.mark.parametrize("block", range(20))
def test_no_data_set_exceeds_the_bound_of_its_own_path_at_length(block):
    rng = np.random.default_rng([block, 3])
    for _ in range(20):
        tree, draws, level, clip, relation, sigma = random_question(rng)
        unit = units(tree, level)[rng.integers(len(units(tree, level)))]
        check_against_data_sets(rng, (tree, draws, unit, clip, relation, sigma), climbing=True)


def check_against_data_sets(rng, question, *, climbing):
    """The unit's own bound holds, and in both directions at once some costliest path is above the unit's."""
    tree, draws, unit, clip, relation, sigma = question
    found = unequal_row(tree, draws, unit, clip, relation)
    experiment = UnequalExperiment(tree, draws, unit, clip, relation)
    epsilons = telling_epsilons(found, sigma)
    bound = both_directions(found, sigma, epsilons)
    for values in data_sets(experiment, rng, most_extreme=8, lattice=3, uniform=2):
        assert excess(truth_of(experiment, values, sigma, epsilons), bound, epsilons) <= NEVER, question
    if climbing:
        for direction in (0, 1):
            values = climb(
                rng.choice([-1.0, 1.0], size=len(experiment.keys)),
                lambda v, direction=direction: truth_of(experiment, v, sigma, epsilons[1:3])[direction].sum(),
                rng,
            )
            assert excess(truth_of(experiment, values, sigma, epsilons), bound, epsilons) <= NEVER, question
    if found.eta:
        worst = profiles(
            hierarchy_of(tree, draws), unit=len(unit), clip=clip, relation=relation, sigma=sigma, epsilons=epsilons
        )
        assert (worst >= bound * (1 - 1e-9) - 1e-14).all(axis=(1, 2)).any(), question


@pytest.mark.parametrize("block", range(12))
def test_some_costliest_path_is_above_each_path(block):
    """Trees too large to enumerate: leaving paths out loses nothing, at any epsilon, in either direction."""
    rng = np.random.default_rng([block, 4])
    for _ in range(4):
        tree, draws, level, clip, relation, sigma = random_question(rng, most_outcomes=10**12)
        epsilons = np.array([0.01, 0.1, 0.7, 2.5, -0.1, -0.7])
        worst = profiles(
            hierarchy_of(tree, draws), unit=level, clip=clip, relation=relation, sigma=sigma, epsilons=epsilons
        )
        for unit in units(tree, level):
            found = both_directions(unequal_row(tree, draws, unit, clip, relation), sigma, epsilons)
            assert (worst >= found * (1 - 1e-9) - 1e-14).all(axis=(1, 2)).any(), (tree, draws, unit, clip, relation)


@pytest.mark.parametrize("most", [1, 2, 3])
@pytest.mark.parametrize("block", range(6))
def test_merged_paths_are_above_each_path(block, most, monkeypatch):
    """Frames that a draw takes whole and larger ones are put together, too."""
    monkeypatch.setattr("dpcalc.sampling.paths.MAX_PATHS", most)
    rng = np.random.default_rng([block, most, 5])
    for draw in (random_limited, random_unequal) * 3:
        tree, draws, level, clip, relation, sigma = random_question(rng, most_outcomes=10**12, draw=draw)
        epsilons = np.array([0.01, 0.1, 0.7, 2.5, -0.1, -0.7])
        merged = profiles(
            hierarchy_of(tree, draws), unit=level, clip=clip, relation=relation, sigma=sigma, epsilons=epsilons
        )
        assert len(merged) <= most
        for unit in units(tree, level):
            found = both_directions(unequal_row(tree, draws, unit, clip, relation), sigma, epsilons)
            assert (merged >= found * (1 - 1e-9) - 1e-14).all(axis=(1, 2)).any(), (tree, draws, unit, clip, relation)


@pytest.mark.parametrize(
    ("sizes", "inclusion", "place"),
    [((1, 1, 1), Fraction(1, 12), (0, 1, 0)), ((1, 2, 2), Fraction(4, 12), (0, 1, 0))],
)
def test_example_3_1(sizes, inclusion, place):
    table = path_table([(hierarchy_of(EXAMPLE, [("fixed", size) for size in sizes]), 3)], unit=3)
    paths = [table.paths(row)[0] for row in range(len(table.counts))]
    likeliest = max(paths, key=lambda path: path.inclusion(3))
    assert (likeliest.inclusion(3), likeliest.place) == (inclusion, place)
    worst = worst_paths([(hierarchy_of(EXAMPLE, [("fixed", size) for size in sizes]), 3)], unit=3)
    assert inclusion in {path.inclusion(3) for (path,) in worst}


RANGES = [
    (((2, 2), (1, 3)), (("fixed", 1), ("fixed", 1))),
    (((2, 2), (1, 3)), (("poisson", Fraction(1, 2)), ("fixed", 1))),
    (((2, 2), (1, 3)), (("fixed", 1), ("poisson", Fraction(1, 2)))),
    (((2, 2), (1, 3)), (("fixed", 1), ("all", None))),
    (((2, 3), (1, 2)), (("fixed", 2), ("all", None))),
    (((1, 2), (2, 3)), (("all", None), ("fixed", 2))),
    (((2, 2), (1, 3)), (("fixed", 1), ("at most", 2))),
    (((2, 2), (1, 3)), (("poisson", Fraction(1, 2)), ("at most", 2))),
    pytest.param(((2, 2), (1, 4)), (("all", None), ("at most", 2)), marks=pytest.mark.slow),
    pytest.param(((1, 3), (1, 2)), (("at most", 2), ("all", None)), marks=pytest.mark.slow),
    (((1, 3), (1, 2)), (("at most", 2), ("at most", 1))),
]


@pytest.mark.heavy
@pytest.mark.parametrize(("sizes", "draws"), thinned(RANGES, 1))
@pytest.mark.parametrize("relation", thinned(RELATIONS, 1))
def test_a_range_of_sizes_covers_every_tree_in_it(sizes, draws, relation):
    rng = np.random.default_rng(5)
    (fewest, most), (least, greatest) = sizes
    trees = [
        list(records)
        for count in range(fewest, most + 1)
        for records in itertools.combinations_with_replacement(range(least, greatest + 1), count)
    ]
    epsilons = np.array([0.05, 0.4, 1.5, -0.4])
    for level, clip in itertools.product((1, 2), (0, 1, 2)):
        worst = profiles(
            ranged(sizes, draws), unit=level, clip=clip, relation=relation, sigma=1.3, epsilons=epsilons
        ).max(axis=0)
        for tree in trees:
            assert outcome_count(tree, draws) < 2000
            for unit in units(tree, level):
                experiment = UnequalExperiment(tree, draws, unit, clip, relation)
                for values in data_sets(experiment, rng, most_extreme=4, lattice=1, uniform=0):
                    truth = truth_of(experiment, values, 1.3, epsilons)
                    assert excess(truth, worst, epsilons) <= NEVER, (tree, unit, clip)


def test_the_rates_of_a_range_are_those_of_its_sizes():
    """Fixed draws of 2 out of 2 to 9: `all`, 2/3, and nothing less that could matter."""
    paths = worst_paths([(ranged([(4, 4), (2, 9)], [("fixed", 1), ("fixed", 2)]), 2)], unit=2)
    assert [(path.counts, path.schemes[1]) for (path,) in paths] == [((4, 2), All()), ((4, 3), Fixed(size=2))]


def test_of_more_sizes_than_are_told_apart_some_path_has_the_rate_of_each():
    """Of a pass over 111 in batches of 10 one is left out, over 120 none: their common path leaves out none either."""
    sizes = [count for tens in range(1, 129) for count in (10 * tens + 1, 10 * tens + 10)]
    hierarchy = of_tree(tree_of(sizes, ["a", "b"]), ["a", "b"], [All(), Shuffle(size=10, drop_last=True)])
    paths = [path for (path,) in worst_paths([(hierarchy, 2)], unit=2)]
    assert len(paths) < len(sizes)
    for size in sizes:
        rate = Fraction(size - size % 10, size)
        assert any(path.counts[1] <= size and path.rate(2) >= rate for path in paths)


def test_of_many_strata_the_smallest_attains_the_bound():
    """Every clinic is visited, one of its patients drawn: the pair of the smallest clinic is an actual data set's."""
    tree, draws, sigma = [3, 2, 4], [("all", None), ("fixed", 1)], 1.5
    ((path,),) = worst_paths([(hierarchy_of(tree, draws), 2)], unit=2)
    assert path.counts == (3, 2)
    found = unequal_row(tree, draws, path.place, 2, ADD_REMOVE)
    epsilons = telling_epsilons(found, sigma)
    experiment = UnequalExperiment(tree, draws, path.place, 2, ADD_REMOVE)
    values = np.array(
        [{("unit", 0): 1.0, ("mate", 1): -1.0}.get(role, 0.0) for role in experiment.roles]
    )  # the other clinics contribute nothing
    truth = truth_of(experiment, values, sigma, epsilons)
    assert truth == pytest.approx(both_directions(found, sigma, epsilons), rel=1e-9)


def test_the_largest_of_poisson_users_attains_the_bound():
    tree, draws, sigma = [1, 4, 2], [("poisson", Fraction(3, 10)), ("all", None)], 2.0
    ((path,),) = worst_paths([(hierarchy_of(tree, draws), 2)], unit=1)
    assert path.place == (1,)
    for relation in (ADD_REMOVE, ZERO_OUT):
        found = unequal_row(tree, draws, (1,), 2, relation)
        experiment = UnequalExperiment(tree, draws, (1,), 2, relation)
        epsilons = telling_epsilons(found, sigma)
        values = np.array([float(role == ("unit", 0)) for role in experiment.roles])
        truth = truth_of(experiment, values, sigma, epsilons)
        assert truth == pytest.approx(both_directions(found, sigma, epsilons), rel=1e-9)


def test_the_oracle_can_fail():
    """A sibling taken for as small as the unit: the larger one that steps in its place tells."""
    tree, draws, sigma = [1, 4], [("fixed", 1), ("all", None)], 2.0
    experiment = UnequalExperiment(tree, draws, (0,), 2, ADD_REMOVE)
    found = unequal_row(tree, draws, (0,), 2, ADD_REMOVE)
    assert found.s == 5
    epsilons = telling_epsilons(found, sigma)
    equal = unequal_row([1, 1], draws, (0,), 2, ADD_REMOVE)
    values = np.array([1.0 if role == ("unit", 0) else -1.0 for role in experiment.roles])
    truth = truth_of(experiment, values, sigma, epsilons)
    assert excess(truth, both_directions(found, sigma, epsilons), epsilons) <= NEVER
    assert excess(truth, both_directions(equal, sigma, epsilons), epsilons) > 1.2
    assert children(tree, ()) == [(0,), (1,)]
