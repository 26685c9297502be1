"""The words of errors in a config with their places; words of other libraries, and hints for unknown ones.

A word is *renamed* only where key and value may be copied unchanged and mean the same run. Every other word is *said*:
the sentence has the conversion, with the numbers that stand beside the word, or says that no bound covers it and what
to do instead. Words that mean nothing to the accounting are said too. `docs/words.md` is written from these tables.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from difflib import SequenceMatcher
from fractions import Fraction
from functools import lru_cache
from importlib import resources
from itertools import islice
from math import floor, isqrt
from typing import NamedTuple

from dpcalc.config import scalars
from dpcalc.config.scalars import BATCH_SIZE, DRAW_KEYS, EPISODES, decimal_text, parse_number
from dpcalc.config.schema import NOISE, SECTIONS, keys_in, mechanism_keys
from dpcalc.config.source import Diagnostic, error
from dpcalc.config.tree import USER_KEY, Items, Node, Scalar, Section, entries_of, entry, join, node_at, text_at
from dpcalc.errors import KeyedInputError, listed
from dpcalc.keys import keys_of
from dpcalc.mechanisms.kinds import MECHANISMS
from dpcalc.sampling.hierarchy import Episodes


class Meaning(NamedTuple):
    """What a foreign word means."""

    hint: str  # a sentence for the user
    about: str = ""  # our dotted key that the word is about, "" if about none: it explains that this key is missing
    value: str | None = None  # of that key, as YAML, where it says the same
    is_rename: bool = False  # whether it is that key with the same value

    @property
    def key(self) -> str:
        return self.about.rpartition(".")[2]

    @property
    def section(self) -> str:
        return self.about.partition(".")[0]  # of the top; the key itself if that is one


class Beside:
    """The scalars of the mapping that a word stands in, as texts by plain word."""

    def __init__(self, texts: Mapping[str, str]) -> None:
        self.texts = {plain_word(word): text for word, text in texts.items()}

    def number(self, *words: str) -> Fraction | None:
        """Return the number > 0 of the first of the words that has one; None if none has."""
        numbers = (parse_number(self.texts[word].strip()) for word in words if word in self.texts)
        return next((number for number in numbers if number is not None and number > 0), None)


def plain_word(word: str) -> str:
    """Return a word in small letters with underscores: `maxGradNorm` and `max-grad-norm` as `max_grad_norm`."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", word).lower().replace("-", "_").strip("_")


NOTHING = Beside({})


# Words whose meaning depends on what stands beside them. A function of `words.txt` takes the word and its neighbours;
# a sentence alone is about the key that stands there.


def _quotient(over: Fraction, under: Fraction) -> str:
    """Return a noise multiplier as a decimal, rounded down where it is none."""
    number = over / under
    return decimal_text(number) or decimal_text(Fraction(floor(number * 10**9), 10**9)) or "0"


def _text(number: Fraction) -> str:
    return decimal_text(number) or f"{float(number):.6g}"


def _clip_norm(beside: Beside) -> Fraction | None:
    """Return the clip norm beside a word; None if there is none, or a sensitivity that the norm does not enforce."""
    stated = {beside.number(word) for word in ("sensitivity", *_CLIP_NORMS)} - {None}
    return stated.pop() if len(stated) == 1 else None


