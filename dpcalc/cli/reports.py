"""`--report FORMAT[=PATH]`: which formats are written, and where."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from dpcalc.errors import InputError, reason
from dpcalc.report import FORMATS


@dataclass(frozen=True, kw_only=True)
class Report:
    """One report to write.

    Attributes:
        format: a name in FORMATS.
        path: the file, or None for standard output.
    """

    format: str
    path: str | None = None

    def clear(self) -> None:
        """Take away the file of an earlier run: it does not speak for a run that ends without a report."""
        if self.path is not None and Path(self.path).is_file():
            with suppress(OSError):  # writing will tell
                Path(self.path).unlink()

    def write(self, text: str) -> None:
        """Write the report's file.

        Raises:
            InputError: if the file cannot be written.
        """
        if self.path is None:
            return
        try:
            Path(self.path).write_text(text, encoding="utf-8")
        except OSError as error:
            raise InputError(f"--report {self.format}={self.path}: cannot write it: {reason(error)}") from error


def reports(texts: Sequence[str], *, as_json: bool) -> tuple[Report, ...]:
    """The reports a user asked for; text on standard output unless another format goes there.

    Args:
        texts: values of `--report`.
        as_json: whether `--json`, short for `--report json`, was given.

    Returns:
        Reports, exactly one of them for standard output, which comes last; files of earlier runs are gone.

    Raises:
        InputError: if a format is unknown or two reports want standard output.
    """
    asked = [_report(text) for text in texts]
    if as_json:
        asked.append(Report(format="json"))
    spoken = [report for report in asked if report.path is None] or [Report(format="text")]
    if len(spoken) > 1:
        names = " and ".join(report.format for report in spoken)
        raise InputError(f"--report: expected at most one on standard output, got {names}; give the others =PATH")
    for report in asked:
        report.clear()
    return (*(report for report in asked if report.path is not None), *spoken)


def _report(text: str) -> Report:
    """One value of `--report`."""
    name, _, path = text.partition("=")
    if name not in FORMATS:
        raise InputError(f"--report: expected one of {', '.join(FORMATS)}, got `{name}`")
    return Report(format=name, path=None if path in {"", "-"} else path)
