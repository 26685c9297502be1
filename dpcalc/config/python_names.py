"""The syntax of a Python file: which names there are, what binds each, and every place at which it stands."""

import ast
import builtins
import re
import warnings
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

from dpcalc.config.files import Refusal
from dpcalc.config.source import Mark, Source, shortened

# What may bind a name without naming it: then no name is read.
REBINDING = frozenset({"exec", "eval", "globals", "locals", "vars", "setattr", "__import__", "__builtins__"})
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
MAX_NAMES = 500  # classes, and functions, of a file
# Options in a text: alone, or in a command line.
_OPTIONS = re.compile(r"^--[^= ]+|(?<=[\s\"'])--[\w-]+(?=[= ]+[\"']?[-+.\d])")
_OF_A_TEST = re.compile("(test|val|valid|eval)(_|$)")  # names of data that no gradient is computed from
MAX_TEXT = 10_000  # characters of a text that are searched for them
Function = ast.FunctionDef | ast.AsyncFunctionDef
Scope = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef
Key = tuple[int, str]  # a name, and the id of the scope that binds it; or one of these:
MODULE, ATTRIBUTE = 0, -1  # the module; `x.name` of anything


def words_in(text: str) -> set[str]:
    return set(text.split())


# The plain forms: what is named here changes no default.
ALL_BUILTINS = set(dir(builtins))
# Calls in which a keyword gives the name another value.
MAKING = words_in("Namespace SimpleNamespace dict partial invoke callback update flagsaver")
TELLING = {"help", "usage", "description", "epilog"}  # keywords of texts for people
REPLACING = {"replace", "_replace", "evolve", "model_copy"}
MAKING |= {"set_defaults", "ChainMap", "__init__", *REPLACING}


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
        for name in names_of(node) if not isinstance(getattr(node, "ctx", None), ast.Load) else ():
            lines[name].append(line)
        match node:
            case ast.ImportFrom(names=[ast.alias(name="*")]):
                anything = anything or line
            case ast.Name(id=name, ctx=ast.Load()) if name in REBINDING:
                anything = anything or line
    return lines, anything


