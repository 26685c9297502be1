"""The promise of a step is about a relation: the worst mechanisms that keep it, and known ones stated both ways."""

import itertools
import math
from collections import defaultdict
from dataclasses import replace
from fractions import Fraction
from functools import reduce
from itertools import chain

import numpy as np
import pytest

from dpcalc.amplification.phase import black_box_refusal
from dpcalc.config.edit import differences, with_difference
from dpcalc.config.expand import normal_form
from dpcalc.config.load import load_text
from dpcalc.errors import InputError, UnsupportedError
from dpcalc.guarantee import Adjacency
from dpcalc.losses.moments import composed_moments
from dpcalc.mechanisms.additive import Gaussian, Laplace
from dpcalc.mechanisms.black_box import ApproximateDp, Exponential, RandomizedResponse, RdpTable, Zcdp
from dpcalc.planner.composition import FORWARD, composed
from dpcalc.planner.evaluate import guarantee
from dpcalc.planner.lower_end import delta_lower
from dpcalc.planner.plan import Phase, Plan
from dpcalc.planner.words import assumptions
from dpcalc.sampling.hierarchy import Hierarchy, Level
from dpcalc.sampling.schemes import All, BallsInBins, Fixed, Poisson, RandomAllocation, Shuffle, WithReplacement
from tests.oracles.brute_force import ADD_REMOVE, RELATIONS, REPLACE_ONE, ZERO_OUT
from tests.oracles.draws import Draw
from tests.oracles.multistage import (
    RATES,
    Problem,
    bound,
    capped,
    constructed,
    cut_short,
    emptied,
    group,
    held,
    random_problem,
    shuffled,
    unequal_group,
)
from tests.oracles.other_noise import discrete_laplace_cells, hockey_sticks, mixtures
from tests.oracles.promises import ANY, Worst, batch_laws
from tests.oracles.test_counting_mechanisms import excess, gaussian_cells, log_moments, nested, of_units
from tests.oracles.test_other_noise import enumerable, with_mechanism
from tests.runs import run_of
from tests.thinning import thinned

PROMISES = [ADD_REMOVE, ZERO_OUT, REPLACE_ONE, ANY]
SLACK = 3e-7
"""Of the programme, whose solver keeps its constraints to 1e-7."""


def flat(rng):
    """One unit or a group drawn from one frame, where the largest frames can be told."""
    relation, count = str(rng.choice(RELATIONS)), int(rng.integers(2, 7))
    members = int(rng.integers(1, min(3, count - 1) + 1))
    kind = str(rng.choice(["fixed", "again", "poisson", "capped", "all"]))
    draw = Draw(count, kind, RATES[rng.integers(len(RATES))])
    if kind in {"fixed", "again"}:
        draw = replace(draw, amount=int(rng.integers(1, count - members + 1)) if kind == "fixed" else 2)
    if kind == "capped":
        members, draw = 1, replace(draw, cap=int(rng.integers(1, count)))
    return Problem((draw,), tuple((i,) for i in range(members)), 1, relation, 1.0)


FLAVOURS = [flat, group, unequal_group, constructed, capped, nested, emptied]


def promised(rng, flavour, most=70):
    """A problem of one step, a promise, and the programme over what keeps it."""
    while True:
        problem = random_problem(rng, flavour, 400)
        if problem.steps > 1:
            continue
        epsilon, delta = float(rng.choice([0.1, 0.5, 1.0, 2.0])), float(rng.choice([0.0, 0.0, 0.02]))
        mechanism = ApproximateDp(epsilon=epsilon, delta=delta, relation=str(rng.choice(PROMISES)))
        # To a promise for batches of one size a zeroed unit is another one in its place.
        is_replaced = mechanism.relation == REPLACE_ONE and problem.relation == ZERO_OUT
        laws = batch_laws(replace(problem, relation=REPLACE_ONE) if is_replaced else problem)
        if laws[0] != laws[1] and len(laws[0].keys() | laws[1].keys()) <= most:
            return problem, mechanism, Worst(laws, epsilon, delta, mechanism.relation)


