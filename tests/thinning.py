"""Divide a grid of cases between the default and the slow suite."""

import pytest


def thinned(cases, keep):
    """Return the cases for `parametrize`: `keep` of them, evenly spread, run by default, the others are slow.

    A case is what `parametrize` takes: a tuple of arguments, a single argument, or a `pytest.param`.
    """
    cases = list(cases)
    kept = {number * len(cases) // keep for number in range(keep)}
    return [case if number in kept else _slow(case) for number, case in enumerate(cases)]


def _slow(case):
    """Mark a case slow."""
    if isinstance(case, type(pytest.param())):
        return pytest.param(*case.values, id=case.id, marks=(*case.marks, pytest.mark.slow))
    return pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=pytest.mark.slow)
