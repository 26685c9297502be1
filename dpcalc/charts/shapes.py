"""Curves of a whole run: delta over epsilon, true over false positive rate, Renyi divergence over its order."""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from fractions import Fraction

import numpy as np

from dpcalc.accountants.rdp import sum_rounded_up
from dpcalc.charts.chart import LOG, Axis, Chart, Limit, Series
from dpcalc.errors import InputError
from dpcalc.guarantee import Kind
from dpcalc.losses.moments import composed_moments, total_infinity_mass
from dpcalc.losses.rdp_curve import UNKNOWN
from dpcalc.mechanisms.additive import DiscreteGaussian
from dpcalc.mechanisms.black_box import ApproximateDp
from dpcalc.planner.composition import composed, is_noiseless
from dpcalc.planner.evaluate import delta_of, guarantee
from dpcalc.planner.plan import Phase, Plan
from dpcalc.planner.published import PublishedRdpBound, published_rdp_bounds
from dpcalc.planner.risk import true_positive_rates
from dpcalc.planner.search import require_pld_method
from dpcalc.planner.words import differing_facts, facts, mechanism_text, shared_facts
from dpcalc.records import dataclass

POINTS = 25  # of a curve by default
_MOST_DESCRIBED = 6  # plans that a line below the title describes: more would leave no room for the chart
_MASS_ROUND_OFF = 1e-12  # infinity mass below which it is round-off
_ROUND_OFF = 1e-3  # passes: a length this close to a whole number of passes counts as that number
_RATES = tuple(map(float, (*np.geomspace(1e-4, 0.02, 12), *np.linspace(0.04, 0.98, POINTS), 0.999)))
"""False positive rates, dense where the axis is: logarithmic at small rates, even beyond."""
_ORDERS = 1.25, 1.5, 1.75, *sorted({round(order) for order in np.geomspace(2, 64, POINTS)})


@dataclass(frozen=True, kw_only=True)
class CurveRequest:
    """Plans, methods and grid of a curve.

    Attributes:
        plans: (name, plan), at least one.
        methods: some of `series.METHODS`; () for the method of each plan.
        grid: values of the horizontal axis, increasing; () for a default range.
        on_progress: called with the finished share, in [0, 1].
    """

    plans: tuple[tuple[str, Plan], ...]
    methods: tuple[str, ...] = ()
    grid: tuple[float, ...] = ()
    on_progress: Callable[[float], object] = float

    @property
    def first(self) -> Plan:
        """The first plan, which decides the default range."""
        return self.plans[0][1]

    @property
    def runs(self) -> tuple[Plan, ...]:
        """The plans without their names."""
        return tuple(plan for _, plan in self.plans)

    def subtitle(self, *without: str) -> str:
        """Return the facts that all plans share, `without` some, and for up to 6 plans a line on how each differs."""
        shared = shared_facts(self.runs, without=without)
        if len(self.plans) == 1:
            return f"{self.plans[0][0]}: {shared}" if self.plans[0][0] else shared
        lines = self._differences(without)
        return "\n".join([shared, *(lines if len(lines) <= _MOST_DESCRIBED else [])])

    def _differences(self, without: Sequence[str]) -> list[str]:
        """Return for each plan a line on its sampling, noise and length, as far as plans differ in them."""
        names = [name for name in ("sampling", "noise", "length") if name not in without]
        every = [facts(plan) for plan in self.runs]
        differing = [name for name in names if len({each[name] for each in every}) > 1]
        own = ["; ".join(filter(None, (each[name] for name in differing))) for each in every]
        return [f"{label}: {text}" for (label, _), text in zip(self.plans, own, strict=True) if text]

    def line_name(self, label: str, quantity: str) -> str:
        """Return "LABEL, QUANTITY", or the quantity alone if there is only one plan.

        Args:
            label: name of the plan.
            quantity: name of the quantity.
        """
        return f"{label}, {quantity}" if len(self.plans) > 1 else quantity


def whole_numbers(grid: Iterable[float]) -> tuple[float, ...]:
    """Return the nearest whole numbers, without repetitions."""
    return tuple(dict.fromkeys(float(round(x)) for x in grid))


