"""References of a config into its own file and others, and what Hydra composes of a folder that one leads into.

A run reads the composed config. So a reference into a file with a `defaults` list reads what Hydra composes of that
list, and one into an option stands only if the lists choose that file and nothing that is composed after it states the
same key. Composed are `group: option` (a list, `optional`, a leading `/`, `group@package`), names of files, `_self_`,
`override` and a `# @package` in the first line. With anything else (interpolations, a search path) a reference
is refused, never followed on a guess. What the command line of a run overrides is not in the files.
"""

import os
import posixpath
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from fractions import Fraction
from pathlib import PurePosixPath
from typing import NamedTuple

from dpcalc.config import scalars
from dpcalc.config.expand import parse_path
from dpcalc.config.files import SUFFIXES, Files, Refusal, text_of
from dpcalc.config.messages import nearest, no_number, wrong_type_error
from dpcalc.config.readers import FLAGS, command_flags, read_document
from dpcalc.config.source import (
    MAX_BYTES,
    MAX_SHOWN_LENGTH,
    ConfigError,
    Diagnostic,
    Mark,
    Severity,
    Source,
    config_error,
    decode,
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
    dotted,
    entry,
    join,
    node_at,
    parse_yaml,
    said,
    split_path,
    step_text,
    tagged_paths,
    walk,
    with_path,
)

RESOLVE = "let Hydra write the resolved config (`--cfg job --resolve`)"
MAX_MAINS = 20  # main configs that are composed for one config
MAX_PARTS = 200  # files that one config is composed of
MAX_ENTRIES = 5_000  # of `defaults` lists that are followed for one config
MAX_SEARCHED = 64 * 1024 * 1024  # bytes of a file that is searched for `defaults`
MAX_READ = 4 * MAX_SEARCHED  # bytes of all files that are searched for one config
MAX_PARSED = 2 * MAX_BYTES  # bytes of all files that are parsed for one config: some seconds where values are short
_SELF = "_self_"
_WORD = re.compile(r"\w[\w.-]*")  # the name of a group or an option, and nothing more

_PACKAGE = re.compile(r"\s*#\s*@package\s+([\w.-]+)\s*")  # a first line that says where the content goes
_GLOBAL = "_global_"
_MOVED = re.compile(
    rf"(?!.*_(here|group|name)_)({_GLOBAL}(\.[\w-]+)*|[^\W_][\w-]*(\.[\w-]+)*)"
)  # the package of `group@package`
_MARKER = "${"

Keys = tuple[str | int, ...]


class _Entry(NamedTuple):
    """An entry of a `defaults` list."""

    group: tuple[str, ...]  # of the option, from the folder of the main config
    package: tuple[str, ...]  # of the content, if the file does not say another one
    names: tuple[str, ...]  # files that are chosen; () for `null`
    key: str = ""  # by which `override` finds it; "" for names of files and lists of options
    is_override: bool = False
    is_needed: bool = True
    is_moved: bool = False  # by `group@package`, which counts more than what the file says


class _Part(NamedTuple):
    """What one file says itself, `defaults` aside."""

    place: str  # canonical name of the file
    shown: str  # its name for messages
    keys: tuple[str, ...]  # where its content stands in the composed config: its package, which is mostly its group
    tree: Node
    tagged: frozenset[str] = frozenset()  # paths of values with a tag, which are not followed

    def states(self, keys: Keys) -> bool:
        """Return True if composing this part sets, replaces or drops the value at these keys."""
        if self.keys[: len(keys)] == keys or keys[: len(self.keys)] != self.keys:
            return self.keys[: len(keys)] == keys
        node = self.tree
        for key in keys[len(self.keys) :]:
            if not isinstance(node, Section):  # a list or a scalar takes the place of all that is below it
                return True
            if str(key) not in node.entries:
                return False
            node = node.entries[str(key)]
        return True


