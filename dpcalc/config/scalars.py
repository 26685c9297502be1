"""Values of single words by our own rules, because YAML 1.1 reads `010` as 8 and `1e-5` as a text."""

import re
from collections.abc import Iterable
from decimal import Context, Decimal, Inexact
from fractions import Fraction
from math import ceil
from typing import Any

from dpcalc.config.source import shortened, visible
from dpcalc.config.tree import USER_KEY, Items, Node, Scalar, Section
from dpcalc.keys import COUNT, MAX_COUNT, TEXT, Schema, ValueType, WholeNumber, WrongValueError, mapping_of
from dpcalc.records import dataclass
from dpcalc.sampling.schemes import SCHEMES

MAX_DIGITS = 80  # characters of a number; exact arithmetic with longer ones takes ever longer
MAX_EXPONENT = 400  # beyond the range of floats

_DIGITS = r"[0-9]+(?:_[0-9]+)*"
_NUMBER = re.compile(
    rf"[-+]?(?:(?:0|[1-9][0-9]*(?:_[0-9]+)*)(?:\.(?:{_DIGITS})?)?|\.{_DIGITS})(?:[eE](?P<exponent>[-+]?[0-9]+))?"
)
_WHOLE = r"[1-9][0-9]*(?:_[0-9]+)*"
QUOTIENT = rf"{_WHOLE} */ *{_WHOLE}"
_QUOTIENT = re.compile(rf"(?P<over>{_WHOLE}) */ *(?P<under>{_WHOLE})")
_NULL = frozenset({"", "~", "null", "Null", "NULL"})
_TRUTH = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_INFINITY = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")
_MAX_PLAIN_INTEGER = 10**16
_EXACT = Context(prec=MAX_DIGITS, traps=[Inexact])

Value = str | bool | Fraction | None


def value(scalar: Scalar) -> Value:
    """Return the exact number, boolean, None or text that a scalar means.

    Quoted words are always texts. Numbers are decimal: digits with single underscores between them, a point, an
    exponent. Anything else that looks like a number (`010`, `0x1f`, `1/256`, `.inf`) is a text here, and an error where
    a number is due; where a probability is due, `parse_quotient` reads `1/256`.
    """
    if not scalar.plain:
        return scalar.text
    if scalar.text in _NULL:
        return None
    if scalar.text in _TRUTH:
        return _TRUTH[scalar.text]
    number = parse_number(scalar.text)
    return scalar.text if number is None else number


def checked(kind: ValueType, node: Node) -> Any:
    """Return a node's value as its type has it, which may be a quotient; WrongValueError if it is none."""
    found = value(node) if isinstance(node, Scalar) else node
    if isinstance(found, str) and getattr(kind, "quotients", False):
        found = parse_quotient(found) or found  # 1/97
    return kind.check(found)


def number_of(node: Node | None) -> Fraction | None:
    """Return the exact number that a node states; None if it is no scalar, or no number."""
    number = value(node) if isinstance(node, Scalar) else None
    return number if isinstance(number, Fraction) else None


def parse_number(text: str) -> Fraction | None:
    """Return the exact value of a decimal number as a file may state it without quotes, None for other texts."""
    return Fraction(text.replace("_", "")) if _NUMBER.fullmatch(text) and not limit_violation(text) else None


def parse_quotient(text: str) -> Fraction | None:
    """Return the exact value of a quotient of two positive integers such as `1/97`, None for other texts.

    Rates are often no decimal numbers: Opacus draws with 1 / number of batches. JSON needs quotes around a quotient, so
    quotes are ignored here.
    """
    match = _QUOTIENT.fullmatch(text) if len(text) <= MAX_DIGITS else None
    return Fraction(int(match["over"]), int(match["under"])) if match else None


def least_count(rates: Iterable[Fraction | None], group: Fraction | None) -> int:
    """Return the fewest units of which each rate draws one on average, and that hold a group; out of range counts 1."""
    least = [1, *(min(MAX_COUNT, ceil(1 / rate)) for rate in rates if rate is not None and 0 < rate <= 1)]
    return max(*least, ceil(group) if group is not None and group <= MAX_COUNT else 1)


