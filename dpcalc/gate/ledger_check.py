"""The question whether a ledger keeps to its budget and still says all that it said."""

from dataclasses import replace
from pathlib import Path

from dpcalc.config.diagnostics import Severity
from dpcalc.config.repository import Refusal
from dpcalc.config.source import MAX_BYTES, read
from dpcalc.errors import InputError
from dpcalc.gate.check import Demands, check
from dpcalc.gate.costs import Costs
from dpcalc.gate.revision import revision
from dpcalc.gate.verdict import Fits, Problem, Result, Verdict, worst

_RESTORE = "restore it from the base, and add runs with `dpcalc ledger add`"
REWRITTEN = Problem(code="DPC407", severity=Severity.ERROR, hint=_RESTORE)


def check_ledger(path: str, *, base: str, demands: Demands, costs: Costs) -> Result:
    """The verdict on a ledger.

    Args:
        path: the ledger.
        base: a git revision whose ledger it must begin with, or "".
        demands: what is demanded beside its budget.
        costs: what answers.

    Returns:
        The result; `failed` also where the ledger of the base was changed, shortened or removed.
    """
    (result,) = check([path], demands=demands, costs=costs)
    result = replace(result, fits=Fits())  # what was done cannot be made to fit any more
    if not base or _begins_with(path, base):
        return result
    detail = f"what {base} says in it is not there any more as it was"
    problem = replace(REWRITTEN, detail=detail)
    return replace(result, verdict=worst([result.verdict, Verdict.FAILED]), problems=(*result.problems, problem))


def _begins_with(path: str, base: str) -> bool:
    """Whether a file is what it was in a revision, and then perhaps more; line ends do not count."""
    of = revision(base, Path(path).absolute().parent)
    try:
        before = of.content(of.place(path), limit=MAX_BYTES)
    except Refusal as cause:
        raise InputError(f"--base: {path} in {base} {cause.message}") from cause
    if before is None:
        return True
    try:
        now = read(path)
    except InputError:  # it is gone, which the check has told already
        return False
    old, new = (data.replace(b"\r\n", b"\n").rstrip(b"\n") for data in (before, now))
    return new == old or new.startswith(old + b"\n")
