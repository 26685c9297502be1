"""Privacy losses on lattices: masses, composition, wider lattices, and rare losses put together beyond a limit.

They are tilted so that the tail that decides epsilon is in the middle.

With t the tilt and h = 2^level the spacing, entry i stands for loss origin + (start + i) h and holds
p(loss) e^{t loss - log_norm}: entries sum to about 1, FFT round-off is relative to what matters, and a
delta of 1e-30 keeps its digits. Spacings are powers of two, so that any two lattices nest exactly.

Every error is carried along: `lost` bounds the tilted mass that is missing or misplaced (tails, wrapped
tails), `noise` the 2-norm of the round-off. An upper end adds them, a lower end subtracts them.

Validity: delta(epsilon) = sum_l p(l) (1 - e^{epsilon - l})_+ is linear in p, and composing is convolving,
so replacing one factor p by p' with delta_p <= delta_p' at every real epsilon keeps the order for the
whole convolution.

Source: docs/theory.md, Theorem 9.1, Theorem 9.2, Theorem 9.3, Theorem 9.4 and Theorem 9.7.
"""

import heapq
import math
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise

import numpy as np

from dpcalc.errors import TooLargeError
from dpcalc.losses.loss import Loss
from dpcalc.losses.moments import Curve, PublicDraw, RdpCurve
from dpcalc.losses.pair import half_line_end
from dpcalc.numerics import (
    Array,
    convolve,
    cyclic_power_increments,
    cyclic_powers,
    fast_fft_size,
    in_rows,
    norm,
    normal_log_cdf,
    sum_by_index,
    unit_roundoff,
)
from dpcalc.records import dataclass
from dpcalc.work import ELEMENT, TURN, spend

_LOG_TAIL = math.log(1e-16)  # tilted mass left out at either end of a window: below round-off, and counted as lost
ROUND = 16  # copies composed before a lattice is widened: fewer round more often, more make longer transforms
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
        # On the scale of the largest term, which takes a fifth of the time of logaddexp.
        raised = [log_mass + u[:, None] * far for far in (right, -left)]
        log_sums = (np.log(np.exp(x - x.max(axis=1)[:, None]).sum(axis=1)) + x.max(axis=1) for x in raised)
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


# Coarser grids for a loss on a lattice, pessimistic or optimistic; both are second order in the spacing.
#
# Pessimistic ("connect the dots", Doroshenko et al. 2022, 2207.04380v3, section 4): each mass goes to the two ends of
# its wide cell so that P and Q mass are kept; the profile becomes the chords of the convex profile in (e^epsilon,
# delta).
#
# Optimistic: the chords are lowered at each lattice point by the largest gap between chord and profile in its two
# cells. The profile used for the gap is that of the cell merged into one atom, which is post-processing; a chord
# lowered by the gap at both ends lies below it, so the result is below the true profile everywhere. Where that would
# need negative masses, the cells' atoms are merged further until they meet the lattice.


Rounding = Callable[[Array, Array, Array, float, float], Array]
"""From the tilted masses of n wide cells, as if moved to their lower ends, (what lies there, what lies above it within
the cell, the part of that which has to go to the upper end so that P and Q mass stay), tilt and spacing of the wide
lattice, to the tilted masses at the lattice points, from one point below the first cell to the end of the last, shape
(n + 2,)."""

_MAX_COST = 1.25  # tilted mass that lowered chords may lose, in shares of what the chords gain; else atoms are merged
_MAX_EXPONENT = 600.0  # of a tilted mass; floats end at 709
_IGNORED = 1e-14  # negative mass that is cut (and counted as lost) rather than cured


