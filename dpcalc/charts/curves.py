"""The curves of `dpcalc curve`: functions from a request to a chart, which raise InputError where there is none.

Epsilon over one quantity of a plan, by each accountant and by formulas to compare with; delta over epsilon, true over
false positive rate, and Renyi divergence over its order.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from fractions import Fraction

import numpy as np

from dpcalc.accountants import METHODS as ACCOUNTING_METHODS
from dpcalc.accountants.rdp import sum_rounded_up
from dpcalc.arrays import Array
from dpcalc.charts.chart import LINEAR, LOG, LOWER, Axis, Chart, Limit, Series, scale_for
from dpcalc.errors import InputError, WorkExceededError, one_of
from dpcalc.guarantee import Kind, Row
from dpcalc.losses.moments import composed_moments, total_infinity_mass
from dpcalc.losses.rdp_curve import UNKNOWN
from dpcalc.mechanisms.additive import DiscreteGaussian
from dpcalc.mechanisms.black_box import ApproximateDp
from dpcalc.planner.compare import gdp_row, inversion_row
from dpcalc.planner.composition import composed, is_noiseless
from dpcalc.planner.evaluate import CLOSED_FORM, delta_of, guarantee
from dpcalc.planner.lower_end import epsilon_lower
from dpcalc.planner.plan import Phase, Plan
from dpcalc.planner.published import (
    GROUP_AS_ONE,
    GROUP_MIXTURE,
    flat_poisson_row,
    general_rdp_row,
    group_rows,
    published_rdp_bounds,
    strong_composition_row,
    theorem_3_row,
)
from dpcalc.planner.risk import true_positive_rates
from dpcalc.planner.search import require_pld_method
from dpcalc.planner.vary import (
    is_covered,
    largest_group,
    refusal,
    with_level,
    with_noise,
    with_scaled_noise,
    with_total_steps,
)
from dpcalc.planner.words import differing_facts, facts, mechanism_text, shared_facts
from dpcalc.records import dataclass
from dpcalc.sampling.hierarchy import Level
from dpcalc.work import FAILURES, SECOND, allowance

POINTS = 25  # of a curve by default
_SQUEEZED = 5.0  # ratio of two lines at their ends from which on a linear axis would press the lower ones together
_MOST_DESCRIBED = 6  # plans that a line below the title describes: more would leave no room for the chart


@dataclass(frozen=True, kw_only=True)
class CurveRequest:
    """Plans, methods and grid of a curve; the first plan decides the default range."""

    plans: tuple[tuple[str, Plan], ...]  # at least one (name, plan)
    methods: tuple[str, ...] = ()  # some of METHODS, () for that of each plan
    grid: tuple[float, ...] = ()  # increasing values of the horizontal axis, () for a default range
    on_progress: Callable[[float], object] = float  # called with the finished share

    @property
    def first(self) -> Plan:
        return self.plans[0][1]

    @property
    def runs(self) -> tuple[Plan, ...]:
        return tuple(plan for _, plan in self.plans)

    def subtitle(self, *without: str) -> str:
        """Return the facts that all plans share, and for up to 6 plans a line on how each differs."""
        shared = shared_facts(self.runs, without=without)
        if len(self.plans) == 1:
            return f"{self.plans[0][0]}: {shared}" if self.plans[0][0] else shared
        every = [facts(plan) for plan in self.runs]
        names = [name for name in ("sampling", "noise", "length") if name not in without]
        differing = [name for name in names if len({each[name] for each in every}) > 1]
        lines = []
        for (label, _), each in zip(self.plans, every, strict=True):
            text = "; ".join(filter(None, (each[name] for name in differing)))
            lines += [f"{label}: {text}"] if text else []
        return "\n".join([shared, *(lines if len(lines) <= _MOST_DESCRIBED else [])])

    def line(
        self,
        label: str,
        plan: Plan,
        quantity: str,
        xs: Iterable[float],
        ys: Iterable[float | None],
        *,
        kind: Kind | None = None,
        method: str = "",
    ) -> Series:
        """Return a line of one plan; its kind is by default that of the plan's bounds."""
        about = differing_facts(plan, self.runs, without=("delta",))
        name, values = self.line_name(label, quantity), tuple(ys)
        return Series(
            name=name, kind=kind or plan.bound_kind, xs=tuple(map(float, xs)), ys=values, method=method, about=about
        )

    def line_name(self, label: str, quantity: str) -> str:
        return f"{label}, {quantity}" if len(self.plans) > 1 else quantity


