"""A ledger composes runs; it only grows, also when several add at once, and its budget is kept by all of them."""

import math
import os
import re
import stat
import threading
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from pathlib import Path

import pytest

from dpcalc.config.files import exclusive_lock
from dpcalc.config.load import load, load_text
from dpcalc.errors import InputError
from dpcalc.gate.ledger import account, add
from dpcalc.planner.evaluate import guarantee
from dpcalc.planner.risk import risk
from tests.oracles.exact_gaussian import exact_epsilon

RUN = """\
version: 1
data: {{examples: {count}}}
sampling: {{scheme: all}}
mechanism: {{noise_multiplier: {noise}, max_grad_norm: 0.5}}
training: {{steps: {steps}}}
privacy: {{adjacency: add-remove, delta: 1e-5}}
"""
PHASES = """\
version: 1
data: {examples: 1000}
mechanism: {noise_multiplier: 40}
sampling: {scheme: poisson, rate: 0.25}
phases:
  - {name: "warm up", training: {steps: 7}}
  - {name: main, sampling: {scheme: fixed, size: 5}, training: {steps: 3}}
privacy: {adjacency: zero-out, delta: 1e-6}
"""


def run(steps=4, *, noise=20, count=1000):
    return load_text(RUN.format(steps=steps, noise=noise, count=count), path="run.yaml")


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "all.yaml")


def files(path):
    return [one.name for one in Path(path).parent.iterdir()]


def added(path, name="first", *, run=run(), **options):  # noqa: B008  read once
    return add(path, run.plan, name=name, **options)


def test_runs_are_composed_not_added(path):
    for number in range(4):
        found, written = added(path, f"run {number}")
        assert written
    alone_, together = (float(exact_epsilon(steps, 20, 1e-5)) for steps in (4, 16))
    found = account(path)
    assert [one.name for one in found.runs] == [f"run {number}" for number in range(4)]
    assert [one.guarantee.epsilon for one in found.runs] == pytest.approx([alone_] * 4, rel=1e-3)
    assert together <= found.guarantee.epsilon <= together * 1.001 < 4 * alone_
    assert found.guarantee.epsilon_lower <= together


def test_a_ledger_is_a_config(path):
    added(path, opening=(1e-7, 3.5))
    plan = load(path).plan
    assert (plan.delta, plan.budget.epsilon, plan.name) == (1e-7, 3.5, "")
    assert guarantee(plan).epsilon == account(path).guarantee.epsilon


def test_phases_keep_their_names_and_everything_else(path):
    first = load_text(PHASES, path="phases.yaml")
    added(path, "two", run=first)
    added(path, "one")
    plan = load(path).plan
    assert [phase.name for phase in plan.phases] == ["two / warm up", "two / main", "one"]
    assert [phase.mechanism for phase in plan.phases] == [
        *(one.mechanism for one in first.plan.phases),
        run().plan.phases[0].mechanism,
    ]
    assert [phase.hierarchy for phase in plan.phases[:2]] == [one.hierarchy for one in first.plan.phases]
    assert [one.steps for one in account(path).runs] == [10, 4]
    assert (plan.adjacency, plan.delta) == ("zero-out", 1e-6)  # the ledger's promise, whatever a later run promises


def test_what_is_there_stays_byte_for_byte(path):
    added(path, "a")
    before = Path(path).read_bytes().removesuffix(b"\n") + b"  # kept \xe2\x9c\x93"  # no line break at the end
    Path(path).write_bytes(before)
    added(path, "b")
    added(path, "c")
    assert Path(path).read_bytes().startswith(before + b"\n")
    assert len(account(path).runs) == 3


def test_line_ends_and_byte_order_marks_stay(path):
    added(path, "a")
    before = b"\xef\xbb\xbf" + Path(path).read_bytes().replace(b"\n", b"\r\n")
    Path(path).write_bytes(before)
    added(path, "b")
    after = Path(path).read_bytes()
    assert after.startswith(before)
    assert after.count(b"\r\n") == after.count(b"\n")
    assert len(account(path).runs) == 2


def test_a_run_beyond_the_budget_is_not_added(path):
    added(path, "a", opening=(None, 1.0))
    before = Path(path).read_bytes()
    found, written = added(path, "b", run=run(400))
    assert (written, found.keeps_budget, Path(path).read_bytes()) == (False, False, before)
    found, written = added(path, "b", run=run(400), allow_over_budget=True)
    assert (written, found.keeps_budget, len(account(path).runs)) == (True, False, 2)