def iter_fields(node: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    """Yield the nodes right below a node of syntax, each with the name of its field."""
    for field, value in ast.iter_fields(node):
        for each in value if isinstance(value, list) else [value]:
            if isinstance(each, ast.AST):
                yield field, each


def names_of(node: ast.AST) -> list[str]:
    """Return the names that a node of syntax has itself, or binds."""
    match node:
        case ast.Name(id=name):
            return [name]
        case ast.alias(name=name, asname=other):
            return [other or name.partition(".")[0]]
    found = getattr(node, _BINDING.get(type(node), ""), None)
    return [found] if isinstance(found, str) else found or []


def assignments(body: Iterable[ast.stmt]) -> Iterator[tuple[str, ast.expr | None, ast.stmt]]:
    """Yield (name, value, statement) of each statement `name = value`, `name: type = value` or `name: type`."""
    for statement in body:
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                yield name, value, statement
            case ast.AnnAssign(target=ast.Name(id=name), value=annotated):
                yield name, annotated, statement


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


def last_name(node: ast.AST | None) -> str:
    """Return the last part of a dotted name, also of a call of it; "" for other code."""
    node = node.func if isinstance(node, ast.Call) else node
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def text_in(node: ast.AST | None) -> str | None:
    """Return the text of a string literal; None for anything else."""
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def texts_in(nodes: Iterable[ast.AST]) -> tuple[str, ...]:
    return tuple(text for text in map(text_in, nodes) if text is not None)


def keywords_of(call: ast.AST | None) -> dict[str, ast.expr]:
    """Return the arguments of a call that have a name, "**" for those of a dictionary; {} for other code."""
    return {each.arg or "**": each.value for each in call.keywords} if isinstance(call, ast.Call) else {}


def parameters_of(function: Function | ast.Lambda) -> list[tuple[ast.arg, ast.expr | None]]:
    """Return the named parameters of a function with their defaults."""
    given = function.args
    plain = [*given.posonlyargs, *given.args]
    unset = [None] * (len(plain) - len(given.defaults))
    return list(zip([*plain, *given.kwonlyargs], [*unset, *given.defaults, *given.kw_defaults], strict=True))


def is_within(node: ast.AST, codes: Iterable[ast.AST]) -> bool:
    """Return True if a node lies in one of some pieces of code."""
    at = (node.lineno, node.col_offset)  # type: ignore[attr-defined]
    return any((x.lineno, x.col_offset) <= at < (x.end_lineno, x.end_col_offset) for x in codes)  # type: ignore[attr-defined]


def and_(lines: Iterable[int]) -> str:
    return " and ".join(map(str, lines))


def is_constant(node: ast.AST | None, *values: object) -> bool:
    return isinstance(node, ast.Constant) and node.value in values


def base_of(node: ast.AST) -> str:
    return last_name(getattr(node, "value", None)) if isinstance(getattr(node, "value", None), ast.Name) else ""


def bases_of(node: ast.ClassDef) -> list[str]:
    return [last_name(generic(base)) for base in node.bases]


def generic(node: ast.AST) -> ast.AST:
    return node.value if isinstance(node, ast.Subscript) else node


class Syntax:
    """One pass over a file, which finds every place of each name."""

    def __init__(self, source: Source, tree: ast.Module) -> None:
        self.source, self.tree = source, tree
        self.above: dict[int, ast.AST] = {}  # by the id of a node
        self.key: dict[int, Key] = {}  # of names, and what binds one, by id
        self.uses: dict[Key, list[ast.AST]] = defaultdict(list)
        self.texts: dict[str, list[ast.Constant]] = defaultdict(list)
        self.options: dict[str, list[int]] = defaultdict(list)  # texts such as "--sigma", and their lines
        self.keywords: dict[str, list[ast.keyword]] = defaultdict(list)
        self.arithmetic: dict[str, list[ast.expr]] = defaultdict(list)  # `sigma = args.sigma * 2`
        self.calls: list[ast.Call] = []
        self.functions: list[Function] = []
        self.classes: list[ast.ClassDef] = []
        self.imports: dict[str, str] = {}  # names, and what they stand for: {"field": "dataclasses.field"}
        self.changes: dict[str, str] = {}
        named: list[tuple[ast.AST, str, tuple[Scope, ...]]] = []
        bound: dict[int, set[str]] = defaultdict(set)
        outside: dict[int, set[str]] = defaultdict(set)  # names that a function has as `global`
        waiting: list[tuple[ast.AST, tuple[Scope, ...]]] = [(tree, ())]
        while waiting:
            node, scopes = waiting.pop()
            here = id(scopes[0]) if scopes else MODULE
            for name in names_of(node):
                named.append((node, name, scopes))
                if isinstance(node, ast.Global | ast.Nonlocal):
                    outside[here].add(name)
                elif not isinstance(getattr(node, "ctx", None), ast.Load):
                    bound[here].add(name)
            match node:
                case (
                    ast.keyword(arg=str(name), value=value)
                    | ast.Assign(targets=[ast.Name(id=name) | ast.Attribute(attr=name)], value=value)
                    | ast.NamedExpr(target=ast.Name(id=name), value=value)
                ) if isinstance(value, ast.BinOp | ast.BoolOp | ast.IfExp):
                    others = self.above[id(node)].args if isinstance(node, ast.keyword) else []  # type: ignore[attr-defined]
                    is_of_a_test = any(isinstance(x, ast.Name) and _OF_A_TEST.match(x.id) for x in others[:20])
                    if name in map(last_name, ast.walk(value)) and not is_of_a_test:
                        self.arithmetic[name].append(value)
            match node:
                case ast.Attribute(attr=name):
                    self.uses[ATTRIBUTE, name].append(node)
                case ast.Constant(value=str(text)):
                    self.texts[text].append(node)
                    around = self.above[id(node)]
                    is_told = isinstance(around, ast.Expr) or getattr(around, "arg", "") in TELLING
                    parts = around.values if isinstance(around, ast.JoinedStr) else []
                    after = next((x for before, x in pairwise(parts) if before is node), None)
                    handed = f"--{last_name(getattr(after, 'value', None))}"  # f"--sigma {args.sigma}": the same value
                    for option in _OPTIONS.findall(text[:MAX_TEXT]) if not is_told else ():
                        if option.replace("-", "_") != handed.replace("-", "_") or text.rstrip(" =") != option:
                            self.options[option].append(node.lineno)
                case ast.keyword(arg=str(name)):
                    self.keywords[name].append(node)
                case ast.Call():
                    self.calls.append(node)
                case ast.FunctionDef() | ast.AsyncFunctionDef():
                    self.functions.append(node)
                case ast.ClassDef():
                    self.classes.append(node)
                case ast.alias(name=name, asname=other):
                    module = getattr(self.above[id(node)], "module", "")
                    full = f"{module}.{name}" if module else name if other else name.partition(".")[0]
                    is_same = self.imports.setdefault(names_of(node)[0], full) == full
                    self.imports[names_of(node)[0]] = full if is_same else "?"
            # Decorators, bases, annotations and defaults are code of the scope around a function or class.
            inside, outer = (node, *scopes) if isinstance(node, Scope) else scopes, scopes
            names = words_in("decorator_list bases keywords returns")
            if isinstance(node, ast.arguments | ast.arg):
                outer, names = scopes[1:], words_in("defaults kw_defaults annotation")
            is_outer = isinstance(node, Scope | ast.arguments | ast.arg)
            for field, child in iter_fields(node):
                self.above[id(child)] = node
                waiting.append((child, outer if is_outer and field in names else inside))
        if max(len(self.classes), len(self.functions)) > MAX_NAMES:
            raise Refusal("DPC111", f"has more than {MAX_NAMES} classes or functions", "refer to a smaller file")
        for node, name, scopes in named:
            found = (
                id(scope)
                for at, scope in enumerate(scopes)
                if name in bound[id(scope)] and name not in outside[id(scope)]
                if at == 0 or not isinstance(scope, ast.ClassDef)
            )
            owner = MODULE if isinstance(node, ast.Global | ast.Nonlocal) else next(found, MODULE)
            self.key[id(node)] = owner, name
            self.uses[owner, name].append(node)
        self.bindings = {
            key: [x for x in nodes if not isinstance(getattr(x, "ctx", None), ast.Load)]
            for key, nodes in self.uses.items()
        }
        self.named: dict[str, list[Key]] = defaultdict(list)
        for key in self.uses:
            self.named[key[1]].append(key)
        self.own_keys = {
            key for key, nodes in self.bindings.items() if not all(isinstance(x, ast.alias) for x in nodes)
        }
        self.calls.sort(key=lambda call: (call.lineno, call.col_offset))
        self.class_of: dict[str, list[ast.ClassDef]] = defaultdict(list)
        self.derived: dict[str, list[ast.ClassDef]] = defaultdict(list)  # by the name of a base
        self.class_ids = set(map(id, self.classes))
        # Methods that are called by the name of their class, so that `self` may be anything: `Net.set(args)`.
        # Each `Net.__init__` must have `self` (`Forms._dynamic`).
        names = {each.name for each in self.classes}
        called = (x for x in ast.walk(tree) if isinstance(x, ast.Attribute) and base_of(x) in names)
        self.unbound = {x.attr for x in called} - {"__init__"}
        for each in self.classes:
            self.class_of[each.name].append(each)
            for base in bases_of(each):
                self.derived[base].append(each)
        # Names that the module binds itself, and does not import.
        self.own = {name for key, name in self.uses if key == MODULE and not self._is_imported((key, name))}
        # Functions, and what makes an object of a class, by the name by which they are called.
        self.defined: dict[str, list[Function]] = defaultdict(list)
        for function in self.functions:
            around = self.above[id(function)]
            is_making = function.name == "__init__" and isinstance(around, ast.ClassDef)
            self.defined[around.name if is_making else function.name].append(function)  # type: ignore[attr-defined]

    def _key(self, node: ast.AST) -> Key:
        return (ATTRIBUTE, node.attr) if isinstance(node, ast.Attribute) else self.key[id(node)]

    def _keys(self, target: ast.AST) -> list[Key]:
        """Return the names that an assignment gives: one in the body of a class is an attribute, too."""
        key = self._key(target)
        return [key, (ATTRIBUTE, key[1])] if key[0] in self.class_ids else [key]

    def _bound(self, key: Key) -> list[ast.AST]:
        """Return what binds a name, or assigns an attribute."""
        return self.bindings.get(key, [])

    def _is_imported(self, key: Key) -> bool:
        """Return True for a name that imports bind, or nothing in the file."""
        return key not in self.own_keys

    def _dotted(self, node: ast.AST) -> str:
        """Return the full name of what is imported, or not bound in the file; "" for other code."""
        parts = []
        while isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
        if not isinstance(node, ast.Name) or not self._is_imported(self.key[id(node)]):
            return ""
        return ".".join([self.imports.get(node.id, node.id), *reversed(parts)])

    def _of_import(self, node: ast.AST) -> bool:
        """Return True for what an import brought, or a part of it."""
        while isinstance(node, ast.Attribute):
            node = node.value
        return isinstance(node, ast.Name) and node.id in self.imports and self._is_imported(self.key[id(node)])

    def _called(self, call: ast.AST) -> str:
        """Return the last part of the name of what is called, as its library has it."""
        return (self._dotted(call.func) if isinstance(call, ast.Call) else "").rpartition(".")[2] or last_name(call)

    def _other_form(self, node: ast.AST | None) -> str:
        """Return what stands at a place that may change what a name stands for."""
        if node is None:
            return ""
        code = node
        while isinstance(
            above := self.above.get(id(code)), ast.expr | ast.keyword | ast.alias | ast.Assign | ast.AugAssign
        ):
            code = above
        name = text_in(node) or last_name(node) or next(iter(names_of(node)), "")
        written = shortened(self._written(above if isinstance(above, ast.Import | ast.ImportFrom) else code))
        return f"line {getattr(node, 'lineno', 0)} has `{name}` in `{written}`, which may change it"

    def _changed(self, name: str, left_out: Sequence[ast.AST] = ()) -> str:
        """Return the first place that gives a name another value, but for what is in some code; "" if none does."""
        if name not in self.changes or left_out:
            lines = [x.lineno for x in self.arithmetic[name]]
            lines += [x.lineno for x in self._bound((ATTRIBUTE, name)) if not self._is_self(x.value)]  # type: ignore[attr-defined]
            lines += [x.lineno for x in self.texts.get(name, ()) if not is_within(x, left_out) and self._is_set(x)]
            for each in self.keywords.get(name, ()):
                is_making = not is_within(each, left_out) and self._called(self.above[id(each)]) in MAKING
                if is_making and name != last_name(each.value):
                    lines.append(each.value.lineno)
            said = f"line {min(lines)} gives another `{name}`" if lines else ""
            if left_out:
                return said
            self.changes[name] = said
        return self.changes[name]

    def _is_self(self, on: ast.AST | None) -> bool:
        """Return True for `self` in a method that gets an object of its own class."""
        if not isinstance(on, ast.Name) or on.id != "self":
            return False
        match self._bound(self.key[id(on)]):
            case [ast.arg() as argument]:
                match self.above[id(self.above[id(argument)])]:
                    case ast.FunctionDef(name=name, decorator_list=[]) as method if name not in self.unbound:
                        return isinstance(self.above[id(method)], ast.ClassDef)
        return False

    def _is_set(self, text: ast.Constant, *, merged: bool = False) -> bool:
        """Return True if a text is the key under which another value is set; `merged`: over the keys of another one."""
        match above := self.above[id(text)]:
            case ast.Subscript(ctx=ctx):
                outer = getattr(self.above[id(above)], "ctx", None)  # of `C["s"].value = 2`
                return not isinstance(ctx, ast.Load) or isinstance(outer, ast.Store)
            case ast.Dict(keys=keys, values=values):
                value = next((value for key, value in zip(keys, values, strict=True) if key is text), None)
                is_same = text.value in {last_name(value), text_in(getattr(value, "slice", None))}
                is_over = None in keys or isinstance(self.above[id(above)], ast.BinOp)
                return value is not None and not is_same and (is_over or not merged)
        return False

    def _bound_to(self, node: ast.AST) -> ast.expr | None:
        """Return the value that an assignment gives a name, also one of a tuple; None for other bindings."""
        match above := self.above[id(node)]:
            case ast.Assign(targets=[target], value=value) if target is node:
                return value
            case ast.AnnAssign(value=value):
                return value
            case ast.Tuple(elts=names):
                value = self._bound_to(above)
                is_each = isinstance(value, ast.Tuple) and len(value.elts) == len(names)
                return value.elts[names.index(node)] if is_each else value  # type: ignore[union-attr,arg-type]
        return None

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

    def _twice(self, *keys: Key) -> str:
        lines = sorted(getattr(x, "lineno", 0) for key in keys for x in self._bound(key)[:MAX_NAMES])[:3]
        return f"`{keys[0][1]}` is bound more than once, in lines {and_(lines)}" if len(lines) > 1 else ""
