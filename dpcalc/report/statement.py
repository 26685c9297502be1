"""The privacy statement of a run for a reviewer who is no theorist, as plain text, Markdown, LaTeX and JSON.

A `StatementView` declares the whole contents: sections of prose, rows and points for people, fields for JSON. Every
form is a function of it and adds nothing; `dpcalc.report.registry` holds a further one.
"""

import math
import re
import textwrap
from collections.abc import Iterator

from dpcalc._version import __version__
from dpcalc.config.load import Loaded
from dpcalc.config.source import visible
from dpcalc.guarantee import INFINITE, Adjacency, Guarantee, Kind
from dpcalc.planner.gdp import GaussianSummary
from dpcalc.planner.plan import Budget, Plan
from dpcalc.planner.statement import Statement
from dpcalc.records import dataclass
from dpcalc.report.evaluation import phase_rows
from dpcalc.report.fields import Field, Fields, Output, config_field, origin_fields
from dpcalc.report.guarantees import budget_text, gdp_field, gdp_text, method_name, phase_fields, protected_text
from dpcalc.report.rounding import as_given, percent_up, rounded_down, rounded_up

_SAME = 1e-6  # relative distance below which amplification by subsampling counts as none and is not mentioned
MAX_EXPONENT = 20.0  # largest epsilon whose factor e^epsilon is written out: 5e8; larger factors inform nobody

COVERED = (
    "all that the steps release with noise, and so the trained model, every checkpoint, and what follows from it alone",
    "every data set of the stated sizes, not only the one at hand",
    "every attacker, also one who knows the code, the settings and all other records, and watches every step",
)
OTHER_RUNS = "other runs on the same data: each adds to the cost, and dpcalc ledger computes the cost of all"
NOT_COVERED = (
    "what is computed from the data without this noise: logged losses and scores, early stopping, vocabularies",
    f"tuning, and {OTHER_RUNS}",
    "the numbers of units, the sampling rates and the settings: they are assumed public",
    "conclusions about people that would be the same without their data",
    "faults of the training code: wrong clipping, weak random numbers, rounding of the noise, side channels",
    "how the data are collected, stored and secured, and who else has access to them",
)
TRUST = "central: whoever runs the training sees the data, and is trusted to run it as stated and to release no more"
RELEASE = (
    "once: all the steps stated here; a later run on the same data, also one that updates the model, is another "
    "release and adds to the cost"
)
OBSERVERS = (
    "everybody may see all that the steps release, each checkpoint, the settings and this statement; only whoever runs "
    "the training sees the data, what is drawn and the noise"
)
UNTUNED = "not covered: settings are chosen without these data, or every run that was tried counts (dpcalc ledger)"
DEPLOYMENT = (("trust model", TRUST), ("release", RELEASE), ("who sees what", OBSERVERS), ("tuning", UNTUNED))
"""What the guarantee takes for granted of the deployment: (label, text)."""
AMPLIFIED = (
    "Part of the guarantee comes from the chance that a draw leaves the unit out; it is lost if batches are not drawn "
    "as stated."
)
GROUPS = (
    "Somebody whose data are several units has the weaker guarantee of the group; its values are upper bounds, and "
    "rarely tight."
)
TUNED = "covered: the best of several runs is released ({}); how many there were stays secret"
PROMISES = {
    Adjacency.ADD_REMOVE: "{} is in the data or not",
    Adjacency.REPLACE_ONE: "the data hold {} or another in its place",
    Adjacency.ZERO_OUT: "{} contributes to the training or counts as zero",
}
KINDS = {
    Kind.UPPER: "an upper bound, proved for every data set",
    Kind.ESTIMATE: "an estimate without a certificate",
    Kind.APPROXIMATION: "an approximation, no guarantee",
    Kind.AS_PUBLISHED: "as published, no guarantee",
    Kind.LOWER: "a lower bound, attained by one pair of data sets",
}


@dataclass(frozen=True, kw_only=True)
class StatementSection:
    """A section of a statement.

    Attributes:
        heading: a few words.
        prose: paragraphs, printed first.
        rows: (label, text) of a table.
        points: items of a list, printed last.
    """

    heading: str
    prose: tuple[str, ...] = ()
    rows: tuple[tuple[str, str], ...] = ()
    points: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class StatementView:
    """A whole statement in words, free of control characters.

    Attributes:
        title: its name.
        sections: in reading order.
        fields: the statement as JSON, numbers unrounded.
        name: of the run, its path where it has none.
        published: date of the release, YYYY-MM-DD; "" where it was not given.
    """

    title: str
    sections: tuple[StatementSection, ...]
    fields: Fields
    name: str
    published: str = ""