def absolute_noise(word: str, beside: Beside) -> Meaning:
    """The deviation itself, not over the clip norm; a variance is the square of it."""
    about, kind = "mechanism.noise_multiplier", beside.texts.get("type", "gaussian")
    if kind.startswith("pate-"):
        return Meaning("dpcalc calls this `noise_multiplier`: under PATE it is in votes", about)
    if kind not in {"gaussian", "discrete-gaussian"} or "var" in word:
        what = {
            "laplace": "scale / sensitivity, the scale being deviation / sqrt(2)",
            "discrete-laplace": "scale / sensitivity",
            "exponential": "no key of it: `epsilon` is 2 x sensitivity / scale of the Gumbel noise",
            "pure-dp": "no key of it: `epsilon` is sensitivity / scale of Laplace noise",
            "matrix-factorization": "deviation of Z / (clip norm x largest column norm of the strategy)",
        }
        return Meaning(
            f"`noise_multiplier` is {what.get(kind, 'the deviation (root of the variance) / clip norm')}", about
        )
    noise, clip = beside.number(word), _clip_norm(beside)
    rule = "`noise_multiplier` is the deviation of the noise on the sum / clip norm (of noise on a mean, times what it "
    rule += "is divided by)"
    if noise is None or clip is None:
        return Meaning(rule, about)
    value = _quotient(noise, clip)
    if word in SHARED["either"] and clip != 1:
        hint = f"with noise of deviation {word} `noise_multiplier: {value}`; with noise of deviation {word} x clip "
        return Meaning(f"{hint}norm `noise_multiplier: {_text(noise)}`", about)
    said = f"{word} {_text(noise)} at clip norm {_text(clip)}: `noise_multiplier: {value}`"
    return Meaning(f"{said}; {rule}", about, value)


def sigma(word: str, beside: Beside) -> Meaning:
    """Relative to the clip norm in Abadi et al. and most code, the deviation itself in other code."""
    about, kind = "mechanism.noise_multiplier", beside.texts.get("type", "gaussian")
    if kind.startswith("pate-"):
        return Meaning(f"dpcalc calls this `{about}`: in votes", about, beside.texts.get(word, ""), is_rename=True)
    if kind not in {"gaussian", "discrete-gaussian"}:
        return absolute_noise(word, beside)
    noise, clip = beside.number(word), _clip_norm(beside)
    if clip == 1:
        return Meaning(f"dpcalc calls this `{about}`", about, beside.texts.get(word), is_rename=True)
    if noise is None or clip is None:
        hint = "`noise_multiplier` where it is relative to the clip norm; a deviation of its own is divided by it"
        return Meaning(hint, about)
    hint = f"with noise of deviation {word} x clip norm `noise_multiplier: {_text(noise)}`; with noise of deviation "
    return Meaning(f"{hint}{word} `noise_multiplier: {_quotient(noise, clip)}`", about)


def sensitivity(word: str, beside: Beside) -> Meaning | str:
    if beside.texts.get("type", "gaussian") not in {"gaussian", "discrete-gaussian"}:
        return absolute_noise(word, beside)
    noise_word = next((each for each in SHARED["absolute"] if each in beside.texts), "")
    if noise_word:
        return absolute_noise(noise_word, beside)
    hint = "noise is stated relative to the sensitivity of the sum, which is the clip norm: `noise_multiplier` is "
    return f"{hint}deviation / {word}"


def parts_of_a_batch(word: str, beside: Beside) -> str:
    """A part of a batch, or the number of its parts: no product, since a launcher may state another factor."""
    whole = "`batch_size` is all that goes into one noisy update"
    parts = {
        "per_device": beside.number(*SHARED["per_device"], *SHARED["physical"]),
        "devices": beside.number(*SHARED["devices"]),
        "accumulation": beside.number(*SHARED["accumulation"]),
    }
    if word in SHARED["physical"] and parts["devices"] is parts["accumulation"] is None:
        return f"{word} only says what fits into memory: leave it out; {whole}"
    stated = ", ".join(f"{name}: {'...' if number is None else _text(number)}" for name, number in parts.items())
    hint = f"{whole}, here `batch_size: {{{stated}, accumulates: ...}}`: `draws` where each part is a Poisson draw of "
    return (
        f"{hint}its own (Opacus' loader), `physical` where one batch is cut, or the parts are those of a shuffled pass"
    )


def cohort(word: str, beside: Beside) -> Meaning | str:
    value = beside.texts.get(word)
    if beside.texts.get("scheme", "") == "fixed":
        return Meaning(f"dpcalc calls this `size`: {word} units are drawn", "sampling.size", value)
    number = "N" if value is None else value
    fixed = f"`scheme: fixed, size: {number}` if the server draws that many"
    return f"{fixed}; `scheme: poisson, expected: {number}` only if every client flips its own coin"


