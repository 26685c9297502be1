"""What a Python file states as a tree: flags, fields of classes, constants, `get_config()`. Only its syntax is read.

A default in code is not the value of the run. One is read only if the file says it once, as a literal, on no condition,
and if every place that has the name of what it depends on (the parser and the object of parsed flags, the class, the
constant, the config) is of a form that is known to change nothing: `_read`, `_of_parser`, `_of_class` and the like list
these forms. Any other is the refusal of what depends on that name. That a launch or another file changes nothing
either is an assumption, which `Document.defaults` hands on. Names:

    flags.X          argparse, absl, click and typer options, and fields of the classes given to HfArgumentParser
    Class.field      dataclasses and attributes of plain classes
    NAME             constants of the module, also dictionaries (NAME.key)
    get_config.a.b   what a function without conditions sets on the ml_collections.ConfigDict that it returns
    calls.name.x     a named argument that all calls of `name` give alike, also below it: calls.ConfigDict.dp.sigma
"""

import ast
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import NamedTuple

from dpcalc.config.files import Refusal, refusal_at
from dpcalc.config.python_names import (
    ATTRIBUTE,
    MAX_NAMES,
    MODULE,
    REPLACING,
    Forms,
    Function,
    Key,
    and_,
    assignments,
    bases_of,
    generic,
    is_constant,
    keywords_of,
    last_name,
    literal_text,
    parameters_of,
    python_syntax,
    text_in,
    texts_in,
    words_in,
)
from dpcalc.config.source import Source, shortened
from dpcalc.config.tree import Document, Items, Node, Scalar, Section, join, nested, walk

WAY_OUT = (
    "write a literal there, or gate the run in a test of your own: `assert epsilon(plan(...)).epsilon <= target` with "
    "`from dpcalc import epsilon, plan`"
)
_COOKIE = re.compile(r"[ \t\f]*#.*?coding[:=][ \t]*([-\w.]+)")  # as Python finds it
MAX_BRACES = 10_000  # `ast.parse` needs time quadratic in the expressions of one f-string
MAX_ARGUMENTS = 1_000  # in calls of one name
MAX_LOOKED = 1_000_000  # places of the names of arguments
MAX_FAMILY = 20  # classes that inherit from each other
_OPTION = words_in(
    "default type help dest action required choices metavar nargs const name is_flag show_default show_choices "
    "hidden multiple envvar prompt rich_help_panel min max case_sensitive callback lower_bound upper_bound "
    "short_name"
)
_OF_COMMANDS = words_in("command group option argument pass_context pass_obj version_option callback")
_CLASSES = {"dataclass", "define", "frozen", "mutable", "attrs", "s"}  # decorators: dataclasses, flax, chex, attrs
_METHODS = words_in("property staticmethod classmethod cached_property abstractmethod override setter")
_FIELDS = {"field", "Field", "ib", "attrib", "HfArg"}
_FIELD = words_in("default metadata help aliases description init repr compare kw_only hash title gt ge lt le frozen")
_HARMLESS = words_in("lock unlock unlocked ignore_type get items keys values to_dict")  # of a ConfigDict
# Arguments of an option that take its value from elsewhere than its default, but for these literals.
_ELSEWHERE: dict[str, tuple[object, ...]] = {
    "required": (False,),
    "prompt": (False,),
    "envvar": (None,),
    "callback": (None,),
    "action": (None, "store", "store_true", "store_false"),
}
_CLICK_TYPES = {"float", "int", "str", "FLOAT", "INT", "STRING", "FloatRange", "IntRange"}  # which keep a default
_POSITIONAL = "`{}` is a positional argument, which a launch gives"


def read_python(source: Source) -> Document:
    """Return what a Python file states as a tree; Refusal if it is no Python."""
    cookies = [found[1] for line in source.lines[:2] if (found := _COOKIE.match(line))]
    if cookies and cookies[0].lower().replace("_", "-") not in {"utf-8", "utf8", "ascii", "us-ascii", "latin-1"}:
        raise Refusal("DPC110", f"is encoded as `{shortened(cookies[0])}`", "save it as UTF-8")
    if source.text.count("{") > MAX_BRACES:
        raise Refusal("DPC111", f"has more than {MAX_BRACES:,} braces", "refer to a smaller file")
    try:
        return _Reader(source, python_syntax(source.text)).document()
    except SyntaxError as cause:
        raise Refusal("DPC110", f"cannot be read as Python, line {cause.lineno}: {cause.msg}", "") from None
    except (RecursionError, MemoryError):
        raise Refusal("DPC111", "nests too deeply to be read as Python", "refer to a simpler file") from None
    except ValueError as cause:  # a number of too many digits
        raise Refusal("DPC110", f"cannot be read as Python: {cause}") from None


