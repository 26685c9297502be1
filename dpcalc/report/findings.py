"""Findings of the gate in words: the sentence of each rule, its numbers rounded to the safe side, and the way out."""

import math
from collections.abc import Callable

from dpcalc.gate.diff import NOT_SET
from dpcalc.gate.verdict import Change, Fits, Problem, Result
from dpcalc.guarantee import INFINITE, Guarantee
from dpcalc.report.rounding import as_given, percent_up, rounded_down, rounded_up

FIT_DIGITS = 4  # significant digits of a suggested noise multiplier, rounded up so that the next check passes


def problem_sentence(problem: Problem, result: Result) -> str:
    """Return the sentence for a finding, worded by the function for its rule or else given by `problem.detail`."""
    wording = _SENTENCES.get(problem.code)
    return problem.detail if wording is None else wording(problem, result)


def problem_hint(problem: Problem, result: Result) -> str:
    """Return the hint of a finding; of DPC205 and DPC301 the changes that would fit the limit, if any are known."""
    if problem.code in {"DPC205", "DPC301"} and result.fits != Fits():
        return f"to fit: {_fits_text(result.fits)}"
    return problem.hint


def _fits_text(fits: Fits) -> str:
    """Return the changes that would fit the limit, joined by "or"; "" if none is known."""
    texts = []
    if fits.noise_multiplier is not None:
        texts.append(f"noise_multiplier >= {rounded_up(fits.noise_multiplier, digits=FIT_DIGITS)}")
    if fits.noise_factor is not None:
        texts.append(f"noise_multiplier of every phase times {rounded_up(fits.noise_factor, digits=FIT_DIGITS)}")
    if fits.steps is not None:
        texts.append(f"steps <= {fits.steps}")
    return " or ".join(texts)


def before_and_after_text(before: float, after: float) -> str:
    """Return two upper bounds as "A -> B", rounded up, with enough digits to show which is larger."""
    return f"{rounded_up(before, apart_from=after)} -> {rounded_up(after, apart_from=before)}"


def change_text(change: Change) -> str:
    """Return "KEY: OLD -> NEW" of a change, unescaped, with a word in the place of a value that is not set."""
    return f"{change.key}: {change.old or NOT_SET} -> {change.new or NOT_SET}"


def _claim_text(guarantee: Guarantee) -> str:
    """Return "(unit UNIT, delta D)" of a guarantee, D unrounded."""
    return f"(unit {guarantee.unit}, delta {as_given(guarantee.delta)})"


def _no_bound_text(problem: Problem, result: Result) -> str:
    """Return "there is no finite epsilon (unit U, delta D): cause" for DPC205; `detail` without a guarantee."""
    if result.guarantee is None:
        return problem.detail
    causes = (note.removeprefix(INFINITE) for note in result.guarantee.notes if note.startswith(INFINITE))
    return ": ".join((f"there is no finite epsilon {_claim_text(result.guarantee)}", *causes))


def _over_budget_text(problem: Problem, result: Result) -> str:
    """Return a sentence that epsilon exceeds its limit (DPC301); `detail` without a guarantee or a limit."""
    guarantee, limit = result.guarantee, result.limit
    if guarantee is None or limit is None:
        return problem.detail
    name = "the budget" if limit.source == "budget.epsilon" else limit.source
    epsilon = rounded_up(guarantee.epsilon, apart_from=limit.value)
    return f"epsilon {epsilon} exceeds {name} {as_given(limit.value)} {_claim_text(guarantee)}"


def _near_budget_text(problem: Problem, result: Result) -> str:
    """Return a sentence on the share of the limit that is used (DPC302); `detail` without a guarantee or a limit."""
    guarantee, limit = result.guarantee, result.limit
    if guarantee is None or limit is None:
        return problem.detail
    used, warn_at = percent_up(guarantee.epsilon, limit.value), problem.numbers["warn_at_pct"]
    return f"{used}% of {limit.source} {as_given(limit.value)} is used; a warning was asked for above {warn_at:g}%"


