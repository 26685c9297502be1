"""Phases with correlated noise as phases of independent Gaussian steps that cost as much.

Source: docs/theory.md, Theorem 16.2, Theorem 16.8 and Theorem 16.10.
"""

from collections.abc import Iterator
from dataclasses import replace

from dpcalc.errors import InputError, KeyedInputError
from dpcalc.mechanisms.additive import Gaussian, joint_noise_multiplier
from dpcalc.mechanisms.kinds import Mechanism
from dpcalc.mechanisms.matrix_factorization import (
    ALMOST,
    IDENTITY,
    Matrix,
    MatrixFactorization,
    Strategy,
    Tree,
    even_noise,
    full_steps,
)
from dpcalc.sampling.hierarchy import Hierarchy
from dpcalc.sampling.schemes import (
    All,
    AnyOrder,
    BallsInBins,
    CyclicPoisson,
    RandomAllocation,
    Scheme,
    Shuffle,
)


def independent_steps(
    mechanism: Mechanism, hierarchy: Hierarchy, steps: int, *, attained: bool
) -> tuple[Hierarchy, Gaussian, int]:
    """Return (levels, noise, number) of independent steps that cost at least a correlated run; at most if attained."""
    fault = correlated_fault(mechanism, hierarchy, steps)
    if fault is not None or not isinstance(mechanism, MatrixFactorization):
        raise fault or TypeError(f"expected correlated noise, got {mechanism.name}")
    strategy, noise = mechanism.strategy, joint_noise_multiplier(mechanism)
    if steps > strategy.max_steps:
        raise InputError(
            f"steps: expected at most {strategy.max_steps:,}, the rows of the strategy, got {steps:,}; state "
            "a strategy with a row for every step"
        )
    level = hierarchy.level(max(1, hierarchy.allocated))
    drawn: Scheme
    match level.scheme:
        case CyclicPoisson() as cyclic:
            # A unit takes part in the steps of its group alone. These are so far apart that their columns do not
            # overlap: they are independent steps, of which for a lower bound only those with a whole column count.
            drawn, number = cyclic.group_draw(level.min_count, level.count), -(-steps // cyclic.groups)
            if attained and steps:
                noise, number = noise * (1 + ALMOST), full_steps(strategy, steps, cyclic.groups)
        case BallsInBins() as bins if not steps:
            drawn, number = bins, 0
        case BallsInBins() as bins if attained:  # the steps of all bins whose columns of the strategy are uncut
            drawn, number = bins, max(1, steps - strategy.bands(steps) + 1)
            noise *= even_noise(strategy, steps, bins.bins, attained=True)
        case BallsInBins() as bins:
            drawn, number = _separated_bins(bins, steps, strategy.bands(steps))
            # What a bin holds on average means something if a unit keeps one bin for the whole run, and all other
            # levels are drawn whole. A fresh choice of several passes keeps no unit in its bin.
            is_kept = bins.is_held or steps <= bins.bins
            if is_kept and all(each.scheme in (All(), bins) for each in hierarchy.levels):
                noise *= even_noise(strategy, steps, bins.bins, attained=False)
        case _:  # one release of all units, which bounds any order of participation
            drawn, number = All(), min(steps, 1)
            if steps:
                sensitivity = strategy.sensitivity(steps, mechanism.limits)
                # 1e-15 covers the rounding of the quotient, to the side that is asked for.
                noise *= (1 + 1e-15) / sensitivity.ratio_lower if attained else (1 - 1e-15) / sensitivity.ratio
    # Below `any-order` everything is drawn, which `_faults` makes sure of; other levels keep their draws.
    levels = tuple(
        replace(each, scheme=drawn if each is level else All() if isinstance(each.scheme, AnyOrder) else each.scheme)
        for each in hierarchy.levels
    )
    independent = Gaussian(noise_multiplier=noise, max_grad_norm=mechanism.max_grad_norm)
    return replace(hierarchy, levels=levels), independent, number


def _separated_bins(scheme: BallsInBins, steps: int, bands: int) -> tuple[BallsInBins, int]:
    """Return a scheme of the bins // bands bins that lie a band apart, and the number of their steps in the run.

    The other bins are public. The scheme is held, or for one pass, or `bands` is 1.

    Source: docs/theory.md, Theorem 16.10.
    """
    # Told are floor(bins / bands) bins whose steps are all at least `bands` apart, and that the unit's bin is among
    # them.
    hidden = scheme.bins // bands
    passes, remaining = divmod(steps, scheme.bins)
    return replace(scheme, bins=hidden), passes * hidden + min(hidden, -(-remaining // bands))


def has_overlap(mechanism: Mechanism, steps: int) -> bool:
    """Return True if noise is correlated over the steps of a run: its strategy is not diagonal."""
    return isinstance(mechanism, MatrixFactorization) and mechanism.strategy.bands(max(1, steps)) != 1


def correlated_fault(mechanism: Mechanism, hierarchy: Hierarchy, steps: int) -> KeyedInputError | None:
    """Return, without raising it, the gravest reason why no bound is proved for this noise; None if there is none.

    The error at a key that is relative to the phase; for other mechanisms only that a scheme is not theirs.
    """
    return next(_faults(mechanism, hierarchy, steps), None)


def _faults(mechanism: Mechanism, hierarchy: Hierarchy, steps: int) -> Iterator[KeyedInputError]:
    """Yield, gravest first, the errors that say why no bound is proved for the mechanism under these schemes.

    Each error assumes that none of those before it applies.
    """
    spanning = [level for level in hierarchy.levels if level.scheme.spans_steps]
    if not isinstance(mechanism, MatrixFactorization):
        for level in spanning:
            problem = f"is `{level.scheme.name}`, which goes with mechanism type matrix-factorization only"
            hint = "for noise that is independent in every step state that type with `strategy: identity`"
            yield _contradiction(f"sampling.{level.name}.scheme", problem, hint)
        return
    if hierarchy.episodes is not None:
        problem = "constructs tasks, in which a unit takes part at random, and noise is correlated over the steps"
        yield _contradiction("sampling.episodes", problem, "say `any-order`, with the limits in `mechanism`")
    outer, *inner = hierarchy.levels
    for level in (level for level in spanning if level is not outer):
        problem = f"is `{level.scheme.name}` below level `{outer.name}`"
        yield _contradiction(f"sampling.{level.name}.scheme", problem, "state it for the outermost level")

    deciding = outer if spanning else hierarchy.level(max(1, hierarchy.allocated))
    scheme, strategy = deciding.scheme, mechanism.strategy
    if isinstance(scheme, AnyOrder):
        for level in (level for level in inner if level.scheme != All() or level.redraw_every > 1):
            problem = "is drawn below `any-order`, and no amplification by it is proved"
            hint = "take it out: with the unit itself clipped it does not change epsilon"
            yield _contradiction(f"sampling.{level.name}", problem, hint)
        if mechanism.min_separation is None and (mechanism.max_participations != 1 or mechanism.limits.fixed_epochs):
            problem = "lacks `min_separation`, the fewest steps from one in which a unit takes part to the next"
            yield KeyedInputError("mechanism", problem, "1 if nothing is known", code="DPC103")
        return
    place = f"sampling.{deciding.name}"
    if not isinstance(scheme, CyclicPoisson | BallsInBins):
        reason, hint = _without_bound(scheme, strategy)
        yield _contradiction(f"{place}.scheme", f"is `{scheme.name}`, {reason}", hint)
        return

    # Limits on participations are for `any-order` only.
    own = "groups" if isinstance(scheme, CyclicPoisson) else "bins"
    limits = [key for key in ("max_participations", "min_separation") if getattr(mechanism, key) is not None]
    for key in [*limits, *(["participation"] if mechanism.limits.fixed_epochs else [])]:
        problem = f"is for `any-order`: under {scheme.name} draws the {own} say when a unit takes part"
        yield _contradiction(f"mechanism.{key}", problem, "take it out")
    if isinstance(strategy, Tree):
        problem = f"is `tree`, which has no bands, and {scheme.name} draws amplify for banded strategies only"
        hint = "say `any-order`, with the limits in `mechanism`, or state a banded strategy"
        yield _contradiction("mechanism.strategy", problem, hint)
    # A unit's columns must not overlap, and the groups must hold all units.
    bands = strategy.bands(max(steps, 1))
    if isinstance(scheme, BallsInBins) and bands > 1 and steps > scheme.bins and not scheme.is_held:
        fresh = "is `balls-in-bins` with a fresh choice in each pass"
        hint = "say `assignment: held` if units keep their bin in all passes; else `any-order` with min_separation 1"
        yield _contradiction(f"{place}.scheme", f"{fresh}: two choices can be closer than the {bands:,} bands", hint)
    number: int = getattr(scheme, own)
    if bands > number:
        problem = f"is {number:,}, fewer than the {bands:,} bands of the strategy"
        hint = f"columns of one unit must not overlap: state at least as many {own}, or fewer bands"
        yield _contradiction(f"{place}.{own}", problem, hint)
    if isinstance(scheme, CyclicPoisson) and number * (scheme.max_group_size or deciding.count) < deciding.count:
        problem = f"is {scheme.max_group_size:,}: {number:,} groups cannot hold all {deciding.count:,} units"
        yield _contradiction(f"{place}.max_group_size", problem, "state the units of the largest group")


def _without_bound(scheme: Scheme, strategy: Strategy) -> tuple[str, str]:
    """Return (reason, hint) why a scheme has no bound with correlated noise, or that an identity strategy is none."""
    limits = "`any-order` with max_participations and min_separation in `mechanism`"
    if strategy == IDENTITY:
        return "and `identity` is noise that is independent in every step", "state mechanism type gaussian for it"
    match scheme:
        case All():
            return "under which every unit is in every step", f"say {limits}: all steps, and 1"
        case Shuffle():
            hint = f"say {limits}: one participation a pass, and min_separation 1 if every pass has its own order"
            return "and no bound uses the order of a shuffle", hint
        case RandomAllocation(times=1):
            hint = "say `balls-in-bins` with `bins` the steps of the phase, which is the same and is covered"
            return "which is covered under another name only", hint
        case _:
            hint = f"say {limits}, or `cyclic-poisson` or `balls-in-bins` if steps draw so"
            return "under which one unit can be in steps whose noise overlaps: no amplification is proved", hint


def _contradiction(key: str, problem: str, hint: str) -> KeyedInputError:
    """Return the error for two keys that contradict each other."""
    return KeyedInputError(key, problem, hint, code="DPC107")


def length_fault(mechanism: Mechanism, steps: int) -> KeyedInputError | None:
    """Return the error if the stated participations or a matrix's rows do not fit the run's steps; None if they do.

    Shorter runs, of which curves and solvers ask, keep the limits and need no such agreement.
    """
    if not isinstance(mechanism, MatrixFactorization):
        return None
    times, apart = mechanism.max_participations, mechanism.min_separation or 1
    possible, is_fixed = -(-steps // apart), mechanism.limits.fixed_epochs
    if times is not None and steps and (times > possible or (times < possible and is_fixed)):
        exactly = "exactly" if is_fixed else "at most"
        problem = f"is {times:,}, but of {steps:,} steps {exactly} {possible:,} can be {apart:,} apart"
        key, hint = "mechanism.max_participations", "check both numbers and the steps"
        return KeyedInputError(key, problem, hint, code="DPC107")
    rows = mechanism.strategy.max_steps
    if rows != steps and isinstance(mechanism.strategy, Matrix):
        problem = f"has {rows:,} rows, and the phase has {steps:,} steps"
        return KeyedInputError("mechanism.strategy", problem, "a strategy has a row for every step", code="DPC107")
    return None
