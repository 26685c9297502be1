"""The privacy statement of a run as plain text, Markdown, HTML, LaTeX, JSON and registry entry.

A `StatementView` has the whole contents: sections of prose, rows and points for people, a dict for JSON. Every form is
a function of it and adds nothing; `dpcalc.report.statement` holds a further one.
"""

import math
import re
import textwrap
from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from html import escape
from typing import Any

import yaml

from dpcalc._version import __version__
from dpcalc.config.load import Loaded
from dpcalc.config.source import visible
from dpcalc.errors import InputError
from dpcalc.guarantee import INFINITE, Adjacency, Kind
from dpcalc.planner.statement import Statement, has_secret_order
from dpcalc.records import dataclass
from dpcalc.report.evaluation import phase_rows
from dpcalc.report.guarantees import budget_limit, budget_used, gdp_json, gdp_text, method_name, phase_json, units_text
from dpcalc.report.output import (
    BARE_DIGITS,
    Json,
    as_given,
    config_json,
    escaped,
    json_document,
    origin_json,
    percent_up,
    rounded_down,
    rounded_up,
)

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
DEPLOYMENT = {"trust model": TRUST, "release": RELEASE, "who sees what": OBSERVERS, "tuning": UNTUNED}
"""What the guarantee takes for granted of the deployment: text by label."""
AMPLIFIED = "Part of the guarantee comes from {}; it is lost if batches are not drawn as stated."
LEFT_OUT = "the chance that a draw leaves the unit out"
HIDDEN = "an order of the batches that nobody knows"
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
    Kind.CONDITIONAL: "an upper bound for every data set, conditional",
    Kind.ESTIMATE: "an estimate without a certificate",
    Kind.APPROXIMATION: "an approximation, no guarantee",
    Kind.AS_PUBLISHED: "as published, no guarantee",
    Kind.LOWER: "a lower bound, attained by one pair of data sets",
}


Section = tuple[Sequence[str], Sequence[tuple[str, str]], Sequence[str]]
"""A section of a statement: paragraphs, then (label, text) rows of a table, then points of a list."""


@dataclass(frozen=True, kw_only=True)
class StatementView:
    """A whole statement in words, free of control characters, and for JSON, numbers unrounded."""

    title: str
    sections: Mapping[str, Section]  # by heading
    result: Json
    name: str  # that of the run, or its path
    published: str = ""  # date of the release, YYYY-MM-DD, "" where it was not given
    picture: bytes = b""  # a chart as SVG, for the one format that shows it


