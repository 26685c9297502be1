"""Matrix factorization: Gaussian noise that is correlated over the steps (DP-FTRL, tree aggregation, banded noise).

A strategy C, lower triangular, says how the noise of the steps is correlated; G has the sums of the steps as rows. The
sensitivity is what one unit can change in C G when it takes part in several steps; all numbers are squared and in clip
norms, and explicit contributions attain the lower bounds. The deviations of prefix sums are for noise multiplier 1.

Source: docs/theory.md, Definition 16.1 to Theorem 16.6.
"""

import json
import math
import re
from dataclasses import field, fields, replace
from functools import lru_cache
from itertools import pairwise
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np

from dpcalc.errors import InputError, KeyedInputError
from dpcalc.keys import COUNT, DATA_FILE, MAX_COUNT, NOISE, Key, Schema, Structure, Word, key, mapping_of
from dpcalc.mechanisms.additive import NORM, NORM_MEANING, also_key, check_sums, noisy_sums, sums_text
from dpcalc.mechanisms.kinds import CLIP, Mechanism
from dpcalc.numerics import Array, IntArray
from dpcalc.records import dataclass
from dpcalc.work import cached_with_cost

MAX_COEFFICIENTS = 5_000
"""Most coefficients of a Toeplitz strategy that a config states; a config may hold 10,000 words."""
MAX_BANDS = 100_000
"""Most bands of a banded strategy; ten times more take seconds."""
_SHOWN = 60  # characters of a strategy in words
STRATEGIES = "identity, prefix-sum, tree, {toeplitz: [1, 0.5]}, {banded: {bands: 8}} or {file: strategy.npy}"
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
    """The steps in which one unit may take part."""

    separation: int  # b >= 1, the fewest steps from one of them to the next one; with `fixed_epochs` exactly so many
    # k >= 1, most steps in which a unit takes part; None for as many as the separation allows
    max_times: int | None = None
    fixed_epochs: bool = False  # True if a unit takes part at the same place of every epoch of `separation` steps

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
    """The squared sensitivity of a strategy, and what it is relative to."""

    squared: Bounds  # on sens(C)^2; explicit contributions attain the lower one
    column: Bounds  # on the squared largest norm of a column of C; 1 where noise is stated for itself
    is_exact: bool  # True if both bounds are sens(C)^2 but for rounding
    how: str  # how it was computed, in words

    @property
    def ratio(self) -> float:
        """Sensitivity over the largest column norm, rounded up: mu is this divided by the noise multiplier."""
        return math.sqrt(self.squared.upper / self.column.lower) * (1 + 4 * _UNIT)

    @property
    def ratio_lower(self) -> float:
        """Attained sensitivity over the largest column norm, rounded down."""
        return math.sqrt(self.squared.lower / self.column.upper) * (1 - 4 * _UNIT)


def _bounds(value: float, roundings: float) -> Bounds:
    """Return bounds on a sum of numbers >= 0 that was computed as `value` with so many roundings in turn."""
    margin = 2 * (roundings + 8) * _UNIT
    return Bounds(value * (1 - margin), value * (1 + margin))


# Toeplitz strategies: C_ij = c_(i - j).


@lru_cache(maxsize=16)
def toeplitz_sensitivity(coefficients: tuple[float, ...], steps: int, participation: Participation) -> Sensitivity:
    """Return the sensitivity of a Toeplitz strategy; InputError if overlapping columns have over 1e7 numbers to sum."""
    # Source: docs/theory.md, Theorem 16.3 and Theorem 16.4.
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


# Any lower triangular matrix.


def matrix_bands(matrix: Array) -> int:
    """Return the number of bands w (C_ij = 0 for i - j >= w) of a lower triangular matrix with a nonzero diagonal."""
    first = (matrix != 0).argmax(axis=1)  # the diagonal is not 0
    return int((np.arange(len(matrix)) - first).max()) + 1


