"""A composed privacy loss on a lattice, tilted so that the tail that decides epsilon is in the middle.

With t the tilt and h = 2^level the spacing, entry i stands for loss origin + (start + i) h and holds
p(loss) e^{t loss - log_norm}: entries sum to about 1, FFT round-off is relative to what matters, and a
delta of 1e-30 keeps its digits. Spacings are powers of two, so that any two lattices nest exactly.

Every error is carried along: `lost` bounds the tilted mass that is missing or misplaced (tails, wrapped
tails), `noise` the 2-norm of the round-off. An upper end adds them, a lower end subtracts them.

Validity: delta(epsilon) = sum_l p(l) (1 - e^{epsilon - l})_+ is linear in p, and composing is convolving,
so replacing one factor p by p' with delta_p <= delta_p' at every real epsilon keeps the order for the
whole convolution.

Source: docs/theory.md, Theorem 9.3 and Theorem 9.4.
"""

import math
from dataclasses import replace

import numpy as np

from dpcalc.errors import TooLargeError
from dpcalc.numerics import (
    Array,
    convolve,
    cyclic_power_increments,
    cyclic_powers,
    fast_fft_size,
    in_rows,
    norm,
    unit_roundoff,
)
from dpcalc.records import dataclass
from dpcalc.work import ELEMENT, spend

_LOG_TAIL = math.log(1e-16)  # tilted mass left out at either end of a window: below round-off, and counted as lost
MOST_ENTRIES = 1 << 22  # of a lattice: 34 MB an array; more are refused with exit code 3


@dataclass(frozen=True, kw_only=True)
class LossPmf:
    """Tilted masses on a lattice."""

    tilt: float  # t > 0
    level: int  # spacing is 2.0 ** level
    start: int  # lattice index of the first entry
    mass: Array  # tilted masses, >= 0, sum about 1, shape (n,)
    log_norm: float  # log of the factor taken out
    # loss of lattice index 0; where a step's mass sits near one loss, the lattice is laid through it
    origin: float = 0.0
    lost: float = 0.0  # bound on the tilted mass missing from, or wrongly in, `mass`
    noise: float = 0.0  # bound on the 2-norm of the error of `mass`

    @property
    def spacing(self) -> float:
        """Distance of neighbouring losses, 2^level."""
        return math.ldexp(1.0, self.level)

    @property
    def losses(self) -> Array:
        """The loss of each entry, shape (n,)."""
        return self.origin + np.arange(self.start, self.start + self.mass.size, dtype=np.float64) * self.spacing

    def to_longdouble(self) -> "LossPmf":
        """Return the measure with masses in extended precision, if the machine has it."""
        return replace(self, mass=self.mass.astype(np.longdouble))

    def normalized(self) -> "LossPmf":
        """Return the measure with entries that sum to 1; log_norm keeps the factor."""
        return self.over(float(self.mass.sum()))

    def over(self, total: float) -> "LossPmf":
        """Return the measure with entries, `lost` and `noise` divided by `total`, whose log is added to log_norm."""
        return replace(
            self,
            mass=self.mass / total,
            log_norm=self.log_norm + math.log(total),
            lost=self.lost / total,
            noise=self.noise / total,
        )


@dataclass(frozen=True, kw_only=True)
class SplitPmf:
    """A loss whose bulk is on a fine lattice and whose rare large values (jumps) are on a coarse one."""

    # One step that rarely draws the unit leaks next to nothing most of the time, and sometimes a lot. On one lattice
    # fine enough for the bulk the jumps would span millions of points. The part of (F + C)^m without a jump is F^m on
    # the fine lattice, the remainder (F + C)^m - F^m is on the coarse one. Rounding F to the coarse lattice is weighted
    # by the chance of a jump, so it costs little.

    bulk: LossPmf  # on the finer lattice
    jumps: LossPmf  # on the coarser lattice, with the same tilt, origin and log_norm; masses of both sum to about 1

    @property
    def gap(self) -> int:
        """Number of doublings of the spacing from the bulk's lattice to that of the jumps."""
        return self.jumps.level - self.bulk.level

    @property
    def log_norm(self) -> float:
        """Log of the factor taken out of both."""
        return self.bulk.log_norm

    def to_longdouble(self) -> "SplitPmf":
        """Return the measure with the bulk (not the jumps) in extended precision."""
        return SplitPmf(bulk=self.bulk.to_longdouble(), jumps=self.jumps)

    def normalized(self) -> "SplitPmf":
        """Return the measure with masses that sum to 1 over both parts; log_norm keeps the factor."""
        total = float(self.bulk.mass.sum() + self.jumps.mass.sum())
        return SplitPmf(bulk=self.bulk.over(total), jumps=self.jumps.over(total))


