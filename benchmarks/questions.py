"""What each tool is asked, and the process that asks: `python -m benchmarks.questions REQUEST`, JSON both ways.

A question takes a case and a setting, prepares, and returns the call that is timed, which answers (lower, upper). It
imports its own tool alone, so that a cold start and its memory are those of that tool.
"""

import json
import resource
import sys
import time

from benchmarks.cases import BY_NAME

MOST_CALLS, ENOUGH = 15, 0.4  # seconds


def ours(case):
    from dpcalc.config.load import load_text
    from dpcalc.planner.composition import composed

    plan = load_text(case.config, path=case.name).plan
    return plan, [*composed(plan).steps.values()]


def interval(case, _):
    """Both certified ends of epsilon, both directions."""
    from dpcalc.accountants.composed_loss import LOWER, UPPER
    from dpcalc.accountants.pld import epsilon_bounds

    plan, directions = ours(case)

    def ask():
        ends = [epsilon_bounds(counts, delta=plan.delta, sides=(UPPER, LOWER)) for counts in directions]
        return max(lower for _, lower in ends), max(upper for upper, _ in ends)

    return ask


def upper_end(case, _):
    """What dp_accounting's accountant answers: a bound, both directions."""
    from dpcalc.accountants.composed_loss import UPPER
    from dpcalc.accountants.pld import epsilon_bounds

    plan, directions = ours(case)
    return lambda: (None, max(epsilon_bounds(counts, delta=plan.delta, sides=(UPPER,))[0] for counts in directions))


def estimate(case, _):
    """Inversion, both directions."""
    from dpcalc.accountants.inversion import inversion

    plan, directions = ours(case)
    return lambda: (None, max(inversion(counts, delta=plan.delta) for counts in directions))


def one_inversion(case, _):
    """One call of the solver's inner function: the costlier direction, its steps at hand."""
    from dpcalc.accountants.inversion import inversion

    plan, directions = ours(case)
    counts = max(directions, key=lambda each: inversion(each, delta=plan.delta))
    return lambda: (None, inversion(counts, delta=plan.delta))


def smallest_sigma(case, _):
    """The noise multiplier that is returned, and its neighbour that fails."""
    from dpcalc.planner.solve import EpsilonGoal, solve

    plan, _ = ours(case)

    def ask():
        solution = solve(plan, "sigma", goal=EpsilonGoal(limit=case.target))
        return solution.fails_at, solution.value

    return ask


def google_event(phase, sigma):
    import dp_accounting

    if phase.cap:
        return dp_accounting.TruncatedSubsampledGaussianDpEvent(phase.count, phase.q, phase.cap, sigma)
    base = dp_accounting.GaussianDpEvent(sigma)
    return base if phase.q == 1 else dp_accounting.PoissonSampledDpEvent(phase.q, base)


def google_epsilon(accountant, case):
    for phase in case.phases:
        accountant.compose(google_event(phase, phase.sigma), phase.steps)
    return None, float(accountant.get_epsilon(case.delta))


def google_pld(case, grid):
    """The pessimistic end, both directions, on a grid of that distance."""
    from dp_accounting.pld import PLDAccountant

    return lambda: google_epsilon(PLDAccountant(value_discretization_interval=grid), case)


def google_rdp(case, _):
    from dp_accounting.rdp import RdpAccountant

    return lambda: google_epsilon(RdpAccountant(), case)


def google_calibrated(case, _):
    """The smallest noise multiplier by its own search with its PLD accountant, all else at its defaults."""
    import dp_accounting
    from dp_accounting.pld import PLDAccountant

    (phase,) = case.phases

    def event(sigma):
        return dp_accounting.SelfComposedDpEvent(google_event(phase, sigma), phase.steps)

    return lambda: (None, dp_accounting.calibrate_dp_mechanism(PLDAccountant, event, case.target, case.delta))


def prv_interval(case, eps_error):
    """Both ends, one direction (it knows no other), with the delta error its documentation recommends."""
    from prv_accountant import GaussianMechanism, PoissonSubsampledGaussianMechanism, PRVAccountant

    steps = [phase.steps for phase in case.phases]

    def mechanism(phase):
        if phase.q == 1:
            return GaussianMechanism(noise_multiplier=phase.sigma)
        return PoissonSubsampledGaussianMechanism(noise_multiplier=phase.sigma, sampling_probability=phase.q)

    def ask():
        accountant = PRVAccountant(
            prvs=[mechanism(phase) for phase in case.phases],
            max_self_compositions=steps,
            eps_error=eps_error,
            delta_error=1e-3 * case.delta,
        )
        low, _, high = accountant.compute_epsilon(delta=case.delta, num_self_compositions=steps)
        return float(low), float(high)

    return ask


def main():
    """Answer once, which ends the cold start that the parent began to time, then repeat the call for a moment."""
    request = json.loads(sys.argv[1])
    resource.setrlimit(resource.RLIMIT_AS, (request["memory"], request["memory"]))
    ask = globals()[request["question"]](BY_NAME[request["case"]], request["setting"])
    seconds, cpu, first = [], [], {}
    while not seconds or (sum(seconds) < ENOUGH and len(seconds) < MOST_CALLS):
        cpu_start, start = time.process_time(), time.perf_counter()
        lower, upper = ask()
        seconds.append(time.perf_counter() - start)
        cpu.append(time.process_time() - cpu_start)
        if not first:
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (2**20 if sys.platform == "darwin" else 2**10)
            first = {"cold": time.monotonic() - request["started"], "mebibytes": peak}
    sys.stdout.write(json.dumps({"lower": lower, "upper": upper, "seconds": seconds, "cpu": cpu, **first}))


if __name__ == "__main__":
    main()
