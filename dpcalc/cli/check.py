"""`dpcalc check`, `diff`, `validate`, `lock` and `explain`: the gate for continuous integration."""

from __future__ import annotations

import os
import textwrap
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dpcalc.cli import options
from dpcalc.cli.output import CommandResult, on_terminal, width
from dpcalc.cli.progress import GRACE, announce_files, ended_after
from dpcalc.cli.sources import chosen_configs, config_reader
from dpcalc.errors import InputError

if TYPE_CHECKING:
    from dpcalc.gate.diff import Case, ConfigReader
    from dpcalc.gate.lock import Lock
    from dpcalc.gate.policy import Scope
    from dpcalc.gate.verdict import Result


CHECK_EXAMPLE = "Example: dpcalc check configs/*.yaml --base origin/main --report github --report sarif=dpcalc.sarif"


def check(
    context: typer.Context,
    configs: options.Configs = None,
    *,
    report: options.Reports = None,
    as_json: options.Json = False,
    base: options.Base = None,
    allow_budget_change: Annotated[
        bool,
        typer.Option("--allow-budget-change", help="Allow a higher budget, or a weaker promise, than in the base."),
    ] = False,
    policy: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="A policy in TOML.", show_default="[tool.dpcalc.policy] of pyproject.toml"),
    ] = None,
    max_epsilon: Annotated[
        str | None, typer.Option(metavar="E", help="Fail above E, even if the budget allows more.")
    ] = None,
    require_budget: Annotated[bool, typer.Option("--require-budget", help="Fail a config without a budget.")] = False,
    locked: Annotated[bool, typer.Option("--locked", help="Fail a config that differs from dpcalc.lock.")] = False,
    strict: Annotated[bool, typer.Option("--strict", help="Warnings fail too.")] = False,
    allow_empty: Annotated[bool, typer.Option("--allow-empty", help="Pass when there is no config to check.")] = False,
    exit_zero: Annotated[bool, typer.Option("--exit-zero", help="Exit 0 instead of 1; 2 and 3 stay.")] = False,
    timeout: options.GateTimeout = options.GATE_SECONDS,
    memory_limit: options.MemoryLimit = options.GIGABYTES,
    verbose: options.Verbose = False,
) -> CommandResult:
    """Check that every config stays within its budget.

    Exit code 0: all do. 1: one does not. 2: an input must be fixed. 3: there is no verdict. Of several, the highest.
    """
    from dpcalc.cli.gate import gate_answer, max_epsilon_limit, reports
    from dpcalc.cli.progress import costs_in_time
    from dpcalc.config.source import Severity
    from dpcalc.gate.check import Demands
    from dpcalc.gate.check import check as results_of
    from dpcalc.gate.lock import lock_path, read_lock
    from dpcalc.gate.policy import Policy, effective_policy, with_scope_problems

    with costs_in_time(timeout, memory_limit) as costs:
        chosen_reports = reports(report or (), as_json=as_json)
        before = options.revision(base)
        own = Policy(max_epsilon=max_epsilon_limit(max_epsilon), require_budget=require_budget, strict=strict)
        demands = Demands(
            policy=own.combined_with(effective_policy(policy, Path.cwd(), before)),
            allow_budget_change=allow_budget_change,
            lock=read_lock(lock_path(Path.cwd())) if locked else None,
            config_args=configs or None,
            lower_bounds=any(report.format == "json" for report in chosen_reports),
        )
        scope = _announced_scope(configs, before)
        results = results_of(scope.paths, reader=config_reader(context, base=before), demands=demands, costs=costs)
        severity = Severity.NOTE if allow_budget_change else Severity.ERROR
        results = with_scope_problems(results, scope, severity=severity, strict=demands.policy.strict)
        if not results and not allow_empty:
            raise InputError(f"nothing to check: {_nothing_found(before)}, or pass --allow-empty")
        answer = gate_answer("check", results, reports=chosen_reports, verbose=verbose)
    return _with_exit_zero(answer) if exit_zero else answer


def _announced_scope(configs: Sequence[str] | None, base: str) -> Scope:
    """Announce and return the configs to judge, including those that only `base` has, if it is given."""
    from dpcalc.gate.policy import find_scope

    chosen = chosen_configs(configs)
    scope = find_scope(chosen.paths, patterns=chosen.patterns, base=base, folder=Path.cwd())
    announce_files(scope.paths)
    return scope


def _with_exit_zero(answer: CommandResult) -> CommandResult:
    """Return the result with exit code 0 in the place of 1; other codes stay."""
    return replace(answer, code=0) if answer.code == 1 else answer


