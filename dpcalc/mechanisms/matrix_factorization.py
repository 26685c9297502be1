"""Matrix factorization: Gaussian noise that is correlated over the steps (DP-FTRL, tree aggregation, banded noise).

Source: docs/theory.md, Definition 16.1 and Theorem 16.2.
"""

import json
import re
from abc import ABC, abstractmethod
from dataclasses import field, fields, replace
from functools import lru_cache
from itertools import pairwise
from typing import ClassVar, Literal

import numpy as np

from dpcalc.arrays import Array
from dpcalc.keys import COUNT, DATA_FILE, MAX_COUNT, NOISE, Key, Schema, Structure, Word, key
from dpcalc.mechanisms import strategies
from dpcalc.mechanisms.gaussian import NORM, NORM_MEANING, Gaussian, OtherSum, also_key
from dpcalc.mechanisms.kinds import CLIP, Mechanism
from dpcalc.mechanisms.strategies import Bounds, EvenNoise, Participation, Sensitivity
from dpcalc.records import dataclass

MAX_COEFFICIENTS = 5_000
"""Most coefficients of a Toeplitz strategy that a config states; a config may hold 10,000 words."""
MAX_BANDS = 100_000
"""Most bands of a banded strategy; ten times more take seconds."""
_SHOWN = 60  # characters of a strategy in words
STRATEGIES = "identity, prefix-sum, tree, {toeplitz: [1, 0.5]}, {banded: {bands: 8}} or {file: strategy.npy}"


class Strategy(ABC):
    """A lower triangular matrix C, or trees over the steps, by which the noise of the steps is correlated."""

    @property
    def max_steps(self) -> int:
        """Steps of the longest run that it is for."""
        return MAX_COUNT

    @property
    @abstractmethod
    def text(self) -> str:
        """Value of `mechanism.strategy` as a config states it."""

    @property
    def identity(self) -> str:
        """Text that only strategies with the same entries share."""
        return self.text

    @property
    def short_text(self) -> str:
        """The text, cut to 60 characters."""
        return self.text if len(self.text) <= _SHOWN else f"{self.text[:_SHOWN]}..."

    @property
    def is_rising(self) -> bool:
        """True if mu is proved not to fall with the number of steps (docs/theory.md, Theorem 16.9)."""
        return True

    @abstractmethod
    def sensitivity(self, steps: int, participation: Participation) -> Sensitivity:
        """Declare the sensitivity in the first steps, an upper bound and a value attained; InputError if too long."""

    @abstractmethod
    def bands(self, steps: int) -> int:
        """Return w with C_ij = 0 for i - j >= w; 0 for trees, which have no such matrix."""

    def full_steps(self, steps: int, groups: int) -> int:
        """Return how many of the steps 0, groups, 2 groups, ... have columns of C that the run's end does not cut."""
        return (steps - self.bands(steps)) // groups + 1  # the first columns, which do not end early

    def even_noise(self, steps: int, period: int) -> EvenNoise:  # noqa: ARG002  columns of most are even
        """Return the factors on the noise that make up for unequal norms of columns: 1 and 1 unless overridden."""
        return EvenNoise(for_upper=1.0, for_lower=1.0)

    @abstractmethod
    def prefix_errors(self, steps: int) -> tuple[float, float] | None:
        """Declare estimates of the RMS and the largest deviation of prefix sums at noise multiplier 1, or None.

        Estimates, no bounds; None where they take too long or have no finite value.
        """


@dataclass(frozen=True, kw_only=True)
class Toeplitz(Strategy):
    """C_ij = c_(i - j).

    Attributes:
        coefficients: c_0 other than 0, c_1, ...; 0 after their end.
    """

    coefficients: tuple[float, ...]

    @property
    def text(self) -> str:
        return f"{{toeplitz: [{', '.join(map(_number_text, self.coefficients))}]}}"

    @property
    def is_rising(self) -> bool:
        """True if the coefficients are >= 0 and never rise, so that mu does not fall with the number of steps."""
        # After their end the coefficients are 0, so that the last one must not be below that.
        c = self.coefficients
        return c[-1] >= 0 and all(later <= earlier for earlier, later in pairwise(c))

    def first_coefficients(self, steps: int) -> tuple[float, ...]:
        """Return the coefficients that a run of `steps` steps uses."""
        return self.coefficients[:steps]

    def sensitivity(self, steps: int, participation: Participation) -> Sensitivity:
        """Return `toeplitz_sensitivity` of the first coefficients; InputError if over 1e7 numbers would be summed."""
        return strategies.toeplitz_sensitivity(self.first_coefficients(steps), steps, participation)

    def bands(self, steps: int) -> int:
        return len(self.first_coefficients(steps))

    def prefix_errors(self, steps: int) -> tuple[float, float] | None:
        return strategies.toeplitz_error(self.first_coefficients(steps), steps)


