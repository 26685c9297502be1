"""Curves of epsilon over one quantity of a plan, by each accountant and by formulas to compare with."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import partial
from typing import NamedTuple

import numpy as np

from dpcalc.accountants import METHODS as ACCOUNTING_METHODS
from dpcalc.charts.chart import LINEAR, LOG, Axis, Chart, Limit, Series
from dpcalc.charts.shapes import POINTS, CurveRequest, divergences, profile, tradeoff
from dpcalc.errors import InputError, WorkExceededError
from dpcalc.guarantee import Kind, Row
from dpcalc.planner.compare import gdp_row, inversion_row
from dpcalc.planner.composition import is_noiseless
from dpcalc.planner.evaluate import CLOSED_FORM, guarantee
from dpcalc.planner.lower_end import epsilon_lower
from dpcalc.planner.plan import Phase, Plan
from dpcalc.planner.published import (
    GROUP_AS_ONE,
    GROUP_MIXTURE,
    flat_poisson_row,
    general_rdp_row,
    group_rows,
    strong_composition_row,
    theorem_3_row,
)
from dpcalc.planner.vary import (
    is_covered,
    is_refused,
    largest_group,
    refusal,
    with_level,
    with_noise,
    with_scaled_noise,
    with_total_steps,
)
from dpcalc.planner.words import differing_facts
from dpcalc.records import dataclass
from dpcalc.sampling.schemes import (
    All,
    BallsInBins,
    CappedPoisson,
    CyclicPoisson,
    Fixed,
    Poisson,
    RandomAllocation,
    Scheme,
    Shuffle,
    WithReplacement,
)
from dpcalc.work import FAILURES, SECOND, allowance

LOWER = "lower"


def _group_row(bound: str) -> Callable[[Plan], Row | None]:
    """Return a function from a plan to the published row of groups with that bound, None where there is none."""
    return lambda plan: next((row for row in group_rows(plan) if row.bound == bound), None)


COMPARED: dict[str, tuple[Kind, Callable[[Plan], Row | None]]] = {
    "inversion": (Kind.ESTIMATE, inversion_row),
    "gdp": (Kind.APPROXIMATION, gdp_row),
    "strong-composition": (Kind.AS_PUBLISHED, strong_composition_row),
    "theorem-3": (Kind.AS_PUBLISHED, theorem_3_row),
    "flat-poisson": (Kind.AS_PUBLISHED, flat_poisson_row),
    "group-mixture": (Kind.AS_PUBLISHED, _group_row(GROUP_MIXTURE)),
    "general-rdp": (Kind.UPPER, general_rdp_row),
    "group-as-one": (Kind.AS_PUBLISHED, _group_row(GROUP_AS_ONE)),
}
"""Methods that are drawn beside the accountants: the kind of their numbers, and their row of `compare`."""

METHODS = (*ACCOUNTING_METHODS, LOWER, *COMPARED)


def claimed_kind(method: str) -> Kind:
    """Return the kind of number that a method claims; InputError for an unknown method."""
    if method not in METHODS:
        raise InputError(f"method: expected one of {', '.join(METHODS)}, got {method!r}")
    if method == LOWER:
        return Kind.LOWER
    return COMPARED[method][0] if method in COMPARED else Kind.UPPER


@dataclass(frozen=True, kw_only=True)
class MethodEpsilon:
    """Epsilon of a plan by one method.

    Attributes:
        epsilon: infinite without noise; None where the method does not apply or does not converge.
        kind: claim of the number.
        method: the method; for "auto" the accountant that answered, with a remark for the best of several runs.
    """

    epsilon: float | None
    kind: Kind
    method: str


def epsilon_by(plan: Plan, method: str) -> MethodEpsilon:
    """Return epsilon by a method, infinite without noise and None on failure; a looser bound if work runs out.

    Args:
        plan: a training run.
        method: one of METHODS; "lower" is the certified lower bound.

    Raises:
        InputError: there is no such method.
    """
    kind = claimed_kind(method)
    if is_noiseless(plan):
        return MethodEpsilon(epsilon=math.inf, kind=kind, method=method)
    try:
        if method == LOWER:
            lower = epsilon_lower(plan)
            return MethodEpsilon(epsilon=None if lower is None else lower.value, kind=kind, method=method)
        if method in COMPARED:
            row = COMPARED[method][1](plan)
            epsilon, kind = (None, kind) if row is None else (row.epsilon, row.kind)
            return MethodEpsilon(epsilon=epsilon, kind=kind, method=method)
        # A point that takes more than its share of the work has a looser bound: a curve with gaps says less.
        try:
            main = guarantee(plan, method=method)
        except WorkExceededError:
            main = guarantee(plan, method=CLOSED_FORM)
    except FAILURES:
        return MethodEpsilon(epsilon=None, kind=kind, method=method)
    words = main.method if plan.tuning is None else f"{main.method}, best of several runs"
    return MethodEpsilon(epsilon=main.epsilon, kind=kind, method=words)


# Curves of epsilon over one quantity


_CHART_WORK, _POINT_WORK = 8.0 * SECOND, 1.0 * SECOND  # shared by the points of a chart; what each has at least
_NOISE_FACTOR = 4.0  # by which noise is varied to both sides of the plan's
_RATE_FACTOR = 8.0  # by which a rate or size is varied to both sides of the plan's
_MAX_GROUP, _MAX_NESTED_GROUP = 16, 4  # drawn by default; a group in nested frames has many placements, and is slow
_MOST_BANDS = 3  # plans with a band between upper and lower bounds by default: more would hide each other
_LOG_RATIO = 100.0  # ratio of the ends of an axis from which on it is logarithmic
_VARIED_FACT = {
    "steps": "length",
    "epochs": "length",
    "noise_multiplier": "noise",
    "noise_multiplier factor": "noise",
    "rate": "sampling",
    "size": "sampling",
    "bins": "sampling",
    "times": "sampling",
}
_ROUND_OFF = 1e-3  # passes: a length this close to a whole number of passes counts as that number


def _over_steps(request: CurveRequest) -> Chart:
    """Return epsilon over steps, by default from 1 to the first plan's; longer runs go on with their last phase."""
    grid = _whole_numbers(request.grid or np.linspace(1, max(1, request.first.steps), POINTS))
    return _over_length(request, "steps", grid, lambda plan: lambda steps: with_total_steps(plan, int(steps)))