class Hydra:
    """Composer of the Hydra folders that the references of one config lead into."""

    def __init__(self, main: Node, files: Files) -> None:
        """Start with nothing read; `main` is the whole file of the config, which may be a main config of Hydra."""
        self._files, self._main = files, main
        self._mains: dict[str, tuple[str, ...]] = {}
        self._orders: dict[tuple[str, str], tuple[list[_Part], ...] | Refusal] = {}
        self._parts: dict[tuple[str, str, tuple[str, ...], bool], _Part] = {}
        self._looked_up = self._read = self._parsed = 0
        self._composed_places: set[str] = set()
        self._merged: dict[tuple[str, str], tuple[Document, ...]] = {}

    def is_composed(self, place: str) -> bool:
        """Return True if a run of Hydra composes what the file at `place` states."""
        return place in self._composed_places

    def refuse_other_value(self, written: str, place: str, keys: Keys) -> bool:
        """Return True if the file is an option; Refusal if a run of Hydra does not take the value at `keys` from it."""
        if not place and _defaults(self._main) is not None:
            self._check(str(self._files.folder), ("",), "", place, keys)
        is_option = False
        # A folder may be a link: Hydra may know the file by either name.
        names = dict.fromkeys((written, place)) if place.lower().endswith((".yaml", ".yml")) else {}
        for name in names:
            # Any folder on the way may be Hydra's: a list farther out could be there to hide the one that a run reads.
            for folder in reversed(self._folders(posixpath.dirname(name))):
                if mains := self._main_configs(folder):
                    group = posixpath.dirname(posixpath.relpath(name, folder or "."))
                    is_option = is_option or bool(group)
                    self._check(folder, mains, group, place, keys)
        return is_option

    def _check(self, folder: str, mains: tuple[str, ...], group: str, place: str, keys: Keys) -> None:
        """Raise Refusal unless each main config that states the value takes it from the file at `place`, of `group`."""
        orders = {main: self._compositions(folder, main) for main in mains}
        found = {main: next((x.keys for x in orders[main][0] if x.place == place), None) for main in mains}
        at = next((group for group in found.values() if group is not None), None)
        if any(x.place == place and x.keys != at for main in mains for x in orders[main][0]):
            message = "Hydra puts it into several places of the config"
            raise Refusal("DPC110", message, f"refer to the main config, or {RESOLVE}")
        if at is None:
            names = " and ".join(f"`{_shown(folder, main)}`" for main in mains[:3])
            others = {x.shown for main in mains for x in orders[main][0] if group and "/".join(x.keys) == group}
            choice = f"choose {' and '.join(f'`{x}`' for x in sorted(others)[:3])}" if others else "do not choose it"
            way_out = f"refer to the file that is chosen, or {RESOLVE}"
            own_list = "" if group else "; a main config of its own says `defaults: [_self_]`"
            raise Refusal("DPC110", f"Hydra does not read it: the `defaults` of {names} {choice}", way_out + own_list)
        # A main config is asked for itself; beside it only those that are composed of it have a say.
        is_main = any(self._place(folder, main) == place for main in mains)
        for main in mains:
            for parts in orders[main] if found[main] is not None or not is_main else ():
                stating = [part for part in parts if part.states((*at, *keys))]
                if stating and stating[-1].place != place:
                    message = f"Hydra composes `{_shown(folder, main)}` with this value of `{stating[-1].shown}`"
                    raise Refusal("DPC110", message, f"refer to that file, or {RESOLVE}")

    def _main_configs(self, folder: str) -> tuple[str, ...]:
        """Return the names of the YAML files directly in a folder that have a `defaults` list of Hydra's form."""
        if folder in self._mains:
            return self._mains[folder]
        found = []
        for name, data in self._files.yaml_files(folder, limit=MAX_SEARCHED):
            # A key may be written with escapes, so that a text without the word is parsed if it has any.
            is_parsed = b"defaults" in data or b"\\" in data
            self._count(len(data), len(data) if is_parsed else 0)
            if not is_parsed:
                continue
            shown = f"`{shortened(name)}` beside it"
            if len(data) > MAX_BYTES:
                raise Refusal("DPC111", f"{shown} is too large to see its `defaults`", RESOLVE)
            try:
                tree, _ = parse_yaml(decode(data, name))
            except ConfigError as cause:  # another reader may take what this one does not
                message = f"{shown} cannot be read, to see its `defaults`: {cause.diagnostics[0].message}"
                raise Refusal("DPC110", message, RESOLVE) from None
            if _defaults(tree) is not None:
                found.append(name)
        return self._mains.setdefault(folder, tuple(found))

    def _count(self, read: int, parsed: int) -> None:
        """Count bytes of the files of this config; Refusal above a limit: many files may take no longer than a few."""
        self._read, self._parsed = self._read + read, self._parsed + parsed
        for count, limit, purpose in ((self._read, MAX_READ, "searched"), (self._parsed, MAX_PARSED, "parsed")):
            if count > limit:
                message = f"its Hydra folders have more than {limit // 1024} KiB of YAML to be {purpose}"
                raise Refusal("DPC111", message, RESOLVE)

    def _compositions(self, folder: str, main: str) -> tuple[list[_Part], ...]:
        """Return the parts of a main config, the last one winning, in the orders that versions of Hydra have."""
        # Without `_self_` a main config comes first in Hydra 1.0 and 1.1, and last since 1.2.
        if (folder, main) not in self._orders:
            try:
                found = []
                for first in (False, True):
                    state = _Choices({}, set(), {}, self_first=first)
                    found.append(self._composed(folder, main, (), (), state)[::-1])
                    if unused := [key for key in state.chosen if key not in state.used]:
                        message = f"`{_shown(folder, main)}` overrides `{unused[0]}`, which nothing chooses before it"
                        raise Refusal("DPC110", message, RESOLVE)
                self._orders[folder, main] = tuple(found)
            except Refusal as cause:
                self._orders[folder, main] = cause
        orders = self._orders[folder, main]
        if isinstance(orders, Refusal):
            raise orders
        return orders

    def _composed(
        self,
        folder: str,
        name: str,
        group: tuple[str, ...],
        package: tuple[str, ...],
        state: "_Choices",
        above: tuple[str, ...] = (),
        *,
        is_moved: bool = False,
    ) -> list[_Part]:
        """Return the parts of a file of a Hydra folder, the last one first; Refusal for what is not plain.

        As Hydra does, lists are gone through from their end: what is farther back, and farther out, is overridden by
        nothing, and overrides what comes before it.
        """
        shown = _shown(folder, name)
        if name in above:
            raise Refusal("DPC111", f"the `defaults` of `{shown}` lead back to itself", RESOLVE)
        known = folder, name, package, is_moved
        own = self._parts.get(known) or self._part(folder, name, package, is_moved=is_moved)
        self._parts[known] = own
        items = _defaults(own.tree) or ()
        self._looked_up += len(items)
        if self._looked_up > MAX_ENTRIES:
            raise Refusal("DPC111", f"`{shown}` and others have more than {MAX_ENTRIES} entries of `defaults`", RESOLVE)
        if node_at(own.tree, "hydra", "searchpath") is not None:
            raise Refusal("DPC110", f"`{shown}` has a search path of Hydra, which is not followed", RESOLVE)
        entries = [_entry(each, group, own.keys, shown) for each in items]
        selves = entries.count(None)
        if selves > 1:
            raise Refusal("DPC110", f"the `defaults` of `{shown}` have `_self_` twice", RESOLVE)
        seen = False
        for each in entries:
            if each is not None and each.is_override:
                seen = True
                state.chosen.setdefault(each.key, each)
            elif each is not None and seen:
                message = f"`{shown}` has an `override` before other entries, which Hydra refuses"
                raise Refusal("DPC110", message, RESOLVE)
        has_self = selves > 0
        parts = [] if has_self or (state.self_first and not group) else [own]
        for each in reversed(entries):
            if each is None:
                parts.append(own)
                continue
            if each.is_override:
                continue
            names, is_needed = each.names, each.is_needed
            if each.key in state.chosen:
                names = state.chosen[each.key].names
                state.used.add(each.key)
            if each.key and state.known.setdefault(each.key, each) is not each:
                raise Refusal("DPC110", f"`{shown}` chooses `{each.key}`, which is chosen elsewhere, too", RESOLVE)
            for option in reversed(names):
                below = "/".join((*each.group, option))
                if self._place(folder, below) is not None:
                    inner = (folder, below, each.group, each.package, state, (*above, name))
                    parts += self._composed(*inner, is_moved=each.is_moved)
                elif is_needed:
                    message = f"`{shown}` chooses `{shortened(below)}`, and there is no such file"
                    raise Refusal("DPC110", message, RESOLVE)
                if len(parts) > MAX_PARTS:
                    raise Refusal("DPC111", f"`{shown}` is composed of more than {MAX_PARTS} files", RESOLVE)
        if not has_self and state.self_first and not group:
            parts.append(own)
        return parts

    def _place(self, folder: str, name: str) -> str | None:
        """Return the canonical name of a file, "" for the config itself; None if there is none."""
        if not name:
            return ""
        try:
            place = self._files.locate(name, posixpath.join(folder, "holder"))
            self._files.content(place, limit=MAX_BYTES)
        except Refusal as cause:
            if cause.message.startswith("no such file"):
                return None
            raise
        return place

    def _part(self, folder: str, name: str, package: tuple[str, ...], *, is_moved: bool) -> _Part:
        """Return what a file says itself; Refusal if it is no plain YAML, or if its header is not plain."""
        shown, place = _shown(folder, name), self._place(folder, name) or ""
        if not place:
            keys = self._package(self._main.mark.source, shown, package)
            return _Part(place="", shown=shown, keys=keys, tree=self._main)
        try:
            data = self._files.content(place, limit=MAX_BYTES)
            self._count(len(data), len(data))
            source = decode(data, place)
            # Nothing is an option too, in an empty file such as `callbacks/none.yaml`.
            is_empty = all(not line.strip() or line.lstrip().startswith("#") for line in source.lines)
            tree, flaws = parse_yaml(source_of("{}", place) if is_empty else source)
        except ConfigError as cause:
            first = cause.diagnostics[0]
            message = f"`{shown}` cannot be read, line {first.line}: {first.message}"
            raise Refusal("DPC110", message, first.hint) from None
        tagged = tagged_paths(flaws)
        if "defaults" in tagged or (isinstance(tree, Section) and "defaults" in tree.repeated):
            raise Refusal("DPC110", f"the `defaults` of `{shown}` have a tag, or stand there twice", RESOLVE)
        keys = self._package(source, shown, package)
        keys = package if is_moved else keys
        if package[:1] == ("hydra",) and keys[:1] != ("hydra",):
            raise Refusal("DPC110", f"`{shown}` is an option of Hydra's own that moves by `@package`", RESOLVE)
        return _Part(place=place, shown=shown, keys=keys, tree=tree, tagged=tagged)

    def _package(self, source: Source, shown: str, package: tuple[str, ...]) -> tuple[str, ...]:
        """Return where the content of a file goes: its package, or what a first line `# @package NAME` says."""
        header = _PACKAGE.fullmatch(source.lines[0])
        if source.text.count("@package") > (header is not None) or (
            header and re.search(r"_(group|name)_|\.\.|^\.|\.$|._global_", header[1])
        ):
            message = f"`{shown}` moves its content by `@package`, and not by a plain first line"
            raise Refusal("DPC110", message, RESOLVE)
        if header is None:
            return package
        name = header[1].removeprefix(_GLOBAL).strip(".")
        return tuple(name.split(".")) if name else ()

    # The composed config.

    def composed(self, written: str, place: str, tree: Node, keys: Keys) -> Document | None:
        """Return what Hydra composes of the `defaults` list of a main config with this tree; None if the file is none.

        A file that other `defaults` lists may choose is an option, and no main config. Refusal if releases of Hydra, or
        main configs beside it that are made of this one, have another value at `keys`.
        """
        name = written or place
        folder, main, mains = str(self._files.folder), "", tuple[str, ...](("",))
        if _defaults(tree) is None or "#" in place:
            return None
        if place:
            if not name.lower().endswith((".yaml", ".yml")):
                return None
            folder, main = posixpath.dirname(name), posixpath.basename(name)
            mains = self._main_configs(folder)
            if main not in mains or any(self._main_configs(above) for above in self._folders(folder)[1:]):
                return None
            if name != place:
                message = "it is reached through a symbolic link, and Hydra composes the place that a run names"
                raise Refusal("DPC110", message, "refer to the file itself")
        found: list[tuple[str, Document]] = []
        for each in mains:
            orders = self._compositions(folder, each)
            if each != main and not any(part.place == place for part in orders[0]):
                continue
            if (folder, each) not in self._merged:
                if len(self._merged) >= MAX_MAINS:
                    raise Refusal("DPC111", f"more than {MAX_MAINS} main configs have a say in it", RESOLVE)
                self._merged[folder, each] = tuple(map(_merged, orders))
            found += [(each, document) for document in self._merged[folder, each]]
        chosen = next(document for each, document in found if each == main)
        value = said(node_at(chosen.tree, *keys))
        for each, document in found:
            if said(node_at(document.tree, *keys)) != value:
                shown = _shown(folder, each)
                if each == main:
                    message = f"without `_self_` in the `defaults` of `{shown}` releases of Hydra differ in this value"
                    raise Refusal("DPC110", message, "write `_self_` where the file itself belongs")
                message = f"Hydra composes `{shown}` with another value"
                raise Refusal("DPC110", message, f"refer to `{shown}`, or {RESOLVE}")
        self._composed_places.add(place)
        return chosen

    def _folders(self, folder: str) -> list[str]:
        """Return a folder of the repository and those above it, the innermost first; [] outside."""
        top, folders = str(self._files.top), [folder]
        while folders[-1] not in {top, posixpath.dirname(folders[-1])}:
            folders.append(posixpath.dirname(folders[-1]))
        return folders if folders[-1] == top else []


