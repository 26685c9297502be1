"""The sections of config version 1: every key declared once, with its type, range, meaning, default and advice.

`build` validates a file by these declarations, and `messages` compares misspelt keys with them. From them are written
the JSON Schema (draft 2020-12) and the table of all keys. The keys of `mechanism` are declared by the mechanisms
themselves (`dpcalc.mechanisms.kinds`).
"""

import inspect
import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from fractions import Fraction
from functools import cache
from typing import NamedTuple

from dpcalc.accountants import METHODS
from dpcalc.config.loaders import LOADER, LOADER_KEYS, NOISE_KEYS, NORMS, PARTIES, PARTS
from dpcalc.config.scalars import (
    DRAW_SIZE,
    EXAMPLE_COUNT,
    FILLED_LABEL,
    LABEL,
    LEVEL_COUNT,
    LEVEL_NAME,
    QUOTIENT_PATTERN,
)
from dpcalc.guarantee import Adjacency
from dpcalc.keys import (
    COUNT,
    DATA_FILE,
    MAX_COUNT,
    NUMBER,
    TEXT,
    TINY,
    TRUTH,
    AnyOf,
    Exact,
    Key,
    ListOf,
    Schema,
    Structure,
    Word,
    declare,
    exact,
    keys_of,
    mapping_of,
    optional,
)
from dpcalc.mechanisms.kinds import MECHANISMS, TYPE, mechanism_class
from dpcalc.planner.calibration import CLASSICAL, LIBRARIES
from dpcalc.planner.plan import Budget
from dpcalc.sampling import schemes
from dpcalc.sampling.hierarchy import Episodes

MAX_LEVELS = 16  # hierarchies in the literature have two to four
MAX_PHASES = 1000  # each phase is composed on its own, and repeats what it inherits
NOISE = "mechanism.noise_multiplier"
SCHEMES = {name: scheme.keys for name, scheme in schemes.SCHEMES.items()}
"""Keys that a draw takes beside `scheme`, by sampling scheme; `size`, `bins` and `times` are then required."""
_REQUIRED_DRAW_KEYS = ("size", "bins", "times", "groups")
_CLAUSE = r"\s*(>=|<=|==|!=|~=|>|<)\s*[0-9]{1,6}(\.[0-9]{1,6}){0,5}(\.\*)?\s*"
REQUIREMENT = rf"^{_CLAUSE}(,{_CLAUSE})*$"
_SHORT = "Short for data with one level: "


def _reference(name: str) -> Structure:
    """Return the type of a section with a definition of its own in the JSON Schema."""
    return Structure({"$ref": f"#/$defs/{name}"})


_DELTAS = (Fraction(1, 10**300), 1 - TINY, "more than 0 (at least 1e-300) and below 1")


class _Delta(Exact):
    """A delta, for which a config may state a power."""

    def as_json_schema(self) -> Schema:
        power = {"power": {"type": "number", "exclusiveMinimum": 0, "maximum": 10}}
        return {"anyOf": [super().as_json_schema(), mapping_of(power, ["power"])]}


_EXPECTED = Exact(TINY, Fraction(MAX_COUNT), "more than 0 and at most 1e+15")
_COUNTS: Schema = {"type": "array", "items": {"type": ["array", "integer", "string"]}, "minItems": 1}


# The sections.

LEVEL = {
    "name": declare(
        LEVEL_NAME,
        "Name of one unit of this level, e.g. user, task, example.",
        advice="add a name such as `user` or `example`",
    ),
    "count": optional(
        LEVEL_COUNT,
        "Number of units under each unit of the level above; for add-remove in the larger data set. "
        "{min: 5, max: 64} where it varies; `unknown` as for `data.examples`; left out with `data.tree`.",
        advice="say how many there are under each parent",
    ),
    "min": optional(COUNT, "The fewest under one unit of the level above, with `max`."),
    "max": optional(COUNT, "The most under one unit of the level above, with `min`."),
}