@dataclass(frozen=True, kw_only=True)
class Identity(Toeplitz):
    """Independent noise in every step, as in DP-SGD."""

    coefficients: tuple[float, ...] = (1.0,)

    @property
    def text(self) -> str:
        return "identity"


@dataclass(frozen=True, kw_only=True)
class BandedSquareRoot(Toeplitz):
    """The first `band_count` coefficients of (1 - x)^(-1/2): 1, 1/2, 3/8, 5/16, ...

    Attributes:
        band_count: number of bands, from 1 to MAX_BANDS.

    References:
        Kalinin, Lampert 2024 (2405.13763), banded square root factorization.
    """

    coefficients: tuple[float, ...] = field(default=(), init=False, repr=False, compare=False)
    band_count: int

    def __post_init__(self) -> None:
        places = np.arange(1, self.band_count)
        values = np.cumprod(np.concatenate(([1.0], (2 * places - 1) / (2 * places))))
        object.__setattr__(self, "coefficients", tuple(values.tolist()))

    @property
    def text(self) -> str:
        return f"{{banded: {{bands: {self.band_count}}}}}"

    def sensitivity(self, steps: int, participation: Participation) -> Sensitivity:
        """Return the Toeplitz sensitivity, widened on both sides by the round-off of the coefficients."""
        of_floats = super().sensitivity(steps, participation)
        # The j-th coefficient is a product of j rounded quotients: off by 2 j roundings, and its square by twice that.
        margin = 10 * self.band_count * 2.0**-53
        lower, upper = of_floats.squared
        return replace(of_floats, squared=Bounds(lower * (1 - margin), upper * (1 + margin)))


@dataclass(frozen=True, kw_only=True)
class PrefixSum(Strategy):
    """Lower triangle of ones: independent noise in every prefix sum."""

    @property
    def text(self) -> str:
        return "prefix-sum"

    def sensitivity(self, steps: int, participation: Participation) -> Sensitivity:
        """Return `prefix_sum_sensitivity` of the first steps, exact but for rounding."""
        return strategies.prefix_sum_sensitivity(steps, participation)

    def bands(self, steps: int) -> int:
        return steps

    def prefix_errors(self, steps: int) -> tuple[float, float]:
        return float(np.sqrt(steps)), float(np.sqrt(steps))


@dataclass(frozen=True, kw_only=True)
class Tree(Strategy):
    """Binary trees whose nodes get noise of their own.

    Attributes:
        restart_every: steps of a tree, after which the next one begins; None for one tree.
    """

    restart_every: int | None = None

    @property
    def text(self) -> str:
        return "tree" if self.restart_every is None else f"{{tree: {{restart_every: {self.restart_every}}}}}"

    def sensitivity(self, steps: int, participation: Participation) -> Sensitivity:
        """Return `tree_sensitivity` of the first steps, relative to one node's noise; an upper bound if not exact."""
        return strategies.tree_sensitivity(steps, self.restart_every, participation)

    def bands(self, steps: int) -> int:
        del steps
        return 0

    def prefix_errors(self, steps: int) -> tuple[float, float] | None:
        return strategies.tree_error(steps, self.restart_every)