def _over_length(
    request: CurveRequest, name: str, grid: Sequence[float], setter: Callable[[Plan], Callable[[float], Plan]]
) -> Chart:
    """Return the chart of epsilon over steps or epochs, both axes linear."""
    chart = _epsilon_chart(request, name, grid, setter)
    return replace(chart, y=replace(chart.y, scale=LINEAR))


def _over_epochs(request: CurveRequest) -> Chart:
    """Return the chart of epsilon over epochs, in whole steps; InputError for plans of several phases."""
    epochs = request.first.steps * float(_epochs_of_a_step(_single_phase(request.first)))
    grid = tuple(map(float, request.grid or _round_numbers(epochs)))

    def setter(plan: Plan) -> Callable[[float], Plan]:
        # An epoch as its decimal: the float nearest to 0.7 is a little more, which could cost a whole step.
        rate = _epochs_of_a_step(_single_phase(plan))
        return lambda epochs: with_total_steps(plan, math.ceil(Fraction(repr(epochs)) / rate))

    return _over_length(request, "epochs", grid, setter)


def _over_noise(request: CurveRequest) -> Chart:
    """Return the chart of epsilon over the noise multiplier, or over one factor on those of several phases."""
    is_factor = len(request.first.phases) > 1
    start = 1.0 if is_factor else request.first.phases[0].noise_multiplier or 1.0
    # Phases may have different noise: one factor on all of them is a quantity that a curve can run over.
    grid = request.grid or tuple(np.geomspace(start / _NOISE_FACTOR, start * _NOISE_FACTOR, POINTS))
    scale = LOG if _has_equal_factors(grid) else LINEAR

    def setter(plan: Plan) -> Callable[[float], Plan]:
        return partial(with_scaled_noise, plan) if is_factor else partial(with_noise, plan, _single_phase(plan))

    name = "noise_multiplier factor" if is_factor else "noise_multiplier"
    return _epsilon_chart(request, name, grid, setter, scale)


class _Drawn(NamedTuple):
    """The quantity by which a plan's outermost sampled level is drawn.

    Attributes:
        name: "rate", "size", "bins" or "times".
        value: that of the plan.
        max_value: the largest one with which the level is still sampled.
        level: name of the level; "" if the plan has one level.
    """

    name: str
    value: float
    max_value: float
    level: str


