"""`dpcalc.lock`: what is broken passes nothing; the rest is told in `transcripts/lock.txt`."""

import pytest


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


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
