"""Data files that a config names, `{file: name}`: curves in CSV, trees of counts in JSON, matrices, and votes."""

import hashlib
import io
import posixpath
import re
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from fractions import Fraction
from itertools import islice
from typing import TYPE_CHECKING, Any

from dpcalc.config import scalars
from dpcalc.config.files import Files, Refusal
from dpcalc.config.messages import missing_key_error, must_be, wrong_type_error
from dpcalc.config.readers import RepeatedKeyError, json_content
from dpcalc.config.source import MAX_BYTES, ConfigError, Mark, config_error, decode, error
from dpcalc.config.tree import USER_KEY, Items, Node, Scalar, Section, entry
from dpcalc.keys import COUNT, WrongValueError
from dpcalc.sampling.hierarchy import Tree, faults, indexed, unchecked_tree

if TYPE_CHECKING:  # numpy waits until a config has a matrix
    from dpcalc.mechanisms.matrix_factorization import Strategy
    from dpcalc.numerics import Array

MAX_FAULTS = 10  # shown of one data file


def _file_name(node: Section, kind: str, *, others: Collection[str] = ()) -> Scalar:
    """Return the file name in `{file: name}`; ConfigError if it is missing or no text, or for an unknown key."""
    hint = f"it takes `file`, {' and '.join(f'`{x}`' for x in others) or 'or is a list'}"
    _refuse_other_keys(node, ("file", *others), hint)
    name = node.entries.get("file")
    if name is None:
        raise ConfigError([missing_key_error(node, "file")])
    if not isinstance(name, Scalar) or not isinstance(scalars.value(name), str):
        raise ConfigError([wrong_type_error(name, f"the name of a {kind} file")])
    return name


def _refuse_other_keys(node: Section, allowed: Collection[str], hint: str) -> None:
    """Raise ConfigError (DPC101) for the first key of a mapping that is not allowed."""
    for key, value in node.entries.items():
        if key not in allowed and not key.startswith(USER_KEY):
            raise config_error("DPC101", value.start, f"unknown key `{key}` in `{node.path}`", hint)


@contextmanager
def _errors_at(name: Scalar) -> Iterator[None]:
    """Context manager that turns a Refusal of a file into a ConfigError at the place of its name."""
    try:
        yield
    except Refusal as cause:
        raise config_error(cause.code, name.mark, f"`{name.path}`: `{name.text}` {cause.message}", cause.hint) from None


def _content(name: str, files: Files, limits: Mapping[str, int], refusal: Refusal) -> tuple[str, bytes]:
    """Return the suffix, a key of `limits`, and the bytes of a file; `refusal` if it, or what it links to, has none."""
    place = files.locate(name, "") if name.lower().endswith(tuple(limits)) else ""
    for suffix, limit in limits.items():
        if place.lower().endswith(suffix):
            return suffix, files.content(place, limit=limit)
    raise refusal


# `mechanism.curve`: orders and divergences in the config itself or in a CSV file.


MAX_POINTS = 1000  # orders of a curve; published tables have about a hundred
HEADER = ("order", "epsilon")
_CURVE_SHAPE = "a list of [order, epsilon] such as [[2, 0.1], [4, 0.2]], or {file: curve.csv}"
_CSV_HINT = "a line `order,epsilon`, then for each order a line such as `2,0.1`"
_EVERY_ORDER_HINT = "what holds at every order is stated as `epsilon` beside `curve`"