def decimal_text(number: Fraction) -> str | None:
    """Return the exact decimal of a number in its shorter notation; None if it has over MAX_DIGITS digits.

    Example:
        >>> decimal_text(Fraction(1, 250)), decimal_text(Fraction(1, 10**5)), decimal_text(Fraction(1, 3))
        ('0.004', '1e-5', None)
    """
    if number.denominator == 1 and abs(number) < _MAX_PLAIN_INTEGER:
        return str(number.numerator)
    try:
        exact = _EXACT.divide(Decimal(number.numerator), Decimal(number.denominator)).normalize(_EXACT)
    except Inexact:
        return None
    # `1e-5` is read more easily than 0.00001, and 0.004 more easily than `4e-3`.
    plain, powered = format(exact, "f"), format(exact, "e")
    return powered if len(powered) + 2 < len(plain) else plain


def probability_text(number: Fraction) -> str | None:
    """Return the decimal, or else the quotient, that states a probability exactly; None if both are too long."""
    text = f"{number.numerator}/{number.denominator}"
    return decimal_text(number) or (text if len(text) <= MAX_DIGITS else None)


def limit_violation(text: str) -> str:
    """Return the limit that a number or `.inf` breaks, such as "numbers must be finite"; "" if none, or for a word."""
    if _INFINITY.fullmatch(text):
        return "numbers must be finite"
    match = _NUMBER.fullmatch(text)
    if not match:
        return ""
    if len(text) > MAX_DIGITS:
        return f"numbers may have at most {MAX_DIGITS} characters"
    exponent = match["exponent"] or "0"
    return f"exponents may be at most {MAX_EXPONENT}" if abs(int(exponent)) > MAX_EXPONENT else ""


def describe(node: Node) -> str:
    """Return a value as a message names it: "the string '1e4x'", "the number 1.5", "`true`", "nothing", "a list"."""
    if isinstance(node, Section):
        return "a mapping"
    if isinstance(node, Items):
        return "a list"
    shown = shortened(node.text)
    meaning = value(node)
    if meaning is None:
        return "nothing"
    if isinstance(meaning, bool):
        return f"`{shown}`"
    return f"the number {shown}" if isinstance(meaning, Fraction) else f"the string '{shown}'"


def number_hint(node: Node) -> str:
    """Return advice on how to write a number, such as "remove the quotes"; "" if there is none."""
    if not isinstance(node, Scalar):
        return ""
    if not node.plain and _NUMBER.fullmatch(node.text.strip()[:MAX_DIGITS]):
        return "remove the quotes"
    return word_hint(node.text)


def word_hint(text: str) -> str:
    """Return how to write the number that a text probably means; "" if unrecognised, or over 80 characters."""
    word = text.strip()
    if len(word) > MAX_DIGITS:
        return ""
    if re.fullmatch(r"[-+]?0[0-9_]+", word):
        return f"leading zero: YAML 1.1 reads this as octal; write {word.lstrip('-+').lstrip('0_') or '0'}"
    if re.fullmatch(r"0[xob][0-9a-fA-F]+", word):
        try:
            return f"write it in decimal: {int(word, 0)}"
        except ValueError:
            return "write it in decimal"
    if re.fullmatch(r"[0-9.]+ */ *[0-9.]+", word):
        return "write a decimal number; rates and probabilities may be quotients of two whole numbers, such as 1/97"
    if re.fullmatch(r"[0-9]+(\.[0-9]+)? *%", word):
        return f"write a plain number: {word} is {decimal_text(Fraction(word.rstrip(' %')) / 100)}"
    if re.fullmatch(r"[0-9]+(\.[0-9]+)? *[kKmMbBgG]", word):
        amount = Fraction(word[:-1].strip()) * {"k": 10**3, "m": 10**6, "b": 10**9, "g": 10**9}[word[-1].lower()]
        return f"write {amount.numerator:_}" if amount.denominator == 1 else f"write {decimal_text(amount)}"
    if re.fullmatch(r"[0-9]{1,3}(,[0-9]{3})+", word):
        return f"write {word.replace(',', '_')}"
    if re.fullmatch(r"[-+]?[0-9]+,[0-9]+", word):
        return f"write {word.replace(',', '.')}, with a decimal point"
    return ""


