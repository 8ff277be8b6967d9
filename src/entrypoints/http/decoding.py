"""From values to structs, with every fault found and each one named by its place."""

from collections.abc import Iterable
from re import ASCII, compile as pattern
from types import UnionType
from typing import Annotated, Any, Final, TypeVar, Union, get_args, get_origin
from urllib.parse import unquote_to_bytes

import msgspec
from msgspec import NODEFAULT, Struct
from msgspec.structs import FieldInfo, fields

from entrypoints.http.bodies import pointer
from entrypoints.http.schemas import Fault
from entrypoints.http.wire import read_scalar

S = TypeVar("S", bound=Struct)

_LOCATED: Final = pattern(r"(.*) - at `\$(.*)`")
_STEP: Final = pattern(r"\.(\w+)|\[(\d+)\]")
_INTEGER: Final = pattern(r"-?(0|[1-9][0-9]{0,18})", ASCII)


def read_members(value: object, into: type[Struct], where: str = "") -> tuple[dict[str, Any], list[Fault]]:
    """Return the sound members of a JSON object as arguments for the struct, and what is wrong with the others."""
    if not isinstance(value, dict):
        return {}, [Fault("must be a JSON object", pointer=where)]
    known = {field.encode_name: field for field in fields(into)}
    faults = [
        Fault(f"there is no such member; there are {', '.join(known)}", pointer=where + pointer(name))
        for name in value
        if name not in known
    ]
    members: dict[str, Any] = {}
    for name, field in known.items():
        here = where + pointer(name)
        if name in value:
            members[field.name], found = _read_member(value[name], field, here)
            faults += found
        elif field.required:
            faults.append(Fault("is missing", pointer=here))
    return {name: member for name, member in members.items() if member is not NODEFAULT}, faults


def _read_member(value: object, field: FieldInfo, where: str) -> tuple[Any, list[Fault]]:
    if isinstance(field.type, type) and issubclass(field.type, Struct):
        members, faults = read_members(value, field.type, where)
        return (NODEFAULT if faults else field.type(**members)), faults
    try:
        return msgspec.convert(value, field.type, dec_hook=read_scalar), []
    except msgspec.ValidationError as error:
        reason, rest = _explained(error)
        return NODEFAULT, [Fault(reason, pointer=where + rest)]


def _explained(error: msgspec.ValidationError) -> tuple[str, str]:
    found = _LOCATED.fullmatch(str(error))
    reason, path = (str(error), "") if found is None else (found[1], found[2])
    rest = pointer(*(name or index for name, index in _STEP.findall(path)))
    return reason[:1].lower() + reason[1:], rest


def read_query(query: bytes, into: type[S] | None) -> tuple[S | None, list[Fault]]:
    """Return the query as a struct; a member of a tuple type may be there more than once, all others once.

    Unknown and repeated parameters are faults: a misspelt filter would select everything.
    """
    known = {field.encode_name: field for field in fields(into)} if into else {}
    stated: dict[str, list[str]] = {}
    faults: list[Fault] = []
    for name, text in _pairs(query, faults):
        if name in known:
            stated.setdefault(name, []).append(text)
        else:
            advice = f"there are {', '.join(known)}" if known else "there is none here"
            faults.append(Fault(f"there is no such parameter; {advice}", parameter=name))
    members: dict[str, Any] = {}
    for name, texts in stated.items():
        field = known[name]
        if not is_repeatable(field.type) and len(texts) > 1:
            faults.append(Fault("must not be there more than once", parameter=name))
            continue
        values = [_number(text) if wants_integer(field.type) else text for text in texts]
        try:
            value = values if is_repeatable(field.type) else values[0]
            members[field.name] = msgspec.convert(value, field.type, dec_hook=read_scalar)
        except msgspec.ValidationError as error:
            faults.append(Fault(_explained(error)[0], parameter=name))
    return (None if into is None or faults else into(**members)), faults


def _pairs(query: bytes, faults: list[Fault]) -> Iterable[tuple[str, str]]:
    for item in filter(None, query.split(b"&")):
        name, _, text = (part.replace(b"+", b" ") for part in item.partition(b"="))
        try:
            yield unquote_to_bytes(name).decode(), unquote_to_bytes(text).decode()
        except UnicodeDecodeError:
            shown = unquote_to_bytes(name).decode(errors="replace")
            faults.append(Fault("must be UTF-8, percent-encoded", parameter=shown))


def _number(text: str) -> int | str:
    return int(text) if _INTEGER.fullmatch(text) else text


def is_repeatable(kind: Any) -> bool:  # noqa: ANN401 - any annotation
    """Tell whether a parameter of this type may be there more than once."""
    return get_origin(_bare(kind)) is tuple


def wants_integer(kind: Any) -> bool:  # noqa: ANN401
    """Tell whether a parameter of this type holds integers."""
    bare = _bare(kind)
    return _bare(get_args(bare)[0]) is int if get_origin(bare) is tuple else bare is int


def _bare(kind: Any) -> Any:  # noqa: ANN401
    if get_origin(kind) is Annotated:
        return _bare(get_args(kind)[0])
    if get_origin(kind) in {Union, UnionType}:
        return _bare(next(part for part in get_args(kind) if part is not type(None)))
    return kind