class _Choices(NamedTuple):
    """What has been met of the `defaults` lists of one main config."""

    chosen: dict[str, _Entry]  # by the key of a group: the `override` that counts
    used: set[str]  # keys of overrides that found their group
    known: dict[str, object]  # by the key of a group: the entry that chooses it
    self_first: bool  # whether a main config without `_self_` comes before its options, as in Hydra 1.0


def _merged(parts: list[_Part]) -> Document:
    """Return the parts in one tree, the last one winning, as OmegaConf merges them."""
    tree: Node = Section(entries={}, mark=parts[0].tree.mark)
    refused: dict[str, Refusal] = {}
    for part in parts:
        content = part.tree
        if not isinstance(content, Section):
            raise Refusal("DPC110", f"`{part.shown}` is no mapping", RESOLVE)
        entries = {key: value for key, value in content.entries.items() if key != "defaults"}
        layer: Node = replace(content, entries=entries)
        for key in reversed(part.keys):
            layer = Section(entries={key: layer}, mark=content.mark)
        tree = _merge(tree, layer, part.shown)
        for path in part.tagged:
            where = dotted((*part.keys, path))
            message = f"`{where}` has a tag in `{part.shown}`, which is not followed"
            refused[where] = Refusal("DPC110", message, "remove the `!...` there")
    return Document(with_path(tree, ""), refused)


