"""The Gaussian mechanism of DP-SGD: the sum of clipped vectors plus N(0, (noise_multiplier * max_grad_norm)^2 I).

Source: docs/theory.md, Theorem 7.5.
"""

import math
from collections.abc import Sequence
from fractions import Fraction
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any, ClassVar, cast

from dpcalc.errors import InputError, KeyedInputError, require_nonnegative, require_positive
from dpcalc.keys import NOISE, POSITIVE_NOISE, Key, ListOf, Word, WrongValueError, exact, key, keys_of
from dpcalc.mechanisms.kinds import CLIP, MECHANISMS, SUM, Mechanism, NoisySum, mechanism_class
from dpcalc.records import dataclass

if TYPE_CHECKING:  # numpy waits
    from dpcalc.mechanisms.matrix_factorization import MatrixFactorization

NOISE_MEANING = "Standard deviation of the noise divided by the clip norm; 0 is no noise and no privacy."
NOISE_ADVICE = "the noise standard deviation divided by the clip norm"
NORM = exact(Fraction(1, 10**100), 10**100, "more than 0 and at most 1e100")
NORM_MEANING = "The clip norm. It is reported; epsilon does not depend on it."
_SUMS_FORM = "a mapping such as {noise_multiplier: 20}, or a list of such"
SUMS = {"gaussian": "dpcalc.mechanisms.additive:GaussianNoise"} | {
    name: MECHANISMS[name] for name in ("laplace", "discrete-gaussian", "discrete-laplace")
}
"""Classes of the noise that a sum of `also` may have, by the mechanism's name."""
_MAX_SUMS = 100  # most noisy sums beside that of the gradients; adaptive clipping needs one


@dataclass(frozen=True, kw_only=True)
class OtherSum:
    """Keys of a noisy sum that a step releases beside that of the clipped vectors, over the same sample."""

    type: str | None = key(Word(tuple(SUMS)), "", default=None)
    noise_multiplier: float = key(POSITIVE_NOISE, "", advice=NOISE_ADVICE)


def also_key() -> Any:
    """Return the config key `also`, which lists further sums on the same sample: at most 100, none by default."""
    return key(
        ListOf(OtherSum, 0, _MAX_SUMS, f"at most {_MAX_SUMS} sums", _SUMS_FORM),
        "Where a step adds noise to a sum: another sum with noise over the same sample, such as the count of adaptive "
        "clipping, as {noise_multiplier: 20}, or several in a list; where not all noise is Gaussian, as {type: "
        "laplace, noise_multiplier: 20}. Its noise multiplier is the standard deviation (the scale of Laplace noise) "
        "divided by the most that the owner of one clipped vector adds to it: twice the deviation for bits less 1/2.",
        default=(),
    )


def noisy_sums(name: str, also: Sequence[Any]) -> tuple[NoisySum, ...]:
    """Return the sums that `also` states under a mechanism of this name; KeyedInputError for a wrong one.

    Beside Gaussian noise, a sum that names no noise has Gaussian noise.
    """
    sums = []
    for each in also:
        noise = each.type or name
        if each.type is None and name != "gaussian":
            hint = f"e.g. `{{type: {name}, noise_multiplier: {float(each.noise_multiplier):g}}}`"
            raise KeyedInputError("also", f"must name its noise under {name}", hint, code="DPC103")
        try:
            keys_of(mechanism_class(noise))["noise_multiplier"].kind.check(Fraction(each.noise_multiplier))
        except WrongValueError as cause:
            text = f"must have a noise multiplier {cause.expected} under {noise}, got {float(each.noise_multiplier):g}"
            raise KeyedInputError("also", text) from cause
        sums.append(NoisySum(noise, float(each.noise_multiplier)))
    return tuple(sums)


def check_sums(mechanism: "Gaussian | MatrixFactorization") -> None:
    """Raise InputError for noise < 0, a clip norm or noise of another sum that is not > 0."""
    require_nonnegative("noise_multiplier", mechanism.noise_multiplier)
    require_positive("max_grad_norm", mechanism.max_grad_norm)
    for other in mechanism.also:
        if not (math.isfinite(other) and other > 0):
            raise InputError(f"also: expected finite noise multipliers > 0, got {other!r}")


def joint_noise_multiplier(mechanism: "Gaussian | MatrixFactorization") -> float:
    """Return the noise multiplier of all sums together, rounded down, as `Gaussian.joint` proves."""
    if not mechanism.also or mechanism.noise_multiplier == 0:
        return mechanism.noise_multiplier
    # 1e-15 covers the round-off of hypot: less noise than the exact value, hence an upper bound.
    inverse = math.hypot(*(1 / multiplier for multiplier in (mechanism.noise_multiplier, *mechanism.also)))
    return (1 - 1e-15) / inverse


def sums_text(mechanism: "Gaussian | MatrixFactorization") -> str:
    """Return " (with sums at ...)" for further sums on the same sample; "" for none."""
    others = ", ".join(f"{noise:g}" for noise in mechanism.also)
    joint = f" (with sums at {others} on the same sample: together {joint_noise_multiplier(mechanism):.6g})"
    return joint if others else ""


@dataclass(frozen=True, kw_only=True)
class Gaussian(Mechanism):
    """Gaussian noise on the sum of the clipped contributions, and on other sums over the same sample."""

    name: ClassVar[str] = "gaussian"
    assumptions: ClassVar[tuple[str, ...]] = (SUM,)
    adds_noise: ClassVar[bool] = True
    noise_multiplier: float = key(NOISE, NOISE_MEANING, advice=NOISE_ADVICE)
    max_grad_norm: float = key(NORM, NORM_MEANING, default=1.0)
    clip: ClassVar[Key] = CLIP
    also: tuple[float, ...] = also_key()

    def __post_init__(self) -> None:
        check_sums(self)

    @classmethod
    def of(cls, **parameters: Any) -> Mechanism:
        """Return the mechanism; `additive.GaussianNoise` if another sum has noise of another kind."""
        sums = noisy_sums(cls.name, parameters.pop("also", ()))
        if all(each.type == cls.name for each in sums):
            return cls(**parameters, also=tuple(each.noise_multiplier for each in sums))
        return cast(Mechanism, resolve_name(SUMS[cls.name])(**parameters, also=sums))

    @property
    def words(self) -> str:
        return f"noise multiplier {self.noise_multiplier:g}{sums_text(self)}"

    def rdp(self, order: float, shift: int = 1) -> float:
        """Return order shift^2 / (2 sigma^2), exact, sigma > 0 that of all sums together."""
        return order * shift**2 / (2 * joint_noise_multiplier(self) ** 2)

    @property
    def joint(self) -> "Gaussian":
        """The Gaussian mechanism equal to all sums together, noise rounded down; itself without other sums or noise."""
        # Source: docs/theory.md, Theorem 7.5; Andrew, Thakkar, McMahan, Ramaswamy 2021 (1905.03871v5), Theorem 1: a
        # count of bits less 1/2 with noise of deviation sigma_b has the multiplier 2 sigma_b.
        if not self.also or self.noise_multiplier == 0:
            return self
        return Gaussian(noise_multiplier=joint_noise_multiplier(self), max_grad_norm=self.max_grad_norm)
