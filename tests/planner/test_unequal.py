"""Plans over unequal sizes: the costliest unit decides, and few are worked out."""

import random
from collections import Counter
from dataclasses import replace
from fractions import Fraction

import pytest

from dpcalc.accountants import accountant_of
from dpcalc.errors import InputError
from dpcalc.guarantee import Adjacency
from dpcalc.planner.compare import compare, cross_checks
from dpcalc.planner.composition import BACKWARD, FORWARD, composed, protected_units
from dpcalc.planner.evaluate import delta_of, evaluate, guarantee
from dpcalc.planner.solve import EpsilonGoal, solve
from dpcalc.planner.words import sampling_text
from dpcalc.sampling.hierarchy import Hierarchy, Level, tree_of
from dpcalc.sampling.schemes import All, Fixed, Poisson
from tests.runs import of_tree, run_of

NAMES = ("task", "session", "example")
EXAMPLE = [[4, 2, 3], [4, 5]]
ONE = Fixed(size=1)


def hierarchy(counts, schemes):
    names = NAMES[: len(schemes)]
    return of_tree(tree_of(counts, names), names, schemes)


def run(*hierarchies, unit=3, clip=3, adjacency=Adjacency.ADD_REMOVE, noise=4.0, steps=50):
    asked = {"unit": unit, "clip": clip, "adjacency": adjacency, "noise": noise, "steps": steps, "delta": 1e-4}
    runs = [run_of(one, **asked) for one in hierarchies]
    phases = (replace(each.phases[0], name=f"phase {number}") for number, each in enumerate(runs))
    return replace(runs[0], phases=tuple(phases))


@pytest.mark.heavy
def test_the_direction_names_the_first_of_the_costliest_units():
    plan = run(hierarchy([[5, 7], [6, 3], [4, 3]], (ONE, ONE, ONE)))
    assert [one.place for one in protected_units(plan)] == ["task 2, session 2"]
    found = evaluate(plan)
    assert found.guarantee.direction in {f"{FORWARD}, task 2, session 2", f"{BACKWARD}, task 2, session 2"}
    assert found.phases[0].inclusion == Fraction(1, 3 * 2 * 3)
    assert found.phases[0].sampling.endswith("1 of 3 to 7 (example), fixed size; costliest: task 2, session 2")
    protected = run(hierarchy([[5, 7], [6, 3]], (ONE, ONE, All())), unit=2)
    assert "task 1, session 2" in {one.place for one in protected_units(protected)}


def test_units_that_are_alike_need_no_name():
    plan = run(hierarchy([[3, 3], [3, 3]], (ONE, ONE, ONE)))
    assert [one.place for one in protected_units(plan)] == [""]
    assert guarantee(plan).direction in {FORWARD, BACKWARD}


@pytest.mark.heavy
def test_the_unit_is_the_same_in_every_phase():
    """Each phase has another worst unit; charging both would cost more than any unit can."""
    phases = [hierarchy([[9], [1, 1]], (draw, ONE, ONE)) for draw in (Poisson(probability=Fraction(1, 2)), ONE)]
    first, second = (composed(run(each, unit=2)).steps for each in phases)

    def cost(*steps):
        return accountant_of("pld")(sum(map(Counter, steps), Counter()), delta=1e-4).epsilon

    worst, other = (max(steps, key=lambda unit, steps=steps: cost(steps[unit])) for steps in (first, second))
    both = guarantee(run(*phases, unit=2)).epsilon
    assert worst != other
    assert both == pytest.approx(max(cost(first[unit], second[unit]) for unit in first), rel=1e-9)
    assert both < cost(first[worst], second[other]) * (1 - 1e-3)


@pytest.mark.heavy
@pytest.mark.usefixtures("fresh_caches")
def test_a_million_counts_are_few_classes():
    rng = random.Random(2)  # noqa: S311  sizes, no secrets
    counts = [[rng.randint(5, 60) for _ in range(rng.randint(900, 1100))] for _ in range(1000)]
    tree = tree_of(counts, NAMES)
    for schemes in ([Fixed(size=5)] * 3, [Poisson(probability=Fraction(1, 9))] * 3, [Fixed(size=5), ONE, All()]):
        plan = run(of_tree(tree, NAMES, schemes))
        assert len(protected_units(plan)) <= 3
    assert len(protected_units(run(of_tree(tree, NAMES, [ONE, ONE, All()]), unit=1))) == 1


@pytest.mark.heavy
def test_sizes_between_two_ends():
    levels = (
        Level(name="user", count=100, scheme=Fixed(size=10)),
        Level(name="example", min_count=5, count=64, scheme=Fixed(size=5)),
    )
    plan = run(Hierarchy(levels=levels), unit=2, clip=2)
    assert [one.place for one in protected_units(plan)] == [
        "5 (example) under one parent",
        "6 (example) under one parent",
    ]
    exact = []
    for count in (5, 6, 7, 8, 12, 30, 64):
        equal = Hierarchy(levels=(levels[0], replace(levels[1], min_count=count, count=count)))
        exact.append(guarantee(run(equal, unit=2, clip=2)).epsilon)
    assert guarantee(plan).epsilon == max(exact)
    assert sampling_text(plan.phases[0]).endswith("then 5 of 5 to 64 (example), fixed size")


@pytest.mark.heavy
def test_the_other_questions():
    plan = run(hierarchy(EXAMPLE, (ONE, ONE, ONE)), clip=1)
    found = evaluate(plan)
    answer = delta_of(plan, epsilon=found.guarantee.epsilon)
    assert answer.delta == pytest.approx(plan.delta, rel=1e-3)
    assert answer.direction == found.guarantee.direction
    assert 0 < answer.delta_lower <= answer.delta
    rows = {(row.method, row.bound): row for row in compare(plan)}
    assert rows["inversion", "one-step bound"].epsilon == pytest.approx(found.guarantee.epsilon, rel=1e-4)
    assert composed(plan).likeliest.bounds[0].inclusion == Fraction(1, 12)
    assert len(cross_checks(plan)) == 2
    solved = solve(plan, "steps", goal=EpsilonGoal(limit=2 * found.guarantee.epsilon))
    assert solved.guarantee.epsilon <= 2 * found.guarantee.epsilon
    drawn = solve(replace(plan, unit=1), "rate", goal=EpsilonGoal(limit=1000.0))
    assert drawn.value == 1


def test_phases_hold_the_same_data():
    one, other = hierarchy(EXAMPLE, (ONE, ONE, ONE)), hierarchy([[4, 2, 3], [5, 5]], (ONE, ONE, ONE))
    with pytest.raises(InputError, match="same levels and counts"):
        run(one, other)


def test_an_outermost_level_has_no_parent():
    level = Level(name="user", min_count=3, count=100, scheme=Fixed(size=2))
    assert [one.place for one in protected_units(run(Hierarchy(levels=(level,)), unit=1, clip=1))] == [
        "3 (user) in all"
    ]
