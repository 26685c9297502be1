"""Flags of command lines: in shell scripts, and in the texts and lists of YAML that hold a command. Nothing runs."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import NamedTuple

from dpcalc.config.files import Refusal, refusal_at
from dpcalc.config.source import Mark, Source, shortened
from dpcalc.config.tree import Document, Items, Node, Scalar, Section, join, nested

WAY_OUT = "write the number there, or refer to the place that states it"
FLAGS = "flags"  # key below a text or a list that is a command
_MAX_MISSED = 20  # words that are looked for in vain, since the file has them with escapes
_MAX_OPTION = 100  # characters
_ENDS = ";&|()<>\n"  # operators of a shell, each of which ends a word
_NUMBER = re.compile(r"\s*[-+]?(\.?[0-9]|inf|nan)", re.IGNORECASE)
_BUILT = re.compile(r"-.*[$`*?~{]")  # an option that a shell makes: `--sig$X`, `--{n,sigma}=2`
_VARIABLE = re.compile(r"\$(?:\{(\w+)(?:\[[@*]\]|:?[-=][^-}$`][^}$`]*)?\}|(\w+))")
_PATH = re.compile(rf"{_VARIABLE.pattern}/|[\w./]")
_SET = re.compile(r"(\w+)\+?=")
_SETTING = {"read", "mapfile", "readarray", "getopts", "printf", "source", ".", "xargs", "parallel"}
_HANDED = re.compile(r"\$\{?[@*]")  # the words of the one who runs a script
# Options inside a word.
_INSIDE = re.compile(
    r"(?<![\w-])(?:--([\w-]{1,100})(?=[= )`]|$)|-(\w)(?=[= ]*(?:[-+]?\.?[0-9]|inf|nan)))", re.IGNORECASE
)


class Word(NamedTuple):
    """A word of a command line."""

    text: str  # without quotes
    mark: Mark
    is_plain: bool = True  # False if a variable or a command stands in it, or it is an operator


def shell_words(lines: Iterable[str], source: Source) -> list[Word]:
    """Return the words of lines as a shell splits them, operators among them; Refusal for a quote that never ends."""
    words: list[Word] = []
    text, start, plain, quote = "", None, True, ""

    def end() -> None:
        nonlocal text, start, plain
        if start is not None:
            words.append(Word(text, replace(start, width=max(1, len(text))), plain))
        text, start, plain = "", None, True

    for number, line in enumerate(lines, 1):
        at, is_continued = 0, False
        while at < len(line):
            sign = line[at]
            if quote:
                if sign == quote:
                    quote = ""
                elif sign == "\\" and quote == '"' and line[at + 1 : at + 2] in {'"', "\\", "$", "`"}:
                    at += 1
                    text += line[at]
                else:
                    plain = plain and not (quote == '"' and sign in "$`")
                    text += sign
            elif sign == "#" and start is None:
                break
            elif sign == "\\" and at + 1 == len(line):
                is_continued = True
            elif sign in " \t":
                end()
            elif sign in _ENDS:
                end()
                words.append(Word(sign, Mark(source, number, at + 1), is_plain=False))
            else:
                start = start or Mark(source, number, at + 1)
                if sign in "'\"":
                    quote = sign
                elif sign == "\\":
                    at += 1
                    text += line[at]
                else:
                    plain = plain and sign not in "$`*?~[{"
                    text += sign
            at += 1
        if quote:
            text += "\n"
        elif not is_continued:
            end()
            words.append(Word("\n", Mark(source, number, len(line) + 1), is_plain=False))
    if quote:
        begun = start.line if start else 1
        raise Refusal("DPC110", f"cannot be split into words: the quote of line {begun} never ends", WAY_OUT)
    end()
    return words


def read_shell(source: Source) -> Document:
    """Return the flags of a shell script, each of which must stand there once; Refusal if it has no words."""
    return flags_document(shell_words(source.lines, source), Mark(source, 1, 1), "")


def flags_document(words: list[Word], mark: Mark, path: str) -> Document:
    """Return the tree `flags: {name: value}` of the words of commands; names have `_` and are found with `-` too.

    Refused is an option that may be given again: inside another word (`A="--n 3"`), by a beginning of its name or its
    first letter with a number, which argparse and others take for it, or by a word behind it that the shell makes.
    """
    flags = Section(entries={}, mark=mark, path=join(path, FLAGS))
    leaves: dict[tuple[str, ...], Node] = {(FLAGS,): flags}
    refused: dict[str, Refusal] = {}
    handed: dict[str, tuple[str, ...]] = {}  # options before a "$@" of their command, which may give them again
    again: dict[str, Mark] = {}  # by a name or a beginning of one
    made: dict[str, Word] = {}  # options before a word of their command that may be any
    built: Word | None = None
    here: list[str] = []  # options of the command, and how many of them a "$@" followed already
    told = 0
    filled: Word | None = None
    outer: list[tuple[list[str], int]] = []  # those of the commands around it
    setting = {word.text for word in words} & _SETTING  # words that bind names in other ways than NAME=TEXT
    is_set: dict[str, bool] = {}  # names that the file binds: whether to plain words, paths and other names alone
    for word in words:
        found = _SET.match(word.text)
        name = found[1] if found else word.text if setting else ""
        text = word.text[found.end() :] if found else ""
        is_steady = word.is_plain or _PATH.match(text) or _VARIABLE.fullmatch(text)
        is_set[name] = bool(found and is_steady and is_set.get(name, True))
    before = Word("\n", mark)
    for word, after in zip(words, [*words[1:], Word("\n", mark)], strict=True):
        word = word._replace(text=word.text.replace("\\\n", ""))  # noqa: PLW2901  a line that goes on, in quotes
        option, equals, text = word.text.partition("=")
        built = built or (word if _BUILT.match(option) and (not word.is_plain or "{" in option) else None)
        is_end = not word.is_plain and word.text in ";&|\n" and not {before.text, after.text} & {"<", ">"}
        is_handed = not word.is_plain and _HANDED.match(word.text) is not None
        if word.text == "(":
            outer.append((here, told))
            here, told = [], 0
        elif word.text == ")" and outer:
            here, told = outer.pop()
        elif is_end:
            here, told, filled = [], 0, None
        elif word.text in {"xargs", "parallel"}:  # which put words behind those that stand here
            filled = word
        elif not word.is_plain and word.text[0] in "$`*?~[{" and not word.text.startswith("~/"):
            names = [x or y for x, y in _VARIABLE.findall(word.text)]
            rest = _VARIABLE.sub("", word.text)
            is_value = before.is_plain and before.text.startswith("-") and "=" not in before.text
            is_known = bool(names) and "IFS" not in is_set and not re.search(r"[$`*?~\[{]", rest)
            is_one = is_known and len(names) == 1 and not rest
            is_new = is_known and is_set.keys().isdisjoint(names)
            if is_handed or (is_new and is_one and not is_value and setting.isdisjoint({"source", "."})):
                handed |= dict.fromkeys(here[told:], ())
                told = len(here)
            elif not (is_new and is_value) and not (is_one and is_set.get(names[0])) and not _PATH.match(word.text):
                made |= dict.fromkeys(here, word)
                here, told = [], 0
        before = word
        if not option.startswith("--") or len(option) < 3:
            next_text = "0" if here and not after.is_plain and after.text not in _ENDS else after.text
            for found in _INSIDE.finditer(f"{word.text} {next_text if option.startswith('-') else ''}"):
                again.setdefault((found[1] or found[2]).replace("-", "_"), word.mark)
            continue
        keys = FLAGS, option[2:].replace("-", "_")
        place = join(path, ".".join(keys))
        value = word if equals else after
        text = text if equals else value.text
        at, problem = word.mark, ""
        is_made = not value.is_plain and value.text not in _ENDS
        if keys in leaves:
            problem = f"stands there more than once, in lines {leaves[keys].mark.line} and {word.mark.line}"
        elif is_made:
            at, problem = value.mark, f"is `{shortened(text)}`, which a shell makes a value of"
        elif text in _ENDS or text.startswith("--"):
            problem = "has no value"
        elif len(option) > _MAX_OPTION:
            problem = f"has more than {_MAX_OPTION} characters"
        if problem:
            refused.setdefault(place, refusal_at(at, f"`{shortened(option)}` {problem}", WAY_OUT))
        if is_made or _NUMBER.match(text):
            again.setdefault(f"{keys[1]}=", word.mark)
        leaves.setdefault(keys, Scalar(text=text, mark=value.mark, path=place))
        here.append(place)
        made |= {place: filled} if filled else {}
    for (_, name), node in [each for each in leaves.items() if len(each[0]) == 2]:
        starts = (start for end in range(1, min(len(name), _MAX_OPTION)) for start in (name[:end], f"{name[:end]}="))
        found_again = again.get(name) or next((again[start] for start in starts if start in again), None)
        word_of = made.get(node.path, built)
        if found_again is not None or word_of is not None:
            said = f"in line {found_again.line}" if found_again else ""
            said = said or (f"by `{shortened(word_of.text)}` in line {word_of.mark.line}" if word_of else "")
            hint = f"put it last in its command, or {WAY_OUT}" if node.path in made else WAY_OUT
            problem = f"`--{shortened(name)}` may be given again {said}"
            refused.setdefault(node.path, refusal_at(node.mark, problem, hint))
    return Document(nested(leaves, mark, path), refused, handed)


def command_flags(node: Node) -> Document | None:
    """Return the flags of a text or a list of texts that holds a command line; None for other values."""
    if isinstance(node, Scalar):
        return flags_document(list(_words_of(node)), node.mark, node.path)
    if isinstance(node, Items) and node.items and all(isinstance(each, Scalar) for each in node.items):
        words = [word for each in node.items if isinstance(each, Scalar) for word in _words_of(each)]
        return flags_document(words, node.mark, node.path)
    return None


def _words_of(node: Scalar) -> Iterator[Word]:
    """Yield the words of a text, each at its place in the file if a line there has it as it is."""
    lines, at, missed = node.mark.source.lines, node.mark.line, 0
    for word in shell_words(node.text.split("\n"), node.mark.source):
        if word.text == "\n" and node.text.count("\n") == 0:
            continue  # the next item of the list goes on
        last = min(len(lines), at + 200) if missed < _MAX_MISSED else 0
        for number in range(at, last + 1):
            column = lines[number - 1].find(word.text, node.mark.column - 1 if number == node.mark.line else 0)
            if column >= 0:
                at = number
                yield word._replace(mark=Mark(node.mark.source, number, column + 1, max(1, len(word.text))))
                break
        else:
            missed += 1
            yield word._replace(mark=node.mark)
