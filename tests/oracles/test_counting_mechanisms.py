"""Mechanisms that count units: answers, counts with noise, and divergences, against every draw of tiny data sets.

Of a mechanism that is known by a promise alone the worst one is found: a linear programme over the probability of an
event on every batch, which the promise ties together.
"""

import itertools
import math
from collections import defaultdict
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from scipy.optimize import linprog
from scipy.sparse import csr_array

from dpcalc.amplification.any_mechanism import step_pair
from dpcalc.amplification.random_contents import hidden_unit_bound
from dpcalc.losses.atoms import chain_of
from dpcalc.losses.moments import composed_moments
from dpcalc.mechanisms.black_box import ApproximateDp, Exponential, RandomizedResponse, Zcdp
from dpcalc.planner.composition import FORWARD, composed
from tests.oracles.brute_force import ADD_REMOVE, RELATIONS, REPLACE_ONE, ZERO_OUT
from tests.oracles.draws import Draw, histories
from tests.oracles.multistage import (
    RATES,
    Problem,
    bound,
    capped,
    constructed,
    cut_short,
    group,
    held,
    histories_of,
    random_problem,
    shuffled,
    unequal_group,
)
from tests.oracles.other_noise import answers, discrete_laplace_cells, hockey_sticks, mixtures
from tests.oracles.test_other_noise import NEVER, ROUND_OFF, enumerable, steps_of, with_mechanism
from tests.thinning import thinned

BLOCKS = [(0, 6), *(pytest.param(block, 25, marks=pytest.mark.slow) for block in range(1, 8))]
"""(seed, problems): by default, and in the slow suite."""


def counts_below(sizes, depth):
    """How many units each unit of a level above holds."""
    if depth == 1:
        return [sizes if isinstance(sizes, int) else len(sizes)]
    return [count for inner in sizes for count in counts_below(inner, depth - 1)]


def paths_to(sizes, depth):
    """Units of a level of nested counts."""
    if not depth:
        return [()]
    inner = [0] * sizes if isinstance(sizes, int) else sizes
    return [(at, *path) for at, held in enumerate(inner) for path in paths_to(held, depth - 1)]


def nested(rng, *, below=False, is_cut=False, most=8):
    """One unit below two levels or three of unequal sizes; `below`: units that hold records of a Poisson draw."""
    depth = 3 if below else int(rng.choice([2, 3]))
    unit, relation = depth - below, str(rng.choice(RELATIONS))
    sizes = [int(rng.integers(1, 4)) for _ in range(rng.integers(1, 4))]
    if depth == 3:
        sizes = [[int(rng.integers(1, 3)) for _ in range(rng.integers(1, 4))] for _ in range(rng.integers(1, 4))]
    found = paths_to(sizes, unit)
    if not 2 <= len(found) <= most:
        return None
    tree = []
    for level in range(1, depth + 1):
        frames = counts_below(sizes, level)
        left = min(frames) - (level == unit and relation == ADD_REMOVE)
        if is_cut and rng.random() < 0.5:
            rate, cap = RATES[rng.integers(len(RATES))], int(rng.integers(1, max(frames) + 1))
            tree.append(Draw(max(frames), "capped", rate, cap=cap))
            continue
        kinds = ("poisson",) if level > unit else ("fixed", "fixed", "poisson", "poisson", "all")
        draw = Draw(max(frames), str(rng.choice(kinds)), RATES[rng.integers(len(RATES))])
        if draw.kind == "fixed" and left >= 1:
            draw = replace(draw, amount=int(rng.integers(1, left + 1)))
        tree.append(replace(draw, kind="all") if draw.kind == "fixed" and draw.amount in {0, draw.count} else draw)
    if any(draw.kind == "fixed" and draw.amount < 1 for draw in tree):
        return None
    member = found[int(rng.integers(len(found)))]
    return Problem(tuple(tree), (member,), unit, relation, 1.0, sizes=sizes)


FLAVOURS = [group, unequal_group, held, shuffled, cut_short, constructed, capped, nested]


def excess(truth, allowed):
    return float(((truth - ROUND_OFF) / np.maximum(allowed, ROUND_OFF)).max())


def of_units(problem):
    """The same with the protected level clipped: a copy of a unit that is drawn counts once."""
    return replace(problem, clip=len(problem.members[0]))