def _merge(base: Node, over: Node, shown: str) -> Node:
    if isinstance(over, Scalar) and over.text == "???":  # a value still to be given takes the place of none
        return base
    if isinstance(base, Section) and isinstance(over, Section):
        entries = dict(base.entries)
        for key, value in over.entries.items():
            entries[key] = _merge(entries[key], value, shown) if key in entries else value
        # A key that one file has twice has no value, also if another file states it once.
        return replace(base, entries=entries, repeated=base.repeated | over.repeated)
    is_list = isinstance(base, Items) != isinstance(over, Items)
    if (is_list and not isinstance(base, Scalar) and not isinstance(over, Scalar)) or (
        isinstance(base, Scalar) and isinstance(over, Section) and _MARKER in base.text
    ):
        message = f"`{shown}` puts a mapping in the place of a list or an interpolation, which is not followed"
        raise Refusal("DPC110", message, RESOLVE)
    return over


def _defaults(tree: Node) -> tuple[Node, ...] | None:
    """Return the entries of the `defaults` list of a file; None without one, or if it has another form than Hydra's."""
    defaults = entry(tree, "defaults")
    if not isinstance(defaults, Items):
        return None
    # Jekyll and others have lists of that name, of mappings with several keys.
    is_hydra = all(
        isinstance(each, Scalar) or (isinstance(each, Section) and len(each.entries.keys() - {"optional"}) == 1)
        for each in defaults.items
    )
    return defaults.items if is_hydra else None


