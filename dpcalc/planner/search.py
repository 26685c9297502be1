"""Searching with the estimate, deciding with the certified bound: what every solver shares."""

import math
from collections.abc import Callable
from fractions import Fraction

from dpcalc.accountants.conversion import best_epsilon
from dpcalc.accountants.costliest import costliest
from dpcalc.accountants.inversion import inversion
from dpcalc.accountants.pld import UPPER, interval
from dpcalc.accountants.rdp import rdp
from dpcalc.curves.loss_moments import Curve
from dpcalc.errors import ConvergenceError, DpcalcError
from dpcalc.numerics.roots import bracket_root
from dpcalc.planner.evaluate import guarantee
from dpcalc.planner.plan import Plan
from dpcalc.planner.releases import is_noiseless, releases
from dpcalc.release.tree import step_counts

Value = float | int | Fraction


class NoSolution(DpcalcError):  # noqa: N818  it is an answer, not a fault
    """No value of the quantity meets the target (exit code 1).

    Attributes:
        name: the quantity.
        best_value: the value that comes nearest.
        best_epsilon: its epsilon, an upper bound.
    """

    def __init__(self, name: str, target: float, best_value: Value, best_epsilon: float) -> None:
        """Says what was asked and the best that can be had."""
        super().__init__(
            f"{name}: no value gives epsilon <= {target!r}; the best, {name} {best_value}, gives {best_epsilon:.6g}"
        )
        self.name, self.best_value, self.best_epsilon = name, best_value, best_epsilon


def estimate(plan: Plan) -> float:
    """Epsilon by inversion, by the certified accountant where that does not converge; infinite without noise.

    Where the plan asks for another accountant than pld, by that one.
    """
    if is_noiseless(plan):
        return math.inf
    if plan.method not in {"auto", "pld"}:
        return guarantee(plan).epsilon
    largest, _ = costliest(
        {name: step_counts(release) for name, release in releases(plan).releases.items()},
        answer=lambda counts: _estimate(counts, plan.delta),
        cost=float,
        ceiling=lambda counts: best_epsilon(counts, delta=plan.delta).value if counts else 0.0,
    )
    return largest


def _estimate(counts: dict[Curve, int], delta: float) -> float:
    """Epsilon of one direction by the first accountant that answers."""
    try:
        return inversion(counts, delta=delta)
    except ConvergenceError:
        pass
    try:
        return interval(counts, delta=delta, sides=(UPPER,))[0]
    except ConvergenceError:
        return rdp(counts, delta=delta).epsilon


def largest_whole(
    put: Callable[[int], Plan], least: int, most: int, target: float, name: str
) -> tuple[int, int | None]:
    """The largest whole number whose certified epsilon meets the target, and the next one, which fails."""
    if guarantee(put(least)).epsilon > target:
        raise NoSolution(name, target, least, guarantee(put(least)).epsilon)
    low = _near_root(put, least, most, target)
    reach = 1
    while low > least and guarantee(put(low)).epsilon > target:
        low, reach = max(least, low - reach), 2 * reach
    while low < most and guarantee(put(low + 1)).epsilon <= target:
        low += 1
    return low, (low + 1 if low < most else None)


def _near_root(put: Callable[[int], Plan], least: int, most: int, target: float) -> int:
    """The largest whole number whose estimate meets the target."""
    low, high = least, max(least, 1)
    while high < most and estimate(put(high)) <= target:
        low, high = high, min(most, 16 * high)
    if high == most and estimate(put(most)) <= target:
        return most
    if high - low > 1:
        ends = bracket_root(
            lambda x: target - estimate(put(round(math.exp(x)))),
            math.log(max(low, 1)),
            math.log(high),
            tolerance=1e-3 / high,
        )
        low = max(least, min(most, round(math.exp(ends[0]))))
    while low > least and estimate(put(low)) > target:
        low -= 1
    while low < most and estimate(put(low + 1)) <= target:
        low += 1
    return low
