"""`examples: unknown`: what results say (what it costs: tests/planner/costs.yaml)."""

from tests.config.texts import flat


def test_words_of_results_state_no_number(real, tmp_path):
    (tmp_path / "a.yaml").write_text(
        flat({"data": "{examples: unknown}", "sampling": "{scheme: poisson, rate: 1/235}"})
    )
    told = real("epsilon", "a.yaml").out
    assert "their number is not stated" in told
    assert "of 235" not in told
