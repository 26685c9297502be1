"""Reports of gates (`--report FORMAT[=PATH]`), and the end of every gate command."""

from __future__ import annotations

import codecs
import os
import sys
import traceback
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from dpcalc.cli import options
from dpcalc.cli.output import CommandResult, styled_text
from dpcalc.config.files import is_device, send, write_or_replace
from dpcalc.config.repository import git_root, leaves_repository
from dpcalc.config.source import ConfigError, Severity, open_regular
from dpcalc.errors import FIX_INPUT, InputError, system_message
from dpcalc.gate.verdict import Limit, Result, Verdict
from dpcalc.records import dataclass
from dpcalc.report.formats import REPORTS, report_format
from dpcalc.report.gate import GateAnswer

KNOWN_BYTES = 4096
"""Bytes at the beginning and at the end by which an earlier report is recognised: nothing else of it is read."""


@dataclass(frozen=True, kw_only=True)
class Report:
    """A report to write.

    Attributes:
        format: a name in REPORTS.
        path: the file, or None for standard output.
    """

    format: str
    path: str | None = None

    def clear(self) -> None:
        """Delete an earlier report at the path, but no device; InputError for a link or for any other file."""
        if self.path is None:
            return
        try:
            self._refuse_links(Path(self.path))
            if not Path(self.path).is_file():  # devices and pipes are written to
                return
        except OSError as error:
            raise self._refusal(f"cannot write it: {system_message(error)}") from error
        if not _is_report(self.path):
            raise self._refusal(
                "expected a new file or an earlier report of dpcalc, got another file; choose another name"
            )
        with suppress(OSError):  # if it cannot be removed, writing fails with a message
            Path(self.path).unlink()

    def write(self, text: str) -> None:
        """Write the report to its file, device or pipe, unless it is to be printed; InputError if that fails."""
        if self.path is None:
            return
        data = text.encode("utf-8", errors="backslashreplace")
        try:
            if Path(self.path).exists() and not Path(self.path).is_file():
                send(self.path, data)
            else:
                write_or_replace(self.path, data)
        except InputError as error:
            raise self._refusal(
                f"cannot write it: {str(error).removeprefix(f'{self.path}: cannot be written: ')}"
            ) from None
        except OSError as error:
            raise self._refusal(f"cannot write it: {system_message(error)}") from error

    def _refuse_links(self, path: Path) -> None:
        """Raise InputError for a link or a path that leaves its repository; outside git only for a link to a file."""
        root = git_root(Path(os.path.abspath(path)).parent)
        if root is None:
            # /dev/stdout is such a link: where standard output is a file, the link itself would be replaced.
            if path.is_symlink() and not is_device(str(path)):
                raise self._refusal(
                    "expected a file or a device, got a symbolic link to a file; name the file, or leave PATH out for "
                    "standard output"
                )
        elif path.is_symlink() or leaves_repository(str(path)):
            raise self._refusal("expected a file inside the repository, got a symbolic link; remove the link")

    def _refusal(self, sentence: str) -> InputError:
        """Return the InputError "--report FORMAT=PATH: <sentence>"."""
        return InputError(f"--report {self.format}={self.path}: {sentence}")


def reports(texts: Sequence[str], *, as_json: bool) -> tuple[Report, ...]:
    """Return the reports to write, the printed one last, after deleting earlier reports at their paths."""
    chosen = [_report(text) for text in texts]
    if as_json:
        chosen.append(Report(format="json"))
    printed = [report for report in chosen if report.path is None] or [Report(format="text")]
    _refuse_shared_places(chosen)
    # Before anything is computed: a run that crashes must not leave yesterday's verdict.
    for report in chosen:
        report.clear()
    return (*(report for report in chosen if report.path is not None), *printed)


def _refuse_shared_places(chosen: Sequence[Report]) -> None:
    """Raise InputError if two reports go to standard output, or to one file (links followed)."""
    printed = [report for report in chosen if report.path is None]
    if len(printed) > 1:
        names = " and ".join(report.format for report in printed)
        raise InputError(f"--report: expected at most one on standard output, got {names}; give the others =PATH")
    # By file, not by name: two names of one file would overwrite each other.
    paths = [os.path.realpath(report.path) for report in chosen if report.path is not None]
    if len(set(paths)) < len(paths):
        twice = next(path for path in paths if paths.count(path) > 1)
        raise InputError(f"--report: expected a file for each report, got two for {twice}")


