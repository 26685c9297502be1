"""`mechanism.strategy`: words, coefficients, and matrices in NumPy or CSV files, of which every entry is checked."""

import hashlib
import io
import warnings
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from dpcalc.config import scalars
from dpcalc.config.data_files import errors_at, file_name
from dpcalc.config.files import Files, Refusal
from dpcalc.config.messages import missing_key_error, wrong_type_error
from dpcalc.config.source import ConfigError, error
from dpcalc.config.tree import USER_KEY, Items, Node, Scalar, Section, entry
from dpcalc.keys import COUNT, WrongValueError

if TYPE_CHECKING:  # numpy waits until a config has a strategy
    import numpy as np
    from numpy.typing import NDArray

    from dpcalc.arrays import Array
    from dpcalc.mechanisms.matrix_factorization import Strategy

_LARGEST, _SMALLEST = 1e100, 1e-100  # of entries: their squares are floats with all digits
_MAX_CSV_BYTES = 32 * 1024 * 1024  # about 1,300 rows of 17 digits; larger matrices are written as .npy
_FILE_HINT = "a lower triangular matrix, a row for every step, as *.npy (written by numpy.save) or *.csv"


def strategy(node: Node, files: Files) -> "Strategy":
    """Return the matrix strategy that a word or a mapping states; ConfigError if it states none."""
    from dpcalc.mechanisms.matrix_factorization import STRATEGIES, Identity, PrefixSum, Tree

    words: dict[str, type[Strategy]] = {"identity": Identity, "prefix-sum": PrefixSum, "tree": Tree}
    if isinstance(node, Scalar) and node.text in words:
        return words[node.text]()
    if isinstance(node, Section):
        match [key for key in node.entries if not key.startswith(USER_KEY)]:
            case ["toeplitz"]:
                return _toeplitz(node.entries["toeplitz"])
            case ["banded"]:
                return _banded(node.entries["banded"])
            case ["tree"]:
                return Tree(restart_every=_single_count(node.entries["tree"], "restart_every"))
            case stated if "file" in stated:
                return _matrix(node, files)
    raise ConfigError([wrong_type_error(node, STRATEGIES)])


def _toeplitz(node: Node) -> "Strategy":
    """Return a Toeplitz strategy; ConfigError unless it has 1 to MAX_COEFFICIENTS valid coefficients."""
    from dpcalc.mechanisms.matrix_factorization import MAX_COEFFICIENTS, Toeplitz

    if not isinstance(node, Items):
        raise ConfigError([wrong_type_error(node, "a list of coefficients such as [1, 0.5, 0.25]")])
    if not 1 <= len(node.items) <= MAX_COEFFICIENTS:
        message = f"`{node.path}` must hold 1 to {MAX_COEFFICIENTS:,} coefficients, got {len(node.items):,}"
        raise ConfigError([error("DPC106", node.anchor, message, "a longer list can be a matrix in a file")])
    coefficients = tuple(map(_coefficient, node.items))
    if not coefficients[0]:
        message = f"`{node.items[0].path}` is 0: such a strategy has no inverse"
        raise ConfigError([error("DPC106", node.items[0].anchor, message, "the first coefficient is the diagonal")])
    return Toeplitz(coefficients=coefficients)


def _coefficient(node: Node) -> float:
    """Return a coefficient as a float; ConfigError unless it is 0, or from 1e-100 to 1e100 in magnitude."""
    number = scalars.number_of(node)
    if number is None:
        raise ConfigError([wrong_type_error(node, "a number")])
    if not (number == 0 or _SMALLEST <= abs(number) <= _LARGEST):
        message = f"`{node.path}` must be 0, or from 1e-100 to 1e100 in size, got {scalars.describe(node)}"
        raise ConfigError([error("DPC106", node.anchor, message)])
    return float(number)


def _banded(node: Node) -> "Strategy":
    """Return the banded square root of `{bands: number}`; ConfigError unless it has 1 to MAX_BANDS bands."""
    from dpcalc.mechanisms.matrix_factorization import MAX_BANDS, BandedSquareRoot

    bands = _single_count(node, "bands")
    if bands > MAX_BANDS:
        mark = (entry(node, "bands") or node).anchor
        raise ConfigError([error("DPC106", mark, f"`{node.path}.bands` must be at most {MAX_BANDS:,}, got {bands:,}")])
    return BandedSquareRoot(band_count=bands)


