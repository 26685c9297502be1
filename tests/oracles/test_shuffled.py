"""A pass over shuffled units against every order of the units and every outcome, by code that shares none with dpcalc.

A run is an arbitrary adaptive mechanism: what a step tells is a random function of the step, of all that was told
before, and of the set of units in its batch.
"""

import functools
import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
import scipy.stats

from dpcalc.accountants.composed_loss import UPPER
from dpcalc.accountants.pld import delta_bounds
from dpcalc.amplification.schedule import shuffled_pass
from dpcalc.config.load import load_text
from dpcalc.losses.loss import Loss, of_falling_pair
from dpcalc.losses.pair import MixturePair
from dpcalc.mechanisms.black_box import ApproximateDp
from dpcalc.planner.composition import composed, releases_of
from dpcalc.planner.evaluate import guarantee
from tests.few_losses import of_masses

EPSILONS = (0.0, 0.05, 0.1, 0.2, 0.4, 0.7, 1.0, 1.5, 2.2, 3.0)


def approximate_pair(epsilon, delta=0.0):
    return ApproximateDp(epsilon=epsilon, delta=delta).pair()


def hockey_stick(p, q, epsilon):
    return float(np.maximum(p - math.exp(epsilon) * q, 0).sum())


def assert_dominates(bound, p, q):
    """Compare whole profiles: delta at ten epsilons, D against D' and D' against D."""
    for epsilon in EPSILONS:
        assert hockey_stick(p, q, epsilon) <= bound.delta(epsilon) + 1e-12
        assert hockey_stick(q, p, epsilon) <= bound.swapped.delta(epsilon) + 1e-12


def batches_of(records, size, drop_last):
    """Every way in which a shuffled pass cuts the records into batches, equally likely."""
    ways = set()
    for order in itertools.permutations(range(records)):
        cuts = [order[at : at + size] for at in range(0, records, size)]
        if drop_last and len(cuts[-1]) < size:
            cuts.pop()
        ways.add((tuple(frozenset(cut) for cut in cuts), tuple(sorted(set(order) - set().union(*cuts)))))
    return [cuts for cuts, _ in sorted(ways, key=str)]


def law_of_outputs(ways, tell, steps, outcomes):
    """Return the probability of each sequence of outcomes; `tell(step, past, batch)` is the law of the next one."""
    law = {}
    for cuts in ways:
        for told in itertools.product(range(outcomes), repeat=steps):
            chance = 1 / len(ways)
            for at, cut in enumerate(cuts):
                chance *= tell(at, told[:at], cut)[told[at]]
            law[told] = law.get(told, 0.0) + chance
    return np.array([law[told] for told in sorted(law)])


def cases(records, size, drop_last):
    """(chance, number of batches) by hand: Theorem 7.10 for equal batches, an odd one, one that is left out."""
    whole, odd = divmod(records, size)
    if not odd:
        return [(Fraction(1), whole)]
    if drop_last:
        return [(Fraction(whole * size, records), whole)]
    last = Fraction((whole + 1) * odd, records)
    return [(last, whole + 1), (1 - last, whole)]


SHAPES = [
    *[(2, 1, False), (3, 1, False), (4, 1, False), (4, 2, False), (6, 2, False), (6, 3, False)],
    *[(3, 2, False), (5, 2, False), (5, 3, False), (3, 2, True), (5, 2, True), (5, 3, True)],
]


def random_run(random, shape, local):
    """Every batch tells one of three outcomes by randomized response about a random function of step, past and set."""
    records, size, drop_last = shape
    # The unit is record 0 under D; under D' another record, which no D holds, is in its place.
    ways = batches_of(records, size, drop_last)
    steps, outcomes = len(ways[0]), 3
    answers = {}

    def tell(swap):
        def law(step, past, cut):
            batch = frozenset("x'" if swap and record == 0 else record for record in cut)
            answer = answers.setdefault((step, past, batch), random.integers(outcomes))
            chances = np.ones(outcomes)
            chances[answer] = math.exp(local)
            return chances / chances.sum()

        return law

    return [law_of_outputs(ways, tell(swap), steps, outcomes) for swap in (False, True)]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("local", [0.1, 0.5, 1.0])
def test_pure_steps(shape, local):
    bound = shuffled_pass(approximate_pair(local), approximate_pair(local), tuple(cases(*shape)), 1e-12)
    random = np.random.default_rng([int(10 * local), *map(int, shape)])
    for _ in range(3):
        p, q = random_run(random, shape, local)
        if bound is not None:
            assert_dominates(bound, p, q)


@pytest.mark.slow
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("local", [0.05, 0.2, 0.4, 0.7, 1.2, 2.0])
def test_many_pure_steps(shape, local):
    bound = shuffled_pass(approximate_pair(local), approximate_pair(local), tuple(cases(*shape)), 1e-12)
    random = np.random.default_rng([7, int(100 * local), *map(int, shape)])
    for _ in range(30):
        p, q = random_run(random, shape, local)
        if bound is not None:
            assert_dominates(bound, p, q)


