"""Rows of `dpcalc compare`: every accountant, estimates, published bounds and the numbers of other tools."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

import numpy as np

from dpcalc.accountants import ACCOUNTANTS
from dpcalc.accountants.closed_forms import central_limit_mu, epsilon_of_mu
from dpcalc.accountants.composed_loss import LOWER, UPPER
from dpcalc.accountants.inversion import INVERSION_ERROR, inversion, largest_inversion
from dpcalc.accountants.pld import epsilon_bounds
from dpcalc.accountants.rdp import best_epsilon
from dpcalc.errors import ConvergenceError, UnsupportedError, counted
from dpcalc.guarantee import TIGHT_WITHIN, Adjacency, Kind, Row
from dpcalc.losses.moments import composed_moments
from dpcalc.mechanisms.matrix_factorization import MatrixFactorization
from dpcalc.planner.advice import unused_order
from dpcalc.planner.calibration import FOUND_NOISE, OPACUS_ORDERS, TF_PRIVACY_ORDERS
from dpcalc.planner.composition import BOUND, Composition, composed, is_noiseless, releasing_phases
from dpcalc.planner.evaluate import accountant_row, guarantee
from dpcalc.planner.lower_end import LOWER_WORK, epsilon_lower
from dpcalc.planner.plan import Plan
from dpcalc.planner.published import (
    FLAT_POISSON,
    GAUSSIAN_ONLY,
    NO_LOADER,
    FlatStep,
    are_one_step_bounds,
    flat_poisson_row,
    flat_steps,
    group_rows,
    loader_share,
    opacus_epsilon,
    opacus_steps,
    rates_in_words,
    strong_composition_row,
    theorem_3_row,
    without_number,
)
from dpcalc.planner.vary import refusal
from dpcalc.records import dataclass
from dpcalc.work import SECOND, allowance, optional

_THEIR_ROUND_OFF = 1e-13  # of the divergence of a step, as dp_accounting computes it
COMPARISON_WORK = 8.0 * SECOND  # for all rows together: what needs more is a row without a number

# Numbers beside the guarantee that prove nothing: an accurate estimate and a limit theorem.


def inversion_row(plan: Plan | Composition) -> Row:
    """Return the row of the uncertified estimate by inversion; its epsilon is None, with the reason, if that fails."""
    row = Row(method="inversion", bound=BOUND, epsilon=None, kind=Kind.ESTIMATE, valid=False)
    try:
        composition = composed(plan)
        result, _ = largest_inversion(composition.steps, delta=composition.plan.delta)
    except (ConvergenceError, UnsupportedError) as error:
        return replace(row, note=str(error))
    return replace(row, epsilon=result.epsilon, note="accurate to about nine digits, not certified: pld brackets it")


def gdp_row(plan: Plan | Composition) -> Row:
    """Return the row of the central limit approximation; its epsilon is None, with the reason, if it does not apply."""
    # The limit is one for flat add-remove Gaussian steps of single units.
    row = Row(method="gdp", bound=FLAT_POISSON, epsilon=None, kind=Kind.APPROXIMATION, valid=False)
    composition = composed(plan)
    run = composition.plan
    phases = releasing_phases(run)
    why, mu = "", math.inf
    if not run.is_gaussian:
        why = GAUSSIAN_ONLY
    elif run.group_size > 1 or not composition.is_plain:
        why = "does not apply: a limit for single units, drawn afresh in every step"
    elif run.unit > 1 or any(phase.clip != 1 for phase in phases):
        why = "does not apply: a limit for one level of draws with one clipped vector a unit"
    elif run.adjacency is Adjacency.REPLACE_ONE:
        why = "does not apply: a limit for add-remove"
    else:
        mu = central_limit_mu([(composition.inclusion(p), p.gaussian.noise_multiplier, p.steps) for p in phases])
    if math.isinf(mu):
        return replace(row, note=why or "does not apply: with so little noise a step is far from any limit")
    note = f"mu = {mu:.4g}, a limit for many steps of a small rate; may lie below the truth"
    if any(level.scheme.has_stand_in for phase in phases for level in phase.hierarchy.levels[:1]):
        note += ", and knows Poisson draws only"
    return replace(row, epsilon=epsilon_of_mu(mu, delta=run.delta) if mu else 0.0, note=note)


@dataclass(frozen=True, kw_only=True)
class PrefixErrors:
    """Error of the prefix sums of a phase with correlated noise, which its strategy is chosen for; in clip norms."""

    phase: str
    mean: float  # root of the mean over the steps of the variance of one coordinate
    largest: float  # largest deviation of one coordinate at any step


def prefix_errors(plan: Plan) -> tuple[PrefixErrors, ...]:
    """Return the prefix-sum errors, uncertified, of each phase with correlated noise for which they are known."""
    known = []
    for phase in plan.phases:
        mechanism = phase.mechanism
        if phase.steps and isinstance(mechanism, MatrixFactorization):
            errors = mechanism.strategy.prefix_errors(phase.steps)
            if errors is not None:
                mean, largest = (mechanism.noise_multiplier * each for each in errors)
                known.append(PrefixErrors(phase=phase.name, mean=mean, largest=largest))
    return tuple(known)


# The cross-check by two methods that share only the quadrature of one step: the certified interval and the estimate.


@dataclass(frozen=True, kw_only=True)
class CrossCheck:
    """The composed one-step bound of one direction by two methods."""

    direction: str  # the ordered pair of data sets
    upper: float  # certified ends of its epsilon
    lower: float
    estimate: float | None  # the same by inversion, or None where that does not converge
    order: float  # the Renyi order that bounds it best
    note: str = ""  # why there is no estimate

    @property
    def is_bracketed(self) -> bool:
        """True if the estimate lies between the certified bounds, up to its own accuracy; False without an estimate."""
        if self.estimate is None:
            return False
        error = INVERSION_ERROR * self.estimate  # bounds in closed form may be closer to each other than that
        return self.lower - error <= self.estimate <= self.upper + error

    @property
    def difference(self) -> float:
        """Largest distance between the estimate and a bound, relative to the upper bound; 0 without an estimate."""
        if self.estimate is None or self.upper == 0:
            return 0.0
        return max(abs(self.upper - self.estimate), abs(self.estimate - self.lower)) / self.upper


def cross_checks(plan: Plan | Composition) -> tuple[CrossCheck, ...]:
    """Return checks of pld by inversion, for both directions of the costliest unit; () for tuning or if it fails."""
    composition = composed(plan)
    run = composition.plan
    if is_noiseless(run) or not releasing_phases(run) or run.tuning is not None:
        return ()

    def both() -> tuple[CrossCheck, ...]:
        protected, _ = composition.costliest()
        checks = []
        for direction in protected.direction_names:
            counts = composition.steps[direction]
            if not counts:
                continue
            # The certified interval stands without the estimate, not the other way round.
            estimate, note = None, ""
            try:
                estimate = inversion(counts, delta=run.delta)
            except ConvergenceError as error:
                note = str(error)
            upper, lower = epsilon_bounds(counts, delta=run.delta, sides=(UPPER, LOWER))
            order = best_epsilon(counts, delta=run.delta).order + 1
            checks.append(
                CrossCheck(direction=direction, upper=upper, lower=lower, estimate=estimate, order=order, note=note)
            )
        return tuple(checks)

    return optional("the cross-check", both, ())[0]


# What other tools print


def tool_rows(plan: Plan | Composition) -> tuple[Row, ...]:
    """Return two rows of Opacus and four of TF-Privacy; one that refuses if noise is correlated or not Gaussian."""
    # One row an accountant or statement. Valid where what the tool assumes is what the plan does.
    # Source: Opacus 1.6.0, accountants `prv` (its default) and `rdp`; TensorFlow Privacy 0.9.0, both numbers of
    # `compute_dp_sgd_privacy_statement`, with and without `used_microbatching`; orders as both list them.
    composition = composed(plan)
    if found := composition.stated.calibrations:  # they print the target for noise of which only the least is known
        promised = composition.stated.promised_epsilon
        kind, whose = (Kind.CONDITIONAL, "this") if promised else (Kind.AS_PUBLISHED, "another")
        note, epsilon = f"the target, for which it looked for noise for {whose} run", promised or found[0].epsilon
        row = Row(method=found[0].by, bound=FOUND_NOISE, epsilon=epsilon, kind=kind, valid=bool(promised), note=note)
        return (row,)
    flat = flat_poisson_row(composition)
    if flat.epsilon is None and opacus_steps(composition) is not None:
        return (flat,)  # it does not apply to the noise
    run = composition.plan

    # What the tools assume and the run does not do: the first difference of its draws, all of its units.
    schemes = [level.scheme for phase in releasing_phases(run) for level in phase.hierarchy.levels[: run.unit]]
    differences = []
    if any(scheme.has_stand_in for scheme in schemes):
        differences.append("Poisson draws, not batches of a fixed size")
    elif any(scheme.is_cut for scheme in schemes):
        differences.append("Poisson batches that are never cut")
    elif run.group_size == 1 and not composition.is_plain:
        differences.append("one Poisson draw, made afresh in every step")
    if run.group_size > 1:
        differences.append("single examples, not groups")
    if run.unit > 1:
        differences.append(f"one level of draws, not {run.unit}")
    # Where another unit comes in its place, the distance is 2 with a single contribution, too.
    is_replaced = any(scheme.has_stand_in or scheme.is_cut or scheme.is_shuffled for scheme in schemes)
    if run.adjacency is Adjacency.REPLACE_ONE:
        differences.append("add-remove, not replace-one")
    elif not is_replaced and any(composition.phase_bound(phase).shift > 1 for phase in releasing_phases(run)):
        differences.append("one clipped contribution of the unit, not several")
    assumed = f"assumes {'; '.join(differences) or 'another run'}"

    # The two rows of Opacus, its default `prv` and its `rdp`; `flat` says whether they hold.
    prv, rdp = (replace(flat, method=name, kind=Kind.AS_PUBLISHED) for name in ("opacus-prv", "opacus-rdp"))
    steps = opacus_steps(composition, told="hook")
    if steps:
        asked = f"asked with the rate {rates_in_words(steps)}"
        printed, epsilon = opacus_epsilon(composition), renyi_epsilon(steps, OPACUS_ORDERS, run.delta)
        note = f"{'the same bound, to which it adds 0.01 for its own error' if flat.valid else assumed}; {asked}"
        if printed is None:
            note = "prints no number that means anything: exponentials overflow above 700"
        by_orders = f"{'the best of its fixed orders, 1.1 to 63' if flat.valid else assumed}; {asked}"
        by_orders += "; it prints a negative number" if epsilon < 0 else ""
        rows = replace(prv, epsilon=printed, note=note), replace(rdp, epsilon=max(0.0, epsilon), note=by_orders)
    else:
        note = NO_LOADER if steps is None else "prints nothing before the first step"
        rows = replace(prv, epsilon=None, note=note), replace(rdp, epsilon=None, note=note)
    return (*rows, *_tf_privacy_rows(composition, assumed))


def _tf_privacy_rows(composition: Composition, assumed: str) -> tuple[Row, ...]:
    """Return the four rows of TF-Privacy: Poisson sampling and once per epoch, each without and with microbatches."""
    # Those without sampling are valid for one contribution of a unit in each pass: for a rate of 1, and for shuffled
    # single examples under zero-out.
    # Source: TF-Privacy 0.9.0, `compute_dp_sgd_privacy_lib`: ceil(epochs * examples / batch_size) Poisson steps or
    # ceil(epochs) releases.
    run = composition.plan
    phases, delta = releasing_phases(run), run.delta
    bounds = ("flat Poisson", "once per epoch", "flat Poisson, microbatches", "once per epoch, microbatches")
    # A statement is asked with batch size / examples, the noise, and the epochs.
    runs, refused = set(), "" if phases else "has no statement of a run without steps"
    for phase in phases:
        rate, in_a_pass = (loader_share(composition, phase, told) for told in ("batch", "step"))
        if rate is None or in_a_pass is None:
            refused = NO_LOADER
            break
        runs.add((rate, in_a_pass, phase.gaussian.noise_multiplier))
    if len(runs) > 1:
        refused = refused or "does not apply: a statement is about one run of equal steps"
    if refused:
        return tuple(without_number("tf-privacy", bound, refused) for bound in bounds)
    ((rate, in_a_pass, noise),) = runs
    steps = sum(phase.steps for phase in phases)
    epochs = math.floor((steps - 1) * in_a_pass) + 1  # the fewest that take these steps
    if rate != in_a_pass:  # passes of a shuffle, which the statement turns into Poisson steps by itself
        steps = math.ceil(float(steps * in_a_pass) / float(rate))
    # A unit that is one clipped vector, which a shuffle uses once in each pass and which turns to zero.
    is_once_in_a_pass = (
        run.adjacency is Adjacency.ZERO_OUT
        and run.unit == run.group_size == 1
        and not run.parts
        and all(
            phase.hierarchy.depth == phase.clip == 1
            and phase.hierarchy.level(1).scheme.is_shuffled
            and phase.hierarchy.level(1).redraw_every == 1
            for phase in composition.stated.phases
            if phase.steps
        )
    )
    rows = []
    for number, bound in enumerate(bounds):
        halves, is_sampled = number >= 2, number % 2 == 0
        deviation = noise / 2 if halves else noise
        note = "noise halved for microbatches of several examples, its default; " if halves else ""
        # With halved noise the statement holds for a sum that a unit moves by two clip norms, too.
        shifts = (1, 2) if halves else (1,)
        holds = any(are_one_step_bounds(composition, [(rate, noise, steps)] * len(phases), shift=n) for n in shifts)
        if is_sampled:
            epsilon = renyi_epsilon([(rate, deviation, steps)], TF_PRIVACY_ORDERS, delta)
            note += f"{'the best of its fixed orders, 1.1 to 1024' if holds else assumed}; asked with the rate {rate}"
        else:
            # A release has rdp(a) = a / (2 sigma^2) (Mironov 2017, 1702.07476v3, Proposition 7).
            epsilon = _converted([(a, a * epochs / (2 * deviation**2)) for a in TF_PRIVACY_ORDERS], delta)
            holds = (holds and rate == 1) or is_once_in_a_pass
            note += "assumes each example once per epoch in a fixed order, no amplification by sampling: "
            note += counted(epochs, "Gaussian release")
        rows.append(replace(without_number("tf-privacy", bound, note), epsilon=max(0.0, epsilon), valid=holds))
    return tuple(rows)


def renyi_epsilon(steps: Sequence[FlatStep], orders: tuple[float, ...], delta: float) -> float:
    """Return the epsilon that tools compute for flat Poisson draws, at the best of their orders; it may be negative."""
    # Source: Mironov, Talwar, Zhang 2019 (1908.10530v1), Theorem 4 (that direction is the larger one); Canonne, Kamath,
    # Steinke 2020 (2004.00010v4), Proposition 12. All tools but Opacus return 0 where 1 - exp(-divergence) is below
    # delta^2 (dp_accounting 0.6, `compute_epsilon`); their divergence of a step has a round-off of about 1e-13.
    counts = flat_steps(steps)
    # It falls with the order up to the best one and rises from there; large orders need many nodes.
    best, block = math.inf, 24
    for start in range(0, len(orders), block):
        some = orders[start : start + block]
        z = np.array(some) - 1
        cumulants, _ = composed_moments(counts, max_order=float(z.max())).cumulants(z)
        divergences = [(a, float(k) / (a - 1)) for a, k in zip(some, cumulants, strict=True)]
        least = divergences[0][1] - _THEIR_ROUND_OFF * sum(number for _, _, number in steps)
        if start == 0 and orders != OPACUS_ORDERS and delta**2 + math.expm1(-least) > 0:
            return 0.0
        known, best = best, _converted(divergences, delta)
        if known < best:
            return known
    return best


def _converted(divergences: list[tuple[float, float]], delta: float) -> float:
    """Return the smallest epsilon that one of the (order, Renyi divergence) pairs proves; it may be negative."""
    return min(rdp + math.log1p(-1 / a) - math.log(delta * a) / (a - 1) for a, rdp in divergences)


# The comparison of every accountant and bound.


def compare(plan: Plan) -> tuple[Row, ...]:
    """Return the rows of all accountants and bounds, valid ones first, then by epsilon; one infinite row without noise.

    What does not apply has no epsilon and says why.
    """
    if plan.tuning is not None:
        raise UnsupportedError("tuning: expected one run to compare accountants on, got several; --unset tuning")
    composition = composed(plan)
    refused = refusal(composition)
    if refused is not None:
        raise refused
    if is_noiseless(plan):
        note = "no noise is added to a release that holds the unit: no finite bound"
        return (Row(method="none", bound=BOUND, epsilon=math.inf, kind=Kind.UPPER, valid=True, note=note),)
    others: dict[str, Callable[[], Iterable[Row | None]]] = {
        "theorem 3": lambda: [theorem_3_row(composition)],
        "inversion": lambda: [inversion_row(composition)],
        "the central limit": lambda: [gdp_row(composition)],
        "strong composition": lambda: [strong_composition_row(composition)],
        "what other tools print": lambda: tool_rows(composition),
        "published group bounds": lambda: group_rows(composition),
    }
    with allowance(COMPARISON_WORK):
        rows = [accountant_row(composition, name) for name in ACCOUNTANTS]
        end, missing = optional("the lower bound", lambda: epsilon_lower(composition), None, units=LOWER_WORK)
        lower = None if end is None else end.value
        place = [row.method for row in rows].index("pld")
        if end is not None:
            # Of one pair both ends may still be far apart, where what is composed is rounded to either side.
            attains = end.is_tight and end.value >= (1 - TIGHT_WITHIN) * (rows[place].epsilon or 0.0)
            words = "the data set that attains the bound" if attains else "the worst data set known"
            missing = f"lower end: {words}"
        rows[place] = replace(rows[place], epsilon_lower=lower, note=rows[place].note or missing)
        for name, part in others.items():  # those that fail or need too much work are left out
            found, _ = optional(name, part, ())
            rows += [row for row in found if row is not None]
        notes = (rows[place].note, *unused_order(composition))
        rows[place] = replace(rows[place], note="; ".join(filter(None, notes)))
    if not any(row.valid and row.epsilon is not None for row in rows):  # every accountant needs too much work
        main = guarantee(composition, method="auto")
        note = "; ".join(main.notes)
        rows.append(Row(method=main.method, bound=BOUND, epsilon=main.epsilon, kind=main.kind, valid=True, note=note))
    for place, row in enumerate(rows):
        if row.kind is Kind.UPPER:  # of published theorems
            rows[place] = replace(row, kind=plan.bound_kind)
        if not row.valid and lower is not None and row.epsilon is not None and row.epsilon < lower:
            rows[place] = replace(row, note=f"{row.note}; an actual data set costs more")
    # Valid rows first: whoever reads one number reads a guarantee.

    def rank(row: Row) -> tuple[bool, bool, float, bool, float]:
        epsilon = row.epsilon or 0.0  # of equal ones the row with a lower end first: it is dpcalc's own answer
        return not row.valid, row.epsilon is None, float(f"{epsilon:.6g}"), row.epsilon_lower is None, epsilon

    return tuple(sorted(rows, key=rank))