DATA = {
    "examples": optional(
        EXAMPLE_COUNT,
        f"{_SHORT}the number of examples, at a level called `example`; `unknown` where nobody knows it and the draw is "
        "by a rate, on which alone epsilon depends.",
        is_short_form=True,
    ),
    "levels": declare(
        ListOf(LEVEL, 1, MAX_LEVELS, f"1 to {MAX_LEVELS} levels", definition="Level"),
        "The levels of nesting, outermost first.",
        advice="add `examples: 60_000`, or `levels` with a name and a count each",
    ),
    "tree": optional(
        Structure({"anyOf": [_COUNTS, DATA_FILE]}),
        "Number of records in every unit, where units differ in size: nested lists such as "
        "[[4, 2, 3], [4, 5]], or {file: counts.json}.",
    ),
}

DRAW = {
    "scheme": declare(
        Word((*SCHEMES, LOADER)),
        "poisson: each one on its own; fixed: a fixed number without replacement; with-replacement: independent draws "
        "of one; shuffle: batches cut from a random order, all units in each pass; balls-in-bins: each one in a step "
        "of the pass that it chooses; random-allocation: each one in so many steps of the phase; all: everything. For "
        "mechanism type matrix-factorization: any-order, nothing is assumed but the limits of `mechanism`; "
        "cyclic-poisson, one group after the other. loader: what the class `of` draws. Never assumed: state what the "
        "sampler really does.",
        advice=f"one of {', '.join(SCHEMES)}; dpcalc does not guess how batches are drawn",
    ),
    "size": optional(
        DRAW_SIZE,
        "Number of units drawn, for schemes fixed, with-replacement and shuffle; for fixed and shuffle all "
        "of them is the same as scheme all. For fixed also {at_most: 8}: all of a parent that holds fewer.",
        advice="say how many are drawn",
    ),
    "rate": optional(
        Exact(TINY, Fraction(1), "more than 0 (at least 1e-15) and at most 1", quotients=True),
        "Probability that one is drawn, for scheme poisson, and for cyclic-poisson by a step of its group; exact, also "
        "as a quotient such as 1/97.",
    ),
    "expected": optional(
        _EXPECTED,
        "Average number of units drawn, for scheme poisson; the rate is expected / count.",
    ),
    "draws": declare(
        COUNT,
        "For scheme poisson: independent draws that one step adds up before its noise, as Opacus does where gradients "
        "are accumulated over several batches of its loader: a unit is in the step up to so many times. `rate` and "
        "`expected` are those of one draw.",
        default=1,
    ),
    "max_batch_size": optional(
        COUNT,
        "Largest number of units that stay in a draw of scheme poisson or cyclic-poisson: of more, as many are left "
        "out at random. Left out, all stay.",
    ),
    "redraw_every": declare(
        COUNT,
        "Steps for which one draw is held, an episode; for each level a multiple of that of the next. Not "
        "for schemes with-replacement and shuffle, and not with max_batch_size.",
        default=1,
    ),
    "drop_last": declare(
        TRUTH,
        "For scheme shuffle: whether a pass leaves out those that fill no whole batch, another random part "
        "in each pass, so that every batch holds `size`.",
        default=False,
    ),
    "order": declare(
        Word(("any", "secret")),
        "For scheme shuffle: secret says that each pass has a uniform order of its own, from a seed that nobody else "
        "knows, with each unit once, no batch across two passes, and the same noise in each batch. any says nothing: "
        "then no amplification is claimed.",
        default="any",
    ),
    "groups": declare(
        COUNT,
        "Number of groups into which the units are split beforehand, for scheme cyclic-poisson; step i draws from "
        "group i mod groups.",
        default=1,
        advice="say into how many groups the units are split",
    ),
    "max_group_size": optional(
        COUNT,
        "For scheme cyclic-poisson with max_batch_size: most units that any of the groups holds; by default all there "
        "are, which costs more than the true number.",
    ),
    "bins": optional(
        COUNT,
        "For scheme balls-in-bins: steps of a pass, in one of which each unit takes part.",
        advice="say how many steps a pass has",
    ),
    "assignment": declare(
        Word(("fresh", "held")),
        "For scheme balls-in-bins: whether units choose their step anew in each pass, or once for all passes.",
        default="fresh",
    ),
    "times": optional(
        COUNT,
        "For scheme random-allocation: steps of the phase in which each unit takes part.",
        advice="say in how many steps each unit takes part",
    ),
}


