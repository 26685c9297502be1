"""The words of errors in a config, each with its place in the file, and hints for unknown words."""

import re
from collections.abc import Iterable
from functools import lru_cache
from itertools import islice

from dpcalc.config import scalars
from dpcalc.config.scalars import BATCH_SIZE, DRAW_KEYS, EPISODES
from dpcalc.config.schema import NOISE, SECTIONS, keys_in, mechanism_keys
from dpcalc.config.source import Diagnostic, error
from dpcalc.config.tree import USER_KEY, Items, Node, Scalar, Section, entries_of, entry, join, node_at, text_at
from dpcalc.config.words import (
    Beside,
    Meaning,
    is_misspelling,
    list_meaning,
    meaning,
    no_number,
    value_meaning,
)
from dpcalc.errors import KeyedInputError, listed
from dpcalc.keys import keys_of
from dpcalc.mechanisms.kinds import MECHANISMS
from dpcalc.sampling.hierarchy import Episodes

# Hints for unknown words in a config: synonyms of other tools, settings that are not covered, and misspellings.

# A key that several kinds of sections have is looked for in these sections last.
_LAST_HOMES = ("mechanism", "mechanism.also", "tuning", "sampling.episodes", *(x for x in SECTIONS if NOISE in x))
# Accounting methods that dpcalc knows by name and does not offer, with the advice for each.
PLANNED_METHODS = {
    "gdp": "it proves nothing; `dpcalc compare` shows it beside the bounds",
    "inversion": "it is accurate but proves nothing; `dpcalc compare` shows it beside the bounds",
}


def section_kind(path: str) -> str:
    """Return the key of `schema.SECTIONS` for a path, such as "sampling.*" for "phases[3].sampling.task"."""
    general = re.sub(r"\[[0-9]+\]", "[]", path).removeprefix("phases[].").replace("also[]", "also")
    return "sampling.*" if general.startswith("sampling.") and general not in SECTIONS else general


@lru_cache(maxsize=16_384)  # more keys than a config may have: each is looked up for two questions
def key_suggestion(section: str, key: str) -> Meaning:
    """Return what an unknown key means: a word of another tool, misplaced or misspelt; else the allowed keys."""
    # From what is surely meant to what is only near: a key of another section is more likely misplaced than misspelt.
    foreign = _foreign(section, meaning(section, key))
    if foreign is not None:
        return foreign
    homes = [home for home in SECTIONS if home not in {"", "phases[]", "sampling.*"} and key in keys_in(home)]
    if homes:
        home = min(homes, key=lambda each: _LAST_HOMES.index(each) if each in _LAST_HOMES else -1)
        # The meaning too: `rate` may be a learning rate, `mean` that of the noise.
        meant = re.split(r"[.,;:] ", keys_in(home)[key].meaning.lstrip(". "))[0].rstrip(".")
        hint = f"it belongs in `{home}`: {meant[:1].lower()}{meant[1:]}"
        return Meaning(hint, f"{home.partition('.')[0]}.{key}", is_rename=True)
    allowed = tuple(keys_in(section))
    near = nearest(key, allowed)
    if near:  # the keys of the top and of a phase are sections
        about = near if section in {"", "phases[]"} else f"{section.partition('.')[0]}.{near}"
        return Meaning(f"did you mean `{near}`?", about, is_rename=True)
    hint = f"allowed here: {', '.join(allowed)}; your own data may stand under `x-...` keys"
    return Meaning(hint if allowed else "")


def _foreign(section: str, found: Meaning | None) -> Meaning | None:
    """Return what a word of another tool means; a renamed key of the same section is named without it."""
    if found and found.is_rename and found.key in keys_in(section) and found.section == section.partition(".")[0]:
        return found._replace(hint=found.hint.replace(f"`{found.about}`", f"`{found.key}`", 1))
    return found


def sections_meant(entries: Iterable[str], section: str = "") -> frozenset[str]:
    """Return the top-level sections that the unknown keys of a file or phase probably mean."""
    unknown = (key for key in entries if key not in keys_in(section) and not key.startswith(USER_KEY))
    return frozenset(key_suggestion(section, key).section for key in unknown) - {""}


def value_suggestion(key: str, text: str, allowed: tuple[str, ...]) -> str:
    """Return a hint at the allowed word that a wrong one means, as a word of others or misspelt; "" without one."""
    near = nearest(text, allowed)
    return value_meaning(key, text) or (f"did you mean `{near}`?" if near else "")


# Words compared with a misspelling, at 15 microseconds each. No list of ours is longer, but a hostile file may name
# thousands of levels, and every wrong key is compared with all of them.
MAX_COMPARED = 100


