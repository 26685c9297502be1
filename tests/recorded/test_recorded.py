"""The tool that records outputs: it covers every command, repeats itself, and sees every difference."""

import json
from dataclasses import replace

import pytest

from dpcalc.cli.commands import application
from tests.recorded.cases import ROOT, SAMPLES, all_jobs, other_jobs, plan_places, sample_jobs, sample_paths
from tests.recorded.compare import compared, differences, judged, read
from tests.recorded.record import record

GROUP = "ledger"


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """Two records of a few cheap command lines."""
    folder = tmp_path_factory.mktemp("recorded")
    sample = replace(sample_jobs()[0], lines=sample_jobs()[0].lines[:1])
    jobs = [sample, *(job for job in other_jobs() if job.name in {"scan", "pate"})]
    for name in ("a", "b"):
        record(folder / name, jobs, 1)
    return read(folder / "a"), read(folder / "b")


def test_every_command_is_recorded():
    commands = application().commands
    names = {*commands} - {GROUP} | {f"{GROUP} {name}" for name in commands[GROUP].commands}
    lines = [line for job in all_jobs() for line in job.lines]
    assert {name for name in names if any(line.startswith(f"{name} ") or line == name for line in lines)} == names


def test_every_sample_is_recorded():
    parts = SAMPLES / "hydra_femnist" / "conf"  # files that a config refers to
    there = {path for path in SAMPLES.rglob("*.yaml") if parts not in path.parents}
    assert {ROOT / path for path in sample_paths()} == there
    assert len({job.name for job in all_jobs()}) == len(all_jobs())
    assert len(set(plan_places())) == 300


def test_a_record_repeats_itself(recorded):
    first, second = recorded
    assert len(first) == 8
    assert all(row["code"] == 0 for row in first.values())
    assert compared(first, second) == []


def test_a_changed_number_is_found(recorded):
    first, _ = recorded
    (key,) = (key for key in first if key[1].startswith("epsilon"))
    changed = json.loads(json.dumps(first[key]))
    changed["result"]["guarantee"]["epsilon"] *= 1 + 1e-11
    (found,) = compared(first, first | {key: changed})
    assert (found.command, found.pointer) == ("epsilon", "/result/guarantee/epsilon")


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


def test_declared_differences_must_occur():
    old = {("job", "curve steps f"): {"code": 0, "result": {"a": [1, 2], "b": "x"}}}
    new = {("job", "curve steps f"): {"code": 0, "result": {"a": [1, 3], "b": "y"}}}
    found = compared(old, new)
    left, idle = judged(found, ["curve steps:/result/a/*", "epsilon:/result/b"])
    assert [one.pointer for one in left] == ["/result/b"]
    assert idle == ["epsilon:/result/b"]
    assert judged(found, ["*"]) == ([], [])


def test_a_lost_record_is_a_difference():
    row = {("job", "show f"): {"code": 0, "result": "x"}}
    assert [one.pointer for one in compared(row, {})] == [""]
    assert [one.pointer for one in compared({}, row)] == [""]
