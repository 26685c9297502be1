"""`statement --format registry`: an entry for the registry of deployments of differential privacy, as YAML.

The structure is that of schemas/deployments-schema.yaml of github.com/opendp/deployments-registry-data, commit 3e9c812
of 15 July 2026: names, types and choices. What a person must answer is `...` in texts; other values are left out.
"""

import re
from collections.abc import Callable

import yaml

from dpcalc.errors import InputError
from dpcalc.records import dataclass
from dpcalc.report.rounding import BARE_DIGITS, rounded_up
from dpcalc.report.statement import StatementView, escaped

UNANSWERED = "..."
Value = str | int | float | list[str] | None


@dataclass(frozen=True, kw_only=True)
class RegistryField:
    """A field of an entry.

    Attributes:
        path: names of the objects around it and its own, with dots.
        value: its value, from the statement; None leaves it out. UNANSWERED, alone or at the end, asks a person.
        is_assumed: whether the value follows from what dpcalc is for, not from the config, and is to be checked.
    """

    path: str
    value: Callable[[StatementView], Value]
    is_assumed: bool = False


def _constant(value: Value) -> Callable[[StatementView], Value]:
    """Return the function that gives one value for every statement."""
    return lambda view: value  # noqa: ARG005  as all of them


def _rows(view: StatementView, heading: str) -> list[tuple[str, str]]:
    """Return the (label, text) rows of the section with a heading; [] without the section."""
    return [row for section in view.sections if section.heading == heading for row in section.rows]


def _row(heading: str, label: str) -> Callable[[StatementView], str]:
    """Return the function from a view to the texts of a section's rows of one label, joined by "; "; "" for none."""
    # By heading and label, so that the words of an entry are those of the statement, whoever changes them.
    return lambda view: "; ".join(text for name, text in _rows(view, heading) if name == label)


def _all_rows(heading: str) -> Callable[[StatementView], str]:
    """Return the function from a view to "LABEL: TEXT" of all rows of a section, joined by "; "; "" for none."""
    return lambda view: "; ".join(f"{name}: {text}" for name, text in _rows(view, heading))


def _points(heading: str) -> Callable[[StatementView], str]:
    """Return a function that joins the points of a section of a view by "; ", or returns "" without the section."""
    return lambda view: "; ".join(
        point for section in view.sections if section.heading == heading for point in section.points
    )


def _after(words: str, text: Callable[[StatementView], str]) -> Callable[[StatementView], str]:
    """Return the function that gives a text with words before it: "WORDS: TEXT"."""
    return lambda view: f"{words}: {text(view)}"


def _before(text: Callable[[StatementView], str], question: str) -> Callable[[StatementView], str]:
    """Return the function that gives a text that a person is to go on with: "TEXT. QUESTION: ..."."""
    return lambda view: f"{text(view)}. {question}: {UNANSWERED}"


def _number(name: str) -> Callable[[StatementView], float | None]:
    """Return a function that reads a number of a view's guarantee, rounded up to 6 digits, or None if infinite."""

    def number(view: StatementView) -> float | None:
        guarantee = next(field.value for field in view.fields if field.name == "guarantee")
        value = guarantee.get(name) if isinstance(guarantee, dict) else None
        return float(rounded_up(value, digits=BARE_DIGITS)) if isinstance(value, float) else None

    return number


def _slug(view: StatementView) -> str:
    """Return the name of a run in lower case, words joined by hyphens; "run" where it has no letter and no digit."""
    return re.sub(r"[^a-z0-9]+", "-", view.name.lower()).strip("-") or "run"


