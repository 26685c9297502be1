"""Curves of epsilon over one quantity of a plan, by each accountant and by formulas to compare with."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from dpcalc.accountants import METHODS as ACCOUNTING_METHODS
from dpcalc.charts.chart import LINEAR, LOG, Axis, Chart, Limit, Series
from dpcalc.charts.shapes import POINTS, CurveRequest, divergences, profile, round_numbers, tradeoff, whole_numbers
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
from dpcalc.sampling.hierarchy import Level
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
    """Return epsilon by a method; infinite without noise, None where the method fails or does not apply.

    Args:
        plan: a training run.
        method: one of METHODS; "lower" is the certified lower bound.

    Raises:
        InputError: there is no such method.
    """
    kind = claimed_kind(method)
    if is_noiseless(plan):
        return MethodEpsilon(epsilon=math.inf, kind=kind, method=method)
    compute = _lower_epsilon if method == LOWER else _compared_epsilon if method in COMPARED else _accountant_epsilon
    try:
        return compute(plan, method)
    except FAILURES:
        return MethodEpsilon(epsilon=None, kind=kind, method=method)


def _lower_epsilon(plan: Plan, method: str) -> MethodEpsilon:
    """Return the certified lower bound on epsilon, None where there is none."""
    lower = epsilon_lower(plan)
    return MethodEpsilon(epsilon=None if lower is None else lower.value, kind=Kind.LOWER, method=method)


def _compared_epsilon(plan: Plan, method: str) -> MethodEpsilon:
    """Return epsilon and kind of the row that a method of COMPARED has for a plan, epsilon None if it has none."""
    kind, row_of = COMPARED[method]
    row = row_of(plan)
    epsilon, kind = (None, kind) if row is None else (row.epsilon, row.kind)
    return MethodEpsilon(epsilon=epsilon, kind=kind, method=method)


def _accountant_epsilon(plan: Plan, method: str) -> MethodEpsilon:
    """Return an accountant's upper bound on epsilon, or the looser closed form if its work exceeds the allowance."""
    try:
        main = guarantee(plan, method=method)
    except WorkExceededError:  # a curve with gaps says less than one with looser points
        main = guarantee(plan, method=CLOSED_FORM)
    words = main.method if plan.tuning is None else f"{main.method}, best of several runs"
    return MethodEpsilon(epsilon=main.epsilon, kind=Kind.UPPER, method=words)


# Curves of epsilon over one quantity


_CHART_WORK, _POINT_WORK = 8.0 * SECOND, 1.0 * SECOND  # shared by the points of a chart; what each has at least
_NOISE_FACTOR = 4.0  # by which noise is varied to both sides of the plan's
_RATE_FACTOR = 8.0  # by which a rate or size is varied to both sides of the plan's
_MAX_GROUP, _MAX_NESTED_GROUP = 16, 4  # drawn by default; a group in nested frames has many placements, and is slow
_MOST_BANDS = 3  # plans with a band between upper and lower bounds by default: more would hide each other
_LOG_RATIO = 100.0  # ratio of the ends of an axis from which on it is logarithmic
_VARIED_FACT = {
    **dict.fromkeys(("steps", "epochs"), "length"),
    **dict.fromkeys(("noise_multiplier", "noise_multiplier factor"), "noise"),
    **dict.fromkeys(("rate", "size", "bins", "times"), "sampling"),
}


def _over_steps(request: CurveRequest) -> Chart:
    """Return epsilon over steps, by default from 1 to the first plan's; longer runs go on with their last phase."""
    grid = whole_numbers(request.grid or np.linspace(1, max(1, request.first.steps), POINTS))
    return _over_length(request, "steps", grid, lambda plan, steps: with_total_steps(plan, int(steps)))


def _over_length(
    request: CurveRequest, name: str, grid: Sequence[float], with_length: Callable[[Plan, float], Plan]
) -> Chart:
    """Return the chart of epsilon over steps or epochs, both axes linear."""
    chart = _epsilon_chart(request, Axis(name=name), grid, with_length)
    return replace(chart, y=replace(chart.y, scale=LINEAR))


