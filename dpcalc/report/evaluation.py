"""The results of `epsilon` and `compare`: of one config, of every level, of several configs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING

from dpcalc.config.load import Loaded
from dpcalc.config.source import visible
from dpcalc.errors import DpcalcError, counted
from dpcalc.guarantee import Kind, Row
from dpcalc.planner.words import differing_facts, shared_facts, with_thousands_separators
from dpcalc.report.fields import (
    Field,
    Fields,
    Output,
    Section,
    Table,
    cells,
    config_field,
    json_only,
    origin_fields,
    plain_only,
    terminal_only,
    verbose_only,
)
from dpcalc.report.guarantees import (
    assumptions_field,
    budget_field,
    budget_limit,
    budget_used,
    config_names,
    epsilon_text,
    guarantee_field,
    guarantee_headline,
    method_name,
    noise_text,
    path_field,
    phase_fields,
    protected_text,
    protects_row,
    quiet_line,
    row_fields,
    tight_text,
    units_text,
)
from dpcalc.report.rounding import as_given, rounded_down, rounded_up

if TYPE_CHECKING:
    from dpcalc.planner.compare import CrossCheck, PrefixErrors
    from dpcalc.planner.evaluate import Evaluation
    from dpcalc.planner.words import PhaseSummary

AGREEMENT = "cross-check"
MAX_DENOMINATOR = 10**7  # of a probability that is printed as a fraction; longer ones are rounded, to be readable


def evaluation_output(
    evaluation: Evaluation,
    loaded: Loaded,
    *,
    checks: Sequence[CrossCheck] = (),
    errors: Sequence[PrefixErrors] = (),
    extra: Fields = (),
) -> Output:
    """Return the result of `epsilon` on one config, with the fields `extra` after all others.

    `checks` are those of both directions, and `errors` those of the prefix sums of phases with correlated noise: both
    for `-v`, () for none.
    """
    prefix_sums: list[Field] = []
    for each in errors:
        text = (
            f"deviation of a coordinate {rounded_up(each.mean, digits=4)} clip norms (root mean square over the "
            f"steps), at most {rounded_up(each.largest, digits=4)}"
        )
        if len(evaluation.phases) > 1:
            text = f"{visible(each.phase)}: {text}"
        prefix_sums += [verbose_only("prefix sums", text), plain_only("prefix_sums", (text,), Section.LAST)]
    return Output(
        command="epsilon",
        headline=guarantee_headline(evaluation.guarantee, budget_limit(loaded.plan)),
        fields=(config_field(loaded), *_evaluation_fields(evaluation, loaded, checks), *prefix_sums, *extra),
        quiet_text=quiet_line(evaluation.guarantee.epsilon),
    )


def units_output(answers: Sequence[tuple[Evaluation | DpcalcError, Loaded]]) -> Output:
    """Return the result of `epsilon --unit all`, which has an entry in every output form for each protected level.

    Outermost level first; an error in the place of an evaluation says why the level has no bound.
    """
    plan = answers[0][1].plan
    with_bound = [(each, loaded) for each, loaded in answers if not isinstance(each, DpcalcError)]
    without = [(loaded.plan.unit_name, str(each)) for each, loaded in answers if isinstance(each, DpcalcError)]
    missing = json_only("without_bound", [{"unit": unit, "reason": reason} for unit, reason in without])
    group = "" if plan.group_size == 1 else f", groups of {plan.group_size}"
    columns = ("unit", "epsilon", "epsilon_lower", "tight", "method")
    blocks, rows = list[Fields](), list[tuple[str, ...]]()
    for each, loaded in answers:
        if isinstance(each, DpcalcError):
            block = plain_only("unit", loaded.plan.unit_name), plain_only("no_bound", str(each))
            rows.append((loaded.plan.unit_name, "no bound", "", "", "", str(each)))
        else:
            # The guarantee, and a line on the draws of each phase.
            block = guarantee_field(each.guarantee), plain_only("phases", tuple(sampling_texts(each)))
            rows.append((*cells(block, columns), "; ".join(sampling_texts(each))))
        blocks.append(block)
    return Output(
        command="epsilon",
        fields=(
            config_field(answers[0][1]),
            json_only("units", [_evaluation_fields(*answer) for answer in with_bound]),
            *((missing,) if without else ()),
        ),
        # One block a level: the plain form has no table, and the same names in each block let a script split them.
        blocks=tuple(blocks),
        table=Table(
            headline=f"every level{group}, {plan.adjacency}, delta = {as_given(plan.delta)}, "
            f"{counted(plan.steps, 'step')}",
            columns=(*columns, "note"),
            rows=tuple(rows),
        ),
        # A level without a bound may cost anything.
        quiet_text="".join(
            quiet_line(math.inf if isinstance(each, DpcalcError) else each.guarantee.epsilon) for each, _ in answers
        ),
    )


def costs_output(costs: Sequence[tuple[Evaluation, Loaded]]) -> Output:
    """Return the result of `epsilon A B`, with an entry in every form for each config and its evaluation."""
    fields = [(config_field(loaded), *_evaluation_fields(evaluation, loaded)) for evaluation, loaded in costs]
    columns = ("config", "epsilon", "epsilon_lower", "tight", "delta", "protects", "adjacency", "budget", "note")
    names, rows = config_names([loaded for _, loaded in costs]), []
    for name, (evaluation, loaded) in zip(names, costs, strict=True):
        guarantee, limit = evaluation.guarantee, budget_limit(loaded.plan)
        texts = cells((guarantee_field(guarantee, limit),), ("epsilon", "epsilon_lower", "tight", "delta"))
        used = "" if limit is None else budget_used(guarantee.epsilon, limit)
        draws = "; ".join(sampling_texts(evaluation))
        rows.append((visible(name), *texts, protected_text(guarantee), str(guarantee.adjacency), used, draws))
    return Output(
        command="epsilon",
        fields=(json_only("configs", fields),),
        blocks=tuple((path_field(loaded), *each) for each, (_, loaded) in zip(fields, costs, strict=True)),
        table=Table(headline=counted(len(rows), "config"), columns=columns, rows=tuple(rows)),
        quiet_text="".join(quiet_line(evaluation.guarantee.epsilon) for evaluation, _ in costs),
    )


def _evaluation_fields(evaluation: Evaluation, loaded: Loaded, checks: Sequence[CrossCheck] = ()) -> Fields:
    """Return the fields of one config: guarantee, alternatives, phases, checks, budget, assumptions, notes, origin."""
    guarantee, limit, phases = evaluation.guarantee, budget_limit(loaded.plan), evaluation.phases

    shifts, distances = [], []
    for phase in phases:
        if phase.shift is not None:
            prefix = _phase_prefix(phase, evaluation)
            shifts.append(f"{prefix}{counted(phase.shift, 'clip norm')}")
            # Once if both directions agree; a redraw period of several steps adds a factor.
            text = ", ".join(map(str, phase.distances)) or "none"
            if phase.distances and phase.distances != phase.distances_swapped:
                text += f" (D||D'), {', '.join(map(str, phase.distances_swapped))} (D'||D)"
            if phase.distances and phase.hold > 1:
                text += f", times the root of {phase.hold}"
            distances.append(prefix + text)

    # The other valid accountants of the same one-step bound: else the difference would not be that of the accountants.
    alternatives, bounds, accountants = [], [guarantee.bound], [method_name(guarantee.method)]
    for row in evaluation.alternatives:
        value = "does not apply" if row.epsilon is None else epsilon_text(row.epsilon, row.kind)
        validity = str(row.kind) if row.valid else f"{row.kind}, not valid here"
        note = f": {visible(row.note)}" if row.note else ""
        alternatives.append(f"{row.method}, {row.bound}: {value} ({validity}){note}")
        if row.kind is Kind.AS_PUBLISHED and row.epsilon is not None:
            bounds.append(f"{row.bound} as published would say {value}{'' if row.valid else ' (not valid here)'}")
        is_finite = row.epsilon is not None and math.isfinite(row.epsilon)
        if row.valid and is_finite and row.bound == guarantee.bound and row.method != guarantee.method:
            accountants.append(f"{method_name(row.method)} would give {value}")

    rows = (
        terminal_only(label, with_thousands_separators(text), Section.TRAINING)
        for label, text in phase_rows(evaluation)
    )
    lines = (f"{visible(each.name)}: {_training_text(each)}; {_sampling_text(each)}" for each in phases)

    check_rows = cross_check_rows(checks)
    check_entries = []
    for check in checks:
        bounds_found = Field("epsilon", check.upper), Field("epsilon_lower", check.lower)
        other = Field("estimate", check.estimate), Field("order", check.order), Field("note", check.note)
        check_entries.append((Field("direction", check.direction), *bounds_found, *other))
    cross_check = Field(
        "cross_check",
        check_entries,
        plain=tuple(text if label == AGREEMENT else f"{label}: {text}" for label, text in check_rows),
        section=Section.LAST,
        in_json=bool(checks),
    )
    return (
        guarantee_field(guarantee, limit),
        protects_row(guarantee.unit, guarantee.group_size, guarantee.adjacency),
        verbose_only("direction", guarantee.direction and f"{guarantee.direction} (the costlier; both are covered)"),
        verbose_only("tight", tight_text(guarantee)),
        verbose_only("shift", tuple(shifts)),
        verbose_only("distances", tuple(distances)),
        Field(
            "alternatives",
            list(map(row_fields, evaluation.alternatives)),
            plain=tuple(alternatives),
            label="alternative",
            section=Section.DETAILS,
            verbose=True,
        ),
        Field("steps", evaluation.steps, section=Section.TRAINING),
        Field("phases", list(map(phase_fields, phases)), plain=tuple(lines), section=Section.TRAINING),
        *rows,
        terminal_only("bound", "; ".join(bounds)),
        terminal_only("accountant", "; ".join(accountants)),
        *(verbose_only(label, text) for label, text in check_rows),
        cross_check,
        budget_field(guarantee.epsilon, limit),
        assumptions_field(evaluation.assumptions),
        json_only("notes", list(note_texts(evaluation))),
        *origin_fields(loaded),
    )


def phase_rows(evaluation: Evaluation) -> list[tuple[str, str]]:
    """Return ("sampling", text) for each phase, then ("training", text) for each phase."""
    rows = [("sampling", text) for text in sampling_texts(evaluation)]
    return rows + [("training", _phase_prefix(each, evaluation) + _training_text(each)) for each in evaluation.phases]


def sampling_texts(evaluation: Evaluation) -> list[str]:
    """Return the draws of each phase in words, one text for each, begun with its name if there are several."""
    return [_phase_prefix(phase, evaluation) + _sampling_text(phase) for phase in evaluation.phases]


def _phase_prefix(phase: PhaseSummary, evaluation: Evaluation) -> str:
    return "" if len(evaluation.phases) == 1 else f"{visible(phase.name)}: "


def _sampling_text(phase: PhaseSummary) -> str:
    """Return the sampling scheme in words, with the inclusion probability unless nothing is drawn at random.

    Inclusion is that of the whole path, and so the one number by which two nestings can be compared.
    """

    def probability_text(probability: Fraction) -> str:
        is_short = probability.denominator <= MAX_DENOMINATOR
        return str(probability) if is_short else f"about {rounded_up(float(probability))}"

    words = visible(phase.sampling)
    if phase.sensitivity is not None:
        return words
    words += f"; inclusion {probability_text(phase.inclusion)}"
    if phase.steps_of_a_pass > 1:
        words += f" in each pass of {phase.steps_of_a_pass} steps"
    if phase.hold > 1:
        words += f" in each draw for {phase.hold} steps"
    for rate, steps in phase.revealed:
        words += f", given a draw of rate {probability_text(rate)} that lasts {steps} steps and is assumed public"
    return words


def _training_text(phase: PhaseSummary) -> str:
    """Return a phase's steps and noise in words, what it clips if anything, and its sensitivity if it has one."""
    words = f"{counted(phase.steps, 'step')}, {noise_text(phase.mechanism, phase.noise_multiplier, phase.other_sums)}"
    if phase.clips:
        words += f", clipped: {'the whole batch' if phase.clip == 'batch' else f'each {visible(phase.clip)}'}"
    sensitivity = phase.sensitivity
    if sensitivity is not None:
        certainty = "" if sensitivity.is_exact else "at most "
        words += f"; sensitivity {certainty}{rounded_up(sensitivity.ratio, digits=6)} ({sensitivity.how})"
    return words