def _drawn(plan: Plan) -> _Drawn:
    """Return the sampled quantity of a plan (rate, size, bins or times), its value and maximum; or InputError."""
    phase = _single_phase(plan)
    level = phase.hierarchy.levels[_sampled_level(phase)]
    name = level.name if phase.hierarchy.depth > 1 else ""
    match level.scheme:
        case Poisson() | CappedPoisson() | CyclicPoisson() as scheme:
            return _Drawn("rate", float(scheme.probability), 1.0, name)
        case BallsInBins() as scheme:
            return _Drawn("bins", float(scheme.bins), float(phase.steps), name)
        case RandomAllocation() as scheme:
            return _Drawn("times", float(scheme.times), float(scheme.steps), name)
        case scheme:
            # One less than the smallest frame, or of `at_most` than the largest: with all units nothing is sampled.
            # A frame of one unit leaves only the size 1.
            is_limited = isinstance(scheme, Fixed) and scheme.at_most
            limit = float(max(1, (level.count if is_limited else level.min_count) - 1))
            return _Drawn("size", float(getattr(scheme, "size", 1)), limit, name)


def _over_rate(request: CurveRequest) -> Chart:
    """Return the chart of epsilon over the rate, size, bins or times of the outermost sampled level.

    Raises:
        InputError: the plans are drawn by different quantities.
    """
    drawn = [_drawn(plan) for plan in request.runs]
    first = drawn[0]
    if len({each.name for each in drawn}) > 1:
        names = ", ".join(f"{each.name} ({label})" for (label, _), each in zip(request.plans, drawn, strict=True))
        raise InputError(f"curve rate: expected configs drawn by the same quantity, got {names}; draw them one by one")
    grid = _rate_grid(request, drawn)
    is_log = not request.grid or _has_equal_factors(request.grid)
    chart = _epsilon_chart(request, first.name, grid, _rate_setter, LOG if is_log else LINEAR)
    levels = {each.level for each in drawn}
    place = f" at level {levels.pop()}" if len(levels) == 1 and first.level else ""
    return replace(
        chart,
        title=chart.title.replace(f"over {first.name}", f"over {first.name}{place}", 1),
        x=replace(chart.x, title=f"{first.name}{place}"),
    )


def _rate_grid(request: CurveRequest, drawn: Sequence[_Drawn]) -> tuple[float, ...]:
    """Return the requested grid, or one from 1/8 to 8 times the first plan's value where bounds exist."""
    first = drawn[0]
    limit = min(each.max_value for each in drawn)
    ends = min(first.value / _RATE_FACTOR, limit), min(first.value * _RATE_FACTOR, limit)
    grid = request.grid or tuple(map(float, np.geomspace(*ends, POINTS)))
    if first.name != "rate":
        grid = _whole_numbers(max(1.0, size) for size in grid)
    # No bound covers passes of some batch sizes, or some rates under correlated noise: a range that nobody asked for
    # goes without them.
    if not request.grid:
        grid = tuple(value for value in grid if all(_has_bound_at(plan, value) for plan in request.runs))
    return grid


def _has_bound_at(plan: Plan, value: float) -> bool:
    """Return False if no bound covers the plan's passes or correlated noise at this rate, size, bins or times."""
    phase = plan.phases[0]
    is_pass = isinstance(phase.hierarchy.levels[_sampled_level(phase)].scheme, Shuffle)
    if not is_pass and not phase.is_correlated:
        return True
    changed = _rate_setter(plan)(value)
    return not (is_pass and is_refused(changed)) and (not phase.is_correlated or is_covered(changed))


def _has_equal_factors(grid: Sequence[float]) -> bool:
    """Return True if three or more positive numbers grow by one and the same factor, up to round-off."""
    if len(grid) < 3 or min(grid) <= 0:
        return False
    factors = np.diff(np.log(grid))
    return bool(np.ptp(factors) <= _ROUND_OFF * factors.max())


def _rate_setter(plan: Plan) -> Callable[[float], Plan]:
    """Return a function from a rate, size, bins or times to the plan with it; InputError for several phases."""
    phase = _single_phase(plan)
    place = _sampled_level(phase)
    level = phase.hierarchy.levels[place]

    return lambda value: with_level(plan, phase, place, replace(level, scheme=_with_quantity(level.scheme, value)))


