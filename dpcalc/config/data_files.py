"""Data files that a config names, `{file: name}`: curves in CSV, trees of counts in JSON, and votes."""

import json
import posixpath
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import islice
from typing import Any

from dpcalc.config import scalars
from dpcalc.config.documents import Table
from dpcalc.config.files import Files, Refusal
from dpcalc.config.messages import missing_key_error, wrong_type_error
from dpcalc.config.source import MAX_BYTES, ConfigError, Diagnostic, Mark, Source, decode, error
from dpcalc.config.tree import USER_KEY, Items, Node, Scalar, Section, entry
from dpcalc.keys import Key
from dpcalc.sampling.trees import Fault, Tree, faults, indexed, unchecked_tree

MAX_FAULTS = 10  # shown of one data file


def named_file(node: Section, kind: str) -> tuple[Scalar | None, tuple[Diagnostic, ...]]:
    """Return (name in `{file: name}` as written, ()), or (None, the error) if it is missing or no text.

    Args:
        node: the mapping in the place of the data.
        kind: of the file in messages, "JSON".
    """
    name = node.entries.get("file")
    for key, value in node.entries.items():
        if key != "file" and not key.startswith(USER_KEY):
            message = f"unknown key `{key}` in `{node.path}`"
            return None, (error("DPC101", value.key or value.anchor, message, "it takes `file`, or is a list"),)
    if name is None:
        return None, (missing_key_error(node, "file"),)
    if not isinstance(name, Scalar) or not isinstance(scalars.value(name), str):
        return None, (wrong_type_error(name, f"the name of a {kind} file"),)
    return name, ()


# `mechanism.curve`: orders and divergences in the config itself or in a CSV file.


MAX_POINTS = 1000  # orders of a curve; published tables have about a hundred
HEADER = ("order", "epsilon")
_CURVE_SHAPE = "a list of [order, epsilon] such as [[2, 0.1], [4, 0.2]], or {file: curve.csv}"
_CSV_HINT = "a line `order,epsilon`, then for each order a line such as `2,0.1`"
_EVERY_ORDER_HINT = "what holds at every order is stated as `epsilon` beside `curve`"

Points = tuple[tuple[float, float], ...]
PointsResult = tuple[Points | None, tuple[Diagnostic, ...]]


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


def rdp_points(mechanism: Node | None, files: Files) -> PointsResult:
    """Return ((order, epsilon) pairs of a Renyi curve, ()), or (None, errors); (None, ()) without a curve.

    Args:
        mechanism: the section, or None.
        files: reader of data files.

    Returns:
        Pairs with increasing orders and nondecreasing epsilons, from the config or from a CSV file.
    """
    node = entry(mechanism, "curve")
    if isinstance(node, Items):
        rows = [_inline_row(item) for item in node.items]
        wrong = tuple(
            wrong_type_error(item, "[order, epsilon]") for item, row in zip(node.items, rows, strict=True) if not row
        )
        return (
            (None, wrong[:MAX_FAULTS])
            if wrong
            else _checked_points([row for row in rows if row], node.anchor, node.path)
        )
    if isinstance(node, Section):
        return _curve_from_file(node, files)
    return None, () if node is None else (wrong_type_error(node, _CURVE_SHAPE),)


def _inline_row(node: Node) -> tuple[_Cell, _Cell] | None:
    """Return (order, epsilon) of an entry of an inline curve, None if it is no list of two scalars."""
    if not isinstance(node, Items) or len(node.items) != len(HEADER):
        return None
    order, epsilon = (_inline_cell(item) for item in node.items)
    return (order, epsilon) if order and epsilon else None


def _inline_cell(node: Node) -> _Cell | None:
    """Return a scalar of an inline curve as a cell, None for a list or mapping."""
    if not isinstance(node, Scalar):
        return None
    return _Cell(number=scalars.number_of(node), text=node.text, name=f"`{node.path}`", mark=node.mark)