def records(rng, flavour):
    """One step that draws records, of which some are protected and exchanged."""
    while True:
        problem = random_problem(rng, flavour, 150)
        if steps_of(problem) == 1 and len(problem.members[0]) == len(problem.tree):
            return replace(of_units(problem), relation=REPLACE_ONE)


@pytest.mark.parametrize(("block", "number"), BLOCKS)
@pytest.mark.parametrize(
    "flavour", [group, unequal_group, constructed, capped, nested], ids=lambda flavour: flavour.__name__
)
def test_no_answers_cost_more_than_the_bound(flavour, block, number):
    rng, highest = np.random.default_rng([FLAVOURS.index(flavour), 3, block]), 0.0
    for _ in range(number):
        problem, truth = records(rng, flavour), rng.uniform(0.55, 0.95)
        run, epsilons = problem.run, np.array([0.0, 0.05, 0.5, 1.5])
        allowed = bound(with_mechanism(problem, RandomizedResponse(truth_probability=truth)), epsilons)
        for ours, others in ((1, 0), (1, 1), (1, None)):
            bits = rng.integers(0, 2, len(run.keys)) if others is None else np.full(len(run.keys), others)
            for at, role in enumerate(run.roles):
                bits[at] = {("unit", 0): ours, ("unit", 1): 1 - ours}.get(role, bits[at])
            p, q = answers(run, truth, bits)
            ratio = excess(hockey_sticks(p, q, epsilons), allowed)
            assert ratio <= NEVER, (problem, truth, bits)
            highest = max(highest, ratio)
    assert highest > 0.5


def marked(run, rng):
    """Which units count: those that are protected, or all others, or some."""
    primed = np.array([role == ("unit", 1) for role in run.roles])
    own = np.array([role == ("unit", 0) for role in run.roles])
    yield own.astype(float)
    yield (~own).astype(float)
    yield primed.astype(float)
    yield rng.integers(0, 2, len(run.keys)).astype(float)


@pytest.mark.heavy
@pytest.mark.parametrize(("block", "number"), BLOCKS)
@pytest.mark.parametrize("flavour", thinned(FLAVOURS, 3), ids=lambda flavour: flavour.__name__)
def test_no_count_costs_more_than_what_is_promised_of_each_step(flavour, block, number):
    """Laplace noise of scale 1 / epsilon on a count of units is epsilon-DP, and told with probability delta else."""
    rng, highest = np.random.default_rng([FLAVOURS.index(flavour), 29, block]), 0.0
    for _ in range(number):
        problem = of_units(enumerable(rng, flavour, None))
        epsilon, told = rng.uniform(0.2, 2), float(rng.choice([0.0, 0.02]))
        run, epsilons = problem.run, np.array([0.0, 0.05, 0.5 * epsilon, 1.5 * epsilon, 2.5 * epsilon])
        allowed = bound(with_mechanism(problem, ApproximateDp(epsilon=epsilon, delta=told, relation="any")), epsilons)

        def cells(means, told=told, epsilon=epsilon):
            exact = (means[:, None] == np.unique(means)[None, :]).astype(float)
            return np.hstack([(1 - told) * discrete_laplace_cells(means, 1 / epsilon), told * exact])

        for counts in marked(run, rng):
            p, q = mixtures(run, np.array([counts] * run.steps), cells)
            ratio = excess(hockey_sticks(p, q, epsilons), allowed)
            assert ratio <= NEVER, (problem, epsilon, told, counts)
            highest = max(highest, ratio)
    assert highest > 0.5


def gaussian_cells(sigma):
    def cells(means):
        y = np.arange(means.min() - 9 * sigma, means.max() + 9 * sigma, sigma / 24)
        return np.exp(-((y[None, :] - means[:, None]) ** 2) / (2 * sigma**2)) / (math.sqrt(2 * math.pi) * 24)

    return cells


def log_moments(p, q, order):
    """log E_P[(P / Q)^(order - 1)] in both directions."""
    kept = (p > 0) & (q > 0)
    logs = np.log(p[kept]), np.log(q[kept])
    return [float(np.logaddexp.reduce(order * a + (1 - order) * b)) for a, b in (logs, logs[::-1])]


