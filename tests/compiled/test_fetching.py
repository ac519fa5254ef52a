"""Rows fetched ahead: an instruction for each cache line, and nothing else."""

import numpy as np
import pytest

from precedes import compiled
from precedes.compiled import builder, options


def read(table, words, row):
    compiled.prefetch(table, row)
    compiled.prefetch(words, row)
    return table[row, 0] + words[row]


@pytest.mark.parametrize("kind", [np.int32, np.int64])
@pytest.mark.parametrize("width", [1, 64])
def test_fetching_changes_nothing(kind, width):
    table = np.arange(5 * width, dtype=kind).reshape(5, width)
    words = np.arange(5, dtype=np.int64)
    for row in range(5):
        assert read(table, words, row) == row * width + row
    made = builder.in_memory(read)
    builder.compile_for(made, (table, words, 0), own=())
    for row in range(5):
        assert made(table, words, row) == row * width + row
    assert (table.ravel() == np.arange(5 * width)).all()
    if options.uses_private():
        assert "llvm.prefetch" in "".join(made.inspect_llvm().values())