def matrix_sensitivity(matrix: Array, participation: Participation) -> Sensitivity:
    """Return the sensitivity of a matrix, exact if a unit has one column or its columns do not overlap."""
    # Source: docs/theory.md, Theorem 16.4 and Theorem 16.5.
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
    """Return the largest sum of at most `times` values >= 0 at places `apart` or more apart, by dynamic programming."""
    # Source: docs/theory.md, Theorem 16.4; Choquette-Choo et al. 2023 (2306.08153), Algorithm 3.
    if apart == 1:
        return math.fsum(np.sort(values)[-times:])
    best = np.zeros((len(values) + 1, times + 1))  # by length of the beginning and number of places
    for place, value in enumerate(values):
        best[place + 1] = best[place]
        np.maximum(best[place + 1, 1:], best[max(0, place + 1 - apart), :-1] + value, out=best[place + 1, 1:])
    return float(best[-1, -1])


def largest_separated_sums(table: Array, times: int, apart: int) -> Array:
    """Return upper bounds on the `largest_separated_sum` of each column. Source: docs/theory.md, Lemma 16.7."""
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
    return bound * (1 + 4 * count * _UNIT)


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


def _deviations(variances: Array) -> tuple[float, float] | None:
    """Return (root of the mean, root of the largest) of variances; None unless all are finite."""
    if not np.isfinite(variances).all():
        return None
    return math.sqrt(float(variances.mean())), math.sqrt(float(variances.max()))


# The strategies


# Of a strategy, a lower triangular matrix C or trees over the steps, by which the noise of the steps is correlated:
#
# - text: value of `mechanism.strategy` as a config states it
# - max_steps: the most steps that it has noise for
# - is_rising: whether mu is proved not to fall with the number of steps (docs/theory.md, Theorem 16.9)
# - sensitivity(steps, participation): that of the first steps, an upper bound and a value attained; InputError if they
#   are too many
# - bands(steps): w with C_ij = 0 for i - j >= w; 0 for trees, which have no such matrix
# - prefix_errors(steps): estimates of the (RMS, largest) deviation of prefix sums; None if too long or not finite


@dataclass(frozen=True, kw_only=True)
class Toeplitz:
    """C_ij = c_(i - j)."""

    coefficients: tuple[float, ...]  # c_0 other than 0, c_1, ...; 0 after their end
    shorthand: str = ""  # what a config states in place of the coefficients
    roundings: int = 0  # of the squared sensitivity, since the coefficients are rounded themselves
    max_steps: ClassVar[int] = MAX_COUNT

    @property
    def text(self) -> str:
        whole = (float(c).is_integer() and abs(c) < MAX_COUNT for c in self.coefficients)
        numbers = [repr(int(c) if is_whole else c) for c, is_whole in zip(self.coefficients, whole, strict=True)]
        return self.shorthand or f"{{toeplitz: [{', '.join(numbers)}]}}"

    @property
    def is_rising(self) -> bool:
        # After their end the coefficients are 0, so that the last one must not be below that.
        c = self.coefficients
        return c[-1] >= 0 and all(later <= earlier for earlier, later in pairwise(c))

    def sensitivity(self, steps: int, participation: Participation) -> Sensitivity:
        of_floats = toeplitz_sensitivity(self.coefficients[:steps], steps, participation)
        lower, upper = of_floats.squared
        margin = self.roundings * _UNIT
        return replace(of_floats, squared=Bounds(lower * (1 - margin), upper * (1 + margin)))

    def bands(self, steps: int) -> int:
        return min(len(self.coefficients), steps)

    def prefix_errors(self, steps: int) -> tuple[float, float] | None:
        c = np.array(self.coefficients[:steps])
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


IDENTITY = Toeplitz(coefficients=(1.0,), shorthand="identity")
"""Independent noise in every step, as in DP-SGD."""


def banded_square_root(bands: int) -> Toeplitz:
    """Return the first `bands` of 1, 1/2, 3/8, ...: banded square root, Kalinin, Lampert 2024 (2405.13763)."""
    places = np.arange(1, bands)
    values = np.cumprod(np.concatenate(([1.0], (2 * places - 1) / (2 * places))))
    # The j-th coefficient is a product of j rounded quotients: off by 2 j roundings, and its square by twice that.
    shorthand = f"{{banded: {{bands: {bands}}}}}"
    return Toeplitz(coefficients=tuple(values.tolist()), shorthand=shorthand, roundings=10 * bands)


