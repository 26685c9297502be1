"""`dpcalc validate`: whether configs are well-formed."""
# ruff: noqa: PLC0415  heavy imports wait until a command needs them

from dpcalc.cli import options
from dpcalc.cli.answer import Answer
from dpcalc.cli.sources import found_configs
from dpcalc.errors import InputError

EXAMPLE = "Example: dpcalc validate configs/*.yaml"


def validate(
    configs: options.Configs = None,
    *,
    key: options.Key = "",
    assignments: options.Assignments = None,
    as_json: options.Json = False,
    verbose: options.Verbose = False,
) -> Answer:
    """List everything that is wrong with configs.

    Nothing is computed. Exit code 0: nothing is wrong. 2: an input must be fixed.
    """
    paths = configs or found_configs()
    if not paths:
        raise InputError("no config: expected one or more config files, got none")

    from dpcalc.cli.gate import gate_answer
    from dpcalc.cli.reports import Report
    from dpcalc.gate.validate import validate as results_of

    results = results_of(paths, key=key, assignments=assignments or ())
    return gate_answer("validate", results, reports=(Report(format="json" if as_json else "text"),), verbose=verbose)