def round_numbers(end: float) -> tuple[float, ...]:
    """Return the multiples of a round step up to `end`, at most 25 of them, and `end` itself."""
    # Exact multiples: 0.1 added up in floats would give 0.30000000000000004 epochs.
    min_step = end / POINTS * (1 - _ROUND_OFF)
    power = math.floor(math.log10(min_step))
    step = next(Fraction(10) ** power * part for part in (1, 2, 5, 10) if 10.0**power * part >= min_step)
    count = math.floor(end / step + _ROUND_OFF)
    multiples = [float(step * number) for number in range(1, count + 1)]
    return (*multiples, *([end] if not multiples or end > multiples[-1] * (1 + _ROUND_OFF) else []))


def profile(request: CurveRequest) -> Chart:
    """Return the chart of delta over epsilon, by default to 1.5 times the plan's; InputError unless auto or pld."""
    _refuse_methods(request)
    grid = request.grid or _default_epsilons(request.first)
    series = [line for number in range(len(request.plans)) for line in _profile_lines(request, number, grid)]
    budgets = dict.fromkeys(plan.budget.epsilon for _, plan in request.plans if plan.budget)
    return Chart(
        title="delta over epsilon",
        subtitle=request.subtitle("delta"),
        x=Axis(name="epsilon"),
        y=Axis(name="delta", scale=LOG),
        series=tuple(series),
        limits=(
            *(Limit(name="budget", value=budget, axis="x") for budget in budgets),
            *(Limit(name="delta", value=delta) for delta in dict.fromkeys(plan.delta for _, plan in request.plans)),
        ),
    )


def _default_epsilons(plan: Plan) -> tuple[float, ...]:
    """Return 25 values from 0 to 1.5 times the plan's epsilon, or to 1.5 if that is 0 or infinite."""
    epsilon = guarantee(plan).epsilon
    last = 1.5 * epsilon if 0 < epsilon < math.inf else 1.5
    return tuple(map(float, np.linspace(0.0, last, POINTS)))


def _profile_lines(request: CurveRequest, number: int, grid: tuple[float, ...]) -> Iterator[Series]:
    """Yield the upper bounds on delta of the plan with this number, from 0, then its lower bounds if any."""
    label, plan = request.plans[number]
    answers = []
    for index, epsilon in enumerate(grid, start=1):
        answers.append(delta_of(require_pld_method(plan), epsilon=epsilon))
        request.on_progress((number + index / len(grid)) / len(request.plans))
    upper = tuple(answer.delta for answer in answers)
    lower = tuple(answer.delta_lower for answer in answers)
    name, about = request.line_name(label, "delta"), differing_facts(plan, request.runs, without=("delta",))
    methods = " or ".join(dict.fromkeys(answer.method for answer in answers))
    yield Series(name=name, kind=Kind.UPPER, xs=grid, ys=upper, method=methods, about=about)
    if any(delta is not None for delta in lower):
        name = request.line_name(label, "delta, lower bound")
        yield Series(name=name, kind=Kind.LOWER, xs=grid, ys=lower, about=about)


def tradeoff(request: CurveRequest) -> Chart:
    """Return the chart of an attacker's largest true over its false positive rate; InputError unless auto or pld."""
    _refuse_methods(request)
    grid = request.grid or _RATES
    lines = [line for label, plan in request.plans for line in _tradeoff_lines(request, label, plan, grid)]
    guessing = Series(name="guessing", kind=Kind.LOWER, xs=grid, ys=grid, is_reference=True)
    return Chart(
        title="true positive rate of the best attacker over the false positive rate",
        subtitle=request.subtitle("delta"),
        x=Axis(name="false_positive_rate", scale=LOG, title="false positive rate"),
        y=Axis(name="true_positive_rate", scale=LOG, title="true positive rate, upper bound"),
        series=(*lines, guessing),
    )


