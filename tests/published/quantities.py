"""What dpcalc says where a publication prints a number."""

import math
import re
from dataclasses import replace

import numpy as np

from dpcalc.accountants import accountant_of
from dpcalc.accountants.closed_forms import central_limit_mu, equal_steps
from dpcalc.accountants.composed_loss import LOWER
from dpcalc.accountants.pld import epsilon_bounds
from dpcalc.amplification.data_sets import Contributions, data_set_pair
from dpcalc.amplification.schedule import glued_profile
from dpcalc.losses.moments import composed_moments
from dpcalc.losses.pair import MixturePair
from dpcalc.planner.compare import gdp_row, tool_rows
from dpcalc.planner.composition import FORWARD, composed
from dpcalc.planner.evaluate import guarantee
from dpcalc.planner.lower_end import epsilon_lower
from dpcalc.planner.published import flat_poisson_row, strong_composition_row, theorem_3_row
from dpcalc.sampling.paths import co_sampled_with
from tests.oracles.gaussian_mixtures import Mixture, hockey_stick

SIGNS = {"-": -1, "+": 1, "0": 0}
FAR = 1000  # clip norms: a draw that far away is told apart from every other
TF_PRIVACY_ORDERS = [1 + x / 10 for x in range(1, 100)] + list(range(12, 64))  # of its MNIST tutorial


def said(row):
    """Our number for a row."""
    quantity, *words = row.quantity.split()
    return QUANTITIES[quantity](row, *words)


def _epsilon(row, direction=""):
    if not direction:
        return guarantee(row.plan, method=row.method).epsilon
    counts = composed(row.plan).steps[direction]
    return accountant_of(row.method)(counts, delta=row.plan.delta).epsilon


def _largest_distances(row, direction=""):
    """(K), whatever sharper bound there is."""
    (bound,) = {each_unit.choices[0][0].plain for each_unit in composed(row.plan).units}
    ahead = glued_profile(bound, noise_multiplier=row.plan.phases[0].noise_multiplier)
    sides = [ahead] * (direction in {"", FORWARD}) + [ahead.swapped] * (direction != FORWARD)
    steps = row.plan.phases[0].steps
    return max(accountant_of(row.method)({side: steps}, delta=row.plan.delta).epsilon for side in sides)


def _order(row):
    counts = composed(row.plan).steps[FORWARD]
    return float(re.search(r"\d+", accountant_of(row.method)(counts, delta=row.plan.delta).note)[0])


def _classical_rdp(row, _):
    """The classical conversion at published orders."""
    z = np.array(TF_PRIVACY_ORDERS) - 1
    epsilons = []
    for counts in composed(row.plan).steps.values():
        cumulants, _ = composed_moments(counts, max_order=z.max()).cumulants(z)
        epsilons.append(((cumulants - math.log(row.plan.delta)) / z).min())
    return max(epsilons)


def _printed(row, method, *bound):
    """What dpcalc says that a tool or a paper prints."""
    rows = (*tool_rows(row.plan), strong_composition_row(row.plan), gdp_row(row.plan))
    wanted = " ".join(bound) or "flat Poisson"
    (found,) = (one.epsilon for one in rows if (one.method, one.bound) == (method, wanted))
    return found


def _mu(row):
    (phase,) = row.plan.phases
    return central_limit_mu([(phase.hierarchy.level(1).rate, phase.mechanism.noise_multiplier, phase.steps)])


def _composed(row, epsilon, delta):
    """Optimal composition of as many (epsilon, delta)-DP steps."""
    (phase,) = row.plan.phases
    rest = -math.expm1(math.log1p(-row.plan.delta) - phase.steps * math.log1p(-float(delta)))
    return equal_steps(float(epsilon), phase.steps, delta=rest)


def _lower(row):
    return epsilon_lower(row.plan)[0]


def _tight(row, _):
    value, tight = epsilon_lower(row.plan)
    assert tight
    return value


def _data_set(row, *words):
    """One data set's cost, certified from below, or its delta in one step by an independent integration."""
    *asks_delta, pattern, direction = words[1:]
    (phase,) = row.plan.phases
    signs = tuple(SIGNS[sign] for sign in pattern)
    plan = row.plan
    (path,) = composed(plan).likeliest.paths
    co_sampled = co_sampled_with(phase.hierarchy, path, clip=phase.clip)
    p, q = data_set_pair(co_sampled, adjacency=plan.adjacency, contributions=Contributions(signs))
    if direction != FORWARD:
        p, q = q, p
    sigma = phase.mechanism.noise_multiplier
    if asks_delta:
        return hockey_stick(*(Mixture.on_line(list(m.values()), list(m)) for m in (p, q)), sigma, [row.epsilon])[0]
    counts = {MixturePair.of(p, q, deviation=sigma): phase.steps}
    return epsilon_bounds(counts, delta=plan.delta, sides=(LOWER,))[0]


def _delta(row, direction):
    """The one-step bound itself."""
    (phase,) = row.plan.phases
    profile = glued_profile(composed(row.plan).phase_bound(phase), noise_multiplier=phase.mechanism.noise_multiplier)
    return (profile if direction == FORWARD else profile.swapped).delta(row.epsilon)


def _revealed(row, level):
    """(K) where everybody sees which unit was drawn at every level down to `level`: those draws are far away."""
    (phase,) = row.plan.phases
    bound = composed(row.plan).phase_bound(phase)
    far = tuple(each._replace(distance=FAR, distance_swapped=FAR) for each in bound.missed[: int(level)])
    seen = replace(bound, missed=(*far, *bound.missed[int(level) :]))
    profile = glued_profile(seen, noise_multiplier=phase.mechanism.noise_multiplier)
    return max(
        accountant_of("pld")({curve: phase.steps}, delta=row.plan.delta).epsilon for curve in (profile, profile.swapped)
    )


QUANTITIES = {
    "epsilon": _epsilon,
    "(K)": _largest_distances,
    "order": _order,
    "classical": _classical_rdp,
    "printed": _printed,
    "mu": _mu,
    "composed": _composed,
    "lower": _lower,
    "tight": _tight,
    "data": _data_set,
    "delta": _delta,
    "revealed": _revealed,
    "theorem": lambda row, _: theorem_3_row(row.plan).epsilon,
    "flat": lambda row, _: flat_poisson_row(row.plan).epsilon,
    "inclusion": lambda row: math.prod(x.rate for x in row.plan.phases[0].hierarchy.levels[: row.plan.unit]),
}
