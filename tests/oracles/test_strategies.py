"""Sensitivities of correlated noise, against every pattern of participation of short runs and published numbers."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from dpcalc.errors import InputError
from dpcalc.mechanisms.matrix_factorization import (
    Matrix,
    Participation,
    PrefixSum,
    Toeplitz,
    Tree,
    banded_square_root,
    largest_separated_sum,
    largest_separated_sums,
)

SETTINGS = [
    Participation(separation=separation, max_times=most, fixed_epochs=fixed)
    for separation in (1, 2, 3, 5, 12)
    for most, fixed in ((None, False), (1, False), (2, False), (3, False), (None, True))
]


def patterns(steps, participation):
    """Yield every set of steps in which a unit may take part, by the definition."""
    if participation.fixed_epochs:
        yield from (tuple(range(offset, steps, participation.separation)) for offset in range(steps))
        return
    most = participation.max_times or steps
    for size in range(1, most + 1):
        for places in itertools.combinations(range(steps), size):
            if all(later - earlier >= participation.separation for earlier, later in itertools.pairwise(places)):
                yield places


def toeplitz_sensitivity(coefficients, steps, participation):
    return Toeplitz(coefficients=coefficients).sensitivity(steps, participation)


def matrix_sensitivity(matrix, participation):
    return Matrix(name="", digest=str(matrix.tolist()), entries=matrix).sensitivity(len(matrix), participation)


def toeplitz(coefficients, steps):
    padded = [*coefficients, *[0.0] * steps]
    return np.array([[padded[i - j] if i >= j else 0.0 for j in range(steps)] for i in range(steps)])


def tree(steps, restart_every):
    """One row for each finished node of the trees, by the definition."""
    rows = []
    for start in range(0, steps, restart_every):
        size = min(restart_every, steps - start)
        for level in range(size.bit_length()):
            for node in range(size >> level):
                row = np.zeros(steps)
                row[start + (node << level) : start + ((node + 1) << level)] = 1
                rows.append(row)
    return np.array(rows)


def worst_signs(matrix, participation):
    """The largest |C u|^2 over all patterns and signs; exact where C^T C is nonnegative or diagonal on patterns."""
    best = 0.0
    for places in patterns(matrix.shape[1], participation):
        for signs in itertools.product((1, -1), repeat=len(places) - 1):
            best = max(best, float(np.sum((matrix[:, places] @ np.array((1, *signs))) ** 2)))
    return best


def worst_sum(matrix, participation):
    """The same of equal contributions alone: the largest, where no entry is negative."""
    every = patterns(matrix.shape[1], participation)
    return max(float(np.sum(matrix[:, places].sum(axis=1) ** 2)) for places in every)


def held(found, truth):
    assert found.squared.upper >= truth * (1 - 1e-15)
    assert found.squared.lower <= truth * (1 + 1e-15)
    if found.is_exact:
        assert found.squared.upper == pytest.approx(truth, rel=1e-12)
        assert found.squared.lower == pytest.approx(truth, rel=1e-12)


@pytest.mark.parametrize("participation", SETTINGS)
@pytest.mark.parametrize(
    "coefficients",
    [(1.0, 0.5, 0.25), (2.0,), (1.0,) * 7, (1.0, -2.0), (0.5, 0.0, 1.0), (1.0, -0.5, 0.25, 3.0)],
)
def test_toeplitz_over_all_patterns(coefficients, participation):
    for steps in (1, 2, 7):
        found = toeplitz_sensitivity(coefficients, steps, participation)
        matrix = toeplitz(coefficients, steps)
        held(found, worst_signs(matrix, participation))
        assert found.column.lower == pytest.approx(np.max(np.sum(matrix**2, axis=0)), rel=1e-13)


@pytest.mark.parametrize(
    ("coefficients", "steps", "separation", "times", "squared"),
    [
        ((1, 0.5, 0.25), 12, 4, 3, 3.9375),
        ((1, 0.5, 0.25), 12, 2, 3, 4.9375),
        ((1,) * 12, 12, 4, 3, 56),
        ((1, 0.5, 0.25, 0.125), 100, 10, 10, 13.28125),
    ],
)
def test_published_sensitivities(coefficients, steps, separation, times, squared):
    """Numbers of the min-separation sensitivity of Toeplitz strategies (2405.13763, Theorem 2)."""
    participation = Participation(separation=separation, max_times=times)
    found = toeplitz_sensitivity(tuple(map(float, coefficients)), steps, participation)
    assert found.is_exact
    assert squared <= found.squared.upper == pytest.approx(squared, rel=1e-13)


def test_signs_are_not_ignored():
    """c = (1, -2), two steps: the formula with signs would say 2, contributions of opposite signs attain 10."""
    found = toeplitz_sensitivity((1.0, -2.0), 2, Participation(separation=1))
    assert not found.is_exact
    assert 10 <= found.squared.upper == pytest.approx(10, rel=1e-12)


def matrices():
    generator = np.random.default_rng(17)
    for bands in (1, 2, 3, 8):
        for low in (0.0, -1.0):
            band = np.tril(generator.uniform(low, 1, (8, 8))) * (np.subtract.outer(range(8), range(8)) < bands)
            np.fill_diagonal(band, generator.uniform(0.5, 1, 8))
            yield band


@pytest.mark.parametrize("participation", SETTINGS)
def test_matrices_over_all_patterns(participation):
    exact = 0
    for matrix in matrices():
        found = matrix_sensitivity(matrix, participation)
        held(found, worst_signs(matrix, participation))
        exact += found.is_exact
    assert exact >= 2


def test_vectors_do_not_exceed_a_matrix_bound():
    """Contributions in three dimensions can exceed all signs; the bound holds for them too."""
    generator = np.random.default_rng(3)
    for matrix, participation in itertools.product(matrices(), SETTINGS):
        bound = matrix_sensitivity(matrix, participation).squared.upper
        for places in itertools.islice(patterns(8, participation), 0, None, 7):
            vectors = generator.normal(size=(len(places), 3))
            vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
            assert np.sum((matrix[:, places] @ vectors) ** 2) <= bound * (1 + 1e-12)


def test_separated_sums_with_a_price_are_tight():
    generator = np.random.default_rng(5)
    table = generator.uniform(size=(12, 40))
    for apart, times in itertools.product((1, 2, 3, 4), (1, 2, 3, 5)):
        if (times - 1) * apart >= 12:
            continue
        participation = Participation(separation=apart, max_times=times)
        best = np.max([table[list(places)].sum(axis=0) for places in patterns(12, participation)], axis=0)
        found = largest_separated_sums(table, times, apart)
        assert (found >= best).all()
        assert found == pytest.approx(best, rel=1e-5)
        single = [largest_separated_sum(column, times, apart) for column in table.T]
        assert single == pytest.approx(best, rel=1e-13)


@pytest.mark.parametrize("participation", SETTINGS)
def test_trees_over_all_patterns(participation):
    for steps, restart_every in ((1, 1), (7, 7), (8, 8), (11, 4), (10, 3)):
        found = Tree(restart_every=restart_every).sensitivity(steps, participation)
        held(found, worst_sum(tree(steps, restart_every), participation))


def test_published_trees():
    """Kairouz et al. 2021 (2103.00039), Appendix D: ceil(log2(steps + 1)) nodes a tree; trees of several epochs add."""
    once = Participation(separation=1024, max_times=1)
    assert Tree().sensitivity(1024, once).ratio / 10 == pytest.approx(0.331662, abs=5e-7)
    for steps in (1, 2, 1000, 1023, 1024, 10**9):
        found = Tree().sensitivity(steps, Participation(separation=1, max_times=1))
        assert found.is_exact
        assert found.squared.upper == pytest.approx(math.ceil(math.log2(steps + 1)), rel=1e-13)
    epochs = Tree(restart_every=1024).sensitivity(10_240, Participation(separation=1024))
    assert epochs.is_exact
    assert epochs.ratio / 10 == pytest.approx(1.049, abs=5e-4)
    # Spanish next-word model: 2,000 rounds, at most 6 of a device, 314 apart; 0.81-zCDP with noise 7 is 79 / 98.
    found = Tree().sensitivity(2000, Participation(separation=314, max_times=6))
    assert found.is_exact
    assert found.squared.upper == pytest.approx(79, rel=1e-13)


@pytest.mark.parametrize(
    ("times", "apart", "steps", "squared"),
    [(1, 8, 8, 4), (3, 4, 9, 11), (3, 3, 7, 9), (8, 3, 24, 88), (8, 1, 8, 120), (3, 1, 3, 7), (2, 1, 11, 14)],
)
def test_sensitivities_of_trees_in_tests_of_tensorflow_privacy(times, apart, steps, squared):
    """Numbers of its tree_aggregation_accountant_test; it counts the steps between two, one fewer than `apart`."""
    found = Tree().sensitivity(steps, Participation(separation=apart, max_times=times))
    assert found.squared.lower <= squared * (1 + 1e-15)
    assert found.squared.upper >= squared
    assert found.squared.upper <= squared * 1.05


def test_errors_of_prefix_sums():
    """Against A C^(-1) by a general inverse; and the closed forms of independent noise, in steps and in prefix sums."""
    steps = 20
    sums = np.tril(np.ones((steps, steps)))
    for coefficients in ((1.0, 0.5, 0.25), (1.0,), (1.0,) * steps, (2.0, -1.0)):
        matrix = toeplitz(coefficients, steps)
        rows = np.sum((sums @ np.linalg.inv(matrix)) ** 2, axis=1) * np.max(np.sum(matrix**2, axis=0))
        expected = (math.sqrt(rows.mean()), math.sqrt(rows.max()))
        assert Toeplitz(coefficients=coefficients).prefix_errors(steps) == pytest.approx(expected)
        assert Matrix(name="", digest="", entries=matrix).prefix_errors(steps) == pytest.approx(expected)
    assert Toeplitz(coefficients=(1.0,)).prefix_errors(100) == pytest.approx((math.sqrt(50.5), 10))
    assert Tree().prefix_errors(7) == pytest.approx((math.sqrt((1 + 1 + 2 + 1 + 2 + 2 + 3) / 7), math.sqrt(3)))
    assert Tree(restart_every=2).prefix_errors(5) == pytest.approx((math.sqrt((1 + 1 + 2 + 2 + 3) / 5), math.sqrt(3)))


def test_long_runs():
    """Runs of any length that a config may state, where the limits keep the sums short; else a refusal."""
    short = (1.0, 0.5, 0.25)
    few, all_steps = Participation(separation=10, max_times=4), Participation(separation=1)
    assert toeplitz_sensitivity(short, 10**15, few).squared.upper == pytest.approx(4 * 1.3125)
    assert toeplitz_sensitivity(short, 10**5, all_steps).squared.upper == pytest.approx(10**5 * 1.75**2, rel=1e-4)
    assert PrefixSum().sensitivity(10**15, few).squared.upper == pytest.approx(16 * 10**15, rel=1e-9)
    assert Tree(restart_every=1024).sensitivity(10**15, all_steps).squared.upper >= 10**15
    with pytest.raises(InputError, match="at most 10,000,000"):
        toeplitz_sensitivity(short, 10**8, all_steps)


@pytest.mark.slow
def test_the_largest_matrix():
    """4,096 rows: no more than half a gigabyte beside the matrix, and a bound for limits that need prices."""
    apart = np.abs(np.subtract.outer(np.arange(4096), np.arange(4096)))
    matrix = np.tril(1 / np.sqrt(1 + apart))
    found = matrix_sensitivity(matrix, Participation(separation=10, max_times=100))
    coefficients = tuple(matrix[:, 0].tolist())
    exact = toeplitz_sensitivity(coefficients, 4096, Participation(separation=10, max_times=100))
    assert found.squared.lower <= exact.squared.upper <= found.squared.upper <= 1.05 * exact.squared.upper


def test_the_banded_square_root_in_exact_fractions():
    """The coefficients are binomials of 2 j over j, by 4^j; sens^2 and the column norm without rounding."""
    bands, steps, apart, times = 40, 60, 7, 5
    exact = [Fraction(math.comb(2 * j, j), 4**j) for j in range(bands)]
    rows = [sum(exact[t - j * apart] for j in range(times) if 0 <= t - j * apart < bands) for t in range(steps)]
    ratio = sum(row**2 for row in rows) / sum(c**2 for c in exact)
    found = banded_square_root(bands).sensitivity(steps, Participation(separation=apart, max_times=times))
    assert Fraction(found.ratio_lower) ** 2 <= ratio <= Fraction(found.ratio) ** 2
    assert found.ratio == pytest.approx(math.sqrt(ratio), rel=1e-12)


def test_more_steps_cost_no_less():
    generator = np.random.default_rng(9)
    for _ in range(60):
        coefficients = tuple(np.sort(generator.uniform(size=int(generator.integers(1, 8))) ** 3)[::-1].tolist())
        participation = SETTINGS[int(generator.integers(len(SETTINGS)))]
        ratios = [toeplitz_sensitivity(coefficients, steps, participation).ratio for steps in range(1, 25)]
        trees = [Tree(restart_every=8).sensitivity(steps, participation).ratio for steps in range(1, 25)]
        assert all(later >= earlier * (1 - 1e-12) for earlier, later in itertools.pairwise(ratios))
        assert all(later >= earlier * (1 - 1e-12) for earlier, later in itertools.pairwise(trees))
