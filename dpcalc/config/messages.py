"""The words of errors in a config, each with its place in the file, and hints for unknown words."""

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import islice

from dpcalc.config import scalars
from dpcalc.config.scalars import BATCH_SIZE, DRAW_KEYS, EPISODES
from dpcalc.config.schema import SECTIONS, Episodes, keys_in, mechanism_keys
from dpcalc.config.source import Diagnostic, Mark, error
from dpcalc.config.tree import USER_KEY, Node, Scalar, Section, entry, join, node_at
from dpcalc.errors import KeyedInputError, listed
from dpcalc.keys import WrongValueError, keys_of
from dpcalc.mechanisms.kinds import MECHANISMS, mechanism_class
from dpcalc.records import dataclass

# Hints for unknown words in a config: synonyms of other tools, settings that are not covered, and misspellings.

# Our dotted key: names for it in Opacus, TF-Privacy, JAX-Privacy, federated frameworks and papers.
_SYNONYMS = {
    "mechanism.max_grad_norm": "l2_norm_clip l2_clip_norm clipping_norm clip_norm clipping_threshold clipping_bound "
    "clip_bound max_norm grad_norm central_privacy_clipping_bound l2_norm_bound sensitivity dp_l2_norm_clip",
    "mechanism.noise_multiplier": "sigma noise_parameter noise_scale noise noise_mult noise_level stddev z "
    "standard_deviation dp_noise_multiplier",
    "mechanism.clip": "clip_level clipping clip_per",
    "mechanism.categories": "num_buckets num_categories",
    "mechanism.strategy": "strategy_matrix correlation_matrix c_matrix strategy_coefs",
    "mechanism.min_separation": "min_sep separation minimum_separation",
    "mechanism.max_participations": "max_participation num_participations participations epochs_per_user",
    "mechanism.also": "clipped_count adaptive_clipping second_mechanism",
    "mechanism.threshold_noise_multiplier": "threshold_sigma sigma1 check_sigma",
    "mechanism.type": "mechanism_type kind distribution",
    "sampling.rate": "sample_rate sampling_rate sampling_prob sampling_probability subsampling_rate q probability "
    "participation_probability",
    "sampling.expected": "clients_per_round cohort_size expected_batch_size lot_size users_per_round expected_size "
    "num_participants",
    "sampling.size": "meta_batch_size tasks_per_batch number sample_size",
    "sampling.scheme": "sampler sampling_method method_of_sampling poisson_sampling with_replacement",
    "sampling.max_batch_size": "truncated_batch_size batch_size_cap max_cohort_size",
    "sampling.groups": "cycle_length num_groups",
    "sampling.max_group_size": "largest_group_size",
    "sampling.redraw_every": "hold hold_for held_for redraw_interval resample_every",
    "sampling.episodes": "constructed_tasks episodic task_construction",
    "sampling.episodes.ways": "way n_way n_ways num_ways nway",
    "sampling.episodes.shots": "shot k_shot k_shots num_shots kshot k_spt support",
    "sampling.episodes.queries": "query k_query k_qry num_queries test_shots",
    "sampling.episodes.tasks": "num_tasks tasks_per_step task_num",
    "training.batch_size": "logical_batch_size global_batch_size train_batch_size",
    "training.epochs": "num_epochs max_epochs n_epochs train_epochs num_train_epochs",
    "training.steps": "iterations train_steps num_steps max_steps total_steps total_rounds rounds num_rounds n_steps "
    "num_iterations num_updates central_num_iterations max_train_steps compositions "
    "num_training_steps step_count",
    "data.levels": "hierarchy nesting",
    "data.examples": "number_of_examples num_examples train_size dataset_size population num_records records n_samples "
    "num_samples source_dataset_size train_dataset_size data_size num_clients population_size",
    "data.levels[].count": "examples_per_user_per_batch examples_per_user number_of",
    "privacy.delta": "target_delta dp_delta",
    "privacy.adjacency": "neighbors neighbours neighboring neighbouring neighboring_relation neighbouring_relation "
    "relation adjacency_relation dp_type",
    "privacy.unit": "privacy_unit protect protects unit_of_privacy",
    "privacy.group_size": "group group_privacy max_examples_per_user max_elements_per_user",
    "accounting.method": "accountant",
    "tuning": "repetitions hyperparameter_tuning private_selection repeat_and_select",
    "tuning.mean": "mean_runs num_trials trials runs",
    "budget.epsilon": "target_epsilon max_epsilon central_epsilon epsilon_budget eps target_eps privacy_budget",
}
# Settings of other tools that dpcalc has no bound for. The nearest key of ours would mean something else, so that a
# spelling hint would lead to a wrong number.
_NOT_COVERED = {
    "buf_decay": "noise from buffers (BLT) is not covered",
    "output_scale": "noise from buffers (BLT) is not covered",
}
# Synonyms that hold in one kind of section only and win over the general ones there.
_SECTION_SYNONYMS = {
    "data": {"size": "examples", "count": "examples", "number": "examples", "n": "examples", "total": "examples"},
    "data.levels[]": {"size": "count", "number": "count", "n": "count", "examples": "count", "units": "count"},
    "sampling": {"type": "scheme", "method": "scheme", "count": "size", "number": "size"},
    "sampling.*": {"type": "scheme", "method": "scheme", "count": "size", "number": "size"},
    "sampling.episodes": dict.fromkeys(_SYNONYMS["sampling.size"].split(), "tasks"),
    "training": {"size": "batch_size"},
}
# A key that several kinds of sections have is looked for in these sections last.
_LAST_HOMES = ("mechanism", "mechanism.also", "tuning", "sampling.episodes")
_CANONICAL = {synonym: ours for ours, words in _SYNONYMS.items() for synonym in words.split()}
_VALUES = {
    "adjacency": {
        "add-remove": "add-or-remove add-or-remove-one unbounded add remove zero-in",
        "replace-one": "replace substitute substitution swap swap-one bounded change-one",
        "zero-out": "replace-special zeroing zero zero-one-out",
    },
    "scheme": {
        "poisson": "bernoulli",
        "fixed": "uniform without-replacement wor fixed-size",
        "with-replacement": "replacement wr bootstrap",
        "shuffle": "shuffled shuffling reshuffle random-reshuffling epoch",
        "balls-in-bins": "balls-and-bins bins bib",
        "random-allocation": "allocation k-out-of-t",
        "all": "full full-batch none",
        "any-order": "fixed-order deterministic arbitrary",
        "cyclic-poisson": "cyclic",
    },
    "method": {"pld": "prv pldaccountant connect-the-dots", "rdp": "renyi", "moments": "ma moments-accountant"},
}
# Accounting methods that dpcalc knows by name and does not offer, with the advice for each.
PLANNED_METHODS = {
    "gdp": "it proves nothing; `dpcalc compare` shows it beside the bounds",
    "inversion": "it is accurate but proves nothing; `dpcalc compare` shows it beside the bounds",
}


