"""Hints for unknown words in a config: synonyms of other tools, settings that are not covered, and misspellings."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from dpcalc.config.schema import SECTIONS, keys_in
from dpcalc.config.tree import USER_KEY
from dpcalc.mechanisms.kinds import MECHANISMS, mechanism_class

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
    """Return a dotted path as a key of `schema.SECTIONS`: indices as [], without "phases[]."; unknown ones as they are.

    Example:
        >>> section_kind("phases[3].sampling.task"), section_kind("data.levels[0]"), section_kind("phases[2]")
        ('sampling.*', 'data.levels[]', 'phases[]')
    """
    general = re.sub(r"\[[0-9]+\]", "[]", path)
    general = general.removeprefix("phases[].").replace("also[]", "also")
    return "sampling.*" if general.startswith("sampling.") and general not in SECTIONS else general


@lru_cache(maxsize=16_384)  # more keys than a config may have: each is looked up for two questions
def key_suggestion(section: str, key: str) -> Suggestion:
    """Return the key that an unknown one probably stands for, with a hint; without it a hint lists all keys.

    Args:
        section: kind of section that holds the unknown key, as of `section_kind`.
        key: the unknown key as written.

    Returns:
        The suggestion. The first that applies: a synonym in this kind of section, a setting that is not covered, a
        general synonym, a key of another section, a near spelling; else the allowed keys as the hint, and no key.
    """
    word = key.lower().replace("-", "_")
    keys = tuple(keys_in(section))
    top = section.partition(".")[0]
    if word in _SECTION_SYNONYMS.get(section, {}):
        name = _SECTION_SYNONYMS[section][word]
        return Suggestion(hint=f"dpcalc calls this `{name}`", key=name, section=top)
    if word in _NOT_COVERED:
        return Suggestion(hint=_NOT_COVERED[word])
    ours = _CANONICAL.get(word)
    if ours == "sampling.size" and section == "sampling.episodes":
        ours = "sampling.episodes.tasks"
    if ours:
        home, _, name = ours.rpartition(".")
        is_same_section = name in keys and home.partition(".")[0] == top
        hint = f"dpcalc calls this `{name if is_same_section else ours}`"
        return Suggestion(hint=hint, key=name, section=ours.partition(".")[0])
    # A key that is right elsewhere is more likely misplaced than misspelt, so this comes before the near spellings.
    homes = [home for home in SECTIONS if home not in {"", "phases[]", "sampling.*"} and key in keys_in(home)]
    homes.sort(key=lambda home: _LAST_HOMES.index(home) if home in _LAST_HOMES else -1)
    if homes:
        return Suggestion(hint=f"it belongs in `{homes[0]}`", key=key, section=homes[0].partition(".")[0])
    near = nearest(key, keys)
    if near:
        target = top if section not in {"", "phases[]"} else near
        return Suggestion(hint=f"did you mean `{near}`?", key=near, section=target)
    allowed = ", ".join(keys)
    return Suggestion(hint=f"allowed here: {allowed}; your own data may stand under `x-...` keys" if allowed else "")


def sections_meant(entries: Iterable[str], section: str = "") -> frozenset[str]:
    """Return the top-level sections that the unknown keys of a file, or of a phase, probably stand for.

    Args:
        entries: all keys of the mapping; known ones and `x-` keys are skipped.
        section: kind of section of the mapping, "" for the top level.
    """
    unknown = (key for key in entries if key not in keys_in(section) and not key.startswith(USER_KEY))
    return frozenset(key_suggestion(section, key).section for key in unknown) - {""}


def value_suggestion(key: str, text: str, allowed: tuple[str, ...]) -> str:
    """Return a hint for a wrong word: our word for it, or the most similar allowed one; "" without either.

    Args:
        key: key whose value it is; synonyms are known for adjacency, scheme, method and type.
        text: the value.
        allowed: the allowed words.
    """
    word = text.lower().replace("_", "-")
    synonyms = (
        _VALUES.get(key, {}) if key != "type" else {name: mechanism_class(name).other_names for name in MECHANISMS}
    )
    for ours, others in synonyms.items():
        if word in others.split():
            return f"dpcalc calls this `{ours}`"
    near = nearest(word, allowed)
    return f"did you mean `{near}`?" if near else ""


# Words compared with a misspelling, at 15 microseconds each. No list of ours is longer, but a hostile file may name
# thousands of levels, and every wrong key is compared with all of them.
MAX_COMPARED = 100


def nearest(word: str, choices: tuple[str, ...]) -> str:
    """Return the most similar of some words to a misspelt one; "" if none is similar.

    Args:
        word: the misspelt word; its first 64 characters count.
        choices: correct words; the first MAX_COMPARED are compared.
    """
    import difflib  # noqa: PLC0415 - only needed once something is wrong

    matches = difflib.get_close_matches(word[:64], choices[:MAX_COMPARED], n=1, cutoff=0.6)
    return matches[0] if matches else ""