def _nothing_found(base: str) -> str:
    """Return the message "expected one or more config files, got none: ...", with the places that were searched."""
    where = f"here or in {base}" if base else "here"
    return (
        f"expected one or more config files, got none: {where}, up to the top of the repository, is no dpcalc.yaml or "
        "dpcalc.yml, and no `configs = [PATTERN, ...]` below [tool.dpcalc] in pyproject.toml; name files, or a pattern "
        "in quotes such as 'configs/*.yaml'"
    )


# `dpcalc diff`: the privacy cost of a config before and after a change.

DIFF_EXAMPLE = "Example: dpcalc diff configs/clinic.yaml --base origin/main"


def diff(
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
    from dpcalc.cli.progress import costs_in_time
    from dpcalc.config.source import Severity
    from dpcalc.gate.check import diff as results_of
    from dpcalc.gate.policy import with_scope_problems

    with costs_in_time(timeout, memory_limit) as costs:
        chosen_reports = reports(report or (), as_json=as_json)
        before = options.revision(base)
        compared, scope = _cases_to_compare(configs, before, config_reader(context, base=before))
        results = with_scope_problems(results_of(compared, costs=costs), scope, severity=Severity.WARNING)
        if not results:
            raise InputError(f"nothing to compare: {_nothing_found(before)}")
        answer = gate_answer("diff", results, reports=chosen_reports, verbose=verbose)
    return _with_exit_zero(answer) if exit_zero else answer


def _cases_to_compare(configs: Sequence[str] | None, base: str, reader: ConfigReader) -> tuple[tuple[Case, ...], Scope]:
    """Return each config beside its version in `base`, or without a base two configs; InputError if not two."""
    from dpcalc.gate.diff import cases, two_files
    from dpcalc.gate.policy import Scope

    if base:
        scope = _announced_scope(configs, base)
        return cases(scope.paths, reader), scope
    if configs is None or len(configs) != 2:
        raise InputError(f"diff: expected two configs, or --base REV, got {len(configs or ())} and no --base")
    return (two_files(configs[0], configs[1], reader),), Scope(paths=(configs[1],))


# `dpcalc validate`: check that configs are well-formed.

VALIDATE_EXAMPLE = "Example: dpcalc validate configs/*.yaml"


def validate(
    context: typer.Context,
    configs: options.Configs = None,
    *,
    report: options.Reports = None,
    as_json: options.Json = False,
    timeout: options.GateTimeout = options.GATE_SECONDS,
    verbose: options.Verbose = False,
) -> CommandResult:
    """Check that configs are well-formed, and list all errors.

    Nothing is computed. Exit code 0: there are none. 2: an input must be fixed.
    """
    with ended_after(options.seconds(timeout), GRACE):
        paths = chosen_configs(configs).paths
        if not paths:
            raise InputError(f"nothing to validate: {_nothing_found('')}")

        from dpcalc.cli.gate import gate_answer, reports
        from dpcalc.gate.check import validate as results_of

        chosen_reports = reports(report or (), as_json=as_json)
        results = results_of(paths, reader=config_reader(context))
        return gate_answer("validate", results, reports=chosen_reports, verbose=verbose)


# `dpcalc lock`: write hash, cost and promises of configs to dpcalc.lock, to be reviewed with them.

LOCK_EXAMPLE = "Example: dpcalc lock configs/*.yaml"


def lock(
    context: typer.Context,
    configs: options.Configs = None,
    *,
    check: Annotated[bool, typer.Option("--check", help="Write nothing; exit 1 if something would change.")] = False,
    as_json: options.Json = False,
    timeout: options.GateTimeout = options.GATE_SECONDS,
    memory_limit: options.MemoryLimit = options.GIGABYTES,
    verbose: options.Verbose = False,
) -> CommandResult:
    """Record the meaning and the cost of configs in dpcalc.lock, if all have one; `check --locked` compares with it.

    With CONFIG the entries of other configs stay. Without it: the configs that a search finds, else those that
    dpcalc.lock holds; entries of any others are removed. Whether a budget is kept is for `check`.
    """
    from dpcalc.cli.gate import Report, gate_answer
    from dpcalc.cli.progress import costs_in_time
    from dpcalc.gate.lock import lock_path, missing_configs, read_or_new_lock, updated_lock

    with costs_in_time(timeout, memory_limit) as costs:
        paths = chosen_configs(configs).paths
        old_lock = read_or_new_lock(lock_path(Path.cwd()))
        locked = _cases_to_lock(paths, old_lock, config_reader(context))
        results, new_lock = updated_lock(locked, old_lock, costs=costs)
    if check:
        results = (*results, *missing_configs(locked, old_lock, config_args=configs or None))
    else:
        results = _without_failures(results)
    reports = (Report(format="json" if as_json else "text"),)
    answer = gate_answer("lock", results, reports=reports, verbose=verbose)
    if check:
        return answer
    new = new_lock.restricted_to([old_lock.entry_name(case.new) for case in locked if case.new is not None])
    removed = set() if configs else {*old_lock.entries} - {*new.entries}
    asides, changed = _write_lock(new, results, removed=removed)
    return replace(answer, asides=(*answer.asides, *asides), changed=(*answer.changed, *changed))


def _cases_to_lock(paths: Sequence[str], lock: Lock, reader: ConfigReader) -> tuple[Case, ...]:
    """Announce and return the given configs, or else those in the lock; InputError if there are none."""
    from dpcalc.gate.diff import cases

    files = [(path, reader.key) for path in paths] or lock.config_files(reader.key)
    if not files and not lock.entries:
        raise InputError("nothing to lock: expected one or more configs, got none, and dpcalc.lock holds none")
    announce_files([path for path, _ in files])
    return tuple(case for path, key in files for case in cases([path], replace(reader, key=key)))


def _without_failures(results: Sequence[Result]) -> tuple[Result, ...]:
    """Return the results with failed ones as passed, since the new lock records the differences."""
    from dpcalc.gate.verdict import Verdict

    return tuple(
        replace(result, verdict=Verdict.PASSED, problems=()) if result.verdict is Verdict.FAILED else result
        for result in results
    )


def _write_lock(new: Lock, results: Sequence[Result], *, removed: set[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Add, replace and remove entries of dpcalc.lock, if all results passed, and return (remarks, files written)."""
    from dpcalc.config.source import visible
    from dpcalc.gate.verdict import Verdict

    shown = visible(os.path.relpath(new.path))
    if any(result.verdict is not Verdict.PASSED for result in results):
        return (f"error: {shown} is not written: not every config has a cost",), ()
    _update_lock_file(new, removed=removed)
    notes = tuple(f"note: removed the entry of {visible(name)}" for name in sorted(removed))
    return (*notes, f"wrote {shown}"), (new.path,)


def _update_lock_file(new: Lock, *, removed: set[str]) -> None:
    """Add or replace entries in the file of `new`, drop removed ones, and keep what others have written meanwhile."""
    from dpcalc.config.files import create, exclusive_lock, save
    from dpcalc.gate.lock import Lock, read_or_new_lock

    # Entries are read again under the lock: another process may have written some since the configs were judged.
    with exclusive_lock(new.path):
        entries = read_or_new_lock(Path(new.path)).entries
        others = {name: entry for name, entry in entries.items() if name not in removed}
        data = Lock(path=new.path, entries=others | dict(new.entries)).text().encode()
        if not create(new.path, data):
            save(new.path, data)


# `dpcalc explain`: a rule by its code, or the list of all.

EXPLAIN_EXAMPLE = "Example: dpcalc explain DPC404"
PREFIX = "DPC"


def _codes(incomplete: str) -> list[str]:
    """Return the codes of rules that begin with `incomplete`, in any case, for shell completion."""
    from dpcalc.report.rules import RULES

    return [code for code in RULES if code.startswith(incomplete.upper())]


def explain(
    code: Annotated[
        str | None,
        typer.Argument(
            metavar="CODE",
            help="The code of a finding, e.g. DPC101. Without it all rules are listed.",
            autocompletion=_codes,
        ),
    ] = None,
    *,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print all rules in full, as docs/rules.md.")] = False,
) -> CommandResult:
    """Explain a rule: its condition, the reason, and the way out."""
    from dpcalc.report.rules import RULES, rules_list, rules_page

    if markdown:
        return CommandResult(text=rules_page())
    if code is None:
        return CommandResult(text=rules_list())
    name = _full_code(code)
    rule = RULES[name]
    paragraphs = (f"{name}: {rule.title}", rule.rule, f"Why: {rule.reason}", f"Fix: {rule.fix}")
    return CommandResult(text="\n\n".join(map(_wrapped, paragraphs)) + "\n")


def _full_code(code: str) -> str:
    """Return the full code of a rule, such as "DPC301"; InputError, with the nearest code, if it is unknown."""
    from dpcalc.report.rules import RULES

    name = code.strip().upper()
    name = name if name.startswith(PREFIX) else f"{PREFIX}{name}"
    if name in RULES:
        return name
    from difflib import get_close_matches

    near = get_close_matches(name[:64], RULES, n=1) if any(character.isdigit() for character in name) else []
    way_out = f"did you mean {near[0]}?" if near else "`dpcalc explain` lists all"
    raise InputError(f"explain: expected the code of a rule, got `{code}`; {way_out}")


def _wrapped(paragraph: str) -> str:
    """Return a paragraph wrapped at the terminal's width; unchanged off a terminal."""
    if not on_terminal():
        return paragraph
    return textwrap.fill(paragraph, width(), break_long_words=False, break_on_hyphens=False)
