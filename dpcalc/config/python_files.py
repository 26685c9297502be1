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
import builtins
import re
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from dpcalc.config.files import Refusal, refusal_at
from dpcalc.config.source import Mark, Source, shortened
from dpcalc.config.tree import Document, Items, Node, Scalar, Section, join, nested

WAY_OUT = (
    "write a literal there, or gate the run in a test of your own: `assert epsilon(plan(...)).epsilon <= target` with "
    "`from dpcalc import epsilon, plan`"
)
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
_COOKIE = re.compile(r"[ \t\f]*#.*?coding[:=][ \t]*([-\w.]+)")  # as Python finds it
MAX_BRACES = 10_000  # `ast.parse` needs time quadratic in the expressions of one f-string
MAX_NAMES = 500  # classes, and functions, of a file
MAX_ARGUMENTS = 2_000  # in calls of one name
# Options in a text: alone, or in a command line.
_OPTIONS = re.compile(r"^--[^= ]+|(?<=[\s\"'])--[\w-]+(?=[= ]+[\"']?[-+.\d])")
_OF_A_TEST = re.compile("(test|val|valid|eval)(_|$)")  # names of data that no gradient is computed from
MAX_TEXT = 10_000  # characters of a text that are searched for them
MAX_FAMILY = 20  # classes that inherit from each other
_Function = ast.FunctionDef | ast.AsyncFunctionDef
_Scope = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef
Key = tuple[int, str]  # a name, and the id of the scope that binds it; or one of these:
_MODULE, _ATTRIBUTE = 0, -1  # the module; `x.name` of anything


def _words(text: str) -> set[str]:
    return set(text.split())


# The plain forms: what is named here changes no default.
_ALL_BUILTINS = set(dir(builtins))
_BUILTINS = _ALL_BUILTINS - _words("exec eval globals locals setattr delattr compile __import__ breakpoint")
_DUNDERS = {f"__{name}__" for name in _words(
    "name main file doc version all future author init post_init call len iter next enter exit repr str "
    "dict class del getitem eq ne lt le gt ge hash add sub mul contains bool float int format "
    "version_info copyright license"
)}  # fmt: skip
# What is of Python itself among names with such underscores: of objects, classes, functions and modules.
_SPECIAL = {name for kind in (object, type, dict, type(len), ast.parse, ast) for name in dir(kind) if name[:2] == "__"}
_SPECIAL |= {"__builtins__", "__import__", "__set_name__", "__wrapped__", "__self__", "__func__", "__mro_entries__"}
_FRAMES = _words("f_globals f_locals f_builtins setitem delitem setattr delattr builtins operator")  # these do
_READING = _words(
    "items keys values get copy index count flag_values_dict flags_into_string to_dict main_process_first"
)  # methods
_COPYING = _words("vars dict copy deepcopy EasyDict AttrDict DotDict")  # calls
_PARSER = _words("prog usage description epilog formatter_class add_help allow_abbrev exit_on_error title required")
_PARSER_METHODS = _words("print_help print_usage format_help format_usage error exit")
_GROUPS = {"add_argument_group", "add_mutually_exclusive_group"}
_PARSING = {"parse_args", "parse_known_args", "parse_args_into_dataclasses", "parse_json_file", "parse_yaml_file"}
_ARGV = _words("args argv return_remaining_strings look_for_args_file json_file yaml_file allow_extra_keys")
_OPTION = _words(
    "default type help dest action required choices metavar nargs const name is_flag show_default show_choices "
    "hidden multiple envvar prompt rich_help_panel min max case_sensitive callback lower_bound upper_bound "
    "short_name"
)
_COMMAND = _words("name help epilog short_help no_args_is_help hidden deprecated add_completion context_settings")
_CONTEXT = {"show_default", "help_option_names", "max_content_width", "terminal_width"}
_OF_COMMANDS = _words("command group option argument pass_context pass_obj version_option callback")
_CLASSES = {"dataclass", "define", "frozen", "mutable", "attrs", "s"}  # decorators: dataclasses, flax, chex, attrs
_METHODS = _words("property staticmethod classmethod cached_property abstractmethod override setter")
_FIELDS = {"field", "Field", "ib", "attrib", "HfArg"}
_FIELD = _words("default metadata help aliases description init repr compare kw_only hash title gt ge lt le frozen")
_HARMLESS = _words("lock unlock unlocked ignore_type get items keys values to_dict")  # of a ConfigDict
_LIBRARIES = _words("argparse absl click typer dataclasses attr attrs ml_collections transformers")
# Calls in which a keyword gives the name another value.
_MAKING = _words("Namespace SimpleNamespace dict partial invoke callback update flagsaver")
_TELLING = {"help", "usage", "description", "epilog"}  # keywords of texts for people
_REPLACING = {"replace", "_replace", "evolve", "model_copy"}
_MAKING |= {"set_defaults", "ChainMap", "__init__", *_REPLACING}
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
        for name in _names(node) if not isinstance(getattr(node, "ctx", None), ast.Load) else ():
            lines[name].append(line)
        match node:
            case ast.ImportFrom(names=[ast.alias(name="*")]):
                anything = anything or line
            case ast.Name(id=name, ctx=ast.Load()) if name in REBINDING:
                anything = anything or line
    return lines, anything


def _names(node: ast.AST) -> list[str]:
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


def _last_name(node: ast.AST | None) -> str:
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


def _parameters(function: _Function | ast.Lambda) -> list[tuple[ast.arg, ast.expr | None]]:
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


# A form looks at one place of a name, and returns the names to which it hands on what the name stands for, each with
# the form that holds there; None if it may change it.
_Form = Callable[[ast.AST], "list[tuple[_Form, Key]] | None"]
_Names = list[tuple[_Form, Key]] | None


