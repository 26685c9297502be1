"""Cells of CSV files that spreadsheet programs open."""

from dpcalc.config.diagnostics import visible

_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def cell(text: str) -> str:
    """Return a text as a cell that no spreadsheet program takes for a formula.

    Args:
        text: words of a user or a config, or a number.

    Returns:
        The text with control characters spelled out, after an apostrophe if it begins as a formula and is no number.
    """
    shown = visible(text)
    return f"'{shown}" if text.startswith(_FORMULA) and not _is_number(text) else shown


def _is_number(text: str) -> bool:
    """Whether a text is a number and nothing else."""
    try:
        float(text)
    except ValueError:
        return False
    return text.isprintable()
