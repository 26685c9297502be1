"""Files that `import` reads, refuses, and must not execute; the command beside them."""

import io
import json
import os
import pickle
import random
import re
import struct
import time
import zipfile
from contextlib import suppress
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
import yaml

from dpcalc.errors import InputError
from dpcalc.imports.read import imported, read_run
from dpcalc.imports.run import Terms

FOLDER = Path(__file__).parent / "recorded"
TERMS = Terms(delta="1e-5")
HOSTILE = yaml.safe_load(Path(__file__).with_name("texts.yaml").read_text(encoding="utf-8"))["hostile"]
STATE = {"history": [(1.1, 0.01, 100)], "mechanism": "rdp"}


def run_of(tmp_path, content, terms=TERMS):
    path = tmp_path / "file"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return read_run(str(path), terms)


def refused(tmp_path, content, terms=TERMS):
    with pytest.raises(InputError) as caught:
        run_of(tmp_path, content, terms)
    return str(caught.value)


def archive(data, name="state/data.pkl", method=zipfile.ZIP_STORED):
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", method) as out:
        out.writestr(name, data)
    return stream.getvalue()


class Command:
    def __init__(self, function, *arguments):
        self.parts = function, arguments

    def __reduce__(self):
        return self.parts


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
@pytest.mark.parametrize("pack", [bytes, archive])
def test_a_pickle_that_runs_a_command_is_refused_and_nothing_runs(protocol, pack, tmp_path):
    mark = tmp_path / "executed"
    for command in (
        Command(os.system, f"touch {mark}"),
        Command(eval, f"open({str(mark)!r}, 'w')"),
        Command(open, str(mark), "w"),
    ):
        message = refused(tmp_path, pack(pickle.dumps({"extra": command, **STATE}, protocol)))
        assert re.search(
            r"got (posix|nt|builtins|__builtin__|io|_io)\.(system|eval|open), which was not executed", message
        )
        assert "json.dump" in message
        assert not mark.exists()
    pickle.loads(pickle.dumps(Command(Path.touch, mark)))  # noqa: S301  such a pickle does run
    assert mark.exists()