def statement_view(statement: Statement, loaded: Loaded, *, published: str = "") -> StatementView:
    """Return a statement as sections and JSON; attacks, groups and coverage only with a finite epsilon."""
    name = visible(loaded.plan.name or loaded.path)
    plan = loaded.plan
    evaluation = statement.evaluation
    guarantee, attack = evaluation.guarantee, statement.attack
    protected, limit = units_text(guarantee.unit, guarantee.group_size), budget_limit(plan)

    # The guarantee: a sentence, or that there is none, and its parts.
    rows = {"epsilon": "infinite"}
    promise = "There is no guarantee: no finite epsilon is known for this run."
    if guarantee.finite:
        epsilon = rounded_up(guarantee.epsilon, apart_from=limit)
        # From the printed epsilon, not the exact one: a reader who recomputes the factor must find the same number.
        factor = f" ({rounded_up(math.exp(float(epsilon)))})" if float(epsilon) < MAX_EXPONENT else ""
        promise = (
            f"Whether {PROMISES[guarantee.adjacency].format(protected)} changes the probability of anything that the "
            f"result of the training may reveal by at most a factor of e^{epsilon}{factor}, and by at most "
            f"{as_given(guarantee.delta)} on top of that."
        )
        promise += "".join(f" This is {note}." for note in plan.conditions)
        rows["epsilon"] = f"at most {epsilon}"
    if causes := [note.removeprefix(INFINITE) for note in guarantee.notes if note.startswith(INFINITE)]:
        promise = f"{promise[:-1]}: {causes[0]}."
    if guarantee.epsilon_lower is not None:
        gap = "the bound is tight" if guarantee.tight else "the smallest bound that holds lies between the two"
        lower = rounded_down(guarantee.epsilon_lower)
        rows["epsilon_lower"] = f"{lower}: attained by one pair of data sets; {gap}"
    rows["delta"] = as_given(guarantee.delta)
    rows["protected"] = protected
    rows["adjacency"] = f"{guarantee.adjacency}: whether {PROMISES[guarantee.adjacency].format('it')}"
    if guarantee.finite:
        rows["kind"] = KINDS[guarantee.kind]
        if statement.gdp is not None:
            rows["mu-GDP"] = gdp_text(statement.gdp)
        rows["accountant"] = f"{method_name(guarantee.method)}, composing the {guarantee.bound}"
    if limit is not None:
        exceeded = "" if guarantee.epsilon <= limit else ": exceeded"
        rows["budget"] = f"{as_given(limit)}, {budget_used(guarantee.epsilon, limit)}{exceeded}"
    sections: dict[str, Section] = {"The guarantee": ((promise,), tuple(rows.items()), ())}

    if guarantee.finite:
        # The best attacker, in percent and with what guessing gains beside it: the reader decides by the difference.
        gains = [
            ("advantage", f"at most {_percent(attack.advantage)}: detections minus false alarms"),
            ("guessing", f"right in at most {_percent((1 + attack.advantage) / 2)} of cases, where a coin has 50%"),
        ]
        for false_positive_rate, true_positive_rate in attack.detection:
            guessed = f"{100 * false_positive_rate:g}%"
            detected = _percent(true_positive_rate)
            gains.append((f"{guessed} false alarms", f"detects at most {detected}, where guessing detects {guessed}"))
        words = (
            f"The best attacker there can be, who knows everything but {protected} and must tell which of the two data "
            "sets was used:"
        )
        sections["What an attacker can gain"] = (words,), gains, ()

        compared, words = [], GROUPS
        unused = [note.text for note in evaluation.notes if "secret order" in note.text]
        # Said where the draws matter: a reviewer should ask how batches were drawn before believing the number.
        if statement.unsampled > guarantee.epsilon * (1 + _SAME):
            is_hidden = has_secret_order(plan) and not unused
            is_left_out = not is_hidden or any(phase.inclusion < 1 for phase in evaluation.phases)
            known = ", in a known order" if is_hidden else ""
            text = f"epsilon at most {rounded_up(statement.unsampled)}, if every draw held the unit{known}"
            amplified = AMPLIFIED.format(" and ".join([LEFT_OUT] * is_left_out + [HIDDEN] * is_hidden))
            compared, words = [("without amplification", text)], f"{amplified} {GROUPS}"
        for size, bound in statement.groups:
            text = "no bound is known"
            if bound is not None:
                text = f"epsilon at most {rounded_up(bound)}" if math.isfinite(bound) else "no finite epsilon"
            compared.append((f"{size} together ({visible(guarantee.unit)})", f"{text} at the same delta"))
        compared += [("order of a pass", visible(text)) for text in unused]
        if compared:
            sections["For comparison"] = (words,), compared, ()
        sections["What is covered"] = (), (), COVERED

    not_covered, deployment = list(NOT_COVERED), dict(DEPLOYMENT)
    if plan.tuning is not None:
        not_covered = [OTHER_RUNS if OTHER_RUNS in point else point for point in NOT_COVERED]
        deployment["tuning"] = TUNED.format(plan.tuning.words)
    origin = {
        "config": visible(loaded.path) + (f", section {visible(loaded.section)}" if loaded.section else ""),
        "config_hash": loaded.config_hash,
        "dpcalc": __version__,
    }
    if published:
        origin["published"] = published
    draws = "Every step draws as stated and adds noise to what is drawn:"
    sections |= {
        "What is not covered": ((), (), not_covered),
        "How it is released": ((), tuple(deployment.items()), ()),
        "Sampling and training": ((draws,), phase_rows(evaluation), ()),
        "Assumptions": ((), (), tuple(map(visible, evaluation.assumptions))),
        "Where it comes from": ((), tuple(origin.items()), ()),
    }

    detection = [{"false_positive_rate": false, "true_positive_rate": true} for false, true in attack.detection]
    groups = [
        {
            "group_size": size,
            "epsilon": bound,
            "finite": None if bound is None else math.isfinite(bound),
            "kind": str(guarantee.kind),
        }
        for size, bound in statement.groups
    ]
    result: Json = {
        "config": config_json(loaded),
        "guarantee": guarantee.to_dict(),
        "gdp": None if statement.gdp is None else gdp_json(statement.gdp, guarantee.kind),
        "attack": {"kind": str(guarantee.kind), "advantage": attack.advantage, "detection": detection},
        "without_amplification": {"epsilon": statement.unsampled, "kind": str(guarantee.kind)},
        "groups": groups,
        "steps": evaluation.steps,
        "phases": list(map(phase_json, evaluation.phases)),
        "covered": list(COVERED),
        "not_covered": not_covered,
        "deployment": {label.replace(" ", "_"): text for label, text in deployment.items()},
        "assumptions": list(evaluation.assumptions),
        **origin_json(loaded),
    }
    title = f"Privacy statement: {name}"
    return StatementView(title=title, sections=sections, result=result, name=name, published=published)