def coarsened(pmf: LossPmf, doublings: int, rounding: Rounding) -> LossPmf:
    """Return the loss rounded to a lattice 2^doublings times as wide, negative masses cut and counted in `lost`."""
    # 0 doublings leave it unchanged; the bounds on errors grow with the tilt.
    if doublings == 0:
        return pmf
    spend(ELEMENT * pmf.mass.size)
    block, spacing = 1 << doublings, math.ldexp(pmf.spacing, doublings)
    # The wide lattice keeps index 0: the first cell begins below the first entry unless that is on the wide lattice.
    head = pmf.start % block

    def factors(place: Array) -> tuple[Array, Array]:  # that move tilted masses to the lower end; times the upper share
        offset = place * pmf.spacing
        at_low = np.exp(-pmf.tilt * offset)
        return at_low, at_low * (np.expm1(-offset) / math.expm1(-spacing))

    if block <= 4 * pmf.mass.size:
        # Rows are wide cells; column k holds the masses k points above the lower end of their cell.
        rows = in_rows(pmf.mass, block, before=head)
        at_low, share = factors(np.arange(block, dtype=np.float64))
        at_low[0] = 0.0  # what lies at the lower end is not inside
        at_end, inside, to_upper = rows[:, 0], np.einsum("ij,j->i", rows, at_low), np.einsum("ij,j->i", rows, share)
    else:
        # All entries lie in one cell or two: a step that shows next to nothing has its losses on a lattice with a
        # spacing down to 2^-996.
        border, of_cells = block - head, []  # index of the first point of the second cell
        for offset, mass in ((float(head), pmf.mass[: min(border, pmf.mass.size)]), (0.0, pmf.mass[border:])):
            if mass.size:
                at_low, share = factors(offset + np.arange(mass.size, dtype=np.float64))
                aligned = int(offset == 0)  # whether the first mass is at the lower end, not inside
                of_cells.append((mass[:aligned].sum(), (mass * at_low)[aligned:].sum(), (mass * share).sum()))
        at_end, inside, to_upper = (np.array(column, dtype=pmf.mass.dtype) for column in zip(*of_cells, strict=True))
    points = rounding(at_end, inside, to_upper, pmf.tilt, spacing)
    cut = float(np.maximum(-points, 0.0).sum())
    swell = math.exp(pmf.tilt * spacing)  # a misplaced tilted mass moves by less than one new spacing
    return replace(
        pmf,
        level=pmf.level + doublings,
        start=(pmf.start >> doublings) - 1,
        mass=np.maximum(points, 0.0),
        lost=(pmf.lost + cut) * swell,
        noise=pmf.noise * math.sqrt(min(block, pmf.mass.size)) * swell,
    )


def coarsen_pessimistic(at_end: Array, inside: Array, to_upper: Array, tilt: float, spacing: float) -> Array:
    """Split the masses of n cells over their ends, P and Q mass unchanged: an upper bound at n + 2 lattice points."""
    points = np.zeros(inside.size + 2, dtype=inside.dtype)
    points[1:-1] = at_end + np.maximum(inside - to_upper, 0.0)
    points[2:] += to_upper * math.exp(tilt * spacing)
    return points


def coarsen_optimistic(at_end: Array, inside: Array, to_upper: Array, tilt: float, spacing: float) -> Array:
    """Lower the chords below the profile: a lower bound; if masses are < 0 then, take the envelope or merge atoms."""
    # How far above its cell's lower end the inside of each cell lies if merged into one atom.
    lifted = np.minimum(to_upper / np.where(inside > 0, inside, 1.0), 1 - 1e-15)
    above = np.minimum(-np.log1p(lifted * math.expm1(-spacing)), spacing)
    chords = coarsen_pessimistic(at_end, inside, to_upper, tilt, spacing)
    # Between the chord and the profile of the merged atom the gap is largest at the atom.
    points = _lower_chords(chords, to_upper * -np.expm1(above - spacing), tilt, spacing)
    if float(np.maximum(-points, 0.0).sum()) <= _IGNORED:
        return points
    # Lowered chords with concave corners are no profile, but the largest convex function below them is one. Merging the
    # atoms at the ends and inside of cells takes ten times as long, but next to a few heavy atoms it costs less tilted
    # mass: about as much as the chords had gained.
    masses = np.stack([at_end, inside * np.exp(tilt * above)], axis=1).astype(np.float64).ravel()
    envelope, merged = _lower_envelope(points, tilt, spacing), float(masses.sum())
    if envelope is not None and merged - float(envelope.sum()) <= _MAX_COST * (float(chords.sum()) - merged):
        return envelope
    losses = (np.arange(above.size)[:, None] * spacing + np.stack([np.zeros(above.size), above], axis=1)).ravel()
    used = np.flatnonzero(masses)
    places, at_places = merged_onto_lattice(masses[used], losses[used].astype(np.float64), tilt, spacing)
    return sum_by_index(np.array(places) + 1, np.array(at_places), size=above.size + 2).astype(inside.dtype)


