"""Small random plans against whole profiles of data sets, both directions, for every bound that may be taken.

The plans are those of the newer bounds: cut draws beside random mates (Theorem 4.9), contents told or hidden (6.9,
6.15, 6.16), groups, all of one parent or of several (6.11, 6.12), draws held above fresh ones (7.11), Laplace noise.
Data sets are enumerated from the definitions (`tests.oracles.draws`), and climb.
"""

from functools import partial

import numpy as np
import pytest

from dpcalc.mechanisms.additive import Laplace
from tests.oracles.adversary import climb
from tests.oracles.brute_force import ADD_REMOVE, RELATIONS
from tests.oracles.draws import Draw
from tests.oracles.multistage import (
    RATES,
    Problem,
    all_of_one,
    bound,
    data_sets,
    fresh_below,
    group,
    random_draw,
    random_problem,
    random_sigma,
    truth_of,
)
from tests.oracles.other_noise import hockey_sticks, laplace_cells, mixtures
from tests.oracles.test_hidden_groups import nested_group
from tests.oracles.test_multistage import NEVER, ROUND_OFF
from tests.oracles.test_multistage_choices import choices_of, told
from tests.oracles.test_other_noise import with_mechanism


def beside_mates(rng):
    """One unit below drawn ones, clipped at or below it, with random numbers of records beside it; some draws cut."""
    depth = int(rng.choice([2, 2, 3]))
    unit = int(rng.integers(2, depth + 1))
    counts = [int(rng.integers(2, 4)) for _ in range(depth)]
    relation = str(rng.choice(RELATIONS))
    kinds = ("fixed", "poisson", "poisson", "all")
    tree = [
        random_draw(rng, count, count - (level == unit and relation == ADD_REMOVE), kinds=kinds)
        for level, count in enumerate(counts, start=1)
    ]
    if rng.random() < 0.4:
        at = int(rng.integers(depth))
        cap = int(rng.integers(1, counts[at] + 1))
        tree[at] = Draw(counts[at], "capped", RATES[rng.integers(len(RATES))], cap=cap)
    clip = int(rng.integers(unit, depth + 1))
    return Problem(tuple(tree), ((0,) * unit,), clip, relation, random_sigma(rng))


def below_two_ancestors(rng):
    """One unit that two ancestors or three may be missed above, so that batches are shared at each of them."""
    depth = int(rng.choice([3, 3, 3, 4]))
    unit = int(rng.integers(3, depth + 1))
    counts = [int(rng.integers(2, 4 if depth == 3 else 3)) for _ in range(depth)]
    relation = str(rng.choice(RELATIONS))
    kinds = ("fixed", "poisson", "poisson")
    tree = [
        random_draw(rng, count, count - 1, kinds=kinds if level < unit else (*kinds, "all"))
        for level, count in enumerate(counts, start=1)
    ]
    if rng.random() < 0.2:
        at = int(rng.integers(depth))
        tree[at] = Draw(counts[at], "capped", RATES[rng.integers(len(RATES))], cap=int(rng.integers(1, counts[at] + 1)))
    return Problem(tuple(tree), ((0,) * unit,), int(rng.integers(unit, depth + 1)), relation, random_sigma(rng))


def in_another_place(rng):
    """One unit of random contents, drawn with a fixed number of others, perhaps below another draw."""
    depth = int(rng.choice([2, 2, 3, 3]))
    unit = depth - 1 if rng.random() < 0.8 else 1
    relation = str(rng.choice(RELATIONS))
    counts = [int(rng.integers(2, 5 if level == unit else 4)) for level in range(1, depth + 1)]
    most = counts[unit - 1] - 1
    tree = [random_draw(rng, count, count - 1, kinds=("all", "all", "poisson", "fixed")) for count in counts]
    tree[unit - 1] = Draw(counts[unit - 1], "fixed", int(rng.integers(1, most + 1)))
    tree[-1] = Draw(counts[-1], "poisson", RATES[rng.integers(len(RATES))])
    return Problem(tuple(tree), ((0,) * unit,), depth, relation, random_sigma(rng))