def statement_view(statement: Statement, loaded: Loaded, *, published: str = "") -> StatementView:
    """Return a statement as sections and JSON fields; attacks, groups and coverage only with a finite epsilon.

    Args:
        statement: evaluation, attack success and groups of one plan.
        loaded: the config of that plan.
        published: date of the release, YYYY-MM-DD; "" for none.
    """
    name, plan = visible(loaded.plan.name or loaded.path), loaded.plan
    finite = statement.evaluation.guarantee.finite
    coverage = StatementSection(heading="What is covered", points=COVERED)
    return StatementView(
        title=f"Privacy statement: {name}",
        sections=(
            _guarantee_section(statement, plan.budget),
            *((_attack_section(statement), *_comparison_section(statement), coverage) if finite else ()),
            StatementSection(heading="What is not covered", points=_not_covered(plan)),
            StatementSection(heading="How it is released", rows=_deployment(plan)),
            _training_section(statement),
            StatementSection(heading="Assumptions", points=tuple(map(visible, statement.evaluation.assumptions))),
            _origin_section(loaded, published),
        ),
        fields=_json_fields(statement, loaded),
        name=name,
        published=published,
    )


def _not_covered(plan: Plan) -> tuple[str, ...]:
    """Return the points on what epsilon does not cover, less the plan's own tuning if epsilon covers it."""
    if plan.tuning is None:
        return NOT_COVERED
    return tuple(OTHER_RUNS if OTHER_RUNS in point else point for point in NOT_COVERED)


def _deployment(plan: Plan) -> tuple[tuple[str, str], ...]:
    """Return (label, text) pairs on the release; the last one says that tuning is covered if the plan has any."""
    if plan.tuning is None:
        return DEPLOYMENT
    return (*DEPLOYMENT[:-1], ("tuning", TUNED.format(plan.tuning.words)))


def _guarantee_section(statement: Statement, budget: Budget | None) -> StatementSection:
    """Return the section with the guarantee as a sentence, or that there is none, and its parts as rows."""
    guarantee = statement.evaluation.guarantee
    promise = "There is no guarantee: no finite epsilon is known for this run."
    if guarantee.finite:
        promise = _promise_text(guarantee, budget)
    causes = [note.removeprefix(INFINITE) for note in guarantee.notes if note.startswith(INFINITE)]
    if causes:
        promise = f"{promise[:-1]}: {causes[0]}."
    return StatementSection(heading="The guarantee", prose=(promise,), rows=tuple(_guarantee_rows(statement, budget)))


def _promise_text(guarantee: Guarantee, budget: Budget | None) -> str:
    """Return the guarantee as a sentence: probabilities change by at most a factor e^epsilon, plus delta."""
    factor = _factor_text(_epsilon_text(guarantee, budget))
    difference = PROMISES[guarantee.adjacency].format(protected_text(guarantee))
    return (
        f"Whether {difference} changes the probability of anything that the result of the training may reveal by "
        f"at most a factor of {factor}, and by at most {as_given(guarantee.delta)} on top of that."
    )


def _epsilon_text(guarantee: Guarantee, budget: Budget | None) -> str:
    """Return epsilon rounded up, with as many digits as show on which side of the budget it lies."""
    return rounded_up(guarantee.epsilon, apart_from=None if budget is None else budget.epsilon)


def _factor_text(epsilon: str) -> str:
    """Return "e^EPSILON (FACTOR)" with the factor rounded up, but without the factor from MAX_EXPONENT on."""
    # From the printed epsilon, not the exact one: a reader who recomputes the factor must find the same number.
    printed = float(epsilon)
    figures = f" ({rounded_up(math.exp(printed))})" if printed < MAX_EXPONENT else ""
    return f"e^{epsilon}{figures}"


