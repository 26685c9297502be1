"""Every accountant and bound side by side."""

from dataclasses import replace

from dpcalc.accountants import ACCOUNTANTS
from dpcalc.guarantee import Kind, Row
from dpcalc.planner.evaluate import accountant_row
from dpcalc.planner.lower import epsilon_lower
from dpcalc.planner.plan import Plan
from dpcalc.planner.published import poisson_tools, theorem_3
from dpcalc.planner.releases import BOUND, is_noiseless


def compare(plan: Plan) -> tuple[Row, ...]:
    """Every accountant and bound of a plan, valid rows first, each part ascending in epsilon.

    Args:
        plan: a training run.

    Returns:
        Upper bounds of every accountant, Theorem 3 as published, and what tools print that know only Poisson
        sampling. Without noise: one row that says so.
    """
    if is_noiseless(plan):
        note = "no noise is added to a release that holds the unit: no finite bound"
        return (Row(method="none", bound=BOUND, epsilon=float("inf"), kind=Kind.UPPER, valid=True, note=note),)
    rows = [accountant_row(plan, name) for name in ACCOUNTANTS]
    lower, tight = epsilon_lower(plan)
    note = "lower end: the data set that attains the bound" if tight else "lower end: the worst data set known"
    rows = [replace(row, epsilon_lower=lower, note=note) if row.method == "pld" else row for row in rows]
    published = theorem_3(plan)
    if published is not None:
        rows.append(published)
    rows.append(poisson_tools(plan))
    return tuple(sorted(rows, key=lambda row: (not row.valid, row.epsilon is None, row.epsilon or 0.0)))
