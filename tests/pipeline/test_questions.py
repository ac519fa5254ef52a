"""The page of questions: Spark and DuckDB are asked the same and must answer the same."""

import re
from decimal import Decimal

import duckdb
import pytest

from precedes.pipeline import open_tables
from tests.support.places import ROOT

PAGE = (ROOT / "docs" / "questions.md").read_text(encoding="utf-8")
QUESTIONS = re.findall(r"^## (\d+\. [^\n]+)\n.*?```sql\n(.*?)```", PAGE, re.DOTALL | re.MULTILINE)


@pytest.fixture(scope="module")
def views(spark, swept):
    """Both engines, with a view of every table of the sweep."""
    directory, _ = swept
    names = set(open_tables(spark, directory))
    with duckdb.connect() as database:
        for table in directory.glob("*.parquet"):
            database.sql(f"CREATE VIEW {table.stem} AS FROM '{table}'")
        database.sql(f"CREATE VIEW events AS FROM '{directory}/traces/*.parquet'")
        found = {
            name for (name,) in database.sql("SELECT view_name FROM duckdb_views()").fetchall()
        }
        assert names <= found
        yield spark, database


def _plain(rows):
    """Numbers as numbers, whatever an engine calls a sum."""
    return [
        tuple(float(cell) if isinstance(cell, int | float | Decimal) else cell for cell in row)
        for row in rows
    ]


def test_there_are_ten():
    assert [title.split(".")[0] for title, _ in QUESTIONS] == [str(n) for n in range(1, 11)]


@pytest.mark.parametrize(("title", "query"), QUESTIONS, ids=[title for title, _ in QUESTIONS])
def test_spark_and_duckdb_give_the_same_answer(views, title, query):
    spark, database = views
    in_spark = spark.sql(query)
    in_duckdb = database.sql(query)
    assert in_spark.columns == in_duckdb.columns
    rows = _plain(in_duckdb.fetchall())
    assert _plain(in_spark.collect()) == rows
    # The oracle and the audit agree: that question alone has no rows to show.
    assert bool(rows) != title.startswith("6.")


def test_a_disagreement_is_shown(spark, swept):
    """The sixth question does find what it asks for."""
    directory, _ = swept
    (query,) = [query for title, query in QUESTIONS if title.startswith("6.")]
    with duckdb.connect() as database:
        database.sql(f"CREATE VIEW audit_runs AS FROM '{directory}/audit_runs.parquet'")
        database.sql(
            "CREATE VIEW runs AS SELECT * REPLACE (violating_deliveries + (number = 1)::INT AS "
            f"violating_deliveries) FROM '{directory}/runs.parquet'"
        )
        rows = database.sql(query).fetchall()
    assert len(rows) == 1
    assert rows[0][1] == rows[0][2] + 1