def _entry(each: Node, group: tuple[str, ...], package: tuple[str, ...], shown: str) -> _Entry | None:
    """Return an entry of a `defaults` list, None for `_self_`; Refusal if it is not plain."""
    words, text, is_file, is_list = list[str](), "", isinstance(each, Scalar), False
    stated: list[object] = []
    if isinstance(each, Scalar):
        text = each.text
        stated = [text.partition("@")[0].rpartition("/")[2]]
    elif isinstance(each, Section):
        key, value = next(iter(each.entries.items()))
        *words, text = key.split(" ")
        is_list = isinstance(value, Items)
        options = value.items if isinstance(value, Items) else (value,)
        stated = [scalars.value(option) if isinstance(option, Scalar) else option for option in options]
        if not is_list:
            stated = [option for option in stated if option not in {None, "???"}]
    if text == _SELF and is_file:
        return None
    text, at, moved = text.partition("@")
    own = tuple(text.removeprefix("/").split("/"))
    own = own[:-1] if is_file else own
    below = (*package, *own)
    if at:
        below = (
            *(() if re.match(rf"{_GLOBAL}(\.|$)", moved) else package),
            *filter(None, moved.removeprefix(_GLOBAL).split(".")),
        )
    names = [x for x in stated if isinstance(x, str)]
    is_plain = words in ([], ["optional"], *([] if is_list else [["override"]])) and len(names) == len(stated)
    is_plain = is_plain and not (isinstance(each, Section) and len(each.entries) > 1)
    is_plain = is_plain and (not at or _MOVED.fullmatch(moved) is not None)
    if not is_plain or not all(_WORD.fullmatch(x) for x in (*own, *names)):
        shown_entry = shortened(" ".join((*words, text.rstrip("/"))) + (f"@{moved}" if at else ""))
        message = f"`{shown}` has `{shown_entry}` in its `defaults`, which dpcalc does not compose"
        raise Refusal("DPC110", message, f"`group: option` is followed; else {RESOLVE}")
    for name in names:
        if name.endswith(".yml"):
            message = f"`{shown}` chooses `{shortened(name)}`, which Hydra reads as `{name}.yaml`"
            raise Refusal("DPC110", message, RESOLVE)
    chosen = (() if text.startswith("/") else group) + own
    # Groups of Hydra itself: its own defaults choose them, and most of their options are no files of the repository.
    is_own, is_override = chosen[:1] == ("hydra",), words == ["override"]
    is_group = not (is_file or is_list or (is_own and is_override))
    return _Entry(
        group=chosen,
        package=below,
        names=tuple(name if name.endswith(".yaml") else f"{name}.yaml" for name in names),
        key="/".join(chosen) + (f"@{'.'.join(below)}" if below != chosen else "") if is_group else "",
        is_override=is_override and not is_own,
        is_needed=words != ["optional"] and not is_own,
        is_moved=bool(at),
    )


def _shown(folder: str, name: str) -> str:
    """Return the name of a file of a Hydra folder for messages."""
    return shortened(posixpath.join(posixpath.basename(folder), name)) if name else "this file"


# References of a config into its own file and others, and the section of a file that is the config.


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