# Steps that are attained: every label is told, and mates tell a label of the mixture with chance 1/q, else their own.


def labels_run(random, pair, batches, q, is_adaptive, is_unlike=False):
    """Law of the outputs where x tells a label by `pair` and mates by their mixture or a letter of their own.

    If `is_unlike` each mate never tells one of the labels, at each step another one; the last value is what divergence
    of factor q that makes at most.
    """
    labels = pair.shape[1]
    outcomes = labels + 1
    kernels, own, never, unlike = {}, {}, {}, [0.0]

    def kernel(step, past):
        if not is_adaptive:
            return np.eye(labels, outcomes)
        return kernels.setdefault((step, past), random.dirichlet(np.full(outcomes, 0.3), size=labels))

    @functools.cache
    def laws(step, past, other):
        through = kernel(step, past)
        letter = np.eye(outcomes)[-1] if not is_adaptive else None
        if letter is None:
            letter = own.setdefault((step, past, other), random.dirichlet(np.full(outcomes, 0.3)))
        p, p_other = pair @ through
        mate = (p + p_other) / 2 / q + (1 - 1 / q) * letter
        if is_unlike:
            at = never.setdefault((step, past if is_adaptive else (), other), random.integers(labels))
            mate = mate + mate[at] * (np.eye(outcomes)[-1] - np.eye(outcomes)[at])
            unlike[0] = max(unlike[0], *(float(np.maximum(each - q * mate, 0).sum()) for each in (p, p_other)))
        return p, p_other, mate

    total = [{}, {}]
    for order in itertools.permutations(range(batches)):
        for told in itertools.product(range(outcomes), repeat=batches):
            chance = np.full(2, 1 / math.factorial(batches))
            for step, who in enumerate(order):
                p, p_other, w = laws(step, told[:step], who)
                chance *= (p[told[step]], p_other[told[step]]) if who == 0 else w[told[step]]
            for law, each in zip(total, chance, strict=True):
                law[told] = law.get(told, 0.0) + each
    return [np.array([law[told] for told in sorted(law)]) for law in total], unlike[0]


def random_pair(random, labels):
    p, q = random.dirichlet(np.full(labels, 2.0), size=2)
    return np.array([p, q])


def atoms_of(pair):
    losses = np.log(pair[0] / pair[1])
    order = np.argsort(losses)
    return of_masses(losses[order], pair[0][order])


def check_labels(seed, labels, batches, q, *, is_adaptive):
    random = np.random.default_rng(seed)
    pair = random_pair(random, labels)
    bound = shuffled_pass(atoms_of(pair), approximate_pair(math.log(q)), ((Fraction(1), batches),), 1e-12)
    if bound is None:
        return
    laws, _ = labels_run(random, pair, batches, q, is_adaptive)
    assert_dominates(bound, *laws)
    if not is_adaptive:  # and is not much above: q is taken a thousandth larger, and C is spread over a lattice
        for epsilon in EPSILONS[:5]:
            assert bound.delta(epsilon) <= hockey_stick(*laws, epsilon) + 2e-3


@pytest.mark.parametrize("is_adaptive", [False, True])
@pytest.mark.parametrize(("labels", "batches"), [(2, 2), (2, 4), (3, 3)])
def test_steps_that_tell_labels(labels, batches, is_adaptive):
    for seed in range(4):
        check_labels(seed, labels, batches, (1.05, 1.5, 3.0)[seed % 3], is_adaptive=is_adaptive)


@pytest.mark.slow
@pytest.mark.parametrize("is_adaptive", [False, True])
@pytest.mark.parametrize(("labels", "batches"), [(2, 2), (2, 3), (2, 4), (2, 5), (3, 2), (3, 3), (4, 3)])
def test_many_steps_that_tell_labels(labels, batches, is_adaptive):
    for seed in range(60):
        check_labels(1000 + seed, labels, batches, (1.02, 1.2, 1.5, 2.0, 4.0)[seed % 5], is_adaptive=is_adaptive)


def check_unlike(seed, labels, batches, q, *, is_adaptive, rare):
    """A rare label of x, or a common one, is never told by some mate: it counts once a pass, whoever that is."""
    random = np.random.default_rng(seed)
    pair = random_pair(random, labels) * np.array([1] * (labels - 1) + [rare])
    pair /= pair.sum(axis=1, keepdims=True)
    laws, unlike = labels_run(random, pair, batches, q, is_adaptive, is_unlike=True)
    mates = approximate_pair(math.log(q), unlike)
    for budget in (1e-9, 0.1):
        bound = shuffled_pass(atoms_of(pair), mates, ((Fraction(1), batches),), budget)
        if bound is not None:
            assert bound.infinity_mass <= 1.1 * unlike * (1 + 1e-9) + budget
            assert_dominates(bound, *laws)