def _curve_from_file(node: Section, files: Files) -> PointsResult:
    """Return (points, ()) of a CSV file with the header `order,epsilon`, or (None, errors at its lines)."""
    name, wrong = named_file(node, "CSV")
    if name is None:
        return None, wrong
    try:
        source = _csv_source(name, files)
    except Refusal as cause:
        return None, (error(cause.code, name.mark, f"`{node.path}.file`: `{name.text}` {cause.message}", cause.hint),)
    except ConfigError as cause:
        return None, cause.diagnostics
    lines = [(number, line) for number, line in enumerate(source.lines, 1) if line.strip() and line.strip()[0] != "#"]
    delimiter = next((sign for sign in ";\t" if lines and sign in lines[0][1]), ",")
    rows = [_cells_of_line(source, number, line, delimiter) for number, line in lines]
    if not rows or tuple(cell.text.lower() for cell in rows[0]) != HEADER:
        mark = rows[0][0].mark if rows else Mark(source, 1, 1)
        return None, (error("DPC102", mark, "the first line must be `order,epsilon`", _CSV_HINT),)
    odd = [row for row in rows if len(row) != len(HEADER)]
    if odd:
        message = "a line must hold an order and an epsilon, got {} cells"
        return None, tuple(
            error("DPC102", row[0].mark, message.format(len(row)), _CSV_HINT) for row in odd[:MAX_FAULTS]
        )
    return _checked_points([(order, epsilon) for order, epsilon in rows[1:]], rows[0][0].mark, "the curve")


def _csv_source(name: Scalar, files: Files) -> Source:
    """Return the text of a CSV file under its name relative to the user's directory.

    Raises:
        Refusal: the file is outside the repository, is no CSV file, or cannot be read.
        ConfigError: the text cannot be decoded.
    """
    place = files.locate(name.text, "") if name.text.lower().endswith(".csv") else ""
    if not place.lower().endswith(".csv"):
        raise Refusal("DPC110", "is no CSV file", _CSV_HINT)
    path = posixpath.join(posixpath.dirname(name.mark.source.path), name.text)
    return decode(files.content(place, limit=MAX_BYTES), path)


def _cells_of_line(source: Source, number: int, line: str, delimiter: str) -> list[_Cell]:
    """Return the cells of one line, each at its column."""
    cells, start = [], 0
    for text, name in zip(line.split(delimiter), (*HEADER, *("cell",) * line.count(delimiter)), strict=False):
        word = text.strip()
        column = start + len(text) - len(text.lstrip()) + 1
        mark = Mark(source, number, column, max(1, len(word)))
        cells.append(_Cell(number=scalars.parse_number(word), text=word, name=f"`{name}`", mark=mark))
        start += len(text) + 1
    return cells


def _checked_points(rows: list[tuple[_Cell, _Cell]], mark: Mark, name: str) -> PointsResult:
    """Return (points, ()) of rows of (order, epsilon), or (None, the first MAX_FAULTS errors)."""
    if not 1 <= len(rows) <= MAX_POINTS:
        return None, (error("DPC106", mark, f"{name} must have 1 to {MAX_POINTS} orders, got {len(rows)}"),)
    wrong = tuple(islice(_point_errors(rows), MAX_FAULTS))
    points = tuple((float(order.number or 0), float(epsilon.number or 0)) for order, epsilon in rows)
    return (None, wrong) if wrong else (points, ())


def _point_errors(rows: list[tuple[_Cell, _Cell]]) -> Iterator[Diagnostic]:
    """Yield errors for cells that are no numbers, out of range, or not monotone."""
    previous: tuple[Fraction, Fraction] | None = None
    for order, epsilon in rows:
        is_valid = True
        for cell, lower_end in ((order, 1), (epsilon, 0)):
            if cell.number is None:
                hint = (
                    _EVERY_ORDER_HINT
                    if re.fullmatch(r"[-+.]*inf(inity)?", cell.text.lower())
                    else "a decimal number, e.g. 0.1"
                )
                yield error("DPC102", cell.mark, f"{cell.name} must be a number, got `{cell.text[:40]}`", hint)
            elif not (lower_end < cell.number or lower_end == cell.number == 0) or cell.number > 10**9:
                ends = "above 1 and at most 1e9" if lower_end else "from 0 to 1e9"
                yield error("DPC106", cell.mark, f"{cell.name} must be {ends}, got `{cell.text[:40]}`")
            else:
                continue
            is_valid = False
        if not is_valid or order.number is None or epsilon.number is None:
            continue
        if previous and float(order.number) <= float(previous[0]):
            yield error(
                "DPC106", order.mark, f"{order.name} must be above the order before it, got `{order.text[:40]}`"
            )
        elif previous and epsilon.number < previous[1]:
            message = f"{epsilon.name} must not be below that of the order before it, got `{epsilon.text[:40]}`"
            yield error("DPC106", epsilon.mark, message, "Renyi divergences never fall with their order")
        previous = order.number, epsilon.number


