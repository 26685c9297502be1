"""Small files to vary: a flat one and a nested one, by top-level line; `§` marks where an error must point."""

from dpcalc.config import scalars
from dpcalc.config.load import load_text
from dpcalc.config.source import ConfigError, Diagnostic
from dpcalc.config.tree import USER_KEY, Items, Section

PATH = "file.yaml"
FLAT = {
    "version": "1",
    "data": "{examples: 60_000}",
    "sampling": "{scheme: poisson, expected: 256}",
    "mechanism": "{noise_multiplier: 1.1, max_grad_norm: 1.0}",
    "training": "{steps: 100}",
    "privacy": "{adjacency: add-remove, delta: 1e-6}",
}
NESTED = {
    "version": "1",
    "data": "{levels: [{name: task, count: 200}, {name: example, count: 20}]}",
    "sampling": "{task: {scheme: fixed, size: 4}, example: {scheme: fixed, size: 5}}",
    "mechanism": "{noise_multiplier: 6, max_grad_norm: 1.0, clip: task}",
    "training": "{steps: 100}",
    "privacy": "{unit: example, adjacency: add-remove, delta: 1e-6}",
}

CLASSES = {
    "version": "1",
    "data": "{levels: [{name: class, count: 64}, {name: image, count: 600}]}",
    "sampling": "{episodes: {tasks: 4, ways: 5, shots: 1, queries: 15}}",
    "mechanism": "{noise_multiplier: 6, max_grad_norm: 1.0, clip: task}",
    "training": "{steps: 100}",
    "privacy": "{unit: image, adjacency: add-remove, delta: 1e-6}",
}


def varied(base, changes):
    """A text with some top-level lines changed, added, or (None) left out."""
    lines = {**base, **changes}
    return "".join(f"{key}: {value}\n" for key, value in lines.items() if value is not None)


def flat(changes):
    return varied(FLAT, changes)


def nested(changes):
    return varied(NESTED, changes)


def classes(changes):
    return varied(CLASSES, changes)