def answer(plan, epsilons):
    """What the package says, or None where it refuses."""
    (phase,) = plan.phases
    if not black_box_refusal(
        phase.mechanism, phase.hierarchy, unit=plan.unit, adjacency=plan.adjacency, group_size=plan.group_size
    ):
        return bound(plan, epsilons)
    with pytest.raises(UnsupportedError, match="relation replace-one"):
        bound(plan, epsilons)
    return None


SLOW = pytest.mark.slow
BLOCKS = [(0, 3), *(pytest.param(block, 60, marks=SLOW) for block in range(1, 4))]


@pytest.mark.parametrize(("block", "number"), BLOCKS)
@pytest.mark.parametrize("flavour", FLAVOURS, ids=lambda flavour: flavour.__name__)
def test_no_mechanism_that_keeps_its_promise_costs_more(flavour, block, number):
    rng, answered = np.random.default_rng([FLAVOURS.index(flavour), 53, block]), 0
    while answered < number:
        problem, mechanism, worst = promised(rng, flavour)
        epsilons = np.array([0.0, 0.02, 0.1, 0.25, 0.5, 0.75, 1.0, 1.3, 1.7, 2.5]) * mechanism.epsilon
        allowed = answer(with_mechanism(problem, mechanism), epsilons)
        if allowed is None:
            assert (mechanism.relation, problem.relation) == (REPLACE_ONE, ADD_REMOVE)
            continue
        answered += 1
        for way in (0, 1):
            truth = np.array([worst.delta(epsilon, way) for epsilon in epsilons])
            assert (truth <= allowed[way] + SLACK).all(), (problem, mechanism, way, truth, allowed[way])


# Known mechanisms over several steps: the values of the units are summed, and noise is added. Under a promise for a
# unit that is there or not each value is -1, 0 or 1, so that an exchange moves the sum by 2; where a unit may be
# replaced too, 0 or 1; and where it may only be replaced, the number of units in the batch is told.

NEVER = 1 + 1e-9
TOLD = 1000  # what each unit adds, beside its value, where the number of units is told


def run_and_values(problem, promise, rng):
    """The histories of the data sets that the promise speaks of, and values of all units by step."""
    is_replaced = promise == REPLACE_ONE and problem.relation == ZERO_OUT
    run = (replace(problem, relation=REPLACE_ONE) if is_replaced else problem).run
    low = -1 if promise in {ADD_REMOVE, ZERO_OUT} else 0
    own = {0: int(rng.choice([low, 1])), 1: int(rng.choice([low, 1]))}
    values = rng.integers(low, 2, (run.steps, len(run.keys))).astype(float)
    if rng.random() < 0.7:  # the worst of all values, most often: one for the protected units, another for all others
        values[:] = int(rng.integers(low, 2))
        for at, (role, primed) in enumerate(run.roles):
            if role == "unit":
                values[:, at] = own[primed]
    return run, values + (TOLD if promise == REPLACE_ONE else 0)


def told_apart(cells):
    """Cells of a sum that also tell the number of units in it."""

    def both(means):
        numbers, sums = np.divmod(means + 500, TOLD)
        exact = (numbers[:, None] == np.unique(numbers)[None, :]).astype(float)
        return np.einsum("ij,ik->ijk", exact, cells(sums - 500)).reshape(len(means), -1)

    return both


def multistep(rng, flavour, kind):
    """A problem, and a relation for which the promise of its steps is stated that is not refused for its draws."""
    while True:
        problem, promise = of_units(enumerable(rng, flavour, kind)), str(rng.choice(PROMISES))
        if problem.shape and len(problem.members[0]) == 1:
            continue  # the values there are of tasks, not of classes
        # The values do not tell a batch without units from one with a unit of which nothing is drawn.
        drawn = chain.from_iterable(batch for law in batch_laws(problem) for batch in law)
        if promise == REPLACE_ONE and len(problem.members[0]) < len(problem.tree) and any(() in unit for unit in drawn):
            continue
        try:
            guarantee(with_mechanism(problem, ApproximateDp(epsilon=1.0, relation=promise)))
        except (UnsupportedError, InputError):
            continue
        return problem, promise


MULTISTEP = [group, unequal_group, held, shuffled, cut_short, constructed, capped, nested]
MULTISTEP_BLOCKS = [(0, 1), *(pytest.param(block, number, marks=SLOW) for block, number in enumerate((5, 60, 60, 60)))]


