"""The result of a command, a JSON dict and what people read of it; numbers rounded to the safe side.

A float is taken as the shortest decimal that denotes it (`2.02`, not `2.0200000000000000177...`) and rounded exactly
from there, so that the printed number, read back, lies on the promised side of the float.
"""

from __future__ import annotations

import csv
import io
import itertools
import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from dpcalc._version import __version__
from dpcalc.config.source import ConfigError, Diagnostic, visible
from dpcalc.errors import NO_VERDICT, no_verdict_reason
from dpcalc.records import dataclass

if TYPE_CHECKING:
    from dpcalc.config.load import Loaded

DIGITS = 3  # significant digits of a number for people
BARE_DIGITS = 6  # of the one number of `--quiet`
_MAX_DIGITS = 7  # digits before the point from which on a number is written with an exponent


def rounded_up(value: float | Fraction, *, digits: int = DIGITS, apart_from: float | None = None) -> str:
    """Return a number rounded up to 1 to 90 significant digits: read back as a float it is at least `value`.

    Near the limit `apart_from` more digits are used, until the rounding is smaller than the distance to it, so that the
    text shows the verdict; equal numbers print alike. A fraction is exact, infinity is "inf". ValueError for NaN.

    Example:
        >>> rounded_up(0.946867)
        '0.947'
        >>> rounded_up(1.9999, apart_from=2.0), rounded_up(2.00001, apart_from=2.0)
        ('1.9999', '2.00001')
        >>> rounded_up(Fraction(1, 3), digits=6)
        '0.333334'
    """
    if apart_from is None or not math.isfinite(apart_from) or not math.isfinite(value):
        return _shown(value, digits, ROUND_CEILING)
    return _text(_rounded_apart(_exact(value), _exact(apart_from), digits))


def rounded_down(value: float | Fraction, *, digits: int = DIGITS) -> str:
    """Return a number rounded down to 1 to 90 significant digits: read back as a float it is at most `value`.

    A fraction is exact, infinity is "inf". ValueError for NaN.

    Example:
        >>> rounded_down(0.946867)
        '0.946'
    """
    return _shown(value, digits, ROUND_FLOOR)


def rounded_up_within(value: float, limit: float) -> str:
    """Return an upper bound <= `limit` rounded up to three digits, or the limit, unrounded, where that is smaller.

    Example:
        >>> rounded_up_within(1.9968, 1.997), rounded_up_within(1.93, 2.0)
        ('1.997', '1.93')
    """
    # A solver promises its target: 1.9968 may not be printed as 2.00 where 1.997 was asked for.
    text = rounded_up(value)
    return text if Decimal(text) <= _exact(limit) else as_given(limit)


def before_and_after(before: float, after: float) -> str:
    """Return two upper bounds as "A -> B", rounded up, with enough digits to show which is larger."""
    return f"{rounded_up(before, apart_from=after)} -> {rounded_up(after, apart_from=before)}"


def percent_up(part: float, whole: float) -> str:
    """Return part / whole in percent, rounded up with enough digits to show on which side of 100 it lies.

    The part is finite and >= 0, the whole finite and > 0; "100" only if both are equal.

    Example:
        >>> percent_up(1.0, 3.0), percent_up(1.9999, 2.0)
        ('33.4', '99.995')
    """
    # 50 digits, rounded up: more than any float has, so that the quotient does not fall to the wrong side of 100.
    percent = Context(prec=50, rounding=ROUND_CEILING).divide(100 * _exact(part), _exact(whole))
    return _text(_rounded_apart(percent, Decimal(100), DIGITS))


def as_given(value: float) -> str:
    """Return a number unrounded: the shortest decimal that denotes it, with an exponent from ten million on.

    Infinity and NaN give "inf" and "nan".

    Example:
        >>> as_given(0.00001), as_given(2), as_given(1e9)
        ('1e-05', '2.0', '1e+9')
    """
    exact = _exact(value) if math.isfinite(value) else Decimal(0)
    return repr(float(value)) if exact.adjusted() < _MAX_DIGITS else format(exact.normalize(), "e")


def _shown(value: float | Fraction, digits: int, rounding: str) -> str:
    if math.isnan(value):
        raise ValueError("expected a number to print, got NaN")
    if math.isinf(value):
        return "inf" if value > 0 else "-inf"
    return _text(_rounded(_exact(value, rounding), digits, rounding))


def _exact(value: float | Fraction, rounding: str = ROUND_CEILING) -> Decimal:
    """Return a float as its shortest decimal, or a fraction rounded to 100 digits in the given direction."""
    if isinstance(value, Fraction):
        return Context(prec=100, rounding=rounding).divide(Decimal(value.numerator), Decimal(value.denominator))
    return Decimal(repr(float(value)))


