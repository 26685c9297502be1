"""Reports of gates (`--report FORMAT[=PATH]`), and the end of every gate command."""

from __future__ import annotations

import codecs
import os
import sys
import traceback
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from dpcalc.cli.output import CommandResult, styled_text
from dpcalc.config.files import create, is_device, send
from dpcalc.config.source import ConfigError, Severity, git_root, leaves_repository, open_regular
from dpcalc.errors import FIX_INPUT, InputError, system_message
from dpcalc.gate.verdict import Result, Verdict
from dpcalc.report.formats import REPORTS, report_format
from dpcalc.report.gate import GateAnswer

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
    return not start or any(report_format(name).is_report(beginning, ending) for name in REPORTS)


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
        data = report_format(report.format).text(gate).encode("utf-8", errors="backslashreplace")
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
                stream.write(report_format("markdown").text(gate))
        except OSError as error:
            asides.append(f"warning: {SUMMARY}: cannot write it: {system_message(error)}")
    written = report_format(printed.format)
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
