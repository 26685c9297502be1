"""Additive noise: the Gaussian of DP-SGD, Laplace noise on vectors, discrete Gaussian and Laplace on counts.

Source: docs/theory.md, Theorem 7.5.
"""

import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from functools import reduce
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any, ClassVar, Self, cast

import numpy as np

from dpcalc.errors import InputError, KeyedInputError, require_nonnegative, require_positive
from dpcalc.keys import NOISE, POSITIVE_NOISE, Key, ListOf, Word, WrongValueError, exact, key, keys_of
from dpcalc.losses.atoms import FAR, approximate_pair, composed, symmetric_pair
from dpcalc.losses.loss import Loss
from dpcalc.mechanisms.kinds import CLIP, MECHANISMS, SUM, BlackBox, Mechanism, NoisySum, mechanism_class
from dpcalc.numerics import Array, gauss_legendre_panels, log1m_exp, log_sum_exp, normal_log_cdf_array
from dpcalc.records import dataclass
from dpcalc.work import ELEMENT, TURN, cached_with_cost, spend

if TYPE_CHECKING:
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


# Additive noise other than the Gaussian: Laplace noise on vectors, discrete Gaussian and discrete Laplace on counts.
# Each mechanism has a dominating pair `pair(shift)` with finitely many losses, for sums that differ by `shift`.
# Source: docs/theory.md, Theorem 8.3 and Lemma 8.4.


SCALE = exact("0.001", 10**6, "from 0.001 to 1e6")
_SCALE_ADVICE = "the scale of the noise (its deviation is sqrt(2) times that) divided by the sensitivity"
_SCALE_MEANING = "Under laplace and discrete-laplace the scale of the noise."
_WHOLE = ("discrete noise is added to a whole number that one contribution changes by at most 1",)

# Lower bounds: probabilities of cells of the line, which no cells make larger than the exact loss.

_CELLS = 4000  # cells between the outermost centers of Laplace noise; fewer lower the lower bound
_MAX_ROW = 4 * _CELLS  # largest number of cells for discrete Gaussian noise; further values are merged
_MAX_PRODUCTS = 160_000  # largest number of cells of several sums together
_NODES = 16  # of Gauss-Legendre quadrature in a cell of Gaussian noise
_QUADRATURE = 1e-12  # more than the relative error of its masses

# Laplace noise on sums of contributions that are clipped in the 1-norm.


# Losses at which the chords of a Laplace profile end; they cost less than 1e-6 of epsilon, a tenth of them 1e-4.
_CHORD_ENDS = 2001
# Largest loss for which these are evenly spaced; in a larger range they are close at its ends, which hold the mass.
_MAX_EVEN_LOSS = 20.0
# Spacing at the ends of a range beyond _MAX_EVEN_LOSS, and the distance from an end at which it has doubled.
_END_SPACING, _DOUBLING_DISTANCE = 0.02, 10.0


