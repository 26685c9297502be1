"""`dpcalc statement`: one statement, five formats, the same bytes for the same config."""

import json

import pytest

CONFIG = """\
version: 1
name: clinic
data: {examples: 1_000}
sampling: {scheme: poisson, rate: 0.5}
mechanism: {noise_multiplier: 5}
training: {steps: 20}
privacy: {adjacency: add-remove, delta: 1e-5}
"""


@pytest.fixture
def config(tmp_path):
    (tmp_path / "run.yaml").write_text(CONFIG, encoding="utf-8")
    return "run.yaml"


@pytest.mark.heavy
def test_text_and_markdown(real, config):
    ended = real("statement", config)
    assert (ended.code, ended.out.startswith("Privacy statement: clinic\n")) == (0, True)
    assert "epsilon               at most 1.85\n" in ended.out
    assert all(len(line) <= 80 for line in ended.out.splitlines() if "config_hash" not in line)
    first, again = (real("statement", config, "--format", "markdown").out for _ in range(2))
    assert first == again
    assert first.startswith("# Privacy statement: clinic\n")


@pytest.mark.heavy
def test_json_agrees_with_epsilon(real, config):
    found = json.loads(real("statement", config, "--format", "json").out)
    epsilon = json.loads(real("epsilon", config, "--json").out)
    assert found["guarantee"] == epsilon["guarantee"]
    assert found["config_hash"] == epsilon["config_hash"]
    assert found["attack"]["advantage"] < found["guarantee"]["epsilon"]
    assert found["without_amplification"]["epsilon"] > found["guarantee"]["epsilon"]
    sizes = [group["epsilon"] for group in found["groups"]]
    assert sizes == sorted(sizes)


def test_overrides_and_an_unknown_format(real, config):
    assert "  epsilon               at most 0\n" in real("statement", config, "--steps", "0").out
    assert real("statement", config, "--format", "pdf").code == 2


@pytest.mark.heavy
def test_the_registry_form_lists_what_is_left_to_a_person(real, config):
    ended = real("statement", config, "--format", "registry")
    assert ended.out.startswith("url_slug: clinic\nstatus: Draft\n")
    assert "note: a person must answer (`...`): deployment.basic.data_curators" in ended.err
    assert ": deployment.basic.publication_date, deployment.basic.data_product_sector\n" in ended.err
    assert "deployment.deployment_model.model_name" in ended.err
    dated = real("statement", config, "--format", "registry", "--published", "2026-01-31")
    assert "publication_date: '2026-01-31'" in dated.out
    assert "publication_date" not in dated.err
    assert real("statement", config, "--format", "latex").out.startswith("\\documentclass")
    assert "published             2026-01-31" in real("statement", config, "--published", "2026-01-31").out
