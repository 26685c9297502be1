"""`dpcalc diff`: the privacy cost of a config before and after a change."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from dpcalc.cli import options
from dpcalc.cli.output import CommandResult
from dpcalc.cli.progress import announce_files
from dpcalc.cli.sources import chosen_configs, config_reader
from dpcalc.errors import InputError

EXAMPLE = "Example: dpcalc diff configs/clinic.yaml --base origin/main"


def diff(  # noqa: PLR0913  one parameter an option
    context: typer.Context,
    configs: Annotated[
        list[str] | None, typer.Argument(metavar="OLD NEW", help="Two configs, or with --base any number.")
    ] = None,
    *,
    base: options.Base = None,
    report: options.Reports = None,
    as_json: options.Json = False,
    exit_zero: Annotated[bool, typer.Option("--exit-zero", help="Exit 0 instead of 1; 2 and 3 stay.")] = False,
    timeout: options.GateTimeout = options.GATE_SECONDS,
    memory_limit: options.MemoryLimit = options.GIGABYTES,
    verbose: options.Verbose = False,
) -> CommandResult:
    """Compare the privacy cost of a config before and after a change, key by key.

    Exit code 1: epsilon increases, a budget is raised, or a promise becomes weaker. `check` compares with the budget.
    """
    from dpcalc.cli.gate import gate_answer, reports
    from dpcalc.cli.limits import costs_in_time
    from dpcalc.config.source import Severity
    from dpcalc.gate.cases import cases, two_files
    from dpcalc.gate.check import diff as results_of
    from dpcalc.gate.scope import Scope, find_scope, with_scope_problems

    chosen_reports = reports(report or (), as_json=as_json)
    with costs_in_time(timeout, memory_limit) as costs:
        before = options.revision(base)
        reader = config_reader(context, base=before)
        if before:
            chosen = chosen_configs(configs)
            found_configs = find_scope(chosen.paths, patterns=chosen.patterns, base=before, folder=Path.cwd())
            announce_files(found_configs.paths)
            compared = cases(found_configs.paths, reader)
        elif configs is not None and len(configs) == 2:
            found_configs = Scope(paths=(configs[1],))
            compared = (two_files(configs[0], configs[1], reader),)
        else:
            raise InputError(f"diff: expected two configs, or --base REV, got {len(configs or ())} and no --base")
        results = with_scope_problems(results_of(compared, costs=costs), found_configs, severity=Severity.WARNING)
        if not results:
            raise InputError("nothing to compare: expected one or more configs, got none")
        answer = gate_answer("diff", results, reports=chosen_reports, verbose=verbose)
    return replace(answer, code=0) if exit_zero and answer.code == 1 else answer