class AdditiveNoise(BlackBox):
    """Noise on sums, other than Gaussian on all, by `own_pair` and `own_cells` of each sum; they share the sample."""

    noise_multiplier: float  # scale of the noise over the clip norm, > 0
    also: tuple[NoisySum, ...]
    assumptions: ClassVar[tuple[str, ...]] = (SUM,)
    adds_noise: ClassVar[bool] = True

    @classmethod
    def of(cls, **parameters: Any) -> Mechanism:
        return cls(**parameters | {"also": noisy_sums(cls.name, parameters.get("also", ()))})

    @property
    def sums(self) -> tuple["AdditiveNoise", ...]:
        """The noise of each sum that a step releases, the sum of the clipped vectors first."""
        others = (resolve_name(SUMS[noise])(noise_multiplier=multiplier) for noise, multiplier in self.also)
        return (replace(self, also=()), *others)  # type: ignore[call-arg]  # subclasses have it

    @abstractmethod
    def own_pair(self, shift: int) -> Loss:
        """Return a dominating pair for a sum `shift` >= 1 clip norms apart, an upper bound."""

    @abstractmethod
    def own_cells(self, center: int, centers: list[int]) -> Array:
        """Return the log masses of noise around `center` in cells that are equal for all `centers`."""

    @property
    def is_whole(self) -> bool:
        """Whether a sum must be a whole number."""
        return any(isinstance(each, (DiscreteGaussian, DiscreteLaplace)) for each in self.sums)

    def scaled(self, factor: int) -> Self:
        """Return the noise in units of 1 / factor clip norms."""
        also = (each._replace(noise_multiplier=factor * each.noise_multiplier) for each in self.also)
        scale = factor * self.noise_multiplier
        return replace(self, noise_multiplier=scale, also=tuple(also))  # type: ignore[call-arg]  # subclasses have it

    def pair(self, shift: int) -> Loss:
        """Return the pair of all sums, composed: their noise is independent, the batch is the same."""
        return reduce(composed, [each.own_pair(shift) for each in self.sums])

    def cell_log_masses(self, center: int, centers: list[int]) -> Array:
        """Return the log masses of cells, with several sums those of their products, of which there are few."""
        rows = [each.own_cells(center, centers) for each in self.sums]
        if len(rows) > 1:
            most = int(_MAX_PRODUCTS ** (1 / len(rows)))
            rows = [_merged(_cells(row, most)) for row in rows]
            spend(_MAX_PRODUCTS * ELEMENT)
        return reduce(lambda a, b: np.add.outer(a, b).ravel(), rows)

    @property
    def words(self) -> str:
        others = f" (with sums at {', '.join(map(str, self.also))} on the same sample)" if self.also else ""
        return f"noise multiplier {self.noise_multiplier:g}{others}"


@dataclass(frozen=True, kw_only=True)
class GaussianNoise(AdditiveNoise):
    """Gaussian noise on a sum beside which there is a sum with other noise, or which is beside such a sum."""

    name: ClassVar[str] = "gaussian"
    noise_multiplier: float
    max_grad_norm: float = 1.0
    also: tuple[NoisySum, ...] = ()

    def __post_init__(self) -> None:
        require_positive("noise_multiplier", self.noise_multiplier)

    @cached_with_cost(256)
    def own_pair(self, shift: int) -> Loss:
        """Return about 2000 chords of the profile, noise beyond 39 deviations as infinite loss (Theorem 6.1)."""
        distance = shift / self.noise_multiplier
        largest = distance * (_TAIL_DEVIATIONS + distance / 2)
        if distance > 2 * _TAIL_DEVIATIONS or largest > FAR:
            return approximate_pair(largest, _SMALLEST_FLOAT)
        # Cells end where the loss is distance times x: close ones around -distance / 2 and distance / 2, where Q and P
        # have their mass. The ends of a cell take its P and Q mass, as in `_move_to_cell_ends`.
        offsets = _TAIL_DEVIATIONS * np.sinh(np.linspace(-3, 3, 1001)) / math.sinh(3)
        ends = np.unique(np.round(np.concatenate([offsets - distance / 2, distance / 2 - offsets]), 6))
        x, weights = (each.reshape(-1, _NODES) for each in gauss_legendre_panels(ends, order=_NODES))
        logs = weights - (x - distance / 2) ** 2 / 2 - math.log(2 * math.pi) / 2
        low, high = distance * ends[:-1, None], distance * ends[1:, None]
        below, above = distance * x - low, high - distance * x
        whole = log1m_exp((high - low)[:, 0])
        upper, lower = _merged(logs + log1m_exp(below)) - whole, _merged(logs - below + log1m_exp(above)) - whole
        masses = np.logaddexp(np.append(lower, -np.inf), np.append(-np.inf, upper))
        return symmetric_pair(distance * ends, masses + _QUADRATURE, infinity_mass=_SMALLEST_FLOAT)

    def own_cells(self, center: int, centers: list[int]) -> Array:
        """Return log masses of 4000 even cells from 9 deviations below the first to 9 above the last center."""
        # What is left out is taken from both data sets: the lower bound is that of a part of the outputs.
        low, high = centers[0] / self.noise_multiplier - 9, centers[-1] / self.noise_multiplier + 9
        ends = np.linspace(low, high, _CELLS + 1) - center / self.noise_multiplier
        is_above = ends[:-1] + ends[1:] > 0  # mirrored, so that no two probabilities near 1 are subtracted
        upper = normal_log_cdf_array(np.where(is_above, -ends[:-1], ends[1:]))
        return upper + log1m_exp(upper - normal_log_cdf_array(np.where(is_above, -ends[1:], ends[:-1])))