def rounds(word: str, beside: Beside) -> Meaning:
    about, number = "training.steps", beside.texts.get(word) or None
    if not beside.texts.keys().isdisjoint(SHARED["cohort"]):
        hint = f"dpcalc calls this `{about}`, where the server adds noise once a round"
        return Meaning(hint, about, number, is_rename=True)
    once = f"`steps: {number or 'N'}` where the server adds noise once a round"
    return Meaning(f"{once}; where each client trains with noise, rounds x its own steps", about)


def cycle_length(word: str, beside: Beside) -> Meaning | str:
    """Groups of JAX-Privacy's cyclic Poisson draws, or bins of its balls in bins, which keep their units."""
    scheme, value = beside.texts.get("scheme", ""), beside.texts.get(word)
    groups, bins = f"`groups: {value or 'N'}`", f"`bins: {value or 'N'}` with `assignment: held`"
    if scheme == "cyclic-poisson":
        return Meaning("dpcalc calls this `groups`", "sampling.groups", value, is_rename=True)
    if scheme == "balls-in-bins":
        return Meaning(f"{bins}: in JAX-Privacy a unit keeps its step in all passes", "sampling.bins")
    return f"{groups} under `scheme: cyclic-poisson`, {bins} under `scheme: balls-in-bins`"


def sample_size(word: str, beside: Beside) -> Meaning | str:
    hint = "Opacus 0.x, private-transformers and fastDP call the number of examples so: `data.examples`"
    if beside.texts.get(word) and "batch_size" in beside.texts:
        return Meaning(hint, "data.examples", beside.texts[word])
    return f"{hint}; what a step draws is `batch_size`"


def microbatches(word: str, beside: Beside) -> Meaning:
    number, batch = beside.number(word), beside.number("batch_size")
    value = beside.texts.get(word, "").strip().lower()
    if value in {"false", "none", "null"} or (number is not None and number == batch):
        return Meaning("microbatches of one example are the default: leave it out")
    rule = "TF-Privacy clips the mean of a microbatch, which moves by up to 2 clip norms: `mechanism.clip: batch`, and "
    rule += "nothing where a microbatch is one example; where microbatches only save memory (JAX-Privacy) leave it out"
    is_clipped = value == "true" or (number is not None and batch is not None and number < batch)
    return Meaning(rule, "mechanism.clip", "batch" if is_clipped else None)


def layer_norms(word: str, _: Beside) -> Meaning:
    hint = "clip norms C_l of layers: `max_grad_norm` is the root of the sum of their squares. With noise of deviation "
    hint += "sigma x that norm (Opacus) `noise_multiplier: sigma`; with sigma x C_l on each of L layers it is sigma / "
    return Meaning(f"{hint}sqrt(L)", "mechanism.max_grad_norm" if word.endswith("norms") else "mechanism.clip")


def clipping(word: str, beside: Beside) -> str:
    hint = "`mechanism.clip` names the level whose vectors are clipped; leave it out where each example's is"
    return value_meaning("clip", beside.texts.get(word, "")) or hint


def adaptive(word: str, beside: Beside) -> str:
    number = beside.number(word)
    hint = "adaptive clipping releases a noisy count: TF-Federated and Flower keep its noise inside noise_multiplier "
    hint += "(leave it out); where it comes on top, of bits less 1/2, `also: {noise_multiplier: "
    twice = _text(2 * number) if number is not None and word.endswith(("stddev", "std")) else "2 x its deviation"
    return f"{hint}{twice}}}`. Not covered: Opacus, which divides a count of whole examples by the drawn batch"


def poisson_sampling(word: str, beside: Beside) -> Meaning | str:
    is_so = beside.texts.get(word, "").strip().lower() not in {"false", "no", "off", "0"}
    about = "sampling.scheme"
    if word == "poisson_sampling" and is_so:
        return Meaning("`scheme: poisson`", about, "poisson")
    passes = "`scheme: shuffle` if it goes through shuffled data, without amplification"
    if word == "poisson_sampling":
        return f"then the loader draws as it does without Opacus: {passes}"
    if word == "shuffle" and is_so:
        return Meaning(passes, about, "shuffle")
    if word in {"with_replacement", "replacement"} and is_so:
        return Meaning("`scheme: with-replacement`", about, "with-replacement")
    if word == "shuffle":
        return "data in an order of their own: `scheme: shuffle` for adjacency zero-out or replace-one alone"
    return "`scheme: fixed` if every step draws afresh; `shuffle` if the loader goes through shuffled data"


