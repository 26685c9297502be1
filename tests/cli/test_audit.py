"""`dpcalc audit-sampler`: exit codes, forms of the answer, phases, levels and episodes."""

import json
import subprocess
import sys
from itertools import chain, islice
from pathlib import Path

import numpy as np
import pytest
import yaml

from dpcalc.config.load import load_text
from tests.audit import loaders
from tests.audit.loaders import flat_config, jsonl, nested, nested_config
from tests.cli.running import environment

PHASES, EPISODES = yaml.safe_load(Path(__file__).with_name("audit.yaml").read_text(encoding="utf-8")).values()


@pytest.fixture
def audit(real, tmp_path):
    """Run the command on the text of a config and on batches, or the text of a log."""

    def run(config, batches, *options):
        (tmp_path / "run.yaml").write_text(config, encoding="utf-8")
        text = batches if isinstance(batches, str) else jsonl(islice(batches, load_text(config, path="").plan.steps))
        (tmp_path / "log.jsonl").write_text(text, encoding="utf-8")
        return real("audit-sampler", "run.yaml", "log.jsonl", *options)

    return run


@pytest.mark.heavy
def test_a_log_that_agrees(audit):
    ended = audit(flat_config("poisson"), loaders.poisson(np.random.default_rng(1)))
    first, steps, *lines = ended.out.splitlines()
    assert (ended.code, ended.err, first, steps) == (0, "", "agrees: yes", "steps: 2000")
    assert all(line.startswith("tests: example: ") for line in lines[2:])
    assert "CONTRADICTED" not in ended.out


def test_a_log_that_contradicts(audit):
    config, batches = flat_config("poisson"), list(islice(loaders.shuffled(np.random.default_rng(1)), 2000))
    ended = audit(config, batches, "--json")
    assert ended.code == 1
    answer = json.loads(ended.out)
    assert (answer["command"], answer["agrees"], answer["false_alarm"]) == ("audit-sampler", False, 1e-6)
    assert answer["findings"] == ["each example once per pass of about 60 batches: this is `shuffle`, not `poisson`"]
    (passes,) = (test for test in answer["tests"] if test["test"] == "passes")
    assert passes["level"] == "example"
    assert (passes["observed"], passes["p_value"], passes["agrees"]) == (0, 0, False)
    assert {*answer["tests"][0]} == {"phase", "level", "test", "quantity", "expected", "observed", "p_value", "agrees"}
    ended = audit(config, batches)
    assert ended.code == 1
    assert ended.out.startswith("agrees: no\nfindings: each example once per pass")


def test_phases_follow_each_other(audit):
    rng = np.random.default_rng(2)
    first, second = list(islice(loaders.fixed(rng, size=60), 200)), list(islice(loaders.poisson(rng), 600))
    assert audit(PHASES, first + second).code == 0
    ended = audit(PHASES, chain(first, loaders.fixed(rng)), "--json")
    assert ended.code == 1
    (finding,) = json.loads(ended.out)["findings"]
    assert finding.startswith("main: every batch holds exactly 50 units")
    ended = audit(PHASES, first[1:] + second[:1] + second, "--json")
    assert json.loads(ended.out)["findings"][0].startswith("warm-up: ")


def test_constructed_tasks(audit):
    rng = np.random.default_rng(3)

    def task(images=3):
        return [(int(k), int(i)) for k in rng.permutation(20)[:5] for i in rng.permutation(30)[:images]]

    honest = [[[number, *path] for number in range(4) for path in task()] for _ in range(200)]
    ended = audit(EPISODES, honest)
    assert (ended.code, ended.err) == (0, "")
    same = [[[number, *path] for path in task() for number in range(4)] for _ in range(200)]
    assert audit(EPISODES, same).code == 1


def test_what_is_not_tested_is_said(audit):
    config = nested_config("{scheme: with-replacement, size: 5}", "{scheme: fixed, size: 2}")
    rng = np.random.default_rng(5)
    log = nested(rng, lambda rng: rng.integers(0, 60, 5), lambda rng, _: rng.permutation(12)[:2])
    ended = audit(config, log)
    assert ended.code == 0
    assert ended.err == "note: example: is not tested, because a draw with replacement above it mixes several draws\n"
    between = config.replace("count: 12", "count: {min: 4, max: 12}").replace("with-replacement", "fixed")
    log = nested(rng, lambda rng: rng.permutation(60)[:5], lambda rng, _: rng.permutation(12)[:2])
    ended = audit(between, log)
    assert ended.code == 0
    assert "note: example: how many there are is not declared, so that only sizes and repeats are tested\n" in ended.err


@pytest.mark.heavy
@pytest.mark.usefixtures("children_hear_ctrl_c")
def test_ctrl_c_ends_it_quietly(tmp_path):
    (tmp_path / "run.yaml").write_text(flat_config("poisson"), encoding="utf-8")
    command = [sys.executable, "-m", "dpcalc", "audit-sampler", "run.yaml", "-"]
    streams = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    running = subprocess.Popen(command, cwd=tmp_path, env=environment(), **streams)
    # More than a pipe holds: when it is written, the command has begun to read, and waits for the end of the line.
    running.stdin.write(b"[" + b"1, " * 100_000)
    running.stdin.flush()
    running.send_signal(2)
    out, err = running.communicate(timeout=30)
    assert (running.returncode, out, b"Traceback" in err) == (130, b"", False)


@pytest.mark.slow
@pytest.mark.parametrize("is_csv", [False, True])
def test_ten_million_indices(tmp_path, is_csv):
    """In 20 s of processor time and 500 MB, in both formats."""
    rng, steps = np.random.default_rng(6), 39_063
    (tmp_path / "run.yaml").write_text(flat_config("poisson", units=60_000, batch=256, steps=steps), encoding="utf-8")
    with (tmp_path / "log").open("w", encoding="utf-8") as log:
        log.write("step,index\n" if is_csv else "")
        for step in range(steps):
            batch = rng.choice(60_000, rng.binomial(60_000, 256 / 60_000), replace=False).tolist()
            log.write("".join(f"{step},{index}\n" for index in batch) if is_csv else f"{json.dumps(batch)}\n")
    program = (
        "import resource, sys; from dpcalc.cli.app import run; code = run(sys.argv[1:]);"
        "used = resource.getrusage(resource.RUSAGE_SELF); print(code, used.ru_utime + used.ru_stime, used.ru_maxrss)"
    )
    words = [sys.executable, "-c", program, "audit-sampler", "run.yaml", "log"]
    ended = subprocess.run(words, cwd=tmp_path, env=environment(), capture_output=True, text=True, check=True)
    code, seconds, kilobytes = ended.stdout.splitlines()[-1].split()
    assert (code, float(seconds) < 20, int(kilobytes) < 500_000) == ("0", True, True)
