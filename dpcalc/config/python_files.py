"""What a Python file states as a tree: flags, fields of classes, constants, `get_config()`. Only its syntax is read.

A default in code is not the value of the run. One is read only if the file says it once, as a literal, on no condition,
and changes it nowhere; what stands in the way becomes the refusal of that name. That a launch or another file changes
nothing either is an assumption, which `Document.defaults` hands on. Names:

    flags.X          argparse, absl, click and typer options, and fields of the classes given to HfArgumentParser
    Class.field      dataclasses and attributes of plain classes
    NAME             constants of the module, also dictionaries (NAME.key)
    get_config.a.b   what a function without conditions sets on the ml_collections.ConfigDict that it returns
"""

import ast
import warnings
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from dpcalc.config.files import Refusal, refusal_at
from dpcalc.config.source import Mark, Source, shortened
from dpcalc.config.tree import Document, Items, Node, Scalar, Section, join, nested

WAY_OUT = (
    "write a literal there, or gate the run in a test of your own: `assert epsilon(plan(...)).epsilon <= target` with "
    "`from dpcalc import epsilon, plan`"
)
# What may bind a name without naming it: then no name is read.
REBINDING = frozenset(["exec", "eval", "globals", "locals", "vars", "setattr", "__import__", "__builtins__"])
# The fields of syntax in which a name, or a list of names, is bound.
_BINDING = {
    ast.arg: "arg",
    ast.FunctionDef: "name",
    ast.AsyncFunctionDef: "name",
    ast.ClassDef: "name",
    ast.ExceptHandler: "name",
    ast.MatchAs: "name",
    ast.MatchStar: "name",
    ast.MatchMapping: "rest",
    ast.Global: "names",
    ast.Nonlocal: "names",
}
_PLAIN_DECORATORS = {"dataclass", "define", "frozen", "mutable", "attrs", "s"}  # of dataclasses, flax, pydantic, attrs
_FIELDS = {"field", "Field", "ib", "attrib", "HfArg"}
_CHANGING = {"update", "setdefault", "pop", "popitem", "clear", "update_from_flattened_dict", "__setitem__", "append"}
_COPYING = {"replace", "_replace", "evolve", "model_copy"}
_DEFAULTS_SET = {"set_defaults", "set_default", "mark_flag_as_required", "mark_flags_as_required", "setattr"}
_PARSING = {"parse_args", "parse_known_args", "parse_intermixed_args", "parse_args_into_dataclasses"}
_OUTSIDE = ("auto_envvar_prefix", "default_map", "fromfile_prefix_chars")  # where click and argparse find other values
# Arguments of an option that take its value from elsewhere than its default, but for these literals.
_ELSEWHERE: dict[str, tuple[object, ...]] = {
    "required": (False,),
    "prompt": (False,),
    "envvar": (None,),
    "callback": (None,),
    "default_factory": (None,),
    "action": (None, "store", "store_true", "store_false"),
}
_POSITIONAL = "`{}` is a positional argument, which a launch gives"
MAX_BRACES = 10_000  # `ast.parse` needs time quadratic in the expressions of one f-string
MAX_NAMES = 500  # classes, and functions, of a file
MAX_CALLS = 200  # of one class or function
_Function = ast.FunctionDef | ast.AsyncFunctionDef
Parents = tuple[ast.AST, ...]