def whole_numbers(grid: Iterable[float]) -> tuple[float, ...]:
    return tuple(dict.fromkeys(float(round(x)) for x in grid))


# Epsilon by a method


def _group_row(bound: str) -> Callable[[Plan], Row | None]:
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
    if method not in METHODS:
        raise one_of("method", METHODS, method)
    if method == LOWER:
        return Kind.LOWER
    return COMPARED[method][0] if method in COMPARED else Kind.UPPER


def epsilon_by(plan: Plan, method: str) -> tuple[float | None, Kind, str]:
    """Return epsilon by one of METHODS, its kind, and what answered: for "auto" the accountant.

    It is infinite without noise, None where the method fails or does not apply.
    """
    kind, epsilon = claimed_kind(method), None
    if is_noiseless(plan):
        return math.inf, kind, method
    try:
        if method == LOWER:
            lower = epsilon_lower(plan)
            epsilon = None if lower is None else lower.value
        elif method in COMPARED:
            row = COMPARED[method][1](plan)
            epsilon, kind = (None, kind) if row is None else (row.epsilon, row.kind)
        else:
            try:
                main = guarantee(plan, method=method)
            except WorkExceededError:  # a curve with gaps says less than one with looser points
                main = guarantee(plan, method=CLOSED_FORM)
            epsilon, kind = main.epsilon, main.kind
            method = main.method if plan.tuning is None else f"{main.method}, best of several runs"
    except FAILURES:
        pass
    return epsilon, kind, method


# Curves of epsilon over one quantity

_CHART_WORK, _POINT_WORK = 8.0 * SECOND, 1.0 * SECOND  # shared by the points of a chart; what each has at least
_NOISE_FACTOR = 4.0  # by which noise is varied to both sides of the plan's
_RATE_FACTOR = 8.0  # by which a rate or size is varied to both sides of the plan's
_MAX_GROUP, _MAX_NESTED_GROUP = 16, 4  # drawn by default; a group in nested frames has many placements, and is slow
_MOST_BANDS = 3  # plans with a band between upper and lower bounds by default: more would hide each other
_ROUND_OFF = 1e-3  # passes: a length this close to a whole number of passes counts as that number
_VARIED_FACT = {
    **dict.fromkeys(("steps", "epochs"), "length"),
    **dict.fromkeys(("noise_multiplier", "noise_multiplier factor"), "noise"),
    **dict.fromkeys(("rate", "size", "bins", "times"), "sampling"),
}