def _lower_chords(points: Array, gap: Array, tilt: float, spacing: float) -> Array:
    """Return masses, some < 0, of chords lowered at each point by the larger gap of its cells, at most to profile 0."""
    # Lowering point j by g_j changes the profile's slopes on both sides: in masses, that is a second difference with
    # the weights of a lattice in e^epsilon.
    swell = math.exp(tilt * spacing)
    lowering = np.zeros(points.size - 1, dtype=points.dtype)  # at the lattice points from the first cell's lower end on
    lowering[:-1] = gap
    lowering[1:] = np.maximum(lowering[1:], gap * swell)
    points = points[1:].copy()
    # Where lowering would leave less than nothing, the profile is 0 from one lattice point earlier on: the chord before
    # that only sinks. Only the right end can be so low; 600 is what a float's exponent holds.
    back = np.arange(points.size - 1, -1, -1) * spacing
    near = int(np.searchsorted(-back, -600 / (1 + tilt)))
    plain = points[near:] * np.exp(tilt * back[near:])
    above = np.append(np.cumsum(plain[::-1])[::-1][1:], 0.0)
    discounted = np.append(np.cumsum((plain * np.exp(back[near:]))[::-1])[::-1][1:], 0.0)
    profile = np.maximum(above - np.exp(-back[near:]) * discounted, 0.0) * np.exp(-tilt * back[near:])
    first = near + int(np.argmax(profile <= lowering[near:] * (1 + 1e-9)))  # the last profile value is 0
    last = max(first - 1, near)
    lowering[last:] = profile[last - near :]
    points[0] += lowering[0]  # the chord from epsilon = -inf
    points[:-1] -= (lowering[1:] / swell - lowering[:-1]) * (math.exp(-spacing) / -math.expm1(-spacing))
    points[1:] -= (lowering[1:] - lowering[:-1] * swell) / math.expm1(-spacing)
    points[last + 1 :] = 0.0
    return np.concatenate([[0.0], points])


def _lower_envelope(points: Array, tilt: float, spacing: float) -> Array | None:
    """Remove negative masses by splitting them over their neighbours, P and Q mass unchanged; None if that fails."""
    # It fails if the last mass is negative, or if an exponent exceeds 600.
    # The chord over a concave corner splits its negative mass over both neighbours, with its P and Q mass; that may
    # make them concave in turn. Below the first point the profile is a chord from e^epsilon = 0, which keeps P mass.
    masses, size = points.tolist(), points.size
    above, below = list(range(1, size + 1)), list(range(-1, size - 1))
    corners = np.flatnonzero(points < 0).tolist()
    spend(3 * TURN * len(corners))
    while corners:
        i = corners.pop()
        mass = masses[i]
        if mass >= 0:
            continue
        low, high = below[i], above[i]
        if high == size or tilt * (high - low) * spacing > _MAX_EXPONENT:
            return None
        up, masses[i] = (high - i) * spacing, 0.0
        share = 1.0
        if low >= 0:
            down = (i - low) * spacing
            share = math.expm1(-down) / math.expm1(-down - up)
            masses[low] += mass * (1 - share) * math.exp(-tilt * down)
            above[low] = high
            corners.append(low)
        masses[high] += mass * share * math.exp(tilt * up)
        below[high] = low
        corners.append(high)
    return np.array(masses, dtype=points.dtype)


