"""The guarantee of a plan, the rows and notes beside it, and delta at an epsilon."""

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from operator import attrgetter, itemgetter
from typing import NamedTuple

from dpcalc.accountants import METHODS, accountant_of
from dpcalc.accountants.composed_loss import UPPER
from dpcalc.accountants.plain import closed_form_rdp, closed_form_rdp_delta
from dpcalc.accountants.pld import auto, delta_bounds, worst_direction
from dpcalc.accountants.rdp import best_delta, trimmed_epsilon
from dpcalc.accountants.result import AccountantResult, StepCounts, costliest_release
from dpcalc.errors import ConvergenceError, InputError, UnsupportedError, WorkExceededError, counted
from dpcalc.guarantee import INFINITE, ROUGH_COUNTS, Guarantee, Kind, Result, Row
from dpcalc.losses.moments import total_infinity_mass
from dpcalc.mechanisms.kinds import RdpOnly
from dpcalc.planner.advice import Note, advice, advice_work
from dpcalc.planner.composition import BOUND, Composition, composed, is_noiseless, releasing_phases
from dpcalc.planner.lower_end import LOWER_WORK, delta_lower, epsilon_lower
from dpcalc.planner.phase_releases import releases_of
from dpcalc.planner.plan import Plan
from dpcalc.planner.published import GROUP_MIXTURE, group_rows, theorem_3_row
from dpcalc.planner.tuning import CLOSED_FORM_RENYI, Repetitions, Runs
from dpcalc.planner.words import PhaseSummary, assumptions, mechanism_text, phase_summaries, sampling_text
from dpcalc.records import dataclass
from dpcalc.work import FAILURES, SECOND, allowance, optional, own_allowance, spend


@contextmanager
def add_run_to_errors(plan: Plan) -> Iterator[None]:
    """Context that prefixes ConvergenceErrors with a summary of the plan; WorkExceededErrors pass unchanged."""
    try:
        yield
    except WorkExceededError:  # an answer by a looser bound is still to come
        raise
    except ConvergenceError as error:
        raise ConvergenceError(f"{_run_text(plan)}: {error}") from error


def _run_text(plan: Plan) -> str:
    """Return one line: the run's name, its first phase's steps, mechanism and draws, how many more phases, delta."""
    first = plan.phases[0]
    others = len(plan.phases) - 1
    more = f"; {counted(others, 'more phase')}" if others else ""
    return (
        f"{plan.name or 'this run'} ({counted(first.steps, 'step')}, {mechanism_text(first)}, "
        f"{sampling_text(first)}{more}; delta {plan.delta:g})"
    )


# The guarantee of a plan, other accountants' bounds, and the notes for the reader.

CLOSED_FORM = "closed-form"
"""Name, for `guarantee` alone, of the bound that takes next to no work; it is one of rdp."""
ONE_RUN_NOTE = "of one run, not of the best of several"
LOOSER_NOTE = "the bound is the looser one of rdp: pld needs more work, memory or precision than one answer may take"
CLOSED_FORM_NOTE = (
    "the bound is a looser one, from Renyi divergences in closed form: quadrature needs more work or precision than "
    "one answer may take"
)
_SHARP_DELTA_WORK = 5.5 * SECOND  # nothing is said beside a delta but its lower bound
_NAMED_PHASES = 3  # of those that leave no finite epsilon
_DELTA_ROUNDS = 3  # of choosing the bounds of phases anew, each at the smallest delta that is known
_FAR_ABOVE_FACTOR = 1.5  # moment bounds are seldom so far above the sharp one
_SHARP_WORK, _MOMENT_WORK = 2.7 * SECOND, 0.4 * SECOND
"""Work for the sharp bound, and for the moment bound in its place. 50 mixed phases take 2.5."""
EVALUATION_WORK = 5.0 * SECOND
"""Work for an evaluation: enough for exact probabilities, the choice of bounds, the sharp bound and the one in its
place (4.5 together); what they leave is for the lower bound, other rows and advice."""


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """A guarantee with everything that is printed beside it.

    Attributes:
        guarantee: the reported number.
        alternatives: what other accountants and bounds say, valid first, ascending.
        steps: noisy releases in all.
        phases: one summary a phase.
        assumptions: one sentence each, without which the guarantee does not hold.
        notes: comparison with other tools, advice.
    """

    guarantee: Guarantee
    alternatives: tuple[Row, ...]
    steps: int
    phases: tuple[PhaseSummary, ...]
    assumptions: tuple[str, ...]
    notes: tuple[Note, ...]


