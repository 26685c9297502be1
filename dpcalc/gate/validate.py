"""The question whether files are well-formed; nothing is computed."""

from collections.abc import Sequence

from dpcalc.config import load
from dpcalc.gate.verdict import Result, Verdict, stopped


def validate(paths: Sequence[str], *, key: str = "", assignments: Sequence[str] = ()) -> tuple[Result, ...]:
    """One result a file, in the order given; a bad file never hides another.

    Args:
        paths: config files; "-" is standard input.
        key: dotted path of the section that is the config, or "".
        assignments: `key=value` texts that override every file.

    Returns:
        Results with the verdict `passed`, `invalid` or `undecided`.
    """
    return tuple(_validated(path, key, assignments) for path in paths)


def _validated(path: str, key: str, assignments: Sequence[str]) -> Result:
    """The result of one file."""
    try:
        loaded = load(path, key=key, assignments=assignments)
    except Exception as error:  # noqa: BLE001  whatever it is, the other files still get their answer
        return stopped(path, error)
    return Result(path=loaded.path, verdict=Verdict.PASSED, diagnostics=loaded.diagnostics)