class _Stated(NamedTuple):
    """A name that a file states."""

    keys: tuple[str, ...]
    value: ast.expr | None  # None if it has none
    at: ast.AST
    problems: Iterable[str]  # that forbid to read it, of which the first one is told; "" is none
    options: tuple[str, ...] | None = None  # such as "--sigma", by which a launch gives another value; None for no flag
    # Of a flag that the file defines:
    kind: ast.expr | None = None  # what converts a default that is a text
    mentions: int = 0  # how often the definition has each option as a text


class _Reader(Forms):
    """What a file states, with what forbids to read it."""

    def __init__(self, source: Source, tree: ast.Module) -> None:
        super().__init__(source, tree)
        self.refused: dict[str, Refusal] = {}
        self.defaults: dict[str, tuple[str, ...]] = {}
        self.code: dict[str, tuple[str, str]] = {}
        self.by_default: dict[str, object] = {}  # of each flag that may be read
        self.guards: dict[str, list[str]] = {}

    def document(self) -> Document:
        """Return all that the file states."""
        entries: dict[str, Node] = {}
        for node in self.tree.body:
            if isinstance(node, ast.ClassDef):
                entries[node.name] = self._section(node.name, self._fields(node))
            elif isinstance(node, Function) and (found := self._config(node)) is not None:
                entries[node.name] = self._section(node.name, found)
        entries |= self._section("", self._constants()).entries
        flags = self._section("flags", self._flags())
        for name, section in (("flags", flags), ("calls", self._section("calls", self._calls()))):
            if section.entries:
                if name in entries:
                    self.refused[name] = self._refusal(self.tree, f"`{name}` is a name of the file, too", "")
                entries[name] = section
        whole = Section(entries=entries, mark=self._mark(self.tree), key=None, path="")
        return Document(whole, self.refused, self.defaults, self.code, self.guards)

    def _section(self, path: str, stated: Iterable[_Stated]) -> Section:
        """Return what is stated below a path, of each name the first value, and note options and refusals."""
        leaves: dict[tuple[str, ...], Node] = {}
        for each in stated:
            if each.keys in leaves:
                continue
            place = ".".join((path, *each.keys)).removeprefix(".")
            problem = next(filter(None, each.problems), "")
            if each.value is None:
                problem = problem or f"`{place}` has no default: a launch gives it"
                leaves[each.keys] = Scalar(text="", plain=True, mark=self._mark(each.at), key=None, path=place)
            else:
                leaves[each.keys] = self._literal(each.value, place, converts=_converts(each))
            if each.options is not None:
                self.defaults |= dict.fromkeys((path for path, _ in walk(leaves[each.keys], place)), each.options)
            if problem:
                self.refused[place] = self._refusal(each.at, problem)
                self.code.pop(place, None)
        return nested(leaves, self._mark(self.tree), path)

    def _literal(self, node: ast.expr, path: str, *, converts: bool = False, depth: int = 0) -> Node:
        """Return a literal as a tree, and note a refusal at `path`, or below it, for what is none.

        `converts`: a text is converted to a number, as argparse does with the default of a `type=float`.
        """
        mark = self._mark(node)
        match node:
            case ast.List(elts=elements) | ast.Tuple(elts=elements) if depth < 20 and not any(
                isinstance(each, ast.Starred) for each in elements
            ):
                below = (self._literal(x, f"{path}[{at}]", depth=depth + 1) for at, x in enumerate(elements))
                return Items(items=tuple(below), mark=mark, key=None, path=path)
            case ast.Dict(keys=keys, values=values) if depth < 20 and all(text_in(key) is not None for key in keys):
                times = Counter(names := [str(text_in(key)) for key in keys])
                parts = {
                    name: self._literal(value, join(path, name), depth=depth + 1)
                    for name, value in zip(names, values, strict=True)
                }
                twice = frozenset(name for name, count in times.items() if count > 1)
                return Section(entries=parts, mark=mark, key=None, path=path, repeated=twice)
            case ast.Call(func=ast.Name(id="dict"), args=[]) if depth < 20 and "dict" not in self.own | set(
                self.imports
            ):
                given = keywords_of(node)
                written = ast.Dict(
                    keys=[ast.Constant(key) if key != "**" else None for key in given], values=[*given.values()]
                )
                return self._literal(ast.copy_location(written, node), path, depth=depth)
        found = literal_text(node, self.source.lines)
        if found is None:
            is_none = isinstance(node, ast.Constant) and node.value is None
            said = f"`{shortened(self._written(node))}`, which is code and no literal"
            said = "None: what a launch gives is not known" if is_none else said
            read = ""
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in self.parsed:
                read = f"flags.{node.attr}"  # `args.sigma`
            is_read = read in self.defaults and read not in self.refused
            self.code[path] = shortened(self._written(node)), read if is_read else ""
            self.refused[path] = self._refusal(node, f"`{path}` is {said}")
        text, plain = found or ("", True)
        if converts and not plain:
            text, plain = text.strip(), True
        return Scalar(text=text, plain=plain, mark=mark, key=None, path=path)

    def _refusal(self, at: ast.AST, message: str, hint: str = WAY_OUT) -> Refusal:
        return refusal_at(self._mark(at), message, hint)

    def _constants(self) -> Iterator[_Stated]:
        """Yield the names that are bound at the top of the module."""
        for name, value, at in assignments(self.tree.body):
            if value is not None:
                key = MODULE, name
                others = [
                    x
                    for other in self.named[name]
                    if other != key and not self._is_shown(other)
                    for x in self._bound(other)
                ]
                others = [x for x in others if not isinstance(x, ast.arg)]
                problems = [self._twice(key), self.dynamic, *map(self._other_form, others)]
                if not isinstance(value, ast.Constant | ast.UnaryOp):
                    parts = [*getattr(value, "elts", ()), *getattr(value, "values", ())]
                    is_flat = bool(parts) and all(isinstance(x, ast.Constant | ast.UnaryOp) for x in parts)
                    problems.append(self._strange(self._of_flat if is_flat else self._of_deep, key))
                    keys = [x for x in ast.walk(value) if text_in(x) and isinstance(self.above[id(x)], ast.Dict)]
                    again = (x for key in keys[:MAX_NAMES] for x in self.texts[key.value])  # type: ignore[attr-defined]
                    problems += [self._other_form(x) for x in again if self._is_set(x, merged=True)]
                yield _Stated((name,), value, at, problems)

    def _is_shown(self, key: Key) -> bool:
        """Return True for a name of a function that is put into texts alone: `print(f"{epsilon:.2f}")`."""
        read = (x for x in self.uses[key] if isinstance(x, ast.Name) and isinstance(x.ctx, ast.Load))
        is_local = key[0] not in {MODULE, ATTRIBUTE, *self.class_ids}
        return is_local and all(isinstance(self.above[id(x)], ast.FormattedValue) for x in read)

    def _fields(self, node: ast.ClassDef) -> Iterator[_Stated]:
        """Yield the fields of a class with their defaults."""
        below = _grown([node], lambda each: self.derived[each.name])
        bases = _grown([node], lambda each: [x for base in bases_of(each) for x in self.class_of[base]])[1:]
        family = _grown([*below, *bases], lambda each: [x for base in bases_of(each) for x in self.class_of[base]])
        if len(family) > MAX_FAMILY:
            self.refused[node.name] = self._refusal(node, f"more than {MAX_FAMILY} classes of the file belong to it")
            return
        keys = [key for x in family for key in (self.key[id(x)], (ATTRIBUTE, x.name))]
        general = [self.dynamic, self._twice(self.key[id(node)]), self._strange(self._of_class, *keys)]
        general += [self.parsing] if "HfArgumentParser" in map(last_name, self.calls) else []
        inside = [x for each in family for x in ast.walk(each)]
        odd: list[ast.AST] = [x for each in family for x in (*each.keywords, *each.bases) if not self._is_plain_base(x)]
        for each in inside:
            plain = (_CLASSES if isinstance(each, ast.ClassDef) else _METHODS) - self.own
            odd += [x for x in getattr(each, "decorator_list", ()) if last_name(x) not in plain]
        own_calls = {"cls", "__init__"} if len(family) > 1 else {"cls"}
        own = [x for x in inside if isinstance(x, ast.Call) and last_name(x.func) in own_calls]
        odd += [x for x in own if x.args]
        odd += [x for name in REPLACING for key in self.named[name] for x in self.uses[key] if self._is_handed(x)]
        for code in odd[:1]:
            words = f"`{shortened(self._written(code))}` of `{node.name}`"
            general.append(f"line {getattr(code, 'lineno', 0)} has {words}, which may change it")
        stored = {x.attr: x for x in inside if isinstance(x, ast.Attribute) and not isinstance(x.ctx, ast.Load)}
        made = {name: x for key in keys for x in self.uses.get(key, ()) for name in keywords_of(self.above[id(x)])}
        made |= {name: x.func for x in own for name in keywords_of(x)}
        copied = next((x for x in self.calls if self._called(x) in REPLACING and "**" in keywords_of(x)), None)
        for name, value, at in assignments(node.body):
            problems = [*general, self._changed(name)]
            problems.append(self._twice(*((id(each), name) for each in family if each not in bases)))
            problems += map(
                self._other_form, (stored.get(name), made.get(name), made.get("**"), copied and copied.func)
            )
            if isinstance(value, ast.Call) and last_name(value) in _FIELDS:
                given = {key for key, each in keywords_of(value).items() if not is_constant(each, None)}
                if not given <= _FIELD or last_name(value) in self.own:
                    problems.append(f"`{shortened(self._written(value))}` is not run")
            yield _Stated((name,), _default_in(value, _FIELDS), at, problems, (f"--{name}",))

    def _is_handed(self, node: ast.AST) -> bool:
        """Return True for a function of elsewhere that is not called, so that it may be under another name."""
        above = self.above[id(node)]
        is_called = isinstance(above, ast.Call) and above.func is node
        return isinstance(node, ast.Name | ast.Attribute) and not is_called and "." in self._dotted(node)

    def _is_plain_base(self, base: ast.AST) -> bool:
        """Return True for a class of the file, or one that is imported and reads no environment."""
        name = self._dotted(generic(base))
        return "Settings" not in name and (bool(name) or last_name(generic(base)) in self.class_of)

    def _flags(self) -> Iterator[_Stated]:
        """Yield the options that a launch of the file may give, with their defaults."""
        flags = [*self._defined(), *self._of_commands()]
        times = Counter(flag.keys for flag in flags)
        true = {flag.keys[0] for flag in flags if times[flag.keys] == 1 and is_constant(flag.value, True)}
        for flag in flags:
            (name,) = flag.keys
            # `sigma = args.sigma if args.dp else None`, with `dp` true by default.
            self.arithmetic[name] = [x for x in self.arithmetic[name] if not self._is_chosen(x, name, true)]
            twice = f"`{name}` is defined more than once" if times[flag.keys] > 1 else ""
            problems = [twice, *flag.problems, self._changed(name), self.parsing, self.dynamic]
            stated = [x for key in self.named[name] if key[0] in self.class_ids for x in self._bound(key)]
            problems += map(self._other_form, stated) if not isinstance(flag.at, ast.AnnAssign) else []
            # Given again in a text of the file: `subprocess.run(["train.py", "--sigma", "2"])`.
            for option in flag.options or ():
                lines = self.options.get(option, [])
                if len(lines) > flag.mentions:
                    problems.append(f"`{option}` stands in lines {and_(sorted(lines[:3]))}")
            is_kept = last_name(flag.kind) in {"str", "float", "int"} - self.own - self.imports.keys()
            if text_in(flag.value) is not None and flag.kind and not is_kept:
                problems.append(
                    f"its default is converted by `{shortened(self._written(flag.kind))}`, which is not run"
                )
            if isinstance(flag.value, ast.Constant) and not any(problems):
                self.by_default[name] = flag.value.value
            yield flag._replace(problems=problems)

    def _holds(self, read: list[str], test: ast.expr) -> bool | None:
        """Return what a test of flags is by default, or None, and note the flags: `not args.x`, `"a" in args.x`."""
        match test:
            case ast.UnaryOp(op=ast.Not(), operand=inner) if (inside := self._holds(read, inner)) is not None:
                return not inside
            case ast.Attribute(value=ast.Name(), attr=name) if isinstance(value := self.by_default.get(name), bool):
                read.append(f"flags.{name}")
                return value
            case ast.Compare(
                left=ast.Constant(value=str(part)),
                ops=[ast.In() | ast.NotIn() as how],
                comparators=[ast.Attribute(value=ast.Name(), attr=name)],
            ) if isinstance(value := self.by_default.get(name), str):
                read.append(f"flags.{name}")
                return (part in value) == isinstance(how, ast.In)
        return None

    def _is_chosen(self, value: ast.expr, name: str, true: set[str]) -> bool:
        """Return True for `args.NAME if args.x else 1`, x being a flag that is true by default and never changed."""
        match value:
            case ast.IfExp(test=ast.Attribute(attr=test) as on, body=ast.Attribute(attr=body) as read, orelse=other):
                is_one = ast.dump(on.value) == ast.dump(read.value) and body == name
                return (
                    is_one
                    and test in true
                    and not self._changed(test)
                    and literal_text(other, self.source.lines) is not None
                )
        return False

    def _defined(self) -> Iterator[_Stated]:
        """Yield the flags of argparse and absl, and those of the classes that HfArgumentParser gets."""
        given_before = set[str]()
        for call in self.calls:
            called, given, texts = last_name(call), keywords_of(call), texts_in(call.args)
            if called == "HfArgumentParser":
                words = {x.id for x in ast.walk(call) if isinstance(x, ast.Name)} - {called}
                for node in (node for node in self.classes if node.name in words - given_before):
                    for (name,), field in reversed({x.keys: x for x in reversed([*self._fields(node)])}.items()):
                        yield field._replace(options=tuple({f"--{name}": 0, f"--{name.replace('_', '-')}": 0}))
                given_before |= words
            if not (called == "add_argument" and (texts or "dest" in given)) and not called.startswith("DEFINE_"):
                continue
            problems = [*_taken_elsewhere(call), self._condition(call)]
            if called == "add_argument":
                if texts and not any(text.startswith("-") for text in texts):
                    problems.insert(0, _POSITIONAL.format(texts[0]))
                long = next((text for text in texts if text.startswith("--")), "".join(texts[:1]))
                name = text_in(given.get("dest")) or long.lstrip("-").replace("-", "_")
                value, action = given.get("default"), text_in(given.get("action"))
                if value is None and action in {"store_true", "store_false"}:
                    value = ast.copy_location(ast.Constant(value=action == "store_false"), call)
                yield _Stated((name,), value, call, problems, texts, given.get("type"), 1)
            else:
                given = dict(zip(("name", "default"), call.args, strict=False)) | given
                name = text_in(given.get("name")) or ""
                kind = ast.Name(id="float" if called in {"DEFINE_float", "DEFINE_integer"} else "str")
                if name:
                    yield _Stated((name,), given.get("default"), call, problems, (f"--{name}",), kind)

    def _of_commands(self) -> Iterator[_Stated]:
        """Yield the options of the functions that are commands of click or typer."""
        runs = {x.id for call in self.calls if last_name(call) == "run" for x in call.args if isinstance(x, ast.Name)}
        for function in self.functions:
            found: list[tuple[_Stated, ast.Call | None]] = []  # and the call that describes it
            for call in function.decorator_list:
                if isinstance(call, ast.Call) and last_name(call) == "option":
                    given, texts = keywords_of(call), texts_in(call.args)
                    long = sorted((text for text in texts if text.startswith("-")), key=lambda text: text[:2] != "--")
                    name = next((text for text in texts if not text.startswith("-")), "")
                    name = name or "".join(long[:1]).lstrip("-").replace("-", "_").lower()
                    flag = _Stated((name,), given.get("default"), call, [], tuple(long), given.get("type"), 1)
                    found.append((flag, call))
            words = {last_name(each) for each in function.decorator_list}
            is_typer = not found and (function.name in runs or words & {"command", "callback"})
            for argument, value in parameters_of(function) if is_typer else ():
                # `sigma: float = typer.Option(1.1)`, or `sigma: Annotated[float, typer.Option()] = 1.1`.
                inside = ast.walk(argument.annotation) if argument.annotation else ()
                described = next((x for x in (value, *inside) if isinstance(x, ast.Call)), None)
                texts = texts_in(described.args) if described else ()
                options = tuple(text for text in texts if text.startswith("--"))
                options = options or (f"--{argument.arg.replace('_', '-')}",)
                is_positional = described is not None and last_name(described) == "Argument"
                problems = [_POSITIONAL.format(argument.arg)] if is_positional else []
                default = _default_in(value, {"Option", "Argument"})
                flag = _Stated((argument.arg,), default, argument, problems, options, mentions=int(any(texts)))
                found.append((flag, described))
            if not found:
                continue
            general = [self._condition(function)]
            for each in function.decorator_list:
                on = each.func.value if isinstance(each, ast.Call) and isinstance(each.func, ast.Attribute) else None
                if isinstance(on, ast.Name) and not self._dotted(on):
                    general.append(self._strange(self._of_app, self._key(on)))
                is_command = last_name(each) not in {"command", "group", "callback"} or self._is_command(each)
                if last_name(each) not in _OF_COMMANDS - self.own or not is_command:
                    general.append(
                        f"`{function.name}` is decorated by `{shortened(self._written(each))}`, which is not run"
                    )
            general.append(self._strange(self._of_main, *self._function_of(function)))
            if function.args.kwarg:  # **options
                general.append(self._strange(self._of_flat, self._key(function.args.kwarg)))
            for flag, described in found:
                bindings = self._bound((id(function), flag.keys[0]))
                problems = [*flag.problems, *_taken_elsewhere(described), *general]
                problems += [self._other_form(x) for x in bindings if not isinstance(x, ast.arg)]
                kind = flag.kind or (flag.at.annotation if isinstance(flag.at, ast.arg) else None)
                if kind and (self._is_odd(kind) or _is_converted(kind, flag.value, is_click=flag.kind is not None)):
                    problems.append(f"its default is converted by `{shortened(self._written(kind))}`, which is not run")
                yield flag._replace(problems=problems)

    def _is_odd(self, kind: ast.expr) -> bool:
        """Return True if a type has names that are neither Python's own nor those of click, typer and typing."""
        names = [self._dotted(x) for x in ast.walk(kind) if isinstance(x, ast.Name)]
        calls = [x for x in ast.walk(kind) if isinstance(x, ast.Call)]
        is_known = all(
            x in {"float", "int", "str", "bool"} or x.split(".")[0] in {"click", "typer", "typing", "typing_extensions"}
            for x in names
        )
        return not is_known or len(calls) > 1 or text_in(kind) is not None

    def _calls(self) -> Iterator[_Stated]:
        """Yield the named arguments of calls, by the name that is called."""
        calls: dict[str, list[ast.Call]] = defaultdict(list)
        for call in self.calls:
            calls[last_name(call)].append(call)
        looked = 0
        for name, same in calls.items():
            given = defaultdict[str, list[tuple[ast.expr, ast.Call]]](list)
            for call in same:
                match call.args, call.keywords:
                    case [ast.Call(func=ast.Name(id="dict"), args=[]) as stating], [] if self._is_config_dict(call):
                        pass  # `ConfigDict(dict(a=1))`
                    case _:
                        stating = call
                for key, value in keywords_of(stating).items():
                    given[key].append((value, call))
            general = [
                self.dynamic,
                f"`{name}` is defined in the file" if name in {*self.defined, *self.class_of} else "",
            ]
            for node in (x for key in self.named[name] for x in self.uses[key]):
                above = self.above[id(node)]
                if not isinstance(node, ast.alias) and not (isinstance(above, ast.Call) and above.func is node):
                    general.append(self._other_form(node))
            if len(same) * len(given) > MAX_ARGUMENTS:
                general.append(f"more than {MAX_ARGUMENTS:,} arguments in calls of `{name}`")
            for key, values in given.items() if name else ():
                problems, found = [*general], [self._once(value) for value, _ in values]
                if not any(general):
                    inside: list[ast.AST] = [call for _, call in values]
                    below = [x for value, _ in values for x in ast.walk(value)]  # names in the value itself
                    told = {x.arg for x in below if isinstance(x, ast.keyword) and x.arg} | {key}
                    told |= {text for x in below if isinstance(x, ast.Dict) for text in texts_in(filter(None, x.keys))}
                    # `kwargs["sigma"] = sigma`, where `sigma` is what the calls give.
                    for text in self.texts.get(key, ()):
                        set_to = getattr(self.above[id(self.above[id(text)])], "value", None)
                        if isinstance(set_to, ast.Name) and ast.dump(self._once(set_to)) == ast.dump(found[0]):
                            inside.append(text)
                    looked += len(inside) * sum(
                        len(self.keywords.get(x, ())) + len(self.texts.get(x, ())) for x in told
                    )
                    if looked > MAX_LOOKED:
                        problems = [f"its calls have more than {MAX_LOOKED:,} places to look at"]
                    else:
                        problems = [self._changed(x, inside) for x in sorted(told)]
                if "**" in given and name != "dict":
                    problems.append(f"not all arguments of `{name}` are written there")
                most = max(len(call.args) for call in same) if name != "dict" else 0
                if most > min(len(call.args) for _, call in values):
                    problems.append(f"another call of `{name}` has arguments without names")
                if len({ast.dump(x) for x in found}) > 1:
                    lines = sorted({x.lineno for x, _ in values})[:3]
                    problems.append(f"calls of `{name}` give other values of `{key}`, in lines {and_(lines)}")
                guards: list[str] = []
                for _, call in values:
                    outer: ast.AST = call
                    while isinstance(above := self.above[id(outer)], ast.expr | ast.keyword):
                        if not isinstance(above, ast.Call | ast.keyword | ast.Attribute | ast.Dict):
                            problems.append("it is part of another expression")
                        outer = above
                    outer = self.above[id(outer)] if isinstance(above, ast.Return) else outer
                    problems.append(self._condition(outer, partial(self._holds, guards)))
                self.guards[f"calls.{name}.{key}"] = guards
                yield _Stated((name, key), found[0], values[0][1], problems, ())

    def _is_config_dict(self, value: ast.AST | None) -> bool:
        name = self._dotted(value.func) if isinstance(value, ast.Call) else ""
        return name.endswith(("ConfigDict", "config_dict.create"))

    def _config(self, function: Function) -> list[_Stated] | None:
        """Return what a function sets on the ConfigDict that it returns; None if it makes and returns none."""
        made = {name: value for name, value, _ in assignments(function.body) if self._is_config_dict(value)}
        returned = [x for x in ast.walk(function) if isinstance(x, ast.Return | ast.Yield | ast.YieldFrom)]
        names = {x.value.id for x in returned if isinstance(x.value, ast.Name)} & made.keys()
        if len(names) != 1:
            return None
        (root,) = names
        call: ast.Call = made[root]  # type: ignore[assignment]
        sets: list[tuple[tuple[str, ...], ast.expr, ast.AST]] = [
            ((name,), value, call) for name, value in keywords_of(call).items()
        ]
        problems = [self.dynamic, self._twice(self._key(function)), self._twice((id(function), root))]
        problems += [self._other_form(x) for x in self.uses[self._key(function)] if not isinstance(x, Function)]
        problems += [self._other_form(x) for x in self.uses.get((ATTRIBUTE, function.name), ()) if not self._dotted(x)]
        if isinstance(function, ast.AsyncFunctionDef) or returned != function.body[-1:] or function.decorator_list:
            problems.append(f"`{function.name}` is decorated, or returns elsewhere than in its last line")
        match call.args:
            case []:
                pass
            case [ast.Dict(keys=keys, values=values)] if all(text_in(key) is not None for key in keys):
                sets += [((str(text_in(key)),), value, value) for key, value in zip(keys, values, strict=True)]
            case _:
                problems.append(f"`{root}` is made of other values")
        # Of `config`, all that stands there is `config.a = 1` as a statement of the function, `config.a` that is read,
        # `config.lock()` and the like, and `return config`.
        loads, elsewhere, own = [], set[tuple[str, ...]](), set(map(id, function.body))
        for node in self.uses[id(function), root]:
            top: ast.AST = node
            while isinstance(self.above[id(top)], ast.Attribute):
                top = self.above[id(top)]
            above, path = self.above[id(top)], _attributes(top, root)
            if isinstance(above, ast.Assign) and above.targets == [top] and path and id(above) in own:
                sets.append((path, above.value, above))
            elif isinstance(getattr(top, "ctx", None), ast.Load):
                loads.append((path, node, above))
            elif path:
                elsewhere.add(path)
        sections = {path[:length] for path, _, _ in sets for length in range(len(path))}
        sections |= {path for path, value, _ in sets if isinstance(value, ast.Call)}
        for path, node, above in loads:
            is_called = isinstance(above, ast.Call) and _attributes(above.func, root) == path
            is_read = bool(path) and path[-1] in _HARMLESS if is_called else path not in sections
            if not is_read and above not in returned:
                problems.append(self._other_form(node))
        literal = {path for path, value, _ in sets if isinstance(value, ast.Dict)}
        times = Counter(path for path, _, _ in sets)
        found = []
        for path, value, at in sorted(sets, key=lambda each: each[2].lineno):  # type: ignore[attr-defined]
            parents = [path[:length] for length in range(1, len(path) + 1)]
            again = [f"`{'.'.join(x)}` is set more than once" for x in parents if times[x] > 1 or x in elsewhere]
            again += [f"`{'.'.join(path)}` is set inside another value" for x in parents[:-1] if x in literal]
            if self._is_config_dict(value) and not (getattr(value, "args", 1) or keywords_of(value)):
                value = ast.copy_location(ast.Dict(keys=[], values=[]), value)  # noqa: PLW2901
            found.append(_Stated(path, value, at, [*problems, *again], (f"--config.{'.'.join(path)}",)))
        return found


