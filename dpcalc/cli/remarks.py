"""What commands say beside their answer."""

from collections.abc import Sequence

from dpcalc.config.diagnostics import Diagnostic, Severity, visible


def remarks(diagnostics: Sequence[Diagnostic], notes: Sequence[str] = (), *, quiet: bool = False) -> tuple[str, ...]:
    """Findings about a file that could be read, and notes on a result.

    Args:
        diagnostics: of the config layer.
        notes: sentences about the result.
        quiet: whether only warnings are wanted.

    Returns:
        Texts for standard error.
    """
    wanted = [one for one in diagnostics if not (quiet and one.severity is Severity.NOTE)]
    return (*(one.format() for one in wanted), *(f"note: {visible(note)}" for note in notes if not quiet))