def _percent(part: float) -> str:
    # Bounds leave [0, 1] by their rounding; no reader should have to wonder about 100.00001 %.
    return "0%" if part <= 0 else f"{percent_up(min(part, 1.0), 1.0)}%"


# The formats of `statement --format`; `dpcalc.report.gate` lists them


def statement_json(view: StatementView, width: int = 80) -> str:  # noqa: ARG001  JSON has no columns
    return json_document("statement", view.result)


@dataclass(frozen=True, kw_only=True)
class Markup:
    """A format of marks around escaped texts, each of which stands at a `{}`; groups have marks before and after."""

    escape: Callable[[str], str]
    head: str = ""  # as it is
    title: str
    heading: str
    paragraph: str
    rows: tuple[str, str, str]
    points: tuple[str, str, str]
    picture: str = ""  # after the first section, of the chart in base 64; "" where the format shows none
    end: str = ""

    def __call__(self, view: StatementView, width: int = 80) -> str:  # noqa: ARG002  lines are not wrapped
        parts = [self.head, self.title.format(self.escape(view.title))]
        picture = self.picture.format(b64encode(view.picture).decode()) if view.picture else ""
        for heading, (prose, rows, points) in view.sections.items():
            parts.append(self.heading.format(self.escape(heading)))
            parts += [self.paragraph.format(self.escape(paragraph)) for paragraph in prose]
            for (before, each, after), items in ((self.rows, rows), (self.points, [(point,) for point in points])):
                if items:
                    parts += [before, *(each.format(*map(self.escape, texts)) for texts in items), after]
            if picture:
                parts.append(picture)
                picture = ""
        return "".join([*parts, self.end])


LABEL_WIDTH = 22  # columns of the longest label, "without amplification", and a space
_PLAIN = Markup(  # a tab stands where the further lines of a text begin; no text of a view has one
    escape=str,
    title="\t{}\n",
    heading="\n\t{}\n",
    paragraph="  \t{}\n",
    rows=("", f"  {{:<{LABEL_WIDTH}}}\t{{}}\n", ""),
    points=("", "  - \t{}\n", ""),
)


def statement_text(view: StatementView, width: int = 80) -> str:
    """Return a statement as plain text, wrapped between words at `width` > LABEL_WIDTH + 2; no word is cut."""
    wrapper = textwrap.TextWrapper(width, break_long_words=False, break_on_hyphens=False)
    lines = []
    for line in _PLAIN(view).split("\n"):
        wrapper.initial_indent, _, text = line.partition("\t")
        wrapper.subsequent_indent = " " * len(wrapper.initial_indent)
        lines += wrapper.wrap(text) or [wrapper.initial_indent.rstrip()]
    lines.insert(1, "=" * min(len(view.title), width))
    return "\n".join(lines)


# Names of a config make no heading, link or image.
MARKDOWN = Markup(
    escape=escaped,
    title="# {}\n",
    heading="\n## {}\n",
    paragraph="\n{}\n",
    rows=("\n| | |\n|---|---|\n", "| {} | {} |\n", ""),
    points=("\n", "- {}\n", ""),
)


# `statement --format html`: one file that loads nothing and runs nothing, for a browser or its printer.