def all_of_some(rng):
    """All units of one parent or two, whatever becomes of them, clipped one level above the parents or below."""
    depth = int(rng.choice([2, 2, 3]))
    unit, relation = int(rng.integers(2, depth + 1)), str(rng.choice(RELATIONS))
    counts = [int(rng.integers(1 if level > unit else 2, 4)) for level in range(1, depth + 1)]
    kinds = ("fixed", "poisson", "poisson", "all")
    tree = tuple(random_draw(rng, count, count - 1, kinds=kinds) for count in counts)
    parents = [(0,) * (unit - 2) + (at,) for at in range(int(rng.choice([1, 2])))]
    members = tuple((*parent, at) for parent in parents for at in range(counts[unit - 1]))
    return Problem(tree, members, int(rng.integers(unit - 2, depth + 1)), relation, random_sigma(rng))


FLAVOURS = [
    beside_mates,
    in_another_place,
    fresh_below,
    nested_group,
    all_of_one,
    group,
    all_of_some,
    below_two_ancestors,
]
KINDS = [(flavour, noise) for flavour in FLAVOURS for noise in ("gaussian", "laplace")]
KINDS.remove((fresh_below, "laplace"))
CHANGES = (0.0, 0.1, 0.6, 1.5, 3.0)  # epsilons in shifts over the noise, before they are amplified


def climbed(run, cost, rng):
    """Values by role and step that cost most, from the unit at one end and all others at the other."""
    roles = list(dict.fromkeys(run.roles))

    def spread(by_role):
        at = dict(zip(roles, by_role, strict=True))
        return np.array([[at[role] for role in run.roles]] * run.steps)

    start = np.array([1.0 if role == ("unit", 0) else -1.0 for role in roles])
    return spread(climb(start, lambda by_role: cost(spread(by_role)), rng, most_keys=4))


def largest_ratio(problem, rng, *, laplace):
    """(largest truth / bound over data sets, epsilons, directions and bounds, the data set)."""
    run, sigma = problem.run, problem.sigma
    inclusion = float(np.prod([float(min(draw.rate, 1)) for draw in problem.tree[: problem.plan.unit]]))
    epsilons = np.log1p(inclusion * np.expm1(np.array(CHANGES if problem.steps == 1 else CHANGES[1:4]) / sigma))
    if laplace:
        allowed = [bound(with_mechanism(problem, Laplace(noise_multiplier=sigma)), epsilons)]
        cells = partial(laplace_cells, scale=sigma, steps=problem.steps)
    else:
        allowed = [told(each, problem, epsilons) for each in choices_of(problem)]

    def truth(values, **fineness):
        if laplace:
            return hockey_sticks(*mixtures(run, values, cells), epsilons)
        return truth_of(run, values, sigma, epsilons, **fineness)

    def ratio(values, **fineness):
        found = truth(values, **fineness) - ROUND_OFF
        return max(float((found / np.maximum(each, ROUND_OFF)).max()) for each in allowed)

    tried = [*data_sets(run, rng, extreme=6, random=1, in_plane=0)]
    if problem.steps == 1:
        direction, at = int(rng.integers(2)), int(rng.integers(len(epsilons)))
        tried.append(climbed(run, lambda values: truth(values)[direction, at], rng))
    worst = max(((ratio(values), at) for at, values in enumerate(tried)))
    if worst[0] > NEVER and problem.steps > 1:  # the quick sum is good to three digits
        worst = max(((ratio(values, per_sigma=256), at) for at, values in enumerate(tried)))
    return worst[0], tried[worst[1]]


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("block", "plans"), [(0, 2), *(pytest.param(block, 25, marks=pytest.mark.slow) for block in range(1, 13))]
)
@pytest.mark.parametrize(("flavour", "noise"), KINDS, ids=lambda each: getattr(each, "__name__", each))
def test_no_data_set_is_above_any_bound(flavour, noise, block, plans):
    """4,530 plans in all."""
    rng, ratios = np.random.default_rng([FLAVOURS.index(flavour), noise == "laplace", block, 41]), []
    while len(ratios) < plans:
        problem = random_problem(rng, flavour, most_outcomes=120)
        if problem.steps == 1 or noise == "gaussian":
            ratio, values = largest_ratio(problem, rng, laplace=noise == "laplace")
            assert ratio <= NEVER, (problem, values)
            ratios.append(ratio)
    assert max(ratios) > 0.5
