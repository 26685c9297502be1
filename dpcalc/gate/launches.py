"""What the launches that a repository keeps say of defaults in code: another value of the same flag is an error."""

import ast
import os
import posixpath
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import cache
from itertools import accumulate
from pathlib import Path, PurePosixPath

from dpcalc.config import scalars
from dpcalc.config.discovery import matches
from dpcalc.config.documents import Default
from dpcalc.config.files import Folder, Refusal
from dpcalc.config.load import Loaded
from dpcalc.config.python_names import TELLING, last_name, python_syntax
from dpcalc.config.readers import read_document
from dpcalc.config.source import MAX_BYTES, ConfigError, Diagnostic, Severity, Source, decode, read_bytes, shortened
from dpcalc.config.tree import Node, entry
from dpcalc.errors import InputError
from dpcalc.gate.diff import tracked_files
from dpcalc.gate.verdict import finding

MAX_LAUNCHES = 5_000  # files of a repository that are searched
MAX_LAUNCH = 16 * 1024 * 1024  # bytes of one; notebooks hold pictures
MAX_ALL = 64 * 1024 * 1024  # bytes of all
MAX_TRIED = 200  # launches with another value, of which it is looked up whether they run another script
MAX_FOUND = 10  # launches that are named for one config
MAX_PLACES = 100_000  # of options that are looked at for one config
MAX_COMMAND = 20_000  # characters before an option in which its script is looked for
_ENDINGS = (".sh", ".bash", ".zsh", ".ksh", ".slurm", ".sbatch", ".yaml", ".yml", ".ipynb", ".mk", ".dockerfile")
# Of other files those are searched that are no documents, small, and text, the smallest first, until there have been
# enough.
_DOCUMENT = re.compile(
    r"(readme|change|licen[cs]e|history|news|authors|contribut|notice)[^.]*(\.txt)?|"
    r".*\.(md|rst|tex|adoc|html?|svg|csv|tsv|lock|pyi)",
    re.IGNORECASE,
)
MAX_OTHER, MAX_OTHERS = 256 * 1024, 16 * 1024 * 1024  # bytes of one, and of all
_NAMES = re.compile(r"(gnu)?makefile|(dockerfile|containerfile)(\..*)?", re.IGNORECASE)
# What may stand between an option and its value: `=`, a space, the next line, the next item of a list.
_GAP = r"(?:\\?[\"']?=|\\?[\"']?[,\s](?:\\n|[\s\\,]){0,50}(?:-\s+)?)\\?[\"']?"
_KEYED = r"[\"']?\s{0,9}:\s{0,99}(?:\{?\s{0,9}values?\s{0,9}:\s{0,99})?(?:\[|-\s)?\s{0,99}[\"']?"
_VALUE = r"(?P<value>[^\s\"'\\,;|&)\]}]*)"
# What goes on behind a quote or a backslash, so that the value is another one: `1.1'e-1'`.
_GOES_ON = re.compile(r"[\"']{1,9}[\w.+-]|\\(?:\n\S|[^\\nrt\"'\s])")
# A word with quotes or backslashes inside its option: `--sig"ma"`.
_GLUED = re.compile(r"(?<![^\s=(])[\"'\\]{0,9}-(?:[^\s,\]})\\]|\\(?![ntrux\s]))*")
_QUOTE = re.compile(r"[\"'\\]")
_ESCAPED = re.compile(r"\\(?:u00|x)([2-7][0-9a-fA-F])")  # of JSON and YAML: `\u002d`
_UNKNOWN = re.compile(r"[*!&{]|\$(?!\{[\w./-]+:)|.*:$")  # what stands for a number of YAML, but for a reference here
_SCRIPT = re.compile(r"[\w./-]+\.py\b|(?<=-m )[\w.]+")
_COMMAND_END = re.compile(r"(?<!\\)\n|;|&&|\|")
_DEFINING = {"add_argument", "option", "argument", "print"}
_COMMENT = re.compile(r"[ \t]*#")