@pytest.mark.heavy
@pytest.mark.parametrize(("block", "number"), BLOCKS)
@pytest.mark.parametrize("flavour", thinned(FLAVOURS, 1), ids=lambda flavour: flavour.__name__)
def test_no_count_diverges_more_than_what_is_promised_of_each_step(flavour, block, number):
    """Gaussian noise on a count of units is 1 / (2 sigma^2)-zCDP."""
    rng, highest = np.random.default_rng([FLAVOURS.index(flavour), 31, block]), 0.0
    for _ in range(number):
        problem = of_units(enumerable(rng, flavour, Zcdp))
        sigma = rng.uniform(0.8, 4)
        run, plan = problem.run, with_mechanism(problem, Zcdp(rho=1 / (2 * sigma**2), relation="any"))
        by_direction = composed(plan).steps
        for counts in marked(run, rng):
            p, q = mixtures(run, np.array([counts] * run.steps), gaussian_cells(sigma))
            for order in (1.5, 2.0, 3.0, 8.0):
                found = [0.0, 0.0]
                for name, steps in by_direction.items():
                    way = 0 if name.startswith(FORWARD) else 1
                    moment = composed_moments(steps, max_order=order) if steps else None
                    value = float(moment.cumulants(np.array([order - 1]))[0][0]) if moment else 0.0
                    found[way] = max(found[way], value)
                for exact, allowed in zip(log_moments(p, q, order), found, strict=True):
                    assert exact <= allowed * (1 + 1e-6) + 1e-7, (problem, sigma, order)
                    highest = max(highest, (exact - 1e-7) / max(allowed, 1e-7))
    assert highest > 0.5


# The worst mechanism that keeps a promise


def elements(drawn, depth, path=()):
    """The drawn units of a level, each with what is drawn under it."""
    if not depth:
        return [(path, drawn)]
    return [found for child, below in drawn for found in elements(below, depth - 1, child)]


def batches_of(problem):
    """The laws of the batch of one step in D and in D', as sets of drawn units."""
    (member,) = problem.members

    def law(absent, changed):
        found = defaultdict(float)
        for chance, (step,) in histories(problem.tree, 1, absent=problem.holes | absent):
            drawn = {changed if path == member else (path, under) for path, under in elements(step, len(member))}
            found[frozenset(drawn - {None})] += float(chance)
        return found

    own = law(frozenset(), (member, "own"))
    if problem.relation == ADD_REMOVE:
        return own, law(frozenset({member}), None)
    return own, law(frozenset(), None if problem.relation == ZERO_OUT else (member, "other"))


class Promise:
    """All mechanisms that are (epsilon, delta)-DP for any change of one unit, by the probability of an event.

    Every batch of as many units as occur is in the programme, also those that no draw makes.
    """

    def __init__(self, laws, epsilon, delta):
        items = sorted({item for law in laws for batch in law for item in batch}, key=repr)
        sizes = [len(batch) for law in laws for batch in law]
        found = (frozenset(s) for k in range(min(sizes), max(sizes) + 1) for s in itertools.combinations(items, k))
        self.at = {batch: i for i, batch in enumerate(b for b in found if len({path for path, _ in b}) == len(b))}
        pairs = sorted({pair for batch in self.at for pair in self._beside(batch, items)})
        first, second = np.array(pairs or np.zeros((0, 2), dtype=int)).T
        rows, one, e = np.arange(len(pairs)), np.ones(len(pairs)), math.exp(epsilon)
        values = np.concatenate([one, -e * one, -one, e * one])
        places = np.tile(np.concatenate([first, second]), 2)
        both = np.concatenate([rows, rows, rows + len(pairs), rows + len(pairs)])
        self.matrix = csr_array((values, (both, places)), shape=(2 * len(pairs), len(self.at)))
        self.limits = np.concatenate([delta * one, (delta + e - 1) * one])
        self.laws = [np.array([law.get(batch, 0.0) for batch in self.at]) for law in laws]

    def _beside(self, batch, items):
        for item in batch:
            without = batch - {item}
            for other in (without, *(without | {new} for new in items if new not in batch)):
                if other in self.at:
                    yield self.at[batch], self.at[other]
                    yield self.at[other], self.at[batch]

    def worst_event(self, epsilon, way):
        """(largest P(E) - e^epsilon Q(E), the probabilities of E in P and in Q)."""
        p, q = self.laws[::-1] if way else self.laws
        limits = {"A_ub": self.matrix, "b_ub": self.limits} if self.limits.size else {}
        found = linprog(math.exp(epsilon) * q - p, bounds=(0, 1), method="highs", **limits)
        assert found.status == 0
        return -found.fun, (float(found.x @ p), float(found.x @ q))