_PAGE = """\
<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; img-src data:">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{0}</title>
<style>
:root {{ color-scheme: light dark; }}
body {{ font: 16px/1.5 system-ui, sans-serif; max-width: 46rem; margin: 2rem auto; padding: 0 1rem; }}
h1 {{ font-size: 1.6rem; }} h2 {{ font-size: 1.15rem; margin-top: 2rem; }}
table {{ border-collapse: collapse; width: 100%; }}
th, td {{ text-align: left; vertical-align: top; padding: .3rem .8rem .3rem 0; border-top: 1px solid #8884; }}
th {{ font-weight: 600; width: min(11rem, 36%); }} td {{ overflow-wrap: anywhere; }}
img {{ width: 100%; background: #fff; border-radius: 8px; }}
@media print {{ body {{ font-size: 11px; margin: 0; }} h2 {{ break-after: avoid; }} }}
</style>
<h1>{0}</h1>
"""


HTML = Markup(
    escape=lambda text: escape(text).replace("#", "&#35;"),  # without what a CI runner would read as a command
    title=_PAGE,
    heading="<h2>{}</h2>\n",
    paragraph="<p>{}</p>\n",
    rows=("<table>\n", "<tr><th>{}</th><td>{}</td></tr>\n", "</table>\n"),
    points=("<ul>\n", "<li>{}</li>\n", "</ul>\n"),
    # As an image it can load and run nothing.
    picture='<p><img alt="epsilon over the steps" src="data:image/svg+xml;base64,{}"></p>\n',
)


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


def latex_escaped(text: str) -> str:
    """Return a text with TeX's special characters escaped, and no two hyphens or commas joined into a ligature."""
    escaped = re.sub("|".join(map(re.escape, _LATEX_SPECIAL)), lambda match: _LATEX_SPECIAL[match[0]], text)
    return re.sub("[-,](?=[-,])", r"\g<0>{}", escaped)  # two in a row would be joined into a dash or a quote


# Letters that are not Latin need XeLaTeX or LuaLaTeX.
LATEX = Markup(
    escape=latex_escaped,
    head=_HEAD,
    title="\\section*{{{}}}\n",
    heading="\n\\subsection*{{{}}}\n",
    paragraph="{}\n\n",
    rows=("\\begin{description}\n", "  \\item[{{{}}}] {}\n", "\\end{description}\n"),
    points=("\\begin{itemize}\n", "  \\item {{}}{}\n", "\\end{itemize}\n"),
    end="\\end{document}\n",
)


# `statement --format registry`: an entry for the registry of deployments of differential privacy, as YAML.
# The structure is that of schemas/deployments-schema.yaml of github.com/opendp/deployments-registry-data, commit
# 3e9c812 of 15 July 2026: names, types and choices. What a person must answer is `...` in texts; other values are left
# out.


UNANSWERED = "..."
ASSUMED = {
    "deployment.basic.data_product_type": "Machine learning model",
    "deployment.deployment_model.model_name": "Central",
    "deployment.deployment_model.release_type": "One release",
    "deployment.deployment_model.data_source_type": "Static",
    "deployment.deployment_model.data_source_type_details": "the data are the same in all steps of the run",
    "deployment.deployment_model.access_type": "Non-interactive",
    "deployment.deployment_model.access_type_details": "the trained model is released; nobody else queries the data",
}
"""Values that follow from what dpcalc is for, not from the config, and are to be checked."""


