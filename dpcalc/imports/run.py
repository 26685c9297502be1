"""An imported run, and the values of imported files, read without running anything."""

import ast
import math
import operator
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction
from types import MappingProxyType
from typing import Any

from dpcalc.config.python_names import assignments, bound_names
from dpcalc.config.scalars import decimal_text
from dpcalc.errors import InputError
from dpcalc.records import dataclass

# Values of imported files: JSON, and Python text of which literals and calls are read and nothing is executed. A value
# is None, a bool, a str, a Fraction, an infinite float, a list, a dict with str keys, an Expression or a Call.

MAX_DEPTH = 60
"""Brackets within one another; an event has less than ten. Every level costs stack in the recursive functions here."""
ORDERED = "OrderedDict"  # the type of the state of an accountant, which prints its name
_TRUNCATING = frozenset(["int", "int64"])
_CONVERSIONS = frozenset(["float", "float64", "float32"]) | _TRUNCATING  # numpy prints its numbers so
_OPERATIONS = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv}
_MAX_BITS = 4096  # of a number; a larger one is an attack by arithmetic
_MAX_POWER = 64  # exponents that are computed exactly


@dataclass(frozen=True)
class Expression:
    """A part of Python text that is no literal, and is never evaluated."""

    text: str  # as written, shortened


@dataclass(frozen=True)
class Call:
    """A call in Python text, or an event as a mapping with the name of its class."""

    name: str  # last part of the name of what is called
    arguments: tuple[Any, ...]
    keywords: Mapping[str, Any]
    line: int = 0  # of the text, from 1; 0 where it is no Python text


def plain_value(value: object, depth: int = 0) -> Any:
    """Return a value with exact numbers, and with a Call for a dict that names a class; InputError if too deep."""
    # The file decides how deep this recursion goes, so that MAX_DEPTH has to stop it before the stack does.
    if depth > MAX_DEPTH:
        raise too_deep()
    match value:
        case list() | tuple():
            return [plain_value(each, depth + 1) for each in value]
        case dict():
            return call_if_class_named({str(key): plain_value(each, depth + 1) for key, each in value.items()})
        case None | bool() | str():
            return value
        case int() | float():
            return number_value(value)
        case _:
            return Expression(repr(value)[:80])


def number_value(number: float | Fraction) -> Fraction | float:
    """Return a number exactly as its digits state it, or infinity; InputError if it is NaN or too large."""
    if isinstance(number, float):
        if math.isnan(number):
            raise InputError("expected numbers, got nan; was the run still valid?")
        # 0.1 in a file means a tenth, not the float next to it.
        return number if math.isinf(number) else Fraction(repr(number))
    exact = Fraction(number)
    if max(exact.numerator.bit_length(), exact.denominator.bit_length()) > _MAX_BITS:
        raise InputError("expected numbers of a run, got one with more than a thousand digits")
    if abs(exact) > sys.float_info.max:
        raise InputError(f"expected numbers of a run, got one above {sys.float_info.max:.3g}")
    return exact


def outermost_calls(tree: ast.AST, is_meant: Callable[[str], bool]) -> Iterator[ast.Call]:
    """Yield the calls whose name `is_meant` accepts, in text order, except those inside another such call."""
    nodes = [tree]
    while nodes:
        node = nodes.pop()
        if isinstance(node, ast.Call) and is_meant(called_name(node)):
            yield node
        else:
            # The last one of the list is taken next: reversed, that is the first one in the text.
            nodes.extend(reversed(list(ast.iter_child_nodes(node))))


def called_name(node: ast.Call) -> str:
    """Return the last part of a called name, without "_" before it and "NamedTupleWrapper" after it; "" for no name.

    Example:
        >>> called_name(ast.parse("dp._GaussianDpEventNamedTupleWrapper(1)", mode="eval").body)
        'GaussianDpEvent'
    """
    function = node.func
    name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
    return name.removeprefix("_").removesuffix("NamedTupleWrapper")


