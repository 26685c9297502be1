"""Data files that a config names, `{file: name}`: curves in CSV, trees of counts in JSON, and votes."""

import posixpath
import re
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import field
from fractions import Fraction
from itertools import islice
from typing import Any

from dpcalc.config import scalars
from dpcalc.config.files import Files, Refusal
from dpcalc.config.json_text import RepeatedKeyError, json_content
from dpcalc.config.messages import missing_key_error, wrong_type_error
from dpcalc.config.source import MAX_BYTES, ConfigError, Diagnostic, Mark, Source, decode, error
from dpcalc.config.tree import USER_KEY, Items, Node, Scalar, Section, entry
from dpcalc.records import dataclass
from dpcalc.sampling.trees import Fault, Tree, faults, indexed, unchecked_tree

MAX_FAULTS = 10  # shown of one data file


def file_name(node: Section, kind: str, *, others: Collection[str] = ()) -> Scalar:
    """Return the file name in `{file: name}`; ConfigError if it is missing or no text, or for an unknown key."""
    name = node.entries.get("file")
    for key, value in node.entries.items():
        if key not in ("file", *others) and not key.startswith(USER_KEY):
            message = f"unknown key `{key}` in `{node.path}`"
            hint = f"it takes `file`, {'or is a list' if not others else ' and '.join(f'`{x}`' for x in others)}"
            raise ConfigError([error("DPC101", value.key or value.anchor, message, hint)])
    if name is None:
        raise ConfigError([missing_key_error(node, "file")])
    if not isinstance(name, Scalar) or not isinstance(scalars.value(name), str):
        raise ConfigError([wrong_type_error(name, f"the name of a {kind} file")])
    return name


@contextmanager
def errors_at(name: Scalar) -> Iterator[None]:
    """Context manager that turns a Refusal of a file into a ConfigError at the place of its name."""
    try:
        yield
    except Refusal as cause:
        message = f"`{name.path}`: `{name.text}` {cause.message}"
        raise ConfigError([error(cause.code, name.mark, message, cause.hint)]) from None


# `mechanism.curve`: orders and divergences in the config itself or in a CSV file.


MAX_POINTS = 1000  # orders of a curve; published tables have about a hundred
HEADER = ("order", "epsilon")
_CURVE_SHAPE = "a list of [order, epsilon] such as [[2, 0.1], [4, 0.2]], or {file: curve.csv}"
_CSV_HINT = "a line `order,epsilon`, then for each order a line such as `2,0.1`"
_EVERY_ORDER_HINT = "what holds at every order is stated as `epsilon` beside `curve`"

Points = tuple[tuple[float, float], ...]


@dataclass(frozen=True, kw_only=True)
class _Cell:
    """A number of a curve with its place.

    Attributes:
        number: exact value, None if the text is no number.
        text: as written.
        name: name in messages.
        mark: its place.
    """

    number: Fraction | None
    text: str
    name: str
    mark: Mark


def _rdp_points(node: Node, files: Files) -> Points:
    """Return the (order, epsilon) pairs of a `curve`, given inline or as `{file: CSV}`; ConfigError for wrong ones."""
    if isinstance(node, Section):
        return _curve_from_file(file_name(node, "CSV"), files)
    if isinstance(node, Items):
        return _inline_points(node)
    raise ConfigError([wrong_type_error(node, _CURVE_SHAPE)])


def _inline_points(curve: Items) -> Points:
    """Return the points of a list of [order, epsilon]; ConfigError for the first MAX_FAULTS items that are wrong."""
    rows = [_inline_row(item) for item in curve.items]
    wrong = [item for item, row in zip(curve.items, rows, strict=True) if row is None]
    if wrong:
        raise ConfigError(wrong_type_error(item, "[order, epsilon]") for item in wrong[:MAX_FAULTS])
    return _checked_points([row for row in rows if row], curve.anchor, curve.path)


def _inline_row(node: Node) -> tuple[_Cell, _Cell] | None:
    """Return the cells of `[order, epsilon]` in an inline curve; None if it is no list of two scalars."""
    if not isinstance(node, Items):
        return None
    cells = [
        _Cell(number=scalars.number_of(item), text=item.text, name=f"`{item.path}`", mark=item.mark)
        for item in node.items
        if isinstance(item, Scalar)
    ]
    return (cells[0], cells[1]) if len(cells) == len(node.items) == len(HEADER) else None