def merged_onto_lattice(mass: Array, loss: Array, tilt: float, spacing: float) -> tuple[list[int], list[float]]:
    """Merge sorted atoms onto lattice points, or round them down if no partner is near: a lower bound."""
    # Merging is post-processing, and an atom may be split at random. A sweep from one end groups what it meets before a
    # lattice point with as much of what lies beyond it as keeps both the P and the Q mass. Loss without a partner near
    # enough are rounded down; so the sweep goes to the end with less mass.
    if not mass.size:
        return [], []
    spend(3 * TURN * mass.size)
    top, bottom = mass[loss > loss[-1] - spacing].sum(), mass[loss < loss[0] + spacing].sum()
    return _sweep(mass, loss, tilt, spacing) if bottom > top else _sweep(mass[::-1], loss[::-1], tilt, -spacing)


def _sweep(mass: Array, loss: Array, tilt: float, step: float) -> tuple[list[int], list[float]]:
    """Merge the atoms before each point with later ones near by, else round them down; return (indices, masses)."""
    end, spacing, masses, losses = int(math.copysign(1, step)), abs(step), mass.tolist(), loss.tolist()
    # An atom moves to the lattice point at or beyond it, or as a partner of atoms before it to the one before: for all
    # at once the factors on the tilted mass, and on the error of the Q mass relative to the Q mass at the point.
    steps = np.ceil(loss / step)
    distance = steps * step - loss
    with np.errstate(over="raise"):
        at_next, excess = np.exp(tilt * distance), end * np.expm1(np.minimum(distance, 700.0))
    at_last = np.exp(np.minimum(tilt * (distance - step), 700.0))  # merged only where the exponent is at most 2
    at, moved_next, moved_excess = steps.astype(np.int64).tolist(), at_next.tolist(), (at_next * excess).tolist()
    moved_last, moved_gain = at_last.tolist(), (-end * np.expm1(np.minimum(distance - step, 700.0))).tolist()
    places, points, i, count = [], [], 0, len(masses)
    while i < count:
        place, total, missing = at[i], 0.0, 0.0
        while i < count and at[i] == place:
            total += masses[i] * moved_next[i]
            missing += masses[i] * moved_excess[i]
            i += 1
        # Merging is worth its cost as long as it is below that of rounding what is missing down by one spacing. Loss
        # so far off that they cost more are left alone: in shares of the tilted mass divided by the tilt, each costs
        # (1 + tilt) / 2 times its distance times its mass.
        limit = 1.0 if end < 0 else min(1.0, spacing * total / missing - 1) if missing else 0.0
        goal, more, gained = place * step, 0.0, 0.0
        while i < count and gained < missing:
            gap = goal - losses[i]
            if not 0.5 * (1 + tilt) * abs(gap) <= limit:
                break
            near = at[i] == place + 1
            moved = masses[i] * (moved_last[i] if near else math.exp(tilt * gap))
            part = moved * (moved_gain[i] if near else -end * math.expm1(gap))
            if part > missing - gained:
                share = (missing - gained) / part
                masses[i] *= 1 - share
                more, gained = more + share * moved, missing
                break
            more, gained, i = more + moved, gained + part, i + 1
        if end > 0 and gained < missing:  # what they do not suffice for is rounded down
            leftover = (1 - gained / missing) * total
            total -= leftover
            places.append(place - 1)
            points.append(leftover * math.exp(-tilt * spacing))
        places.append(end * place)
        points.append(total + more)
    return places, points


def growth_by_rounding_up(offset: Array, tilt: float, width: Array | float) -> Array:
    """Return the relative growth of a tilted mass `offset` above its cell's lower end if split over both ends."""
    share = np.expm1(-offset) / np.expm1(-width)
    return (1 - share) * np.expm1(-tilt * offset) + share * np.expm1(np.minimum(tilt * (width - offset), 600.0))


# Capping: the mass of privacy losses above a limit becomes one atom, or the limit and infinity, and needs no grid.
#
# delta(epsilon) asks of losses above epsilon only for their P and Q mass. The optimistic cap merges {L > x} into one
# loss, the pessimistic one into the loss x and infinity; both keep the P mass and the Q mass. They are valid for any
# limit, and sharp where it exceeds epsilon by more than the other losses can take back.
#
# For x >= 0 {L > x} is a half-line if the weights p_i - e^x q_i change sign once (Karlin 1968, Total Positivity,
# theorem 3.1 of chapter 5); segments where that is not certain are left as they are.