def python_syntax(text: str) -> ast.Module:
    """Return the syntax tree of Python text, of which nothing is run; SyntaxError, ValueError, RecursionError or
    MemoryError if it is none, or nests too deeply."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of what the text of others may hold, such as `1if` or a wrong escape
        return ast.parse(text)


def bound_names(tree: ast.AST) -> tuple[dict[str, list[int]], int]:
    """Return the lines at which each name is bound, anywhere in a file, and the first line that may bind any name.

    That is 0 if there is none: `import *`, `exec`, `globals` and the like.
    """
    lines: dict[str, list[int]] = defaultdict(list)
    anything = 0
    for node in ast.walk(tree):
        line = getattr(node, "lineno", 0)
        found = getattr(node, _BINDING.get(type(node), ""), None)
        match node:
            case ast.ImportFrom(names=[ast.alias(name="*")]):
                anything = anything or line
            case ast.Name(id=name, ctx=ast.Load()):
                anything = anything or (line if name in REBINDING else 0)
            case ast.Name(id=name):
                found = name
            case ast.alias(name=name, asname=other):
                found = other or name.partition(".")[0]
        for name in [found] if isinstance(found, str) else found or ():
            lines[name].append(line)
    return lines, anything


def assignments(body: Iterable[ast.stmt]) -> Iterator[tuple[str, ast.expr | None, ast.stmt]]:
    """Yield (name, value, statement) of each statement `name = value`, `name: type = value` or `name: type`."""
    for statement in body:
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                yield name, value, statement
            case ast.AnnAssign(target=ast.Name(id=name), value=annotated):
                yield name, annotated, statement


def read_python(source: Source) -> Document:
    """Return what a Python file states as a tree; Refusal if it is no Python."""
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


def literal_text(node: ast.expr, lines: Sequence[str]) -> tuple[str, bool] | None:
    """Return a truth, text or number of one line as a scalar has it, its text and whether it is plain; else None."""
    match node:
        case ast.Constant(value=bool(truth)):
            return str(truth).lower(), True
        case ast.Constant(value=str(text)):
            return text, False
        case ast.Constant(value=int() | float()) if node.lineno == node.end_lineno:
            return lines[node.lineno - 1].encode()[node.col_offset : node.end_col_offset].decode(), True
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float()) as number):
            positive = literal_text(number, lines)
            return positive and (f"-{positive[0]}", True)
    return None


def _last_name(node: ast.AST) -> str:
    """Return the last part of a dotted name, also of a call of it; "" for other code."""
    node = node.func if isinstance(node, ast.Call) else node
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def _text(node: ast.AST | None) -> str | None:
    """Return the text of a string literal; None for anything else."""
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def _texts(nodes: Iterable[ast.AST]) -> tuple[str, ...]:
    return tuple(text for text in map(_text, nodes) if text is not None)


def _keywords(call: ast.AST | None) -> dict[str, ast.expr]:
    """Return the arguments of a call that have a name, "**" for those of a dictionary; {} for other code."""
    return {each.arg or "**": each.value for each in call.keywords} if isinstance(call, ast.Call) else {}


def _parameters(function: _Function) -> list[tuple[ast.arg, ast.expr | None]]:
    """Return the named parameters of a function with their defaults."""
    given = function.args
    plain = [*given.posonlyargs, *given.args]
    unset = [None] * (len(plain) - len(given.defaults))
    return list(zip([*plain, *given.kwonlyargs], [*unset, *given.defaults, *given.kw_defaults], strict=True))


def _default_in(call: ast.expr | None, kinds: set[str]) -> ast.expr | None:
    """Return the default in a call of such a kind, `field(default=1)`; other code is a default itself, but `...`."""
    if isinstance(call, ast.Call) and _last_name(call) in kinds:
        call = _keywords(call).get("default") or next(iter(call.args), None)
    return None if isinstance(call, ast.Constant) and call.value is ... else call


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


class _Reader:
    """One pass over a file, and then each name that it states with what forbids to read it."""

    def __init__(self, source: Source, tree: ast.Module) -> None:
        self.source, self.tree = source, tree
        self.refused: dict[str, Refusal] = {}
        self.defaults: dict[str, tuple[str, ...]] = {}
        self.bound, self.anything = bound_names(tree)
        # By the last name of what is assigned, `x.NAME = ...` or `x["NAME"] = ...`: lines, and classes of `self`.
        self.stores: dict[str, list[tuple[int, str]]] = defaultdict(list)
        self.calls: list[tuple[ast.Call, Parents]] = []
        self.statements: set[int] = set()  # ids of calls that are a statement, or the value that one assigns
        self.options: dict[str, list[int]] = defaultdict(list)  # texts such as "--sigma", and their lines
        self.functions: list[tuple[_Function, Parents]] = []
        self.classes: list[ast.ClassDef] = []
        waiting: list[tuple[ast.AST, Parents]] = [(tree, ())]
        while waiting:
            node, parents = waiting.pop()
            match node:
                case ast.Call():
                    self.calls.append((node, parents))
                case ast.Expr() | ast.Assign() | ast.AnnAssign():
                    self.statements.add(id(node.value))
                case ast.Attribute(attr="__dict__", ctx=ast.Load()):
                    self.anything = self.anything or node.lineno
                case ast.Attribute(attr=name, ctx=ast.Store() | ast.Del(), value=value):
                    name = _text(value.slice) or name if isinstance(value, ast.Subscript) else name
                    own = next((x.name for x in reversed(parents) if isinstance(x, ast.ClassDef)), "")
                    is_self = isinstance(value, ast.Name) and value.id in {"self", "cls"}
                    self.stores[name].append((node.lineno, own if is_self else ""))
                case ast.Subscript(slice=ast.Constant(value=str(name)), ctx=ast.Store() | ast.Del()):
                    self.stores[name].append((node.lineno, ""))
                case ast.Constant(value=str(text)) if text.startswith("--"):
                    self.options[text.partition("=")[0].partition(" ")[0]].append(node.lineno)
                case ast.FunctionDef() | ast.AsyncFunctionDef():
                    self.functions.append((node, parents))
                case ast.ClassDef():
                    self.classes.append(node)
            is_around = isinstance(node, ast.Match) or (isinstance(node, ast.stmt) and hasattr(node, "body"))
            below = (*parents, node) if is_around else parents
            waiting += [(child, below) for child in ast.iter_child_nodes(node)]
        self.calls.sort(key=lambda each: (each[0].lineno, each[0].col_offset))
        if max(len(self.classes), len(self.functions)) > MAX_NAMES:
            raise Refusal("DPC111", f"has more than {MAX_NAMES} classes or functions", "refer to a smaller file")
        # Tables of what many names are compared with: a file of 256 KiB has room for ten thousand of each.
        self.called: dict[str, list[ast.Call]] = defaultdict(list)  # by the last part of the name
        for call, _ in self.calls:
            self.called[_last_name(call)].append(call)
        # Names that `replace` and the like give another value, and those on which a method is called that changes them,
        # with the first line.
        self.copied: dict[str, int] = {}
        self.changed: dict[str, int] = {}
        for call, _ in reversed(self.calls):
            match call.func:
                case ast.Attribute(attr=method, value=ast.Name(id=name)) if method in _CHANGING:
                    self.changed[name] = call.lineno
                case _ if _last_name(call) in _COPYING:
                    self.copied |= {each.arg or "**": call.lineno for each in call.keywords}
        self.derived: dict[str, list[ast.ClassDef]] = defaultdict(list)  # by the last part of the name of a base
        for node in self.classes:
            for name in {_last_name(base) for base in node.bases}:
                self.derived[name].append(node)

    def document(self) -> Document:
        """Return all that the file states."""
        entries: dict[str, Node] = {}
        for node in self.tree.body:
            if isinstance(node, ast.ClassDef):
                entries[node.name] = self._section(node.name, self._fields(node))
            elif isinstance(node, _Function) and (found := self._config(node)) is not None:
                entries[node.name] = self._section(node.name, found)
        constants = self._section("", self._constants())
        for below in constants.entries.values():
            self._refuse_stored_keys(below)
        entries |= constants.entries
        flags = self._section("flags", self._flags())
        if flags.entries:
            if "flags" in entries:
                self.refused["flags"] = self._refusal(self.tree, "`flags` is a name of the file, too", "")
            entries["flags"] = flags
        return Document(
            Section(entries=entries, mark=self._mark(self.tree), key=None, path=""), self.refused, self.defaults
        )

    def _section(self, path: str, stated: Iterable[_Stated]) -> Section:
        """Return what is stated below a path, of each name the first value, and note options and refusals."""
        leaves: dict[tuple[str, ...], Node] = {}
        for each in stated:
            if each.keys in leaves:
                continue
            place = ".".join((path, *each.keys)).removeprefix(".")
            if each.options is not None:
                self.defaults[place] = each.options
            problem = next(filter(None, each.problems), "")
            if each.value is None:
                problem = problem or f"`{place}` has no default: a launch gives it"
                leaves[each.keys] = Scalar(text="", plain=True, mark=self._mark(each.at), key=None, path=place)
            else:
                leaves[each.keys] = self._literal(each.value, place, converts=_converts(each))
            if problem:
                self.refused[place] = self._refusal(each.at, problem)
        return nested(leaves, self._mark(self.tree), path)

    def _literal(self, node: ast.expr, path: str, *, converts: bool = False, depth: int = 0) -> Node:
        """Return a literal as a tree, and note a refusal at `path`, or below it, for what is none.

        `converts`: a text is converted to a number, as argparse does with the default of a `type=float`.
        """
        mark = self._mark(node)
        match node:
            case ast.List(elts=elements) | ast.Tuple(elts=elements) if depth < 20:
                below = (self._literal(x, f"{path}[{at}]", depth=depth + 1) for at, x in enumerate(elements))
                return Items(items=tuple(below), mark=mark, key=None, path=path)
            case ast.Dict(keys=keys, values=values) if depth < 20 and all(_text(key) is not None for key in keys):
                times = Counter(names := [str(_text(key)) for key in keys])
                parts = {
                    name: self._literal(value, join(path, name), depth=depth + 1)
                    for name, value in zip(names, values, strict=True)
                }
                twice = frozenset(name for name, count in times.items() if count > 1)
                return Section(entries=parts, mark=mark, key=None, path=path, repeated=twice)
        found = literal_text(node, self.source.lines)
        if found is None:
            is_none = isinstance(node, ast.Constant) and node.value is None
            said = f"`{shortened(self._written(node))}`, which is code and no literal"
            said = "None: what a launch gives is not known" if is_none else said
            self.refused[path] = self._refusal(node, f"`{path}` is {said}")
        text, plain = found or ("", True)
        if converts and not plain:
            text, plain = text.strip(), True
        return Scalar(text=text, plain=plain, mark=mark, key=None, path=path)

    def _mark(self, node: ast.AST) -> Mark:
        """Return the place of a node, its columns in characters; ast counts bytes."""
        line, start = getattr(node, "lineno", 1), getattr(node, "col_offset", 0)
        text = self.source.lines[line - 1].encode() if line <= len(self.source.lines) else b""
        end = getattr(node, "end_col_offset", start) if getattr(node, "end_lineno", line) == line else len(text)
        column = len(text[:start].decode(errors="replace"))
        return Mark(self.source, line, column + 1, max(1, len(text[start:end].decode(errors="replace"))))

    def _written(self, node: ast.AST) -> str:
        """Return the code of a node as its first line has it."""
        mark = self._mark(node)
        return self.source.lines[mark.line - 1][mark.column - 1 :][: mark.width]

    def _refusal(self, at: ast.AST, message: str, hint: str = WAY_OUT) -> Refusal:
        return refusal_at(self._mark(at), message, hint)

    # What else in the file may bind a name.

    def _stored(self, name: str, classes: Iterable[str] = ()) -> str:
        """Return where the file assigns an attribute or key of this name; `self.name` only in some classes."""
        lines = [line for line, own in self.stores.get(name, ()) if not own or own in classes]
        return f"line {min(lines)} assigns another `{name}`" if lines else ""

    def _bound_twice(self, name: str) -> str:
        lines = sorted(self.bound[name][:3])
        return f"`{name}` is bound more than once, in lines {_and(lines)}" if len(lines) > 1 else ""

    def _created_with(self, owners: Iterable[str], name: str) -> str:
        """Return where the file calls a class or function with a value of its own for a field or parameter."""
        for owner in sorted(owners):
            for call in self.called[owner][:MAX_CALLS]:
                if call.args or {name, "**"} & _keywords(call).keys():
                    return f"line {call.lineno} calls `{owner}` with values of its own"
            if len(self.called[owner]) > MAX_CALLS:
                return f"`{owner}` is called more than {MAX_CALLS} times"
        return f"line {self.copied[name]} replaces `{name}`" if name in self.copied else ""

    # Constants, and fields of classes.

    def _constants(self) -> Iterator[_Stated]:
        """Yield the names that are bound at the top of the module."""
        for name, value, at in assignments(self.tree.body):
            if value is None:
                continue
            problems = [self._bound_twice(name), self._stored(name)]
            if self.anything:
                problems.append(f"line {self.anything} may bind any name of the module")
            if name in self.changed:
                problems.append(f"line {self.changed[name]} changes `{name}`")
            yield _Stated((name,), value, at, problems)

    def _refuse_stored_keys(self, node: Node) -> None:
        """Note a refusal for each key of a dictionary to which the file assigns another value."""
        for key, below in node.entries.items() if isinstance(node, Section) else ():
            if stored := self._stored(key):
                self.refused[below.path] = Refusal("DPC110", f"line {below.mark.line}: {stored}", WAY_OUT)
            self._refuse_stored_keys(below)

    def _fields(self, node: ast.ClassDef) -> Iterator[_Stated]:
        """Yield the fields of a class with their defaults."""
        family = [each for each in self.classes if each.name == node.name]
        for each in family:  # which grows
            family += [below for below in self.derived[each.name] if below not in family]
        names = {each.name for each in family}
        bound = Counter(name for each in family for name in _bound_in(each))
        decorators = [each for each in node.decorator_list if "dataclass" not in _last_name(each).lower()]
        odd = next((each for each in decorators if _last_name(each) not in _PLAIN_DECORATORS), None)
        for name, value, at in assignments(node.body):
            problems = [self._bound_twice(node.name), self._stored(name, names)]
            if bound[name] > 1:
                problems.append(f"`{name}` of `{node.name}` is bound more than once, also in a class derived from it")
            if odd is not None:
                problems.append(f"`{node.name}` is decorated by `{shortened(self._written(odd))}`, which is not run")
            given = _keywords(value) if value and _last_name(value) in _FIELDS else {}
            problems += [
                f"`{name}` has a {key} `{shortened(self._written(given[key]))}`, which is not run"
                for key in ("**", "default_factory", "factory")
                if key in given
            ]
            problems.append(self._created_with(names, name))
            yield _Stated((name,), _default_in(value, _FIELDS), at, problems, (f"--{name}",))

    # Flags.

    def _flags(self) -> Iterator[_Stated]:
        """Yield the options that a launch of the file may give, with their defaults."""
        flags = [*self._defined(), *self._of_commands()]
        times = Counter(flag.keys for flag in flags)
        general = next(self._parsed_with(), "")
        for flag in flags:
            name = flag.keys[0]
            twice = f"`{name}` is defined more than once" if times[flag.keys] > 1 else ""
            problems = [twice, *flag.problems, self._stored(name), general]
            # Given again in a text of the file: `parse_args(["--sigma", "2"])`, `sys.argv += ["--sigma=2"]`.
            for option in flag.options or ():
                lines = self.options.get(option, [])
                if len(lines) > flag.mentions:
                    problems.append(f"`{option}` stands in lines {_and(sorted(lines[:3]))}")
            if _text(flag.value) is not None and flag.kind and not _converts(flag) and _last_name(flag.kind) != "str":
                kind = shortened(self._written(flag.kind))
                problems.append(f"its default is converted by `{kind}`, which is not run")
            yield flag._replace(problems=problems)

    def _defined(self) -> Iterator[_Stated]:
        """Yield the flags of argparse and absl, and those of the classes that HfArgumentParser gets."""
        given_before = set[str]()
        for call, parents in self.calls:
            called, given, texts = _last_name(call), _keywords(call), _texts(call.args)
            problems = [*_taken_elsewhere(call), _condition(parents)]
            if id(call) not in self.statements:
                problems.append("it is part of another expression")
            if called == "HfArgumentParser":
                words = {x.id for x in ast.walk(call) if isinstance(x, ast.Name)} - {called}
                for node in (node for node in self.classes if node.name in words - given_before):
                    for (name,), field in reversed({x.keys: x for x in reversed([*self._fields(node)])}.items()):
                        yield field._replace(options=tuple({f"--{name}": 0, f"--{name.replace('_', '-')}": 0}))
                given_before |= words
            elif called.startswith("DEFINE_"):
                given = dict(zip(("name", "default"), call.args, strict=False)) | given
                if name := _text(given.get("name")) or "":
                    kind = ast.Name(id="float" if called in {"DEFINE_float", "DEFINE_integer"} else "str")
                    yield _Stated((name,), given.get("default"), call, problems, (f"--{name}",), kind)
            elif called == "add_argument" and texts:
                if not any(text.startswith("-") for text in texts):
                    problems.insert(0, _POSITIONAL.format(texts[0]))
                long = next((text for text in texts if text.startswith("--")), texts[0])
                name = _text(given.get("dest")) or long.lstrip("-").replace("-", "_")
                value, action = given.get("default"), _text(given.get("action"))
                if value is None and action in {"store_true", "store_false"}:
                    value = ast.copy_location(ast.Constant(value=action == "store_false"), call)
                yield _Stated((name,), value, call, problems, texts, given.get("type"), 1)

    def _of_commands(self) -> Iterator[_Stated]:
        """Yield the options of the functions that are commands of click or typer."""
        runs = {each.id for call in self.called["run"] for each in call.args if isinstance(each, ast.Name)}
        for function, parents in self.functions:
            found: list[tuple[_Stated, ast.Call | None]] = []  # and the call that describes it
            for call in function.decorator_list:
                if isinstance(call, ast.Call) and _last_name(call) == "option":
                    given, texts = _keywords(call), _texts(call.args)
                    long = sorted((text for text in texts if text.startswith("-")), key=lambda text: text[:2] != "--")
                    name = next((text for text in texts if not text.startswith("-")), "")
                    name = name or "".join(long[:1]).lstrip("-").replace("-", "_").lower()
                    flag = _Stated((name,), given.get("default"), call, [], tuple(long), given.get("type"), 1)
                    found.append((flag, call))
            words = {_last_name(each) for each in function.decorator_list}
            is_typer = not found and (function.name in runs or words & {"command", "callback"})
            for argument, value in _parameters(function) if is_typer else ():
                # `sigma: float = typer.Option(1.1)`, or `sigma: Annotated[float, typer.Option()] = 1.1`.
                inside = ast.walk(argument.annotation) if argument.annotation else ()
                described = next((x for x in (value, *inside) if isinstance(x, ast.Call)), None)
                texts = _texts(described.args) if described else ()
                options = tuple(text for text in texts if text.startswith("--"))
                options = options or (f"--{argument.arg.replace('_', '-')}",)
                is_positional = described is not None and _last_name(described) == "Argument"
                problems = [_POSITIONAL.format(argument.arg)] if is_positional else []
                default = _default_in(value, {"Option", "Argument"})
                flag = _Stated((argument.arg,), default, argument, problems, options, mentions=int(any(texts)))
                found.append((flag, described))
            stored = {x.id for x in ast.walk(function) if isinstance(x, ast.Name) and not isinstance(x.ctx, ast.Load)}
            for flag, described in found:
                (name,) = flag.keys
                problems = [*flag.problems, *_taken_elsewhere(described), _condition(parents)]
                problems.append(f"`{function.name}` assigns another `{name}`" if name in stored else "")
                problems.append(self._created_with({function.name}, name))
                yield flag._replace(problems=problems)

    def _parsed_with(self) -> Iterator[str]:
        """Yield what in a file changes the defaults of its flags, or gives some itself."""
        # Names that are bound as parameters without a default, or with None, as in `def main(argv=None)`.
        parameters = [each for function, _ in self.functions for each in _parameters(function)]
        unset = Counter(name.arg for name, value in parameters if value is None or _is_constant(value, None))
        for call, _ in self.calls:
            called, given = _last_name(call), _keywords(call)
            for each in (*call.args, *given.values()) if called in _PARSING else ():
                match each:
                    case ast.Constant(value=None | bool()):  # of HfArgumentParser
                        pass
                    case ast.Name(id=name) if unset[name] == len(self.bound[name]) > 0:
                        pass
                    case _ if self._written(each) != "sys.argv[1:]":
                        yield f"line {call.lineno} gives `{called}` arguments of its own"
            match call.func:
                case ast.Attribute(
                    attr=method, value=ast.Attribute(attr="__dict__") | ast.Call(func=ast.Name(id="vars"))
                ) if method in _CHANGING:
                    yield f"line {call.lineno} changes parsed flags by `{called}`"
            yield from (f"line {call.lineno} sets `{key}`" for key in _OUTSIDE if key in given)
        for node in ast.walk(self.tree):
            match node:
                case ast.Constant(value=str(text)) if text in _OUTSIDE:
                    yield f"line {node.lineno} sets `{text}`"
                case ast.Attribute(attr=name) | ast.Name(id=name) if name in _DEFAULTS_SET:
                    yield f"line {node.lineno} uses `{name}`"
                case ast.Attribute(attr="argv", ctx=ast.Store()):
                    yield f"line {node.lineno} assigns `argv`"

    # ml_collections.

    def _config(self, function: _Function) -> list[_Stated] | None:
        """Return what a function sets on the ConfigDict that it returns; None if it makes and returns none."""
        made: dict[str, ast.Call] = {}
        for name, value, _ in assignments(function.body):
            if isinstance(value, ast.Call) and _is_config_dict(value):
                made.setdefault(name, value)
        returned = {
            x.value.id for x in ast.walk(function) if isinstance(x, ast.Return) and isinstance(x.value, ast.Name)
        }
        if len(made.keys() & returned) != 1:
            return None
        (root,) = made.keys() & returned
        problems = []
        if self.bound[function.name] != [function.lineno] or function.decorator_list:
            problems.append(f"`{function.name}` is decorated, or bound more than once")
        # Apart from `config.a.b`, which is set or read, and `return config`, nobody else gets hold of it.
        loads = stores = read = 0
        for node in ast.walk(function):
            match node:
                case ast.Name(id=name, ctx=ast.Load()):
                    loads += name == root
                case ast.Name(id=name):
                    stores += name == root
                case ast.Attribute(value=ast.Name(id=name)) | ast.Return(value=ast.Name(id=name)):
                    read += name == root
                case ast.Call(func=ast.Attribute(attr=method)) if method in _CHANGING:
                    problems.append(f"line {node.lineno} changes it by `{method}`")
        if stores > 1 or loads != read:
            problems.append(f"`{root}` is bound more than once, or handed to other code, which may change it")
        call = made[root]
        sets: list[tuple[tuple[str, ...], ast.expr, ast.AST]] = [
            ((name,), value, call) for name, value in _keywords(call).items()
        ]
        match call.args:
            case []:
                pass
            case [ast.Dict(keys=keys, values=values)] if all(_text(key) is not None for key in keys):
                sets += [((str(_text(key)),), value, value) for key, value in zip(keys, values, strict=True)]
            case _:
                problems.append(f"`{root}` is made of other values")
        for statement in function.body:
            match statement:
                case ast.Assign(targets=[target], value=value) if names := _attributes(target, root):
                    sets.append((names, value, statement))
        times = Counter(names for names, _, _ in sets)
        last = Counter(names[-1] for names, _, _ in sets)
        # A statement is one store of its name; keywords and dictionaries are none.
        stored = Counter(names[-1] for names, _, at in sets if isinstance(at, ast.Assign))
        found = []
        for names, value, at in sets:
            is_twice = last[names[-1]] > 1 or len(self.stores.get(names[-1], ())) > stored[names[-1]]
            reasons = [*problems, f"`{names[-1]}` is set more than once in the file" if is_twice else ""]
            if isinstance(value, ast.Call) and _is_config_dict(value) and not (value.args or value.keywords):
                value = ast.copy_location(ast.Dict(keys=[], values=[]), value)  # noqa: PLW2901
                reasons = [f"`{names[-1]}` is set more than once in the file"] if times[names] > 1 else []
            found.append(_Stated(names, value, at, reasons, (f"--config.{'.'.join(names)}",)))
        return found


def _and(lines: Iterable[int]) -> str:
    return " and ".join(map(str, lines))


def _converts(flag: _Stated) -> bool:
    """Return True if a default that is a text is converted to a number."""
    return isinstance(flag.kind, ast.Name) and flag.kind.id in {"float", "int"}


def _is_constant(node: ast.AST, *values: object) -> bool:
    return isinstance(node, ast.Constant) and node.value in values


def _taken_elsewhere(call: ast.Call | None) -> Iterator[str]:
    """Yield what in the call that describes an option takes its value from elsewhere than its default."""
    given = _keywords(call)
    for key, harmless in _ELSEWHERE.items():
        if key in given and not _is_constant(given[key], *harmless):
            is_needed = key in {"required", "prompt"}
            yield "it is required, so that a launch gives it" if is_needed else f"its `{key}` may give another value"
    if call and ("**" in given or any(isinstance(each, ast.Starred) for each in call.args)):
        yield "not all of its arguments are written there"


def _condition(parents: Parents) -> str:
    """Return the first statement around a place on which it depends, in words; "" if there is none."""
    for node in parents:
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                continue
            case ast.If(
                test=ast.Compare(
                    left=ast.Name(id="__name__"), ops=[ast.Eq()], comparators=[ast.Constant(value="__main__")]
                ),
                orelse=[],
            ):
                continue
        word = type(node).__name__.lower().removeprefix("async").removesuffix("star")
        return f"it stands under the `{word}` of line {getattr(node, 'lineno', 0)}"
    return ""


def _bound_in(node: ast.ClassDef) -> Iterator[str]:
    """Yield each binding of a name directly in the body of a class, or below a condition there."""
    waiting: list[ast.AST] = [*node.body]
    while waiting:
        match waiting.pop():
            case ast.Name(id=name, ctx=ast.Store() | ast.Del()):
                yield name
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield name
            case each:
                waiting += ast.iter_child_nodes(each)


def _is_config_dict(call: ast.Call) -> bool:
    match call.func:
        case ast.Name(id="ConfigDict") | ast.Attribute(attr="ConfigDict"):
            return True
        case ast.Attribute(attr="create", value=module):
            return _last_name(module) == "config_dict"
    return False


def _attributes(node: ast.expr, root: str) -> tuple[str, ...]:
    """Return the names of `root.a.b`; () for other code."""
    names: list[str] = []
    while isinstance(node, ast.Attribute):
        names.append(node.attr)
        node = node.value
    return tuple(reversed(names)) if isinstance(node, ast.Name) and node.id == root else ()