def _rdp_points(node: Node, files: Files) -> tuple[tuple[float, float], ...]:
    """Return the (order, epsilon) pairs of a `curve`, given inline or as `{file: CSV}`; ConfigError for wrong ones."""
    if isinstance(node, Section):
        rows, mark = _csv_rows(_file_name(node, "CSV"), files)
        name = "the curve"
    elif isinstance(node, Items):
        cells = [
            [x for x in item.items if isinstance(x, Scalar)] if isinstance(item, Items) else [] for item in node.items
        ]
        shapes = zip(node.items, cells, strict=True)
        wrong = [item for item, row in shapes if not isinstance(item, Items) or not len(row) == len(item.items) == 2]
        if wrong:
            raise ConfigError(wrong_type_error(item, "[order, epsilon]") for item in wrong[:MAX_FAULTS])
        rows, mark, name = cells, node.anchor, node.path
    else:
        raise ConfigError([wrong_type_error(node, _CURVE_SHAPE)])
    if not 1 <= len(rows) <= MAX_POINTS:
        raise config_error("DPC106", mark, f"{name} must have 1 to {MAX_POINTS} orders, got {len(rows)}")
    points: list[tuple[float, Fraction]] = []
    errors = []
    for order, epsilon in rows:
        numbers = []
        for cell in (order, epsilon):
            number, got = scalars.number_of(cell), f"got `{cell.text[:40]}`"
            if number is None:
                is_infinite = re.fullmatch(r"[-+.]*inf(inity)?", cell.text.lower())
                hint = _EVERY_ORDER_HINT if is_infinite else "a decimal number, e.g. 0.1"
                errors.append(error("DPC102", cell.mark, f"`{cell.path}` must be a number, {got}", hint))
            elif number > 10**9 or (number <= 1 if cell is order else number < 0):
                ends = "above 1 and at most 1e9" if cell is order else "from 0 to 1e9"
                errors.append(error("DPC106", cell.mark, f"`{cell.path}` must be {ends}, {got}"))
            else:
                numbers.append(number)
        if len(numbers) < len(HEADER):
            continue
        # Orders are compared as floats, which the bounds use: two that round to one float are one order.
        point = float(numbers[0]), numbers[1]
        if points and point[0] <= points[-1][0]:
            message = f"`{order.path}` must be above the order before it, got `{order.text[:40]}`"
            errors.append(error("DPC106", order.mark, message))
        elif points and point[1] < points[-1][1]:
            message = f"`{epsilon.path}` must not be below that of the order before it, got `{epsilon.text[:40]}`"
            errors.append(error("DPC106", epsilon.mark, message, "Renyi divergences never fall with their order"))
        points.append(point)
    if errors:
        raise ConfigError(errors[:MAX_FAULTS])
    return tuple((order, float(epsilon)) for order, epsilon in points)


def _csv_rows(name: Scalar, files: Files) -> tuple[list[list[Scalar]], Mark]:
    """Return the cells of each line of a CSV file below its header, and the header's place.

    Blank lines and comments are left out. Cells are separated by the `;` or tab of the first line, else by commas.
    ConfigError at `name` if the file cannot be read, else at the wrong line.
    """
    with _errors_at(name):
        _, data = _content(name.text, files, {".csv": MAX_BYTES}, Refusal("DPC110", "is no CSV file", _CSV_HINT))
        source = decode(data, posixpath.join(posixpath.dirname(name.mark.source.path), name.text))
    lines = [(number, line) for number, line in enumerate(source.lines, 1) if line.strip() and line.strip()[0] != "#"]
    # Spreadsheets in many languages write `;`, since their decimal point is a comma.
    delimiter = next((sign for sign in ";\t" if lines and sign in lines[0][1]), ",")
    rows: list[list[Scalar]] = []
    for number, line in lines:
        cells, start = [], 0
        # Cells are split by hand: a CSV reader does not tell the columns at which errors point, and no cell has quotes.
        for at, text in enumerate(line.split(delimiter)):
            word = text.strip()
            column = start + len(text) - len(text.lstrip()) + 1
            mark = Mark(source, number, column, max(1, len(word)))
            cells.append(Scalar(text=word, mark=mark, path=(*HEADER, "cell")[min(at, 2)]))
            start += len(text) + 1
        rows.append(cells)
    if not rows or tuple(cell.text.lower() for cell in rows[0]) != HEADER:
        mark = rows[0][0].mark if rows else Mark(source, 1, 1)
        raise config_error("DPC102", mark, "the first line must be `order,epsilon`", _CSV_HINT)
    odd = [row for row in rows if len(row) != len(HEADER)]
    if odd:
        message = "a line must hold an order and an epsilon, got {} cells"
        raise ConfigError(error("DPC102", row[0].mark, message.format(len(row)), _CSV_HINT) for row in odd[:MAX_FAULTS])
    return rows[1:], rows[0][0].mark


# `data.tree`: nested counts in the config itself or in a JSON file.


MAX_TREE_BYTES = 16 * 1024 * 1024  # of the JSON file: several million counts
FILE_KEYS = ("levels", "tree")
_TREE_SHAPE = "a list of counts nested by level such as [[4, 2, 3], [4, 5]], or {file: counts.json}"