def target(word: str, beside: Beside) -> Meaning:
    value, about = beside.texts.get(word) or None, "budget.epsilon"
    hint = f"dpcalc calls this `{about}`, which `check` tests; noise that a library finds for it is stated as "
    hint += f"`noise_multiplier: {{calibrated_to: {{epsilon: {value or 'E'}}}, by: LIBRARY.ACCOUNTANT}}`, and `dpcalc "
    return Meaning(f"{hint}solve-sigma --target-eps {value or 'E'}` finds dpcalc's own", about, value, is_rename=True)


# The tables of `words.txt`, and what is looked up in them.

Says = Callable[[str, Beside], Meaning | str]
_TABLES: dict[str, list[list[str]]] = {}
SHARED: dict[str, list[str]] = {}
for _line in resources.files("dpcalc.config").joinpath("words.txt").read_text(encoding="utf-8").splitlines():
    if _line.startswith("["):
        _rows = _TABLES.setdefault(_line[1:].partition(":")[0], [])
    elif _line and not _line.startswith("#"):
        _rows.append([re.sub(r"\$(\w+)", lambda name: " ".join(SHARED[name[1]]), cell) for cell in _line.split(" | ")])
        if _rows is _TABLES["shared"]:
            SHARED[_rows[-1][0]] = _rows[-1][1].split()
RENAMED, RENAMED_IN, VALUES, VALUES_SAID = (
    _TABLES[name] for name in ("renamed", "renamed in", "values", "values said")
)
SAID: list[tuple[str, str, str, str | Says]] = [
    (library, words, about, globals()[says[:-2]] if says.endswith("()") else says)
    for library, words, about, says in _TABLES["said"]
]
_CLIP_NORMS = ("max_grad_norm", *(word for key, _, words in RENAMED if key.endswith("norm") for word in words.split()))
_KEYS = {word: key for key, _, words in RENAMED for word in words.split()}
_KEYS_IN = {(section, word): key for section, key, words in RENAMED_IN for word in words.split()}
_SAYINGS = {word: (about, says) for _, words, about, says in SAID for word in words.split()}
_VALUES = {(key, word): f"dpcalc calls this `{ours}`" for key, ours, _, words in VALUES for word in words.split()}
_VALUES |= {(key, word): text for key, _, words, text in VALUES_SAID for word in words.split()}


def meaning(section: str, word: str, beside: Beside = NOTHING) -> Meaning | None:
    """Return what a foreign key means in a kind of section, as of `messages.section_kind`; None for an unknown word."""
    word = plain_word(word)
    key = _KEYS_IN.get((section, word))
    if key is None and word in _SAYINGS:
        about, says = _SAYINGS[word]
        if isinstance(says, str):  # `<N>` in it is the value of the word, or N
            found: Meaning | str = re.sub("<(.*?)>", lambda name: beside.texts.get(word, name[1]), says)
        else:
            found = says(word, beside)
        return Meaning(found, about) if isinstance(found, str) else found
    key = key or _KEYS.get(word)
    repeats = [each for each in (*SHARED["local"], *SHARED["critic"]) if each in beside.texts]
    if key == "training.steps" and repeats:
        return Meaning(f"`steps` are all noisy updates: times {repeats[0]}, if each of those adds noise", key)
    return Meaning(f"dpcalc calls this `{key}`", key, beside.texts.get(word), is_rename=True) if key else None


def value_meaning(key: str, word: str) -> str:
    """Return the sentence on a foreign value of adjacency, scheme, method, type or clip; "" for an unknown one."""
    if key == "clip" and parse_number(word.strip()):
        return f"the clip norm is `max_grad_norm: {word.strip()}`; `clip` names the level whose vectors are clipped"
    return _VALUES.get((key, word.strip().lower().replace("_", "-").rpartition(".")[2]), "")