@dataclass(frozen=True, kw_only=True)
class PrefixSum:
    """Lower triangle of ones: independent noise in every prefix sum."""

    text: ClassVar[str] = "prefix-sum"
    max_steps: ClassVar[int] = MAX_COUNT
    is_rising: ClassVar[bool] = True

    def sensitivity(self, steps: int, participation: Participation) -> Sensitivity:
        """Return the exact sensitivity in closed form (docs/theory.md, Theorem 16.3)."""
        times, apart = participation.times(steps), participation.separation
        # In whole numbers up to the end, so that the only rounding is that of the conversion to a float.
        before = apart * (times - 1) * times * (2 * times - 1) // 6  # apart times 1 + 4 + 9 + ... + (times - 1)^2
        squared = _bounds(float(before + times**2 * (steps - (times - 1) * apart)), 2)
        return Sensitivity(squared=squared, column=_bounds(float(steps), 1), is_exact=True, how=_EARLY_STEPS)

    def bands(self, steps: int) -> int:
        return steps

    def prefix_errors(self, steps: int) -> tuple[float, float]:
        return float(np.sqrt(steps)), float(np.sqrt(steps))


@dataclass(frozen=True, kw_only=True)
class Tree:
    """Binary trees whose nodes get noise of their own; after `restart_every` steps the next tree begins."""

    restart_every: int | None = None
    max_steps: ClassVar[int] = MAX_COUNT
    is_rising: ClassVar[bool] = True

    @property
    def text(self) -> str:
        return "tree" if self.restart_every is None else f"{{tree: {{restart_every: {self.restart_every}}}}}"

    def sensitivity(self, steps: int, participation: Participation) -> Sensitivity:
        """Return an upper bound, relative to one node's noise, and a value attained (docs/theory.md, Theorem 16.6)."""
        # C has a row for each node of the trees, 1 for the steps below it.
        leaves = min(steps, self.restart_every or steps)
        times, apart = participation.times(steps), participation.separation
        squared = 0
        for level in range(leaves.bit_length()):
            # The finished nodes of a level, all of whose steps are in the run, are the first ones of their tree. A unit
            # takes part at most `inside` times below them, and `per_node` times below one: the squares of its steps
            # below the nodes sum to most if these are filled one after the other.
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

    def bands(self, steps: int) -> int:
        del steps
        return 0

    def prefix_errors(self, steps: int) -> tuple[float, float] | None:
        if steps > _MAX_PREFIX_SUMS:
            return None
        leaves = min(steps, self.restart_every or steps)
        trees, places = np.divmod(np.arange(1, steps + 1), leaves)
        # A prefix is the sum of finished trees and of one node for each 1 in the binary number of the steps after them.
        nodes = trees * leaves.bit_count()
        for level in range(leaves.bit_length()):
            nodes += (places >> level) & 1
        return _deviations(nodes.astype(float))