def cross_check_rows(checks: Sequence[CrossCheck]) -> list[tuple[str, str]]:
    """Return a row with the certified interval of each check, then one on the agreement of inversion with pld.

    The last one is of the costlier direction alone: that of the other one decides on nothing that is printed.
    """
    rows = []
    for check in checks:
        ends = f"between {rounded_down(check.lower, digits=6)} and {rounded_up(check.upper, digits=6)} by pld"
        rows.append((check.direction, f"epsilon {ends}; best RDP order {rounded_up(check.order)}"))
    if checks:
        check = max(checks, key=lambda check: check.upper)
        if check.estimate is None:
            text = "inversion gives no estimate of this run to compare with"
        elif not check.is_bracketed:  # a defect of one of both, which only a report can show us
            estimate = rounded_up(check.estimate, digits=6)
            text = f"inversion gives {estimate}, outside pld's interval: please report this run"
        else:
            text = f"inversion agrees with pld to {rounded_up(check.difference, digits=1)}"
        rows.append((AGREEMENT, text))
    return rows


def note_texts(evaluation: Evaluation) -> tuple[str, ...]:
    """Return the notes of the guarantee, then those on the plan, as sentences with their epsilons rounded up."""
    advice = (note.text.format(*map(rounded_up, note.epsilons)) for note in evaluation.notes)
    return (*evaluation.guarantee.notes, *advice)


