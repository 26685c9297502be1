"""Correlated noise under sampling: every assignment and draw of small runs, over the whole noise space.

The densities are those of C G + Z by its definition: nothing of the reductions to independent steps is used.
"""

import itertools
import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import norm

from dpcalc.errors import InputError, UnsupportedError
from dpcalc.guarantee import Adjacency
from dpcalc.mechanisms.additive import Gaussian
from dpcalc.mechanisms.matrix_factorization import Matrix, MatrixFactorization, Toeplitz
from dpcalc.planner.evaluate import delta_of, evaluate, guarantee
from dpcalc.planner.lower_end import epsilon_lower
from dpcalc.planner.plan import Phase, Plan
from dpcalc.sampling.hierarchy import Hierarchy, Level
from dpcalc.sampling.schemes import All, BallsInBins, CappedPoisson, CyclicPoisson, Poisson
from tests.runs import run_of
from tests.thinning import thinned

ADD, ZERO, REPLACE = Adjacency.ADD_REMOVE, Adjacency.ZERO_OUT, Adjacency.REPLACE_ONE
ROUNDING = 2e-3  # of the grids below, relative to delta; what is near 0 may be off by 1e-7


def plan_of(strategy, scheme, steps, *, noise=1.0, count=6, adjacency=ADD, least=0, **more):
    level = Level(name="record", count=count, min_count=least, scheme=scheme)
    mechanism = MatrixFactorization(strategy=strategy, noise_multiplier=noise)
    return run_of(level, mechanism=mechanism, steps=steps, adjacency=adjacency, **more)


def plain_of(plan, scheme, steps, **changes):
    """The plan with independent Gaussian noise, another scheme and length."""
    (phase,) = plan.phases
    level = replace(phase.hierarchy.level(1), scheme=scheme, **changes)
    noise = Gaussian(noise_multiplier=phase.mechanism.noise_multiplier)
    return replace(plan, phases=(replace(phase, hierarchy=Hierarchy(levels=(level,)), mechanism=noise, steps=steps),))


def toeplitz_matrix(coefficients, steps):
    table = np.zeros((steps, steps))
    for (row, column), _ in np.ndenumerate(table):
        if 0 <= row - column < len(coefficients):
            table[row, column] = coefficients[row - column]
    return table


# Balls in bins.


def shifts(strategy, bins, vectors):
    """C U of a unit in each bin, in all passes; shape (bins, rows of the release times dimensions)."""
    steps = len(strategy)
    means = []
    for own in range(bins):
        contributions = np.zeros((steps, vectors.shape[1]))
        contributions[own::bins] = vectors[own::bins]
        means.append((strategy @ contributions).reshape(-1))
    return np.array(means)


def true_deltas(means_p, means_q, deviation, epsilon):
    """(D||D', D'||D) of the mixtures of normal distributions around these means, by a grid in the space they span."""
    points = np.concatenate((means_p, means_q))
    _, sizes, axes = np.linalg.svd(points - points.mean(axis=0), full_matrices=False)
    axes = axes[sizes > 1e-9]
    p, q = ((means - points.mean(axis=0)) @ axes.T / deviation for means in (means_p, means_q))
    per_axis = {1: 4001, 2: 301, 3: 61}[len(axes)]
    low, high = np.minimum(p.min(0), q.min(0)) - 6.5, np.maximum(p.max(0), q.max(0)) + 6.5
    grids = [np.linspace(a, b, per_axis) for a, b in zip(low, high, strict=True)]
    cell = math.prod(float(grid[1] - grid[0]) for grid in grids)
    at = np.stack(np.meshgrid(*grids, indexing="ij"), axis=-1).reshape(-1, len(axes))

    def density(centers):
        total = np.zeros(len(at))
        for center in centers:
            total += np.exp(-0.5 * ((at - center) ** 2).sum(axis=1))
        return total / len(centers) / (2 * math.pi) ** (len(axes) / 2)

    f, g = density(p), density(q)
    return tuple(cell * float(np.maximum(a - math.exp(epsilon) * b, 0).sum()) for a, b in ((f, g), (g, f)))


