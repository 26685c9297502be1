"""`dpcalc validate`: check that configs are well-formed."""

import typer

from dpcalc.cli import options
from dpcalc.cli.output import CommandResult
from dpcalc.cli.sources import chosen_configs, config_reader
from dpcalc.errors import InputError

EXAMPLE = "Example: dpcalc validate configs/*.yaml"


def validate(
    context: typer.Context,
    configs: options.Configs = None,
    *,
    report: options.Reports = None,
    as_json: options.Json = False,
    verbose: options.Verbose = False,
) -> CommandResult:
    """Check that configs are well-formed, and list all errors.

    Nothing is computed. Exit code 0: there are none. 2: an input must be fixed.
    """
    paths = chosen_configs(configs).paths
    if not paths:
        raise InputError("no config: expected one or more config files, got none")

    from dpcalc.cli.gate import gate_answer, reports
    from dpcalc.gate.check import validate as results_of

    chosen_reports = reports(report or (), as_json=as_json)
    return gate_answer(
        "validate", results_of(paths, reader=config_reader(context)), reports=chosen_reports, verbose=verbose
    )