@cache
def draw_keys(scheme: str) -> dict[str, Key]:
    """Return the keys that a draw of a scheme takes, some then required; only scheme fixed takes sizes `at_most`."""
    keys = {name: each for name, each in DRAW.items() if name in ("scheme", *SCHEMES[scheme])}
    if "size" in keys and scheme != "fixed":
        keys["size"] = replace(keys["size"], kind=COUNT)
    required = {name: replace(each, is_required=True) for name, each in keys.items() if name in _REQUIRED_DRAW_KEYS}
    return keys | required


SAMPLING = {
    **DRAW,
    "episodes": optional(
        _reference("Episodes"),
        "Tasks that every step constructs from classes and their records, instead of draws of the levels; "
        "`clip: task` clips each of them.",
    ),
}

TRAINING = {
    "steps": optional(NUMBER, "Noisy updates. Either this or `epochs`."),
    "epochs": optional(
        exact(0, MAX_COUNT, "from 0 to 1e+15"),
        "Passes over the outermost level that is not drawn whole, rounded up to whole steps.",
    ),
    "batch_size": optional(
        AnyOf((_EXPECTED, PARTS)),
        f"{_SHORT}`size` or `expected` of its draw, whichever the scheme takes; of a loader its `batch_size`. Or in "
        "parts: {per_device: 16, devices: 8, accumulation: 4, accumulates: physical}.",
        is_short_form=True,
    ),
}

PRIVACY = {
    "unit": optional(
        TEXT,
        "The level whose units are protected; may be left out where there is only one.",
    ),
    "adjacency": optional(
        Word(tuple(each.value for each in Adjacency), as_enum=Adjacency),
        "Difference between two neighbouring data sets: one unit more or less (add-remove, the "
        "default), one exchanged (replace-one), or one whose contribution is nothing (zero-out).",
    ),
    "delta": declare(
        _Delta(*_DELTAS, quotients=True),
        "The delta of the guarantee, by which an event may be more likely beyond the factor e^epsilon; also as a "
        "quotient such as 1/1000000, or {power: 1.1} for 1 / n^1.1 rounded down, n the fewest protected units; well "
        "below 1 / number of protected units to mean anything.",
        advice="by at most this much may an event be more likely beyond the factor e^epsilon, e.g. `delta: 1e-5`; "
        "below 1 / number of protected units",
    ),
    "group_size": declare(COUNT, "Units that are protected together, wherever they are.", default=1),
}

ACCOUNTING = {
    "method": declare(Word(METHODS), "The accountant; auto is the tightest that applies.", default="auto"),
}

TUNING = {
    "mean": declare(
        exact(1 + Fraction(1, 10**6), 10**9, "more than 1 and at most 1e9"),
        "Runs on average; how many it really are is drawn at random and stays secret.",
        advice="say how often the run is repeated on average",
    ),
    "distribution": declare(
        Word(("geometric", "logarithmic", "negative-binomial", "poisson")),
        "Distribution of the number of runs; all but poisson make at least one.",
        default="geometric",
    ),
    "shape": optional(
        exact(Fraction(1, 10**6) - 1, 10**6, "more than -1 and at most 1e6"),
        "Of negative-binomial alone: 1 is geometric, near 0 logarithmic.",
    ),
}

CALIBRATED = {
    "calibrated_to": declare(
        _reference("Target"), "The target for which the library looked.", advice="add `calibrated_to: {epsilon: 8}`"
    ),
    "by": declare(
        Word((*LIBRARIES, CLASSICAL)),
        "Library and accountant that found it, by `make_private_with_epsilon`, `get_noise_multiplier` and the like; or "
        "`gaussian.classical`, sqrt(2 ln(1.25 / delta)) / epsilon of one release.",
        advice=f"one of {', '.join((*LIBRARIES, CLASSICAL))}",
    ),
    "assuming": optional(
        _reference("Assumed"),
        "The Poisson run that the library was told of; by default the declared run, where that is one.",
    ),
}

