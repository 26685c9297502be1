"""References of a config into its own file and others, and the section of a file that is the config."""

import os
import posixpath
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from fractions import Fraction
from pathlib import PurePosixPath
from typing import NamedTuple

from dpcalc.config import scalars
from dpcalc.config.command_lines import FLAGS, command_flags
from dpcalc.config.files import SUFFIXES, Files, Refusal, text_of
from dpcalc.config.hydra import RESOLVE, Hydra
from dpcalc.config.messages import nearest, wrong_type_error
from dpcalc.config.overrides import parse_path
from dpcalc.config.readers import read_document
from dpcalc.config.source import (
    MAX_SHOWN_LENGTH,
    ConfigError,
    Diagnostic,
    Mark,
    Severity,
    config_error,
    error,
    finding,
    shortened,
    source_of,
)
from dpcalc.config.tree import (
    USER_KEY,
    Document,
    Items,
    Node,
    Scalar,
    Section,
    entry,
    join,
    node_at,
    split_path,
    step_text,
    walk,
    with_path,
)
from dpcalc.config.words import no_number

# A config may be a section of a training config.


SECTION = "dpcalc"
TOML_SECTION = ("tool", "dpcalc", "run")
KEY = "--key"
NO_TOML = "TOML is read from a file that ends in .toml; in YAML write `key: value` in the place of `key = value`"
_TOML = re.compile(r"\s*[\w.-]+ *= *\S")


def config_part(tree: Node, key: str) -> tuple[Section, tuple[str | int, ...]]:
    """Return the part of a file that is the config, as if it were a file of its own, and its path in the file.

    That is what `--key` names, else the section `dpcalc`, in TOML `tool.dpcalc.run`, else the whole file; ConfigError
    if it is no mapping.
    """
    node = tree
    keys: tuple[str | int, ...] = ()
    places = (TOML_SECTION, (SECTION,)) if tree.mark.source.path.lower().endswith(".toml") else ((SECTION,),)
    default = next((each for each in places if node_at(tree, *each) is not None), None)
    if key:
        source = source_of(key, KEY)
        keys, marks = parse_path(source.text, source)
        for step, mark in zip(keys, marks, strict=True):
            below = node_at(node, step)
            if below is None:
                message = f"there is no {step_text(step)} in {f'`{node.path}`' if node.path else 'the file'}"
                raise config_error("DPC103", mark, message, "--key names a section of the file")
            node = below
    elif default is not None:
        node, keys = node_at(tree, *default) or tree, default
    if isinstance(node, Section):
        parts = {key: with_path(value, key) for key, value in node.entries.items()}
        return replace(node, path="", entries=parts), keys
    wrong = wrong_type_error(node, "a mapping of keys")
    if isinstance(node, Scalar) and _TOML.match(node.text):
        wrong = replace(wrong, hint=NO_TOML)
    elif not keys:
        beginning = "write `version: 1` and sections below it; `dpcalc init` writes a config"
        wrong = replace(wrong, hint=beginning)
    raise ConfigError([wrong])


# References `${...}` in a config: to values in the same file or in another one of the repository.

MAX_CHAIN = 8  # references from a value to its end
MAX_FILES = 16  # that the references of one config lead into
MAX_REFERENCE = 400  # characters of a reference
MAX_SUGGESTIONS = 20  # references whose misspelt key is compared with others, at 1 ms each; the first ones suffice
MARKER = "${"
OPEN = "???"  # a value still to be given, here as in OmegaConf
MAX_OPEN = 20  # that a message names
HYDRA_HINT = "this looks like an unresolved Hydra config: let Hydra write the resolved one (`--cfg job --resolve`)"
_HYDRA_RESOLVERS = ("hydra", "oc.")  # how the names of their resolvers begin
_FORM = "write `${section.key}`, or `${conf/train.yaml:section.key}` for another file"
MAX_FACTORS = 8  # of a product
_PRODUCT_FORM = (
    "numbers and references with `*` and `/` and spaces around them, as in `${per_device} * ${accumulation} * 8`"
)
_FACTOR = re.compile(r"\s*(\$\{[^{}]*\}|[-+0-9._eE]+)(?: +([*/]) +(?=\S)|\s*$)")
_BEFORE_COMMA = re.compile("(?<![0-9])([0-9]{1,3}),$")
_AFTER_COMMA = re.compile("[0-9]+(?=[ ,}])")