def test_a_first_run_beyond_the_budget_makes_no_ledger(path):
    found, written = added(path, opening=(None, 0.1))
    assert not written
    assert not found.keeps_budget
    assert files(path) == []


def test_a_run_without_noise_has_no_place_in_a_ledger(path):
    found, written = added(path, run=run(noise=0))
    assert (written, math.isinf(found.guarantee.epsilon)) == (False, True)


def test_nothing_is_written_when_only_asked(path):
    assert added(path, dry_run=True)[1] is False
    assert files(path) == []


@pytest.mark.parametrize(
    ("second", "words"),
    [
        ({"name": "first"}, "there is a run `first` already"),
        ({"name": "b", "run": run(count=1001)}, "expected a run on its data, 1000 example, got one on 1001 example"),
        ({"name": "b / c"}, "expected a name without ` / `"),
        ({"name": ""}, "expected a name"),
        ({"name": "b", "opening": (1e-6, None)}, "it states its own"),
        ({"name": "b\nprivacy: {delta: 1}"}, "printable characters"),
    ],
)
def test_what_is_not_added(path, second, words):
    added(path, "first")
    before = Path(path).read_bytes()
    with pytest.raises(InputError, match=words.replace("/", ".")):
        added(path, **second)
    assert Path(path).read_bytes() == before


@pytest.mark.parametrize(
    "end",
    [
        "x-note: the end\n",  # the last key is another one
        "budget: {epsilon: 1}\n",
    ],
)
def test_a_file_that_does_not_end_with_its_phases_stays(path, end):
    added(path, "a")
    text = Path(path).read_text(encoding="utf-8") + end
    Path(path).write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=r"cannot be appended: .*ends with its `phases:`"):
        added(path, "b")
    assert Path(path).read_text(encoding="utf-8") == text


@pytest.mark.parametrize("name", ["a: b", "# x", "- c", "null", "0x1", '"', "'", "{}", "é ✓", "a" * 200])
def test_any_name_is_kept(path, name):
    added(path, name, dry_run=False)
    added(path, "last")
    assert [one.name for one in account(path).runs] == [name, "last"]


def test_appends_at_the_same_time_lose_nothing(path):
    added(path, "first")
    with ThreadPoolExecutor(8) as pool:
        outcomes = list(pool.map(lambda number: added(path, f"run {number}")[1], range(8)))
    assert all(outcomes)
    assert {one.name for one in account(path).runs} == {"first", *(f"run {number}" for number in range(8))}
    assert files(path) == ["all.yaml"]


def test_runs_that_fit_one_by_one_do_not_pass_the_budget_together(path):
    one, two = (float(exact_epsilon(steps, 20, 1e-5)) for steps in (4, 8))
    assert one < (one + two) / 2 < two
    with ThreadPoolExecutor(4) as pool:
        opening = (None, (one + two) / 2)
        futures = [pool.submit(_added, path, f"run {number}", opening) for number in range(4)]
    assert sorted(future.result() for future in futures) == [False, False, False, True]
    assert account(path).keeps_budget


def _added(path, name, opening):
    """Whether a run was added, by a client that opens the ledger if there is none."""
    try:
        return added(path, name, opening=opening)[1]
    except InputError:  # it is there by now
        return added(path, name)[1]


def test_nobody_waits_for_ever(path):
    held, done = threading.Event(), threading.Event()

    def hold():
        with exclusive_lock(path):
            held.set()
            done.wait(10)

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait(10)
    with pytest.raises(InputError, match="another dpcalc is changing it"), exclusive_lock(path, max_wait=0.05):
        pass
    done.set()
    thread.join()
    with exclusive_lock(path, max_wait=0.05):
        pass


def test_a_ledger_that_cannot_be_written_stays(path):
    added(path, "a")
    Path(path).chmod(0o444)
    with pytest.raises(InputError, match="read-only"):
        added(path, "b")
    assert stat.S_IMODE(Path(path).stat().st_mode) == 0o444


def test_a_folder_that_is_not_there(tmp_path):
    with pytest.raises(InputError, match="cannot be written: No such file"):
        added(str(tmp_path / "none" / "all.yaml"))