def _rounded(exact: Decimal, digits: int, rounding: str) -> Decimal:
    """Return a decimal rounded to `digits` significant digits by a rounding mode of `decimal`; zero stays zero."""
    if not exact:
        return Decimal(0)
    quantum = Decimal(1).scaleb(exact.adjusted() - digits + 1)
    rounded = exact.quantize(quantum, rounding=rounding)
    if rounded.adjusted() > exact.adjusted():  # 9.999 became 10.00
        rounded = rounded.quantize(quantum.scaleb(1))
    return rounded


def _rounded_apart(exact: Decimal, limit: Decimal, digits: int) -> Decimal:
    """Return a number rounded up, with at least `digits` digits and enough to stay on its side of the limit.

    A number equal to the limit stays exact.
    """
    # Moved by less than the distance, a number stays on its side; this ends, for a decimal has finitely many digits.
    distance = abs(exact - limit)
    candidates = (_rounded(exact, count, ROUND_CEILING) for count in itertools.count(digits))
    return next(up for up in candidates if up == exact or up - exact < distance)


def _text(number: Decimal) -> str:
    """Return a decimal in plain notation from 0.0001 to below ten million, else with an exponent."""
    return format(number, "f") if -5 < number.adjusted() < _MAX_DIGITS else format(number, "e")


# The result of a command: a JSON dict, and what people read of it, `key: value` lines or rows of a terminal.
# JSON (`dpcalc.result/1`, in which fields are only ever added) has numbers unrounded, infinity as null; NaN is refused.
# Plain lines have the names of JSON, inner ones with "OBJECT." before them, and numbers rounded to the safe side. Rows
# of a terminal are (label, text). A line or row without a text is not printed.


SCHEMA = "dpcalc.result/1"
_RUNNER_COMMAND = re.compile(r"##(?=\w*\[)")  # a line `##vso[...]` of a log that a CI runner would execute
Json = dict[str, object]
Lines = list[tuple[str, str]]


@dataclass(frozen=True, kw_only=True)
class Table:
    """A table of texts, numbers rounded to the safe side; columns are named as in JSON, the last one holds notes."""

    headline: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True, kw_only=True)
class Output:
    """The result of a command, in every form."""

    command: str
    result: Mapping[str, object]  # what JSON has after schema, version and command
    headline: str = ""  # the first line on a terminal
    verdict: tuple[str, str] = ("", "")  # a part of the headline, and the style in which it stands out
    lines: Sequence[tuple[str, str]] = ()  # (key, text) of each plain line
    # in the place of lines, of several configs or the like; with empty lines between
    blocks: Sequence[Sequence[tuple[str, str]]] = ()
    rows: Sequence[tuple[str, str]] = ()  # (label, text) on a terminal
    table: Table | None = None  # drawn in the place of headline and rows
    quiet_text: str = ""  # whole lines for `--quiet`
    csv: str = ""  # in the place of the rows that follow from the result

    def json_text(self) -> str:
        return json_document(self.command, self.result)

    def plain_text(self) -> str:
        blocks = self.blocks or (self.lines,)
        return "\n".join("".join(f"{key}: {text}\n" for key, text in block if text) for block in blocks)

    def csv_text(self) -> str:
        """Return a row for each config, level or row of the result, its numbers in full, columns named as in JSON."""
        if self.csv:
            return self.csv
        found = list(_records(self.result))
        columns = list(dict.fromkeys(name for record in found for name in record))
        return csv_document([columns, *([cell(record.get(name, "")) for name in columns] for record in found)])

    def markdown_text(self) -> str:
        """Return what a terminal shows as Markdown: the headline, and a table with every text escaped."""
        shown = self.table or Table(
            headline=self.headline, columns=("", "", ""), rows=[(*row, "") for row in self.rows if row[1]]
        )
        stop = None if any(row[-1] for row in shown.rows) else -1  # without notes no column of them
        rows = [[*map(escaped, row[:stop])] for row in (shown.columns, *shown.rows)]
        rows.insert(1, ["---"] * len(rows[0]))
        return f"**{escaped(shown.headline)}**\n\n" + "".join(f"| {' | '.join(row)} |\n" for row in rows)

    def with_last(self, name: str, value: object, *, line: str, row: tuple[str, str]) -> Output:
        result = {**self.result, name: value}
        return replace(self, result=result, lines=[*self.lines, (name, line)], rows=[*self.rows, row])


def lines(values: Mapping[str, object], prefix: str = "", /, **texts: str | Callable[[float], str]) -> Lines:
    """Return a plain line for each value and for each item of a list; numbers are unrounded.

    `texts` has a text to put in the place of a value ("" for no line), or the rounding of a number.
    """
    found = []
    for name, stated in values.items():
        form = texts.get(name, as_given)
        for value in stated if isinstance(stated, list) else [stated]:
            match value:
                case _ if isinstance(form, str):
                    text = form
                case None:
                    text = ""
                case bool():
                    text = yes_no(value)
                case float():
                    text = form(value)
                case _:
                    text = visible(str(value))
            found.append((prefix + name, text))
    return found


