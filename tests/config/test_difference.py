import pytest

from dpcalc.config.edit import differences, with_difference
from dpcalc.config.load import load_text
from dpcalc.config.source import ConfigError
from tests.config.texts import corpus

FLAT = """\
version: 1
data: {examples: 60_000}
sampling: {scheme: poisson}
mechanism: {noise_multiplier: 1.1}
training: {batch_size: 256, epochs: 60}
privacy: {adjacency: add-remove, delta: 1e-5}
budget: {epsilon: 2}
"""
NESTED = """\
version: 1
data:
  levels:
    - {name: task, count: 1200}
    - {name: example, count: 20}
sampling:
  task: {scheme: fixed, size: 32}
  example: {scheme: fixed, size: 5}
mechanism: {noise_multiplier: 6.0, clip: task}
training: {steps: 10_000}
privacy: {unit: example, delta: 1e-5}
"""
PHASED = """\
version: 1
data: {examples: 60_000}
sampling: {scheme: poisson}
mechanism: {noise_multiplier: 1.1}
training: {batch_size: 256}
phases:
  - {name: warm, training: {steps: 100}}
  - {name: main, training: {steps: 900}}
privacy: {adjacency: add-remove, delta: 1e-5}
"""


def loaded(text, path="a.yaml"):
    return load_text(text, path=path)


def found(old, new):
    pair = loaded(old), loaded(new)
    return [(one.key, one.old, one.new, one.mark, one.is_claim) for one in differences(*pair)]


def test_nothing_differs():
    assert found(FLAT, FLAT) == []
    assert found(FLAT, FLAT.replace("60_000", "6e4").replace("1e-5", "0.00001")) == []
    assert found(FLAT, "# a comment\n" + FLAT + "name: other\nx-mine: 1\n") == []


@pytest.mark.parametrize(("base", "before", "after", "key", "old", "new", "place", "is_claim"), corpus("differences"))
def test_one_difference_and_where_it_stands(base, before, after, key, old, new, place, is_claim):
    text = {"flat": FLAT, "nested": NESTED, "phased": PHASED}[base]
    assert text.count(before) == 1
    assert found(text, text.replace(before, after)) == [(key, old, new, tuple(place), is_claim)]


def test_a_batch_size_is_part_of_the_draw_and_stands_where_it_was_written():
    ((key, old, new, mark, is_claim),) = found(FLAT, FLAT.replace("256", "128"))
    assert (key, old, new, mark, is_claim) == ("training.batch_size", "256", "128", (5, 12), False)


def test_a_scheme_in_a_short_form():
    text = FLAT.replace("scheme: poisson", "scheme: fixed")
    assert [(key, is_claim) for key, _, _, _, is_claim in found(FLAT, text)] == [("sampling.scheme", True)]


BUILT = "{episodes: {tasks: 4, ways: 5, shots: 1, queries: 4}}"


def test_constructed_tasks_instead_of_draws_are_one_difference():
    drawn = (
        NESTED.replace("name: task", "name: class")
        .replace("  task:", "  class:")
        .replace("clip: task", "clip: example")
    )
    head, tail = drawn.index("sampling:"), drawn.index("mechanism:")
    built = f"{drawn[:head]}sampling: {BUILT}\n{drawn[tail:]}"
    pair = loaded(drawn), loaded(built)
    (one,) = differences(*pair)
    assert (one.key, one.new, one.is_claim) == ("sampling", BUILT, True)
    assert with_difference(*pair, one) == pair[1].plan
    (one,) = differences(pair[1], loaded(built.replace("tasks: 4", "tasks: 8")))
    assert (one.key, one.is_claim) == ("sampling.episodes.tasks", False)


def test_each_difference_alone_makes_a_plan_of_its_own():
    head = FLAT.replace("1.1", "1.2").replace("epochs: 60", "steps: 99").replace("60_000", "70_000")
    pair = loaded(FLAT), loaded(head)
    plans = {one.key: with_difference(*pair, one) for one in differences(*pair)}
    assert plans == {
        "mechanism.noise_multiplier": loaded(FLAT.replace("1.1", "1.2")).plan,
        "training": loaded(FLAT.replace("epochs: 60", "steps: 99")).plan,
        "data.examples": loaded(FLAT.replace("60_000", "70_000")).plan,
    }


def test_a_difference_that_makes_no_sense_alone():
    head = NESTED.replace("name: example", "name: record").replace("  example:", "  record:")
    head = head.replace("unit: example", "unit: record")
    pair = loaded(NESTED), loaded(head)
    names = [one for one in differences(*pair) if one.key == "data.levels[1].name"]
    with pytest.raises(ConfigError):
        with_difference(*pair, names[0])


def test_what_comes_from_elsewhere_stands_nowhere_in_the_file():
    old = loaded(FLAT)
    new = load_text(FLAT, path="a.yaml", assignments=["mechanism.noise_multiplier=3"])
    assert [(one.key, one.mark) for one in differences(old, new)] == [("mechanism.noise_multiplier", None)]


def test_the_content_of_a_tree_file_is_a_difference(tmp_path):
    text = NESTED.replace("count: 1200}", "}").replace("count: 20}", "}").replace(", }", "}")
    text = text.replace("sampling:", "  tree: {file: counts.json}\nsampling:").replace("size: 32", "size: 2")
    (tmp_path / "counts.json").write_text("[20, 20, 21]", encoding="utf-8")
    old = load_text(text, path=str(tmp_path / "a.yaml"))
    (tmp_path / "counts.json").write_text("[20, 20, 30]", encoding="utf-8")
    new = load_text(text, path=str(tmp_path / "a.yaml"))
    (one,) = differences(old, new)
    assert (one.key, one.is_claim) == ("data", True)
    assert one.new.endswith("(its content changed)")
    assert with_difference(old, new, one) == new.plan


def test_two_ends_of_a_count_are_told_as_a_config_writes_them():
    ends = NESTED.replace("count: 1200", "count: {min: 900, max: 1200}")
    ((key, old, new, *_),) = found(NESTED, ends)
    assert (key, old) == ("data.levels[0]", "{name: task, count: 1200}")
    assert new == "{name: task, count: {min: 900, max: 1200}}"
