"""PATE: the privacy cost of labels that an ensemble of teachers voted on; its votes are read, its result is shown."""

import dataclasses
import math
import warnings
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable
from typing import BinaryIO, SupportsInt

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray
from scipy.ndimage import maximum_filter

from dpcalc.accountants.closed_forms import equal_steps, gaussian_epsilon
from dpcalc.accountants.rdp import log_peak
from dpcalc.config.source import readable, visible
from dpcalc.errors import InputError, UnsupportedError, require_positive
from dpcalc.guarantee import Adjacency, Guarantee, Kind, Row
from dpcalc.mechanisms.black_box import (
    MIN_MASS,
    VOTES,
    ConfidentGNMax,
    GNMax,
    LNMax,
    PateMechanism,
    Votes,
    louder,
    other_wins_bound,
)
from dpcalc.numerics import Array, IntArray, bracket_root, normal_quantile_array, zoomed_minimum
from dpcalc.records import dataclass
from dpcalc.report.guarantees import assumes_rows, epsilon_text, guarantee_lines, quiet_line, row_json
from dpcalc.report.output import BARE_DIGITS, Json, Lines, Output, as_given, lines, rounded_down, rounded_up

_ENDINGS = (".npy", ".csv", ".tsv")
_DELIMITERS = ",;\t"
_MAX_VOTES = 50_000_000  # 400 MB as int64; ten times more does not fit into the memory of a small machine
_MAX_TEACHERS = 1_000_000  # sums of votes stay exact far beyond it, but larger numbers are surely a mistake
_NPY_MAGIC = b"\x93NUMPY"
_MAX_LINE_BYTES = 64 * 1024 * 1024
_COUNT = f"a whole number from 0 to {_MAX_TEACHERS}"


def read_votes(
    path: str, *, teachers: int | None = None, classes: int | None = None, queries: int | None = None
) -> Votes:
    """Return the votes on the first `queries` queries in a .npy, .csv or .tsv file (None: on all).

    A cell is the number of teachers that give a query (row) a label (column); with `classes`, the number of labels, it
    is the label, from 0, that a teacher (row) gives a query (column). `teachers` is their number, None for the sum of
    the first row. InputError: a file that is not regular or not readable, or a wrong cell, row or size, by row
    and column, counted from 1.
    """
    if not path.lower().endswith(_ENDINGS):
        raise InputError(f"{path}: expected a file *{', *'.join(_ENDINGS)}, got another ending")
    with readable(path) as (_, stream):
        table = _npy_table(path, stream) if path.lower().endswith(".npy") else _csv_table(path, stream)
    _refuse_cells(path, (table < 0) | (table > _MAX_TEACHERS), table, _COUNT)

    counts = table
    if classes is not None:
        if classes < 2:
            raise InputError(f"--classes: expected at least 2, got {classes}")
        if teachers is not None and len(table) != teachers:
            raise InputError(f"{path}: expected a row for each of {teachers} teachers, got {len(table)}")
        _refuse_cells(path, table >= classes, table, f"a label from 0 to {classes - 1}")
        columns = table.shape[1]
        if columns * classes > _MAX_VOTES:
            raise InputError(f"--classes: expected at most {_MAX_VOTES} counts, got {columns} x {classes}")
        # One number for each pair (query, label), so that a single count gives the whole table.
        pairs = (table + classes * np.arange(columns)).ravel()
        counts = np.bincount(pairs, minlength=columns * classes).reshape(columns, classes)
    if counts.shape[1] < 2:
        raise InputError(f"{path}: expected a column for each of at least 2 labels, got {counts.shape[1]}")
    if queries is not None and not 1 <= queries <= len(counts):
        raise InputError(f"--queries: expected 1 to {len(counts)}, the queries in {path}, got {queries}")
    counts = counts[:queries]

    sums = counts.sum(axis=1)
    expected = int(sums[0]) if teachers is None else teachers
    wrong = np.flatnonzero(sums != expected)
    if wrong.size:
        row = int(wrong[0])
        origin = "as in row 1" if teachers is None else "the number of teachers"
        raise InputError(
            f"{path}: row {row + 1}: expected {expected} votes, {origin}, got {int(sums[row])}; "
            "columns are labels (--classes N for a file with the label of every teacher)"
        )
    if not 1 <= expected <= _MAX_TEACHERS:
        raise InputError(f"{path}: row 1: expected 1 to {_MAX_TEACHERS} votes, got {expected}")
    return Votes(counts=counts, teachers=expected)