def _curve_from_file(name: Scalar, files: Files) -> Points:
    """Return the points of a CSV file with a header; ConfigError at `name` if unreadable, else at the wrong line."""
    with errors_at(name):
        source = _csv_source(name, files)
    rows = _csv_rows(source)
    _refuse_wrong_columns(rows, source)
    return _checked_points([(order, epsilon) for order, epsilon in rows[1:]], rows[0][0].mark, "the curve")


def _csv_rows(source: Source) -> list[list[_Cell]]:
    """Return the cells of each line of a CSV file, without blank lines and comments.

    Cells are separated by the `;` or tab of the first line, else by commas.
    """
    lines = [(number, line) for number, line in enumerate(source.lines, 1) if line.strip() and line.strip()[0] != "#"]
    # Spreadsheets in many languages write `;`, since their decimal point is a comma.
    delimiter = next((sign for sign in ";\t" if lines and sign in lines[0][1]), ",")
    return [_cells_of_line(source, number, line, delimiter) for number, line in lines]


def _refuse_wrong_columns(rows: list[list[_Cell]], source: Source) -> None:
    """Raise ConfigError (DPC102) unless the first row is `order,epsilon` and every other one has two cells."""
    if not rows or tuple(cell.text.lower() for cell in rows[0]) != HEADER:
        mark = rows[0][0].mark if rows else Mark(source, 1, 1)
        raise ConfigError([error("DPC102", mark, "the first line must be `order,epsilon`", _CSV_HINT)])
    odd = [row for row in rows if len(row) != len(HEADER)]
    if odd:
        message = "a line must hold an order and an epsilon, got {} cells"
        raise ConfigError(error("DPC102", row[0].mark, message.format(len(row)), _CSV_HINT) for row in odd[:MAX_FAULTS])


def _csv_source(name: Scalar, files: Files) -> Source:
    """Return the text of a CSV file; Refusal if it does not end in `.csv`, is missing or outside the repository."""
    place = files.locate(name.text, "") if name.text.lower().endswith(".csv") else ""
    if not place.lower().endswith(".csv"):
        raise Refusal("DPC110", "is no CSV file", _CSV_HINT)
    path = posixpath.join(posixpath.dirname(name.mark.source.path), name.text)
    return decode(files.content(place, limit=MAX_BYTES), path)


def _cells_of_line(source: Source, line_number: int, line: str, delimiter: str) -> list[_Cell]:
    """Return the cells of a CSV line, stripped, each with its name, place and number (None if it is none)."""
    cells, start = [], 0
    # Cells are split by hand: a CSV reader does not tell the columns at which errors point, and no cell has quotes.
    for text, name in zip(line.split(delimiter), (*HEADER, *("cell",) * line.count(delimiter)), strict=False):
        word = text.strip()
        column = start + len(text) - len(text.lstrip()) + 1
        mark = Mark(source, line_number, column, max(1, len(word)))
        cells.append(_Cell(number=scalars.parse_number(word), text=word, name=f"`{name}`", mark=mark))
        start += len(text) + 1
    return cells


def _checked_points(rows: list[tuple[_Cell, _Cell]], mark: Mark, name: str) -> Points:
    """Return (order, epsilon) cells as floats; ConfigError for wrong cells or, at `mark`, too few or many rows."""
    if not 1 <= len(rows) <= MAX_POINTS:
        raise ConfigError([error("DPC106", mark, f"{name} must have 1 to {MAX_POINTS} orders, got {len(rows)}")])
    wrong = tuple(islice(_point_errors(rows), MAX_FAULTS))
    if wrong:
        raise ConfigError(wrong)
    return tuple((float(order.number or 0), float(epsilon.number or 0)) for order, epsilon in rows)


def _point_errors(rows: list[tuple[_Cell, _Cell]]) -> Iterator[Diagnostic]:
    """Yield the errors of wrong cells, and of points that may not follow the point before them."""
    previous: tuple[Fraction, Fraction] | None = None
    for order, epsilon in rows:
        wrong = [each for each in (_cell_error(order, is_order=True), _cell_error(epsilon, is_order=False)) if each]
        yield from wrong
        if wrong or order.number is None or epsilon.number is None:
            continue
        misplaced = _sequence_error(previous, order, epsilon) if previous else None
        if misplaced:
            yield misplaced
        previous = order.number, epsilon.number