@pytest.mark.parametrize(
    "text",
    [
        b"\x80\x02(S'touch executed'\nios\nsystem\n.",  # INST
        b"\x80\x02(cos\nsystem\nX\x03\x00\x00\x00abco.",  # OBJ
        b"\x80\x02cbuiltins\neval\n\x8c\x011\x85R.",
        b"\x80\x04\x8c\x02os\x8c\x06system\x93\x8c\x01x\x85R.",
        b"\x80\x02ccollections\nOrderedDict\n)\x81}X\x01\x00\x00\x00acos\nsystem\nsb.",
        b"\x80\x02\x82\x01.",  # an extension code
        b"\x80\x02P1\n.",  # a persistent id as text
    ],
)
def test_other_ways_to_call_something_are_refused(text, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert "expected a pickle" in refused(tmp_path, text)
    assert not (tmp_path / "executed").exists()


def test_a_checkpoint_without_tensors_of_its_own_is_read_and_classes_of_others_are_named(tmp_path):
    nested = {"callbacks": {"privacy": {"state": STATE}}, "hyper": {"lr": 0.1}}
    numpy_state = {"history": [(np.float64(1.1), np.float32(0.25), np.int64(100))], "mechanism": "rdp", "other": {1, 2}}
    printed = "OrderedDict([('history', [(np.float64(1.1), np.float64(0.25), 100)]), ('mechanism', 'prv')])"
    contents = [pickle.dumps(nested), archive(pickle.dumps(nested))]
    contents += [archive(pickle.dumps(numpy_state, protocol)) for protocol in (2, 4)] + [printed]
    for content, rate in zip(contents, ("0.01", "0.01", "0.25", "0.25", "0.25"), strict=True):
        (part,) = run_of(tmp_path, content).parts
        said = (part.sampling, part.mechanism, part.steps)
        assert said == (f"{{scheme: poisson, rate: {rate}}}", "{noise_multiplier: 1.1}", 100)
    assert "got pathlib.PosixPath" in refused(tmp_path, pickle.dumps({**STATE, "path": Path()}))
    assert "got 2" in refused(tmp_path, pickle.dumps({"a": STATE, "b": dict(STATE)}))
    assert "got none" in refused(tmp_path, pickle.dumps({"model": {}}))


def test_a_pickle_with_a_dictionary_in_a_million_places_is_searched_once(tmp_path):
    inner = {"x": 1}
    for _ in range(60):
        inner = {"a": inner, "b": inner, "c": inner}
    assert "got none" in refused(tmp_path, pickle.dumps(inner))
    history = [1.1, 0.1, 5]
    for _ in range(60):
        history = [history, history, history]
    assert "history[0]" in refused(tmp_path, pickle.dumps({"history": history, "mechanism": "rdp"}))


@pytest.mark.parametrize("name", ["opacus_engine.pt", "opacus_accountant.pickle", "event_two_phases_tuple.txt"])
def test_broken_files_are_refused_or_read(name, tmp_path):
    data = (FOLDER / name).read_bytes()
    generator = random.Random(18)  # noqa: S311
    for _ in range(60):
        broken = bytearray(data[: generator.randrange(len(data))] if generator.random() < 0.3 else data)
        for _ in range(generator.randrange(1, 4)):
            if broken:
                broken[generator.randrange(len(broken))] = generator.randrange(256)
        with suppress(InputError):
            run_of(tmp_path, bytes(broken))


def test_a_pickle_of_any_opcodes_is_refused_or_read(tmp_path):
    generator = random.Random(19)  # noqa: S311
    for _ in range(150):
        body = bytes(generator.choice(b"(tlaesubRcq\x00h\x00K\x01}])\x85\x86\x87X\x94\x93Q\x810N") for _ in range(30))
        with suppress(InputError):
            run_of(tmp_path, b"\x80\x02" + body + b".")


DEEP = 100_000


@pytest.mark.parametrize(
    "text",
    [
        *HOSTILE,
        "[" * DEEP,
        '{"a":' * DEEP,
        "(" * DEEP,
        "PoissonSampledDpEvent(" * 20_000,
        "-" * DEEP + "1",
        "1" + "+1" * DEEP,
        "1" + "**1" * DEEP,
        "x = " + "a." * DEEP + "b",
        "SelfComposedDpEvent(" * 70 + "NoOpDpEvent()" + ", 1)" * 70,
        json.dumps({"history": [[1.1, 0.1, 10]] * 100_001, "mechanism": "rdp"}),
        "GaussianDpEvent(" + "9" * 5000 + ")",
        '{"history": [[1.1, 0.1, ' + "9" * 5000 + ']], "mechanism": "rdp"}',
        "x" * 300_000,
    ],
    ids=lambda text: text[:30],
)
def test_hostile_texts_are_refused_in_one_sentence(text, tmp_path):
    message = refused(tmp_path, text)
    assert message
    assert len(message) < 700


def test_archives_that_are_none_or_too_large_are_refused(tmp_path):
    bomb = archive(b"\x80\x02" + b"N" * (9 * 2**20), method=zipfile.ZIP_DEFLATED)
    assert len(bomb) < 100_000
    for content, words in (
        (archive(b"", name="readme"), "one data.pkl"),
        (archive(b""), "malformed"),
        (b"PK\x03\x04 nothing", "cannot be read"),
        (bomb, "at most 8 MiB"),
        (bomb[:-10] + (2**31).to_bytes(4, "little") + bomb[-6:], "100,000 tensors"),
        (b"\x80\x02" + b"N" * 1_000_001 + b".", "opcodes"),
        (archive(b"\x80\x02" + b"N0" * 100_000 + b"N.", method=zipfile.ZIP_BZIP2), "another compression"),
        (archive(b"\x80\x02" + b"N0" * 100_000 + b"N.", method=zipfile.ZIP_LZMA), "another compression"),
    ):
        assert words in refused(tmp_path, content)


def test_too_many_phases_are_refused_with_a_way_out(tmp_path):
    history = [[1 + place / 1000, 0.1, 1] for place in range(501)]
    message = refused(tmp_path, json.dumps({"history": history, "mechanism": "prv"}))
    assert "at most 500 different pairs of noise and rate, got 501; state a few" in message
    history = [[1.1, 0.1, 1], [1.2, 0.1, 1]] * 5000
    parts = run_of(tmp_path, json.dumps({"history": history, "mechanism": "prv"})).parts
    assert [part.steps for part in parts] == [5000, 5000]


@pytest.mark.parametrize("pack", [lambda state: state, archive])
def test_an_option_that_a_state_has_no_place_for_is_refused_in_checkpoints_too(pack, tmp_path):
    assert "--epochs: expected only for a call" in refused(
        tmp_path, pack(pickle.dumps(STATE)), Terms(delta="1e-5", epochs=Fraction(3))
    )


@pytest.mark.parametrize(
    "content", [pickle.dumps(STATE), json.dumps(STATE), "make_private(sample_rate=.01, steps=9, noise_multiplier=1)"]
)
def test_the_config_has_the_number_of_examples_of_the_user(content, tmp_path):
    terms = Terms(delta="1e-5", examples=Fraction(70_000))
    assert "data: {examples: 70000}" in imported(run_of(tmp_path, content, terms), terms, "file").text


def text_opcode(text):
    data = text.encode()
    return b"X" + struct.pack("<I", len(data)) + data


def pairs(count):
    return b"](" + b"".join(b"J" + struct.pack("<i", i) + b"K\x01\x86" for i in range(count)) + b"e"


ORDERED_DICT = b"ccollections\nOrderedDict\nq\x01"
DTYPE = b"cnumpy\ndtype\n" + text_opcode("f8") + b"\x85R"
BOMBS = {
    "encoded again and again": text_opcode("a" * 4_000_000)
    + b"q\x00"
    + text_opcode("latin1")
    + b"q\x01c_codecs\nencode\nq\x02"
    + b"h\x02h\x00h\x01\x86R" * 150_000,
    "dictionaries of one list": pairs(60_000) + b"q\x00" + ORDERED_DICT + b"h\x01h\x00\x85R" * 150_000,
    "one key again and again": b"](K\x01K\x01\x86q\x02"
    + b"h\x02" * 300_000
    + b"eq\x00"
    + ORDERED_DICT
    + b"h\x01h\x00\x85R" * 100_000,
    "equal long keys": b"}q\x09"
    + text_opcode("k" * 3_000_000)
    + b"q\x00K\x01s"
    # The same text as another object: it is compared byte by byte.
    + (text_opcode("k" * 3_000_000) + b"q\x01K\x01s" + b"h\x01K\x01s" * 200_000),
    "attributes searched": b"(" + b"K\x01" * 400_000 + b"tq\x00" + DTYPE + b"h\x00b" * 140_000,
    "a name of nested lists": b"]q\x00" + b"h\x00h\x00\x86q\x00" * 40 + b"h\x00\x93",
    "storages": (b"(" + b"K\x01" * 1000 + b"tQ0") * 500,
    "a byte array": b"\x96" + struct.pack("<Q", 2**40) + b"x",
    "a long number": b"\x8b" + struct.pack("<i", 4_000_000) + b"\x7f" * 4_000_000,
    "frozen sets of one": b"(K\x01\x91q\x00" + b"(h\x00h\x00\x91q\x00" * 100_000,
    "nested tuples": b")q\x00" + b"h\x00h\x00\x86q\x00" * 200_000,
    "keys with one hash": b"}("
    + b"".join(b"\x8a\x0b" + (i * (2**61 - 1)).to_bytes(11, "little") + b"K\x01" for i in range(1, 200_000))
    + b"u",
}


@pytest.mark.heavy
@pytest.mark.parametrize("body", BOMBS.values(), ids=BOMBS)
def test_small_pickles_that_would_unpack_to_much_end_at_the_limits_of_their_worker(body, real, tmp_path):
    path = tmp_path / "bomb.pickle"
    path.write_bytes(b"\x80\x04" + body + b".")
    start = time.monotonic()
    ended = real("import", str(path), "--timeout", "3", "--memory-limit", "0.5")
    assert (ended.code in {2, 3}, ended.err.startswith("error")) == (True, True)
    assert time.monotonic() - start < 20


def test_import_has_the_limits_of_check(real, tmp_path):
    path = tmp_path / "bomb.pt"
    path.write_bytes(archive(b"\x80\x02" + b"}" * 990_000 + b"."))
    ended = real("import", str(path), "--delta", "1e-5", "--timeout", "0.01")
    assert (ended.code, "--timeout allows more" in ended.err) == (3, True)
    ended = real("import", str(path), "--delta", "1e-5", "--memory-limit", "0.05")
    assert (ended.code, "--memory-limit allows more" in ended.err) == (3, True)
