import json
import re
from pathlib import Path

import pytest

from tests.cli.running import CONFIG
from tests.cli.stand_in import CRASHING, INFINITE


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def entries(folder):
    return json.loads((folder / "dpcalc.lock").read_text(encoding="utf-8"))["configs"]


def test_a_lock_holds_meaning_and_cost(dpcalc, config, here):
    config(steps=9000)  # a lock says nothing of budgets
    ended = dpcalc("lock", "a.yaml")
    assert (ended.code, ended.out) == (0, "locked  epsilon 9.00  a.yaml\nread 1 file: 1 locked\n")
    assert ended.err == "wrote dpcalc.lock\n"
    text = (here / "dpcalc.lock").read_text(encoding="utf-8")
    (entry,) = entries(here).values()
    assert re.fullmatch("[0-9a-f]{64}", entry.pop("config_hash"))
    promise = {"delta": 1e-5, "unit": "example", "adjacency": "add-remove", "group_size": 1}
    assert entry == {"epsilon": 9.0, **promise, "sources": {}}
    assert list(entries(here)) == ["a.yaml"]
    dpcalc("lock", "a.yaml")
    assert (here / "dpcalc.lock").read_text(encoding="utf-8") == text


def test_what_was_locked_passes_and_what_was_changed_does_not(dpcalc, config, here):
    path = config(steps=500)
    assert dpcalc("check", path, "--locked").code == 2  # there is no lock
    dpcalc("lock", path)
    assert dpcalc("check", path, "--locked").code == 0
    assert dpcalc("lock", path, "--check").code == 0
    Path(path).write_text("# a comment\n" + Path(path).read_text(encoding="utf-8"), encoding="utf-8")
    assert dpcalc("check", path, "--locked").code == 0
    before = (here / "dpcalc.lock").read_bytes()
    config(steps=501)
    for words in (("check", path, "--locked"), ("lock", path, "--check")):
        ended = dpcalc(*words)
        assert ended.code == 1
        assert "error[DPC403]: the config is not what dpcalc.lock holds: epsilon 0.500 -> 0.501" in ended.out
    assert (here / "dpcalc.lock").read_bytes() == before
    assert dpcalc("lock", path).code == 0
    assert dpcalc("check", path, "--locked").code == 0


LINKED = "train: {{steps: 500, decoy: 500}}\nx-own: {{a: &a {aliased}}}\ndpcalc:\n"


def linked(folder, *, steps='"${train.steps}"', delta='"${d.yaml:delta}"', aliased="1.1", noise="*a"):
    """A config that takes its steps, its delta and its noise from elsewhere."""
    text = CONFIG.format(steps=steps, budget="budget: {epsilon: 2.0}", name="x").replace(
        "delta: 1e-5", f"delta: {delta}"
    )
    text = text.replace("noise_multiplier: 1.1", f"noise_multiplier: {noise}")
    text = LINKED.format(aliased=aliased) + "".join(f"  {line}\n" for line in text.splitlines())
    (folder / "linked.yaml").write_text(text, encoding="utf-8")
    for name in ("d", "e"):
        (folder / f"{name}.yaml").write_text("delta: 1e-5\nother: 1e-5\n", encoding="utf-8")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"steps": '"${train.decoy}"'}, "training.steps is read from `train.decoy`; dpcalc.lock holds it as read from"),
        ({"steps": "500"}, "training.steps is stated here; dpcalc.lock holds it as read from `train.steps`"),
        ({"delta": '"${e.yaml:delta}"'}, "read from `e.yaml:delta`; dpcalc.lock holds it as read from `d.yaml:delta`"),
        ({"delta": '"${d.yaml:other}"'}, "is read from `d.yaml:other`"),
        ({"delta": "1e-5"}, "privacy.delta is stated here"),
        ({"noise": "1.1"}, "noise_multiplier is stated here; dpcalc.lock holds it as read from `x-own.a`"),
    ],
)
def test_a_value_that_comes_from_elsewhere_is_another_one(dpcalc, here, change, said):
    linked(here)
    assert dpcalc("lock", "linked.yaml").code == 0
    assert entries(here)["linked.yaml:dpcalc"]["sources"] == {
        "mechanism.noise_multiplier": "x-own.a",
        "privacy.delta": "d.yaml:delta",
        "training.steps": "train.steps",
    }
    assert dpcalc("check", "linked.yaml", "--locked").code == 0
    linked(here, **change)
    for words in (("check", "linked.yaml", "--locked"), ("lock", "linked.yaml", "--check")):
        ended = dpcalc(*words)
        assert (ended.code, said in ended.out) == (1, True), ended.out
    before = json.loads((here / "dpcalc.lock").read_text(encoding="utf-8"))
    del before["configs"]["linked.yaml:dpcalc"]["sources"]  # as version 0.1.0 wrote it
    (here / "dpcalc.lock").write_text(json.dumps(before), encoding="utf-8")
    assert dpcalc("check", "linked.yaml", "--locked").code == 0