TARGET = {
    "epsilon": declare(exact("1e-9", 10**9, "from 1e-9 to 1e9"), "The target epsilon.", advice="e.g. `epsilon: 8`"),
    "delta": optional(exact(*_DELTAS, quotients=True), "Its delta; by default `privacy.delta`."),
}

ASSUMED_RUN = {
    "rate": declare(DRAW["rate"].kind, "Its sampling rate, 1 / len(loader) under Opacus.", advice="e.g. `rate: 1/235`"),
    "steps": declare(COUNT, "The steps of that run.", advice="state `steps`: epochs times the batches of one"),
}

PART = {
    "name": declare(FILLED_LABEL, "Name of the part, which `part` of a phase names.", advice="give the part a name"),
}

PARTITION = {
    "rule": declare(
        FILLED_LABEL,
        "How the part of a unit is found: from the unit itself alone, never from other units or from results.",
        advice="say how a unit's part is found, e.g. `rule: sha256 of the user id, modulo 4`",
    ),
    "parts": declare(
        ListOf(PART, 1, MAX_PHASES, f"1 to {MAX_PHASES} parts", definition="Part"),
        "The parts; every unit is in at most one.",
        advice="name the parts, e.g. `parts: [{name: north}, {name: south}]`",
    ),
}

PHASE = {
    "name": optional(LABEL, "Name of the phase in results."),
    "part": optional(
        LABEL,
        "The part of the data that the phase draws from, one of `partition`; all data by default.",
    ),
    "sampling": optional(_reference("Sampling"), "Changes in the draws of a step."),
    "mechanism": optional(_reference("Mechanism"), "Changes in the mechanism."),
    "training": optional(_reference("Training"), "Length of the phase."),
}

FILE = {
    "version": declare(
        Structure({"const": 1, "type": "integer"}), "The version of the format: 1.", advice="add `version: 1`"
    ),
    "name": optional(LABEL, "Name of the run in results."),
    "requires": optional(
        Structure({"type": "string", "pattern": REQUIREMENT}),
        'Versions of dpcalc that may read this config, e.g. ">=0.1, <2".',
    ),
    "data": declare(
        _reference("Data"),
        "The data: units within units. The same in every phase.",
        advice="add `data: {examples: 60_000}`, or `data.levels`",
    ),
    "sampling": optional(
        _reference("Sampling"),
        "The draws of one step: a draw for each level by the level's name, or, with one level, the "
        "draw itself. An inner level left out is drawn whole.",
        advice="say how a step draws its batch, e.g. `sampling: {scheme: poisson}`; dpcalc does not guess",
    ),
    "mechanism": optional(
        _reference("Mechanism"),
        "The mechanism that one step applies to its batch.",
        advice="add `mechanism: {noise_multiplier: 1.1, max_grad_norm: 1.0}`",
    ),
    "training": optional(
        _reference("Training"),
        "Length of training.",
        advice="add `training: {steps: 10_000}`, or `epochs`",
    ),
    "phases": optional(
        Structure({"type": "array", "items": {"$ref": "#/$defs/Phase"}, "minItems": 1, "maxItems": MAX_PHASES}),
        "Phases of training one after the other, each of which inherits from the top level.",
    ),
    "privacy": declare(
        _reference("Privacy"),
        "The protected unit, adjacency and delta. The same in every phase.",
        advice="add `privacy: {delta: 1e-5}`",
    ),
    "accounting": optional(_reference("Accounting"), "The choice of the accountant."),
    "budget": optional(_reference("Budget"), "The limits on epsilon that `check` tests."),
    "tuning": optional(
        _reference("Tuning"),
        "The run is repeated, e.g. with other settings, and only the best result is released.",
    ),
    "partition": optional(
        _reference("Partition"),
        "Disjoint parts of the data that phases may draw from: a unit pays for its own part and for all data alone.",
    ),
}


# The kinds of sections.