class _Reader:
    """One pass over a file, which finds every place of each name; then what it states, with what forbids to read it."""

    def __init__(self, source: Source, tree: ast.Module) -> None:
        self.source, self.tree = source, tree
        self.refused: dict[str, Refusal] = {}
        self.defaults: dict[str, tuple[str, ...]] = {}
        self.above: dict[int, ast.AST] = {}  # by the id of a node
        self.key: dict[int, Key] = {}  # of names, and what binds one, by id
        self.uses: dict[Key, list[ast.AST]] = defaultdict(list)
        self.texts: dict[str, list[ast.Constant]] = defaultdict(list)
        self.options: dict[str, list[int]] = defaultdict(list)  # texts such as "--sigma", and their lines
        self.keywords: dict[str, list[ast.keyword]] = defaultdict(list)
        self.arithmetic: dict[str, list[ast.expr]] = defaultdict(list)  # `sigma = args.sigma * 2`
        self.calls: list[ast.Call] = []
        self.functions: list[_Function] = []
        self.classes: list[ast.ClassDef] = []
        self.imports: dict[str, str] = {}  # names, and what they stand for: {"field": "dataclasses.field"}
        self.changes: dict[str, str] = {}
        self.traced: dict[tuple[_Form, tuple[Key, ...]], str] = {}
        named: list[tuple[ast.AST, str, tuple[_Scope, ...]]] = []
        bound: dict[int, set[str]] = defaultdict(set)
        outside: dict[int, set[str]] = defaultdict(set)  # names that a function has as `global`
        waiting: list[tuple[ast.AST, tuple[_Scope, ...]]] = [(tree, ())]
        while waiting:
            node, scopes = waiting.pop()
            here = id(scopes[0]) if scopes else _MODULE
            for name in _names(node):
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
                    others = ast.walk(self.above[id(node)]) if isinstance(node, ast.keyword) else ()
                    is_of_a_test = any(isinstance(x, ast.Name) and _OF_A_TEST.match(x.id) for x in others)
                    if name in map(_last_name, ast.walk(value)) and not is_of_a_test:
                        self.arithmetic[name].append(value)
            match node:
                case ast.Attribute(attr=name):
                    self.uses[_ATTRIBUTE, name].append(node)
                case ast.Constant(value=str(text)):
                    self.texts[text].append(node)
                    around = self.above[id(node)]
                    is_told = isinstance(around, ast.Expr) or getattr(around, "arg", "") in _TELLING
                    parts = around.values if isinstance(around, ast.JoinedStr) else []
                    after = next((x for before, x in pairwise(parts) if before is node), None)
                    handed = f"--{_last_name(getattr(after, 'value', None))}"  # f"--sigma {args.sigma}": the same value
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
                    is_same = self.imports.setdefault(_names(node)[0], full) == full
                    self.imports[_names(node)[0]] = full if is_same else "?"
            inside = (node, *scopes) if isinstance(node, _Scope) else scopes
            outer = {id(x) for x in (*getattr(node, "decorator_list", ()), *getattr(node, "bases", ()))}
            for child in ast.iter_child_nodes(node):
                self.above[id(child)] = node
                waiting.append((child, scopes if id(child) in outer else inside))
        if max(len(self.classes), len(self.functions)) > MAX_NAMES:
            raise Refusal("DPC111", f"has more than {MAX_NAMES} classes or functions", "refer to a smaller file")
        for node, name, scopes in named:
            found = (
                id(scope)
                for at, scope in enumerate(scopes)
                if name in bound[id(scope)] - outside[id(scope)] and (at == 0 or not isinstance(scope, ast.ClassDef))
            )
            key = _MODULE if isinstance(node, ast.Global | ast.Nonlocal) else next(found, _MODULE)
            self.key[id(node)] = key, name
            self.uses[key, name].append(node)
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
        for each in self.classes:
            self.class_of[each.name].append(each)
            for base in _bases(each):
                self.derived[base].append(each)
        # Names that the module binds itself, and does not import.
        self.own = {name for key, name in self.uses if key == _MODULE and not self._is_imported((key, name))}
        # Functions, and what makes an object of a class, by the name by which they are called.
        self.defined: dict[str, list[_Function]] = defaultdict(list)
        for function in self.functions:
            around = self.above[id(function)]
            is_making = function.name == "__init__" and isinstance(around, ast.ClassDef)
            self.defined[around.name if is_making else function.name].append(function)  # type: ignore[attr-defined]
        self.dynamic = next(filter(None, map(self._dynamic, ast.walk(tree))), "")

    # Names.

    def _key(self, node: ast.AST) -> Key:
        return (_ATTRIBUTE, node.attr) if isinstance(node, ast.Attribute) else self.key[id(node)]

    def _keys(self, target: ast.AST) -> list[Key]:
        """Return the names that an assignment gives: one in the body of a class is an attribute, too."""
        key = self._key(target)
        return [key, (_ATTRIBUTE, key[1])] if key[0] in self.class_ids else [key]

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
        return (self._dotted(call.func) if isinstance(call, ast.Call) else "").rpartition(".")[2] or _last_name(call)

    def _dynamic(self, node: ast.AST) -> str:
        """Return what in a node may bind a name that is not written there; "" for nothing."""
        name = ""
        match node:
            case ast.ImportFrom(names=[ast.alias(name="*")]):
                binding = ast.Assign | ast.AnnAssign | ast.ClassDef | ast.FunctionDef
                is_first = node.lineno < min((x.lineno for x in self.tree.body if isinstance(x, binding)), default=0)
                name = "" if is_first else "import *"
            case ast.Call(func=ast.Name(id="vars"), args=[]) | ast.Call(func=ast.Call(func=ast.Name(id="type"))):
                name = self._written(node)
            case ast.Call(func=ast.Name(id="type"), args=[_, _, *_]):
                name = self._written(node)
            case ast.Call(func=ast.Call(func=ast.Name(id="getattr"), args=[on, which, *_])) if _text(which) is None:
                name = "" if self._of_import(on) else self._written(node)
            case ast.Attribute(attr="__dict__", value=on) if self._of_import(on):
                pass
            case ast.Attribute(attr="__dict__") | ast.Call(func=ast.Name(id="vars")):
                names = self._flow(node, self._read)
                name = self._written(node) if names is None or self._traced(names) else ""
            case ast.Attribute(ctx=ast.Store(), value=on) if self._dotted(on).split(".")[0] in _LIBRARIES:
                name = f"{self._written(node)} ="
            case ast.Name(id=found) if found in _ALL_BUILTINS - _BUILTINS and not self._bound(self.key[id(node)]):
                name = found
            case (
                ast.Name(id=found)
                | ast.Attribute(attr=found)
                | ast.alias(name=found)
                | ast.FunctionDef(name=found)
                | ast.Constant(value=str(found))
            ):
                is_special = found in _SPECIAL or (found[:2] == "__" and isinstance(node, ast.FunctionDef))
                name = found if (is_special and found not in _DUNDERS) or found in _FRAMES else ""
        return f"line {getattr(node, 'lineno', 0)} has `{shortened(name)}`, which may bind any name" if name else ""

    def _strange(self, form: _Form, *keys: Key) -> str:
        """Return the first place of names, or of what they are handed to, that has none of the forms; "" for none."""
        if (form, keys) not in self.traced:
            self.traced[form, keys] = self._traced([(form, key) for key in keys])
        return self.traced[form, keys]

    def _traced(self, waiting: list[tuple[_Form, Key]]) -> str:
        seen, found = set(), []
        while waiting:
            each = waiting.pop()
            if each not in seen:
                seen.add(each)
                for node in self.uses.get(each[1], ()):
                    more = each[0](node)
                    waiting += more or ()
                    found += [node] if more is None else []
        return self._other_form(min(found, key=lambda x: getattr(x, "lineno", 0), default=None))

    def _other_form(self, node: ast.AST | None) -> str:
        """Return what stands at a place that may change what a name stands for."""
        if node is None:
            return ""
        code = node
        while isinstance(
            above := self.above.get(id(code)), ast.expr | ast.keyword | ast.alias | ast.Assign | ast.AugAssign
        ):
            code = above
        name = _text(node) or _last_name(node) or next(iter(_names(node)), "")
        written = shortened(self._written(above if isinstance(above, ast.Import | ast.ImportFrom) else code))
        return f"line {getattr(node, 'lineno', 0)} has `{name}` in `{written}`, which may change it"

    def _changed(self, name: str, left_out: frozenset[int] = frozenset()) -> str:
        """Return the first place that gives a name another value, but for the code of these ids; "" if none does."""
        if name not in self.changes or left_out:
            lines = [x.lineno for x in self.arithmetic[name]]
            lines += [x.lineno for x in self._bound((_ATTRIBUTE, name)) if _base(x) != "self"]  # type: ignore[attr-defined]
            lines += [x.lineno for x in self.texts.get(name, ()) if id(x) not in left_out and self._is_set(x)]
            for each in self.keywords.get(name, ()):
                is_making = id(each) not in left_out and self._called(self.above[id(each)]) in _MAKING
                if is_making and name != _last_name(each.value):
                    lines.append(each.value.lineno)
            said = f"line {min(lines)} gives another `{name}`" if lines else ""
            if left_out:
                return said
            self.changes[name] = said
        return self.changes[name]

    def _is_set(self, text: ast.Constant, *, merged: bool = False) -> bool:
        """Return True if a text is the key under which another value is set; `merged`: over the keys of another one."""
        match above := self.above[id(text)]:
            case ast.Subscript(ctx=ctx):
                outer = self.above[id(above)]
                is_parsed = isinstance(outer, ast.Attribute) and (
                    isinstance(outer.ctx, ast.Store) or outer.attr == "parse"
                )
                return is_parsed or not isinstance(ctx, ast.Load)
            case ast.Dict(keys=keys, values=values):
                value = next((value for key, value in zip(keys, values, strict=True) if key is text), None)
                is_same = text.value in {_last_name(value), _text(getattr(value, "slice", None))}
                is_over = None in keys or isinstance(self.above[id(above)], ast.BinOp)
                return value is not None and not is_same and (is_over or not merged)
        return False

    # Forms: what a place at which a name stands may be, so that nothing is changed there.

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

    def _around(self, argument: ast.AST) -> _Function | ast.Lambda:
        return self.above[id(self.above[id(argument)])]  # type: ignore[return-value]

    def _is_unset(self, argument: ast.arg) -> bool:
        """Return True for a parameter without a default, or with None."""
        return all(
            x is None or _is_constant(x, None) for each, x in _parameters(self._around(argument)) if each is argument
        )

    def _function_of(self, node: ast.AST) -> list[Key]:
        """Return the names by which the function around a `return` is called."""
        while not isinstance(node, _Function | ast.Module):
            node = self.above[id(node)]
        return [self.key[id(node)], (_ATTRIBUTE, node.name)] if isinstance(node, _Function) else []

    def _handed(self, call: ast.Call, node: ast.AST) -> list[Key] | None:
        """Return the parameters that an argument of a call becomes in the file: [] if the function is of elsewhere."""
        name, found = _last_name(call), []
        if not isinstance(call.func, ast.Name | ast.Attribute):
            return None
        if isinstance(call.func, ast.Name) and name not in self.defined and name not in self.class_of:
            is_known = name in _BUILTINS or name in self.imports
            return [] if is_known and self._is_imported(self.key[id(call.func)]) else None
        for function in self.defined.get(name, ()):
            given = function.args
            is_method = isinstance(self.above[id(function)], ast.ClassDef)
            is_bound = is_method and "staticmethod" not in map(_last_name, function.decorator_list)
            names = [*given.posonlyargs, *given.args][is_bound:]
            if isinstance(node, ast.keyword):
                names = [each for each, _ in _parameters(function) if each.arg == node.arg]
            else:
                names = names[call.args.index(node) :]  # type: ignore[arg-type]
            if not names or any(isinstance(each, ast.Starred) for each in call.args):
                return None
            found.append(self.key[id(names[0])])
        return found

    def _flow(self, expr: ast.AST, form: _Form) -> _Names:
        """Return to which names code hands an object that is read, or changed by names that are written; else None."""
        above = self.above[id(expr)]
        is_strict, is_whole = form in {self._of_constant, self._of_part}, form == self._read
        keys: list[Key] | None = None
        match above:
            case ast.Attribute(attr=attr):
                call = self.above[id(above)]
                if isinstance(call, ast.Call) and call.func is above:
                    is_asking = attr.startswith("get_") and not (call.args or call.keywords)
                    return None if attr not in _READING and not is_asking else self._part(call) if is_strict else []
                return [] if isinstance(above.ctx, ast.Load) or not is_strict else None
            case ast.Subscript(value=value, ctx=ctx) if value is expr:
                if isinstance(ctx, ast.Load):
                    return self._part(above) if is_strict else []
                return [] if _text(above.slice) is not None and not is_strict else None
            case ast.Call(args=args) if expr in args:
                keys = self._handed(above, expr)
                if keys == [] and _last_name(above) in _COPYING:
                    return self._flow(above, form)
            case ast.keyword(arg=str()):
                call = self.above[id(above)]
                keys = self._handed(call, above) if isinstance(call, ast.Call) else None
            case ast.Return():
                keys = self._function_of(above)
            case ast.Assign(targets=[ast.Name() | ast.Attribute() as target]) | ast.AnnAssign(target=target):
                keys = self._keys(target)
            case ast.Assign(targets=[ast.Tuple(elts=targets)]):
                is_plain = all(isinstance(each, ast.Name | ast.Attribute) for each in targets)
                keys = [key for each in targets for key in self._keys(each)] if is_plain else None
            case ast.For(iter=each) | ast.comprehension(iter=each) | ast.IfExp(test=each):
                return [] if each is expr else None
            case ast.Dict(keys=names):
                return [] if is_whole or all(each is None for each in names) else None
            case ast.Tuple() | ast.List():
                return [] if is_whole else None
            case (
                ast.BinOp(op=ast.Mod())
                | ast.FormattedValue()
                | ast.Compare()
                | ast.Expr()
                | ast.Delete()
                | ast.Starred()
            ):
                return []
            case ast.If() | ast.While() | ast.Assert() | ast.UnaryOp() | ast.keyword():
                return []
        return None if keys is None else [(form, key) for key in keys]

    def _part(self, expr: ast.AST) -> _Names:
        """Return to which names code hands a part of a list or dictionary; None if it changes it."""
        above = self.above[id(expr)]
        is_handed = isinstance(
            above, ast.Attribute | ast.Subscript | ast.Assign | ast.AnnAssign | ast.Return | ast.Call
        )
        return self._flow(expr, self._of_part) if is_handed or isinstance(above, ast.keyword) else []

    def _of_part(self, node: ast.AST) -> _Names:
        is_read = isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Load)
        return self._part(node) if is_read else []

    def _of_constant(self, node: ast.AST) -> _Names:
        """Form of a list or dictionary: nothing in it is set, and other names of it are of this form, too."""
        is_read = isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Load)
        return self._flow(node, self._of_constant) if is_read else []

    def _place(self, node: ast.AST, form: _Form, makes: Callable[[ast.Call], _Names]) -> tuple[ast.AST | None, _Names]:
        """Return (code, None) where a name is read, code being what it is or returns; else (None, names or None)."""
        match node:
            case ast.arg():
                return None, [] if self._is_unset(node) else None
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                returned = [
                    x.value for x in ast.walk(node) if isinstance(x, ast.Return) and not _is_constant(x.value, None)
                ]
                each = [self._made(value, form, makes) for value in returned if value]
                return None, None if None in each else [name for names in each for name in names or ()]
            case ast.Name(ctx=ast.Load()) | ast.Attribute(ctx=ast.Load()):
                above = self.above[id(node)]
                is_called = isinstance(above, ast.Call) and above.func is node and _last_name(node) in self.defined
                return above if is_called else node, None
            case ast.Name(ctx=ast.Store()) | ast.Attribute(ctx=ast.Store()):
                value = self._bound_to(node)
                return None, [] if isinstance(value, ast.Tuple | ast.List) else self._made(value, form, makes)
        return None, [] if isinstance(node, ast.Name) else None  # `del args`

    def _made(self, value: ast.expr | None, form: _Form, makes: Callable[[ast.Call], _Names]) -> _Names:
        """Return the names that a value of this form depends on; None if it is of another one."""
        match value:
            case ast.Name() | ast.Attribute() if self._bound(self._key(value)):
                return [(form, self._key(value))]
            case ast.Tuple(elts=[first, *_]):
                return self._made(first, form, makes)
            case ast.Call() if (found := makes(value)) is not None:
                return found
            case ast.Call(args=[first]) if _last_name(value) in _COPYING or (
                form == self._of_parser and self._dotted(value.func)
            ):
                return self._made(first, form, makes)
            case ast.Call(func=ast.Name() | ast.Attribute() as function) if _last_name(function) in self.defined:
                return [(form, self._key(function))]
        return None

    def _read(self, node: ast.AST) -> _Names:
        """Form of the object of parsed flags, and of what is made of it."""
        code, names = self._place(node, self._read, lambda call: [] if _last_name(call) in _PARSING else None)
        return self._flow(code, self._read) if code else names

    def _of_parser(self, node: ast.AST) -> _Names:
        """Form of a parser of argparse, or HfArgumentParser."""
        code, names = self._place(node, self._of_parser, self._makes_parser)
        return self._parser_at(code) if code else names

    def _makes_parser(self, call: ast.Call) -> _Names:
        name, given = _last_name(call), _keywords(call)
        names: list[tuple[_Form, Key]] = []
        if name in _GROUPS and isinstance(call.func, ast.Attribute):
            on = call.func.value
            names = [(self._of_parser, self._key(on))] if isinstance(on, ast.Name | ast.Attribute) else []
        elif self._dotted(call.func).split(".")[0] not in {"argparse", "transformers", name}:
            return None
        elif (
            name not in {"ArgumentParser", "HfArgumentParser"}
            or len(call.args) > 4
            or any(isinstance(x, ast.Starred) for x in call.args)
        ):  # the fifth one is other parsers
            return None
        return names if given.keys() <= _PARSER | {"dataclass_types"} else None

    def _parser_at(self, code: ast.AST) -> _Names:
        above = self.above[id(code)]
        keys: list[Key] | None = None
        match above, self.above.get(id(above)):
            case ast.Attribute(attr="add_argument"), ast.Call() as call:
                dest, is_whole = _keywords(call).get("dest"), "**" not in _keywords(call)
                is_whole = is_whole and len(_texts(call.args)) == len(call.args) and bool(call.args or dest)
                is_whole = is_whole and (dest is None or _text(dest) is not None)
                return [] if is_whole and isinstance(self.above[id(call)], ast.Expr) else None
            case ast.Attribute(attr=method), ast.Call(func=func) as call if func is above:
                if method in _PARSING:
                    words, flow = self._argv(call), self._flow(call, self._read)
                    return None if words is None or flow is None else [*words, *flow]
                if method in _GROUPS and self._makes_parser(call) is not None:
                    return self._parser_at(call)
                return [] if method in _PARSER_METHODS else None
            case ast.Call(args=args) as call, _ if code in args:
                keys = self._handed(call, code)
                return (
                    self._parser_at(call)
                    if keys == []
                    else None
                    if keys is None
                    else [(self._of_parser, key) for key in keys]
                )
            case ast.Return(), _:
                keys = self._function_of(above)
            case ast.Assign(targets=[ast.Name() | ast.Attribute() as target]), _:
                keys = self._keys(target)
            case ast.Expr(), _:
                keys = []
        return None if keys is None else [(self._of_parser, key) for key in keys]

    def _argv(self, call: ast.Call) -> _Names:
        """Return the functions whose parameter a call parses; None if it parses other words than the launch."""
        names: list[tuple[_Form, Key]] = []
        for each in (*call.args, *_keywords(call).values()):
            bindings = self._bound(self.key[id(each)]) if isinstance(each, ast.Name) else []
            match bindings:
                case [ast.arg() as argument] if self._is_unset(argument):
                    function = self._around(argument)
                    names += [(self._of_main, self._key(function))] if isinstance(function, _Function) else []
                case _ if not (self._is_argv(each) or _is_constant(each, None, True, False)):
                    return None
        return names if _keywords(call).keys() <= _ARGV else None

    def _is_argv(self, node: ast.AST) -> bool:
        """Return True for `sys.argv`, also a part of it, or the path of a file that it names."""
        while isinstance(node, ast.Subscript | ast.Call):
            if isinstance(node, ast.Call) and (self._dotted(node.func) != "os.path.abspath" or len(node.args) != 1):
                return False
            node = node.value if isinstance(node, ast.Subscript) else node.args[0]
        return self._dotted(node) == "sys.argv"

    def _of_argv(self, node: ast.AST) -> _Names:
        """Form of `sys.argv`."""
        is_read = isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load)
        return self._flow(node, self._read) if is_read else None

    def _of_main(self, node: ast.AST) -> _Names:
        """Form of a command, or a function that gets the words of a launch: called without values of its own."""
        match self.above[id(node)]:
            case _ if isinstance(node, _Function):
                return []
            case ast.Call(func=func, args=args) as call if func is node:
                return [] if all(map(self._is_argv, args)) and _keywords(call).keys() <= {"standalone_mode"} else None
            case ast.Call(args=[only], keywords=[]) as call if only is node:
                return [] if _last_name(call) in {"run", "add_command"} else None
            case ast.Attribute(attr="command" | "group", value=on) if on is node:
                return []
        return None

    def _of_app(self, node: ast.AST) -> _Names:
        """Form of a group of commands."""
        match self.above[id(node)]:
            case _ if isinstance(node, _Function):
                made = [x for x in node.decorator_list if isinstance(x, ast.Call)]
                return [] if all(map(self._is_command, made)) else None
            case _ if not isinstance(node, ast.Name):
                return [] if isinstance(node, ast.alias) else None
            case ast.Assign(value=ast.Call(args=[]) as call) if not isinstance(node.ctx, ast.Load):
                return [] if _last_name(call) in {"Typer", "Group"} and self._is_command(call) else None
            case ast.Attribute(attr="command" | "callback" | "add_typer" | "add_command" | "group"):
                return []
            case ast.Call(func=func, args=[], keywords=[]) if func is node:
                return []
        return None

    def _is_command(self, call: ast.AST) -> bool:
        """Return True if a call that makes a command, or a group, takes no values from elsewhere."""
        context = _keywords(call).get("context_settings", ast.Dict(keys=[], values=[]))
        is_plain = isinstance(context, ast.Dict) and {_text(key) for key in context.keys if key} <= _CONTEXT
        return is_plain and None not in context.keys and _keywords(call).keys() <= _COMMAND  # type: ignore[attr-defined]

    def _of_flags(self, node: ast.AST) -> _Names:
        """Form of absl's module `flags`, of `FLAGS`, and of what DEFINE_float and the like return."""
        above = self.above[id(node)]
        match node, above, self.above.get(id(above)):
            case ast.alias(), _, _:
                return [] if self.imports[_names(node)[0]].split(".")[0] in {"absl", "tensorflow"} else None
            case ast.arg(), _, _:
                return [] if self._is_unset(node) else None
            case ((ast.Name() | ast.Attribute()), ast.Assign(value=value), _) if not isinstance(node.ctx, ast.Load):
                return (
                    [] if _last_name(value) in {"flags", "FLAGS"} or _last_name(value).startswith("DEFINE_") else None
                )
            case _, ast.Attribute(attr="FLAGS"), _:
                return self._of_flags(above)
            case _, ast.Attribute(attr=attr), ast.Call(func=func) as call if func is above:
                if not attr.startswith("DEFINE_") or attr == "DEFINE_alias" or "**" in _keywords(call):
                    return [] if attr in _READING else None
                name = _keywords(call).get("name") or next(iter(call.args), None)
                is_plain = _text(name) is not None or "config" in attr
                outer = self.above[id(call)]
                found = [] if isinstance(outer, ast.Expr) else self._flow(call, self._of_flags)
                return found if is_plain and isinstance(outer, ast.Expr | ast.Assign | ast.AnnAssign) else None
            case _, ast.Call(func=func) as call, _ if func is node:
                return self._argv(call)
            case _, ast.Subscript(), outer:
                return (
                    []
                    if isinstance(outer, ast.Attribute)
                    and isinstance(outer.ctx, ast.Load)
                    and outer.attr in {"value", "default"}
                    else None
                )
        is_read = isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Load)
        return self._flow(node, self._of_flags) if is_read else None

    def _of_class(self, node: ast.AST) -> _Names:
        """Form of a class: made without values of its own, named in types, and given to HfArgumentParser."""
        above = self.above[id(node)]
        match above, self.above.get(id(above)):
            case _ if not isinstance(node, ast.Name | ast.Attribute):
                return [] if isinstance(node, ast.ClassDef) else None
            case _ if isinstance(node, ast.Attribute) and self._dotted(node):
                return []
            case ast.Call(func=func, args=args), _ if func is node:
                return None if args else []
            case ast.Call(func=ast.Name(id="isinstance" | "super" | "issubclass")), _ if above.func is not node:
                return []
            case ast.MatchClass(), _:
                return []
            case ast.Attribute(ctx=ast.Load()), ast.Call(func=func, args=args, keywords=keywords) if func is above:
                return None if args or keywords else []
            case ast.Attribute(ctx=ast.Load()), _:
                return []
        while isinstance(above, ast.Tuple | ast.List | ast.Subscript | ast.BinOp | ast.keyword):
            node, above = above, self.above[id(above)]
        if isinstance(above, ast.Call):
            is_parser = _last_name(above) == "HfArgumentParser" and self._makes_parser(above) is not None
            return self._parser_at(above) if is_parser else None
        places = [getattr(above, "annotation", None), getattr(above, "returns", None), *getattr(above, "bases", ())]
        return [] if node in places else None

    # What the file states.

    def document(self) -> Document:
        """Return all that the file states."""
        entries: dict[str, Node] = {}
        for node in self.tree.body:
            if isinstance(node, ast.ClassDef):
                entries[node.name] = self._section(node.name, self._fields(node))
            elif isinstance(node, _Function) and (found := self._config(node)) is not None:
                entries[node.name] = self._section(node.name, found)
        entries |= self._section("", self._constants()).entries
        flags = self._section("flags", self._flags())
        for name, section in (("flags", flags), ("calls", self._section("calls", self._calls()))):
            if section.entries:
                if name in entries:
                    self.refused[name] = self._refusal(self.tree, f"`{name}` is a name of the file, too", "")
                entries[name] = section
        whole = Section(entries=entries, mark=self._mark(self.tree), key=None, path="")
        return Document(whole, self.refused, self.defaults)

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
            case ast.Call(func=ast.Name(id="dict"), args=[]) if depth < 20 and "dict" not in self.own | set(
                self.imports
            ):
                given = _keywords(node)
                written = ast.Dict(
                    keys=[ast.Constant(key) if key != "**" else None for key in given], values=[*given.values()]
                )
                return self._literal(ast.copy_location(written, node), path, depth=depth)
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

    def _twice(self, *keys: Key) -> str:
        lines = sorted(getattr(x, "lineno", 0) for key in keys for x in self._bound(key)[:MAX_NAMES])[:3]
        return f"`{keys[0][1]}` is bound more than once, in lines {_and(lines)}" if len(lines) > 1 else ""

    def _constants(self) -> Iterator[_Stated]:
        """Yield the names that are bound at the top of the module."""
        for name, value, at in assignments(self.tree.body):
            if value is not None:
                key = _MODULE, name
                problems = [self._twice(key), *map(self._other_form, self._bound((_ATTRIBUTE, name))), self.dynamic]
                if not isinstance(value, ast.Constant | ast.UnaryOp):
                    problems.append(self._strange(self._of_constant, key))
                    keys = [x for x in ast.walk(value) if _text(x) and isinstance(self.above[id(x)], ast.Dict)]
                    again = (x for key in keys[:MAX_NAMES] for x in self.texts[key.value])  # type: ignore[attr-defined]
                    problems += [self._other_form(x) for x in again if self._is_set(x, merged=True)]
                yield _Stated((name,), value, at, problems)

    def _fields(self, node: ast.ClassDef) -> Iterator[_Stated]:
        """Yield the fields of a class with their defaults."""
        below = _grown([node], lambda each: self.derived[each.name])
        bases = _grown([node], lambda each: [x for base in _bases(each) for x in self.class_of[base]])[1:]
        family = _grown([*below, *bases], lambda each: [x for base in _bases(each) for x in self.class_of[base]])
        if len(family) > MAX_FAMILY:
            self.refused[node.name] = self._refusal(node, f"more than {MAX_FAMILY} classes of the file belong to it")
            return
        keys = [key for x in family for key in (self.key[id(x)], (_ATTRIBUTE, x.name))]
        general = [self.dynamic, self._twice(self.key[id(node)]), self._strange(self._of_class, *keys)]
        inside = [x for each in family for x in ast.walk(each)]
        odd: list[ast.AST] = [x for each in family for x in (*each.keywords, *each.bases) if not self._is_plain_base(x)]
        for each in inside:
            plain = (_CLASSES if isinstance(each, ast.ClassDef) else _METHODS) - self.own
            odd += [x for x in getattr(each, "decorator_list", ()) if _last_name(x) not in plain]
        own_calls = {"cls", "__init__"} if len(family) > 1 else {"cls"}
        own = [x for x in inside if isinstance(x, ast.Call) and _last_name(x.func) in own_calls]
        odd += [x for x in own if x.args]
        for code in odd[:1]:
            words = f"`{shortened(self._written(code))}` of `{node.name}`"
            general.append(f"line {getattr(code, 'lineno', 0)} has {words}, which may change it")
        stored = {x.attr: x for x in inside if isinstance(x, ast.Attribute) and not isinstance(x.ctx, ast.Load)}
        made = {name: x for key in keys for x in self.uses.get(key, ()) for name in _keywords(self.above[id(x)])}
        made |= {name: x.func for x in own for name in _keywords(x)}
        copied = next((x for x in self.calls if self._called(x) in _REPLACING and "**" in _keywords(x)), None)
        for name, value, at in assignments(node.body):
            problems = [*general, self._changed(name)]
            problems.append(self._twice(*((id(each), name) for each in family if each not in bases)))
            problems += map(
                self._other_form, (stored.get(name), made.get(name), made.get("**"), copied and copied.func)
            )
            if isinstance(value, ast.Call) and _last_name(value) in _FIELDS:
                given = {key for key, each in _keywords(value).items() if not _is_constant(each, None)}
                if not given <= _FIELD or _last_name(value) in self.own:
                    problems.append(f"`{shortened(self._written(value))}` is not run")
            yield _Stated((name,), _default_in(value, _FIELDS), at, problems, (f"--{name}",))

    def _is_plain_base(self, base: ast.AST) -> bool:
        """Return True for a class of the file, or one that is imported and reads no environment."""
        name = self._dotted(_generic(base))
        return "Settings" not in name and (bool(name) or _last_name(_generic(base)) in self.class_of)

    def _flags(self) -> Iterator[_Stated]:
        """Yield the options that a launch of the file may give, with their defaults."""
        flags = [*self._defined(), *self._of_commands()]
        times = Counter(flag.keys for flag in flags)
        imported = [
            self._other_form(self.above[id(x)]) for x in self.keywords.get("argv", ()) if not self._is_argv(x.value)
        ]
        imported += [self._other_form(x) for x in self.uses.get((_MODULE, "argv"), ()) if isinstance(x, ast.alias)]
        general = [*imported, self._strange(self._of_argv, (_ATTRIBUTE, "argv")), self.dynamic]
        true = {flag.keys[0] for flag in flags if times[flag.keys] == 1 and _is_constant(flag.value, True)}
        for flag in flags:
            (name,) = flag.keys
            # `sigma = args.sigma if args.dp else None`, with `dp` true by default.
            self.arithmetic[name] = [x for x in self.arithmetic[name] if not self._is_chosen(x, name, true)]
            twice = f"`{name}` is defined more than once" if times[flag.keys] > 1 else ""
            problems = [twice, *flag.problems, self._changed(name), *general]
            # Given again in a text of the file: `subprocess.run(["train.py", "--sigma", "2"])`.
            for option in flag.options or ():
                lines = self.options.get(option, [])
                if len(lines) > flag.mentions:
                    problems.append(f"`{option}` stands in lines {_and(sorted(lines[:3]))}")
            is_kept = _last_name(flag.kind) in {"str", "float", "int"} - self.own
            if _text(flag.value) is not None and flag.kind and not is_kept:
                problems.append(
                    f"its default is converted by `{shortened(self._written(flag.kind))}`, which is not run"
                )
            yield flag._replace(problems=problems)

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
            called, given, texts = _last_name(call), _keywords(call), _texts(call.args)
            if called == "HfArgumentParser":
                words = {x.id for x in ast.walk(call) if isinstance(x, ast.Name)} - {called}
                for node in (node for node in self.classes if node.name in words - given_before):
                    for (name,), field in reversed({x.keys: x for x in reversed([*self._fields(node)])}.items()):
                        yield field._replace(options=tuple({f"--{name}": 0, f"--{name.replace('_', '-')}": 0}))
                given_before |= words
            if not (called == "add_argument" and (texts or "dest" in given)) and not called.startswith("DEFINE_"):
                continue
            on = call.func.value if isinstance(call.func, ast.Attribute) else call.func
            key = self._key(on) if isinstance(on, ast.Name | ast.Attribute) else (_MODULE, "")
            problems = [*_taken_elsewhere(call), self._condition(call)]
            if called == "add_argument":
                if isinstance(on, ast.Call):  # `parser.add_argument_group("privacy").add_argument(...)`
                    problems.append(self._other_form(on.func))
                problems.append(self._strange(self._of_parser, key))
                if texts and not any(text.startswith("-") for text in texts):
                    problems.insert(0, _POSITIONAL.format(texts[0]))
                long = next((text for text in texts if text.startswith("--")), "".join(texts[:1]))
                name = _text(given.get("dest")) or long.lstrip("-").replace("-", "_")
                value, action = given.get("default"), _text(given.get("action"))
                if value is None and action in {"store_true", "store_false"}:
                    value = ast.copy_location(ast.Constant(value=action == "store_false"), call)
                yield _Stated((name,), value, call, problems, texts, given.get("type"), 1)
            else:
                given = dict(zip(("name", "default"), call.args, strict=False)) | given
                problems.append(self._strange(self._of_flags, key, (_MODULE, "FLAGS")))
                name = _text(given.get("name")) or ""
                kind = ast.Name(id="float" if called in {"DEFINE_float", "DEFINE_integer"} else "str")
                if name:
                    yield _Stated((name,), given.get("default"), call, problems, (f"--{name}",), kind)

    def _of_commands(self) -> Iterator[_Stated]:
        """Yield the options of the functions that are commands of click or typer."""
        runs = {x.id for call in self.calls if _last_name(call) == "run" for x in call.args if isinstance(x, ast.Name)}
        for function in self.functions:
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
            if not found:
                continue
            general = [self._condition(function), self._strange(self._of_main, *self._function_of(function))]
            for each in function.decorator_list:
                on = each.func.value if isinstance(each, ast.Call) and isinstance(each.func, ast.Attribute) else None
                if isinstance(on, ast.Name) and not self._dotted(on):
                    general.append(self._strange(self._of_app, self._key(on)))
                is_command = _last_name(each) not in {"command", "group", "callback"} or self._is_command(each)
                if _last_name(each) not in _OF_COMMANDS - self.own or not is_command:
                    general.append(
                        f"`{function.name}` is decorated by `{shortened(self._written(each))}`, which is not run"
                    )
            if function.args.kwarg:  # **options
                general.append(self._strange(self._of_constant, self._key(function.args.kwarg)))
            for flag, described in found:
                bindings = self._bound((id(function), flag.keys[0]))
                problems = [*flag.problems, *_taken_elsewhere(described), *general]
                problems += [self._other_form(x) for x in bindings if not isinstance(x, ast.arg)]
                kind = flag.kind or (flag.at.annotation if isinstance(flag.at, ast.arg) else None)
                if kind and _is_converted(kind, flag.value, is_click=flag.kind is not None):
                    problems.append(f"its default is converted by `{shortened(self._written(kind))}`, which is not run")
                yield flag._replace(problems=problems)

    def _condition(self, node: ast.AST) -> str:
        """Return the first statement around a place on which it depends, in words; "" if there is none."""
        inner: ast.AST = node
        while not isinstance(above := self.above[id(inner)], ast.Module):
            match above:
                case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef() | ast.Expr():
                    pass
                case ast.Assign() | ast.AnnAssign() if inner is node:
                    pass
                case ast.If(
                    test=ast.Compare(
                        left=ast.Name(id="__name__"), ops=[ast.Eq()], comparators=[ast.Constant(value="__main__")]
                    ),
                    orelse=[],
                ):
                    pass
                case ast.If(test=ast.Name() as test) if inner in above.body and _is_constant(self._once(test), True):
                    pass
                case ast.expr():
                    return "it is part of another expression"
                case _:
                    above = self.above[id(above)] if isinstance(above, ast.match_case) else above
                    word = type(above).__name__.lower().removeprefix("async").removesuffix("star")
                    return f"it stands under the `{word}` of line {getattr(above, 'lineno', 0)}"
            inner = above
        return ""

    def _once(self, value: ast.expr) -> ast.expr:
        """Return what a name stands for that is bound once, under no condition; other code as it is."""
        key = self._key(value) if isinstance(value, ast.Name) else (_MODULE, "")
        bound = self._bound(key)
        found = (
            self._bound_to(bound[0])
            if len(bound) == 1 and not isinstance(self.above[id(bound[0])], ast.Tuple)
            else None
        )
        return value if found is None or self._condition(found) or self.dynamic else found

    def _calls(self) -> Iterator[_Stated]:
        """Yield the named arguments of calls, by the name that is called."""
        calls: dict[str, list[ast.Call]] = defaultdict(list)
        for call in self.calls:
            calls[_last_name(call)].append(call)
        for name, same in calls.items():
            given = defaultdict[str, list[tuple[ast.expr, ast.Call]]](list)
            for call in same:
                for key, value in self._arguments(call):
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
                problems = general
                if not any(general):
                    inside = [x for _, call in values for x in ast.walk(call)]
                    told = {x.arg for x in inside if isinstance(x, ast.keyword)} | {*_texts(inside)} | {key}
                    left_out = frozenset(map(id, inside))
                    problems = [self._changed(x, left_out) for x in sorted(filter(None, told))]
                if "**" in given and name != "dict":
                    problems.append(f"not all arguments of `{name}` are written there")
                most = max(len(call.args) for call in same) if name != "dict" else 0
                if most > min(len(call.args) for _, call in values):
                    problems.append(f"another call of `{name}` has arguments without names")
                found = [self._once(value) for value, _ in values]
                if len({ast.dump(x) for x in found}) > 1:
                    lines = sorted({x.lineno for x, _ in values})[:3]
                    problems.append(f"calls of `{name}` give other values of `{key}`, in lines {_and(lines)}")
                for _, call in values:
                    outer: ast.AST = call
                    while isinstance(above := self.above[id(outer)], ast.expr | ast.keyword):
                        if not isinstance(above, ast.Call | ast.keyword | ast.Attribute | ast.Dict):
                            problems.append("it is part of another expression")
                        outer = above
                    problems.append(self._condition(self.above[id(outer)] if isinstance(above, ast.Return) else outer))
                yield _Stated((name, key), found[0], values[0][1], problems, ())

    def _arguments(self, call: ast.Call) -> Iterator[tuple[str, ast.expr]]:
        """Yield the named arguments of a call, also those of one dictionary that it gets: `ConfigDict(dict(a=1))`."""
        match call.args, call.keywords:
            case [ast.Call(func=ast.Name(id="dict"), args=[]) as inner], [] if self._is_config_dict(call):
                yield from _keywords(inner).items()
            case _:
                yield from _keywords(call).items()

    def _is_config_dict(self, value: ast.AST | None) -> bool:
        name = self._dotted(value.func) if isinstance(value, ast.Call) else ""
        return name.endswith(("ConfigDict", "config_dict.create"))

    def _config(self, function: _Function) -> list[_Stated] | None:
        """Return what a function sets on the ConfigDict that it returns; None if it makes and returns none."""
        made = {name: value for name, value, _ in assignments(function.body) if self._is_config_dict(value)}
        returned = [x for x in ast.walk(function) if isinstance(x, ast.Return | ast.Yield | ast.YieldFrom)]
        names = {x.value.id for x in returned if isinstance(x.value, ast.Name)} & made.keys()
        if len(names) != 1:
            return None
        (root,) = names
        call: ast.Call = made[root]  # type: ignore[assignment]
        sets: list[tuple[tuple[str, ...], ast.expr, ast.AST]] = [
            ((name,), value, call) for name, value in _keywords(call).items()
        ]
        problems = [self.dynamic, self._twice(self._key(function)), self._twice((id(function), root))]
        problems += [self._other_form(x) for x in self.uses[self._key(function)] if not isinstance(x, _Function)]
        problems += [self._other_form(x) for x in self.uses.get((_ATTRIBUTE, function.name), ()) if not self._dotted(x)]
        if isinstance(function, ast.AsyncFunctionDef) or returned != function.body[-1:] or function.decorator_list:
            problems.append(f"`{function.name}` is decorated, or returns elsewhere than in its last line")
        match call.args:
            case []:
                pass
            case [ast.Dict(keys=keys, values=values)] if all(_text(key) is not None for key in keys):
                sets += [((str(_text(key)),), value, value) for key, value in zip(keys, values, strict=True)]
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
            if self._is_config_dict(value) and not (getattr(value, "args", 1) or _keywords(value)):
                value = ast.copy_location(ast.Dict(keys=[], values=[]), value)  # noqa: PLW2901
            found.append(_Stated(path, value, at, [*problems, *again], (f"--config.{'.'.join(path)}",)))
        return found