def list_meaning(key: str, numbers: Sequence[Fraction]) -> str:
    """Return what a list means where one number belongs; "" where it means nothing known."""
    if key == "max_grad_norm" and numbers:
        squares = sum(number * number for number in numbers)
        norm = decimal_text(Fraction(isqrt(squares.numerator), isqrt(squares.denominator)))
        is_square = norm is not None and parse_number(norm) ** 2 == squares  # type: ignore[operator]  # it is a decimal
        hint = layer_norms("max_grad_norms", NOTHING).hint
        return f"`max_grad_norm: {norm}`: {hint} = sigma / sqrt({len(numbers)})" if is_square else hint
    if key in {"noise_multiplier", "rate", "expected", "size", "batch_size", "steps", "epochs", "max_batch_size"}:
        return "a value that changes: `phases:` with a value each, or `dpcalc.Accountant` in the training loop"
    return ""


_NO_NORM = {"", "0", "0.0", "inf", "infinity", "none", "null", "~", "no", "false", "off"}


def no_number(key: str, text: str) -> str:
    """Return what a text that is no possible number means as the value of a key of ours; "" if it means nothing."""
    word = text.strip().lower().strip(".+")
    if key == "max_grad_norm" and word in _NO_NORM:
        return "not covered: without clipping no noise hides a unit, epsilon is infinite"
    if key == "noise_multiplier" and word in {"auto", "calibrated", "calibrate", "none", "null"}:
        found = "`{calibrated_to: {epsilon: 8}, by: LIBRARY.ACCOUNTANT}` (docs/configs.md)"
        return f"a number, or where a library finds it {found}"
    if key in {"delta", "rate"} and re.search(r"[a-z(^*/]", word):
        return f"a formula: state its value{', rounded down' if key == 'delta' else ''}"
    return "state the number" if key in {"examples", "count"} and re.fullmatch(r"len\(.*\)|n", word) else ""


# Spelling. A hint must not lead from one quantity to another.


def is_misspelling(word: str, ours: str) -> bool:
    """Return True if a word is probably our word misspelt: every part between underscores is, with the same digits.

    Example:
        >>> is_misspelling("noise_multiplyer", "noise_multiplier"), is_misspelling("min_batch_size", "max_batch_size")
        (True, False)
    """
    word, ours = (plain_word(each.replace(" ", "_")) for each in (word[:64], ours))
    if re.sub(r"\D", "", word) != re.sub(r"\D", "", ours):
        return False
    if word.replace("_", "") == ours.replace("_", ""):
        return True
    parts, own = word.split("_"), ours.split("_")
    return len(parts) == len(own) and all(map(_is_near, parts, own))


def _is_near(part: str, ours: str) -> bool:
    """Return True if two parts of words differ by at most a typing error or two, and begin alike."""
    if part == ours:
        return True
    if part[:1] != ours[:1] or {part, ours} <= {"min", "max", "mean", "per", "num", "minimum", "maximum"}:
        return False
    if len(part) == len(ours) <= 4:
        return sum(map(str.__ne__, part, ours)) <= 1
    return abs(len(part) - len(ours)) <= 2 and SequenceMatcher(None, part, ours).ratio() >= 0.75


# The words of errors in a config, each with its place in the file, and hints for unknown words.


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


# Files that are no dpcalc config: one error with the ways to one.


REQUIRED_SECTIONS = ("data", "sampling", "mechanism", "training", "privacy")
_SECTIONS = {*REQUIRED_SECTIONS, "phases"}
WAYS = (
    "`dpcalc init FILE` writes one beside it that refers to its values; by hand it is a file of its own, or a section "
    "`dpcalc:` of a training config: docs/adopt.md"
)


def other_file_error(root: Section) -> Diagnostic | None:
    """Return DPC101 for a file that is no dpcalc config; None for a config."""
    foreign = [key for key in root.entries if key not in keys_in("") and not key.startswith(USER_KEY)]
    if not foreign:
        return None
    unmarked = next((key.partition(" {")[0] for key in foreign if key.partition(" {")[0] in _SECTIONS), "")
    if unmarked:
        return error("DPC101", root.anchor, f"`{unmarked}` has no colon behind it", f"write `{unmarked}: {{...}}`")
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
    return error("DPC101", root.anchor, message, WAYS)