def _npy_table(path: str, stream: BinaryIO) -> IntArray:
    """Return the whole numbers in a .npy file, whose header is untrusted.

    Type, shape and size are checked before NumPy allocates or unpickles anything.
    """
    damaged = InputError(f"{path}: expected a NumPy array of whole numbers, got a damaged one")
    if stream.read(len(_NPY_MAGIC)) != _NPY_MAGIC:
        raise InputError(f"{path}: expected a NumPy array of whole numbers, got something else")
    stream.seek(0)
    try:
        read = npy.read_array_header_1_0 if npy.read_magic(stream) == (1, 0) else npy.read_array_header_2_0
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of headers that Python 2 wrote
            shape, _, dtype = read(stream)
    except Exception as error:  # NumPy reads it with Python's own parser, which raises many exceptions
        raise damaged from error
    if dtype.hasobject:
        raise InputError(f"{path}: expected a NumPy array of whole numbers, got Python objects, which are not loaded")
    if dtype.kind not in "iuf":
        raise InputError(f"{path}: expected a NumPy array of whole numbers, got {dtype}")
    lengths = [length for length in shape if type(length) is int and length > 0]
    if len(shape) != 2 or len(lengths) != 2:
        got = str(shape)[:60]
        raise InputError(f"{path}: expected two dimensions, queries x labels, none of them empty, got {got}")
    _refuse_huge(path, math.prod(lengths))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            raw = np.load(path, mmap_mode="r", allow_pickle=False)
    except (ValueError, EOFError) as error:  # the file is shorter than its header says
        raise damaged from error
    # Fractions, NaN and numbers beyond int64 do not survive the conversion and are found by comparing.
    with np.errstate(invalid="ignore", over="ignore"):
        table = np.asarray(raw).astype(np.int64)
        is_rounded = np.asarray(raw) != table
    _refuse_cells(path, is_rounded, raw, _COUNT)
    return table


def _csv_table(path: str, stream: BinaryIO) -> IntArray:
    """Return the whole numbers of a CSV file, without blank lines and a header, a first line without numbers."""
    # Rows as arrays of four bytes a number: lists of Python's numbers take several times the memory.
    rows: list[NDArray[np.int32]] = []
    delimiter, columns, number = "", 0, 0
    while line := stream.readline(_MAX_LINE_BYTES):
        number += 1
        if len(line) == _MAX_LINE_BYTES:  # a file without line ends is refused before it fills the memory
            raise InputError(f"{path}: row {number}: expected at most {_MAX_LINE_BYTES} characters, got more")
        try:
            text = line.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError:
            raise InputError(f"{path}: row {number}: expected UTF-8 text, got other bytes") from None
        if not text.strip():
            continue
        text = text.rstrip("\r\n")
        delimiter = delimiter or max(_DELIMITERS, key=text.count)
        words = text.split(delimiter)
        is_first, columns = not columns, columns or len(words)
        if len(words) != columns:
            raise InputError(f"{path}: row {number}: expected {columns} columns, got {len(words)}")
        if is_first and all(_as_number(word) is None for word in words):
            continue
        try:
            # int() would read 1_000 as 1000; with the underscore replaced it refuses it.
            rows.append(np.array([int(word.replace("_", "-")) for word in words], dtype=np.int32))
        except (ValueError, OverflowError):  # "3.0" is a whole number too
            values = [_as_number(word) for word in words]
            for column, (value, word) in enumerate(zip(values, words, strict=True)):
                if value is None or not (value.is_integer() and abs(value) <= _MAX_TEACHERS):
                    got = word.strip()[:40] or "nothing"
                    raise _cell_error(path, number - 1, column, _COUNT, got) from None
            rows.append(np.array(values, dtype=np.float64).astype(np.int32))
        _refuse_huge(path, len(rows) * columns)
    if not rows:
        raise InputError(f"{path}: expected a row for each query, got none")
    return np.stack(rows).astype(np.int64)


def _as_number(word: str) -> float | None:
    """Return a word as a float; None if it is no number or has an underscore."""
    try:
        return None if "_" in word else float(word)
    except ValueError:
        return None


def _refuse_huge(path: str, cells: int) -> None:
    if cells > _MAX_VOTES:
        raise InputError(f"{path}: expected at most {_MAX_VOTES} numbers, got more")


def _refuse_cells(path: str, wrong: NDArray[np.bool_], table: NDArray[np.generic], expected: str) -> None:
    """Raise the error of the first cell that is wrong, if there is one."""
    if wrong.any():
        row, column = np.unravel_index(int(wrong.argmax()), table.shape)
        raise _cell_error(path, row, column, expected, table[row, column])


def _cell_error(path: str, row: SupportsInt, column: SupportsInt, expected: str, got: object) -> InputError:
    """Return the error for a cell; row and column are indices from 0, which the message counts from 1."""
    return InputError(f"{path}: row {int(row) + 1}, column {int(column) + 1}: expected {expected}, got {got}")


# The privacy cost of PATE: by the number of answers alone, by the votes of the teachers, and as published.
# `aggregation` has its noise, `votes` are those of the teachers, in the order of the queries; delta is in (0, 1).
# Source: docs/theory.md, Theorem 12.1 and Theorem 12.2.