class SectionKind(NamedTuple):
    """A kind of section: its definition in the JSON Schema, and the keys that it takes."""

    name: str
    description: str
    keys: Mapping[str, Key]


SECTIONS: dict[str, SectionKind | None] = {
    "": SectionKind("File", "A dpcalc config, or the `dpcalc:` section of a training config.", FILE),
    "data": SectionKind("Data", "The data: units within units. Either `levels` or `examples`.", DATA),
    "data.levels[]": SectionKind("Level", "One level of nesting.", LEVEL),
    "sampling": SectionKind(
        "Sampling",
        "The draws of one step, for each level by the level's name; an inner level left out is drawn whole.\n\n"
        "With one level the draw may stand here directly.",
        SAMPLING,
    ),
    "sampling.*": SectionKind(
        "Draw", "The draw of one level: how one step draws from each drawn unit of the level above.", DRAW
    ),
    "sampling.episodes": SectionKind("Episodes", inspect.getdoc(Episodes) or "", keys_of(Episodes)),
    "mechanism": None,
    "mechanism.also": None,
    NOISE: SectionKind("Calibrated", "Noise that a library found for a target epsilon.", CALIBRATED),
    f"{NOISE}.calibrated_to": SectionKind("Target", "The target for which noise was looked for.", TARGET),
    f"{NOISE}.assuming": SectionKind("Assumed", "The Poisson run that a library was told of.", ASSUMED_RUN),
    "training": SectionKind("Training", "The length of training: either `steps` or `epochs`.", TRAINING),
    "phases[]": SectionKind(
        "Phase", "A phase of training. Keys that it does not state are inherited from the top level.", PHASE
    ),
    "privacy": SectionKind("Privacy", "The protected unit, adjacency, delta and group size.", PRIVACY),
    "accounting": SectionKind("Accounting", "The choice of the accountant.", ACCOUNTING),
    "budget": SectionKind("Budget", inspect.getdoc(Budget) or "", keys_of(Budget)),
    "tuning": SectionKind(
        "Tuning", "The run is repeated a random number of times, and only the best result is released.", TUNING
    ),
    "partition": SectionKind(
        "Partition",
        "A division of the units of the outermost level into disjoint parts, each with runs of its own.",
        PARTITION,
    ),
    "partition.parts[]": SectionKind("Part", "A part of the data.", PART),
}
"""Kinds of sections by generalised dotted path; the mechanisms declare the keys of theirs."""


def keys_in(section: str) -> dict[str, Key]:
    """Return the keys allowed in a kind of section, for `mechanism` those of all types; {} for none of SECTIONS."""
    if section == "mechanism":
        return _all_mechanism_keys(tuple(MECHANISMS))
    if section == "mechanism.also":
        kind = mechanism_keys("gaussian")["also"].kind
        return keys_of(kind.item) if isinstance(kind, ListOf) else {}
    declared = SECTIONS.get(section)
    return {} if declared is None else dict(declared.keys)


def mechanism_keys(name: str) -> dict[str, Key]:
    """Return the keys of `mechanism` under one type, `type` first."""
    return {"type": TYPE, **keys_of(mechanism_class(name))}


@cache
def _all_mechanism_keys(mechanisms: tuple[str, ...]) -> dict[str, Key]:
    """Return the keys of several mechanism types; one that several declare has all meanings and takes all values."""
    merged: dict[str, Key] = {}
    for mechanism in mechanisms:
        for name, each in mechanism_keys(mechanism).items():
            before = merged.get(name, each)
            meanings = (before.meaning,) if each.meaning in before.meaning else (before.meaning, each.meaning)
            kind, other = before.kind, each.kind
            if isinstance(kind, Exact) and isinstance(other, Exact) and kind != other:
                kind = Exact(
                    min(kind.min_value, other.min_value),
                    max(kind.max_value, other.max_value),
                    kind.words,
                    gap=tuple(dict.fromkeys((*kind.gap, *other.gap))),
                    quotients=kind.quotients or other.quotients,
                )
            elif kind != other:
                kind = AnyOf((*kind.kinds, other) if isinstance(kind, AnyOf) else (kind, other))
            merged[name] = replace(before, kind=kind, meaning=" ".join(meanings))
    return merged


