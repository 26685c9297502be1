"""Grids over keys of a config: every point is the config with those values in it."""

import os
import pickle

import pytest

from dpcalc.config.load import NO_OVERRIDES, load_text
from dpcalc.config.overrides import Overrides
from dpcalc.errors import InputError
from dpcalc.guarantee import Kind
from dpcalc.planner.evaluate import guarantee
from dpcalc.sweep import points
from dpcalc.sweep.points import (
    GridAxis,
    Outcome,
    SweptConfig,
    chunk_outcomes,
    parse_axis,
    parse_numbers,
    sweep,
)

TEXT = """\
version: 1
data: {examples: 1_000}
sampling: {scheme: poisson, rate: 0.01}
mechanism: {noise_multiplier: 1.1}
training: {steps: 500}
privacy: {adjacency: add-remove, delta: 1e-5}
budget: {epsilon: 1.08}
"""
BASE = SweptConfig(text=TEXT, name="run.yaml", place="run.yaml", overrides=NO_OVERRIDES)
SIGMA, STEPS = (
    GridAxis(key="mechanism.noise_multiplier", values=("1.1", "2")),
    GridAxis(key="training.steps", values=("100", "500")),
)


def exact(*assignments):
    return guarantee(load_text(TEXT, path="run.yaml", assignments=assignments).plan).epsilon


def test_points_are_configs_the_last_axis_fastest():
    found = sweep(BASE, (SIGMA, STEPS), points.in_process)
    assert [one.values for one in found] == [("1.1", "100"), ("1.1", "500"), ("2", "100"), ("2", "500")]
    for one in found:
        (sigma, steps) = one.values
        certified = exact(f"mechanism.noise_multiplier={sigma}", f"training.steps={steps}")
        assert one.epsilon == pytest.approx(certified, rel=5e-5)


def test_what_is_near_the_budget_is_certified():
    near, far = sweep(BASE, (GridAxis(key="mechanism.noise_multiplier", values=("1.1", "1.2")),), points.in_process)
    assert (near.kind, near.method, near.budget) == (Kind.UPPER, "pld", 1.08)
    assert near.epsilon == exact()
    assert near.fits is (exact() <= 1.08)
    assert (far.kind, far.method, far.fits) == (Kind.ESTIMATE, "inversion", True)


def test_another_accountant_and_no_noise_are_no_estimates():
    by_rdp = sweep(BASE, (GridAxis(key="accounting.method", values=("rdp",)),), points.in_process)
    assert (by_rdp[0].kind, by_rdp[0].method) == (Kind.UPPER, "rdp")
    (none,) = sweep(BASE, (GridAxis(key="mechanism.noise_multiplier", values=("0",)),), points.in_process)
    assert (none.epsilon, none.kind, none.fits) == (float("inf"), Kind.UPPER, False)


def test_a_point_that_is_no_config_does_not_stop_the_others():
    bad, good = sweep(BASE, (GridAxis(key="sampling.rate", values=("2", "0.02")),), points.in_process)
    assert (bad.epsilon, bad.code, bad.fits) == (None, 2, None)
    assert "rate" in bad.error
    assert (good.code, good.error) == (0, "")


def test_where_no_point_is_a_config_its_error_is_raised():
    with pytest.raises(InputError, match="unknown key"):
        sweep(BASE, (GridAxis(key="training.stpes", values=("1",)),), points.in_process)


def test_a_pool_that_loses_a_chunk_loses_its_points_only():
    def forgetful(function, chunks):
        return enumerate([ChildProcessError("it died"), *map(function, chunks[1:])])

    axis = GridAxis(key="training.steps", values=tuple(map(str, range(100, 104))))
    found = sweep(BASE, (axis,), forgetful)
    assert [one.code for one in found] == [3, 0, 0, 0]
    assert found[0].error == "it died"


@pytest.mark.parametrize("order", [(0, 1, 2), (3, 0, 2)])
def test_what_is_finished_at_ctrl_c_is_kept_in_order(order):
    def stopped(function, chunks):
        for number in order:
            yield number, function(chunks[number])
        raise KeyboardInterrupt

    steps, told = ("100", "200", "300", "400"), []
    found = sweep(BASE, (GridAxis(key="training.steps", values=steps),), stopped, told.append)
    assert [one.values for one in found] == [(steps[number],) for number in sorted(order)]
    assert all(one.epsilon for one in found)
    assert told == [0.25, 0.5, 0.75]