def _report(text: str) -> Report:
    """Return the report that `FORMAT[=PATH]` states, path None if it is printed; InputError if unknown."""
    name, _, path = text.partition("=")
    if name not in REPORTS:
        raise InputError(f"--report: expected one of {', '.join(REPORTS)}, got `{name}`")
    return Report(format=name, path=None if path in {"", "-"} else path)


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


def max_epsilon_limit(text: str | None) -> Limit | None:
    """Return `--max-epsilon` as a limit, None for None; InputError for no finite number >= 0."""
    value = options.number("--max-epsilon", text)
    return None if value is None else Limit(value=value, source="--max-epsilon")


# The end of every command that is a gate: reports, remarks, exit code.


EXIT_CODES = {Verdict.PASSED: 0, Verdict.FAILED: 1, Verdict.INVALID: 2, Verdict.UNDECIDED: 3}
SUMMARY = "GITHUB_STEP_SUMMARY"


def gate_answer(command: str, results: Sequence[Result], *, reports: Sequence[Report], verbose: bool) -> CommandResult:
    """Write the report files, and return the printed report; exit code of the worst verdict, >= 2 if a file fails.

    With a report for GitHub, Markdown is appended to the workflow's step summary too. Asides have the tracebacks.
    """
    levels = set(Severity) if verbose else {Severity.ERROR, Severity.WARNING}
    gate = GateAnswer(command=command, results=results, levels=levels, locate=_path_from_top)
    *files, printed = reports
    changed, failures = _write_files(files, gate)
    asides = (*_tracebacks(results), *failures)
    if any(report.format == "github" for report in reports):
        asides += _append_to_summary(gate)
    code = max(EXIT_CODES[gate.verdict], FIX_INPUT if failures else 0)
    return CommandResult(text=_printed_text(printed, gate), code=code, asides=asides, changed=changed)


def _write_files(files: Sequence[Report], gate: GateAnswer) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Write every report to its file, and return (paths written, an "error: ..." line for each other file)."""
    written, failures = [], []
    for report in files:
        try:
            report.write(report_format(report.format).text(gate))
            written.append(str(report.path))
        except InputError as error:  # the verdict is known: say it all the same
            failures.append(f"error: {error}")
    return tuple(written), tuple(failures)


def _printed_text(report: Report, gate: GateAnswer) -> str:
    """Return the text of the printed report, styled for the terminal if the format is for people."""
    written = report_format(report.format)
    text = written.text(gate)
    return styled_text(text, sys.stdout) if written.for_people and sys.stdout is not None else text


def _path_from_top(path: str) -> str:
    """Return a path relative to the top of the current git repository; unchanged if it is outside."""
    root = git_root(Path.cwd())
    place = Path(os.path.abspath(path))
    return place.relative_to(root).as_posix() if root is not None and place.is_relative_to(root) else path


def _append_to_summary(gate: GateAnswer) -> tuple[str, ...]:
    """Append the Markdown report to the file that GITHUB_STEP_SUMMARY names, if set; return () or (why it failed,)."""
    path = os.environ.get(SUMMARY)
    if not path:
        return ()
    try:
        # Appended, since other steps of the job write there too.
        with Path(path).open("a", encoding="utf-8") as summary:
            summary.write(report_format("markdown").text(gate))
    except OSError as error:
        return (f"warning: {SUMMARY}: cannot write it: {system_message(error)}",)
    return ()


def _tracebacks(results: Sequence[Result]) -> list[str]:
    """Return the tracebacks of undecided files, if DPCALC_TRACEBACK is set; else []."""
    if not os.environ.get("DPCALC_TRACEBACK"):
        return []
    causes = [result.cause for result in results if result.verdict is Verdict.UNDECIDED and result.cause]
    return ["".join(traceback.format_exception(cause)).rstrip() for cause in causes]