NEED_LOSSES = frozenset({"pld", "optimal", "advanced", "basic"})
"""Accountants of which Renyi divergences alone are not enough."""


def guarantee(plan: Plan | Composition, *, method: str | None = None) -> Guarantee:
    """Return the guarantee with a certified upper bound on epsilon, infinite without noise.

    If auto or rdp run out of work, it is a looser bound, with a note.

    An upper bound on epsilon, infinite without noise; without a lower end. Its notes say where it is a looser one.
    """
    composition = composed(plan)
    run = composition.plan
    name = method or run.method
    if run.tuning is not None:
        return _tuned(composition, run.tuning, name)
    if name not in {CLOSED_FORM, *METHODS}:
        raise InputError(f"method: expected one of {', '.join(METHODS)}, got {name!r}")
    if is_noiseless(run):
        return replace(_guarantee(run, math.inf, "none", ""), notes=(_infinite_note(composition),))
    with add_run_to_errors(composition.stated), allowance(math.inf):
        # An exponential mechanism is a pure one, too, whose losses are known.
        stated = composition.statements[-1] if name in NEED_LOSSES else composition
        _refuse_without_losses(stated, name)
        bound = within_work(
            stated.steps, name, delta=run.delta, moment_bound=lambda counts: stated.moment_bound(counts)[0]
        )
        for other in composition.statements[1:] if name == "auto" else ():
            with suppress(ArithmeticError, UnsupportedError):
                also = within_work(other.steps, name, delta=run.delta)
                bound = min(bound, also, key=lambda each: each.result.epsilon)
        if math.isnan(bound.result.epsilon):
            raise ConvergenceError(f"{name}: expected a number, got nan; try another --method")
    accountant, note = _accountant_and_note(bound, name, knows_losses=run.knows_losses)
    main = _guarantee(run, bound.result.epsilon, accountant, bound.direction)
    cause = "" if main.finite else _infinite_note(composition)
    return replace(main, notes=_with_rough_note(composition, note, cause))


def _infinite_note(composition: Composition) -> str:
    """Return in one sentence which phases leave no finite epsilon, and why."""
    run = composition.plan
    if run.parts:
        return f"{INFINITE}some part of the data has no finite one"
    names = [phase.name or f"phase {place}" for place, phase in enumerate(run.phases, 1)]  # the gate drops names
    releasing = releasing_phases(run)
    silent = [
        name
        for name, phase in zip(names, run.phases, strict=True)
        if phase in releasing and phase.noise_multiplier == 0
    ]
    if silent:
        where = f" in {', '.join(silent)}" if run.phases[1:] else ""
        return f"{INFINITE}without noise{where} a single record can show; set noise_multiplier above 0"
    masses = dict.fromkeys(names, 0.0)
    for protected, bounds in zip(composition.units, composition.bounds, strict=True):
        for place, bound in enumerate(bounds):
            if run.phases[place] in releasing:
                releases = releases_of(run, protected, place, bound)
                mass = max(total_infinity_mass(each.items()) for each in releases)
                masses[names[place]] = max(mass, masses[names[place]])
    total = max(total_infinity_mass(counts.items()) for counts in composition.one_run.steps.values())
    costly = sorted((name for name in names if masses[name]), key=lambda name: -masses[name])[:_NAMED_PHASES]
    if not costly:
        return f"{INFINITE}no bound that is known on the steps says enough"
    shares = f" ({', '.join(f'{masses[name]:.3g} in {name}' for name in costly)})" if run.phases[1:] else ""
    times = "" if run.tuning is None else f", times {run.tuning.mean:g} runs on average,"
    return (
        f"{INFINITE}what steps may reveal without bound, such as the delta of approximate-dp or a loss above 1e9, is "
        f"{total:.3g}{shares}{times} and uses up delta {run.delta:g}; a larger delta or fewer steps may help"
    )


