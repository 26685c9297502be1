"""`dpcalc statement`: a privacy statement for reviewers."""

from contextlib import suppress
from datetime import date
from typing import Annotated

import typer

from dpcalc.cli import options
from dpcalc.cli.output import CommandResult, on_terminal, remarks, width
from dpcalc.cli.sources import loaded_plan
from dpcalc.errors import InputError
from dpcalc.report.formats import STATEMENTS, statement_format

STATEMENT_EXAMPLE = "Example: dpcalc statement clinic.yaml --format markdown > PRIVACY.md"
PLAIN_WIDTH = 80  # columns of a line that goes to a file, where nobody knows the reader's terminal


def statement(
    context: typer.Context,
    *,
    written: Annotated[
        str,
        typer.Option(
            "--format",
            metavar="|".join(STATEMENTS),
            help="Format of the statement.",
            autocompletion=options.one_of(STATEMENTS),
        ),
    ] = "text",
    published: Annotated[
        str, typer.Option(metavar="DATE", help="Date of the release, YYYY-MM-DD; the registry asks for it.")
    ] = "",
) -> CommandResult:
    """Write a privacy statement of a training run, for reviewers.

    It has the guarantee, bounds on attacks, the assumptions, and the limits of the claim. The same config gives the
    same statement.
    """
    if written not in STATEMENTS:
        raise InputError(f"--format: expected one of {', '.join(STATEMENTS)}, got `{written}`")

    if published and not _is_date(published):
        raise InputError(f"--published: expected a date as 2026-01-31, got `{published}`")

    from dpcalc.planner.statement import statement as stated
    from dpcalc.report.registry import registry_notes
    from dpcalc.report.statement import statement_view

    loaded = loaded_plan(context)
    view = statement_view(stated(loaded.plan), loaded, published=published)
    text = statement_format(written)(view, width() if on_terminal() else PLAIN_WIDTH)
    notes = registry_notes(view) if written == "registry" else ()
    return CommandResult(text=text, asides=remarks(loaded.diagnostics, notes))


def _is_date(text: str) -> bool:
    """Return True for a date in the form YYYY-MM-DD."""
    with suppress(ValueError):
        return date.fromisoformat(text).isoformat() == text
    return False
