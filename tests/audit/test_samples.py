"""The samplers of sample_configs draw as they say, also as PyTorch samplers, and the chapter shows their code."""

import importlib.util
import json
import re
import shutil
import sys
from itertools import chain
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from dpcalc.audit.audit import audit_log
from dpcalc.audit.laws import StatisticKind
from dpcalc.config.load import load_text
from tests.audit.loaders import BATCH, STEPS, UNITS, flat_config, jsonl

ROOT = Path(__file__).parents[2]
SAMPLES = ROOT / "sample_configs" / "samplers"
PAGE = (ROOT / "docs" / "audit-sampler.md").read_text(encoding="utf-8")


def module(name):
    spec = importlib.util.spec_from_file_location(name, SAMPLES / f"{name}.py")
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


@pytest.fixture
def torch_samplers(monkeypatch):
    """The module, with a stand-in for PyTorch that has the one class that it takes from there."""
    data = ModuleType("torch.utils.data")
    data.Sampler = type("Sampler", (), {})
    for name, stand_in in {
        "torch": ModuleType("torch"),
        "torch.utils": ModuleType("torch.utils"),
        data.__name__: data,
    }.items():
        monkeypatch.setitem(sys.modules, name, stand_in)
    monkeypatch.setitem(sys.modules, "draws", module("draws"))
    return module("torch_samplers")


@pytest.fixture
def audited(tmp_path):
    def run(config, text):
        (tmp_path / "log").write_text(text, encoding="utf-8")
        return audit_log(load_text(config, path="run.yaml").plan, str(tmp_path / "log"), on_progress=lambda _: None)

    return run


def lists(batches):
    return [batch.tolist() for batch in batches]


def test_poisson(audited):
    batches = module("draws").poisson(UNITS, BATCH / UNITS, STEPS, np.random.default_rng(1))
    assert audited(flat_config("poisson"), jsonl(lists(batches))).agrees


def test_capped_poisson(audited):
    random = np.random.default_rng(2)
    batches = lists(module("draws").capped_poisson(UNITS, BATCH / UNITS, 60, STEPS, random))
    assert max(map(len, batches)) == 60
    assert audited(flat_config("{scheme: poisson, max_batch_size: 60}"), jsonl(batches)).agrees
    (finding,) = audited(flat_config("poisson"), jsonl(batches)).findings
    assert finding.endswith("batches hold 60 units of level example and none holds more: they are cut to a maximum")


@pytest.mark.parametrize("held", [False, True])
def test_balls_in_bins(audited, held):
    bins = UNITS // BATCH
    batches = lists(module("draws").balls_in_bins(UNITS, bins, 10, np.random.default_rng(3), held=held))
    assert len(batches) == 10 * bins
    for begin in range(0, len(batches), bins):
        assert sorted(chain.from_iterable(batches[begin : begin + bins])) == list(range(UNITS))
    assert (batches[:bins] == batches[bins : 2 * bins]) == held
    for assignment in ("fresh", "held"):
        scheme = f"{{scheme: balls-in-bins, bins: {bins}, assignment: {assignment}}}"
        result = audited(flat_config(scheme, length="", steps=10 * bins), jsonl(batches))
        assert result.agrees == (held == (assignment == "held"))
    (finding,) = audited(flat_config("poisson", steps=len(batches)), jsonl(batches)).findings
    assert "this is `balls-in-bins`, not `poisson`" in finding


def test_pytorch(torch_samplers, tmp_path):
    for sampler in (
        torch_samplers.BallsInBins(400, 20, np.random.default_rng(4)),
        torch_samplers.CappedPoisson(400, 0.05, 25, 20, np.random.default_rng(4)),
    ):
        log = tmp_path / type(sampler).__name__
        logged = torch_samplers.LoggedBatches(sampler, log)
        batches = list(logged)
        assert len(logged) == len(batches) == 20
        assert [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()] == batches
        assert {type(index) for batch in batches for index in batch} == {int}
        assert list(logged) != batches
        assert len(log.read_text(encoding="utf-8").splitlines()) == 40
    assert torch_samplers.BallsInBins(5, 2).random is not torch_samplers.BallsInBins(5, 2).random


def test_the_chapter_shows_what_the_sample_says():
    (shown,) = re.findall(r"^```py\n(.*?)^```$", PAGE, flags=re.DOTALL | re.MULTILINE)
    assert shown in (SAMPLES / "torch_samplers.py").read_text(encoding="utf-8")


def test_the_chapter_shows_what_is_printed(real, tmp_path):
    shutil.copytree(SAMPLES, tmp_path / "sample_configs" / "samplers")
    (words, shown), *others = re.findall(r"^\$ dpcalc (.*--scheme fixed)\n((?:.+\n)*?)```", PAGE, flags=re.MULTILINE)
    assert not others
    ended = real(*words.split())
    assert ended.code == 1
    assert ended.out.startswith(shown.removesuffix("...\n"))


def test_each_statistic_of_the_chapter_exists():
    named = {
        name
        for row in re.findall(r"^\| .* \| (`.*`) \| .* \|$", PAGE, flags=re.MULTILINE)
        for name in re.findall(r"`(\w+)`", row)
    }
    assert named == {str(kind) for kind in StatisticKind}