def powers(pmf: LossPmf, counts: tuple[int, ...]) -> list[LossPmf]:
    """Return the k-fold composition for each k in counts, by one FFT; TooLargeError above 2^22 entries."""
    lows, size = _windows(pmf, counts)
    images = cyclic_powers(pmf.mass, pmf.start, counts, size=size)
    return [_from_cyclic_image(pmf, *each) for each in zip(counts, lows, images, strict=True)]


def powers_beyond(bulk: LossPmf, jumps: LossPmf, counts: tuple[int, ...]) -> list[LossPmf]:
    """Return (bulk + jumps)^n - bulk^n for each n in counts, never negative; TooLargeError above 2^22 entries."""
    whole = add_measures(bulk, jumps)
    lows, size = _windows(whole, counts)
    common = bulk.mass.astype(jumps.mass.dtype)
    # Of the difference alone: without the common part, round-off is relative to the jumps, however rare they are.
    images = cyclic_power_increments((common, bulk.start), (jumps.mass, jumps.start), counts, size=size)
    return [_from_cyclic_image(whole, *each) for each in zip(counts, lows, images, strict=True)]


def add_measures(a: LossPmf, b: LossPmf) -> LossPmf:
    """Add two measures in the precision of b, and their errors; tilt, level, origin, log_norm must agree, unchecked."""
    start = min(a.start, b.start)
    mass = np.zeros(max(a.start + a.mass.size, b.start + b.mass.size) - start, dtype=b.mass.dtype)
    for part in (a, b):
        mass[part.start - start : part.start - start + part.mass.size] += part.mass.astype(mass.dtype)
    rounded = 2 * unit_roundoff(mass) * norm(mass)
    return replace(a, start=start, mass=mass, lost=a.lost + b.lost, noise=a.noise + b.noise + rounded)


def _from_cyclic_image(pmf: LossPmf, count: int, low: int, image: tuple[Array, float]) -> LossPmf:
    """Return pmf^count from its cyclic (image, round-off), begun at `low`, negative masses cut and errors bounded."""
    # Mass that lacks in one copy lacks in the sum times what the others hold; each of the window's two ends leaves out
    # a tail, which is missing there and wraps around to the other end.
    total, (cyclic_mass, fft_noise) = float(pmf.mass.sum()), image
    mass = np.roll(cyclic_mass, -(low % cyclic_mass.size))
    return replace(
        pmf,
        start=low,
        origin=count * pmf.origin,
        mass=np.maximum(mass, 0.0, out=mass),
        log_norm=count * pmf.log_norm,
        lost=count * pmf.lost * max(1.0, total) ** (count - 1) + 4 * math.exp(_LOG_TAIL),
        noise=fft_noise + count * pmf.noise,
    )


