"""`--set`: the rules of the file, of merging, and nothing without effect."""

from pathlib import Path

import pytest

from dpcalc.config.expand import Overrides
from dpcalc.config.load import load_text
from dpcalc.config.source import ConfigError, source_of
from dpcalc.config.tree import Scalar, parse_yaml, walk
from tests.config.texts import corpus, errors, flat
from tests.thinning import thinned

ROWS = corpus("settings")


@pytest.mark.parametrize(("flags", "assignments", "messages"), ROWS["exclusive"])
@pytest.mark.parametrize("text", [flat({}), "version: 1\n"])
def test_two_settings_that_exclude_each_other(text, flags, assignments, messages):
    given = Overrides(flags=tuple(flags.items()), assignments=tuple(assignments))
    with pytest.raises(ConfigError) as caught:
        load_text(text, path="f", overrides=given)
    found = [one for one in caught.value.diagnostics if one.code == "DPC107" and one.path != "f"]
    assert sorted(one.message for one in found) == sorted(messages)
    assert {one.hint for one in found} == {"keep one of them"}


def test_a_phase_wins_over_a_setting_of_the_same_key():
    (error,) = errors(flat({"phases": "[{mechanism: {noise_multiplier: 3}}]"}), ["mechanism.noise_multiplier=7"])
    assert "e.g. `--set phases[0].mechanism.noise_multiplier=...`" in error.hint
    (error,) = errors(flat({}), ["sampling.rate=0.5", "sampling.scheme=fixed", "sampling.size=3"])
    assert "phase" not in error.hint + error.message


FOLDER = Path(__file__).parents[2] / "sample_configs"


@pytest.mark.parametrize("name", thinned(sorted(path.stem for path in FOLDER.glob("*.yaml")), 9))
def test_setting_what_the_file_says_changes_nothing(name):
    text = (FOLDER / f"{name}.yaml").read_text(encoding="utf-8")
    tree, _ = parse_yaml(source_of(text, "f"))
    said = [(path, node.text) for path, node in walk(tree, "") if isinstance(node, Scalar)]
    assert said
    before = load_text(text, path="f")
    for path, value in said:
        after = load_text(text, path="f", assignments=[f"{path}={value}"])
        assert (after.plan, after.config_hash) == (before.plan, before.config_hash), path
    assert load_text(text, path="f", assignments=[f"{path}={value}" for path, value in said]).plan == before.plan


@pytest.mark.parametrize(("changes", "assignment", "kept", "dropped"), ROWS["new type"])
def test_a_new_type_keeps_what_it_takes_in_the_same_meaning(changes, assignment, kept, dropped):
    loaded = load_text(flat(changes), path="f", assignments=[assignment])
    (phase,) = loaded.plan.phases
    assert {name: getattr(phase.mechanism, name) for name in kept} == kept
    notes = [each for each in loaded.diagnostics if "drops" in each.message]
    assert [each.message.partition(" drops ")[2] for each in notes] == ([f"{dropped} of the file"] if dropped else [])


def test_a_budget_without_noise_leads_to_the_solver():
    (error,) = errors(flat({"mechanism": "{max_grad_norm: 1.0}", "budget": "{epsilon: 1}"}))
    assert "`dpcalc solve-sigma file.yaml`" in error.hint
    (error,) = errors(flat({"mechanism": "{max_grad_norm: 1.0}"}))
    assert "solve-sigma" not in error.hint


def test_the_history_of_an_accountant_leads_to_import():
    (error,) = errors('{"history": [[1.1, 0.0042, 500]], "mechanism": "rdp"}')
    assert "`dpcalc import FILE" in error.hint
