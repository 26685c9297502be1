"""Where the words of a text stand, character by character, and where a new key finds room."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import yaml

from dpcalc.config.source import Mark, Source

_LINE_END = re.compile(r"\r\n|\r|\n|\Z")


@dataclass(frozen=True, kw_only=True)
class Word:
    """A word of the text as it is written.

    Attributes:
        start: index of its first character.
        stop: index after its last character.
        anchor: the anchor through which other places repeat it, or "".
    """

    start: int
    stop: int
    anchor: str


@dataclass(frozen=True, kw_only=True)
class Room:
    """A mapping as it is written.

    Attributes:
        start: index of its first character.
        indent: blanks before its keys, where it is not written in braces.
        flow: whether it is written in braces.
        empty: whether it has no keys.
        first: index after the value of its first key if that is a word on the key's line, else None.
        anchor: the anchor through which other places repeat it, or "".
    """

    start: int
    indent: int
    flow: bool
    empty: bool
    first: int | None
    anchor: str


@dataclass(frozen=True, kw_only=True)
class Edit:
    """A stretch of text and what comes in its place."""

    start: int
    stop: int
    text: str


class _Point(NamedTuple):
    """A place in a text: line and column from 1, and index in the text."""

    line: int
    column: int
    offset: int


class Places:
    """The words and mappings of a text by line and column."""

    def __init__(self, source: Source) -> None:
        """Look through a text.

        Args:
            source: one that `yaml_text.parse` accepts; the limits are there.
        """
        self._text = source.text
        self._words: dict[tuple[int, int], Word] = {}
        self._rooms: dict[tuple[int, int], Room] = {}
        events = tuple(yaml.parse(source.text, Loader=yaml.SafeLoader))
        aliased = {event.anchor for event in events if isinstance(event, yaml.AliasEvent)}
        shared = [""]
        for number, event in enumerate(events):
            if isinstance(event, yaml.CollectionEndEvent):
                shared.pop()
            elif isinstance(event, yaml.ScalarEvent | yaml.CollectionStartEvent):
                anchor = event.anchor if event.anchor and event.anchor in aliased else shared[-1]
                self._enter(events[number : number + 3], anchor)
                if isinstance(event, yaml.CollectionStartEvent):
                    shared.append(anchor)

    def word(self, mark: Mark | None) -> Word | None:
        """The word that stands at a mark, None where none does."""
        return None if mark is None else self._words.get((mark.line, mark.column))

    def room(self, mark: Mark) -> Room | None:
        """The mapping that begins at a mark, None where none does."""
        return self._rooms.get((mark.line, mark.column))

    def insertion(self, room: Room, entry: str) -> Edit:
        """The edit that adds an entry to a mapping: after the first one where that is one line, else before it.

        Args:
            room: the mapping.
            entry: "key: value" on one line.
        """
        if room.flow:
            place = room.start + 1 if room.first is None else room.first
            text = f", {entry}" if room.first is not None else entry if room.empty else f"{entry}, "
            return Edit(start=place, stop=place, text=text)
        between = self._line_break() + " " * room.indent
        if room.first is None:
            return Edit(start=room.start, stop=room.start, text=f"{entry}{between}")
        place = self._end_of_line(room.first)
        return Edit(start=place, stop=place, text=f"{between}{entry}")

    def _enter(self, events: tuple[yaml.Event, ...], anchor: str) -> None:
        """Note what begins with the first of some events."""
        event, *following = events
        start, stop = _span(event)
        place = (start.line, start.column)
        if isinstance(event, yaml.ScalarEvent):
            begin = start.offset if event.style else stop.offset - len(event.value)  # after an anchor's name
            self._words[place] = Word(start=begin, stop=stop.offset, anchor=anchor)
        elif isinstance(event, yaml.MappingStartEvent):
            self._rooms[place] = Room(
                start=start.offset,
                indent=start.column - 1,
                flow=bool(event.flow_style),
                empty=isinstance(following[0], yaml.MappingEndEvent),
                first=_end_of_value(following),
                anchor=anchor,
            )

    def _end_of_line(self, index: int) -> int:
        """Index after the last character of a line."""
        found = _LINE_END.search(self._text, index)
        return len(self._text) if found is None else found.start()

    def _line_break(self) -> str:
        """How lines end in this text."""
        found = _LINE_END.search(self._text)
        return found.group() if found and found.group() else "\n"


def applied(text: str, edits: Iterable[Edit]) -> str:
    """A text after edits that do not overlap."""
    for edit in sorted(edits, key=lambda one: one.start, reverse=True):
        text = text[: edit.start] + edit.text + text[edit.stop :]
    return text


def _end_of_value(events: list[yaml.Event]) -> int | None:
    """Index after a first entry, if it is two words on one line."""
    match events:
        case [yaml.ScalarEvent() as key, yaml.ScalarEvent() as value]:
            begin, end = _span(key)[0], _span(value)[1]
            return end.offset if begin.line == end.line else None
        case _:
            return None


def _span(event: yaml.Event) -> tuple[_Point, _Point]:
    """Where an event begins and ends."""
    start, stop = event.start_mark, event.end_mark
    if start is None or stop is None:
        raise LookupError("expected marks of a text, got none")
    return _Point(start.line + 1, start.column + 1, start.index), _Point(stop.line + 1, stop.column + 1, stop.index)