def _windows(pmf: LossPmf, counts: tuple[int, ...]) -> tuple[list[int], int]:
    """Return the lowest index for each count, and a common FFT size: beyond either end tilted mass is below 1e-16."""
    # Chernoff: Pr[sum >= x] <= exp(count K(u) - u x) for every u > 0, K on bins rounded outwards.
    # Any u > 0 gives a valid window, so that a few around 1 / (deviation of the sum) are enough; masses are summed in
    # bins first, each taken at its end towards the tail that is bounded.
    spend(3 * ELEMENT * pmf.mass.size)
    index = np.arange(pmf.mass.size, dtype=np.float64)
    total = float(pmf.mass.sum())
    mean = float((pmf.mass * index).sum()) / total
    index -= mean
    deviation = math.sqrt(max(float((pmf.mass * index * index).sum()) / total, 1.0))  # of the index, at least 1
    bins = max(1, min(pmf.mass.size // 1024, int(deviation / 16)))
    binned = in_rows(pmf.mass, bins).sum(axis=1)
    used = np.flatnonzero(binned)
    log_mass, left, right = np.log(binned[used]), bins * used - mean, bins * used + (bins - 1) - mean
    lows, widest = [], 0
    for count in counts:
        u = 2.0 ** np.arange(-7, 6) / (deviation * math.sqrt(count))
        log_sums = (np.logaddexp.reduce(log_mass + u[:, None] * far, axis=1) for far in (right, -left))
        above, below = (float(((count * log_sum - _LOG_TAIL) / u).min()) for log_sum in log_sums)
        center = count * (mean + pmf.start)
        lows.append(math.floor(center - below))
        widest = max(widest, math.ceil(center + above) - lows[-1] + 1)
    size = fast_fft_size(widest)
    if size > MOST_ENTRIES:
        raise TooLargeError(
            f"privacy loss lattice: expected at most {MOST_ENTRIES} entries, needs {size}; try --method rdp"
        )
    return lows, size


def compose(a: LossPmf, b: LossPmf) -> LossPmf:
    """Return the composition of two losses of equal level and tilt (unchecked), with bounds on its errors."""
    a, b = a.normalized(), b.normalized()
    mass, noise = convolve(a.mass, b.mass)
    return LossPmf(
        tilt=a.tilt,
        level=a.level,
        start=a.start + b.start,
        origin=a.origin + b.origin,
        mass=np.maximum(mass, 0.0, out=mass),
        log_norm=a.log_norm + b.log_norm,
        lost=a.lost + b.lost + a.lost * b.lost,
        noise=noise + a.noise + b.noise,
    )


def trim(pmf: LossPmf) -> LossPmf:
    """Return the measure without ends of up to 1e-15 of its tilted mass each; `lost` grows by the cut mass."""
    # Less than the round-off of what is kept; every later transform is as much shorter.
    below = np.cumsum(pmf.mass)
    total = float(below[-1])
    first = int(np.searchsorted(below, 1e-15 * total))
    last = int(np.searchsorted(below, total * (1 - 1e-15))) + 1
    cut = float(pmf.mass[:first].sum() + pmf.mass[last:].sum())
    return replace(pmf, start=pmf.start + first, mass=pmf.mass[first:last], lost=pmf.lost + cut)


def with_public_draw(pmf: LossPmf, rate: float, log_norm: float, sign: int) -> LossPmf:
    """Return pmf with probability `rate`, else loss 0 (public draw), rounded by `sign`; TooLargeError if too wide."""
    # The loss 0 of a missed draw may lie between two points: a pessimistic one goes up, an optimistic one down.
    scale = rate * math.exp(pmf.log_norm - log_norm)
    place = sign * math.ceil(-sign * pmf.origin / pmf.spacing)
    start, end = min(pmf.start, place), max(pmf.start + pmf.mass.size, place + 1)
    if end - start > MOST_ENTRIES:
        raise TooLargeError(f"privacy loss lattice: expected at most {MOST_ENTRIES} entries; try --method rdp")
    mass = np.zeros(end - start, dtype=pmf.mass.dtype)
    mass[pmf.start - start : pmf.start - start + pmf.mass.size] = scale * pmf.mass
    at = pmf.origin + place * pmf.spacing
    mass[place - start] += (1 - rate) * math.exp(pmf.tilt * at - log_norm)
    return replace(pmf, start=start, mass=mass, log_norm=log_norm, lost=scale * pmf.lost, noise=scale * pmf.noise)
