"""Tuples of arrays by reference: compiled code must see what Python sees, and change it."""

from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from precedes import compiled
from precedes.compiled import builder, pointers
from precedes.compiled.pointers import Reference


class Inner(NamedTuple):
    """A tuple in a tuple."""

    small: np.ndarray
    table: np.ndarray


class Outer(NamedTuple):
    """Arrays of several kinds, before and behind a tuple and a pair of arrays."""

    numbers: np.ndarray
    inner: Inner
    pair: tuple[np.ndarray, np.ndarray]
    octets: np.ndarray
    strided: np.ndarray


@compiled.function(inline=False)
def _into(inner: Inner, value: int) -> int:
    """A helper that is given the inner tuple alone."""
    inner.table[1, 2] = value
    return inner.small.size + 10 * inner.table.shape[0] + 100 * inner.table.shape[1]


def probe(outer: Outer, found: np.ndarray) -> int:
    """Read every array in every way that a step does, and write to some."""
    for i in range(outer.numbers.size):
        found[0] += outer.numbers[i]
    found[1] = _into(outer.inner, 77)
    for k in range(len(outer.pair)):
        found[2 + k] = outer.pair[k][1, 1]
    for i in range(outer.strided.shape[0]):
        found[4] += outer.strided[i]
    compiled.copy_bytes(outer.octets, 1, outer.octets, 4, 3)
    outer.numbers[0] = -1
    return outer.inner.table[1, 2]


ENTRY = compiled.Entry(probe, label="a test", by_reference=("outer",))


def make(seed: int) -> Outer:
    """Random contents, sizes too."""
    rng = np.random.default_rng(seed)
    rows, columns = rng.integers(3, 9, 2)
    return Outer(
        numbers=rng.integers(0, 100, rng.integers(1, 9)),
        inner=Inner(
            small=rng.integers(0, 9, rng.integers(1, 9)).astype(np.int32),
            table=rng.integers(0, 100, (rows, columns)),
        ),
        pair=(
            rng.integers(0, 9, (2, 3)).astype(np.int32),
            rng.integers(0, 9, (4, 5)).astype(np.int32),
        ),
        octets=rng.integers(0, 256, 9).astype(np.uint8),
        strided=rng.integers(0, 100, (5, 3))[:, 1],
    )


@given(st.integers(0, 10_000))
def test_compiled_code_sees_and_changes_what_python_does(seed):
    compiled_outer, plain_outer = make(seed), make(seed)
    compiled_found, plain_found = np.zeros(5, np.int64), np.zeros(5, np.int64)
    body = ENTRY.prepare(None, (), make(seed), np.zeros(5, np.int64))
    found = ENTRY.bind(body, compiled_outer, compiled_found)()
    assert found == ENTRY.bind(probe, plain_outer, plain_found)() == 77
    assert compiled_found.tolist() == plain_found.tolist()
    assert str(compiled_outer) == str(plain_outer)
    assert plain_outer.numbers[0] == -1


@pytest.mark.parametrize(
    "fields",
    [
        ("meminfo", "parent", "itemsize", "nitems", "data", "shape", "strides"),
        ("meminfo", "parent", "nitems", "itemsize", "data", "strides", "shape"),
        ("meminfo", "nitems", "itemsize", "data", "shape", "strides"),
        (*pointers.FIELDS, "flags"),
    ],
)
def test_another_layout_is_noticed(monkeypatch, fields):
    assert pointers.is_laid_out_as_expected()
    assert isinstance(builder.by_reference((make(1),), (0,))[0], Reference)
    monkeypatch.setattr(pointers, "FIELDS", fields)
    assert not pointers.is_laid_out_as_expected()


def test_tuples_of_other_sizes_are_noticed(monkeypatch):
    """As if Numba put something between the parts of a tuple."""
    monkeypatch.setattr(pointers, "WORD_BYTES", 4)
    assert not pointers.is_laid_out_as_expected()


def test_another_tuple_is_seen():
    """As after an array has grown."""
    found = np.zeros(5, np.int64)
    body = ENTRY.prepare(None, (), make(1), np.zeros(5, np.int64))
    first = make(1)
    ENTRY.bind(body, first, found)()
    ENTRY.bind(body, first._replace(numbers=np.array([1000, 2000])), found)()
    assert found[0] == make(1).numbers.sum() + 3000


def test_only_arrays():
    with pytest.raises(TypeError, match="only arrays and integers can be handed over"):
        Reference(Inner(small=np.zeros(1), table=3.5))  # type: ignore[arg-type]


@given(st.binary(min_size=20, max_size=40), st.integers(0, 9), st.integers(0, 9), st.integers(0, 9))
def test_bytes_are_copied_as_through_a_copy(data, first, at, count):
    """Overlapping, too."""
    array = np.frombuffer(data, np.uint8).copy()
    compiled.copy_bytes(array, first, array, at, count)
    expected = bytearray(data)
    expected[at : at + count] = data[first : first + count]
    assert array.tobytes() == bytes(expected)
