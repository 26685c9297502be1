"""Frozen data classes whose methods are not compiled when their module is imported.

The standard decorator writes six methods of each class as text and compiles them: for the 200 classes that one command
loads, a fifth of its time. The methods here are shared by all classes and read the fields when they are called.
"""

import dataclasses
import inspect
from collections.abc import Callable, Mapping
from operator import attrgetter
from reprlib import recursive_repr
from typing import TYPE_CHECKING, Any, NamedTuple

__all__ = ["dataclass"]

if TYPE_CHECKING:
    from dataclasses import dataclass
else:

    def dataclass(cls: Any = None, /, *, frozen: bool = False, **options: bool) -> Any:
        """Return a class as `dataclasses.dataclass` makes it; a frozen one without slots gets this module's methods."""
        if cls is None:
            return lambda each: dataclass(each, frozen=frozen, **options)
        if options.get("slots") or not frozen:
            return dataclasses.dataclass(cls, frozen=frozen, **options)
        has_eq, has_repr = options.pop("eq", True), options.pop("repr", True)
        dataclasses.dataclass(cls, init=False, repr=False, eq=False, **options)
        methods = {"__init__": _init, "__setattr__": _setattr, "__delattr__": _delattr}
        methods |= {"__repr__": _repr} if has_repr else {}
        methods |= {"__eq__": _eq} if has_eq else {}
        for name in methods.keys() - cls.__dict__.keys():
            setattr(cls, name, methods[name])
        if has_eq and cls.__dict__.get("__hash__") is None:  # a class with `__eq__` and no `__hash__` has None
            cls.__hash__ = _hash
        cls._record_fields = None
        cls.__signature__ = _Signature()
        return cls


class _Fields(NamedTuple):
    """Fields of one class, sorted out when it is first used."""

    signature: inspect.Signature  # of the constructor; a field with a factory has it as its default
    taken: frozenset[str]  # the arguments of the constructor
    needed: frozenset[str]  # of these, those without a default
    defaults: Mapping[str, Any]
    names: tuple[str, ...]  # the fields that it sets
    factories: Mapping[str, Callable[[], Any]]
    key: Callable[[Any], tuple[Any, ...]]  # returns the values that are compared


def _fields(cls: Any) -> _Fields:
    """Return the fields of a class by their role, and store them in the class."""
    fields, parameters = dataclasses.fields(cls), []
    factories = {each.name: each.default_factory for each in fields if each.default_factory is not dataclasses.MISSING}
    for field in sorted(fields, key=lambda each: bool(each.kw_only)):  # keyword-only ones last
        kind = inspect.Parameter.KEYWORD_ONLY if field.kw_only else inspect.Parameter.POSITIONAL_OR_KEYWORD
        default = factories.get(field.name, field.default)
        default = inspect.Parameter.empty if default is dataclasses.MISSING else default
        if field.init:
            parameters.append(inspect.Parameter(field.name, kind, default=default, annotation=field.type))
    taken = frozenset(parameter.name for parameter in parameters)
    defaults = {
        field.name: field.default for field in fields if field.default is not dataclasses.MISSING and field.init
    }
    compared = [field.name for field in fields if field.compare]
    cls._record_fields = _Fields(
        signature=inspect.Signature(parameters, return_annotation=None),
        taken=taken,
        needed=taken - defaults.keys() - factories.keys(),
        defaults=defaults,
        names=tuple(field.name for field in fields if field.name in taken or field.name in factories),
        factories=factories,
        # an attrgetter of one name returns the value alone, of two or more a tuple
        key=attrgetter(*compared)
        if len(compared) > 1
        else lambda self: tuple(getattr(self, name) for name in compared),
    )
    return cls._record_fields


def _init(self: Any, *args: Any, **values: Any) -> None:
    """Set all fields and run `__post_init__`; TypeError for missing, unknown or repeated arguments."""
    fields = self._record_fields or _fields(type(self))
    # Most calls give all fields by name: then nothing is merged.
    if args or values.keys() != fields.taken or len(fields.taken) < len(fields.names):
        if args or not fields.needed <= values.keys() <= fields.taken:
            try:
                values = fields.signature.bind(*args, **values).arguments
            except TypeError as error:
                raise TypeError(f"{type(self).__qualname__}: {error}") from None
        values = {**fields.defaults, **values}
        for name, factory in fields.factories.items():
            if name not in values:
                values[name] = factory()
    for name in fields.names:
        object.__setattr__(self, name, values[name])
    if (post_init := getattr(self, "__post_init__", None)) is not None:
        post_init()


def _eq(self: Any, other: Any) -> Any:
    """Return True for one class and equal compared fields; NotImplemented for another class."""
    if other.__class__ is not self.__class__:
        return NotImplemented
    fields = self._record_fields or _fields(type(self))
    return fields.key(self) == fields.key(other)


def _hash(self: Any) -> int:
    return hash((self._record_fields or _fields(type(self))).key(self))


@recursive_repr()
def _repr(self: Any) -> str:
    shown = (f"{field.name}={getattr(self, field.name)!r}" for field in dataclasses.fields(self) if field.repr)
    return f"{type(self).__qualname__}({', '.join(shown)})"


def _setattr(self: object, name: str, value: object) -> None:  # noqa: ARG001  likewise
    raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")


def _delattr(self: object, name: str) -> None:  # noqa: ARG001  likewise
    raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")


class _Signature:
    """The signature of the constructor, for `help` and `inspect.signature`."""

    def __get__(self, instance: object, owner: Any) -> inspect.Signature:
        if instance is not None:
            raise AttributeError("__signature__")  # a callable instance has the signature of its `__call__`
        return (owner._record_fields or _fields(owner)).signature
