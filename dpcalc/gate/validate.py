"""Check that configs are well-formed; nothing is computed."""

from collections.abc import Sequence

from dpcalc.gate.cases import PLAIN_READER, ConfigReader
from dpcalc.gate.verdict import Result, Verdict, error_result


def validate(paths: Sequence[str], *, reader: ConfigReader = PLAIN_READER) -> tuple[Result, ...]:
    """Return one result for each file in order: passed, invalid or undecided; a bad file never hides another.

    Args:
        paths: config files; "-" is standard input.
        reader: reads the files.

    Returns:
        Results with the verdict `passed`, `invalid` or `undecided`.
    """
    return tuple(_validation_result(path, reader) for path in paths)


def _validation_result(path: str, reader: ConfigReader) -> Result:
    """Return `passed` with the config's findings, or the error result of whatever reading it raised."""
    try:
        loaded = reader.load(path)
    except Exception as error:  # noqa: BLE001  whatever it is, the other files still get their answer
        return error_result(path, error)
    return Result(path=loaded.path, verdict=Verdict.PASSED, diagnostics=loaded.diagnostics)