@pytest.mark.parametrize(("block", "number"), MULTISTEP_BLOCKS)
@pytest.mark.parametrize("flavour", MULTISTEP, ids=lambda flavour: flavour.__name__)
def test_no_count_costs_more(flavour, block, number):
    rng = np.random.default_rng([MULTISTEP.index(flavour), 59, block])
    for _ in range(number):
        problem, promise = multistep(rng, flavour, None)
        epsilon = float(rng.uniform(0.3, 1.5))
        epsilons = np.array([0.0, 0.05, 0.2, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 3.5]) * epsilon
        allowed = bound(with_mechanism(problem, ApproximateDp(epsilon=epsilon, relation=promise)), epsilons)

        def cells(means, epsilon=epsilon):
            return discrete_laplace_cells(means, 1 / epsilon)

        for _ in range(6):
            run, values = run_and_values(problem, promise, rng)
            p, q = mixtures(run, values, told_apart(cells) if promise == REPLACE_ONE else cells)
            assert excess(hockey_sticks(p, q, epsilons), allowed) <= NEVER, (problem, promise, epsilon, values)


@pytest.mark.parametrize(("block", "number"), MULTISTEP_BLOCKS)
@pytest.mark.parametrize("flavour", MULTISTEP, ids=lambda flavour: flavour.__name__)
def test_no_count_diverges_more(flavour, block, number):
    """Gaussian noise on the count is 1 / (2 sigma^2)-zCDP, and has the curve of that."""
    rng = np.random.default_rng([MULTISTEP.index(flavour), 61, block])
    for _ in range(number):
        problem, promise = multistep(rng, flavour, Zcdp)
        sigma = float(rng.uniform(0.8, 4))
        curve = tuple((order, order / (2 * sigma**2)) for order in (1.25, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 16.0, 32.0))
        stated = (Zcdp(rho=1 / (2 * sigma**2), relation=promise), RdpTable(curve=curve, relation=promise))
        by_direction = composed(with_mechanism(problem, stated[int(rng.integers(2))])).steps
        for _ in range(4):
            run, values = run_and_values(problem, promise, rng)
            cells = gaussian_cells(sigma)
            p, q = mixtures(run, values, told_apart(cells) if promise == REPLACE_ONE else cells)
            for name, steps in by_direction.items():
                moments = composed_moments(steps, max_order=8.0) if steps else None
                for order in (1.5, 2.0, 3.0, 8.0):
                    allowed = float(moments.cumulants(np.array([order - 1]))[0][0]) if moments else 0.0
                    exact = log_moments(p, q, order)[0 if name.startswith(FORWARD) else 1]
                    if len(by_direction) == 2:
                        assert exact <= allowed * (1 + 1e-6) + 1e-7, (problem, promise, sigma, order)


# Units that choose their steps


def chosen_laws(scheme, count, steps, relation, promise, values, epsilon):
    """The laws of all outputs where each of `count` units chooses its steps, and unit 0 is protected."""
    subsets = (
        [(step,) for step in range(scheme.bins)]
        if isinstance(scheme, BallsInBins)
        else list(itertools.combinations(range(steps), scheme.times))
    )
    laws = []
    for primed in (0, 1):
        weights = defaultdict(float)
        is_there = not primed or relation == REPLACE_ONE
        for chosen in itertools.product(subsets, repeat=count):
            sums = [0.0] * steps
            for unit, own in enumerate(chosen):
                if unit or is_there:
                    for step in own:
                        sums[step] += values[primed if unit == 0 else unit + 1]
            weights[tuple(sums)] += len(subsets) ** -count
        rows = [discrete_cells(sums, epsilon, count, promise) for sums in weights]
        laws.append(sum(weight * row for weight, row in zip(weights.values(), rows, strict=True)))
    return laws