def _cell_error(cell: _Cell, *, is_order: bool) -> Diagnostic | None:
    """Return the error of a cell that is no number, no order in (1, 1e9] or no epsilon in [0, 1e9]; None for others."""
    if cell.number is None:
        return _no_number_error(cell)
    if (cell.number > 1 if is_order else cell.number >= 0) and cell.number <= 10**9:
        return None
    ends = "above 1 and at most 1e9" if is_order else "from 0 to 1e9"
    return error("DPC106", cell.mark, f"{cell.name} must be {ends}, got `{cell.text[:40]}`")


def _no_number_error(cell: _Cell) -> Diagnostic:
    """Return the error (DPC102) of a cell that is no number, with a hint at the key `epsilon` if it is infinite."""
    is_infinite = re.fullmatch(r"[-+.]*inf(inity)?", cell.text.lower())
    hint = _EVERY_ORDER_HINT if is_infinite else "a decimal number, e.g. 0.1"
    return error("DPC102", cell.mark, f"{cell.name} must be a number, got `{cell.text[:40]}`", hint)


def _sequence_error(previous: tuple[Fraction, Fraction], order: _Cell, epsilon: _Cell) -> Diagnostic | None:
    """Return the error (DPC106) of a point whose order does not rise or whose epsilon falls; else None."""
    # Orders are compared as floats, which the bounds use: two that round to one float are one order.
    if float(order.number or 0) <= float(previous[0]):
        message = f"{order.name} must be above the order before it, got `{order.text[:40]}`"
        return error("DPC106", order.mark, message)
    if (epsilon.number or 0) < previous[1]:
        message = f"{epsilon.name} must not be below that of the order before it, got `{epsilon.text[:40]}`"
        return error("DPC106", epsilon.mark, message, "Renyi divergences never fall with their order")
    return None


# `data.tree`: nested counts in the config itself or in a JSON file.


MAX_TREE_BYTES = 16 * 1024 * 1024  # of the JSON file: several million counts
FILE_KEYS = ("levels", "tree")
_TREE_SHAPE = "a list of counts nested by level such as [[4, 2, 3], [4, 5]], or {file: counts.json}"


def data_tree(node: Node, names: tuple[str, ...], files: Files) -> Tree:
    """Return the sizes of all units of a `tree`, given inline or as a JSON file; ConfigError with the first 10
    faults."""
    if isinstance(node, Items):
        return _tree_of_counts(_counts(node), names, lambda fault: _inline_fault_error(node, fault))
    if isinstance(node, Section):
        return _tree_from_file(file_name(node, "JSON"), names, files)
    raise ConfigError([wrong_type_error(node, _TREE_SHAPE)])


def _tree_of_counts(counts: object, names: tuple[str, ...], to_error: Callable[[Fault], Diagnostic]) -> Tree:
    """Return the tree of nested lists of counts; raise ConfigError with the errors of the first MAX_FAULTS faults."""
    errors = [to_error(fault) for fault in islice(faults(counts, names), MAX_FAULTS)]
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


def _inline_fault_error(tree: Items, fault: Fault) -> Diagnostic:
    """Return the error for a fault in an inline tree, at the value that is wrong."""
    node: Node = tree
    for index in fault.at:
        node = node.items[index] if isinstance(node, Items) else node
    return _fault_error(fault, node.anchor, f"`{tree.path}{indexed(fault.at)}`")


def _fault_error(fault: Fault, mark: Mark, place: str) -> Diagnostic:
    """Return a fault of a tree as an error at `mark`; `place` is the subject of its message."""
    return error("DPC106" if fault.is_amount else "DPC102", mark, f"{place} must be {fault.text}", fault.hint)


def _tree_from_file(name: Scalar, names: tuple[str, ...], files: Files) -> Tree:
    """Return the tree in a JSON file; ConfigError for a wrong one, always placed at the file's name in the config."""
    with errors_at(name):
        counts = _counts_for_levels(_json_content(name.text, files), names)
    return _tree_of_counts(
        counts, names, lambda fault: _fault_error(fault, name.mark, f"`{name.text}`: tree{indexed(fault.at)}")
    )


