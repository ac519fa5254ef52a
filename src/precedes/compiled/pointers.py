"""Named tuples of arrays and integers, passed to compiled code by reference.

Numba passes a tuple by value: each array of it as seven numbers or more, again at every call
of a helper, and from Python after type checks of every array. A member of a live group has some
fifty of them. Here the numbers are written to memory once, and their address is passed;
compiled code reads those that it uses. Nothing changes for code that runs interpreted, nor in the
source of the functions: an attribute of the reference is the array, or a reference to the tuple,
of that name.

This relies on Numba's memory layout of arrays and tuples: ``is_laid_out_as_expected`` compares
it with Numba's own description of them.
"""

from __future__ import annotations

import hashlib
from typing import Any, Final, NamedTuple

import numba
import numpy as np
from llvmlite import ir
from numba.core import cgutils, registry, types
from numba.core.datamodel import models
from numba.core.imputils import lower_getattr_generic
from numba.core.typing.templates import AttributeTemplate, infer_getattr
from numba.extending import NativeValue, register_model, unbox

NamedTupleType: Final[Any] = types.containers.BaseNamedTuple


class ReferenceType(types.Type):
    """The type of a reference to a named tuple of a given type."""

    def __init__(self, referent: Any) -> None:
        self.referent = referent
        # As for the tuple itself: dispatch of generic functions uses it.
        self.instance_class = referent.instance_class
        # Types are part of the names of compiled functions; the list of arrays would be too long.
        digest = hashlib.sha256(str(referent).encode()).hexdigest()[:12]
        super().__init__(f"reference({referent.instance_class.__name__} {digest})")

    @property
    def key(self) -> Any:
        """The key by which two of them are equal."""
        return self.referent

    def place(self, name: str) -> int:
        """Index of the field with a name."""
        return int(self.referent.fields.index(name))


@register_model(ReferenceType)
class _Model(models.PrimitiveModel):  # type: ignore[misc]
    def __init__(self, manager: Any, reference: ReferenceType) -> None:
        struct = manager.lookup(reference.referent).get_value_type()
        super().__init__(manager, reference, struct.as_pointer())


@infer_getattr
class _Attributes(AttributeTemplate):  # type: ignore[misc]
    key = ReferenceType

    def generic_resolve(self, reference: ReferenceType, name: str) -> Any:
        if name not in reference.referent.fields:
            return None
        kind = reference.referent[reference.place(name)]
        return ReferenceType(kind) if isinstance(kind, NamedTupleType) else kind


@lower_getattr_generic(ReferenceType)  # type: ignore[untyped-decorator]
def _get(context: Any, builder: Any, reference: ReferenceType, value: Any, name: str) -> Any:
    place = reference.place(name)
    pointer = cgutils.gep_inbounds(builder, value, 0, place)
    if isinstance(reference.referent[place], NamedTupleType):
        return pointer
    return _load(builder, pointer, context.get_value_type(reference.referent[place]))


def _load(builder: Any, pointer: Any, kind: Any) -> Any:
    """Load word by word: unused words are left out.

    Compiled code changes nothing that it reads here, so that a value need not be read again
    after every write to an array.
    """
    if not isinstance(kind, (ir.LiteralStructType, ir.ArrayType)):
        loaded = builder.load(pointer)
        loaded.set_metadata("invariant.load", builder.module.add_metadata([]))
        return loaded
    value = ir.Constant(kind, ir.Undefined)
    for i, element in enumerate(kind.elements if hasattr(kind, "elements") else kind):
        part = _load(builder, cgutils.gep_inbounds(builder, pointer, 0, i), element)
        value = builder.insert_value(value, part, i)
    return value


class Reference:
    """Memory with the addresses of the arrays of a named tuple; it keeps them from being freed."""

    __slots__ = ("_numba_type_", "_words", "address", "referent")

    def __init__(self, referent: Any) -> None:
        words: list[int] = []
        _write_down(referent, words)
        self._words = np.array(words, np.int64)
        self._numba_type_ = ReferenceType(numba.typeof(referent))
        self.referent = referent
        self.address = self._words.ctypes.data


# The words of an array in compiled code, in this order.
FIELDS: Final = ("meminfo", "parent", "nitems", "itemsize", "data", "shape", "strides")
WORD_BYTES: Final = 8


def _write_down(value: Any, words: list[int]) -> None:
    """Write the words of an array, or of all in a tuple, as compiled code expects them."""
    if isinstance(value, tuple):
        for part in value:
            _write_down(part, words)
    elif isinstance(value, np.ndarray):
        no_owner = (0, 0)
        layout = (value.size, value.itemsize, value.ctypes.data, *value.shape, *value.strides)
        words += (*no_owner, *layout)
    elif isinstance(value, int):
        words.append(value)
    else:
        raise TypeError(
            f"only arrays and integers can be handed over by reference, not {type(value)}"
        )


class _Inner(NamedTuple):
    first: Any
    second: Any


def is_laid_out_as_expected() -> bool:
    """Return whether Numba's memory layout of arrays and tuples is the one written here."""
    numbers, table = np.zeros(1, np.int64), np.zeros((1, 1), np.int32)
    octets = np.zeros((1, 1, 1), np.uint8)
    alike, unlike = _Inner(numbers, numbers), _Inner(octets[:, 0, 0], table)
    sample = _Inner(_Inner(alike, unlike), _Inner((table, table), _Inner(octets, 1)))
    words: list[int] = []
    _write_down(sample, words)
    return _words(numba.typeof(sample)) == len(words)


def _words(kind: Any) -> int:
    """Number of words of an array or tuple in compiled code; 0 if they are not those expected."""
    context = registry.cpu_target.target_context
    model = context.data_model_manager.lookup(kind)
    value = model.get_value_type()
    if isinstance(kind, types.Array):
        sizes = [kind.ndim if name in ("shape", "strides") else 1 for name in FIELDS]
        is_known = model._fields == FIELDS
    elif isinstance(kind, types.Integer):
        return int(context.get_abi_sizeof(value)) // WORD_BYTES
    else:
        sizes = [_words(part) for part in kind]
        is_known = _parts(value) == [context.get_value_type(part) for part in kind]
    space = [context.get_abi_sizeof(part) for part in (*_parts(value), value)]
    return sum(sizes) if is_known and space == [WORD_BYTES * n for n in (*sizes, sum(sizes))] else 0


def _parts(value: Any) -> list[Any]:
    if isinstance(value, ir.LiteralStructType):
        return list(value.elements)
    return [value.element] * value.count if isinstance(value, ir.ArrayType) else []


@unbox(ReferenceType)  # type: ignore[untyped-decorator]
def _unbox(reference: ReferenceType, value: Any, context: Any) -> NativeValue:
    address = context.pyapi.object_getattr_string(value, "address")
    number = context.pyapi.long_as_longlong(address)
    context.pyapi.decref(address)
    pointer = context.builder.inttoptr(number, context.context.get_value_type(reference))
    return NativeValue(pointer)