def promised(rng, flavour, **options):
    """A problem, what a step promises, and all mechanisms that keep it."""
    while True:
        problem = flavour(rng, **options)
        if problem is None or not 1 < histories_of(problem) <= 400:
            continue
        epsilon, delta = float(rng.choice([0.05, 0.3, 1.0, 3.0])), float(rng.choice([0.0, 0.0, 0.01, 0.1]))
        laws = batches_of(problem)
        if laws[0] != laws[1]:
            promise = Promise(laws, epsilon, delta)
            if len(promise.at) <= 400:
                return problem, ApproximateDp(epsilon=epsilon, delta=delta, relation="any"), promise


SLACK = 2e-7
"""Of the programme, whose solver keeps its constraints to 1e-7."""
MANY = [
    (0, 2),
    pytest.param(1, 6, marks=pytest.mark.heavy),
    *(pytest.param(block, 60, marks=pytest.mark.slow) for block in range(2, 7)),
]
KINDS = [{}, {"is_cut": True}, {"below": True, "most": 4}]


@pytest.mark.parametrize(("block", "number"), MANY)
@pytest.mark.parametrize("kind", range(len(KINDS)), ids=["records", "cut", "units that hold records"])
def test_no_mechanism_that_keeps_its_promise_costs_more(kind, block, number):
    rng, highest = np.random.default_rng([kind, 41, block]), 0.0
    for _ in range(number):
        problem, mechanism, promise = promised(rng, nested, **KINDS[kind])
        epsilons = np.array([0.0, 0.03, 0.3, 0.8, 1.3]) * mechanism.epsilon
        allowed = bound(with_mechanism(problem, mechanism), epsilons)
        for way, (at, epsilon) in itertools.product((0, 1), enumerate(epsilons)):
            truth, _ = promise.worst_event(epsilon, way)
            assert truth <= allowed[way, at] + SLACK, (problem, mechanism, way, epsilon)
            if allowed[way, at] > 1e-3:
                highest = max(highest, truth / allowed[way, at])
    assert highest > (0.999 if number > 2 else 0.9)


@pytest.mark.heavy
@pytest.mark.parametrize(("block", "number"), [(0, 2), *MANY[2:]])
def test_no_mechanisms_of_two_phases_cost_more(block, number):
    """Every step tells whether the worst event of its own promise has happened."""
    rng, highest = np.random.default_rng([43, block]), 0.0
    for _ in range(number):
        problem, mechanism, promise = promised(rng, nested)
        plan, second = with_mechanism(problem, mechanism), ApproximateDp(epsilon=0.4, relation="any")
        phases = [replace(plan.phases[0], steps=2), replace(plan.phases[0], name="b", mechanism=second, steps=1)]
        epsilons = np.array([0.0, 0.7, 2.0]) * mechanism.epsilon
        allowed = bound(replace(plan, phases=tuple(phases)), epsilons)
        other = Promise(batches_of(problem), second.epsilon, 0.0)
        for way, share in itertools.product((0, 1), (0.0, 0.3)):
            _, (p, q) = promise.worst_event(share * mechanism.epsilon, way)
            _, (p2, q2) = other.worst_event(share * second.epsilon, way)
            laws = [np.einsum("i,j,k->ijk", *([x, 1 - x] for x in xs)).ravel() for xs in ((p, p, p2), (q, q, q2))]
            found = np.maximum(laws[0][:, None] - np.exp(epsilons) * laws[1][:, None], 0).sum(axis=0)
            assert (found <= allowed[way] + 4 * SLACK).all(), (problem, mechanism, way)
            highest = max(highest, (found / np.maximum(allowed[way], 1e-3)).max())
    assert highest > 0.9


def truth_and_bound(problem, mechanism, epsilon, way):
    promise = Promise(batches_of(problem), mechanism.epsilon, mechanism.delta)
    return promise.worst_event(epsilon, way)[0], bound(with_mechanism(problem, mechanism), [epsilon])[way, 0]


def fixed_over_fixed(relation):
    """One of two tasks, two of its three records."""
    return Problem((Draw(2, "fixed", 1), Draw(3, "fixed", 2)), ((0, 0),), 2, relation, 1.0)


