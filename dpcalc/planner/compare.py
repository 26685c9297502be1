"""Rows of `dpcalc compare`: every accountant, estimates, published bounds and the numbers of other tools."""

import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import partial
from typing import NamedTuple

import numpy as np

from dpcalc.accountants import ACCOUNTANTS
from dpcalc.accountants.composed_loss import LOWER, UPPER
from dpcalc.accountants.gaussian import central_limit_mu, epsilon_of_mu
from dpcalc.accountants.inversion import INVERSION_ERROR, inversion, largest_inversion
from dpcalc.accountants.pld import epsilon_bounds
from dpcalc.accountants.rdp import best_epsilon
from dpcalc.accountants.result import StepCounts
from dpcalc.errors import ConvergenceError, UnsupportedError, counted
from dpcalc.guarantee import Adjacency, Kind, Row
from dpcalc.losses.moments import Curve, composed_moments
from dpcalc.losses.pair import MixturePair
from dpcalc.mechanisms.matrix_factorization import MatrixFactorization
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
    flat_pair,
    flat_poisson_row,
    group_rows,
    loader_share,
    opacus_epsilon,
    opacus_steps,
    rates_in_words,
    share_of_a_step,
    share_of_batch,
    strong_composition_row,
    theorem_3_row,
)
from dpcalc.planner.vary import refusal
from dpcalc.records import dataclass
from dpcalc.sampling.schemes import CappedPoisson, Fixed, Scheme, Shuffle
from dpcalc.work import SECOND, allowance, optional

# Numbers beside the guarantee that prove nothing: an accurate estimate and a limit theorem.


def inversion_row(plan: Plan | Composition) -> Row:
    """Return the row of the uncertified estimate by inversion; its epsilon is None, with the reason, if that fails."""
    row = Row(method="inversion", bound=BOUND, epsilon=None, kind=Kind.ESTIMATE, valid=False)
    try:
        composition = composed(plan)
        result, _ = largest_inversion(composition.steps, delta=composition.plan.delta, otherwise=_no_estimate)
    except (ConvergenceError, UnsupportedError) as error:
        return replace(row, note=str(error))
    return replace(row, epsilon=result.epsilon, note="accurate to about nine digits, not certified: pld brackets it")


def _no_estimate(_: StepCounts, error: ConvergenceError) -> float:
    """Raise the error: no other method stands in for the estimate."""
    raise error


def gdp_row(plan: Plan | Composition) -> Row:
    """Return the row of the central limit approximation; its epsilon is None, with the reason, if it does not apply."""
    row = Row(method="gdp", bound=FLAT_POISSON, epsilon=None, kind=Kind.APPROXIMATION, valid=False)
    composition = composed(plan)
    refused = _central_limit_refusal(composition)
    if refused:
        return replace(row, note=refused)
    phases = releasing_phases(composition.plan)
    mu = central_limit_mu([(composition.inclusion(p), p.gaussian.noise_multiplier, p.steps) for p in phases])
    if math.isinf(mu):
        return replace(row, note="does not apply: with so little noise a step is far from any limit")
    note = f"mu = {mu:.4g}, a limit for many steps of a small rate; may lie below the truth"
    if any(isinstance(level.scheme, Fixed) for phase in phases for level in phase.hierarchy.levels[:1]):
        note += ", and knows Poisson draws only"
    return replace(row, epsilon=epsilon_of_mu(mu, delta=composition.plan.delta) if mu else 0.0, note=note)


def _central_limit_refusal(composition: Composition) -> str:
    """Return why the limit for flat add-remove Gaussian steps of single units does not apply, or "" if it does."""
    run = composition.plan
    if not run.is_gaussian:
        return GAUSSIAN_ONLY
    if run.group_size > 1 or not composition.is_plain:
        return "does not apply: a limit for single units, drawn afresh in every step"
    if run.unit > 1 or any(phase.clip != 1 for phase in releasing_phases(run)):
        return "does not apply: a limit for one level of draws with one clipped vector a unit"
    return "does not apply: a limit for add-remove" if run.adjacency is Adjacency.REPLACE_ONE else ""