_FAR = 40.0  # deviations from the centers beyond which a normal variable has less mass than any float
_LARGEST = 700.0  # largest exponent of a float
_ROUNDED = 1e-11  # relative margin on a probability and on a loss, far above their round-off


CappedTail = tuple[float, float, float]
"""What the losses above a limit become: (the one finite loss, its P mass, P mass of an infinite loss)."""
TailCap = Callable[[float, float, float], CappedTail]
"""From (P mass, log of the Q mass, limit) of the losses above the limit."""


def cap_pessimistic(p: float, log_q: float, limit: float) -> CappedTail:
    """Cap losses at `limit` as far as their Q mass allows, the remaining P mass infinite: an upper bound on delta."""
    # Source: docs/theory.md, Theorem 9.7.
    # P mass x at the limit has Q mass x e^-limit: what the Q mass does not allow becomes infinite. Rounding the limit
    # down only moves more to infinity.
    loss = limit * (1 - _ROUNDED) - _ROUNDED
    mass = min(p, math.exp(min(log_q + loss, 0.0)))
    return loss, mass, (p - mass) + _ROUNDED * p


def cap_optimistic(p: float, log_q: float, limit: float) -> CappedTail:
    """Merge losses above `limit` into one loss with their P and Q mass, rounded down: a lower bound on delta."""
    # Source: docs/theory.md, Theorem 9.7.
    loss = max(math.log(p) - log_q, limit)
    return loss * (1 - _ROUNDED) - _ROUNDED, p * (1 - _ROUNDED), 0.0


def capped(curve: Curve, limit: float, cap: TailCap, *, min_mass: float) -> Curve:
    """Replace losses above `limit` by `cap`, in each step of a public draw; a step known by RDP is unchanged."""
    if isinstance(curve, RdpCurve):
        return curve
    # A public draw is known before the loss: what it chooses from is capped one by one.
    if isinstance(curve, PublicDraw):
        counts = tuple((capped(step, limit, cap, min_mass=min_mass), count) for step, count in curve.counts)
        return replace(curve, counts=counts)
    segments, tails, growth = [], [], math.expm1(min(limit, _LARGEST))
    for segment in curve.segments:
        # By Karlin's theorem P - e^limit Q has at most as many sign changes along the line as its weights have. A
        # weight that is 0 up to round-off leaves the number of changes unknown.
        kept, weights_q = segment, segment.pair.weights_q
        gaps = [d - q * growth for d, q in zip(segment.pair.differences, weights_q, strict=True)]
        is_certain = all(abs(gap) >= 1e-12 * q * growth for gap, q in zip(gaps, weights_q, strict=True))
        signs = [gap > 0 for gap in gaps if gap]
        changes = [after for before, after in pairwise(signs) if before != after]
        is_right = changes == [True]
        if segment.max_loss > limit and is_certain and len(changes) == 1 and not (is_right and segment.high < math.inf):
            # The half-line of losses above the limit, mirrored to the left, unless it is far out or has no mass.
            pair = segment.pair.mirrored if is_right else segment.pair
            near = pair.centers[-1] + _FAR * pair.deviation
            end = half_line_end(pair, near, limit)
            p = segment.weight * pair.mass_below(end) if pair.centers[0] - _FAR * pair.deviation < end < near else -1.0
            if p >= min_mass:
                kept = replace(segment, max_loss=limit)
                kept = replace(kept, high=min(kept.high, -end)) if is_right else replace(kept, low=max(kept.low, end))
                if p:  # the Q mass as a logarithm: it may be smaller than any float
                    parts = [
                        math.log(weight) + normal_log_cdf((end - center) / pair.deviation)
                        for center, weight in zip(pair.centers, pair.weights_q, strict=True)
                        if weight
                    ]
                    log_q = max(parts) + math.log(math.fsum(math.exp(part - max(parts)) for part in parts))
                    tails.append(cap(p, math.log(segment.weight) + log_q, limit))
        segments.append(kept)
    if not tails:
        return curve
    finite = [(loss, math.log(mass)) for loss, mass, _ in tails if mass > 0]
    return Loss(
        segments=tuple(segments),
        given_zero_mass=curve.zero_loss_mass,
        losses=(*curve.losses, *(loss for loss, _ in finite)),
        log_masses=(*curve.log_masses, *(log_mass for _, log_mass in finite)),
        infinity_mass=curve.infinity_mass + math.fsum(infinite for _, _, infinite in tails),
    )