def _over_epochs(request: CurveRequest) -> Chart:
    """Return the chart of epsilon over epochs, in whole steps; InputError for plans of several phases."""
    epochs = request.first.steps * float(_epochs_of_a_step(_single_phase(request.first)))
    grid = tuple(map(float, request.grid or round_numbers(epochs)))
    return _over_length(request, "epochs", grid, _with_epochs)


def _with_epochs(plan: Plan, epochs: float) -> Plan:
    """Return a plan of one phase with the fewest steps that make up these epochs; InputError for several phases."""
    # An epoch as its decimal: the float nearest to 0.7 is a little more, which could cost a whole step.
    return with_total_steps(plan, math.ceil(Fraction(repr(epochs)) / _epochs_of_a_step(_single_phase(plan))))


def _over_noise(request: CurveRequest) -> Chart:
    """Return the chart of epsilon over the noise multiplier; for several phases, over one factor on all of them."""
    is_factor = len(request.first.phases) > 1
    start = 1.0 if is_factor else request.first.phases[0].noise_multiplier or 1.0
    # Phases may have different noise: one factor on all of them is a quantity that a curve can run over.
    grid = request.grid or tuple(np.geomspace(start / _NOISE_FACTOR, start * _NOISE_FACTOR, POINTS))
    scale = LOG if _has_equal_factors(grid) else LINEAR
    name = "noise_multiplier factor" if is_factor else "noise_multiplier"
    return _epsilon_chart(request, Axis(name=name, scale=scale), grid, with_scaled_noise if is_factor else _with_noise)


def _with_noise(plan: Plan, noise_multiplier: float) -> Plan:
    """Return a plan of one phase with another noise multiplier; InputError for several phases."""
    return with_noise(plan, _single_phase(plan), noise_multiplier)


class _SampledQuantity(NamedTuple):
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


def _sampled_quantity(plan: Plan) -> _SampledQuantity:
    """Return the quantity by which the outermost sampled level is drawn; InputError for several phases or none."""
    phase = _single_phase(plan)
    level = phase.hierarchy.levels[_sampled_level(phase)]
    name = level.name if phase.hierarchy.depth > 1 else ""
    match level.scheme:
        case Poisson() | CappedPoisson() | CyclicPoisson() as scheme:
            return _SampledQuantity("rate", float(scheme.probability), 1.0, name)
        case BallsInBins() as scheme:
            return _SampledQuantity("bins", float(scheme.bins), float(phase.steps), name)
        case RandomAllocation() as scheme:
            return _SampledQuantity("times", float(scheme.times), float(scheme.steps), name)
        case scheme:
            return _SampledQuantity("size", float(getattr(scheme, "size", 1)), float(_max_size(level)), name)


def _max_size(level: Level) -> int:
    """Return the largest batch, >= 1, that leaves a unit out of each frame, with `at_most` of the largest frame."""
    is_limited = isinstance(level.scheme, Fixed) and level.scheme.at_most
    return max(1, (level.count if is_limited else level.min_count) - 1)


def _over_rate(request: CurveRequest) -> Chart:
    """Return the chart of epsilon over the rate, size, bins or times of the outermost sampled level."""
    quantities = [_sampled_quantity(plan) for plan in request.runs]
    _require_same_quantity(request, quantities)
    name = quantities[0].name
    grid = _rates(name, request.grid) if request.grid else _default_rates(request, quantities)
    is_log = not request.grid or _has_equal_factors(request.grid)
    level = quantities[0].level if len({each.level for each in quantities}) == 1 else ""
    title = f"{name} at level {level}" if level else name
    return _epsilon_chart(request, Axis(name=name, scale=LOG if is_log else LINEAR, title=title), grid, _with_rate)


def _require_same_quantity(request: CurveRequest, quantities: Sequence[_SampledQuantity]) -> None:
    """Raise InputError if some plans are drawn by a rate and others by a size, bins or times."""
    if len({each.name for each in quantities}) > 1:
        pairs = zip(request.plans, quantities, strict=True)
        names = ", ".join(f"{each.name} ({label})" for (label, _), each in pairs)
        raise InputError(f"curve rate: expected configs drawn by the same quantity, got {names}; draw them one by one")


