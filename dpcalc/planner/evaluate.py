"""The guarantee of a plan, the rows and notes beside it, and delta at an epsilon."""

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial

from dpcalc.accountants import METHODS, accountant_of
from dpcalc.accountants.composed_loss import UPPER
from dpcalc.accountants.plain import closed_form_rdp, closed_form_rdp_delta
from dpcalc.accountants.pld import auto, delta_bounds, worst_direction
from dpcalc.accountants.rdp import best_delta, trimmed_epsilon
from dpcalc.accountants.result import Accountant, AccountantResult, StepCounts, costliest_release
from dpcalc.errors import ConvergenceError, InputError, UnsupportedError, WorkExceededError, counted
from dpcalc.guarantee import ROUGH_COUNTS, Guarantee, Kind, Result, Row
from dpcalc.planner.advice import Note, advice, advice_work
from dpcalc.planner.composition import BOUND, Composition, composed, is_noiseless
from dpcalc.planner.lower_end import LOWER_WORK, delta_lower, epsilon_lower
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
    """Return the run in a few words: name, steps, mechanism and sampling of its first phase, how many others, delta."""
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
_SHARP_DELTA = 5.5 * SECOND  # nothing is said beside a delta but its lower bound
_FAR_ABOVE = 1.5  # moment bounds are seldom so far above the sharp one
_SHARP, _MOMENTS = 2.7 * SECOND, 0.4 * SECOND
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


def guarantee(plan: Plan | Composition, *, method: str | None = None) -> Guarantee:
    """Return the upper bound on epsilon, inf without noise; a looser one, with a note, if auto or rdp run out of work.

    Args:
        plan: a training run, or its composition where that is at hand.
        method: an accountant's name or "auto" (the tightest valid one that its work allows); the plan's own by default.

    Returns:
        An upper bound on epsilon, infinite without noise; without a lower end. Its notes say where it is a looser one.

    Raises:
        WorkExceededError: an allowance of the caller's is used up (`dpcalc.work`).
        InputError: if there is no accountant of that name.
        ConvergenceError: if the accountant asked for reached no certified answer.
    """
    composition = composed(plan)
    run = composition.plan
    name = method or run.method
    if run.tuning is not None:
        return _tuned(composition, run.tuning, name)
    if name not in {CLOSED_FORM, *METHODS}:
        raise InputError(f"method: expected one of {', '.join(METHODS)}, got {name!r}")
    if is_noiseless(run):
        return _guarantee(run, math.inf, "none", "")
    with add_run_to_errors(composition.stated), allowance(math.inf):
        steps = composition.steps
        (answer, direction), note = within_work(
            steps, name, delta=run.delta, moment_bound=lambda counts: composition.moment_bound(counts)[0]
        )
        if math.isnan(answer.epsilon):
            raise ConvergenceError(f"{name}: expected a number, got nan; try another --method")
    if note:
        method = "rdp"
    elif name != "auto":
        method = name
    else:
        method = answer.note or "pld"
    main = _guarantee(run, answer.epsilon, method, direction)
    if name == "auto" and method != "pld" and run.knows_losses and not note:
        note = LOOSER_NOTE
    rough = ROUGH_COUNTS if composition.is_rough else ""
    return replace(main, notes=tuple(text for text in (note, rough) if text))


def within_work(
    steps: Mapping[str, StepCounts],
    name: str,
    *,
    delta: float,
    moment_bound: Callable[[StepCounts], float] | None = None,
) -> tuple[tuple[AccountantResult, str], str]:
    """Return ((result, direction), note), upper; out of work auto and rdp take looser bounds, others ConvergenceError.

    Args:
        steps: how often each step loss occurs, by the name of the direction; not empty.
        name: "auto", CLOSED_FORM or one of METHODS.
        delta: in (0, 1).
        moment_bound: as for `worst_direction`.

    Returns:
        An upper bound; the note says why it is looser than the accountant's, "" where it is the accountant's.

    Raises:
        WorkExceededError: an allowance of the caller's is used up.
        ConvergenceError: another accountant than auto or rdp was asked for and needs too much work.
    """

    def _moments(counts: StepCounts, *, delta: float) -> AccountantResult:
        """Return the moment bound, which the sharp bound has computed first: it is at hand where that is too costly."""
        bound = moment_bound(counts) if moment_bound else trimmed_epsilon(counts, delta=delta).value
        return AccountantResult(epsilon=max(0.0, bound))

    rungs: list[tuple[Accountant, float, str]] = []
    if name != CLOSED_FORM:
        rungs.append((auto if name == "auto" else accountant_of(name), _SHARP, ""))
    if name == "auto":
        rungs.append((_moments, _MOMENTS, LOOSER_NOTE))
    for accountant, units, note in rungs:
        # Where nobody asked for an accountant by name any certified answer will do: the closed form always has one.
        with suppress(ConvergenceError if name == "auto" else WorkExceededError), allowance(units):
            return worst_direction(steps, accountant, delta=delta, moment_bound=moment_bound), note
    if name not in {"auto", "rdp", CLOSED_FORM}:
        raise ConvergenceError(
            f"{name}: expected a run that takes less work; use --method auto, which has looser bounds"
        )
    if name != CLOSED_FORM:
        spend(1.0)  # not if the allowance around this question is used up: who gave it knows what to do
    with own_allowance(math.inf):  # the last bound there is: it is charged, and always answers
        return worst_direction(steps, closed_form_rdp, delta=delta), CLOSED_FORM_NOTE


