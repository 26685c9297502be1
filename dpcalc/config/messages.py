"""The words of errors in a config, each with its place in the file."""

from collections.abc import Iterator

from dpcalc.config import scalars
from dpcalc.config.schema import SCHEMES, keys_in, mechanism_keys
from dpcalc.config.source import Diagnostic, error
from dpcalc.config.tree import USER_KEY, Node, Scalar, Section, entry, join, node_at
from dpcalc.config.values import BATCH_SIZE, DRAW_KEYS
from dpcalc.config.vocabulary import PLANNED_METHODS, key_suggestion, section_kind, value_suggestion
from dpcalc.errors import KeyedInputError, listed
from dpcalc.keys import WrongValueError
from dpcalc.mechanisms.kinds import MECHANISMS

NOT_YET = "is not supported by this version of dpcalc"
DRAW_FORM = "a mapping such as {scheme: poisson, rate: 0.01}"


def missing_key_error(section: Node, key: str, advice: str = "") -> Diagnostic:
    """Return the error (DPC103) for a key that a section lacks; without `advice` that of the key's declaration.

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
    """Return the error "`key` must be ..., got ..." for a value that its type refuses.

    Args:
        node: the value.
        cause: what the type says of it.
    """
    if cause.code == "DPC102":
        return wrong_type_error(node, cause.expected)
    return error(cause.code, node.anchor, f"`{node.path}` must be {cause.expected}, got {scalars.describe(node)}")


def keyed_error(section: Node, cause: KeyedInputError) -> Diagnostic:
    """Return a constructor's error as one at the key that it names, or at the section if the file lacks that key.

    Args:
        section: the section that the class describes, which errors of its keys are relative to.
        cause: what the constructor raised.
    """
    keys = (int(key) if key.isdecimal() else key for key in cause.key.split("."))
    node = node_at(section, *keys) or section
    return error(cause.code, node.anchor, f"`{node.path}` {cause.problem}", cause.hint)


def wrong_type_error(node: Node, expected: str) -> Diagnostic:
    """Return the error (DPC102) for a value of the wrong type, with a hint how to write it.

    Args:
        node: the value.
        expected: the type in words, such as "a whole number"; it completes "must be".
    """
    name = f"`{node.path}`" if node.path else "the file"
    message = f"{name} must be {expected}, got {scalars.describe(node)}"
    hint = scalars.number_hint(node) if "number" in expected else _text_hint(node, expected)
    return error("DPC102", node.anchor, message, hint)


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
    """Return the error for a value that is none of the allowed words: planned, unknown (DPC104) or no text (DPC102).

    Args:
        key: the key whose value it is.
        node: the value.
        allowed: the allowed words.
    """
    text = node.text if isinstance(node, Scalar) else ""
    if key == "method" and text in PLANNED_METHODS:
        return error("DPC104", node.anchor, f"accounting method `{text}` {NOT_YET}", PLANNED_METHODS[text])
    if not isinstance(node, Scalar) or not isinstance(scalars.value(node), str):
        return wrong_type_error(node, listed(allowed))
    message = f"`{node.path}` must be {listed(allowed)}, got {scalars.describe(node)}"
    return error("DPC104", node.anchor, message, value_suggestion(key, text, allowed))


def scheme_errors(draw: Section) -> Iterator[Diagnostic]:
    """Yield an unknown scheme's error; if unstated one for each unknown key, DPC103 unless one may mean `scheme`."""
    scheme = draw.entries.get("scheme")
    if scheme is not None:
        yield wrong_word_error("scheme", scheme, tuple(SCHEMES))
        return
    known = {*DRAW_KEYS, BATCH_SIZE}
    unknown = [key for key in draw.entries if key not in known and not key.startswith(USER_KEY)]
    for key in unknown:
        yield unknown_key_error(draw, key, draw.entries[key])
    if not any(key_suggestion("sampling", key).key == "scheme" for key in unknown):
        yield missing_key_error(draw, "scheme")


def extra_key_error(section: Section, key: str, value: Node) -> Diagnostic:
    """Return the error for a key that the scheme, type or another key excludes (DPC107), or that is unknown (DPC101).

    Args:
        section: the mapping that holds the key.
        key: the extra key.
        value: its value.
    """
    scheme, mechanism = entry(section, "scheme"), entry(section, "type")
    mark = value.key or value.anchor
    if key == "examples" and section.path == "data":
        message = "`examples` and `levels` in `data` both say what there is"
        return error("DPC107", mark, message, "`examples: N` is short for one level; keep one of them")
    if section_kind(section.path) == "mechanism" and key in keys_in("mechanism"):
        name = mechanism.text if isinstance(mechanism, Scalar) else "gaussian"
        fields = mechanism_keys(name) if name in MECHANISMS else ()
        allowed = ", ".join(f"`{field}`" for field in fields if field != "type")
        message = f"`{key}` does not go with type `{name}`"
        return error("DPC107", mark, message, f"`{name}` takes {allowed}" if allowed else "")
    # A known key in the wrong place deserves an answer about the place; only then is it looked up as a misspelling.
    if not isinstance(scheme, Scalar) or key not in {*DRAW_KEYS, BATCH_SIZE} - {"scheme"}:
        return unknown_key_error(section, key, value)
    others = [name for name in ("size", "expected", "rate") if name in section.entries]
    if key == BATCH_SIZE and scheme.text != "all" and others:
        message = f"`batch_size` and `{others[0]}` both say how many are drawn"
        return error("DPC107", mark, message, "keep one of them")
    message = f"`{key}` does not go with scheme `{scheme.text}`"
    return error("DPC107", mark, message, _extra_key_hint(key, scheme.text))


def _extra_key_hint(key: str, scheme: str) -> str:
    """Return the advice for a key of a draw that does not go with its scheme: what to write, or what it takes."""
    if key == "redraw_every" and scheme == "balls-in-bins":
        return "`assignment: held` keeps the choice of the first pass"
    if key == "redraw_every":
        return "fixed, poisson and all draws can be held; others are made in every step"
    if key == "max_batch_size":
        return "only Poisson batches are cut to a maximum: take it out, or say `scheme: poisson` if the loader cuts"
    if key == "drop_last" and scheme == "poisson":
        return (
            "Poisson batches have no last one to drop: take it out; Opacus with drop_last=True draws at `rate: 1/N`, N "
            "the batches of its loader"
        )
    if key == "drop_last":
        return (
            "only passes over shuffled units have a last batch: take it out, or say `scheme: shuffle` if the loader "
            "goes through shuffled data"
        )
    takes = {
        "poisson": "takes `rate` or `expected`",
        "cyclic-poisson": "takes `rate` or `expected`, and `groups`",
        "all": "draws everything",
        "any-order": "takes no other key: `mechanism` says in which steps a unit takes part",
        "balls-in-bins": "takes `bins`",
        "random-allocation": "takes `times`",
    }.get(scheme, "takes `size`")
    return f"`{scheme}` {takes}"


def _text_hint(node: Node, expected: str) -> str:
    """Return the advice to quote a number where a text is expected, else ""."""
    is_word = isinstance(node, Scalar) and not isinstance(scalars.value(node), str)
    return "quote it to make it a text" if is_word and expected in {"a text", "a name"} else ""
