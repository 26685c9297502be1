"""The tool that records outputs: it covers every command, repeats itself, and sees every difference."""

import json
from dataclasses import replace

import pytest

from dpcalc.cli.commands import application
from tests.recorded.cases import ROOT, SAMPLES, all_jobs, other_jobs, plan_places, sample_jobs, sample_paths
from tests.recorded.compare import differences, judged, read
from tests.recorded.record import record

GROUP = "ledger"


def test_every_command_and_sample_is_recorded():
    commands = application().commands
    names = {*commands} - {GROUP} | {f"{GROUP} {name}" for name in commands[GROUP].commands}
    lines = [line for job in all_jobs() for line in job.lines]
    assert {name for name in names if any(f"{line} ".startswith(f"{name} ") for line in lines)} == names
    parts = SAMPLES / "hydra_femnist" / "conf"  # files that a config refers to
    there = {path for path in SAMPLES.rglob("*.yaml") if parts not in path.parents}
    assert {ROOT / path for path in sample_paths()} == there
    assert len({job.name for job in all_jobs()}) == len(all_jobs())
    assert len(set(plan_places())) == 300


def test_a_record_repeats_itself_and_a_changed_number_is_found(tmp_path):
    sample = replace(sample_jobs()[0], lines=sample_jobs()[0].lines[:1])
    jobs = [sample, *(job for job in other_jobs() if job.name in {"scan", "pate"})]
    for name in ("a", "b"):
        record(tmp_path / name, jobs, 1)
    first, second = read(tmp_path / "a"), read(tmp_path / "b")
    assert [row["code"] for row in first.values()] == [0] * 8
    assert judged(first, second, []) == ([], [], [])
    (key,) = (key for key in first if key[1].startswith("epsilon"))
    changed = json.loads(json.dumps(first[key]))
    changed["result"]["guarantee"]["epsilon"] *= 1 + 1e-11
    _, (difference,), _ = judged(first, first | {key: changed}, [])
    assert difference.place == "epsilon:/result/guarantee/epsilon"


@pytest.mark.parametrize(
    ("old", "new", "pointers"),
    [
        ({"a": 1.0}, {"a": 1.0 + 1e-13}, []),
        ({"a": 3}, {"a": 3.0}, []),
        ({"a": float("nan")}, {"a": float("nan")}, []),
        ({"a": 0.0}, {"a": 1e-300}, ["/a"]),
        ({"a": 1}, {"a": True}, ["/a"]),
        ({"a": 1}, {"a": "1"}, ["/a"]),
        ({"a": None}, {}, ["/a"]),
        ({}, {"a": None}, ["/a"]),
        ({"a": [1, 2]}, {"a": [1]}, ["/a/1"]),
        ({"a/b": [{"c~": "x"}]}, {"a/b": [{"c~": "y"}]}, ["/a~1b/0/c~0"]),
        ("one text", "another text", [""]),
        (float("inf"), 1e308, [""]),
    ],
)
def test_differences(old, new, pointers):
    assert [pointer for pointer, _ in differences(old, new)] == pointers


def test_declared_differences_must_occur_and_a_lost_record_is_one():
    old = {("job", "curve steps f"): {"code": 0, "result": {"a": [1, 2], "b": "x"}}}
    new = {("job", "curve steps f"): {"code": 0, "result": {"a": [1, 3], "b": "y"}}}
    _, left, idle = judged(old, new, ["curve steps:/result/a/*", "epsilon:/result/b"])
    assert [each.pointer for each in left] == ["/result/b"]
    assert idle == ["epsilon:/result/b"]
    assert judged(old, new, ["*"])[1:] == ([], [])
    assert [[each.pointer for each in judged(*pair, [])[1]] for pair in ((old, {}), ({}, old))] == [[""], [""]]
