"""The guarantee of a plan, the rows and notes beside it, and delta at an epsilon.

A bound that needs more work than it is allowed gives way to a looser one, with a note: moments for the sharp bound, and
closed forms, which take next to no work, for both (`first_within_work`).
"""

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from operator import itemgetter
from typing import NamedTuple

from dpcalc.accountants import METHODS, AccountantResult, accountant_of, costliest_release
from dpcalc.accountants.closed_forms import closed_form_rdp, closed_form_rdp_delta
from dpcalc.accountants.composed_loss import UPPER
from dpcalc.accountants.pld import auto, delta_bounds, worst_direction
from dpcalc.accountants.rdp import best_delta, trimmed_epsilon
from dpcalc.errors import (
    ConvergenceError,
    InputError,
    UnsupportedError,
    WorkExceededError,
    counted,
    one_of,
    require_order,
)
from dpcalc.guarantee import INFINITE, ROUGH_COUNTS, Guarantee, Result, Row, shown_number
from dpcalc.losses.moments import Steps, total_infinity_mass
from dpcalc.mechanisms.kinds import RdpOnly
from dpcalc.planner.advice import Note, advice, advice_work, unused_order
from dpcalc.planner.calibration import FOUND_NOISE
from dpcalc.planner.composition import BOUND, Composition, composed, is_noiseless, releases_of, releasing_phases
from dpcalc.planner.lower_end import LOWER_WORK, delta_lower, epsilon_lower
from dpcalc.planner.plan import Plan
from dpcalc.planner.published import GROUP_MIXTURE, group_rows, theorem_3_row
from dpcalc.planner.words import PhaseSummary, assumptions, mechanism_text, phase_summaries, sampling_text
from dpcalc.records import dataclass
from dpcalc.work import FAILURES, PART, SECOND, allowance, first_within_work, optional, own_allowance, spend

CLOSED_FORM = "closed-form"
"""Name, for `guarantee` alone, of the bound that takes next to no work; it is one of rdp."""
NEED_LOSSES = frozenset({"pld", "optimal", "advanced", "basic"})
"""Accountants of which Renyi divergences alone are not enough."""
ONE_RUN_NOTE = "of one run, not of the best of several"
LOOSER_NOTE = "the bound is the looser one of rdp: pld needs more work, memory or precision than one answer may take"
CLOSED_FORM_NOTE = (
    "the bound is a looser one, from Renyi divergences in closed form: quadrature needs more work or precision than "
    "one answer may take"
)
_DELTA_WORK, _SHARP_DELTA_WORK = 6.0 * SECOND, 4.5 * SECOND  # of a whole answer, and of its first sharp bound
_FAR_BELOW = 1e3  # by how much delta is guessed to be smaller, if passes are bounded for a smaller one
_NAMED_PHASES = 3  # of those that leave no finite epsilon
_DELTA_ROUNDS = 3  # of choosing the bounds of phases anew, each at the smallest delta that is known
_MANY_PLACES = 8  # of a group, each of which a changed run composes by itself
_FAR_ABOVE_FACTOR = 1.5  # moment bounds are seldom so far above the sharp one
_SHARP_WORK, _MOMENT_WORK = 3.0 * SECOND, 0.4 * SECOND
"""Work for the sharp bound, and for the moment bound in its place. 50 mixed phases take 2.5."""
_LOWER_WORK_OF_LARGE_RUNS = 0.2 * SECOND  # beside a bound in closed form
EVALUATION_WORK = 5.0 * SECOND
"""Work for an evaluation: enough for exact probabilities, the choice of bounds, the sharp bound and the one in its
place (4.5 together); what they leave is for the lower bound, other rows and advice."""


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """A guarantee with everything that is printed beside it."""

    guarantee: Guarantee
    alternatives: tuple[Row, ...]  # what other accountants and bounds say, valid first, ascending
    steps: int  # noisy releases in all
    phases: tuple[PhaseSummary, ...]
    assumptions: tuple[str, ...]  # one sentence each, without which the guarantee does not hold
    notes: tuple[Note, ...]  # comparison with other tools, advice


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

    def __str__(self) -> str:
        """Return the bounds in a line."""
        return ", ".join(f"{name} {text}" for name, text in self._rows())

    def _rows(self) -> list[tuple[str, str]]:
        """Return the bounds and the epsilon that they are for."""
        rows = [("delta", f"<= {shown_number('', self.delta, 3)}")]
        if self.delta_lower is not None:
            rows.append(("at least", shown_number("lower", self.delta_lower, 3)))
        return [*rows, ("at epsilon", f"{self.epsilon!r}"), *(("note", note) for note in self.notes)]