@dataclass(frozen=True, kw_only=True)
class Suggestion:
    """The key that an unknown key probably stands for.

    Attributes:
        hint: sentence for the user, or "".
        key: last part of the meant key, or "".
        section: top-level section that the meant key is in, or is itself; "" if none is near.
    """

    hint: str = ""
    key: str = ""
    section: str = ""


def section_kind(path: str) -> str:
    """Return the key of `schema.SECTIONS` for a path, such as "sampling.*" for "phases[3].sampling.task".

    Example:
        >>> section_kind("phases[3].sampling.task"), section_kind("data.levels[0]"), section_kind("phases[2]")
        ('sampling.*', 'data.levels[]', 'phases[]')
    """
    general = re.sub(r"\[[0-9]+\]", "[]", path)
    general = general.removeprefix("phases[].").replace("also[]", "also")
    return "sampling.*" if general.startswith("sampling.") and general not in SECTIONS else general


@lru_cache(maxsize=16_384)  # more keys than a config may have: each is looked up for two questions
def key_suggestion(section: str, key: str) -> Suggestion:
    """Return the key that an unknown one means: a synonym, misplaced or misspelt; else a list of the allowed keys.

    Args:
        section: kind of section that holds the unknown key, as of `section_kind`.
        key: the unknown key as written.
    """
    # From what is surely meant to what is only near: a key of another section is more likely misplaced than misspelt.
    likely = _not_covered_suggestion(key) or _synonym_suggestion(section, key) or _misplaced_suggestion(key)
    likely = likely or _misspelling_suggestion(section, key)
    if likely is not None:
        return likely
    allowed = ", ".join(keys_in(section))
    return Suggestion(hint=f"allowed here: {allowed}; your own data may stand under `x-...` keys" if allowed else "")


