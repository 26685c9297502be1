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
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple

from dpcalc.config.files import Refusal
from dpcalc.config.source import Mark, Source, shortened
from dpcalc.config.tree import Document, Items, Node, Scalar, Section, join

WAY_OUT = (
    "write a literal there, or gate the run in a test of your own: `assert epsilon(plan(...)).epsilon <= target` with "
    "`from dpcalc import epsilon, plan`"
)
# What may bind a name without naming it: then no name is read.
REBINDING = frozenset(["exec", "eval", "globals", "locals", "vars", "setattr", "__import__", "__builtins__"])
# What binds attributes by names that are not written there: then no flag, field or config is read.
_BINDING = {"exec", "globals", "locals", "setattr", "__setattr__", "setitem", "builtins", "__builtins__", "delattr"}
# Calls that make or change something by keywords.
_MAKING = {"Namespace", "SimpleNamespace", "dict", "partial", "__init__", "invoke", "callback", "update", "flagsaver"}
_HANDING = {"partial", "map", "from_dict", "replace", "make_dataclass"}  # which call, or derive, what they are given
_PLAIN_DECORATORS = {"dataclass", "define", "frozen", "mutable", "attrs", "s"}  # of dataclasses, flax, pydantic, attrs
_FIELDS = {"field", "Field", "ib", "attrib", "HfArg"}
_CHANGING = {"update", "setdefault", "pop", "popitem", "clear", "update_from_flattened_dict", "__setitem__", "append"}
_CHANGING |= {"extend", "insert", "remove", "reverse", "sort", "__ior__", "__iadd__", "__init__", "__delitem__"}
_COPYING = {"replace", "_replace", "evolve", "model_copy"}
_DEFAULTS_SET = {"set_defaults", "set_default", "mark_flag_as_required", "mark_flags_as_required", "_defaults"}
_DEFAULTS_SET |= {"__defaults__", "__kwdefaults__", "read_flags_from_files", "_actions"}
_PARSING = {"parse_args", "parse_known_args", "parse_intermixed_args", "parse_args_into_dataclasses"}
_PARSING |= {"parse_known_intermixed_args", "parse_dict", "parse_json_file", "parse_yaml_file"}
# Where click, argparse and parsers like it find other values.
_OUTSIDE = ("auto_envvar_prefix", "default_map", "fromfile_prefix_chars", "conflict_handler", "default_config_files")
_OUTSIDE += (
    "auto_env_var_prefix",
    "is_config_file",
    "is_config_file_arg",
    "args_for_setting_config_path",
    "default_env",
)
_ALSO_GIVE = ("envvar", "callback", "default_factory", "action", "env_var", "cls", "parser", "click_type", "flag_value")
_ALSO_GIVE += ("clamp",)  # what gives an option another value than its default
_HARMLESS = {
    "lock",
    "unlock",
    "unlocked",
    "ignore_type",
    "get",
    "items",
    "keys",
    "values",
    "to_dict",
}  # of a ConfigDict
_CLICK_TYPES = {"float", "int", "str", "FLOAT", "INT", "STRING", "FloatRange", "IntRange"}
_VALIDATORS = {"validator", "field_validator", "root_validator", "model_validator"}  # of pydantic, which may replace
_COOKIE = re.compile(r"[ \t\f]*#.*?coding[:=][ \t]*([-\w.]+)")  # as Python finds it
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
        names: Iterable[str] = ()
        match node:
            case ast.ImportFrom(names=[ast.alias(name="*")]):
                anything = anything or line
            case ast.Name(id=name, ctx=ast.Load()) if name in REBINDING:
                anything = anything or line
            case ast.Name(id=name, ctx=ast.Store() | ast.Del()) | ast.arg(arg=name):
                names = (name,)
            case ast.alias(name=name, asname=other):
                names = (other or name.partition(".")[0],)
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                names = (name,)
            case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
                names = (name,)
            case ast.MatchMapping(rest=str(name)):
                names = (name,)
            case ast.Global(names=many) | ast.Nonlocal(names=many):
                names = many
        for name in names:
            lines[name].append(line)
    return lines, anything


def read_python(source: Source) -> Document:
    """Return what a Python file states as a tree; Refusal if it is no Python."""
    cookies = [found for line in source.lines[:2] if (found := _COOKIE.match(line))]
    if cookies and cookies[0][1].lower().replace("_", "-") not in {"utf-8", "utf8", "ascii", "us-ascii", "latin-1"}:
        raise Refusal("DPC110", f"is encoded as `{shortened(cookies[0][1])}`", "save it as UTF-8")
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


def _last_name(node: ast.AST) -> str:
    """Return the last part of a dotted name, also of a call of it; "" for other code."""
    node = node.func if isinstance(node, ast.Call) else node
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def _text(node: ast.AST | None) -> str | None:
    """Return the text of a string literal; None for anything else."""
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def _keywords(call: ast.Call) -> dict[str, ast.expr]:
    """Return the arguments of a call that have a name; "**" stands for those of a dictionary."""
    return {each.arg or "**": each.value for each in call.keywords}


def _is_main_guard(node: ast.AST) -> bool:
    match node:
        case ast.If(
            test=ast.Compare(
                left=ast.Name(id="__name__"), ops=[ast.Eq()], comparators=[ast.Constant(value="__main__")]
            ),
            orelse=[],
        ):
            return True
    return False