@pytest.mark.skipif(os.name != "posix", reason="needs POSIX permissions")
@pytest.mark.parametrize(("mask", "mode"), [(0o077, 0o600), (0o022, 0o644), (0o002, 0o664), (0o027, 0o640)])
def test_a_new_ledger_has_the_permissions_that_the_user_allows(path, mask, mode):
    before = os.umask(mask)
    try:
        assert added(path)[1]
        assert stat.S_IMODE(Path(path).stat().st_mode) == mode
        os.umask(0o077 ^ mask)  # an old file keeps its own
        assert added(path, "second")[1]
        assert stat.S_IMODE(Path(path).stat().st_mode) == mode
    finally:
        os.umask(before)


def test_a_ledger_is_on_the_disk_before_it_has_its_name_and_its_name_is_too(path, monkeypatch):
    """The content is synchronised before the file gets its name, and the folder after that."""
    events = []
    really = {name: getattr(os, name) for name in ("fsync", "link", "replace", "rename")}

    def synchronised(descriptor):
        kind = os.fstat(descriptor)
        if stat.S_ISREG(kind.st_mode):
            events.append(f"file of {kind.st_size} bytes")
        else:
            assert kind.st_ino == Path(path).parent.stat().st_ino
            events.append("folder")
        really["fsync"](descriptor)

    def named(how):
        def named_so(old, new, **options):
            events.append(Path(new).name)
            really[how](old, new, **options)

        return named_so

    monkeypatch.setattr(os, "fsync", synchronised)
    for how in ("link", "replace", "rename"):
        monkeypatch.setattr(os, how, named(how))
    for name in ("first", "second"):
        events.clear()
        added(path, name)
        assert events == [f"file of {Path(path).stat().st_size} bytes", Path(path).name, "folder"]


# Runs on disjoint parts of the data.


PARTED = """\
version: 1
data: {{examples: {count}}}
sampling: {{scheme: {scheme}}}
mechanism: {{noise_multiplier: 20, max_grad_norm: 0.5}}
training: {{steps: {steps}}}
privacy: {{adjacency: {adjacency}, delta: 1e-5}}
{more}
"""
PARTITION = "partition: {rule: sha256 of the example id, parts: [{name: north}, {name: south}]}"


def parted(steps=4, *, count=400, scheme="all", more="", adjacency="add-remove"):
    text = PARTED.format(steps=steps, count=count, scheme=scheme, more=more, adjacency=adjacency)
    return load_text(text, path="run.yaml")


@pytest.fixture
def opened(path):
    """A ledger with a partition and one run of 4 steps on all data."""
    added(path, "all", run=parted(count=1000, more=PARTITION))
    return path


def exact(steps):
    return pytest.approx(float(exact_epsilon(steps, 20, 1e-5)), rel=1e-3)


def test_runs_on_different_parts_do_not_add_up(opened):
    found, _ = added(opened, "n", run=parted(9), part="north")
    assert found.guarantee.epsilon == exact(4 + 9)
    found, _ = added(opened, "s", run=parted(7, count=600), part="south")
    assert found.guarantee.epsilon == exact(4 + 9)
    found, _ = added(opened, "s2", run=parted(3, count=600), part="south")
    assert found.guarantee.epsilon == exact(4 + 7 + 3)
    found, _ = added(opened, "more", run=parted(2, count=1000))
    assert found.guarantee.epsilon == exact(4 + 7 + 3 + 2)
    shown = account(opened)
    assert [(one.name, one.part) for one in shown.runs] == [
        ("all", ""),
        ("n", "north"),
        ("s", "south"),
        ("s2", "south"),
        ("more", ""),
    ]
    assert [one.guarantee.epsilon for one in shown.runs[1:3]] == [exact(9), exact(7)]
    assert shown.guarantee.epsilon_lower is None