def test_large_grids_are_answered_in_chunks_of_limited_size():
    def counting(_, chunks):
        sizes.extend(len(chunk) for chunk in chunks)
        return enumerate(tuple(Outcome(values=point) for point in chunk) for chunk in chunks)

    for count, largest in ((100, 1), (1_000, 5), (20_000, 50)):
        sizes = []
        sweep(BASE, (GridAxis(key="training.steps", values=tuple(map(str, range(count)))),), counting)
        assert (sum(sizes), max(sizes)) == (count, largest)


def test_flags_alone():
    flags = (("--sample-rate", "0.01"), ("--delta", "1e-5"), ("--noise-multiplier", "1.1"))
    base = SweptConfig(text=None, name="", place="", overrides=Overrides(flags=flags))
    (found,) = sweep(base, (GridAxis(key="training.steps", values=("500",)),), points.in_process)
    assert found.epsilon == pytest.approx(exact(), rel=5e-5)


@pytest.mark.heavy
def test_processes_tell_the_same():
    told = []
    axis = GridAxis(key="training.steps", values=tuple(map(str, range(100, 160))))
    beside = sweep(
        BASE,
        (axis,),
        lambda function, chunks: points.processes(function, chunks, jobs=2, memory_per_process=None),
        told.append,
    )
    assert beside[:2] == sweep(BASE, (GridAxis(key="training.steps", values=("100", "101")),), points.in_process)
    assert told[-1] == 1
    assert pickle.loads(pickle.dumps(beside)) == beside  # noqa: S301  our own


@pytest.mark.slow
def test_a_dask_cluster_tells_the_same():
    distributed = pytest.importorskip("distributed")
    axis = GridAxis(key="training.steps", values=tuple(map(str, range(100, 160))))
    here, told = sweep(BASE, (axis,), points.in_process), []
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster:
        address = cluster.scheduler_address
        there = sweep(
            BASE,
            (axis,),
            lambda function, chunks: points.dask(function, chunks, scheduler=address, memory_per_process=None),
            told.append,
        )
    assert there == here
    assert told[-1] == 1


@pytest.mark.slow
def test_ten_thousand_flat_configs_within_a_minute_of_two_processors():
    axes = (
        GridAxis(key="mechanism.noise_multiplier", values=parse_numbers("0.6:4:100:log", option="")),
        parse_axis("training.steps=100:20000:100:log"),
    )
    before = os.times()
    found = sweep(
        BASE, axes, lambda function, chunks: points.processes(function, chunks, jobs=2, memory_per_process=None)
    )
    after = os.times()
    assert len(found) == 10_000
    assert not any(one.code for one in found)
    assert (after.children_user - before.children_user) / 2 < 60


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("a.b=1,2", ("1", "2")),
        ("a.b=0.5:2:4", ("0.5", "1", "1.5", "2")),
        ("a.b=1e-3:10:5:log", ("1e-3", "0.01", "0.1", "1", "10")),
        ("training.steps=1:10:4:log", ("1", "2", "5", "10")),
        ("data.levels[0].count=10:11:5", ("10", "11")),
        ("a.b=3:9:1", ("3",)),
        ("privacy.adjacency=add-remove, zero-out", ("add-remove", "zero-out")),
    ],
)
def test_axes(text, values):
    assert parse_axis(text) == GridAxis(key=text.partition("=")[0], values=values)


@pytest.mark.parametrize(
    "text",
    [
        "a.b",
        "=1",
        "a..b=1",
        "a.b=",
        "a.b=1:2",
        "a.b=1:2:3:lin",
        "a.b=1:2:x",
        "a.b=1,,2",
        "a.b=nan:1:2",
        "a.b=0:1:3:log",
        "a.b=1:2:0",
    ],
)
def test_no_axes(text):
    with pytest.raises(InputError, match=r"--over"):
        parse_axis(text)


def test_too_many_points_and_a_key_twice():
    axis = GridAxis(key="training.steps", values=tuple(map(str, range(1001))))
    other = GridAxis(key="privacy.delta", values=axis.values)
    with pytest.raises(InputError, match="at most 1000000 points, got 1002001"):
        sweep(BASE, (axis, other), points.in_process)
    with pytest.raises(InputError, match="every key once"):
        sweep(BASE, (axis, axis), points.in_process)
    assert Outcome(values=("1",)).fits is None
    assert chunk_outcomes.__module__ == "dpcalc.sweep.points"  # other machines find it by that name