def cells(block: Sequence[tuple[str, str]], columns: Sequence[str]) -> tuple[str, ...]:
    """Return the text of the plain line (the last of several) that each key has, "" where there is none."""
    texts = dict(block)
    return tuple(texts.get(column, "") for column in columns)


def yes_no(value: bool) -> str:
    return "yes" if value else "no"


# CSV and Markdown


_LISTS = ("configs", "units", "rows")  # of results with several rows
_BARE = {"config", "guarantee", "risk"}  # objects whose names plain lines leave out too
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def csv_document(rows: Iterable[Iterable[str]]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()


def cell(text: str) -> str:
    """Return a text as a CSV cell that no spreadsheet runs as a formula; control characters are escaped."""
    # A spreadsheet runs a cell that begins with one of these as a formula, also one from a hostile config.
    # An apostrophe makes it a text. Negative numbers begin with a minus and are left alone.
    shown = visible(text)
    if not text.startswith(_FORMULA):
        return shown
    try:
        float(text)
    except ValueError:
        return f"'{shown}"
    return shown if text.isprintable() else f"'{shown}"


def _records(result: Mapping[str, object]) -> Iterator[dict[str, str]]:
    """Yield the values of each row of a result, with those that all its rows share; no lists."""
    inner = next((name for name in _LISTS if isinstance(result.get(name), list)), "")
    shared = dict(_flat(result, ""))
    rows: Any = result[inner] if inner else [{}]
    for row in rows:
        yield from (shared | record for record in _records(row)) if row else (shared,)


def _flat(values: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, str]]:
    for name, value in values.items():
        match value:
            case Mapping():
                yield from _flat(value, prefix if name in _BARE else f"{prefix}{name}.")
            case list() | tuple():
                pass
            case None:
                yield prefix + name, ""
            case bool():
                yield prefix + name, yes_no(value)
            case float():
                yield prefix + name, repr(value)
            case _:
                yield prefix + name, str(value)


_SPECIAL = re.compile(r"[\\`*\[\]<#|~&$]|(?<![0-9A-Za-z])_|_(?![0-9A-Za-z])|(?<=:)/(?=/)")
_HOST = re.compile(r"(?i)www(?=\.)")


def escaped(text: str) -> str:
    """Return a text escaped for Markdown: no markup, no link, no HTML, no @mention."""
    # A comment breaks a mention, or the name of a host of which GitHub makes a link, and no reader sees it; Markdown
    # has no escape for them.
    return _HOST.sub(r"\g<0><!-- -->", _SPECIAL.sub(r"\\\g<0>", text).replace("@", "@<!-- -->"))


# JSON


def json_document(command: str, result: Mapping[str, object]) -> str:
    """Return the result as indented JSON, infinity as null, no line a command to a CI runner; ValueError for NaN."""

    # JSON has no infinity; a field `finite` beside it tells infinite from unknown.
    def finite(value: object) -> object:
        match value:
            case dict():
                return {name: finite(each) for name, each in value.items()}
            case list():
                return list(map(finite, value))
            case float() if math.isinf(value):
                return None
            case _:
                return value

    head = {"schema": SCHEMA, "version": __version__, "command": command}
    text = json.dumps(finite({**head, **result}), indent=2, allow_nan=False)
    return _RUNNER_COMMAND.sub(r"\\u0023#", text) + "\n"  # parsers read the escape as the same text


def diagnostics_json(diagnostics: Iterable[Diagnostic]) -> list[Json]:
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


def config_json(loaded: Loaded) -> Json:
    return {"path": loaded.path, "name": loaded.plan.name}


def origin_json(loaded: Loaded) -> Json:
    return {"diagnostics": diagnostics_json(loaded.diagnostics), "config_hash": loaded.config_hash}


def config_output(command: str, loaded: Loaded, result: Json, lines: Lines, **forms: Any) -> Output:
    """Return a result on one config: the name of the config comes first, what was found in it and its hash last."""
    return Output(
        command=command,
        result={"config": config_json(loaded), **result, **origin_json(loaded)},
        lines=[("name", visible(loaded.plan.name)), *lines],
        **forms,
    )


def error_json(errors: Sequence[tuple[Exception, str, int]]) -> Json:
    """Return exit code and rule of the gravest of (exception, message, exit code), all messages and findings."""
    worst, _, exit_code = max(errors, key=lambda each: each[2])
    code = worst.diagnostics[0].code if isinstance(worst, ConfigError) else "DPC104"
    if exit_code == NO_VERDICT:
        code, _ = no_verdict_reason(worst)
    located = [finding for each, _, _ in errors if isinstance(each, ConfigError) for finding in each.diagnostics]
    error = {
        "exit_code": exit_code,
        "code": code,
        "message": "\n".join(message.removeprefix("error: ") for _, message, _ in errors),
        "findings": diagnostics_json(located),
    }
    return {"error": error}