def _default_in(call: ast.expr | None, kinds: set[str]) -> ast.expr | None:
    """Return the default in a call of such a kind, `field(default=1)`; other code is a default itself, but `...`."""
    if isinstance(call, ast.Call) and last_name(call) in kinds:
        call = keywords_of(call).get("default") or next(iter(call.args), None)
    return None if isinstance(call, ast.Constant) and call.value is ... else call


def _converts(flag: _Stated) -> bool:
    """Return True if a default that is a text is converted to a number."""
    return isinstance(flag.kind, ast.Name) and flag.kind.id in {"float", "int"}


def _taken_elsewhere(call: ast.Call | None, of_it: set[str] = _OPTION) -> Iterator[str]:
    """Yield what in the call that describes an option takes its value from elsewhere than its default."""
    given = keywords_of(call)
    for key, value in given.items():
        harmless = _ELSEWHERE.get(key, () if key in of_it else (None,))
        if harmless and not is_constant(value, *harmless):
            is_needed = key in {"required", "prompt"}
            said = (
                f"its `{key}` may give another value" if key != "**" else "not all of its arguments are written there"
            )
            yield "it is required, so that a launch gives it" if is_needed else said
    if call and any(isinstance(each, ast.Starred) for each in call.args):
        yield "not all of its arguments are written there"


