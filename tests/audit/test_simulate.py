"""Every scheme drawn index by index against its computed law: with and without groups, held, shuffled, built."""

from dataclasses import replace
from fractions import Fraction

import pytest

from dpcalc.audit import simulate
from dpcalc.audit.simulate import simulate_plan
from dpcalc.errors import UnsupportedError
from dpcalc.guarantee import Adjacency
from dpcalc.mechanisms.matrix_factorization import MatrixFactorization, Toeplitz
from dpcalc.sampling.hierarchy import Episodes, Hierarchy, Level, tree_of
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
from tests.runs import of_tree, run_of
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


def plan(levels, *, unit=1, steps=60, adjacency=Adjacency.REPLACE_ONE, **more):
    run = levels if isinstance(levels, tuple) else (levels,)
    return run_of(*run, unit=unit, steps=steps, adjacency=adjacency, noise=8.0, delta=1e-4, **more)


def simulated(asked, *, draws=4000):
    return simulate_plan(asked, seed=11, draws=draws, on_progress=lambda _: None)


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
        of_tree(tree_of([1, 2, 5, 9], ("user", "file")), ("user", "file"), (TWO, Fixed(size=3, at_most=True))),
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
    found, notes = simulated(asked)
    assert notes == []
    assert [check for check in found if not check["agrees"]] == []


def checks(asked, draws=4000):
    return {check["quantity"]: check for check in simulated(asked, draws=draws)[0]}


def test_held_draws_are_held():
    found = checks(PLANS["held"], draws=60_000)
    once, ever = found["inclusion of one session"], found["inclusion of one session in any of 6 steps"]
    assert once["computed_lower"] == pytest.approx(2 / 10 * 2 / 5)
    assert ever["computed_lower"] == pytest.approx(2 / 10 * (1 - (3 / 5) ** 6))
    assert ever["draws"] == 10_000
    assert ever["observed_upper"] < 1 - (1 - 2 / 10 * 2 / 5) ** 6  # what draws of both levels in every step would give


def test_everything_has_its_turn_in_a_pass():
    found = checks(PLANS["shuffle"])
    assert found["inclusion of one user in a pass"]["observed"] == 1
    batch = found["batch size (user)"]
    assert (batch["note"], batch["observed"]) == ("from 3 to 4", pytest.approx(23 / 6))


def test_a_batch_of_a_certain_size_is_that_number():
    """Others were 12.000000000000002, shown as 12.001."""
    names, schemes = ("user", "file"), (Fixed(size=3), Fixed(size=2))
    hierarchy = of_tree(tree_of([3, 9, 9, 9, 9, 7, 3], names), names, schemes)
    batch = checks(plan(hierarchy, unit=2), draws=100)["batch size (file)"]
    assert (batch["computed_lower"], batch["computed_upper"]) == (6.0, 6.0)


def test_records_of_the_smallest_class_are_in_most_tasks():
    sizes = (Level(name="class", count=5, scheme=All()), Level(name="image", min_count=3, count=9, scheme=All()))
    tasks = Episodes(tasks=3, ways=2, shots=1, queries=1)
    found = checks(plan(Hierarchy(levels=sizes, episodes=tasks), unit=2, clip=1))
    assert found["inclusion of one image"]["computed_lower"] == pytest.approx(1 - (1 - 2 / 5 * 2 / 3) ** 3)
    assert all(check["agrees"] for check in found.values())


@pytest.mark.usefixtures("fresh_caches")
@pytest.mark.parametrize("name", ["again", "nested group", "held", "record of built tasks"])
def test_a_wrong_law_is_found(name, monkeypatch):
    distribution = simulate.member_distribution

    def rarer(*arguments):
        law, *claimed = distribution(*arguments)
        return {count: p * (1 if count == 0 else Fraction(3, 4)) for count, p in law.items()}, *claimed

    monkeypatch.setattr(simulate, "member_distribution", rarer)
    wrong = [check["quantity"] for check in simulated(PLANS[name], draws=90_000)[0] if not check["agrees"]]
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
    found, _ = simulated(plan(levels((10, rare), (6, scheme))), draws=100)
    assert all(check["agrees"] for check in found)
    assert [check["observed"] for check in found if check["quantity"].startswith("batch size")] == [0.0]


@pytest.mark.parametrize(
    ("scheme", "limits", "why"),
    [
        (AnyOrder(), {"min_separation": 2}, "the config states limits alone"),
        (CyclicPoisson(probability=Fraction(1, 5), groups=4), {}, "the training code splits the units into groups"),
        (BallsInBins(bins=8, is_held=True), {}, ""),
    ],
)
def test_batches_are_drawn_where_the_scheme_says_who_is_in_a_step(scheme, limits, why):
    asked = plan(levels((40, scheme)), steps=20, adjacency=Adjacency.ADD_REMOVE)
    noise = MatrixFactorization(strategy=Toeplitz(coefficients=(1.0, 1.0)), noise_multiplier=1.5, **limits)
    found, notes = simulated(replace(asked, phases=(replace(asked.phases[0], mechanism=noise),)), draws=300)
    assert all(check["agrees"] for check in found)
    assert bool(found) is not bool(why)
    assert notes == ([f"no batches of training are drawn: {why}; `audit-sampler` tests a log"] if why else [])