def nearest(word: str, choices: tuple[str, ...]) -> str:
    """Return the choice that is most similar to a misspelt word; "" if none is probably meant."""
    import difflib

    meant = [choice for choice in choices[:MAX_COMPARED] if is_misspelling(word, choice)]
    return next(iter(difflib.get_close_matches(word[:64], meant, n=1, cutoff=0)), "")


# Errors, each with its place in the file.

NOT_YET = "is not supported by this version of dpcalc"
DRAW_FORM = "a mapping such as {scheme: poisson, rate: 0.01}"


def missing_key_error(section: Node, key: str, advice: str = "") -> Diagnostic:
    """Return DPC103 for a key that a section lacks, with advice (by default that of its declaration)."""
    if not advice:  # of all mechanisms it is looked up only where nobody knows better: that loads them
        kind = section_kind(section.path)
        declared = keys_in("" if kind == "phases[]" else kind).get(key)
        advice = declared.advice if declared else ""
    return error("DPC103", section.anchor, f"`{join(section.path, key)}` is missing", advice)


def must_be(code: str, node: Node, expected: str, hint: str = "") -> Diagnostic:
    """Return the error "... must be `expected`, got ..."."""
    return node.fault(code, f"must be {expected}, got {scalars.describe(node)}", hint)


def keyed_error(section: Node, cause: KeyedInputError) -> Diagnostic:
    """Return a constructor's error at the value that it names, or at the whole section if the file lacks that value."""
    keys = (int(key) if key.isdecimal() else key for key in cause.key.split("."))
    node = node_at(section, *keys) or section
    return node.fault(cause.code, cause.problem, cause.hint)


_RANGE = re.compile(r"([0-9_]{1,20}) *(?:-|\.\.|to) *([0-9_]{1,20})")


def wrong_type_error(node: Node, expected: str) -> Diagnostic:
    """Return DPC102 "... must be `expected`, got ..." with a hint at quotes, {min, max} or the form of a number."""
    key, hint = node.name, ""
    if isinstance(node, Items):
        norms = [scalars.number_of(each) for each in node.items]
        hint = list_meaning(key, [norm for norm in norms if norm is not None])
    elif isinstance(node, Section):
        found = (meaning(section_kind(node.path.rpartition(".")[0]), word) for word in entries_of(node))
        hint = next((each.hint for each in found if each), "")
    elif node.path == "budget" and scalars.number_of(node) is not None:
        hint = f"write {{epsilon: {node.text}}}"
    elif expected in {"a text", "a name"} and not isinstance(scalars.value(node), str):
        hint = value_meaning(key, node.text) or "quote it to make it a text"
    else:
        is_inner = re.fullmatch(r"data\.levels\[[1-9][0-9]*\]\.count", node.path)  # the outermost is only one
        ends = _RANGE.fullmatch(node.text) if is_inner else None
        if ends:
            hint = f"for units that differ in size write {{min: {ends[1]}, max: {ends[2]}}}"
        elif "number" in expected:
            hint = scalars.number_hint(node) or no_number(key, node.text)
    name = f"`{node.path}`" if node.path else "the file"
    return error("DPC102", node.anchor, f"{name} must be {expected}, got {scalars.describe(node)}", hint)


def unknown_key_error(section: Node, key: str, value: Node) -> Diagnostic:
    """Return DPC101 for a key that the schema does not have, with the key that was probably meant."""
    place = f"in `{section.path}`" if section.path else "at the top level"
    kind = section_kind(section.path)
    found = _foreign(kind, meaning(kind, key, beside(section))) or key_suggestion(kind, key)
    return error("DPC101", value.start, f"unknown key `{key}` {place}", found.hint)


@lru_cache(maxsize=1)  # of the section asked about last: each of thousands of wrong keys asks for it
def beside(section: Node) -> Beside:
    """Return the scalars of a section by word, for the conversion of a word of another tool."""
    return Beside({key: node.text for key, node in entries_of(section).items() if isinstance(node, Scalar)})


def wrong_word_error(key: str, node: Node, allowed: tuple[str, ...]) -> Diagnostic:
    """Return DPC104 for a value that is no allowed word, with other advice for a planned method; DPC102 for no text."""
    if not isinstance(node, Scalar) or not isinstance(scalars.value(node), str):
        return wrong_type_error(node, listed(allowed))
    if key == "method" and node.text in PLANNED_METHODS:
        return error("DPC104", node.anchor, f"accounting method `{node.text}` {NOT_YET}", PLANNED_METHODS[node.text])
    return must_be("DPC104", node, listed(allowed), value_suggestion(key, node.text, allowed))


