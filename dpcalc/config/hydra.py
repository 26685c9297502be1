"""What Hydra composes of a folder of YAML files, as far as a reference into one of them needs it.

A run reads the composed config. So a reference into a file with a `defaults` list reads what Hydra composes of that
list, and one into an option stands only if the lists choose that file and nothing that is composed after it states the
same key. Composed are `group: option` (a list, `optional`, a leading `/`, `group@package`), names of files, `_self_`,
`override` and a `# @package` in the first line. With anything else (interpolations, a search path) a reference
is refused, never followed on a guess. What the command line of a run overrides is not in the files.
"""

import posixpath
import re
from dataclasses import replace
from typing import NamedTuple

from dpcalc.config import scalars
from dpcalc.config.files import Files, Refusal
from dpcalc.config.source import MAX_BYTES, ConfigError, Source, decode, shortened, source_of
from dpcalc.config.tree import Document, Items, Node, Scalar, Section, dotted, entry, node_at, said, with_path
from dpcalc.config.yaml_text import parse_yaml, tagged_paths

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
