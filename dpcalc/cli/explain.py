"""`dpcalc explain`: a rule by its code, or the list of all."""

import textwrap
from typing import Annotated

import typer

from dpcalc.cli.output import CommandResult, on_terminal, width
from dpcalc.errors import InputError

EXPLAIN_EXAMPLE = "Example: dpcalc explain DPC404"
PREFIX = "DPC"


def _codes(incomplete: str) -> list[str]:
    """Return the completions for the shell of CODE."""
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
    name = code.strip().upper()
    name = name if name.startswith(PREFIX) else f"{PREFIX}{name}"
    rule = RULES.get(name)
    if rule is None:
        raise InputError(f"explain: expected the code of a rule, got `{code}`{_nearest(name, tuple(RULES))}")
    paragraphs = (f"{name}: {rule.title}", rule.rule, f"Why: {rule.reason}", f"Fix: {rule.fix}")
    return CommandResult(text="\n\n".join(map(_wrapped, paragraphs)) + "\n")


def _wrapped(paragraph: str) -> str:
    """Return a paragraph wrapped at the terminal's width; unchanged off a terminal."""
    if not on_terminal():
        return paragraph
    return textwrap.fill(paragraph, width(), break_long_words=False, break_on_hyphens=False)


def _nearest(name: str, codes: tuple[str, ...]) -> str:
    """Return "; " and the most similar code as a question, or how to list all if none is similar."""
    from dpcalc.config.messages import nearest

    near = nearest(name, codes) if any(character.isdigit() for character in name) else ""
    return f"; did you mean {near}?" if near else "; `dpcalc explain` lists all"
