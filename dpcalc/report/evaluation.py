"""The results of `epsilon` and `compare`: of one config, of every level, of several configs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
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
MAX_DENOMINATOR = 10**7
"""Largest denominator of a probability that is printed as a fraction; longer ones are rounded, to be readable."""


def evaluation_output(
    evaluation: Evaluation,
    loaded: Loaded,
    *,
    checks: Sequence[CrossCheck] = (),
    errors: Sequence[PrefixErrors] = (),
    extra: Fields = (),
) -> Output:
    """Return the result of `epsilon` on one config, with the fields `extra` after all others.

    Args:
        evaluation: guarantee and explanation of the plan.
        loaded: the config.
        checks: cross-checks of both directions, for `-v`; () for none.
        errors: of the prefix sums of phases with correlated noise, for `-v`; () for none.
        extra: further fields, the last ones.
    """
    return Output(
        command="epsilon",
        headline=guarantee_headline(evaluation.guarantee, budget_limit(loaded.plan)),
        fields=(
            config_field(loaded),
            *_evaluation_fields(evaluation, loaded, checks),
            *_prefix_error_fields(errors, names_phases=len(evaluation.phases) > 1),
            *extra,
        ),
        quiet_text=quiet_line(evaluation.guarantee.epsilon),
    )


def units_output(answers: Sequence[tuple[Evaluation | DpcalcError, Loaded]]) -> Output:
    """Return the result of `epsilon --unit all`, which has an entry in every output form for each protected level.

    Args:
        answers: (evaluation, config) with each level as the protected one, the outermost first; an error in the place
            of an evaluation says why the level has no bound.
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
    """Return the result of `epsilon A B`, which has an entry in every output form for each config.

    Args:
        costs: each config with its evaluation.
    """
    fields = [(config_field(loaded), *_evaluation_fields(evaluation, loaded)) for evaluation, loaded in costs]
    return Output(
        command="epsilon",
        fields=(json_only("configs", fields),),
        blocks=tuple((path_field(loaded), *each) for each, (_, loaded) in zip(fields, costs, strict=True)),
        table=_costs_table(costs),
        quiet_text="".join(quiet_line(evaluation.guarantee.epsilon) for evaluation, _ in costs),
    )


def _costs_table(costs: Sequence[tuple[Evaluation, Loaded]]) -> Table:
    """Return a table with a row for each config: its name, guarantee, share of the budget, and draws as the note."""
    columns = ("config", "epsilon", "epsilon_lower", "tight", "delta", "protects", "adjacency", "budget", "note")
    names = config_names([loaded for _, loaded in costs])
    rows = tuple((visible(name), *_cost_cells(*cost)) for name, cost in zip(names, costs, strict=True))
    return Table(headline=counted(len(rows), "config"), columns=columns, rows=rows)


def _cost_cells(evaluation: Evaluation, loaded: Loaded) -> tuple[str, ...]:
    """Return bounds, tightness, delta, unit, adjacency, share of the budget ("" without one) and draws of a config."""
    guarantee, limit = evaluation.guarantee, budget_limit(loaded.plan)
    texts = cells((guarantee_field(guarantee, limit),), ("epsilon", "epsilon_lower", "tight", "delta"))
    used = "" if limit is None else budget_used(guarantee.epsilon, limit)
    draws = "; ".join(sampling_texts(evaluation))
    return (*texts, protected_text(guarantee), str(guarantee.adjacency), used, draws)


def _evaluation_fields(evaluation: Evaluation, loaded: Loaded, checks: Sequence[CrossCheck] = ()) -> Fields:
    """Return the fields of one config: guarantee, alternatives, phases, checks, budget, assumptions, notes, origin."""
    guarantee, limit = evaluation.guarantee, budget_limit(loaded.plan)
    direction = guarantee.direction and f"{guarantee.direction} (the costlier; both are covered)"
    return (
        guarantee_field(guarantee, limit),
        protects_row(guarantee.unit, guarantee.group_size, guarantee.adjacency),
        verbose_only("direction", direction),
        verbose_only("tight", tight_text(guarantee)),
        *_gaussian_rows(evaluation),
        _alternatives_field(evaluation.alternatives),
        *_training_fields(evaluation),
        terminal_only("bound", _bound_text(evaluation)),
        terminal_only("accountant", _accountant_text(evaluation)),
        *_cross_check_fields(checks),
        budget_field(guarantee.epsilon, limit),
        assumptions_field(evaluation.assumptions),
        json_only("notes", list(note_texts(evaluation))),
        *origin_fields(loaded),
    )