def _condition(parents: Parents) -> str:
    """Return the first statement around a place on which it depends, in words; "" if there is none."""
    for node in parents:
        if not isinstance(node, _Function | ast.ClassDef) and not _is_main_guard(node):
            word = {"AsyncFor": "for", "TryStar": "try", "AsyncWith": "with"}.get(type(node).__name__)
            return f"the `{word or type(node).__name__.lower()}` of line {getattr(node, 'lineno', 0)}"
    return ""


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
        self.classes: list[tuple[ast.ClassDef, Parents]] = []
        self.assigned: list[tuple[str, ast.expr, int]] = []  # names, what they are bound to, and lines
        self.changed: dict[str, int] = {}  # names of objects that the file changes without naming a key, and a line
        # By the key of a dictionary, or the keyword of a call that makes something: lines that give another value.
        self.given: dict[str, list[int]] = defaultdict(list)
        self.merged: dict[str, int] = {}  # the same, where it is put over the keys of another dictionary
        self.binding = ""  # what may bind any attribute
        self.argv = dict[int, int]()  # ids of `argv` and lines, without those that only read it
        reading = set[int]()
        waiting: list[tuple[ast.AST, Parents]] = [(tree, ())]
        while waiting:
            node, parents = waiting.pop()
            match node:
                case ast.Call():
                    self.calls.append((node, parents))
                case ast.Expr(value=ast.Call() as call) | ast.Assign(value=ast.Call() as call):
                    self.statements.add(id(call))
                case ast.AnnAssign(value=ast.Call() as call):
                    self.statements.add(id(call))
                case ast.Attribute(attr="__dict__", ctx=ast.Load()):
                    self.anything = self.anything or node.lineno
                case ast.Name(id=name) | ast.Attribute(attr=name, ctx=ast.Load()) if name in _BINDING:
                    self.binding = self.binding or f"line {node.lineno} uses `{name}`"
                case ast.alias(name=name, asname=other) if name in _BINDING or (other and name in _COPYING):
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
                case ast.AugAssign(target=target, op=ast.BitOr()):
                    self.changed.setdefault(_root(target), node.lineno)
                case ast.AugAssign(target=target, value=ast.List() | ast.Tuple()):
                    self.changed.setdefault(_root(target), node.lineno)
                case ast.NamedExpr(target=ast.Name(id=name), value=value):
                    self.assigned.append((name, value, node.lineno))
                case ast.Attribute(attr=name, ctx=ast.Store() | ast.Del(), value=value):
                    name = _text(value.slice) or name if isinstance(value, ast.Subscript) else name
                    own = next((x.name for x in reversed(parents) if isinstance(x, ast.ClassDef)), "")
                    is_self = isinstance(value, ast.Name) and value.id in {"self", "cls"}
                    self.stores[name].append((node.lineno, own if is_self else ""))
                case ast.Attribute(value=ast.Subscript(slice=ast.Constant(value=str(name)))) if node.attr in {
                    *_CHANGING,
                    "parse",
                }:
                    self.stores[name].append((node.lineno, ""))
                case ast.Subscript(slice=ast.Constant(value=str(name)), ctx=ast.Store() | ast.Del()):
                    self.stores[name].append((node.lineno, ""))
                case ast.Subscript(ctx=ast.Store() | ast.Del()):
                    self.changed.setdefault(_root(node), node.lineno)
                case ast.Constant(value=str(text)) if text.startswith("--"):
                    self.options[text.partition("=")[0].partition(" ")[0]].append(node.lineno)
                case ast.FunctionDef() | ast.AsyncFunctionDef():
                    self.functions.append((node, parents))
                case ast.ClassDef():
                    self.classes.append((node, parents))
            match node:  # also the statements above
                case ast.Assign(targets=[ast.Name(id=name)], value=value):
                    self.assigned.append((name, value, node.lineno))
                case ast.Assign(targets=[ast.Tuple(elts=[ast.Name(id=name), *_])], value=value):
                    self.assigned.append((name, value, node.lineno))
                case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                    self.assigned.append((name, value, node.lineno))
            is_around = isinstance(node, ast.stmt) and (hasattr(node, "body") or isinstance(node, ast.Match))
            below = (*parents, node) if is_around else parents
            waiting += [(child, below) for child in ast.iter_child_nodes(node)]
        self.calls.sort(key=lambda each: (each[0].lineno, each[0].col_offset))
        if max(len(self.classes), len(self.functions)) > MAX_NAMES:
            raise Refusal("DPC111", f"has more than {MAX_NAMES} classes or functions", "refer to a smaller file")
        # Tables of what many names are compared with: a file of 256 KiB has room for ten thousand of each.
        self.called: dict[str, list[ast.Call]] = defaultdict(list)  # by the last part of the name
        self.copied: dict[str, int] = {}  # names that `replace` and the like give another value, and a line
        self.called_on: dict[str, str] = {}  # names on which a method is called with values
        self.run: set[str] = set()  # names that are given to a function `run`
        self.of_parsers: set[str] = set()  # classes that HfArgumentParser gets
        self.bound_as_code = {each.name for each, _ in self.functions} | {name for name, _, _ in self.assigned}
        parameters = {each.name: [x.arg for x in each.args.args] for each, _ in self.functions}
        for call, parents in self.calls:
            name = _last_name(call)
            self.called[name].append(call)
            own = next((x.name for x in reversed(parents) if isinstance(x, ast.ClassDef)), "")
            is_own = name in {"cls", "__class__"} or (
                isinstance(call.func, ast.Call) and _last_name(call.func) == "type"
            )
            if own and (is_own or (name == "__init__" and _last_name(call.func.value) == "super")):  # type: ignore[attr-defined]
                self.called[own].append(call)
            if name in _HANDING:
                self.changed |= {each.id: call.lineno for each in call.args[:1] if isinstance(each, ast.Name)}
            for keyword in call.keywords if name in _MAKING else ():
                self._note_given(keyword.arg, keyword.value, call.lineno, merged=True)
            self.assigned += [(each.arg, each.value, call.lineno) for each in call.keywords if each.arg]
            reading |= set(map(id, call.args))
            if isinstance(call.func, ast.Name):  # a parameter is another name of what it gets
                given = zip(parameters.get(name, ()), call.args, strict=False)
                self.assigned += [(parameter, value, call.lineno) for parameter, value in given if _root(value)]
            if name in _COPYING:
                for each in call.keywords:
                    self.copied.setdefault(each.arg or "**", call.lineno)
            on = call.func.value if isinstance(call.func, ast.Attribute) else None
            if (name == "vars" and not call.args) or (
                on is not None and name in _CHANGING and _last_name(on) == "__dict__"
            ):
                self.binding = self.binding or f"line {call.lineno} calls `{name}`"
            if isinstance(on, ast.Name) and (call.args or call.keywords):
                self.called_on.setdefault(on.id, f"line {call.lineno} calls `{on.id}.{name}` with values of its own")
            if name in _CHANGING and on is not None:
                self.changed.setdefault(_root(on), call.lineno)
                if isinstance(on, ast.Name) and on.id == "dict" and call.args:  # dict.update(C, ...)
                    self.changed.setdefault(_root(call.args[0]), call.lineno)
            if name == "HfArgumentParser":
                words = [x for each in (*call.args, *_keywords(call).values()) for x in ast.walk(each)]
                self.of_parsers |= {x.id for x in words if isinstance(x, ast.Name)}
            if name == "run":
                self.run |= {each.id for each in call.args if isinstance(each, ast.Name)}
        for (
            name,
            value,
            line,
        ) in self.assigned:  # `sigma = args.sigma * 2`, `noise_multiplier=args.noise_multiplier or 2`
            if isinstance(value, ast.BinOp | ast.BoolOp | ast.IfExp) and any(
                _last_name(x) == name for x in ast.walk(value)
            ):
                self.given[name].append(line)
        for _ in range(2):  # names of names
            for name, value, _ in self.assigned:
                if name in self.changed and _root(value):
                    self.changed.setdefault(_root(value), self.changed[name])
        self.argv = {each: line for each, line in self.argv.items() if each not in reading}
        self.other_names = {value.id for _, value, _ in self.assigned if isinstance(value, ast.Name)}
        self.derived: dict[str, list[ast.ClassDef]] = defaultdict(list)  # by the last part of the name of a base
        self.fields: dict[int, list[tuple[ast.stmt, str]]] = {}  # of each class, by its id
        self.strange: dict[int, str] = {}  # what may give the fields of a class other values, by the id of the class
        for node, _ in self.classes:
            words = {_last_name(x) for x in ast.walk(node) if isinstance(x, ast.Attribute | ast.Name)} & _VALIDATORS
            words |= {_last_name(base) for base in node.bases} & {"BaseSettings"}
            self.fields[id(node)] = [*_fields(node)]
            words |= {name for _, name in self.fields[id(node)]} & {"__new__", "__getattribute__"}
            words |= {each.arg for each in node.keywords if each.arg == "metaclass"}
            self.strange[id(node)] = min(words, default="")
            for name in {_last_name(base.value if isinstance(base, ast.Subscript) else base) for base in node.bases}:
                self.derived[name].append(node)

    def _note_given(self, name: str | None, value: ast.expr, line: int, *, merged: bool) -> None:
        """Note that a dictionary or keyword gives a name a value that is not the one of the same name."""
        if name and name not in {_last_name(value), _text(getattr(value, "slice", None))}:
            self.given[name].append(line)
            if merged:
                self.merged.setdefault(name, line)

    def mark(self, node: ast.AST) -> Mark:
        """Return the place of a node, its columns in characters; ast counts bytes."""
        line, start = getattr(node, "lineno", 1), getattr(node, "col_offset", 0)
        text = self.source.lines[line - 1].encode() if line <= len(self.source.lines) else b""
        end = getattr(node, "end_col_offset", start) if getattr(node, "end_lineno", line) == line else len(text)
        column = len(text[:start].decode(errors="replace"))
        return Mark(self.source, line, column + 1, max(1, len(text[start:end].decode(errors="replace"))))

    def written(self, node: ast.AST) -> str:
        """Return the code of a node as its first line has it."""
        mark = self.mark(node)
        return self.source.lines[mark.line - 1][mark.column - 1 :][: mark.width] if self.source.lines else ""

    def document(self) -> Document:
        """Return all that the file states."""
        entries: dict[str, Node] = {}
        for node in self.tree.body:
            if isinstance(node, ast.ClassDef):
                entries[node.name] = self._class(node)
            elif isinstance(node, _Function):
                found = self._config_function(node)
                entries |= {node.name: found} if found else {}
        for name, value in self._constants():
            entries[name] = value
        flags = self._flags()
        if flags.entries:
            if "flags" in entries:
                self.refused["flags"] = self.refusal(self.tree, "`flags` is a name of the file, too", "")
            entries["flags"] = flags
        return Document(self._section(entries, self.tree, ""), self.refused, self.defaults)

    def refusal(self, at: ast.AST, message: str, hint: str = WAY_OUT) -> Refusal:
        mark = self.mark(at)
        return Refusal("DPC110", f"line {mark.line}, column {mark.column}: {message}", hint)

    def _section(self, entries: Mapping[str, Node], at: ast.AST, path: str) -> Section:
        return Section(entries=entries, mark=self.mark(at), key=None, path=path)

    def literal(self, node: ast.expr, path: str, *, converts: bool = False, depth: int = 0) -> Node:
        """Return a literal as a tree, and note a refusal at `path`, or below it, for what is none.

        `converts`: a text is converted to a number, as argparse does with the default of a `type=float`.
        """
        mark = self.mark(node)
        negative = isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub)
        inner = node.operand if isinstance(node, ast.UnaryOp) and negative else node
        plain, text = True, ""
        match inner:
            case ast.List() | ast.Tuple() if depth < 20 and not any(isinstance(x, ast.Starred) for x in inner.elts):
                below = (self.literal(x, f"{path}[{at}]", depth=depth + 1) for at, x in enumerate(inner.elts))
                return Items(items=tuple(below), mark=mark, key=None, path=path)
            case ast.Dict(keys=keys) if depth < 20 and all(_text(key) is not None for key in keys):
                names = [str(_text(key)) for key in keys]
                parts = {
                    name: self.literal(value, join(path, name), depth=depth + 1)
                    for name, value in zip(names, inner.values, strict=True)
                }
                twice = frozenset(name for name, count in Counter(names).items() if count > 1)
                return replace(self._section(parts, inner, path), repeated=twice)
            case ast.Constant(value=bool(value)) if not negative:
                text = str(value).lower()
            case ast.Constant(value=str(value)) if not negative:
                plain, text = converts, value.strip() if converts else value
            case ast.Constant(value=int() | float()) if inner.lineno == inner.end_lineno:
                line = self.source.lines[inner.lineno - 1].encode()
                text = "-" * negative + line[inner.col_offset : inner.end_col_offset].decode()
            case ast.Constant(value=None) if not negative:
                self.refused[path] = self.refusal(node, f"`{path}` is None: what a launch gives is not known")
            case _:
                shown = shortened(self.written(node))
                self.refused[path] = self.refusal(node, f"`{path}` is `{shown}`, which is code and no literal")
        return Scalar(text=text, plain=plain, mark=mark, key=None, path=path)

    def _default(
        self, path: str, value: ast.expr | None, at: ast.AST, problems: Iterable[str], *, converts: bool = False
    ) -> Node:
        """Return the literal at a path, with the first of its problems as a refusal."""
        problem = next(filter(None, problems), "")
        if value is None:
            self.refused[path] = self.refusal(at, problem or f"`{path}` has no default: a launch gives it")
            return Scalar(text="", plain=True, mark=self.mark(at), key=None, path=path)
        node = self.literal(value, path, converts=converts)
        if problem:
            self.refused[path] = self.refusal(at, problem)
        return node

    def stored(self, name: str, classes: Iterable[str] = ()) -> str:
        """Return where the file assigns an attribute or key of this name; `self.name` only in some classes."""
        lines = [line for line, own in self.stores.get(name, ()) if not own or own in classes]
        return f"line {min(lines)} assigns another `{name}`" if lines else ""

    def given_again(self, name: str) -> str:
        """Return where a dictionary or keyword of the file gives a flag or field another value, or may."""
        return f"line {min(self.given[name])} gives another `{name}`" if name in self.given else self.binding

    # Constants and classes.

    def _constants(self) -> Iterator[tuple[str, Node]]:
        """Yield the names that are bound at the top of the module to literals, or refused."""
        seen = set[str]()  # a name that is bound again is refused the first time
        for node in self.tree.body:
            match node:
                case ast.Assign(targets=[ast.Name(id=name)], value=value) if name not in seen:
                    pass
                case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value) if name not in seen:
                    pass
                case _:
                    continue
            seen.add(name)
            problems = [self._bound_twice(name), self.stored(name)]
            if self.anything:
                problems.append(f"line {self.anything} may bind any name of the module")
            problems.append(self.binding)
            if name in self.changed:
                problems.append(f"line {self.changed[name]} changes `{name}`")
            found = self._default(name, value, node, problems)
            self._refuse_stored_keys(found)
            yield name, found

    def _refuse_stored_keys(self, node: Node) -> None:
        """Note a refusal for each key of a dictionary to which the file assigns another value."""
        for key, below in node.entries.items() if isinstance(node, Section) else ():
            stored = self.stored(key) or (
                f"line {self.merged[key]} gives another `{key}`" if key in self.merged else ""
            )
            if stored:
                self.refused[below.path] = Refusal("DPC110", f"line {below.mark.line}: {stored}", WAY_OUT)
            self._refuse_stored_keys(below)

    def _bound_twice(self, name: str) -> str:
        lines = self.bound.get(name, [])
        if len(lines) < 2:
            return ""
        return f"`{name}` is bound more than once, in lines {' and '.join(map(str, sorted(lines[:3])))}"

    def _family(self, name: str) -> list[ast.ClassDef]:
        """Return the classes of a name and those derived from it, as far as the file has them."""
        found = [node for node, _ in self.classes if node.name == name]
        for node in found:  # which grows
            found += [each for each in self.derived[node.name] if each not in found]
        return found

    def _class(self, node: ast.ClassDef, path: str = "") -> Section:
        """Return the fields of a class with their defaults."""
        path = path or node.name
        family = self._family(node.name)
        names = {each.name for each in family}
        decorators = [each for each in node.decorator_list if not _last_name(each).endswith("dataclass")]
        odd = next((each for each in decorators if _last_name(each) not in _PLAIN_DECORATORS), None)
        odd = odd or next((each for each in node.decorator_list if _last_name(each) in self.bound_as_code), None)
        bound = Counter[str]()  # by the class and those derived from it
        mixed = {_last_name(base) for each in family if each is not node for base in each.bases} - names
        beside = [each for each, _ in self.classes if each.name in mixed]  # other bases of classes derived from it
        strange = next((self.strange[id(each)] for each in family if self.strange[id(each)]), "")
        general = [self._imported_over(node)]
        if node.name in self.changed or names & self.other_names:
            general.append(f"`{node.name}` is handed on by another name, or changed")
        if node.name in self.of_parsers:
            general += self._parsed_with()[:1]
        for each in (*family, *beside):
            for statement, name in self.fields[id(each)]:
                bound[name] += 1
                if _condition((statement,)) and not isinstance(statement, ast.Assign | ast.AnnAssign):
                    bound[name] += 1
        entries: dict[str, Node] = {}
        for statement in node.body:
            match statement:
                case ast.Assign(targets=[ast.Name(id=name)], value=value) if name not in entries:
                    pass
                case ast.AnnAssign(target=ast.Name(id=name), value=value) if name not in entries:
                    pass
                case _:
                    continue
            problems = [self._bound_twice(node.name), self.stored(name, names), self.given_again(name)]
            problems += general
            if strange:
                problems.append(f"`{shortened(strange)}` of `{node.name}` may give another `{name}`")
            if bound[name] > 1:
                problems.append(f"`{name}` of `{node.name}` is bound more than once, also in a class derived from it")
            if odd is not None:
                problems.append(f"`{node.name}` is decorated by `{shortened(self.written(odd))}`, which is not run")
            if isinstance(value, ast.Call) and _last_name(value) in _FIELDS:
                given = _keywords(value)
                problems += [
                    f"`{name}` has a {key} `{shortened(self.written(given[key]))}`, which is not run"
                    for key in sorted({"default_factory", "factory", "converter", "on_setattr", "**"} & given.keys())
                ]
            if isinstance(value, ast.Call) and _last_name(value) in self.bound_as_code:
                problems.append(f"`{_last_name(value)}` is a function of the file, which is not run")
            problems += [self._created_with(names, name)]
            at = join(path, name)
            entries[name] = self._default(at, _field_default(statement), statement, problems)
            self.defaults[at] = (f"--{name}",)
        return self._section(entries, node, path)

    def _imported_over(self, node: ast.ClassDef | _Function) -> str:
        star = any(
            isinstance(x, ast.ImportFrom) and x.names[0].name == "*"
            for x in self.tree.body[self.tree.body.index(node) :]
        )
        return f"an `import *` may bind another `{node.name}`" if star else ""

    def _created_with(self, owners: Iterable[str], name: str) -> str:
        """Return where the file calls a class or function with a value of its own for a field or parameter."""
        for owner in sorted(owners):
            if owner in self.called_on:
                return self.called_on[owner]
            for call in self.called[owner][:MAX_CALLS]:
                given = _keywords(call)
                if {name, "**", "args"} & given.keys() or call.args:
                    return f"line {call.lineno} calls `{owner}` with values of its own"
            if len(self.called[owner]) > MAX_CALLS:
                return f"`{owner}` is called more than {MAX_CALLS} times"
        line = self.copied.get(name) or self.copied.get("**")
        return f"line {line} replaces `{name}`" if line else ""

    # Flags.

    def _flags(self) -> Section:
        """Return the options that a launch of the file may give, with their defaults."""
        flags = [*self._defined(), *(flag for each in self.functions for flag in self._of_command(*each))]
        general = self._parsed_with()
        times = Counter(flag.name for flag in flags)
        entries: dict[str, Node] = {}
        for flag in flags:
            if flag.name in entries:
                continue
            problems = [*flag.problems, self.stored(flag.name), *general[:1], self.given_again(flag.name)]
            if times[flag.name] > 1:
                problems.insert(0, f"`{flag.name}` is defined more than once")
            # Given again in a text of the file: `parse_args(["--sigma", "2"])`, `sys.argv += ["--sigma=2"]`.
            for option in flag.options:
                lines = self.options.get(option, [])
                if len(lines) > flag.mentions:
                    problems.append(f"`{option}` stands in lines {' and '.join(map(str, sorted(lines[:3])))}")
            path = f"flags.{flag.name}"
            kind, value = flag.kind, flag.value
            converts = _text(value) is not None and isinstance(kind, ast.Name) and kind.id in {"float", "int"}
            converts = converts and not self.bound[kind.id]  # type: ignore[union-attr]
            if _text(value) is not None and kind is not None and not converts and _last_name(kind) != "str":
                problems.append(f"its default is converted by `{shortened(self.written(kind))}`, which is not run")
            entries.setdefault(flag.name, self._default(path, value, flag.at, problems, converts=converts))
            self.defaults[path] = flag.options
        return self._section(entries, self.tree, "flags")

    def _defined(self) -> Iterator["_Flag"]:
        """Yield the flags of argparse and absl, and those of the classes that HfArgumentParser gets."""
        yield from (x for node, _ in self.classes if node.name in self.of_parsers for x in self._fields_as_flags(node))
        for call, parents in self.calls:
            called, given = _last_name(call), _keywords(call)
            texts = tuple(text for text in map(_text, call.args) if text is not None)
            if called.startswith("DEFINE_"):
                given = dict(zip(("name", "default"), call.args, strict=False)) | given
                name = _text(given.get("name"))
                options: tuple[str, ...] = (f"--{name}",)
                kind: ast.expr | None = ast.Name(id="float" if called in {"DEFINE_float", "DEFINE_integer"} else "str")
            elif called == "add_argument" and (texts or "dest" in given):
                long = next((text for text in texts if text.startswith("--")), [*texts, ""][0])
                name = _text(given.get("dest")) or long.lstrip("-").replace("-", "_")
                options, kind = texts, given.get("type")
            else:
                continue
            if name is None:
                continue
            problems = self._taken_elsewhere(given, texts if called == "add_argument" else ())
            if condition := _condition(parents):
                problems.append(f"it stands under {condition}")
            if "**" in given or any(isinstance(each, ast.Starred) for each in call.args):
                problems.append("not all of its arguments are written there")
            if "dest" in given and _text(given["dest"]) is None:
                problems.append("its `dest` is code")
            if id(call) not in self.statements:
                problems.append("it is part of another expression")
            value, action = given.get("default"), _text(given.get("action"))
            if value is None and action in {"store_true", "store_false"}:
                value = ast.copy_location(ast.Constant(value=action == "store_false"), call)
            mentions = 0 if called.startswith("DEFINE_") else 1
            yield _Flag(name, options, value, kind, call, tuple(problems), mentions)

    def _fields_as_flags(self, node: ast.ClassDef) -> Iterator["_Flag"]:
        """Yield the fields of a class that HfArgumentParser makes flags of."""
        before = set(self.refused)
        statements = {name: statement for statement, name in reversed(self.fields[id(node)])}
        for name in self._class(node, "flags").entries:
            reason = self.refused.pop(f"flags.{name}", None) if f"flags.{name}" not in before else None
            options = tuple(dict.fromkeys((f"--{name}", f"--{name.replace('_', '-')}")))
            statement = statements[name]
            problems = () if reason is None else (reason.message.partition(": ")[2],)
            yield _Flag(name, options, _field_default(statement), None, statement, problems, 0)

    def _of_command(self, function: _Function, parents: Parents) -> Iterator["_Flag"]:
        """Yield the options of a function that is a command of click or typer."""
        decorators = [each for each in function.decorator_list if isinstance(each, ast.Call)]
        clicks = [each for each in decorators if _last_name(each) == "option"]
        words = {_last_name(each) for each in function.decorator_list}
        runs = function.name in self.run
        condition = _condition(parents)
        bound, _ = bound_names(function)
        own_decorator = sorted(words & self.bound_as_code)
        whole = function.args.kwarg.arg if function.args.kwarg else ""  # **options

        def problems_of(name: str, given: Mapping[str, ast.expr], texts: tuple[str, ...]) -> tuple[str, ...]:
            problems = self._taken_elsewhere(given, texts)
            if condition:
                problems.append(f"it stands under {condition}")
            if len(bound[name]) > (name in {x.arg for x in ast.walk(function.args) if isinstance(x, ast.arg)}):
                problems.append(f"`{function.name}` assigns another `{name}`")
            if own_decorator:
                problems.append(f"`{function.name}` is decorated by `{own_decorator[0]}`, which is not run")
            if whole in self.changed:
                problems.append(f"line {self.changed[whole]} changes `{whole}`")
            problems.append(self._created_with({function.name}, name))
            return tuple(problems)

        for call in clicks:
            given, texts = _keywords(call), tuple(text for text in map(_text, call.args) if text is not None)
            words_only = [text for text in texts if not text.startswith("-")]
            long = sorted((text for text in texts if text.startswith("-")), key=lambda text: text[:2] != "--")
            name = words_only[0] if words_only else long[0].lstrip("-").replace("-", "_").lower() if long else ""
            if name:
                problems = problems_of(name, given, ())
                kind = given.get("type")
                inside = _keywords(kind) if isinstance(kind, ast.Call) else {}
                is_whole = _last_name(kind) in {"int", "INT", "IntRange"} if kind else False
                if kind and ("clamp" in inside or _last_name(kind) not in _CLICK_TYPES or _rounded(is_whole, given)):
                    problems += (f"its default is converted by `{shortened(self.written(kind))}`, which is not run",)
                more = ("not all of its arguments are written there",) if "**" in given else ()
                yield _Flag(name, tuple(long), given.get("default"), given.get("type"), call, (*problems, *more), 1)
        if clicks or not (runs or words & {"command", "callback"}):
            return
        arguments = function.args
        plain = [*arguments.posonlyargs, *arguments.args]
        values: list[ast.expr | None] = [*[None] * (len(plain) - len(arguments.defaults)), *arguments.defaults]
        values += arguments.kw_defaults
        for argument, value in zip([*plain, *arguments.kwonlyargs], values, strict=True):
            # `sigma: float = typer.Option(1.1)`, or `sigma: Annotated[float, typer.Option()] = 1.1`.
            inside = ast.walk(argument.annotation) if argument.annotation else ()
            calls = (x for x in inside if isinstance(x, ast.Call))
            described = value if isinstance(value, ast.Call) else next(calls, None)
            given = _keywords(described) if isinstance(described, ast.Call) else {}
            words_given = [_text(x) for x in described.args] if isinstance(described, ast.Call) else []
            options = tuple(text for text in words_given if text and text.startswith("--"))
            options = options or (f"--{argument.arg.replace('_', '-')}",)
            mentions = 1 if any(words_given) else 0
            positional: tuple[str, ...] = ()
            if isinstance(described, ast.Call) and _last_name(described) == "Argument":
                positional = (f"`{argument.arg}` is a positional argument, which a launch gives",)
            if isinstance(value, ast.Call) and _last_name(value) in {"Option", "Argument"}:
                value = given.get("default") or (value.args[0] if value.args else None)  # noqa: PLW2901
                if isinstance(value, ast.Constant) and value.value is ...:
                    value = None  # noqa: PLW2901
            problems = problems_of(argument.arg, given, ())
            if argument.annotation and _rounded("int" in self.written(argument.annotation), {"default": value}):
                problems += (f"its default is converted by `{shortened(self.written(argument.annotation))}`",)
            yield _Flag(argument.arg, options, value, None, argument, (*positional, *problems), mentions)

    def _taken_elsewhere(self, given: Mapping[str, ast.expr], texts: tuple[str, ...]) -> list[str]:
        """Return what takes the value of a flag from elsewhere than its default."""
        problems = []
        if texts and not any(text.startswith("-") for text in texts):
            problems.append(f"`{texts[0]}` is a positional argument, which a launch gives")
        for key in ("required", "prompt"):
            value = given.get(key)
            if value is not None and not (isinstance(value, ast.Constant) and value.value is False):
                problems.append("it is required, so that a launch gives it")
        for key in _ALSO_GIVE:
            value = given.get(key)
            is_known = key == "action" and _text(value) in {"store", "store_true", "store_false"}
            if value is not None and not is_known and not (isinstance(value, ast.Constant) and value.value is None):
                problems.append(f"its `{key}` may give another value")
        return problems

    def _parsed_with(self) -> list[str]:
        """Return what in a file changes the defaults of its flags, or gives some itself."""
        problems = []
        only_arguments = self._arguments_alone()
        parsers = {id(call.func) for call, _ in self.calls}
        for call, _ in self.calls:
            called, given = _last_name(call), _keywords(call)
            on = call.func.value if isinstance(call.func, ast.Attribute) else None
            named = call.args[:0]
            if called in _PARSING or (isinstance(call.func, ast.Name) and called == "FLAGS"):
                named = [*call.args, *given.values()]
            elif "argv" in given or called in self.parsing:  # `app.run(main, argv=...)`, `main([...])`
                named = [given["argv"]] if "argv" in given else [*call.args, *given.values()]
            if named:
                for each in named:
                    is_none = isinstance(each, ast.Constant) and each.value is None
                    is_argument = isinstance(each, ast.Name) and each.id in only_arguments
                    is_argv = "sys.argv" in self.written(each) and not isinstance(each, ast.BinOp | ast.List)
                    is_truth = isinstance(each, ast.Constant) and isinstance(each.value, bool)  # of HfArgumentParser
                    if not (is_none or is_argument or is_argv or is_truth):
                        problems.append(f"line {call.lineno} gives `{called}` arguments of its own")
            elif called in _CHANGING and on is not None and (_last_name(on) in {"__dict__", "vars"}):
                problems.append(f"line {call.lineno} changes parsed flags by `{called}`")
            problems += [f"line {call.lineno} sets `{key}`" for key in _OUTSIDE if key in given]
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Constant) and node.value in _OUTSIDE:
                problems.append(f"line {node.lineno} sets `{node.value}`")
            elif isinstance(node, ast.Attribute | ast.Name) and _last_name(node) in _DEFAULTS_SET:
                problems.append(f"line {node.lineno} uses `{_last_name(node)}`")
            elif isinstance(node, ast.Constant) and node.value in (*_DEFAULTS_SET, *_PARSING):
                problems.append(f"line {node.lineno} has `{node.value}` as a text")
            elif isinstance(node, ast.Attribute) and node.attr in _PARSING and id(node) not in parsers:
                problems.append(f"line {node.lineno} hands `{node.attr}` on")
            elif isinstance(node, ast.ClassDef) and any(_last_name(x).endswith("Parser") for x in node.bases):
                own = {name for _, name in _fields(node)} & {"add_argument", *_PARSING}
                problems += [f"line {node.lineno} defines a parser with its own `{name}`" for name in sorted(own)]
        # An object that holds the parsed flags is bound again, or changed as a whole.
        parsed = {
            name for name, value, _ in self.assigned if isinstance(value, ast.Call) and _last_name(value) in _PARSING
        }
        for name, value, line in self.assigned if parsed else ():
            is_call = isinstance(value, ast.Call) and (_last_name(value) in _PARSING or not value.args + value.keywords)
            is_call = is_call or isinstance(value, ast.List | ast.Tuple)  # of another meaning
            if name in parsed and not is_call and not (isinstance(value, ast.Name) and value.id in parsed):
                problems.append(f"line {line} binds `{name}` again")
        problems += [f"line {self.changed[name]} changes `{name}`" for name in sorted(parsed & self.changed.keys())]
        problems += [f"line {line} uses `argv`" for line in sorted(self.argv.values())]
        problems += [self.stored(x) for x in ("default", "add_argument", *sorted(_PARSING)) if self.stored(x)]
        return problems

    def _arguments_alone(self) -> set[str]:
        """Return the names that are bound as arguments without a default, or with None, and as nothing else."""
        times, unset = Counter[str](), Counter[str]()
        for function, _ in self.functions:
            arguments = function.args
            plain = [*arguments.posonlyargs, *arguments.args]
            times.update(x.arg for x in (*plain, *arguments.kwonlyargs))
            values = dict(zip([x.arg for x in plain][::-1], arguments.defaults[::-1], strict=False))
            values |= {x.arg: y for x, y in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True) if y}
            for each in (*plain, *arguments.kwonlyargs):
                value = values.get(each.arg)
                unset[each.arg] += value is None or (isinstance(value, ast.Constant) and value.value is None)
        found = {name for name, count in times.items() if unset[name] == count == len(self.bound[name])}
        parsed = {x.id for name in _PARSING for call in self.called[name] for x in call.args if isinstance(x, ast.Name)}
        self.parsing = {each.name for each, _ in self.functions if {x.arg for x in each.args.args} & parsed & found}
        return found

    # ml_collections.

    def _config_function(self, function: _Function) -> Section | None:
        """Return what a function sets on the ConfigDict that it returns; None if it makes and returns none."""
        made: dict[str, ast.Call] = {}
        for statement in function.body:
            match statement:
                case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call() as call) if _is_config_dict(call):
                    made.setdefault(name, call)
        returned = {
            node.value.id
            for node in ast.walk(function)
            if isinstance(node, ast.Return) and isinstance(node.value, ast.Name)
        }
        roots = made.keys() & returned
        if len(roots) != 1:
            return None
        (root,), path = roots, function.name
        reason = ""
        if self.bound[function.name] != [function.lineno] or function.decorator_list:
            reason = f"`{function.name}` is decorated, or bound more than once"
        returns = [node for node in ast.walk(function) if isinstance(node, ast.Return | ast.Yield | ast.YieldFrom)]
        if isinstance(function, ast.AsyncFunctionDef) or returns != function.body[-1:]:
            reason = reason or f"`{function.name}` returns elsewhere than in its last line"
        reason = reason or self._imported_over(function) if function in self.tree.body else reason
        tree: dict[str, object] = {}
        sets: list[tuple[tuple[str, ...], ast.expr, ast.AST]] = [
            ((keyword.arg or "**",), keyword.value, made[root]) for keyword in made[root].keywords
        ]
        if made[root].args:
            match made[root].args:
                case [ast.Dict(keys=keys, values=values)] if all(_text(key) is not None for key in keys):
                    sets += [((str(_text(key)),), value, value) for key, value in zip(keys, values, strict=True)]
                case _:
                    reason = reason or f"`{root}` is made of other values"
        for statement in function.body:
            if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
                names = _attributes(statement.targets[0], root)
                if names:
                    sets.append((names, statement.value, statement))
        # Apart from `config.a.b`, which is set or read, and `return config`, nobody else gets hold of it.
        sections = {names[:length] for names, _, _ in sets for length in range(len(names))}
        sections |= {names for names, value, _ in sets if isinstance(value, ast.Call)}
        literal = {names for names, value, _ in sets if isinstance(value, ast.Dict)}
        around = {id(child): node for node in ast.walk(function) for child in ast.iter_child_nodes(node)}
        stores = 0
        for node in ast.walk(function):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _CHANGING:
                reason = reason or f"line {node.lineno} changes it by `{node.func.attr}`"
            if not isinstance(node, ast.Name) or node.id != root:
                continue
            stores += not isinstance(node.ctx, ast.Load)
            top: ast.AST = node
            while isinstance(around[id(top)], ast.Attribute):
                top = around[id(top)]
            names, parent = _attributes(top, root), around[id(top)]  # type: ignore[arg-type]
            is_read = names not in sections or isinstance(getattr(top, "ctx", None), ast.Store)
            if isinstance(parent, ast.Call) and parent.func is top:
                is_read = names[-1:] and names[-1] in _HARMLESS
            if not (is_read or isinstance(parent, ast.Return) or isinstance(node.ctx, ast.Store)):
                reason = reason or f"`{root}` is bound more than once, or handed to other code, which may change it"
        if stores > 1:
            reason = reason or f"`{root}` is bound more than once, or handed to other code, which may change it"
        lines = Counter(names[-1] for names, _, _ in sets)
        stored = Counter(names[-1] for names, _, at in sets if isinstance(at, ast.Assign))
        for names, value, at in sets:
            level: object = tree
            for key in names[:-1]:
                level = level.setdefault(key, {}) if isinstance(level, dict) else None
            if isinstance(level, dict) and isinstance(level.get(names[-1]), dict):
                reason = reason or f"`{'.'.join(names)}` is set over another value"
            elif not isinstance(level, dict) and any(names[:length] in literal for length in range(len(names))):
                reason = reason or f"`{'.'.join(names)}` is set inside another value"
            if isinstance(level, dict):
                is_empty = isinstance(value, ast.Call) and _is_config_dict(value) and not (value.args or value.keywords)
                level.setdefault(names[-1], {} if is_empty else (value, at))

        def section(level: Mapping[str, object], path: str) -> Section:
            entries: dict[str, Node] = {}
            for key, below in level.items():
                place = join(path, key)
                if isinstance(below, dict):
                    entries[key] = section(below, place)
                elif isinstance(below, tuple):
                    value, at = below
                    # Its own statement is one store of this name; keywords and dictionaries are none.
                    twice = lines[key] > 1 or len(self.stores.get(key, ())) > stored[key]
                    twice = twice or len(self.given[key]) > lines[key] - stored[key]
                    problem = f"`{key}` is set more than once in the file" if twice else ""
                    entries[key] = self._default(place, value, at, (reason, problem, self.binding))
                    self.defaults[place] = (f"--config.{place.partition('.')[2]}",)
            return self._section(entries, function, path)

        return section(tree, path)


