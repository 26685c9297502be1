"""Accountants: from the number of times each step loss occurs to an upper bound on epsilon, one direction at a time."""

from __future__ import annotations

from pkgutil import resolve_name
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # help and completion list the names, without numpy
    from dpcalc.accountants.result import Accountant

ACCOUNTANTS: dict[str, str] = {
    "pld": "dpcalc.accountants.pld:pld",
    "rdp": "dpcalc.accountants.rdp:rdp",
    "rdp-classic": "dpcalc.accountants.rdp:rdp_classic",
    "moments": "dpcalc.accountants.rdp:moments",
    "optimal": "dpcalc.accountants.basic:optimal",
    "advanced": "dpcalc.accountants.basic:advanced",
    "basic": "dpcalc.accountants.basic:basic",
}
"""Module and function of each accountant by its name."""
METHODS = ("auto", *ACCOUNTANTS)
"""Words of `accounting.method`; `auto` is the tightest accountant that applies."""


def accountant_of(name: str) -> Accountant:
    """Return the accountant of a name in ACCOUNTANTS, its module loaded; raise KeyError for any other name."""
    function: Accountant = resolve_name(ACCOUNTANTS[name])
    return function