def _gaussian_rows(evaluation: Evaluation) -> Fields:
    """Return the `-v` rows `shift` and `distances`, each with a text in clip norms for every Gaussian phase."""
    gaussian = [phase for phase in evaluation.phases if phase.shift is not None]
    shifts = (f"{_phase_prefix(phase, evaluation)}{counted(phase.shift or 0, 'clip norm')}" for phase in gaussian)
    distances = (_phase_prefix(phase, evaluation) + _distances_text(phase) for phase in gaussian)
    return verbose_only("shift", tuple(shifts)), verbose_only("distances", tuple(distances))


def _alternatives_field(rows: Sequence[Row]) -> Field:
    """Return the field `alternatives`, with an entry in JSON, a plain line and a `-v` row for each Row."""
    return Field(
        "alternatives",
        list(map(row_fields, rows)),
        plain=tuple(map(_alternative_text, rows)),
        label="alternative",
        section=Section.DETAILS,
        verbose=True,
    )


def _training_fields(evaluation: Evaluation) -> Fields:
    """Return the fields `steps` and `phases`, and the terminal rows on the sampling and training of each phase."""
    phases = evaluation.phases
    texts = tuple(f"{visible(each.name)}: {_training_text(each)}; {_sampling_text(each)}" for each in phases)
    rows = (
        terminal_only(label, with_thousands_separators(text), Section.TRAINING)
        for label, text in phase_rows(evaluation)
    )
    return (
        Field("steps", evaluation.steps, section=Section.TRAINING),
        Field("phases", list(map(phase_fields, phases)), plain=texts, section=Section.TRAINING),
        *rows,
    )


def phase_rows(evaluation: Evaluation) -> Iterable[tuple[str, str]]:
    """Yield ("sampling", text) for each phase, then ("training", text) for each phase."""
    yield from (("sampling", text) for text in sampling_texts(evaluation))
    for phase in evaluation.phases:
        yield "training", _phase_prefix(phase, evaluation) + _training_text(phase)


def sampling_texts(evaluation: Evaluation) -> list[str]:
    """Return the draws of each phase in words, one text for each, begun with its name if there are several."""
    return [_phase_prefix(phase, evaluation) + _sampling_text(phase) for phase in evaluation.phases]


def _phase_prefix(phase: PhaseSummary, evaluation: Evaluation) -> str:
    """Return "NAME: " where the run has several phases, "" where it has one."""
    return "" if len(evaluation.phases) == 1 else f"{visible(phase.name)}: "


def _sampling_text(phase: PhaseSummary) -> str:
    """Return the sampling scheme in words, with the inclusion probability unless the phase has a `sensitivity`."""
    if phase.sensitivity is not None:  # nothing is drawn at random
        return visible(phase.sampling)
    return f"{visible(phase.sampling)}; {_inclusion_words(phase)}"


def _inclusion_words(phase: PhaseSummary) -> str:
    """Return the inclusion probability in words, with the steps it refers to and any draws assumed public."""
    # Inclusion is that of the whole path, and so the one number by which two nestings can be compared.
    words = f"inclusion {_probability_text(phase.inclusion)}"
    if phase.steps_of_a_pass > 1:
        words += f" in each pass of {phase.steps_of_a_pass} steps"
    if phase.hold > 1:
        words += f" in each draw for {phase.hold} steps"
    return words + "".join(
        f", given a draw of rate {_probability_text(rate)} that lasts {steps} steps and is assumed public"
        for rate, steps in phase.revealed
    )


def _training_text(phase: PhaseSummary) -> str:
    """Return a phase's steps and noise in words, what it clips if anything, and its sensitivity if it has one."""
    words = f"{counted(phase.steps, 'step')}, {noise_text(phase.mechanism, phase.noise_multiplier, phase.other_sums)}"
    clip = "the whole batch" if phase.clip == "batch" else f"each {visible(phase.clip)}"
    clipped = f"{words}, clipped: {clip}" if phase.clips else words
    return clipped + _sensitivity_text(phase)


def _sensitivity_text(phase: PhaseSummary) -> str:
    """Return "; sensitivity S (SOURCE)" with S rounded up, or "at most S" if it is inexact; "" without one."""
    sensitivity = phase.sensitivity
    if sensitivity is None:
        return ""
    certainty = "" if sensitivity.is_exact else "at most "
    return f"; sensitivity {certainty}{rounded_up(sensitivity.ratio, digits=6)} ({sensitivity.how})"


