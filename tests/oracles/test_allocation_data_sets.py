"""Whole plans whose units choose their steps against all data sets of a few units: enumeration, a grid of outputs."""

import itertools
import math
from collections import defaultdict
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import reduce

import numpy as np
import pytest
from scipy.special import ndtr

from dpcalc.guarantee import Adjacency
from dpcalc.mechanisms.additive import Gaussian
from dpcalc.planner.evaluate import evaluate
from dpcalc.planner.plan import Phase, Plan
from dpcalc.sampling.hierarchy import Hierarchy, Level
from dpcalc.sampling.schemes import BallsInBins, Fixed, Poisson, RandomAllocation
from tests.oracles.multistage import bound
from tests.thinning import thinned

NODES = {1: 400, 2: 40, 3: 10}  # of the grid in a standard deviation, by the number of steps
ERROR = {1: 1e-5, 2: 5e-4, 3: 6e-3}  # relative, of a delta: twice what half the distance of the nodes moves it by


@dataclass(frozen=True, kw_only=True)
class Problem:
    """One phase over users of two records, or over users alone (records = 0)."""

    scheme: object
    steps: int
    sigma: float
    adjacency: str = "add-remove"
    unit: str = "user"
    group: int = 1
    records: int = 0
    inner: object = None
    clip: str = "user"
    passes: int = 1  # under one choice that is held: summed, which says as much about constant Gaussian steps


def choices(problem):
    """Every set of steps that a user can choose, with its probability."""
    match problem.scheme:
        case BallsInBins(bins=bins):
            sets = [(step,) for step in range(bins)]
        case RandomAllocation(times=times, steps=steps):
            sets = list(itertools.combinations(range(steps), times))
        case Poisson(probability=q):  # held for all steps
            return [((), 1 - float(q)), (tuple(range(problem.steps)), float(q))]
    return [(tuple(step for step in chosen if step < problem.steps), 1 / len(sets)) for chosen in sets]


def drawn_sums(problem, records):
    """Law of one user's contribution to a step that it chose."""
    law = defaultdict(float)
    match problem.inner:
        case None:
            draws = [(tuple(range(len(records))), 1.0)]
        case Poisson(probability=q):
            draws = [
                (kept, float(q) ** len(kept) * (1 - float(q)) ** (len(records) - len(kept)))
                for n in range(len(records) + 1)
                for kept in itertools.combinations(range(len(records)), n)
            ]
        case Fixed(size=size):
            sets = list(itertools.combinations(range(len(records)), min(size, len(records))))
            draws = [(kept, 1 / len(sets)) for kept in sets]
    for kept, chance in draws:
        total = sum(records[i] for i in kept)
        law[max(-1, min(1, total)) if problem.clip == "user" else total] += chance
    return law


def user_law(problem, records):
    """Law of one user's contributions to all steps, as tuples."""
    law, each = defaultdict(float), drawn_sums(problem, records)
    for chosen, chance in choices(problem):
        for values in itertools.product(each.items(), repeat=len(chosen)):
            point = [0.0] * problem.steps
            for step, (value, _) in zip(chosen, values, strict=True):
                point[step] = value
            law[tuple(point)] += chance * math.prod(p for _, p in values)
    return law


def means(problem, users):
    """Law of the sums of all steps."""
    total = {(0.0,) * problem.steps: 1.0}
    for records in users:
        added = defaultdict(float)
        for (a, p), (b, q) in itertools.product(total.items(), user_law(problem, records).items()):
            added[tuple(x + y for x, y in zip(a, b, strict=True))] += p * q
        total = added
    return total


