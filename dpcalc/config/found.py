"""What training files say of a private run, and the config that refers to it: `dpcalc init FILE...`.

Words are found at any depth by the table of words. One whose value may be copied becomes a reference; every other word
is told and not used, two places that differ are a question, and what no file states is `???`. No number is copied, and
none is made up: whatever else stands in the config is a text that the user stated (`given`).
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from dpcalc.config import scalars
from dpcalc.config.documents import References
from dpcalc.config.files import Files, Refusal
from dpcalc.config.loaders import LOADERS as CLASSES
from dpcalc.config.messages import SHARED, Beside, Meaning, beside, key_suggestion, meaning, plain_word
from dpcalc.config.readers import FLAGS, command_flags
from dpcalc.config.source import Mark, shortened, source_of, visible
from dpcalc.config.tree import USER_KEY, Document, Items, Node, Scalar, Section, join, node_at, walk

# Below the top these words are common in other meanings (Adam's eps, a blur's sigma), so that they count only in a
# section on privacy; and no word counts in a section on something else than the training of the model.
_COMMON = (
    "sigma z q n eps epsilon delta probability records rate steps iterations accountant unit neighbors relation size "
    "count number sampling_rate group_size examples max_norm grad_norm kind hold support query separation clip"
)
_PRIVATE = re.compile(r"(^|_)dp($|_)|^dp(config|args|arguments|params|sgd)|priv|^opacus")
_ELSEWHERE = re.compile(
    r"eval|valid|^val(_|$)|test|infer|predict|^generat(e|ion)(_|$)|local(?!_simul)|client|sched|augment|transform|pretrain|public|logg|callback|token"
)
_OF_CLIENTS = re.compile(r"(^|[._])(client|local(?!_simul))")
_OF_AN_OPTIMIZER = {"lr", "learning_rate", "betas", "beta1", "beta2", "weight_decay", "momentum"}
_OF_A_RELEASE = {"sensitivity", "mechanism_type", "dp_solution_type", "enable_dp"}
KEYS = (
    *("data.examples", "sampling.rate", "sampling.expected", "sampling.drop_last", "mechanism.noise_multiplier"),
    *("mechanism.max_grad_norm", "training.batch_size", "training.epochs", "training.steps", "privacy.adjacency"),
    *("privacy.delta", "privacy.group_size", "budget.epsilon"),
    *("sampling.poisson_sampling", "sampling.shuffle"),
)
UNITS, COHORT = "data.levels", "sampling.size"  # the number of clients, and of those of a round
_FEDERATED = {"units": UNITS, "cohort": COHORT}
_SHOWN = {UNITS: "units in all", COHORT: "units of a step"}
PARTS = ("per_device", "accumulation", "devices")  # of a batch
LOADERS = {  # how a step draws: its scheme, or its class in `loaders.LOADERS`, and what it means
    "shuffle": ("shuffle", "goes through shuffled data: DataLoader(shuffle=True), Keras fit"),
    "trainer": ("transformers.Trainer", "Hugging Face's Trainer, which goes through shuffled data"),
    "opacus": ("opacus.PrivacyEngine", "Opacus' own loader: make_private(poisson_sampling=True), its default"),
    "poisson": ("poisson", "a coin for each unit, with one probability in every step"),
    "fixed": ("fixed", "a fixed number, drawn afresh in every step, as many federated servers draw clients"),
}
_ARGUMENTS = {  # of the classes: the keys of words that state them
    "per_device_train_batch_size": "per_device",
    "gradient_accumulation_steps": "accumulation",
    "world_size": "devices",
    "dataloader_drop_last": "sampling.drop_last",
    "drop_last": "sampling.drop_last",
}
BEFORE = ("shuffle", "poisson")  # the commonest answers
QUESTIONS = {  # by key: what is asked where one of these names is open
    "data.examples": ("Examples in the training set", "examples"),
    UNITS: ("Clients in all", "count"),
    COHORT: ("Clients of a round", "size expected"),
    "training.batch_size": ("Examples of one noisy update", "batch_size"),
    "devices": ("Devices that share a step", "devices world_size"),
    "accumulation": ("Batches that are accumulated for a step", "accumulation gradient_accumulation_steps"),
    "accumulates": ("Each of them a Poisson batch of its own (draws), or parts of one batch (physical)", "accumulates"),
    "sampling.drop_last": (
        "Does the loader drop a last, smaller batch? true or false",
        "drop_last dataloader_drop_last",
    ),
    "sampling.poisson_sampling": ("Does the launch set poisson_sampling? true or false", "poisson_sampling"),
    "sampling.shuffle": ("Does the launch set shuffle? true or false", "shuffle"),
    "mechanism.noise_multiplier": ("Noise deviation / clip norm", "noise_multiplier"),
    "mechanism.max_grad_norm": ("Clip norm", "max_grad_norm"),
    "training.epochs": ("Epochs", "steps"),
    "training.steps": ("Noisy updates in all", "steps"),
    "privacy.delta": ("Delta, well below 1 / the number of protected units", "delta"),
}
SHUFFLED = ("shuffle", "trainer")  # loaders whose order may be a secret
ORDER = {  # by key: what a secret order takes, each for the user to state; else the order counts as known
    "order.seed": "A new order for each pass, from a seed that nobody can know: none in code (Trainer: 42), flag, log",
    "order.once": "Each example at most once in a pass: nothing fills up the last batches with examples again",
    "order.passes": "No step with examples of two passes: `batch` before `repeat`, accumulated batches included",
    "order.ranks": "One process, or one order of which all ranks take parts: no sampler of its own for each",
    "order.noise": "The same noise in each step, on a sum divided by a constant, also where the last batch is smaller",
    "order.nothing_else": "Nothing else of a batch used or published: no batch statistics, no loss of a batch",
}
SEED, _PUBLIC = "order.seed", "everybody can know it, and each order that it seeds"
OPEN = "???"
_SERVER = "# Taken as so: the server clips the whole update of each client, and adds noise once a round."
# What files say of the loader, by word and value: the loaders that draw so. Opacus puts its own in the place of theirs.
_OF_LOADER = (
    *("poisson_sampling", "shuffle", "sampler", "batch_sampler", "sampling_method", "method_of_sampling"),
    *("with_replacement", "replacement"),
)
_PASSES, _ANY = {"shuffle", "trainer", "opacus"}, {*LOADERS, "with-replacement"}
_FITS = {
    ("poisson_sampling", "true"): {"opacus", "poisson"},
    ("poisson_sampling", "false"): _ANY - {"opacus", "poisson"},
    ("shuffle", "true"): _PASSES,
    ("shuffle", "false"): {"trainer", "opacus"},
    ("replacement", "true"): {"with-replacement", "opacus"},
    ("replacement", "false"): _ANY - {"with-replacement"},
    ("sampler", "poisson"): {"opacus", "poisson"},
    ("sampler", "uniform_with_replacement_sampler"): {"opacus", "poisson"},
    ("sampler", "shuffle"): _PASSES,
    ("sampler", "random_sampler"): {*_PASSES, "with-replacement"},
    ("sampler", "sequential_sampler"): {"opacus"},
    ("sampler", "weighted_random_sampler"): {"opacus"},
    ("sampler", "fixed"): {"fixed"},
    ("sampler", "without_replacement"): {"fixed"},
    ("sampler", "with_replacement"): {"with-replacement"},
}
_DEPENDS = {"opacus": "poisson_sampling", "poisson": "poisson_sampling", "shuffle": "shuffle"}  # of which word
_TRUTHS = {"yes": "true", "on": "true", "1": "true", "no": "false", "off": "false", "0": "false"}
MAX_WORDS = 200  # that a file may state: a hostile one has room for ten thousand
MAX_TOLD = 12


class Word(NamedTuple):
    """A word of a file about the run."""

    key: str  # ours that it is about, or a part of a batch
    name: str  # the file, as the config refers to it
    path: str  # of the value there, for a reference; "" if none can lead there
    text: str  # the value itself, references followed
    line: int
    hint: str = ""  # why the value is not used; "" for one that is
    word: str = ""  # as a plain word, of an argument also where a flag has another name
    is_default: bool = False  # whether a launch, or another place of the file, may give another value
    code: str = ""  # the expression in the place of a value
    is_of_client: bool = (
        False  # whether it is an argument of what trains a model with noise: with clients, each of them
    )

    @property
    def reference(self) -> str:
        return f"${{{self.name}:{self.path}}}"

    @property
    def place(self) -> str:
        stated = f"= {shortened(self.text)}" if not self.code else f"is `{self.code}`, no literal"
        return visible(f"{self.path or 'a key'} {stated} ({self.name}, line {self.line})")

    @property
    def fits(self) -> set[str] | None:
        """The loaders that draw as this says; None if it does not say how they draw."""
        if self.key != "sampling.scheme":
            return None
        text = plain_word((self.code or self.text).partition("(")[0].rpartition(".")[2])
        text = _TRUTHS.get(text, text)
        if self.word not in _OF_LOADER:  # such as `group_by_length: true`
            return set() if text == "true" and self.hint.startswith("not covered") else None
        kind = "replacement" if "replacement" in self.word else self.word
        return _FITS.get((kind if kind in {"poisson_sampling", "shuffle", "replacement"} else "sampler", text))


def words_of(names: Sequence[str], files: Files) -> list[Word]:
    """Return what files say, named as a config in the folder of `files` refers to them; Refusal for an unusable file.

    They are read as references into them are, under the same limits: of the values of a Hydra config those composed.
    """
    nothing = Section(entries={}, mark=Mark(source_of("", ""), 1, 1))
    references = References(Document(nothing), files)
    found: dict[tuple[Mark, str, str], Word] = {}
    critics, is_of_clients = list[str](), False
    for name in names:
        document = references.document(name)
        for where, node in walk(document.tree, ""):
            own, number = plain_word(where.rpartition(".")[2]), scalars.number_of(node)
            critics += [where] if own in SHARED["critic"] and number != 1 else []
            if _OF_CLIENTS.search(plain_word(where)) and number:
                about = (meaning("", own) or key_suggestion("", own)).key
                is_of_clients = is_of_clients or about == "noise_multiplier"
        if not isinstance(document.tree, Section):
            raise Refusal("DPC110", f"`{shortened(name)}` states no words with values", "name a file of settings")
        for path, node, said in _stated(document.tree, path="", is_private=False):
            if len(found) >= MAX_WORDS:
                raise Refusal("DPC111", f"`{shortened(name)}` states more than {MAX_WORDS} words of a run", "")
            code, flag = document.code.get(path or "", ("", ""))
            # `epsilon: null`, `batch_size: auto` and `scale_schedule=None` say nothing.
            if (scalars.value(node) is None and path not in document.refused) or node.text == "auto":
                continue
            if code == "None" and (said.about == "sampling.scheme" or not said.is_rename):
                continue
            own = plain_word((path or "").rpartition(".")[2])
            is_of_client = (path or "").startswith("calls.make_private")
            if flag:  # `max_grad_norm=args.clip`
                path, code = flag, ""  # noqa: PLW2901
                node = node_at(document.tree, *flag.split("."))  # type: ignore[assignment]  # noqa: PLW2901
                if not said.is_rename:
                    said = meaning("", own, Beside({own: node.text})) or said  # noqa: PLW2901
            word = Word(said.about, name, path or "", node.text, node.mark.line, "" if said.is_rename else said.hint)
            word = word._replace(
                word=own,
                code=code,
                is_of_client=is_of_client,
                is_default=name.endswith(".py") and (path or "").startswith(FLAGS + "."),
            )
            try:
                value = references.value(word.reference) if path else node
                word = word._replace(text=value.text)
            except Refusal as cause:
                why = re.sub(r"^.*?column \d+: |^`[^`]*`: ", "", cause.message)
                is_unsure = said.about == "sampling.scheme" and not code  # calls differ, or stand under conditions
                value, word = node, word._replace(hint=word.hint or why, is_default=word.is_default or is_unsure)
            # A value that cannot be meant: `max_steps: -1` is none, a rate of audio no probability.
            number = scalars.number_of(value)
            is_too_much = word.key == "sampling.rate" and number is not None and number > 1
            if path is None:
                word = word._replace(hint="no reference leads to this key, which has signs of a path in it")
            elif not word.hint and number is not None and (number <= 0 or is_too_much):
                continue
            # A field of a class and the flag made of it are one literal: the flag, which a launch gives.
            place = (value.mark, word.key, word.text)
            is_of_client = is_of_client or (place in found and found[place].is_of_client)
            if place not in found or (path or "").startswith(FLAGS):
                found[place] = word
            found[place] = found[place]._replace(is_of_client=is_of_client)
    # `client: {noise_multiplier: 1}`, `local_noise_multiplier: 1`: clients train with noise, whatever else there is.
    words = [word._replace(is_of_client=word.is_of_client or is_of_clients) for word in found.values()]
    lengths = {"training.steps", "training.epochs"}
    if critics:  # an iteration, or a batch of an epoch, may be several noisy updates
        why = f"`steps` are all noisy updates, with {critics[0]} those of each iteration, too"
        words = [word._replace(hint=word.hint or why) if word.key in lengths else word for word in words]
    rounds = [word for word in words if word.word in SHARED["rounds"]]
    is_served = any(word.key == COHORT for word in words) and not any(word.is_of_client for word in words)
    if rounds and not is_served:  # clients may add noise in every local step of every round
        hint = (meaning("", rounds[0].word) or rounds[0]).hint
        words = [word._replace(hint=word.hint or hint) if word.key in lengths else word for word in words]
    return words


def _stated(section: Section, *, path: str | None, is_private: bool) -> Iterator[tuple[str | None, Scalar, Meaning]]:
    """Yield (path of a reference, None if none leads there, value, meaning) of the words on a run, at any depth."""
    names = {plain_word(key) for key in section.entries}
    kinds = [node for key, node in section.entries.items() if re.search("mechanism|noise", plain_word(key))]
    texts = [node.text for node in kinds if isinstance(node, Scalar)]
    is_other_noise = any(re.search("lapl|geometric|exponential", text, re.IGNORECASE) for text in texts)
    is_private = is_private or {"epsilon", "delta"} <= names
    is_private = is_private or bool(names & {"noise_multiplier", "target_epsilon", "target_delta", "l2_norm_clip"})
    for key, node in section.entries.items():
        word, place = plain_word(key), _joined(path, key)
        if key.startswith(USER_KEY):
            continue
        if (command := _command(node, place)) is not None:
            yield from _stated(command, path=_joined(place, FLAGS), is_private=True)
        elif isinstance(node, Scalar):
            found, ours = meaning("", key, beside(section)), key_suggestion("", word)
            if re.search(r"(^|_)(seed|random_state)$", word):
                yield place, node, Meaning(_PUBLIC, SEED)
                continue
            group = next((group for group in (*PARTS, *_FEDERATED) if word in SHARED[group]), "")
            if group:  # what they are depends on the draw, which is asked
                found = Meaning("", _FEDERATED.get(group, group), is_rename=True)
            elif found is None and ours.is_rename and ours.key == word:
                found = ours
            elif word in _OF_LOADER and (found is None or found.is_rename):
                found = Meaning("how the loader draws is asked", "sampling.scheme")
            if found is None or (found.is_rename and not group and found.about not in KEYS):
                continue  # `size` alone is that of anything
            is_known = (path in {"", FLAGS} or is_private or word not in _COMMON.split()) and not (
                word == "eps" and names & _OF_AN_OPTIMIZER  # Adam's
            )
            if word in {"epsilon", "delta"} and names & _OF_A_RELEASE:
                found = Meaning(
                    f"the {word} of one release, if its noise is sized by it, and not of the run", found.about
                )
            if found.about == "training.steps" and "sampler" in plain_word(path or ""):
                found = Meaning(
                    "the steps of a sampler, such as that of a diffusion model, and not of the training", found.about
                )
            if found.about == "mechanism.noise_multiplier" and found.is_rename and is_other_noise:
                found = Meaning("the noise of another mechanism: state its `type`", found.about)
            if found.about and is_known:
                yield place, node, found
        elif not _ELSEWHERE.search(word):
            items = node.items if isinstance(node, Items) else (node,)
            for index, item in enumerate(items):
                if isinstance(item, Section):
                    below = f"{place}[{index}]" if isinstance(node, Items) and place is not None else place
                    yield from _stated(item, path=below, is_private=bool(_PRIVATE.search(word)) or is_private)


def _joined(path: str | None, key: str) -> str | None:
    """Return a path of a reference extended by a key, in quotes where it needs them; None if none leads there."""
    if path is None or re.search(r"['\":{}$\n]|^$", key):
        return None
    return f"{path}['{key}']" if re.search(r"[.\[\]=\s]", key) else join(path, key)


def _command(node: Node, place: str | None) -> Section | None:
    """Return the flags of a text or list that is a command line with options; None for other values."""
    texts = [node] if isinstance(node, Scalar) else node.items if isinstance(node, Items) else ()
    if place is None or not any(isinstance(each, Scalar) and re.search(r"(^|\s)--\w", each.text) for each in texts):
        return None
    try:
        command = command_flags(node)
    except Refusal:
        return None
    flags = command.tree.entries.get(FLAGS) if command and isinstance(command.tree, Section) else None
    return flags if isinstance(flags, Section) else None


def config_text(words: Sequence[Word], loader: str, given: Mapping[str, str], title: str) -> str:
    """Return a config in block style that refers to the words that are used; `???` stands for what nobody states.

    `given` has what the user stated, numbers or paths of words, by dotted key, also `devices`.
    `loader` is one of LOADERS, a scheme, or "".
    """
    references = {word.path: json.dumps(word.reference) for word in reversed(words)}
    given = {key: references.get(text, text) for key, text in given.items()}
    used: dict[str, list[Word]] = {}
    for word in words:
        if not word.hint:
            used.setdefault(word.key, []).append(word)

    def has(key: str) -> bool:
        return key in given or key in used

    def texts_of(key: str) -> set[str]:
        return {given[key]} if key in given else {word.text for word in used.get(key, ())}

    def stated(key: str) -> tuple[str, str]:
        """Return (text, remark) of a key: what the user stated, a reference, or `???`."""
        places, refers = used.get(key, []), [word for word in words if word.key == key and word.path and not word.code]
        if key in given:
            return given[key], ""
        # A call gives other code than what is named here, as in `make_private(noise_multiplier=chosen())`.
        names = {plain_word(word.path.rpartition(".")[2]) for word in places}
        computed = [word for word in words if word.key == key == "mechanism.noise_multiplier" and word.code]
        if any(plain_word(word.code.rpartition(".")[2]) not in names for word in computed):
            return OPEN, computed[0].place
        if len({word.text for word in places}) > 1:
            return OPEN, ", ".join(f"{word.path} is {shortened(word.text)}" for word in places[:4])
        if places:
            return json.dumps(places[0].reference), ", ".join(f"as {word.path} of {word.name}" for word in places[1:4])
        return OPEN, " or ".join(f'"{word.reference}"?' for word in refers)

    def rows(*keys: str, needed: bool = False) -> dict[str, tuple[str, str]]:
        """Return the keys of a section that are stated, and those that must be."""
        return {key.rpartition(".")[2]: stated(key) for key in keys if needed or has(key)}

    is_federated = has(COHORT) and not any(word.is_of_client for word in words)
    drawn_by = LOADERS[loader][0] if loader in LOADERS else loader or OPEN
    drawn_by = OPEN if is_federated and "." in drawn_by else drawn_by  # these classes draw examples
    scheme = "loader" if "." in drawn_by else drawn_by
    draw = {"scheme": (scheme, "" if loader else "how the loader REALLY draws: shuffle, poisson or fixed")}
    # What a launch or code decides of this loader, and nobody has stated.
    unsure = [_DEPENDS[loader]] if loader in _DEPENDS and f"sampling.{_DEPENDS[loader]}" not in given else []
    told = [word for word in words if word.word in unsure and word.fits is not None and not word.is_default]
    open_words = [word for word in words if word.word in unsure and (word.code or word.is_default)]
    if unsure == ["shuffle"]:  # calls that differ are of other loaders: of tests
        open_words = [word for word in open_words if word.code or word.path.startswith(FLAGS)]
    unsure = [] if told or not open_words else unsure
    why_unsure = open_words[0].place if unsure else ""
    batch: dict[str, tuple[str, str]] = {}
    whole = next((key for key in ("sampling.rate", "sampling.expected", "training.batch_size") if key in given), "")
    one_part = next((key for key in ("per_device", "training.batch_size") if has(key)), "training.batch_size")
    others = [part for part in PARTS[1:] if has(part) and texts_of(part) != {"1"}]
    is_whole = bool(whole) or not (others or has("per_device"))
    rates = rows("sampling.rate", "sampling.expected") if scheme in {"poisson", OPEN} else {}
    if is_federated:
        unit = "user" if any("user" in plain_word(word.path) for word in used.get(UNITS, ())) else "client"
        draw["expected" if scheme == "poisson" else "size"] = stated(COHORT)
    elif whole.startswith("sampling."):
        draw |= rows(whole)
    elif rates:
        draw |= rates
        if not is_whole or has("training.batch_size"):  # a rate is one of the loader, or of all that is summed
            draw |= dict.fromkeys(rates, (OPEN, "a rate and the size or the parts of a batch are stated: what counts?"))
    elif is_whole and loader != "trainer":
        batch = rows("training.batch_size", needed=True)
    elif scheme in {"loader", "shuffle"}:
        # What the parts of a batch make depends on the class of the loader.
        drawn_by = "torch.utils.data.DataLoader" if scheme == "shuffle" else drawn_by
        draw["scheme"] = "loader", ""
    else:
        product = " * ".join(stated(part)[0].strip('"') for part in (one_part, *others))
        batch["batch_size"] = OPEN, f'"{product}"? All that one draw gives to one noisy update'
    if "." in drawn_by:
        batch, size = {}, batch.get("batch_size", (OPEN, ""))
        if not is_whole:
            kind = "physical" if scheme == "shuffle" else OPEN
            rest = {part: stated(part)[0] for part in PARTS[1:]} | {"accumulates": given.get("accumulates", kind)}
            size = f"\n    per_device: {stated(one_part)[0]}" + "".join(f"\n    {x}: {y}" for x, y in rest.items()), ""
        known = {"batch_size": size, "poisson_sampling": ("true", ""), "shuffle": ("true", "")}
        known |= dict.fromkeys(unsure, (OPEN, why_unsure))
        needs = CLASSES[drawn_by].needs
        draw |= {"of": (drawn_by, "")} | {each: known.get(each) or stated(_ARGUMENTS[each]) for each in needs}
    elif scheme == "shuffle":
        # How many passes some steps are depends on what a pass drops; of epochs those that drop nothing cost most.
        draw |= rows("sampling.drop_last", needed=has("training.steps") and not is_federated)
    if unsure and "." not in drawn_by:
        draw["scheme"] = OPEN, f"{why_unsure}: --set sampling.{unsure[0]}=VALUE"
    if loader in SHUFFLED and all(given.get(key) == "true" for key in ORDER):
        draw["order"] = "secret", "as stated of each pass: " + ", ".join(key.rpartition(".")[2] for key in ORDER)
    length = rows("training.steps", *(() if is_federated else ("training.epochs",)))
    if len(length) > 1 and not given.keys() & {"training.steps", "training.epochs"}:
        length = {"steps": (OPEN, " or ".join(f"{key} {text}" for key, (text, _) in length.items()))}
    noise, why = stated("mechanism.noise_multiplier")
    if noise == OPEN and has("budget.epsilon"):
        why = why or "what your run uses; `dpcalc solve-sigma` finds what meets the target"
        if "budget.epsilon" in used:
            target, _ = stated("budget.epsilon")
            why += f"; of a library: {{calibrated_to: {{epsilon: {target}}}, by: LIBRARY.ACCOUNTANT}} (docs/configs.md)"
    is_clip_code = any(word.key == "mechanism.max_grad_norm" and word.code for word in words)
    sections = {
        "data": rows("data.examples", needed=not is_federated),
        "sampling": draw,
        "mechanism": {"noise_multiplier": (noise, why)} | rows("mechanism.max_grad_norm", needed=is_clip_code),
        "training": batch | (length or rows("training.steps", needed=True)),
        "privacy": rows("privacy.adjacency") | rows("privacy.delta", needed=True),
        "budget": rows("budget.epsilon"),
    }
    if not is_federated:  # there `max_elements_per_user` bounds what a client holds
        sections["privacy"] |= rows("privacy.group_size")
    lines = [f"# {title}", "version: 1"]
    if is_federated:
        count, why = stated(UNITS)
        lines += [_SERVER]
        lines += ["data:", "  levels:", f"    - name: {unit}", f"      count: {count}" + f"  # {why}" * bool(why)]
        sections |= {"data": {}, "mechanism": sections["mechanism"] | {"clip": (unit, "")}}
        sections["privacy"] = {"unit": (unit, ""), **sections["privacy"]}
    for name, keys in sections.items():
        if keys:
            lines.append(f"{name}:")
            for key, (text, why) in keys.items():
                first, *below = text.split("\n")  # below it the parts of a batch
                lines += [f"  {key}: {first}".rstrip() + f"  # {why}" * bool(why), *below]
    return "".join(f"{visible(line)}\n" for line in lines)


def open_keys(text: str) -> list[str]:
    """Return the keys of a written config that are `???`."""
    return re.findall(r"^[ -]+(\w+): \?\?\?", text, flags=re.MULTILINE)


def open_settings(text: str) -> list[str]:
    """Return the keys by which `--set` states what a written config leaves open."""
    keys = {name: key for key, (_, names) in QUESTIONS.items() for name in names.split()}
    found, section = [], ""
    for line in text.splitlines():
        section = line.partition(":")[0] if line[:1].isalpha() else section
        if name := "".join(open_keys(line)):
            found.append(keys.get(name) or _ARGUMENTS.get(name) or f"{section}.{name}")
    return found


def told_lines(words: Sequence[Word], text: str) -> list[str]:
    """Return what of the words a written config refers to, and where it stands; then what it does not, and why."""
    read = "\n".join(line.partition("  # ")[0] for line in text.split("\n"))
    used, unused, still_open = [], [], open_keys(text)
    for word in words:
        if word.key == SEED:
            continue  # see order_lines
        if word.path and word.reference in read:
            used.append(f"{_SHOWN.get(word.key, word.key.rpartition('.')[2])} <- {word.place}")
        else:
            is_open = (word.key in PARTS and "batch_size" in still_open) or word.key.rpartition(".")[2] in still_open
            is_asked = is_open or (word.path and word.reference in text)
            why = word.hint or ("see the `???` of the config" if is_asked else "this config has no place for it")
            if word.path and f"as {word.path} of {word.name}" in text:
                why = "it says the same as what is used"
            rank = 0 if word.key.startswith("sampling.") else 1 if is_open else 2
            unused.append((rank, f"not used: {word.place}" + f": {why}" * (not word.code)))
    lines = [line for _, line in sorted(unused, key=lambda each: each[0])]
    if _SERVER in text:
        used.append(
            "taken as so: the server clips whole updates and adds noise once a round; where each client trains with "
            "noise, steps and noise are others: describe its run"
        )
    more = [f"and {len(lines) - MAX_TOLD} more words that are not used"] if len(lines) > MAX_TOLD else []
    return [visible(line) for line in (*used, *lines[:MAX_TOLD], *more)]


def loader_lines(words: Sequence[Word]) -> list[str]:
    """Return what files say of how the loader draws, shown beside the question."""
    said = [word for word in words if word.key == "sampling.scheme" and (word.fits is not None or word.code)]
    return [word.place + " (a default: a launch may differ)" * word.is_default for word in said[:MAX_TOLD]]


def contradiction(words: Sequence[Word], loader: str, given: Mapping[str, str]) -> str:
    """Return where files state as a literal the opposite of what the user says of a run; "" for nowhere."""
    stated = [word for word in words if not word.is_default]
    samplers = {"sampler", "batch_sampler"} & {word.word for word in words}
    of_loader = [word for word in stated if word.fits is not None and not (word.word == "shuffle" and samplers)]
    if loader and (others := [word for word in of_loader if loader not in (word.fits or ())]):
        fitting = [name for name in LOADERS if all(name in (word.fits or ()) for word in of_loader)]
        way = f"that fits {' or '.join(fitting)}" if fitting else "docs/samplers.md has other loaders, by their class"
        places = " and ".join(word.place for word in others[:4])
        return f"--loader {loader}: expected a loader that draws as the files state: {places}; {way}"
    for key in ("poisson_sampling", "shuffle"):
        fits = _FITS.get((key, given.get(f"sampling.{key}", "")))
        if fits is not None and loader and loader not in fits:
            return f"--loader {loader}: expected a loader with `{key}: {given[f'sampling.{key}']}`, as --set says"
    said: dict[str, list[Word]] = {}
    for word in words:
        same = {word.key, f"sampling.{word.word}" if word.key == "sampling.scheme" else word.key}
        for key in given.keys() & same:
            if (not word.hint or key != word.key) and not word.code:
                said.setdefault(key, []).append(word)
    has_parts = any(word.key in PARTS and not word.hint for word in words)
    for key, found in said.items():
        text, literal = given[key], next((word for word in found if not word.is_default), None)
        if literal is None or (key == "training.batch_size" and has_parts):
            continue
        if not any(text == word.path or _value(text) == _value(word.text) for word in found):
            way = "state that, or leave --set out; of something else there, edit the config that is written"
            return f"--set {key}={text}: expected what the file states, {literal.place}; {way}"
    seed = next((word for word in stated if word.key == SEED and not word.code), None)
    if seed is not None and given.get(SEED) == "true":
        return f"--set {SEED}=true: expected a seed that nobody can know, but the file states {seed.place}"
    return ""


def _value(text: str) -> object:
    number, word = scalars.parse_number(text), text.lower()
    return _TRUTHS.get(word, word) if number is None else number


def order_lines(words: Sequence[Word], loader: str, given: Mapping[str, str], text: str) -> list[str]:
    """Return how a written config counts the order of a loader that shuffles, and what it would take to hide it."""
    if loader not in SHUFFLED:
        return []
    seeds = [
        f"{word.path or 'a seed'} = {shortened(word.text)}, line {word.line}" for word in words if word.key == SEED
    ]
    lines = [visible(f"{', '.join(seeds[:4])}: {_PUBLIC}")] if seeds else []
    is_added = "adjacency:" not in text or "adjacency: add-remove" in text
    if is_added and given.get(SEED) != "true" and (seeds or loader == "trainer"):
        whose = "" if seeds else " (that of Trainer is 42 by default)"
        way = "else --set privacy.adjacency=replace-one or zero-out"
        lines.append(f"add-remove takes an order whose seed nobody knows{whose}; {way}")
    if missing := [key for key in ORDER if given.get(key) != "true"]:
        way = f"takes --set KEY=true of {', '.join(missing)} (docs/adopt.md)"
        lines.append(f"the order of the loader counts as known; a secret one, which may cost less, {way}")
    elif is_added:
        lines.append("a secret order counts for zero-out and replace-one alone: --set privacy.adjacency=WORD")
    return lines
