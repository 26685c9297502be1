"""Every accountant and bound side by side: which rows there are and what they claim, on runs of every kind."""

import pytest

from dpcalc.accountants import ACCOUNTANTS
from dpcalc.guarantee import Kind
from dpcalc.planner.compare import compare
from dpcalc.planner.evaluate import guarantee
from tests.planner.test_costs import planned
from tests.thinning import thinned

PURE = {"type": "pure-dp", "epsilon": 0.3}, {"type": "laplace", "noise_multiplier": 3}
EXPONENTIAL, ANSWERS = {"type": "exponential", "epsilon": 5}, {"type": "randomized-response", "truth_probability": 0.7}
OTHERS = {"type": "approximate-dp", "epsilon": 1, "delta": 1e-9}, {"type": "zcdp", "rho": 0.1}


def mixed(*mechanisms, delta):
    """Phases of some mechanisms on all data."""
    phases = [{"mechanism": each, "training": {"steps": 1 + at}} for at, each in enumerate(mechanisms)]
    return "flat", {"draw": {"scheme": "all"}, "phases": phases, "adjacency": "replace-one", "delta": delta}


MIXED = {
    f"{name} {delta:g}": mixed(*mechanisms, delta=delta)
    for name, mechanisms in {
        "pure": (*PURE, EXPONENTIAL, ANSWERS),
        "exponential": (EXPONENTIAL, EXPONENTIAL),
        "failing": (PURE[0], OTHERS[0]),
        "divergence": (OTHERS[1], *PURE),
    }.items()
    for delta in (1e-300, 1e-20, 1e-5, 0.9)
}
RUNS = {
    "flat": ("flat", {"steps": 10_000}),
    "flat zero-out": ("flat", {"adjacency": "zero-out"}),
    "flat replace-one": ("flat", {"adjacency": "replace-one"}),
    "fixed": ("flat", {"draw": {"scheme": "fixed", "size": 600}}),
    "not sampled": ("flat", {"draw": {"scheme": "all"}, "noise": 300}),
    "nested": (
        "pair",
        {"counts": [200, 20], "user": {"scheme": "fixed", "size": 4}, "record": {"scheme": "fixed", "size": 5}},
    ),
    "users clipped whole": ("pair", {"user": {"scheme": "poisson", "rate": 0.01}, "unit": "user", "clip": "user"}),
    "users clipped in parts": ("pair", {"user": {"scheme": "poisson", "rate": 0.01}, "unit": "user", "noise": 20}),
    "two phases": ("flat", {"phases": [{}, {"mechanism": {"noise_multiplier": 6}}]}),
    "nothing released": ("flat", {"steps": 0}),
    "little noise": ("flat", {"noise": 0.3, "steps": 3}),
    **MIXED,
}


@pytest.mark.heavy
@pytest.mark.parametrize("name", thinned(RUNS, 7))
def test_what_the_rows_claim(name):
    plan = planned(*RUNS[name])
    rows = compare(plan)
    order = [(not one.valid, one.epsilon is None, float(f"{one.epsilon or 0.0:.6g}")) for one in rows]
    assert order == sorted(order)
    assert sorted(one.method for one in rows if one.bound == "one-step bound") == sorted([*ACCOUNTANTS, "inversion"])
    assert all(one.note for one in rows if not one.valid or one.epsilon is None)
    assert {one.kind for one in rows if one.valid} <= {Kind.UPPER, Kind.AS_PUBLISHED}
    assert all(one.valid for one in rows if one.kind is Kind.UPPER and one.epsilon is not None)
    valid = [one.epsilon for one in rows if one.valid and one.epsilon is not None]
    assert name not in MIXED or guarantee(plan).epsilon <= min(valid)
    (lower,) = (one.epsilon_lower or 0.0 for one in rows if (one.method, one.bound) == ("pld", "one-step bound"))
    assert min(valid) >= lower * (1 - 1e-4)
    said = {one for one in rows if one.note.endswith("an actual data set costs more")}
    assert said == {one for one in rows if not one.valid and one.epsilon is not None and one.epsilon < lower}