def deltas(problem, d, other, epsilon):
    """(delta(epsilon) of D against D', of D' against D): a grid of outputs, exact along that of the last step."""
    sigma = problem.sigma / math.sqrt(problem.passes)
    spacing = sigma / NODES[problem.steps]
    p, q = means(problem, d), means(problem, other)
    centers = [center for law in (p, q) for point in law for center in point]
    axis = np.arange(min(centers) - 8 * sigma, max(centers) + 8 * sigma, spacing)

    def nodes_and_cells(law):
        at_nodes, in_cells = 0.0, 0.0
        for point, weight in law.items():
            scaled = [(axis - center) / sigma for center in point]
            *outer, last = [np.exp(-0.5 * x**2) * spacing / sigma / math.sqrt(2 * math.pi) for x in scaled]
            mass = np.where(scaled[-1][:-1] > 0, np.diff(-ndtr(-scaled[-1])), np.diff(ndtr(scaled[-1])))
            at_nodes = at_nodes + weight * reduce(np.multiply.outer, [*outer, last])
            in_cells = in_cells + weight * reduce(np.multiply.outer, [*outer, mass])
        return at_nodes, in_cells

    (a, a_cells), (b, b_cells) = nodes_and_cells(p), nodes_and_cells(q)
    slope = math.exp(epsilon)
    return (
        positive_part(a - slope * b, a_cells - slope * b_cells),
        positive_part(b - slope * a, b_cells - slope * a_cells),
    )


def positive_part(nodes, cells):
    """Integral of the positive part: cells without a change of sign as they are, the others as if f were linear."""
    left, right = nodes[..., :-1], nodes[..., 1:]
    high, low = np.maximum(left, right), np.minimum(left, right)
    crossing = (high > 0) & (low < 0)
    part = np.where(crossing, high**2 / np.where(crossing, high - low, 1) / 2, np.maximum(cells, 0))
    return part.sum()


def data_sets(problem):
    """Pairs (D, D') of two or three users: every sign of the mates' records, one protected unit or group at +1."""
    size = problem.records or 1
    signs = (1, -1)
    for mates in itertools.product(signs, repeat=size if problem.unit == "user" else 2 * size - 1):
        if problem.unit == "user":
            others = [mates]
            unit, gone = [(1,) * size] * problem.group, {"zero-out": [(0,) * size], "replace-one": [(-1,) * size]}
            yield others + unit, others + gone.get(problem.adjacency, []) * problem.group
        else:
            own, other = mates[: size - 1], mates[size - 1 :]
            gone = {"zero-out": (0,), "replace-one": (-1,)}.get(problem.adjacency, ())
            yield [(*own, 1), other], [own + gone, other]


def plan_of(problem, delta):
    users = 2 + (problem.group - 1)
    period = problem.steps if isinstance(problem.scheme, Poisson) else 1
    levels = [Level(name="user", count=users, scheme=problem.scheme, redraw_every=period)]
    if problem.records:
        levels.append(Level(name="record", count=problem.records, scheme=problem.inner))
    names = ["batch", *(level.name for level in levels)]
    phase = Phase(
        name="training",
        hierarchy=Hierarchy(levels=tuple(levels)),
        mechanism=Gaussian(noise_multiplier=problem.sigma),
        clip=names.index(problem.clip),
        steps=problem.steps * problem.passes,
    )
    return Plan(
        phases=(phase,),
        unit=names.index(problem.unit),
        adjacency=Adjacency(problem.adjacency),
        delta=delta,
        group_size=problem.group,
    )