def _tradeoff_lines(request: CurveRequest, label: str, plan: Plan, grid: tuple[float, ...]) -> Iterator[Series]:
    """Yield the line of attackers that detect units in the data, then of those that detect absent units."""
    present, absent = true_positive_rates(require_pld_method(plan), grid)
    about = differing_facts(plan, request.runs, without=("delta",))
    for detected, rates in (("in the data", present), ("not in the data", absent)):
        name, ys = request.line_name(label, detected), tuple(map(float, rates))
        yield Series(name=name, kind=Kind.UPPER, xs=grid, ys=ys, method="pld", about=about)


def divergences(request: CurveRequest) -> Chart:
    """Return bounds on Renyi divergence over its order; InputError for an order <= 1, no noise, or no finite bound."""
    _refuse_methods(request)
    grid = request.grid or tuple(map(float, _ORDERS))
    if min(grid) <= 1:
        raise InputError(f"order: expected numbers > 1, got {min(grid)!r}")
    series = [line for label, plan in request.plans for line in _divergence_lines(request, label, plan, grid)]
    if not series:
        words = ", ".join(dict.fromkeys(mechanism_text(phase) for plan in request.runs for phase in plan.phases))
        raise InputError(f"rdp: expected steps with finite divergences, got {words}; some losses are infinite")
    return Chart(
        title="Renyi divergence over its order",
        subtitle=request.subtitle("delta"),
        x=Axis(name="order", scale=LOG),
        y=Axis(name="rdp", scale=LOG, title="Renyi divergence"),
        series=tuple(series),
    )


def _divergence_lines(request: CurveRequest, label: str, plan: Plan, grid: tuple[float, ...]) -> Iterator[Series]:
    """Yield a plan's certified divergences, if any is finite, and published ones; InputError without noise."""
    if is_noiseless(plan):
        raise InputError("rdp: expected noise in every step, got none; every divergence is infinite")
    ys = _divergences(plan, grid)
    about = differing_facts(plan, request.runs, without=("delta",))
    if any(y is not None for y in ys):
        yield Series(name=request.line_name(label, "rdp"), kind=Kind.UPPER, xs=grid, ys=ys, about=about)
    orders = sorted({round(order) for order in grid if order >= 2})
    for published in published_rdp_bounds(plan):
        yield _published_line(published, request.line_name(label, published.name), orders, about)


def _published_line(published: PublishedRdpBound, name: str, orders: Sequence[int], about: str) -> Series:
    """Return the line of a published bound, a sum over binomial coefficients, which takes whole orders >= 2 only."""
    ys = tuple(_finite_or_none(published.divergence(order)) for order in orders)
    return Series(name=name, kind=published.kind, xs=tuple(map(float, orders)), ys=ys, about=about)


def _divergences(plan: Plan, orders: tuple[float, ...]) -> tuple[float | None, ...]:
    """Return upper bounds on the largest divergence at each order; None where it may be infinite."""
    # A loss that is infinite with a positive probability makes every divergence infinite.
    if any(map(_may_be_infinite, plan.phases)):
        return (None,) * len(orders)
    z = np.array(orders) - 1
    divergence = np.zeros(z.shape)
    for counts in composed(plan).steps.values():
        if total_infinity_mass(counts.items()) > _MASS_ROUND_OFF:
            return (None,) * len(orders)
        if counts:
            value, _ = composed_moments(counts, max_order=float(z.max())).cumulants(z)
            divergence = np.maximum(divergence, sum_rounded_up(value) / z)
    return tuple(map(_finite_or_none, divergence))


def _may_be_infinite(phase: Phase) -> bool:
    """Return True for approximate DP with delta > 0 and discrete Gaussian noise, whose losses may be infinite."""
    has_delta = isinstance(phase.mechanism, ApproximateDp) and phase.mechanism.delta > 0
    return has_delta or isinstance(phase.mechanism, DiscreteGaussian)


def _finite_or_none(value: float) -> float | None:
    """Return a divergence, or None where it is as large as UNKNOWN, the mark of no finite bound."""
    return float(value) if value < UNKNOWN else None


def _refuse_methods(request: CurveRequest) -> None:
    """Raise InputError if a method other than auto or pld was chosen."""
    if any(method not in {"auto", "pld"} for method in request.methods):
        raise InputError("--method: expected none, such a curve is not that of an accountant; leave it out")