def registry_fields(view: StatementView) -> dict[str, Any]:
    """Return the fields of the schema but `rho` by dotted path, None to leave out; UNANSWERED asks a person."""
    # Rows and points are found by heading and label, so that the words of an entry are those of the statement.

    def row(heading: str, label: str) -> str:
        return "; ".join(text for name, text in view.sections[heading][1] if name == label)

    def all_rows(heading: str) -> str:
        return "; ".join(f"{name}: {text}" for name, text in view.sections[heading][1])

    *_, not_covered = view.sections["What is not covered"]
    guarantee: Any = view.result["guarantee"]
    epsilon, delta = (
        None if guarantee[name] is None else float(rounded_up(guarantee[name], digits=BARE_DIGITS))
        for name in ("epsilon", "delta")
    )
    tuning = row("How it is released", "tuning")
    training = row("Sampling and training", "training")
    fields: dict[str, Any] = {
        # In lower case, words joined by hyphens.
        "url_slug": re.sub(r"[^a-z0-9]+", "-", view.name.lower()).strip("-") or "run",
        "status": "Draft",
        "tier": 3,
        "deployment.basic.name": view.name,
        "deployment.basic.data_curators": [UNANSWERED],
        "deployment.basic.description": UNANSWERED,
        "deployment.basic.intended_use": UNANSWERED,
        "deployment.basic.data_product_type": None,
        "deployment.basic.data_product_region": UNANSWERED,
        "deployment.basic.publication_date": view.published or None,
        "deployment.basic.data_product_sector": None,
        "deployment.dp_variant.variant_name": "Approximate DP",
        "deployment.dp_variant.data_domain": (
            f"all data sets of the stated sizes: {row('Sampling and training', 'sampling')}"
        ),
        "deployment.dp_variant.unprotected_quantities": "; ".join(not_covered),
        "deployment.privacy_loss.privacy_unit": row("The guarantee", "protected"),
        "deployment.privacy_loss.privacy_unit_details": row("The guarantee", "adjacency"),
        "deployment.privacy_loss.privacy_parameters.epsilon": epsilon,
        "deployment.privacy_loss.privacy_parameters.delta": delta,
        "deployment.privacy_loss.privacy_parameters_details": all_rows("The guarantee"),
        "deployment.deployment_model.model_name": None,
        "deployment.deployment_model.model_name_details": row("How it is released", "trust model"),
        "deployment.deployment_model.actors": row("How it is released", "who sees what"),
        "deployment.deployment_model.release_type": None,
        "deployment.deployment_model.release_type_details": row("How it is released", "release"),
        "deployment.deployment_model.data_source_type": None,
        "deployment.deployment_model.data_source_type_details": None,
        "deployment.deployment_model.access_type": None,
        "deployment.deployment_model.access_type_details": None,
        "deployment.accounting.post_processing": UNANSWERED,
        "deployment.accounting.composition": row("The guarantee", "accountant"),
        "deployment.implementation.preprocessing_and_hyperparameter_tuning": (
            f"{tuning}. What was done with the data before the training: {UNANSWERED}"
        ),
        "deployment.implementation.mechanisms": (
            f"{training}. Library, and protection against faults of it: {UNANSWERED}"
        ),
        "deployment.implementation.justification": UNANSWERED,
        "deployment.administrative.sources": UNANSWERED,
        "deployment.administrative.notes": all_rows("Where it comes from"),
        "deployment.administrative.registry_authors": [UNANSWERED],
    }
    return fields | ASSUMED  # at the places of the schema


def statement_registry(view: StatementView, width: int = 80) -> str:  # noqa: ARG001  lines of YAML are not wrapped
    """Return a statement as a YAML entry of all fields but those without a value; InputError if epsilon is infinite."""
    fields = registry_fields(view)
    if fields["deployment.privacy_loss.privacy_parameters.epsilon"] is None:
        raise InputError("--format registry: expected a run with a finite epsilon, got one without a guarantee")
    entry: dict[str, Any] = {}
    # The order is that of the schema, which YAML keeps: people compare entries side by side.
    for path, value in fields.items():
        if value is None:
            continue
        *objects, name = path.split(".")
        place = entry
        for each in objects:
            place = place.setdefault(each, {})
        # The registry's own check takes two backslashes in a row for a slip in a formula.
        place[name] = escaped(value).replace("\\\\", "&#92;") if isinstance(value, str) else value
    return yaml.safe_dump(entry, sort_keys=False, allow_unicode=True, width=float("inf"))


def registry_notes(view: StatementView) -> tuple[str, ...]:
    """Return notes that list the fields that a person must answer, add or check."""
    fields = registry_fields(view)
    groups = {
        f"a person must answer (`{UNANSWERED}`)": [
            path for path, value in fields.items() if str(value).rstrip("']").endswith(UNANSWERED)
        ],
        "left out, for a person to add": [path for path, value in fields.items() if value is None],
        "dpcalc assumes, please check": list(ASSUMED),
    }
    return tuple(f"{words}: {', '.join(paths)}" for words, paths in groups.items() if paths)


STATEMENTS: dict[str, Callable[[StatementView, int], str]] = {
    "text": statement_text,
    "markdown": MARKDOWN,
    "json": statement_json,
    "registry": statement_registry,
    "latex": LATEX,
    "html": HTML,
}
"""Formats of `statement --format` by name."""