def _refuse_without_losses(composition: Composition, name: str) -> None:
    """Raise UnsupportedError for an accountant that needs losses where Renyi divergences alone are known."""
    if name not in NEED_LOSSES:
        return
    unknown = [phase for phase in releasing_phases(composition.plan) if isinstance(phase.mechanism, RdpOnly)]
    if unknown:
        kind = unknown[0].mechanism.name
        where = f"phase {unknown[0].name} ({kind})" if len(composition.plan.phases) > 1 else f"type {kind}"
        raise UnsupportedError(
            f"method: expected rdp, rdp-classic or moments for {where}, of which only Renyi divergences are known, got "
            f"{name}; `auto` takes the best of them"
        )


def _accountant_and_note(bound: "WorkBound", name: str, *, knows_losses: bool) -> tuple[str, str]:
    """Return (accountant that answered, note if its bound is looser than that of the one asked for, else "")."""
    if bound.note:
        return "rdp", bound.note
    if name != "auto":
        return name, ""
    accountant = bound.result.note or "pld"
    return accountant, LOOSER_NOTE if accountant == "rdp" and knows_losses else ""


def _with_rough_note(composition: Composition, *notes: str) -> tuple[str, ...]:
    """Return the notes that are not "", and one more if bounds stand in for exact probabilities."""
    return tuple(text for text in (*notes, ROUGH_COUNTS if composition.is_rough else "") if text)


class WorkBound(NamedTuple):
    """An upper bound on epsilon that took no more work than is allowed.

    Attributes:
        result: of the accountant, for the costliest direction.
        direction: its name.
        note: one sentence on why the bound is looser than the accountant's; "" where it is the accountant's.
    """

    result: AccountantResult
    direction: str
    note: str


def within_work(
    steps: Mapping[str, StepCounts],
    name: str,
    *,
    delta: float,
    moment_bound: Callable[[StepCounts], float] | None = None,
) -> WorkBound:
    """Return an accountant's bound within the allowed work; auto and rdp fall back on looser bounds, with a note."""
    if name != CLOSED_FORM:
        sharper = _auto_within_work if name == "auto" else partial(_accountant_within_work, name)
        bound = sharper(steps, delta=delta, moment_bound=moment_bound)
        if bound is not None:
            return bound
        spend(1.0)  # not if the allowance around this question is used up: who gave it knows what to do
    with own_allowance(math.inf):  # the last bound there is: it is charged, and always answers
        return WorkBound(*worst_direction(steps, closed_form_rdp, delta=delta), CLOSED_FORM_NOTE)


def _accountant_within_work(
    name: str,
    steps: Mapping[str, StepCounts],
    *,
    delta: float,
    moment_bound: Callable[[StepCounts], float] | None,
) -> WorkBound | None:
    """Return the bound of an accountant; if it takes too much work, None for rdp, ConvergenceError for all others."""
    with suppress(WorkExceededError), allowance(_SHARP_WORK):
        return WorkBound(*worst_direction(steps, accountant_of(name), delta=delta, moment_bound=moment_bound), "")
    if name == "rdp":
        return None
    raise ConvergenceError(f"{name}: expected a run that takes less work; use --method auto, which has looser bounds")


def _auto_within_work(
    steps: Mapping[str, StepCounts], *, delta: float, moment_bound: Callable[[StepCounts], float] | None
) -> WorkBound | None:
    """Return the bound of `auto` within its work, else a looser one by moments, with a note; None if both fail."""

    def moments(counts: StepCounts, *, delta: float) -> AccountantResult:
        # The sharp bound has computed the moment bound first: it is at hand where the sharp one is too costly.
        bound = moment_bound(counts) if moment_bound else trimmed_epsilon(counts, delta=delta).value
        return AccountantResult(epsilon=max(0.0, bound))

    with suppress(ConvergenceError), allowance(_SHARP_WORK):
        return WorkBound(*worst_direction(steps, auto, delta=delta, moment_bound=moment_bound), "")
    with suppress(ConvergenceError), allowance(_MOMENT_WORK):
        return WorkBound(*worst_direction(steps, moments, delta=delta, moment_bound=moment_bound), LOOSER_NOTE)
    return None