def _and(lines: Iterable[int]) -> str:
    return " and ".join(map(str, lines))


def _converts(flag: _Stated) -> bool:
    """Return True if a default that is a text is converted to a number."""
    return isinstance(flag.kind, ast.Name) and flag.kind.id in {"float", "int"}


def _is_constant(node: ast.AST | None, *values: object) -> bool:
    return isinstance(node, ast.Constant) and node.value in values


def _taken_elsewhere(call: ast.Call | None, of_it: set[str] = _OPTION) -> Iterator[str]:
    """Yield what in the call that describes an option takes its value from elsewhere than its default."""
    given = _keywords(call)
    for key, value in given.items():
        harmless = _ELSEWHERE.get(key, () if key in of_it else (None,))
        if harmless and not _is_constant(value, *harmless):
            is_needed = key in {"required", "prompt"}
            said = (
                f"its `{key}` may give another value" if key != "**" else "not all of its arguments are written there"
            )
            yield "it is required, so that a launch gives it" if is_needed else said
    if call and any(isinstance(each, ast.Starred) for each in call.args):
        yield "not all of its arguments are written there"


def _base(node: ast.AST) -> str:
    return _last_name(getattr(node, "value", None)) if isinstance(getattr(node, "value", None), ast.Name) else ""


def _bases(node: ast.ClassDef) -> list[str]:
    return [_last_name(_generic(base)) for base in node.bases]


