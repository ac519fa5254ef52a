"""Audit a table of events in a project of Spark Declarative Pipelines.

    cd examples/pipeline && spark-pipelines --conf spark.sql.catalogImplementation=hive run

The option keeps the catalog of tables for the next run.
"""

from pathlib import Path

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import lit

from precedes.spark import causal_audit, causal_violations

spark = SparkSession.active()
LOG = Path(__file__).parents[2] / "logs/chat.csv"
COLUMNS = "host STRING, offset BIGINT, type STRING, msg_id STRING"


def events() -> DataFrame:
    """A row per event, with the run that it belongs to; not a view, see docs/dataframe.md."""
    log = spark.read.csv(str(LOG), COLUMNS, sep=";", header=True)
    return log.withColumn("run_id", lit("chat"))


@dp.materialized_view
def runs() -> DataFrame:
    """A row per run: its verdict, counts and witnesses."""
    columns = {"node": "host", "local_seq": "offset", "kind": "type", "message": "msg_id"}
    kinds = {"send": "broadcast", "recv": "deliver"}
    return events().transform(causal_audit(columns=columns, kinds=kinds))


@dp.materialized_view
def violations() -> DataFrame:
    """A row per witness, with the sentence that explains it."""
    return spark.read.table("runs").transform(causal_violations())