def discrete_cells(sums, epsilon, count, promise):
    """The law of the outputs of all steps, of sums that lie between -count and count, with the numbers if told."""
    each = []
    for total in sums:
        number, value = divmod(total + 500, TOLD) if promise == REPLACE_ONE else (0, total + 500)
        ends = np.array([value - 500, -count, count], dtype=float)
        row = discrete_laplace_cells(ends, 1 / epsilon)[0]
        each.append(np.concatenate([row if number == n else 0 * row for n in range(count + 1)]))
    return reduce(lambda a, b: np.multiply.outer(a, b).ravel(), each)


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("scheme", "relation", "promise"),
    thinned(
        itertools.product(
            (BallsInBins(bins=2), BallsInBins(bins=3), RandomAllocation(times=2, steps=3)), RELATIONS, PROMISES
        ),
        11,
    ),
)
def test_units_that_choose_their_steps(scheme, relation, promise):
    steps, epsilon, count = (scheme.bins if isinstance(scheme, BallsInBins) else 3), 0.7, 2
    level = Level(name="user", count=count, scheme=scheme)
    phase = Phase(
        name="all",
        hierarchy=Hierarchy(levels=(level,)),
        mechanism=ApproximateDp(epsilon=epsilon, relation=promise),
        clip=1,
        steps=steps,
    )
    plan = Plan(phases=(phase,), unit=1, adjacency=Adjacency(relation), delta=1e-3)
    epsilons = np.array([0.0, 0.05, 0.2, 0.4, 0.6, 0.8, 1.0, 1.4, 2.0, 2.7])
    allowed = answer(plan, epsilons)
    if promise == REPLACE_ONE and relation == ADD_REMOVE:
        assert allowed is None
        return
    low = -1 if promise in {ADD_REMOVE, ZERO_OUT} else 0
    shown = REPLACE_ONE if promise == REPLACE_ONE and relation == ZERO_OUT else relation
    for values in itertools.product((low, 1), repeat=count + 1):
        told = [value + (TOLD if promise == REPLACE_ONE else 0) for value in values]
        p, q = chosen_laws(scheme, count, steps, shown, promise, told, epsilon)
        assert excess(hockey_sticks(p, q, epsilons), allowed) <= NEVER, values


# One mechanism, stated by itself and by its promise


CURVE = (
    (1.5, 0.046875),
    (2, 0.0625),
    (3, 0.09375),
    (4, 0.125),
    (6, 0.1875),
    (8, 0.25),
    (12, 0.375),
    (16, 0.5),
    (24, 0.75),
)
CURVE = (*CURVE, (32, 1.0), (64, 2.0))
"""The Renyi curve of Gaussian noise with multiplier 4, as an accountant for add-remove states it."""


def plan_of(mechanism, scheme, adjacency, steps, **more):
    return run_of((1000, scheme), mechanism=mechanism, adjacency=adjacency, steps=steps, delta=1e-6, **more)


GAUSSIAN, LAPLACE = Gaussian(noise_multiplier=4.0), Laplace(noise_multiplier=1.0)
TABLE = RdpTable(curve=CURVE, odd_moments="nonnegative")
PURE = ApproximateDp(epsilon=1.0)


@pytest.mark.parametrize(
    ("promised", "scheme", "adjacency", "steps", "truth"),
    [
        (TABLE, Fixed(size=500), ADD_REMOVE, 10, 4.50),
        (Zcdp(rho=1 / 32), Fixed(size=500), ADD_REMOVE, 10, 4.50),
        (PURE, Fixed(size=500), ADD_REMOVE, 10, 14.14),
        (PURE, Fixed(size=500), ZERO_OUT, 10, 7.94),
        (PURE, Fixed(size=10), ADD_REMOVE, 100, 0.951),
    ],
)
def test_an_exchange_is_two_changes_of_an_add_remove_promise(promised, scheme, adjacency, steps, truth):
    """Of .5 N(2) + .5 N(0) against N(0) with deviation 4, and of Laplace noise: an own convolution for the first."""
    assert guarantee(plan_of(promised, scheme, adjacency, steps)).epsilon >= truth


def test_the_curve_costs_what_it_did_where_nobody_is_exchanged():
    assert guarantee(plan_of(TABLE, Poisson(probability=Fraction(1, 2)), ADD_REMOVE, 10)).epsilon == pytest.approx(
        2.09593, rel=1e-5
    )
    as_exchanged = replace(TABLE, relation="any")
    assert guarantee(plan_of(as_exchanged, Fixed(size=500), ADD_REMOVE, 10)).epsilon == pytest.approx(2.09593, rel=1e-5)