def data_tree(node: Node, names: tuple[str, ...], files: Files) -> Tree:
    """Return the sizes of all units of a `tree`, given inline or as a JSON file; ConfigError with the first faults."""
    file = None
    if isinstance(node, Items):
        counts = _counts(node)
    elif isinstance(node, Section):
        file = _file_name(node, "JSON")
        with _errors_at(file):
            place = files.locate(file.text, "")
            if not place.lower().endswith(".json"):
                raise Refusal("DPC110", "is no JSON file", "nested lists of counts, such as [[4, 2, 3], [4, 5]]")
            try:
                counts = json_content(files.content(place, limit=MAX_TREE_BYTES).decode("utf-8-sig"))
            except RepeatedKeyError as cause:
                message, _, way_out = str(cause).rpartition("; ")
                raise Refusal("DPC101", f"cannot be read as JSON: {message}", way_out) from None
            except RecursionError:
                raise Refusal("DPC111", "is nested too deeply", "a list for each level, and no deeper") from None
            except ValueError as cause:  # also bytes that are no UTF-8, and numbers without end
                raise Refusal("DPC110", f"cannot be read as JSON: {cause}") from None
            if isinstance(counts, dict):
                unknown = next((key for key in counts if key not in FILE_KEYS), None)
                if unknown is not None:
                    hint = f"it may say {' and '.join(FILE_KEYS)}"
                    raise Refusal("DPC101", f"has an unknown key `{unknown[:40]}`", hint)
                if "tree" not in counts:
                    raise Refusal("DPC103", "has no `tree`", 'write {"levels": ["user", "example"], "tree": [3, 5, 4]}')
                if counts.get("levels", list(names)) != list(names):
                    hint = "`data.levels` and the file must name the same levels in the same order"
                    raise Refusal("DPC107", f"is for other levels than {', '.join(names)}", hint)
                counts = counts["tree"]
    else:
        raise ConfigError([wrong_type_error(node, _TREE_SHAPE)])
    errors = []
    for fault in islice(faults(counts, names), MAX_FAULTS):
        at: Node = file or node
        for index in fault.at:
            at = at.items[index] if isinstance(at, Items) else at
        subject = f"`{file.text}`: tree{indexed(fault.at)}" if file else f"`{node.path}{indexed(fault.at)}`"
        mark = file.mark if file else at.anchor
        code = "DPC106" if fault.is_amount else "DPC102"
        errors.append(error(code, mark, f"{subject} must be {fault.text}", fault.hint))
    if errors:
        raise ConfigError(errors)
    return unchecked_tree(counts, names)


def _counts(node: Node) -> object:
    """Return an inline tree as nested lists of int; any other value becomes a text, which `faults` refuses."""
    if isinstance(node, Items):
        return [_counts(item) for item in node.items]
    if isinstance(node, Section):
        return "a mapping"
    number = scalars.value(node)
    return number.numerator if isinstance(number, Fraction) and number.denominator == 1 else node.text


# `mechanism.strategy`: words, coefficients, and matrices in NumPy or CSV files, of which every entry is checked.


_LARGEST, _SMALLEST = 1e100, 1e-100  # of entries: their squares are floats with all digits
_MAX_CSV_BYTES = 32 * 1024 * 1024  # about 1,300 rows of 17 digits; larger matrices are written as .npy
_FILE_HINT = "a lower triangular matrix, a row for every step, as *.npy (written by numpy.save) or *.csv"


