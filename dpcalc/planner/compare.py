"""Every accountant and bound side by side."""

from dpcalc.guarantee import Row
from dpcalc.planner.plan import Plan


def compare(plan: Plan) -> tuple[Row, ...]:
    """Every accountant and bound of a plan, valid rows first, each part ascending in epsilon."""
    raise NotImplementedError
