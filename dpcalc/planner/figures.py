"""One number of a plan by each method that a curve can be drawn by, certified or labelled."""

import math
from collections.abc import Callable
from dataclasses import dataclass

from dpcalc.accountants import ACCOUNTANTS
from dpcalc.errors import InputError
from dpcalc.guarantee import Kind, Row
from dpcalc.planner.estimates import gdp_row, inversion_row
from dpcalc.planner.evaluate import guarantee
from dpcalc.planner.extras import FAILURES
from dpcalc.planner.lower import epsilon_lower
from dpcalc.planner.plan import Plan
from dpcalc.planner.published import poisson_tools, strong_composition, theorem_3
from dpcalc.planner.published_groups import GROUP_AS_ONE, GROUP_MIXTURE, group_rows
from dpcalc.planner.published_rdp import general_row
from dpcalc.planner.releases import is_noiseless

LOWER = "lower"


def _group_row(bound: str) -> Callable[[Plan], Row | None]:
    """One of the published rows of groups."""
    return lambda plan: next((row for row in group_rows(plan) if row.bound == bound), None)


PUBLISHED: dict[str, tuple[Kind, Callable[[Plan], Row | None]]] = {
    "inversion": (Kind.ESTIMATE, inversion_row),
    "gdp": (Kind.APPROXIMATION, gdp_row),
    "strong-composition": (Kind.AS_PUBLISHED, strong_composition),
    "theorem-3": (Kind.AS_PUBLISHED, theorem_3),
    "flat-poisson": (Kind.AS_PUBLISHED, poisson_tools),
    "group-mixture": (Kind.AS_PUBLISHED, _group_row(GROUP_MIXTURE)),
    "general-rdp": (Kind.UPPER, general_row),
    "group-as-one": (Kind.AS_PUBLISHED, _group_row(GROUP_AS_ONE)),
}
"""What can be drawn beside bounds, as `compare` shows it."""

METHODS = ("auto", *ACCOUNTANTS, LOWER, *PUBLISHED)


def kind_of(method: str) -> Kind:
    """What the numbers of a method are.

    Raises:
        InputError: if there is no such method.
    """
    if method not in METHODS:
        raise InputError(f"method: expected one of {', '.join(METHODS)}, got {method!r}")
    if method == LOWER:
        return Kind.LOWER
    return PUBLISHED[method][0] if method in PUBLISHED else Kind.UPPER


@dataclass(frozen=True, kw_only=True)
class Figure:
    """One number of a plan.

    Attributes:
        epsilon: infinite without noise; None where the method does not apply or finds no answer.
        kind: what the number is.
        method: the method that gave it, of `auto` the accountant that answered; with `tuning` it says so.
    """

    epsilon: float | None
    kind: Kind
    method: str


def epsilon_by(plan: Plan, method: str) -> Figure:
    """Epsilon by one method, and what that number is.

    Args:
        plan: a training run.
        method: one of METHODS; "lower" is the certified cost of an actual data set.

    Returns:
        The number. What is published is an upper bound where it is valid.
    """
    kind = kind_of(method)
    if is_noiseless(plan):
        return Figure(epsilon=math.inf, kind=kind, method=method)
    try:
        if method == LOWER:
            found = epsilon_lower(plan)
            return Figure(epsilon=None if found is None else found[0], kind=kind, method=method)
        if method in PUBLISHED:
            row = PUBLISHED[method][1](plan)
            epsilon, kind = (None, kind) if row is None else (row.epsilon, row.kind)
            return Figure(epsilon=epsilon, kind=kind, method=method)
        main = guarantee(plan, method=method)
    except FAILURES:
        return Figure(epsilon=None, kind=kind, method=method)
    words = main.method if plan.tuning is None else f"{main.method}, best of several runs"
    return Figure(epsilon=main.epsilon, kind=kind, method=words)
