"""Steps that answer one query by the votes of teachers (PATE), as a plan states them; all noise is in votes."""

from dataclasses import dataclass, replace
from typing import ClassVar

from dpcalc.mechanisms.pate import Aggregation, ConfidentGNMax, GNMax, LNMax


@dataclass(frozen=True, kw_only=True)
class PateLNMax:
    """A query answered by LNMax.

    Attributes:
        gamma: inverse scale of the Laplace noise on each count, > 0.
    """

    name: ClassVar[str] = "pate-lnmax"
    clips: ClassVar[bool] = False
    noise_key: ClassVar[str] = "gamma"
    gamma: float

    def __post_init__(self) -> None:
        """Refuse what is no scale."""
        _ = self.aggregation

    @property
    def aggregation(self) -> Aggregation:
        """How votes become a label."""
        return LNMax(gamma=self.gamma)

    @property
    def noise_multiplier(self) -> float:
        """Scale of the noise in votes."""
        return 1 / self.gamma

    def with_noise(self, value: float) -> "PateLNMax":
        """The same with another scale of the noise, in votes."""
        return replace(self, gamma=1 / value)


@dataclass(frozen=True, kw_only=True)
class PateGNMax:
    """A query answered by GNMax.

    Attributes:
        noise_multiplier: standard deviation of the noise on each count, in votes, > 0.
    """

    name: ClassVar[str] = "pate-gnmax"
    clips: ClassVar[bool] = False
    noise_multiplier: float

    def __post_init__(self) -> None:
        """Refuse what is no deviation."""
        _ = self.aggregation

    @property
    def aggregation(self) -> Aggregation:
        """How votes become a label."""
        return GNMax(sigma=self.noise_multiplier)


@dataclass(frozen=True, kw_only=True)
class PateConfidentGNMax:
    """A query answered by GNMax where the largest count, after a first noise, reaches a threshold.

    Attributes:
        noise_multiplier: standard deviation of the noise on each count, in votes, > 0.
        threshold: votes.
        threshold_noise_multiplier: standard deviation of the first noise, in votes, > 0.
    """

    name: ClassVar[str] = "pate-confident-gnmax"
    clips: ClassVar[bool] = False
    noise_multiplier: float
    threshold: float
    threshold_noise_multiplier: float

    def __post_init__(self) -> None:
        """Refuse what is no threshold or deviation."""
        _ = self.aggregation

    @property
    def aggregation(self) -> Aggregation:
        """How votes become a label, or none."""
        label = GNMax(sigma=self.noise_multiplier)
        return ConfidentGNMax(label=label, threshold=self.threshold, check_sigma=self.threshold_noise_multiplier)


Ensemble = PateLNMax | PateGNMax | PateConfidentGNMax
"""Answers of teachers."""