def _default_rates(request: CurveRequest, quantities: Sequence[_SampledQuantity]) -> tuple[float, ...]:
    """Return the values that a bound covers from 1/8 to 8 times the first plan's; its own value if none is covered."""
    first = quantities[0]
    limit = min(each.max_value for each in quantities)
    ends = min(first.value / _RATE_FACTOR, limit), min(first.value * _RATE_FACTOR, limit)
    grid = _rates(first.name, np.geomspace(*ends, POINTS))
    covered = tuple(value for value in grid if all(_has_bound_at(plan, value) for plan in request.runs))
    return covered or (first.value,)  # then the line is refused with the reason


def _rates(name: str, values: Iterable[float]) -> tuple[float, ...]:
    """Return values of a rate unchanged, those of a size, bins or times as whole numbers from 1 on."""
    return tuple(map(float, values)) if name == "rate" else whole_numbers(max(1.0, value) for value in values)


def _has_bound_at(plan: Plan, value: float) -> bool:
    """Return False if no bound covers the plan's passes or correlated noise at this rate, size, bins or times."""
    phase = plan.phases[0]
    changed = _with_rate(plan, value)
    if isinstance(phase.hierarchy.levels[_sampled_level(phase)].scheme, Shuffle) and is_refused(changed):
        return False
    return not phase.is_correlated or is_covered(changed)


def _has_equal_factors(grid: Sequence[float]) -> bool:
    """Return True if three or more positive numbers grow by one and the same factor, up to round-off."""
    if len(grid) < 3 or min(grid) <= 0:
        return False
    factors = np.diff(np.log(grid))
    return bool(np.ptp(factors) <= 1e-3 * factors.max())


def _with_rate(plan: Plan, value: float) -> Plan:
    """Return a plan of one phase with another rate, size, bins or times of its outermost sampled level."""
    phase = _single_phase(plan)
    place = _sampled_level(phase)
    level = phase.hierarchy.levels[place]
    return with_level(plan, phase, place, replace(level, scheme=_with_quantity(level.scheme, value)))


def _with_quantity(scheme: Scheme, value: float) -> Scheme:
    """Return a scheme with another rate, size, bins or times, whichever it has; `all` unchanged, which has none."""
    match scheme:
        case Fixed() | WithReplacement() | Shuffle():
            return replace(scheme, size=int(value))
        case BallsInBins():
            return replace(scheme, bins=int(value))
        case RandomAllocation():
            return replace(scheme, times=int(value))
        case Poisson() | CappedPoisson() | CyclicPoisson():
            return replace(scheme, probability=Fraction(repr(value)))
        case All():
            return scheme


def _over_group(request: CurveRequest) -> Chart:
    """Return the chart of epsilon over group size, by default up to 16, or to 4 if the unit has a parent."""
    default = _MAX_GROUP if request.first.unit == 1 else _MAX_NESTED_GROUP
    max_group = min(default, *(largest_group(plan) for _, plan in request.plans))
    grid = whole_numbers(request.grid or range(1, max_group + 1))
    x = Axis(name="group_size")
    return _epsilon_chart(request, x, grid, lambda plan, size: replace(plan, group_size=int(size)))


def _epsilon_chart(
    request: CurveRequest, x: Axis, grid: Sequence[float], with_value: Callable[[Plan, float], Plan]
) -> Chart:
    """Return the chart of epsilon over the quantity of axis x, with lines for plans and methods, limits for budgets."""
    series = _epsilon_lines(request, grid, with_value)
    deltas = {plan.delta for plan in request.runs}
    title = x.title or x.name.replace("_", " ")
    return Chart(
        title=f"epsilon over {title}" + (f", delta = {request.first.delta!r}" if len(deltas) == 1 else ""),
        subtitle=request.subtitle("delta", _VARIED_FACT.get(x.name, "")),
        x=replace(x, title=title),
        y=Axis(name="epsilon", scale=_scale(series)),
        series=tuple(series),
        limits=tuple(
            Limit(name=_line_name(request, label, "budget"), value=plan.budget.epsilon)
            for label, plan in request.plans
            if plan.budget is not None
        ),
    )