TWO, THREE = BallsInBins(bins=2), BallsInBins(bins=3)
HALF = Poisson(probability=Fraction(1, 2))
SMALL = {"records": 2, "inner": HALF}
PROBLEMS = [
    *(
        Problem(scheme=TWO, steps=2, sigma=sigma, adjacency=a)
        for sigma in (0.6, 2.0)
        for a in ("add-remove", "zero-out")
    ),
    *(Problem(scheme=TWO, steps=2, sigma=sigma, adjacency="replace-one") for sigma in (0.6, 1.0, 3.0)),
    Problem(scheme=THREE, steps=3, sigma=1.0, adjacency="replace-one"),
    Problem(scheme=THREE, steps=2, sigma=0.8),
    Problem(scheme=BallsInBins(bins=7), steps=1, sigma=0.8, adjacency="replace-one"),
    Problem(scheme=TWO, steps=2, sigma=1.0, group=2),
    Problem(scheme=TWO, steps=2, sigma=1.5, group=2, adjacency="replace-one"),
    Problem(scheme=THREE, steps=3, sigma=1.0, group=2, adjacency="zero-out"),
    Problem(scheme=BallsInBins(bins=2, is_held=True), steps=2, passes=3, sigma=2.0),
    Problem(scheme=BallsInBins(bins=2, is_held=True), steps=2, passes=2, sigma=2.0, adjacency="replace-one"),
    Problem(scheme=RandomAllocation(times=1, steps=3), steps=3, sigma=1.0),
    Problem(scheme=RandomAllocation(times=2, steps=3), steps=3, sigma=1.0),
    Problem(scheme=RandomAllocation(times=2, steps=3), steps=3, sigma=0.7, adjacency="replace-one"),
    Problem(scheme=RandomAllocation(times=2, steps=3), steps=2, sigma=1.0),
    Problem(scheme=TWO, steps=2, sigma=1.0, **SMALL, clip="record"),
    Problem(scheme=TWO, steps=2, sigma=1.0, **SMALL, clip="user"),
    Problem(scheme=TWO, steps=2, sigma=1.5, **SMALL, clip="record", adjacency="replace-one"),
    *(
        Problem(scheme=TWO, steps=2, sigma=1.0, **SMALL, unit="record", clip="record", adjacency=str(a))
        for a in Adjacency
    ),
    *(
        Problem(scheme=TWO, steps=2, sigma=2.0, **SMALL, unit="record", clip="user", adjacency=str(a))
        for a in Adjacency
    ),
    Problem(scheme=TWO, steps=2, sigma=1.0, records=2, inner=Fixed(size=1), unit="record", clip="record"),
    Problem(scheme=TWO, steps=2, sigma=1.0, records=2, inner=Fixed(size=1), clip="record"),
    Problem(scheme=RandomAllocation(times=2, steps=3), steps=3, sigma=1.5, **SMALL, unit="record", clip="record"),
    *(
        Problem(scheme=Poisson(probability=Fraction(1, 3)), steps=2, sigma=1.0, **SMALL, clip=clip, adjacency=adjacency)
        for clip in ("record", "user")
        for adjacency in ("add-remove", "zero-out")
    ),
    Problem(scheme=HALF, steps=2, sigma=0.7, records=3, inner=Poisson(probability=Fraction(1, 10)), clip="record"),
    Problem(scheme=HALF, steps=2, sigma=2.0, **SMALL, unit="record", clip="record"),
]


SMALL_GRIDS = [problem for problem in PROBLEMS if problem.steps < 3]
LARGE_GRIDS = [pytest.param(problem, marks=pytest.mark.slow) for problem in PROBLEMS if problem.steps == 3]


@pytest.mark.heavy
@pytest.mark.parametrize("delta", [1e-2, 1e-4])
@pytest.mark.parametrize("problem", [*thinned(SMALL_GRIDS, 8), *LARGE_GRIDS], ids=repr)
def test_no_data_set_costs_more_and_some_as_much_as_the_lower_end(problem, delta):
    found = evaluate(plan_of(problem, delta)).guarantee
    pairs = list(data_sets(problem))
    for d, other in pairs:
        assert max(deltas(problem, d, other, found.epsilon)) <= delta * (1 + ERROR[problem.steps])
    if found.epsilon_lower is not None:
        silent = [(d, other) for d, other in (*pairs, *zero_mates(problem))]
        assert max(max(deltas(problem, *pair, found.epsilon_lower)) for pair in silent) >= delta * (
            1 - ERROR[problem.steps]
        )
    if found.tight:
        assert found.epsilon - found.epsilon_lower <= 1e-3 * found.epsilon