@pytest.mark.parametrize("relation", RELATIONS)
def test_every_distance_in_units_is_needed(relation):
    problem, promise = fixed_over_fixed(relation), ApproximateDp(epsilon=0.5, relation="any")
    largest = hidden_unit_bound(
        problem.hierarchy,
        composed(with_mechanism(problem, promise)).units[0].paths[0],
        adjacency=problem.plan.adjacency,
        max_mates=0,
        exchange=1,
    )
    assert (largest.shift, largest.distances) == (1, (2, 1))
    worst = Promise(batches_of(problem), 0.5, 0.0)
    for place in range(2):
        fewer = tuple(x._replace(distance=x.distance - (at == place)) for at, x in enumerate(largest.missed))
        pair = step_pair(replace(largest, missed=fewer), lambda d: chain_of([promise.pair()] * d))
        excess = [worst.worst_event(epsilon, 0)[0] - 1.01 * pair.delta(epsilon) for epsilon in (0.02, 0.1, 0.2)]
        assert max(excess) > 1e-4


def test_a_drawn_unit_counts_even_if_it_is_empty():
    """Users whose records are drawn rarely: the number of users drawn hides the one user, not that of their records."""
    tree = Draw(2, "poisson", Fraction(1, 2)), Draw(3), Draw(2, "poisson", Fraction(1, 20))
    problem = Problem(tree, ((0, 2),), 2, ZERO_OUT, 1.0, sizes=[[2, 1, 2], [2]])
    truth, allowed = truth_and_bound(problem, ApproximateDp(epsilon=3.0, relation="any"), 2.4, 0)
    assert truth == pytest.approx(0.2143, abs=1e-4)
    assert truth <= allowed + SLACK


def test_an_ancestor_that_leaves_a_trace_is_not_covered():
    """A step that tells which task was drawn keeps its promise only for batches of the same tasks."""
    problem, epsilon = fixed_over_fixed(ZERO_OUT), 0.1
    truth, allowed = truth_and_bound(problem, ApproximateDp(epsilon=0.5, relation="any"), epsilon, 0)
    assert truth == pytest.approx(allowed, abs=SLACK)
    yes = 1 / (1 + math.exp(-0.5))
    p, q = 2 / 3 * yes + 1 / 3 * (1 - yes), 1 - yes  # a bit that says whether the record is there
    assert 0.5 * (p - math.exp(epsilon) * q) > 1.2 * allowed


def test_the_number_of_answers_tells_how_many_tasks_were_drawn():
    """Poisson draws of tasks with two records each, under which one unit is drawn: hidden only in fixed draws."""
    for tasks, is_hidden in ((Draw(3, "poisson", Fraction(1, 3)), False), (Draw(3, "fixed", 1), True)):
        problem = Problem((tasks, Draw(2, "fixed", 1)), ((0, 0),), 2, REPLACE_ONE, 1.0)
        plan = with_mechanism(problem, RandomizedResponse(truth_probability=0.7))
        allowed = bound(plan, [0.05])[0, 0]
        p, q = answers(problem.run, 0.7, np.array([role == ("unit", 0) for role in problem.run.roles]).astype(int))
        exact = hockey_sticks(p, q, np.array([0.05]))[0]
        revealed = 1 / 3 * (0.5 * 0.7 + 0.5 * 0.3 - math.exp(0.05) * 0.3)
        assert exact.max() <= allowed * (1 + 1e-9)
        assert (allowed < 0.9 * revealed) == is_hidden


@pytest.mark.parametrize(
    "mechanism",
    [Exponential(epsilon=0.3, relation="any"), Zcdp(rho=0.01, relation="any")],
    ids=lambda mechanism: mechanism.name,
)
def test_hidden_draws_lower_divergences(mechanism):
    problem = replace(fixed_over_fixed(REPLACE_ONE), tree=(Draw(40, "fixed", 1), Draw(4, "fixed", 2)))
    steps = [
        next(iter(composed(with_mechanism(each, mechanism)).steps.values()))
        for each in (problem, replace(problem, tree=(Draw(1), *problem.tree[1:])))
    ]
    hidden, present = (float(composed_moments(each, max_order=2.0).cumulants(np.array([1.0]))[0][0]) for each in steps)
    assert hidden < 0.7 * math.log1p(math.expm1(present) / 40)