def _axis_and_grid(kind: str, request: CurveRequest) -> tuple[Axis, tuple[float, ...]]:
    """Return what epsilon is drawn over, and its values: those asked for, or a range around the first plan's."""
    first, grid = request.first, request.grid
    match kind:
        case "steps":
            return Axis(name="steps"), whole_numbers(grid or np.linspace(1, max(1, first.steps), POINTS))
        case "epochs" if not grid:  # the multiples of a round step, at most 25 of them, and the end itself
            end = first.steps * float(_epochs_of_a_step(first))
            min_step = end / POINTS * (1 - _ROUND_OFF)
            power = math.floor(math.log10(min_step))
            # Exact multiples: 0.1 added up in floats would give 0.30000000000000004 epochs.
            step = next(Fraction(10) ** power * part for part in (1, 2, 5, 10) if 10.0**power * part >= min_step)
            grid = tuple(float(step * number) for number in range(1, math.floor(end / step + _ROUND_OFF) + 1))
            is_end_left = not grid or end > grid[-1] * (1 + _ROUND_OFF)
            return Axis(name="epochs"), (*grid, end) if is_end_left else grid
        case "epochs":
            return Axis(name="epochs"), tuple(map(float, grid))
        case "sigma":
            is_factor = len(first.phases) > 1
            start = 1.0 if is_factor else first.phases[0].noise_multiplier or 1.0
            grid = grid or tuple(np.geomspace(start / _NOISE_FACTOR, start * _NOISE_FACTOR, POINTS))
            name = "noise_multiplier factor" if is_factor else "noise_multiplier"
            return Axis(name=name, scale=LOG if _has_equal_factors(grid) else LINEAR), grid
        case "group":
            default = _MAX_GROUP if first.unit == 1 else _MAX_NESTED_GROUP
            max_group = min(default, *(largest_group(plan) for plan in request.runs))
            return Axis(name="group_size"), whole_numbers(grid or range(1, max_group + 1))

    # What the outermost sampled level is drawn by, from 1/8 to 8 times the first plan's as far as bounds go.
    names, limits, level_names = [], [], set()
    for plan in request.runs:
        phase, _, level = _sampled_level(plan)
        scheme = level.scheme
        level_names.add(level.name if phase.hierarchy.depth > 1 else "")
        names.append(scheme.amount_key)
        # The largest value with which the level is still sampled: a unit is left out of each frame; with `at_most`, of
        # the largest one.
        largest = {"rate": 1, "bins": phase.steps, "times": scheme.steps_of_a_pass(level.count)}
        largest["size"] = max(1, (level.count if scheme.at_most else level.min_count) - 1)
        limits.append(float(largest[names[-1]]))
    name = names[0]
    if len(set(names)) > 1:
        pairs = zip(request.plans, names, strict=True)
        shown = ", ".join(f"{each} ({label})" for (label, _), each in pairs)
        raise InputError(f"curve rate: expected configs drawn by the same quantity, got {shown}; draw them one by one")

    def values(grid: Iterable[float]) -> tuple[float, ...]:
        return tuple(map(float, grid)) if name == "rate" else whole_numbers(max(1.0, value) for value in grid)

    def has_bound(plan: Plan, value: float) -> bool:
        changed, (phase, _, level) = _changed(plan, name, value), _sampled_level(plan)
        if level.scheme.is_shuffled and refusal(changed) is not None:
            return False
        return not phase.is_correlated or is_covered(changed)

    is_log = not grid or _has_equal_factors(grid)
    if grid:
        grid = values(grid)
    else:
        own = float(_sampled_level(first)[2].scheme.amount or 0)
        limit = min(limits)
        around = np.geomspace(min(own / _RATE_FACTOR, limit), min(own * _RATE_FACTOR, limit), POINTS)
        covered = [x for x in values(around) if all(has_bound(plan, x) for plan in request.runs)]
        grid = tuple(covered) or (own,)
    level_name = level_names.pop() if len(level_names) == 1 else ""
    title = f"{name} at level {level_name}" if level_name else name
    return Axis(name=name, scale=LOG if is_log else LINEAR, title=title), grid


def _changed(plan: Plan, name: str, value: float) -> Plan:
    """Return the plan with a value of what the axis of this name has."""
    match name:
        case "steps":
            return with_total_steps(plan, int(value))
        case "epochs":
            # In the fewest whole steps that make them up. An epoch as its decimal: the float nearest to 0.7 is a little
            # more, which could cost a whole step.
            return with_total_steps(plan, math.ceil(Fraction(repr(value)) / _epochs_of_a_step(plan)))
        case "noise_multiplier":
            return with_noise(plan, _single_phase(plan), value)
        case "noise_multiplier factor":
            return with_scaled_noise(plan, value)
        case "group_size":
            return replace(plan, group_size=int(value))
    phase, place, level = _sampled_level(plan)
    amount = Fraction(repr(value)) if level.scheme.amount_key == "rate" else int(value)
    return with_level(plan, phase, place, replace(level, scheme=level.scheme.with_amount(amount)))


def _epochs_of_a_step(plan: Plan) -> Fraction:
    """Return the share of the outermost sampled level's units that a step draws."""
    _, _, level = _sampled_level(plan)
    return level.scheme.share(level.count)