def _probability_text(probability: Fraction) -> str:
    """Return a probability as an exact fraction, or "about" three digits rounded up if its denominator is over 10^7."""
    if probability.denominator <= MAX_DENOMINATOR:
        return str(probability)
    return f"about {rounded_up(float(probability))}"


def _bound_text(evaluation: Evaluation) -> str:
    """Return the name of the one-step bound and the epsilon by each bound as published, invalid ones marked."""
    words = [evaluation.guarantee.bound]
    for row in evaluation.alternatives:
        if row.kind is Kind.AS_PUBLISHED and row.epsilon is not None:
            remark = "" if row.valid else " (not valid here)"
            words.append(f"{row.bound} as published would say {epsilon_text(row.epsilon, row.kind)}{remark}")
    return "; ".join(words)


def _distances_text(phase: PhaseSummary) -> str:
    """Return the distances of a phase, with the factor that a redraw period of several steps adds; "none" for none."""
    if not phase.distances:
        return "none"
    factor = f", times the root of {phase.hold}" if phase.hold > 1 else ""
    return _directions_text(phase.distances, phase.distances_swapped) + factor


def _directions_text(distances: Sequence[int], swapped: Sequence[int]) -> str:
    """Return distances joined by commas, once if both directions agree, else those of D||D' and then of D'||D."""
    forward, backward = ", ".join(map(str, distances)), ", ".join(map(str, swapped))
    return forward if distances == swapped else f"{forward} (D||D'), {backward} (D'||D)"


def _accountant_text(evaluation: Evaluation) -> str:
    """Return the accountant, then the finite epsilons of other valid accountants with the same one-step bound."""
    guarantee = evaluation.guarantee
    # Of the same one-step bound only: else the difference would not be that of the accountants.
    words = [method_name(guarantee.method)]
    words += [
        f"{method_name(row.method)} would give {epsilon_text(row.epsilon, row.kind)}"
        for row in evaluation.alternatives
        if row.valid and row.epsilon is not None and math.isfinite(row.epsilon)
        if row.bound == guarantee.bound and row.method != guarantee.method
    ]
    return "; ".join(words)


def _alternative_text(row: Row) -> str:
    """Return "METHOD, BOUND: EPSILON (KIND): NOTE", which also tells if the row does not apply or is invalid."""
    value = "does not apply" if row.epsilon is None else epsilon_text(row.epsilon, row.kind)
    validity = str(row.kind) if row.valid else f"{row.kind}, not valid here"
    note = f": {visible(row.note)}" if row.note else ""
    return f"{row.method}, {row.bound}: {value} ({validity}){note}"


def _prefix_error_fields(errors: Sequence[PrefixErrors], *, names_phases: bool) -> Iterator[Field]:
    """Yield a `-v` row and a plain line on the errors of prefix sums in each phase; neither is in JSON."""
    for each in errors:
        text = f"{visible(each.phase)}: {_prefix_error_text(each)}" if names_phases else _prefix_error_text(each)
        yield verbose_only("prefix sums", text)
        yield plain_only("prefix_sums", (text,), Section.LAST)


def _prefix_error_text(errors: PrefixErrors) -> str:
    """Return the root-mean-square and the largest deviation of a coordinate in clip norms, both rounded up."""
    return (
        f"deviation of a coordinate {rounded_up(errors.mean, digits=4)} clip norms (root mean square over "
        f"the steps), at most {rounded_up(errors.largest, digits=4)}"
    )


# Cross-checks of the certified interval by inversion


def _cross_check_fields(checks: Sequence[CrossCheck]) -> Iterator[Field]:
    """Yield the `-v` rows of the checks, then the field `cross_check`, which JSON has only if there are checks."""
    rows = tuple(cross_check_rows(checks))
    yield from (verbose_only(label, text) for label, text in rows)
    yield Field(
        "cross_check",
        list(map(_cross_check_entry, checks)),
        plain=tuple(text if label == AGREEMENT else f"{label}: {text}" for label, text in rows),
        section=Section.LAST,
        in_json=bool(checks),
    )


def _cross_check_entry(check: CrossCheck) -> Fields:
    """Return direction, certified bounds, estimate by inversion (None without one), RDP order and note for JSON."""
    return (
        Field("direction", check.direction),
        Field("epsilon", check.upper),
        Field("epsilon_lower", check.lower),
        Field("estimate", check.estimate),
        Field("order", check.order),
        Field("note", check.note),
    )