def _grown(classes: list[ast.ClassDef], more: Callable[[ast.ClassDef], Iterable[ast.ClassDef]]) -> list[ast.ClassDef]:
    """Return classes with those that are related to them, at least one too many where there are many."""
    for each in classes:
        if len(classes) <= MAX_FAMILY:
            classes += [x for x in more(each) if x not in classes]
    return classes


def _generic(node: ast.AST) -> ast.AST:
    return node.value if isinstance(node, ast.Subscript) else node


def _is_converted(kind: ast.expr, value: ast.expr | None, *, is_click: bool) -> bool:
    """Return True if an option of click or typer makes another number of its default."""
    is_cut = isinstance(value, ast.Constant) and isinstance(value.value, float) and value.value % 1 != 0
    if not is_click:  # the annotation of a parameter of typer
        return is_cut and "int" in map(_last_name, ast.walk(kind))
    name = _last_name(kind)
    return name not in _CLICK_TYPES or "clamp" in _keywords(kind) or (is_cut and name in {"int", "INT", "IntRange"})


def _attributes(node: ast.AST, root: str) -> tuple[str, ...]:
    """Return the names of `root.a.b`; () for other code."""
    names: list[str] = []
    while isinstance(node, ast.Attribute):
        names.append(node.attr)
        node = node.value
    return tuple(reversed(names)) if isinstance(node, ast.Name) and node.id == root else ()
