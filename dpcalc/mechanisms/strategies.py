"""Sensitivities of correlated noise: what one unit can change in C G when it takes part in several steps.

The rows of G are the sums of the steps; a strategy C, lower triangular, says how the noise of the steps is correlated.
All numbers are squared and in clip norms; explicit contributions attain the lower bounds.

Source: docs/theory.md, Definition 16.1 to Theorem 16.6.
"""

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from dpcalc.arrays import Array, IntArray
from dpcalc.errors import InputError
from dpcalc.records import dataclass

MAX_SIDE = 4_096
"""Most rows of a strategy that is given as a matrix: 134 MB; X = C^T C of ten times as many takes an hour."""
MAX_LENGTH = 10_000_000
"""Most coefficients that are summed one by one: 80 MB, half a second."""
_UNIT = 2.0**-53  # unit round-off
ALMOST = 1e-9
"""Relative difference below which squared column norms count as equal; a lower bound has so much more noise."""
_MAX_WRITTEN_OUT = 512  # rows of a Toeplitz matrix for the bound on any matrix: 30 ms
_MAX_PREFIX_SUMS = 1_000_000  # steps whose errors are computed: one second
_MAX_PRODUCTS = 200_000_000  # of coefficients for them, one second
_EARLY_STEPS = "coefficients >= 0, the earliest steps cost most"
_MANY_BELOW_ONE_NODE = "at every level of the tree as many steps below one node as there can be"
_BEST_ROWS = "row by row the best set of steps, then the best set of rows"
_HALVINGS = 24  # of the search for a multiplier: what is left of it is below 1e-6 of a sum