def _epsilon(kind: str, request: CurveRequest) -> Chart:
    """Return the chart of epsilon, a line for each plan and method; InputError for a line no bound covers."""
    x, grid = _axis_and_grid(kind, request)
    for method in request.methods:
        claimed_kind(method)  # refuses unknown methods before the first line is computed
    below = (LOWER,) if not request.methods and len(request.plans) <= _MOST_BANDS else ()
    lines = [
        (label, plan, method)
        for label, plan in request.plans
        for method in (*(request.methods or (plan.method,)), *below)
    ]
    # Every point has a share of its own, so that no answer depends on how long the points before it took.
    points = len(request.plans) * max(1, len(request.methods)) * len(grid)
    share = max(_POINT_WORK, _CHART_WORK / points)
    series = []
    for number, (label, plan, method) in enumerate(lines):
        results = []
        for index, value in enumerate(grid, start=1):
            with allowance(share):
                results.append(epsilon_by(_changed(plan, x.name, float(value)), method))
            request.on_progress((number + index / len(grid)) / len(lines))
        epsilons = [epsilon for epsilon, _, _ in results]
        answers = [result for result in results if result[0] is not None]
        refused = None if answers else refusal(_changed(plan, x.name, float(grid[-1])))
        if refused is not None:
            raise InputError(f"{label}: {refused}" if len(request.plans) > 1 else str(refused)) from refused
        answering = " or ".join(dict.fromkeys(by for epsilon, _, by in answers if epsilon != math.inf)) or method
        kinds = {kind for _, kind, _ in answers}
        is_named_alone = len(request.plans) > 1 and len(request.methods) <= 1 and answering != LOWER
        if below and method == LOWER and not any(epsilons):
            continue
        series.append(
            Series(
                name=label if is_named_alone else request.line_name(label, answering),
                kind=kinds.pop() if len(kinds) == 1 else claimed_kind(method),
                xs=tuple(map(float, grid)),
                ys=tuple(epsilons),
                method=answering,
                about=differing_facts(plan, request.runs),
            )
        )
    positive = [y for line in series for y in line.ys if y and y < math.inf]
    ends = [line.ys[-1] for line in series if line.kind is not Kind.LOWER]  # a wide band is no reason
    known = [y for y in ends if y and y < math.inf]
    is_apart = len(known) > 1 and max(known) > _SQUEEZED * min(known)
    is_length = _VARIED_FACT.get(x.name) == "length"
    title = x.title or x.name.replace("_", " ")
    has_one_delta = len({plan.delta for plan in request.runs}) == 1
    return Chart(
        title=f"epsilon over {title}" + (f", delta = {request.first.delta!r}" if has_one_delta else ""),
        subtitle=request.subtitle("delta", _VARIED_FACT.get(x.name, "")),
        x=replace(x, title=title),
        y=Axis(name="epsilon", scale=LOG if is_apart else LINEAR if is_length else scale_for(positive)),
        series=tuple(series),
        limits=tuple(
            Limit(name=request.line_name(label, "budget"), value=plan.budget.epsilon)
            for label, plan in request.plans
            if plan.budget is not None
        ),
    )


def _has_equal_factors(grid: Sequence[float]) -> bool:
    """Return True if three or more positive numbers grow by one and the same factor, up to round-off."""
    if len(grid) < 3 or min(grid) <= 0:
        return False
    factors = np.diff(np.log(grid))
    return bool(np.ptp(factors) <= 1e-3 * factors.max())


def _single_phase(plan: Plan) -> Phase:
    if len(plan.phases) > 1:
        names = ", ".join(phase.name for phase in plan.phases)
        raise InputError(f"curve: expected a run of one phase, got {names}; draw them over steps, sigma or group")
    return plan.phases[0]


def _sampled_level(plan: Plan) -> tuple[Phase, int, Level]:
    """Return the only phase, and the index and level that is sampled outermost; InputError if there is none such."""
    phase = _single_phase(plan)
    for place, level in enumerate(phase.hierarchy.levels):
        if not level.scheme.is_whole:
            return phase, place, level
    raise InputError("curve: expected a level that is sampled, got only `all`; there is no rate")


# Curves of a whole run, which are not those of an accountant

_MASS_ROUND_OFF = 1e-12  # infinity mass below which it is round-off
_RATES = tuple(map(float, (*np.geomspace(1e-4, 0.02, 12), *np.linspace(0.04, 0.98, POINTS), 0.999)))
"""False positive rates, dense where the axis is: logarithmic at small rates, even beyond."""
_ORDERS = 1.25, 1.5, 1.75, *range(2, 20), *sorted({round(order) for order in np.geomspace(20, 64, 8)})
"""Every whole order where a divergence may leap, of a sampled step from the first order that sees its tail."""


def _profile(request: CurveRequest) -> Chart:
    grid = request.grid
    if not grid:
        epsilon = guarantee(request.first).epsilon
        grid = tuple(map(float, np.linspace(0.0, 1.5 * epsilon if 0 < epsilon < math.inf else 1.5, POINTS)))
    series = []
    for number, (label, plan) in enumerate(request.plans):
        answers = []
        for index, epsilon in enumerate(grid, start=1):
            answers.append(delta_of(require_pld_method(plan), epsilon=epsilon))
            request.on_progress((number + index / len(grid)) / len(request.plans))
        methods = " or ".join(dict.fromkeys(answer.method for answer in answers))
        series.append(request.line(label, plan, "delta", grid, [answer.delta for answer in answers], method=methods))
        lower = [answer.delta_lower for answer in answers]
        if any(delta is not None for delta in lower):
            series.append(request.line(label, plan, "delta, lower bound", grid, lower, kind=Kind.LOWER))
    budgets = dict.fromkeys(plan.budget.epsilon for plan in request.runs if plan.budget)
    return Chart(
        title="delta over epsilon",
        subtitle=request.subtitle("delta"),
        x=Axis(name="epsilon"),
        y=Axis(name="delta", scale=LOG),
        series=tuple(series),
        limits=(
            *(Limit(name="budget", value=budget, axis="x") for budget in budgets),
            *(Limit(name="delta", value=delta) for delta in dict.fromkeys(plan.delta for plan in request.runs)),
        ),
    )