@pytest.mark.parametrize("is_adaptive", [False, True])
@pytest.mark.parametrize(("labels", "batches"), [(2, 2), (2, 3), (3, 3), (2, 4)])
def test_mates_that_never_tell_a_label(labels, batches, is_adaptive):
    for seed in range(4):
        rare = (1, 1e-2, 1e-4)[seed % 3]
        check_unlike(seed, labels, batches, (1.0, 1.5, 3.0)[seed % 3], is_adaptive=is_adaptive, rare=rare)


@pytest.mark.slow
@pytest.mark.parametrize("is_adaptive", [False, True])
@pytest.mark.parametrize(("labels", "batches"), [(2, 2), (2, 3), (2, 4), (2, 5), (3, 2), (3, 3), (4, 3)])
def test_many_mates_that_never_tell_a_label(labels, batches, is_adaptive):
    for seed in range(40):
        rare = (1, 0.1, 1e-2, 1e-4)[seed % 4]
        q = (1.0, 1.02, 1.2, 1.5, 2.0, 4.0)[seed % 6]
        check_unlike(2000 + seed, labels, batches, q, is_adaptive=is_adaptive, rare=rare)


# Gaussian noise: two batches, vectors that depend on what was told, in the plane, by sums over a fine grid.


def gaussian(distance, sigma):
    pair = MixturePair.of({0: Fraction(1)}, {distance: Fraction(1)}, deviation=sigma)
    return of_falling_pair(pair)


def plane_run(random, sigma, *, zero_out):
    """Two steps in the plane; x, x' and the mate each have unit vectors that turn with the sign of what was told."""
    axis = np.arange(-9, 9.01, 0.6)
    grid = np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1).reshape(-1, 2) * sigma
    cell = 0.6**2 / (2 * math.pi)

    def density(center):
        return cell * np.exp(-((grid - center) ** 2).sum(axis=1) / (2 * sigma**2))

    def vector():
        angle = random.uniform(0, 2 * math.pi)
        return random.choice([1.0, 1.0, 0.5]) * np.array([math.cos(angle), math.sin(angle)])

    past = (grid[:, 0] > 0).astype(int)
    first = [vector() for _ in range(3)]
    second = [[vector() for _ in range(3)] for _ in range(2)]
    if zero_out:
        first[1] = np.zeros(2)
        for each in second:
            each[1] = np.zeros(2)
    laws = []
    for own in (0, 1):
        later = [np.array([density(second[side][who]) for side in (0, 1)])[past] for who in (own, 2)]
        laws.append((density(first[own])[:, None] * later[1] + density(first[2])[:, None] * later[0]).ravel() / 2)
    return laws


@pytest.mark.parametrize("zero_out", [False, True])
@pytest.mark.parametrize("sigma", [2.0, 5.0])
def test_two_gaussian_steps_in_the_plane(sigma, zero_out):
    random = np.random.default_rng([int(sigma), zero_out])
    bound = shuffled_pass(gaussian(1 if zero_out else 2, sigma), gaussian(2, sigma), ((Fraction(1), 2),), 1e-3)
    unamplified = gaussian(1 if zero_out else 2, sigma)
    for _ in range(2 if bound is None else 4):
        assert_dominates(unamplified if bound is None else bound, *plane_run(random, sigma, zero_out=zero_out))


def test_a_pass_of_one_batch_and_a_step_that_tells_all():
    tells_all = Loss(losses=(), log_masses=(), infinity_mass=1.0, other_infinite=1.0, is_symmetric=True)
    assert shuffled_pass(tells_all, tells_all, ((Fraction(1), 10),), 1e-9) is None
    one = shuffled_pass(gaussian(1, 1.0), gaussian(2, 1.0), ((Fraction(1), 1),), 1e-9)
    if one is not None:
        for epsilon in EPSILONS:
            assert one.delta(epsilon) >= gaussian(1, 1.0).delta(epsilon)


# The law of the labels against sums over all their counts, where numbers are far from 1.


def pair_of_counts(p, q, likeness, batches):
    """(P, Q) masses of the pair of Theorem 7.10 for labels of few letters: mates tell one with chance 1/likeness."""
    both, masses = (p + q) / 2, []
    for others in range(batches):
        labels = others + 1
        chance = math.comb(batches - 1, others) * (1 - 1 / likeness) ** (batches - 1 - others) / likeness**others
        for counts in itertools.product(range(labels + 1), repeat=p.size):
            if sum(counts) != labels:
                continue
            log = math.lgamma(labels + 1) - sum(math.lgamma(count + 1) for count in counts)
            mass = chance * math.exp(log + float((np.array(counts) * np.log(both)).sum()))
            share = float((np.array(counts) * (p - q) / (p + q)).sum()) / labels
            masses.append((mass * (1 + share), mass * (1 - share)))
    return np.array(masses).T


