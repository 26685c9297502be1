"""Divide a grid of cases between the default and the slow suite."""

import pytest


def thinned(cases, keep):
    """The cases for `parametrize`: `keep` of them, evenly spread, run by default, the others are slow.

    A case is what `parametrize` takes: a tuple of arguments, a single argument, or a `pytest.param`.
    """
    cases = list(cases)
    kept = {number * len(cases) // keep for number in range(keep)}
    for number in set(range(len(cases))) - kept:
        case = cases[number]
        values, marks, name = case if isinstance(case, type(pytest.param())) else (case, (), None)
        values = values if isinstance(values, tuple) else (values,)
        cases[number] = pytest.param(*values, id=name, marks=(*marks, pytest.mark.slow))
    return cases
