"""The Gaussian mechanism of DP-SGD: the sum of clipped vectors plus N(0, (noise_multiplier * max_grad_norm)^2 I)."""

import math
from dataclasses import dataclass
from typing import ClassVar

from dpcalc.errors import InputError


@dataclass(frozen=True, kw_only=True)
class Gaussian:
    """Gaussian noise on the sum of the clipped contributions.

    Attributes:
        noise_multiplier: noise standard deviation divided by the clip norm, >= 0; 0 is no noise.
        max_grad_norm: clip norm, > 0; reported, epsilon does not depend on it.
    """

    name: ClassVar[str] = "gaussian"
    noise_multiplier: float
    max_grad_norm: float = 1.0

    def __post_init__(self) -> None:
        """Refuse negative or non-finite numbers."""
        if not (math.isfinite(self.noise_multiplier) and self.noise_multiplier >= 0):
            raise InputError(f"noise_multiplier: expected a finite number >= 0, got {self.noise_multiplier!r}")
        if not (math.isfinite(self.max_grad_norm) and self.max_grad_norm > 0):
            raise InputError(f"max_grad_norm: expected a finite number > 0, got {self.max_grad_norm!r}")
