"""Shapes of public training repositories: the gate reads what their files state, and a change there fails it."""

import subprocess
from pathlib import Path

import pytest
import yaml

ROWS = yaml.safe_load(Path(__file__).with_name("public_runs.yaml").read_text(encoding="utf-8"))
GATED = ROWS["gated"]


@pytest.fixture(autouse=True)
def repository(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    subprocess.run(["git", "init", "-q"], check=True)


@pytest.mark.heavy
@pytest.mark.parametrize("row", GATED.values(), ids=GATED)
def test_a_config_without_a_number_of_the_files_is_a_gate(real, row):
    for name, text in {**row["files"], "dpcalc.yaml": row["config"]}.items():
        Path(name).write_text(text, encoding="utf-8")
    subprocess.run(["git", "add", "-A"], check=True)
    epsilon = row.get("told") or row["epsilon"]
    assert float(real("epsilon", "-q", "dpcalc.yaml").out) == pytest.approx(epsilon, rel=1e-4)
    assert real("check").code == 0
    file, before, after = row["edit"]
    assert row["files"][file].count(before) == 1
    Path(file).write_text(row["files"][file].replace(before, after), encoding="utf-8")
    ended = real("check")
    assert (ended.code, "DPC301" in ended.out) == (1, True)


@pytest.mark.parametrize(("file", "text", "path", "words"), ROWS["refused"])
def test_what_code_or_a_shell_computes_is_refused(dpcalc, file, text, path, words):
    Path(file).write_text(text, encoding="utf-8")
    config = f"version: 1\nmechanism: {{noise_multiplier: '${{{file}:{path}}}'}}\n"
    Path("dpcalc.yaml").write_text(config, encoding="utf-8")
    ended = dpcalc("check")
    assert (ended.code, words in ended.out) == (2, True), ended.out
