"""`dpcalc audit-sampler`: logged batches against the declared sampling."""

from typing import Annotated

import typer

from dpcalc.cli import options
from dpcalc.cli.output import CommandResult, output_text, remarks
from dpcalc.cli.progress import report_progress
from dpcalc.cli.sources import loaded_plan, set_config
from dpcalc.errors import InputError

SAMPLER_EXAMPLE = "Example: dpcalc audit-sampler mnist.yaml batches.jsonl"
CONTRADICTED = 1
STDIN = "-"


def audit_sampler(
    context: typer.Context,
    config: Annotated[str, typer.Argument(metavar="CONFIG", help="A config file; - is standard input.")],
    log: Annotated[
        str,
        typer.Argument(
            metavar="LOG",
            help="JSONL, an array of indices for each step, or CSV with columns step and index; - is standard input.",
        ),
    ],
    *,
    as_json: options.Json = False,
) -> CommandResult:
    """Check the batches of a training loop against the declared sampling.

    Indices count from 0; with nested levels an entry is a path, [task, example]. An honest log is contradicted with
    probability 1e-6 at most. Exit code 1: the log contradicts the config; the answer says what the loader does instead.
    """
    from dpcalc.audit.audit import audit_log
    from dpcalc.audit.view import audit_output

    if config == log == STDIN:
        raise InputError("LOG: expected a file beside a config from standard input, got - for both")
    set_config(context, [config])
    loaded = loaded_plan(context)
    result = audit_log(loaded.plan, log, on_progress=report_progress)
    output = audit_output(result, loaded, log)
    text = output_text(output, as_json=as_json)
    asides = remarks(loaded.diagnostics, result.notes)
    return CommandResult(text=text, code=0 if result.agrees else CONTRADICTED, asides=asides)