def literal_value(node: ast.expr, constants: Mapping[str, Any] = MappingProxyType({}), depth: int = 0) -> Any:
    """Return the value of literals, `constants`, arithmetic and calls, an Expression for other code; InputError if
    too deep."""
    if depth > MAX_DEPTH:
        raise too_deep()
    deeper = depth + 1
    match node:
        case ast.Constant(value=bool() | str() | int() | float() | None as constant):
            return plain_value(constant)
        case ast.Name(id="inf" | "nan"):
            return number_value(float(node.id))
        case ast.Name(id=name) if name in constants:
            return constants[name]
        case ast.List() | ast.Tuple():
            return [literal_value(each, constants, deeper) for each in node.elts]
        case ast.Dict():
            keys = [str(key.value) for key in node.keys if isinstance(key, ast.Constant)]
            if len(keys) == len(node.keys):
                if len(set(keys)) < len(keys):
                    raise InputError(
                        f"line {node.lineno}: expected each key of a dictionary once, got one twice; delete one"
                    )
                values = [literal_value(each, constants, deeper) for each in node.values]
                return call_if_class_named(dict(zip(keys, values, strict=True)))
        case ast.UnaryOp(op=ast.USub()):
            operand = literal_value(node.operand, constants, deeper)
            if isinstance(operand, (Fraction, float)):
                return -operand
        # People write 64 / 60_000 into calls. It is computed exactly; functions are never looked up.
        case ast.BinOp():
            left, right = literal_value(node.left, constants, deeper), literal_value(node.right, constants, deeper)
            if isinstance(left, Fraction) and isinstance(right, Fraction):
                with suppress(ZeroDivisionError, OverflowError):
                    if type(node.op) in _OPERATIONS:
                        return number_value(_OPERATIONS[type(node.op)](left, right))
                    # 10**10**10 would fill the memory: only small whole exponents are exact, of which number_value
                    # bounds the digits.
                    if isinstance(node.op, ast.Pow) and right.denominator == 1 and abs(right) <= _MAX_POWER:
                        return number_value(left**right.numerator)
                    if isinstance(node.op, ast.Pow) and left > 0:
                        return number_value(float(left) ** float(right))
        case ast.Call() if all(each.arg for each in node.keywords):
            arguments, name = tuple(literal_value(each, constants, deeper) for each in node.args), called_name(node)
            first: Any = arguments[0] if len(arguments) == 1 else None
            if name == ORDERED and len(arguments) == 1:
                # It prints as a list of pairs, or as a dictionary.
                is_list = isinstance(first, list) and all(isinstance(each, list) and len(each) == 2 for each in first)
                return {str(key): value for key, value in first} if is_list else first
            if name in _CONVERSIONS and isinstance(first, (Fraction, float)):
                return Fraction(int(first)) if name in _TRUNCATING and math.isfinite(first) else first
            # dp_accounting prints a named tuple of an event as a call with the name of the class among its keywords.
            keywords = {str(each.arg): literal_value(each.value, constants, deeper) for each in node.keywords}
            event = call_if_class_named(keywords)
            if isinstance(event, Call):
                name, keywords = event.name, dict(event.keywords)
            return Call(name, arguments, keywords, node.lineno)
    try:
        return Expression(ast.unparse(node)[:80])
    except RecursionError:
        raise too_deep() from None


def constants_of(tree: ast.Module) -> dict[str, Any]:
    """Return the names that a file binds once in all, at its top level, to a number or bool, with their values."""
    bound, anything = bound_names(tree)
    found: dict[str, Any] = {}
    for name, value, _ in assignments(tree.body) if not anything else ():
        if value and len(bound[name]) == 1:
            with suppress(InputError):  # nan, or too deep: then it is code like any other
                number = literal_value(value, found)
                if isinstance(number, (bool, Fraction)):
                    found[name] = number
    return found


def call_if_class_named(entries: dict[str, Any]) -> Any:
    """Return a dict with a text "class_name" as the Call of that class; any other dict unchanged."""
    name = entries.get("class_name")
    if not isinstance(name, str):
        return entries
    return Call(name, (), {key: each for key, each in entries.items() if key not in {"class_name", "module_name"}})


def too_deep() -> InputError:
    return InputError(f"expected at most {MAX_DEPTH} brackets within one another, got more; is this the right file?")


# An imported run: phases as a config states them, and what the file does not say.

MAX_PHASES = 500
"""Different phases of an imported run; a thousand need a config that exceeds the limits of `dpcalc.config`."""
DECIMAL_LENGTH = 8  # characters from which on a rate is written as 1/n where that is the same float


@dataclass(frozen=True, kw_only=True)
class Part:
    """Steps of a run with one sampling and one mechanism, as the sections of a config hold them."""

    sampling: str
    mechanism: str  # "{noise}" stands for a noise multiplier that the library looks for
    training: str = ""  # without `steps`
    steps: int | None = None  # noisy updates; None where `training` says the length
    examples: int | None = None  # in the data, where a draw states it


@dataclass(frozen=True, kw_only=True)
class Terms:
    """Terms that the user adds to a file, or puts in the place of its own; None for nothing."""

    delta: str | None = None
    adjacency: str | None = None
    examples: Fraction | None = None
    batch_size: Fraction | None = None
    sample_rate: Fraction | None = None
    epochs: Fraction | None = None
    steps: Fraction | None = None
    noise_multiplier: Fraction | None = None
    target_epsilon: Fraction | None = None
    loader: str | None = None  # a scheme


