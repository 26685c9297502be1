"""`mechanism.curve`: orders and divergences in the config itself or in a CSV file beside it."""

import posixpath
import re
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import islice

from dpcalc.config import scalars
from dpcalc.config.diagnostics import ConfigError, Diagnostic
from dpcalc.config.messages import unexpected
from dpcalc.config.named_files import MAX_FAULTS, named_file
from dpcalc.config.nodes import Items, Node, Scalar, Section, entry
from dpcalc.config.repository import Files, Refusal
from dpcalc.config.source import MAX_BYTES, Mark, Source, decode, error

MAX_POINTS = 1000
HEADER = ("order", "epsilon")
_SHAPE = "a list of [order, epsilon] such as [[2, 0.1], [4, 0.2]], or {file: curve.csv}"
_CSV = "a line `order,epsilon`, then for each order a line such as `2,0.1`"
_EVERY = "what holds at every order is stated as `epsilon` beside `curve`"

Points = tuple[tuple[float, float], ...]
Found = tuple[Points | None, tuple[Diagnostic, ...]]


@dataclass(frozen=True, kw_only=True)
class _Cell:
    """A number where it is written.

    Attributes:
        number: None where it is none.
        text: as written.
        name: what a message calls it.
        mark: where it is.
    """

    number: Fraction | None
    text: str
    name: str
    mark: Mark


def rdp_points(mechanism: Node | None, files: Files) -> Found:
    """The curve of a mechanism.

    Args:
        mechanism: its section.
        files: where a curve of its own file is.

    Returns:
        (order, epsilon) in rising order, or None and every error; None and no error where there is no curve.
    """
    node = entry(mechanism, "curve")
    if isinstance(node, Items):
        rows = [_row(item) for item in node.items]
        wrong = tuple(
            unexpected(item, "[order, epsilon]") for item, row in zip(node.items, rows, strict=True) if not row
        )
        return (None, wrong[:MAX_FAULTS]) if wrong else _checked([row for row in rows if row], node.anchor, node.path)
    if isinstance(node, Section):
        return _of_file(node, files)
    return None, () if node is None else (unexpected(node, _SHAPE),)


def _row(node: Node) -> tuple[_Cell, _Cell] | None:
    """One entry of an inline curve."""
    if not isinstance(node, Items) or len(node.items) != len(HEADER):
        return None
    order, epsilon = (_word(item) for item in node.items)
    return (order, epsilon) if order and epsilon else None


def _word(node: Node) -> _Cell | None:
    """One word of an inline curve."""
    if not isinstance(node, Scalar):
        return None
    found = scalars.value(node)
    number = found if isinstance(found, Fraction) else None
    return _Cell(number=number, text=node.text, name=f"`{node.path}`", mark=node.mark)


def _of_file(node: Section, files: Files) -> Found:
    """The curve in a file."""
    name, wrong = named_file(node, "CSV")
    if name is None:
        return None, wrong
    try:
        source = _source(name, files)
    except Refusal as cause:
        return None, (error(cause.code, name.mark, f"`{node.path}.file`: `{name.text}` {cause.message}", cause.hint),)
    except ConfigError as cause:
        return None, cause.diagnostics
    lines = [(number, line) for number, line in enumerate(source.lines, 1) if line.strip() and line.strip()[0] != "#"]
    delimiter = next((one for one in ";\t" if lines and one in lines[0][1]), ",")
    rows = [_cells(source, number, line, delimiter) for number, line in lines]
    if not rows or tuple(cell.text.lower() for cell in rows[0]) != HEADER:
        mark = rows[0][0].mark if rows else Mark(source, 1, 1)
        return None, (error("DPC102", mark, "the first line must be `order,epsilon`", _CSV),)
    odd = [row for row in rows if len(row) != len(HEADER)]
    if odd:
        message = "a line must hold an order and an epsilon, got {} cells"
        return None, tuple(error("DPC102", row[0].mark, message.format(len(row)), _CSV) for row in odd[:MAX_FAULTS])
    return _checked([(order, epsilon) for order, epsilon in rows[1:]], rows[0][0].mark, "the curve")


def _source(name: Scalar, files: Files) -> Source:
    """A CSV file, called as seen from where the config is called what it is."""
    place = files.locate(name.text, "") if name.text.lower().endswith(".csv") else ""
    if not place.lower().endswith(".csv"):
        raise Refusal("DPC110", "is no CSV file", _CSV)
    path = posixpath.join(posixpath.dirname(name.mark.source.path), name.text)
    return decode(files.content(place, limit=MAX_BYTES), path)


def _cells(source: Source, number: int, line: str, delimiter: str) -> list[_Cell]:
    """The cells of one line."""
    found, start = [], 0
    for text, name in zip(line.split(delimiter), (*HEADER, *("cell",) * line.count(delimiter)), strict=False):
        word = text.strip()
        column = start + len(text) - len(text.lstrip()) + 1
        mark = Mark(source, number, column, max(1, len(word)))
        found.append(_Cell(number=scalars.exact(word), text=word, name=f"`{name}`", mark=mark))
        start += len(text) + 1
    return found


def _checked(rows: list[tuple[_Cell, _Cell]], mark: Mark, name: str) -> Found:
    """The points of a curve, or the first things that are wrong with it."""
    if not 1 <= len(rows) <= MAX_POINTS:
        return None, (error("DPC106", mark, f"{name} must have 1 to {MAX_POINTS} orders, got {len(rows)}"),)
    wrong = tuple(islice(_faults(rows), MAX_FAULTS))
    points = tuple((float(order.number or 0), float(epsilon.number or 0)) for order, epsilon in rows)
    return (None, wrong) if wrong else (points, ())


def _faults(rows: list[tuple[_Cell, _Cell]]) -> Iterator[Diagnostic]:
    """What is wrong with the numbers of a curve."""
    above: tuple[Fraction, Fraction] | None = None
    for order, epsilon in rows:
        known = True
        for cell, least in ((order, 1), (epsilon, 0)):
            if cell.number is None:
                hint = _EVERY if re.fullmatch(r"[-+.]*inf(inity)?", cell.text.lower()) else "a decimal number, e.g. 0.1"
                yield error("DPC102", cell.mark, f"{cell.name} must be a number, got `{cell.text[:40]}`", hint)
            elif not (least < cell.number or least == cell.number == 0) or cell.number > 10**9:
                ends = "above 1 and at most 1e9" if least else "from 0 to 1e9"
                yield error("DPC106", cell.mark, f"{cell.name} must be {ends}, got `{cell.text[:40]}`")
            else:
                continue
            known = False
        if not known or order.number is None or epsilon.number is None:
            continue
        if above and float(order.number) <= float(above[0]):
            yield error(
                "DPC106", order.mark, f"{order.name} must be above the order before it, got `{order.text[:40]}`"
            )
        elif above and epsilon.number < above[1]:
            message = f"{epsilon.name} must not be below that of the order before it, got `{epsilon.text[:40]}`"
            yield error("DPC106", epsilon.mark, message, "Renyi divergences never fall with their order")
        above = order.number, epsilon.number
