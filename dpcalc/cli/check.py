"""`dpcalc check`, `diff`, `validate`, `lock` and `explain`: the gate for continuous integration."""

from __future__ import annotations

import codecs
import math
import os
import sys
import textwrap
import traceback
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Annotated, NamedTuple

import typer

from dpcalc.cli import options
from dpcalc.cli.options import GRACE, Request, announce_files, chosen_configs, costs_in_time, ended_after, given
from dpcalc.cli.output import INTERRUPTED, CommandResult, on_terminal, styled_text, width
from dpcalc.config.files import create, exclusive_lock, is_device, save, send
from dpcalc.config.source import ConfigError, Severity, git_root, leaves_repository, open_regular, visible
from dpcalc.errors import FIX_INPUT, InputError, OutOfTimeError, nearest, system_message
from dpcalc.gate import check as judging
from dpcalc.gate.check import Lock, lock_path, missing_configs, read_lock, read_or_new_lock, updated_lock
from dpcalc.gate.diff import cases
from dpcalc.gate.policy import Loss, Policy, effective_policy, find_scope, with_scope_problems
from dpcalc.gate.verdict import Result, Verdict
from dpcalc.report.gate import REPORTS, GateAnswer
from dpcalc.report.rules import RULES, rule_address, rules_page

KNOWN_BYTES = 4096
"""Bytes at the beginning and at the end by which an earlier report is recognised: nothing else of it is read."""
EXIT_CODES = {Verdict.PASSED: 0, Verdict.FAILED: 1, Verdict.INVALID: 2, Verdict.UNDECIDED: 3}
SUMMARY = "GITHUB_STEP_SUMMARY"


class Report(NamedTuple):
    """A report to write: a name in REPORTS, and the file, None for standard output."""

    format: str
    path: str | None

    def refusal(self, sentence: str) -> InputError:
        return InputError(f"--report {self.format}={self.path}: {sentence}")


def reports(texts: Sequence[str], *, as_json: bool) -> tuple[Report, ...]:
    """Return the reports to write, the printed one last, after deleting earlier reports at their paths."""
    chosen = []
    for text in texts:
        name, _, file = text.partition("=")
        if name not in REPORTS:
            raise InputError(f"--report: expected one of {', '.join(REPORTS)}, got `{name}`")
        chosen.append(Report(name, None if file in {"", "-"} else file))
    if as_json:
        chosen.append(Report("json", None))
    printed = [report for report in chosen if report.path is None]
    if len(printed) > 1:
        names = " and ".join(report.format for report in printed)
        raise InputError(f"--report: expected at most one on standard output, got {names}; give the others =PATH")
    # By file, not by name: two names of one file would overwrite each other.
    paths = [os.path.realpath(report.path) for report in chosen if report.path is not None]
    if len(set(paths)) < len(paths):
        twice = next(each for each in paths if paths.count(each) > 1)
        raise InputError(f"--report: expected a file for each report, got two for {twice}")
    # Before anything is computed: a run that crashes must not leave yesterday's verdict.
    for report in chosen:
        if report.path is None:
            continue
        path = Path(report.path)
        try:
            # Outside a repository /dev/stdout is such a link: where standard output is a file, it would be replaced.
            if git_root(Path(os.path.abspath(path)).parent) is not None:
                if path.is_symlink() or leaves_repository(str(path)):
                    raise report.refusal("expected a file inside the repository, got a symbolic link; remove the link")
            elif path.is_symlink() and not is_device(str(path)):
                raise report.refusal(
                    "expected a file or a device, got a symbolic link to a file; name the file, or leave PATH out for "
                    "standard output"
                )
            if not path.is_file():  # devices and pipes are written to
                continue
        except OSError as error:
            raise report.refusal(f"cannot write it: {system_message(error)}") from error
        if not _is_report(str(path)):
            raise report.refusal(
                "expected a new file or an earlier report of dpcalc, got another file; choose another name"
            )
        with suppress(OSError):  # if it cannot be removed, writing fails with a message
            path.unlink()
    return (*(report for report in chosen if report.path is not None), *(printed or [Report("text", None)]))


def _is_report(path: str) -> bool:
    """Return True if a file is empty or an earlier report, by its beginning and its end; False if it cannot be read."""
    try:
        with open_regular(path) as stream:
            start = stream.read(KNOWN_BYTES)
            stream.seek(max(0, os.fstat(stream.fileno()).st_size - KNOWN_BYTES))
            end = stream.read(KNOWN_BYTES)
        # The cut may fall into a character, at the end of the one and the beginning of the other.
        beginning = codecs.getincrementaldecoder("utf-8")().decode(start)
    except (ConfigError, OSError, UnicodeDecodeError):
        return False
    ending = end.decode("utf-8", errors="ignore")
    return not start or any(form.is_report(beginning, ending) for form in REPORTS.values())


