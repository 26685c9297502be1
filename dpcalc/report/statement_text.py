"""Statements as plain text and as Markdown."""

import re
import textwrap
from collections.abc import Iterator

from dpcalc.report.statement import Section, StatementView

_SPECIAL = re.compile(r"[\\`*\[\]<#|~&$]|(?<![0-9A-Za-z])_|_(?![0-9A-Za-z])|(?<=:)/(?=/)")
LABELS = 22  # columns of the longest label


def statement_text(view: StatementView, *, width: int = 80) -> str:
    """A statement as plain text.

    Args:
        view: what is stated.
        width: columns.

    Returns:
        Lines of at most `width` columns where words allow; nothing is cut.
    """
    lines = [view.title, "=" * min(len(view.title), width)]
    for section in view.sections:
        lines += ["", section.heading, *_section(section, width)]
    return "".join(f"{line}\n" for line in lines)


def _section(section: Section, width: int) -> Iterator[str]:
    """The lines of a section."""
    for paragraph in section.prose:
        yield from _wrapped(paragraph, width, "  ", "  ")
    for label, text in section.rows:
        yield from _wrapped(text, width, f"  {label:<{LABELS}}", " " * (LABELS + 2))
    for point in section.points:
        yield from _wrapped(point, width, "  - ", "    ")


def _wrapped(text: str, width: int, first: str, others: str) -> list[str]:
    """A paragraph in lines; words are not cut."""
    return textwrap.wrap(
        text, width, initial_indent=first, subsequent_indent=others, break_long_words=False, break_on_hyphens=False
    ) or [first.rstrip()]


def statement_markdown(view: StatementView) -> str:
    """A statement as Markdown; every text in it shows as it is."""
    lines = [f"# {escaped(view.title)}"]
    for section in view.sections:
        lines += ["", f"## {section.heading}"]
        for paragraph in section.prose:
            lines += ["", escaped(paragraph)]
        if section.rows:
            lines += [
                "",
                "| | |",
                "|---|---|",
                *(f"| {escaped(label)} | {escaped(text)} |" for label, text in section.rows),
            ]
        if section.points:
            lines += ["", *(f"- {escaped(point)}" for point in section.points)]
    return "".join(f"{line}\n" for line in lines)


def escaped(text: str) -> str:
    """A text that Markdown shows as it is: no markup, no link, no HTML, no mention of anybody."""
    return _SPECIAL.sub(r"\\\g<0>", text).replace("@", "@<!-- -->")