@dataclass(frozen=True, kw_only=True)
class Laplace(AdditiveNoise):
    """Laplace noise on the sum of the clipped contributions."""

    name: ClassVar[str] = "laplace"
    assumptions: ClassVar[tuple[str, ...]] = (SUM, "vectors under Laplace noise are clipped in the 1-norm")
    noise_multiplier: float = key(SCALE, _SCALE_MEANING, advice=_SCALE_ADVICE)
    max_grad_norm: float = key(NORM, NORM_MEANING, default=1.0)
    clip: ClassVar[Key] = CLIP
    also: tuple[NoisySum, ...] = also_key()

    def __post_init__(self) -> None:
        require_positive("noise_multiplier", self.noise_multiplier)
        require_positive("max_grad_norm", self.max_grad_norm)

    @cached_with_cost(256)
    def own_pair(self, shift: int) -> Loss:
        """Return about 2001 chords; vectors that differ by `shift` in the 1-norm cost no more than one coordinate."""
        # Change one coordinate after the other, then powers of tests compose (as in `losses.atoms.chain_of`), and those
        # of two shifts on one line compose to that of their sum.
        pure = shift / self.noise_multiplier
        return _laplace_chords(_laplace_losses(pure)) if pure <= FAR else approximate_pair(pure)

    def rdp(self, order: float, shift: int = 1) -> float:
        """Return the exact divergence of Lap(0, 1) and Lap(pure, 1): Mironov 2017 (1702.07476v3), Proposition 6."""
        pure = shift / self.noise_multiplier
        if math.isinf(order):
            return pure
        # In log space: for large `pure` no float holds the exponentials.
        head = math.log(order / (2 * order - 1)) + (order - 1) * pure
        tail = math.log((order - 1) / (2 * order - 1)) - order * pure
        return float(np.logaddexp(head, tail)) / (order - 1)

    def own_cells(self, center: int, centers: list[int]) -> Array:
        """Return log masses below the first center, in cells between 4001 even cuts and the centers, and above them."""
        low, high, scale = centers[0], centers[-1], self.noise_multiplier
        spend((_CELLS + len(centers)) * 3 * ELEMENT + TURN)
        cuts = np.unique(np.append(np.linspace(low, high, _CELLS + 1), centers))
        near = np.where(cuts[:-1] >= center, cuts[:-1] - center, center - cuts[1:])
        inside = math.log(0.5) + log1m_exp(np.diff(cuts) / scale) - near / scale
        ends = (math.log(0.5) - (center - low) / scale, math.log(0.5) - (high - center) / scale)
        return np.concatenate([ends[:1], inside, ends[1:]])


def _laplace_chords(losses: Array) -> Loss:
    """Return chords of Laplace noise's profile (Balle et al. 2018, 1807.01647v2, Theorem 3): an upper bound."""
    # The profile is delta(eps) = 1 - e^((eps - pure) / 2) for |eps| < pure: the loss is pure with probability 1/2,
    # -pure with e^-pure / 2, and between them has the density e^((x - pure) / 2) / 4 at x. It is convex in e^eps, so
    # chords are an upper bound. Of each interval of length h they leave e^((a - pure) / 2) w to either end a of it,
    # with w the half of tanh(h / 4).
    # Masses are kept as logarithms: of large losses no float holds them, and they decide the reverse direction.
    half_shares = np.tanh(np.diff(losses) / 4) / 2
    shares = np.append(0.5, half_shares) + np.append(half_shares, 0.5)
    return symmetric_pair(losses, np.log(shares) + (losses - losses[-1]) / 2)


def _laplace_losses(pure: float) -> Array:
    """Return losses from -pure to pure at which chords end: even ones for small pure, else finer at both ends."""
    # The P mass falls like e^(x/2) from the loss `pure` down, and the Q mass from -pure up: both ends need fine losses.
    if pure <= _MAX_EVEN_LOSS:
        return np.linspace(-pure, pure, _CHORD_ENDS)
    number = math.ceil(math.log1p(pure / _DOUBLING_DISTANCE) * _DOUBLING_DISTANCE / _END_SPACING)
    from_end = _DOUBLING_DISTANCE * np.expm1(np.linspace(0.0, math.log1p(pure / _DOUBLING_DISTANCE), number + 1))
    negative = from_end[:-1] - pure
    return np.concatenate([negative, [0.0], -negative[::-1]])


