"""`statement --format registry`: an entry for the registry of deployments of differential privacy, as YAML.

The structure is that of schemas/deployments-schema.yaml of github.com/opendp/deployments-registry-data, commit 3e9c812
of 15 July 2026: names, types and choices. What a person must answer is `...` in texts; other values are left out.
"""

import re
from typing import Any

import yaml

from dpcalc.errors import InputError
from dpcalc.report.output import escaped
from dpcalc.report.rounding import BARE_DIGITS, rounded_up
from dpcalc.report.statement import StatementView

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