# Composition in rounds, with a wider lattice after each: time grows like log(count).

_MAX_REFINED = 1 << 19  # entries of a loss after it was put on a finer lattice: 4 MB, and transforms of that length

Pmf = LossPmf | SplitPmf
_OPTIMISTIC_FACTOR = 4.0  # times the budget that rounding down may cost: it costs more than rounding up
_MAX_FINE_ENTRIES = 1 << 18  # entries above which a lattice is widened even if that costs more than the budget
_VANISHED_BULK = 1e-15  # tilted mass of a composed bulk below which it has no window of its own and joins the jumps


def compose_two(a: LossPmf, b: LossPmf, budget: float, rounding: Rounding) -> LossPmf:
    """Return the trimmed composition of two losses, of which the finer one is coarsened within the budget."""
    # Refining a lattice costs memory and no accuracy, coarsening the other way round: the finer loss is coarsened as
    # far as the budget goes, then the wider one is refined to meet it.
    fine, wide = sorted((a, b), key=lambda part: part.level)
    fine = _coarsen_within_budget(fine, 1, budget, wide.level - fine.level, rounding)
    return trim(compose(*_on_one_lattice(fine, wide, rounding)))


def compose_all(parts: list[LossPmf], budget: float, rounding: Rounding) -> LossPmf:
    """Compose losses, finest lattices first, and coarsen the sums within the budget; a single loss is unchanged."""
    if len(parts) == 1:
        return parts[0]
    # Like Huffman's tree: the two finest lattices are summed first, so that no loss is put on a much finer lattice than
    # its own. The budget is shared by the levels of the tree.
    levels = [part.level for part in parts]
    depth = math.ceil(math.log2(len(parts))) + max(levels) - min(levels) + 1  # of the tree of sums
    share = budget / (len(parts) * depth)
    waiting = [(part.level, 1, number, part) for number, part in enumerate(parts)]
    heapq.heapify(waiting)
    for number in range(len(parts), 2 * len(parts) - 1):
        (_, few, _, a), (_, more, _, b) = heapq.heappop(waiting), heapq.heappop(waiting)
        count = few + more
        total = trim(compose(*_on_one_lattice(a, b, rounding)))
        total = _coarsen_within_budget(total, 1, count * share, math.inf, rounding).normalized()
        heapq.heappush(waiting, (total.level, count, number, total))
    return waiting[0][3]


def _on_one_lattice(a: LossPmf, b: LossPmf, rounding: Rounding) -> tuple[LossPmf, LossPmf]:
    """Put a and the coarser b on one lattice by refining b, and by coarsening a where b would exceed 2^19 entries."""
    gap = b.level - a.level
    free = min(gap, max(0, math.floor(math.log2(_MAX_REFINED / b.mass.size))))
    if free:  # zeros between the entries of b
        mass = np.zeros(((b.mass.size - 1) << free) + 1, dtype=b.mass.dtype)
        mass[:: 1 << free] = b.mass
        b = replace(b, level=b.level - free, start=b.start << free, mass=mass)
    return coarsened(a, gap - free, rounding), b


