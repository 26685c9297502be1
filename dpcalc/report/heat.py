"""A grid over two keys as a map of characters: the darker, the larger epsilon; letters are over the budget."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from dpcalc.report.rounding import rounded_up

if TYPE_CHECKING:
    from dpcalc.gate.sweep import Outcome, Over

SHADES = ".:-=+*oO%#"
OVER = "ABCDEFGHIJ"
UNKNOWN, INFINITE = "?", "!"
_MOST_ROWS = 40


def heat_text(axes: tuple[Over, Over], outcomes: Sequence[Outcome], *, width: int) -> str:
    """The map.

    Args:
        axes: the first goes down, the second across.
        outcomes: in their order.
        width: columns there are; what does not fit is thinned out.

    Returns:
        Lines, with a legend.
    """
    down, across = axes
    margin = max(len(value) for value in down.values)
    rows = _some(len(down.values), _MOST_ROWS)
    columns = _some(len(across.values), max(10, width - margin - 3))
    each = max(1, min(6, (width - margin - 3) // len(columns)))
    levels = _levels(outcomes)
    lines = [f"{down.key} (down), {across.key} (across)"]
    for row in rows:
        cells = (outcomes[row * len(across.values) + column] for column in columns)
        drawn = "".join(_mark(one, levels) * each for one in cells)
        lines.append(f"{down.values[row]:>{margin}} |{drawn}|")
    first, last = across.values[columns[0]], across.values[columns[-1]]
    span = each * len(columns)
    lines.append(f"{'':>{margin}}  {first}{last:>{max(1, span - len(first))}}")
    if len(rows) < len(down.values) or len(columns) < len(across.values):
        lines.append(f"shown: {len(rows)} of {len(down.values)} rows, {len(columns)} of {len(across.values)} columns")
    return "".join(f"{line}\n" for line in (*lines, *_legend(outcomes, levels)))


def _some(count: int, room: int) -> list[int]:
    """Places that fit, the first and the last among them."""
    if count <= room:
        return list(range(count))
    return [round(at * (count - 1) / (room - 1)) for at in range(room)]


def _levels(outcomes: Sequence[Outcome]) -> list[float]:
    """The upper ends of the shades, by equal factors."""
    shown = [one.epsilon for one in outcomes if one.epsilon is not None and 0 < one.epsilon < math.inf]
    low, high = min(shown, default=1.0), max(shown, default=1.0)
    return [low * (high / low) ** (at / len(SHADES)) for at in range(1, len(SHADES))] + [high]


def _mark(one: Outcome, levels: Sequence[float]) -> str:
    """The character of a point."""
    epsilon = one.epsilon
    if epsilon is None:
        return UNKNOWN
    if math.isinf(epsilon):
        return INFINITE
    level = next(at for at, end in enumerate(levels) if epsilon <= end or at == len(levels) - 1)
    return OVER[level] if one.fits is False else SHADES[level]


def _legend(outcomes: Sequence[Outcome], levels: Sequence[float]) -> list[str]:
    """What the characters mean."""
    used = {_mark(one, levels) for one in outcomes}
    pairs = [
        f"{'/'.join(mark for mark in (SHADES[at], OVER[at]) if mark in used)} to {rounded_up(end)}"
        for at, end in enumerate(levels)
        if {SHADES[at], OVER[at]} & used
    ]
    lines = [f"epsilon: {', '.join(pairs[at : at + 5])}" for at in range(0, len(pairs), 5)]
    if used & set(OVER):
        lines.append("letters: over the budget")
    if INFINITE in used:
        lines.append(f"{INFINITE}: infinite")
    if UNKNOWN in used:
        lines.append(f"{UNKNOWN}: no answer")
    return lines
