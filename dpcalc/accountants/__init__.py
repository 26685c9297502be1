"""Accountants: from the number of times each step loss occurs to an upper bound on epsilon, one direction at a time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pkgutil import resolve_name
from typing import TypeVar

from dpcalc.losses.moments import Curve, Steps
from dpcalc.records import dataclass
from dpcalc.work import alike

ACCOUNTANTS: dict[str, str] = {
    "pld": "dpcalc.accountants.pld:pld",
    "rdp": "dpcalc.accountants.rdp:rdp",
    "rdp-classic": "dpcalc.accountants.rdp:rdp_classic",
    "moments": "dpcalc.accountants.rdp:moments",
    "optimal": "dpcalc.accountants.closed_forms:optimal",
    "advanced": "dpcalc.accountants.closed_forms:advanced",
    "basic": "dpcalc.accountants.closed_forms:basic",
}
"""Module and function of each accountant by its name."""
METHODS = ("auto", *ACCOUNTANTS)
"""Words of `accounting.method`; `auto` is the tightest accountant that applies."""


def accountant_of(name: str) -> Accountant:
    """Return the accountant of a name in ACCOUNTANTS, its module loaded; raise KeyError for any other name."""
    function: Accountant = resolve_name(ACCOUNTANTS[name])
    return function


# The result of an accountant, and the search for the costliest of several releases.


@dataclass(frozen=True, kw_only=True)
class AccountantResult:
    """An upper bound on epsilon >= 0 of one direction, and a few words on how it came about, e.g. the order."""

    epsilon: float
    note: str = ""


Accountant = Callable[..., AccountantResult]
ReleaseResult = TypeVar("ReleaseResult")

_NEAR_HIGHEST = 1e-3  # relative distance below the highest ceiling within which a release is likely to be costliest


def costliest_release(
    releases: Mapping[str, Steps],
    *,
    answer: Callable[[Steps], ReleaseResult],
    cost: Callable[[ReleaseResult], float],
    ceiling: Callable[[Steps], float],
    sharper_ceiling: Callable[[Steps], float] | None = None,
) -> tuple[ReleaseResult, str]:
    """Return (answer, name) of the costliest release, by branch and bound over their ceilings; LookupError for none."""
    # Releases are taken from the highest ceiling down, until no ceiling left is above the largest cost: those left out
    # cost no more than what is returned.
    if not releases:
        raise LookupError("alternatives: expected at least one, got none")
    distinct: dict[frozenset[tuple[Curve, int]], str] = {}  # of releases with equal steps the first
    for name, counts in releases.items():
        distinct.setdefault(frozenset(counts.items()), name)
    names = list(distinct.values())
    if len(names) == 1:
        return answer(releases[names[0]]), names[0]
    ceilings = {name: ceiling(releases[name]) for name in alike(names)}
    first, *others = sorted(ceilings, key=lambda name: -ceilings[name])
    best, costliest = answer(releases[first]), first
    near = ceilings[first] * (1 - _NEAR_HIGHEST)
    for name in others:
        if ceilings[name] <= cost(best):
            break
        if sharper_ceiling and ceilings[name] < near and sharper_ceiling(releases[name]) <= cost(best):
            continue
        result = answer(releases[name])
        if cost(result) > cost(best):
            best, costliest = result, name
    return best, costliest