def _tuned(composition: Composition, tuning: Repetitions, method: str) -> Guarantee:
    """Return the guarantee for the best of several runs, `inf` without noise; UnsupportedError unless auto or rdp."""
    plan = composition.plan
    if method not in {"auto", "rdp"}:
        raise UnsupportedError(f"method: expected auto or rdp with `tuning`, got {method!r}")
    if is_noiseless(plan):
        return _guarantee(plan, math.inf, "none", "")
    with add_run_to_errors(plan):
        runs = tuple(counts for counts in composition.one_run.steps.values() if counts)
        epsilon, note = _tuned_within_work(tuning, runs, plan.delta) if runs else (0.0, "")
    rough = ROUGH_COUNTS if composition.is_rough else ""
    notes = tuple(text for text in (note, rough) if text)
    return replace(_guarantee(plan, epsilon, "rdp", ""), bound=f"{BOUND}, best of several runs", notes=notes)


def _tuned_within_work(tuning: Repetitions, runs: Runs, delta: float) -> tuple[float, str]:
    """Return (upper bound on epsilon of the best run, note), closed form if moments fail; or WorkExceededError."""
    with suppress(ConvergenceError), allowance(_SHARP):
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
    """Return the guarantee with lower bound, alternatives, assumptions and advice; too costly parts become notes.

    Args:
        plan: a training run, or its composition where that is at hand.
        method: an accountant's name or "auto"; the plan's own by default.

    Returns:
        The guarantee (an upper bound) with the certified cost of an actual data set as its lower end. What needs more
        work than the guarantee has left is missing, with a note.

    Raises:
        InputError: if there is no accountant of that name.
        ConvergenceError: if there is no certified answer.
    """
    with allowance(EVALUATION_WORK):
        return _evaluated(composed(plan), method)


def _evaluated(composition: Composition, method: str | None) -> Evaluation:
    """Return the evaluation in the work left; a tuned run beside a single one; parts without lower bound or advice."""
    plan = composition.plan
    with own_allowance(math.inf):  # it has allowances of its own, and always answers
        main = guarantee(composition, method=method)
    rows: tuple[Row, ...] = ()
    notes: tuple[Note, ...] = ()
    if main.finite and plan.tuning is not None:
        alone = guarantee(composition.one_run)
        rows = (
            Row(
                method=alone.method,
                bound="one run",
                epsilon=alone.epsilon,
                kind=Kind.UPPER,
                valid=False,
                note=ONE_RUN_NOTE,
            ),
        )
        text = f"the best of several runs is released ({plan.tuning.words}); one run alone has epsilon {{}}"
        notes = (Note(text=text, epsilons=(alone.epsilon,)),)
    elif main.finite and not plan.parts:
        main = with_lower_bound(composition, main)
        rows = _alternatives(composition, main)
        notes, missing = optional(
            "advice",
            lambda: advice(composition, main.epsilon, partial(_cost_of_change, main.epsilon)),
            (),
            # a changed run would hardly take less work
            units=0.0 if CLOSED_FORM_NOTE in main.notes else advice_work(composition),
        )
        tried = f"{missing}; to try a change: --set mechanism.clip=LEVEL, or another scheme"
        main = replace(main, notes=(*main.notes, *([tried] if missing else [])))
    return Evaluation(
        guarantee=main,
        alternatives=rows,
        steps=composition.stated.steps,
        phases=() if plan.parts else phase_summaries(composition.one_run, main.direction),
        assumptions=assumptions(composition.stated),
        notes=notes,
    )


def _cost_of_change(known: float, changed: Composition) -> float:
    """Return epsilon of a changed run by its method, for auto that of rdp if that is over 1.5 times `known`."""
    spend(1.0)  # nothing once the allowance for advice is used up
    if changed.plan.method == "auto" and changed.plan.tuning is None and not is_noiseless(changed.plan):
        rough = guarantee(changed, method="rdp").epsilon
        if rough > _FAR_ABOVE * known:
            return rough
    return guarantee(changed).epsilon


