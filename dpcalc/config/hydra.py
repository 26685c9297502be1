"""What Hydra composes of a folder of YAML files, as far as a reference into one of them needs it.

A run reads the composed config, a reference one of its files. So a reference into such a folder stands only if the
`defaults` lists choose that file, and nothing that is composed after it states the same key. Entries that are not plain
(`override`, `@package`, interpolations) are not composed: a reference is then refused, never followed on a guess. What
the command line of a run overrides is not in the files.
"""

import posixpath
import re
from collections.abc import Iterator
from typing import NamedTuple

from dpcalc.config import scalars
from dpcalc.config.files import Files, Refusal
from dpcalc.config.source import MAX_BYTES, ConfigError, decode, shortened, source_of
from dpcalc.config.tree import Items, Node, Scalar, Section, entry
from dpcalc.config.yaml_text import parse_yaml, tagged_paths

RESOLVE = "let Hydra write the resolved config (`--cfg job --resolve`)"
MAX_PARTS = 200  # files that one config is composed of
MAX_ENTRIES = 5_000  # of `defaults` lists that are followed for one config
MAX_SEARCHED = 64 * 1024 * 1024  # bytes of a file that is searched for `defaults`
MAX_READ = 4 * MAX_SEARCHED  # bytes of all files that are searched for one config
MAX_PARSED = 2 * MAX_BYTES  # bytes of all files that are parsed for one config: some seconds where values are short
_SELF = "_self_"
_WORD = re.compile(r"\w[\w.-]*")  # the name of a group or an option, and nothing more

Keys = tuple[str | int, ...]


class _Part(NamedTuple):
    """What one file says itself, `defaults` aside."""

    place: str  # canonical name of the file
    shown: str  # its name for messages
    keys: tuple[str, ...]  # where its content stands in the composed config: its group
    tree: Node

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
        self._parts: dict[tuple[str, str, tuple[str, ...]], _Part] = {}
        self._looked_up = self._read = self._parsed = 0
        self._composed_places: set[str] = set()

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
            top, folders = str(self._files.top), [posixpath.dirname(name)]
            while folders[-1] not in {top, posixpath.dirname(folders[-1])}:
                folders.append(posixpath.dirname(folders[-1]))
            for folder in reversed(folders) if folders[-1] == top else ():
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
            self._count(len(data), parsed=len(data) if is_parsed else 0)
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

    def _count(self, read: int, *, parsed: int = 0) -> None:
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
                orders = tuple(self._composed(folder, main, (), self_first=first) for first in (False, True))
                self._orders[folder, main] = orders
            except Refusal as cause:
                self._orders[folder, main] = cause
        found = self._orders[folder, main]
        if isinstance(found, Refusal):
            raise found
        return found

    def _composed(
        self, folder: str, name: str, group: tuple[str, ...], *, self_first: bool, above: tuple[str, ...] = ()
    ) -> list[_Part]:
        """Return the parts of a file of a Hydra folder in order; Refusal for what is not plain."""
        shown = _shown(folder, name)
        if name in above:
            raise Refusal("DPC111", f"the `defaults` of `{shown}` lead back to itself", RESOLVE)
        own = self._parts.get((folder, name, group)) or self._part(folder, name, group)
        self._parts[folder, name, group] = own
        entries = _defaults(own.tree) or ()
        self._looked_up += len(entries)
        if self._looked_up > MAX_ENTRIES:
            raise Refusal("DPC111", f"`{shown}` and others have more than {MAX_ENTRIES} entries of `defaults`", RESOLVE)
        has_self = any(isinstance(each, Scalar) and each.text == _SELF for each in entries)
        parts = [own] if not has_self and self_first and not group else []
        for each in entries:
            if isinstance(each, Scalar) and each.text == _SELF:
                parts.append(own)
                continue
            for option_group, option, is_needed in _choices(each, group, shown):
                below = "/".join((*option_group, option))
                if self._place(folder, below) is not None:
                    parts += self._composed(folder, below, option_group, self_first=self_first, above=(*above, name))
                elif is_needed:
                    message = f"`{shown}` chooses `{shortened(below)}`, and there is no such file"
                    raise Refusal("DPC110", message, RESOLVE)
                if len(parts) > MAX_PARTS:
                    raise Refusal("DPC111", f"`{shown}` is composed of more than {MAX_PARTS} files", RESOLVE)
        if not has_self and (group or not self_first):
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

    def _part(self, folder: str, name: str, group: tuple[str, ...]) -> _Part:
        """Return what a file says itself; Refusal if it is no plain YAML, or its header moves it."""
        shown, place = _shown(folder, name), self._place(folder, name) or ""
        if not place:
            return _Part(place="", shown=shown, keys=group, tree=self._main)
        try:
            data = self._files.content(place, limit=MAX_BYTES)
            self._count(len(data), parsed=len(data))
            source = decode(data, place)
            # Nothing is an option too, in an empty file such as `callbacks/none.yaml`.
            is_empty = all(not line.strip() or line.lstrip().startswith("#") for line in source.lines)
            tree, flaws = parse_yaml(source_of("{}", place) if is_empty else source)
        except ConfigError as cause:
            first = cause.diagnostics[0]
            message = f"`{shown}` cannot be read, line {first.line}: {first.message}"
            raise Refusal("DPC110", message, first.hint) from None
        if "@package" in source.text:
            raise Refusal("DPC110", f"`{shown}` moves its content by `@package`, which is not followed", RESOLVE)
        if "defaults" in tagged_paths(flaws) or (isinstance(tree, Section) and "defaults" in tree.repeated):
            raise Refusal("DPC110", f"the `defaults` of `{shown}` have a tag, or stand there twice", RESOLVE)
        return _Part(place=place, shown=shown, keys=group, tree=tree)


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


