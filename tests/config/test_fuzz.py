"""Whatever the text: a plan, or a ConfigError that can be printed."""

from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dpcalc.config.documents import read_document
from dpcalc.config.files import Refusal
from dpcalc.config.load import load_text
from dpcalc.config.source import ConfigError, source_of, visible

FOLDER = Path(__file__).parents[2] / "sample_configs"
SAMPLES = [path.read_text(encoding="utf-8") for path in sorted(FOLDER.glob("*.yaml"))]
WORDS = (
    ": |- |? |<<: |&a |*a|!!int |--- |...|null|true|1e-5|010|.inf|${a.b}|???|version: 1\n|phases: |sampling: |"
    "scheme: poisson|scheme: shuffle|scheme: with-replacement|scheme: all|"
    "rate: 0.5|expected: 4|size: 3|batch_size: 4|steps: 5|epochs: 2|unit: task|clip: batch|"
    "levels: |examples: 10|x-a: |name: |redraw_every: 2|episodes: |type: laplace|dpcalc: |defaults: |"
    "type: rdp-curve|curve: [[2, 0.1]]|also: {noise_multiplier: 2}|"
    "{name: task, count: 3}"
)
PIECES = [*"{}[],:&*!|>'\"%@`?-#\n\t\r ~=<.\0\x1b\x85\u2028\u202e\ufeff\ud800é日", *WORDS.split("|")]
NAMES = (
    "version name data sampling mechanism training phases privacy accounting budget levels examples count task "
    "example scheme size rate expected batch_size steps epochs noise_multiplier clip type unit delta adjacency "
    "group_size method epsilon x-mine tree << redraw_every episodes tasks ways shots queries "
    "also curve file odd_moments"
)
KEYS = [*NAMES.split(), "", "weird key"]
VALUES = (
    "1 0 -1 1e-5 0.5 010 ~ true poisson fixed with-replacement shuffle all task "
    " example gaussian rdp-curve batch '3' 1e400 1e999 .nan auto add-remove "
    "'' \"\\e\""
)
SCALARS = st.sampled_from(VALUES.split())
TREES = st.recursive(
    SCALARS,
    lambda below: st.one_of(
        st.lists(below, max_size=3).map(lambda items: "[" + ", ".join(items) + "]"),
        st.lists(st.tuples(st.sampled_from(KEYS), below), max_size=5).map(
            lambda items: "{" + ", ".join(f"{key}: {value}" for key, value in items) + "}"
        ),
    ),
    max_leaves=25,
)


def survives(text, assignments=()):
    try:
        loaded = load_text(text, path="f.yaml", assignments=assignments)
        found = loaded.diagnostics
    except ConfigError as error:
        found = error.diagnostics
        assert found
    for item in found:
        printed = item.format()
        printed.encode("utf-8")
        assert all(line == visible(line) for line in printed.split("\n"))
        assert item.code.startswith("DPC")
        assert item.message
        if item.line is not None:
            assert item.column is not None
            assert item.width >= 1


@pytest.mark.heavy
@settings(max_examples=40, deadline=None)
@given(st.lists(st.one_of(st.sampled_from(PIECES), st.text(max_size=5)), max_size=40).map("".join))
@example("? {a: b}\n: c")
@example("a: !<tag:yaml.org,2002:int> 3")
@example("&a : b")
@example("*a : b")
@example('"\\ud800": 1')
def test_random_text(text):
    survives(text)


@pytest.mark.heavy
@settings(max_examples=40, deadline=None)
@given(
    st.sampled_from(SAMPLES),
    st.lists(
        st.tuples(st.floats(0, 1), st.integers(0, 30), st.one_of(st.sampled_from(PIECES), st.text(max_size=8))),
        min_size=1,
        max_size=4,
    ),
)
def test_mutated_samples(text, edits):
    for place, removed, inserted in edits:
        start = int(place * len(text))
        text = text[:start] + inserted + text[start + removed :]
    survives(text)


@pytest.mark.heavy
@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(KEYS), TREES), max_size=9))
def test_well_formed_nonsense(entries):
    survives("".join(f"{key}: {value}\n" for key, value in entries))


@pytest.mark.heavy
@settings(max_examples=40, deadline=None)
@given(
    st.sampled_from(SAMPLES),
    st.lists(
        st.tuples(st.lists(st.sampled_from([*KEYS, "levels[0]", "phases[1]", "[0]"]), min_size=1, max_size=4), TREES),
        max_size=3,
    ),
)
def test_random_assignments(text, assignments):
    survives(text, [".".join(keys) + "=" + value for keys, value in assignments])


@settings(max_examples=40, deadline=None)
@given(st.text(max_size=30))
def test_random_assignment_text(text):
    survives(SAMPLES[0], [text])


PATHS = st.lists(st.sampled_from([*"${}.:[]0/\\~ ", "x-a", "data", "a.yaml", "a.json", "..", "oc.env"]), max_size=12)


@settings(max_examples=40, deadline=None)
@given(PATHS.map("".join), st.sampled_from(["", "${", "a"]), st.sampled_from(["", "}"]))
def test_random_references(inner, start, stop):
    text = f"{start}{inner}{stop}".replace("'", "''")
    survives(f"training: {{steps: '{text}'}}\nx-a: {{data: 3}}\n", [f"privacy.delta='{text}'"])


@settings(max_examples=40, deadline=None)
@given(
    st.sampled_from([".json", ".toml", ".yaml"]),
    st.lists(
        st.sampled_from([*'{}[]",:=.#\n\t e-+0', "1e5", "true", "null", "nan", "a", "[a]\n", "[[a]]\n", '"""', "'"]),
        max_size=25,
    ).map("".join),
)
def test_random_documents(suffix, text):
    with suppress(Refusal):  # and nothing else
        read_document(source_of(text, "f"), suffix)
