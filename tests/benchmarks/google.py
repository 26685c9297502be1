"""dp_accounting's questions; each returns the call that is timed."""

import dp_accounting
from dp_accounting.pld import PLDAccountant
from dp_accounting.rdp import RdpAccountant


def _event(phase, sigma):
    if phase.cap:
        return dp_accounting.TruncatedSubsampledGaussianDpEvent(phase.count, phase.q, phase.cap, sigma)
    base = dp_accounting.GaussianDpEvent(sigma)
    return base if phase.q == 1 else dp_accounting.PoissonSampledDpEvent(phase.q, base)


def _composed(accountant, case):
    for phase in case.phases:
        accountant.compose(_event(phase, phase.sigma), phase.steps)
    return None, float(accountant.get_epsilon(case.delta))


def pld(case, grid):
    """The pessimistic end, both directions, on a grid of that distance."""
    return lambda: _composed(PLDAccountant(value_discretization_interval=grid), case)


def rdp(case, _):
    return lambda: _composed(RdpAccountant(), case)


def calibrated(case, _):
    """The smallest noise multiplier by its own search with its PLD accountant, all else at its defaults."""
    (phase,) = case.phases

    def event(sigma):
        return dp_accounting.SelfComposedDpEvent(_event(phase, sigma), phase.steps)

    return lambda: (None, dp_accounting.calibrate_dp_mechanism(PLDAccountant, event, case.target, case.delta))