def _choices(each: Node, group: tuple[str, ...], shown: str) -> Iterator[tuple[tuple[str, ...], str, bool]]:
    """Yield (group, file name, whether it must be there) of what an entry chooses; Refusal if it is not plain."""
    if isinstance(each, Scalar):
        words, text = list[str](), each.text
        options: list[Node] = [each]
    else:
        key, value = next(iter(each.entries.items())) if isinstance(each, Section) and each.entries else ("", each)
        *words, text = key.split(" ")
        options = list(value.items) if isinstance(value, Items) else [value]
        text += "/"
    names = (text[1:] if text.startswith("/") and not group else text).split("/")
    chosen = (*group, *names[:-1])
    is_own = chosen[:1] == ("hydra",)  # groups of Hydra itself, most of whose options are no files of the repository
    allowed = {"optional", "override"} if is_own else {"optional"}
    is_plain = set(words) <= allowed and len(words) <= 1 and (not isinstance(each, Section) or len(each.entries) == 1)
    values = [scalars.value(option) if isinstance(option, Scalar) else option for option in options]
    if is_plain and isinstance(each, Section) and (values == [None] or values == ["???"]):
        return  # nothing is chosen; of `???` the command line of a run says what
    texts = [names[-1] or value for value in values if isinstance(value, str)]
    if not is_plain or len(texts) < len(options) or not all(_WORD.fullmatch(x) for x in (*names[:-1], *texts)):
        shown_entry = shortened(" ".join((*words, text.rstrip("/"))))
        message = f"`{shown}` has `{shown_entry}` in its `defaults`, which dpcalc does not compose"
        raise Refusal("DPC110", message, f"`group: option` is followed; else {RESOLVE}")
    for name in texts:
        if name.endswith(".yml"):
            message = f"`{shown}` chooses `{shortened(name)}`, which Hydra reads as `{name}.yaml`"
            raise Refusal("DPC110", message, RESOLVE)
        yield chosen, name if name.endswith(".yaml") else f"{name}.yaml", "optional" not in words and not is_own


def _shown(folder: str, name: str) -> str:
    """Return the name of a file of a Hydra folder for messages."""
    return shortened(posixpath.join(posixpath.basename(folder), name)) if name else "this file"
