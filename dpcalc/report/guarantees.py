"""What several results share: guarantees, units, budgets, phases, rows of a comparison, as JSON and in words.

`limit` is always the epsilon of a budget, >= 0, with which a number is compared and from which its rounding tells it
apart; None without a budget.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from dpcalc.config.source import visible
from dpcalc.guarantee import MAX_REGRET, Guarantee, Kind, Row
from dpcalc.report.output import BARE_DIGITS, Json, Lines, as_given, lines, percent_up, rounded_down, rounded_up, yes_no

if TYPE_CHECKING:
    from dpcalc.config.load import Loaded
    from dpcalc.planner.plan import Plan
    from dpcalc.planner.risk import GaussianSummary
    from dpcalc.planner.words import PhaseSummary

RELATION = {
    Kind.UPPER: "<=",
    Kind.CONDITIONAL: "<=",
    Kind.LOWER: ">=",
    Kind.ESTIMATE: "~",
    Kind.APPROXIMATION: "~",
    Kind.AS_PUBLISHED: "=",
}
METHOD_NAMES = {
    "pld": "PLD",
    "rdp": "RDP",
    "rdp-classic": "RDP with the classical conversion",
    "moments": "moments accountant",
    "optimal": "optimal composition",
    "advanced": "advanced composition",
    "basic": "basic composition",
}
_LONGEST_FRACTION = 64  # characters


def guarantee_lines(guarantee: Guarantee, limit: float | None = None, *, epsilon: str = "") -> Lines:
    """Return a line for each part of a guarantee but its notes; `epsilon` stands in the place of its rounding."""
    lower = guarantee.epsilon_lower
    # All of them from one dict, so that a new part of a guarantee reaches every output.
    return lines(
        guarantee.to_dict(),
        epsilon=epsilon or rounded_up(guarantee.epsilon, apart_from=limit),
        epsilon_lower="" if lower is None else rounded_down(lower),
        tight="" if lower is None else yes_no(guarantee.tight),
        notes="",
    )


def gdp_json(gdp: GaussianSummary, kind: Kind) -> Json:
    return {
        "mu": gdp.mu,
        "finite": math.isfinite(gdp.mu),
        "kind": str(kind),
        "floor": gdp.floor,
        "regret": gdp.regret,
        "good_summary": gdp.is_good,
        "misfit": gdp.misfit,
    }


def gdp_line(gdp: GaussianSummary) -> str:
    regret = rounded_up(gdp.regret, apart_from=MAX_REGRET)
    parts = f"mu {rounded_up(gdp.mu)}, floor {as_given(gdp.floor)}, regret {regret}"
    # A mu with a large regret would be taken for the whole truth: the warning stands in the same line.
    return parts if gdp.is_good else f"no good summary: {parts}"


def gdp_text(gdp: GaussianSummary) -> str:
    """Return words on the upper bound mu and its regret, with a warning if mu is infinite or no good summary."""
    floor, regret = as_given(gdp.floor), rounded_up(gdp.regret, apart_from=MAX_REGRET)
    if not math.isfinite(gdp.mu):
        return f"no mu: at floor {floor} none that is finite is known"
    if gdp.is_good:
        return f"mu <= {rounded_up(gdp.mu)} at deltas from {floor} on (regret {regret})"
    return f"no good summary of this run: regret {regret} (mu <= {rounded_up(gdp.mu)} at deltas from {floor} on)"


def unit_json(plan: Plan) -> Json:
    return {"unit": plan.unit_name, "adjacency": str(plan.adjacency), "group_size": plan.group_size}


def budget_limit(plan: Plan) -> float | None:
    return None if plan.budget is None else plan.budget.epsilon


def budget_json(epsilon: float, limit: float | None) -> Json | None:
    if limit is None:
        return None
    used = epsilon / limit if limit else 0.0 if epsilon == 0 else math.inf
    return {"epsilon": limit, "used": used, "ok": epsilon <= limit}


def budget_lines(epsilon: float, limit: float | None) -> Lines:
    budget = budget_json(epsilon, limit)
    if budget is None or limit is None:
        return []
    return lines(budget, "budget.", used=budget_used(epsilon, limit).removesuffix(" used"))


def row_json(row: Row) -> Json:
    return {
        "method": row.method,
        "bound": row.bound,
        "epsilon": row.epsilon,
        "epsilon_lower": row.epsilon_lower,
        "finite": None if row.epsilon is None else math.isfinite(row.epsilon),
        "kind": str(row.kind),
        "valid": row.valid,
        "claim": row.claim,
        "note": row.note,
    }


def row_lines(row: Row, limit: float | None) -> Lines:
    epsilon = "n/a" if row.epsilon is None else epsilon_text(row.epsilon, row.kind, apart_from=limit)
    return lines(row_json(row), epsilon=epsilon, epsilon_lower=rounded_down, finite="")


def phase_json(phase: PhaseSummary) -> Json:
    """Return a phase, probabilities as texts; strategy and other Gaussian sums only if it has them."""
    # The probability of a draw that is cut to a maximum is a fraction of hundreds of digits: rounded up.
    inclusion = str(phase.inclusion)
    if len(inclusion) > _LONGEST_FRACTION:
        inclusion = rounded_up(phase.inclusion, digits=17)
    named = ("name", "steps", "mechanism", "noise_multiplier", "clip", "sampling", "inclusion", "shift")
    fields: Json = {name: getattr(phase, name) for name in named} | {
        "inclusion": inclusion,
        "distances": list(phase.distances),
        "distances_swapped": list(phase.distances_swapped),
        "hold": phase.hold,
        "revealed": [{"rate": str(rate), "steps": steps} for rate, steps in phase.revealed],
        "steps_of_a_pass": phase.steps_of_a_pass,
    }
    if phase.strategy:
        fields["strategy"] = phase.strategy
        if phase.sensitivity is not None:
            fields["sensitivity"] = phase.sensitivity.ratio
            fields["sensitivity_kind"] = "exact" if phase.sensitivity.is_exact else "upper"
            fields["sensitivity_lower"] = phase.sensitivity.ratio_lower
            fields["sensitivity_from"] = phase.sensitivity.how
    if phase.also:
        fields["also"] = [each if isinstance(each, float) else each._asdict() for each in phase.also]
        fields["joint_noise_multiplier"] = phase.joint_noise_multiplier
    return fields


# Words


def quiet_line(epsilon: float) -> str:
    """Return epsilon and a line break for `--quiet`: six digits rounded up, "inf" where there is no bound."""
    return f"{rounded_up(epsilon, digits=BARE_DIGITS)}\n"


def config_names(files: Sequence[Loaded]) -> list[str]:
    """Return the name or path of each config, but the paths of all if two of these would be equal."""
    # Paths for all as soon as two labels agree: a mixture would leave open which of them is meant.
    names = [loaded.plan.name or loaded.path for loaded in files]
    return names if len(set(names)) == len(names) else [loaded.path for loaded in files]


def method_name(method: str) -> str:
    return METHOD_NAMES.get(method, method)


def epsilon_text(value: float, kind: Kind, *, apart_from: float | None = None) -> str:
    return rounded_down(value) if kind is Kind.LOWER else rounded_up(value, apart_from=apart_from)


def units_text(unit: str, group_size: int) -> str:
    return f"one {visible(unit)}" if group_size == 1 else f"a group of {group_size} ({visible(unit)})"


def protects_row(unit: str, group_size: int, adjacency: str) -> tuple[str, str]:
    return "protects", f"{units_text(unit, group_size)}, {adjacency}"


def assumes_rows(assumptions: Sequence[str]) -> list[tuple[str, str]]:
    """Return a row for each assumption, the first one with the label."""
    return [("" if at else "assumes", f"- {visible(text)}") for at, text in enumerate(assumptions)]


def budget_used(epsilon: float, limit: float) -> str:
    """Return "N% used", rounded up; "no finite epsilon", or "none allowed" where a limit of 0 is exceeded."""
    if not math.isfinite(epsilon):
        return "no finite epsilon"
    if limit == 0:  # 0 of 0 is no percentage, and is within the budget
        return "100% used" if epsilon == 0 else "none allowed"
    return f"{percent_up(epsilon, limit)}% used"


def guarantee_headline(guarantee: Guarantee, limit: float | None) -> tuple[str, tuple[str, str]]:
    """Return a line of epsilon, verdict on the budget and delta; and the verdict with its style."""
    epsilon, verdict, style = "is infinite", "", "green"
    if limit is not None:
        share = (
            f" ({budget_used(guarantee.epsilon, limit).removesuffix(' used')})" if limit and guarantee.finite else ""
        )
        verdict = f"{'within' if guarantee.epsilon <= limit else 'EXCEEDS'} the budget {as_given(limit)}{share}"
    if guarantee.finite:
        epsilon = f"{RELATION[guarantee.kind]} {rounded_up(guarantee.epsilon, apart_from=limit)}"
        epsilon += "" if guarantee.kind is Kind.UPPER else f" ({guarantee.kind})"
    else:
        verdict = verdict or "no guarantee"
    if not guarantee.finite or (limit is not None and guarantee.epsilon > limit):
        style = "red"
    parts = (f"epsilon {epsilon}", verdict, f"delta = {as_given(guarantee.delta)}")
    return "   ".join(filter(None, parts)), (verdict, style)


def lower_row(guarantee: Guarantee) -> tuple[str, str]:
    """Return what an actual pair of data sets costs, and what that says about the bound."""
    if guarantee.epsilon_lower is None or not guarantee.finite:
        return "at least", ""
    reason = "so the bound is tight" if guarantee.tight else "on one pair of data sets; the truth lies between"
    return "at least", f"{rounded_down(guarantee.epsilon_lower)}, {reason}"


def noise_text(mechanism: str, noise_multiplier: float | None, other_sums: str | None) -> str:
    """Return the noise of a Gaussian mechanism and its other sums in words, or any other `mechanism` itself."""
    if other_sums is None or noise_multiplier is None:
        return mechanism
    return f"noise multiplier {as_given(noise_multiplier)}{other_sums}"