# Noise on whole numbers: the discrete Gaussian and the discrete Laplace distribution.


# Largest number of noise values that are enumerated; an array of them takes 8 MB, ten times more 80 MB each.
_MAX_NOISE_VALUES = 1_000_000
_TAIL_DEVIATIONS = 39.0  # deviations beyond which a discrete Gaussian has less than 1e-330, which no float holds
_SMALLEST_FLOAT = 5e-324
# More losses than these are merged by chords, which cost at most 1e-5 of epsilon; a tenth of them 100 times that.
_MAX_EXACT_LOSSES = 16_000


@dataclass(frozen=True, kw_only=True)
class DiscreteGaussian(AdditiveNoise):
    """Noise on a whole number with Pr[x] proportional to e^(-x^2 / (2 noise_multiplier^2))."""

    name: ClassVar[str] = "discrete-gaussian"
    assumptions: ClassVar[tuple[str, ...]] = _WHOLE
    noise_multiplier: float = key(exact("0.001", 10_000, "from 0.001 to 10000"), NOISE_MEANING, advice=NOISE_ADVICE)
    clip: ClassVar[Key] = CLIP
    also: tuple[NoisySum, ...] = also_key()

    def __post_init__(self) -> None:
        max_sigma = _MAX_NOISE_VALUES / (2 * _TAIL_DEVIATIONS)
        if not 0 < self.noise_multiplier <= max_sigma:
            raise InputError(
                f"noise_multiplier: expected a number above 0 and at most {max_sigma:g}, got {self.noise_multiplier!r}"
            )

    @cached_with_cost(64)
    def own_pair(self, shift: int) -> Loss:
        """Return Canonne et al. 2020 (2004.00010v4), Definition 1, noise beyond 39 deviations as infinite loss."""
        # The infinity mass is more than the noise that is left out has.
        sigma, tail = self.noise_multiplier, math.ceil(_TAIL_DEVIATIONS * self.noise_multiplier)
        largest = (shift / sigma) * ((shift / sigma) / 2 + tail / sigma)
        if largest > FAR:
            return approximate_pair(largest, _SMALLEST_FLOAT)
        noise = np.arange(-tail, tail + 1, dtype=np.float64)
        log_total = math.log(math.fsum(np.exp(-0.5 * (noise / sigma) ** 2).tolist()))
        # Where the two centers are far apart, the numbers between them have no mass in P nor in Q: two ranges then.
        overlap = shift <= 2 * tail + 1
        ranges = [(-tail, shift + tail)] if overlap else [(-tail, tail), (shift - tail, shift + tail)]
        parts: list[tuple[Array, Array]] = []  # increasing losses, and log P masses
        for low, high in reversed(ranges):
            x = np.arange(high, low - 1, -1, dtype=np.float64)
            cells = _cells(-0.5 * (x / sigma) ** 2 - log_total, _MAX_EXACT_LOSSES)
            width = cells.shape[1]  # above 1 the losses are those at ends of even cells
            masses = _move_to_cell_ends(cells, shift / sigma**2) if width > 1 else cells.reshape(-1)
            x = high - width * np.arange(masses.size, dtype=np.float64)
            parts.append((shift * (shift - 2 * x) / (2 * sigma * sigma), masses))
        losses, logs = (np.concatenate(columns) for columns in zip(*parts, strict=True))
        return symmetric_pair(losses, logs, infinity_mass=_SMALLEST_FLOAT)

    def rdp(self, order: float, shift: int = 1) -> float:
        """Return the upper bound of Canonne et al. 2020 (2004.00010v4), Proposition 5."""
        return order * shift**2 / (2 * self.noise_multiplier**2)

    def own_cells(self, center: int, centers: list[int]) -> Array:
        """Return log masses of at most 16,000 even cells, from 39 sigma below the first to 39 above the last center."""
        low, high, sigma = centers[0], centers[-1], self.noise_multiplier
        spend((high - low + 4 * _TAIL_DEVIATIONS * sigma + 3) * 3 * ELEMENT + TURN)
        # What is left out, below e^-760, is taken from both data sets: a lower bound loses nothing that floats hold.
        far = math.ceil(_TAIL_DEVIATIONS * sigma)
        log_total = math.log(math.fsum(np.exp(-(np.arange(-far, far + 1) ** 2) / (2 * sigma * sigma)).tolist()))
        places = np.arange(low - far, high + far + 1)
        logs = -((places - center) ** 2) / (2 * sigma * sigma) - log_total
        return _merged(_cells(logs, _MAX_ROW))