@dataclass(frozen=True, kw_only=True)
class PrefixErrors:
    """Error of the prefix sums of a phase with correlated noise, which its strategy is chosen for.

    Attributes:
        phase: its name.
        mean: root of the mean over the steps of the variance of one coordinate, in clip norms.
        largest: largest deviation of one coordinate at any step, in clip norms.
    """

    phase: str
    mean: float
    largest: float


def prefix_errors(plan: Plan) -> tuple[PrefixErrors, ...]:
    """Return the prefix-sum errors, uncertified, of each phase with correlated noise for which they are known."""
    phases = [(phase, phase.mechanism) for phase in plan.phases if phase.steps]
    errors = [
        (phase, mechanism.noise_multiplier, mechanism.strategy.prefix_errors(phase.steps))
        for phase, mechanism in phases
        if isinstance(mechanism, MatrixFactorization)
    ]
    return tuple(
        PrefixErrors(phase=phase.name, mean=noise * each[0], largest=noise * each[1])
        for phase, noise, each in errors
        if each is not None
    )


# The cross-check by two methods that share only the quadrature of one step: the certified interval and the estimate.


@dataclass(frozen=True, kw_only=True)
class CrossCheck:
    """The composed one-step bound of one direction by two methods.

    Attributes:
        direction: the ordered pair of data sets.
        upper: certified upper end of its epsilon.
        lower: certified lower end.
        estimate: the same by inversion, or None where that does not converge.
        order: the Renyi order that bounds it best.
        note: why there is no estimate.
    """

    direction: str
    upper: float
    lower: float
    estimate: float | None
    order: float
    note: str = ""

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
        names = (name for name in protected.direction_names if composition.steps[name])
        return tuple(_checked(name, composition.steps[name], run.delta) for name in names)

    return optional("the cross-check", both, ())[0]


def _checked(direction: str, counts: dict[Curve, int], delta: float) -> CrossCheck:
    """Return one direction's certified bounds and estimate, which is None, with a note, if inversion fails."""
    # The certified interval stands without the estimate, not the other way round.
    estimate, note = None, ""
    try:
        estimate = inversion(counts, delta=delta)
    except ConvergenceError as error:
        note = str(error)
    upper, lower = epsilon_bounds(counts, delta=delta, sides=(UPPER, LOWER))
    order = best_epsilon(counts, delta=delta).order + 1
    return CrossCheck(direction=direction, upper=upper, lower=lower, estimate=estimate, order=order, note=note)


# Rows of `dpcalc compare`: every accountant, estimates, published bounds and the numbers of other tools.

OPACUS_ORDERS = (*(1 + x / 10 for x in range(1, 100)), *range(12, 64))
COMPARISON_WORK = 8.0 * SECOND  # for all rows together: what needs more is a row without a number

TF_PRIVACY_ORDERS = (*(1 + x / 10 for x in range(1, 100)), *range(11, 64), 128, 256, 512, 1024)


def tool_rows(plan: Plan | Composition) -> tuple[Row, ...]:
    """Return two rows of Opacus and four of TF-Privacy; one that refuses if noise is correlated or not Gaussian.

    One row an accountant or statement. Valid where what the tool assumes is what the plan does.

    References:
        Opacus 1.6.0, accountants `prv` (its default) and `rdp`; TensorFlow Privacy 0.9.0, both numbers of
        `compute_dp_sgd_privacy_statement`, with and without `used_microbatching`; orders as both list them.
    """
    composition = composed(plan)
    flat = flat_poisson_row(composition)
    if flat.epsilon is None and opacus_steps(composition) is not None:
        return (flat,)  # it does not apply to the noise
    differences = (_draw_difference(composition), *_unit_differences(composition))
    assumed = f"assumes {'; '.join(filter(None, differences)) or 'another run'}"
    return (*_opacus_rows(composition, flat, assumed), *_tf_privacy_rows(composition, assumed))