def overridden(loaded: Loaded, others: Sequence[str] = ()) -> Iterator[Diagnostic]:
    """Yield DPC409 for each tracked launch that gives a default of the config another value, up to MAX_FOUND.

    `others` are patterns, from the top of the repository, of files that launch other runs.
    """
    if not loaded.defaults or not isinstance(loaded.files, Folder):
        return
    root = loaded.files.top
    state_it = "state the value in the config"
    # `research/**` is every file below a folder, too.
    patterns = [posixpath.normpath(each + "/*" * each.endswith("**")).split("/") for each in others]
    try:
        texts = [each for each in _launches(root) if not any(matches(each[0].split("/"), x) for x in patterns)]
    except InputError as cause:  # not in git, or without git: then nothing is tracked, and the assumption stands
        if "too many" in str(cause):
            problem = f"launches are not all searched: {cause}"
            yield finding("DPC409", Severity.ERROR, problem, loaded.path, hint=state_it)
        return
    found, tried, places = set[tuple[str, int]](), 0, 0
    for default in loaded.defaults:
        conf = os.path.relpath(loaded.files.folder / PurePosixPath(default.name).parent, root)
        options = "|".join([_pattern(default), *_choices(root, conf, default.options, default.value.text)]).strip("|")
        pattern = f"(?:{options}){_VALUE}"
        for name, text in texts if options else ():
            searched, is_comment = 0, _COMMENT.match(text) is not None
            for match in re.finditer(pattern, text, re.MULTILINE):
                places += 1
                if places > MAX_PLACES:
                    problem = f"launches are not all searched: options of the config in more than {MAX_PLACES:,} places"
                    yield finding("DPC409", Severity.ERROR, problem, loaded.path, hint=state_it)
                    return
                if begin := text.rfind("\n", searched, match.start()) + 1:
                    is_comment = _COMMENT.match(text, begin) is not None
                searched = match.start()
                given, option = match["value"], match.group().split("=")[0].split()[0].strip("\"',\\:")
                is_more = _GOES_ON.match(text, match.end()) is not None
                is_more = is_more or (default.options[0].endswith("=") and text[match.end() :][:1] == ",")  # of `-m`
                is_same = not is_more and (
                    given == default.value.text
                    or (
                        (number := scalars.parse_number(given)) is not None
                        and number == scalars.parse_number(default.value.text)
                    )
                )
                is_flag = default.value.text in {"true", "false"}
                if is_comment or (name, match.start()) in found:  # or told of another key
                    continue
                is_key = any(x is not None for key, x in match.groupdict().items() if key.startswith("keyed"))
                # `sigma: 2` counts in YAML and JSON that the script reads: `program: train.py`, `args: {sigma: 2}`.
                is_value = scalars.parse_number(given) is not None or _UNKNOWN.match(given) is not None
                is_value = is_value or default.options[0].startswith("-p ")
                if is_key and not (is_value and _is_of(default, root, name)):
                    continue
                if is_same or (given.startswith("--") and not is_flag):
                    continue
                # Python code has options where it defines them, or tells of them, and hands on those of its own launch.
                if name.endswith(".py") and not is_key:
                    told, inside = _texts_of_code(text)
                    is_told = any(start <= match.start() < end for start, end in told)
                    # `f(rounds=3)` is an argument, `"rounds=3"` may be handed to Hydra.
                    is_code = default.options[0].endswith("=") and not any(x <= match.start() < y for x, y in inside)
                    if is_told or is_code or re.search(rf"\b{re.escape(_name(default))}$", given.replace("-", "_")):
                        continue
                tried += 1
                if _start(match) is not None and (
                    tried > MAX_TRIED or not _is_short_for(default, root, name, text, match)
                ):
                    continue
                if tried <= MAX_TRIED and _is_of_another(default, root, name, text, match):
                    continue
                line = text.count("\n", 0, match.start()) + 1
                column = match.start() - text.rfind("\n", 0, match.start())
                said = shortened(given + "}" * (given.count("{") - given.count("}"))) or "given"
                message = f"`{shortened(option)}` is {said} here, and `{default.key}` takes the "
                message += f"default {default.value.text} of {default.name}, line {default.value.mark.line}"
                path = os.path.relpath(root / name)
                hint = f"refer to the launch, as in `${{run.sh:flags.{_name(default)}}}`, or remove the value there; "
                hint += "`other_launches` of the policy names files that launch other runs"
                yield finding("DPC409", Severity.ERROR, message, path, (line, column), hint)
                found.add((name, match.start()))
                if len(found) == MAX_FOUND:
                    return


def _name(default: Default) -> str:
    long = [option for option in default.options if not re.match("-[^-]", option)]
    return [*long, *default.options, "x"][0].lstrip("-").rstrip("=").replace("-", "_")