@dataclass(frozen=True, kw_only=True)
class Matrix:
    """A lower triangular matrix from a file; a shorter run uses its beginning, with the same noise."""

    name: str = field(compare=False)  # of the file, as the config has it
    # SHA-256 of the number of rows, a newline and the entries as float64, row by row; 64 hexadecimal digits
    digest: str
    entries: Array = field(compare=False, repr=False)  # n x n, finite, the diagonal nowhere 0
    is_rising: ClassVar[bool] = False

    @property
    def max_steps(self) -> int:
        return len(self.entries)

    @property
    def norms(self) -> Array:
        """Squared norms of the columns."""
        return np.einsum("ij,ij->j", self.entries, self.entries)

    @property
    def text(self) -> str:
        is_plain = re.fullmatch(r"[\w./-]+", self.name)
        return f"{{file: {self.name if is_plain else json.dumps(self.name)}, sha256: {self.digest}}}"

    @cached_with_cost(8)
    def sensitivity(self, steps: int, participation: Participation) -> Sensitivity:
        of_part = matrix_sensitivity(self.entries[:steps, :steps], participation)
        # The noise is stated for the whole matrix and stays as it is in a shorter run, with other largest columns.
        return replace(of_part, column=_bounds(float(self.norms.max()), self.max_steps))

    def bands(self, steps: int) -> int:
        return matrix_bands(self.entries[:steps, :steps])

    def prefix_errors(self, steps: int) -> tuple[float, float] | None:
        from scipy.linalg import solve_triangular

        strategy = self.entries[:steps, :steps]
        sums = np.triu(np.ones(strategy.shape))
        with np.errstate(over="ignore", invalid="ignore"):
            decoder = solve_triangular(strategy, sums, trans="T", lower=True, overwrite_b=True, check_finite=False)
            largest = np.einsum("ij,ij->j", strategy, strategy).max()
            return _deviations(np.einsum("ij,ij->j", decoder, decoder) * largest)


Strategy = Toeplitz | PrefixSum | Tree | Matrix


def short_text(strategy: Strategy) -> str:
    """Return the text of a strategy, cut to 60 characters, a sum of a matrix to 16."""
    if isinstance(strategy, Matrix):
        return f"{strategy.text.partition(', sha256')[0][:_SHOWN]}, sha256: {strategy.digest[:16]}...}}"
    return strategy.text if len(strategy.text) <= _SHOWN else f"{strategy.text[:_SHOWN]}..."


def full_steps(strategy: Strategy, steps: int, groups: int) -> int:
    """Return how many of the steps i, i + groups, ... have columns of C that the run's end does not cut, at most."""
    if not isinstance(strategy, Matrix):
        return (steps - strategy.bands(steps)) // groups + 1  # from the first step on, which do not end early
    # Those with the largest norm of the whole matrix, as the noise is: columns that end early in a shorter run still
    # have their full noise.
    norms = strategy.norms
    is_full = norms[:steps] >= norms.max() * (1 - ALMOST)
    return max(int(is_full[group::groups].sum()) for group in range(min(groups, steps)))


def even_noise(strategy: Strategy, steps: int, period: int, *, attained: bool) -> float:
    """Return the factor >= 1 on the noise multiplier with which steps of equal columns stand for those of C."""
    # The steps i, i + period, ... together then cost at least as much, whatever i; or, if `attained`, each of the first
    # steps - bands + 1 steps costs at most as much. It is C's largest column norm over the RMS norm at a period's worst
    # place, or over its least uncut norm: 1 where norms are equal, for all but a matrix of any numbers.
    # Source: docs/theory.md, Theorem 16.10.
    if not isinstance(strategy, Matrix):
        return 1.0
    part, margin = strategy.entries[:steps, :steps], 1e-11  # above the round-off of sums of MAX_SIDE squares
    norms = np.einsum("ij,ij->j", part, part)
    if attained:  # the last columns end early in a shorter run, so that the least norm is taken of those before them
        smallest = norms[: max(1, steps - matrix_bands(part) + 1)].min()
        return math.sqrt(strategy.norms.max() / smallest) * (1 + margin)
    mean = max(float(norms[place::period].mean()) for place in range(min(period, steps)))
    return max(1.0, math.sqrt(strategy.norms.max() / mean) * (1 - margin))


_COEFFICIENTS: Schema = {
    "type": "array",
    "items": {"type": ["number", "string"]},
    "minItems": 1,
    "maxItems": MAX_COEFFICIENTS,
}
_STRATEGY: Schema = {
    "anyOf": [
        {"enum": ["identity", "prefix-sum", "tree"]},
        mapping_of({"toeplitz": _COEFFICIENTS}, ["toeplitz"]),
        mapping_of({"banded": mapping_of({"bands": COUNT.as_json_schema()}, ["bands"])}, ["banded"]),
        mapping_of({"tree": mapping_of({"restart_every": COUNT.as_json_schema()}, ["restart_every"])}, ["tree"]),
        DATA_FILE | {"properties": {"file": {"type": "string"}, "sha256": {"type": ["string", "number"]}}},
    ]
}