def _opacus_rows(composition: Composition, flat: Row, assumed: str) -> tuple[Row, Row]:
    """Return the two rows of Opacus, its default `prv` and its `rdp`; `flat` says whether they hold."""
    rows = [replace(flat, method=name, kind=Kind.AS_PUBLISHED) for name in ("opacus-prv", "opacus-rdp")]
    steps = opacus_steps(composition, hooked=True)
    if not steps:
        note = NO_LOADER if steps is None else "prints nothing before the first step"
        return replace(rows[0], epsilon=None, note=note), replace(rows[1], epsilon=None, note=note)
    asked = f"asked with the rate {rates_in_words(steps)}"
    printed = opacus_epsilon(composition)
    prv = "the same bound, to which it adds 0.01 for its own error" if flat.valid else assumed
    rdp = "the best of its fixed orders, 1.1 to 63" if flat.valid else assumed
    too_large = "prints no number that means anything: exponentials overflow above 700"
    epsilon = _renyi_epsilon(steps, OPACUS_ORDERS, composition.plan.delta)
    return (
        replace(rows[0], epsilon=printed, note=too_large if printed is None else f"{prv}; {asked}"),
        replace(
            rows[1], epsilon=max(0.0, epsilon), note=f"{rdp}; {asked}" + "; it prints a negative number" * (epsilon < 0)
        ),
    )


class _Statement(NamedTuple):
    """What a statement of TF-Privacy is asked with: rate, noise multiplier, Poisson steps, and epochs, rounded up."""

    rate: Fraction
    noise_multiplier: float
    steps: int
    epochs: int


def _tf_privacy_rows(composition: Composition, assumed: str) -> tuple[Row, ...]:
    """Return the four rows of TF-Privacy: Poisson sampling and once per epoch, each without and with microbatches.

    Those without sampling are valid for one contribution of a unit in each pass: for a rate of 1, and for shuffled
    single examples under zero-out.
    """
    bounds = ("flat Poisson", "once per epoch", "flat Poisson, microbatches", "once per epoch, microbatches")
    asked = _asked_of_tf_privacy(composition)
    if isinstance(asked, str):
        row = Row(method="tf-privacy", bound="", epsilon=None, kind=Kind.AS_PUBLISHED, valid=False, note=asked)
        return tuple(replace(row, bound=bound) for bound in bounds)
    rate, noise, steps, epochs = asked
    delta = composition.plan.delta
    once = "assumes each example once per epoch in a fixed order, no amplification by sampling: "
    once += counted(epochs, "Gaussian release")
    rows = []
    for number, bound in enumerate(bounds):
        halves, is_sampled = number >= 2, number % 2 == 0
        deviation = noise / 2 if halves else noise
        told = "noise halved for microbatches of several examples, its default; " if halves else ""
        # With halved noise the statement holds for a sum that a unit moves by two clip norms, too.
        holds = any(
            are_one_step_bounds(composition, [(rate, noise, steps)] * len(releasing_phases(composition.plan)), shift=n)
            for n in ((1, 2) if halves else (1,))
        )
        if is_sampled:
            epsilon = _renyi_epsilon([(rate, deviation, steps)], TF_PRIVACY_ORDERS, delta)
            said = "the best of its fixed orders, 1.1 to 1024" if holds else assumed
            note = f"{told}{said}; asked with the rate {rate}"
        else:
            epsilon = _unsampled_renyi_epsilon(deviation, epochs, delta)
            holds = (holds and rate == 1) or _is_once_in_a_pass(composition)
            note = told + once
        rows.append(
            Row(
                method="tf-privacy",
                bound=bound,
                epsilon=max(0.0, epsilon),
                kind=Kind.AS_PUBLISHED,
                valid=holds,
                note=note,
            )
        )
    return tuple(rows)


def _asked_of_tf_privacy(composition: Composition) -> _Statement | str:
    """Return what TF-Privacy is asked about a run: batch size / examples, noise, and epochs; else why it has no answer.

    References:
        TF-Privacy 0.9.0, `compute_dp_sgd_privacy_lib`: ceil(epochs * examples / batch_size) Poisson steps or
        ceil(epochs) releases.
    """
    phases = releasing_phases(composition.plan)
    if not phases:
        return "has no statement of a run without steps"
    runs = set()
    for phase in phases:
        rate = loader_share(composition, phase, share_of_batch)
        in_a_pass = loader_share(composition, phase, share_of_a_step)
        if rate is None or in_a_pass is None:
            return NO_LOADER
        runs.add((rate, in_a_pass, phase.gaussian.noise_multiplier))
    if len(runs) > 1:
        return "does not apply: a statement is about one run of equal steps"
    ((rate, in_a_pass, noise),) = runs
    steps = sum(phase.steps for phase in phases)
    epochs = math.floor((steps - 1) * in_a_pass) + 1  # the fewest that take these steps
    if rate != in_a_pass:  # passes of a shuffle, which the statement turns into Poisson steps by itself
        steps = math.ceil(float(steps * in_a_pass) / float(rate))
    return _Statement(rate, noise, steps, epochs)


