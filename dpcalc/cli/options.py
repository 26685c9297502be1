"""Arguments and options that commands share."""

import math
from enum import StrEnum
from typing import Annotated

import typer

from dpcalc.errors import InputError


class Method(StrEnum):
    """Accountants by their names on the command line.

    Attributes:
        AUTO: the tightest that applies.
        PLD: privacy loss distributions.
        RDP: Renyi differential privacy.
        MOMENTS: the moments accountant of Abadi et al. 2016.
        ADVANCED: advanced composition.
        BASIC: the sum of the epsilons.
    """

    AUTO = "auto"
    PLD = "pld"
    RDP = "rdp"
    MOMENTS = "moments"
    ADVANCED = "advanced"
    BASIC = "basic"


Config = Annotated[
    str | None, typer.Argument(metavar="CONFIG", help="The config file; - is standard input.", show_default=False)
]
Configs = Annotated[
    list[str] | None, typer.Argument(metavar="CONFIG", help="Config files; - is standard input.", show_default=False)
]
Assignments = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="Override a key, e.g. training.steps=5000. May be repeated.",
        show_default=False,
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON: every number in full, schema dpcalc.result/1.")]
Quiet = Annotated[
    bool,
    typer.Option("--quiet", "-q", help="Print one bare number: 6 significant digits, rounded up, or inf."),
]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Say more.")]


def named(config: str | None) -> str:
    """The config a command was given.

    Raises:
        InputError: if it was given none.
    """
    if config is None:
        raise InputError("no config: expected the path of a config file, or - for standard input, got none")
    return config


def number(option: str, text: str | None) -> float | None:
    """The value of an option that takes a finite number >= 0.

    Args:
        option: its name, for the message.
        text: what the user wrote, or None.

    Returns:
        The number, or None.

    Raises:
        InputError: if the text is no such number.
    """
    if text is None:
        return None
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value < math.inf:
        raise InputError(f"{option}: expected a finite number >= 0, got `{text}`")
    return value