@dataclass(frozen=True, kw_only=True)
class MatrixFactorization(Mechanism):
    """Sums of clipped vectors with Gaussian noise that is correlated over the steps by a strategy."""

    name: ClassVar[str] = "matrix-factorization"
    is_correlated: ClassVar[bool] = True
    assumptions: ClassVar[tuple[str, ...]] = (
        (
            "the steps release C G + Z or a function of it: G the sums of clipped vectors, Z independent Gaussian "
            "noise, C the strategy that is stated; the divisor is fixed, not the size of the batch"
        ),
    )
    strategy: Strategy = key(
        Structure(_STRATEGY),
        f"For type matrix-factorization the matrix C by which noise is correlated over the steps: {STRATEGIES}. Noise "
        "C^(-1) Z is added to the sums of the steps. {banded: {bands: 8}} has the coefficients 1, 1/2, 3/8, ... of the "
        "banded square root; {tree: {restart_every: 1024}} begins a new tree.",
        advice=f"one of {STRATEGIES}",
    )
    noise_multiplier: float = key(
        NOISE,
        "For type matrix-factorization: standard deviation of Z divided by the clip norm times the largest column norm "
        "of the strategy; for tree that of the noise of one node divided by the clip norm.",
        advice="the standard deviation of Z divided by the clip norm and the largest column norm of the strategy",
    )
    max_grad_norm: float = key(NORM, NORM_MEANING, default=1.0)
    clip: ClassVar[Key] = CLIP
    max_participations: int | None = key(
        COUNT,
        "For matrix-factorization: steps in which one unit takes part at most; by default as many as `min_separation` "
        "allows.",
        default=None,
    )
    min_separation: int | None = key(
        COUNT,
        "For matrix-factorization: two steps in which one unit takes part are at least so many steps apart (1: may "
        "follow each other); with `participation: fixed-epochs` the length of an epoch.",
        default=None,
        advice="say how many steps lie at least between two steps in which one unit takes part; 1 if nothing is known",
    )
    participation: Literal["min-separation", "fixed-epochs"] = key(
        Word(("min-separation", "fixed-epochs")),
        "For matrix-factorization: fixed-epochs says that a unit is at the same place in every epoch of "
        "`min_separation` steps. Where batches are shuffled again in every epoch it is not: say `min_separation: 1`.",
        default="min-separation",
    )
    also: tuple[float, ...] = also_key()

    def __post_init__(self) -> None:
        check_sums(self)

    @classmethod
    def of(cls, **parameters: Any) -> "MatrixFactorization":
        sums = noisy_sums("gaussian", parameters.pop("also", ()))
        if others := [each.type for each in sums if each.type != "gaussian"]:
            raise KeyedInputError("also", f"is Gaussian noise here, got {others[0]}", code="DPC107")
        return cls(**parameters, also=tuple(each.noise_multiplier for each in sums))

    @property
    def parameters(self) -> dict[str, object]:
        """Values of its keys by name, those that are None left out, the strategy as its text."""
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        return {name: value for name, value in values.items() if value is not None} | {"strategy": self.strategy.text}

    @property
    def identity(self) -> dict[str, object]:
        strategy = self.strategy
        return self.parameters | ({"strategy": f"sha256 {strategy.digest}"} if isinstance(strategy, Matrix) else {})

    @property
    def limits(self) -> Participation:
        """The steps in which a unit may take part: their separation, how many at most, and if epochs are fixed."""
        return Participation(
            separation=self.min_separation or 1,
            max_times=self.max_participations,
            fixed_epochs=self.participation == "fixed-epochs",
        )

    @property
    def words(self) -> str:
        """The strategy and its noise multiplier in words; with further sums also their noise and the joint one."""
        relative = "of each node" if isinstance(self.strategy, Tree) else "relative to the largest column norm"
        noise = f"noise multiplier {self.noise_multiplier:g} ({relative})"
        return f"{short_text(self.strategy)}, {noise}{sums_text(self)}"