def _spelt(option: str) -> str:
    """Return a regular expression of an option, in which `-` and `_` are the same."""
    return "".join("[-_]" if letter in "-_" else re.escape(letter) for letter in option)


def _pattern(default: Default) -> str:
    """Return a regular expression for what overrides a default, with its `value`; "" if nothing does."""
    words = []
    for option in default.options:
        if option.startswith("--"):
            # `--config.sigma` by any name of the flag, a field of a class as `--dp.sigma`, too.
            before = r"[\w-]{1,50}\." if option.startswith("--config.") else ""
            before = before or ("" if default.value.path.startswith("flags") else r"(?:[\w-]{1,50}\.){0,3}")
            words.append(rf"(?<![\w-])--{before}{_spelt(option[2:].removeprefix('config.'))}(?![\w.-]){_GAP}")
            words.append(rf"(?<![\w.-])(?P<keyed{len(words)}>)[\"']?{_spelt(option[2:])}{_KEYED}")
            starts = "|".join(_spelt(option[2:end]) for end in range(len(option) - 1, 2, -1))
            if starts and "." not in option:  # argparse takes any beginning of an option
                words.append(rf"(?<![\w-])--(?P<start{len(words)}>{starts})(?![\w.-]){_GAP}")
        elif option.startswith("-p "):  # of papermill: `-p SIGMA 2`, `-y "SIGMA: 2"`, `parameters={"SIGMA": 2}`
            words.append(
                rf"(?<![\w-])(?:-p|-r|--parameters(?:_raw)?)[=\s]\s{{0,9}}[\"']?{re.escape(option[3:])}[\"']?\s{{1,9}}[\"']?"
            )
            words.append(
                rf"(?<![\w.])(?P<keyed{len(words)}>){re.escape(option[3:])}\\?[\"']?\s{{0,9}}[:=]\s{{0,99}}\\?[\"']?"
            )
        elif option.startswith("-") and len(option) == 2:
            words.append(rf"(?<![\w-]){re.escape(option)}(?P<start{len(words)}>)(?:{_GAP}|(?=[\d.]))")
        elif option.endswith("="):  # of Hydra: `dp.sigma=2`, and no assignment `dp=2` at the beginning of a line
            # `dp.sigma: 2` is a key of YAML, too: `hydra: {sweeper: {params: {dp.sigma: 2}}}`.
            begins, ends = ("^|", "(?:=|[\"']?:[ \t])") if "." in option else ("", "=")
            before = rf"(?:{begins}(?<=[ \t\"'{{,])|(?<=\\\n))\+{{0,2}}"
            words.append(rf"{before}{re.escape(option[:-1])}(?:@[\w.:-]+)?{ends}\\?[\"']?")
        elif not option.startswith("-"):  # of gin: `Optimizer.noise = 2`
            words.append(rf"(?<![\w.]){re.escape(option)}\s{{0,9}}=\s{{0,9}}\\?[\"']?")
    return "|".join(words)


@cache
def _choices(root: Path, conf: str, options: tuple[str, ...], value: str) -> list[str]:
    """Return regular expressions of the choices by which a launch of Hydra gives a key another value.

    `experiment=x` does where the file `experiment/x.yaml` of the folder of the main config states the key.
    """
    if not options or not options[0].endswith("=") or scalars.parse_number(value) is None:
        return []
    keys, found = options[0][:-1].split("."), []
    for name in [x for x in tracked_files(root) if x.startswith(f"{conf}/".removeprefix("./"))][:MAX_LAUNCHES]:
        group, _, file = posixpath.relpath(name, conf).rpartition("/")
        if not group or not file.endswith(".yaml"):
            continue
        try:
            data = read_bytes(str(root / name), limit=MAX_BYTES)
            if keys[-1].encode() not in data:
                continue
            source = decode(data, name)
            stated: Node | None = read_document(source, ".yaml").tree
        except (ConfigError, Refusal):
            continue
        header = re.match(r"\s*#\s*@package\s+([\w.-]+)", source.text)
        package = (header[1] if header else group.replace("/", ".")).removeprefix("_global_").strip(".").split(".")
        at = [key for key in package if key]
        if keys[: len(at)] != at:
            continue
        for key in keys[len(at) :]:
            stated = entry(stated, key)
        number = scalars.number_of(stated)
        if number is not None and number != scalars.parse_number(value):
            option = re.escape(file.removesuffix(".yaml"))
            found.append(rf"(?<=[ \t\n\"'])\+{{0,2}}{re.escape(group)}=(?={option}(?![\w.-]))")
    return found