def _with_quantity(scheme: Scheme, value: float) -> Scheme:
    """Return the scheme with another rate, size, bins or times; Poisson draws at this rate for `all`."""
    match scheme:
        case Fixed() | WithReplacement() | Shuffle():
            return replace(scheme, size=int(value))
        case BallsInBins():
            return replace(scheme, bins=int(value))
        case RandomAllocation():
            return replace(scheme, times=int(value))
        case CappedPoisson() | CyclicPoisson():
            return replace(scheme, probability=Fraction(repr(value)))
        case _:
            return Poisson(probability=Fraction(repr(value)))


def _over_group(request: CurveRequest) -> Chart:
    """Return the chart of epsilon over group size, by default up to 16, or to 4 if the unit has a parent."""
    default = _MAX_GROUP if request.first.unit == 1 else _MAX_NESTED_GROUP
    max_group = min(default, *(largest_group(plan) for _, plan in request.plans))
    grid = _whole_numbers(request.grid or range(1, max_group + 1))
    return _epsilon_chart(request, "group_size", grid, lambda plan: lambda size: replace(plan, group_size=int(size)))


def _epsilon_chart(
    request: CurveRequest,
    name: str,
    grid: Sequence[float],
    setter: Callable[[Plan], Callable[[float], Plan]],
    scale: str = LINEAR,
) -> Chart:
    """Return the chart of epsilon over a quantity, with lines for plans and methods, and a limit for each budget.

    Args:
        request: plans and methods.
        name: name of the quantity.
        grid: its values, increasing.
        setter: from a plan, the function from a value of the quantity to the plan with that value.
        scale: LINEAR or LOG.
    """
    series = _epsilon_lines(request, grid, setter)
    deltas = {plan.delta for plan in request.runs}
    title = name.replace("_", " ")
    return Chart(
        title=f"epsilon over {name.replace('_', ' ')}"
        + (f", delta = {request.first.delta!r}" if len(deltas) == 1 else ""),
        subtitle=request.subtitle("delta", _VARIED_FACT.get(name, "")),
        x=Axis(name=name, scale=scale, title=title),
        y=Axis(name="epsilon", scale=_scale(series)),
        series=tuple(series),
        limits=tuple(
            Limit(name=_line_name(request, label, "budget"), value=plan.budget.epsilon)
            for label, plan in request.plans
            if plan.budget is not None
        ),
    )


def _epsilon_lines(
    request: CurveRequest, grid: Sequence[float], setter: Callable[[Plan], Callable[[float], Plan]]
) -> list[Series]:
    """Return a line for each plan and method; if no method is named, lower bounds of up to 3 plans as well."""
    below = (LOWER,) if not request.methods and len(request.plans) <= _MOST_BANDS else ()
    lines = [
        (label, plan, method)
        for label, plan in request.plans
        for method in (*(request.methods or (plan.method,)), *below)
    ]
    for method in request.methods:
        claimed_kind(method)  # refuses unknown methods before the first line is computed
    series = []
    for number, line in enumerate(lines):

        def on_progress(share: float, number: int = number) -> None:
            request.on_progress((number + share) / len(lines))

        series.append(_epsilon_series(request, line, grid, setter(line[1]), on_progress))
    return [line for line in series if not below or line.kind is not Kind.LOWER or any(line.ys)]


