"""Noise that another library found for a target epsilon: the least that it can be, if its accountant keeps its word.

Such a library returns noise for which its own accountant, asked about the Poisson run that it assumes, reports at most
the target (`above` it at most), whatever the tolerance of its search: TF-Privacy 0.8.0 may end 2e-12 of noise short,
which the distances below cover. If the accountant reports no less than the truth, the run with that
noise costs at most the target; and more noise costs less (docs/theory.md, Theorem 14.1). So noise for which a lower
bound on the cost, or the accountant itself where it is computed as the library does, exceeds the target is less than
what the library returned, and the declared run is certified with it.
"""

import math
from contextlib import suppress
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple

from dpcalc.errors import ConvergenceError, InputError
from dpcalc.guarantee import CONDITIONAL, shown_number
from dpcalc.records import dataclass
from dpcalc.work import FAILURES

OPACUS_ORDERS = (*(1 + x / 10 for x in range(1, 100)), *range(12, 64))
TF_PRIVACY_ORDERS = (*(1 + x / 10 for x in range(1, 100)), *range(11, 64), 128, 256, 512, 1024)
"""Of TF-Privacy's statement; they are the default of dp_accounting."""
_COMPUTE_NOISE_ORDERS = (1.25, 1.5, 1.75, 2.0, 2.25, 2.5, 3.0, 3.5, 4.0, 4.5, *range(5, 64), 128, 256, 512)
_JAX_ORDERS = (*(1.01 + 6.99 * x / 49 for x in range(50)), *range(9, 64), *(65 + 447 * x // 9 for x in range(10)))


class Library(NamedTuple):
    """An accountant of a library that searches for noise."""

    versions: str  # in which its search and its accountant were read
    call: str  # that returns the noise
    orders: tuple[float, ...] = ()  # of Renyi divergences; () where it composes losses, which are bounded from below
    above: float = 0.0  # by how much its accountant may report more than the target, as it says itself


_OPACUS = ("Opacus 1.4 to 1.6", "make_private_with_epsilon or get_noise_multiplier")
_DP_ACCOUNTING = ("dp_accounting 0.4 to 0.6", "calibrate_dp_mechanism")
_JAX = ("JAX-Privacy 1.0 to 2.0", "calibrate_noise_multiplier")
LIBRARIES = {
    "opacus.prv": Library(*_OPACUS),
    "opacus.rdp": Library(*_OPACUS, orders=OPACUS_ORDERS),
    "dp-accounting.pld": Library(*_DP_ACCOUNTING),
    "dp-accounting.rdp": Library(*_DP_ACCOUNTING, orders=TF_PRIVACY_ORDERS),
    "tf-privacy.rdp": Library("TF-Privacy 0.8 to 0.9", "compute_noise (not 0)", orders=_COMPUTE_NOISE_ORDERS),
    "jax-privacy.pld": Library(*_JAX),
    "jax-privacy.rdp": Library(*_JAX, orders=_JAX_ORDERS),
    "prv-accountant.prv": Library("prv_accountant 0.1 to 0.2", "find_noise_multiplier", above=0.1),
}
CLASSICAL = "gaussian.classical"
"""No accountant: noise of so many sensitivities by a formula for the epsilon and delta of one release."""
FOUND_NOISE = "assumed run"
"""Name of the bound that is the target itself, for the run that the library assumed."""
ROUND_OFF = "steps / delta"
"""What the round-off of composed losses grows with, which their accountants do not count; that of a step is 1e-16."""
LIMITS = {"epsilon": (0.1, 64.0), "delta": (1e-9, 0.01), "rate": (1e-5, 1.0), "steps": (1, 10**5), ROUND_OFF: (1, 1e11)}
"""Where the accountants were compared with certified bounds and under-reported nowhere (tests/peers)."""
_FAR = {"delta": (1e-9, 1e-3), "rate": (1 / 235, 1.0), "steps": (1, 10**4)}  # above epsilon 40, of composed losses
_LEAST, _MOST = 0.05, 1e5  # noise that is looked for
_FINEST, _FARTHEST = 2e-5, 0.1  # relative distance from the noise that the search finds to one surely too small
_ROUND_OFF = 1e-6  # relative, of a Renyi divergence as the libraries compute it


def classical_noise(*, epsilon: float, delta: float) -> float:
    """Return sqrt(2 ln(1.25 / delta)) / epsilon, rounded down: what code draws by it, whether or not it is private."""
    # Source: Dwork, Roth 2014, theorem A.1, which needs epsilon < 1; `LocalDpMod` of Flower and `Gaussian` of FedML
    # draw so.
    return math.sqrt(2 * math.log(1.25 / delta)) / epsilon * (1 - 1e-14)


@dataclass(frozen=True, kw_only=True)
class Calibration:
    """What a library was asked: the noise with which so many Poisson steps of this rate cost at most a target."""

    epsilon: float
    delta: float
    by: str  # a key of LIBRARIES
    rate: Fraction
    steps: int

    @property
    def words(self) -> str:
        return (
            f"noise >= {shown_number('lower', self.noise)}, if {self.by} at its default settings was told of "
            f"{self.steps} Poisson steps at the rate {self.rate} and the target {self.epsilon:g} (delta {self.delta:g})"
        )

    @property
    def note(self) -> str:
        """What an answer rests on."""
        return f"{CONDITIONAL}{self.words}, and its accountant reports no less than the truth"

    @property
    def assumption(self) -> str:
        """What must be true of the library and the training code."""
        versions, call, *_ = LIBRARIES[self.by]
        return f"{self.words}, by {call} of {versions}, and its accountant reports no less than the truth"

    @property
    def assuming(self) -> str:
        """The run that the library was told of, as a config states it."""
        return f"assuming: {{rate: {self.rate}, steps: {self.steps}}}"

    @property
    def limit(self) -> float:
        """Epsilon that the accountant reports at most for the noise that was found."""
        return self.epsilon + LIBRARIES[self.by].above

    @property
    def noise(self) -> float:
        """The least noise multiplier that the library can have returned; InputError where that is not known."""
        orders, why = LIBRARIES[self.by].orders, ""
        for name, (low, high) in (LIMITS if orders or self.epsilon <= 40 else LIMITS | _FAR).items():
            value = self.steps / self.delta if name == ROUND_OFF else float(getattr(self, name))
            if not why and not low <= value <= high and not (name == ROUND_OFF and orders):
                why = (
                    f"{name}: expected {low:g} to {high:g}, where it was compared with certified bounds, got {value:g}"
                )
        if not why and (noise := _least_noise(orders, self.limit, self.delta, self.rate, self.steps)):
            return noise
        why = why or f"it finds no noise between {_LEAST:g} and {_MOST:g} that can be bounded"
        raise InputError(f"{self.by}, {why}; correct what the library was asked, or state the noise that ran")


@lru_cache(maxsize=256)
def _least_noise(orders: tuple[float, ...], target: float, delta: float, rate: Fraction, steps: int) -> float:
    """Return noise for which the accountant reports more than the target, just below where it does no longer; or 0."""
    from dpcalc.accountants.composed_loss import LOWER
    from dpcalc.accountants.inversion import inversion
    from dpcalc.accountants.pld import epsilon_bounds
    from dpcalc.numerics import bracket_root
    from dpcalc.planner.compare import renyi_epsilon
    from dpcalc.planner.published import flat_steps

    def excess(log_noise: float, *, is_certified: bool = False) -> float:
        """Return the log of what the accountant reports, or cannot be below, over the target."""
        noise, epsilon = math.exp(log_noise), None
        counts = flat_steps([(rate, noise, steps)])
        if orders:  # its own formulas are rounded in another way
            epsilon = renyi_epsilon([(rate, noise, steps)], orders, delta) * (1 - _ROUND_OFF)
        elif not is_certified:
            with suppress(ConvergenceError):
                epsilon = inversion(counts, delta=delta)
        if epsilon is None:
            epsilon = epsilon_bounds(counts, delta=delta, sides=(LOWER,))[0]
        return math.log(min(max(epsilon, 1e-9), 1e9) / target)

    with suppress(*FAILURES):
        low, high, step = math.log(_LEAST), 0.0, _ROUND_OFF if orders else _FINEST
        while high < math.log(_MOST) and excess(high) > 0:
            low, high = high, high + 1
        if excess(high) > 0 or excess(low) <= 0:
            return 0.0
        root = bracket_root(excess, low, high, tolerance=step / 10)[0]
        while step < _FARTHEST:
            if excess(root - step, is_certified=True) > 0:
                return math.exp(root - step)
            step *= 2
    return 0.0