def _strategy(node: Node, files: Files) -> "Strategy":
    """Return the matrix strategy that a word or a mapping states; ConfigError if it states none."""
    from dpcalc.mechanisms import matrix_factorization as kinds

    words: dict[str, Strategy] = {"identity": kinds.IDENTITY, "prefix-sum": kinds.PrefixSum(), "tree": kinds.Tree()}
    if isinstance(node, Scalar) and node.text in words:
        return words[node.text]
    match [key for key in node.entries if not key.startswith(USER_KEY)] if isinstance(node, Section) else []:
        case ["toeplitz"]:
            listed = entry(node, "toeplitz")
            if not isinstance(listed, Items):
                raise ConfigError([wrong_type_error(listed or node, "a list of coefficients such as [1, 0.5, 0.25]")])
            count, limit = len(listed.items), kinds.MAX_COEFFICIENTS
            if not 1 <= count <= limit:
                problem = f"must hold 1 to {limit:,} coefficients, got {count:,}"
                raise listed.config_error("DPC106", problem, "a longer list can be a matrix in a file")
            coefficients = []
            for item in listed.items:
                number = scalars.number_of(item)
                if number is None:
                    raise ConfigError([wrong_type_error(item, "a number")])
                if not (number == 0 or _SMALLEST <= abs(number) <= _LARGEST):
                    raise ConfigError([must_be("DPC106", item, "0, or from 1e-100 to 1e100 in size")])
                coefficients.append(float(number))
            if not coefficients[0]:
                problem = "is 0: such a strategy has no inverse"
                raise listed.items[0].config_error("DPC106", problem, "the first coefficient is the diagonal")
            return kinds.Toeplitz(coefficients=tuple(coefficients))
        case ["banded"]:
            stated, bands = _single_count(entry(node, "banded") or node, "bands")
            if bands > kinds.MAX_BANDS:
                raise stated.config_error("DPC106", f"must be at most {kinds.MAX_BANDS:,}, got {bands:,}")
            return kinds.banded_square_root(bands)
        case ["tree"]:
            return kinds.Tree(restart_every=_single_count(entry(node, "tree") or node, "restart_every")[1])
        case stated if "file" in stated and isinstance(node, Section):
            name = _file_name(node, "NumPy or CSV", others=("sha256",))
            with _errors_at(name):
                entries = _matrix(name.text, files)
            # Of the numbers, not of the file: the same matrix as .npy and .csv has one sum.
            digest = hashlib.sha256(f"{len(entries)}\n".encode() + entries.tobytes()).hexdigest()
            sum_node = node.entries.get("sha256")
            if sum_node and (not isinstance(sum_node, Scalar) or sum_node.text.lower() != digest):
                problem = f"is not that of the matrix in `{name.text}`, which is {digest}"
                raise sum_node.config_error("DPC110", problem, "restore the file, or state this sum if it is meant")
            return kinds.Matrix(name=name.text, digest=digest, entries=entries)
    raise ConfigError([wrong_type_error(node, kinds.STRATEGIES)])


def _single_count(node: Node, key: str) -> tuple[Node, int]:
    """Return the number >= 1 in `{key: number}` with its node; ConfigError for anything else, other keys included."""
    if not isinstance(node, Section):
        raise ConfigError([wrong_type_error(node, f"a mapping such as {{{key}: 8}}")])
    _refuse_other_keys(node, (key,), f"it takes `{key}`")
    stated = node.entries.get(key)
    if stated is None:
        raise ConfigError([missing_key_error(node, key, f"e.g. `{key}: 8`")])
    try:
        return stated, scalars.checked(COUNT, stated)
    except WrongValueError as cause:
        raise ConfigError([must_be(cause.code, stated, cause.expected)]) from None