def guarantee(plan: Plan | Composition, *, method: str | None = None) -> Guarantee:
    """Return the guarantee without a lower end; where auto or rdp run out of work by a looser bound, with a note."""
    composition = composed(plan)
    run = composition.plan
    name, tuning, delta = method or run.method, run.tuning, run.delta
    if tuning is not None and name not in {"auto", "rdp"}:
        raise UnsupportedError(f"method: expected auto or rdp with `tuning`, got {name!r}")
    if name not in {CLOSED_FORM, *METHODS}:
        raise one_of("method", METHODS, name)
    main = Guarantee(
        epsilon=math.inf,
        delta=delta,
        kind=composition.stated.bound_kind,
        unit=run.unit_name,
        adjacency=run.adjacency,
        group_size=run.group_size,
        method="none",
        bound=BOUND,
    )
    if is_noiseless(run):
        return replace(main, notes=(_infinite_note(composition),))
    with _run_in_errors(run if tuning else composition.stated), allowance(math.inf):
        if tuning is not None:
            epsilon, note = math.inf, ""
            for one in composition.one_run.alternatives(delta / tuning.mean):
                runs = tuple(counts for counts in one.steps.values() if counts)
                found = (
                    first_within_work(
                        (_SHARP_WORK, ConvergenceError, partial(tuning.epsilon, runs, delta=delta), ""),
                        last=partial(tuning.epsilon, runs, delta=delta, in_closed_form=True),
                        note=CLOSED_FORM_NOTE,
                    )
                    if runs
                    else (0.0, "")
                )
                epsilon, note = min((epsilon, note), found)
            main = replace(main, epsilon=epsilon, method="rdp", bound=f"{BOUND}, best of several runs")
        else:
            stated = composition
            if name in NEED_LOSSES:
                stated = composition.statements[-1]  # an exponential mechanism is a pure one, whose losses are known
                for phase in releasing_phases(stated.plan):
                    if isinstance(phase.mechanism, RdpOnly):
                        kind = phase.mechanism.name
                        where = f"phase {phase.name} ({kind})" if len(stated.plan.phases) > 1 else f"type {kind}"
                        raise UnsupportedError(
                            f"method: expected rdp, rdp-classic or moments for {where}, of which only Renyi "
                            f"divergences are known, got {name}; `auto` takes the best of them"
                        )
            bound = within_work(
                stated.steps, name, delta=delta, moment_bound=lambda counts: stated.moment_bound(counts)[0]
            )
            sharp = composition.ranked_sharply if name in {"auto", "pld"} and not run.parts and not bound.note else None
            for other in (*(composition.statements[1:] if name == "auto" else ()), *([sharp] if sharp else [])):
                with suppress(ArithmeticError, UnsupportedError):
                    bound = min(
                        bound, within_work(other.steps, name, delta=delta), key=lambda each: each.result.epsilon
                    )
            if math.isnan(bound.result.epsilon):
                raise ConvergenceError(f"{name}: expected a number, got nan; try another --method")
            note = bound.note
            accountant = "rdp" if note else name
            if name == "auto" and not note:
                accountant = bound.result.note or "pld"
                note = LOOSER_NOTE if accountant == "rdp" and run.knows_losses else ""
            main = replace(main, epsilon=bound.result.epsilon, method=accountant, direction=bound.direction)
    # Where the library assumed this run, its target is the sharper bound, under the same condition.
    promised = composition.stated.promised_epsilon
    if promised is not None and promised < main.epsilon and name == "auto":
        by = composition.stated.calibrations[0].by
        main = replace(main, epsilon=promised, method=by, bound=FOUND_NOISE, direction="")
    cause = "" if main.finite else _infinite_note(composition)
    rough = ROUGH_COUNTS if composition.is_rough else ""
    return replace(main, notes=tuple(filter(None, (note, cause, rough, *composition.stated.conditions))))