def matrix_strategy(entries):
    return Matrix(name="c.npy", digest=str(hash(entries.tobytes())), entries=entries)


HELD = [  # bins, steps, coefficients, noise
    (2, 2, (1.0, 1.0), 1.0),
    (2, 4, (1.0, 1.0), 1.4),
    (3, 3, (1.0, 0.5), 0.8),
    (3, 6, (1.0, -0.9), 1.3),
    (3, 7, (1.0, 0.7, 0.7), 1.5),
    (3, 8, (0.2, 1.0), 1.1),
    (3, 2, (1.0, 0.9), 0.7),
    (2, 5, (1.0,), 1.2),
]


@pytest.mark.heavy
@pytest.mark.parametrize(("bins", "steps", "coefficients", "noise"), thinned(HELD, keep=4))
@pytest.mark.parametrize("adjacency", [ADD, REPLACE])
def test_no_unit_in_bins_costs_more_than_the_bound(bins, steps, coefficients, noise, adjacency):
    strategy = toeplitz_matrix(coefficients, steps)
    run = plan_of(
        Toeplitz(coefficients=coefficients),
        BallsInBins(bins=bins, is_held=True),
        steps,
        noise=noise,
        adjacency=adjacency,
    )
    check_bins(run, strategy, bins, noise)


def check_bins(run, strategy, bins, noise, seed=0):
    """Vectors of one sign, of both, at right angles, and at random: no delta above the bound, some above the lower."""
    steps, rng = len(strategy), np.random.default_rng(seed)
    deviation = noise * np.linalg.norm(strategy, axis=0).max()
    random = rng.normal(size=(steps, 2))
    right_angles = np.eye(steps)[np.arange(steps) % max(1, np.count_nonzero(strategy.any(axis=0)))]
    kinds = [
        np.ones((steps, 1)),
        np.where(rng.random((steps, 1)) < 0.5, -1.0, 1.0),
        right_angles,
        random / np.linalg.norm(random, axis=1, keepdims=True),
    ]
    for epsilon in (0.2, 1.0):
        bound = delta_of(run, epsilon=epsilon)
        largest = 0.0
        for vectors in kinds:
            own = shifts(strategy, bins, vectors)
            other = -own if run.adjacency is REPLACE else np.zeros((1, own.shape[1]))
            if np.linalg.matrix_rank(np.concatenate((own, other))) > 3:
                continue
            largest = max(largest, *true_deltas(own, other, deviation, epsilon))
        assert largest <= bound.delta * (1 + ROUNDING) + 1e-7
        assert bound.delta_lower <= largest * (1 + ROUNDING) + 1e-7


@pytest.mark.heavy
@pytest.mark.parametrize("seed", thinned(range(20), keep=3))
def test_no_unit_in_bins_costs_more_under_a_matrix(seed):
    """Banded matrices with columns of different norms and signs, also where bands do not divide the bins."""
    rng = np.random.default_rng(seed)
    bins, bands = int(rng.integers(2, 4)), int(rng.integers(1, 3))
    steps = int(rng.integers(bins, 3 * bins + 1))
    entries = np.tril(rng.normal(size=(steps, steps))) * (np.subtract.outer(range(steps), range(steps)) < bands)
    entries[np.diag_indices(steps)] = rng.uniform(0.3, 1.5, steps)
    noise = float(rng.uniform(0.8, 2.0))
    run = plan_of(matrix_strategy(entries), BallsInBins(bins=bins, is_held=True), steps, noise=noise)
    check_bins(run, entries, bins, noise, seed)