# `data.tree`: nested counts in the config itself or in a JSON file.


MAX_TREE_BYTES = 16 * 1024 * 1024  # of the JSON file: several million counts
FILE_KEYS = ("levels", "tree")
_TREE_SHAPE = "a list of counts nested by level such as [[4, 2, 3], [4, 5]], or {file: counts.json}"

TreeResult = tuple[Tree | None, tuple[Diagnostic, ...]]


def data_tree(root: Section, names: tuple[str, ...], files: Files) -> TreeResult:
    """Return (sizes of all units in `data.tree`, ()), or (None, errors); (None, ()) without a tree.

    Args:
        root: the file.
        names: names of the levels, outermost first; () if they are not known, which counts as no tree.
        files: reader of data files.
    """
    node = entry(entry(root, "data"), "tree") if names else None
    if isinstance(node, Items):
        return _tree_of_counts(_counts(node), names, lambda fault: _inline_fault_error(node, fault))
    if isinstance(node, Section):
        return _tree_from_file(node, names, files)
    return None, () if node is None else (wrong_type_error(node, _TREE_SHAPE),)


def _tree_of_counts(counts: object, names: tuple[str, ...], to_error: Callable[[Fault], Diagnostic]) -> TreeResult:
    """Return (tree, ()) of nested lists of counts, or (None, the first MAX_FAULTS errors)."""
    errors = tuple(to_error(fault) for fault in islice(faults(counts, names), MAX_FAULTS))
    return (None, errors) if errors else (unchecked_tree(counts, names), ())


def _counts(node: Node) -> object:
    """Return the nested lists of an inline tree; other values than integers become texts, an error later."""
    if isinstance(node, Items):
        return [_counts(item) for item in node.items]
    if isinstance(node, Section):
        return "a mapping"
    number = scalars.value(node)
    return number.numerator if isinstance(number, Fraction) and number.denominator == 1 else node.text


def _inline_fault_error(tree: Items, fault: Fault) -> Diagnostic:
    """Return the error for a fault in an inline tree, at its place in the config."""
    node: Node = tree
    for index in fault.at:
        node = node.items[index] if isinstance(node, Items) else node
    return _fault_error(fault, node.anchor, f"`{tree.path}{indexed(fault.at)}`")


def _fault_error(fault: Fault, mark: Mark, place: str) -> Diagnostic:
    """Return the error for a fault of a tree; `place` names it in the message."""
    return error("DPC106" if fault.is_amount else "DPC102", mark, f"{place} must be {fault.text}", fault.hint)


def _tree_from_file(node: Section, names: tuple[str, ...], files: Files) -> TreeResult:
    """Return (tree, ()) of a JSON file, or (None, errors at the name of the file)."""
    name, wrong = named_file(node, "JSON")
    if name is None:
        return None, wrong
    try:
        counts = _counts_for_levels(_json_content(name.text, files), names)
    except Refusal as cause:
        return None, (error(cause.code, name.mark, f"`{node.path}.file`: `{name.text}` {cause.message}", cause.hint),)
    return _tree_of_counts(
        counts, names, lambda fault: _fault_error(fault, name.mark, f"`{name.text}`: tree{indexed(fault.at)}")
    )


def _json_content(name: str, files: Files) -> object:
    """Return the parsed content of a JSON file.

    Raises:
        Refusal: the file is outside the repository, is no JSON file, or cannot be read.
    """
    place = files.locate(name, "")
    if not place.lower().endswith(".json"):
        raise Refusal("DPC110", "is no JSON file", "nested lists of counts, such as [[4, 2, 3], [4, 5]]")
    try:
        return json.loads(files.content(place, limit=MAX_TREE_BYTES).decode("utf-8-sig"), object_pairs_hook=Table)
    except RecursionError:
        raise Refusal("DPC111", "is nested too deeply", "a list for each level, and no deeper") from None
    except ValueError as cause:  # also bytes that are no UTF-8, and numbers without end
        raise Refusal("DPC110", f"cannot be read as JSON: {cause}") from None


