"""Read membership inference scores of canaries: CSV with a row for each canary, or for each run.

The file is untrusted: every cell is checked, and lines and rows are bounded.
"""

import json
import re
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from dpcalc.arrays import Array
from dpcalc.audit.log import DELIMITERS, opened, short, text_pieces, unquoted
from dpcalc.errors import InputError
from dpcalc.records import dataclass

MEMBER, SCORE, RUN = "member", "score", "run"
MAX_ROWS = 2_000_000
"""Most rows of a file: an audit of so many takes 10 s, of ten times as many some minutes and a gigabyte."""
_MEMBERSHIPS = {"1": 1.0, "true": 1.0, "in": 1.0, "0": 0.0, "false": 0.0, "out": 0.0}
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
_RUN = re.compile(r"[0-9]{1,15}")  # a float holds it exactly
_IS_PLAIN = np.isin(np.arange(256), [*b"0123456789+-.eE,\n"])  # by byte


@dataclass(frozen=True, kw_only=True, eq=False)
class Scores:
    """Membership inference scores; a larger score says "in".

    Attributes:
        path: name of the file, for messages.
        included: whether each canary was in, shape (n,).
        scores: finite, shape (n,).
        runs: number of the run of each, shape (n,); None if the file does not say.
    """

    path: str
    included: NDArray[np.bool_]
    scores: Array
    runs: Array | None


def read_scores(path: str) -> Scores:
    """Return the scores of a CSV file: columns member, score and maybe run in any order; InputError for others.

    Args:
        path: file name, or "-" for standard input.

    Raises:
        InputError: the file cannot be used; the message names the line.
    """
    with opened(path) as (name, stream):
        pieces = text_pieces(name, stream)
        start, text = next(((line, text) for line, text in pieces if text.strip()), (1, ""))
        blank = len(text) - len(text.lstrip("\n"))
        header, _, text = text[blank:].partition("\n")
        delimiter = max(DELIMITERS, key=header.count)
        columns = [unquoted(cell) for cell in header.split(delimiter)]
        if sorted(columns) not in (sorted((MEMBER, SCORE)), sorted((MEMBER, SCORE, RUN))):
            expected = f"expected the columns {MEMBER} and {SCORE}, and {RUN} if there are several runs"
            raise InputError(f"{name}:{start + blank}: {expected}, got {short(header) or 'nothing'}")
        blocks, rows = [np.zeros((0, len(columns)))], 0
        for line, piece in chain([(start + blank + 1, text)], pieces):
            blocks.append(_rows(name, line, piece.replace(delimiter, ","), columns))
            if rows + len(blocks[-1]) > MAX_ROWS:
                place = f"{name}:{line + MAX_ROWS - rows}"
                raise InputError(f"{place}: expected at most {MAX_ROWS:,} rows, got more; audit some of them")
            rows += len(blocks[-1])
    if not rows:
        raise InputError(f"{name}: expected a row for each canary, got none")
    table = np.concatenate(blocks)
    return Scores(
        path=name,
        included=table[:, columns.index(MEMBER)] == 1,
        scores=table[:, columns.index(SCORE)],
        runs=table[:, columns.index(RUN)] if RUN in columns else None,
    )


def _rows(name: str, start: int, text: str, columns: list[str]) -> Array:
    """Return a piece from line `start` on as numbers, shape (rows, columns), without blank lines; or InputError."""
    data = np.frombuffer(text.encode(), dtype=np.uint8)
    ends = np.flatnonzero(data == ord("\n"))
    if not text.endswith("\n"):
        ends = np.append(ends, data.size)
    commas = np.searchsorted(np.flatnonzero(data == ord(",")), ends)
    # Most pieces are numbers in rows of one length: JSON's parser reads them at once. All others, and what is wrong in
    # them and where, are read row by row.
    if np.all(np.diff(commas, prepend=0) == len(columns) - 1) and _IS_PLAIN[data].all():
        try:
            values = np.array(json.loads(f"[{text.removesuffix(chr(10)).replace(chr(10), ',')}]"), dtype=np.float64)
        except (ValueError, OverflowError):
            values = np.zeros(0)
        table = values.reshape(-1, len(columns)) if values.size == len(columns) * ends.size else np.zeros((0, 1))
        if len(table) and _is_valid(table, columns):
            return table
    rows = [
        _row(name, line, words, columns) for line, words in enumerate(text.split("\n"), start=start) if words.strip()
    ]
    return np.array(rows, dtype=np.float64).reshape(-1, len(columns))


def _is_valid(table: Array, columns: list[str]) -> bool:
    """Return True if all memberships are 0 or 1, all scores finite and all runs whole numbers."""
    members, scores = table[:, columns.index(MEMBER)], table[:, columns.index(SCORE)]
    runs = table[:, columns.index(RUN)] if RUN in columns else np.zeros(1)
    are_whole = (runs >= 0) & (runs < 1e15) & (runs == np.floor(runs))
    return bool(np.all((members == 0) | (members == 1)) and np.all(np.isfinite(scores)) and np.all(are_whole))


def _row(name: str, line: int, words: str, columns: list[str]) -> list[float]:
    """Return a row as numbers, in the order of the columns; InputError for a wrong cell or number of cells."""
    cells = [unquoted(cell) for cell in words.split(",")]
    if len(cells) != len(columns):
        raise InputError(f"{name}:{line}: expected {len(columns)} columns ({', '.join(columns)}), got {len(cells)}")
    return [_cell(f"{name}:{line}", column, cell) for column, cell in zip(columns, cells, strict=True)]


def _cell(place: str, column: str, cell: str) -> float:
    """Return a cell's number: member 1 or 0 (true, in, false, out too), run whole, score finite; InputError else."""
    got = short(cell) or "nothing"
    match column:
        case "member":
            if cell.lower() not in _MEMBERSHIPS:
                raise InputError(f"{place}: expected 0 (out) or 1 (in) in column `{MEMBER}`, got {got}")
            return _MEMBERSHIPS[cell.lower()]
        case "run":
            if not _RUN.fullmatch(cell):
                raise InputError(f"{place}: expected a whole number in column `{RUN}`, got {got}")
            return float(cell)
        case _:
            value = float(cell) if _NUMBER.fullmatch(cell) else float("nan")
            if not np.isfinite(value):
                raise InputError(f"{place}: expected a finite number in column `{SCORE}`, got {got}")
            return value