def test_a_pattern_sees_what_the_lock_holds_and_it_does_not_match(dpcalc, config, here, monkeypatch):
    for folder in ("configs/deep", "other"):
        (here / folder).mkdir(parents=True)
    (here / ".git").mkdir()
    names = ["configs/a.yaml", "configs/b.yaml", "configs/deep/c.yaml", "other/d.yaml"]
    dpcalc("lock", *(config(file=name) for name in names))
    for words in (["configs/*.yaml"], ["configs/**/*.yaml"], ["configs/a.yaml"], names):
        assert dpcalc("check", "--locked", *words).code == 0
    (here / "configs" / "b.yaml").rename(here / "b.yaml")
    for words in (["configs/*.yaml"], ["other/*.yaml"], ["configs/a.yaml"]):  # wherever it went, the lock is stale
        ended = dpcalc("check", "--locked", *words)
        assert (ended.code, "configs/b.yaml: error[DPC403]: dpcalc.lock holds it" in ended.out) == (1, True)
    assert dpcalc("lock", "--check", "configs/*.yaml").code == 1
    (here / "b.yaml").rename(here / "configs" / "b.yaml")
    monkeypatch.chdir(here / "configs")
    assert dpcalc("check", "--locked", "*.yaml").code == 0
    assert dpcalc("check", "--locked", "../other/*.yaml").code == 0


def test_a_section_that_leaves_a_file_of_a_pattern(dpcalc, config, here):
    linked(here)
    dpcalc("lock", "linked.yaml")
    config(file="linked.yaml")
    dpcalc("lock", "linked.yaml")
    for words in ((), ("l*.yaml",)):
        ended = dpcalc("check", "--locked", *words, *(() if words else ("linked.yaml",)))
        assert ended.code == (1 if words else 0)
    assert "linked.yaml:dpcalc: error[DPC403]" in ended.out


@pytest.mark.usefixtures("here")
def test_a_budget_is_part_of_what_was_locked_and_so_is_a_group(dpcalc, config):
    dpcalc("lock", config())
    ended = dpcalc("check", config(budget="budget: {epsilon: 3.0}"), "--locked")
    assert (ended.code, "DPC403" in ended.out) == (1, True)
    path = Path(config())
    path.write_text(path.read_text(encoding="utf-8").replace("delta: 1e-5", "delta: 1e-5, group_size: 3"), "utf-8")
    assert dpcalc("check", str(path), "--locked").code == 1
    ended = dpcalc("check", config(file="b.yaml"), "--locked")
    assert (ended.code, "the config is not in dpcalc.lock; epsilon is 0.500" in ended.out) == (1, True)


@pytest.mark.parametrize(("factor", "code"), [(1.000001, 0), (1.0001, 1), (0.9999, 1)])
def test_the_same_config_must_cost_the_same(dpcalc, config, here, factor, code):
    path = config()
    dpcalc("lock", path)
    text = (here / "dpcalc.lock").read_text(encoding="utf-8")
    (here / "dpcalc.lock").write_text(text.replace("0.5,", f"{0.5 * factor!r},"), encoding="utf-8")
    ended = dpcalc("check", path, "--locked")
    assert ended.code == code
    assert ("costs something else" in ended.out) is bool(code)


def test_infinity_is_locked_as_null(dpcalc, config, here):
    path = config(steps=INFINITE, budget="")
    dpcalc("lock", path)
    assert entries(here)["a.yaml"]["epsilon"] is None
    assert dpcalc("lock", path, "--check").code == 0
    config(steps=500, budget="")
    assert dpcalc("lock", path, "--check").code == 1


def test_other_entries_stay_unless_all_are_written_anew(dpcalc, config, here):
    dpcalc("lock", config(), config(file="b.yaml"))
    dpcalc("lock", config(file="c.yaml"))
    assert list(entries(here)) == ["a.yaml", "b.yaml", "c.yaml"]
    (here / "pyproject.toml").write_text('[tool.dpcalc]\nconfigs = ["b.yaml", "c.yaml"]\n', encoding="utf-8")
    ended = dpcalc("lock", "--check")
    assert ended.code == 1
    assert "a.yaml: error[DPC403]: dpcalc.lock holds it, and it is none of the configs that are checked" in ended.out
    left_out = dpcalc("check", "--locked")
    assert (left_out.code, "a.yaml: error[DPC403]" in left_out.out) == (1, True)
    assert dpcalc("check", "b.yaml", "--locked").code == 0
    config(steps="x", file="c.yaml")
    broken = dpcalc("check", "--locked", "--json")
    assert (broken.code, len(json.loads(broken.out)["results"])) == (2, 3)
    config(file="c.yaml")
    assert dpcalc("lock").code == 0
    assert list(entries(here)) == ["b.yaml", "c.yaml"]
    assert dpcalc("lock", "--check").code == 0


