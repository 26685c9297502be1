"""All mechanisms that a phase can have."""

from dpcalc.mechanisms.approximate_dp import ApproximateDp
from dpcalc.mechanisms.discrete import DiscreteGaussian, DiscreteLaplace
from dpcalc.mechanisms.ensemble import Ensemble, PateConfidentGNMax, PateGNMax, PateLNMax
from dpcalc.mechanisms.gaussian import Gaussian
from dpcalc.mechanisms.laplace import Laplace
from dpcalc.mechanisms.randomized_response import RandomizedResponse
from dpcalc.mechanisms.rdp_table import RdpTable
from dpcalc.mechanisms.zcdp import Exponential, Zcdp

Shifted = Laplace | DiscreteGaussian | DiscreteLaplace
"""Noise on a sum."""

Diverging = Zcdp | Exponential | RdpTable
"""Steps of which Renyi divergences alone are known."""

BlackBox = Shifted | RandomizedResponse | ApproximateDp | Diverging
"""What is accounted for by its pair or its divergences alone."""

Mechanism = Gaussian | BlackBox | Ensemble

MECHANISMS: dict[str, type[Mechanism]] = {
    kind.name: kind
    for kind in (
        Gaussian,
        Laplace,
        RandomizedResponse,
        ApproximateDp,
        Zcdp,
        DiscreteGaussian,
        DiscreteLaplace,
        Exponential,
        RdpTable,
        PateLNMax,
        PateGNMax,
        PateConfidentGNMax,
    )
}