def _tradeoff(request: CurveRequest) -> Chart:
    grid = request.grid or _RATES
    series = []
    for label, plan in request.plans:
        present, absent = true_positive_rates(require_pld_method(plan), grid)
        for detected, rates in (("in the data", present), ("not in the data", absent)):
            series.append(request.line(label, plan, detected, grid, map(float, rates), method="pld"))
    series.append(Series(name="guessing", kind=Kind.LOWER, xs=grid, ys=grid, is_reference=True))
    claims = 'the attacker claims "in the data", or "not in the data", and is right or wrong'
    return Chart(
        title="ROC curve of the best attacker",
        subtitle=f"{request.subtitle('delta')}\n{claims}",
        x=Axis(name="false_positive_rate", scale=LOG, title="false positive rate"),
        y=Axis(name="true_positive_rate", scale=LOG, title="true positive rate, upper bound"),
        series=tuple(series),
    )


def _divergences(request: CurveRequest) -> Chart:
    """Renyi divergence over its order: certified bounds where they are finite, and published ones."""
    grid = request.grid or tuple(map(float, _ORDERS))
    if min(grid) <= 1:
        raise InputError(f"order: expected numbers > 1, got {min(grid)!r}")
    whole = sorted({round(order) for order in grid if order >= 2})  # published sums take such orders only
    series = []
    for label, plan in request.plans:
        if is_noiseless(plan):
            raise InputError("rdp: expected noise in every step, got none; every divergence is infinite")
        bounds = _divergence_bounds(plan, np.array(grid) - 1)
        lines = [("rdp", plan.bound_kind, grid, [float(bound) for bound in bounds])]
        lines += [
            (name, kind, tuple(map(float, whole)), list(map(divergence, whole)))
            for name, (kind, divergence) in published_rdp_bounds(plan).items()
        ]
        for name, line_kind, orders, values in lines:
            # UNKNOWN is the mark of no finite bound.
            ys = [value if value < UNKNOWN else None for value in values]
            if name != "rdp" or any(y is not None for y in ys):
                series.append(request.line(label, plan, name, orders, ys, kind=line_kind))
    if not series:
        words = ", ".join(dict.fromkeys(mechanism_text(phase) for plan in request.runs for phase in plan.phases))
        raise InputError(f"rdp: expected steps with finite divergences, got {words}; some losses are infinite")
    return Chart(
        title="Rényi divergence over its order",
        subtitle=request.subtitle("delta"),
        x=Axis(name="order", scale=LOG),
        y=Axis(name="rdp", scale=LOG, title="Rényi divergence"),
        series=tuple(series),
    )


def _divergence_bounds(plan: Plan, z: Array) -> Array:
    """Return upper bounds on the largest divergence at each order z + 1; infinite where a loss may be infinite."""
    divergence = np.zeros(z.shape)
    for phase in plan.phases:
        has_delta = isinstance(phase.mechanism, ApproximateDp) and phase.mechanism.delta > 0
        if has_delta or isinstance(phase.mechanism, DiscreteGaussian):
            return divergence + math.inf
    for counts in composed(plan).steps.values():
        if total_infinity_mass(counts) > _MASS_ROUND_OFF:
            return divergence + math.inf
        if counts:
            value, _ = composed_moments(counts, max_order=float(z.max())).cumulants(z)
            divergence = np.maximum(divergence, sum_rounded_up(value) / z)
    return divergence


KINDS = ("steps", "epochs", "sigma", "rate", "group", "profile", "tradeoff", "rdp")


def curve(kind: str, request: CurveRequest) -> Chart:
    """Return the curve of one of KINDS; InputError where there is none."""
    of_run = {"profile": _profile, "tradeoff": _tradeoff, "rdp": _divergences}
    if kind not in of_run:
        return _epsilon(kind, request)
    if any(method not in {"auto", "pld"} for method in request.methods):
        raise InputError("--method: expected none, such a curve is not that of an accountant; leave it out")
    return of_run[kind](request)