# Types of values that only a config has: sizes of draws, names of levels, names that are printed.

MAX_LABEL = 200  # characters of a name that is only printed; longer ones break tables
AT_MOST = "at_most"  # `size: {at_most: 8}` draws all units of a parent that has fewer
UNKNOWN = "unknown"  # `examples: unknown`: nobody knows the number, and epsilon depends on the rate alone
EVERY = "all"  # `--unit all` protects each level in turn
BATCH = "batch"  # `clip: batch` is level 0, the whole batch
EPISODES = "episodes"  # key of `sampling` that excludes draws by level
BATCH_SIZE = "batch_size"  # moved into the draw under this name until the scheme is known
DRAW_KEYS = frozenset({"scheme"}).union(*(scheme.keys for scheme in SCHEMES.values()))
AMOUNT_KEYS = frozenset({"size", "rate", "expected", BATCH_SIZE})  # each says how many are drawn
QUOTIENT_PATTERN = f"^{QUOTIENT}$"
# Not allowed as names of levels: keys that stand beside level names in `sampling`, or decide how sections are merged.
RESERVED = frozenset({BATCH, EVERY, *DRAW_KEYS, EPISODES, BATCH_SIZE, "steps", "epochs", "type"})
_INVISIBLE = r"\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff"  # control and formatting characters
_COUNT_RANGE: Schema = {
    "type": "object",
    "properties": {end: COUNT.as_json_schema() for end in ("min", "max")},
    "required": ["min", "max"],
    "additionalProperties": False,
}


class LevelName(ValueType):
    """Names of levels: words that fit into a dotted path and into a sentence, and are no reserved key."""

    def check(self, value: object) -> str:
        if not isinstance(value, str):
            raise WrongValueError("DPC102", "a name")
        if not re.fullmatch(r"[^\W\d_][\w-]{0,63}", value) or value.startswith(USER_KEY):
            words = "a word of at most 64 letters, digits, `-` and `_` that begins with a letter and not with `x-`"
            raise WrongValueError("DPC104", words)
        if value in RESERVED:
            raise WrongValueError("DPC104", "a name of your own: this one has a meaning in dpcalc")
        return value

    def as_json_schema(self) -> Schema:
        pattern = r"^(?!x-)[^\s0-9_.$\-\[\]=][^\s.$\[\]=]{0,63}$"
        return {"type": "string", "pattern": pattern, "not": {"enum": sorted(RESERVED)}}


@dataclass(frozen=True)
class Label(ValueType):
    """Texts that are only printed: `min_length` to MAX_LABEL characters, all printable, not spaces alone."""

    min_length: int = 0

    def check(self, value: object) -> str:
        text: str = TEXT.check(value)
        if len(text) > MAX_LABEL or visible(text) != text:
            raise WrongValueError("DPC104", f"at most {MAX_LABEL} printable characters")
        if len(text.strip()) < self.min_length:
            raise WrongValueError("DPC104", "a text that is not empty")
        return text

    def as_json_schema(self) -> Schema:
        text = rf"[^\s{_INVISIBLE}][^{_INVISIBLE}]*" if self.min_length else ""
        return {"type": "string", "maxLength": MAX_LABEL, "pattern": f"^[^{_INVISIBLE}]*{text}$"}


LABEL, FILLED_LABEL, LEVEL_NAME = Label(), Label(min_length=1), LevelName()
# A number of units may also be a range or `unknown`, which the long form replaces, a size the most that is drawn.
EXAMPLE_COUNT = WholeNumber(1, others=({"const": UNKNOWN},))
LEVEL_COUNT = WholeNumber(1, others=(_COUNT_RANGE, {"const": UNKNOWN}))
_LIMIT = mapping_of({AT_MOST: COUNT.as_json_schema()}, [AT_MOST])
DRAW_SIZE = WholeNumber(1, words=f"a whole number, or {{{AT_MOST}: 8}}", others=(_LIMIT,))
