"""Edits of marked trees, compared with the same edits of plain dicts and lists."""

import copy

import pytest

from dpcalc.config.source import source_of
from dpcalc.config.tree import node_at, remove_at, replace_at, walk, with_path
from dpcalc.config.yaml_text import parse_yaml
from tests.config.texts import plain_values

TEXT = "a: {b: [x, {c: y, d: z}], e: w}\nf: v\n"
OTHER = "{new: [n]}"
PATHS = [
    (),
    ("a",),
    ("f",),
    ("fresh",),
    ("a", "e"),
    ("a", "fresh"),
    ("a", "b"),
    ("a", "b", 0),
    ("a", "b", 1),
    ("a", "b", 1, "d"),
    ("a", "b", 1, "fresh"),
]
NOWHERE = [("fresh", "x"), ("a", "b", 2), ("a", "b", 2, "c"), ("a", "b", "c"), ("a", 0), ("f", "x", "y")]


def tree(text=TEXT):
    return parse_yaml(source_of(text, "tree.yaml"))[0]


def edited(keys, value=None):
    """The plain values after an edit of plain values; None removes."""
    whole = {"top": copy.deepcopy(plain_values(tree()))}
    place = whole
    *above, last = ("top", *keys)
    for key in above:
        place = place[key]
    if value is None:
        del place[last]
    else:
        place[last] = value
    return whole["top"]


@pytest.mark.parametrize("keys", PATHS)
def test_a_value_is_replaced_or_added_at_a_path(keys):
    before, other = tree(), tree(OTHER)
    assert plain_values(replace_at(before, keys, other)) == edited(keys, plain_values(other))
    assert plain_values(before) == plain_values(tree())


@pytest.mark.parametrize("keys", [path for path in PATHS if path and path[-1] != "fresh"])
def test_a_value_is_removed_at_a_path(keys):
    assert plain_values(remove_at(tree(), keys)) == edited(keys)


@pytest.mark.parametrize("keys", NOWHERE)
def test_a_path_that_leads_nowhere_changes_nothing(keys):
    before = tree()
    assert node_at(before, *keys) is None
    assert plain_values(replace_at(before, keys, tree(OTHER))) == plain_values(before)
    assert plain_values(remove_at(before, keys)) == plain_values(before)


def test_an_edit_shares_what_it_does_not_change():
    before = tree()
    after = replace_at(before, ("a", "e"), tree(OTHER))
    assert node_at(after, "a", "b") is node_at(before, "a", "b")
    assert list(after.entries) == ["a", "f"]


@pytest.mark.parametrize("path", ["", "somewhere.else[3]"])
def test_a_moved_tree_has_the_paths_of_its_new_place(path):
    part = with_path(node_at(tree(), "a"), path)
    assert all(node.path == expected for expected, node in walk(part, path))