class Default(NamedTuple):
    """A referenced value that a launch of the run may override: a default in code, or in what Hydra composes."""

    key: str  # of the config that refers to it
    mark: Mark  # of the reference
    name: str  # the file as the reference writes it
    options: tuple[str, ...]  # that override it, such as "--sigma"; () where it is not an option that does
    value: Scalar


class References:
    """Reader of the references of one config."""

    def __init__(self, main: Document, files: Files, root: str = "") -> None:
        self.faults: dict[Mark, Diagnostic] = {}  # of each reference that leads nowhere, by its place
        # Of each value that was followed, by its dotted path: (canonical name of another file, or "" for the config's
        # own; dotted path there).
        self.ends: dict[str, tuple[str, str]] = {}
        self.defaults: list[Default] = []
        # Where the values come from, in words, by the (path, line, column) of their reference.
        self.origins: dict[tuple[str, int | None, int | None], list[str]] = {}
        self._files, self._root = files, root  # a file that references without a name lead into, "" for the config
        self._hydra = Hydra(main.tree, files)
        self._documents = {root: main}

    def document(self, name: str) -> Document:
        """Return a file, of a Hydra config what Hydra composes, as references into it read it; Refusal if none can."""
        written, place = self._open_document(name, "")
        return self._hydra.composed(written, place, self._documents[place].tree, ()) or self._documents[place]

    def value(self, text: str) -> Scalar:
        """Return the value at the end of a reference; Refusal if it has none."""
        return self._end_of_chain(text)[0]

    def resolved(self, node: Node) -> Node:
        """Return the tree with references replaced by values, not below `x-` keys; wrong ones stay, with a fault each.

        A value from elsewhere has the place of its reference. Products are multiplied out, but in a name.
        """
        if isinstance(node, Items):
            return replace(node, items=tuple(self.resolved(item) for item in node.items))
        if isinstance(node, Section):
            parts = node.entries.items()
            resolved = {key: value if key.startswith(USER_KEY) else self.resolved(value) for key, value in parts}
            return replace(node, entries=resolved)
        is_name = node.name == "name"
        if MARKER not in node.text and (is_name or not (" * " in node.text or " / " in node.text)):
            return node
        try:
            # (operator before it, factor) of each factor of a product or quotient; none in other texts.
            factors, operator, at = list[tuple[str, str]](), "", 0
            while at < len(node.text) and len(factors) <= MAX_FACTORS:
                match = _FACTOR.match(node.text, at)
                if match is None:
                    factors = []
                    break
                factors.append((operator, match[1]))
                operator, at = match[2] or "", match.end()
            if not factors and MARKER not in node.text:
                return node
            if len(factors) <= 1:
                target, end = self._end_of_chain(node.text)
                self.ends[node.path] = end
                self._note(node, target, end)
                return replace(target, mark=node.mark, key=node.key, path=node.path, origin=target.start)
            if len(factors) > MAX_FACTORS:
                raise Refusal("DPC111", f"it has more than {MAX_FACTORS} factors", "multiply some of them out")
            product, origin = Fraction(1), None
            for number, (operator, text) in enumerate(factors, 1):
                factor = scalars.parse_number(text)
                if MARKER in text:
                    target, end = self._end_of_chain(text)
                    self.ends[f"{node.path} (factor {number})"] = end
                    self._note(node, target, end)
                    origin = origin or target.start
                    factor = scalars.number_of(target)
                    if factor is None:
                        message = f"`{shortened(text)}` is {scalars.describe(target)}, and a factor must be a number"
                        raise Refusal("DPC110", message, scalars.number_hint(target))
                if factor is None:
                    raise Refusal("DPC110", f"`{shortened(text)}` is no decimal number", _PRODUCT_FORM)
                if operator == "/" and not factor:
                    raise Refusal("DPC110", "it divides by zero", "")
                product = product / factor if operator == "/" else product * factor
            result = scalars.probability_text(product)
            if result is None:
                raise Refusal("DPC111", f"the result has more than {scalars.MAX_DIGITS} digits", "write the number out")
            return replace(node, text=result, plain=True, origin=origin)
        except Refusal as cause:
            kind = "reference" if MARKER in node.text else "product"
            message = f"`{node.path}` is the {kind} `{shortened(node.text)}`: {cause.message}"
            self.faults[node.mark] = error(cause.code, node.mark, message, cause.hint)
            return node

    def _note(self, node: Scalar, target: Scalar, end: tuple[str, str]) -> None:
        """Note where a value comes from, and whether a launch may override it."""
        place, path = end
        mark = target.mark
        name = self._shown(place if mark.source is self._documents[place].tree.mark.source else mark.source.path)
        stated = f"{target.text} stands in {name}, line {mark.line}, column {mark.column}" if place else ""
        self.origins.setdefault((node.mark.source.path, *node.mark.place), []).append(stated)
        document, found = self._documents[place], list[tuple[tuple[str, ...], Scalar]]()
        if path in document.defaults:
            found.append((document.defaults[path], target))
            for guard in document.guards.get(path, ()):
                found.append((document.defaults[guard], self._scalar_at(document, tuple(guard.split(".")))))
        elif self._hydra.is_composed(place):
            found.append(((f"{path}=",), target))
            # The option that states it is a choice that a launch may override, too: `dp=loose`.
            folder = posixpath.dirname(place) or str(self._files.folder)
            group, _, option = posixpath.relpath(mark.source.path, folder).rpartition("/")
            if group and not group.startswith(".."):
                found.append(((f"{group}=",), replace(target, text=option.removesuffix(".yaml"))))
        self.defaults += [Default(node.path, node.mark, self._shown(place), *each) for each in found]

    def _shown(self, place: str) -> str:
        """Return a canonical name as the config would write it."""
        if not place:
            return "this file"
        return PurePosixPath(os.path.relpath(place, self._files.folder or ".")).as_posix()

    def _end_of_chain(self, text: str) -> tuple[Scalar, tuple[str, str]]:
        """Return the value at the end of a chain of references, and its (file, path); Refusal if it has no end."""
        # The trail ends cycles; it has (file, path) pairs, since the same path can stand in several files.
        trail: list[tuple[str, str]] = []
        place = self._root
        written = place
        while True:
            body = text.strip()
            if len(body) > MAX_REFERENCE:
                raise Refusal("DPC110", f"it has more than {MAX_REFERENCE} characters", _FORM)
            inner = body.removeprefix(MARKER).removesuffix("}")
            if len(inner) != len(body) - 3 or "{" in inner or "}" in inner:
                form = _PRODUCT_FORM if re.search(r"[*/+-]", re.sub(r"\$\{[^{}]*\}", "", body)) else _FORM
                raise Refusal("DPC110", "a reference is the whole value, with none inside, or a factor", form)
            if ":-" in inner:
                message = "`:-` is reserved: no value is taken in the place of one that is missing"
                raise Refusal("DPC110", message, "write the value where the reference leads")
            name, colon, path = inner.rpartition(":")
            if colon and not name.strip().partition("#")[0].lower().endswith(SUFFIXES):
                resolver = name.partition(":")[0].strip()
                message = f"resolvers such as `{shortened(resolver)}` are not run, and a file ends in "
                hint = HYDRA_HINT if resolver.startswith(_HYDRA_RESOLVERS) else _FORM
                raise Refusal("DPC110", f"{message}{', '.join(SUFFIXES[:-1])} or {SUFFIXES[-1]}", hint)
            name, path = name.strip(), path.strip()
            if name:
                written, place = self._open_document(name, place)
            if (place, path) in trail:
                raise Refusal("DPC111", "it leads back to itself", "write the value in one of the places")
            if len(trail) >= MAX_CHAIN:
                raise Refusal("DPC111", f"the chain has more than {MAX_CHAIN} references", "refer to the value itself")
            trail.append((place, path))
            steps, read = split_path(path)
            if path.startswith("."):
                raise Refusal(
                    "DPC110", "relative references are not followed", "write the path from the top of the file"
                )
            if not steps or read < len(path):
                raise Refusal("DPC110", f"`{shortened(path)}` is no path of keys", _FORM)
            keys = tuple(key for key, _, _ in steps)
            try:
                composed = self._hydra.composed(written, place, self._documents[place].tree, keys)
                target = self._scalar_at(composed or self._documents[place], keys)
                if composed is None and self._hydra.refuse_other_value(written, place, keys) and MARKER in target.text:
                    message = f"it holds `{shortened(target.text)}`, which Hydra reads from the whole config"
                    raise Refusal("DPC110", message, f"refer to the value itself, or {RESOLVE}")
            except Refusal as cause:
                shown = f"`{shortened(name or self._shown(place))}`: " if name or place else ""
                raise Refusal(cause.code, f"{shown}{cause.message}", cause.hint) from None
            if MARKER not in target.text:
                return target, (place, path)
            text = target.text

    def _open_document(self, name: str, holder: str) -> tuple[str, str]:
        """Return the written and the canonical name of a file that `holder` names, read if it is new; or Refusal.

        With `#` and a number the canonical name ends in that, as the document of this number has a name of its own.
        """
        file, sign, number = name.partition("#")
        number = number or "0" if sign else ""
        above = posixpath.dirname(holder) if holder else str(self._files.folder)
        try:
            place = self._files.locate(file, holder.partition("#")[0])
            suffix = PurePosixPath(place).suffix.lower()
            if suffix not in SUFFIXES:
                raise Refusal("DPC110", "is no file that references lead into", f"it ends in {', '.join(SUFFIXES)}")
            if number and not re.fullmatch("[1-9][0-9]{0,2}", number):
                raise Refusal("DPC110", f"has no document `#{number}`", "documents are numbered from #1")
            located, place = place, f"{place}#{number}" if number else place
            if place not in self._documents:
                if len(self._documents) > MAX_FILES:
                    hint = "collect the values in fewer files"
                    raise Refusal("DPC111", f"is one of more than {MAX_FILES} files", hint)
                self._documents[place] = read_document(
                    text_of(self._files, located), suffix, int(number or 0), self._files
                )
        except Refusal as cause:
            shown = f"{file}#{number}" if number else file
            raise Refusal(cause.code, f"`{shortened(shown)}` {cause.message}", cause.hint) from None
        return posixpath.normpath(posixpath.join(above, file)), place

    def _scalar_at(self, document: Document, keys: tuple[str | int, ...]) -> Scalar:
        """Return the scalar at a path, maybe a further reference; Refusal if it has no value, or a tag on its way."""
        node, current = document.tree, ""
        for key in keys:
            if isinstance(node, Items) and isinstance(key, str) and key.isascii() and key.isdigit():
                # OmegaConf writes `a.0`. Six digits without leading zeros are more than any list has, and keep `int`
                # from reading a number without end.
                key = int(key.lstrip("0")[:6] or 0)  # noqa: PLW2901
            if isinstance(node, Section) and current.rpartition(".")[2] == FLAGS and isinstance(key, str):
                key = key.lstrip("-").replace("-", "_")  # noqa: PLW2901  `flags.noise-multiplier`, too
            if isinstance(node, Section) and key in node.repeated:
                raise Refusal("DPC110", f"{step_text(key)} stands there more than once", "delete all but one")
            below = node_at(node, key)
            if below is None and key == FLAGS and (command := command_flags(node)) is not None:
                document, below = command, entry(command.tree, FLAGS)
            if below is None:
                if isinstance(entry(document.tree, "defaults"), Items):
                    hint = HYDRA_HINT
                else:
                    names = node.entries if isinstance(node, Section) and len(self.faults) < MAX_SUGGESTIONS else ()
                    near = nearest(str(key), tuple(names))
                    of_call = (current or str(key)).split(".")[0] == "calls"
                    hint = "arguments of calls are read by their names, as of `f(count=2)`" if of_call else ""
                    hint = f"did you mean `{near}`?" if near else hint
                where = f"`{current}`" if current else "the file"
                raise Refusal("DPC110", f"there is no {step_text(key)} in {where}", hint)
            node, current = below, f"{current}[{key}]" if isinstance(key, int) else join(current, key)
            if current in document.refused:
                raise document.refused[current]
        if not isinstance(node, Scalar):
            raise Refusal("DPC110", f"it leads to {scalars.describe(node)}, not to one value", "refer to a key in it")
        if node.text == OPEN:
            raise Refusal("DPC110", "it leads to `???`, a value still to be given", "write the value there")
        if MARKER not in node.text and scalars.value(node) is None:
            raise Refusal("DPC110", "it leads to nothing: no value is written there", "write the value there")
        return node