def compose_copies(loss: Pmf, count: int, budget: float, rounding: Rounding) -> LossPmf:
    """Compose `count` >= 1 copies onto one lattice, 16 at a time, coarsened within the budget after each round."""
    # `count` in base 16, the lowest digit first: loss^16 replaces the loss, loss^digit is set aside and composed last.
    digits: LossPmf | None = None
    rounds = max(1, math.ceil(math.log(count, ROUND)))
    while count >= 4 * ROUND:
        count, digit = divmod(count, ROUND)
        powered, *extra = _powers(loss, (ROUND, digit) if digit else (ROUND,), rounding)
        for part in extra:
            alone = _to_single_lattice(part, budget / rounds, rounding)
            digits = alone if digits is None else compose_two(digits, alone, budget / rounds, rounding)
        if isinstance(powered, SplitPmf):  # a bulk that reaches the jumps' lattice joins them
            wide = _coarsen_within_budget(powered.bulk, count, budget / rounds, powered.gap, rounding)
            if wide.level < powered.jumps.level:
                loss = SplitPmf(bulk=wide, jumps=powered.jumps).normalized()
                continue
            powered = add_measures(wide, powered.jumps)
        loss = _coarsen_within_budget(powered, count, budget / rounds, math.inf, rounding).normalized()
    loss = _to_single_lattice(_powers(loss, (count,), rounding)[0] if count > 1 else loss, budget / rounds, rounding)
    return loss if digits is None else compose_two(digits, loss, budget / rounds, rounding)


def _powers(loss: Pmf, counts: tuple[int, ...], rounding: Rounding) -> list[Pmf]:
    """Return the trimmed k-fold composition for each k in counts; a SplitPmf with hardly any bulk becomes a LossPmf."""
    if isinstance(loss, LossPmf):
        return [trim(power) for power in powers(loss, counts)]
    on_wide = coarsened(loss.bulk, loss.gap, rounding)
    if float(loss.bulk.mass.sum()) ** max(counts) < _VANISHED_BULK:
        return _powers(add_measures(on_wide, loss.jumps).normalized(), counts, rounding)
    # On the coarser lattice what has a jump: (bulk + jumps)^k - bulk^k.
    parts = zip(powers(loss.bulk, counts), powers_beyond(on_wide, loss.jumps, counts), strict=True)
    split = (SplitPmf(bulk=bulk, jumps=jumps).normalized() for bulk, jumps in parts)
    return [SplitPmf(bulk=trim(each.bulk), jumps=trim(each.jumps)) for each in split]


def _to_single_lattice(loss: Pmf, budget: float, rounding: Rounding) -> LossPmf:
    """Add bulk and jumps on one lattice, coarsened within the budget to <= 2^19 entries; a LossPmf is unchanged."""
    if isinstance(loss, LossPmf):
        return loss
    bulk = _coarsen_within_budget(loss.bulk, 1, budget, loss.gap, rounding)
    return add_measures(*_on_one_lattice(bulk, loss.jumps, rounding)).normalized()


def _coarsen_within_budget(
    loss: LossPmf, copies: int, budget: float, max_doublings: float, rounding: Rounding
) -> LossPmf:
    """Coarsen a loss as far as the budget affords, less far if that loses too much mass and leaves <= 2^17 entries."""
    # Sums by residue, by index modulo 2, 4, 8, ..., give the growth for every width from one pass over the entries:
    # each is folded from the next. Up to 1 / tilt: what was lost or rounded would swell with the tilt.
    mass = float(loss.mass.sum())
    largest = int(min(max_doublings, loss.mass.size.bit_length() - 1))
    residues = [in_rows(loss.mass, 1 << largest).sum(axis=0)] if largest > 0 else []
    while residues and residues[-1].size > 2:
        half = residues[-1].size // 2
        residues.append(residues[-1][:half] + residues[-1][half:])
    doublings = 0
    for folded in reversed(residues):
        width = loss.spacing * folded.size
        offset: Array = np.arange(folded.size, dtype=np.float64) * loss.spacing
        growth = float((folded * growth_by_rounding_up(offset, loss.tilt, width)).sum()) / float(folded.sum())
        if loss.tilt * width > 1 or copies * growth > budget:
            break
        doublings += 1
    while doublings:
        wide = coarsened(loss, doublings, rounding)
        is_cheap = copies * (mass - float(wide.mass.sum())) < _OPTIMISTIC_FACTOR * budget * mass
        if is_cheap or 2 * wide.mass.size > _MAX_FINE_ENTRIES:
            return wide
        doublings -= 1
    return loss