MORE_BINS = [  # bins, steps, coefficients, noise: also of bands that do not divide the bins
    (5, 5, (1.0, 0.9), 1.0),
    (5, 15, (1.0, 0.9), 1.5),
    (5, 13, (1.0, 1.0), 1.5),
    (7, 14, (1.0, 0.9, 0.8), 1.2),
    (7, 17, (1.0, 1.0, 1.0), 1.5),
    (8, 16, (1.0, 0.9, 0.9), 1.2),
    (8, 22, (1.0, -0.9, 0.9), 1.2),
    (6, 12, (1.0, 0.8, 0.6), 1.0),
    (12, 7, (1.0, 0.8, 0.6), 0.7),
]


@pytest.mark.heavy
@pytest.mark.parametrize("problem", thinned([pytest.param(problem) for problem in MORE_BINS], keep=3))
def test_no_unit_in_more_bins_costs_more(problem):
    """Losses drawn at random from the mixture over all bins: five deviations of the mean below the bound, or more."""
    bins, steps, coefficients, noise = problem
    strategy, number = toeplitz_matrix(coefficients, steps), 100_000
    run = plan_of(Toeplitz(coefficients=coefficients), BallsInBins(bins=bins, is_held=True), steps, noise=noise)
    own = shifts(strategy, bins, np.ones((steps, 1))) / (noise * np.linalg.norm(strategy, axis=0).max())
    products, rng = own @ own.T, np.random.default_rng(steps)
    factor = np.linalg.cholesky(products + 1e-12 * np.eye(bins))

    def ratios(with_unit):
        along = rng.normal(size=(number, bins)) @ factor.T
        if with_unit:
            along += products[rng.integers(bins, size=number)]
        return np.exp(along - np.diag(products) / 2).mean(axis=1)

    for epsilon in (0.1, 0.7):
        bound = delta_of(run, epsilon=epsilon)
        forward = np.maximum(1 - math.exp(epsilon) / ratios(with_unit=True), 0)
        backward = np.maximum(1 - math.exp(epsilon) * ratios(with_unit=False), 0)
        for values in (forward, backward):
            assert values.mean() - 5 * values.std() / math.sqrt(number) <= bound.delta
        assert bound.delta_lower <= forward.mean() + 5 * forward.std() / math.sqrt(number)


@pytest.mark.parametrize(("bins", "steps"), [(4, 4), (4, 3), (12, 12), (13, 11)])
def test_one_pass_is_one_pass_fresh_or_held(bins, steps):
    strategy = Toeplitz(coefficients=(1.0, 0.5, 0.25))
    fresh, held = (plan_of(strategy, BallsInBins(bins=bins, is_held=x), steps) for x in (False, True))
    assert guarantee(fresh).epsilon == guarantee(held).epsilon


@pytest.mark.heavy
@pytest.mark.parametrize("adjacency", [ADD, ZERO, REPLACE])
def test_bands_that_divide_the_bins_are_bins_of_independent_noise(adjacency):
    """Eight passes of 24 bins under three bands: as eight passes of eight bins with independent noise."""
    run = plan_of(
        Toeplitz(coefficients=(1.0, 0.5, 0.25)),
        BallsInBins(bins=24, is_held=True),
        8 * 24,
        noise=3.0,
        adjacency=adjacency,
    )
    plain = plain_of(run, BallsInBins(bins=8, is_held=True), 8 * 8)
    assert guarantee(run).epsilon == pytest.approx(guarantee(plain).epsilon, rel=1e-9)
    evaluation = evaluate(run)
    result = evaluation.guarantee
    assert "bounded as one of 8, so many bins as the bands keep apart" in evaluation.phases[0].sampling
    assert result.epsilon_lower < 0.9 * result.epsilon
    assert not result.tight
    # From below: noise that is independent, without the last steps, whose columns are cut short.
    attained = plain_of(run, BallsInBins(bins=24, is_held=True), 8 * 24 - 2)
    assert epsilon_lower(run)[0] == pytest.approx(epsilon_lower(attained)[0], rel=1e-9)