def _guarantee_rows(statement: Statement, budget: Budget | None) -> Iterator[tuple[str, str]]:
    """Yield (label, text) of each part of the guarantee, how a finite epsilon was computed, and the budget, if any."""
    guarantee = statement.evaluation.guarantee
    yield from _epsilon_rows(guarantee, budget)
    yield "delta", as_given(guarantee.delta)
    yield "protected", protected_text(guarantee)
    yield "adjacency", f"{guarantee.adjacency}: whether {PROMISES[guarantee.adjacency].format('it')}"
    if guarantee.finite:
        yield from _accounting_rows(guarantee, statement.gdp)
    if budget is not None:
        yield "budget", budget_text(guarantee.epsilon, budget.epsilon)


def _epsilon_rows(guarantee: Guarantee, budget: Budget | None) -> Iterator[tuple[str, str]]:
    """Yield the row of epsilon ("infinite" without a bound), and that of its lower bound, if there is one."""
    yield "epsilon", f"at most {_epsilon_text(guarantee, budget)}" if guarantee.finite else "infinite"
    if guarantee.epsilon_lower is not None:
        gap = "the bound is tight" if guarantee.tight else "the smallest bound that holds lies between the two"
        yield "epsilon_lower", f"{rounded_down(guarantee.epsilon_lower)}: attained by one pair of data sets; {gap}"


def _accounting_rows(guarantee: Guarantee, gdp: GaussianSummary | None) -> Iterator[tuple[str, str]]:
    """Yield the rows of the kind of bound, mu-GDP (without one if `gdp` is None) and the accountant."""
    yield "kind", KINDS[guarantee.kind]
    if gdp is not None:
        yield "mu-GDP", gdp_text(gdp)
    yield "accountant", f"{method_name(guarantee.method)}, composing the {guarantee.bound}"


def _attack_section(statement: Statement) -> StatementSection:
    """Return the section on the best attacker: bounds on advantage, right guesses and detections, in percent."""
    attack, unit = statement.attack, protected_text(statement.evaluation.guarantee)
    # In percent and with what guessing gains beside it: the reader decides by the difference.
    rows = (
        ("advantage", f"at most {_percent(attack.advantage)}: detections minus false alarms"),
        ("guessing", f"right in at most {_percent((1 + attack.advantage) / 2)} of cases, where a coin has 50%"),
        *(_attack_row(*rates) for rates in attack.detection),
    )
    prose = (
        f"The best attacker there can be, who knows everything but {unit} and must tell which of the two data sets "
        "was used:"
    )
    return StatementSection(heading="What an attacker can gain", prose=(prose,), rows=rows)


def _attack_row(false_positive_rate: float, true_positive_rate: float) -> tuple[str, str]:
    """Return (label, text) with the upper bound on the true positive rate at a false positive rate, in percent."""
    guessed = f"{100 * false_positive_rate:g}%"
    bound = f"detects at most {_percent(true_positive_rate)}, where guessing detects {guessed}"
    return f"{guessed} false alarms", bound


def _comparison_section(statement: Statement) -> Iterator[StatementSection]:
    """Yield the section on epsilon without amplification and of groups, unless there is neither to compare."""
    unamplified, unit = _unamplified_rows(statement), visible(statement.evaluation.guarantee.unit)
    groups = [
        (f"{size} together ({unit})", f"{_group_text(epsilon)} at the same delta") for size, epsilon in statement.groups
    ]
    if unamplified or groups:
        prose = f"{AMPLIFIED} {GROUPS}" if unamplified else GROUPS
        yield StatementSection(heading="For comparison", prose=(prose,), rows=(*unamplified, *groups))


def _unamplified_rows(statement: Statement) -> tuple[tuple[str, str], ...]:
    """Return one (label, text) row with epsilon without amplification by subsampling; () if that is no larger."""
    # Said where the draws matter: a reviewer should ask how batches were drawn before believing the number.
    if statement.unsampled <= statement.evaluation.guarantee.epsilon * (1 + _SAME):
        return ()
    text = f"epsilon at most {rounded_up(statement.unsampled)}, if every draw held the unit"
    return (("without amplification", text),)


def _group_text(epsilon: float | None) -> str:
    """Return "epsilon at most X" of a group, or that there is no finite epsilon (inf) or no known bound (None)."""
    if epsilon is None:
        return "no bound is known"
    return f"epsilon at most {rounded_up(epsilon)}" if math.isfinite(epsilon) else "no finite epsilon"


