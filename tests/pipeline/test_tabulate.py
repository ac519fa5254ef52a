"""Rows from records, which tasks read."""

import pytest

from precedes.errors import UserError
from precedes.pipeline import tabulate
from precedes.stores import Address


def test_a_record_that_has_gone_is_told_in_one_line(spark, swept):
    directory, done = swept
    with pytest.raises(UserError, match="has changed: the same command does its run again"):
        list(tabulate.tabulated(spark, Address.of(directory), [done.runs[0].run_id, 7]))


def test_no_runs_are_empty_tables(spark, swept):
    directory, _ = swept
    (portion,) = tabulate.tabulated(spark, Address.of(directory), [])
    assert {data.num_rows for data in portion.values()} == {0}