@pytest.mark.heavy
@pytest.mark.parametrize("is_swapped", [False, True])
@pytest.mark.parametrize(
    ("p", "q", "likeness", "batches"),
    [
        ((0.6, 0.4, 1e-22), (0.4, 0.6 - 1e-6, 1e-6), 45, 3),  # of a loss of -37 the P mass is next to nothing
        ((0.6, 0.4, 1e-21), (0.4, 0.6 - 1e-6, 1e-6), 48, 5),
        ((1.0, 1e-21), (0.9, 0.1), 50, 2),
        ((1 - 1e-9, 1e-9), (1 - 2e-9, 2e-9), 1, 4),  # rare labels that say much
        ((0.5 + 1e-9, 0.5 - 1e-9), (0.5, 0.5), 1, 4),  # labels that say next to nothing
    ],
)
def test_labels_far_from_equal(p, q, likeness, batches, is_swapped):
    p, q = (np.array(each) for each in ((q, p) if is_swapped else (p, q)))
    bound = shuffled_pass(atoms_of(np.array([p, q])), approximate_pair(likeness), ((Fraction(1), batches),), 1e-9)
    assert bound is not None
    told = pair_of_counts(p, q, math.exp(likeness), batches)
    assert_dominates(bound, *told)
    for epsilon in (5.0, 10.0, 20.0, 35.0):
        assert hockey_stick(*told, epsilon) <= bound.delta(epsilon) + 1e-15
        assert hockey_stick(*told[::-1], epsilon) <= bound.swapped.delta(epsilon) + 1e-15


# Whole runs of a config: noise and promises of every kind, in one or two dimensions, users with records, and groups.
# The run is taken apart by hand: all orders of users, all draws of their records, and adaptive contributions.


def cells_of(noise, scale, radius):
    """Law of a whole number or of a cell of the line, the outermost ones with all beyond, by the sum so far."""
    places = np.arange(-60, 61)
    if noise == "discrete-laplace":
        around = np.exp(-np.abs(places) / scale)
    elif noise == "discrete-gaussian":
        around = np.exp(-(places**2) / (2 * scale**2))
    else:
        law = {"laplace": scipy.stats.laplace, "gaussian": scipy.stats.norm}[noise]
        around = np.diff(law.cdf(np.append(places, 61) - 0.5, scale=scale), prepend=0)[1:]
    around /= around.sum()
    table = {}
    for center in range(-8, 9):
        folded = np.zeros(2 * radius + 1)
        np.add.at(folded, np.clip(places + center, -radius, radius) + radius, around)
        table[center] = folded
    return table


def sums_run(random, noise, scale, shape, *, records, drawn, dimensions, steps_of_norm, changed, zero_out):
    """Both laws of a pass: each user's step takes `drawn` of its records, of which each has a vector of norm 1 or 0.

    The vectors depend on the record, the step and all that was told; `changed` lists (user, record).
    """
    users, size = shape
    radius = 2 if dimensions == 2 else 4
    table = cells_of(noise, scale, radius)
    vectors = [np.zeros(dimensions, int), *np.eye(dimensions, dtype=int), *-np.eye(dimensions, dtype=int)]
    letters = (2 * radius + 1) ** dimensions
    subsets = list(itertools.combinations(range(records), drawn))
    ways = batches_of(users, size, drop_last=False)
    steps = len(ways[0])
    chosen = {}

    def vector(step, past, who):
        # Changed records stand for one direction and their stand-ins for the opposite one more often than not.
        likely = {"x": 1, "x'": dimensions + 1}.get(who[0])
        if likely and random.random() < steps_of_norm:
            return chosen.setdefault((step, past, who), vectors[likely])
        return chosen.setdefault((step, past, who), vectors[random.integers(len(vectors))])

    laws = []
    for is_changed in (False, True):
        law = np.zeros((letters,) * steps)
        for cuts in ways:
            whole = np.ones(1)
            for step, cut in enumerate(cuts):
                draws = list(itertools.product(subsets, repeat=len(cut)))
                later = []
                for past in range(whole.size):
                    told = past // letters ** max(step - 1, 0) if step else 0  # of what was told, the first letter
                    total = np.zeros(letters)
                    for draw in draws:
                        center = np.zeros(dimensions, int)
                        for user, kept in zip(sorted(cut), draw, strict=True):
                            for record in kept:
                                if (user, record) not in changed:
                                    center = center + vector(step, told, ("w", user, record))
                                elif not is_changed:
                                    center = center + vector(step, told, ("x", user, record))
                                elif not zero_out:
                                    center = center + vector(step, told, ("x'", user, record))
                        each = [table[int(c)] for c in center]
                        total += each[0] if dimensions == 1 else np.outer(*each).ravel()
                    later.append(whole[past] * total / len(draws))
                whole = np.concatenate(later)
            law += whole.reshape(law.shape) / len(ways)
        laws.append(law.ravel())
    return laws


@functools.cache
def secret_bounds(text):
    """Bounds of one pass in secret order, D against D', of each unit or group that may cost most."""
    plan = load_text(text, path="run.yaml").plan
    found = []
    for unit in composed(plan).units:
        for bound in unit.choices[0]:
            if bound.secret:
                ahead, _ = releases_of(plan, unit, 0, bound)
                ((loss, passes),) = ahead.items()
                assert passes == 1
                found.append(loss)
    return found


