"""Phases with correlated noise as phases of independent Gaussian steps that cost as much.

Source: docs/theory.md, Theorem 16.2 and Theorem 16.8.
"""

from collections.abc import Iterator
from dataclasses import replace

from dpcalc.errors import InputError, KeyedInputError
from dpcalc.mechanisms.gaussian import Gaussian
from dpcalc.mechanisms.kinds import Mechanism
from dpcalc.mechanisms.matrix_factorization import Matrix, MatrixFactorization, Tree
from dpcalc.mechanisms.strategies import ALMOST
from dpcalc.sampling.hierarchy import Hierarchy
from dpcalc.sampling.schemes import All, AnyOrder, CyclicPoisson, Poisson

_LIMITS = ("max_participations", "min_separation")


def independent_steps(
    mechanism: Mechanism, hierarchy: Hierarchy, steps: int, *, attained: bool
) -> tuple[Hierarchy, Gaussian, int]:
    """Return (levels and schemes, mechanism, number) of independent Gaussian steps that cost what a phase costs.

    Args:
        mechanism: of the phase.
        hierarchy: its levels and schemes.
        steps: its length, >= 0.
        attained: True for steps that cost at most what an actual data set costs in the phase, False for an upper bound.

    Raises:
        KeyedInputError: nothing is proved for this mechanism under these schemes.
    """
    fault = correlated_fault(mechanism, hierarchy, steps)
    if fault is not None or not isinstance(mechanism, MatrixFactorization):
        raise fault or TypeError(f"expected correlated noise, got {mechanism.name}")
    if steps > mechanism.strategy.max_steps:
        raise InputError(
            f"steps: expected at most {mechanism.strategy.max_steps:,}, the rows of the strategy, got {steps:,}; state "
            "a strategy with a row for every step"
        )
    outer = hierarchy.levels[0]
    noise = mechanism.joint_noise_multiplier
    if isinstance(outer.scheme, CyclicPoisson):
        groups = outer.scheme.groups
        number = -(-steps // groups)
        if attained and steps:
            number, noise = mechanism.strategy.full_steps(steps, groups), noise * (1 + ALMOST)
        drawn = replace(outer, scheme=Poisson(probability=outer.scheme.probability))
        levels = (drawn, *hierarchy.levels[1:])
    else:
        number = min(steps, 1)
        if steps:
            sensitivity = mechanism.sensitivity(steps)
            # 1e-15 covers the rounding of the quotient, to the side that is asked for.
            noise *= (1 + 1e-15) / sensitivity.ratio_lower if attained else (1 - 1e-15) / sensitivity.ratio
        levels = tuple(replace(level, scheme=All()) for level in hierarchy.levels)
    independent = Gaussian(noise_multiplier=noise, max_grad_norm=mechanism.max_grad_norm)
    return replace(hierarchy, levels=levels), independent, number


def correlated_fault(mechanism: Mechanism, hierarchy: Hierarchy, steps: int) -> KeyedInputError | None:
    """Return why nothing is proved for a mechanism under these schemes and lengths; None where it is, or is not asked.

    Args:
        mechanism: any.
        hierarchy: levels and schemes of the phase.
        steps: its length.

    Returns:
        The error at a key that is relative to the phase; for other mechanisms only that a scheme is not theirs.
    """
    return next(_faults(mechanism, hierarchy, steps), None)


def _faults(mechanism: Mechanism, hierarchy: Hierarchy, steps: int) -> Iterator[KeyedInputError]:
    """Yield what `correlated_fault` returns the first of; a later one holds only if there is no earlier one."""
    outer, *inner = hierarchy.levels
    spanning = [level for level in hierarchy.levels if isinstance(level.scheme, AnyOrder | CyclicPoisson)]
    if not isinstance(mechanism, MatrixFactorization):
        for level in spanning:
            problem = f"is `{level.scheme.name}`, which goes with mechanism type matrix-factorization only"
            hint = "for noise that is independent in every step state that type with `strategy: identity`"
            yield _contradiction(f"sampling.{level.name}.scheme", problem, hint)
        return
    if hierarchy.episodes is not None:
        problem = "constructs tasks, in which a unit takes part at random, and noise is correlated over the steps"
        yield _contradiction("sampling.episodes", problem, "say `any-order`, with the limits in `mechanism`")
    for level in (level for level in spanning if level is not outer):
        problem = f"is `{level.scheme.name}` below level `{outer.name}`"
        yield _contradiction(f"sampling.{level.name}.scheme", problem, "state it for the outermost level")
    if isinstance(outer.scheme, CyclicPoisson):
        yield from _cyclic_faults(mechanism, outer.name, outer.scheme, steps)
        return
    if not isinstance(outer.scheme, AnyOrder):
        yield _contradiction(
            f"sampling.{outer.name}.scheme",
            f"is `{outer.scheme.name}`, for which no amplification of correlated noise is proved",
            "say `any-order` and state max_participations and min_separation in `mechanism` (batches shuffled in every "
            "pass: one participation a pass, min_separation 1), or `cyclic-poisson` if steps draw so",
        )
    for level in (level for level in inner if level.scheme != All() or level.redraw_every > 1):
        problem = "is drawn below `any-order`, and no amplification by it is proved"
        hint = "take it out: with the unit itself clipped it does not change epsilon"
        yield _contradiction(f"sampling.{level.name}", problem, hint)
    if mechanism.min_separation is None and (mechanism.max_participations != 1 or mechanism.limits.fixed_epochs):
        problem = "lacks `min_separation`, the fewest steps from one in which a unit takes part to the next"
        yield KeyedInputError("mechanism", problem, "1 if nothing is known", code="DPC103")


def _cyclic_faults(
    mechanism: MatrixFactorization, level: str, scheme: CyclicPoisson, steps: int
) -> Iterator[KeyedInputError]:
    """Yield why nothing is proved under cyclic Poisson draws."""
    limits = [key for key in _LIMITS if getattr(mechanism, key) is not None]
    for key in [*limits, *(["participation"] if mechanism.limits.fixed_epochs else [])]:
        problem = "is for `any-order`: under cyclic-poisson draws the groups say when a unit takes part"
        yield _contradiction(f"mechanism.{key}", problem, "take it out")
    if isinstance(mechanism.strategy, Tree):
        problem = "is `tree`, which has no bands, and cyclic-poisson draws amplify for banded strategies only"
        hint = "say `any-order`, with the limits in `mechanism`, or state a banded strategy"
        yield _contradiction("mechanism.strategy", problem, hint)
    bands = mechanism.strategy.bands(max(steps, 1))
    if bands > scheme.groups:
        problem = f"is {scheme.groups:,}, fewer than the {bands:,} bands of the strategy"
        hint = "columns of one unit must not overlap: state at least as many groups, or fewer bands"
        yield _contradiction(f"sampling.{level}.groups", problem, hint)


def _contradiction(key: str, problem: str, hint: str) -> KeyedInputError:
    """Return the error for two keys that contradict each other."""
    return KeyedInputError(key, problem, hint, code="DPC107")


def length_fault(mechanism: Mechanism, steps: int) -> KeyedInputError | None:
    """Return why the length that a config states contradicts its limits of participation or its strategy; or None.

    Shorter runs, of which curves and solvers ask, keep the limits and need no such agreement.

    Args:
        mechanism: of the phase.
        steps: its length.
    """
    if not isinstance(mechanism, MatrixFactorization):
        return None
    times, apart = mechanism.max_participations, mechanism.min_separation or 1
    possible, is_fixed = -(-steps // apart), mechanism.limits.fixed_epochs
    if times is not None and steps and (times > possible or (is_fixed and times != possible)):
        exactly = "exactly" if is_fixed else "at most"
        problem = f"is {times:,}, but of {steps:,} steps {exactly} {possible:,} can be {apart:,} apart"
        hint = "check both numbers and the steps"
        return KeyedInputError("mechanism.max_participations", problem, hint, code="DPC107")
    rows = mechanism.strategy.max_steps
    if rows != steps and isinstance(mechanism.strategy, Matrix):
        problem = f"has {rows:,} rows, and the phase has {steps:,} steps"
        return KeyedInputError("mechanism.strategy", problem, "a strategy has a row for every step", code="DPC107")
    return None
