"""Pickles and torch checkpoints, read as data: no class is looked up, no function called, no module imported.

An interpreter of the opcodes that dictionaries, lists and numbers need. Objects of other classes than OrderedDict stay
`Opaque` if they belong to what a checkpoint holds anyway (tensors, storages, arrays); any other name is refused, since
it has no place in a checkpoint and the pickle module would run it. References to what was read before let a small file
ask for much work and memory: `dpcalc import` reads it in a worker process with limits of both.
"""

import pickletools
import re
import struct
import zipfile
import zlib
from collections.abc import Iterable
from typing import Any, BinaryIO

from dpcalc.errors import InputError
from dpcalc.records import dataclass

MAX_PICKLE = 8 * 2**20
"""Bytes of a pickle. A checkpoint keeps its tensors in other files of the archive and has some 100 bytes for each."""
_MAX_OPCODES = 1_000_000  # a million take 2 to 3 s; a checkpoint has about 50 for each tensor
_MAX_DIRECTORY = 16 * 2**20  # bytes of an archive's list of files, 50 to 100 for each tensor
_TAIL = 2**16 + 100  # bytes in which the end record of an archive lies
# Names that checkpoints hold. Nothing of them is imported or called: they may only be named.
_HARMLESS = re.compile(
    r"collections\.(OrderedDict|defaultdict)"
    r"|torch\.(\w+Storage|Size|device|[a-z]+\d+\w*)"
    r"|torch\.storage\.\w+Storage"
    r"|torch\._utils\._rebuild_\w+|torch\.nn\.parameter\.Parameter|torch\._tensor\._rebuild_from_type_v2"
    r"|numpy(\._?core\.multiarray)?\.(dtype|ndarray|scalar|_reconstruct)"
    r"|_codecs\.encode|(__builtin__|builtins)\.(set|frozenset|bytearray|list|dict|tuple|int|float|bool|str|complex)"
)
_ARCHIVE_ERRORS = zipfile.BadZipFile, zlib.error, struct.error, RuntimeError, OSError, EOFError, KeyError, ValueError
_WAY_OUT = "save the state as JSON instead: json.dump(accountant.state_dict(), file)"
_NUMBERS = {"f8": "<d", "f4": "<f", "i8": "<q", "i4": "<i"}  # numpy's names of the types that a state may have
_CONSTANTS = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False, "EMPTY_TUPLE": ()}


@dataclass(frozen=True, eq=False)
class Opaque:
    """An object or a class of a pickle of which only the name is known."""

    name: str  # of its class, or of itself
    is_class: bool = False  # True for the name itself, False for an object that it would make
    kind: str = ""  # of a numpy type its name, such as "f8"


def checkpoint_value(stream: BinaryIO) -> Any:
    """Return the plain data in a torch checkpoint without running its code; InputError if it is refused."""
    # `zipfile` would read the whole list of files into memory. Its length is in the end record, or that of ZIP64.
    stream.seek(0, 2)
    stream.seek(max(0, stream.tell() - _TAIL))
    tail = stream.read()
    at, at_64 = tail.rfind(b"PK\x05\x06"), tail.rfind(b"PK\x06\x06")
    size = struct.unpack_from("<I", tail, at + 12)[0] if 0 <= at <= len(tail) - 16 else 0
    if size == 2**32 - 1:
        size = struct.unpack_from("<Q", tail, at_64 + 40)[0] if 0 <= at_64 <= len(tail) - 48 else _MAX_DIRECTORY + 1
    if size > _MAX_DIRECTORY:
        raise InputError(f"expected a checkpoint of at most some 100,000 tensors, got a larger one; {_WAY_OUT}")
    stream.seek(0)

    try:
        with zipfile.ZipFile(stream) as archive:
            found = [entry for entry in archive.infolist() if entry.filename.rpartition("/")[2] == "data.pkl"]
            # Other methods unpack whole blocks at once, of which a few bytes can make gigabytes.
            if any(entry.compress_type not in {zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED} for entry in found):
                raise InputError(f"expected data.pkl as torch.save packs it, got another compression; {_WAY_OUT}")
            # One byte more than is allowed: a larger one is noticed, and one that unpacks to terabytes does no harm.
            data = [archive.open(entry).read(MAX_PICKLE + 1) for entry in found[:1]]
    except InputError:
        raise  # it is a ValueError too
    except _ARCHIVE_ERRORS as error:
        raise InputError(f"expected a checkpoint of torch.save, got an archive that cannot be read: {error}") from None
    if len(found) != 1:
        raise InputError("expected a checkpoint of torch.save, got an archive without one data.pkl")
    return pickle_value(data[0])


def pickle_value(data: bytes) -> Any:
    """Return the plain data in a pickle without running its code; InputError if it is refused or malformed."""
    if len(data) > MAX_PICKLE:
        raise InputError(f"expected a pickle of at most {MAX_PICKLE // 2**20} MiB, got a larger one; {_WAY_OUT}")
    try:
        return _unpickled(data)
    except InputError:
        raise
    except (ValueError, TypeError, KeyError, IndexError, AttributeError, OverflowError, struct.error) as error:
        raise InputError(f"expected a pickle, got one that is malformed: {error}") from None


