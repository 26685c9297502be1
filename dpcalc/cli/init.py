"""`dpcalc init`: a commented config to start from."""

from enum import StrEnum
from importlib import resources
from typing import Annotated

import typer

from dpcalc.cli.files import write_file
from dpcalc.cli.output import CommandResult

EXAMPLE = "Example: dpcalc init --template maml --output configs/clinic.yaml"


class Template(StrEnum):
    """Templates of configs.

    Attributes:
        DPSGD: one level of examples.
        PHASES: several phases over one level.
        MAML: tasks and their examples.
        USERS: users, sessions, examples.
        PATE: labels from an ensemble of teachers.
    """

    DPSGD = "dpsgd"
    PHASES = "phases"
    MAML = "maml"
    USERS = "users"
    PATE = "pate"


def init(
    *,
    template: Annotated[Template, typer.Option(metavar="|".join(Template), help="The template.")] = Template.DPSGD,
    output: Annotated[
        str, typer.Option("--output", "-o", metavar="PATH", help="File to write; - is standard output.")
    ] = "dpcalc.yaml",
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing file.")] = False,
) -> CommandResult:
    """Write a commented config to start from."""
    text = resources.files("dpcalc.config").joinpath("templates", f"{template}.yaml").read_text(encoding="utf-8")
    if output == "-":
        return CommandResult(text=text)

    write_file("--output", output, text.encode(), force=force)
    return CommandResult(
        text=f"wrote {output}\n", asides=(f"note: adapt it, then run `dpcalc epsilon {output}`",), changed=(output,)
    )
