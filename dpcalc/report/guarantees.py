"""Fields and words that several results share: guarantees, units, budgets, phases, rows of a comparison.

`limit` is always the epsilon of a budget, >= 0, with which a number is compared and from which its rounding tells it
apart; None without a budget.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from dpcalc.config.source import visible
from dpcalc.guarantee import MAX_REGRET, Guarantee, Kind, Row
from dpcalc.report.fields import Field, Fields, Section, json_only, plain_only, terminal_only, yes_no
from dpcalc.report.rounding import BARE_DIGITS, as_given, percent_up, rounded_down, rounded_up

if TYPE_CHECKING:
    from dpcalc.config.load import Loaded
    from dpcalc.planner.gdp import GaussianSummary
    from dpcalc.planner.plan import Plan
    from dpcalc.planner.words import PhaseSummary

RELATION = {
    Kind.UPPER: "<=",
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


def guarantee_field(guarantee: Guarantee, limit: float | None = None, *, plain_epsilon: str | None = None) -> Field:
    """Return the inline object `guarantee`; plain lines omit its notes and round epsilon up, its lower bound down.

    `plain_epsilon` is the text of epsilon in plain lines, in the place of its rounding.
    """
    lower = guarantee.epsilon_lower
    texts = {
        "epsilon": rounded_up(guarantee.epsilon, apart_from=limit) if plain_epsilon is None else plain_epsilon,
        "epsilon_lower": "" if lower is None else rounded_down(lower),
        "tight": tight_text(guarantee),
        "notes": "",
    }
    # All of them from one dict, so that a new part of a guarantee reaches every output.
    fields = (Field(name, value, plain=texts.get(name)) for name, value in guarantee.to_dict().items())
    return Field("guarantee", tuple(fields), section=Section.UNIT, is_inline=True)


def gdp_field(gdp: GaussianSummary, section: Section = Section.BOUND) -> Field:
    """Return the field `gdp` with mu, floor, regret and misfit; its texts warn if mu is no good summary."""
    regret = rounded_up(gdp.regret, apart_from=MAX_REGRET)
    parts = f"mu {rounded_up(gdp.mu)}, floor {as_given(gdp.floor)}, regret {regret}"
    value = (
        Field("mu", gdp.mu),
        Field("finite", math.isfinite(gdp.mu)),
        Field("kind", str(Kind.UPPER)),
        Field("floor", gdp.floor),
        Field("regret", gdp.regret),
        Field("good_summary", gdp.is_good),
        Field("misfit", gdp.misfit),
    )
    # A mu with a large regret would be taken for the whole truth: the warning stands in the same line.
    plain = parts if gdp.is_good else f"no good summary: {parts}"
    return Field("gdp", value, plain=plain, label="mu-GDP", row=gdp_text(gdp), section=section)


def gdp_text(gdp: GaussianSummary) -> str:
    """Return words on the upper bound mu and its regret, with a warning if mu is infinite or no good summary."""
    floor, regret = as_given(gdp.floor), rounded_up(gdp.regret, apart_from=MAX_REGRET)
    if not math.isfinite(gdp.mu):
        return f"no mu: at floor {floor} none that is finite is known"
    if gdp.is_good:
        return f"mu <= {rounded_up(gdp.mu)} at deltas from {floor} on (regret {regret})"
    return f"no good summary of this run: regret {regret} (mu <= {rounded_up(gdp.mu)} at deltas from {floor} on)"


def protects_row(unit: str, group_size: int, adjacency: str) -> Field:
    """Return the terminal row "protects" with the unit or group in words and the adjacency."""
    return terminal_only("protects", f"{units_text(unit, group_size)}, {adjacency}", Section.UNIT)


def unit_fields(plan: Plan) -> Fields:
    """Return the fields `unit` (name of the protected level), `adjacency` and `group_size` of a plan."""
    return (
        Field("unit", plan.unit_name),
        Field("adjacency", str(plan.adjacency)),
        Field("group_size", plan.group_size),
    )


def path_field(loaded: Loaded) -> Field:
    """Return the plain line with which the block of one config among several begins."""
    return plain_only("config", visible(loaded.path), Section.RUN)


def budget_limit(plan: Plan) -> float | None:
    return None if plan.budget is None else plan.budget.epsilon


def budget_field(epsilon: float, limit: float | None) -> Field:
    """Return the field `budget` with the limit, the fraction used, and `ok`; null in JSON without a limit."""
    if limit is None:
        return json_only("budget", None)
    used = epsilon / limit if limit else 0.0 if epsilon == 0 else math.inf
    value = (
        Field("epsilon", limit),
        Field("used", used, plain=budget_used(epsilon, limit).removesuffix(" used")),
        Field("ok", epsilon <= limit),
    )
    return Field("budget", value, label="budget", row=budget_text(epsilon, limit), section=Section.BUDGET)


def assumptions_field(assumptions: Iterable[str]) -> Field:
    """Return `assumptions`: a list in JSON, a plain line for each, and one row "assumes" that joins all."""
    texts = list(assumptions)
    row = "; ".join(map(visible, texts))
    return Field("assumptions", texts, label="assumes", row=row, section=Section.ASSUMPTIONS)


def row_fields(row: Row, limit: float | None = None) -> Fields:
    """Return the fields of a Row; in plain text epsilon shows its side of the limit, and reads "n/a" if it is None."""
    epsilon = "n/a" if row.epsilon is None else epsilon_text(row.epsilon, row.kind, apart_from=limit)
    return (
        Field("method", row.method),
        Field("bound", row.bound),
        Field("epsilon", row.epsilon, plain=epsilon),
        Field("epsilon_lower", row.epsilon_lower, rounding=rounded_down),
        json_only("finite", None if row.epsilon is None else math.isfinite(row.epsilon)),
        Field("kind", str(row.kind)),
        Field("valid", row.valid),
        Field("claim", row.claim),
        Field("note", row.note),
    )


def phase_fields(phase: PhaseSummary) -> dict[str, object]:
    """Return a phase as a JSON dict, probabilities as texts; strategy and other Gaussian sums only if it has them."""
    # The probability of a draw that is cut to a maximum is a fraction of hundreds of digits: rounded up.
    inclusion = str(phase.inclusion)
    if len(inclusion) > _LONGEST_FRACTION:
        inclusion = rounded_up(phase.inclusion, digits=17)
    fields: dict[str, object] = {
        "name": phase.name,
        "steps": phase.steps,
        "mechanism": phase.mechanism,
        "noise_multiplier": phase.noise_multiplier,
        "clip": phase.clip,
        "sampling": phase.sampling,
        "inclusion": inclusion,
        "shift": phase.shift,
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
        fields["also"] = list(phase.also)
        fields["joint_noise_multiplier"] = phase.joint_noise_multiplier
    return fields


def quiet_line(epsilon: float) -> str:
    """Return epsilon and a line break for `--quiet`: six digits rounded up, "inf" where there is no bound."""
    return f"{rounded_up(epsilon, digits=BARE_DIGITS)}\n"


def config_names(files: Sequence[Loaded]) -> list[str]:
    """Return the name or path of each config, but the paths of all if two of these would be equal."""
    # Paths for all as soon as two labels agree: a mixture would leave open which of them is meant.
    names = [loaded.plan.name or loaded.path for loaded in files]
    return names if len(set(names)) == len(names) else [loaded.path for loaded in files]


# Words that several results share


def method_name(method: str) -> str:
    """Return the name of an accountant for people: "PLD" for "pld"; a name of its own kind unchanged."""
    return METHOD_NAMES.get(method, method)


def epsilon_text(value: float, kind: Kind, *, apart_from: float | None = None) -> str:
    """Return a LOWER epsilon rounded down, any other rounded up with enough digits to tell it from `apart_from`."""
    return rounded_down(value) if kind is Kind.LOWER else rounded_up(value, apart_from=apart_from)


def protected_text(guarantee: Guarantee) -> str:
    """Return the protected unit or group of a guarantee in words: "one task"."""
    return units_text(guarantee.unit, guarantee.group_size)


def units_text(unit: str, group_size: int) -> str:
    """Return "one UNIT" for a single protected unit, "a group of N (UNIT)" for several protected together."""
    return f"one {visible(unit)}" if group_size == 1 else f"a group of {group_size} ({visible(unit)})"


def budget_used(epsilon: float, limit: float) -> str:
    """Return "N% used", rounded up; "no finite epsilon", or "none allowed" where a limit of 0 is exceeded."""
    if not math.isfinite(epsilon):
        return "no finite epsilon"
    if limit == 0:  # 0 of 0 is no percentage, and is within the budget
        return "100% used" if epsilon == 0 else "none allowed"
    return f"{percent_up(epsilon, limit)}% used"


def budget_text(epsilon: float, limit: float) -> str:
    """Return "LIMIT, N% used", with ": exceeded" behind it if epsilon is over the limit."""
    exceeded = "" if epsilon <= limit else ": exceeded"
    return f"{as_given(limit)}, {budget_used(epsilon, limit)}{exceeded}"


def tight_text(guarantee: Guarantee) -> str:
    """Return "yes" if the lower bound is close to the upper one, "no" if not, "" without a lower bound."""
    return "" if guarantee.epsilon_lower is None else yes_no(guarantee.tight)


def guarantee_headline(guarantee: Guarantee, limit: float | None) -> str:
    """Return a headline with epsilon, its lower bound if known, and delta: never an epsilon without its delta."""
    delta = as_given(guarantee.delta)
    if not guarantee.finite:
        return f"epsilon is infinite: no guarantee at delta = {delta}"
    words = [f"epsilon {RELATION[guarantee.kind]} {rounded_up(guarantee.epsilon, apart_from=limit)}"]
    if guarantee.kind is not Kind.UPPER:
        words.append(f"({guarantee.kind})")
    if guarantee.epsilon_lower is not None:
        words.append(f"({'tight: ' if guarantee.tight else ''}at least {rounded_down(guarantee.epsilon_lower)})")
    return "   ".join([*words, f"delta = {delta}"])


def noise_text(mechanism: str, noise_multiplier: float | None, other_sums: str | None) -> str:
    """Return the noise of a Gaussian mechanism in words, or those of any other `mechanism`, which has None of both.

    `other_sums` has words on the other Gaussian sums of the step, "" for none.
    """
    if other_sums is None or noise_multiplier is None:
        return mechanism
    return f"noise multiplier {as_given(noise_multiplier)}{other_sums}"