@cache
def _launches(root: Path) -> tuple[tuple[str, str], ...]:
    """Return name and text of the tracked files that may launch a run; InputError if there are too many."""
    names, others = list[str](), list[str]()
    for name in tracked_files(root):
        base = posixpath.basename(name)
        if base.lower().endswith(_ENDINGS) or _NAMES.fullmatch(base):
            names.append(name)
        elif not _DOCUMENT.fullmatch(base):
            others.append(name)
    if len(names) > MAX_LAUNCHES:
        raise InputError(f"too many: the repository has {len(names):,} scripts, above {MAX_LAUNCHES:,}")
    texts, total = [], 0
    for name in names:
        try:
            data = read_bytes(str(root / name), limit=MAX_LAUNCH)
        except ConfigError as cause:
            if cause.diagnostics[0].code == "DPC111":
                raise InputError(f"too many: {shortened(name)} is larger than {MAX_LAUNCH >> 20} MiB") from None
            continue  # it is gone, a folder of a submodule, or a link that leaves the repository
        total += len(data)
        if total > MAX_ALL:
            raise InputError(f"too many: the scripts of the repository have more than {MAX_ALL >> 20} MiB")
        texts.append((name, _text(data)))
    left = MAX_OTHERS
    for name in sorted(others, key=lambda name: _size(root / name))[:MAX_LAUNCHES]:
        try:
            data = read_bytes(str(root / name), limit=MAX_OTHER)
        except ConfigError:
            continue
        left -= len(data)
        if left >= 0 and "\0" not in (text := _text(data)):
            texts.append((name, text))
    return tuple(texts)


def _size(path: Path) -> int:
    with suppress(OSError):
        return path.lstat().st_size
    return 0


def _text(data: bytes) -> str:
    is_wide = data[:2] in {b"\xff\xfe", b"\xfe\xff"}
    text = data.decode("utf-16" if is_wide else "utf-8", errors="replace")
    text = _ESCAPED.sub(lambda found: chr(int(found[1], 16)), text)

    def unquoted(found: re.Match[str]) -> str:
        word = _QUOTE.sub("", found[0])
        is_whole = word.partition("=")[0] in found[0] and not re.search("''|\"\"", found[0])
        return found[0] if is_whole else word.ljust(len(found[0]))

    return _GLUED.sub(unquoted, text)


@cache
def _texts_of_code(text: str) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """Return where Python code defines options or tells of them, comments among it, and where other texts are."""
    lines = re.split(r"(?<=\n)|(?<=\r)(?!\n)", text)
    starts = [0, *accumulate(map(len, lines))]
    told, texts = (
        [(x.start(), x.end()) for x in re.finditer(r"^[ \t]*#.*", text, re.MULTILINE)],
        list[tuple[int, int]](),
    )
    try:
        nodes = list(ast.walk(python_syntax(text)))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return told, [(0, len(text))]
    defining = set[ast.AST]()
    for node in nodes:
        name = last_name(node) if isinstance(node, ast.Call) else ""
        if isinstance(node, ast.Expr) or (isinstance(node, ast.keyword) and node.arg in TELLING):
            defining.add(node.value)
        if isinstance(node, ast.Call) and (name.lower() in _DEFINING or name.startswith("DEFINE_")):
            defining.update(node.args)
    for node in nodes:
        if isinstance(node, ast.Constant | ast.JoinedStr) and (node.end_lineno or 0) <= len(lines):
            first, last = lines[node.lineno - 1].encode(), lines[(node.end_lineno or node.lineno) - 1].encode()
            if len(first) + len(last) <= MAX_COMMAND:
                start = starts[node.lineno - 1] + len(first[: node.col_offset].decode(errors="replace"))
                ends_at = last[: node.end_col_offset].decode(errors="replace")
                end = starts[(node.end_lineno or node.lineno) - 1] + len(ends_at)
                (told if node in defining else texts).append((start, end))
            elif node not in defining:
                texts.append((starts[node.lineno - 1], starts[node.end_lineno or node.lineno]))
    return told, texts