def _synonym_suggestion(section: str, key: str) -> Suggestion | None:
    """Return our key for a key of another tool, by the synonyms of the section first; None if it is no synonym."""
    word = _underscored(key)
    local = _SECTION_SYNONYMS.get(section, {}).get(word)
    ours = f"{section}.{local}" if local else _CANONICAL.get(word)
    if ours is None:
        return None
    top, name = ours.partition(".")[0], ours.rpartition(".")[2]
    is_here = name in keys_in(section) and top == section.partition(".")[0]
    return Suggestion(hint=f"dpcalc calls this `{name if is_here else ours}`", key=name, section=top)


def _not_covered_suggestion(key: str) -> Suggestion | None:
    """Return a hint without a key for another tool's setting that no bound covers; None for other keys."""
    hint = _NOT_COVERED.get(_underscored(key))
    return Suggestion(hint=hint) if hint else None


def _underscored(key: str) -> str:
    """Return a key in small letters, with underscores for hyphens."""
    return key.lower().replace("-", "_")


def _misplaced_suggestion(key: str) -> Suggestion | None:
    """Return a hint to move a key to the section that has it; None if no section has it."""
    homes = [home for home in SECTIONS if home not in {"", "phases[]", "sampling.*"} and key in keys_in(home)]
    homes.sort(key=lambda home: _LAST_HOMES.index(home) if home in _LAST_HOMES else -1)
    if not homes:
        return None
    return Suggestion(hint=f"it belongs in `{homes[0]}`", key=key, section=homes[0].partition(".")[0])


def _misspelling_suggestion(section: str, key: str) -> Suggestion | None:
    """Return the section's key that is spelt most like an unknown one; None if none is near."""
    near = nearest(key, tuple(keys_in(section)))
    if not near:
        return None
    home = near if section in {"", "phases[]"} else section.partition(".")[0]  # keys of those two are sections
    return Suggestion(hint=f"did you mean `{near}`?", key=near, section=home)


def sections_meant(entries: Iterable[str], section: str = "") -> frozenset[str]:
    """Return the top-level sections that the unknown keys of a file or phase probably mean.

    Args:
        entries: all keys of the mapping; known ones and `x-` keys are skipped.
        section: kind of section of the mapping, "" for the top level.
    """
    unknown = (key for key in entries if key not in keys_in(section) and not key.startswith(USER_KEY))
    return frozenset(key_suggestion(section, key).section for key in unknown) - {""}


def value_suggestion(key: str, text: str, allowed: tuple[str, ...]) -> str:
    """Return a hint at the allowed word that a wrong one means, as a synonym or misspelt; "" without one.

    Args:
        key: key whose value it is; synonyms are known for adjacency, scheme, method and type.
        text: the value.
        allowed: the allowed words.
    """
    word, synonyms = text.lower().replace("_", "-"), _VALUES.get(key, {})
    if key == "type":
        synonyms = {name: mechanism_class(name).other_names for name in MECHANISMS}
    for ours, others in synonyms.items():
        if word in others.split():
            return f"dpcalc calls this `{ours}`"
    near = nearest(word, allowed)
    return f"did you mean `{near}`?" if near else ""