def test_a_run_on_a_part_keeps_its_rate(opened):
    """It states an expected batch of its own part, of whose size the ledger knows nothing."""
    found, _ = added(opened, "n", run=parted(9, count=700, scheme="poisson, expected: 100"), part="north")
    (level,) = found.loaded.plan.phases[-1].hierarchy.levels
    assert (level.count, level.rate) == (1000, Fraction(1, 7))
    assert "scheme: poisson, rate: 1/7" in Path(opened).read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("second", "words"),
    [
        ({"name": "b", "run": parted(), "part": "east"}, "expected north or south, got `east`"),
        ({"name": "b", "run": parted(count=1000), "part": "north"}, "a run on all data has no part"),
        ({"name": "b", "run": parted(count=1001), "part": "north"}, "a run on all data has no part"),
        ({"name": "b", "run": parted(count=400)}, "expected a run on its data, 1000 example, got one on 400"),
        ({"name": "b", "run": parted(scheme="fixed, size: 9"), "part": "north"}, "whose size is not known, got fixed"),
        (
            {"name": "b", "run": parted(scheme="shuffle, size: 10"), "part": "north"},
            "whose size is not known, got shuffle",
        ),
        (
            {"name": "b", "run": parted(scheme="poisson, rate: 0.1, max_batch_size: 50"), "part": "north"},
            "whose size is not known, got poisson",
        ),
        (
            {
                "name": "b",
                "run": parted(count=1000, more=PARTITION.replace("sha256", "md5") + "\nphases: [{part: north}]"),
            },
            "expected a run with the `partition` of the ledger",
        ),
        (
            {"name": "b", "run": parted(count=1000, more=PARTITION + "\nphases: [{part: north}]"), "part": "south"},
            "a run whose phases name parts themselves",
        ),
    ],
)
def test_what_is_no_run_on_a_part(opened, second, words):
    before = Path(opened).read_bytes()
    with pytest.raises(InputError, match=re.escape(words)):
        added(opened, **second)
    assert Path(opened).read_bytes() == before


def test_a_ledger_without_a_partition_takes_no_parts(path):
    with pytest.raises(InputError, match="--part: expected a ledger with a `partition`"):
        added(path, "n", run=parted(), part="north")
    added(path, "all", run=parted(count=1000))
    for run_on_part in (
        {"name": "n", "run": parted(), "part": "north"},
        {"name": "n", "run": parted(count=1000, more=PARTITION + "\nphases: [{part: north}]")},
    ):
        with pytest.raises(InputError, match=r"expected a (ledger|run) with (a|the) `partition`"):
            added(path, **run_on_part)


def test_a_config_may_name_parts_itself(path):
    more = PARTITION + "\nphases: [{name: one}, {name: two, part: south, training: {steps: 6}}]"
    found, _ = added(path, "all", run=parted(count=1000, more=more))
    assert found.guarantee.epsilon == exact(4 + 6)
    found, _ = added(path, "n", run=parted(8), part="north")
    assert found.guarantee.epsilon == exact(4 + 8)
    assert found.loaded.plan.partition.parts == ("north", "south")


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ("phases: [{part: north}]", "there is no part `north`"),
        (PARTITION + "\nphases: [{part: nort}]", "there is no part `nort`"),
        (PARTITION.replace("south", "north") + "\nphases: [{part: north}]", "two parts are called `north`"),
        (PARTITION + "\npart: north", "unknown key `part`"),
        (PARTITION + "\nphases: [{part: north, sampling: {scheme: poisson, expected: 5}}]", "gives no rate"),
        (PARTITION + "\nphases: [{part: north}]\ntuning: {mean: 3}", "a single run with parts of the data"),
        (PARTITION + "\nphases: [{part: north}]\nbudget: {epsilon: 1}\nx-a: 1", ""),
    ],
)
def test_configs_with_parts(more, words):
    if not words:
        assert parted(count=1000, more=more).plan.parts == ("north",)
        return
    with pytest.raises(InputError) as caught:
        parted(count=1000, more=more)
    assert words in str(caught.value)


def test_other_questions_about_parts_are_refused_with_a_reason(opened):
    added(opened, "n", run=parted(9), part="north")
    with pytest.raises(InputError, match="the only ones answered for runs on parts of the data"):
        risk(load(opened).plan)


def test_groups_and_too_many_parts_are_refused():
    parts = ", ".join(f"{{name: p{number}}}" for number in range(20))
    phases = ", ".join(f"{{part: p{number}}}" for number in range(20))
    more = f"partition: {{rule: hash, parts: [{parts}]}}\nphases: [{phases}]"
    assert guarantee(parted(count=1000, more=more).plan).epsilon == exact(4)
    with pytest.raises(InputError, match="expected at most 16 parts with replace-one"):
        parted(count=1000, more=more, adjacency="replace-one")
    with pytest.raises(InputError, match="expected one protected unit"):
        parted(count=1000, more=more.replace("partition", "x-a: 1\npartition"), adjacency="add-remove, group_size: 2")