def _raised_budget_text(problem: Problem, result: Result) -> str:
    """Return a sentence that a limit was raised from one value to another, or removed (DPC303)."""
    del result
    before, limit = problem.numbers.get("before"), problem.numbers["now"]
    now = f"is now {as_given(limit)}" if math.isfinite(limit) else "is gone"
    return f"{problem.detail} was {'not set' if before is None else as_given(before)} and {now}"


def _no_budget_text(problem: Problem, result: Result) -> str:
    """Return the fixed message of DPC304: no budget is stated."""
    del problem, result
    return "no budget.epsilon: nothing says what this run may cost"


def _rise_text(problem: Problem, result: Result) -> str:
    """Return "epsilon rises, A -> B (KEY: OLD -> NEW)" for DPC401, with the change that alone raises it most."""
    rise = before_and_after_text(problem.numbers["before"], problem.numbers["now"])
    return f"epsilon rises, {rise}{_cause_text(result)}"


def _large_rise_text(problem: Problem, result: Result) -> str:
    """Return a sentence on how far epsilon rises and how far it may, with the main cause (DPC402)."""
    before, now = problem.numbers["before"], problem.numbers["now"]
    rise = f"epsilon rises{_percentage_text(before, now)}, {before_and_after_text(before, now)}"
    return f"{rise}; {problem.detail} allows {as_given(problem.numbers['allowed_pct'])}{_cause_text(result)}"


def _percentage_text(before: float, now: float) -> str:
    """Return " by N%" for a rise of epsilon, rounded up, or "" if it was 0 or is infinite now."""
    return f" by {percent_up(now - before, before)}%" if before and math.isfinite(now) else ""


def _cause_text(result: Result) -> str:
    """Return " (KEY: OLD -> NEW)" of the change that alone raises epsilon most, or "" if none alone raises it."""
    if result.base is None or not result.base.changes:
        return ""
    largest = result.base.changes[0]  # the largest epsilon first
    return f" ({change_text(largest)})" if (largest.alone or 0.0) > result.base.guarantee.epsilon else ""


def _lock_text(problem: Problem, result: Result) -> str:
    """Return `detail` of DPC403, followed by epsilon or its change where the finding has these numbers."""
    del result
    match problem.numbers:
        case {"before": before, "now": now}:
            change = "" if before == now else f": epsilon {before_and_after_text(before, now)}"
            return f"{problem.detail}{change}"
        case {"now": now}:
            return f"{problem.detail}; epsilon is {rounded_up(now)}"
        case _:
            return problem.detail


def _no_verdict_text(problem: Problem, result: Result) -> str:
    """Return a sentence that the limit lies between the bounds on epsilon (DPC901); `detail` without numbers."""
    del result
    if not problem.numbers:
        return problem.detail
    lower, upper = rounded_down(problem.numbers["lower"]), rounded_up(problem.numbers["upper"])
    interval = f"epsilon lies between {lower} and {upper} ({problem.detail.upper()})"
    limit = as_given(problem.numbers["limit"])
    return f"{interval}, so it is not known whether it exceeds {limit}; the PLD accountant has no answer"


def _claim_change_text(problem: Problem, result: Result) -> str:
    """Return for DPC405 the change in `detail`, its effect on epsilon, and the advice to change the training code."""
    del result
    return f"{problem.detail} {_claim_effect_text(problem)}; make sure that the training code changed with it"


def _claim_effect_text(problem: Problem) -> str:
    """Return words on how far a changed assumption, alone or with the other changes, lowers epsilon, if known."""
    if not problem.numbers:
        return "changes an assumption, and what it does alone is not known"
    how = "with the other changes" if "alone" in problem.numbers else "alone"  # alone it is then no lower
    return f"{how} lowers epsilon, {before_and_after_text(problem.numbers['before'], problem.numbers['now'])}"


_SENTENCES: dict[str, Callable[[Problem, Result], str]] = {
    "DPC205": _no_bound_text,
    "DPC301": _over_budget_text,
    "DPC302": _near_budget_text,
    "DPC303": _raised_budget_text,
    "DPC304": _no_budget_text,
    "DPC401": _rise_text,
    "DPC402": _large_rise_text,
    "DPC403": _lock_text,
    "DPC405": _claim_change_text,
    "DPC901": _no_verdict_text,
}