def _training_section(statement: Statement) -> StatementSection:
    """Return the section with the draws, length and noise of each phase."""
    prose = ("Every step draws as stated and adds noise to what is drawn:",)
    return StatementSection(heading="Sampling and training", prose=prose, rows=tuple(phase_rows(statement.evaluation)))


def _origin_section(loaded: Loaded, published: str) -> StatementSection:
    """Return the section with path and hash of the config, version of dpcalc and, if given, date of the release."""
    path = visible(loaded.path)
    rows = [
        ("config", path if not loaded.section else f"{path}, section {visible(loaded.section)}"),
        ("config_hash", loaded.config_hash),
        ("dpcalc", __version__),
        *([("published", published)] if published else []),
    ]
    return StatementSection(heading="Where it comes from", rows=tuple(rows))


def _json_fields(statement: Statement, loaded: Loaded) -> Fields:
    """Return the fields of a statement for JSON, from its config and guarantee to the config's hash."""
    evaluation, attack = statement.evaluation, statement.attack
    detection = [{"false_positive_rate": false, "true_positive_rate": true} for false, true in attack.detection]
    return (
        config_field(loaded),
        Field("guarantee", evaluation.guarantee.to_dict()),
        Field("gdp", None) if statement.gdp is None else gdp_field(statement.gdp),
        Field("attack", {"kind": "upper", "advantage": attack.advantage, "detection": detection}),
        Field("without_amplification", (Field("epsilon", statement.unsampled), Field("kind", "upper"))),
        Field("groups", [_group_fields(size, epsilon) for size, epsilon in statement.groups]),
        Field("steps", evaluation.steps),
        Field("phases", [phase_fields(phase) for phase in evaluation.phases]),
        Field("covered", list(COVERED)),
        Field("not_covered", list(_not_covered(loaded.plan))),
        Field("deployment", {label.replace(" ", "_"): text for label, text in _deployment(loaded.plan)}),
        Field("assumptions", list(evaluation.assumptions)),
        *origin_fields(loaded),
    )


def _group_fields(size: int, epsilon: float | None) -> Fields:
    """Return the fields of a group: its size, an upper bound on epsilon (None if unknown), and if that is finite."""
    return (
        Field("group_size", size),
        Field("epsilon", epsilon),
        Field("finite", None if epsilon is None else math.isfinite(epsilon)),
        Field("kind", "upper"),
    )


def _percent(part: float) -> str:
    """Return a probability in percent, rounded up and cut to the range from 0% to 100%."""
    # Bounds leave [0, 1] by their rounding; no reader should have to wonder about 100.00001 %.
    return "0%" if part <= 0 else f"{percent_up(min(part, 1.0), 1.0)}%"


# The formats of `statement --format`; `dpcalc.report.formats` lists them


_SPECIAL = re.compile(r"[\\`*\[\]<#|~&$]|(?<![0-9A-Za-z])_|_(?![0-9A-Za-z])|(?<=:)/(?=/)")
LABEL_WIDTH = 22  # columns of the longest label, "without amplification", and a space


def statement_json(view: StatementView, width: int = 80) -> str:  # noqa: ARG001  JSON has no columns
    """Return a statement's fields as the JSON document of `statement --format json`.

    Args:
        view: the statement.
        width: ignored.
    """
    return Output(command="statement", fields=view.fields).json_text()


def statement_text(view: StatementView, width: int = 80) -> str:
    """Return a statement as plain text: an underlined title, then sections whose text wraps between words at `width`.

    Args:
        view: the statement.
        width: columns of a line, > LABEL_WIDTH + 2.

    Returns:
        Lines of at most `width` columns where words allow; no word is cut.
    """
    lines = [view.title, "=" * min(len(view.title), width)]
    for section in view.sections:
        lines += ["", section.heading, *_section_lines(section, width)]
    return "".join(f"{line}\n" for line in lines)


def _section_lines(section: StatementSection, width: int) -> Iterator[str]:
    """Yield the lines below a heading, indented and wrapped: paragraphs, labelled rows, then points with hyphens."""
    for paragraph in section.prose:
        yield from _wrapped(paragraph, width, "  ", "  ")
    for label, text in section.rows:
        yield from _wrapped(text, width, f"  {label:<{LABEL_WIDTH}}", " " * (LABEL_WIDTH + 2))
    for point in section.points:
        yield from _wrapped(point, width, "  - ", "    ")