def _is_once_in_a_pass(composition: Composition) -> bool:
    """Return True if a unit is one clipped vector that a shuffle uses once in each pass, and that turns to zero."""
    plan = composition.plan
    return (
        plan.adjacency is Adjacency.ZERO_OUT
        and plan.unit == plan.group_size == 1
        and not plan.parts
        and all(
            phase.hierarchy.depth == phase.clip == 1
            and isinstance(phase.hierarchy.level(1).scheme, Shuffle)
            and phase.hierarchy.level(1).redraw_every == 1
            for phase in releasing_phases(plan)
        )
    )


def _schemes_to_the_unit(composition: Composition) -> list[Scheme]:
    """Return the schemes of all levels down to the protected one, in all phases that release it."""
    plan = composition.plan
    return [level.scheme for phase in releasing_phases(plan) for level in phase.hierarchy.levels[: plan.unit]]


def _draw_difference(composition: Composition) -> str:
    """Return in words the first assumption of the tools on draws that the run does not meet; "" if there is none."""
    schemes = _schemes_to_the_unit(composition)
    if any(isinstance(scheme, Fixed) for scheme in schemes):
        return "Poisson draws, not batches of a fixed size"
    if any(isinstance(scheme, CappedPoisson) for scheme in schemes):
        return "Poisson batches that are never cut"
    has_other_draws = composition.plan.group_size == 1 and not composition.is_plain
    return "one Poisson draw, made afresh in every step" if has_other_draws else ""


def _unit_differences(composition: Composition) -> Iterator[str]:
    """Yield in words each assumption of the tools on units, adjacency or contributions that the plan does not meet."""
    plan = composition.plan
    if plan.group_size > 1:
        yield "single examples, not groups"
    if plan.unit > 1:
        yield f"one level of draws, not {plan.unit}"
    if plan.adjacency is Adjacency.REPLACE_ONE:
        yield "add-remove, not replace-one"
        return
    # Where another unit comes in its place, the distance is 2 with a single contribution, too.
    is_replaced = any(isinstance(each, Fixed | CappedPoisson | Shuffle) for each in _schemes_to_the_unit(composition))
    if not is_replaced and any(composition.phase_bound(phase).shift > 1 for phase in releasing_phases(plan)):
        yield "one clipped contribution of the unit, not several"


def _renyi_epsilon(steps: Sequence[FlatStep], orders: tuple[float, ...], delta: float) -> float:
    """Return the epsilon that tools compute for flat Poisson draws, at the best of their orders; it may be negative.

    References:
        Mironov, Talwar, Zhang 2019 (1908.10530v1), Theorem 4 (that direction is the larger one); Canonne, Kamath,
        Steinke 2020 (2004.00010v4), Proposition 12.
    """
    # It falls with the order up to the best one and rises from there, so only the two orders around that can win.
    counts: Counter[Curve] = Counter()
    for rate, noise, number in steps:
        counts[MixturePair.of(*flat_pair(rate, 1, at=1), deviation=noise)] += number
    place = bisect_left(orders, best_epsilon(counts, delta=delta).order + 1)
    near = orders[max(0, place - 1) : place + 1]
    z = np.array(near) - 1
    cumulants, _ = composed_moments(counts, max_order=float(z.max())).cumulants(z)
    return _converted([(a, float(value) / (a - 1)) for a, value in zip(near, cumulants, strict=True)], delta)