UNIT = "teacher"
MAX_QUERIES = 10**9
_FIRST_ORDERS = np.geomspace(0.05, 5e3, 16)
_ORDERS_A_ROUND, _ROUNDS = 7, 3  # orders tried at once, and how often the interval around the best is cut again
_PREFIX_ORDERS = 24
_NOISE_TOLERANCE = 1e-9  # relative distance of the smallest noise from what fails


@dataclass(frozen=True, kw_only=True)
class DataDependentResult:
    """Privacy cost given the votes at hand; the numbers are themselves private.

    The guarantee holds between the data with these votes and every neighbour, in both directions.
    """

    guarantee: Guarantee
    order: float  # the Renyi order of the bound, > 1
    chances: Array  # by query, bounds on the probability that another than the most frequent label wins
    costs: Array  # by query, Renyi divergences at that order


def data_independent_guarantee(aggregation: PateMechanism, queries: int, *, delta: float) -> Guarantee:
    """Return the guarantee for any votes, with an upper bound on epsilon that is 0 for no queries.

    A query of LNMax is (2 gamma, 0)-DP, and the optimal composition of such steps is known. GNMax comes from a Gaussian
    release of the counts, of which one falls by one and another one rises; the check of Confident-GNMax from one of the
    largest count, which changes by one. Many Gaussian releases are one: epsilon comes from its profile where floats can
    hold it, else it is rho + 2 sqrt(rho log(1/delta)) of rho-zCDP (Bun, Steinke 2016, 1605.02065v1, Proposition 1.3).
    """
    _refuse_out_of_range(queries, delta)
    if isinstance(aggregation, LNMax):
        epsilon = equal_steps(2 * aggregation.gamma, queries, delta=delta) if queries else 0.0
        return _guarantee(epsilon, delta, "optimal", "data-independent", "")
    counts = {curve: count * queries for curve, count in Counter(aggregation.dominating_curves(1)).items()}
    exact = gaussian_epsilon(counts, delta=delta, is_upper=True) if queries else 0.0
    if exact is not None:
        return _guarantee(exact, delta, "closed-form", "data-independent", "")
    rho = queries / aggregation.noise_multiplier**2
    if isinstance(aggregation, ConfidentGNMax):
        rho += queries / (2 * aggregation.threshold_noise_multiplier**2)
    return _guarantee(rho + 2 * math.sqrt(rho * -math.log(delta)), delta, "rdp", "data-independent", "")


def data_dependent_guarantee(aggregation: PateMechanism, votes: Votes, *, delta: float) -> DataDependentResult:
    """Return the cost given the votes, which is itself private; it is at most the cost for any votes."""
    _refuse_out_of_range(len(votes.counts), delta)
    chances = other_wins_bound(aggregation, votes)

    def cumulants(orders: Array) -> tuple[Array, Array]:
        ahead, back = aggregation.log_moments(chances, votes.top, orders)
        return ahead.sum(axis=0), back.sum(axis=0)

    smallest, order, _ = zoomed_minimum(
        lambda z: epsilon_by_order(np.maximum(*cumulants(z)), z, delta=delta),
        _FIRST_ORDERS,
        rounds=_ROUNDS,
        count=_ORDERS_A_ROUND,
    )
    best = np.array([order])
    ahead, back = cumulants(best)
    direction = "D||D'" if ahead >= back else "D'||D"
    costs = np.maximum(*aggregation.log_moments(chances, votes.top, best))[:, 0] / order
    whatever = data_independent_guarantee(aggregation, len(votes.counts), delta=delta)
    if whatever.epsilon < smallest:
        guarantee = whatever
    else:
        guarantee = _guarantee(max(0.0, smallest), delta, "rdp", "data-dependent", direction)
    return DataDependentResult(guarantee=guarantee, order=order + 1, chances=chances, costs=costs)


def epsilon_by_order(cumulants: Array, orders: Array, *, delta: float) -> Array:
    """Return the epsilon that each order z proves, (K(z) + log w(z) - log delta) / z; a negative one proves 0.

    `cumulants` are K(z) >= 0, their last axis is that of the orders.
    """
    return (cumulants + log_peak(orders) - math.log(delta)) / orders