def _cells(logs: Array, max_cells: int) -> Array:
    """Return log masses in rows of ceil(size / max_cells) neighbours, the last row filled up with -inf."""
    width = -(-logs.size // max_cells)
    return np.pad(logs, (0, -logs.size % width), constant_values=-np.inf).reshape(-1, width)


def _merged(cells: Array) -> Array:
    """Return the log of the mass of each row of log masses."""
    top = cells.max(axis=1)
    shift = np.where(np.isfinite(top), top, 0.0)  # next to no noise leaves whole cells without mass
    with np.errstate(divide="ignore"):
        return shift + np.log(np.exp(cells - shift[:, None]).sum(axis=1))


def _move_to_cell_ends(cells: Array, loss_step: float) -> Array:
    """Return log P masses moved to the ends of cells (rows), P and Q kept: 2207.04380v3, section 4."""
    # A mass m with loss l between the ends a < b of its cell becomes m_a + m_b = m with m_a e^-a + m_b e^-b = m e^-l:
    # the mass in Q.
    width = cells.shape[1]
    index = np.arange(width, dtype=np.float64)
    log_cell = log1m_exp(np.array(loss_step * width))
    to_upper = log1m_exp(loss_step * index) - log_cell
    to_lower = log1m_exp(loss_step * (width - index)) - log_cell - loss_step * index
    upper, lower = (log_sum_exp([*(cells + share).T]) for share in (to_upper, to_lower))
    return np.logaddexp(np.append(lower, -np.inf), np.append(-np.inf, upper))


@dataclass(frozen=True, kw_only=True)
class DiscreteLaplace(AdditiveNoise):
    """Noise on a whole number with Pr[x] proportional to e^(-|x| / noise_multiplier)."""

    name: ClassVar[str] = "discrete-laplace"
    assumptions: ClassVar[tuple[str, ...]] = _WHOLE
    noise_multiplier: float = key(SCALE, _SCALE_MEANING, advice=_SCALE_ADVICE)
    clip: ClassVar[Key] = CLIP
    also: tuple[NoisySum, ...] = also_key()

    def __post_init__(self) -> None:
        require_positive("noise_multiplier", self.noise_multiplier)

    @cached_with_cost(256)
    def own_pair(self, shift: int) -> Loss:
        """Return Ghosh, Roughgarden, Sundararajan 2009 (0811.2841v3), Definition 2.2, by chords from 16,000 losses."""
        scale = self.noise_multiplier
        if shift / scale > FAR:
            return approximate_pair(shift / scale)
        if shift < _MAX_EXACT_LOSSES:
            x = np.arange(shift + 1, dtype=np.float64)
        else:
            # The whole numbers, 0 and `shift` included, that are next to where `_laplace_losses` lie. Chords of chords
            # are still an upper bound, since the profile is convex.
            x = np.unique(np.rint((_laplace_losses(shift / scale) * scale + shift) / 2))
            x = np.concatenate([[0.0], x[(x > 0) & (x < shift)], [float(shift)]])
        return _laplace_chords((2.0 * x - shift) / scale)

    def own_cells(self, center: int, centers: list[int]) -> Array:
        """Return log masses of each number between the first and last center, and of the two tails that these begin."""
        low, high, scale = centers[0], centers[-1], self.noise_multiplier
        spend((high - low + 3) * 3 * ELEMENT + TURN)
        log_total = math.log1p(math.exp(-1 / scale))
        inside = math.log(math.tanh(0.5 / scale)) - np.abs(np.arange(low + 1, high) - center) / scale
        return np.concatenate([[-(center - low) / scale - log_total], inside, [-(high - center) / scale - log_total]])