def gate_answer(
    command: str, results: Sequence[Result], *, reports: Sequence[Report], verbose: bool, exit_zero: bool = False
) -> CommandResult:
    """Write the report files, and return the printed report; exit code of the worst verdict, >= 2 if a file fails.

    With `exit_zero` the code is 0 in the place of 1. With a report for GitHub, Markdown is appended to the workflow's
    step summary too. Asides have the tracebacks, on request.
    """
    levels = set(Severity) if verbose else {Severity.ERROR, Severity.WARNING}
    gate = GateAnswer(command=command, results=results, levels=levels, locate=_path_from_top)
    code = EXIT_CODES[gate.verdict]
    asides, changed = [], []
    if os.environ.get("DPCALC_TRACEBACK"):
        causes = [result.cause for result in results if result.verdict is Verdict.UNDECIDED and result.cause]
        asides += ["".join(traceback.format_exception(cause)).rstrip() for cause in causes]
    *files, printed = reports
    for report in files:
        path = str(report.path)
        data = REPORTS[report.format].text(gate).encode("utf-8", errors="backslashreplace")
        try:
            if Path(path).exists() and not Path(path).is_file():
                send(path, data)
            else:
                create(path, data, replaces=True)
            changed.append(path)
        except (InputError, OSError) as error:  # the verdict is known: say it all the same
            cause = system_message(error).removeprefix(f"{path}: cannot be written: ")
            asides.append(f"error: {report.refusal(f'cannot write it: {cause}')}")
            code = max(code, FIX_INPUT)
    summary = os.environ.get(SUMMARY)
    if summary and any(report.format == "github" for report in reports):
        try:
            with Path(summary).open("a", encoding="utf-8") as stream:  # other steps of the job write there too
                stream.write(REPORTS["markdown"].text(gate))
        except OSError as error:
            asides.append(f"warning: {SUMMARY}: cannot write it: {system_message(error)}")
    written = REPORTS[printed.format]
    text = written.text(gate)
    if written.for_people and sys.stdout is not None:
        text = styled_text(text, sys.stdout)
    code = 0 if exit_zero and code == 1 else code
    return CommandResult(text=text, code=code, asides=tuple(asides), changed=tuple(changed))


def _path_from_top(path: str) -> str:
    """Return a path relative to the top of the current git repository; unchanged if it is outside."""
    root = git_root(Path.cwd())
    place = Path(os.path.abspath(path))
    return place.relative_to(root).as_posix() if root is not None and place.is_relative_to(root) else path


# `dpcalc check`, `diff`, `validate`, `lock` and `explain`: the gate for continuous integration.


def check(
    request: Request,
    configs: options.Configs = None,
    *,
    report: options.Reports = None,
    as_json: options.Json = False,
    base: options.Base = None,
    against: Annotated[
        str | None, given("FILE", "Compare with this config, not with a revision: `check --against OLD.yaml -`.")
    ] = None,
    allow_budget_change: Annotated[
        bool,
        typer.Option("--allow-budget-change", help="Allow a higher budget, or a weaker promise, than in the base."),
    ] = False,
    policy: Annotated[
        str | None, given("FILE", "A policy in TOML.", show_default="[tool.dpcalc.policy] of pyproject.toml")
    ] = None,
    max_epsilon: options.MaxEpsilon = None,
    require_budget: Annotated[bool, typer.Option("--require-budget", help="Fail a config without a budget.")] = False,
    locked: Annotated[bool, typer.Option("--locked", help="Fail a config that differs from dpcalc.lock.")] = False,
    strict: Annotated[bool, typer.Option("--strict", help="Warnings fail too.")] = False,
    allow_empty: Annotated[bool, typer.Option("--allow-empty", help="Pass when there is no config to check.")] = False,
    exit_zero: options.ExitZero = False,
    timeout: options.Timeout = options.GATE_SECONDS,
    memory_limit: options.MemoryLimit = options.GIGABYTES,
    verbose: options.Verbose = False,
) -> CommandResult:
    """Check that every config stays within its budget.

    Exit code 0: all do. 1: one does not. 2: an input must be fixed. 3: there is no verdict. Of several, the highest.

    Example: dpcalc check configs/*.yaml --base origin/main --report github --report sarif=dpcalc.sarif
    """
    with costs_in_time(timeout, memory_limit) as costs:
        chosen_reports = reports(report or (), as_json=as_json)
        if against and (base or not configs):
            raise InputError("--against: expected CONFIG beside it and no --base, as in `check --against OLD.yaml -`")
        own = Policy(max_epsilon=max_epsilon, require_budget=require_budget, strict=strict)
        demanded = own.combined_with(effective_policy(policy, Path.cwd(), base or ""))
        held = read_lock(lock_path(Path.cwd())) if locked else None
        paths, losses = _announced_scope(configs, base)

        def judged() -> Sequence[Result]:
            return judging.check(
                paths,
                costs=costs,
                reader=request.reader(base=base, against=against),
                policy=demanded,
                allow_budget_change=allow_budget_change,
                lock=held,
                config_args=configs or None,
                lower_bounds=any(report.format == "json" for report in chosen_reports),
            )

        try:
            results = judged()
        except KeyboardInterrupt:
            costs.stop()
            results = judged()
            finished = [result for result in results if not isinstance(result.cause, OutOfTimeError)]
            if not finished:
                raise
            answer = gate_answer("check", finished, reports=reports((), as_json=False), verbose=verbose)
            note = f"interrupted: {len(finished)} of {len(results)} files are finished; no report was written"
            return replace(answer, code=INTERRUPTED, asides=(*answer.asides, note))
        severity = Severity.NOTE if allow_budget_change else Severity.ERROR
        results = with_scope_problems(results, losses, severity=severity, strict=demanded.strict)
        if not results and not allow_empty:
            raise InputError(f"nothing to check: {_nothing_found(base)}, or pass --allow-empty")
        return gate_answer("check", results, reports=chosen_reports, verbose=verbose, exit_zero=exit_zero)