def with_lower_bound(plan: Plan | Composition, main: Guarantee) -> Guarantee:
    """Return `main` with its certified lower bound, or a note if that fails; unchanged if tuned, parts, or none known.

    Args:
        plan: a training run, or its composition where that is at hand.
        main: its guarantee; unchanged for repeated runs, and for runs on parts of the data.
    """
    composition = composed(plan)
    if composition.plan.tuning is not None or composition.plan.parts:
        return main
    if main.epsilon == 0:
        return main.with_lower(0.0)
    bound_and_tight, missing = optional(
        "the lower bound", lambda: epsilon_lower(composition, direction=main.direction), None, units=LOWER_WORK
    )
    if missing:
        return replace(main, notes=(*main.notes, missing))
    return main if bound_and_tight is None else main.with_lower(bound_and_tight[0])


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
    """Return bounds on delta at an epsilon: upper 1 without noise, lower None if it fails; InputError for epsilon < 0.

    Args:
        plan: a training run.
        epsilon: finite, >= 0.

    Raises:
        InputError: for an epsilon that is negative or not finite.
        ConvergenceError: if there is no certified answer.
    """
    if not (math.isfinite(epsilon) and epsilon >= 0):
        raise InputError(f"epsilon: expected a finite number >= 0, got {epsilon!r}")
    composition = composed(plan)
    if is_noiseless(composition.plan):
        return DeltaResult(epsilon=epsilon, delta=1.0, delta_lower=None, direction="")
    with add_run_to_errors(composition.stated), allowance(math.inf):
        ((upper, method), direction), looser = _delta_within_work(composition.steps, epsilon)
    lower, missing = optional(
        "the lower bound",
        lambda: min(upper, delta_lower(composition, epsilon=epsilon, direction=direction)),
        None,
        units=LOWER_WORK,
    )
    notes = tuple(text for text in (looser, ROUGH_COUNTS if composition.is_rough else "", missing) if text)
    return DeltaResult(epsilon=epsilon, delta=upper, delta_lower=lower, direction=direction, method=method, notes=notes)


def _delta_within_work(steps: Mapping[str, StepCounts], epsilon: float) -> tuple[tuple[tuple[float, str], str], str]:
    """Return (((delta, accountant), direction), note), upper, by pld, else by moments, else in closed form."""

    def moments(counts: StepCounts) -> float:
        return best_delta(counts, epsilon=epsilon).value if counts else 0.0

    def largest(
        answer: Callable[[StepCounts], tuple[float, str]], ceiling: Callable[[StepCounts], float]
    ) -> tuple[tuple[float, str], str]:
        return costliest_release(steps, answer=answer, cost=lambda result: result[0], ceiling=ceiling)

    with suppress(WorkExceededError), allowance(_SHARP_DELTA):
        return largest(lambda counts: _delta(counts, epsilon), moments), ""
    with suppress(WorkExceededError), allowance(_MOMENTS):
        return largest(lambda counts: (min(1.0, moments(counts)), "rdp"), lambda _: math.inf), LOOSER_NOTE
    spend(1.0)  # not if the allowance around this question is used up
    with own_allowance(math.inf):
        closed_form = largest(
            lambda counts: (closed_form_rdp_delta(counts, epsilon=epsilon), "rdp"), lambda _: math.inf
        )
    return closed_form, CLOSED_FORM_NOTE


def _delta(counts: StepCounts, epsilon: float) -> tuple[float, str]:
    """Return (delta, accountant), upper: pld, rdp for ArithmeticError or UnsupportedError; WorkExceededError passes."""
    try:
        return delta_bounds(counts, epsilon=epsilon, sides=(UPPER,))[0], "pld"
    except WorkExceededError:
        raise
    except (ArithmeticError, UnsupportedError):
        return min(1.0, best_delta(counts, epsilon=epsilon).value), "rdp"


def _alternatives(composition: Composition, main: Guarantee) -> tuple[Row, ...]:
    """Return rows beside the guarantee: rdp if it is not that, Theorem 3 and group mixture where they are no bounds."""
    rows = []
    if main.method != "rdp":
        rows.append(accountant_row(composition, "rdp"))
    published, _ = optional("theorem 3", lambda: theorem_3_row(composition, known=main.epsilon), None)
    if published is not None and not published.valid:
        rows.append(published)
    groups, _ = optional("the published group bound", lambda: group_rows(composition), ())
    rows += [row for row in groups if row.bound == GROUP_MIXTURE and not row.valid]
    return tuple(rows)


def accountant_row(plan: Plan | Composition, name: str) -> Row:
    """Return one accountant's upper bound as a row; epsilon None, and why, if it fails or needs too much work.

    Args:
        plan: a training run that is not noiseless, or its composition where that is at hand.
        name: one of ACCOUNTANTS.
    """
    composition = composed(plan)
    row = Row(method=name, bound=BOUND, epsilon=None, kind=Kind.UPPER, valid=False)
    try:
        with allowance(_MOMENTS if name == "rdp" else _SHARP):
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
    return replace(row, epsilon=answer.epsilon, valid=True, note=answer.note)