@dataclass(frozen=True, kw_only=True)
class ImportedRun:
    """A run that a file of another library describes."""

    origin: str  # what the file is, in words
    parts: tuple[Part, ...]  # in their order, equal ones once
    unknown: tuple[str, ...]  # what the file does not say, a sentence each
    delta: str = ""  # that the file states
    adjacency: str = "add-remove"  # what the library assumes
    examples: int | None = None  # None where the file does not say it
    group_size: int = 1  # units that are protected together
    tuning: str = ""  # content of the `tuning:` section, "" for one run
    target_epsilon: float | None = None  # for which the library looks for a noise multiplier
    found_by: str = ""  # `by` and `assuming` of it: the accountant, and what it is told


def merged_parts(parts: Sequence[Part]) -> tuple[Part, ...]:
    """Return the different parts in order with their total steps, without those of 0; InputError for none or many."""
    steps: dict[Part, int] = {}
    for part in parts:
        # Composition does not depend on the order of steps: a history of thousands of entries becomes a few phases.
        kind = replace(part, steps=None)
        steps[kind] = steps.get(kind, 0) + (part.steps or 0)
    if not any(steps.values()):
        raise InputError("expected a run with steps, got one without any; there is nothing to account for")
    if len(steps) > MAX_PHASES:
        raise InputError(
            f"expected at most {MAX_PHASES} different pairs of noise and rate, got {len(steps):,}; state a few of "
            "them, each with less noise and a larger rate than those that it stands for"
        )
    return tuple(replace(part, steps=count) for part, count in steps.items() if count)


def bound(
    call: Call, names: Sequence[str], optional: Mapping[str, Any], *, words: str, unnamed: int | None = None
) -> dict[str, Any]:
    """Return the arguments of a call by name, with defaults; of them `unnamed` at most may stand without a name."""
    extra = [name for name in call.keywords if name not in names]
    if len(call.arguments) > (len(names) if unnamed is None else unnamed) or extra:
        got = ", ".join(extra) or f"{len(call.arguments)} values"
        raise InputError(f"{call.name}: expected the {words} {', '.join(names) or '(none)'}, got {got[:80]}")
    if twice := [name for name in names[: len(call.arguments)] if name in call.keywords]:
        raise InputError(f"{call.name}: expected {', '.join(twice)} once, got two values")
    given = dict(zip(names, call.arguments, strict=False)) | dict(call.keywords)
    if missing := [name for name in names if name not in given and name not in optional]:
        raise InputError(f"{call.name}: expected {', '.join(missing)} too, got none")
    return {name: given.get(name, optional.get(name)) for name in names}


# Numbers of a file, checked where they are read so that messages name what the file calls them.


def finite_number(value: Any, where: str, *, low: float = 0, high: float = math.inf) -> Fraction:
    """Return `value` if it is a Fraction in [low, high]; InputError, which names `where`, for anything else."""
    limits = f"from {low:g} to {high:g}" if high < math.inf else f">= {low:g}"
    if not isinstance(value, Fraction) or not low <= value <= high:
        raise InputError(f"{where}: expected a finite number {limits}, got {shown(value)}")
    return value


def whole_number(value: Any, where: str, *, low: int = 1) -> int:
    """Return `value` as an int if it is a whole Fraction >= low; InputError naming `where` for anything else."""
    if not isinstance(value, Fraction) or value.denominator != 1 or value < low:
        raise InputError(f"{where}: expected a whole number >= {low}, got {shown(value)}")
    return int(value)


def shown(value: Any) -> str:
    """Return a value as a message shows it: numbers exactly, code marked as not run, other values cut."""
    match value:
        case Fraction():
            return number_text(value)
        case Expression(text=text):
            return f"`{text}`, which is not run"
        case Call(name=name):
            return f"a call of {name}, which is not run"
        case None:
            return "none"
        case str() | int() | float():
            text = repr(value)
        case _:
            text = getattr(value, "name", f"a {type(value).__name__}")
    return text if len(text) <= 60 else f"{text[:57]}..."


def number_text(number: Fraction) -> str:
    """Return a number as a config states it: a decimal, or a quotient where no short decimal is the same number."""
    return decimal_text(number) or f"{number.numerator}/{number.denominator}"


def decimal_down(number: Fraction) -> str:
    """Return a noise multiplier or delta as an exact decimal, else as a float below it, which makes epsilon larger."""
    return decimal_text(number) or repr(math.nextafter(float(number), 0.0))


def rate_of(value: Any, where: str) -> Fraction:
    """Return a rate in (0, 1], as 1/n if a long decimal stands for 1/n; InputError for other values."""
    rate = finite_number(value, where, low=0)
    if not 0 < rate <= 1:
        more = "; Opacus multiplies it by the accumulated batches: state what one step draws" if rate > 1 else ""
        raise InputError(f"{where}: expected a probability above 0 and at most 1, got {number_text(rate)}{more}")
    # A loader of 97 batches has the rate 1/97, which a file holds as 0.010309278350515464.
    quotient = Fraction(1, round(1 / rate))
    is_quotient = len(number_text(rate)) > DECIMAL_LENGTH and float(quotient) == float(rate)
    return quotient if is_quotient else rate