class WorkBound(NamedTuple):
    """An upper bound on epsilon that took no more work than is allowed, for the costliest direction."""

    result: AccountantResult
    direction: str
    note: str  # why it is looser than the accountant's; "" where it is the accountant's


def within_work(
    steps: Mapping[str, Steps],
    name: str,
    *,
    delta: float,
    moment_bound: Callable[[Steps], float] | None = None,
) -> WorkBound:
    """Return an accountant's bound within the allowed work; auto and rdp fall back on looser bounds, with a note."""

    def moments(counts: Steps, *, delta: float) -> AccountantResult:
        # The sharp bound has computed the moment bound first: it is at hand where the sharp one is too costly.
        bound = moment_bound(counts) if moment_bound else trimmed_epsilon(counts, delta=delta).value
        return AccountantResult(epsilon=max(0.0, bound))

    worst = partial(worst_direction, steps, delta=delta, moment_bound=moment_bound)
    if name not in {"auto", "rdp", CLOSED_FORM}:
        try:
            with allowance(_SHARP_WORK):
                return WorkBound(*worst(accountant_of(name)), "")
        except WorkExceededError as error:
            problem = "expected a run that takes less work; use --method auto, which has looser bounds"
            raise ConvergenceError(f"{name}: {problem}") from error
    attempts: list[tuple[float, type[Exception], Callable[[], tuple[AccountantResult, str]], str]] = []
    if name == "auto":
        attempts.append((_SHARP_WORK, ConvergenceError, lambda: worst(auto), ""))
        attempts.append((_MOMENT_WORK, ConvergenceError, lambda: worst(moments), LOOSER_NOTE))
    if name == "rdp":
        attempts.append((_SHARP_WORK, WorkExceededError, lambda: worst(accountant_of("rdp")), ""))
    (result, direction), note = first_within_work(
        *attempts, last=lambda: worst_direction(steps, closed_form_rdp, delta=delta), note=CLOSED_FORM_NOTE
    )
    return WorkBound(result, direction, note)


@contextmanager
def _run_in_errors(plan: Plan) -> Iterator[None]:
    """Context that prefixes ConvergenceErrors with a summary of the plan; WorkExceededErrors pass unchanged."""
    try:
        yield
    except WorkExceededError:  # an answer by a looser bound is still to come
        raise
    except ConvergenceError as error:
        first, others = plan.phases[0], len(plan.phases) - 1
        more = f"; {counted(others, 'more phase')}" if others else ""
        raise ConvergenceError(
            f"{plan.name or 'this run'} ({counted(first.steps, 'step')}, {mechanism_text(first)}, "
            f"{sampling_text(first)}{more}; delta {plan.delta:g}): {error}"
        ) from error


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
                mass = max(total_infinity_mass(each) for each in releases)
                masses[names[place]] = max(mass, masses[names[place]])
    total = max(total_infinity_mass(counts) for counts in composition.one_run.steps.values())
    costly = sorted((name for name in names if masses[name]), key=lambda name: -masses[name])[:_NAMED_PHASES]
    if not costly:
        return f"{INFINITE}no bound that is known on the steps says enough"
    shares = f" ({', '.join(f'{masses[name]:.3g} in {name}' for name in costly)})" if run.phases[1:] else ""
    times = "" if run.tuning is None else f", times {run.tuning.mean:g} runs on average,"
    return (
        f"{INFINITE}what steps may reveal without bound, such as the delta of approximate-dp or a loss above 1e9, is "
        f"{total:.3g}{shares}{times} and uses up delta {run.delta:g}; a larger delta or fewer steps may help"
    )