def _grown(classes: list[ast.ClassDef], more: Callable[[ast.ClassDef], Iterable[ast.ClassDef]]) -> list[ast.ClassDef]:
    """Return classes with those that are related to them, at least one too many where there are many."""
    for each in classes:
        if len(classes) <= MAX_FAMILY:
            classes += [x for x in more(each) if x not in classes]
    return classes


def _is_converted(kind: ast.expr, value: ast.expr | None, *, is_click: bool) -> bool:
    """Return True if an option of click or typer makes another number of its default."""
    is_cut = isinstance(value, ast.Constant) and isinstance(value.value, float) and value.value % 1 != 0
    if not is_click:  # the annotation of a parameter of typer
        return is_cut and "int" in map(last_name, ast.walk(kind))
    name = last_name(kind)
    return (
        name not in _CLICK_TYPES
        or "clamp" in keywords_of(kind)
        or len(getattr(kind, "args", ())) > 2
        or (is_cut and name in {"int", "INT", "IntRange"})
    )


def _attributes(node: ast.AST, root: str) -> tuple[str, ...]:
    """Return the names of `root.a.b`; () for other code."""
    names: list[str] = []
    while isinstance(node, ast.Attribute):
        names.append(node.attr)
        node = node.value
    return tuple(reversed(names)) if isinstance(node, ast.Name) and node.id == root else ()
