"""What a phase may say of its mechanism: one model for each type."""

from fractions import Fraction
from typing import Annotated, Literal

from pydantic import AfterValidator, Field
from pydantic_core import PydanticCustomError

from dpcalc.config.model import Model
from dpcalc.config.values import (
    Categories,
    Chance,
    DiscreteNoise,
    Gamma,
    Noise,
    Norm,
    Order,
    OtherNoise,
    Positive,
    Pure,
    Scale,
    Threshold,
)

MAX_SUMS = 100  # released beside the gradients


class Mechanism(Model):
    """What one step does with its batch: by default it adds Gaussian noise to a sum of clipped vectors."""

    type: Literal[
        "gaussian",
        "laplace",
        "randomized-response",
        "approximate-dp",
        "pure-dp",
        "zcdp",
        "discrete-gaussian",
        "discrete-laplace",
        "exponential",
        "rdp-curve",
        "pate-lnmax",
        "pate-gnmax",
        "pate-confident-gnmax",
    ] = Field(default="gaussian", description="The mechanism; it says which of the other keys there are.")
    noise_multiplier: Noise = Field(
        description="Standard deviation of the noise divided by the clip norm; 0 is no noise and no privacy. Under "
        "laplace and discrete-laplace the scale of the noise; under pate-gnmax and pate-confident-gnmax the standard "
        "deviation of the noise on each count, in votes."
    )
    max_grad_norm: Norm = Field(
        default=Fraction(1), description="The clip norm. It is reported; epsilon does not depend on it."
    )
    clip: str | None = Field(
        default=None,
        description="The level whose vectors are clipped, by default the last one; `batch` is the batch as a whole, "
        "`task` one that `episodes` constructs.",
    )


class OtherSum(Model):
    """A noisy sum that a step releases beside that of the clipped vectors, over the same sample."""

    noise_multiplier: OtherNoise


def _limited(value: list[OtherSum]) -> list[OtherSum]:
    """Not more than anybody releases."""
    if len(value) > MAX_SUMS:
        raise PydanticCustomError("list_length", "{words}", {"words": f"at most {MAX_SUMS} sums"})
    return value


class GaussianNoise(Mechanism):
    """Gaussian noise on a sum of clipped vectors, and on others over the same sample."""

    also: Annotated[list[OtherSum], AfterValidator(_limited)] = Field(
        default=[],
        description="For type gaussian: another sum with Gaussian noise over the same sample, such as the count of "
        "adaptive clipping, as {noise_multiplier: 20}, or several in a list. Its noise multiplier is the standard "
        "deviation of its noise divided by the most that the owner of one clipped vector adds to it: twice the "
        "deviation for bits less 1/2.",
    )


class LaplaceNoise(Mechanism):
    """Laplace noise on a sum of vectors clipped in the 1-norm."""

    noise_multiplier: Scale


class _Parameters(Model):
    """Any other mechanism."""

    type: str


class DiscreteGaussianNoise(_Parameters):
    """Discrete Gaussian noise on a whole number that one contribution changes by at most 1."""

    noise_multiplier: DiscreteNoise
    clip: str | None = None


class DiscreteLaplaceNoise(_Parameters):
    """Discrete Laplace noise on such a number."""

    noise_multiplier: Scale
    clip: str | None = None


class RandomizedResponse(_Parameters):
    """Every drawn record answers with its own category, or with another one."""

    truth_probability: Chance = Field(
        description="Probability of the true answer, from 1 / categories on, for type randomized-response."
    )
    categories: Categories = Field(default=2, description="How many answers there are, for type randomized-response.")


class PureDp(_Parameters):
    """Any mechanism that is epsilon-DP."""

    epsilon: Pure = Field(
        description="What one step guarantees on its batch, for types approximate-dp, pure-dp and exponential; for "
        "rdp-curve what no loss exceeds, if that is known."
    )


class ApproximateDp(PureDp):
    """Any mechanism that is (epsilon, delta)-DP."""

    delta: Chance = Field(description="The delta of that guarantee, for type approximate-dp.")


class Zcdp(_Parameters):
    """Any mechanism that is zCDP, truncated or not."""

    rho: Pure = Field(description="Renyi divergence of order a is at most rho a, for type zcdp.")
    omega: Order | None = Field(default=None, description="... at orders below omega, for truncated zCDP.")


class Exponential(_Parameters):
    """The exponential mechanism."""

    epsilon: Positive


class RdpCurve(_Parameters):
    """Any mechanism of which Renyi divergences are known."""

    curve: object = Field(
        description="Renyi divergence of a step on its batch by order, for type rdp-curve: [[2, 0.1], [4, 0.2]], or "
        "{file: curve.csv} with a line `order,epsilon` and one for each order. Between the orders it is on chords of "
        "(order - 1) epsilon; beyond the last nothing is claimed.",
    )
    epsilon: Positive | None = None
    odd_moments: Literal["unknown", "nonnegative"] = Field(
        default="unknown",
        description="For type rdp-curve with poisson draws: nonnegative drops the factor 3 from the bound on the "
        "sampled curve. It may be said where E_Q[(P/Q - 1)^j] is never negative for odd j and neighbouring batches, as "
        "with Gaussian and Laplace noise.",
    )


class _Votes(_Parameters):
    """A query that teachers vote on."""

    votes: object = Field(
        default=None,
        description="For types pate-lnmax, pate-gnmax and pate-confident-gnmax: a file *.npy, *.csv or *.tsv, a row "
        "for each query, a column for each label, the teachers that chose it. `epsilon` tells what these votes cost, "
        "which is itself private; nothing else reads them.",
    )


class LNMax(_Votes):
    """The label with the most votes after Laplace noise."""

    gamma: Gamma = Field(description="Inverse scale of the Laplace noise on each count, for type pate-lnmax.")


class GNMax(_Votes):
    """The label with the most votes after Gaussian noise."""

    noise_multiplier: OtherNoise


class ConfidentGNMax(GNMax):
    """The same where the most votes, after another noise, reach a threshold."""

    threshold: Threshold = Field(
        description="Votes that the most frequent label must reach, after the noise of the check, to be released; for "
        "type pate-confident-gnmax."
    )
    threshold_noise_multiplier: OtherNoise = Field(
        description="Standard deviation of the noise of that check, in votes."
    )


AnyMechanism = (
    Mechanism
    | GaussianNoise
    | DiscreteGaussianNoise
    | DiscreteLaplaceNoise
    | RandomizedResponse
    | PureDp
    | ApproximateDp
    | Zcdp
    | Exponential
    | RdpCurve
    | LNMax
    | GNMax
    | ConfidentGNMax
)
MECHANISMS: dict[str, type[AnyMechanism]] = {
    "gaussian": GaussianNoise,
    "laplace": LaplaceNoise,
    "randomized-response": RandomizedResponse,
    "approximate-dp": ApproximateDp,
    "pure-dp": PureDp,
    "zcdp": Zcdp,
    "discrete-gaussian": DiscreteGaussianNoise,
    "discrete-laplace": DiscreteLaplaceNoise,
    "exponential": Exponential,
    "rdp-curve": RdpCurve,
    "pate-lnmax": LNMax,
    "pate-gnmax": GNMax,
    "pate-confident-gnmax": ConfidentGNMax,
}