def _announced_scope(configs: Sequence[str] | None, base: str | None) -> tuple[Sequence[str], Sequence[Loss]]:
    """Announce and return the configs to judge, also those that only `base` finds, and what is lost since then."""
    paths, patterns = chosen_configs(configs)
    scope = find_scope(paths, patterns=patterns, base=base or "", folder=Path.cwd())
    announce_files(scope[0])
    return scope


def _nothing_found(base: str | None) -> str:
    """Return the message "expected one or more config files, got none: ...", with the places that were searched."""
    where = f"here or in {base}" if base else "here"
    return (
        f"expected one or more config files, got none: there is no dpcalc.yaml or dpcalc.yml {where}, up to the top of "
        "the repository, and no `configs = [PATTERN, ...]` below [tool.dpcalc] in pyproject.toml; name files, or a "
        "pattern in quotes such as 'configs/*.yaml'"
    )


def diff(
    request: Request,
    configs: Annotated[
        list[str] | None, typer.Argument(metavar="OLD NEW", help="Two configs, or with --base any number.")
    ] = None,
    *,
    base: options.Base = None,
    report: options.Reports = None,
    as_json: options.Json = False,
    exit_zero: options.ExitZero = False,
    timeout: options.Timeout = options.GATE_SECONDS,
    memory_limit: options.MemoryLimit = options.GIGABYTES,
    verbose: options.Verbose = False,
) -> CommandResult:
    """Compare the privacy cost of a config before and after a change, key by key.

    Exit code 1: epsilon increases, a budget is raised, or a promise becomes weaker. `check` compares with the budget.

    Example: dpcalc diff configs/clinic.yaml --base origin/main
    """
    with costs_in_time(timeout, memory_limit) as costs:
        chosen_reports = reports(report or (), as_json=as_json)
        if not base and (configs is None or len(configs) != 2):
            raise InputError(f"diff: expected two configs, or --base REV, got {len(configs or ())} and no --base")
        paths, losses = _announced_scope(configs, base) if base else ((configs or [])[1:], ())
        reader = request.reader(base=base, against=None if base else (configs or [""])[0])
        results = judging.diff(cases(paths, reader), costs=costs)
        results = with_scope_problems(results, losses, severity=Severity.WARNING)
        if not results:
            raise InputError(f"nothing to compare: {_nothing_found(base)}")
        return gate_answer("diff", results, reports=chosen_reports, verbose=verbose, exit_zero=exit_zero)


def validate(
    request: Request,
    configs: options.Configs = None,
    *,
    report: options.Reports = None,
    as_json: options.Json = False,
    timeout: options.Timeout = options.GATE_SECONDS,
    verbose: options.Verbose = False,
) -> CommandResult:
    """Check that configs are well-formed, and list all errors.

    Nothing is computed. Exit code 0: there are none. 2: an input must be fixed.

    Example: dpcalc validate configs/*.yaml
    """
    with ended_after(math.inf if timeout is None else timeout, GRACE):
        paths, _ = chosen_configs(configs)
        if not paths:
            raise InputError(f"nothing to validate: {_nothing_found(None)}")
        chosen_reports = reports(report or (), as_json=as_json)
        results = judging.validate(paths, reader=request.reader())
        return gate_answer("validate", results, reports=chosen_reports, verbose=verbose)


