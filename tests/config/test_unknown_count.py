"""`examples: unknown`: a run of which only a rate is known costs what the rate costs."""

import pytest

import dpcalc
from dpcalc.planner.evaluate import guarantee
from tests.config.texts import flat, plan


@pytest.mark.parametrize(
    ("sampling", "counts"),
    [
        ("{scheme: poisson, rate: 1/235}", (235, 60_000)),
        pytest.param("{scheme: all}", (1000,), marks=pytest.mark.heavy),
        pytest.param("{scheme: balls-in-bins, bins: 10}", (1000,), marks=pytest.mark.heavy),
    ],
)
def test_epsilon_is_that_of_any_number(sampling, counts):
    changes = {"sampling": sampling, "training": "{epochs: 60}", "privacy": "{adjacency: add-remove, delta: 1e-3}"}
    unknown = plan(flat({"data": "{examples: unknown}", **changes}))
    for count in counts:
        stated = plan(flat({"data": f"{{examples: {count}}}", **changes}))
        assert stated.steps == unknown.steps
        assert guarantee(stated).epsilon == guarantee(unknown).epsilon


@pytest.mark.heavy
@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("mechanism", [{"type": "pure-dp", "epsilon": 1.0}, {"type": "zcdp", "rho": 0.1}])
def test_no_bound_leans_on_a_number_that_nobody_stated(mechanism):
    """The share of a Poisson batch varies most for few examples: 2.17 was said where two examples cost 3.98."""
    config = {
        "version": 1,
        "sampling": {"scheme": "poisson", "rate": 0.1},
        "mechanism": {**mechanism, "relation": "replace-one"},
        "training": {"steps": 10},
        "privacy": {"adjacency": "replace-one", "delta": 1e-5},
    }
    unknown = dpcalc.epsilon({**config, "data": {"examples": "unknown"}}).epsilon
    assert all(unknown >= dpcalc.epsilon({**config, "data": {"examples": n}}).epsilon for n in (1, 2, 10, 1000))


def test_words_of_results_state_no_number(real, tmp_path):
    (tmp_path / "a.yaml").write_text(
        flat({"data": "{examples: unknown}", "sampling": "{scheme: poisson, rate: 1/235}"})
    )
    told = real("epsilon", "a.yaml").out
    assert "their number is not stated" in told
    assert "of 235" not in told
