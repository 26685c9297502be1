"""Each bound of a group below drawn units by itself against enumerated data sets, whichever of them is chosen."""

import itertools
from collections import Counter
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from dpcalc.accountants.composed_loss import UPPER
from dpcalc.accountants.pld import delta_bounds
from dpcalc.amplification.bound import Member, hidden_draws, missed_distances
from dpcalc.amplification.random_contents import averaged_group_bound
from dpcalc.amplification.schedule import phase_steps, step_profile
from dpcalc.guarantee import Adjacency
from dpcalc.mechanisms.additive import Gaussian
from dpcalc.planner.composition import protected_units
from dpcalc.planner.evaluate import guarantee
from dpcalc.planner.plan import Phase, Plan
from dpcalc.sampling.hierarchy import Hierarchy, Level
from dpcalc.sampling.paths import Path
from dpcalc.sampling.schemes import Fixed, Poisson
from tests.oracles.brute_force import RELATIONS
from tests.oracles.multistage import (
    Problem,
    data_sets,
    group,
    random_draw,
    random_problem,
    truth_of,
    unequal_group,
)
from tests.oracles.test_multistage import NEVER, ROUND_OFF, telling


def bounds_of(plan, epsilons):
    """The largest delta over placements and directions, for each kind of bound that is offered."""
    found = {}
    for one in protected_units(plan):
        for number, timed in enumerate(one.choices[0]):
            for counts in phase_steps(
                timed, steps=plan.steps, noise_multiplier=plan.phases[0].mechanism.noise_multiplier
            ):
                deltas = np.array([delta_bounds(counts, epsilon=float(e), sides=(UPPER,))[0] for e in epsilons])
                found[number] = np.maximum(found.get(number, 0.0), deltas)
    return found


@pytest.mark.heavy
@pytest.mark.parametrize("enough", [2, pytest.param(40, marks=pytest.mark.slow)])
@pytest.mark.parametrize("flavour", [group, unequal_group], ids=lambda flavour: flavour.__name__)
def test_every_bound_holds(flavour, enough):
    rng, offered = np.random.default_rng(11), Counter()
    while offered[1] < enough:
        problem = random_problem(rng, flavour, most_outcomes=100)
        if problem.plan.unit == 1 or len({len(one.choices[0]) for one in protected_units(problem.plan)}) > 1:
            continue
        epsilons = telling(problem)
        bounds = bounds_of(problem.plan, epsilons)
        offered.update(bounds.keys())
        for values in data_sets(problem.run, rng, extreme=2, random=0, in_plane=0):
            truth = truth_of(problem.run, values, problem.sigma, epsilons)
            for allowed in bounds.values():
                assert ((truth - ROUND_OFF) / np.maximum(allowed, ROUND_OFF)).max() <= NEVER


def test_hiding_the_draws_above_is_worth_it():
    """Two records under 32 of 1200 tasks, clipped per task: far below three times one record; revealed, ten times."""
    levels = (
        Level(name="task", count=1200, scheme=Fixed(size=32)),
        Level(name="record", count=20, scheme=Fixed(size=5)),
    )
    phase = Phase(
        name="run",
        hierarchy=Hierarchy(levels=levels),
        mechanism=Gaussian(noise_multiplier=6.0),
        clip=1,
        steps=10_000,
    )
    one = Plan(phases=(phase,), unit=2, adjacency=Adjacency.ADD_REMOVE, delta=1e-5)
    single, pair = (guarantee(replace(one, group_size=size), method="rdp").epsilon for size in (1, 2))
    assert single < pair < 3 * single


def nested_group(rng):
    """Two or three members in two or three levels, clipped at or below them, where draws beside them are random."""
    depth = int(rng.choice([2, 2, 3]))
    unit = int(rng.integers(2, depth + 1))
    counts = [int(rng.integers(2, 5 if depth == 2 else 4)) for _ in range(depth)]
    places = list(itertools.product(*map(range, counts[:unit])))
    chosen = rng.choice(len(places), int(rng.integers(2, 4)), replace=False)
    members = tuple(sorted(places[index] for index in chosen))
    kinds = ("fixed", "poisson", "poisson", "all")
    tree = tuple(random_draw(rng, count, count - 1, kinds=kinds) for count in counts)
    clip = int(rng.integers(unit, depth + 1))
    return Problem(tree, members, clip, str(rng.choice(RELATIONS)), float(np.exp(rng.uniform(-0.3, 1.8))))


def nested(members):
    """The placement of members: how many in each frame."""
    if len(members[0]) == 1:
        return len(members)
    frames = [[inner for first, *inner in members if first == unit] for unit in {member[0] for member in members}]
    return tuple(map(nested, frames))


def in_order(placement):
    return tuple(sorted(map(in_order, placement), key=str)) if isinstance(placement, tuple) else placement


