"""Verdicts on config files: `check` compares costs with budgets and a base, `diff` with a base; `validate` reads."""

from collections.abc import Sequence
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
from dpcalc.gate.verdict import Fits, Limit, Result, Verdict, error_result, finding, verdict_on
from dpcalc.guarantee import INFINITE, Guarantee, Kind
from dpcalc.planner.plan import Plan
from dpcalc.records import dataclass
from dpcalc.report.rounding import as_given, percent_up, rounded_down, rounded_up

MAX_SUGGESTIONS = 10  # files that get suggestions, each up to FIT_WORK; people read no more than that
FIT_DIGITS = 4  # significant digits of a suggested noise multiplier, rounded up so that the next check passes


@dataclass(frozen=True, kw_only=True)
class Demands:
    """Requirements on every config file, beside the budget that the file states itself."""

    policy: Policy = NO_POLICY
    allow_budget_change: bool = False  # a budget may be higher, and a promise weaker, than in the base
    lock: Lock | None = None  # the reviewed state that every config must be in
    config_args: Sequence[str] | None = ()  # CONFIG...; None if a search found all: the lock may hold no other
    lower_bounds: bool = False  # whether every result shall have one, also where it changes no verdict
    suggestions: bool = True  # whether files over their limit get values that would fit


def check(
    paths: Sequence[str], *, reader: ConfigReader = PLAIN_READER, demands: Demands, costs: Costs
) -> tuple[Result, ...]:
    """Return a result for each file, in order, then a failed one for each lock entry without a config.

    The first 10 files over their limit get suggestions of values that would fit. `passed` needs a finite upper bound on
    epsilon, compared unrounded with the strictest limit.
    """
    judged = cases(paths, reader)
    costs.compute_files((case.path, plan) for case in judged for plan in case.plans)
    # In two rounds: only an upper bound tells whether a lower bound can matter. Each round uses all worker processes.
    lower_bounds = []
    for case in judged:
        try:
            if case.new is not None and _wants_lower_bound(case.new.plan, costs, demands):
                plan = case.new.plan
                upper = costs.guarantee(plan)
                lower_bounds.append(Request(plan=cost_relevant(plan), quantity="lower", upper=upper))
        except Exception:  # noqa: BLE001, S112  reported where the file is judged
            continue
    costs.compute(lower_bounds)
    results = [_judgement(case, costs, demands) for case in judged]

    # After all verdicts, with the time that is left: a suggestion that comes too late changes none of them.
    requests: dict[int, list[Request]] = {}
    for index, (case, result) in enumerate(zip(judged, results, strict=True)):
        over = any(problem.code in {"DPC205", "DPC301"} for problem in result.problems)
        if demands.suggestions and over and case.new and result.limit and len(requests) < MAX_SUGGESTIONS:
            requests[index] = fits(cost_relevant(case.new.plan), result.limit.value)
    costs.compute(request for asked in requests.values() for request in asked)
    for index, asked in requests.items():
        noise, *others = values = [costs.fit(each) for each in asked]
        steps = int(others[0]) if others and others[0] else None
        new = judged[index].new
        hint = f"to fit: {text}" if new and (text := fit_text(values, new)) else ""
        problems = tuple(
            replace(each, hint=hint or each.hint) if each.code in {"DPC205", "DPC301"} else each
            for each in results[index].problems
        )
        found = Fits(noise_multiplier=noise, steps=steps) if others else Fits(noise_factor=noise)
        results[index] = replace(results[index], fits=found, problems=problems)
    stale = () if demands.lock is None else missing_configs(judged, demands.lock, config_args=demands.config_args)
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


def _wants_lower_bound(plan: Plan, costs: Costs, demands: Demands) -> bool:
    """Return True if epsilon is finite and a lower bound is demanded, or a method looser than pld answered."""
    # A sharp upper bound needs none, and so costs no second computation.
    guarantee = costs.guarantee(plan)
    return guarantee.finite and (demands.lower_bounds or is_fallback(plan, guarantee))


