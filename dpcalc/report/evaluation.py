"""The results of `epsilon` and `compare`: of one config, of every level, of several configs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING

from dpcalc.config.load import Loaded
from dpcalc.config.source import visible
from dpcalc.errors import DpcalcError, counted
from dpcalc.guarantee import Kind, Row
from dpcalc.planner.words import MAX_DENOMINATOR, differing_facts, shared_facts, with_thousands_separators
from dpcalc.report.guarantees import (
    assumes_rows,
    budget_json,
    budget_limit,
    budget_lines,
    budget_used,
    config_names,
    epsilon_text,
    guarantee_headline,
    guarantee_lines,
    lower_row,
    method_name,
    noise_text,
    phase_json,
    protects_row,
    quiet_line,
    row_json,
    row_lines,
    units_text,
)
from dpcalc.report.output import (
    Json,
    Lines,
    Output,
    Table,
    as_given,
    cells,
    config_json,
    lines,
    origin_json,
    rounded_down,
    rounded_up,
)

if TYPE_CHECKING:
    from dpcalc.planner.compare import CrossCheck, PrefixErrors
    from dpcalc.planner.evaluate import Evaluation
    from dpcalc.planner.statement import Reason
    from dpcalc.planner.words import PhaseSummary

AGREEMENT = "cross-check"


def evaluation_output(
    evaluation: Evaluation,
    loaded: Loaded,
    *,
    checks: Sequence[CrossCheck] = (),
    errors: Sequence[PrefixErrors] = (),
    verbose: bool = False,
) -> Output:
    """Return the result of `epsilon` on one config; `checks`, `errors` and `verbose` are for `-v`."""
    guarantee = evaluation.guarantee
    limit = budget_limit(loaded.plan)
    phases = evaluation.phases
    # The other valid accountants of the same one-step bound: else the difference would not be that of the accountants.
    bounds, accountants = [guarantee.bound], [method_name(guarantee.method)]
    for row in evaluation.alternatives:
        if row.epsilon is None:
            continue
        value = epsilon_text(row.epsilon, row.kind)
        if row.kind is Kind.AS_PUBLISHED:
            bounds.append(f"{row.bound} as published would say {value}{'' if row.valid else ' (not valid here)'}")
        is_other = row.bound == guarantee.bound and row.method != guarantee.method
        if row.valid and math.isfinite(row.epsilon) and is_other:
            accountants.append(f"{method_name(row.method)} would give {value}")

    details: Lines = []
    if verbose:
        direction = guarantee.direction and f"{guarantee.direction} (the costlier; both are covered)"
        details = [("direction", direction)]
        drawn = [phase for phase in phases if phase.shift is not None]
        for phase in drawn:
            details.append(("shift", f"{_phase_prefix(phase, evaluation)}{counted(phase.shift or 0, 'clip norm')}"))
        for phase in drawn:
            # Once if both directions agree; a redraw period of several steps adds a factor.
            text = ", ".join(map(str, phase.distances)) or "none"
            if phase.distances and phase.distances != phase.distances_swapped:
                text += f" (D||D'), {', '.join(map(str, phase.distances_swapped))} (D'||D)"
            if phase.distances and phase.hold > 1:
                text += f", times the root of {phase.hold}"
            details.append(("distances", _phase_prefix(phase, evaluation) + text))
        details += [("alternative", _alternative_text(row)) for row in evaluation.alternatives]
        details += [*cross_check_rows(checks), *assumes_rows(evaluation.assumptions)]
    else:
        count = counted(len(evaluation.assumptions), "condition")
        details = [("assumes", f"{count} on sampler, noise and data; -v lists them")]
    is_plain = bounds == ["one-step bound"] and not verbose  # the word says nothing unless there is another one

    block = [("name", visible(loaded.plan.name)), *_lines(evaluation, loaded)]
    for label, text in cross_check_rows(checks):
        block.append(("cross_check", text if label == AGREEMENT else f"{label}: {text}"))
    for each in errors:
        text = (
            f"deviation of a coordinate {rounded_up(each.mean, digits=4)} clip norms (root mean square over the "
            f"steps), at most {rounded_up(each.largest, digits=4)}"
        )
        if len(phases) > 1:
            text = f"{visible(each.phase)}: {text}"
        block.append(("prefix_sums", text))
        if verbose:
            details.append(("prefix sums", text))
    headline, verdict = guarantee_headline(guarantee, limit)
    return Output(
        command="epsilon",
        result={"config": config_json(loaded), **_json(evaluation, loaded, checks)},
        headline=headline,
        verdict=verdict,
        lines=block,
        rows=[
            lower_row(guarantee),
            ("run", visible(loaded.plan.name)),
            protects_row(guarantee.unit, guarantee.group_size, guarantee.adjacency),
            *((label, with_thousands_separators(text)) for label, text in phase_rows(evaluation)),
            ("bound", "" if is_plain else "; ".join(bounds)),
            ("accountant", "; ".join(accountants)),
            *details,
        ],
        quiet_text=quiet_line(guarantee.epsilon),
    )


def units_output(answers: Sequence[tuple[Evaluation | DpcalcError, Loaded]]) -> Output:
    """Return the result of `epsilon --unit all`: each level outermost first, an error where it has no bound."""
    plan = answers[0][1].plan
    units, without = list[Json](), list[Json]()
    blocks, rows, quiet = list[Lines](), list[tuple[str, ...]](), ""
    columns = ("unit", "epsilon", "epsilon_lower", "tight", "method")
    for each, loaded in answers:
        unit = loaded.plan.unit_name
        if isinstance(each, DpcalcError):
            without.append({"unit": unit, "reason": str(each)})
            blocks.append([("unit", unit), ("no_bound", str(each))])
            rows.append((unit, "no bound", "", "", "", str(each)))
            quiet += quiet_line(math.inf)  # a level without a bound may cost anything
        else:
            units.append(_json(each, loaded))
            draws = sampling_texts(each)
            block = [*guarantee_lines(each.guarantee), *(("phases", text) for text in draws)]
            blocks.append(block)
            rows.append((*cells(block, columns), "; ".join(draws)))
            quiet += quiet_line(each.guarantee.epsilon)
    group = "" if plan.group_size == 1 else f", groups of {plan.group_size}"
    return Output(
        command="epsilon",
        result={"config": config_json(answers[0][1]), "units": units} | ({"without_bound": without} if without else {}),
        # One block a level: the plain form has no table, and the same names in each block let a script split them.
        blocks=blocks,
        table=Table(
            headline=f"every level{group}, {plan.adjacency}, delta = {as_given(plan.delta)}, "
            f"{counted(plan.steps, 'step')}",
            columns=(*columns, "note"),
            rows=rows,
        ),
        quiet_text=quiet,
    )


def costs_output(costs: Sequence[tuple[Evaluation, Loaded]]) -> Output:
    results, blocks, rows = [], [], []
    names = config_names([loaded for _, loaded in costs])
    for name, (evaluation, loaded) in zip(names, costs, strict=True):
        guarantee, limit = evaluation.guarantee, budget_limit(loaded.plan)
        results.append({"config": config_json(loaded), **_json(evaluation, loaded)})
        named = [("config", visible(loaded.path)), ("name", visible(loaded.plan.name))]
        blocks.append([*named, *_lines(evaluation, loaded)])
        texts = cells(guarantee_lines(guarantee, limit), ("epsilon", "epsilon_lower", "tight", "delta"))
        protected = units_text(guarantee.unit, guarantee.group_size)
        used = "" if limit is None else budget_used(guarantee.epsilon, limit).removesuffix(" used")
        protected = protected.removeprefix("one ")  # and a narrow terminal has room for every row in a line
        draws = "; ".join(sampling_texts(evaluation))
        rows.append((visible(name), *texts, protected, str(guarantee.adjacency), used, draws))
    columns = ("config", "epsilon", "epsilon_lower", "tight", "delta", "protects", "adjacency", "used", "note")
    return Output(
        command="epsilon",
        result={"configs": results},
        blocks=blocks,
        table=Table(headline=counted(len(rows), "config"), columns=columns, rows=rows),
        quiet_text="".join(quiet_line(evaluation.guarantee.epsilon) for evaluation, _ in costs),
    )


def _json(evaluation: Evaluation, loaded: Loaded, checks: Sequence[CrossCheck] = ()) -> Json:
    guarantee = evaluation.guarantee
    result = {
        "guarantee": guarantee.to_dict(),
        "alternatives": list(map(row_json, evaluation.alternatives)),
        "steps": evaluation.steps,
        "phases": list(map(phase_json, evaluation.phases)),
    }
    if checks:
        result["cross_check"] = [
            {
                "direction": check.direction,
                "epsilon": check.upper,
                "epsilon_lower": check.lower,
                "estimate": check.estimate,
                "order": check.order,
                "note": check.note,
            }
            for check in checks
        ]
    return {
        **result,
        "budget": budget_json(guarantee.epsilon, budget_limit(loaded.plan)),
        "assumptions": list(evaluation.assumptions),
        "notes": list(note_texts(evaluation)),
        **origin_json(loaded),
    }


def _lines(evaluation: Evaluation, loaded: Loaded) -> Lines:
    guarantee, limit = evaluation.guarantee, budget_limit(loaded.plan)
    return [
        *guarantee_lines(guarantee, limit),
        ("steps", str(evaluation.steps)),
        *(
            ("phases", f"{visible(phase.name)}: {_training_text(phase)}; {_sampling_text(phase)}")
            for phase in evaluation.phases
        ),
        *(("alternatives", _alternative_text(row)) for row in evaluation.alternatives),
        *lines({"assumptions": list(evaluation.assumptions)}),
        *budget_lines(guarantee.epsilon, limit),
    ]


def _alternative_text(row: Row) -> str:
    value = "does not apply" if row.epsilon is None else epsilon_text(row.epsilon, row.kind)
    validity = str(row.kind) if row.valid else f"{row.kind}, not valid here"
    note = f": {visible(row.note)}" if row.note else ""
    return f"{row.method}, {row.bound}: {value} ({validity}){note}"


def phase_rows(evaluation: Evaluation) -> list[tuple[str, str]]:
    rows = [("sampling", text) for text in sampling_texts(evaluation)]
    return rows + [("training", _phase_prefix(each, evaluation) + _training_text(each)) for each in evaluation.phases]


def sampling_texts(evaluation: Evaluation) -> list[str]:
    """Return the draws of each phase in words, one text for each, begun with its name if there are several."""
    return [_phase_prefix(phase, evaluation) + _sampling_text(phase) for phase in evaluation.phases]


def _phase_prefix(phase: PhaseSummary, evaluation: Evaluation) -> str:
    return "" if len(evaluation.phases) == 1 else f"{visible(phase.name)}: "


def _probability_text(probability: Fraction) -> str:
    is_short = probability.denominator <= MAX_DENOMINATOR
    return str(probability) if is_short else f"about {rounded_up(float(probability))}"


def explained(
    output: Output, evaluation: Evaluation, reasons: Sequence[Reason], choices: Sequence[tuple[str, float]]
) -> Output:
    """Return the output with why epsilon is what it is, and what it would be at most with one choice made otherwise."""
    texts = []
    for phase, reason in zip(evaluation.phases, reasons, strict=True):
        text = f"{_sampling_text(phase)}; {_training_text(phase)}"
        if phase.sensitivity is None:
            noise = noise_text(phase.mechanism, phase.noise_multiplier, phase.other_sums)
            if phase.other_sums is None and reason.noise_multiplier is not None:
                noise = (
                    f"independent noise of multiplier {reason.noise_multiplier:.6g}, which costs no less than {noise}"
                )
            text = f"{visible(reason.words)}, under {noise}; {reason.adds_up} add{'s' * (reason.number == 1)} up"
        texts.append(_phase_prefix(phase, evaluation) + text)
    why = [("why", text) for text in texts]
    values = [rounded_up(epsilon) for _, epsilon in choices]
    texts = [f"{value.rjust(max(map(len, values)))}  {text}" for value, (text, _) in zip(values, choices, strict=True)]
    changed = [{"change": text, "epsilon": epsilon, "kind": str(Kind.UPPER)} for text, epsilon in choices]
    return replace(
        output,
        result={**output.result, "explanation": {"why": [text for _, text in why], "otherwise": changed}},
        lines=[*output.lines, *why, *(("otherwise", text.strip()) for text in texts)],
        rows=[*output.rows, *why, *(("" if at else "otherwise", text) for at, text in enumerate(texts))],
    )


def _sampling_text(phase: PhaseSummary) -> str:
    """Return the scheme in words, with the inclusion probability: the one number that compares nestings."""
    words = visible(phase.sampling)
    if phase.sensitivity is not None:
        return words
    # The probability with which a draw holds the unit, and how long the draw or pass lasts.
    words += f"; inclusion {_probability_text(phase.inclusion)}"
    if phase.steps_of_a_pass > 1:
        words += f" in each pass of {phase.steps_of_a_pass} steps"
    if phase.hold > 1:
        words += f" in each draw for {phase.hold} steps"
    for rate, steps in phase.revealed:
        words += f", given a draw of rate {_probability_text(rate)} that lasts {steps} steps and is assumed public"
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
    """Return the certified interval of each check, then inversion beside pld in the costlier direction."""
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
    plan = loaded.plan
    blocks = [row_lines(row, budget_limit(plan)) for row in rows]
    units = units_text(plan.unit_name, plan.group_size)
    return Output(
        command="compare",
        result=_comparison_json(rows, loaded),
        blocks=blocks,
        table=Table(
            headline=f"{units}, {plan.adjacency}, delta = {as_given(plan.delta)}, {counted(plan.steps, 'step')}",
            columns=COLUMNS,
            # A table names the tool in its first column: what it claims needs no second "as-published".
            rows=[tuple(each.removeprefix("as-published, ") for each in cells(block, COLUMNS)) for block in blocks],
        ),
    )


def comparisons_output(comparisons: Comparisons) -> Output:
    """Return the result of `compare A B`: a block for each config and Row, a column for each config."""
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
        blocks += [[("config", visible(loaded.path)), *row_lines(row, budget_limit(loaded.plan))] for row in rows]
    return Output(
        command="compare",
        result={"configs": [_comparison_json(rows, loaded) for rows, loaded in comparisons]},
        blocks=blocks,
        table=Table(
            headline="; ".join(filter(None, (f"epsilon of {counted(len(files), 'config')}", visible(facts)))),
            columns=("method", "bound", *names, "note"),
            rows=table_rows,
        ),
    )


def _comparison_json(rows: Sequence[Row], loaded: Loaded) -> Json:
    plan = loaded.plan
    return {
        "config": config_json(loaded),
        "unit": plan.unit_name,
        "adjacency": str(plan.adjacency),
        "delta": plan.delta,
        "steps": plan.steps,
        "rows": list(map(row_json, rows)),
        **origin_json(loaded),
    }