SCHEMES = [All(), Fixed(size=500), Fixed(size=10), WithReplacement(size=20), Poisson(probability=Fraction(1, 10))]
SCHEMES += [Shuffle(size=100, drop_last=True), BallsInBins(bins=5)]


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("scheme", "adjacency", "group_size"), thinned(itertools.product(SCHEMES, RELATIONS, (1, 3)), 9)
)
def test_noise_costs_no_more_than_the_promise_that_it_keeps(scheme, adjacency, group_size):
    """One clip norm of noise is one change of a promise for a unit that is there or not."""
    pairs = [
        (LAPLACE, ApproximateDp(epsilon=1.0, relation=ADD_REMOVE)),
        (GAUSSIAN, Zcdp(rho=1 / 32, relation=ADD_REMOVE)),
        (GAUSSIAN, RdpTable(curve=CURVE, odd_moments="nonnegative", relation=ADD_REMOVE)),
    ]
    for known, promised in pairs:
        noisy, stated = (plan_of(each, scheme, adjacency, 10, group_size=group_size) for each in (known, promised))
        try:
            upper = guarantee(replace(stated, delta=1e-4)).epsilon
        except (UnsupportedError, InputError):
            continue
        if math.isfinite(upper):
            assert delta_lower(noisy, epsilon=upper) <= 1e-4 * NEVER, (known, upper)


@pytest.mark.parametrize("probability", [0.55, 0.75, 0.9])
@pytest.mark.parametrize("count", [3, 12])
def test_the_number_of_a_poisson_draw_is_told(count, probability):
    """One step: the worst mechanism answers with the one unit's bit, given how many of the units were drawn."""
    rate, epsilons = 0.3, np.array([0.0, 0.02, 0.1, 0.3, 0.7])
    level = Level(name="record", count=count, scheme=Poisson(probability=Fraction(3, 10)))
    truth = np.zeros(len(epsilons))
    for number in range(1, count + 1):
        chance = math.comb(count, number) * rate**number * (1 - rate) ** (count - number)
        yes = number / count * probability + (1 - number / count) * (1 - probability)
        truth += chance * np.maximum(yes - np.exp(epsilons) * (1 - probability), 0)
    epsilon = math.log(probability / (1 - probability))
    for mechanism in (ApproximateDp(epsilon=epsilon), RandomizedResponse(truth_probability=probability)):
        phase = Phase(name="a", hierarchy=Hierarchy(levels=(level,)), mechanism=mechanism, clip=1, steps=1)
        plan = Plan(phases=(phase,), unit=1, adjacency=Adjacency.REPLACE_ONE, delta=1e-6)
        found = bound(plan, epsilons)
        assert (truth <= found * NEVER + 1e-14).all()
        assert found[0] == pytest.approx(truth, rel=1e-6, abs=1e-12)


def test_many_units_hide_one_of_a_poisson_draw_nearly_as_a_draw_of_their_number():
    pure = ApproximateDp(epsilon=math.log(3))
    drawn = [
        guarantee(plan_of(pure, scheme, REPLACE_ONE, 10)).epsilon
        for scheme in (Poisson(probability=Fraction(1, 10)), Fixed(size=100))
    ]
    assert drawn[1] < drawn[0] < 1.05 * drawn[1]


REFUSED = [Poisson(probability=Fraction(1, 10)), All(), Shuffle(size=100), BallsInBins(bins=5), Fixed(size=999)]


@pytest.mark.parametrize(
    "mechanism", [PURE, Zcdp(rho=0.1), Exponential(epsilon=0.5), TABLE], ids=lambda each: each.name
)
@pytest.mark.parametrize("scheme", REFUSED, ids=str)
def test_a_missing_unit_is_not_covered_by_a_promise_for_batches_of_one_size(scheme, mechanism):
    plan = plan_of(replace(mechanism, relation=REPLACE_ONE), scheme, ADD_REMOVE, 10, group_size=2)
    with pytest.raises((UnsupportedError, InputError), match=r"relation replace-one|passes lose a step"):
        guarantee(plan)
    assert guarantee(replace(plan, adjacency=Adjacency.ZERO_OUT)).epsilon < math.inf