class _Flag(NamedTuple):
    """A flag as the file defines it."""

    name: str
    options: tuple[str, ...]  # "--sigma", "-s"
    value: ast.expr | None  # its default
    kind: ast.expr | None  # what converts a default that is a text
    at: ast.AST
    problems: tuple[str, ...]  # that forbid to read it
    mentions: int  # how often its definition has each option as a text


def _rounded(is_whole: bool, given: Mapping[str, ast.expr | None]) -> bool:
    """Return True if an option of whole numbers cuts its default."""
    value = given.get("default")
    return is_whole and isinstance(value, ast.Constant) and isinstance(value.value, float) and value.value % 1 != 0


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


def _fields(node: ast.ClassDef) -> Iterator[tuple[ast.stmt, str]]:
    """Yield each binding of a name directly in the body of a class, or below a condition there."""
    waiting: list[tuple[ast.AST, ast.stmt]] = [(x, x) for x in reversed(node.body)]
    while waiting:
        each, top = waiting.pop()
        match each:
            case ast.Name(id=name, ctx=ast.Store() | ast.Del()):
                yield top, name
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield top, name
            case ast.alias(name=name, asname=other):
                yield top, other or name
            case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
                yield top, name
                waiting += [(x, top) for x in ast.iter_child_nodes(each)]
            case _:
                waiting += [(x, top) for x in ast.iter_child_nodes(each)]


def _field_default(statement: ast.stmt) -> ast.expr | None:
    """Return the default of a field of a class: its value, or that of `field(default=...)`."""
    value = getattr(statement, "value", None)
    if isinstance(value, ast.Call) and _last_name(value) in _FIELDS:
        value = _keywords(value).get("default") or next(iter(value.args), None)
    if isinstance(value, ast.Constant) and value.value is ...:  # pydantic: it has none
        return None
    return value if isinstance(value, ast.expr) else None


def _is_config_dict(call: ast.Call) -> bool:
    called = _last_name(call)
    on = call.func.value if isinstance(call.func, ast.Attribute) else None
    return called == "ConfigDict" or (called == "create" and on is not None and _last_name(on) == "config_dict")


def _attributes(node: ast.expr, root: str) -> tuple[str, ...]:
    """Return the names of `root.a.b`; () for other code."""
    names: list[str] = []
    while isinstance(node, ast.Attribute):
        names.append(node.attr)
        node = node.value
    return tuple(reversed(names)) if isinstance(node, ast.Name) and node.id == root else ()