def _tuned(composition: Composition, tuning: Repetitions, method: str) -> Guarantee:
    """Return the guarantee for the best of several runs, `inf` without noise; UnsupportedError unless auto or rdp."""
    plan = composition.plan
    if method not in {"auto", "rdp"}:
        raise UnsupportedError(f"method: expected auto or rdp with `tuning`, got {method!r}")
    if is_noiseless(plan):
        return replace(_guarantee(plan, math.inf, "none", ""), notes=(_infinite_note(composition),))
    with add_run_to_errors(plan):
        runs = tuple(counts for counts in composition.one_run.steps.values() if counts)
        epsilon, note = _tuned_within_work(tuning, runs, plan.delta) if runs else (0.0, "")
    main = _guarantee(plan, epsilon, "rdp", "")
    cause = "" if main.finite else _infinite_note(composition)
    return replace(main, bound=f"{BOUND}, best of several runs", notes=_with_rough_note(composition, note, cause))


def _tuned_within_work(tuning: Repetitions, runs: Runs, delta: float) -> tuple[float, str]:
    """Return (upper bound on epsilon of the best run, note); it is in closed form, with a note, if moments fail."""
    with suppress(ConvergenceError), allowance(_SHARP_WORK):
        return tuning.epsilon(runs, delta=delta), ""
    spend(1.0)  # not if the allowance around this question is used up
    with own_allowance(math.inf):
        return tuning.epsilon(runs, delta=delta, renyi=CLOSED_FORM_RENYI), CLOSED_FORM_NOTE


def _guarantee(plan: Plan, epsilon: float, method: str, direction: str) -> Guarantee:
    """Return the plan's Guarantee with an upper bound on epsilon by the one-step bound (K)."""
    return Guarantee(
        epsilon=epsilon,
        delta=plan.delta,
        kind=Kind.UPPER,
        unit=plan.unit_name,
        adjacency=plan.adjacency,
        group_size=plan.group_size,
        method=method,
        bound=BOUND,
        direction=direction,
    )


def evaluate(plan: Plan | Composition, *, method: str | None = None) -> Evaluation:
    """Return the guarantee with the lower bound, rows, advice and assumptions that stand beside it, as work allows.

    The guarantee (an upper bound) with the certified cost of an actual data set as its lower end. What needs more
    work than the guarantee has left is missing, with a note.
    """
    with allowance(EVALUATION_WORK):
        composition = composed(plan)
        with own_allowance(math.inf):  # it has allowances of its own, and always answers
            main = guarantee(composition, method=method)
        tuning = composition.plan.tuning
        if tuning is not None and main.finite:
            rows, notes = _beside_repetitions(composition, tuning)
        else:
            main, rows, notes = _with_comparisons(composition, main)
        return Evaluation(
            guarantee=main,
            alternatives=rows,
            steps=composition.stated.steps,
            phases=() if composition.plan.parts else phase_summaries(composition.one_run, main.direction),
            assumptions=assumptions(composition.stated),
            notes=notes,
        )


def _with_comparisons(composition: Composition, main: Guarantee) -> tuple[Guarantee, tuple[Row, ...], tuple[Note, ...]]:
    """Return (guarantee with lower bound, other rows, advice); unchanged, (), () if it is infinite or of parts."""
    if not main.finite or composition.plan.parts:
        return main, (), ()
    main = with_lower_bound(composition, main)
    rows = _alternatives(composition, main)
    notes, missing = _advice_within_work(composition, main)
    return replace(main, notes=(*main.notes, *missing)), rows, notes


def _beside_repetitions(composition: Composition, tuning: Repetitions) -> tuple[tuple[Row, ...], tuple[Note, ...]]:
    """Return a row and a note with the epsilon of one run alone, to stand beside the guarantee of a repeated run."""
    alone = guarantee(composition.one_run)
    row = Row(method=alone.method, bound="one run", epsilon=alone.epsilon, kind=Kind.UPPER, valid=False)
    text = f"the best of several runs is released ({tuning.words}); one run alone has epsilon {{}}"
    return (replace(row, note=ONE_RUN_NOTE),), (Note(text=text, epsilons=(alone.epsilon,)),)