def group_ratio(rng):
    """(largest truth / averaged bound, smallest averaged / largest bound) of a random group; None if not averaged."""
    problem = random_problem(rng, nested_group, most_outcomes=300)
    (one,) = (
        one
        for one in protected_units(problem.plan)
        if in_order(one.group.placement) == in_order(nested(problem.members))
    )
    average = next((each.bound for each in one.choices[0] if hasattr(each.bound, "largest")), None)
    if average is None:
        return None
    growth = np.expm1(np.array([0.2, 0.6, 1.5, 3.0]) / problem.sigma)
    epsilons = np.array([0.0, *np.log1p(float(average.parts[0][1].inclusion) * growth), -0.02])
    ours, largest = (
        np.array([[side.delta(float(epsilon)) for epsilon in epsilons] for side in (profile, profile.swapped)])
        for profile in (step_profile(bound, noise_multiplier=problem.sigma) for bound in (average, average.largest))
    )
    truths = [
        truth_of(problem.run, values, problem.sigma, epsilons)
        for values in data_sets(problem.run, rng, extreme=6, random=1, in_plane=0)
    ]
    gain = np.maximum(ours, 1e-9) / np.maximum(largest, 1e-9)
    return float(((np.max(truths, axis=0) - ROUND_OFF) / np.maximum(ours, ROUND_OFF)).max()), float(gain.min())


@pytest.mark.heavy
@pytest.mark.parametrize("number", [12, pytest.param(500, marks=pytest.mark.slow)])
def test_no_data_set_exceeds_the_average_of_a_group(number):
    results = [group_ratio(np.random.default_rng([seed, 17])) for seed in range(number)]
    ratios = [result for result in results if result is not None]
    assert max(ratio for ratio, _ in ratios) <= NEVER
    assert max(ratio for ratio, _ in ratios) > 0.99
    assert min(gain for _, gain in ratios) < 0.5


@pytest.mark.heavy
def test_averages_of_groups_are_worth_it():
    """Two records, expected 4 of 200 tasks and 5 of 20 records: 8.22 with the largest numbers beside them."""
    levels = (
        Level(name="task", count=200, scheme=Poisson(probability=Fraction(1, 50))),
        Level(name="record", count=20, scheme=Poisson(probability=Fraction(1, 4))),
    )
    noise = Gaussian(noise_multiplier=6.0)
    phase = Phase(name="run", hierarchy=Hierarchy(levels=levels), mechanism=noise, clip=2, steps=20_000)
    plan = Plan(phases=(phase,), unit=2, adjacency=Adjacency.ADD_REMOVE, delta=1e-5, group_size=2)
    assert 1.17 < guarantee(plan).epsilon < 3.2


@pytest.mark.parametrize(
    ("outer", "distances"), [(Fixed(size=2), (10, 20)), (Poisson(probability=Fraction(1, 2)), (3, 9))]
)
@pytest.mark.parametrize("inner", [Fixed(size=1), Poisson(probability=Fraction(1, 3))])
def test_only_a_fixed_outermost_draw_has_stand_ins(outer, distances, inner):
    """One of two units of 3 contributions is drawn, siblings have 7: it goes, one comes; or it goes, both come."""
    path = Path(place=(), counts=(5, 4), schemes=(outer, inner), contributions=(3, 1), siblings=(7, 1))
    member = Member(own=1, stand_in=1, adjacency=Adjacency.ADD_REMOVE)
    assert missed_distances(path, (1, 1), member, 1, 1) == distances


@pytest.mark.parametrize(("min_count", "fewest"), [(9, 3), (8, 1)])
def test_units_that_leave_count_for_the_fewest_that_a_part_stands_for(min_count, fewest):
    """4 of 9 units of 20 records are drawn, 4 hold a member: with 3 drawn, one full unit may leave for the fourth."""
    levels = (
        Level(name="task", count=9, min_count=min_count, scheme=Fixed(size=4)),
        Level(name="record", count=20, scheme=Poisson(probability=Fraction(1, 100))),
    )
    hierarchy = Hierarchy(levels=levels)
    path = Path(
        place=(),
        counts=(min_count, 20),
        schemes=(levels[0].scheme, levels[1].scheme),
        contributions=(20, 1),
        siblings=(20, 1),
    )
    member = Member(own=1, stand_in=None, adjacency=Adjacency.ZERO_OUT)
    average = averaged_group_bound(hierarchy, path, (1, 1, 1, 1), member, clip=2)
    _, missed, _ = hidden_draws(path, (1, 1, 1, 1), None)
    for _, part in average.parts:
        chances = np.cumsum([float(chance) for chance in part.chances])
        redrawn = np.flatnonzero(chances > float(missed[0]) * (1 + 1e-9))  # with units of the group, but no member
        least = min(part.distances[at] for at in redrawn)
        assert least >= part.shift + (4 - max(min(part.shift, 3), fewest)) * 20
    assert {part.shift for _, part in average.parts} == {1, 2, 3, 4}