# The JSON Schema. It cannot state the following, which dpcalc alone checks: that levels, `unit` and `clip` name each
# other; that draws, groups and tasks fit into counts, and periods into each other; that every level and phase in the
# end has a scheme, an amount and a length; that a draw does not stand next to level names; that names differ; which
# letters a name may hold; what a reference leads to; which version of dpcalc this is; that a number with underscores
# has no quotes.


DIALECT = "https://json-schema.org/draft/2020-12/schema"
_INHERITED = {"Data", "Draw", "Episodes", "Sampling", "Training"}
"""Sections whose keys a phase may leave out, or that have a short form: nothing is required of them."""
_REFERENCE = {
    "type": "string",
    "pattern": r"^\s*(\$\{|[-+0-9._eE]+ +[*/] +[-+0-9.$])",
    "description": "Elsewhere: `${section.key}` of this file, `${conf/train.yaml:section.key}` of another; or a "
    "product such as `${a} * 8`.",
}
_DIGITS = {
    "type": "string",
    "pattern": r"^[-+]?[0-9]+(_[0-9]+)+(\.[0-9_]*)?([eE][-+]?[0-9]+)?$",
    "description": "A number with underscores, without quotes: some editors take it for a text.",
}

_Row = tuple[str, str, str, str]  # dotted key, type of its value, default, meaning


def json_schema() -> Schema:
    """Return the JSON Schema of a whole config, with one definition in `$defs` for each kind of section."""
    file, *sections = filter(None, SECTIONS.values())
    definitions = {section.name: _section_schema(section) for section in sections}
    description = "The mechanism that one step applies to its batch."
    definitions["Mechanism"] = _mapping_schema(keys_in("mechanism") | NOISE_KEYS, description, [])
    definitions["Parties"] = _mapping_schema(PARTIES, "Parties that each add noise of their own.", [*PARTIES])
    definitions["Mechanism"]["properties"]["max_grad_norm"]["anyOf"].append(NORMS)
    # Keys that exclude each other or need each other.
    # Sizes: `examples`, or levels with a count or range each, or named levels and a tree.
    ends = [{"required": ["min"]}, {"required": ["max"]}]
    count = {"required": ["count"], "not": {"anyOf": ends}}
    level = {"oneOf": [count, {"required": ["min", "max"], "not": {"required": ["count"]}}]}
    name_only = {"not": {"anyOf": [{"required": ["count"]}, *ends]}}
    sizes: Schema = {
        "oneOf": [{"required": ["levels"]}, {"required": ["examples"]}],
        "not": {"required": ["examples", "tree"]},
        "if": {"required": ["tree"]},
        "then": {"properties": {"levels": {"items": name_only, "minItems": 2}}},
        "else": {"properties": {"levels": {"items": level}}},
    }
    # Draws: `rate` excludes `expected`, each scheme excludes what it does not take, and only fixed takes {at_most: 8}.
    draws: list[Schema] = [{"not": {"required": ["rate", "expected"]}}]
    for name, taken in {**SCHEMES, LOADER: ("drop_last", "order", "size", *LOADER_KEYS)}.items():
        others = [{"required": [key]} for key in DRAW | LOADER_KEYS if key not in ("scheme", *taken)]
        size: Schema = {} if name == "fixed" else {"properties": {"size": {"not": {"type": "object"}}}}
        draws.append({"if": _states("scheme", name), "then": {"not": {"anyOf": others}, **size}})
    # Mechanisms: each type has its own keys; without `type` all are allowed.
    types = []
    for name in MECHANISMS:
        keys = {
            "propertyNames": {
                "anyOf": [
                    {"enum": [*mechanism_keys(name), *(NOISE_KEYS if name == "gaussian" else ())]},
                    {"pattern": "^x-"},
                ]
            }
        }
        types.append({"if": _states("type", name), "then": keys})
    definitions["Data"] |= sizes
    for name in ("Draw", "Sampling"):  # keys that are written out before a section is read
        definitions[name]["properties"] |= {key: _property_schema(each) for key, each in LOADER_KEYS.items()}
    definitions["Draw"] |= {"allOf": draws}
    definitions["Sampling"] |= {
        "additionalProperties": {"$ref": "#/$defs/Draw"},
        "allOf": draws,
        "if": {"required": ["episodes"]},  # tasks are constructed: no draws by level
        "then": {"propertyNames": {"pattern": "^(episodes$|x-)"}},
    }
    definitions["Training"] |= {"not": {"required": ["steps", "epochs"]}}
    layers = {"properties": {"max_grad_norm": {"type": "array"}}, "required": ["max_grad_norm"]}
    types.append({"if": layers, "then": {"required": ["noise_relative_to"]}})
    definitions["Mechanism"] |= {"allOf": types}
    definitions["Mechanism"]["properties"]["noise_multiplier"]["anyOf"].append({"$ref": "#/$defs/Calibrated"})
    # Without `phases` a file needs complete sampling, mechanism and training. What a mechanism needs depends on its
    # type, Gaussian if none is stated: a chain of if and else, since JSON Schema has no distinction of cases.
    needed: Schema = {"required": ["noise_multiplier"]}
    for name in MECHANISMS:
        required = [key for key, each in mechanism_keys(name).items() if each.is_required]
        needed = {"if": _states("type", name), "then": {"required": required}, "else": needed}
    parts = {
        "sampling": {"properties": {"episodes": {"required": ["tasks", "ways", "shots", "queries"]}}},
        "mechanism": needed,
        "training": {"anyOf": [{"required": ["steps"]}, {"required": ["epochs"]}]},
    }
    return {
        "$schema": DIALECT,
        "title": "dpcalc config",
        **_section_schema(file),
        "if": {"not": {"required": ["phases"]}},
        "then": {"required": ["sampling", "mechanism", "training"], "properties": parts},
        "$defs": definitions | {"reference": _REFERENCE, "digits": _DIGITS},
    }


