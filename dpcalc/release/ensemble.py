"""Queries that teachers vote on: what the answers cost whatever the votes are.

A unit of the first level is a teacher with all its data. One unit of any level is in the data of one teacher, so
whatever two data sets differ in, the votes of one teacher differ at most: each moves from one label to another, or is
not there.
"""

from dpcalc.mechanisms.ensemble import Ensemble
from dpcalc.release.tree import Release, Repeat, Sequence, Single
from dpcalc.sampling.hierarchy import Hierarchy
from dpcalc.sampling.schemes import All


def ensemble_refusal(mechanism: Ensemble, hierarchy: Hierarchy) -> str:
    """Why nothing is claimed for a phase, as "expected X, got Y"; "" where something is."""
    if hierarchy.episodes is not None:
        return f"expected teachers who all vote with {mechanism.name}, got constructed tasks"
    for level in hierarchy.levels:
        if not isinstance(level.scheme, All):
            return f"expected scheme all at every level with {mechanism.name}, got {level.scheme.name} ({level.name})"
    return ""


def answers(mechanism: Ensemble, *, together: int, queries: int) -> Release:
    """The answers to some queries, the same both ways.

    Args:
        mechanism: how each is answered.
        together: units that are protected together, each perhaps of another teacher.
        queries: how many, >= 0.
    """
    each = Sequence(nodes=tuple(Single(curve=curve) for curve in mechanism.aggregation.curves(together)))
    return Repeat(node=each, count=queries)
