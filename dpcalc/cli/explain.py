"""`dpcalc explain`: one rule by its code."""
# ruff: noqa: PLC0415  heavy imports wait until a command needs them

from typing import Annotated

import typer

from dpcalc.cli.answer import Answer
from dpcalc.errors import InputError

EXAMPLE = "Example: dpcalc explain DPC404"


def explain(code: Annotated[str, typer.Argument(metavar="CODE", help="The code of a finding, e.g. DPC101.")]) -> Answer:
    """Explain a rule: what it finds, why that matters, what to do."""
    from dpcalc.report.rules import RULES

    name = code.strip().upper()
    rule = RULES.get(name if name.startswith("DPC") else f"DPC{name}")
    if rule is None:
        raise InputError(f"explain: expected the code of a rule, got `{code}`{_nearest(name, tuple(RULES))}")
    name = name if name.startswith("DPC") else f"DPC{name}"
    return Answer(text=f"{name}: {rule.title}\n\n{rule.rule}\n\nWhy: {rule.reason}\n\nFix: {rule.fix}\n")


def _nearest(name: str, codes: tuple[str, ...]) -> str:
    """What was probably meant, or what there is."""
    from dpcalc.config.vocabulary import nearest

    near = nearest(name, codes)
    return f"; did you mean {near}?" if near else f"; they run from {codes[0]} to {codes[-1]}"
