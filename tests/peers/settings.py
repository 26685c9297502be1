"""One training run put to dpcalc, dp_accounting and prv_accountant, and the exact answer where nothing is sampled."""

from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import dp_accounting
import prv_accountant
import yaml
from dp_accounting.pld import PLDAccountant, privacy_loss_distribution
from dp_accounting.rdp import RdpAccountant

from dpcalc.guarantee import Adjacency
from dpcalc.planner.evaluate import guarantee
from dpcalc.planner.lower_end import epsilon_lower
from dpcalc.sampling.hierarchy import Level
from dpcalc.sampling.schemes import Fixed, Poisson
from tests.oracles.exact_gaussian import exact_epsilon
from tests.runs import run_of

NEIGHBORS = {
    Adjacency.ADD_REMOVE: dp_accounting.NeighboringRelation.ADD_OR_REMOVE_ONE,
    Adjacency.REPLACE_ONE: dp_accounting.NeighboringRelation.REPLACE_ONE,
    Adjacency.ZERO_OUT: dp_accounting.NeighboringRelation.REPLACE_SPECIAL,
}
COUNT = 10**9  # of examples; Poisson sampling does not use it
GRID = 1e-4  # dp_accounting's distance of two losses


@dataclass(frozen=True)
class Flat:
    """Poisson sampling of single examples at an exact rate given as text."""

    rate: str
    sigma: float
    steps: int
    delta: float
    adjacency: Adjacency = Adjacency.ADD_REMOVE

    def __str__(self):
        return f"q={self.rate} sigma={self.sigma:g} T={self.steps} delta={self.delta:g} {self.adjacency}"

    @property
    def q(self):
        return float(Fraction(self.rate))

    @property
    def plan(self):
        return plan(Level(name="example", count=COUNT, scheme=Poisson(probability=Fraction(self.rate))), run=self)

    @property
    def event(self):
        base = dp_accounting.GaussianDpEvent(self.sigma)
        return base if self.q == 1 else dp_accounting.PoissonSampledDpEvent(self.q, base)


ROWS = yaml.safe_load(Path(__file__).with_name("runs.yaml").read_text(encoding="utf-8"))


def flat(rate, sigma, steps, delta, adjacency="add-remove"):
    """A row of runs.yaml."""
    return Flat(rate, sigma, steps, delta, Adjacency(adjacency))


def plan(*levels, run, clip=None, mechanism=None):
    """The run's noise, length and relation with other sampling; the innermost level is protected."""
    asked = {"steps": run.steps, "adjacency": run.adjacency, "delta": run.delta}
    return run_of(*levels, mechanism=mechanism, noise=run.sigma, clip=clip, **asked)


def fixed(size, count, run):
    """Batches of exactly `size` examples instead."""
    return plan(Level(name="example", count=count, scheme=Fixed(size=size)), run=run)


def ours(plan):
    """Certified lower and upper end."""
    return epsilon_lower(plan)[0], guarantee(plan, method="pld").epsilon


def our_rdp(plan):
    return guarantee(plan, method="rdp").epsilon


def google_pld(run):
    return PLDAccountant(NEIGHBORS[run.adjacency]).compose(run.event, run.steps).get_epsilon(run.delta)


def google_rdp(run):
    accountant = RdpAccountant(neighboring_relation=NEIGHBORS[run.adjacency]).compose(run.event, run.steps)
    return float(accountant.get_epsilon(run.delta))


def google_fft(run, *, pessimistic=True):
    """Gaussian steps composed by the accountant's own Fourier transform, not by adding their variances."""
    one = privacy_loss_distribution.from_gaussian_mechanism(
        run.sigma, pessimistic_estimate=pessimistic, use_connect_dots=pessimistic
    )
    return one.self_compose(run.steps).get_epsilon_for_delta(run.delta)


def prv(run, *, eps_error=0.01):
    """(lower, upper) of prv_accountant with the delta error its documentation recommends."""
    mechanism = (
        prv_accountant.GaussianMechanism(noise_multiplier=run.sigma)
        if run.q == 1
        else prv_accountant.PoissonSubsampledGaussianMechanism(noise_multiplier=run.sigma, sampling_probability=run.q)
    )
    accountant = prv_accountant.PRVAccountant(
        prvs=[mechanism], max_self_compositions=[run.steps], eps_error=eps_error, delta_error=1e-3 * run.delta
    )
    low, _, high = accountant.compute_epsilon(delta=run.delta, num_self_compositions=[run.steps])
    return low, high


def exact_gaussian(mu, delta):
    return float(exact_epsilon(1, 1 / mu, delta))


def google_slack(run):
    """How much dp_accounting's grid may add to epsilon, to first order.

    Splitting a loss over the two grid points around it, the masses under P and Q kept, has variance at most GRID^2 / 4
    and multiplies E[e^{zL}] by at most e^{z(z + 1) GRID^2 / 8}; epsilon moves by a z-th of that, once a step, at the
    order z + 1 that decides: taken from its own Renyi accountant under add-remove (replacing costs more, and what costs
    more is decided at a smaller order).
    """
    _, order = RdpAccountant().compose(run.event, run.steps).get_epsilon_and_optimal_order(run.delta)
    return run.steps * order * GRID**2 / 8