@pytest.mark.parametrize("sigma", [0.8, 2.0])
@pytest.mark.parametrize(
    ("scheme", "inner", "chance"),
    [
        (BallsInBins(bins=4), None, 1 / 4),
        (RandomAllocation(times=1, steps=5), None, 1 / 5),
        (Poisson(probability=Fraction(1, 20)), Poisson(probability=Fraction(9, 10)), 9 / 200),
    ],
)
def test_a_zeroed_unit_shows_in_a_batch_that_is_clipped_as_a_whole(scheme, inner, chance, sigma):
    """Batches with x, with a zeroed x and without it are three vectors: 1, -1, 0; D' was once taken to hold only 0."""
    records = {"records": 1, "inner": inner} if inner else {}
    problem = Problem(scheme=scheme, steps=1, sigma=sigma, adjacency="zero-out", clip="batch", **records)
    plan = plan_of(problem, 1e-3)
    (phase,) = plan.phases
    held, *below = phase.hierarchy.levels
    levels = (replace(held, redraw_every=2 if inner else 1), *below)
    plan = replace(plan, phases=(replace(phase, hierarchy=Hierarchy(levels=levels)),))
    y = np.linspace(-9 * sigma - 1, 9 * sigma + 1, 20_001)
    with_x, zeroed, without = (np.exp(-0.5 * ((y - at) / sigma) ** 2) for at in (1, -1, 0))
    p, q = ((1 - chance) * without + chance * side for side in (with_x, zeroed))
    epsilons = np.array([0.0, 0.02, 0.04, 0.2, 0.5])
    norm = without.sum()
    truth = [[np.maximum(a - math.exp(e) * b, 0).sum() / norm for e in epsilons] for a, b in ((p, q), (q, p))]
    assert (np.array(truth) <= bound(plan, epsilons) + 1e-9).all()


@pytest.mark.heavy
@pytest.mark.parametrize("adjacency", ["zero-out", "replace-one", "add-remove"])
@pytest.mark.parametrize("scheme", [TWO, RandomAllocation(times=1, steps=2)])
@pytest.mark.parametrize("delta", [1e-2, 1e-5])
def test_a_group_that_is_clipped_as_a_whole_costs_more_in_steps_of_its_own(scheme, delta, adjacency):
    """Two units that choose different steps turn both batches around; once counted as one step (2.75)."""
    sigma, gone = 3.0, 0.0 if adjacency == "add-remove" else -1.0
    problem = Problem(scheme=scheme, steps=2, sigma=sigma, adjacency=adjacency, group=2, clip="batch")
    plan = plan_of(problem, delta)
    levels = tuple(replace(level, count=2, min_count=2) for level in plan.phases[0].hierarchy.levels)
    plan = replace(plan, phases=(replace(plan.phases[0], hierarchy=Hierarchy(levels=levels)),))
    axis = np.linspace(-27, 27, 1081)
    sides = []
    for value in (1.0, gone):
        density = {mean: np.exp(-0.5 * ((axis - mean) / sigma) ** 2) for mean in (0.0, value)}
        batches = [(value, 0.0), (0.0, value), (value, value), (value, value)]
        sides.append(sum(np.multiply.outer(density[a], density[b]) for a, b in batches))
    p, q = (side / sides[1].sum() for side in sides)
    epsilon = evaluate(plan).guarantee.epsilon
    for one, other in ((p, q), (q, p)):
        assert np.maximum(one - math.exp(epsilon) * other, 0).sum() <= delta * (1 + 1e-3)


def zero_mates(problem):
    """The pairs whose other users all contribute zero, for a record with its own user's other records and without."""
    size = problem.records or 1
    for d, other in data_sets(problem):
        if problem.unit == "user":
            yield [(0,) * size, *d[1:]], [(0,) * size, *other[1:]]
        else:
            for hidden in (d[0][: size - 1], (0,) * (size - 1)):
                yield [hidden + d[0][size - 1 :], (0,) * size], [hidden + other[0][size - 1 :], (0,) * size]


def test_the_grid_is_as_fine_as_it_says():
    """Delta of a Gaussian in closed form."""
    problem = Problem(scheme=BallsInBins(bins=1), steps=1, sigma=1.0)
    phi = lambda x: 0.5 * math.erfc(-x / math.sqrt(2))  # noqa: E731
    for epsilon in (0.5, 2.0, 4.0):
        exact = phi(0.5 - epsilon) - math.exp(epsilon) * phi(-0.5 - epsilon)
        for value in deltas(problem, [(1,)], [], epsilon):
            assert value == pytest.approx(exact, rel=ERROR[1])