_DEPLOYED, _GUARANTEE = "How it is released", "The guarantee"
_ask = _constant(UNANSWERED)
FIELDS = (
    RegistryField(path="url_slug", value=_slug),
    RegistryField(path="status", value=_constant("Draft")),
    RegistryField(path="tier", value=_constant(3)),
    RegistryField(path="deployment.basic.name", value=lambda view: view.name),
    RegistryField(path="deployment.basic.data_curators", value=_constant([UNANSWERED])),
    RegistryField(path="deployment.basic.description", value=_ask),
    RegistryField(path="deployment.basic.intended_use", value=_ask),
    RegistryField(
        path="deployment.basic.data_product_type", value=_constant("Machine learning model"), is_assumed=True
    ),
    RegistryField(path="deployment.basic.data_product_region", value=_ask),
    RegistryField(path="deployment.basic.publication_date", value=lambda view: view.published or None),
    RegistryField(path="deployment.basic.data_product_sector", value=_constant(None)),
    RegistryField(path="deployment.dp_variant.variant_name", value=_constant("Approximate DP")),
    RegistryField(
        path="deployment.dp_variant.data_domain",
        value=_after("all data sets of the stated sizes", _row("Sampling and training", "sampling")),
    ),
    RegistryField(path="deployment.dp_variant.unprotected_quantities", value=_points("What is not covered")),
    RegistryField(path="deployment.privacy_loss.privacy_unit", value=_row(_GUARANTEE, "protected")),
    RegistryField(path="deployment.privacy_loss.privacy_unit_details", value=_row(_GUARANTEE, "adjacency")),
    RegistryField(path="deployment.privacy_loss.privacy_parameters.epsilon", value=_number("epsilon")),
    RegistryField(path="deployment.privacy_loss.privacy_parameters.delta", value=_number("delta")),
    RegistryField(path="deployment.privacy_loss.privacy_parameters_details", value=_all_rows(_GUARANTEE)),
    RegistryField(path="deployment.deployment_model.model_name", value=_constant("Central"), is_assumed=True),
    RegistryField(path="deployment.deployment_model.model_name_details", value=_row(_DEPLOYED, "trust model")),
    RegistryField(path="deployment.deployment_model.actors", value=_row(_DEPLOYED, "who sees what")),
    RegistryField(path="deployment.deployment_model.release_type", value=_constant("One release"), is_assumed=True),
    RegistryField(path="deployment.deployment_model.release_type_details", value=_row(_DEPLOYED, "release")),
    RegistryField(path="deployment.deployment_model.data_source_type", value=_constant("Static"), is_assumed=True),
    RegistryField(
        path="deployment.deployment_model.data_source_type_details",
        value=_constant("the data are the same in all steps of the run"),
        is_assumed=True,
    ),
    RegistryField(path="deployment.deployment_model.access_type", value=_constant("Non-interactive"), is_assumed=True),
    RegistryField(
        path="deployment.deployment_model.access_type_details",
        value=_constant("the trained model is released; nobody else queries the data"),
        is_assumed=True,
    ),
    RegistryField(path="deployment.accounting.post_processing", value=_ask),
    RegistryField(path="deployment.accounting.composition", value=_row(_GUARANTEE, "accountant")),
    RegistryField(
        path="deployment.implementation.preprocessing_and_hyperparameter_tuning",
        value=_before(_row(_DEPLOYED, "tuning"), "What was done with the data before the training"),
    ),
    RegistryField(
        path="deployment.implementation.mechanisms",
        value=_before(_row("Sampling and training", "training"), "Library, and protection against faults of it"),
    ),
    RegistryField(path="deployment.implementation.justification", value=_ask),
    RegistryField(path="deployment.administrative.sources", value=_ask),
    RegistryField(path="deployment.administrative.notes", value=_all_rows("Where it comes from")),
    RegistryField(path="deployment.administrative.registry_authors", value=_constant([UNANSWERED])),
)
"""Every field of the schema, in its order, but `rho`, which is of another variant."""


def statement_registry(view: StatementView, width: int = 80) -> str:  # noqa: ARG001  lines of YAML are not wrapped
    """Return a statement as a YAML entry of all FIELDS but those without a value; InputError if epsilon is infinite.

    Args:
        view: the statement.
        width: ignored.

    Raises:
        InputError: there is no finite epsilon to register.
    """
    if _number("epsilon")(view) is None:
        raise InputError("--format registry: expected a run with a finite epsilon, got one without a guarantee")
    return yaml.safe_dump(_entry(view), sort_keys=False, allow_unicode=True, width=float("inf"))


def _entry(view: StatementView) -> dict[str, object]:
    """Return all FIELDS that are not None as nested dicts by their paths, texts escaped for Markdown."""
    entry: dict[str, object] = {}
    # The order of FIELDS is that of the schema, which YAML keeps: people compare entries side by side.
    for field in FIELDS:
        value = field.value(view)
        if value is not None:
            _set_at(entry, field.path, _registry_text(value) if isinstance(value, str) else value)
    return entry


def _set_at(entry: dict[str, object], path: str, value: Value) -> None:
    """Set a value at a dotted path of nested dicts, and make the dicts that are missing."""
    *objects, name = path.split(".")
    for each in objects:
        entry = entry.setdefault(each, {})  # type: ignore[assignment]  # an object of fields
    entry[name] = value


def _registry_text(text: str) -> str:
    """Return a text escaped for Markdown, two backslashes in a row as "&#92;"."""
    # The registry's own check takes two backslashes in a row for a slip in a formula.
    return escaped(text).replace("\\\\", "&#92;")


def registry_notes(view: StatementView) -> tuple[str, ...]:
    """Return notes that list the fields that a person must answer, add or check; () if there are none.

    Args:
        view: the statement.
    """
    # Nobody may take a generated entry for a complete one: what dpcalc cannot know is said, field by field.
    values = [(field, field.value(view)) for field in FIELDS]
    groups = (
        (
            f"a person must answer (`{UNANSWERED}`)",
            [x for x, value in values if str(value).rstrip("']").endswith(UNANSWERED)],
        ),
        ("left out, for a person to add", [x for x, value in values if value is None]),
        ("dpcalc assumes, please check", [x for x, _ in values if x.is_assumed]),
    )
    return tuple(f"{words}: {', '.join(field.path for field in fields)}" for words, fields in groups if fields)
