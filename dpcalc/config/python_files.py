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
import re
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
_CHANGING = {
    "update",
    "setdefault",
    "pop",
    "popitem",
    "clear",
    "update_from_flattened_dict",
    "append",
    "extend",
    "insert",
    "remove",
}
_CHANGING |= {"reverse", "sort", "__setitem__", "__delitem__", "__ior__", "__iadd__", "__init__"}
_COPYING = {"replace", "_replace", "evolve", "model_copy"}
# What binds attributes by names that are not written there: then no flag, field or config is read.
_ANY_ATTRIBUTE = {
    "exec",
    "globals",
    "locals",
    "setattr",
    "delattr",
    "__setattr__",
    "setitem",
    "builtins",
    "__builtins__",
}
# Calls that make or change something by keywords, and calls that call, or derive from, the class that they are given.
_MAKING = {"Namespace", "SimpleNamespace", "dict", "partial", "__init__", "invoke", "callback", "update", "flagsaver"}
_HANDING = {"partial", "map", "from_dict", "replace", "make_dataclass"}
_DEFAULTS_SET = {
    "set_defaults",
    "set_default",
    "mark_flag_as_required",
    "mark_flags_as_required",
    "_defaults",
    "_actions",
}
_DEFAULTS_SET |= {"__defaults__", "__kwdefaults__", "read_flags_from_files"}
_PARSING = {"parse_args", "parse_known_args", "parse_intermixed_args", "parse_known_intermixed_args"}
_PARSING |= {"parse_args_into_dataclasses", "parse_dict", "parse_json_file", "parse_yaml_file"}
# Where click, argparse and parsers like it find other values.
_OUTSIDE = {"auto_envvar_prefix", "default_map", "fromfile_prefix_chars", "conflict_handler", "default_config_files"}
_OUTSIDE |= {
    "auto_env_var_prefix",
    "is_config_file",
    "is_config_file_arg",
    "args_for_setting_config_path",
    "default_env",
}
# What may give the fields of a class other values: bases, methods, decorators of pydantic.
_STRANGE_BASES, _STRANGE_METHODS = {"BaseSettings"}, {"__new__", "__getattribute__"}
_VALIDATORS = {"validator", "field_validator", "root_validator", "model_validator"}
_CLICK_TYPES = {"float", "int", "str", "FLOAT", "INT", "STRING", "FloatRange", "IntRange"}  # which keep a default
# Methods of a ConfigDict that set nothing.
_HARMLESS = {"lock", "unlock", "unlocked", "ignore_type", "get", "items", "keys", "values", "to_dict"}
_COOKIE = re.compile(r"[ \t\f]*#.*?coding[:=][ \t]*([-\w.]+)")  # as Python finds it
# Arguments of an option that take its value from elsewhere than its default, but for these literals.
_ELSEWHERE: dict[str, tuple[object, ...]] = {
    "required": (False,),
    "prompt": (False,),
    "envvar": (None,),
    "callback": (None,),
    **dict.fromkeys(("default_factory", "env_var", "cls", "parser", "click_type", "flag_value", "clamp"), (None,)),
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
        self.assigned: list[tuple[str, ast.expr, int]] = []  # names, what they are bound to, and lines
        self.changed: dict[str, int] = {}  # names of objects that are changed without a key that is written, and a line
        # By the key of a dictionary, or the keyword of a call that makes something: lines that give another value.
        self.given: dict[str, list[int]] = defaultdict(list)
        self.merged: dict[str, int] = {}  # the same, where it is put over the keys of another dictionary
        self.binding = ""  # what may bind any attribute
        self.argv: dict[int, int] = {}  # ids of `argv` and lines, without those that only read it
        reading = set[int]()
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
                case ast.Name(id=name) | ast.Attribute(attr=name, ctx=ast.Load()) if name in _ANY_ATTRIBUTE:
                    self.binding = self.binding or f"line {node.lineno} uses `{name}`"
                case ast.alias(name=name, asname=other) if name in _ANY_ATTRIBUTE or (other and name in _COPYING):
                    self.binding = self.binding or f"line {node.lineno} imports `{name}`"
                case ast.alias(name="argv") | ast.Attribute(attr="argv"):
                    self.argv[id(node)] = node.lineno
                case ast.Compare():
                    reading |= set(map(id, node.comparators))
                case ast.For(iter=each) | ast.comprehension(iter=each) | ast.Subscript(value=each, ctx=ast.Load()):
                    reading.add(id(each))
                case ast.Dict(keys=keys, values=values):
                    for key, value in zip(keys, values, strict=True):
                        self._note_given(_text(key), value, node.lineno, merged=None in keys)
                case ast.BinOp(op=ast.BitOr(), right=ast.Dict(keys=keys)):
                    self.merged |= {str(_text(key)): node.lineno for key in keys}
                case ast.AugAssign(target=target, op=ast.BitOr()) | ast.AugAssign(target=target, value=ast.List()):
                    self.changed.setdefault(_root(target), node.lineno)
                case ast.NamedExpr(target=ast.Name(id=name), value=value):
                    self.assigned.append((name, value, node.lineno))
                case ast.Attribute(value=ast.Subscript(slice=ast.Constant(value=str(name))), attr=method) if method in {
                    *_CHANGING,
                    "parse",
                }:
                    self.stores[name].append((node.lineno, ""))
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
            if isinstance(node, ast.Subscript) and not isinstance(node.ctx, ast.Load) and _text(node.slice) is None:
                self.changed.setdefault(_root(node), node.lineno)
            match node:
                case ast.Assign(targets=[ast.Name(id=name)], value=value):
                    self.assigned.append((name, value, node.lineno))
                case ast.Assign(targets=[ast.Tuple(elts=[ast.Name(id=name), *_])], value=value):
                    self.assigned.append((name, value, node.lineno))
                case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                    self.assigned.append((name, value, node.lineno))
            is_around = isinstance(node, ast.Match) or (isinstance(node, ast.stmt) and hasattr(node, "body"))
            below = (*parents, node) if is_around else parents
            waiting += [(child, below) for child in ast.iter_child_nodes(node)]
        self.calls.sort(key=lambda each: (each[0].lineno, each[0].col_offset))
        if max(len(self.classes), len(self.functions)) > MAX_NAMES:
            raise Refusal("DPC111", f"has more than {MAX_NAMES} classes or functions", "refer to a smaller file")
        # Tables of what many names are compared with: a file of 256 KiB has room for ten thousand of each.
        self.called: dict[str, list[ast.Call]] = defaultdict(list)  # by the last part of the name
        self.called_on: dict[str, str] = {}  # names on which a method is called with values
        self.copied: dict[str, int] = {}  # names that `replace` and the like give another value, and the last line
        self.of_parsers = set[str]()  # classes that HfArgumentParser gets
        self.code = {each.name for each, _ in self.functions} | {name for name, _, _ in self.assigned}
        parameters = {each.name: [name.arg for name, _ in _parameters(each)] for each, _ in self.functions}
        for call, parents in self.calls:
            name = _last_name(call)
            self.called[name].append(call)
            # A class may call itself by other names.
            own = next((x.name for x in reversed(parents) if isinstance(x, ast.ClassDef)), "")
            match call.func:
                case ast.Name(id="cls") | ast.Attribute(attr="__class__") | ast.Call(func=ast.Name(id="type")) if own:
                    self.called[own].append(call)
                case ast.Attribute(attr="__init__", value=ast.Call(func=ast.Name(id="super"))) if own:
                    self.called[own].append(call)
                case ast.Name(id="vars") if not call.args:
                    self.binding = self.binding or f"line {call.lineno} calls `vars`"
                case ast.Attribute(attr=method, value=on):
                    if method in _CHANGING and _last_name(on) == "__dict__":
                        self.binding = self.binding or f"line {call.lineno} calls `{method}`"
                    if method in _CHANGING:
                        self.changed.setdefault(_root(on), call.lineno)
                    if isinstance(on, ast.Name) and (call.args or call.keywords):
                        words = f"line {call.lineno} calls `{on.id}.{method}` with values of its own"
                        self.called_on.setdefault(on.id, words)
                    if isinstance(on, ast.Name) and on.id == "dict" and call.args:  # dict.update(C, ...)
                        self.changed.setdefault(_root(call.args[0]), call.lineno)
            if name in _HANDING and call.args and isinstance(call.args[0], ast.Name):
                self.changed.setdefault(call.args[0].id, call.lineno)
            if name in _COPYING:
                self.copied |= {each.arg or "**": call.lineno for each in call.keywords}
            if name == "HfArgumentParser":
                self.of_parsers |= {x.id for x in ast.walk(call) if isinstance(x, ast.Name)}
            for keyword in call.keywords if name in _MAKING else ():
                self._note_given(keyword.arg, keyword.value, call.lineno, merged=True)
            reading |= set(map(id, call.args))
            self.assigned += [(each.arg, each.value, call.lineno) for each in call.keywords if each.arg]
            if isinstance(call.func, ast.Name):  # a parameter is another name of what it gets
                pairs = zip(parameters.get(name, ()), call.args, strict=False)
                self.assigned += [(parameter, value, call.lineno) for parameter, value in pairs if _root(value)]
        for name, value, line in self.assigned:  # `sigma = args.sigma * 2`, `train(sigma=args.sigma or 2)`
            if isinstance(value, ast.BinOp | ast.BoolOp | ast.IfExp) and name in map(_last_name, ast.walk(value)):
                self.given[name].append(line)
        for _ in range(2):  # names of names
            for name, value, _ in self.assigned:
                if name in self.changed and (root := _root(value)):
                    self.changed.setdefault(root, self.changed[name])
        self.argv = {each: line for each, line in self.argv.items() if each not in reading}
        self.other_names = {value.id for _, value, _ in self.assigned if isinstance(value, ast.Name)}
        self.derived: dict[str, list[ast.ClassDef]] = defaultdict(list)  # by the last part of the name of a base
        self.bound_in = {id(node): [*_bound_in(node)] for node in self.classes}
        self.strange: dict[int, str] = {}  # what may give the fields of a class other values, by the id of the class
        for node in self.classes:
            bases = {_last_name(base.value if isinstance(base, ast.Subscript) else base) for base in node.bases}
            for name in bases:
                self.derived[name].append(node)
            found = set(map(_last_name, ast.walk(node))) & _VALIDATORS | bases & _STRANGE_BASES
            found |= _STRANGE_METHODS & set(self.bound_in[id(node)])
            found |= {"metaclass" for each in node.keywords if each.arg == "metaclass"}
            self.strange[id(node)] = min(found, default="")

    def _note_given(self, name: str | None, value: ast.expr, line: int, *, merged: bool) -> None:
        """Note that a dictionary or keyword gives a name a value that is not the one of the same name."""
        if name and name not in {_last_name(value), _text(getattr(value, "slice", None))}:
            self.given[name].append(line)
            if merged:
                self.merged.setdefault(name, line)

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
            case ast.List(elts=elements) | ast.Tuple(elts=elements) if depth < 20 and not any(
                isinstance(each, ast.Starred) for each in elements
            ):
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

    def _given_again(self, name: str) -> str:
        """Return where a dictionary or keyword of the file gives a flag or field another value, or may."""
        return f"line {min(self.given[name])} gives another `{name}`" if name in self.given else self.binding

    def _imported_over(self, node: ast.ClassDef | _Function) -> str:
        later = self.tree.body[self.tree.body.index(node) :] if node in self.tree.body else ()
        star = any(isinstance(each, ast.ImportFrom) and each.names[0].name == "*" for each in later)
        return f"an `import *` may bind another `{node.name}`" if star else ""

    def _bound_twice(self, name: str) -> str:
        lines = sorted(self.bound[name][:3])
        return f"`{name}` is bound more than once, in lines {_and(lines)}" if len(lines) > 1 else ""

    def _created_with(self, owners: Iterable[str], name: str) -> str:
        """Return where the file calls a class or function with a value of its own for a field or parameter."""
        for owner in sorted(owners):
            if owner in self.called_on:
                return self.called_on[owner]
            for call in self.called[owner][:MAX_CALLS]:
                if call.args or {name, "**", "args"} & _keywords(call).keys():
                    return f"line {call.lineno} calls `{owner}` with values of its own"
            if len(self.called[owner]) > MAX_CALLS:
                return f"`{owner}` is called more than {MAX_CALLS} times"
        line = self.copied.get(name) or self.copied.get("**")
        return f"line {line} replaces `{name}`" if line else ""

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
            yield _Stated((name,), value, at, [*problems, self.binding])

    def _refuse_stored_keys(self, node: Node) -> None:
        """Note a refusal for each key of a dictionary to which the file assigns another value."""
        for key, below in node.entries.items() if isinstance(node, Section) else ():
            merged = f"line {self.merged[key]} gives another `{key}`" if key in self.merged else ""
            if stored := self._stored(key) or merged:
                self.refused[below.path] = Refusal("DPC110", f"line {below.mark.line}: {stored}", WAY_OUT)
            self._refuse_stored_keys(below)

    def _fields(self, node: ast.ClassDef) -> Iterator[_Stated]:
        """Yield the fields of a class with their defaults."""
        family = [each for each in self.classes if each.name == node.name]
        for each in family:  # which grows
            family += [below for below in self.derived[each.name] if below not in family]
        names = {each.name for each in family}
        bases = {_last_name(base) for each in family if each is not node for base in each.bases} - names
        beside = [each for each in self.classes if each.name in bases]  # other bases of classes derived from it
        bound = Counter(name for each in (*family, *beside) for name in self.bound_in[id(each)])
        odd = None
        for decorator in node.decorator_list:
            name = _last_name(decorator)
            if name in self.code or not (name in _PLAIN_DECORATORS or name.endswith("dataclass")):
                odd = odd or decorator
        strange = next((self.strange[id(each)] for each in family if self.strange[id(each)]), "")
        general = [self._imported_over(node), next(self._parsed_with(), "") if node.name in self.of_parsers else ""]
        if node.name in self.changed or names & self.other_names:
            general.append(f"`{node.name}` is handed on by another name, or changed")
        for name, value, at in assignments(node.body):
            problems = [self._bound_twice(node.name), self._stored(name, names), self._given_again(name), *general]
            if strange:
                problems.append(f"`{strange}` of `{node.name}` may give another `{name}`")
            if bound[name] > 1:
                problems.append(f"`{name}` of `{node.name}` is bound more than once, also in a class derived from it")
            if odd is not None:
                problems.append(f"`{node.name}` is decorated by `{shortened(self._written(odd))}`, which is not run")
            given = _keywords(value) if value and _last_name(value) in _FIELDS else {}
            problems += [
                f"`{name}` has a {key} `{shortened(self._written(given[key]))}`, which is not run"
                for key in ("**", "default_factory", "factory", "converter", "on_setattr")
                if key in given
            ]
            if isinstance(value, ast.Call) and _last_name(value) in self.code:
                problems.append(f"`{_last_name(value)}` is a function of the file, which is not run")
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
            problems = [twice, *flag.problems, self._stored(name), general, self._given_again(name)]
            # Given again in a text of the file: `parse_args(["--sigma", "2"])`, `sys.argv += ["--sigma=2"]`.
            for option in flag.options or ():
                lines = self.options.get(option, [])
                if len(lines) > flag.mentions:
                    problems.append(f"`{option}` stands in lines {_and(sorted(lines[:3]))}")
            is_shadowed = isinstance(flag.kind, ast.Name) and flag.kind.id in self.code
            is_kept = _converts(flag) or (flag.kind and _last_name(flag.kind) == "str")
            if _text(flag.value) is not None and flag.kind and (is_shadowed or not is_kept):
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
            elif called == "add_argument" and (texts or "dest" in given):
                if "dest" in given and _text(given["dest"]) is None:
                    problems.append("its `dest` is code")
                if texts and not any(text.startswith("-") for text in texts):
                    problems.insert(0, _POSITIONAL.format(texts[0]))
                long = next((text for text in texts if text.startswith("--")), "".join(texts[:1]))
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
            bound, own = bound_names(function)[0], {name.arg for name, _ in _parameters(function)}
            whole = function.args.kwarg.arg if function.args.kwarg else ""  # **options
            odd = min(words & {each.name for each, _ in self.functions}, default="") if found else ""
            for flag, described in found:
                (name,) = flag.keys
                problems = [*flag.problems, *_taken_elsewhere(described), _condition(parents)]
                is_stored = len(bound[name]) > (name in own)
                problems.append(f"`{function.name}` assigns another `{name}`" if is_stored else "")
                problems.append(f"`{function.name}` is decorated by `{odd}`, which is not run" if odd else "")
                problems.append(f"line {self.changed[whole]} changes `{whole}`" if whole in self.changed else "")
                kind = flag.kind or (flag.at.annotation if isinstance(flag.at, ast.arg) else None)
                if kind and _is_converted(kind, flag.value, is_click=flag.kind is not None):
                    problems.append(f"its default is converted by `{shortened(self._written(kind))}`, which is not run")
                problems.append(self._created_with({function.name}, name))
                yield flag._replace(problems=problems)

    def _parsed_with(self) -> Iterator[str]:
        """Yield what in a file changes the defaults of its flags, or gives some itself."""
        # Names that are bound as parameters without a default, or with None, as in `def main(argv=None)`.
        parameters = [each for function, _ in self.functions for each in _parameters(function)]
        unset = Counter(name.arg for name, value in parameters if value is None or _is_constant(value, None))
        handed = {x.id for name in _PARSING for call in self.called[name] for x in call.args if isinstance(x, ast.Name)}
        mains = {each.name for each, _ in self.functions if {x.arg for x, _ in _parameters(each)} & handed}
        for call, _ in self.calls:
            called, given = _last_name(call), _keywords(call)
            is_parsing = (
                called in _PARSING or called in mains or (isinstance(call.func, ast.Name) and called == "FLAGS")
            )
            argv = [given["argv"]] if "argv" in given else []
            for each in (*call.args, *given.values()) if is_parsing else argv:
                match each:
                    case ast.Constant(value=None | bool()):  # of HfArgumentParser
                        pass
                    case ast.Name(id=name) if unset[name] == len(self.bound[name]) > 0:
                        pass
                    case ast.BinOp() | ast.List():
                        yield f"line {call.lineno} gives `{called}` arguments of its own"
                    case _ if "sys.argv" not in self._written(each):
                        yield f"line {call.lineno} gives `{called}` arguments of its own"
            match call.func:
                case ast.Attribute(
                    attr=method, value=ast.Attribute(attr="__dict__") | ast.Call(func=ast.Name(id="vars"))
                ) if method in _CHANGING:
                    yield f"line {call.lineno} changes parsed flags by `{called}`"
            yield from (f"line {call.lineno} sets `{key}`" for key in _OUTSIDE if key in given)
        called_here = {id(call.func) for call, _ in self.calls}
        for node in ast.walk(self.tree):
            match node:
                case ast.Constant(value=str(text)) if text in _DEFAULTS_SET | _PARSING:
                    yield f"line {node.lineno} has `{text}` as a text"
                case ast.Attribute(attr=name) if name in _PARSING and id(node) not in called_here:
                    yield f"line {node.lineno} hands `{name}` on"
                case ast.ClassDef(bases=bases) if any(_last_name(base).endswith("Parser") for base in bases):
                    if own := {"add_argument", *_PARSING} & set(self.bound_in[id(node)]):
                        yield f"line {node.lineno} defines a parser with its own `{min(own)}`"
                case ast.Constant(value=str(text)) if text in _OUTSIDE:
                    yield f"line {node.lineno} sets `{text}`"
                case ast.Attribute(attr=name) | ast.Name(id=name) if name in _DEFAULTS_SET:
                    yield f"line {node.lineno} uses `{name}`"
        # An object that holds the parsed flags is bound again, or changed as a whole.
        parsed = {x for x, value, _ in self.assigned if isinstance(value, ast.Call) and _last_name(value) in _PARSING}
        for name, value, line in self.assigned if parsed else ():
            match value:
                case ast.List() | ast.Tuple():  # of another meaning
                    continue
                case ast.Call() if _last_name(value) in _PARSING or not (value.args or value.keywords):
                    continue
                case ast.Name(id=other) if other in parsed:
                    continue
            if name in parsed:
                yield f"line {line} binds `{name}` again"
        yield from (f"line {self.changed[name]} changes `{name}`" for name in sorted(parsed & self.changed.keys()))
        yield from (f"line {line} uses `argv`" for line in sorted(self.argv.values()))
        yield from filter(None, map(self._stored, ("default", "add_argument", *sorted(_PARSING))))

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
        returns = [x for x in ast.walk(function) if isinstance(x, ast.Return | ast.Yield | ast.YieldFrom)]
        if isinstance(function, ast.AsyncFunctionDef) or returns != function.body[-1:]:
            problems.append(f"`{function.name}` returns elsewhere than in its last line")
        problems.append(self._imported_over(function))
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
        # Apart from `config.a.b`, which is set or read, and `return config`, nobody else gets hold of it.
        sections = {names[:length] for names, _, _ in sets for length in range(len(names))}
        sections |= {names for names, value, _ in sets if isinstance(value, ast.Call)}
        around = {id(child): node for node in ast.walk(function) for child in ast.iter_child_nodes(node)}
        stores, is_handed = 0, False
        for node in ast.walk(function):
            match node:
                case ast.Call(func=ast.Attribute(attr=method)) if method in _CHANGING:
                    problems.append(f"line {node.lineno} changes it by `{method}`")
                case ast.Name(id=name, ctx=ast.Load()) if name == root:
                    top: ast.expr = node
                    while isinstance(parent := around[id(top)], ast.Attribute):
                        top = parent
                    names = _attributes(top, root)
                    is_read = names not in sections or not isinstance(getattr(top, "ctx", None), ast.Load)
                    if isinstance(parent, ast.Call) and parent.func is top:
                        is_read = names[-1] in _HARMLESS if names else False
                    is_handed = is_handed or not (is_read or isinstance(parent, ast.Return))
                case ast.Name(id=name):
                    stores += name == root
        if stores > 1 or is_handed:
            problems.append(f"`{root}` is bound more than once, or handed to other code, which may change it")
        literal = {names for names, value, _ in sets if isinstance(value, ast.Dict)}
        times = Counter(names for names, _, _ in sets)
        last = Counter(names[-1] for names, _, _ in sets)
        # A statement is one store of its name; keywords and dictionaries are none.
        stored = Counter(names[-1] for names, _, at in sets if isinstance(at, ast.Assign))
        found = []
        for names, value, at in sets:
            own = last[names[-1]] - stored[names[-1]]
            is_twice = last[names[-1]] > 1 or len(self.stores.get(names[-1], ())) > stored[names[-1]]
            is_twice = is_twice or len(self.given.get(names[-1], ())) > own
            reasons = [*problems, f"`{names[-1]}` is set more than once in the file" if is_twice else ""]
            if any(names[:length] in literal for length in range(len(names))):
                reasons.append(f"`{'.'.join(names)}` is set inside another value")
            reasons.append(self.binding)
            if _is_empty_config(value):
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
            case ast.alias(name=name, asname=other):
                yield other or name
            case each:
                if isinstance(each, ast.ExceptHandler | ast.MatchAs | ast.MatchStar) and each.name:
                    yield each.name
                waiting += ast.iter_child_nodes(each)


def _is_config_dict(call: ast.Call) -> bool:
    match call.func:
        case ast.Name(id="ConfigDict") | ast.Attribute(attr="ConfigDict"):
            return True
        case ast.Attribute(attr="create", value=module):
            return _last_name(module) == "config_dict"
    return False


def _is_empty_config(value: ast.expr) -> bool:
    return isinstance(value, ast.Call) and _is_config_dict(value) and not (value.args or value.keywords)


def _is_converted(kind: ast.expr, value: ast.expr | None, *, is_click: bool) -> bool:
    """Return True if an option of click or typer makes another number of its default."""
    is_cut = isinstance(value, ast.Constant) and isinstance(value.value, float) and value.value % 1 != 0
    if not is_click:  # the annotation of a parameter of typer
        return is_cut and "int" in map(_last_name, ast.walk(kind))
    name = _last_name(kind)
    return name not in _CLICK_TYPES or "clamp" in _keywords(kind) or (is_cut and name in {"int", "INT", "IntRange"})


def _root(node: ast.AST) -> str:
    """Return the name of the object that a place is part of: `C["a"]`, `C.get("a")`, `vars(C)`, `C.__dict__`; or ""."""
    while not isinstance(node, ast.Name):
        match node:
            case ast.Subscript(value=below) | ast.Attribute(attr="__dict__", value=below):
                node = below
            case (
                ast.Call(func=ast.Attribute(attr="get", value=below)) | ast.Call(func=ast.Name(id="vars"), args=[below])
            ):
                node = below
            case _:
                return ""
    return node.id


def _attributes(node: ast.expr, root: str) -> tuple[str, ...]:
    """Return the names of `root.a.b`; () for other code."""
    names: list[str] = []
    while isinstance(node, ast.Attribute):
        names.append(node.attr)
        node = node.value
    return tuple(reversed(names)) if isinstance(node, ast.Name) and node.id == root else ()