def _wrapped(text: str, width: int, first_indent: str, other_indent: str) -> list[str]:
    """Return a paragraph wrapped without cutting words; if it is empty, one line with the stripped first indent."""
    return textwrap.wrap(
        text,
        width,
        initial_indent=first_indent,
        subsequent_indent=other_indent,
        break_long_words=False,
        break_on_hyphens=False,
    ) or [first_indent.rstrip()]


def statement_markdown(view: StatementView, width: int = 80) -> str:  # noqa: ARG001  Markdown is not wrapped
    """Return a statement as unwrapped Markdown: title, then sections of paragraphs, tables and lists, all text escaped.

    Args:
        view: the statement.
        width: ignored.
    """
    # Names come from configs: escaped, they make no heading, link, image or mention.
    lines = [f"# {escaped(view.title)}"]
    for section in view.sections:
        lines += ["", f"## {section.heading}", *_markdown_section(section)]
    return "".join(f"{line}\n" for line in lines)


def _markdown_section(section: StatementSection) -> Iterator[str]:
    """Yield the escaped lines below a heading: paragraphs, a table of rows without titles, a list of points."""
    for paragraph in section.prose:
        yield from ("", escaped(paragraph))
    if section.rows:
        yield from ("", "| | |", "|---|---|")
        yield from (f"| {escaped(label)} | {escaped(text)} |" for label, text in section.rows)
    if section.points:
        yield ""
        yield from (f"- {escaped(point)}" for point in section.points)


def escaped(text: str) -> str:
    """Return a text escaped for Markdown: no markup, no link, no HTML, no @mention."""
    # A comment after @ breaks a mention, and no reader sees it; Markdown has no escape for one.
    return _SPECIAL.sub(r"\\\g<0>", text).replace("@", "@<!-- -->")


# `statement --format latex`: a document that pdfLaTeX, XeLaTeX and LuaLaTeX compile, every text escaped.

_LATEX_SPECIAL = {
    "\\": r"\textbackslash{}",
    "^": r"\textasciicircum{}",
    "~": r"\textasciitilde{}",
    **{character: f"\\{character}" for character in "{}$&#_%"},
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': r"\textquotedbl{}",
    "'": r"\textquotesingle{}",
    "`": r"\textasciigrave{}",
}
# pdfLaTeX needs T1 and textcomp for these characters; the other two take Unicode from their fonts.
_HEAD = r"""\documentclass{article}
\usepackage{iftex}
\iftutex\usepackage{fontspec}\else\usepackage[T1]{fontenc}\usepackage{textcomp}\fi
\begin{document}
"""


def statement_latex(view: StatementView, width: int = 80) -> str:  # noqa: ARG001  LaTeX breaks lines itself
    """Return a statement as a LaTeX document, all text escaped; non-Latin letters need XeLaTeX or LuaLaTeX.

    Args:
        view: the statement.
        width: ignored.
    """
    lines = [rf"\section*{{{latex_escaped(view.title)}}}"]
    for section in view.sections:
        lines += ["", rf"\subsection*{{{latex_escaped(section.heading)}}}", *_latex_section(section)]
    return _HEAD + "".join(f"{line}\n" for line in lines) + "\\end{document}\n"


def _latex_section(section: StatementSection) -> Iterator[str]:
    """Yield the escaped lines below a heading: paragraphs, a description list of rows, an itemized list of points."""
    for paragraph in section.prose:
        yield latex_escaped(paragraph)
        yield ""
    if section.rows:
        yield r"\begin{description}"
        yield from (rf"  \item[{{{latex_escaped(label)}}}] {latex_escaped(text)}" for label, text in section.rows)
        yield r"\end{description}"
    if section.points:
        yield r"\begin{itemize}"
        yield from (rf"  \item {{}}{latex_escaped(point)}" for point in section.points)
        yield r"\end{itemize}"


def latex_escaped(text: str) -> str:
    """Return a text with TeX's special characters escaped, and no two hyphens or commas joined into a ligature.

    Args:
        text: free of control characters.
    """
    escaped = re.sub("|".join(map(re.escape, _LATEX_SPECIAL)), lambda match: _LATEX_SPECIAL[match[0]], text)
    return re.sub("[-,](?=[-,])", r"\g<0>{}", escaped)  # two in a row would be joined into a dash or a quote