NESTED = """
version: 1
data: {{levels: [{{name: user, count: {users}}}, {{name: record, count: {records}}}]}}
sampling: {{user: {{scheme: shuffle, size: {size}, order: secret}}, record: {{scheme: fixed, size: {drawn}}}}}
mechanism: {{type: {noise}, noise_multiplier: {scale}, clip: record}}
training: {{steps: {steps}}}
privacy: {{unit: {unit}, adjacency: {adjacency}, delta: {delta}, group_size: {group}}}
"""
# (users, size of a batch), records of a user, how many of them a step takes
NESTS = [((2, 1), 1, 1), ((3, 1), 1, 1), ((4, 2), 1, 1), ((3, 2), 1, 1), ((2, 1), 2, 1), ((4, 2), 2, 1), ((2, 1), 2, 2)]


def check_sums(seed, noise, nest, *, unit, zero_out, group, dimensions):
    (users, size), records, drawn = nest
    random = np.random.default_rng(seed)
    scale = (1.5, 3, 6)[seed % 3]
    steps = -(-users // size)
    if steps > 2:
        dimensions = 1
    text = NESTED.format(
        users=users,
        records=records,
        size=size,
        drawn=drawn,
        noise=noise,
        scale=scale,
        steps=steps,
        unit=unit,
        adjacency="zero-out" if zero_out else "replace-one",
        delta=(0.4, 0.1)[seed % 2],
        group=group,
    )
    units = users if unit == "user" else users * records
    members = sorted(random.choice(units, size=group, replace=False).tolist())
    changed = (
        {(at, r) for at in members for r in range(records)}
        if unit == "user"
        else {divmod(at, records) for at in members}
    )
    bounds = secret_bounds(text)
    p, q = sums_run(
        random,
        noise,
        scale,
        (users, size),
        records=records,
        drawn=drawn,
        dimensions=dimensions,
        steps_of_norm=random.choice([0.5, 0.9, 1.0]),
        changed=changed,
        zero_out=zero_out,
    )
    for epsilon in EPSILONS:
        assert hockey_stick(p, q, epsilon) <= max(bound.delta(epsilon) for bound in bounds) + 1e-12
        assert hockey_stick(q, p, epsilon) <= max(bound.swapped.delta(epsilon) for bound in bounds) + 1e-12


@pytest.mark.parametrize("also", [(10,), (12, 20)])
def test_other_sums_of_the_same_batch(also):
    # Whatever the order, the sum over a pass is known of each sum that is released: here x adds all of its norm.
    sums = ", ".join(f"{{noise_multiplier: {each}}}" for each in also)
    kind = f"gaussian, noise_multiplier: 1000, also: [{sums}]"
    text = FLAT.format(users=100, size=1, steps=100, group=1, kind=kind, adjacency="replace-one")
    distance = 2 * math.hypot(*(1 / each for each in also)) / math.sqrt(100)
    for bound, epsilon in itertools.product(secret_bounds(text), EPSILONS):
        ends = np.array([distance / 2, -distance / 2]) - epsilon / distance
        told, claimed = scipy.stats.norm.cdf(ends) * (1, math.exp(epsilon))
        assert told - claimed <= min(bound.delta(epsilon), bound.swapped.delta(epsilon))


NESTED_RUNS = [
    (noise, nest, unit, zero_out, group, dimensions)
    for noise, dimensions in [
        ("laplace", 1),
        ("laplace", 2),
        ("gaussian", 2),
        ("discrete-laplace", 1),
        ("discrete-gaussian", 1),
    ]
    for nest in NESTS
    for unit in (["user", "record"] if nest[1] > 1 else ["record"])
    for zero_out in (False, True)
    for group in (1, 2)
]


@pytest.mark.parametrize(("noise", "nest", "unit", "zero_out", "group", "dimensions"), NESTED_RUNS[::9])
def test_sums_of_records(noise, nest, unit, zero_out, group, dimensions):
    check_sums(1, noise, nest, unit=unit, zero_out=zero_out, group=group, dimensions=dimensions)


@pytest.mark.slow
@pytest.mark.parametrize(("noise", "nest", "unit", "zero_out", "group", "dimensions"), NESTED_RUNS)
def test_many_sums_of_records(noise, nest, unit, zero_out, group, dimensions):
    for seed in range(12):
        check_sums(seed, noise, nest, unit=unit, zero_out=zero_out, group=group, dimensions=dimensions)


FLAT = """
version: 1
data: {{levels: [{{name: user, count: {users}}}]}}
sampling: {{user: {{scheme: shuffle, size: {size}, order: secret}}}}
mechanism: {{type: {kind}}}
training: {{steps: {steps}}}
privacy: {{adjacency: {adjacency}, delta: 0.3, group_size: {group}}}
"""


def check_promise(seed, shape, relation, *, zero_out, group, local, far):
    """Steps that keep a promise: each user multiplies the chance of each letter, or all decide."""
    random, (users, size), letters = np.random.default_rng(seed), shape, 3
    ways = batches_of(users, size, drop_last=False)
    steps, factors, answers = len(ways[0]), {}, {}
    changed = {*range(group)}

    def tell(is_changed):
        def law(step, past, cut):
            names = sorted(f"{user}'" if is_changed and user in changed else str(user) for user in cut)
            there = [name for name in names if not (zero_out and name.endswith("'"))]
            chances = np.ones(letters)
            if relation in {"any", "replace-one"}:  # by an answer that any change may change
                chances[answers.setdefault((step, past, *there), random.integers(letters))] = math.exp(local)
            else:  # a factor of each user that is there, whose change changes the total, too
                for name in there:
                    ends = random.choice([-local / 2, local / 2], size=letters)
                    chances = chances * np.exp(factors.setdefault((step, past, name), ends))
            told = answers.setdefault((step, past, "told", *there), random.integers(letters))
            return (
                np.append((1 - far) * chances / chances.sum(), np.zeros(letters))
                + far * np.eye(2 * letters)[letters + told]
            )

        return law

    settings = f"epsilon: {local}, delta: {far}, relation: {relation}"
    bounds = secret_bounds(
        FLAT.format(
            users=users,
            size=size,
            steps=steps,
            group=group,
            kind=f"approximate-dp, {settings}",
            adjacency="zero-out" if zero_out else "replace-one",
        )
    )
    p, q = (law_of_outputs(ways, tell(is_changed), steps, 2 * letters) for is_changed in (False, True))
    for bound in bounds:
        assert_dominates(bound, p, q)


PROMISES = [
    (shape, relation, zero_out, group)
    for shape in [(2, 1), (3, 1), (4, 2), (3, 2)]
    for relation in ("any", "replace-one", "add-remove", "zero-out")
    for zero_out in (False, True)
    for group in (1, 2)
]


@pytest.mark.parametrize(("shape", "relation", "zero_out", "group"), PROMISES[::7])
def test_steps_that_keep_a_promise(shape, relation, zero_out, group):
    check_promise(1, shape, relation, zero_out=zero_out, group=group, local=0.3, far=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("local", [0.1, 0.5, 1.0])
@pytest.mark.parametrize(("shape", "relation", "zero_out", "group"), PROMISES)
def test_many_steps_that_keep_a_promise(shape, relation, zero_out, group, local):
    for seed in range(4):
        check_promise(seed, shape, relation, zero_out=zero_out, group=group, local=local, far=(0.0, 1e-3)[seed % 2])


@pytest.mark.parametrize("shape", [(2, 1), (3, 1), (4, 2)])
@pytest.mark.parametrize("truth", [0.52, 0.6, 0.75])
def test_answers_by_randomized_response(shape, truth):
    random, (users, size) = np.random.default_rng(int(100 * truth)), shape
    ways = batches_of(users, size, drop_last=False)
    steps = len(ways[0])
    kind = f"randomized-response, truth_probability: {truth}"
    bounds = secret_bounds(
        FLAT.format(users=users, size=size, steps=steps, group=1, kind=kind, adjacency="replace-one")
    )
    for _ in range(5):

        def tell(own, categories):
            def law(step, past, cut):
                total = np.ones(1)
                for user in sorted(cut):
                    other = categories.setdefault((step, past, user), random.integers(2))
                    yes = truth if (own if user == 0 else other) else 1 - truth
                    total = np.convolve(total, [1 - yes, yes])
                return total

            return law

        truths = {}
        p, q = (law_of_outputs(ways, tell(own, truths), steps, size + 1) for own in (0, 1))
        for bound in bounds:
            assert_dominates(bound, p, q)


HARDLY = [(0.62, 0.0), (0.95, 0.0), (0.95, 1e-3), (0.982, 0.01), (0.982, 0.0), (0.9999, 0.0), (0.9999, 0.01)]


@pytest.mark.parametrize("budget", [1e-9, 1e-3, 0.045, 0.2, 0.45])
@pytest.mark.parametrize(("truth", "far"), HARDLY)
@pytest.mark.parametrize("lie", [None, 0.3])
def test_a_pass_that_hides_little(truth, lie, far, budget):
    """Randomized response that tells with chance `far`; others answer as x does, or as x' does. `lie` is that of x'."""
    step = np.array([(truth, 1 - truth), (1 - truth, truth) if lie is None else (lie, 1 - lie)])
    local = float(np.abs(np.log(step[0] / step[1])).max())
    pair = approximate_pair(local, far) if lie is None else atoms_of(step)
    for batches in (2, 3, 10, 100) if lie is None or not far else ():
        bound = shuffled_pass(pair, approximate_pair(local, far), ((Fraction(1), batches),), budget)
        for mate in step if bound is not None else ():
            others = scipy.stats.binom.pmf(np.arange(batches), batches - 1, mate[0])
            p, q = (np.append(0, others) * yes + np.append(others, 0) * no for yes, no in step)
            told = far * np.eye(2)
            assert_dominates(bound, np.append((1 - far) * p, told[0]), np.append((1 - far) * q, told[1]))


def test_a_step_that_tells_with_a_chance_and_nothing_else():
    pair = approximate_pair(0.0, 0.1)
    bound = shuffled_pass(pair, pair, ((Fraction(1), 1),), 0.2)
    assert bound is None or 0.1 <= bound.delta(0.0) <= 0.25


@pytest.mark.parametrize("far", [0.0, 1e-9, 1e-7, 5e-7])
def test_the_delta_of_a_promise_counts_once_a_pass(far):
    kind = f"approximate-dp, epsilon: 0.1, delta: {far}"
    text = FLAT.format(users=2350, size=10, steps=235, group=1, kind=kind, adjacency="replace-one")
    (alone,), (bound,) = (secret_bounds(each.replace("delta: 0.3", "delta: 1e-5")) for each in (PURE, text))
    assert far <= bound.infinity_mass <= 1.1 * far + 1e-6
    assert bound.epsilon(2e-6) <= 1.05 * alone.epsilon(1e-6)


PURE = FLAT.format(users=2350, size=10, steps=235, group=1, kind="pure-dp, epsilon: 0.1", adjacency="replace-one")


# Whole runs: several phases, in secret and in known order, beside other draws, of users with records, whole profiles.

NUMBERS = range(-12, 13)  # sums of a batch
DRAWS = {
    "secret": "scheme: shuffle, size: {size}, drop_last: {drop_last}, order: secret",
    "any": "scheme: shuffle, size: {size}, drop_last: {drop_last}",
    "fixed": "scheme: fixed, size: {size}",
    "poisson": "scheme: poisson, rate: 0.5",
    "held": "scheme: poisson, rate: 0.5, redraw_every: 2",
}
BELOW = {"all": "scheme: all", "fixed": "scheme: fixed, size: 1", "poisson": "scheme: poisson, rate: 0.5"}
RUNS = """
version: 1
data: {{levels: [{{name: user, count: {users}}}, {{name: record, count: {records}}}]}}
phases: [{phases}]
privacy: {{unit: {unit}, adjacency: {adjacency}, delta: {delta}, group_size: {group}}}
"""


def five_letters(noise, scale):
    """Law of a letter, a cell of the line or of the whole numbers, by the sum of the batch."""
    width = max(1.0, 0.8 * scale)
    if not noise.startswith("discrete"):
        law = {"laplace": scipy.stats.laplace, "gaussian": scipy.stats.norm}[noise]
        edges = np.array([-1.5, -0.5, 0.5, 1.5]) * width
        return {at: np.diff([0, *law.cdf(edges - at, scale=scale), 1]) for at in NUMBERS}
    places = np.arange(-400, 401)
    around = np.exp(-np.abs(places) / scale if noise == "discrete-laplace" else -(places**2) / (2 * scale**2))
    cells = {at: np.clip(np.rint((places + at) / round(width)), -2, 2).astype(int) + 2 for at in NUMBERS}
    return {at: np.bincount(cells[at], around / around.sum(), 5) for at in NUMBERS}


def ways_of(draw, users, size, drop_last):
    """The batches of some steps in turn, each way equally likely."""
    if draw in {"secret", "any"}:
        return batches_of(users, size, drop_last)
    if draw == "fixed":
        return [(cut,) for cut in itertools.combinations(range(users), size)]
    subsets = [tuple(at for at in range(users) if code >> at & 1) for code in range(2**users)]
    return [(cut,) * (2 if draw == "held" else 1) for cut in subsets]  # each user by a fair coin


def told_by(random, users, records, phases, clip, changed, *, zero_out):
    """Law of all letters under D and D'. `changed` has (user, record); vectors depend on step and last letter."""
    likely = random.choice([0.6, 0.85, 1.0])

    @functools.cache
    def vector(is_changed, *_whose_and_where):
        towards = 0 if is_changed is None else -1 if is_changed else 1
        return towards if towards and random.random() < likely else int(random.integers(-1, 2))

    def of_a_user(where, user, below, side):
        """Law of what a user adds."""
        if below == "poisson":
            draws = [kept for number in range(records + 1) for kept in itertools.combinations(range(records), number)]
        else:
            draws = itertools.combinations(range(records), 1 if below == "fixed" else records)
        law = np.zeros(2 * records + 1)
        for kept in (draws := list(draws)):
            hit = [(user, record) in changed for record in kept]
            if clip == "record":
                vectors = [
                    0 if side and zero_out and is_hit else vector(side if is_hit else None, user, record, where)
                    for record, is_hit in zip(kept, hit, strict=True)
                ]
            else:  # one vector, into which a zeroed record enters in any way, but not if all are zeroed
                is_zero = not kept or (side and zero_out and all((user, each) in changed for each in range(records)))
                vectors = [] if is_zero else [vector(side if any(hit) else None, user, kept, where)]
            law[sum(vectors) + records] += 1 / len(draws)
        return law

    def law(side):
        told, last, step = np.ones(1), np.array([2]), 0
        for draw, size, drop_last, steps, below, letters in phases:
            ways = ways_of(draw, users, size, drop_last)

            @functools.cache
            def kernel(at, cut, below=below, letters=letters):  # law of a letter by the one before
                rows = []
                for before in range(5):
                    total = np.ones(1)
                    for user in cut:
                        total = np.convolve(total, of_a_user((at, before), user, below, side))
                    middle = total.size // 2
                    rows.append(sum(mass * letters[place - middle] for place, mass in enumerate(total) if mass))
                return np.array(rows)

            for first in range(0, steps, len(ways[0])):
                length, later = min(len(ways[0]), steps - first), 0
                for cuts in ways:
                    law, ends = told / len(ways), last
                    for at, cut in enumerate(cuts[:length]):
                        law = (law[:, None] * kernel(step + first + at, tuple(sorted(cut)))[ends]).ravel()
                        ends = np.arange(law.size) % 5
                    later = later + law
                told, last = later, np.arange(later.size) % 5
            step += steps
        return told

    return law(False), law(True)


def check_runs(seed):
    random = np.random.default_rng(seed)
    users, records, number = int(random.integers(2, 5)), int(random.integers(1, 3)), int(random.choice([1, 2, 2, 3]))
    unit, clip = (str(random.choice(["user", "record"])) for _ in range(2))
    noise = str(random.choice(["laplace", "gaussian", "discrete-laplace", "discrete-gaussian"]))
    zero_out, units = bool(random.integers(2)), users if unit == "user" else users * records
    members = random.choice(units, size=min(units, int(random.choice([1, 2, 2, 3]))), replace=False).tolist()
    changed = {divmod(at, records) for at in members}
    if unit == "user":
        changed = {(at, record) for at in members for record in range(records)}
    phases, texts, left = [], [], 5
    for at in range(number):
        draw, size = "secret" if not at else str(random.choice(list(DRAWS))), int(random.integers(1, users))
        drop_last, scale = bool(random.integers(2)), float(random.choice([1.5, 2, 3, 5, 9]))
        steps = int(random.integers(1, left - (number - 1 - at) + 1))
        below, left = str(random.choice(list(BELOW)[:: 1 if records > 1 else 2])), left - steps
        phases.append((draw, size, drop_last, steps, below, five_letters(noise, scale)))
        drawn = DRAWS[draw].format(size=size, drop_last=str(drop_last).lower())
        texts.append(
            f"{{name: p{at}, sampling: {{user: {{{drawn}}}, record: {{{BELOW[below]}}}}}, "
            f"training: {{steps: {steps}}}, mechanism: {{type: {noise}, noise_multiplier: {scale}, clip: {clip}}}}}"
        )
    text = RUNS.format(
        users=users,
        records=records,
        phases=", ".join(texts),
        unit=unit,
        adjacency="zero-out" if zero_out else "replace-one",
        delta=float(random.choice([0.3, 0.1, 0.03])),
        group=len(members),
    )
    plan = load_text(text, path="run.yaml").plan
    p, q = told_by(random, users, records, phases, clip, changed, zero_out=zero_out)
    assert p.sum() == pytest.approx(1)
    epsilon = guarantee(plan).epsilon
    assert max(hockey_stick(p, q, epsilon), hockey_stick(q, p, epsilon)) <= plan.delta * (1 + 1e-9)
    for direction, laws in (("D||D'", (p, q)), ("D'||D", (q, p))):
        steps = [each for name, each in composed(plan).steps.items() if name.startswith(direction)]
        for epsilon in random.choice(EPSILONS, size=3, replace=False):
            bound = max(float(delta_bounds(each, epsilon=epsilon, sides=(UPPER,))[0]) for each in steps)
            assert hockey_stick(*laws, epsilon) <= bound * (1 + 1e-9) + 1e-12, (seed, epsilon, text)


@pytest.mark.heavy
@pytest.mark.parametrize("seed", range(4))
def test_runs_of_several_phases(seed):
    check_runs(seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 200))
def test_many_runs_of_several_phases(seed):
    check_runs(seed)


@pytest.mark.heavy
def test_a_hundred_thousand_batches():
    # Labels of two letters: the sum of contrasts is that of fair coins, and the number of labels a binomial one.
    batches, likeness = 100_000, 40.0
    contrast, others = math.tanh(0.25), np.arange(2000, 3001)
    weights = scipy.stats.binom.pmf(others, batches - 1, 1 / likeness)
    pair = approximate_pair(0.5), approximate_pair(math.log(likeness))
    bound = shuffled_pass(*pair, ((Fraction(1), batches),), 1e-12)
    for epsilon in (0.0, 0.005, 0.02, 0.04):
        exact = 0.0
        for labels, weight in zip((others + 1).tolist(), weights, strict=True):
            ones = np.arange(labels + 1)
            share = contrast * (2 * ones - labels) / labels
            each = np.maximum(1 + share - math.exp(epsilon) * (1 - share), 0)
            exact += weight * float(scipy.stats.binom.pmf(ones, labels, 0.5) @ each)
        assert exact * (1 - 1e-9) <= bound.delta(epsilon) <= 1.06 * exact