def _matrix(name: str, files: Files) -> "Array":
    """Return the lower triangular matrix in a file; Refusal for another file, a wrong shape or a wrong entry.

    A .npy file is read without unpickling; a .csv file has no header, and its cells above the diagonal may be empty.
    """
    import numpy as np
    from numpy.lib import format as npy

    from dpcalc.mechanisms.matrix_factorization import MAX_SIDE

    limits = {".npy": 8 * MAX_SIDE**2 + 4096, ".csv": _MAX_CSV_BYTES}
    suffix, content = _content(name, files, limits, Refusal("DPC110", "is no NumPy or CSV file", _FILE_HINT))
    shape: tuple[object, ...]
    try:
        if suffix == ".csv":
            rows = [line.split(",") for line in content.decode("utf-8-sig").splitlines() if line.strip()]
            shape = len(rows), len(rows[0]) if rows else 0
        else:
            stream = io.BytesIO(content)
            read: Any = npy.read_array_header_1_0 if npy.read_magic(stream) == (1, 0) else npy.read_array_header_2_0
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of headers that Python 2 wrote
                shape, is_by_columns, dtype = read(stream)
    except Exception as cause:  # NumPy reads it with Python's own parser, which raises many exceptions
        problem = "is no UTF-8 text" if suffix == ".csv" else "is no NumPy file, or a damaged one"
        raise Refusal("DPC110", problem, _FILE_HINT) from cause
    if suffix == ".npy" and dtype.hasobject:
        raise Refusal("DPC110", "holds Python objects, which are not loaded", _FILE_HINT)
    if suffix == ".npy" and dtype.kind not in "iuf":
        raise Refusal("DPC110", f"holds {dtype}, not real numbers"[:80], _FILE_HINT)
    if len(shape) != 2 or shape[0] != shape[1] or type(shape[0]) is not int or shape[0] < 1:
        raise Refusal("DPC110", f"is not square: its shape is {shape}"[:80], _FILE_HINT)
    side = shape[0]
    if side > MAX_SIDE:
        problem = f"has {side:,} rows, and at most {MAX_SIDE:,} are read"
        raise Refusal("DPC110", problem, "state `toeplitz` or `banded`")
    if suffix == ".npy":
        # `numpy.load` would reserve the memory that the header asks for; here its shape is compared with the bytes.
        body = content[stream.tell() :]
        if len(body) != side * side * dtype.itemsize:
            raise Refusal("DPC110", "is shorter or longer than its header says", "write it again with numpy.save")
        numbers = np.frombuffer(body, dtype=dtype).reshape((side, side), order="F" if is_by_columns else "C")
        with np.errstate(over="ignore"):
            entries = np.ascontiguousarray(numbers, dtype=np.float64)
    else:
        entries = np.zeros((side, side))
        for row, cells in enumerate(rows, start=1):
            if len(cells) != side:
                raise Refusal("DPC110", f"has {len(cells)} cells in row {row}, and {side} rows", _FILE_HINT)
            for column, cell in enumerate(map(str.strip, cells), start=1):
                try:
                    if "_" in cell:  # Python reads 1_0 as ten, other readers of CSV do not
                        raise ValueError
                    entries[row - 1, column - 1] = float(cell) if cell or column <= row else 0.0
                except ValueError:
                    problem = f"row {row}, column {column} is no number: {cell[:40] or 'nothing'}"
                    raise Refusal("DPC110", problem, _FILE_HINT) from None
    sizes = np.abs(entries)
    # Every entry is checked, since the sensitivity of a wrong matrix would be computed without complaint.
    for is_wrong, problem, hint in (
        (~np.isfinite(entries), "is not finite", "a strategy holds finite numbers"),
        (sizes > _LARGEST, "is larger than 1e100", "scale the strategy: only the ratio of its entries counts"),
        (np.triu(entries, 1) != 0, "is not 0: a strategy is lower triangular", "noise may not depend on later steps"),
        (np.diag(~entries.any(axis=0)), "is 0 like all of its column, so that this step is never released", ""),
        (np.diag(np.diagonal(sizes) < _SMALLEST), "is 0: a strategy has an inverse", "the diagonal is not 0"),
    ):
        if is_wrong.any():
            row, column = divmod(int(is_wrong.argmax()), side)
            raise Refusal("DPC110", f"row {row + 1}, column {column + 1} {problem}", hint)
    return entries


# `mechanism.votes`: the file with the votes of teachers. Votes are private, so loading a config does not read them.


_VOTES_SUFFIXES = (".npy", ".csv", ".tsv")


def _votes_name(node: Node, files: Files) -> str:
    """Return the votes file's name as written, without opening it; ConfigError for no text, a wrong suffix or place."""
    if not isinstance(node, Scalar) or not isinstance(scalars.value(node), str):
        raise ConfigError([wrong_type_error(node, "the name of a file such as votes.npy")])
    with _errors_at(node):
        if not node.text.lower().endswith(_VOTES_SUFFIXES):
            hint = "a row for each query, a column for each label, the teachers that chose it"
            raise Refusal("DPC110", f"is no file *{', *'.join(_VOTES_SUFFIXES)}", hint)
        files.locate(node.text, "")
    return node.text


READERS: dict[str, Callable[[Node, Files], object]] = {
    "curve": _rdp_points,
    "strategy": _strategy,
    "votes": _votes_name,
}
"""How the keys of a mechanism that may name a file are read, of `votes` only the name."""