def max_queries(aggregation: PateMechanism, *, target: float, delta: float) -> int:
    """Return the largest number of queries, up to 1e9, whose epsilon for any votes is within a target; 0 if none."""
    _refuse_target(target)

    def keeps(queries: int) -> bool:
        return data_independent_guarantee(aggregation, queries, delta=delta).epsilon <= target

    # Epsilon rises with the queries: doubling and bisection find the first number that is too large.
    high = 1
    while high <= MAX_QUERIES and keeps(high):
        high *= 2
    numbers = range(high // 2 + 1, min(high, MAX_QUERIES + 1))
    return high // 2 + bisect_left(numbers, True, key=lambda queries: not keeps(queries))


def max_queries_by_votes(aggregation: PateMechanism, votes: Votes, *, target: float, delta: float) -> int:
    """Return how many of the first queries fit a target given the votes, no fewer than for any votes; it is private."""
    _refuse_target(target)
    chances = other_wins_bound(aggregation, votes)
    log_delta = -math.log(delta)
    # The best order of what costs `target` lies near log(1/delta) / target; cumulative sums price every prefix at once.
    orders = np.geomspace(0.25 * log_delta / target, 6 * log_delta / target, _PREFIX_ORDERS)
    moments = aggregation.log_moments(chances, votes.top, orders)
    sums = np.maximum(*(np.cumsum(each, axis=0) for each in moments))
    fitting = int((epsilon_by_order(sums, orders, delta=delta).min(axis=1) <= target).sum())
    return max(fitting, min(len(votes.counts), max_queries(aggregation, target=target, delta=delta)))


def min_noise(aggregation: PateMechanism, queries: int, *, target: float, delta: float) -> PateMechanism:
    """Return the aggregation with the least noise that meets a target for any votes; InputError if none does.

    Chosen without the votes: noise that was chosen by looking at them would reveal something about them. The two noises
    of Confident-GNMax keep their ratio. A billionth less noise exceeds the target.
    """
    _refuse_target(target)

    def excess(log_factor: float) -> float:
        return (
            data_independent_guarantee(louder(aggregation, math.exp(log_factor)), queries, delta=delta).epsilon - target
        )

    # Epsilon falls as noise grows. With e^50 times the noise no vote counts, with e^-50 there is none.
    low, high = -1.0, 1.0
    while excess(low) <= 0:
        low *= 2
        if low < -50:
            raise InputError("target: expected one that needs noise, but almost none meets it")
    while excess(high) > 0:
        high *= 2
        if high > 50:
            raise InputError(f"target: expected an epsilon that noise can reach, got {target!r}")
    # Only an end that meets the target is returned, so that the bracket may end on either side of the root.
    root = bracket_root(lambda x: -excess(x), low, high, tolerance=_NOISE_TOLERANCE)
    return louder(aggregation, math.exp(next(x for x in (*root, high) if excess(x) <= 0)))


def _guarantee(epsilon: float, delta: float, method: str, bound: str, direction: str) -> Guarantee:
    return Guarantee(
        epsilon=epsilon,
        delta=delta,
        kind=Kind.UPPER,
        unit=UNIT,
        adjacency=Adjacency.REPLACE_ONE,
        method=method,
        bound=bound,
        direction=direction,
    )


def _refuse_out_of_range(queries: int, delta: float) -> None:
    if not 0 <= queries <= MAX_QUERIES:
        raise InputError(f"queries: expected a whole number from 0 to {MAX_QUERIES:.0e}, got {queries}")
    if not 0 < delta < 1:
        raise InputError(f"delta: expected a number between 0 and 1, both excluded, got {delta!r}")


def _refuse_target(target: float) -> None:
    if not (math.isfinite(target) and target > 0):
        raise InputError(f"target epsilon: expected a finite number > 0, got {target!r}")


# A data-dependent epsilon of PATE that may be published: noise as large as the smooth sensitivity, rounded up.
#
# Only the lead of a query counts: that at which `labels - 1` equally strong rivals together would win as likely as the
# union bound says. One teacher moves it by two votes at most; under Confident-GNMax the votes of the most frequent
# label count as well, which one teacher changes by one at most, and a query is in a cell of both.
#
# Source: docs/theory.md, Theorem 12.4, which has the proofs.

_CELLS_PER_VOTE = 4  # grid points of the lead for one vote; leads are rounded down to them, so fewer only cost more
_LEAD_REACH = 2 * _CELLS_PER_VOTE + 1  # cells by which one teacher moves a lead: two votes, one cell for round-off
_MAX_CELLS = 2_000_000  # of a grid of leads and top votes: 16 MB an array, of which there are about ten at a time
_FAILURE_SHARE = 0.1  # of delta, with which each of the two noisy bounds may fail; the rest is left for the epsilon
_COST_SHARE = 0.1  # of the epsilon aimed at, which the release may cost
_MAX_TARGET = 5.0  # the largest epsilon aimed at without a target, since above it the noise hardly matters
_LOG_DEVIATION = 0.15  # of the noise on the log of the sensitivity


@dataclass(frozen=True, kw_only=True)
class ReleaseTerms:
    """Parameters of a sanitised release, chosen without looking at the votes."""

    order: float  # > 1, of the Renyi analysis
    smoothness: float  # beta > 0, the most that one teacher changes the log of the smooth sensitivity
    noise: float  # > 0, standard deviation of both noises in sensitivities

    def __post_init__(self) -> None:
        if not (math.isfinite(self.order) and self.order > 1):
            raise InputError(f"order: expected a finite number > 1, got {self.order!r}")
        require_positive("beta", self.smoothness)
        require_positive("noise of the release", self.noise)

    @property
    def cost(self) -> float:
        """Renyi divergence, at the order, of the two numbers that are released."""
        return self.order / self.noise**2


def release_terms(aggregation: PateMechanism, queries: int, *, target: float | None, delta: float) -> ReleaseTerms:
    """Return terms by which a release costs a tenth of the target, and log(1/delta) / (order - 1) is half of it.

    Without a target they aim at the epsilon for any votes, at most 5. Terms that depended on the votes would be private
    themselves. InputError if that epsilon is 0, which leaves a release nothing to spend.
    """
    if not target:
        epsilon = data_independent_guarantee(aggregation, queries, delta=delta).epsilon
        if not epsilon:
            raise InputError("--sanitise: expected a data-independent epsilon above 0, got 0; publish that one")
        target = min(epsilon, _MAX_TARGET)
    order = 1 + 2 * -math.log(delta) / target
    noise = math.sqrt(order / (_COST_SHARE * target))
    return ReleaseTerms(order=order, smoothness=_LOG_DEVIATION / noise, noise=noise)


def draw_sanitised_epsilon(
    aggregation: PateMechanism, votes: Votes, terms: ReleaseTerms, *, delta: float, rng: np.random.Generator
) -> tuple[float, float]:
    """Draw (a data-dependent epsilon that covers its own release, deviation of its noise), both public.

    Publish it once, since each draw costs: it is an upper bound for the labels and this number together.

    Released are B and U of Theorem 12.4. A user who publishes only if the epsilon drawn here keeps to a target that was
    fixed before is (target, delta)-DP with all that is published. The seed of `rng` must stay secret.
    UnsupportedError: too many teachers under Confident-GNMax.
    """
    divergences, cells = _divergence_grid(aggregation, votes, terms.order)
    sensitivity = _smooth_sensitivity(divergences, cells, terms.smoothness)
    return noisy_epsilon(float(divergences[tuple(cells)].sum()), sensitivity, terms, delta=delta, rng=rng)


def noisy_epsilon(
    divergence: float, sensitivity: float, terms: ReleaseTerms, *, delta: float, rng: np.random.Generator
) -> tuple[float, float]:
    """Draw (epsilon, spread) of labels with this f(D) and S(D), by B and U of `draw_sanitised_epsilon`."""
    # Both noises are shifted upwards by the quantile, so that each number is too small with probability delta/10 only.
    quantile = -float(normal_quantile_array(np.array([math.log(_FAILURE_SHARE * delta)]))[0])
    # The noise on the logarithm of the sensitivity makes the scale of the other noise public.
    first, second = (float(z) for z in rng.standard_normal(2))
    spread = terms.noise * sensitivity * math.exp(terms.smoothness * terms.noise * (first + quantile))
    noisy = max(0.0, divergence + spread * (second + quantile))
    z = np.array([terms.order - 1])
    epsilon = epsilon_by_order(z * (noisy + terms.cost), z, delta=(1 - 2 * _FAILURE_SHARE) * delta)
    return max(0.0, float(epsilon[0])), spread


def _divergence_grid(aggregation: PateMechanism, votes: Votes, order: float) -> tuple[Array, IntArray]:
    """Return upper divergences by lead and top votes, and (lead, top) indices of the queries, shape (2, queries)."""
    rivals = votes.counts.shape[1] - 1
    overtake = aggregation.overtake_probability(np.arange(votes.teachers * _CELLS_PER_VOTE + 1) / _CELLS_PER_VOTE)
    # Leads at which overtaking is less likely than the smallest probability in use share the last cell.
    overtake = overtake[: max(1, int((overtake > MIN_MASS).sum()))]
    # The lead, rounded down, at which equal rivals have the union bound of the query.
    per_rival = votes.union_bound(aggregation.overtake_probability(np.arange(votes.teachers + 1.0))) / rivals
    leads = np.searchsorted(-overtake, -np.maximum(per_rival, MIN_MASS), side="right") - 1
    leads = np.clip(leads, 0, overtake.size - 1)
    top_count, tops = 1, np.zeros_like(leads)  # where the top votes do not count, they share one cell
    if isinstance(aggregation, ConfidentGNMax):
        top_count, tops = votes.teachers + 1, votes.top
        if overtake.size * top_count > _MAX_CELLS:
            most = math.isqrt(_MAX_CELLS // _CELLS_PER_VOTE)
            raise UnsupportedError(
                f"sanitised cost: expected at most {most} teachers whose votes are checked, got {votes.teachers}"
            )
    other_wins = np.minimum(rivals * np.repeat(overtake, top_count), 1 - 1 / votes.counts.shape[1])
    top = np.tile(np.arange(top_count), overtake.size)
    ahead, _ = aggregation.log_moments(other_wins, top, np.array([order - 1]))
    # A smaller lead may not cost less, or rounding the lead down would be no upper bound.
    grid = np.maximum.accumulate(ahead.reshape(overtake.size, top_count)[::-1])[::-1] / (order - 1)
    return grid, np.stack([leads, tops])


def _smooth_sensitivity(divergences: Array, cells: IntArray, smoothness: float) -> float:
    """Return the largest change of the summed divergence by one teacher, times e^-beta for each one changed before."""

    def widened(values: Array) -> Array:
        """Return for each cell the largest value within reach of one teacher: 9 cells of the lead, one top vote."""
        return maximum_filter(values, size=(2 * _LEAD_REACH + 1, 3), mode="nearest")

    queries = np.zeros(divergences.shape)
    np.add.at(queries, tuple(cells), 1)
    changes = np.maximum(widened(divergences) - divergences, divergences + widened(-divergences))
    bound, largest, distance = float(queries.sum() * changes.max()), 0.0, 0
    while True:  # until no larger distance can count more
        largest = max(largest, math.exp(-smoothness * distance) * float((queries * changes).sum()))
        distance += 1
        if math.exp(-smoothness * distance) * bound <= largest:
            return largest
        wider = widened(changes)  # after one more teacher a query may be in any cell within reach of those before
        if (wider == changes).all():
            return largest
        changes = wider


# The published analyses of Papernot et al. 2017 and 2018.

LNMAX_MOMENTS = np.arange(1.0, 9.0)
GNMAX_ORDERS = np.concatenate([np.arange(2.0, 100.0, 0.5), np.geomspace(100.0, 500.0, 100)])


def published_rows(aggregation: PateMechanism, votes: Votes, *, delta: float) -> tuple[Row, ...]:
    """Return the published epsilons; the data-dependent one is not valid, as it covers one direction only."""
    other_wins = other_wins_bound(aggregation, votes)
    match aggregation:
        case LNMax(gamma=gamma):
            source, moments = "Papernot et al. 2017", LNMAX_MOMENTS
            independent = len(votes.counts) * pure_dp_log_moments(2 * gamma, moments)
            dependent = lnmax_log_moments(other_wins, gamma, moments).sum(0)
        case ConfidentGNMax():
            return ()
        case GNMax(noise_multiplier=sigma):
            source, moments = "Papernot et al. 2018", GNMAX_ORDERS - 1
            independent = len(votes.counts) * moments * (moments + 1) / sigma**2
            dependent = gnmax_log_moments(other_wins, sigma, moments).sum(0)
    # The tail bound of both papers: epsilon = min over l of (log moment - log delta) / l.
    by_number, by_votes = (float(((total - math.log(delta)) / moments).min()) for total in (independent, dependent))
    note = "one direction only: from these votes to a neighbour's"
    return (
        Row(method=source, bound="data-independent", epsilon=by_number, kind=Kind.AS_PUBLISHED, valid=True),
        Row(method=source, bound="data-dependent", epsilon=by_votes, kind=Kind.AS_PUBLISHED, valid=False, note=note),
    )


def pure_dp_log_moments(epsilon: float, moments: Array) -> Array:
    """Return the published log moments of an epsilon-DP step: Papernot et al. 2017 (1610.05755v4), Theorem 2."""
    return np.minimum(epsilon * moments, epsilon**2 * moments * (moments + 1) / 2)


def lnmax_log_moments(other_wins: Array, gamma: float, moments: Array) -> Array:
    """Return LNMax's log moments: Papernot et al. 2017 (1610.05755v4), Theorem 3, at most those of 2 gamma-DP."""
    # The condition of Theorem 3; where it fails q is replaced by 0, which is not used, to keep logarithms finite.
    q, x = other_wins[:, None], 2 * gamma
    applies = q < math.expm1(x) / math.expm1(2 * x)
    q = np.where(applies, q, 0.0)
    top_wins = (moments + 1) * np.log1p(-q) - moments * np.log1p(-q * math.exp(x))
    with np.errstate(divide="ignore"):
        dependent = np.logaddexp(top_wins, np.log(q) + x * moments)
    return np.minimum(np.where(applies, dependent, np.inf), pure_dp_log_moments(x, moments))


def gnmax_log_moments(other_wins: Array, sigma: float, moments: Array) -> Array:
    """Return GNMax's log moments: Papernot et al. 2018 (1802.08908v1), Theorem 6, Propositions 8, 10."""
    # One teacher changes two counts by one, under noise of deviation sigma: a Gaussian step of distance sqrt(2).
    independent = moments * (moments + 1) / sigma**2
    log_q = np.log(np.maximum(other_wins, 1e-300))[:, None]
    # The orders of Proposition 10.
    mu_2 = np.maximum(sigma * np.sqrt(-log_q), 1 + 1e-9)
    mu_1 = mu_2 + 1
    rdp_1, rdp_2 = mu_1 / sigma**2, mu_2 / sigma**2
    max_log_q = (mu_2 - 1) * rdp_2 - mu_2 * (np.log(mu_1 / (mu_1 - 1)) + np.log(mu_2 / (mu_2 - 1)))
    # The conditions of Theorem 6: mu_1 is at least the order, q is small enough, and mu_2 is above 1.
    applies = (mu_1 >= moments + 1) & (mu_2 > 1 + 1e-9) & (log_q <= max_log_q) & (-log_q > rdp_2)
    log_top_wins = np.log1p(-np.exp(log_q))
    with np.errstate(invalid="ignore", divide="ignore"):
        # A^(order - 1) and B^(order - 1) of Theorem 6, in log space.
        inner = np.log1p(-np.exp(np.minimum((log_q + rdp_2) * (mu_2 - 1) / mu_2, -1e-300)))
        top_wins = log_top_wins + moments * (log_top_wins - inner)
        other = log_q + moments * (rdp_1 - log_q / (mu_1 - 1))
        dependent = np.where(applies, np.logaddexp(top_wins, other), np.inf)
    return np.minimum(dependent, independent)


# The result of `dpcalc pate`, and its queries as CSV; epsilons are rounded up.


PROTECTS = "one teacher's data, hence each of its records; its votes may be any others"
PRIVATE = "itself private: do not publish"
WARNING = (
    "what depends on the votes is itself private: publish the data-independent epsilon, or a sanitised one "
    "(`dpcalc pate --sanitise`)"
)
DRAWN = "a sanitised epsilon is drawn once: publish this one or none, every further draw costs again"
MAX_QUERY_ROWS = 10  # queries, the costliest ones, that `-v` shows
COLUMNS = ("query", "votes", "lead", "other_wins", "renyi_divergence")  # of the queries, in CSV and in JSON


def pate_output(
    aggregation: PateMechanism,
    votes: Votes | None,
    *,
    queries: int,
    delta: float,
    target: float | None,
    rng: np.random.Generator | None,
    verbose: bool,
    with_csv: bool,
) -> Output:
    """Return all results for an ensemble, led by the data-independent epsilon; `csv` is a table of the queries.

    With `rng`, whose seed must stay secret, also an epsilon to be published is drawn; `verbose` adds the costliest
    queries for people, and every query to JSON. CSV has numbers in full precision.
    """
    terms, sanitised_epsilon = None, (math.inf, 0.0)
    if rng is not None:
        if votes is None:
            raise InputError("--sanitise: expected votes, whose cost is made public, got none")
        terms = release_terms(aggregation, queries, target=target, delta=delta)
        sanitised_epsilon = draw_sanitised_epsilon(aggregation, votes, terms, delta=delta, rng=rng)
    by_number = data_independent_guarantee(aggregation, queries, delta=delta)
    by_votes, by_query = None, []
    safe_epsilon = by_number.epsilon
    ensemble = f"{queries} {_queries(queries)}"
    if votes is not None:
        ensemble += f", {votes.counts.shape[1]} labels, {votes.teachers} teachers"
        by_votes = data_dependent_guarantee(aggregation, votes, delta=delta)
    if votes is not None and by_votes is not None and (verbose or with_csv):
        # Number, top votes, lead, bound on another label's win and divergence of each query.
        # A partition is linear in the labels, of which there may be thousands; a sort would order all of them.
        second, first = np.partition(votes.counts, -2, axis=1)[:, -2:].T
        columns = (np.arange(1, queries + 1), votes.top, first - second, by_votes.chances, by_votes.costs)
        by_query = list(zip(*(column.tolist() for column in columns), strict=True))

    answered: Json | None = None
    answered_words = votes_words = sanitised_words = ""
    if isinstance(aggregation, ConfidentGNMax) and votes is not None:
        expected = float(np.exp(aggregation.log_check_probabilities(votes.top)[0]).sum())
        answered = {"private": True, "expected": expected}
        answered_words = f"about {expected:.4g} of {queries} queries on average ({PRIVATE})"
    if by_votes is not None:
        votes_words = votes_text(by_votes)
    sanitised: Json | None = None
    if terms is not None:
        epsilon, spread = sanitised_epsilon
        note = "" if epsilon < safe_epsilon else "; no smaller than the data-independent one, so publish that"
        sanitised = {"epsilon": epsilon, "delta": delta, "spread": spread, **dataclasses.asdict(terms)}
        sanitised_words = (
            f"epsilon <= {rounded_up(epsilon)} (order {terms.order:.4g}, beta {terms.smoothness:.4g}, "
            f"noise {terms.noise:.4g}, spread {rounded_up(spread)}){note}"
        )

    published = []
    rows_published = () if votes is None else published_rows(aggregation, votes, delta=delta)
    for row in rows_published:
        value = "" if row.epsilon is None else epsilon_text(row.epsilon, row.kind)
        note = f"; {visible(row.note)}" if row.note else ""
        published.append(("published", f"{row.method}, {row.bound}: {value} ({row.kind}{note})"))

    # JSON has one object; people see a row for each text, under one label.
    targeted: Json | None = None
    targets: Lines = []
    if target is not None:
        count = max_queries(aggregation, target=target, delta=delta)
        count_by_votes = None
        if votes is not None:
            count_by_votes = max_queries_by_votes(aggregation, votes, target=target, delta=delta)
        least_noise = min_noise(aggregation, queries, target=target, delta=delta)
        text = f"epsilon {as_given(target)} buys {count} {_queries(count)} whatever the votes are"
        targets.append(("labels", text))
        if count_by_votes is not None:
            text = f"{count_by_votes} of {queries} with these votes ({PRIVATE})"
            targets.append(("labels_with_these_votes", text))
        noise = _noise_text(
            least_noise, lambda x: rounded_up(x, digits=BARE_DIGITS), lambda x: rounded_down(x, digits=BARE_DIGITS)
        )
        targets.append(("least_noise", f"all {queries} queries keep to it, whatever the votes are, from {noise}"))
        targeted = {
            "epsilon": target,
            "queries": count,
            "queries_with_these_votes": count_by_votes,
            "least_noise": _noise_json(least_noise),
        }

    costliest = []
    shown = by_query if verbose else []
    for number, top, lead, other_wins, divergence in sorted(shown, key=lambda row: -row[-1])[:MAX_QUERY_ROWS]:
        text = (
            f"query {number}: {top} votes, lead {lead}, another wins with at most {rounded_up(other_wins)}, "
            f"divergence {rounded_up(divergence)}"
        )
        costliest.append(("costliest", text))
    notes = ([WARNING] if votes is not None else []) + ([DRAWN] if terms is not None else [])
    result: Json = {
        "aggregation": _noise_json(aggregation),
        "queries": queries,
        "teachers": None if votes is None else votes.teachers,
        "labels": None if votes is None else votes.counts.shape[1],
        "protects": PROTECTS,
        "guarantee": by_number.to_dict(),
        "with_these_votes": None if by_votes is None else votes_json(by_votes),
        "answered": answered,
        "sanitised": sanitised,
        "published": list(map(row_json, rows_published)),
        "target": targeted,
        "assumptions": list(VOTES),
        "notes": notes,
    }
    if verbose:
        result["per_query"] = [dict(zip(COLUMNS, row, strict=True)) for row in by_query]
    middle = [("answered", answered_words), ("sanitised", sanitised_words), *published]
    head = [
        ("aggregation", _noise_text(aggregation, as_given, as_given)),
        ("ensemble", ensemble),
        ("protects", PROTECTS),
    ]
    return Output(
        command="pate",
        result=result,
        headline=f"epsilon <= {rounded_up(safe_epsilon)}   delta = {as_given(delta)}   whatever the votes are",
        lines=[
            *guarantee_lines(by_number),
            *head,
            ("with_these_votes", votes_words),
            *middle,
            *targets,
            *costliest,
            *lines({"assumptions": list(VOTES)}),
        ],
        rows=[
            *head,
            ("these votes", votes_words),
            *middle,
            *(("target", text) for _, text in targets),
            *costliest,
            *assumes_rows(VOTES),
        ],
        quiet_text=quiet_line(safe_epsilon),
        csv="".join(",".join(map(str, row)) + "\n" for row in (COLUMNS, *by_query)) if with_csv else "",
    )


def _queries(count: int) -> str:
    return "query" if count == 1 else "queries"


def votes_json(by_votes: DataDependentResult) -> Json:
    return {"private": True, "order": by_votes.order, "guarantee": by_votes.guarantee.to_dict()}


def votes_text(by_votes: DataDependentResult) -> str:
    """Return the data-dependent epsilon in words, marked private."""
    epsilon, bound = rounded_up(by_votes.guarantee.epsilon), by_votes.guarantee.bound
    return f"epsilon <= {epsilon} ({bound}, order {by_votes.order:.4g}, both directions; {PRIVATE})"


def _noise_json(aggregation: PateMechanism) -> Json:
    if isinstance(aggregation, LNMax):
        return {"gamma": aggregation.gamma}
    label: Json = {"sigma": aggregation.noise_multiplier}
    if not isinstance(aggregation, ConfidentGNMax):
        return label
    check = aggregation.threshold_noise_multiplier
    return {"label": label, "threshold": aggregation.threshold, "check_sigma": check}


def _noise_text(aggregation: PateMechanism, up: Callable[[float], str], down: Callable[[float], str]) -> str:
    """Return an aggregation and its noise in words; `up` writes a deviation, `down` gamma: each as costs no more."""
    if isinstance(aggregation, LNMax):
        return f"LNMax, gamma {down(aggregation.gamma)}"
    label = up(aggregation.noise_multiplier)
    if not isinstance(aggregation, ConfidentGNMax):
        return f"GNMax, sigma {label}"
    check = up(aggregation.threshold_noise_multiplier)
    return f"Confident-GNMax, threshold {as_given(aggregation.threshold)}, threshold sigma {check}, sigma {label}"