@cache
def _is_named(root: Path, name: str, script: str) -> bool:
    """Return True if a file names a script, or a command of another file names both."""
    found = re.compile(rf"\b{re.escape(script)}(?![\w:])")
    own = re.compile(rf"(?<![\w.-]){re.escape(posixpath.basename(name))}(?![\w.-])")
    texts = dict(_launches(root))
    return found.search(texts.get(name, "")) is not None or any(
        found.search(line) and own.search(line)
        for other, text in texts.items()
        if other != name
        for line in text.replace("\\\n", " ").splitlines()
    )


def _is_of(default: Default, root: Path, name: str) -> bool:
    """Return True if a file that has a value under the key of a default names the file of the default."""
    is_data = name.lower().endswith((".yaml", ".yml", ".json")) or default.options[0].startswith("-p ")
    is_itself = os.path.realpath(root / name) == os.path.realpath(default.value.mark.source.path)
    return is_data and not is_itself and _is_named(root, name, PurePosixPath(default.name).name)


def _scripts(root: Path, name: str, text: str, match: re.Match[str]) -> list[str]:
    """Return the Python files that the command at a match names before it, from the top where that is certain."""
    first = max(0, match.start() - MAX_COMMAND)
    # The words of a list, `- -s` or `"-s"`, belong to what stands anywhere above it.
    is_listed = re.search(r"(?:^|\n)\s{0,99}-\s[\"']?$|[\"']$", text[max(0, match.start() - 110) : match.start()])
    ends = [] if is_listed else [end.end() for end in _COMMAND_END.finditer(text, first, match.start())]
    found = [
        script if script.endswith(".py") else f"{script.replace('.', '/')}.py"
        for script in _SCRIPT.findall(text[max([first, *ends[-1:]]) : match.start()])
    ]
    if _changes_folder(text):
        return found
    beside = [posixpath.normpath(posixpath.join(posixpath.dirname(name), script)) for script in found]
    tracked = frozenset(tracked_files(root)) if found else frozenset()
    return [f"/{at}" if at in tracked else script for at, script in zip(beside, found, strict=True)]


@cache
def _changes_folder(text: str) -> bool:
    return bool(re.search(r"\b(cd|chdir|pushd|workdir|directory)\b|-C\b", text, re.IGNORECASE))


def _is_own(default: Default, root: Path, script: str) -> bool:
    if script.startswith("/"):
        return os.path.realpath(root / script[1:]) == os.path.realpath(default.value.mark.source.path)
    return posixpath.basename(script) == PurePosixPath(default.name).name


def _is_of_another(default: Default, root: Path, name: str, text: str, match: re.Match[str]) -> bool:
    """Return True if the command at a match runs other scripts of the repository that define the flag themselves."""
    scripts = _scripts(root, name, text, match)
    if not scripts or any(_is_own(default, root, script) for script in scripts):
        return False
    for script in scripts:
        # One that does not name the module of the flags cannot hand words on to it.
        source, stem = _script(root, script), PurePosixPath(default.name).stem
        knows_nothing = source is not None and not re.search(rf"\b{re.escape(stem)}\b", source.text)
        if not knows_nothing and not _defines(root, script, _name(default)):
            return False
    return True


def _start(match: re.Match[str]) -> str | None:
    """Return the beginning of an option that stands there, "" for a letter; None for a whole option."""
    return next((text for key, text in match.groupdict().items() if key.startswith("start") and text is not None), None)


def _is_short_for(default: Default, root: Path, name: str, text: str, match: re.Match[str]) -> bool:
    """Return True if the command at a match runs the script of the default, which has no other option of that name."""
    start, scripts = _start(match), [x for x in _scripts(root, name, text, match) if _is_own(default, root, x)]
    return bool(scripts) and not (start and _defines(root, scripts[0], start.replace("-", "_")))


@cache
def _script(root: Path, script: str) -> Source | None:
    """Return the only tracked file of this name; None if there is none, or several."""
    if script.startswith("/"):
        places = [script[1:]]
    else:
        places = [x for x in tracked_files(root) if f"/{x}".endswith(f"/{posixpath.normpath(script)}")]
    try:
        return decode(read_bytes(str(root / places[0]), limit=MAX_BYTES), places[0]) if len(places) == 1 else None
    except ConfigError:
        return None


@cache
def _defines(root: Path, script: str, name: str) -> bool:
    """Return True if exactly one tracked file has this name and defines the flag."""
    source = _script(root, script)
    try:
        flags = entry(read_document(source, ".py").tree, "flags") if source else None
    except Refusal:
        return False
    return entry(flags, name) is not None