def _unpickled(data: bytes) -> Any:
    """Interpret the opcodes of protocol 2 and later that plain data needs; any exception if it is malformed."""
    stack: list[Any] = []
    marked: list[list[Any]] = []  # what lies below each mark
    memo: dict[int, Any] = {}
    argument: Any
    # The decoder yields one opcode at a time and keeps no stack; it allocates no more than the pickle is long.
    for number, (opcode, argument, _) in enumerate(pickletools.genops(data), start=1):
        if number > _MAX_OPCODES:
            raise InputError(f"expected a pickle of at most {_MAX_OPCODES:,} opcodes, got more; {_WAY_OUT}")
        match opcode.name:
            case "PROTO" | "FRAME" | "STOP":
                pass
            case "NONE" | "NEWTRUE" | "NEWFALSE" | "EMPTY_TUPLE":
                stack.append(_CONSTANTS[opcode.name])
            case "BININT" | "BININT1" | "BININT2" | "LONG1" | "BINFLOAT" | "BINSTRING" | "SHORT_BINSTRING":
                stack.append(argument)
            case "BINUNICODE" | "BINUNICODE8" | "SHORT_BINUNICODE" | "BINBYTES" | "BINBYTES8" | "SHORT_BINBYTES":
                stack.append(argument)
            case "EMPTY_LIST" | "EMPTY_SET":  # a set may hold what has no hash here
                stack.append([])
            case "EMPTY_DICT":
                stack.append({})
            case "MARK":
                marked.append(stack)
                stack = []
            case "TUPLE" | "FROZENSET":
                items, stack = stack, marked.pop()
                stack.append(tuple(items))
            case "TUPLE1" | "TUPLE2" | "TUPLE3":
                items = [stack.pop() for _ in range(int(opcode.name[-1]))]
                stack.append(tuple(reversed(items)))
            case "APPEND" | "APPENDS" | "ADDITEMS":
                if opcode.name == "APPEND":
                    items = [stack.pop()]
                else:
                    items, stack = stack, marked.pop()
                if not isinstance(stack[-1], list):
                    raise TypeError("items belong to a list")
                stack[-1].extend(items)
            case "SETITEM" | "SETITEMS":
                if opcode.name == "SETITEM":
                    items = [stack.pop(), stack.pop()][::-1]
                else:
                    items, stack = stack, marked.pop()
                if isinstance(stack[-1], dict):
                    stack[-1].update(_plain_entries(zip(items[::2], items[1::2], strict=False)))
                elif not isinstance(stack[-1], Opaque):
                    raise TypeError("entries belong to a dictionary")
            case "BINPUT" | "LONG_BINPUT" | "MEMOIZE":
                memo[len(memo) if argument is None else argument] = stack[-1]
            case "BINGET" | "LONG_BINGET":
                stack.append(memo[argument])
            case "GLOBAL" | "STACK_GLOBAL":
                if opcode.name == "GLOBAL":
                    name = argument.replace(" ", ".", 1)
                else:
                    name = ".".join([stack.pop(), stack.pop()][::-1])  # TypeError for other than texts
                if not _HARMLESS.fullmatch(name):
                    shown = name[:80].encode("unicode_escape").decode()
                    raise InputError(
                        f"expected a pickle of plain data, got {shown}, which was not executed; {_WAY_OUT}"
                    )
                stack.append(Opaque(name, is_class=True))
            case "REDUCE" | "NEWOBJ":
                # Here pickle would call what it finds. Only the name decides what stands in the place of the result.
                arguments, called = stack.pop(), stack.pop()
                if not (isinstance(called, Opaque) and called.is_class):
                    raise ValueError("what is called is no class")
                match called.name.rpartition(".")[2], arguments:
                    case "OrderedDict", _:
                        stack.append(_plain_entries(arguments[0] if arguments else ()))
                    case "encode", (str() as text, "latin1"):
                        stack.append(text.encode("latin1"))
                    case "dtype", (str() as kind, *_):
                        stack.append(Opaque(called.name, kind=kind))
                    case "scalar", (Opaque(kind=kind), bytes() as number_bytes) if kind in _NUMBERS:
                        stack.extend(struct.unpack(_NUMBERS[kind], number_bytes))
                    case _:
                        stack.append(Opaque(called.name))
            case "BUILD":  # attributes are of no use, but numbers must not be read in the wrong order of bytes
                attributes, holder = stack.pop(), stack[-1]
                is_type = isinstance(holder, Opaque) and holder.kind
                if is_type and isinstance(attributes, tuple) and ">" in attributes:
                    raise ValueError("numbers whose first byte is the largest")
            case "BINPERSID":
                stack[-1] = Opaque("storage")
            case name:  # INST, OBJ, EXT1 and the like, which call or look up something, and all others
                raise InputError(f"expected a pickle of plain data, got the opcode {name}; {_WAY_OUT}")
    return stack[-1] if stack else None


def _plain_entries(pairs: Iterable[tuple[Any, Any]]) -> dict[Any, Any]:
    """Return the entries whose key is a text, number or bytes; others belong to tensors and optimizers."""
    return {key: value for key, value in pairs if isinstance(key, (str, int, float, bytes))}