def evaluate(plan: Plan | Composition) -> Evaluation:
    """Return the guarantee with the lower bound, rows, advice and assumptions that stand beside it, as work allows."""
    with allowance(EVALUATION_WORK):
        composition = composed(plan)
        with own_allowance(math.inf):  # it has allowances of its own, and always answers
            main = guarantee(composition)
        tuning, rows, notes = composition.plan.tuning, list[Row](), tuple[Note, ...]()
        if tuning is not None and main.finite:
            alone = guarantee(composition.one_run)
            row = Row(method=alone.method, bound="one run", epsilon=alone.epsilon, kind=alone.kind, valid=False)
            rows.append(replace(row, note=ONE_RUN_NOTE))
            text = f"the best of several runs is released ({tuning.words}); one run alone has epsilon {{}}"
            notes = (Note(text=text, epsilons=(alone.epsilon,)),)
        elif main.finite and not composition.plan.parts:
            main = with_lower_bound(composition, main)

            # Rows: rdp if the guarantee is by another accountant, and published formulas that do not hold. Where the
            # guarantee is in closed form the run is too large for more.
            if main.method != "rdp":
                rows.append(accountant_row(composition, "rdp"))
            known, part = main.epsilon, 0.0 if CLOSED_FORM_NOTE in main.notes else PART
            published, _ = optional(
                "theorem 3", lambda: theorem_3_row(composition, one_step_epsilon=known), None, units=part
            )
            if published is not None and not published.valid:
                rows.append(published)
            groups, _ = optional("the published group bound", lambda: group_rows(composition), ())
            rows += [row for row in groups if row.bound == GROUP_MIXTURE and not row.valid]

            # Advice: a changed run would hardly take less work. A pass in secret order serves all places of a group at
            # once; other draws take each by itself.
            def cost(changed: Composition) -> float:
                spend(1.0)  # nothing once the allowance for advice is used up
                if changed.plan.method == "auto" and changed.plan.tuning is None and not is_noiseless(changed.plan):
                    # The moment bound, which the sharp one computes first.
                    rough = max((changed.moment_bound(counts)[0] for counts in changed.steps.values()), default=0.0)
                    if rough > _FAR_ABOVE_FACTOR * known:
                        return rough
                return guarantee(changed).epsilon

            is_shared = any(bound.secret for bounds in composition.bounds for bound in bounds)
            is_heavy = not part or (is_shared and len(composition.units) > _MANY_PLACES)
            units = 0.0 if is_heavy else advice_work(composition)
            notes, missing = optional("advice", lambda: advice(composition, known, cost), (), units=units)
            if missing:
                tried = f"{missing}; to try a change: --set mechanism.clip=LEVEL, or another scheme"
                main = replace(main, notes=(*main.notes, tried))
            notes = (*notes, *(Note(text=text) for text in unused_order(composition)))
        return Evaluation(
            guarantee=main,
            alternatives=tuple(rows),
            steps=composition.stated.steps,
            phases=() if composition.plan.parts else phase_summaries(composition.one_run, main.direction),
            assumptions=assumptions(composition.stated),
            notes=notes,
        )


def with_lower_bound(plan: Plan | Composition, main: Guarantee) -> Guarantee:
    """Return the guarantee with its certified lower bound, or a note if that fails; unchanged if none is known."""
    composition = composed(plan)
    if not main.finite or composition.plan.tuning is not None or composition.plan.parts:
        return main
    if main.epsilon == 0:
        return main.with_lower(0.0)
    units = _LOWER_WORK_OF_LARGE_RUNS if CLOSED_FORM_NOTE in main.notes else LOWER_WORK
    lower, missing = optional(
        "the lower bound", lambda: epsilon_lower(composition, direction=main.direction), None, units=units
    )
    if missing:
        return replace(main, notes=(*main.notes, missing))
    return main if lower is None else main.with_lower(lower.value)