@dataclass(frozen=True, kw_only=True)
class Participation:
    """The steps in which one unit may take part.

    Attributes:
        separation: b >= 1, the fewest steps from one of them to the next one; exactly so many with `fixed_epochs`.
        max_times: k >= 1, most steps in which a unit takes part; None for as many as the separation allows.
        fixed_epochs: True if a unit takes part at the same place of every epoch of `separation` steps.
    """

    separation: int
    max_times: int | None = None
    fixed_epochs: bool = False

    def times(self, steps: int) -> int:
        """Return the most steps in which one unit can take part, limited by `max_times` unless epochs are fixed."""
        # A run of b + 1 steps with separation b has room for two.
        possible = -(-steps // self.separation)
        return possible if self.max_times is None or self.fixed_epochs else min(self.max_times, possible)


class Bounds(NamedTuple):
    """Bounds on a number from both sides: `lower` is rounded down, `upper` is rounded up."""

    lower: float
    upper: float


@dataclass(frozen=True, kw_only=True)
class Sensitivity:
    """The squared sensitivity of a strategy, and what it is relative to.

    Attributes:
        squared: bounds on sens(C)^2; explicit contributions attain the lower one.
        column: bounds on the squared largest norm of a column of C; 1 where noise is stated for itself.
        is_exact: True if both bounds are sens(C)^2 but for rounding.
        how: how it was computed, in words.
    """

    squared: Bounds
    column: Bounds
    is_exact: bool
    how: str

    @property
    def ratio(self) -> float:
        """Sensitivity over the largest column norm, rounded up: mu is this divided by the noise multiplier."""
        return math.sqrt(self.squared.upper / self.column.lower) * (1 + 4 * _UNIT)

    @property
    def ratio_lower(self) -> float:
        """Attained sensitivity over the largest column norm, rounded down."""
        return math.sqrt(self.squared.lower / self.column.upper) * (1 - 4 * _UNIT)


class EvenNoise(NamedTuple):
    """Factors >= 1 on the noise multiplier with which steps of equal columns stand for those of C (Theorem 16.10).

    Attributes:
        for_upper: with it the steps i, i + period, ... together cost at least as much, whatever i; rounded down.
        for_lower: with it each of the first steps - bands + 1 steps costs at most as much; rounded up.
    """

    for_upper: float
    for_lower: float


def _bounds(value: float, roundings: float) -> Bounds:
    """Return bounds on a sum of numbers >= 0 that was computed as `value` with so many roundings in turn."""
    margin = 2 * (roundings + 8) * _UNIT
    return Bounds(value * (1 - margin), value * (1 + margin))


# Toeplitz strategies: C_ij = c_(i - j).


@lru_cache(maxsize=16)
def toeplitz_sensitivity(coefficients: tuple[float, ...], steps: int, participation: Participation) -> Sensitivity:
    """Return the sensitivity of a Toeplitz strategy; InputError if overlapping columns have over 1e7 numbers to sum.

    Source: docs/theory.md, Theorem 16.3 and Theorem 16.4.
    """
    used = coefficients[:steps]
    times, apart = participation.times(steps), participation.separation
    column = _bounds(math.fsum(value * value for value in used), 2)  # of the first one, which is the largest
    if len(used) <= apart or times == 1:
        squares = [value * value for value in used]
        squared = _bounds((times - 1) * math.fsum(squares) + math.fsum(squares[: steps - (times - 1) * apart]), 4)
        how = "the columns of one unit do not overlap"
        return Sensitivity(squared=squared, column=column, is_exact=True, how=how)

    length = min(steps, (times - 1) * apart + len(used))
    if length > MAX_LENGTH:
        raise InputError(f"steps: expected at most {MAX_LENGTH:,} with this strategy, got {steps:,}; state fewer")
    c, overlapping = np.array(used), min(times, -(-len(used) // apart))
    if min(used) >= 0 and (participation.fixed_epochs or bool((np.diff(used) <= 0).all())):
        sums = _window_sums(c, length, times, apart)
        squared = _bounds(math.fsum(sums * sums), 2 * overlapping)
        return Sensitivity(squared=squared, column=column, is_exact=True, how=_EARLY_STEPS)

    # Of any sign. Above by the running maximum of |c| from the right, which is >= 0, falls and is nowhere smaller;
    # below by the steps 0, apart, ..., less their round-off.
    majorant = np.maximum.accumulate(np.abs(c)[::-1])[::-1]
    bounding = _window_sums(majorant, length, times, apart)
    upper = _bounds(math.fsum(bounding * bounding), 2 * overlapping).upper
    sizes = np.abs(_window_sums(c, length, times, apart)) - 4 * overlapping * _UNIT * bounding
    attained = max(_bounds(math.fsum(np.maximum(sizes, 0) ** 2), 2).lower, column.lower)
    how = "coefficients under the running maximum of their sizes"
    if steps <= _MAX_WRITTEN_OUT:  # the upper bound of the matrix of all steps may be smaller
        padded = np.concatenate((c, np.zeros(steps - len(c))))
        by_rows = matrix_sensitivity(np.tril(padded[np.subtract.outer(range(steps), range(steps))]), participation)
        if by_rows.squared.upper < upper:
            upper, how = by_rows.squared.upper, by_rows.how
    return Sensitivity(squared=Bounds(attained, upper), column=column, is_exact=False, how=how)


def _window_sums(c: Array, length: int, times: int, apart: int) -> Array:
    """Return, for each t < length, the sum of `times` coefficients c[t - j apart], without any subtraction."""
    # Windows of `times` rows of a table with `apart` columns are the end of one block of rows and the beginning of the
    # next one, so that two running sums give them all and nothing is subtracted.
    rows = -(-length // apart)
    times = min(times, rows)
    blocks = -(-(rows + times - 1) // times)
    table = np.zeros((blocks * times, apart))
    table[times - 1 : times - 1 + rows].reshape(-1)[: min(len(c), length)] = c[:length]
    blocked = table.reshape(blocks, times, apart)
    begun = np.cumsum(blocked, axis=1).reshape(-1, apart)
    left = np.cumsum(blocked[:, ::-1], axis=1)[:, ::-1].reshape(-1, apart)
    sums = begun[times - 1 : times - 1 + rows].copy()
    crossing = np.flatnonzero(np.arange(rows) % times)
    sums[crossing] += left[crossing]
    return sums.reshape(-1)[:length]


def prefix_sum_sensitivity(steps: int, participation: Participation) -> Sensitivity:
    """Return the exact sensitivity of prefix sums (a lower triangle of ones) in closed form.

    Source: docs/theory.md, Theorem 16.3.
    """
    times, apart = participation.times(steps), participation.separation
    # In whole numbers up to the end, so that the only rounding is that of the conversion to a float.
    before = apart * (times - 1) * times * (2 * times - 1) // 6  # apart times 1 + 4 + 9 + ... + (times - 1)^2
    squared = _bounds(float(before + times**2 * (steps - (times - 1) * apart)), 2)
    return Sensitivity(squared=squared, column=_bounds(float(steps), 1), is_exact=True, how=_EARLY_STEPS)


# Tree aggregation: a row of C for each node of binary trees over the steps, 1 for the steps below it.


def tree_sensitivity(steps: int, restart_every: int | None, participation: Participation) -> Sensitivity:
    """Return the sensitivity of a tree, as an upper bound and a value that is attained; exact if they are equal.

    Source: docs/theory.md, Theorem 16.6.
    """
    leaves = min(steps, restart_every or steps)
    times, apart = participation.times(steps), participation.separation
    squared = 0
    for level in range(leaves.bit_length()):
        # The finished nodes of a level, all of whose steps are in the run, are the first ones of their tree. A unit
        # takes part at most `inside` times below them, and `per_node` times below one: the squares of its steps below
        # the nodes sum to most if these are filled one after the other.
        whole_trees, last = divmod(steps, leaves)
        node = 1 << level
        covered, covered_last = leaves - leaves % node, last - last % node
        inside = min(times, whole_trees * -(-covered // apart) + -(-covered_last // apart))
        per_node = min(inside, -(-node // apart))
        count = whole_trees * (covered // node) + covered_last // node
        full, remaining = divmod(min(inside, count * per_node), max(per_node, 1))
        squared += full * per_node**2 + remaining**2

    attained = 0  # by the steps 0, apart, ...
    if times <= MAX_LENGTH:
        trees, places = np.divmod(apart * np.arange(times), leaves)
        sizes = np.minimum(leaves, steps - trees * leaves)
        for level in range(leaves.bit_length()):
            nodes = places >> level
            is_finished = (nodes + 1) << level <= sizes
            numbers = (trees * leaves + nodes)[is_finished]  # a tree has at most `leaves` nodes at a level
            attained += int((np.unique(numbers, return_counts=True)[1].astype(np.int64) ** 2).sum())
    is_exact = attained == squared
    how = "counted in the tree" if is_exact else _MANY_BELOW_ONE_NODE
    bounds = Bounds(_bounds(attained, 1).lower, _bounds(squared, 1).upper)
    return Sensitivity(squared=bounds, column=Bounds(1.0, 1.0), is_exact=is_exact, how=how)


# Any lower triangular matrix.


def matrix_bands(matrix: Array) -> int:
    """Return the number of bands w (C_ij = 0 for i - j >= w) of a lower triangular matrix with a nonzero diagonal."""
    first = (matrix != 0).argmax(axis=1)  # the diagonal is not 0
    return int((np.arange(len(matrix)) - first).max()) + 1


def matrix_even_noise(matrix: Array, steps: int, period: int) -> EvenNoise:
    """Return C's largest column norm over the RMS norm at a period's worst place, and over its least uncut column norm.

    Source: docs/theory.md, Theorem 16.10.
    """
    largest = np.einsum("ij,ij->j", matrix, matrix).max()
    part = matrix[:steps, :steps]
    # The last columns end early in a shorter run, so that the least norm is taken of those before them.
    norms = np.einsum("ij,ij->j", part, part)
    mean = max(float(norms[place::period].mean()) for place in range(min(period, steps)))
    smallest = norms[: max(1, steps - matrix_bands(part) + 1)].min()
    margin = 1e-11  # above the round-off of sums of MAX_SIDE squares
    for_upper = max(1.0, math.sqrt(largest / mean) * (1 - margin))
    return EvenNoise(for_upper=for_upper, for_lower=math.sqrt(largest / smallest) * (1 + margin))


def matrix_sensitivity(matrix: Array, participation: Participation) -> Sensitivity:
    """Return the sensitivity of a matrix, exact at least if a unit has only one column or its columns do not overlap.

    Source: docs/theory.md, Theorem 16.4 and Theorem 16.5.
    """
    norms = np.einsum("ij,ij->j", matrix, matrix)
    steps, times, apart = len(matrix), participation.times(len(matrix)), participation.separation
    column = _bounds(float(norms.max()), steps)
    if times == 1:
        return Sensitivity(squared=column, column=column, is_exact=True, how="one step: the largest column")
    if matrix_bands(matrix) <= apart:
        if participation.fixed_epochs:
            best = max(math.fsum(norms[places]) for places in _epoch_places(steps, participation))
        else:
            best = largest_separated_sum(norms, times, apart)
        how = "the best set of columns, which do not overlap"
        return Sensitivity(squared=_bounds(best, steps + times), column=column, is_exact=True, how=how)

    # By sums of entries of C^T C, each of which is off by at most `error`, as |C e_i| |C e_j| is at most the largest
    # squared norm of a column.
    products = matrix.T @ matrix
    error = 2 * (steps + 4) * _UNIT * column.upper
    attained = max(_max_over_epochs(products, participation, error).lower, column.lower)
    np.abs(products, out=products)
    products += error
    if participation.fixed_epochs:
        upper = _max_over_epochs(products, participation).upper
        is_exact, how = bool((matrix >= 0).all()), "the worst place in an epoch"
    else:
        rows = largest_separated_sums(products, times, apart)  # each row has its own best steps
        upper = _bounds(largest_separated_sum(rows, times, apart), 3 * times).upper
        is_exact, how = False, _BEST_ROWS
    return Sensitivity(squared=Bounds(attained, upper), column=column, is_exact=is_exact, how=how)


def _epoch_places(steps: int, participation: Participation) -> list[IntArray]:
    """Return the steps i, i + separation, ..., at most `times` of them, for each first step i < separation."""
    times, apart = participation.times(steps), participation.separation
    return [np.arange(first, steps, apart)[:times] for first in range(min(apart, steps))]


def _max_over_epochs(products: Array, participation: Participation, error: float = 0.0) -> Bounds:
    """Return bounds on the largest sum of (products - error) over all pairs of steps at one place of every epoch."""
    places = _epoch_places(len(products), participation)
    best = max(float(products[np.ix_(steps, steps)].sum()) - len(steps) ** 2 * error for steps in places)
    return _bounds(best, participation.times(len(products)) ** 2)


def largest_separated_sum(values: Array, times: int, apart: int) -> float:
    """Return the largest sum of at most `times` values >= 0 at places `apart` or more apart, by dynamic programming.

    Source: docs/theory.md, Theorem 16.4; Choquette-Choo et al. 2023 (2306.08153), Algorithm 3.
    """
    if apart == 1:
        return math.fsum(np.sort(values)[-times:])
    best = np.zeros((len(values) + 1, times + 1))  # by length of the beginning and number of places
    for place, value in enumerate(values):
        best[place + 1] = best[place]
        np.maximum(best[place + 1, 1:], best[max(0, place + 1 - apart), :-1] + value, out=best[place + 1, 1:])
    return float(best[-1, -1])


def largest_separated_sums(table: Array, times: int, apart: int) -> Array:
    """Return upper bounds on the `largest_separated_sum` of each column.

    Source: docs/theory.md, Lemma 16.7.
    """
    count = len(table)
    if apart == 1:
        bound = np.partition(table, count - times, axis=0)[-times:].sum(axis=0)
    else:
        # With a price on every place (a Lagrange multiplier) their number is free, and any price gives a bound: the
        # best one is found by bisection.
        bound, _ = _priced_sums(table, np.zeros(table.shape[1]), apart)
        low, high = np.zeros(table.shape[1]), table.max(axis=0)
        for _ in range(_HALVINGS if times * apart < count else 0):
            price = (low + high) / 2
            sums, counts = _priced_sums(table, price, apart)
            bound = np.minimum(bound, times * price + sums)
            is_cheap = counts > times  # too many places pay for themselves: the price rises
            low, high = np.where(is_cheap, price, low), np.where(is_cheap, high, price)
    return np.asarray(bound * (1 + 4 * count * _UNIT), dtype=np.float64)


def _priced_sums(table: Array, price: Array, apart: int) -> tuple[Array, Array]:
    """Return each column's largest sum of value - price at places at least `apart` apart, and how many these are."""
    sums = np.zeros((len(table) + 1, table.shape[1]))
    counts = np.zeros(sums.shape, dtype=np.int32)
    for place, values in enumerate(table):
        before = max(0, place + 1 - apart)
        taken = sums[before] + values - price
        is_taken = taken > sums[place]
        sums[place + 1] = np.where(is_taken, taken, sums[place])
        counts[place + 1] = np.where(is_taken, counts[before] + 1, counts[place])
    return sums[-1], counts[-1]


# What a strategy is chosen for: the error of the prefix sums, for a noise multiplier of 1, in clip norms.


def toeplitz_error(coefficients: tuple[float, ...], steps: int) -> tuple[float, float] | None:
    """Return the (RMS, largest) deviation of prefix sums, times C's largest column norm; None if long or not finite.

    Source: docs/theory.md, Definition 16.1.
    """
    c = np.array(coefficients[:steps])
    if steps * len(c) > _MAX_PRODUCTS or steps > _MAX_PREFIX_SUMS:
        return None
    with np.errstate(over="ignore", invalid="ignore"):
        # Prefix sums of the noise are the running sums of the inverse series 1 / (c_0 + c_1 x + ...).
        inverse = np.zeros(steps)
        inverse[0] = 1 / c[0]
        later = c[1:] / c[0]
        for place in range(1, steps if len(later) else 0):
            width = min(len(later), place)
            inverse[place] = -(later[:width] @ inverse[place - width : place][::-1])
        return _deviations(np.cumsum(np.cumsum(inverse) ** 2) * float(c @ c))


def matrix_error(strategy: Array) -> tuple[float, float] | None:
    """Return the (RMS, largest) deviation of prefix sums, times C's largest column norm; None if not finite."""
    from scipy.linalg import solve_triangular

    sums = np.triu(np.ones(strategy.shape))
    with np.errstate(over="ignore", invalid="ignore"):
        decoder = solve_triangular(strategy, sums, trans="T", lower=True, overwrite_b=True, check_finite=False)
        return _deviations(np.einsum("ij,ij->j", decoder, decoder) * np.einsum("ij,ij->j", strategy, strategy).max())


def tree_error(steps: int, restart_every: int | None) -> tuple[float, float] | None:
    """Return the (RMS, largest) deviation of a tree's prefix sums, relative to a node's; None for over 1e6 steps."""
    if steps > _MAX_PREFIX_SUMS:
        return None
    leaves = min(steps, restart_every or steps)
    trees, places = np.divmod(np.arange(1, steps + 1), leaves)
    # A prefix is the sum of finished trees and of one node for each 1 in the binary number of the steps after them.
    nodes = trees * leaves.bit_count()
    for level in range(leaves.bit_length()):
        nodes += (places >> level) & 1
    return _deviations(nodes.astype(float))


def _deviations(variances: Array) -> tuple[float, float] | None:
    """Return (root of the mean, root of the largest) of variances; None unless all are finite."""
    if not np.isfinite(variances).all():
        return None
    return math.sqrt(float(variances.mean())), math.sqrt(float(variances.max()))