@pytest.mark.parametrize(("steps", "code"), [("x", 2), (CRASHING, 3)])
def test_nothing_is_written_unless_everything_has_a_cost(dpcalc, config, here, steps, code):
    ended = dpcalc("lock", config(), config(steps=steps, file="b.yaml"))
    assert ended.code == code
    assert "is not written: not every config has a cost" in ended.err
    assert not (here / "dpcalc.lock").exists()


def test_the_lock_of_a_repository_is_found_from_below(dpcalc, config, here, monkeypatch):
    (here / ".git").mkdir()
    (here / "sub").mkdir()
    path = config(file="sub/a.yaml")
    monkeypatch.chdir(here / "sub")
    assert dpcalc("lock", "a.yaml").code == 0
    assert list(entries(here)) == ["sub/a.yaml"]
    monkeypatch.chdir(here)
    assert dpcalc("check", path, "--locked").code == 0


def test_a_section_has_an_entry_of_its_own(dpcalc, config, here):
    path = Path(config())
    indented = "\n".join(f"  {line}" for line in path.read_text(encoding="utf-8").splitlines())
    path.write_text(f"first:\n{indented}\nsecond:\n{indented.replace('500', '600')}\n", encoding="utf-8")
    for key in ("first", "second"):
        assert dpcalc("lock", str(path), "--key", key).code == 0
    assert list(entries(here)) == ["a.yaml:first", "a.yaml:second"]
    assert dpcalc("check", str(path), "--key", "second", "--locked").code == 0


ENTRY = {"delta": "1", "unit": '""', "adjacency": '""', "group_size": "1", "config_hash": '""', "epsilon": "1"}


def entry(**changes):
    """A lock of one entry, with changed texts of values or, for None, without them."""
    fields = ", ".join(f'"{name}": {text}' for name, text in (ENTRY | changes).items() if text is not None)
    return f'{{"version": 1, "configs": {{"a.yaml": {{{fields}}}}}}}'


@pytest.mark.parametrize(
    ("texts", "words"),
    [
        (["", "[]", "{}", "nonsense", '{"version": 2, "configs": {}}', '{"version": 1, "configs": []}'], ""),
        (['{"version": 1, "configs": {"a.yaml": {}}}', '{"version": 1, "configs": {"a.yaml": 1}}', "[" * 100_000], ""),
        ([entry(config_hash="1"), entry(epsilon="9" * 5000)], ""),
        ([entry(epsilon=one) for one in ("NaN", "Infinity", "true", "-1", "9" * 400)], "a.yaml.epsilon: expected"),
        ([entry(epsilon='"x"')], 'a.yaml.epsilon: expected a number >= 0 or null, got "x";'),
        (
            [entry(delta=one) for one in ("9" * 400, "NaN", "Infinity", "2", "true", "null", "[]")],
            "a.yaml.delta: expected",
        ),
        ([entry(delta="-1")], "a.yaml.delta: expected a number from 0 to 1, got -1;"),
        ([entry(delta=None)], "a.yaml.delta: expected a number from 0 to 1, got nothing;"),
        ([entry(group_size="true")], "a.yaml.group_size: expected a whole number, got true;"),
        ([entry(group_size='"1"')], "a.yaml.group_size: expected a whole number"),
        ([entry(sources=one) for one in ("1", "[]", '{"a": 1}', '{"a": {}}')], ""),
    ],
    ids=lambda each: str(each)[:40],
)
def test_a_broken_lock_passes_nothing_and_its_entry_is_named(dpcalc, config, here, texts, words):
    path = config()
    for text in texts:
        (here / "dpcalc.lock").write_text(text, encoding="utf-8")
        ended = dpcalc("check", path, "--locked")
        assert (ended.code, ended.out, words in ended.err) == (2, "", True)
        assert "remove it, and `dpcalc lock` writes it anew" in ended.err
    (here / "dpcalc.lock").unlink()  # the way out that the message names
    assert dpcalc("lock", path).code == dpcalc("check", path, "--locked").code == 0


def test_a_lock_of_many_configs_is_read(dpcalc, config, here):
    """A lock has a limit of its own, 4 MiB: it was that of a config, 256 KiB."""
    dpcalc("lock", config())
    lock = here / "dpcalc.lock"
    text = lock.read_text(encoding="utf-8")
    for spaces, code, said in ((300_000, 0, ""), (4_200_000, 2, "dpcalc.lock: error[DPC111]: is larger than 4096 KiB")):
        lock.write_text(text + " " * spaces, encoding="utf-8")
        ended = dpcalc("check", "a.yaml", "--locked")
        assert (ended.code, said in ended.err) == (code, True)