def cross_check_rows(checks: Sequence[CrossCheck]) -> Iterator[tuple[str, str]]:
    """Yield a row with the certified interval of each check, then a row on the agreement with inversion.

    The agreement with inversion is that of the direction with the larger upper bound; () yields nothing.
    """
    for check in checks:
        ends = f"between {rounded_down(check.lower, digits=6)} and {rounded_up(check.upper, digits=6)} by pld"
        yield check.direction, f"epsilon {ends}; best RDP order {rounded_up(check.order)}"
    # Of the costlier direction alone: that of the other one decides on nothing that is printed.
    if checks:
        yield AGREEMENT, _agreement_text(max(checks, key=lambda check: check.upper))


def _agreement_text(check: CrossCheck) -> str:
    """Return words on how far inversion agrees with pld, or that it has no estimate or contradicts pld."""
    if check.estimate is None:
        return "inversion gives no estimate of this run to compare with"
    # An estimate outside the certified interval is a defect of one of both, which only a report can show us.
    if not check.is_bracketed:
        return f"inversion gives {rounded_up(check.estimate, digits=6)}, outside pld's interval: please report this run"
    return f"inversion agrees with pld to {rounded_up(check.difference, digits=1)}"


def note_texts(evaluation: Evaluation) -> tuple[str, ...]:
    """Return the notes of the guarantee, then those on the plan, as sentences with their epsilons rounded up."""
    advice = (note.text.format(*map(rounded_up, note.epsilons)) for note in evaluation.notes)
    return (*evaluation.guarantee.notes, *advice)


# The result of `compare`: accountants and bounds side by side, of one config or of several.


COLUMNS = ("method", "bound", "epsilon", "epsilon_lower", "claim", "note")
Comparisons = Sequence[tuple[Sequence[Row], Loaded]]
"""The rows of each config, and the config."""


def comparison_output(rows: Sequence[Row], loaded: Loaded) -> Output:
    """Return the result of `compare` on one config: for each Row a JSON entry, a plain block and a table row.

    Args:
        rows: one for each accountant and one-step bound.
        loaded: the config.
    """
    plan, blocks = loaded.plan, _blocks(rows, loaded)
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
    """Return the result of `compare A B`, with a plain block for each config and Row and one table of all.

    Args:
        comparisons: the rows of each config, and the config.
    """
    return Output(
        command="compare",
        fields=(json_only("configs", [_comparison_fields(rows, loaded) for rows, loaded in comparisons]),),
        blocks=tuple((path_field(loaded), *block) for rows, loaded in comparisons for block in _blocks(rows, loaded)),
        table=_comparisons_table(comparisons),
    )


def _comparisons_table(comparisons: Comparisons) -> Table:
    """Return a table of epsilons: a row for each accountant and bound of any config, a column for each config."""
    files = [loaded for _, loaded in comparisons]
    facts = shared_facts([loaded.plan for loaded in files], without=("sampling", "noise", "length"))
    # A row that only some configs have is kept, in the order of its first occurrence; the others have "n/a" there.
    tables = [{(row.method, row.bound): row for row in rows} for rows, _ in comparisons]
    keys = dict.fromkeys(key for table in tables for key in table)
    return Table(
        headline="; ".join(filter(None, (f"epsilon of {counted(len(files), 'config')}", visible(facts)))),
        columns=("method", "bound", *_column_names(files), "note"),
        rows=tuple((*key, *(_epsilon_cell(table.get(key)) for table in tables), "") for key in keys),
    )


def _column_names(files: Sequence[Loaded]) -> list[str]:
    """Return the name of each config, followed by the facts of its plan that the others do not share."""
    plans = [loaded.plan for loaded in files]
    named = zip(config_names(files), plans, strict=True)
    return [visible(", ".join(filter(None, (name, differing_facts(plan, plans))))) for name, plan in named]


def _blocks(rows: Sequence[Row], loaded: Loaded) -> tuple[Fields, ...]:
    """Return the fields of each row, epsilon with digits enough to show on which side of a config's budget it lies."""
    return tuple(row_fields(row, budget_limit(loaded.plan)) for row in rows)


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


def _epsilon_cell(row: Row | None) -> str:
    """Return an epsilon with a remark if it is an estimate, an approximation or not valid; "n/a" if it is None."""
    if row is None or row.epsilon is None:
        return "n/a"
    epsilon = epsilon_text(row.epsilon, row.kind)
    # Side by side with upper bounds a number of another kind must say so, or the smallest one would look best.
    if row.kind in {Kind.ESTIMATE, Kind.APPROXIMATION}:
        return f"{epsilon} ({row.kind})"
    return epsilon if row.valid else f"{epsilon} (not valid)"