def _epsilon_series(
    request: CurveRequest,
    line: tuple[str, Plan, str],
    grid: Sequence[float],
    plan_at: Callable[[float], Plan],
    on_progress: Callable[[float], object],
) -> Series:
    """Return the line of one plan and method; InputError if it has no answer because the plan is refused.

    Args:
        request: all plans and methods of the chart.
        line: (name of the plan, plan, method).
        grid: values of the quantity.
        plan_at: the plan with a value of the quantity.
        on_progress: called with the finished share of the line, in [0, 1].
    """
    label, plan, method = line
    points = len(request.plans) * max(1, len(request.methods)) * len(grid)
    results = []
    for index, x in enumerate(grid, start=1):
        # Every point has a share of its own, so that no answer depends on how long the points before it took.
        with allowance(max(_POINT_WORK, _CHART_WORK / points)):
            results.append(epsilon_by(plan_at(float(x)), method))
        on_progress(index / len(grid))
    # A line without any answer is refused with the reason why the plan is not covered, if that is why.
    answers = [result for result in results if result.epsilon is not None]
    refused = None if answers else refusal(plan_at(float(grid[-1])))
    if refused is not None:
        where = f"{label}: " if len(request.plans) > 1 else ""
        raise InputError(f"{where}{refused}") from refused
    names = dict.fromkeys(each.method for each in answers if each.epsilon is not None and math.isfinite(each.epsilon))
    answering = " or ".join(names) or method
    kinds = {result.kind for result in answers}
    return Series(
        name=_line_name(request, label, answering),
        kind=kinds.pop() if len(kinds) == 1 else claimed_kind(method),
        xs=tuple(map(float, grid)),
        ys=tuple(result.epsilon for result in results),
        method=answering,
        about=differing_facts(plan, request.runs),
    )


def _scale(series: Sequence[Series]) -> str:
    """Return LOG if the positive finite numbers differ by more than a factor of 100, else LINEAR."""
    # Two decades on a linear axis leave the small half of the numbers on one line of pixels.
    shown = [y for line in series for y in line.ys if y is not None and 0 < y < math.inf]
    return LOG if shown and max(shown) > _LOG_RATIO * min(shown) else LINEAR


def _line_name(request: CurveRequest, label: str, method: str) -> str:
    """Return the name of a line: the method for a single plan, else the plan's label and what tells its lines apart."""
    if len(request.plans) == 1:
        return method
    return f"{label}, {method}" if method in {"budget", LOWER} or len(request.methods) > 1 else label


def _round_numbers(end: float) -> tuple[float, ...]:
    """Return the multiples of a round step up to `end`, at most 25 of them, and `end` itself."""
    # Exact multiples: 0.1 added up in floats would give 0.30000000000000004 epochs.
    min_step = end / POINTS * (1 - _ROUND_OFF)
    power = math.floor(math.log10(min_step))
    step = next(Fraction(10) ** power * part for part in (1, 2, 5, 10) if 10.0**power * part >= min_step)
    count = math.floor(end / step + _ROUND_OFF)
    multiples = [float(step * number) for number in range(1, count + 1)]
    return (*multiples, *([end] if not multiples or end > multiples[-1] * (1 + _ROUND_OFF) else []))


def _whole_numbers(grid: Iterable[float]) -> tuple[float, ...]:
    """Return the nearest whole numbers, without repetitions."""
    return tuple(dict.fromkeys(float(round(x)) for x in grid))


def _single_phase(plan: Plan) -> Phase:
    """Return the phase of a plan that has one phase; InputError for several."""
    if len(plan.phases) > 1:
        names = ", ".join(phase.name for phase in plan.phases)
        raise InputError(f"curve: expected a run of one phase, got {names}; draw them over steps, sigma or group")
    return plan.phases[0]


def _sampled_level(phase: Phase) -> int:
    """Return the index (from 0) of the outermost level that is sampled; InputError if all units are drawn."""
    for place, level in enumerate(phase.hierarchy.levels):
        if not isinstance(level.scheme, All):
            return place
    raise InputError("curve: expected a level that is sampled, got only `all`; there is no rate")


def _epochs_of_a_step(phase: Phase) -> Fraction:
    """Return the share of an epoch that one step makes up, by the draw of the outermost sampled level."""
    level = phase.hierarchy.levels[_sampled_level(phase)]
    if isinstance(level.scheme, Poisson | CappedPoisson):
        return level.scheme.probability
    if isinstance(level.scheme, Shuffle):
        return Fraction(1, level.scheme.steps_of_a_pass(level.count))
    if isinstance(level.scheme, Fixed | WithReplacement):
        return Fraction(level.scheme.size, level.count)
    return level.rate


CURVES: dict[str, Callable[[CurveRequest], Chart]] = {
    "steps": _over_steps,
    "epochs": _over_epochs,
    "sigma": _over_noise,
    "rate": _over_rate,
    "group": _over_group,
    "profile": profile,
    "tradeoff": tradeoff,
    "rdp": divergences,
}
"""The functions that draw `dpcalc curve`, by kind; they raise InputError where there is no such curve."""
