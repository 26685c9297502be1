"""Every accountant and bound side by side."""

import math
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial

from dpcalc.accountants import ACCOUNTANTS
from dpcalc.errors import UnsupportedError
from dpcalc.guarantee import Kind, Row
from dpcalc.planner.estimates import gdp_row, inversion_row
from dpcalc.planner.evaluate import accountant_row
from dpcalc.planner.extras import optional
from dpcalc.planner.lower import epsilon_lower
from dpcalc.planner.plan import Plan
from dpcalc.planner.published import strong_composition, theorem_3
from dpcalc.planner.published_groups import group_rows
from dpcalc.planner.releases import BOUND, is_noiseless
from dpcalc.planner.tools import tool_rows
from dpcalc.planner.vary import refusal


def compare(plan: Plan) -> tuple[Row, ...]:
    """Every accountant and bound of a plan, valid rows first, each part ascending in epsilon.

    Args:
        plan: a training run.

    Returns:
        Upper bounds of every accountant; the estimate by inversion and the central limit; Theorem 3 and strong
        composition as published; what other tools print. What does not apply has no epsilon and says why. Without
        noise: one row that says so.
    """
    if plan.tuning is not None:
        raise UnsupportedError("tuning: expected one run to compare accountants on, got several; --unset tuning")
    refused = refusal(plan)
    if refused is not None:
        raise refused
    if is_noiseless(plan):
        note = "no noise is added to a release that holds the unit: no finite bound"
        return (Row(method="none", bound=BOUND, epsilon=math.inf, kind=Kind.UPPER, valid=True, note=note),)
    (lower, attained), missing = optional("the lower bound", lambda: _lower_end(plan), (None, ""))
    attained = attained or missing
    rows = [accountant_row(plan, name) for name in ACCOUNTANTS]
    rows = [
        replace(row, epsilon_lower=lower, note=row.note or attained) if row.method == "pld" else row for row in rows
    ]
    for name, part in _OTHERS.items():
        rows += filter(None, optional(name, partial(part, plan), ())[0])
    told = [_with_verdict(row, lower) for row in rows]
    return tuple(sorted(told, key=lambda row: (not row.valid, row.epsilon is None, row.epsilon or 0.0)))


def _lower_end(plan: Plan) -> tuple[float | None, str]:
    """Certified cost of the worst data set that is known, and what it is."""
    found = epsilon_lower(plan)
    if found is None:
        return None, ""
    lower, tight = found
    return lower, "lower end: the data set that attains the bound" if tight else "lower end: the worst data set known"


_OTHERS: dict[str, Callable[[Plan], Iterable[Row | None]]] = {
    "theorem 3": lambda plan: [theorem_3(plan)],
    "inversion": lambda plan: [inversion_row(plan)],
    "the central limit": lambda plan: [gdp_row(plan)],
    "strong composition": lambda plan: [strong_composition(plan)],
    "what other tools print": tool_rows,
    "published group bounds": group_rows,
}
"""Rows beside those of the accountants, by name; None where one has nothing to say."""


def _with_verdict(row: Row, lower: float | None) -> Row:
    """A row that proves nothing, with a word where an actual data set costs more than it says."""
    if row.valid or lower is None or row.epsilon is None or not row.epsilon < lower:
        return row
    return replace(row, note=f"{row.note}; an actual data set costs more")