# Words compared with a misspelling, at 15 microseconds each. No list of ours is longer, but a hostile file may name
# thousands of levels, and every wrong key is compared with all of them.
MAX_COMPARED = 100


def nearest(word: str, choices: tuple[str, ...]) -> str:
    """Return the choice that is most similar to a misspelt word; "" if none is similar enough.

    Args:
        word: the misspelt word; its first 64 characters count.
        choices: correct words; the first MAX_COMPARED are compared.
    """
    import difflib

    matches = difflib.get_close_matches(word[:64], choices[:MAX_COMPARED], n=1, cutoff=0.6)
    return matches[0] if matches else ""


# Errors, each with its place in the file.

NOT_YET = "is not supported by this version of dpcalc"
DRAW_FORM = "a mapping such as {scheme: poisson, rate: 0.01}"


def missing_key_error(section: Node, key: str, advice: str = "") -> Diagnostic:
    """Return the error (DPC103) for a key that a section lacks, with advice on how to write it.

    Args:
        section: the mapping that lacks the key.
        key: the missing key.
        advice: what to write; "" takes the advice that the key's declaration gives, if it has one.
    """
    kind = section_kind(section.path)
    declared = None if advice else keys_in("" if kind == "phases[]" else kind).get(key)
    hint = declared.advice if declared else advice
    return error("DPC103", section.anchor, f"`{join(section.path, key)}` is missing", hint)


def wrong_value_error(node: Node, cause: WrongValueError) -> Diagnostic:
    """Return the error of a value that its type refuses, with the code of the cause.

    Args:
        node: the value.
        cause: what the type says of it.
    """
    if cause.code == "DPC102":
        return wrong_type_error(node, cause.expected)
    return error(cause.code, node.anchor, f"`{node.path}` must be {cause.expected}, got {scalars.describe(node)}")


def keyed_error(section: Node, cause: KeyedInputError) -> Diagnostic:
    """Return a constructor's error at the value that it names, or at the whole section if the file lacks that value.

    Args:
        section: the section that the class describes, which errors of its keys are relative to.
        cause: what the constructor raised.
    """
    keys = (int(key) if key.isdecimal() else key for key in cause.key.split("."))
    node = node_at(section, *keys) or section
    return error(cause.code, node.anchor, f"`{node.path}` {cause.problem}", cause.hint)


_RANGE = re.compile(r"([0-9_]{1,20}) *(?:-|\.\.|to) *([0-9_]{1,20})")


def wrong_type_error(node: Node, expected: str) -> Diagnostic:
    """Return the error (DPC102) "... must be `expected`, got ..." for a value of the wrong type, with a hint.

    Args:
        node: the value.
        expected: the type in words, such as "a whole number"; it completes "must be".
    """
    name = f"`{node.path}`" if node.path else "the file"
    message = f"{name} must be {expected}, got {scalars.describe(node)}"
    return error("DPC102", node.anchor, message, _type_hint(node, expected))


def _type_hint(node: Node, expected: str) -> str:
    """Return the advice to quote a text, to write a range as {min, max}, or on the form of a number; "" without any."""
    if expected in {"a text", "a name"} and isinstance(node, Scalar) and not isinstance(scalars.value(node), str):
        return "quote it to make it a text"
    return _range_hint(node) or (scalars.number_hint(node) if "number" in expected else "")


def _range_hint(node: Node) -> str:
    """Return how to write a `count` such as 5-10 of a level that is not the outermost; "" for other values."""
    is_inner = re.fullmatch(r"data\.levels\[[1-9][0-9]*\]\.count", node.path)  # the outermost has no units that differ
    ends = _RANGE.fullmatch(node.text) if is_inner and isinstance(node, Scalar) else None
    return f"for units that differ in size write {{min: {ends[1]}, max: {ends[2]}}}" if ends else ""


