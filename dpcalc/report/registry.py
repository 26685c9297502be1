"""`statement --format registry`: an entry for the registry of deployments of differential privacy, as YAML.

The structure is that of schemas/deployments-schema.yaml of github.com/opendp/deployments-registry-data, commit 3e9c812
of 15 July 2026: names, types and choices. What a person must answer is `...` in texts; other values are left out.
"""

import re
from collections.abc import Callable
from typing import Any

import yaml

from dpcalc.errors import InputError
from dpcalc.records import dataclass
from dpcalc.report.rounding import BARE_DIGITS, rounded_up
from dpcalc.report.statement import StatementView, escaped

UNANSWERED = "..."
Value = str | int | float | list[str] | None


@dataclass(frozen=True, kw_only=True)
class RegistryField:
    """A field of an entry: its dotted path, and its value from the statement, None to leave it out.

    UNANSWERED, alone or at the end of a value, asks a person. A value that is assumed follows from what dpcalc is for,
    not from the config, and is to be checked.
    """

    path: str
    value: Callable[[StatementView], Value]
    is_assumed: bool = False


# Functions from a view to a value. Rows and points are found by heading and label, so that the words of an entry are
# those of the statement, whoever changes them; "" for none.


def _constant(value: Value) -> Callable[[StatementView], Value]:
    return lambda view: value  # noqa: ARG005  as all of them


def _rows(view: StatementView, heading: str) -> list[tuple[str, str]]:
    return [row for section in view.sections if section.heading == heading for row in section.rows]


def _row(heading: str, label: str) -> Callable[[StatementView], str]:
    return lambda view: "; ".join(text for name, text in _rows(view, heading) if name == label)


def _all_rows(heading: str) -> Callable[[StatementView], str]:
    return lambda view: "; ".join(f"{name}: {text}" for name, text in _rows(view, heading))


def _points(heading: str) -> Callable[[StatementView], str]:
    return lambda view: "; ".join(
        point for section in view.sections if section.heading == heading for point in section.points
    )


def _after(words: str, text: Callable[[StatementView], str]) -> Callable[[StatementView], str]:
    return lambda view: f"{words}: {text(view)}"


def _before(text: Callable[[StatementView], str], question: str) -> Callable[[StatementView], str]:
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
    """Return a statement as a YAML entry of all FIELDS but those without a value; InputError if epsilon is infinite."""
    if _number("epsilon")(view) is None:
        raise InputError("--format registry: expected a run with a finite epsilon, got one without a guarantee")
    entry: dict[str, Any] = {}
    # The order of FIELDS is that of the schema, which YAML keeps: people compare entries side by side.
    for field in FIELDS:
        value = field.value(view)
        if value is None:
            continue
        if isinstance(value, str):
            # The registry's own check takes two backslashes in a row for a slip in a formula.
            value = escaped(value).replace("\\\\", "&#92;")
        *objects, name = field.path.split(".")
        place = entry
        for each in objects:
            place = place.setdefault(each, {})
        place[name] = value
    return yaml.safe_dump(entry, sort_keys=False, allow_unicode=True, width=float("inf"))


def registry_notes(view: StatementView) -> tuple[str, ...]:
    """Return notes that list the fields that a person must answer, add or check; () if there are none.

    Nobody may take a generated entry for a complete one: what dpcalc cannot know is said, field by field.
    """
    values = [(field, field.value(view)) for field in FIELDS]
    asked = [field for field, value in values if str(value).rstrip("']").endswith(UNANSWERED)]
    groups = {
        f"a person must answer (`{UNANSWERED}`)": asked,
        "left out, for a person to add": [field for field, value in values if value is None],
        "dpcalc assumes, please check": [field for field in FIELDS if field.is_assumed],
    }
    return tuple(f"{words}: {', '.join(field.path for field in fields)}" for words, fields in groups.items() if fields)