def json_schema_text() -> str:
    """Return the JSON Schema as `dpcalc schema` prints it: indented JSON with a line break at the end."""
    return json.dumps(json_schema(), indent=2, ensure_ascii=False) + "\n"


def _states(key: str, word: str) -> Schema:
    """Return, as JSON Schema, that a key is stated and has this word as its value."""
    return {"properties": {key: {"const": word}}, "required": [key]}


def _section_schema(section: SectionKind) -> Schema:
    """Return the JSON Schema of a section of the file; it requires no key that a phase may inherit."""
    # What may be inherited or written in short is required by dpcalc alone.
    required = [name for name, each in section.keys.items() if each.is_required and section.name not in _INHERITED]
    return _mapping_schema(section.keys, section.description, required)


def _mapping_schema(keys: Mapping[str, Key], description: str, required: list[str]) -> Schema:
    """Return the JSON Schema of a mapping that takes some keys, of which some are required, and `x-` keys."""
    return {
        "description": description,
        "type": "object",
        "properties": {name: _property_schema(each) for name, each in keys.items()},
        "additionalProperties": False,
        **({"required": required} if required else {}),
        "patternProperties": {"^x-": True},
    }


def _property_schema(declared: Key) -> Schema:
    """Return the JSON Schema of a key: its meaning, its default if that is a finite scalar, and its value."""
    about: Schema = {"description": declared.meaning}
    is_shown = isinstance(declared.default, bool | int | float | str) and declared.default != math.inf
    if is_shown and not declared.is_required:
        about["default"] = declared.default
    core = declared.kind.as_json_schema()
    if getattr(declared.kind, "quotients", False):
        core = {"anyOf": [*core.get("anyOf", [core]), {"type": "string", "pattern": QUOTIENT_PATTERN}]}
    # A text may be a reference anyway, and what stands in a list or mapping has its own alternatives.
    if "$ref" in core or core.get("type") == "array" or core == {"type": "string"}:
        return about | core
    is_number = any(schema.get("type") in {"integer", "number"} for schema in (core, *core.get("anyOf", ())))
    digits = [{"$ref": "#/$defs/digits"}] if is_number else []  # with underscores
    return about | {"anyOf": [core, {"$ref": "#/$defs/reference"}, *digits]}