def _advice_within_work(composition: Composition, main: Guarantee) -> tuple[tuple[Note, ...], tuple[str, ...]]:
    """Return (notes of advice, ()), or ((), (a hint on what to try,)) if they fail or need too much work."""
    # Where the guarantee is in closed form, a changed run would hardly take less work.
    notes, missing = optional(
        "advice",
        lambda: advice(composition, main.epsilon, partial(_cost_of_change, main.epsilon)),
        (),
        units=0.0 if CLOSED_FORM_NOTE in main.notes else advice_work(composition),
    )
    tried = f"{missing}; to try a change: --set mechanism.clip=LEVEL, or another scheme"
    return notes, (tried,) if missing else ()


def _cost_of_change(known: float, changed: Composition) -> float:
    """Return epsilon of a changed run by its own method; by rdp alone if auto is asked and rdp is far above `known`."""
    spend(1.0)  # nothing once the allowance for advice is used up
    if changed.plan.method == "auto" and changed.plan.tuning is None and not is_noiseless(changed.plan):
        rough = guarantee(changed, method="rdp").epsilon
        if rough > _FAR_ABOVE_FACTOR * known:
            return rough
    return guarantee(changed).epsilon


def with_lower_bound(plan: Plan | Composition, main: Guarantee) -> Guarantee:
    """Return the guarantee with its certified lower bound, or a note if that fails; unchanged if none is known."""
    composition = composed(plan)
    if composition.plan.tuning is not None or composition.plan.parts:
        return main
    if main.epsilon == 0:
        return main.with_lower(0.0)
    lower, missing = optional(
        "the lower bound", lambda: epsilon_lower(composition, direction=main.direction), None, units=LOWER_WORK
    )
    if missing:
        return replace(main, notes=(*main.notes, missing))
    return main if lower is None else main.with_lower(lower.value)


@dataclass(frozen=True, kw_only=True)
class DeltaResult(Result):
    """Delta of a plan at a given epsilon.

    Attributes:
        epsilon: what was asked.
        delta: an upper bound, in [0, 1].
        delta_lower: certified cost of an actual data set, or None where none could be had.
        direction: the ordered pair of data sets that decides.
        method: the accountant, as `auto` takes it.
        notes: one sentence for each part that could not be computed.
    """

    epsilon: float
    delta: float
    delta_lower: float | None
    direction: str
    method: str = "pld"
    notes: tuple[str, ...] = ()


def delta_of(plan: Plan | Composition, *, epsilon: float) -> DeltaResult:
    """Return bounds on delta at an epsilon >= 0, 1 without noise; the lower bound is None if it fails."""
    if not (math.isfinite(epsilon) and epsilon >= 0):
        raise InputError(f"epsilon: expected a finite number >= 0, got {epsilon!r}")
    composition = composed(plan)
    if is_noiseless(composition.plan):
        return DeltaResult(epsilon=epsilon, delta=1.0, delta_lower=None, direction="")
    with add_run_to_errors(composition.stated), allowance(math.inf):
        bound = _smallest_delta(composition, epsilon)
    lower, missing = optional(
        "the lower bound",
        lambda: min(bound.delta, delta_lower(composition, epsilon=epsilon, direction=bound.direction)),
        None,
        units=LOWER_WORK,
    )
    return DeltaResult(
        epsilon=epsilon,
        delta=bound.delta,
        delta_lower=lower,
        direction=bound.direction,
        method=bound.accountant,
        notes=(*_with_rough_note(composition, bound.note), *([missing] if missing else [])),
    )


class _DeltaBound(NamedTuple):
    """An upper bound on delta, its accountant, its direction, and why it is not by pld for too much work, or ""."""

    delta: float
    accountant: str
    direction: str
    note: str