def unknown_key_error(section: Node, key: str, value: Node) -> Diagnostic:
    """Return the error (DPC101) for a key that the schema does not have, with the key that was probably meant.

    Args:
        section: the mapping that holds the key.
        key: the unknown key.
        value: its value, which knows where the key stands.
    """
    mark = value.key or value.anchor
    place = f"in `{section.path}`" if section.path else "at the top level"
    return error("DPC101", mark, f"unknown key `{key}` {place}", key_suggestion(section_kind(section.path), key).hint)


def wrong_word_error(key: str, node: Node, allowed: tuple[str, ...]) -> Diagnostic:
    """Return DPC104 for a value that is no allowed word, with other advice for a planned method; DPC102 for no text.

    Args:
        key: the key whose value it is.
        node: the value.
        allowed: the allowed words.
    """
    if not isinstance(node, Scalar) or not isinstance(scalars.value(node), str):
        return wrong_type_error(node, listed(allowed))
    if key == "method" and node.text in PLANNED_METHODS:
        return error("DPC104", node.anchor, f"accounting method `{node.text}` {NOT_YET}", PLANNED_METHODS[node.text])
    message = f"`{node.path}` must be {listed(allowed)}, got {scalars.describe(node)}"
    return error("DPC104", node.anchor, message, value_suggestion(key, node.text, allowed))


def missing_scheme_errors(draw: Section) -> Iterator[Diagnostic]:
    """Yield an error for each unknown key of a draw without `scheme`, and DPC103 unless one of them means `scheme`."""
    known = {*DRAW_KEYS, BATCH_SIZE}
    unknown = [key for key in draw.entries if key not in known and not key.startswith(USER_KEY)]
    for key in unknown:
        yield unknown_key_error(draw, key, draw.entries[key])
    if not any(key_suggestion("sampling", key).key == "scheme" for key in unknown):
        yield missing_key_error(draw, "scheme")


def direct_draw_error(sampling: Section, names: tuple[str, ...]) -> Diagnostic:
    """Return DPC107 for `sampling` that states a draw without a level, beside a level's draw or for several levels.

    Args:
        sampling: the section, of the file or a phase.
        names: names of the levels, at least one.
    """
    several = f", but the data have {len(names)} levels ({', '.join(names)})"
    named = f" and names the level `{names[0]}` as well"
    message = f"`{sampling.path}` describes a draw directly{several if len(names) > 1 else named}"
    hint = f"put everything under the level: `sampling: {{{names[0]}: {{scheme: ...}}}}`"
    return error("DPC107", _first_added_mark(sampling), message, hint)


def _first_added_mark(section: Section) -> Mark:
    """Return the place of the first key that the command line added to a section, or of the section without one."""
    # What the command line added is more likely the mistake than what the file says.
    added = (each for each in section.entries.values() if each.mark.source is not section.mark.source)
    return next((each.key or each.anchor for each in added), section.anchor)


def misspelt_episodes_error(sampling: Section, names: tuple[str, ...]) -> Diagnostic | None:
    """Return DPC101 for the first unknown key that is near `episodes` or a key of it, and near no level; else None.

    Args:
        sampling: the section; its first MAX_COMPARED keys are compared.
        names: names of the levels; a key that is near one of them means that level.
    """
    known = keys_in("sampling")
    for key, value in islice(sampling.entries.items(), MAX_COMPARED):
        if key in names or key in known or key.startswith(USER_KEY) or nearest(key, names):
            continue
        near = nearest(key, (*known, *keys_of(Episodes)))
        if near == EPISODES or near in keys_of(Episodes):
            hint = f"did you mean `{near}`?" if near == EPISODES else f"put it under `{EPISODES}`"
            return error("DPC101", value.key or value.anchor, f"unknown key `{key}` in `{sampling.path}`", hint)
    return None