def _counts_for_levels(content: object, names: tuple[str, ...]) -> object:
    """Return the nested counts of a parsed file; Refusal if it names other levels, or has unknown keys.

    Args:
        content: the parsed JSON: a list, or a mapping with `tree` and optionally `levels`.
        names: names of the config's levels, outermost first.

    Raises:
        Refusal: unknown or repeated keys, no `tree`, or other levels than those of the config.
    """
    if not isinstance(content, Table):
        return content
    for key in (*content.repeated, *(key for key in content if key not in FILE_KEYS)):
        raise Refusal("DPC101", f"has an unknown or repeated key `{key[:40]}`", f"it may say {' and '.join(FILE_KEYS)}")
    if "tree" not in content:
        raise Refusal("DPC103", "has no `tree`", 'write {"levels": ["user", "example"], "tree": [3, 5, 4]}')
    levels = content.get("levels", list(names))
    if levels != list(names):
        hint = "`data.levels` and the file must name the same levels in the same order"
        raise Refusal("DPC107", f"is for other levels than {', '.join(names)}", hint)
    return content["tree"]


# `mechanism.votes`: the file with the votes of teachers. Votes are private, so loading a config does not read them.


_VOTES_SUFFIXES = (".npy", ".csv", ".tsv")


def votes_name(mechanism: Node | None, files: Files) -> tuple[str, tuple[Diagnostic, ...]]:
    """Return (name of the file with the votes of teachers, ()), or ("", errors); ("", ()) without votes.

    Args:
        mechanism: the section, or None.
        files: reader of data files; the file is located, and not read.
    """
    node = entry(mechanism, "votes")
    if node is None:
        return "", ()
    if not isinstance(node, Scalar) or not isinstance(scalars.value(node), str):
        return "", (wrong_type_error(node, "the name of a file such as votes.npy"),)
    place = f"`{node.path}`: `{node.text}`"
    if not node.text.lower().endswith(_VOTES_SUFFIXES):
        hint = "a row for each query, a column for each label, the teachers that chose it"
        return "", (error("DPC110", node.mark, f"{place} is no file *{', *'.join(_VOTES_SUFFIXES)}", hint),)
    try:
        files.locate(node.text, "")
    except Refusal as cause:
        return "", (error(cause.code, node.mark, f"{place} {cause.message}", cause.hint),)
    return node.text, ()


# The data files of all mechanisms of a config; a file that several phases inherit is read once.


@dataclass(frozen=True)
class MechanismFiles:
    """The data files of one config's mechanisms, each curve read once.

    Attributes:
        files: reader of data files.
    """

    files: Files
    # By the identity of the node, which the config's tree keeps alive; phases that inherit it share the node.
    _curves: dict[int, PointsResult] = field(default_factory=dict)
    _strategies: dict[int, Any] = field(default_factory=dict)

    def read(self, keys: Mapping[str, Key], mechanism: Node | None) -> tuple[dict[str, Any], tuple[Diagnostic, ...]]:
        """Return (points of a `curve`, the `strategy`, name of the `votes`, as far as the section states them, errors).

        Args:
            keys: the keys that the mechanism's type takes.
            mechanism: its section, or None.
        """
        curve = entry(mechanism, "curve")
        if "curve" in keys and curve is not None:
            if id(curve) not in self._curves:
                self._curves[id(curve)] = rdp_points(mechanism, self.files)
            points, problems = self._curves[id(curve)]
            return {"curve": points}, problems
        matrix = entry(mechanism, "strategy")
        if "strategy" in keys and matrix is not None:
            if id(matrix) not in self._strategies:
                from dpcalc.config.strategies import strategy  # noqa: PLC0415  few configs have one

                self._strategies[id(matrix)] = strategy(matrix, self.files)
            value, problems = self._strategies[id(matrix)]
            return {"strategy": value}, problems
        if "votes" in keys:
            name, problems = votes_name(mechanism, self.files)
            return {"votes": name}, problems
        return {}, ()
