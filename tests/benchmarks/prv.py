"""prv_accountant's question."""

from prv_accountant import GaussianMechanism, PoissonSubsampledGaussianMechanism, PRVAccountant


def _mechanism(phase):
    if phase.q == 1:
        return GaussianMechanism(noise_multiplier=phase.sigma)
    return PoissonSubsampledGaussianMechanism(noise_multiplier=phase.sigma, sampling_probability=phase.q)


def interval(case, eps_error):
    """Both ends, one direction (it knows no other), with the delta error its documentation recommends."""
    if any(phase.cap for phase in case.phases):
        raise NotImplementedError("batches cut to a maximum")
    steps = [phase.steps for phase in case.phases]

    def ask():
        accountant = PRVAccountant(
            prvs=[_mechanism(phase) for phase in case.phases],
            max_self_compositions=steps,
            eps_error=eps_error,
            delta_error=1e-3 * case.delta,
        )
        low, _, high = accountant.compute_epsilon(delta=case.delta, num_self_compositions=steps)
        return float(low), float(high)

    return ask