@pytest.mark.heavy
@pytest.mark.parametrize("is_held", [False, True])
def test_identity_in_bins_is_plain_dp_sgd(is_held):
    run = plan_of(Toeplitz(coefficients=(0.5,)), BallsInBins(bins=10, is_held=is_held), 37, noise=2.0)
    plain = plain_of(run, BallsInBins(bins=10, is_held=is_held), 37)
    assert guarantee(run).epsilon == pytest.approx(guarantee(plain).epsilon, rel=1e-12)
    assert evaluate(run).guarantee.tight


def test_records_below_a_user_who_chooses_a_bin():
    """The choice is told, and a pass costs one step of the user's own draw."""
    levels = (
        Level(name="user", count=50, scheme=BallsInBins(bins=12, is_held=True)),
        Level(name="record", count=20, scheme=Poisson(probability=Fraction(1, 4))),
    )
    mechanism = MatrixFactorization(strategy=Toeplitz(coefficients=(1.0, 0.5, 0.25)), noise_multiplier=2.0)
    phase = Phase(name="p", hierarchy=Hierarchy(levels=levels), mechanism=mechanism, clip=2, steps=30)
    run = Plan(phases=(phase,), unit=2, adjacency=ADD, delta=1e-5)
    drawn = Hierarchy(levels=(replace(levels[0], scheme=All()), levels[1]))
    three = replace(phase, hierarchy=drawn, mechanism=Gaussian(noise_multiplier=2.0), steps=3)
    assert guarantee(run).epsilon == pytest.approx(guarantee(replace(run, phases=(three,))).epsilon, rel=1e-6)


def test_columns_of_different_norms_cost_what_the_costliest_bin_holds():
    norms = np.array([1.0, 0.2, 0.2, 0.2, 0.2, 1.0, 0.2, 0.2])
    run = plan_of(matrix_strategy(np.diag(norms)), BallsInBins(bins=4, is_held=True), 8, noise=2.0)
    # Bins 0 and 1 hold a column of norm 1 and one of .2: as two of root mean square sqrt(.52).
    plain = plain_of(run, BallsInBins(bins=4, is_held=True), 8)
    quieter = replace(plain.phases[0], mechanism=Gaussian(noise_multiplier=2 / math.sqrt(0.52)))
    expected = guarantee(replace(plain, phases=(quieter,))).epsilon
    assert guarantee(run).epsilon == pytest.approx(expected, rel=1e-8)  # noise is rounded by 1e-11, on another grid


@pytest.mark.heavy
def test_columns_of_different_norms_cost_a_fresh_choice_their_largest():
    """A unit that chooses anew may meet the loud column of every pass: norms (1, .01), (.01, 1), two bins."""
    run = plan_of(matrix_strategy(np.diag([1.0, 0.01, 0.01, 1.0])), BallsInBins(bins=2), 4)
    x = np.linspace(-9, 10, 1901)
    weights = norm.pdf(x) * (x[1] - x[0])
    # A pass: the mean of both ratios; its second column shifts by .01, which leaves the ratio within a factor of e^.1.
    ratio = (np.exp(x - 0.5)[:, None] + np.exp(0.01 * x - 0.00005)[None, :]) / 2
    values, chances = ratio.ravel(), np.outer(weights, weights).ravel()
    edges = np.linspace(math.log(values.min()), math.log(values.max()), 3001)
    cells = np.digitize(np.log(values), edges)
    mass = np.bincount(cells, chances)
    mean = np.bincount(cells, chances * values) / np.maximum(mass, 1e-300)  # merged into means: no larger a divergence
    kept = mass > 0
    both = np.outer(mean[kept], mean[kept])
    for epsilon in (1.0, 2.0, 3.0):
        attained = float((np.outer(mass[kept], mass[kept]) * np.maximum(both - math.exp(epsilon), 0)).sum())
        assert attained <= delta_of(run, epsilon=epsilon).delta
        assert attained > {1.0: 0.0717, 2.0: 0.0123, 3.0: 0.00145}[epsilon]


