"""The one-step bound of a hierarchy of equal sizes, in which all units of a level cost the same."""

from dpcalc.amplification.bound import path_bound
from dpcalc.sampling.paths import path_table


def one_step_bound(hierarchy, *, unit, clip, adjacency):
    (path,) = path_table([(hierarchy, clip)], unit=unit).paths(0)
    return path_bound(path, clip=clip, adjacency=adjacency)
