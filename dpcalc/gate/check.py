"""Verdicts on config files: `check` compares costs with budgets and a base, `diff` with a base; `validate` reads."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction

from dpcalc.config.load import Loaded
from dpcalc.config.normal import stated_terms
from dpcalc.config.source import Diagnostic, Severity
from dpcalc.gate.costs import Costs, Request, cost_relevant, is_fallback
from dpcalc.gate.diff import PLAIN_READER, Case, ConfigReader, at_costliest_change, base_costs, cases, regressions
from dpcalc.gate.launches import overridden
from dpcalc.gate.lock import Lock, lock_problems, missing_configs
from dpcalc.gate.policy import NO_POLICY, Policy, strictest_limit
from dpcalc.gate.verdict import BaseCost, Limit, Result, Verdict, error_result, finding, verdict_on
from dpcalc.guarantee import INFINITE, Guarantee, Kind
from dpcalc.planner.plan import Plan
from dpcalc.report.rounding import as_given, percent_up, rounded_down, rounded_up

MAX_SUGGESTIONS = 10  # files that get suggestions, each up to FIT_WORK; people read no more than that
_OVER = {"DPC205", "DPC301"}  # rules of a file that gets suggestions
FIT_DIGITS = 4  # significant digits of a suggested noise multiplier, rounded up so that the next check passes


def check(
    paths: Sequence[str],
    *,
    costs: Costs,
    reader: ConfigReader = PLAIN_READER,
    policy: Policy = NO_POLICY,
    allow_budget_change: bool = False,
    lock: Lock | None = None,
    config_args: Sequence[str] | None = (),
    lower_bounds: bool = False,
    suggestions: bool = True,
) -> tuple[Result, ...]:
    """Return a result for each file, in order, then a failed one for each entry of the lock without a config.

    `passed` needs a finite upper bound on epsilon, compared unrounded with the strictest limit. With
    `allow_budget_change` a budget may be higher, and a promise weaker, than in the base; `config_args` is CONFIG..., or
    None if a search found all: then the lock may hold no other. With `lower_bounds` every result has one, also where it
    changes no verdict. The first 10 files over their limit get `suggestions` of values that would fit.
    """
    judged = cases(paths, reader)
    costs.compute_files((case.path, plan) for case in judged for plan in case.plans)
    # In two rounds: only an upper bound tells whether a lower bound can matter, and a sharp one costs no second
    # computation. Each round uses all worker processes.
    lower = {}
    for index, case in enumerate(judged):
        with suppress(Exception):  # reported where the file is judged
            if case.new is not None:
                upper = costs.guarantee(case.new.plan)
                if upper.finite and (lower_bounds or is_fallback(case.new.plan, upper)):
                    lower[index] = Request(plan=cost_relevant(case.new.plan), quantity="lower", upper=upper)
    costs.compute(lower.values())
    results = []
    for index, case in enumerate(judged):
        try:
            if case.new is None:
                raise case.error
            guarantee, base = costs.guarantee(case.new.plan), base_costs(case, costs)
        except Exception as error:  # noqa: BLE001  whatever it is, the other files still get their answer
            results.append(error_result(case.path, error))
            continue
        if index in lower:
            answer = costs.attempt(lower[index])
            guarantee = answer if isinstance(answer, Guarantee) else guarantee
        results.append(_judgement(case, case.new, guarantee, base, policy, lock, is_agreed=allow_budget_change))

    # After all verdicts, with the time that is left: a suggestion that comes too late changes none of them.
    requests: dict[int, list[Request]] = {}
    for index, (case, result) in enumerate(zip(judged, results, strict=True)):
        over = any(problem.code in _OVER for problem in result.problems)
        if suggestions and over and case.new and result.limit and len(requests) < MAX_SUGGESTIONS:
            requests[index] = fits(cost_relevant(case.new.plan), result.limit.value)
    costs.compute(request for asked in requests.values() for request in asked)
    for index, asked in requests.items():
        noise, *others = values = [
            None if isinstance(answer, Guarantee) else answer for answer in map(costs.attempt, asked)
        ]
        new = judged[index].new
        hint = f"to fit: {text}" if new and (text := fit_text(values, new)) else ""
        problems = tuple(
            replace(each, hint=hint or each.hint) if each.code in _OVER else each for each in results[index].problems
        )
        found = {"noise_multiplier": noise, "steps": others[0] or None} if others else {"noise_factor": noise}
        results[index] = replace(results[index], fits=found, problems=problems)
    stale = () if lock is None else missing_configs(judged, lock, config_args=config_args)
    return (*results, *stale)


def fits(plan: Plan, limit: float) -> list[Request]:
    """Return the questions how much noise and, of a single phase, how many steps keep a plan within a limit."""
    # Of several phases nobody knows which one should become shorter.
    quantities = ("sigma", "steps") if len(plan.phases) == 1 else ("sigma",)
    return [Request(plan=plan, quantity=each, limit=limit) for each in quantities]


def fit_text(values: Sequence[float | None], loaded: Loaded) -> str:
    """Return the answers to `fits`, the length as the config states it: "noise_multiplier >= 1.461 or epochs <= 11"."""
    noise, *others = values
    texts = []
    if noise is not None:
        least = rounded_up(noise, digits=FIT_DIGITS)
        several = f"noise_multiplier of every phase times {least}"  # their noises keep their ratios
        texts.append(f"noise_multiplier >= {least}" if others else several)
    for steps in filter(None, others):
        phase = loaded.plan.phases[0]
        epochs = stated_terms(loaded.tree, 0, phase.hierarchy).epochs
        passes = "" if epochs is None else rounded_down(epochs * int(steps) / phase.steps, digits=FIT_DIGITS)
        is_covered = passes and phase.hierarchy.steps_of(Fraction(passes)) <= steps
        texts.append(f"epochs <= {float(passes):g}" if is_covered else f"steps <= {int(steps)}")
    return " or ".join(texts)


def _judgement(
    case: Case,
    new: Loaded,
    guarantee: Guarantee,
    base: BaseCost | None,
    policy: Policy,
    lock: Lock | None,
    *,
    is_agreed: bool,
) -> Result:
    """Return the result of a config by limit, budget, base and lock, without suggestions."""
    # The limit of the base counts too: a change cannot loosen the limit by which it is judged.
    epsilon_limits, rise_limits = [policy.max_epsilon], [policy.max_increase_pct]
    stated = [(new, "")] if case.old is None or is_agreed else [(case.old, f" of {case.base}"), (new, "")]
    for loaded, suffix in stated:
        if (budget := loaded.plan.budget) is not None:
            epsilon_limits.insert(0, Limit(value=budget.epsilon, source=f"budget.epsilon{suffix}"))
            if budget.max_increase_pct is not None:
                rise = Limit(value=budget.max_increase_pct, source=f"budget.max_increase_pct{suffix}")
                rise_limits.insert(0, rise)
    limit = strictest_limit(epsilon_limits)

    # The gravest of: infinite (DPC205), undecided (DPC901), over the limit (DPC301), near it (DPC302).
    epsilon, lower, share = guarantee.epsilon, guarantee.epsilon_lower, policy.warn_at_pct
    condition = "" if guarantee.kind is Kind.UPPER else f", {guarantee.kind}"
    claim = f"(unit {guarantee.unit}, delta {as_given(guarantee.delta)}{condition})"
    code, severity, message, mark = "", Severity.ERROR, "", None
    if limit is not None and limit.source == "budget.epsilon":
        mark = new.mark("budget.epsilon")
    if not guarantee.finite:
        causes = (note.removeprefix(INFINITE) for note in guarantee.notes if note.startswith(INFINITE))
        code = "DPC205"
        message = ": ".join((f"there is no finite epsilon {claim}", *causes))
        mark = None
    elif limit is None:
        pass
    elif not epsilon <= limit.value and is_fallback(new.plan, guarantee) and (lower is None or lower <= limit.value):
        # A loose upper bound above the limit is no verdict: the exact epsilon may be on either side of it.
        between = f"{rounded_down(lower or 0.0)} and {rounded_up(epsilon)} ({guarantee.method.upper()})"
        code, message = (
            "DPC901",
            (
                f"epsilon lies between {between}, so it is not known whether it exceeds {as_given(limit.value)}; the "
                "PLD accountant has no answer"
            ),
        )
    elif not epsilon <= limit.value:
        name = "the budget" if limit.source == "budget.epsilon" else limit.source
        exceeded = f"{rounded_up(epsilon, apart_from=limit.value)} exceeds {name} {as_given(limit.value)}"
        code, message = "DPC301", f"epsilon {exceeded} {claim}"
    elif share is not None and epsilon > limit.value * share / 100:
        used = f"{percent_up(epsilon, limit.value)}% of {limit.source} {as_given(limit.value)} is used"
        code, severity = "DPC302", Severity.WARNING
        message = f"{used}; a warning was asked for above {share:g}%"

    problems = [replace(each, severity=Severity.NOTE) if is_agreed else each for each in case.problems]
    problems += overridden(new, policy.other_launches)
    if code:
        over = finding(code, severity, message, new.path, mark)
        problems.append(over if code == "DPC901" else at_costliest_change(over, base))
    is_missing = new.plan.budget is None and policy.require_budget
    if is_missing or limit is None:
        severity = Severity.ERROR if is_missing else Severity.WARNING
        message = "no budget.epsilon: nothing says what this run may cost"
        problems.append(finding("DPC304", severity, message, new.path))
    if case.old is not None and base is not None:
        # Up to its limit a rise is a warning, unless more than the change itself states a limit: then a note.
        old_budget = case.old.plan.budget
        of_base = old_budget is not None and old_budget.max_increase_pct is not None
        problems += regressions(
            case.old,
            new,
            base,
            guarantee,
            severity=Severity.WARNING,
            allowed=strictest_limit(rise_limits),
            is_agreed=of_base or policy.permits_increase or is_agreed,
            allow_budget_change=is_agreed,
        )
    if lock is not None:
        problems += lock_problems(lock, new, guarantee)
    verdict = verdict_on((*problems, *new.diagnostics), strict=policy.strict)
    return Result(
        path=new.path,
        verdict=Verdict.UNDECIDED if code == "DPC901" else verdict,
        guarantee=guarantee,
        limit=limit,
        problems=tuple(problems),
        diagnostics=new.diagnostics,
        base=base,
    )


def diff(compared_cases: Sequence[Case], *, costs: Costs) -> tuple[Result, ...]:
    """Return the comparison of each config with its base, in order; every rise of epsilon fails."""
    costs.compute_files((case.path, plan) for case in compared_cases for plan in case.plans)
    results = []
    for case in compared_cases:
        try:
            if case.new is None:
                raise case.error
            base, now, problems = base_costs(case, costs), None, case.problems
            diagnostics: tuple[Diagnostic, ...] = ()
            if case.old is not None and base is not None:
                now, diagnostics = costs.guarantee(case.new.plan), case.new.diagnostics
                problems = tuple(regressions(case.old, case.new, base, now, severity=Severity.ERROR))
            result = Result(
                path=case.new.path,
                verdict=verdict_on(problems),
                guarantee=now,
                problems=problems,
                diagnostics=diagnostics,
                base=base,
            )
        except Exception as error:  # noqa: BLE001  whatever it is, the other files still get their answer
            result = error_result(case.path, error)
        results.append(result)
    return tuple(results)


def validate(paths: Sequence[str], *, reader: ConfigReader = PLAIN_READER) -> tuple[Result, ...]:
    """Return one result for each file, in order, and compute nothing: passed if it can be read, else an error."""
    return tuple(
        error_result(case.path, case.error)
        if case.new is None
        else Result(path=case.new.path, verdict=Verdict.PASSED, diagnostics=case.new.diagnostics)
        for case in cases(paths, replace(reader, base=""))
    )