def test_a_refusal_names_the_way_out():
    text = "version: 1\ndata: {examples: 100}\nsampling: {scheme: poisson, rate: 0.1}\ntraining: {steps: 3}\n"
    text += "mechanism: {type: zcdp, rho: 0.1, relation: replace-one}\nprivacy: {delta: 1e-6}\n"
    with pytest.raises(InputError, match="expected a guarantee for a unit that is added or removed"):
        load_text(text, path="a").accepted()


PROMISED = """version: 1
data: {examples: 1000}
sampling: {scheme: fixed, size: 50}
mechanism: {type: pure-dp, epsilon: 0.1, relation: add-remove}
training: {steps: 10}
privacy: {delta: 1e-6}
"""


@pytest.mark.parametrize("other", [", relation: any", ", relation: replace-one", ""])
def test_another_relation_is_a_claim_that_a_report_shows(other):
    old, new = load_text(PROMISED, path="a"), load_text(PROMISED.replace(", relation: add-remove", other), path="a")
    (one,) = differences(old.accepted(), new.accepted())
    assert (one.key, one.is_claim) == ("mechanism.relation", True)
    assert guarantee(one_change(old, new)).epsilon == guarantee(new.accepted().plan).epsilon


def one_change(old, new):
    (one,) = differences(old.accepted(), new.accepted())
    return with_difference(old.accepted(), new.accepted(), one)


def test_a_relation_counts_in_the_hash_where_it_is_not_that_of_the_run():
    texts = [
        PROMISED.replace(", relation: add-remove", other) for other in ("", ", relation: add-remove", ", relation: any")
    ]
    found = [load_text(text, path="a").accepted() for text in texts]
    plans, hashes = [each.plan for each in found], [each.config_hash for each in found]
    assert hashes[0] == hashes[1] != hashes[2]
    assert "relation" not in normal_form(plans[0])
    for plan in plans:
        assert load_text(normal_form(plan), path="b").accepted().plan == plan


WORDS = {
    ADD_REMOVE: "holds for any two batches where one unit is added or removed",
    ZERO_OUT: "holds for any two batches where one unit is zeroed",
    REPLACE_ONE: "holds for any two batches of one size where one unit is replaced by another",
    ANY: "holds for any two batches where one unit is added, removed, zeroed or replaced by another",
}


@pytest.mark.parametrize(
    "mechanism", [PURE, Zcdp(rho=0.1), Exponential(epsilon=0.5), TABLE], ids=lambda each: each.name
)
@pytest.mark.parametrize("promise", [None, *PROMISES])
@pytest.mark.parametrize("adjacency", RELATIONS)
def test_the_assumption_names_the_relation(adjacency, promise, mechanism):
    said = assumptions(plan_of(replace(mechanism, relation=promise), Fixed(size=10), adjacency, 1))
    assert any(line.endswith(WORDS[promise or adjacency]) for line in said)
    relation = promise or adjacency
    zeroed = [line for line in said if "a zeroed unit" in line]
    assert len(zeroed) == (ZERO_OUT in {relation, adjacency})


@pytest.mark.parametrize(
    ("relation", "below", "is_said"),
    [
        (REPLACE_ONE, "{scheme: poisson, rate: 0.5}", True),
        (REPLACE_ONE, "{scheme: all}", False),
        (ADD_REMOVE, "{scheme: poisson, rate: 0.5}", False),
    ],
)
def test_a_drawn_unit_without_records_counts_in_a_batch_of_one_size(relation, below, is_said):
    text = f"""version: 1
data: {{levels: [{{name: user, count: 20}}, {{name: example, count: 5}}]}}
sampling: {{user: {{scheme: fixed, size: 2}}, example: {below}}}
mechanism: {{type: pure-dp, epsilon: 0.1, relation: {relation}}}
training: {{steps: 10}}
privacy: {{unit: user, adjacency: replace-one, delta: 1e-6}}
"""
    said = assumptions(load_text(text, path="a").accepted().plan)
    assert any("counts as one of its batch" in line for line in said) == is_said