def extra_key_error(section: Section, key: str, value: Node) -> Diagnostic:
    """Return the error of a key that a section does not take: DPC107 if another value excludes it, DPC101 if unknown.

    Args:
        section: the mapping that holds the key.
        key: the extra key.
        value: its value.
    """
    if key == "examples" and section.path == "data":
        return _examples_beside_levels_error(value)
    if section_kind(section.path) == "mechanism" and key in keys_in("mechanism"):
        return _other_type_error(section, key, value)
    # A known key in the wrong place deserves an answer about the place; only then is it looked up as a misspelling.
    scheme = entry(section, "scheme")
    if isinstance(scheme, Scalar) and key in {*DRAW_KEYS, BATCH_SIZE} - {"scheme"}:
        second = _second_amount_error(section, value) if key == BATCH_SIZE and scheme.text != "all" else None
        return second or _other_scheme_error(key, value, scheme.text)
    return unknown_key_error(section, key, value)


def _examples_beside_levels_error(examples: Node) -> Diagnostic:
    """Return DPC107 for `data.examples` beside `data.levels`."""
    message = "`examples` and `levels` in `data` both say what there is"
    hint = "`examples: N` is short for one level; keep one of them"
    return error("DPC107", examples.key or examples.anchor, message, hint)


def _other_type_error(mechanism: Section, key: str, value: Node) -> Diagnostic:
    """Return DPC107 for a key of another mechanism type, with the keys of the stated type as a hint."""
    stated = entry(mechanism, "type")
    name = stated.text if isinstance(stated, Scalar) else "gaussian"
    fields = mechanism_keys(name) if name in MECHANISMS else ()
    allowed = ", ".join(f"`{field}`" for field in fields if field != "type")
    hint = f"`{name}` takes {allowed}" if allowed else ""
    return error("DPC107", value.key or value.anchor, f"`{key}` does not go with type `{name}`", hint)


def _second_amount_error(draw: Section, batch_size: Node) -> Diagnostic | None:
    """Return DPC107 for a draw's `batch_size` beside its `size`, `expected` or `rate`; None if it has none of them."""
    other = next((name for name in ("size", "expected", "rate") if name in draw.entries), None)
    if other is None:
        return None
    message = f"`batch_size` and `{other}` both say how many are drawn"
    return error("DPC107", batch_size.key or batch_size.anchor, message, "keep one of them")


def _other_scheme_error(key: str, value: Node, scheme: str) -> Diagnostic:
    """Return DPC107 for a draw's key that its scheme does not take, with advice."""
    message = f"`{key}` does not go with scheme `{scheme}`"
    return error("DPC107", value.key or value.anchor, message, _extra_key_hint(key, scheme))


# By key of a draw, and the scheme that it does not go with; "" for every other one.
_EXTRA_KEY_HINTS = {
    ("redraw_every", "balls-in-bins"): "`assignment: held` keeps the choice of the first pass",
    ("redraw_every", ""): "fixed, poisson and all draws can be held; others are made in every step",
    ("max_batch_size", ""): "only Poisson batches are cut to a maximum: take it out, or say `scheme: poisson` if the "
    "loader cuts",
    ("drop_last", "poisson"): "Poisson batches have no last one to drop: take it out; Opacus with drop_last=True draws "
    "at `rate: 1/N`, N the batches of its loader",
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


def _extra_key_hint(key: str, scheme: str) -> str:
    """Return the advice for a draw's key that its scheme excludes: of key and scheme, or key, or what it takes."""
    hint = _EXTRA_KEY_HINTS.get((key, scheme)) or _EXTRA_KEY_HINTS.get((key, ""))
    return hint or f"`{scheme}` {_TAKES.get(scheme, 'takes `size`')}"
