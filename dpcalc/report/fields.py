"""Results declared once, as fields; JSON, `key: value` lines and the rows of a terminal are derived from them.

JSON (`dpcalc.result/1`, in which fields are only ever added) has the fields in the order of declaration, numbers
unrounded, infinity as null; NaN is refused. Plain lines have the same names, numbers rounded to the safe side. A
terminal shows the fields that have a label.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import KW_ONLY, replace
from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple

from dpcalc._version import __version__
from dpcalc.config.source import ConfigError, Diagnostic, visible
from dpcalc.errors import NO_VERDICT, no_verdict_reason
from dpcalc.records import dataclass
from dpcalc.report.rounding import as_given

if TYPE_CHECKING:
    from dpcalc.config.load import Loaded

SCHEMA = "dpcalc.result/1"
_RUNNER_COMMAND = re.compile(r"##(?=\w*\[)")  # a line `##vso[...]` of a log that a CI runner would execute


class Section(IntEnum):
    """Parts of a result in the order in which plain lines and a terminal show them; JSON has its own order."""

    RUN = 0
    UNIT = 1
    TRAINING = 2
    BOUND = 3
    DETAILS = 4
    ASSUMPTIONS = 5
    BUDGET = 6
    LAST = 7


@dataclass(frozen=True)
class Field:
    """A field of a result, for all forms.

    Attributes:
        name: name in JSON and in plain lines; a plain line has the names of the objects around it before it, with dots.
        value: None, a bool, number or text; a tuple of fields for an object; a list of these or of dicts.
        rounding: turns a float into text on the side that is safe for it; unrounded by default.
        plain: text of the plain line in the place of the value's own, or one text a line; "" for no line.
        label: name of the row on a terminal; "" for no row.
        row: text of the row in the place of that of the plain line, or one text a row; "" for no row.
        section: place of lines and rows.
        verbose: True for a row that only `-v` shows.
        in_json: False for a field that JSON does not have.
        is_inline: True for an object whose name plain lines leave out.
    """

    name: str
    value: object = None
    _: KW_ONLY
    rounding: Callable[[float], str] = as_given
    plain: str | tuple[str, ...] | None = None
    label: str = ""
    row: str | tuple[str, ...] | None = None
    section: Section = Section.BOUND
    verbose: bool = False
    in_json: bool = True
    is_inline: bool = False

    def texts(self) -> tuple[str, ...]:
        """Return the texts of the plain lines ("" makes none): `plain`, or else one for the value or each list item."""
        if self.plain is not None:
            return (self.plain,) if isinstance(self.plain, str) else self.plain
        texts = []
        for value in self.value if isinstance(self.value, list) else [self.value]:
            match value:
                case None:
                    texts.append("")
                case bool():
                    texts.append(yes_no(value))
                case float():
                    texts.append(self.rounding(value))
                case _:
                    texts.append(visible(str(value)))
        return tuple(texts)

    def rows(self) -> Iterator[tuple[Field, str]]:
        """Yield (field, text) for each terminal row of this field, then for those of the fields in its value."""
        inner = self.value if isinstance(self.value, tuple) else ()
        if self.label:
            row = () if self.row is None and isinstance(self.value, tuple) else self.row
            texts = self.texts() if row is None else (row,) if isinstance(row, str) else row
            yield from ((self, text) for text in texts if text)
        for field in inner:
            yield from field.rows()


Fields = tuple[Field, ...]


def json_only(name: str, value: object) -> Field:
    """Return a field that is in JSON alone."""
    return Field(name, value, plain="")


def plain_only(name: str, text: str | tuple[str, ...], section: Section = Section.BOUND) -> Field:
    """Return a field that has only plain lines, one for each text."""
    return Field(name, plain=text, section=section, in_json=False)


def terminal_only(label: str, text: str | tuple[str, ...], section: Section = Section.BOUND) -> Field:
    """Return a field that has only rows on a terminal, one for each text, none for ""."""
    return Field("", plain="", label=label, row=text, section=section, in_json=False)


def verbose_only(label: str, text: str | tuple[str, ...]) -> Field:
    """Return a field that has only rows among the details, which `-v` shows."""
    return replace(terminal_only(label, text, Section.DETAILS), verbose=True)


@dataclass(frozen=True, kw_only=True)
class Table:
    """A table of texts, numbers rounded to the safe side; columns are named as in JSON, the last one holds notes."""

    headline: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, kw_only=True)
class Output:
    """The result of a command, in every form.

    Attributes:
        command: its name.
        headline: the result in one line, the first one on a terminal.
        fields: the result.
        blocks: what plain lines print in the place of all fields, an empty line between two blocks; () for no blocks.
        table: what a terminal draws in the place of headline and rows, or None.
        quiet_text: whole lines for `--quiet`.
    """

    command: str
    headline: str = ""
    fields: Fields
    blocks: tuple[Fields, ...] = ()
    table: Table | None = None
    quiet_text: str = ""

    def json_text(self) -> str:
        """Return the result as one JSON document; ValueError for NaN."""
        return json_document(self.command, self.fields)

    def plain_text(self) -> str:
        """Return a `key: value` line for each field that has a text, in blocks if there are several."""
        blocks = self.blocks or (self.fields,)
        return "\n".join("".join(f"{key}: {text}\n" for key, text in plain_lines(fields)) for fields in blocks)

    def rows(self, *, verbose: bool = False) -> tuple[tuple[str, str], ...]:
        """Return (label, text) of each row on a terminal, section by section; with `verbose` also those of `-v`."""
        rows = [pair for field in self.fields for pair in field.rows() if verbose or not pair[0].verbose]
        return tuple((field.label, text) for field, text in sorted(rows, key=lambda pair: pair[0].section))


def plain_lines(fields: Fields, prefix: str = "") -> Iterator[tuple[str, str]]:
    """Yield (name, text) for each plain line by section; a name has "OBJECT." of each object that is not inline."""
    # A stable sort: fields of one section stay in the order of their declaration.
    for field in sorted(fields, key=lambda field: field.section):
        if field.plain is None and isinstance(field.value, tuple):
            yield from plain_lines(field.value, prefix if field.is_inline else f"{prefix}{field.name}.")
        else:
            yield from ((prefix + field.name, text) for text in field.texts() if text)


def cells(fields: Fields, columns: Sequence[str]) -> tuple[str, ...]:
    """Return the text of the plain line (the last of several) that each dotted name has, "" where there is none."""
    texts = dict(plain_lines(fields))
    return tuple(texts.get(column, "") for column in columns)


# JSON


def json_document(command: str, fields: Fields) -> str:
    """Return the result as indented JSON, infinity as null, no line a command to a CI runner; ValueError for NaN."""
    head = Field("schema", SCHEMA), Field("version", __version__), Field("command", command)
    text = json.dumps(_json_value((*head, *fields)), indent=2, allow_nan=False)
    return _RUNNER_COMMAND.sub(r"\\u0023#", text) + "\n"  # parsers read the escape as the same text


def _json_value(value: object) -> object:
    """Return a tuple of fields as a dict, infinity as None, a list item by item, and all else (dicts too) unchanged."""
    match value:
        case tuple():
            return {field.name: _json_value(field.value) for field in value if field.in_json}
        case list():
            return [_json_value(each) for each in value]
        # JSON has no infinity; a field `finite` beside it tells infinite from unknown.
        case float() if math.isinf(value):
            return None
        case _:
            return value


def diagnostic_fields(diagnostics: Iterable[Diagnostic]) -> list[dict[str, object]]:
    """Return a JSON dict for each finding: code, level, message, hint, path, line and column (from 1, or None)."""
    return [
        {
            "code": finding.code,
            "level": str(finding.severity),
            "message": finding.message,
            "hint": finding.hint,
            "path": finding.path,
            "line": finding.line,
            "column": finding.column,
        }
        for finding in diagnostics
    ]


def config_field(loaded: Loaded) -> Field:
    """Return the inline object `config` with its path, in JSON only, and its name, the terminal row "run"."""
    name = Field("name", loaded.plan.name, label="run", section=Section.RUN)
    return Field("config", (json_only("path", loaded.path), name), section=Section.RUN, is_inline=True)


def origin_fields(loaded: Loaded) -> Fields:
    """Return `diagnostics`, a dict for each finding, and `config_hash` of a config, both for JSON alone."""
    return (
        json_only("diagnostics", diagnostic_fields(loaded.diagnostics)),
        json_only("config_hash", loaded.config_hash),
    )


class ReportedError(NamedTuple):
    """An exception with its message on standard error and its exit code, which `dpcalc.errors.diagnosis` returns."""

    error: Exception
    message: str
    exit_code: int


def error_field(errors: Sequence[ReportedError]) -> Field:
    """Return the field `error` for JSON: exit code and rule of the gravest error, all messages, and config findings.

    A script that reads JSON gets the same facts as a person does, at the same places of the file.
    """
    worst = max(errors, key=lambda each: each.exit_code)
    if worst.exit_code == NO_VERDICT:
        code = no_verdict_reason(worst.error).code
    else:
        code = worst.error.diagnostics[0].code if isinstance(worst.error, ConfigError) else "DPC104"
    located = [finding for each in errors if isinstance(each.error, ConfigError) for finding in each.error.diagnostics]
    fields = (
        Field("exit_code", worst.exit_code),
        Field("code", code),
        Field("message", "\n".join(each.message.removeprefix("error: ") for each in errors)),
        Field("findings", diagnostic_fields(located)),
    )
    return json_only("error", fields)


def yes_no(value: bool) -> str:
    """Return "yes" or "no"."""
    return "yes" if value else "no"
