"""Every scheme drawn index by index against its computed law: with and without groups, held, shuffled, built."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from dpcalc.amplification import correlated
from dpcalc.errors import UnsupportedError
from dpcalc.guarantee import Adjacency
from dpcalc.mechanisms.gaussian import Gaussian
from dpcalc.mechanisms.matrix_factorization import Matrix, MatrixFactorization, PrefixSum, Toeplitz, Tree
from dpcalc.mechanisms.strategies import Bounds
from dpcalc.planner.plan import Phase, Plan
from dpcalc.sampling.hierarchy import Episodes, Hierarchy, Level
from dpcalc.sampling.schemes import (
    All,
    AnyOrder,
    BallsInBins,
    CyclicPoisson,
    Fixed,
    Poisson,
    Shuffle,
    WithReplacement,
)
from dpcalc.sampling.trees import tree_of
from dpcalc.simulation import batches
from dpcalc.simulation.checks import Effort
from dpcalc.simulation.simulate import no_release_reason, simulate_plan
from tests.thinning import thinned

NAMES = ("user", "session", "example")
HALF, FIFTH = Poisson(probability=Fraction(1, 2)), Poisson(probability=Fraction(1, 5))
TWO, THREE = Fixed(size=2), Fixed(size=3)
AGAIN = WithReplacement(size=3)


def levels(*draws):
    """Levels of (count, scheme) or (count, scheme, steps for which it is held)."""
    return tuple(
        Level(name=name, count=count, scheme=scheme, redraw_every=held[0] if held else 1)
        for name, (count, scheme, *held) in zip(NAMES, draws, strict=False)
    )


def plan(hierarchy, *, unit=1, clip=None, group_size=1, steps=60, adjacency=Adjacency.REPLACE_ONE):
    hierarchy = hierarchy if isinstance(hierarchy, Hierarchy) else Hierarchy(levels=hierarchy)
    phase = Phase(
        name="training",
        hierarchy=hierarchy,
        mechanism=Gaussian(noise_multiplier=8.0, max_grad_norm=1.0),
        clip=hierarchy.depth if clip is None else clip,
        steps=steps,
    )
    return Plan(phases=(phase,), unit=unit, adjacency=adjacency, delta=1e-4, group_size=group_size)


def simulated(asked, *, draws=4000, runs=100):
    return simulate_plan(asked, Effort(seed=11, draws=draws, runs=runs), on_progress=lambda _: None)


PLANS = {
    "again": plan(levels((10, AGAIN))),
    "again above": plan(levels((5, AGAIN), (4, TWO)), unit=2),
    "again below": plan(levels((5, TWO), (4, AGAIN)), unit=2, adjacency=Adjacency.ADD_REMOVE),
    "again twice": plan(levels((5, AGAIN), (4, AGAIN), (3, HALF)), unit=3),
    "again, group": plan(levels((10, AGAIN)), group_size=4),
    "fixed group": plan(levels((20, THREE)), group_size=5),
    "poisson group": plan(levels((20, FIFTH)), group_size=5, adjacency=Adjacency.ADD_REMOVE),
    "nested group": plan(levels((6, TWO), (8, THREE)), unit=2, group_size=4),
    "nested poisson group": plan(levels((6, HALF), (8, FIFTH)), unit=2, group_size=3, adjacency=Adjacency.ZERO_OUT),
    "large group": plan(levels((6, TWO), (30, THREE)), unit=2, group_size=20),
    "group under draws with replacement": plan(levels((6, AGAIN), (8, TWO)), unit=2, group_size=3),
    "held": plan(levels((10, TWO, 6), (5, TWO)), unit=2),
    "held twice": plan(levels((10, HALF, 12), (5, TWO, 3), (4, FIFTH)), unit=3, clip=1),
    "held itself": plan(levels((10, TWO, 6), (5, HALF, 6)), unit=2),
    "held above the unit alone": plan(levels((10, TWO, 6), (5, TWO, 2)), unit=1, clip=1),
    "shuffle": plan(levels((23, Shuffle(size=4)))),
    "shuffle under all": plan(levels((3, All()), (10, Shuffle(size=4)), (3, TWO)), unit=2),
    "unit under a shuffle": plan(levels((3, All()), (10, Shuffle(size=5)), (3, TWO)), unit=3),
    "unit over a shuffle": plan(levels((3, All()), (10, Shuffle(size=5))), unit=1),
    "at most, between": plan(
        (
            Level(name="user", count=6, scheme=TWO),
            Level(name="session", min_count=2, count=9, scheme=Fixed(size=4, at_most=True)),
        ),
        unit=2,
    ),
    "at most, tree": plan(
        Hierarchy.of_tree(
            tree_of([1, 2, 5, 9], ("user", "file")), ("user", "file"), (TWO, Fixed(size=3, at_most=True))
        ),
        unit=2,
        adjacency=Adjacency.ADD_REMOVE,
    ),
    "between": plan(
        (Level(name="user", count=6, scheme=TWO), Level(name="session", min_count=3, count=9, scheme=AGAIN)), unit=2
    ),
}


def built(tasks=3, ways=4, shots=1, queries=2):
    return Hierarchy(
        levels=levels((10, All()), (6, All())), episodes=Episodes(tasks=tasks, ways=ways, shots=shots, queries=queries)
    )


PLANS |= {
    "record of built tasks": plan(built(), unit=2, clip=1),
    "class of built tasks": plan(built(), unit=1, clip=1),
    "group of classes": plan(built(), unit=1, clip=2, group_size=3),
}


@pytest.mark.parametrize("name", thinned(PLANS, 6))
def test_what_is_drawn_agrees_with_what_is_computed(name):
    asked = PLANS[name]
    found = simulated(asked)
    assert found.notes == ()
    assert [check for check in found.checks if not check.agrees] == []
    assert {check.quantity.split(", ")[1] for check in found.checks[-2:]} == {"D||D'", "D'||D"}


def checks(asked, **effort):
    return {check.quantity: check for check in simulated(asked, **effort).checks}


def test_joint_counts_of_a_group():
    found = checks(PLANS["fixed group"], draws=20_000)
    chances = {0: 455, 1: 525, 2: 150, 3: 10}  # of the 1140 draws of 3 of 20
    words = ("inclusion of any of 5 user", "2 or more draws of any of 5 user", "3 or more draws of any of 5 user")
    for number, quantity in enumerate(words, start=1):
        check = found[quantity]
        tail = sum(chance for count, chance in chances.items() if count >= number) / 1140
        assert check.computed == (pytest.approx(tail), pytest.approx(tail))
        assert check.interval[0] <= tail <= check.interval[1]


def test_held_draws_are_held():
    found = checks(PLANS["held"], draws=60_000)
    once, ever = found["inclusion of one session"], found["inclusion of one session in any of 6 steps"]
    assert once.computed[0] == pytest.approx(2 / 10 * 2 / 5)
    assert ever.computed[0] == pytest.approx(2 / 10 * (1 - (3 / 5) ** 6))
    assert ever.trials == 10_000
    assert ever.interval[1] < 1 - (1 - 2 / 10 * 2 / 5) ** 6  # what draws of both levels in every step would give


def test_everything_has_its_turn_in_a_pass():
    found = checks(PLANS["shuffle"])
    assert found["inclusion of one user in a pass"].observed == 1
    batch = found["batch size (user)"]
    assert (batch.note, batch.observed) == ("from 3 to 4", pytest.approx(23 / 6))


def test_built_tasks():
    found = checks(PLANS["record of built tasks"], draws=20_000)
    assert found["inclusion of one session"].computed[0] == pytest.approx(1 - (1 - 4 / 10 * 3 / 6) ** 3)
    assert found["batch size (session)"].observed == 3 * 4 * 3


@pytest.mark.usefixtures("fresh_caches")
@pytest.mark.parametrize("name", ["again", "nested group", "held", "record of built tasks"])
def test_a_wrong_law_is_found(name, monkeypatch):
    distribution = batches.member_distribution

    def rarer(*arguments):
        claimed = distribution(*arguments)
        probabilities = {count: p * (1 if count == 0 else Fraction(3, 4)) for count, p in claimed.probabilities.items()}
        return replace(claimed, probabilities=probabilities)

    monkeypatch.setattr(batches, "member_distribution", rarer)
    wrong = [check.quantity for check in simulated(PLANS[name], draws=90_000, runs=1).checks if not check.agrees]
    assert wrong
    assert wrong[0].startswith("inclusion of ")


def test_shuffles_that_are_not_drawn():
    uneven = (
        Level(name="user", count=3, scheme=All()),
        Level(name="session", min_count=3, count=9, scheme=Shuffle(size=3)),
    )
    with pytest.raises(UnsupportedError, match="one shuffle, of frames of one size"):
        simulated(plan(uneven, unit=2))


@pytest.mark.parametrize("scheme", [AGAIN, TWO, All()])
def test_levels_that_no_round_reaches_contradict_nothing(scheme):
    rare = Poisson(probability=Fraction(1, 10**9))
    result = simulated(plan(levels((10, rare), (6, scheme))), draws=100)
    assert result.agrees
    assert [check.observed for check in result.checks if check.quantity.startswith("batch size")] == [0.0]


# Correlated noise: the whole release of one data set.

ONES = Toeplitz(coefficients=(1.0, 1.0, 1.0, 1.0))
GROUPS = CyclicPoisson(probability=Fraction(1, 5), groups=4, max_batch_size=4, max_group_size=10)
MATRIX = Matrix(
    name="c.npy", digest="1", entries=np.tril(np.random.default_rng(3).normal(size=(12, 12))) + 2 * np.eye(12)
)
CORRELATED = {  # strategy, scheme, steps, limits
    "any order": (ONES, AnyOrder(), 12, {"min_separation": 2}),
    "prefix sums": (PrefixSum(), AnyOrder(), 12, {"min_separation": 4, "max_participations": 2}),
    "tree": (Tree(restart_every=5), AnyOrder(), 12, {"min_separation": 3}),
    "matrix": (MATRIX, AnyOrder(), 12, {"min_separation": 5}),
    "longer matrix": (MATRIX, AnyOrder(), 7, {"min_separation": 5}),
    "bins": (ONES, BallsInBins(bins=8, is_held=True), 20, {}),
    "groups": (ONES, GROUPS, 12, {}),
}


def correlated_plan(name):
    strategy, scheme, steps, limits = CORRELATED[name]
    noise = MatrixFactorization(strategy=strategy, noise_multiplier=1.5, **limits)
    asked = plan(levels((40, scheme)), steps=steps, adjacency=Adjacency.ADD_REMOVE)
    return replace(asked, phases=(replace(asked.phases[0], mechanism=noise),))


@pytest.mark.parametrize("name", CORRELATED)
def test_whole_releases_cost_no_more_than_the_bound(name):
    result = simulated(correlated_plan(name), draws=300, runs=20_000)
    assert result.agrees
    releases = [check for check in result.checks if "of one data set" in check.quantity]
    assert [check.quantity.rsplit(", ", maxsplit=1)[1] for check in releases] == ["D||D'", "D'||D"]
    assert all(check.computed[0] == 0 for check in releases)
    assert releases[0].observed > 0
    # Batches are drawn where the scheme says which units are in a step.
    assert any("batch size" in check.quantity for check in result.checks) is (name == "bins")
    assert any("no batches" in note for note in result.notes) is (name != "bins")
    if name in {"any order", "prefix sums"}:  # exact, and of this very data set
        assert releases[0].interval[0] < releases[0].computed[1] < releases[0].interval[1]


def test_a_bound_of_a_release_that_is_too_small_is_found(monkeypatch):
    sensitivity = MatrixFactorization.sensitivity

    def smaller(mechanism, steps):
        right = sensitivity(mechanism, steps)
        return replace(right, squared=Bounds(right.squared.lower / 2, right.squared.upper / 2))

    monkeypatch.setattr(MatrixFactorization, "sensitivity", smaller)
    monkeypatch.setattr(correlated, "_separated_bins", lambda scheme, steps, _: (scheme, steps))
    monkeypatch.setattr(CyclicPoisson, "group_draw", lambda *_: Poisson(probability=Fraction(1, 5)))
    for name in ("any order", "prefix sums", "tree", "bins"):
        assert not simulated(correlated_plan(name), draws=300, runs=20_000).agrees


def test_releases_that_are_not_drawn():
    levels_below = levels((40, replace(GROUPS, max_batch_size=None)), (5, HALF))
    noise = MatrixFactorization(strategy=ONES, noise_multiplier=1.5)
    asked = plan(levels_below, steps=12, adjacency=Adjacency.ADD_REMOVE)
    asked = replace(asked, phases=(replace(asked.phases[0], mechanism=noise),))
    result = simulated(asked, draws=100, runs=400)
    assert "no release of training is drawn: levels below the one that decides" in result.notes[1]
    many = plan(levels((40, BallsInBins(bins=3000))), steps=3000, adjacency=Adjacency.ADD_REMOVE)
    many = replace(many, phases=(replace(many.phases[0], mechanism=noise),))
    assert no_release_reason(many, many.phases[0]) == "its strategy has too many entries"