def test_fresh_choices_under_bands_cost_more_than_composed_passes():
    """docs/theory.md, Remark 16.11: M = b = 2, c = (1, 1), two passes; steps 1 and 2 shift by (0, 1, 2, 1)."""
    strategy, multiplier = toeplitz_matrix((1, 1), 4), 1.0
    deviation = multiplier * math.sqrt(2)
    patterns = [strategy[:, [first, 2 + second]].sum(axis=1) for first in (0, 1) for second in (0, 1)]
    worst = patterns[2]
    assert worst @ worst == 6
    along = [mean @ worst / math.sqrt(6) / deviation for mean in patterns]  # a function of the release
    epsilon, cut = 14.0, 10.0
    attained = np.mean([norm.sf(cut - x) for x in along]) - math.exp(epsilon) * norm.sf(cut)
    mu = math.sqrt(2) / multiplier  # two passes of one bin each
    composed = norm.sf(epsilon / mu - mu / 2) - math.exp(epsilon) * norm.sf(epsilon / mu + mu / 2)
    assert attained > 10 * composed
    scheme = BallsInBins(bins=2)
    with pytest.raises(InputError, match="two choices can be closer than the 2 bands") as error:
        guarantee(plan_of(Toeplitz(coefficients=(1.0, 1.0)), scheme, 4))
    assert error.value.key == "sampling.record.scheme"


def test_members_of_a_group_in_bins_are_refused_where_columns_overlap():
    scheme = BallsInBins(bins=4, is_held=True)
    with pytest.raises(UnsupportedError, match="whose bins may part the members"):
        guarantee(plan_of(Toeplitz(coefficients=(1.0, 0.5)), scheme, 8, group_size=2))
    assert guarantee(plan_of(Toeplitz(coefficients=(1.0,)), scheme, 8, group_size=2)).epsilon > 0


# Cyclic Poisson draws that are cut to a maximum.


def cut_law(others, rate, cap, own, *, has_unit):
    """{sum: probability} of a cut Poisson draw of units with contributions `others`, and one with `own`."""
    values = (*others, own) if has_unit else tuple(others)
    law = {}
    for drawn in itertools.product((0, 1), repeat=len(values)):
        chance = math.prod(rate if hit else 1 - rate for hit in drawn)
        taken = [value for value, hit in zip(values, drawn, strict=True) if hit]
        batches = list(itertools.combinations(taken, min(cap, len(taken))))
        for batch in batches:
            law[sum(batch)] = law.get(sum(batch), 0) + chance / len(batches)
    return law


def released_deltas(sums_p, sums_q, strategy, deviation, epsilon):
    """(D||D', D'||D) of C G + Z for sums G with these probabilities, {sums of all steps: chance}, on a grid of rows."""
    rows = len(strategy)
    largest = max(abs(value) for sums in (*sums_p, *sums_q) for value in sums)
    grids = [np.linspace(-a, a, 41) for a in largest * np.abs(strategy).sum(axis=1) + 5 * deviation]
    cell = math.prod(float(grid[1] - grid[0]) for grid in grids)
    at = np.stack(np.meshgrid(*grids, indexing="ij"), axis=-1).reshape(-1, rows)

    def density(table):
        total = np.zeros(len(at))
        for sums, weight in table.items():
            total += weight * np.exp(-0.5 * ((at - strategy @ np.array(sums)) ** 2).sum(axis=1) / deviation**2)
        return total / (2 * math.pi * deviation**2) ** (rows / 2)

    f, g = density(sums_p), density(sums_q)
    return tuple(cell * float(np.maximum(a - math.exp(epsilon) * b, 0).sum()) for a, b in ((f, g), (g, f)))


def independent(laws):
    """{sums of all steps: chance} of independent steps."""
    table = {}
    for steps in itertools.product(*(law.items() for law in laws)):
        sums = tuple(value for value, _ in steps)
        table[sums] = table.get(sums, 0) + math.prod(chance for _, chance in steps)
    return table