def _smallest_delta(composition: Composition, epsilon: float) -> _DeltaBound:
    """Return the smallest delta that a valid bound of the run proves: by those that rank cheapest at that delta."""
    best = _delta_within_work(composition.steps, epsilon)
    known = {composition}
    for _ in range(_DELTA_ROUNDS):
        others = [each for each in composition.alternatives(best.delta) if each not in known]
        if not others:
            break
        known.update(others)
        for other in others:
            with suppress(ArithmeticError, UnsupportedError):
                best = min(best, _delta_within_work(other.steps, epsilon), key=attrgetter("delta"))
    return best


def _delta_within_work(steps: Mapping[str, StepCounts], epsilon: float) -> _DeltaBound:
    """Return the largest delta of any direction by pld, or by a looser bound, with a note, if work runs out."""

    def moments(counts: StepCounts) -> float:
        return best_delta(counts, epsilon=epsilon).value if counts else 0.0

    with suppress(WorkExceededError), allowance(_SHARP_DELTA_WORK):
        return _costliest_delta(steps, partial(_delta, epsilon=epsilon), ceiling=moments)
    with suppress(WorkExceededError), allowance(_MOMENT_WORK):
        return _costliest_delta(steps, lambda counts: (min(1.0, moments(counts)), "rdp"), note=LOOSER_NOTE)
    spend(1.0)  # not if the allowance around this question is used up
    with own_allowance(math.inf):
        return _costliest_delta(
            steps, lambda counts: (closed_form_rdp_delta(counts, epsilon=epsilon), "rdp"), note=CLOSED_FORM_NOTE
        )


def _costliest_delta(
    steps: Mapping[str, StepCounts],
    delta_and_accountant: Callable[[StepCounts], tuple[float, str]],
    *,
    ceiling: Callable[[StepCounts], float] = lambda _: math.inf,
    note: str = "",
) -> _DeltaBound:
    """Return the largest delta over all directions, with its accountant, its direction and the given note.

    Directions that a ceiling on their delta rules out are not computed.
    """
    (bound, accountant), direction = costliest_release(
        steps, answer=delta_and_accountant, cost=itemgetter(0), ceiling=ceiling
    )
    return _DeltaBound(bound, accountant, direction, note)


def _delta(counts: StepCounts, epsilon: float) -> tuple[float, str]:
    """Return (upper bound on delta, accountant): by pld, or by rdp if that fails; WorkExceededError is passed on."""
    try:
        return delta_bounds(counts, epsilon=epsilon, sides=(UPPER,))[0], "pld"
    except WorkExceededError:
        raise
    except (ArithmeticError, UnsupportedError):
        return min(1.0, best_delta(counts, epsilon=epsilon).value), "rdp"


def _alternatives(composition: Composition, main: Guarantee) -> tuple[Row, ...]:
    """Return rows beside the guarantee: rdp if it is by another accountant, and published formulas that do not hold."""
    rows = []
    if main.method != "rdp":
        rows.append(accountant_row(composition, "rdp"))
    published, _ = optional("theorem 3", lambda: theorem_3_row(composition, one_step_epsilon=main.epsilon), None)
    if published is not None and not published.valid:
        rows.append(published)
    groups, _ = optional("the published group bound", lambda: group_rows(composition), ())
    rows += [row for row in groups if row.bound == GROUP_MIXTURE and not row.valid]
    return tuple(rows)


def accountant_row(plan: Plan | Composition, name: str) -> Row:
    """Return one accountant's upper bound as a row; its epsilon is None, with the reason, if there is no answer."""
    composition = composed(plan)
    row = Row(method=name, bound=BOUND, epsilon=None, kind=Kind.UPPER, valid=False)
    try:
        with allowance(_MOMENT_WORK if name == "rdp" else _SHARP_WORK):
            answer, _ = worst_direction(
                composition.steps,
                accountant_of(name),
                delta=composition.plan.delta,
                moment_bound=lambda counts: composition.moment_bound(counts)[0],
            )
    except WorkExceededError:
        return replace(row, note="needs more work than a row may take")
    except FAILURES as error:
        return replace(row, note=str(error))
    if name == "pld" and math.isinf(answer.epsilon):
        return replace(row, epsilon=math.inf, valid=True, note=_infinite_note(composition))
    return replace(row, epsilon=answer.epsilon, valid=True, note=answer.note)
