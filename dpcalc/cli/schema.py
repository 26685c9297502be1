"""`dpcalc schema`: the JSON Schema of the config file, or a table of its keys."""

from typing import Annotated

import typer

from dpcalc.cli.output import CommandResult

EXAMPLE = "Example: dpcalc schema > dpcalc.schema.json"


def schema(
    *,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print a table of every key instead.")] = False,
) -> CommandResult:
    """Print the JSON Schema of the config file, for editors.

    A config that begins with `# yaml-language-server: $schema=dpcalc.schema.json` is checked while it is written.
    """
    from dpcalc.config.json_schema import json_schema_text, key_table

    return CommandResult(text=key_table() if markdown else json_schema_text())