def default_notes(defaults: list[Default]) -> Iterator[Diagnostic]:
    """Yield a note for each file that states defaults, not values of a run: no launch overrides them."""
    for name in dict.fromkeys(each.name for each in defaults):
        used = [each for each in defaults if each.name == name]
        lines: dict[str, int] = {}
        for x in used:
            option = x.options[0].rstrip("=") if x.options else x.value.path
            lines.setdefault(f"{option} {x.value.text}", x.value.mark.line)
        texts = ", ".join(f"{text} (line {line})" for text, line in lines.items())
        message = f"assumed: no launch overrides the defaults of `{name}`: {texts}"
        hint = "`check` fails where a tracked script gives another value; state here what a launch gives"
        yield finding(Severity.NOTE, "DPC212", used[0].mark, message, hint)


def unresolved_errors(root: Node, faults: Mapping[Mark, Diagnostic]) -> tuple[list[Diagnostic], list[Mark]]:
    """Return the errors of scalars that are wrong references, numbers beyond limits, empty or `???`; marks of those."""
    errors, still_open = [], dict[Mark, Scalar]()
    for _, node in walk(root, ""):
        if not isinstance(node, Scalar):
            continue
        reason = scalars.limit_violation(node.text) if node.plain else ""
        advice = no_number(node.name, node.text)
        if node.text == OPEN:
            still_open[node.mark] = node
        elif node.mark in faults:
            errors.append(faults[node.mark])
        elif reason:
            message = f"`{node.path}` is {node.text[:MAX_SHOWN_LENGTH]}: {reason}"
            errors.append(error("DPC106", node.mark, message, advice or "write a plain number"))
        elif scalars.value(node) is None:
            # YAML makes `3,5` in braces the value 3 and an empty key `5`: digits on both sides of a comma.
            key, lines, start = node.start, node.start.source.lines, node.start.column - 1
            line = lines[key.line - 1] if node.key and key.line <= len(lines) else ""
            before, after = _BEFORE_COMMA.search(line[:start]), _AFTER_COMMA.match(line, start)
            if before and after:
                point = f"{before[1]}.{after[0]}"
                way = f"{before[1]}_{after[0]} (or {point})" if len(after[0]) == 3 else point
                message = f"`{before[1]},{after[0]}` is cut in two: a comma ends a value in braces"
                errors.append(error("DPC102", node.anchor, message, f"write {way}"))
            else:
                errors.append(node.fault("DPC102", "is empty", advice or "give it a value, or delete the line"))
    if still_open:  # one error, at the first of them
        paths, first = [f"`{value.path}`" for value in still_open.values()], next(iter(still_open.values()))
        more = f" and {len(paths) - MAX_OPEN} more" if len(paths) > MAX_OPEN else ""
        message = f"{', '.join(paths[:MAX_OPEN])}{more} are `{OPEN}`, values still to be given"
        hint = f"write each in its place, or give it with `--set {first.path}=VALUE`"
        if len(paths) == 1:
            message, hint = f"{paths[0]} is `{OPEN}`, a value still to be given", "write the value"
        errors.append(error("DPC110", first.mark, message, hint))
    return errors, [*still_open]