CUT = [  # others in the unit's group, others in the second group, rate, cap, noise
    ((-1, -1), (1,), 0.6, 1, 1.0),
    ((-1,), (1, 1), 0.5, 1, 0.8),
    ((-1, -1, 1), (), 0.4, 2, 1.2),
    ((1, 1), (-1,), 0.7, 2, 0.9),
]
TWO_BANDS = np.array([[1.0, 0, 0], [0.5, 0.8, 0], [0, -0.3, 1.1]])


@pytest.mark.heavy
@pytest.mark.parametrize("data", thinned([pytest.param(data) for data in CUT], keep=2))
@pytest.mark.parametrize("adjacency", [ADD, ZERO, REPLACE])
def test_no_cut_group_costs_more_than_the_bound(data, adjacency):
    """Three steps over two groups: the unit's group draws in steps 0 and 2, the other one in step 1."""
    others, second, rate, cap, noise = data
    largest = 1 + max(len(others), len(second))
    scheme = CyclicPoisson(probability=Fraction(str(rate)), groups=2, max_batch_size=cap, max_group_size=largest)
    count = 1 + len(others) + len(second)
    run = plan_of(matrix_strategy(TWO_BANDS), scheme, 3, noise=noise, count=count, adjacency=adjacency)
    deviation = noise * np.linalg.norm(TWO_BANDS, axis=0).max()
    with_unit = cut_law(others, rate, cap, 1, has_unit=True)
    without = cut_law(others, rate, cap, {ZERO: 0, REPLACE: -1}.get(adjacency, 0), has_unit=adjacency is not ADD)
    between = cut_law(second, rate, cap, 0, has_unit=False)
    for epsilon in (0.1, 0.8):
        bound = delta_of(run, epsilon=epsilon).delta
        truth = released_deltas(
            independent((with_unit, between, with_unit)),
            independent((without, between, without)),
            TWO_BANDS,
            deviation,
            epsilon,
        )
        assert max(truth) <= bound * (1 + ROUNDING)
        assert max(truth) > 0


@pytest.mark.heavy
@pytest.mark.parametrize("adjacency", [ADD, ZERO, REPLACE])
@pytest.mark.parametrize(("steps", "cap"), [(40, 30), (41, 36)])
def test_cut_cyclic_draws_are_cut_poisson_steps(steps, cap, adjacency):
    """Four groups of exactly 1,500, of which 25 are expected."""
    rate, bands = Fraction(1, 60), Toeplitz(coefficients=(1.0, 0.5, 0.25))
    scheme = CyclicPoisson(probability=rate, groups=4, max_batch_size=cap, max_group_size=1500)
    run = plan_of(bands, scheme, steps, noise=1.5, count=6000, adjacency=adjacency)
    poisson = CappedPoisson(probability=rate, max_batch_size=cap)
    plain = plain_of(run, poisson, math.ceil(steps / 4), count=1500, min_count=1500)
    assert guarantee(run).epsilon == pytest.approx(guarantee(plain).epsilon, rel=1e-9)
    assert epsilon_lower(run)[0] <= guarantee(run).epsilon


def test_a_cap_that_no_group_reaches_is_no_cap():
    rate, bands = Fraction(1, 60), Toeplitz(coefficients=(1.0, 0.5, 0.25))
    free = plan_of(bands, CyclicPoisson(probability=rate, groups=4), 40, count=6000)
    epsilon = guarantee(free).epsilon
    for cap, largest in ((6000, None), (1500, 1500), (1500, 1600)):
        scheme = CyclicPoisson(probability=rate, groups=4, max_batch_size=cap, max_group_size=largest)
        value = guarantee(plan_of(bands, scheme, 40, count=6000)).epsilon
        assert value == pytest.approx(epsilon, rel=1e-9)


