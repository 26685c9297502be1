"""Files that references lead into (YAML, JSON, TOML) as marked trees, and the part of a file that is the config."""

import json
import re
import tomllib
from collections import Counter
from dataclasses import dataclass, replace

from dpcalc.config.files import Refusal
from dpcalc.config.messages import wrong_type_error
from dpcalc.config.overrides import parse_path
from dpcalc.config.source import ConfigError, Mark, Source, error, source_of
from dpcalc.config.tree import Items, Node, Scalar, Section, entry, join, node_at, step_text, with_path
from dpcalc.config.yaml_text import MAX_DEPTH, MAX_EVENTS, parse_yaml, tagged_paths

MAX_DOTS = 500  # in a line of TOML; tomllib needs time quadratic in the parts of a dotted key


@dataclass(frozen=True, kw_only=True)
class Document:
    """A whole file, for references to look into.

    Attributes:
        tree: its content.
        tagged: dotted paths of values with a YAML tag, which are not followed: their meaning is unknown.
    """

    tree: Node
    tagged: frozenset[str] = frozenset()


class Number(str):
    """Text of a JSON or TOML number, exactly as written."""

    __slots__ = ()


class Table(dict[str, object]):
    """JSON object that remembers which keys were given more than once.

    Attributes:
        repeated: those keys; the mapping holds their first values.
    """

    def __init__(self, pairs: list[tuple[str, object]]) -> None:
        """Build the mapping from all pairs in the order of the file."""
        super().__init__(reversed(pairs))
        counts = Counter(name for name, _ in pairs)
        self.repeated = frozenset(name for name, count in counts.items() if count > 1)


def read_document(source: Source, suffix: str) -> Document:
    """Return a referenced file as a tree, read as JSON or TOML by its suffix, else as YAML; Refusal if malformed.

    Args:
        source: its text.
        suffix: of its name: ".json", ".toml"; anything else is read as YAML.

    Returns:
        The document; only YAML trees have marks, other trees have one mark for everything.

    Raises:
        Refusal: the text is malformed, too large or too deep.
    """
    try:
        if suffix == ".json":
            return Document(tree=_TreeBuilder(source).build(_parse_json(source.text), ""))
        if suffix == ".toml":
            return Document(tree=_TreeBuilder(source).build(parse_toml(source), ""))
        tree, flaws = parse_yaml(source)
    except ConfigError as cause:
        first = cause.diagnostics[0]
        code = "DPC111" if first.code == "DPC111" else "DPC110"
        raise Refusal(code, f"cannot be read, line {first.line}: {first.message}", first.hint) from None
    except RecursionError:
        raise _too_large() from None
    except ValueError as cause:  # of json, of tomllib, and of whole numbers without end
        raise Refusal("DPC110", f"cannot be read as {suffix[1:].upper()}: {cause}") from None
    return Document(tree=tree, tagged=tagged_paths(flaws))


def parse_toml(source: Source) -> dict[str, object]:
    """Return a TOML text as dictionaries, floats as text; Refusal: over MAX_DOTS points a line; ValueError: no TOML.

    Args:
        source: the text.

    Raises:
        Refusal: a line has more than MAX_DOTS points.
        ValueError: it is no TOML.
        RecursionError: it is nested too deeply.
    """
    if any(line.count(".") > MAX_DOTS for line in source.lines):
        raise Refusal("DPC111", f"has a line with more than {MAX_DOTS} points", "refer to a smaller file")
    return tomllib.loads(source.text, parse_float=Number)


def _parse_json(text: str) -> object:
    """Parse a JSON text; numbers become `Number`, objects `Table`."""
    return json.loads(text, parse_float=Number, parse_int=Number, parse_constant=Number, object_pairs_hook=Table)