def test_of_two_entries_of_one_name_none_counts(dpcalc, config, here):
    """The reviewed entry first, another one below: a reviewer would see lines added only."""
    path = config()
    entries = []
    for steps in (1000, 2000):
        config(steps=steps)
        assert dpcalc("lock", path).code == 0
        entries.append(json.loads((here / "dpcalc.lock").read_text(encoding="utf-8"))["configs"].popitem())
    (name, first), (_, second) = entries
    lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(entry)}" for entry in (first, second))
    (here / "dpcalc.lock").write_text(f'{{"version": 1, "configs": {{\n{lines}}}}}', encoding="utf-8")
    ended = dpcalc("check", path, "--locked")
    assert (ended.code, f"`{name}` stands there more than once (see lines 2, 3)" in ended.err) == (2, True)


def test_what_cannot_be_locked(dpcalc, config, here, monkeypatch):
    for words in (("lock",), ("lock", "--check")):
        ended = dpcalc(*words)
        assert (ended.code, "dpcalc.lock holds none" in ended.err) == (2, True)
    path = config()
    ended = dpcalc("lock", path, "--steps", "1")  # a lock is of files as they are
    assert (ended.code, "No such option" in ended.err) == (2, True)
    with Path(path).open(encoding="utf-8") as stream:
        monkeypatch.setattr("sys.stdin", stream)
        assert dpcalc("lock", "-").code == 2
    assert [one.name for one in here.iterdir()] == ["a.yaml"]


def test_a_lock_that_leads_out_of_the_repository_is_not_followed(dpcalc, config, here, tmp_path_factory):
    outside = tmp_path_factory.mktemp("outside") / "precious"
    outside.write_text("precious", encoding="utf-8")
    (here / ".git").mkdir()
    (here / "dpcalc.lock").symlink_to(outside)
    for words in (("lock", config()), ("check", config(), "--locked")):
        assert dpcalc(*words).code == 2
    assert outside.read_text(encoding="utf-8") == "precious"


@pytest.mark.parametrize(
    "name", ["../secret.yaml", "/etc/passwd", "link.yaml", "a/../../secret.yaml", "../secret.yaml:a"]
)
def test_a_lock_does_not_lead_out_of_the_repository(dpcalc, config, here, monkeypatch, name):
    """Whoever writes the lock would else see lines of other files in the messages about them."""
    (here / "secret.yaml").write_text("password: swordfish\n", encoding="utf-8")
    (here / "work" / ".git").mkdir(parents=True)
    monkeypatch.chdir(here / "work")
    (here / "work" / "link.yaml").symlink_to("../secret.yaml")
    dpcalc("lock", config(file="work/a.yaml"))
    text = Path("dpcalc.lock").read_text(encoding="utf-8")
    Path("dpcalc.lock").write_text(text.replace("a.yaml", name), encoding="utf-8")
    for words in (("lock",), ("lock", "--check")):
        ended = dpcalc(*words)
        assert (ended.code, ended.out) == (2, "")
        assert f"expected entries of files below {here / 'work'}, got" in ended.err
        assert "swordfish" not in ended.err


def test_without_configs_the_entries_tell_what_is_locked(dpcalc, config, here):
    (here / ".git").mkdir()
    (here / "sub").mkdir()
    names = ["a.yaml", "b:c.yaml", "sub/c.yaml"]
    dpcalc("lock", *(config(file=name) for name in names))
    section = Path(config(file="d.yaml"))
    indented = "".join(f"  {line}\n" for line in section.read_text(encoding="utf-8").splitlines())
    section.write_text(f"train:\n{indented}", encoding="utf-8")
    assert dpcalc("lock", "d.yaml", "--key", "train").code == 0
    before = (here / "dpcalc.lock").read_bytes()
    ended = dpcalc("lock", "--check")
    assert (ended.code, ended.out.splitlines()[-1]) == (0, "read 4 files: 4 locked")
    assert dpcalc("lock").code == 0
    assert (here / "dpcalc.lock").read_bytes() == before
    config(steps=501, file="sub/c.yaml")
    assert dpcalc("lock", "--check").code == 1
    (here / "a.yaml").unlink()
    assert "a.yaml: error[DPC403]: dpcalc.lock holds it" in dpcalc("lock", "--check").out
    ended = dpcalc("lock")
    assert (ended.code, ended.err) == (0, "note: removed the entry of a.yaml\nwrote dpcalc.lock\n")
    assert list(entries(here)) == ["b:c.yaml", "d.yaml:train", "sub/c.yaml"]
