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
