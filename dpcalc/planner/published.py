"""Rows of published formulas and other tools for a plan, whether or not they are a guarantee here.

Source: docs/theory.md, Theorem 5.1 and Theorem 5.3.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import partial

from dpcalc.accountants.closed_forms import best_fraction
from dpcalc.accountants.pld import auto, worst_direction
from dpcalc.accountants.rdp import rdp
from dpcalc.amplification.any_mechanism import group_divergence
from dpcalc.amplification.bound import StepBound
from dpcalc.guarantee import Adjacency, Kind, Row
from dpcalc.losses.moments import (
    LARGEST_ORDER,
    RdpCurve,
    Renyi,
    Steps,
    finite_points,
    fixed_size_lower,
    fixed_size_upper,
    poisson_upper,
    together,
)
from dpcalc.losses.pair import MixturePair
from dpcalc.mechanisms.additive import AdditiveNoise, DiscreteGaussian, Gaussian, Laplace
from dpcalc.mechanisms.black_box import RdpTable
from dpcalc.mechanisms.kinds import PairOnly, Promise, RdpOnly, change_of
from dpcalc.planner.composition import Composition, ProtectedUnit, composed, releasing_phases
from dpcalc.planner.plan import Phase, Plan
from dpcalc.sampling.counts import binomial, hypergeometric, nonzero_probability
from dpcalc.sampling.schemes import (
    RandomAllocation,
)

Pair = tuple[dict[int, Fraction], dict[int, Fraction]]
FlatStep = tuple[Fraction, float, int]
"""Of a phase as another tool sees it: the rate of one flat Poisson draw, the noise multiplier, the number of steps."""
_PairStep = tuple[Pair, float, int]  # of a phase: the pair of one step, its noise deviation, the number of steps

THEOREM_3 = "Theorem 3"
FLAT_POISSON = "flat Poisson"
GROUP_MIXTURE = "group mixture"
GROUP_AS_ONE = "group as one"
GAUSSIAN_ONLY = "does not apply: for Gaussian noise only"
INDEPENDENT_ONLY = "does not apply: for noise that is independent in every step"
NO_LOADER = "does not apply: a unit that takes part several times in one phase is no pass of a loader"
_PRV_ERROR = 0.01  # eps_error of PRVAccountant.get_epsilon, added to what is printed; delta_error is delta / 1000
_PRV_LARGEST = 650.0  # above it the exponentials of the accountant overflow, and it prints anything


# Rows


def theorem_3_row(plan: Plan | Composition, *, one_step_epsilon: float | None = None) -> Row | None:
    """Return the row of Theorem 3 of Tombs et al. 2022, valid if it is the one-step bound; None if it says nothing."""
    # It is about add-remove, independent Gaussian noise and draws that are made afresh in every step.
    # Source: CEUR Vol-3318 short 3, Theorem 3. Its proof needs a coupling that does not exist for two or more random
    # levels: when the record's unit is not drawn, another unit's records are in the batch and can tell.
    composition = composed(plan)
    run = composition.plan
    if run.adjacency is not Adjacency.ADD_REMOVE or composition.has_correlated_noise or not composition.is_plain:
        return None
    runs = [_releasing(run, unit) for unit in composition.units]
    valid = all(_is_flat(bound, bound.inclusion, bound.shift) for phases in runs for _, bound in phases)
    epsilon = one_step_epsilon if valid else None
    if epsilon is None:
        steps = (
            _mixture_steps(
                (flat_pair(bound.inclusion, bound.shift, at=bound.shift), phase.gaussian.noise_multiplier, phase.steps)
                for phase, bound in phases
            )
            for phases in runs
        )
        epsilon = _larger_epsilon(steps, run.delta)
    why = "as published, not valid here: the other units of a batch can show whether the parent of the unit was drawn"
    return _pld_row(THEOREM_3, epsilon, "" if valid else why, "the same as the one-step bound here")


def flat_poisson_row(plan: Plan | Composition) -> Row:
    """Return the row of flat Poisson draws at the rate of a loader; valid if they give the one-step bound."""
    composition = composed(plan)
    note = _refused_note(composition)
    steps = [] if note else opacus_steps(composition)
    if steps is None:
        note = NO_LOADER
    if note or steps is None:
        return without_number("pld", FLAT_POISSON, note)
    said = f"Poisson draws of single units at the rate {rates_in_words(steps)}, which Opacus assumes"
    why_not = "" if are_one_step_bounds(composition, steps) else f"{said} whatever the loader draws"
    return _pld_row(FLAT_POISSON, _larger_epsilon([flat_steps(steps)], composition.plan.delta), why_not, said)


def strong_composition_row(plan: Plan | Composition) -> Row:
    """Return the row of strong composition as in Abadi et al. 2016, never valid; epsilon None if it does not apply."""
    # A Gaussian step is (e, d)-DP with e = sqrt(2 ln(1.25 / d)) / sigma, a sampled one is called (q e, q d)-DP, and k
    # of them (q e sqrt(2 k ln(1 / d')) + k (q e)^2, k q d + d')-DP, the split of delta optimised.
    # Not valid: e^(q e) - 1 is put where q (e^e - 1) is due, and the first line needs e < 1.
    # Source: Abadi et al. 2016 (1607.00133v2), section 3.1 with theorem A.1 and 3.20 of Dwork, Roth 2014; 9.34 at q =
    # .01, sigma = 4, k = 10000, delta = 1e-5, where the last term with e^(q e) - 1 for q e would give 9.353.
    composition = composed(plan)
    refused = _refused_note(composition)
    if refused:
        return without_number("strong-composition", FLAT_POISSON, refused)
    steps: Counter[tuple[Fraction, float]] = Counter()
    for rate, noise_multiplier, number in opacus_steps(composition) or ():
        steps[rate, noise_multiplier] += number
    if len(steps) != 1:
        note = "does not apply: published for equal steps only"
        return without_number("strong-composition", FLAT_POISSON, note)
    (((rate, sigma), k),) = steps.items()
    q, delta = float(rate), composition.plan.delta

    def epsilon_of_split(fraction: float) -> float:
        share = min(1.0, delta * (1 - fraction) / (k * q))
        step = q * math.sqrt(2 * math.log(1.25 / share)) / sigma
        return math.sqrt(2 * k * math.log(1 / (delta * fraction))) * step + k * step**2

    epsilon = epsilon_of_split(best_fraction(epsilon_of_split))
    note = "as published by Abadi et al. 2016, no bound: scales epsilon by the rate, which holds to first order only"
    return replace(without_number("strong-composition", FLAT_POISSON, note), epsilon=epsilon)


def group_rows(plan: Plan | Composition) -> tuple[Row, ...]:
    """Return the rows of both published group bounds, each noted as valid here or not; () unless Gaussian and flat."""
    # The mixture is N(0) against sum_j Pr[j of the k in the batch] N(j); the quick variant takes every batch with any
    # of them for one with all of them, so that tools for one example can be used with k times the sensitivity. For
    # batches of a fixed size neither is a bound: what is drawn in place of a missing example is left out.
    # Source: Sommer 2021, "Group Privacy for Deep Learning with Differential Privacy", sections "the privacy analysis"
    # and "over-approximation"; for Poisson draws the mixture is that of Schuchardt et al. 2024 (2403.04867).
    composition = composed(plan)
    run = composition.plan
    phases, members = releasing_phases(run), run.group_size
    is_flat = run.unit == 1 and all(phase.hierarchy.depth == 1 and phase.clip == 1 for phase in phases)
    if members == 1 or not is_flat or _refused_note(composition):
        return ()
    mixtures: list[_PairStep] = []
    ones: list[_PairStep] = []
    for phase in phases:
        level = phase.hierarchy.level(1)
        if level.scheme.has_stand_in and level.redraw_every == 1:
            law = hypergeometric(level.count, members, level.scheme.size)
        elif level.scheme.is_independent and level.redraw_every == 1:
            law = binomial(members, level.scheme.probability)
        else:
            return ()
        drawn = nonzero_probability(law)
        for steps, members_law in ((mixtures, law), (ones, {0: 1 - drawn, members: drawn})):
            pair = {count: chance for count, chance in members_law.items() if chance}, {0: Fraction(1)}
            steps.append((pair, phase.gaussian.noise_multiplier, phase.steps))
    why = ""
    if not all(phase.hierarchy.level(1).scheme.is_independent for phase in phases):
        why = "as published, not valid here: leaves out whoever is drawn in place of a missing example"
    elif run.adjacency is Adjacency.REPLACE_ONE:
        why = "as published, not valid here: knows examples that are removed, not exchanged"
    rows = (
        (GROUP_MIXTURE, mixtures, "the same as the one-step bound here"),
        (GROUP_AS_ONE, ones, "any example of the group counts as all of them"),
    )
    return tuple(
        _pld_row(bound, _larger_epsilon([_mixture_steps(steps)], run.delta), why, note) for bound, steps, note in rows
    )


def without_number(method: str, bound: str, note: str) -> Row:
    """Return a row as published, without an epsilon."""
    return Row(method=method, bound=bound, epsilon=None, kind=Kind.AS_PUBLISHED, valid=False, note=note)


def _pld_row(bound: str, epsilon: float, why_not: str, note: str) -> Row:
    """Return the row of an epsilon by pld: an upper bound with the note or, with a reason against it, as published."""
    row = Row(method="pld", bound=bound, epsilon=epsilon, kind=Kind.UPPER, valid=True, note=note)
    return replace(row, kind=Kind.AS_PUBLISHED, valid=False, note=why_not) if why_not else row


def _refused_note(composition: Composition) -> str:
    """Return why published formulas do not apply: noise that is not Gaussian, or correlated; "" where it is neither."""
    if composition.has_correlated_noise:
        return INDEPENDENT_ONLY
    return "" if composition.plan.is_gaussian else GAUSSIAN_ONLY


# Flat draws, and what tools are told of a run


def opacus_steps(composition: Composition, *, told: str = "loader") -> list[FlatStep] | None:
    """Return the steps that Opacus counts: at the rate 1 / len(loader), whatever the loader draws; None without one."""
    # Source: Opacus 1.6.0, `PrivacyEngine.make_private` (`sample_rate = 1 / len(data_loader)`, also for
    # `poisson_sampling=False`), `torch.utils.data.DataLoader.__len__` (rounded up, down with `drop_last`).
    steps = []
    for phase in releasing_phases(composition.plan):
        rate = loader_share(composition, phase, told)
        if rate is None:
            return None
        steps.append((rate, phase.gaussian.noise_multiplier, phase.steps))
    return steps


def opacus_epsilon(composition: Composition) -> float | None:
    """Return the epsilon that Opacus prints by `prv`, its default; None if it prints none."""
    # Source: Opacus 1.6.0, `accountants/prv.py`: epsilon at delta - delta / 1000, plus `eps_error`.
    steps = opacus_steps(composition, told="hook")
    if not steps:
        return None
    printed = _larger_epsilon([flat_steps(steps)], composition.plan.delta * 0.999) + _PRV_ERROR
    return printed if printed < _PRV_LARGEST else None


def loader_share(composition: Composition, phase: Phase, told: str) -> Fraction | None:
    """Return the share of the data in a step as a tool is told it: the product over the levels; None without one."""
    # The largest one over the protected units, down to the unit or the clipped level, whichever is lower; None if a
    # level has none. With more than one level of draws it is the product of exact rates, and for built tasks the
    # probability that a step holds the record. Cuts of batches do not count: the tools know nothing of them.
    # `told` "step": what a step draws on average; "batch": batch size / number of children, for TF-Privacy; "loader": 1
    # / length of a PyTorch loader that draws so, or the rate of Poisson draws; "hook": the same as Opacus 1.6.0 counts
    # it, 1/233 where its Poisson loader draws with 1/234.
    place = composition.plan.phases.index(phase)
    if phase.hierarchy.episodes is not None:
        return composition.likeliest.bounds[place].inclusion
    levels = phase.hierarchy.levels[: max(composition.plan.unit, phase.clip)]
    # A tool is told the loader, not a simpler draw of the same law.
    stated = composition.stated.phases[place]
    if not (stated.is_correlated or stated.hierarchy.spans_steps or stated.hierarchy.summed):
        levels = stated.hierarchy.levels[: len(levels)]
    products = []
    for counts in {each_unit.paths[place].counts for each_unit in composition.units}:
        frames = (*counts, *(level.count for level in levels[len(counts) :]))
        drawn = [(level.scheme.for_counts(count, count), count) for level, count in zip(levels, frames, strict=True)]
        drawn = [(scheme, count) for scheme, count in drawn if not scheme.is_whole]
        # Of several draws that are added up tools count one of so many times the rate (Opacus' accumulated_iterations).
        share = math.prod((Fraction(level.count) for level in levels if level.is_copy), start=Fraction(1))
        for scheme, count in drawn:  # before any cut
            wanted = told if len(drawn) == 1 else "step"
            if scheme.amount_key == "size" and not scheme.is_shuffled and wanted in {"loader", "hook"}:
                share *= Fraction(1, -(-count // scheme.size))
            elif scheme.is_shuffled and wanted == "batch":
                share *= Fraction(scheme.size, count)
            elif isinstance(scheme, RandomAllocation) and scheme.times > 1:
                return None
            elif wanted == "hook" and (scheme.is_independent or scheme.is_cut) and scheme.share(count).numerator == 1:
                # utils/uniform_sampler.py: that loader has int(1 / (1 / n)) batches in floating point, for some n one
                # too few.
                share *= Fraction(1, int(1 / float(scheme.share(count))))
            else:
                share *= scheme.share(count)
        products.append(share)
    return max(products)


def rates_in_words(steps: Sequence[FlatStep]) -> str:
    """Return the rates of steps: "1/235", "1/235 and 1/100"."""
    return " and ".join(dict.fromkeys(str(rate) for rate, _, _ in steps)) or "0"


def are_one_step_bounds(composition: Composition, steps: Sequence[FlatStep], *, shift: int = 1) -> bool:
    """Return True if the flat pairs of the releasing phases are the one-step bounds (K) of every unit."""
    return composition.is_plain and all(
        _is_flat(bound, rate, shift)
        for unit in composition.units
        for (rate, _, _), (_, bound) in zip(steps, _releasing(composition.plan, unit), strict=True)
    )


def _is_flat(bound: StepBound, rate: Fraction, shift: int) -> bool:
    """Return True if a one-step bound (K) is the pair of one flat draw in both directions."""
    return bound.mixtures == (flat_pair(rate, shift, at=shift), flat_pair(rate, shift, at=0))


def flat_pair(rate: Fraction, shift: int, *, at: int) -> Pair:
    """Return (P, Q) of one flat draw: 0 in P and `shift` in Q with probability `rate`, else `at` in both."""
    # Weights by mean, in clip norms, each summing to 1.
    p: dict[int, Fraction] = {0: rate}
    q: dict[int, Fraction] = {shift: rate}
    if rate < 1:
        p[at] = p.get(at, Fraction(0)) + 1 - rate
        q[at] = q.get(at, Fraction(0)) + 1 - rate
    return p, q


def _releasing(plan: Plan, protected: ProtectedUnit) -> list[tuple[Phase, StepBound]]:
    """Return (phase, its bound (K)) for phases that can draw the unit; phases without a plain bound are left out."""
    releasing = releasing_phases(plan)
    pairs = zip(plan.phases, (choices[0].plain for choices in protected.choices), strict=True)
    return [(phase, bound) for phase, bound in pairs if phase in releasing and bound is not None]


def _mixture_steps(steps: Iterable[_PairStep]) -> Steps:
    return together({MixturePair.of(p, q, deviation=noise): number} for (p, q), noise, number in steps)


def flat_steps(steps: Iterable[FlatStep]) -> Steps:
    """Return {pair of a step: how often} of flat Poisson draws of single units."""
    return _mixture_steps((flat_pair(rate, 1, at=1), noise, number) for rate, noise, number in steps)


def _larger_epsilon(runs: Iterable[Steps], delta: float) -> float:
    """Return an upper bound on epsilon of the costliest of some runs, in either direction."""
    directions: dict[str, Steps] = {}
    for number, steps in enumerate(runs):
        directions[f"{number} ahead"] = steps
        swapped = ((pair.swapped, count) for pair, count in steps.items() if isinstance(pair, MixturePair))
        directions[f"{number} back"] = dict(swapped)
    return worst_direction(directions, auto, delta=delta)[0].epsilon


# General bounds on the Renyi divergence of sampled steps, from the divergence of the step without sampling.


UPPER, LOWER = "general upper bound", "general lower bound"
SIGNS_KNOWN = "general upper bound, odd moments nonnegative"


PublishedRdpBound = tuple[Kind, Callable[[int], float]]
"""(UPPER or LOWER where the theorem speaks of the run's relation, else as published; Renyi divergence of all steps by
whole order >= 2, infinite where nothing is known)"""


def published_rdp_bounds(plan: Plan) -> dict[str, PublishedRdpBound]:
    """Return the published Renyi bounds of a plan with one flat phase by name, upper ones first."""
    # For draws of a fixed size and Poisson draws an upper bound; for the latter also the one without the factor 3 where
    # its condition is proved (Gaussian and Laplace noise) or stated; and a lower bound, the divergence of an actual
    # pair, where the mechanism is not known by upper bounds alone.
    # Source: Wang, Balle, Kasiviswanathan 2019 (1808.00087v2), Theorem 9 for draws of a fixed size under replacement
    # and Proposition 11; Zhu, Wang 2019 (PMLR 97), Theorems 5 and 6 for Poisson draws.
    phases, replaces = releasing_phases(plan), plan.adjacency is Adjacency.REPLACE_ONE
    if len(phases) != 1 or plan.unit != 1 or plan.group_size != 1:
        return {}
    (phase,) = phases
    level, mechanism = phase.hierarchy.level(1), phase.mechanism
    if phase.hierarchy.depth != 1 or phase.clip != 1 or level.redraw_every != 1:
        return {}
    change = change_of(mechanism, plan.adjacency)
    is_promise, is_fixed = isinstance(mechanism, Promise), level.scheme.has_stand_in
    # Each with the distance at which it takes the batch's divergence.
    theorems: list[tuple[str, Kind, Callable[[Renyi, float, int], float], int]]
    if is_fixed and not level.scheme.at_most:
        shift = 1 if plan.adjacency is Adjacency.ZERO_OUT else 2
        theorems = [
            (UPPER, Kind.UPPER if replaces else Kind.AS_PUBLISHED, fixed_size_upper, 2),
            (LOWER, Kind.LOWER, fixed_size_lower, shift),
        ]
    elif level.scheme.is_independent and not replaces and (change.covers_missing or not is_promise):
        theorems = [(UPPER, Kind.UPPER, poisson_upper, 1), (LOWER, Kind.LOWER, fixed_size_lower, 1)]
        # The odd moments of P/Q - 1 are >= 0 for Gaussian and Laplace noise, or as a table states.
        is_stated = isinstance(mechanism, RdpTable) and mechanism.odd_moments == "nonnegative"
        if is_stated or isinstance(mechanism, (Gaussian, Laplace)):
            theorems.insert(1, (SIGNS_KNOWN, Kind.UPPER, partial(poisson_upper, factor=1.0), 1))
    else:
        return {}

    rate = float(level.rate)

    def amplified(base: Renyi, theorem: Callable[[Renyi, float, int], float], order: int) -> float:
        whole = base(float(order))
        return phase.steps * (whole if rate == 1 or math.isinf(whole) else max(0.0, theorem(base, rate, order)))

    bounds = dict[str, PublishedRdpBound]()
    for name, kind, theorem, shift in theorems:
        match mechanism:
            case Gaussian() | Laplace() | DiscreteGaussian():
                base: Renyi = partial(mechanism.rdp, shift=shift)
            case AdditiveNoise():
                base = mechanism.pair(shift).rdp
            case PairOnly() if not getattr(mechanism, "delta", 0):
                base = mechanism.pair().rdp
            case RdpOnly() if not (kind is Kind.LOWER and is_promise):  # known from above
                base = mechanism.rdp
            case _:
                continue
        if is_promise and is_fixed and kind is not Kind.LOWER:
            base = partial(group_divergence, base, change.exchange)
        bounds[name] = kind, partial(amplified, base, theorem)
    return bounds


def general_rdp_row(plan: Plan) -> Row | None:
    """Return the row, by rdp, of the sharper published upper bound; None if there is none, or it is infinite."""
    bounds = published_rdp_bounds(plan)
    name = SIGNS_KNOWN if SIGNS_KNOWN in bounds else UPPER
    if name not in bounds:
        return None
    kind, divergence = bounds[name]
    points = finite_points(lambda order: divergence(int(order)), range(2, LARGEST_ORDER + 1))
    if not points:
        return None
    curve = RdpCurve(name=f"{name} of {plan.phases!r}, {plan.adjacency}", points=points)
    answer = rdp({curve: 1}, delta=plan.delta)
    valid = kind is Kind.UPPER
    return Row(method="rdp", bound=name, epsilon=answer.epsilon, kind=kind, valid=valid, note=answer.note)