def delta_of(plan: Plan | Composition, *, epsilon: float) -> DeltaResult:
    """Return bounds on delta at an epsilon >= 0, 1 without noise; the lower bound is None if it fails."""
    if not (math.isfinite(epsilon) and epsilon >= 0):
        raise InputError(f"epsilon: expected a finite number >= 0, got {epsilon!r}")
    composition = composed(plan)
    if is_noiseless(composition.plan):
        return DeltaResult(epsilon=epsilon, delta=1.0, delta_lower=None, direction="")
    with _run_in_errors(composition.stated), allowance(math.inf) as meter:
        # The smallest delta that a valid bound of the run proves: by those that rank cheapest at that delta.
        best, known = _delta_within_work(composition.steps, epsilon, _SHARP_DELTA_WORK), {composition}
        source = composition
        for _ in range(_DELTA_ROUNDS):
            # Where little but infinite losses is left, which passes in secret order have by the delta that is aimed at.
            infinite = max((total_infinity_mass(each) for each in source.steps.values()), default=0.0)
            aim = best.delta / (_FAR_BELOW if infinite > best.delta / 2 else 1)
            others = [each for each in composition.alternatives(aim) if each not in known]
            if not others:
                break
            known.update(others)
            for other in others:
                left = _DELTA_WORK - meter.spent
                if left <= 0:
                    break
                with suppress(ArithmeticError, UnsupportedError):
                    found = _delta_within_work(other.steps, epsilon, min(left, _SHARP_DELTA_WORK))
                    best, source = min((best, source), (found, other), key=lambda each: each[0].delta)
    upper = best
    lower, missing = optional(
        "the lower bound",
        lambda: delta_lower(composition, epsilon=epsilon, direction=upper.direction),
        None,
        units=min(LOWER_WORK, max(_LOWER_WORK_OF_LARGE_RUNS, _DELTA_WORK - meter.spent)),
    )
    if lower is not None:
        require_order("delta", lower, upper.delta)
        lower = min(lower, upper.delta)
    rough = ROUGH_COUNTS if composition.is_rough else ""
    conditions = composition.stated.conditions
    notes = tuple(filter(None, (*best.notes, rough, missing, *unused_order(composition), *conditions)))
    return replace(best, delta_lower=None if conditions else lower, notes=notes)


def _delta_within_work(steps: Mapping[str, Steps], epsilon: float, sharp_work: float) -> DeltaResult:
    """Return the largest delta of any direction by pld, or by a looser bound, with a note, if work runs out."""
    by_moments: dict[int, float] = {}

    def moments(counts: Steps) -> float:
        if id(counts) not in by_moments:
            by_moments[id(counts)] = best_delta(counts, epsilon=epsilon).value if counts else 0.0
        return by_moments[id(counts)]

    def sharp(counts: Steps) -> tuple[float, str]:
        try:
            return delta_bounds(counts, epsilon=epsilon, sides=(UPPER,))[0], "pld"
        except WorkExceededError:
            raise
        except (ArithmeticError, UnsupportedError):
            return min(1.0, moments(counts)), "rdp"

    def costliest(
        answer: Callable[[Steps], tuple[float, str]], ceiling: Callable[[Steps], float] = lambda _: math.inf
    ) -> tuple[tuple[float, str], str]:
        return costliest_release(steps, answer=answer, cost=itemgetter(0), ceiling=ceiling)

    ((delta, accountant), direction), note = first_within_work(
        (sharp_work, WorkExceededError, lambda: costliest(sharp, moments), ""),
        (
            _MOMENT_WORK,
            WorkExceededError,
            lambda: costliest(lambda counts: (min(1.0, moments(counts)), "rdp")),
            LOOSER_NOTE,
        ),
        last=lambda: costliest(lambda counts: (closed_form_rdp_delta(counts, epsilon=epsilon), "rdp")),
        note=CLOSED_FORM_NOTE,
    )
    return DeltaResult(
        epsilon=epsilon,
        delta=delta,
        delta_lower=None,
        direction=direction,
        method=accountant,
        notes=(note,) if note else (),
    )


def accountant_row(plan: Plan | Composition, name: str) -> Row:
    """Return one accountant's upper bound as a row; its epsilon is None, with the reason, if there is no answer."""
    composition = composed(plan)
    if name not in NEED_LOSSES and not composition.plan.parts:  # by the bounds that rank cheapest by moments
        asked = composition.changed(replace(composition.stated, method="rdp"))
        composition = composition if [*map(id, asked.choice)] == [*map(id, composition.choice)] else asked
    row = Row(method=name, bound=BOUND, epsilon=None, kind=composition.stated.bound_kind, valid=False)
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