class _TreeBuilder:
    """Translation of what a JSON or TOML parser returns into a tree; these parsers do not report places."""

    def __init__(self, source: Source) -> None:
        self._mark = Mark(source, 1, 1)
        self._count = 0
        self._depth = 0

    def build(self, value: object, path: str) -> Node:
        """Return a JSON or TOML value as a tree, all marked at the file's beginning; Refusal if too large or deep.

        Args:
            value: dict, list or scalar.
            path: dotted path of the value.

        Raises:
            Refusal: more than MAX_EVENTS values, or MAX_DEPTH levels of nesting.
        """
        # JSON has no aliases, but a small file can still nest deeply or hold many values: the limits are those of YAML.
        self._count += 1
        if self._count > MAX_EVENTS or self._depth > MAX_DEPTH:
            raise _too_large()
        if isinstance(value, dict | list):
            self._depth += 1
            tree = self._build_section(value, path) if isinstance(value, dict) else self._build_items(value, path)
            self._depth -= 1
            return tree
        plain = value is None or isinstance(value, Number | bool | int)
        text = "" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
        return Scalar(text=text, plain=plain, mark=self._mark, key=None, path=path)

    def _build_section(self, value: dict[str, object], path: str) -> Section:
        """Return a dictionary as a Section, with the keys that a JSON object repeats."""
        entries = {str(name): self.build(below, join(path, str(name))) for name, below in value.items()}
        repeated = value.repeated if isinstance(value, Table) else frozenset[str]()
        return Section(entries=entries, repeated=repeated, mark=self._mark, key=None, path=path)

    def _build_items(self, value: list[object], path: str) -> Items:
        items = tuple(self.build(below, f"{path}[{index}]") for index, below in enumerate(value))
        return Items(items=items, mark=self._mark, key=None, path=path)


def _too_large() -> Refusal:
    """Return the refusal for a file with too many parts or too much nesting."""
    message = f"has more than {MAX_EVENTS} parts, or more than {MAX_DEPTH} levels of nesting"
    return Refusal("DPC111", message, "refer to a smaller file")


# A config may be a section of a training config.


SECTION = "dpcalc"
KEY = "--key"
NO_TOML = "a config is YAML or JSON; write `key: value` in the place of TOML's `key = value`"
_TOML = re.compile(r"\s*[\w.-]+ *= *\S")


@dataclass(frozen=True, kw_only=True)
class ConfigPart:
    """The part of a file that is the config: a `dpcalc:` section, or what `--key` names, or the whole file.

    Attributes:
        root: the part as if it were a file of its own, paths beginning there.
        keys: path of the part in the file as keys and indices, () for the whole file.
        path: the same as a dotted path, "" for the whole file.
    """

    root: Section
    keys: tuple[str | int, ...]
    path: str


def config_part(tree: Node, key: str) -> ConfigPart:
    """Return a file's config: what `--key` names, a `dpcalc:` section, or all; ConfigError: key not there, no mapping.

    Args:
        tree: the whole file.
        key: value of `--key`; "" for a `dpcalc:` section at the top, or else the whole file.

    Returns:
        The part; dotted paths in it begin at its top.

    Raises:
        ConfigError: `--key` leads nowhere, or the part is no mapping.
    """
    keys: tuple[str | int, ...] = ()
    node: Node = tree
    if key:
        source = source_of(key, KEY)
        keys, marks = parse_path(source.text, source)
        for step, mark in zip(keys, marks, strict=True):
            below = node_at(node, step)
            if below is None:
                message = f"there is no {step_text(step)} in {f'`{node.path}`' if node.path else 'the file'}"
                raise ConfigError([error("DPC103", mark, message, "--key names a section of the file")])
            node = below
    elif entry(tree, SECTION) is not None:
        keys, node = (SECTION,), entry(tree, SECTION) or tree
    if not isinstance(node, Section):
        wrong = wrong_type_error(node, "a mapping of keys")
        if not node.path:
            wrong = replace(wrong, hint="write `version: 1` and sections below it; `dpcalc init` writes a config")
        is_toml = isinstance(node, Scalar) and _TOML.match(node.text)
        raise ConfigError([replace(wrong, hint=NO_TOML) if is_toml else wrong])
    root = replace(node, path="", entries={key: with_path(value, key) for key, value in node.entries.items()})
    return ConfigPart(root=root, keys=keys, path=node.path)