class _Line(NamedTuple):
    """A line of a chart of epsilon: a plan, its name, and the method that computes epsilon."""

    label: str
    plan: Plan
    method: str


def _epsilon_lines(
    request: CurveRequest, grid: Sequence[float], with_value: Callable[[Plan, float], Plan]
) -> list[Series]:
    """Return a line for each plan and method; if no method is named, lower bounds of up to 3 plans as well."""
    for method in request.methods:
        claimed_kind(method)  # refuses unknown methods before the first line is computed
    below = (LOWER,) if not request.methods and len(request.plans) <= _MOST_BANDS else ()
    lines = [
        _Line(label, plan, method)
        for label, plan in request.plans
        for method in (*(request.methods or (plan.method,)), *below)
    ]
    series = [_epsilon_series(request, lines, number, grid, with_value) for number in range(len(lines))]
    return [line for line in series if not below or line.kind is not Kind.LOWER or any(line.ys)]


def _epsilon_series(
    request: CurveRequest,
    lines: Sequence[_Line],
    number: int,
    grid: Sequence[float],
    with_value: Callable[[Plan, float], Plan],
) -> Series:
    """Return the points of the line with this number, from 0; InputError if it has none because its plan is refused."""
    label, plan, method = lines[number]
    points = len(request.plans) * max(1, len(request.methods)) * len(grid)
    results = []
    for index, x in enumerate(grid, start=1):
        # Every point has a share of its own, so that no answer depends on how long the points before it took.
        with allowance(max(_POINT_WORK, _CHART_WORK / points)):
            results.append(epsilon_by(with_value(plan, float(x)), method))
        request.on_progress((number + index / len(grid)) / len(lines))
    if all(result.epsilon is None for result in results):
        _raise_refusal(request, label, with_value(plan, float(grid[-1])))
    return _series_of(request, lines[number], grid, results)


def _raise_refusal(request: CurveRequest, label: str, plan: Plan) -> None:
    """Raise InputError with the reason why a plan is not covered, after its name among several; nothing if it is."""
    refused = refusal(plan)
    if refused is not None:
        where = f"{label}: " if len(request.plans) > 1 else ""
        raise InputError(f"{where}{refused}") from refused


def _series_of(request: CurveRequest, line: _Line, grid: Sequence[float], results: Sequence[MethodEpsilon]) -> Series:
    """Return the line through these results; its method is "A or B" if two methods gave the finite ones."""
    answers = [result for result in results if result.epsilon is not None]
    names = dict.fromkeys(each.method for each in answers if each.epsilon != math.inf)
    answering = " or ".join(names) or line.method
    return Series(
        name=_line_name(request, line.label, answering),
        kind=_common_kind(answers, line.method),
        xs=tuple(map(float, grid)),
        ys=tuple(result.epsilon for result in results),
        method=answering,
        about=differing_facts(line.plan, request.runs),
    )


def _common_kind(answers: Sequence[MethodEpsilon], method: str) -> Kind:
    """Return the kind that all answers have; if they have none or several, the kind that the method claims."""
    kinds = {answer.kind for answer in answers}
    return kinds.pop() if len(kinds) == 1 else claimed_kind(method)


def _scale(series: Sequence[Series]) -> str:
    """Return LOG if the positive finite numbers differ by more than a factor of 100, else LINEAR."""
    # Two decades on a linear axis leave the small half of the numbers on one line of pixels.
    shown = [y for line in series for y in line.ys if y is not None and 0 < y < math.inf]
    return LOG if shown and max(shown) > _LOG_RATIO * min(shown) else LINEAR


def _line_name(request: CurveRequest, label: str, method: str) -> str:
    """Return a line's name: its method if there is one plan, else the label, with the method if that has more lines."""
    if len(request.plans) == 1:
        return method
    return f"{label}, {method}" if method in {"budget", LOWER} or len(request.methods) > 1 else label


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
    """Return the share of the outermost sampled level's units that a step draws; InputError if no level is sampled."""
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