def _unsampled_renyi_epsilon(noise: float, releases: int, delta: float) -> float:
    """Return epsilon of unsampled Gaussian releases at the best order of TF-Privacy."""
    # A release has rdp(a) = a / (2 sigma^2) (Mironov 2017, 1702.07476v3, Proposition 7).
    return _converted([(a, a * releases / (2 * noise**2)) for a in TF_PRIVACY_ORDERS], delta)


def _converted(divergences: list[tuple[float, float]], delta: float) -> float:
    """Return the smallest epsilon that one of the (order, Renyi divergence) pairs proves; it may be negative."""
    return min(rdp + math.log1p(-1 / a) - math.log(delta * a) / (a - 1) for a, rdp in divergences)


# The comparison of every accountant and bound.


def compare(plan: Plan) -> tuple[Row, ...]:
    """Return the rows of all accountants and bounds, valid ones first, then by epsilon; one infinite row without noise.

    Upper bounds of every accountant; the estimate by inversion and the central limit; Theorem 3 and strong
    composition as published; what other tools print. What does not apply has no epsilon and says why. Without
    noise: one row that says so.
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
    # Valid rows first: whoever reads one number reads a guarantee.
    rows = _noisy_rows(composition)
    return tuple(sorted(rows, key=lambda row: (not row.valid, row.epsilon is None, row.epsilon or 0.0)))


def _noisy_rows(composition: Composition) -> list[Row]:
    """Return the rows of accountants, then the other rows; `_looser_row` last if no valid one has an epsilon."""
    with allowance(COMPARISON_WORK):
        rows = _accountant_rows(composition)
        lower = next((row.epsilon_lower for row in rows if row.method == "pld"), None)
        rows += _other_rows(composition)
    if not any(row.valid and row.epsilon is not None for row in rows):
        rows.append(_looser_row(composition))
    return [_with_verdict(row, lower) for row in rows]


def _accountant_rows(composition: Composition) -> list[Row]:
    """Return every accountant's row; that of pld has the lower bound too, and a note on it unless it has another."""
    rows = [accountant_row(composition, name) for name in ACCOUNTANTS]
    (lower, attained), missing = optional(
        "the lower bound", lambda: _lower_end(composition), (None, ""), units=LOWER_WORK
    )
    return [
        replace(row, epsilon_lower=lower, note=row.note or attained or missing) if row.method == "pld" else row
        for row in rows
    ]


def _other_rows(composition: Composition) -> list[Row]:
    """Return the rows of `_OTHER_ROWS` in their order; those that fail or need too much work are left out."""
    rows = []
    for name, part in _OTHER_ROWS.items():
        others, _ = optional(name, partial(part, composition), ())
        rows += list(filter(None, others))
    return rows


def _looser_row(composition: Composition) -> Row:
    """Return the guarantee of `auto` as a row, for plans of which every accountant needs too much work."""
    main = guarantee(composition, method="auto")
    note = "; ".join(main.notes)
    return Row(method=main.method, bound=BOUND, epsilon=main.epsilon, kind=Kind.UPPER, valid=True, note=note)


def _lower_end(composition: Composition) -> tuple[float | None, str]:
    """Return (certified lower bound on epsilon, words on its data set); (None, "") if no lower bound is known."""
    lower = epsilon_lower(composition)
    if lower is None:
        return None, ""
    words = "the data set that attains the bound" if lower.is_tight else "the worst data set known"
    return lower.value, f"lower end: {words}"


_OTHER_ROWS: dict[str, Callable[[Composition], Iterable[Row | None]]] = {
    "theorem 3": lambda composition: [theorem_3_row(composition)],
    "inversion": lambda composition: [inversion_row(composition)],
    "the central limit": lambda composition: [gdp_row(composition)],
    "strong composition": lambda composition: [strong_composition_row(composition)],
    "what other tools print": tool_rows,
    "published group bounds": group_rows,
}
"""Rows beside those of the accountants, by name; None where one has nothing to say."""


def _with_verdict(row: Row, lower: float | None) -> Row:
    """Return the row, with a note that a data set costs more if it is not valid and below the lower bound."""
    if row.valid or lower is None or row.epsilon is None or not row.epsilon < lower:
        return row
    return replace(row, note=f"{row.note}; an actual data set costs more")
