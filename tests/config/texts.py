"""Small files to vary: a flat one and a nested one, by top-level line; `§` marks where an error must point."""

from pathlib import Path

import yaml

from dpcalc.config import scalars
from dpcalc.config.expand import Overrides
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
CLINICS = {
    "version": "1",
    "data": "{levels: [{name: clinic}, {name: patient}, {name: visit}], tree: [[4, 2, 3], [4, 5]]}",
    "sampling": "{clinic: {scheme: fixed, size: 1}, patient: {scheme: fixed, size: 2}, "
    "visit: {scheme: fixed, size: 2}}",
    "mechanism": "{noise_multiplier: 4, clip: clinic}",
    "training": "{steps: 100}",
    "privacy": "{unit: visit, adjacency: add-remove, delta: 1e-3}",
}
USERS = {
    **CLINICS,
    "data": "{levels: [{name: user, count: 50}, {name: example, count: 9}]}",
    "sampling": "{user: {scheme: fixed, size: 5}, example: {scheme: fixed, size: 3}}",
    "mechanism": "{noise_multiplier: 4}",
    "privacy": "{unit: example, adjacency: add-remove, delta: 1e-4}",
}


def varied(base, changes):
    """A text with some top-level lines changed, added, or (None) left out."""
    users = {key: value for key, value in changes.items() if key.startswith("x-") and value.startswith("&")}
    lines = {**users, **base, **changes}  # an anchor stands before its aliases
    return "".join(f"{key}: {value}\n" for key, value in lines.items() if value is not None)


def flat(changes):
    return varied(FLAT, changes)


def nested(changes):
    return varied(NESTED, changes)


def classes(changes):
    return varied(CLASSES, changes)


def clinics(changes):
    return varied(CLINICS, changes)


def users(changes):
    return varied(USERS, changes)


def correlated(strategy, draw="scheme: any-order", steps=4):
    """A run with correlated noise."""
    return (
        f"version: 1\ndata: {{examples: 100}}\nsampling: {{{draw}}}\n"
        f"mechanism: {{type: matrix-factorization, noise_multiplier: 4, {strategy}}}\n"
        f"training: {{steps: {steps}}}\nprivacy: {{adjacency: zero-out, delta: 1e-6}}\n"
    )


RUN = "{steps: 4, list: [1], nothing: ~, later: '???', circle: '${x-other}'}"
BASES = {"flat": FLAT, "nested": NESTED, "classes": CLASSES, "clinics": CLINICS, "users": USERS}
CORPUS = Path(__file__).parent / "corpus"


def corpus(name):
    return yaml.safe_load((CORPUS / f"{name}.yaml").read_text(encoding="utf-8"))


def text_of(case):
    """The text of a case of the corpus."""
    if "reference" in case:
        return flat({"training": f"{{steps: §'{case['reference']}'}}", "x-run": RUN, "x-other": "${x-run.circle}"})
    if "strategy" in case or "draw" in case:
        return correlated(case.get("strategy", "strategy: {banded: {bands: 3}}"), case.get("draw", "scheme: any-order"))
    return case.get("text") or next((varied(BASES[key], case[key]) for key in BASES if key in case), flat({}))


DIFFERENT = [text_of(case) for case in corpus("different")]
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


def indented(text, by="  "):
    return "".join(f"{by}{line}\n" for line in text.splitlines())


def loaded(text, assignments=(), flags=()):
    given = Overrides(assignments=tuple(assignments), flags=tuple(dict(flags).items()))
    return load_text(text, path=PATH, overrides=given)


def errors(text, assignments=(), flags=()) -> tuple[Diagnostic, ...]:
    """The errors of a text, which must have some."""
    try:
        found = loaded(text, assignments, flags)
    except ConfigError as error:
        return error.diagnostics
    raise AssertionError(f"no error, but {found.plan}")


def plan(text, assignments=()):
    return loaded(text, assignments).plan


def plain_values(node):
    """Return a tree as dicts, lists and scalar values, without marks and without `x-` keys."""
    if isinstance(node, Section):
        return {key: plain_values(value) for key, value in node.entries.items() if not key.startswith(USER_KEY)}
    if isinstance(node, Items):
        return [plain_values(item) for item in node.items]
    return scalars.value(node)
