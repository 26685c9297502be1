"""Differences of two configs, where each stands, and the plan that one of them alone makes."""

import pytest

from dpcalc.config.edit import differences, with_difference
from dpcalc.config.load import load, load_text
from dpcalc.config.source import ConfigError
from tests.config.texts import corpus

TEXTS = corpus("differing")
FLAT, NESTED = TEXTS["flat"], TEXTS["nested"]


def pair(old, new, assignments=()):
    return load_text(old, path="a.yaml"), load_text(new, path="a.yaml", assignments=assignments)


def found(*texts):
    return [(one.key, one.old, one.new, one.mark, one.is_claim) for one in differences(*pair(*texts))]


def test_nothing_differs():
    assert found(FLAT, FLAT) == []
    assert found(FLAT, FLAT.replace("60_000", "6e4").replace("1e-5", "0.00001")) == []
    assert found(FLAT, "# a comment\n" + FLAT + "name: other\nx-mine: 1\n") == []


@pytest.mark.parametrize(("base", "before", "after", "key", "old", "new", "place", "is_claim"), corpus("differences"))
def test_one_difference_and_where_it_stands(base, before, after, key, old, new, place, is_claim):
    text = TEXTS[base]
    assert text.count(before) == 1
    assert found(text, text.replace(before, after)) == [(key, old, new, tuple(place), is_claim)]


def test_what_comes_from_elsewhere_stands_nowhere_in_the_file():
    (one,) = differences(*pair(FLAT, FLAT, ["mechanism.noise_multiplier=3"]))
    assert (one.key, one.mark) == ("mechanism.noise_multiplier", None)


BUILT = "{episodes: {tasks: 4, ways: 5, shots: 1, queries: 4}}"


def test_constructed_tasks_instead_of_draws_are_one_difference():
    drawn = NESTED.replace("name: task", "name: class").replace("  task:", "  class:")
    drawn = drawn.replace("clip: task", "clip: example")
    head, tail = drawn.index("sampling:"), drawn.index("mechanism:")
    built = f"{drawn[:head]}sampling: {BUILT}\n{drawn[tail:]}"
    both = pair(drawn, built)
    (one,) = differences(*both)
    assert (one.key, one.new, one.is_claim) == ("sampling", BUILT, True)
    assert with_difference(*both, one) == both[1].plan
    (one,) = differences(*pair(built, built.replace("tasks: 4", "tasks: 8")))
    assert (one.key, one.is_claim) == ("sampling.episodes.tasks", False)


def test_each_difference_alone_makes_a_plan_of_its_own():
    changes = {
        "mechanism.noise_multiplier": ("1.1", "1.2"),
        "training": ("epochs: 60", "steps: 99"),
        "data.examples": ("60_000", "70_000"),
    }
    head = FLAT
    for change in changes.values():
        head = head.replace(*change)
    both = pair(FLAT, head)
    plans = {one.key: with_difference(*both, one) for one in differences(*both)}
    assert plans == {key: load_text(FLAT.replace(*change), path="b").plan for key, change in changes.items()}


def test_a_difference_that_makes_no_sense_alone():
    head = NESTED.replace("name: example", "name: record").replace("  example:", "  record:")
    both = pair(NESTED, head.replace("unit: example", "unit: record"))
    (name,) = [one for one in differences(*both) if one.key == "data.levels[1].name"]
    with pytest.raises(ConfigError):
        with_difference(*both, name)


def test_the_content_of_a_tree_file_is_a_difference(tmp_path):
    text = NESTED.replace(", count: 1200}", "}").replace(", count: 20}", "}")
    text = text.replace("sampling:", "  tree: {file: counts.json}\nsampling:").replace("size: 32", "size: 2")
    (tmp_path / "a.yaml").write_text(text, encoding="utf-8")
    loaded = []
    for last in (21, 30):
        (tmp_path / "counts.json").write_text(f"[20, 20, {last}]", encoding="utf-8")
        loaded.append(load(str(tmp_path / "a.yaml")))
    (one,) = differences(*loaded)
    assert (one.key, one.is_claim) == ("data", True)
    assert one.new.endswith("(its content changed)")
    assert with_difference(*loaded, one) == loaded[1].plan