@pytest.mark.heavy
@pytest.mark.parametrize("cap", [1, pytest.param(3, marks=pytest.mark.heavy)])
def test_a_group_of_unknown_size_is_above_each_size(cap):
    """Of twelve units in three groups of at most six any group holds none to six, and that of a unit one to six."""
    rate, bands = Fraction(1, 3), Toeplitz(coefficients=(1.0, 0.5))
    for largest, sizes in ((6, range(1, 7)), (5, range(2, 6)), (None, range(1, 13))):
        scheme = CyclicPoisson(probability=rate, groups=3, max_batch_size=cap, max_group_size=largest)
        run = plan_of(bands, scheme, 9, count=12)
        poisson = CappedPoisson(probability=rate, max_batch_size=cap)
        known = [guarantee(plain_of(run, poisson, 3, count=size, min_count=size)).epsilon for size in sizes]
        assert guarantee(run).epsilon >= max(known) * (1 - 1e-9)


def test_a_largest_group_holds_its_share():
    scheme = CyclicPoisson(probability=Fraction(1, 2), groups=3, max_batch_size=1, max_group_size=3)
    with pytest.raises(InputError, match="is 3: 3 groups cannot hold all 12 units"):
        guarantee(plan_of(Toeplitz(coefficients=(1.0,)), scheme, 9, count=12))


@pytest.mark.heavy
def test_cut_groups_beside_other_phases():
    """Data are those of both phases; each phase keeps its own frame."""
    rate, bands = Fraction(1, 60), Toeplitz(coefficients=(1.0, 0.5, 0.25))
    scheme = CyclicPoisson(probability=rate, groups=4, max_batch_size=28, max_group_size=1500)
    first = plan_of(bands, scheme, 40, noise=1.5, count=6000)
    second = plain_of(first, Poisson(probability=Fraction(1, 100)), 7)
    both = replace(first, phases=(first.phases[0], replace(second.phases[0], name="q")))
    assert guarantee(both).epsilon > guarantee(first).epsilon
    assert epsilon_lower(both)[0] <= guarantee(both).epsilon


# Draws below a bin.


@pytest.mark.heavy
@pytest.mark.parametrize("unit", [1, 2])
@pytest.mark.parametrize("adjacency", thinned([ADD, ZERO], keep=1))
@pytest.mark.parametrize("mate", [1, -1])
def test_no_draw_below_a_bin_costs_more_than_the_bound(unit, adjacency, mate):
    """A user of two records, each drawn with probability .6 in the user's steps, in one of two bins; three steps."""
    levels = (
        Level(name="user", count=5, scheme=BallsInBins(bins=2, is_held=True)),
        Level(name="record", count=2, scheme=Poisson(probability=Fraction(3, 5))),
    )
    mechanism = MatrixFactorization(strategy=matrix_strategy(TWO_BANDS), noise_multiplier=1.3)
    phase = Phase(name="p", hierarchy=Hierarchy(levels=levels), mechanism=mechanism, clip=2, steps=3)
    run = Plan(phases=(phase,), unit=unit, adjacency=adjacency, delta=1e-5)
    deviation = 1.3 * np.linalg.norm(TWO_BANDS, axis=0).max()
    nobody = {0: 1.0}

    def over_bins(law):
        tables = [independent([law if step % 2 == own else nobody for step in range(3)]) for own in (0, 1)]
        return {sums: sum(table.get(sums, 0) for table in tables) / 2 for sums in tables[0] | tables[1]}

    present = over_bins(cut_law((mate,), 0.6, 9, 1, has_unit=True))
    absent = over_bins(nobody if unit == 1 else cut_law((mate,), 0.6, 9, 0, has_unit=False))
    for epsilon in (0.2, 0.9):
        bound = delta_of(run, epsilon=epsilon)
        truth = released_deltas(present, absent, TWO_BANDS, deviation, epsilon)
        assert 0 < max(truth) <= bound.delta * (1 + ROUNDING)
