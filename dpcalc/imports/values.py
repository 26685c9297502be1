"""Values of imported files: JSON, and Python text of which literals and calls are read and nothing is executed."""

import ast
import json
import math
import operator
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from dpcalc.errors import InputError

MAX_DEPTH = 60
"""Brackets within one another; an event has less than ten. Every level costs stack in the recursive functions here."""
ORDERED = "OrderedDict"  # the type of the state of an accountant, which prints its name
_CONVERSIONS = frozenset(["float", "int", "float64", "float32", "int64"])  # numpy prints its numbers so
_MAX_BITS = 4096  # of a number; a larger one is an attack by arithmetic
_MAX_POWER = 64  # exponents that are computed exactly


class NoJsonError(InputError):
    """A text that is no JSON; it may be a value as Python prints it."""


@dataclass(frozen=True)
class Expression:
    """A part of Python text that is no literal, and is never evaluated.

    Attributes:
        text: as written, shortened.
    """

    text: str


@dataclass(frozen=True)
class Call:
    """A call in Python text, or an event as a mapping with the name of its class.

    Attributes:
        name: last part of the name of what is called.
        arguments: positional arguments.
        keywords: keyword arguments by name.
        line: of the text, from 1; 0 where it is no Python text.
    """

    name: str
    arguments: tuple[Any, ...]
    keywords: Mapping[str, Any]
    line: int = 0


# A value is None, a bool, a str, a Fraction, an infinite float, a list, a dict with str keys, an Expression or a Call.


def json_value(text: str) -> Any:  # noqa: ANN401  a value
    """Return the value of JSON, floats as the decimals printed; NoJsonError for other texts, InputError for NaN.

    Raises:
        NoJsonError: it is no JSON.
        InputError: it is nested too deep, or has NaN.
    """
    try:
        return plain_value(json.loads(text))
    except RecursionError:
        raise _too_deep() from None
    except InputError:
        raise  # it is a ValueError too
    except ValueError as error:
        raise NoJsonError(f"expected JSON, got something else: {error}") from None


def plain_value(value: object, depth: int = 0) -> Any:  # noqa: ANN401  a value
    """Return a value, numbers as fractions, tuples as lists, events as Calls, others as Expressions; or InputError.

    Args:
        value: None, bool, int, float, str, list, tuple or dict; anything else becomes an Expression of its repr.
        depth: of the value in what holds it.

    Raises:
        InputError: it is nested too deep, or has NaN.
    """
    if depth > MAX_DEPTH:
        raise _too_deep()
    if isinstance(value, (list, tuple)):
        return [plain_value(each, depth + 1) for each in value]
    if isinstance(value, dict):
        inner = {str(key): plain_value(each, depth + 1) for key, each in value.items()}
        name = inner.pop("class_name", None)
        if not isinstance(name, str):
            return inner
        inner.pop("module_name", None)
        return Call(name, (), inner)
    if value is None or isinstance(value, (bool, str)):
        return value
    return number_value(value) if isinstance(value, (int, float)) else Expression(repr(value)[:80])


def number_value(number: float | Fraction) -> Fraction | float:
    """Return an exact fraction, a float as the decimal that it prints as, infinities as are; InputError for others.

    Raises:
        InputError: it is NaN, or has too many digits.
    """
    if isinstance(number, float):
        if math.isnan(number):
            raise InputError("expected numbers, got nan; was the run still valid?")
        return number if math.isinf(number) else Fraction(repr(number))
    exact = Fraction(number)
    if max(exact.numerator.bit_length(), exact.denominator.bit_length()) > _MAX_BITS:
        raise InputError("expected numbers of a run, got one with more than a thousand digits")
    return exact


def python_tree(text: str) -> ast.Module:
    """Return the syntax tree of Python text, of which nothing is run; InputError for other texts or deep nesting.

    Raises:
        InputError: it is no Python, or nested too deep.
    """
    try:
        return ast.parse(text)
    except (RecursionError, MemoryError):
        raise _too_deep() from None
    except SyntaxError as error:
        raise InputError(
            f"line {error.lineno}: expected JSON, an event or a call as Python writes it, got something else"
        ) from None
    except ValueError as error:  # an integer of too many digits
        raise InputError(f"expected JSON, an event or a call, got something else: {error}") from None


def outermost_calls(tree: ast.AST, is_meant: Callable[[str], bool]) -> Iterator[ast.Call]:
    """Yield, in the order of the text, the calls whose name is meant, none that is within another one.

    Args:
        tree: a syntax tree.
        is_meant: whether a name, as `called_name` returns it, is looked for.
    """
    nodes = [tree]
    while nodes:
        node = nodes.pop()
        if isinstance(node, ast.Call) and is_meant(called_name(node)):
            yield node
        else:
            nodes.extend(reversed(list(ast.iter_child_nodes(node))))