def _json_content(name: str, files: Files) -> object:
    """Return the parsed content of a JSON file, Refusal if it cannot be read, or is no .json."""
    place = files.locate(name, "")
    if not place.lower().endswith(".json"):
        raise Refusal("DPC110", "is no JSON file", "nested lists of counts, such as [[4, 2, 3], [4, 5]]")
    try:
        return json_content(files.content(place, limit=MAX_TREE_BYTES).decode("utf-8-sig"))
    except RepeatedKeyError as cause:
        message, _, way_out = str(cause).rpartition("; ")
        raise Refusal("DPC101", f"cannot be read as JSON: {message}", way_out) from None
    except RecursionError:
        raise Refusal("DPC111", "is nested too deeply", "a list for each level, and no deeper") from None
    except ValueError as cause:  # also bytes that are no UTF-8, and numbers without end
        raise Refusal("DPC110", f"cannot be read as JSON: {cause}") from None


def _counts_for_levels(content: object, names: tuple[str, ...]) -> object:
    """Return the counts in parsed JSON, which an object has under `tree`; Refusal for wrong keys or levels."""
    if not isinstance(content, dict):
        return content
    _refuse_wrong_object(content, names)
    return content["tree"]


def _refuse_wrong_object(content: dict[str, object], names: tuple[str, ...]) -> None:
    """Raise Refusal for an object with unknown keys, without `tree`, or with `levels` unlike `names`."""
    for key in (key for key in content if key not in FILE_KEYS):
        raise Refusal("DPC101", f"has an unknown key `{key[:40]}`", f"it may say {' and '.join(FILE_KEYS)}")
    if "tree" not in content:
        raise Refusal("DPC103", "has no `tree`", 'write {"levels": ["user", "example"], "tree": [3, 5, 4]}')
    levels = content.get("levels", list(names))
    if levels != list(names):
        hint = "`data.levels` and the file must name the same levels in the same order"
        raise Refusal("DPC107", f"is for other levels than {', '.join(names)}", hint)


# `mechanism.votes`: the file with the votes of teachers. Votes are private, so loading a config does not read them.


_VOTES_SUFFIXES = (".npy", ".csv", ".tsv")


def _votes_name(node: Node, files: Files) -> str:
    """Return the votes file's name as written, without opening it; ConfigError for no text, a wrong suffix or place."""
    if not isinstance(node, Scalar) or not isinstance(scalars.value(node), str):
        raise ConfigError([wrong_type_error(node, "the name of a file such as votes.npy")])
    with errors_at(node):
        if not node.text.lower().endswith(_VOTES_SUFFIXES):
            hint = "a row for each query, a column for each label, the teachers that chose it"
            raise Refusal("DPC110", f"is no file *{', *'.join(_VOTES_SUFFIXES)}", hint)
        files.locate(node.text, "")
    return node.text


# The data files of all mechanisms of a config.


def _strategy(node: Node, files: Files) -> object:
    """Return the Strategy that a `strategy` value states, by `strategies.strategy`, which is imported on first use."""
    from dpcalc.config.strategies import strategy

    return strategy(node, files)


_READERS: dict[str, Callable[[Node, Files], object]] = {
    "curve": _rdp_points,
    "strategy": _strategy,
    "votes": _votes_name,
}


@dataclass(frozen=True)
class MechanismFiles:
    """Reader of the data of one config's mechanisms; data that several phases inherit are read once.

    Attributes:
        files: reader of data files.
    """

    files: Files
    # By the identity of the node, which the config's tree keeps alive; phases that inherit it share the node. Errors
    # are kept too: a thousand phases that inherit a wrong file must not read it a thousand times.
    _read: dict[int, object] = field(default_factory=dict)

    def read(self, keys: Collection[str], mechanism: Node) -> dict[str, Any]:
        """Read what a mechanism states as `curve`, `strategy` and `votes` (the name only); ConfigError for a
        wrong one."""
        stated = {key: entry(mechanism, key) for key in _READERS if key in keys}
        return {key: self._content(node, _READERS[key]) for key, node in stated.items() if node is not None}

    def _content(self, node: Node, reader: Callable[[Node, Files], object]) -> object:
        """Return what a reader makes of a node, which is read once; its ConfigError is raised each time."""
        if id(node) not in self._read:
            try:
                self._read[id(node)] = reader(node, self.files)
            except ConfigError as cause:
                self._read[id(node)] = cause
        content = self._read[id(node)]
        if isinstance(content, ConfigError):
            raise content
        return content
