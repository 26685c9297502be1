"""Files that are no dpcalc config: one error with the ways out, and what they state as a config, nothing invented."""

import json
import re
from collections.abc import Iterator
from dataclasses import replace

from dpcalc.config import scalars
from dpcalc.config.messages import beside, key_suggestion
from dpcalc.config.scalars import DRAW_KEYS
from dpcalc.config.schema import SCHEMES, keys_in
from dpcalc.config.source import Diagnostic, error
from dpcalc.config.tree import USER_KEY, Items, Node, Scalar, Section, join
from dpcalc.config.words import Meaning, meaning, plain_word
from dpcalc.errors import listed

REQUIRED_SECTIONS = ("data", "sampling", "mechanism", "training", "privacy")
_SECTIONS = {*REQUIRED_SECTIONS, "phases"}
# Keys of which a section needs one; the first is marked as missing.
_NEEDED = {
    "data": ("examples",),
    "mechanism": ("noise_multiplier",),
    "training": ("steps", "epochs"),
    "privacy": ("delta",),
}
# Below the top these words are common in other meanings (Adam's eps, a blur's sigma), so that they count only in a
# section on privacy; and no word counts in a section on something else than the training of the model.
_COMMON = (
    "sigma z q n eps epsilon delta probability records rate steps iterations accountant unit neighbors relation size "
    "count number sampling_rate group_size examples max_norm grad_norm kind hold support query separation"
)
_PRIVATE = re.compile(r"(^|_)dp($|_)|priv|^opacus")
_ELSEWHERE = re.compile(
    r"eval|valid|^val(_|$)|test|infer|predict|local|client|sched|augment|transform|pretrain|public|logg|callback|token"
)
_FOUND = (
    "mechanism.noise_multiplier mechanism.max_grad_norm sampling.rate sampling.expected sampling.scheme "
    "training.batch_size training.epochs training.steps data.examples privacy.delta privacy.adjacency "
    "privacy.group_size budget.epsilon"
)
MAX_REMARKS = 8  # words that are explained below the suggested config


def other_file_error(root: Section) -> Diagnostic | None:
    """Return DPC101 for a file that is no dpcalc config, with a config of what it states; None for a config."""
    foreign = [key for key in root.entries if key not in keys_in("") and not key.startswith(USER_KEY)]
    if not foreign:
        return None
    # Our sections that hold a key of ours, also under a misspelt name.
    own = set()
    for key, node in root.entries.items():
        section = key if key in _SECTIONS else key_suggestion("", key).key
        keys = {*keys_in(section), *DRAW_KEYS} if section == "sampling" else keys_in(section)
        parts = node.entries.values() if isinstance(node, Section) and section == "sampling" else ()
        below = {word for part in (node, *parts) if isinstance(part, Section) for word in part.entries}
        is_list = section == "phases" and isinstance(node, Items)
        if section in _SECTIONS and (is_list or not below.isdisjoint(keys)):
            own.add(section)
    misspelt = [key for key in foreign if key_suggestion("", key).key in own]
    # A config may lack a section or its version, or have a key too many, but hardly all of these at once.
    enough = 1 if "version" in root.entries else len(REQUIRED_SECTIONS) - 1
    if len(foreign) == len(misspelt) or len(own) >= enough or "phases" in own:
        return None
    lacks = "lacks the version and most" if own else "has none"
    message = f"this is no dpcalc config: it {lacks} of the sections of one ({', '.join(REQUIRED_SECTIONS)})"
    hint = "`dpcalc init` writes one to start from; in a training config it stands under `dpcalc:`, or in a file of "
    hint += "its own, and values may be references such as `${train.yaml:epochs}`"
    lines = tuple(_config_lines(root))
    more = "; what this file states is below, and what is missing is `???`:"
    return replace(error("DPC101", root.anchor, message, hint + more * bool(lines)), example=lines)