@dataclass(frozen=True, kw_only=True)
class Matrix(Strategy):
    """A lower triangular matrix from a file; a shorter run uses its beginning, with the same noise.

    Attributes:
        name: of the file, as the config has it.
        digest: SHA-256 of the number of rows, a newline and the entries, row by row in the order of bytes of float64;
            64 hexadecimal digits.
        entries: n x n, finite, the diagonal nowhere 0.
    """

    name: str = field(compare=False)
    digest: str
    entries: Array = field(compare=False, repr=False)

    @property
    def max_steps(self) -> int:
        """Number of rows."""
        return len(self.entries)

    @property
    def text(self) -> str:
        is_plain = re.fullmatch(r"[\w./-]+", self.name)
        return f"{{file: {self.name if is_plain else json.dumps(self.name)}, sha256: {self.digest}}}"

    @property
    def identity(self) -> str:
        return f"sha256 {self.digest}"

    @property
    def short_text(self) -> str:
        return f"{self.text.partition(', sha256')[0][:_SHOWN]}, sha256: {self.digest[:16]}...}}"

    @property
    def is_rising(self) -> bool:
        """False: the matrix is for one number of steps."""
        return False

    def sensitivity(self, steps: int, participation: Participation) -> Sensitivity:
        """Return the sensitivity in the first steps, relative to the largest column of the whole matrix; cached."""
        return _matrix_sensitivity(self, steps, participation)

    def bands(self, steps: int) -> int:
        return strategies.matrix_bands(self.entries[:steps, :steps])

    def full_steps(self, steps: int, groups: int) -> int:
        """Return the largest number of steps i, i + groups, ... whose columns have the whole matrix's largest norm."""
        # Of the whole matrix, as the noise is: columns that end early in a shorter run still have their full noise.
        norms = np.einsum("ij,ij->j", self.entries, self.entries)
        is_full = norms[:steps] >= norms.max() * (1 - strategies.ALMOST)
        return max(int(is_full[group::groups].sum()) for group in range(min(groups, steps)))

    def even_noise(self, steps: int, period: int) -> EvenNoise:
        """Return the factors on the noise that make up for unequal norms of columns, by `matrix_even_noise`."""
        return strategies.matrix_even_noise(self.entries, steps, period)

    def prefix_errors(self, steps: int) -> tuple[float, float] | None:
        return strategies.matrix_error(self.entries[:steps, :steps])


@lru_cache(maxsize=8)
def _matrix_sensitivity(strategy: Matrix, steps: int, participation: Participation) -> Sensitivity:
    """Return the sensitivity of the first steps of a matrix, relative to the largest column of all of it; cached."""
    of_part = strategies.matrix_sensitivity(strategy.entries[:steps, :steps], participation)
    if steps == strategy.max_steps:
        return of_part
    # The noise is stated for the whole matrix and stays as it is in a shorter run, with other largest columns.
    whole = strategies.matrix_sensitivity(strategy.entries, Participation(separation=1, max_times=1))
    return replace(of_part, column=whole.column)


def _number_text(value: float) -> str:
    """Return the shortest text of a number, whole ones without a point."""
    return repr(int(value)) if float(value).is_integer() and abs(value) < MAX_COUNT else repr(value)


def _mapping_schema(name: str, value: Schema) -> Schema:
    """Return the JSON Schema of a mapping with one required key and no others but `x-` keys."""
    return {
        "type": "object",
        "properties": {name: value},
        "required": [name],
        "patternProperties": {"^x-": True},
        "additionalProperties": False,
    }


_COEFFICIENTS: Schema = {
    "type": "array",
    "items": {"type": ["number", "string"]},
    "minItems": 1,
    "maxItems": MAX_COEFFICIENTS,
}
_STRATEGY: Schema = {
    "anyOf": [
        {"enum": ["identity", "prefix-sum", "tree"]},
        _mapping_schema("toeplitz", _COEFFICIENTS),
        _mapping_schema("banded", _mapping_schema("bands", COUNT.as_json_schema())),
        _mapping_schema("tree", _mapping_schema("restart_every", COUNT.as_json_schema())),
        DATA_FILE | {"properties": {"file": {"type": "string"}, "sha256": {"type": ["string", "number"]}}},
    ]
}