def lock(
    request: Request,
    configs: options.Configs = None,
    *,
    check: Annotated[bool, typer.Option("--check", help="Write nothing; exit 1 if something would change.")] = False,
    as_json: options.Json = False,
    timeout: options.Timeout = options.GATE_SECONDS,
    memory_limit: options.MemoryLimit = options.GIGABYTES,
    verbose: options.Verbose = False,
) -> CommandResult:
    """Record what configs mean and cost in dpcalc.lock; nothing is written unless every config has a cost.

    `check --locked` compares with it. With CONFIG, entries of other configs stay. Without it, the configs that dpcalc
    finds, or else those in dpcalc.lock, are recorded, and other entries are removed. Budgets are for `check`.

    Example: dpcalc lock configs/*.yaml
    """
    with costs_in_time(timeout, memory_limit) as costs:
        paths, _ = chosen_configs(configs)
        old_lock = read_or_new_lock(lock_path(Path.cwd()))
        reader = request.reader()
        files = [(path, reader.key) for path in paths] or old_lock.config_files(reader.key)
        if not files and not old_lock.entries:
            raise InputError("nothing to lock: expected one or more configs, got none, and dpcalc.lock holds none")
        announce_files([path for path, _ in files])
        locked = tuple(case for path, key in files for case in cases([path], replace(reader, key=key)))
        results, new_lock = updated_lock(locked, old_lock, costs=costs)
    printed = (Report("json" if as_json else "text", None),)
    if check:
        results = (*results, *missing_configs(locked, old_lock, config_args=configs or None))
        return gate_answer("lock", results, reports=printed, verbose=verbose)

    # What differs has not failed: the new lock records it.
    results = tuple(
        replace(result, verdict=Verdict.PASSED, problems=()) if result.verdict is Verdict.FAILED else result
        for result in results
    )
    answer = gate_answer("lock", results, reports=printed, verbose=verbose)
    shown = visible(os.path.relpath(new_lock.path))
    if any(result.verdict is not Verdict.PASSED for result in results):
        return replace(answer, asides=(*answer.asides, f"error: {shown} is not written: not every config has a cost"))
    path, names = new_lock.path, {old_lock.entry_name(case.new) for case in locked if case.new is not None}
    new = {name: entry for name, entry in new_lock.entries.items() if name in names}
    removed = set() if configs else old_lock.entries.keys() - names
    # Entries are read again under the lock: another process may have written some since the configs were judged.
    with exclusive_lock(path):
        entries = read_or_new_lock(Path(path)).entries
        others = {name: entry for name, entry in entries.items() if name not in removed}
        data = Lock(path=path, entries=others | new).text().encode()
        if not create(path, data):
            save(path, data)
    notes = [f"note: removed the entry of {visible(name)}" for name in sorted(removed)]
    return replace(answer, asides=(*answer.asides, *notes, f"wrote {shown}"), changed=(path,))


def explain(
    code: Annotated[
        str | None,
        typer.Argument(
            metavar="CODE",
            help="The code of a finding, e.g. DPC101. Without it all rules are listed.",
            autocompletion=lambda incomplete: [code for code in RULES if code.startswith(incomplete.upper())],
        ),
    ] = None,
    *,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print all rules in full, as docs/rules.md.")] = False,
) -> CommandResult:
    """Explain a rule: what it checks, why, and how to fix it.

    Example: dpcalc explain DPC404
    """
    if markdown:
        return CommandResult(text=rules_page())
    if code is None:
        return CommandResult(text="".join(f"{each}  {rule.title}\n" for each, rule in RULES.items()))
    name = f"DPC{code.strip().upper().removeprefix('DPC')}"
    if name not in RULES:
        near = nearest(name, RULES) if any(character.isdigit() for character in name) else ""
        way_out = f"did you mean {near}?" if near else "`dpcalc explain` lists all"
        raise InputError(f"explain: expected the code of a rule, got `{code}`; {way_out}")
    rule = RULES[name]
    paragraphs = [f"{name}: {rule.title}", rule.rule, f"Why: {rule.reason}", f"Fix: {rule.fix}"]
    paragraphs += [rule_address(name)] if rule_address(name) else []
    if on_terminal():
        paragraphs = [
            textwrap.fill(each, width(), break_long_words=False, break_on_hyphens=False) for each in paragraphs
        ]
    return CommandResult(text="\n\n".join(paragraphs) + "\n")