def _single_count(node: Node, key: str) -> int:
    """Return the whole number >= 1 in `{key: number}`; raise ConfigError for anything else, other keys included."""
    if not isinstance(node, Section):
        raise ConfigError([wrong_type_error(node, f"a mapping such as {{{key}: 8}}")])
    for name, value in node.entries.items():
        if name != key and not name.startswith(USER_KEY):
            message = f"unknown key `{name}` in `{node.path}`"
            raise ConfigError([error("DPC101", value.key or value.anchor, message, f"it takes `{key}`")])
    stated = node.entries.get(key)
    if stated is None:
        raise ConfigError([missing_key_error(node, key, f"e.g. `{key}: 8`")])
    try:
        return COUNT.check(scalars.value(stated) if isinstance(stated, Scalar) else stated)
    except WrongValueError as cause:
        message = f"`{stated.path}` must be {cause.expected}, got {scalars.describe(stated)}"
        raise ConfigError([error(cause.code, stated.anchor, message)]) from None


# Matrices in files.


def _matrix(node: Section, files: Files) -> "Strategy":
    """Return the strategy in a matrix file; ConfigError if its entries, or the `sha256` stated of them, are wrong."""
    from dpcalc.mechanisms.matrix_factorization import Matrix

    name = file_name(node, "NumPy or CSV", others=("sha256",))
    with errors_at(name):
        entries = _entries(name.text, files)
        _refuse_wrong_entries(entries)
    # Of the numbers, not of the file: the same matrix as .npy and .csv has one sum.
    digest = hashlib.sha256(f"{len(entries)}\n".encode() + entries.tobytes()).hexdigest()
    _refuse_other_digest(node.entries.get("sha256"), digest, name.text)
    return Matrix(name=name.text, digest=digest, entries=entries)


def _refuse_other_digest(stated: Node | None, digest: str, name: str) -> None:
    """Raise ConfigError (DPC110) if the stated `sha256` is not the digest of the matrix."""
    if stated is not None and (not isinstance(stated, Scalar) or stated.text.lower() != digest):
        message = f"`{stated.path}` is not that of the matrix in `{name}`, which is {digest}"
        hint = "restore the file, or state this sum if it is meant"
        raise ConfigError([error("DPC110", stated.anchor, message, hint)])


def _entries(name: str, files: Files) -> "Array":
    """Return the square matrix in a .npy or .csv file, entries unchecked; Refusal for another file or shape."""
    from dpcalc.mechanisms.strategies import MAX_SIDE

    place = files.locate(name, "") if name.lower().endswith((".npy", ".csv")) else ""
    if place.lower().endswith(".npy"):
        return _npy_entries(files.content(place, limit=8 * MAX_SIDE**2 + 4096))
    if place.lower().endswith(".csv"):
        return _csv_entries(files.content(place, limit=_MAX_CSV_BYTES))
    raise Refusal("DPC110", "is no NumPy or CSV file", _FILE_HINT)


def _npy_entries(content: bytes) -> "Array":
    """Return the square matrix in .npy bytes, without unpickling; Refusal if damaged or not of numbers."""
    import numpy as np

    stream = io.BytesIO(content)
    shape, is_by_columns, dtype = _npy_header(stream)
    side = _side(shape)
    body = content[stream.tell() :]
    if len(body) != side * side * dtype.itemsize:
        raise Refusal("DPC110", "is shorter or longer than its header says", "write it again with numpy.save")
    # `numpy.load` would reserve the memory that the header asks for; here its shape was compared with the bytes.
    numbers = np.frombuffer(body, dtype=dtype).reshape(shape, order="F" if is_by_columns else "C")
    with np.errstate(over="ignore"):
        return np.ascontiguousarray(numbers, dtype=np.float64)