@dataclass(frozen=True, kw_only=True)
class MatrixFactorization(Mechanism):
    """Sums of clipped vectors with Gaussian noise that is correlated over the steps by a strategy."""

    name: ClassVar[str] = "matrix-factorization"
    is_correlated: ClassVar[bool] = True
    assumptions: ClassVar[tuple[str, ...]] = (
        (
            "the steps release C G + Z or a function of it: G the sums of clipped vectors, Z independent Gaussian "
            "noise, C the strategy that is stated; the divisor is fixed, not the size of the batch"
        ),
    )
    strategy: Strategy = key(
        Structure(_STRATEGY),
        f"For type matrix-factorization the matrix C by which noise is correlated over the steps: {STRATEGIES}. Noise "
        "C^(-1) Z is added to the sums of the steps. {banded: {bands: 8}} has the coefficients 1, 1/2, 3/8, ... of the "
        "banded square root; {tree: {restart_every: 1024}} begins a new tree.",
        advice=f"one of {STRATEGIES}",
    )
    noise_multiplier: float = key(
        NOISE,
        "For type matrix-factorization: standard deviation of Z divided by the clip norm times the largest column norm "
        "of the strategy; for tree that of the noise of one node divided by the clip norm.",
        advice="the standard deviation of Z divided by the clip norm and the largest column norm of the strategy",
    )
    max_grad_norm: float = key(NORM, NORM_MEANING, default=1.0)
    clip: ClassVar[Key] = CLIP
    max_participations: int | None = key(
        COUNT,
        "For matrix-factorization: steps in which one unit takes part at most; by default as many as `min_separation` "
        "allows.",
        default=None,
    )
    min_separation: int | None = key(
        COUNT,
        "For matrix-factorization: two steps in which one unit takes part are at least so many steps apart (1: may "
        "follow each other); with `participation: fixed-epochs` the length of an epoch.",
        default=None,
        advice="say how many steps lie at least between two steps in which one unit takes part; 1 if nothing is known",
    )
    participation: Literal["min-separation", "fixed-epochs"] = key(
        Word(("min-separation", "fixed-epochs")),
        "For matrix-factorization: fixed-epochs says that a unit is at the same place in every epoch of "
        "`min_separation` steps. Where batches are shuffled again in every epoch it is not: say `min_separation: 1`.",
        default="min-separation",
    )
    also: tuple[float, ...] = also_key()

    def __post_init__(self) -> None:
        _ = self._as_gaussian

    @classmethod
    def of(cls, *, also: tuple[OtherSum, ...] = (), **parameters: object) -> "MatrixFactorization":
        noises = tuple(float(other.noise_multiplier) for other in also)
        return cls(**parameters, also=noises)  # type: ignore[arg-type]  # checked by the keys

    @property
    def _as_gaussian(self) -> Gaussian:
        """Independent Gaussian noise with the same numbers."""
        return Gaussian(noise_multiplier=self.noise_multiplier, max_grad_norm=self.max_grad_norm, also=self.also)

    @property
    def parameters(self) -> dict[str, object]:
        """Values of its keys by name, those that are None left out, the strategy as its text."""
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        return {name: value for name, value in values.items() if value is not None} | {"strategy": self.strategy.text}

    @property
    def identity(self) -> dict[str, object]:
        return self.parameters | {"strategy": self.strategy.identity}

    @property
    def limits(self) -> Participation:
        """The steps in which a unit may take part: their separation, how many at most, and if epochs are fixed."""
        return Participation(
            separation=self.min_separation or 1,
            max_times=self.max_participations,
            fixed_epochs=self.participation == "fixed-epochs",
        )

    @property
    def joint_noise_multiplier(self) -> float:
        """Noise multiplier of all sums together, rounded down: docs/theory.md, Theorem 7.5."""
        return self._as_gaussian.joint.noise_multiplier

    def sensitivity(self, steps: int) -> Sensitivity:
        """Return the sensitivity for a run of `steps` >= 1 steps, at most those of the strategy."""
        return self.strategy.sensitivity(steps, self.limits)

    @property
    def words(self) -> str:
        """The strategy and its noise multiplier in words; with further sums also their noise and the joint one."""
        relative = "of each node" if isinstance(self.strategy, Tree) else "relative to the largest column norm"
        others = ", ".join(f"{noise:g}" for noise in self.also)
        joint = f" (with sums at {others} on the same sample: together {self.joint_noise_multiplier:.6g})"
        noise = f"noise multiplier {self.noise_multiplier:g} ({relative})"
        return f"{self.strategy.short_text}, {noise}{joint if others else ''}"
