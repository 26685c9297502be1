"""Words of other libraries and of papers: what each means in a dpcalc config. The words stand in `words.txt`.

A word is *renamed* only where key and value may be copied unchanged and mean the same run. Every other word is *said*:
the sentence has the conversion, with the numbers that stand beside the word, or says that no bound covers it and what
to do instead. Words that mean nothing to the accounting are said too. `docs/words.md` is written from these tables.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from difflib import SequenceMatcher
from fractions import Fraction
from importlib import resources
from math import floor, isqrt
from typing import NamedTuple

from dpcalc.config.scalars import decimal_text, parse_number


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