# Every key of the config file in a table, from its JSON Schema.


_LEVEL_NAME = "<level>"  # stands for the name of a level
_TYPE_WORDS = {"string": "text", "boolean": "true or false", "array": "list", "object": "mapping"}
_HEAD = """# Keys of a dpcalc config

Every key, its type and range, its default where it may be left out, and what it means.

A value may be a reference: `${section.key}` of the same file, `${conf/train.yaml:section.key}` of another file of the
repository, or a product such as `"${a} * 8"`: [references.md](references.md). Keys that begin with `x-` are yours.

| key | value | default | meaning |
|---|---|---|---|
"""


def key_table() -> str:
    """Return all keys as a Markdown table, in the order of the file."""
    return _HEAD + "".join(f"| {' | '.join(row)} |\n" for row in table_rows())


def table_rows() -> Iterator[_Row]:
    """Yield the rows of the table: (dotted key, type of its value, default, meaning)."""
    schema = json_schema()
    return _section_rows(schema, "", schema["$defs"], set())


def _section_rows(section: Schema, path: str, sections: Schema, described: set[str]) -> Iterator[_Row]:
    """Yield the rows of a section's keys and of the mappings in it, which are added to `described` and not repeated."""
    for key, value in section["properties"].items():
        dotted, name = f"{path}.{key}" if path else key, _mapping_name(value)
        meaning = f"{value['description']} Keys as above." if name in described else value["description"]
        default = value.get("default", "")
        if key in section.get("required", ()):
            shown = "required"
        elif isinstance(default, bool):
            shown = f"`{str(default).lower()}`"
        elif isinstance(default, float):
            shown = f"`{default:g}`"
        else:
            shown = f"`{default}`" if default != "" else ""
        yield f"`{dotted}`", _value_text(value), shown, meaning.replace("|", "\\|")
        if name and name not in described:
            described.add(name)
            inner = f"{dotted}[]" if "items" in value else dotted
            yield from _section_rows(sections[name], inner, sections, described)
    if isinstance(section.get("additionalProperties"), dict):  # `sampling`, whose other keys name levels
        yield f"`{path}.{_LEVEL_NAME}`", "mapping", "", "The draw of a level, by its name. Keys as above."


def _mapping_name(value: Schema) -> str:
    """Return the name in `$defs` of the mapping that a value is or, as a list, consists of; "" for other values."""
    named = [value.get("items", value), *value.get("anyOf", ())]  # a number may be a reference, or have underscores
    names = (str(each.get("$ref", "")).rpartition("/")[2] for each in named)
    return next((name for name in names if name not in {"", "reference", "digits"}), "")


def _value_text(value: Schema) -> str:
    """Return the types of a value in words, joined by "or" and without references, such as "list of mappings"."""
    if _mapping_name(value) and "anyOf" not in value:
        return "mapping" if "$ref" in value else "list of mappings"
    kinds = [schema for schema in value.get("anyOf", [value]) if "$ref" not in schema]
    texts = []
    for schema in (inner for kind in kinds for inner in kind.get("anyOf", [kind])):
        if "enum" in schema:
            texts.append(", ".join(f"`{word}`" for word in schema["enum"]))
        elif "const" in schema:
            number = isinstance(schema["const"], float)
            texts.append(f"`{schema['const']:g}`" if number else f"`{schema['const']}`")
        elif schema.get("pattern") == QUOTIENT_PATTERN:
            texts.append("quotient such as `1/97`")
        elif schema["type"] in _TYPE_WORDS:
            texts.append(_TYPE_WORDS[schema["type"]])
        else:
            noun = "whole number" if schema["type"] == "integer" else "number"
            # an end within rounding of 1 is 1
            low, high = ("1" if math.isclose(end, 1) else f"{end:g}" for end in (schema["minimum"], schema["maximum"]))
            texts.append(f"{noun}, {low} to {high}")
    texts += ["mapping"] if _mapping_name(value) else []
    return " or ".join(texts)