def _config_lines(root: Section) -> Iterator[str]:
    """Yield the lines of a config with what a file states and where, and remarks on other words; none for nothing."""
    values: dict[str, dict[str, str]] = {}  # by our dotted key: the place of each value that the file has for it
    unsure: set[str] = set()  # keys of ours that a word is about whose value cannot be copied
    remarks: dict[str, list[str]] = {}  # words by what is said of them
    for path, node, found in _words(root, path="", is_private=False):
        if not found.is_rename:
            unsure.add(found.about)
            stated = f"{path}: {_flow(node)}"
            remarks.setdefault(found.hint.removeprefix(f"{path.rpartition('.')[2]} "), []).append(stated)
            continue
        # A value that cannot be meant: `max_steps: -1` is none, a rate of audio no probability.
        number = scalars.number_of(node)
        is_possible = not found.about.startswith("training.") or number is None or number > 0
        if found.about == "sampling.scheme":
            is_possible = node.text in SCHEMES
        elif found.about == "sampling.rate":
            is_possible = number is None or 0 < number <= 1
        if is_possible:
            values.setdefault(found.about, {}).setdefault(_flow(node), path)
    if not any(key.startswith(("mechanism.", "privacy.", "budget.", "sampling.")) for key in {*values, *unsure}):
        return  # nothing in it speaks of privacy
    if {"training.steps", "training.epochs"} <= values.keys():  # Hugging Face: max_steps wins; others refuse both
        values["training.steps"] |= values.pop("training.epochs")
    if "sampling.size" in unsure:  # a cohort of clients, whose own batches and epochs these may be
        unsure |= {"training.batch_size", "training.epochs"}
    if "budget.epsilon" in values:
        remarks["the noise that meets it: `dpcalc solve-sigma`"] = ["a target"]

    yield "version: 1"
    for section in (*REQUIRED_SECTIONS, "budget"):
        keys: dict[str, tuple[str, str]] = {}  # value and comment
        for dotted in (key for key in values if key.startswith(f"{section}.")):
            key, places = dotted.rpartition(".")[2], values[dotted]
            if len(places) > 1 or dotted in unsure:
                keys[key] = "???", ", ".join(f"{path} is {value}" for value, path in places.items())
            else:
                ((value, path),) = places.items()
                keys[key] = value, "" if path == key else f"{key} from {path}"
        if section == "training" and not values.keys() & {"training.batch_size", "sampling.rate", "sampling.expected"}:
            keys["batch_size"] = "???", ""
        if section == "sampling":
            keys = {"scheme": ("???", f"how the loader draws: {listed(tuple(SCHEMES))}"), **keys}
        needed = _NEEDED.get(section, ())
        if needed and keys.keys().isdisjoint(needed):
            keys[needed[0]] = "???", ""
        if any(value == "???" for value, _ in keys.values()):  # which YAML does not take in braces
            yield f"{section}:"
            yield from (f"  {key}: {value}" + f"  # {why}" * bool(why) for key, (value, why) in keys.items())
        elif keys:
            written = ", ".join(f"{key}: {value}" for key, (value, _) in keys.items())
            why = "; ".join(why for _, why in keys.values() if why)
            yield f"{section}: {{{written}}}" + f"  # {why}" * bool(why)
    yield from (f"# {', '.join(words)}: {said}" for said, words in list(remarks.items())[:MAX_REMARKS])


_OF_AN_OPTIMIZER = {"lr", "learning_rate", "betas", "beta1", "beta2", "weight_decay", "momentum"}
_OF_A_RELEASE = {"sensitivity", "mechanism_type", "dp_solution_type", "enable_dp"}


def _words(section: Section, *, path: str, is_private: bool) -> Iterator[tuple[str, Scalar, Meaning]]:
    """Yield (dotted path, value, meaning) of the words that a file, at any depth, says of a private run."""
    names = {plain_word(key) for key in section.entries}
    kinds = [node for key, node in section.entries.items() if re.search("mechanism|noise", plain_word(key))]
    texts = [node.text for node in kinds if isinstance(node, Scalar)]
    is_other_noise = any(re.search("lapl|geometric|exponential", text, re.IGNORECASE) for text in texts)
    is_private = is_private or {"epsilon", "delta"} <= names
    is_private = is_private or bool(names & {"noise_multiplier", "target_epsilon", "target_delta", "l2_norm_clip"})
    for key, node in section.entries.items():
        word, place = plain_word(key), join(path, key)
        if isinstance(node, Scalar):
            found, ours = meaning("", key, beside(section)), key_suggestion("", key)
            if found is None and ours.is_same and ours.key == key:
                found = Meaning(hint="", about=f"{ours.section}.{key}", is_rename=True)
            if found is None or (found.is_rename and found.about not in _FOUND.split()):
                continue
            is_known = (not path or is_private or word not in _COMMON.split()) and not (
                word == "eps" and names & _OF_AN_OPTIMIZER  # Adam's
            )
            if word in {"epsilon", "delta"} and names & _OF_A_RELEASE:
                hint = f"the {word} of one release, if its noise is sized by it, and not of the run"
                found = Meaning(hint=hint, about=found.about)
            if found.about == "mechanism.noise_multiplier" and found.is_rename and is_other_noise:
                found = Meaning(hint="the noise of another mechanism: state its `type`", about=found.about)
            is_one = found.about == "training.batch_size" and not found.is_rename and scalars.number_of(node) == 1
            if found.about and is_known and not is_one and not key.startswith(USER_KEY):
                yield place, node, found
        elif not _ELSEWHERE.search(word) and not key.startswith(USER_KEY):
            items = node.items if isinstance(node, Items) else (node,)
            for index, item in enumerate(items):
                if isinstance(item, Section):
                    below = f"{place}[{index}]" if isinstance(node, Items) else place
                    yield from _words(item, path=below, is_private=bool(_PRIVATE.search(word)) or is_private)


def _flow(node: Node) -> str:
    """Return a value as YAML on one line, with texts in double quotes if they had or need them."""
    if isinstance(node, Scalar):
        return node.text if node.plain and not set(node.text) & set(",[]{}#") else json.dumps(node.text)
    if isinstance(node, Items):
        return f"[{', '.join(map(_flow, node.items))}]"
    return f"{{{', '.join(f'{key}: {_flow(value)}' for key, value in node.entries.items())}}}"