# The result of `compare`: accountants and bounds side by side, of one config or of several.

COLUMNS = ("method", "bound", "epsilon", "epsilon_lower", "claim", "note")
Comparisons = Sequence[tuple[Sequence[Row], Loaded]]
"""The rows of each config, and the config."""


def comparison_output(rows: Sequence[Row], loaded: Loaded) -> Output:
    """Return the result of `compare` on one config: for each Row a JSON entry, a plain block and a table row."""
    plan = loaded.plan
    blocks = tuple(row_fields(row, budget_limit(plan)) for row in rows)
    units = units_text(plan.unit_name, plan.group_size)
    return Output(
        command="compare",
        fields=_comparison_fields(rows, loaded),
        blocks=blocks,
        table=Table(
            headline=f"{units}, {plan.adjacency}, delta = {as_given(plan.delta)}, {counted(plan.steps, 'step')}",
            columns=COLUMNS,
            rows=tuple(cells(block, COLUMNS) for block in blocks),
        ),
    )


def comparisons_output(comparisons: Comparisons) -> Output:
    """Return the result of `compare A B`, with a plain block for each config and Row.

    The table has a row for each accountant and bound of any config, in the order of their first occurrence, and a
    column for each config, headed by the facts of its plan that the others do not share.
    """
    files = [loaded for _, loaded in comparisons]
    plans = [loaded.plan for loaded in files]
    facts = shared_facts(plans, without=("sampling", "noise", "length"))
    names = []
    for name, plan in zip(config_names(files), plans, strict=True):
        names.append(visible(", ".join(filter(None, (name, differing_facts(plan, plans))))))
    tables = [{(row.method, row.bound): row for row in rows} for rows, _ in comparisons]
    table_rows = []
    for key in dict.fromkeys(key for table in tables for key in table):
        texts = []
        for row in (table.get(key) for table in tables):
            text = "n/a" if row is None or row.epsilon is None else epsilon_text(row.epsilon, row.kind)
            # Side by side with upper bounds a number of another kind must say so, or the smallest one would look best.
            if row is not None and row.epsilon is not None:
                is_guess = row.kind in {Kind.ESTIMATE, Kind.APPROXIMATION}
                text += f" ({row.kind})" if is_guess else "" if row.valid else " (not valid)"
            texts.append(text)
        table_rows.append((*key, *texts, ""))
    blocks = []
    for rows, loaded in comparisons:
        blocks += [(path_field(loaded), *row_fields(row, budget_limit(loaded.plan))) for row in rows]
    return Output(
        command="compare",
        fields=(json_only("configs", [_comparison_fields(rows, loaded) for rows, loaded in comparisons]),),
        blocks=tuple(blocks),
        table=Table(
            headline="; ".join(filter(None, (f"epsilon of {counted(len(files), 'config')}", visible(facts)))),
            columns=("method", "bound", *names, "note"),
            rows=tuple(table_rows),
        ),
    )


def _comparison_fields(rows: Sequence[Row], loaded: Loaded) -> Fields:
    """Return the JSON-only fields of one config: name, unit, adjacency, delta, steps, rows and origin."""
    plan = loaded.plan
    return (
        config_field(loaded),
        json_only("unit", plan.unit_name),
        json_only("adjacency", str(plan.adjacency)),
        json_only("delta", plan.delta),
        json_only("steps", plan.steps),
        json_only("rows", list(map(row_fields, rows))),
        *origin_fields(loaded),
    )