def _npy_header(stream: io.BytesIO) -> tuple[Any, bool, Any]:
    """Return (shape, whether it is stored by columns, dtype) of a .npy stream; Refusal if not of real numbers."""
    from numpy.lib import format as npy

    try:
        read: Any = npy.read_array_header_1_0 if npy.read_magic(stream) == (1, 0) else npy.read_array_header_2_0
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of headers that Python 2 wrote
            shape, is_by_columns, dtype = read(stream)
    except Exception as cause:  # NumPy reads it with Python's own parser, which raises many exceptions
        raise Refusal("DPC110", "is no NumPy file, or a damaged one", _FILE_HINT) from cause
    if dtype.hasobject:
        raise Refusal("DPC110", "holds Python objects, which are not loaded", _FILE_HINT)
    if dtype.kind not in "iuf":
        raise Refusal("DPC110", f"holds {dtype}, not real numbers"[:80], _FILE_HINT)
    return shape, is_by_columns, dtype


def _side(shape: tuple[object, ...]) -> int:
    """Return the side of a square array shape; Refusal for any other shape or above MAX_SIDE."""
    from dpcalc.mechanisms.strategies import MAX_SIDE

    if len(shape) != 2 or shape[0] != shape[1] or type(shape[0]) is not int or shape[0] < 1:
        raise Refusal("DPC110", f"is not square: its shape is {shape}"[:80], _FILE_HINT)
    if shape[0] > MAX_SIDE:
        problem = f"has {shape[0]:,} rows, and at most {MAX_SIDE:,} are read"
        raise Refusal("DPC110", problem, "state `toeplitz` or `banded`")
    return shape[0]


def _csv_entries(content: bytes) -> "Array":
    """Return the square matrix in a CSV file without a header; Refusal for another shape, text or cell."""
    import numpy as np

    rows = _csv_rows(content)
    side = _side((len(rows), len(rows[0]) if rows else 0))
    entries = np.zeros((side, side))
    for number, cells in enumerate(rows, start=1):
        if len(cells) != side:
            raise Refusal("DPC110", f"has {len(cells)} cells in row {number}, and {side} rows", _FILE_HINT)
        for column, cell in enumerate(cells, start=1):
            entries[number - 1, column - 1] = _cell_number(cell, number, column)
    return entries


def _csv_rows(content: bytes) -> list[list[str]]:
    """Return the cells of each row of a CSV file without its blank lines; Refusal if it is not UTF-8."""
    try:
        lines = content.decode("utf-8-sig").splitlines()
    except UnicodeDecodeError:
        raise Refusal("DPC110", "is no UTF-8 text", _FILE_HINT) from None
    return [line.split(",") for line in lines if line.strip()]


def _cell_number(cell: str, row: int, column: int) -> float:
    """Return the number in a CSV cell, 0 for an empty one above the diagonal; Refusal for other texts."""
    word = cell.strip()
    if not word and column > row:
        return 0.0
    with suppress(ValueError):
        if "_" not in word:  # Python reads 1_0 as ten, other readers of CSV do not
            return float(word)
    raise Refusal("DPC110", f"row {row}, column {column} is no number: {word[:40] or 'nothing'}", _FILE_HINT)


def _refuse_wrong_entries(entries: "Array") -> None:
    """Raise Refusal for an entry that is not finite, too large or above the diagonal, or a diagonal one that is 0."""
    import numpy as np

    # Every entry is checked, since the sensitivity of a wrong matrix would be computed without complaint.
    _refuse_entry(~np.isfinite(entries), "is not finite", "a strategy holds finite numbers")
    too_large = np.abs(entries) > _LARGEST
    _refuse_entry(too_large, "is larger than 1e100", "scale the strategy: only the ratio of its entries counts")
    above = np.triu(entries, 1) != 0
    _refuse_entry(above, "is not 0: a strategy is lower triangular", "noise may not depend on later steps")
    zero_column = np.diag(~entries.any(axis=0))
    _refuse_entry(zero_column, "is 0 like all of its column, so that this step is never released", "")
    zero_diagonal = np.diag(np.abs(np.diagonal(entries)) < _SMALLEST)
    _refuse_entry(zero_diagonal, "is 0: a strategy has an inverse", "the diagonal is not 0")


def _refuse_entry(is_wrong: "NDArray[np.bool_]", problem: str, hint: str) -> None:
    """Raise Refusal (DPC110) with the row and column, from 1, of the first wrong entry, if there is one."""
    if is_wrong.any():
        row, column = divmod(int(is_wrong.argmax()), len(is_wrong))
        raise Refusal("DPC110", f"row {row + 1}, column {column + 1} {problem}", hint)
