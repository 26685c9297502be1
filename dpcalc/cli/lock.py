"""`dpcalc lock`: write hash, cost and promises of configs to dpcalc.lock, to be reviewed with them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dpcalc.cli import options
from dpcalc.cli.output import CommandResult
from dpcalc.cli.progress import announce_files
from dpcalc.cli.sources import chosen_configs, config_reader
from dpcalc.errors import InputError

if TYPE_CHECKING:
    from dpcalc.gate.lock import Lock
    from dpcalc.gate.verdict import Result

EXAMPLE = "Example: dpcalc lock configs/*.yaml"


def lock(  # noqa: PLR0913  one parameter an option
    context: typer.Context,
    configs: options.Configs = None,
    *,
    check: Annotated[bool, typer.Option("--check", help="Write nothing; exit 1 if something would change.")] = False,
    as_json: options.Json = False,
    timeout: options.GateTimeout = options.GATE_SECONDS,
    memory_limit: options.MemoryLimit = options.GIGABYTES,
    verbose: options.Verbose = False,
) -> CommandResult:
    """Record the meaning and the cost of configs in dpcalc.lock; `check --locked` compares with it.

    With CONFIG the entries of other configs stay. Without it: the configs that a search finds, else those that
    dpcalc.lock holds; entries of any others are removed. Whether a budget is kept is for `check`.
    """
    from dpcalc.cli.gate import Report, gate_answer
    from dpcalc.cli.limits import costs_in_time
    from dpcalc.gate.cases import cases
    from dpcalc.gate.lock import lock_path, missing_configs, read_or_new_lock, updated_lock

    with costs_in_time(timeout, memory_limit) as costs:
        paths = chosen_configs(configs).paths
        old_lock = read_or_new_lock(lock_path(Path.cwd()))
        reader = config_reader(context)
        files = [(path, reader.key) for path in paths] or old_lock.config_files(reader.key)
        if not files and not old_lock.entries:
            raise InputError("nothing to lock: expected one or more configs, got none, and dpcalc.lock holds none")
        announce_files([path for path, _ in files])
        configs_read = tuple(case for path, key in files for case in cases([path], replace(reader, key=key)))
        results, new_lock = updated_lock(configs_read, old_lock, costs=costs)
    asides: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    if check:
        results = (*results, *missing_configs(configs_read, old_lock, config_args=configs or None))
    else:
        results = tuple(_after_writing(result) for result in results)
        own = new_lock.restricted_to([old_lock.entry_name(case.new) for case in configs_read if case.new is not None])
        asides, changed = _write_lock(own, results, removed=set() if configs else {*old_lock.entries} - {*own.entries})
    reports = (Report(format="json" if as_json else "text"),)
    answer = gate_answer("lock", results, reports=reports, verbose=verbose)
    return replace(answer, asides=(*answer.asides, *asides), changed=(*answer.changed, *changed))


def _after_writing(result: Result) -> Result:
    """Return a failed result as passed, without its problems: the new lock has what differs; others unchanged."""
    from dpcalc.gate.verdict import Verdict

    return replace(result, verdict=Verdict.PASSED, problems=()) if result.verdict is Verdict.FAILED else result


def _write_lock(own: Lock, results: Sequence[Result], *, removed: set[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Write entries into the lock, others read again and kept, if all passed; return (remarks, written files).

    Args:
        own: has the entries of the given configs only.
        results: of these configs.
        removed: names of entries to drop; all others stay, also those that another process has just written.

    Returns:
        (remarks, the file that was written or nothing).
    """
    from dpcalc.config.files import create, exclusive_lock, save
    from dpcalc.config.source import visible
    from dpcalc.gate.lock import Lock, read_or_new_lock
    from dpcalc.gate.verdict import Verdict
    from dpcalc.report.ledger import lock_text

    shown = visible(os.path.relpath(own.path))
    if any(result.verdict is not Verdict.PASSED for result in results):
        return (f"error: {shown} is not written: not every config has a cost",), ()
    # Entries are read again under the lock: another process may have written some since the configs were judged.
    with exclusive_lock(own.path):
        others = {
            name: entry for name, entry in read_or_new_lock(Path(own.path)).entries.items() if name not in removed
        }
        data = lock_text(Lock(path=own.path, entries=others | dict(own.entries))).encode()
        if not create(own.path, data):
            save(own.path, data)
    notes = tuple(f"note: removed the entry of {visible(name)}" for name in sorted(removed))
    return (*notes, f"wrote {shown}"), (own.path,)