def called_name(node: ast.Call) -> str:
    """Return the last part of the name of what is called, without the affixes of an event's named tuple; "" for none.

    Example:
        >>> called_name(ast.parse("dp._GaussianDpEventNamedTupleWrapper(1)", mode="eval").body)
        'GaussianDpEvent'
    """
    function = node.func
    name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
    return name.removeprefix("_").removesuffix("NamedTupleWrapper")


def literal_value(node: ast.expr, depth: int = 0) -> Any:  # noqa: ANN401, PLR0911  a value, of as many kinds
    """Return a value: literals, arithmetic of numbers, calls as Calls, else an Expression; InputError if too deep.

    Args:
        node: the part.
        depth: of the part in what holds it.

    Raises:
        InputError: it is nested too deep, or has a number with too many digits.
    """
    if depth > MAX_DEPTH:
        raise _too_deep()
    deeper = depth + 1
    match node:
        case ast.Constant(value=bool() | str() | int() | float() | None as constant):
            return plain_value(constant)
        case ast.Name(id="inf" | "nan"):
            return number_value(float(node.id))
        case ast.List() | ast.Tuple():
            return [literal_value(each, deeper) for each in node.elts]
        case ast.Dict() if all(isinstance(key, ast.Constant) for key in node.keys):
            pairs = zip(node.keys, node.values, strict=True)
            return plain_dict({str(key.value): literal_value(each, deeper) for key, each in pairs})  # type: ignore[union-attr]
        case ast.UnaryOp(op=ast.USub()):
            inner = literal_value(node.operand, deeper)
            return -inner if isinstance(inner, (Fraction, float)) else _expression(node)
        case ast.BinOp():
            return _arithmetic(node, literal_value(node.left, deeper), literal_value(node.right, deeper))
        case ast.Call() if all(each.arg for each in node.keywords):
            return _call(node, deeper)
        case _:
            return _expression(node)


def plain_dict(entries: dict[str, Any]) -> Any:  # noqa: ANN401  a value
    """Return entries as they are, or, if they name an event's class, a Call without "class_name", "module_name"."""
    name = entries.get("class_name")
    if not isinstance(name, str):
        return entries
    return Call(name, (), {key: each for key, each in entries.items() if key not in {"class_name", "module_name"}})


def _call(node: ast.Call, depth: int) -> Any:  # noqa: ANN401  a value
    """Return a Call; but an OrderedDict's content as a dict, and the bare number of `float`, `int`, numpy's types."""
    arguments = tuple(literal_value(each, depth) for each in node.args)
    if called_name(node) == ORDERED and len(arguments) == 1:
        items = arguments[0]
        is_list = isinstance(items, list) and all(isinstance(each, list) and len(each) == 2 for each in items)
        return {str(key): value for key, value in items} if is_list else items
    if called_name(node) in _CONVERSIONS and len(arguments) == 1 and isinstance(arguments[0], (Fraction, float)):
        return arguments[0]
    keywords = {str(each.arg): literal_value(each.value, depth) for each in node.keywords}
    named = plain_dict(keywords)
    own = named.name if isinstance(named, Call) else called_name(node)
    return Call(own, arguments, named.keywords if isinstance(named, Call) else keywords, node.lineno)


def _arithmetic(node: ast.BinOp, left: Any, right: Any) -> Any:  # noqa: ANN401  values
    """Return +, -, *, / or ** of two fractions, else (also x / 0) an Expression; InputError if too many digits."""
    if not (isinstance(left, Fraction) and isinstance(right, Fraction)):
        return _expression(node)
    if isinstance(node.op, ast.Pow):
        return _power(node, left, right)
    operations = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv}
    operation = operations.get(type(node.op))
    if operation is None or (operation is operator.truediv and not right):
        return _expression(node)
    return number_value(operation(left, right))


def _power(node: ast.BinOp, base: Fraction, exponent: Fraction) -> Any:  # noqa: ANN401  a value
    """Return a power: exact for whole exponents up to 64, by floats for a base > 0; otherwise an Expression."""
    try:
        if exponent.denominator == 1 and abs(exponent) <= _MAX_POWER:
            return number_value(base**exponent.numerator)
        return number_value(float(base) ** float(exponent)) if base > 0 else _expression(node)
    except (ZeroDivisionError, OverflowError):
        return _expression(node)


def _expression(node: ast.expr) -> Expression:
    """Return the first 80 characters of a part of Python text as an Expression; InputError if nested too deep."""
    try:
        return Expression(ast.unparse(node)[:80])
    except RecursionError:
        raise _too_deep() from None


def _too_deep() -> InputError:
    """Return the error for a file that is nested too deep."""
    return InputError(f"expected at most {MAX_DEPTH} brackets within one another, got more; is this the right file?")
