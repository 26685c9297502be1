"""The cross-check of two methods as rows of text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from dpcalc.report.rounding import rounded_down, rounded_up

if TYPE_CHECKING:  # loads numpy, which reports of a closed gate do without
    from dpcalc.planner.cross_check import CrossCheck

AGREEMENT = "cross-check"


def cross_check_rows(checks: Sequence[CrossCheck]) -> Iterable[tuple[str, str]]:
    """(label, text) of each direction, then of the agreement in the costlier one."""
    for check in checks:
        ends = f"between {rounded_down(check.lower, digits=6)} and {rounded_up(check.upper, digits=6)} by pld"
        yield check.direction, f"epsilon {ends}; best RDP order {rounded_up(check.order)}"
    if checks:
        yield AGREEMENT, _agreement(max(checks, key=lambda check: check.upper))


def cross_check_facts(checks: Sequence[CrossCheck]) -> Iterable[tuple[str, str]]:
    """The same for scripts and logs, under one key."""
    for label, text in cross_check_rows(checks):
        yield "cross_check", text if label == AGREEMENT else f"{label}: {text}"


def _agreement(check: CrossCheck) -> str:
    """How far inversion is from the certified interval."""
    if check.estimate is None:
        return check.note
    if not check.is_bracketed:
        return f"inversion gives {rounded_up(check.estimate, digits=6)}, outside pld's interval: please report this run"
    return f"inversion agrees with pld to {rounded_up(check.difference, digits=1)}"