def no_levels_error(sampling: Section, names: tuple[str, ...], *, is_direct: bool) -> Diagnostic | None:
    """Return the error of a misspelt `episodes`, else of a draw stated without its level; None without either."""
    # `episodes` first: misspelt it would be taken for the name of a level, and its keys for those of a draw.
    known, inside = keys_in("sampling"), keys_of(Episodes)
    for key, value in islice(sampling.entries.items(), MAX_COMPARED):
        if key in names or key in known or key.startswith(USER_KEY) or nearest(key, names):
            continue
        near = nearest(key, (*known, *inside))
        if near == EPISODES or near in inside:
            hint = f"did you mean `{near}`?" if near == EPISODES else f"put it under `{EPISODES}`"
            return error("DPC101", value.start, f"unknown key `{key}` in `{sampling.path}`", hint)
    if not is_direct:
        return None
    several = f", but the data have {len(names)} levels ({', '.join(names)})"
    named = f" and names the level `{names[0]}` as well"
    message = f"`{sampling.path}` describes a draw directly{several if len(names) > 1 else named}"
    hint = f"put everything under the level: `sampling: {{{names[0]}: {{scheme: ...}}}}`"
    # What the command line added is more likely the mistake than what the file says.
    added = (each for each in sampling.entries.values() if each.mark.source is not sampling.mark.source)
    return error("DPC107", next((each.start for each in added), sampling.anchor), message, hint)


def extra_key_error(section: Section, key: str, value: Node) -> Diagnostic:
    """Return the error of a key that a section does not take: DPC107 if another value excludes it, else DPC101."""
    mark, scheme = value.start, text_at(section, "scheme")
    if key == "examples" and section.path == "data":
        message = "`examples` and `levels` in `data` both say what there is"
        return error("DPC107", mark, message, "`examples: N` is short for one level; keep one of them")
    if section_kind(section.path) == "mechanism" and key in keys_in("mechanism"):
        name = text_at(section, "type", "gaussian")
        allowed = [f"`{each}`" for each in mechanism_keys(name) if each != "type"] if name in MECHANISMS else []
        takers = [f"`{each}`" for each in MECHANISMS if key in mechanism_keys(each)]
        hint = f"`{name}` takes {', '.join(allowed)}; `{key}` goes with type {', '.join(takers)}" if allowed else ""
        if key == "also":
            hint = "several answers on one drawn sample are one step: `type: pure-dp` or `approximate-dp` with the "
            hint += "sums of their epsilons and deltas"
        elif name == "gaussian" and key in {"epsilon", "delta"}:
            hint = "`gaussian` takes the noise itself; a step of which only its (epsilon, delta) is known is "
            hint += "`type: approximate-dp`"
        return error("DPC107", mark, f"`{key}` does not go with type `{name}`", hint)
    # A known key in the wrong place deserves an answer about the place; only then is it looked up as a misspelling.
    if not isinstance(entry(section, "scheme"), Scalar) or key not in {*DRAW_KEYS, BATCH_SIZE} - {"scheme"}:
        return unknown_key_error(section, key, value)
    amount = next((name for name in ("size", "expected", "rate") if name in section.entries), None)
    if key == BATCH_SIZE and scheme != "all" and amount:
        return error("DPC107", mark, f"`batch_size` and `{amount}` both say how many are drawn", "keep one of them")
    hint = _EXTRA_KEY_HINTS.get((key, scheme)) or _EXTRA_KEY_HINTS.get((key, ""), "")
    hint = hint or f"`{scheme}` {_TAKES.get(scheme, 'takes `size`')}"
    return error("DPC107", mark, f"`{key}` does not go with scheme `{scheme}`", hint)


# By key of a draw, and the scheme that it does not go with; "" for every other one.
_EXTRA_KEY_HINTS = {
    ("redraw_every", "balls-in-bins"): "`assignment: held` keeps the choice of the first pass",
    ("redraw_every", ""): "fixed, poisson and all draws can be held; others are made in every step",
    ("max_batch_size", ""): "only Poisson batches are cut to a maximum: take it out, or say `scheme: poisson` if the "
    "loader cuts",
    ("drop_last", "poisson"): "Poisson batches have no last one to drop: take it out; Opacus with drop_last=True draws "
    "at `rate: 1/N`, N the batches of its loader: `scheme: loader, of: opacus.PrivacyEngine`",
    (
        "draws",
        "",
    ): "the parts of a pass, or of a draw with replacement, make one larger batch: state its size; for sums of "
    "other draws no bound is proved",
    ("order", ""): "only a shuffle has an order: take it out, or say `scheme: shuffle` if the loader goes through "
    "shuffled data",
    ("drop_last", ""): "only passes over shuffled units have a last batch: take it out, or say `scheme: shuffle` if "
    "the loader goes through shuffled data",
}
_TAKES = {
    "poisson": "takes `rate` or `expected`",
    "cyclic-poisson": "takes `rate` or `expected`, and `groups`",
    "all": "draws everything",
    "any-order": "takes no other key: `mechanism` says in which steps a unit takes part",
    "balls-in-bins": "takes `bins`",
    "random-allocation": "takes `times`",
}