def _judgement(case: Case, costs: Costs, demands: Demands) -> Result:
    """Return the result of a config by limit, budget, base and lock, without suggestions."""
    new, pair, policy, agreed = case.new, case.pair, demands.policy, demands.allow_budget_change
    if new is None:
        return error_result(case.path, case.error)
    try:
        guarantee = costs.guarantee(new.plan)
        if _wants_lower_bound(new.plan, costs, demands):
            guarantee = costs.with_lower_bound(new.plan, guarantee)
        base = None if pair is None else base_costs(pair, costs)
    except Exception as error:  # noqa: BLE001  whatever it is, the other files still get their answer
        return error_result(case.path, error)

    # The limit of the base counts too: a change cannot loosen the limit by which it is judged.
    epsilon_limits, rise_limits = [policy.max_epsilon], [policy.max_increase_pct]
    stated = [(new, "")] if pair is None or agreed else [(new, ""), (pair.old, f" of {pair.name}")]
    for loaded, suffix in reversed(stated):
        if (budget := loaded.plan.budget) is not None:
            epsilon_limits.insert(0, Limit(value=budget.epsilon, source=f"budget.epsilon{suffix}"))
            if budget.max_increase_pct is not None:
                rise = Limit(value=budget.max_increase_pct, source=f"budget.max_increase_pct{suffix}")
                rise_limits.insert(0, rise)
    limit = strictest_limit(epsilon_limits)

    problems = [replace(each, severity=Severity.NOTE) if agreed else each for each in case.problems]
    problems += overridden(new, policy.other_launches)
    over = _limit_problem(new, guarantee, limit, policy)
    if over is not None:
        problems.append(over if over.code == "DPC901" else at_costliest_change(over, base))
    is_missing = new.plan.budget is None and policy.require_budget
    if is_missing or limit is None:
        severity = Severity.ERROR if is_missing else Severity.WARNING
        message = "no budget.epsilon: nothing says what this run may cost"
        problems.append(finding("DPC304", severity, message, new.path))
    if pair is not None and base is not None:
        # Up to its limit a rise is a warning, unless more than the change itself states a limit: then a note.
        old_budget = pair.old.plan.budget
        of_base = old_budget is not None and old_budget.max_increase_pct is not None
        problems += regressions(
            pair,
            base,
            guarantee,
            severity=Severity.WARNING,
            allowed=strictest_limit(rise_limits),
            is_agreed=of_base or policy.permits_increase or agreed,
            allow_budget_change=agreed,
        )
    if demands.lock is not None:
        problems += lock_problems(demands.lock, new, guarantee)
    verdict = verdict_on((*problems, *new.diagnostics), strict=policy.strict)
    return Result(
        path=new.path,
        verdict=Verdict.UNDECIDED if over is not None and over.code == "DPC901" else verdict,
        guarantee=guarantee,
        limit=limit,
        problems=tuple(problems),
        diagnostics=new.diagnostics,
        base=base,
    )


def _limit_problem(new: Loaded, guarantee: Guarantee, limit: Limit | None, policy: Policy) -> Diagnostic | None:
    """Return the gravest of: infinite (DPC205), undecided (DPC901), over the limit (DPC301), near it (DPC302)."""
    epsilon, lower, share = guarantee.epsilon, guarantee.epsilon_lower, policy.warn_at_pct
    condition = "" if guarantee.kind is Kind.UPPER else f", {guarantee.kind}"
    claim = f"(unit {guarantee.unit}, delta {as_given(guarantee.delta)}{condition})"
    if not guarantee.finite:
        causes = (note.removeprefix(INFINITE) for note in guarantee.notes if note.startswith(INFINITE))
        return finding("DPC205", Severity.ERROR, ": ".join((f"there is no finite epsilon {claim}", *causes)), new.path)
    if limit is None:
        return None
    mark, most = new.mark("budget.epsilon") if limit.source == "budget.epsilon" else None, as_given(limit.value)
    if not epsilon <= limit.value:
        # A loose upper bound above the limit is no verdict: the exact epsilon may be on either side of it.
        if is_fallback(new.plan, guarantee) and (lower is None or lower <= limit.value):
            between = f"{rounded_down(lower or 0.0)} and {rounded_up(epsilon)} ({guarantee.method.upper()})"
            message = (
                f"epsilon lies between {between}, so it is not known whether it exceeds {most}; the PLD accountant "
                "has no answer"
            )
            return finding("DPC901", Severity.ERROR, message, new.path, mark)
        name = "the budget" if limit.source == "budget.epsilon" else limit.source
        message = f"epsilon {rounded_up(epsilon, apart_from=limit.value)} exceeds {name} {most} {claim}"
        return finding("DPC301", Severity.ERROR, message, new.path, mark)
    if share is not None and epsilon > limit.value * share / 100:
        used = f"{percent_up(epsilon, limit.value)}% of {limit.source} {most} is used"
        message = f"{used}; a warning was asked for above {share:g}%"
        return finding("DPC302", Severity.WARNING, message, new.path, mark)
    return None


def diff(compared_cases: Sequence[Case], *, costs: Costs) -> tuple[Result, ...]:
    """Return the comparison of each config with its base, in order; every rise of epsilon fails."""
    costs.compute_files((case.path, plan) for case in compared_cases for plan in case.plans)
    results = []
    for case in compared_cases:
        new, pair = case.new, case.pair
        try:
            if pair is not None:
                base, now = base_costs(pair, costs), costs.guarantee(pair.new.plan)
                problems = tuple(regressions(pair, base, now, severity=Severity.ERROR))
                result = Result(
                    path=pair.new.path,
                    verdict=verdict_on(problems),
                    guarantee=now,
                    problems=problems,
                    diagnostics=pair.new.diagnostics,
                    base=base,
                )
            elif new is not None:
                result = Result(path=new.path, verdict=verdict_on(case.problems), problems=case.problems)
            else:
                result = error_result(case.path, case.error)
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
