"""Small files to vary: a flat one and a nested one, by top-level line; `§` marks where an error must point."""

import re
from functools import partial
from pathlib import Path

import yaml

from dpcalc.config.expand import Overrides
from dpcalc.config.load import load_text
from dpcalc.config.source import ConfigError

PATH = "file.yaml"
CORPUS = Path(__file__).parent / "corpus"
SAMPLES = Path(__file__).parents[2] / "sample_configs"


def corpus(name):
    return yaml.safe_load((CORPUS / f"{name}.yaml").read_text(encoding="utf-8"))


BASES = corpus("bases")


def varied(base, changes):
    """A text with some top-level lines changed, added, or (None) left out."""
    users = {key: value for key, value in changes.items() if key.startswith("x-") and str(value).startswith("&")}
    lines = {**users, **base, **changes}  # an anchor stands before its aliases
    return "".join(f"{key}: {value}\n" for key, value in lines.items() if value is not None)


flat, nested, classes, clinics = (partial(varied, BASES[name]) for name in ("flat", "nested", "classes", "clinics"))


RUN = "{steps: 4, list: [1], nothing: ~, later: '???', circle: '${x-other}'}"
TRAINING = """\
defaults: [optional model: resnet, optional optim: sgd]
train: {batch_size: 512, max_steps: 300, lr: .nan, lr: 2, when: !!timestamp 2024-01-01}
? [odd]
: ~
model: &model {name: resnet18, dropout: .5, <<: 3}
"""


def filled(template, row):
    """A template with a row's cells in the place of `<0>`, `<1>`, ...; `{repeat: [text, times, ...]}` is long."""
    if isinstance(template, dict) and template.keys() == {"repeat"}:
        parts = filled(template["repeat"], row)
        return "".join(text * times for text, times in zip(parts[::2], parts[1::2], strict=True))
    if isinstance(template, dict):
        return {filled(key, row): filled(value, row) for key, value in template.items()}
    if isinstance(template, list):
        return [filled(each, row) for each in template]
    if not isinstance(template, str):
        return template
    if whole := re.fullmatch(r"<(\d)>", template):
        return filled(row[int(whole[1])], [])
    return re.sub(r"<(\d)>", lambda cell: str(row[int(cell[1])]), template) if row else template


def cases(name):
    """The cases of a file of the corpus, one for each of their `rows`."""
    for case in corpus(name):
        rows = [row if isinstance(row, list) else [row] for row in case.pop("rows", [[]])]
        for row in rows:
            named = {"name": f"{case['name']}: {row[0]}"} if "name" in case and row else {}
            yield filled(case, row) | named


def base_of(case):
    return next((key for key in BASES if key in case), "flat")


def text_of(case):
    """The text of a case of the corpus."""
    if "reference" in case:
        return flat({"training": f"{{steps: §'{case['reference']}'}}", "x-run": RUN, "x-other": "${x-run.circle}"})
    if "strategy" in case or "draw" in case:
        strategy, draw = case.get("strategy", "strategy: {banded: {bands: 3}}"), case.get("draw", "scheme: any-order")
        return (
            f"version: 1\ndata: {{examples: 100}}\nsampling: {{{draw}}}\n"
            f"mechanism: {{type: matrix-factorization, noise_multiplier: 4, {strategy}}}\n"
            f"training: {{steps: {case.get('steps', 4)}}}\nprivacy: {{adjacency: zero-out, delta: 1e-6}}\n"
        )
    if "sample" in case:
        return (SAMPLES / f"{case['sample']}.yaml").read_text(encoding="utf-8")
    if "inside" in case:
        return f"{TRAINING}dpcalc:\n" + "".join(f"  {line}\n" for line in flat(case["inside"]).splitlines())
    return case["text"] or "" if "text" in case else varied(BASES[base_of(case)], case.get(base_of(case), {}))


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


def loaded(text, assignments=()):
    return load_text(text, path=PATH, overrides=Overrides(assignments=tuple(assignments)))


def errors(text, assignments=()):
    """The errors of a text, which must have some."""
    try:
        found = loaded(text, assignments)
    except ConfigError as error:
        return error.diagnostics
    raise AssertionError(f"no error, but {found.plan}")


def plan(text, assignments=()):
    return loaded(text, assignments).plan