DIFFERENT = [
    flat({}),
    flat({"data": "{examples: 60_001}"}),
    flat({"data": "{levels: [{name: image, count: 60_000}]}"}),
    flat({"sampling": "{scheme: poisson, expected: 257}"}),
    flat({"sampling": "{scheme: fixed, size: 256}"}),
    flat({"sampling": "{scheme: all}"}),
    flat({"mechanism": "{noise_multiplier: 1.1000000000000001}"}).replace("1.1000000000000001", "1.1000000000000003"),
    flat({"mechanism": "{noise_multiplier: 1.1, max_grad_norm: 2}"}),
    flat({"mechanism": "{noise_multiplier: 1.1, clip: batch}"}),
    flat({"mechanism": "{noise_multiplier: 1.1, also: {noise_multiplier: 20}}"}),
    flat({"mechanism": "{noise_multiplier: 1.1, also: {noise_multiplier: 21}}"}),
    flat({"mechanism": "{noise_multiplier: 1.1, also: [{noise_multiplier: 20}, {noise_multiplier: 20}]}"}),
    *(
        flat({"mechanism": f"{{type: rdp-curve, curve: {points}}}"})
        for points in ("[[2, 0.1]]", "[[2, 0.2]]", "[[3, 0.1]]", "[[2, 0.1], [3, 0.1]]", "[[2, 0.1]], epsilon: 9")
    ),
    flat({"mechanism": "{type: rdp-curve, curve: [[2, 0.1]], odd_moments: nonnegative}"}),
    flat({"training": "{steps: 101}"}),
    flat({"training": None, "phases": "[{training: {steps: 50}}, {training: {steps: 50}}]"}),
    flat({"privacy": "{delta: 1e-7}"}),
    flat({"privacy": "{delta: 1e-6, adjacency: replace-one}"}),
    flat({"budget": "{epsilon: 3}"}),
    flat({"budget": "{epsilon: 3, max_increase_pct: 0}"}),
    flat({"accounting": "{method: pld}"}),
    nested({}),
    nested({"privacy": "{unit: task, delta: 1e-6}"}),
    flat({"privacy": "{delta: 1e-6, group_size: 2}"}),
    flat({"privacy": "{delta: 1e-6, group_size: 3}"}),
    flat({"sampling": "{scheme: poisson, expected: 256, redraw_every: 10}"}),
    flat({"sampling": "{scheme: poisson, expected: 256, redraw_every: 5}"}),
    *(flat({"sampling": f"{{scheme: poisson, expected: 256, max_batch_size: {most}}}"}) for most in (300, 301, 59_999)),
    flat({"sampling": "{scheme: with-replacement, size: 256}"}),
    flat({"sampling": "{scheme: with-replacement, size: 257}"}),
    flat({"sampling": "{scheme: shuffle, size: 256}"}),
    flat({"sampling": "{scheme: shuffle, size: 257}"}),
    flat({"sampling": "{scheme: shuffle, size: 256, drop_last: true}"}),
    flat({"sampling": "{scheme: balls-in-bins, bins: 25}"}),
    flat({"sampling": "{scheme: balls-in-bins, bins: 26}"}),
    flat({"sampling": "{scheme: balls-in-bins, bins: 25, assignment: held}"}),
    flat({"sampling": "{scheme: random-allocation, times: 25}"}),
    flat({"sampling": "{scheme: random-allocation, times: 26}"}),
    nested({"sampling": "{task: {scheme: all}}", "mechanism": "{noise_multiplier: 6}"}),
    *(
        classes({"sampling": f"{{episodes: {{tasks: {tasks}, ways: {ways}, shots: {shots}, queries: {queries}}}}}"})
        for tasks, ways, shots, queries in [(4, 5, 1, 15), (5, 5, 1, 15), (4, 6, 1, 15), (4, 5, 2, 15), (4, 5, 1, 14)]
    ),
    classes({"sampling": "{class: {scheme: all}}", "mechanism": "{noise_multiplier: 6, clip: class}"}),
    flat({"sampling": "{scheme: poisson, rate: 0.123456789012345678901234567890}"}),
    flat({"sampling": "{scheme: poisson, rate: 1e-15}"}),
    flat({"sampling": "{scheme: poisson, expected: 0.1}"}),
    flat({"sampling": "{scheme: poisson, rate: 1/97}", "privacy": "{delta: 1/60000}"}),
    flat({"sampling": "{scheme: poisson, rate: '3 / 1_000_003'}", "training": "{epochs: 2}"}),
    flat({"mechanism": "{noise_multiplier: 0, max_grad_norm: 1e100, clip: batch}"}),
    flat({"mechanism": "{noise_multiplier: 1e9, max_grad_norm: 1e-100}"}),
    flat({"mechanism": "{type: rdp-curve, curve: [[1.5, 0], [2, 0.1], [1e3, 3.25e1]]}"}),
    flat({"mechanism": "{type: rdp-curve, curve: [[2, 0.1]], epsilon: 2.5, odd_moments: nonnegative}"}),
    flat({"mechanism": "{noise_multiplier: 2, also: {noise_multiplier: 0.1}}"}),
    flat(
        {"phases": "[{mechanism: {also: [{noise_multiplier: 3}, {noise_multiplier: 1e9}]}}, {mechanism: {also: []}}]"}
    ),
    flat({"privacy": "{delta: 1e-300, adjacency: zero-out}"}),
    flat({"privacy": "{delta: 0.999999999999999, adjacency: replace-one}"}),
    flat({"training": "{steps: 1e15}"}),
    flat({"budget": "{epsilon: 0, max_increase_pct: 0.5}", "accounting": "{method: rdp}"}),
    flat({"phases": "[{name: 'a: b'}, {training: {steps: 5}, sampling: {scheme: all}}]"}),
    nested({"sampling": "{task: {scheme: poisson, rate: 0.1}}", "privacy": "{unit: task, delta: 1e-7}"}),
    nested(
        {"sampling": "{task: {scheme: poisson, rate: 0.1, redraw_every: 10}, example: {scheme: all, redraw_every: 5}}"}
    ),
    flat({"sampling": "{scheme: with-replacement, size: 70_000}", "privacy": "{delta: 1e-6, group_size: 12}"}),
    flat({"sampling": "{scheme: poisson, rate: 0.1, max_batch_size: 300}", "training": "{epochs: 3}"}),
    nested({"sampling": "{task: {scheme: poisson, expected: 1, max_batch_size: 2}, example: {scheme: all}}"}),
    flat({"sampling": "{scheme: balls-in-bins, bins: 25}", "training": "{epochs: 3}"}),
    flat({"sampling": "{scheme: shuffle, size: 256}", "training": "{epochs: 3}"}),
    flat({"sampling": "{scheme: shuffle, size: 256, drop_last: true}", "training": "{epochs: 3}"}),
    nested(
        {
            "data": "{levels: [{name: task, count: 9}, {name: example, count: {min: 5, max: 20}}]}",
            "sampling": "{task: {scheme: shuffle, size: 2}, example: {scheme: with-replacement, size: 3}}",
        }
    ),
    nested(
        {
            "data": "{levels: [{name: task, count: 9}, {name: example, count: {min: 5, max: 20}}]}",
            "sampling": "{task: {scheme: fixed, size: 2}, example: {scheme: fixed, size: {at_most: 8}}}",
        }
    ),
    classes({"mechanism": "{noise_multiplier: 6}", "privacy": "{unit: class, delta: 1e-6, group_size: 5}"}),
    classes({"phases": "[{mechanism: {clip: batch}}, {sampling: {class: {scheme: all}}, mechanism: {clip: image}}]"}),
]
"""Configs that all mean different things."""


def marked(text):
    """The text without its marks, and the marked places as (line, column)."""
    places = []
    clean = []
    for number, line in enumerate(text.split("\n"), start=1):
        while "§" in line:
            places.append((number, line.index("§") + 1))
            line = line.replace("§", "", 1)  # noqa: PLW2901
        clean.append(line)
    return "\n".join(clean), places


def errors(text, assignments=()) -> tuple[Diagnostic, ...]:
    """The errors of a text, which must have some."""
    try:
        loaded = load_text(text, path=PATH, assignments=assignments)
    except ConfigError as error:
        return error.diagnostics
    raise AssertionError(f"no error, but {loaded.plan}")


def plan(text, assignments=()):
    return load_text(text, path=PATH, assignments=assignments).plan


def plain_values(node):
    """Return a tree as dicts, lists and scalar values, without marks and without `x-` keys."""
    if isinstance(node, Section):
        return {key: plain_values(value) for key, value in node.entries.items() if not key.startswith(USER_KEY)}
    if isinstance(node, Items):
        return [plain_values(item) for item in node.items]
    return scalars.value(node)
