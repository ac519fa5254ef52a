"""The distribution of tests to processes, and their order."""

from xdist.scheduler import LoadScopeScheduling

# Tests that share what takes long to make: one process makes it, and runs them all.
TOGETHER = {
    "tests/pipeline/spark/test_connect.py": "spark",
    "tests/pipeline/spark/test_session.py": "spark",
    "tests/pipeline/test_clusters.py": "spark",
    "tests/pipeline/test_events.py": "spark",
    "tests/pipeline/test_interrupts.py": "spark",
    "tests/pipeline/test_questions.py": "spark",
    "tests/pipeline/test_ranges.py": "spark",
    "tests/pipeline/test_reproduce.py": "spark",
    "tests/pipeline/test_runner.py": "spark",
    "tests/pipeline/test_spark.py": "spark",
    "tests/pipeline/test_stored_sweeps.py": "spark",
    "tests/spark/test_data_source.py": "spark",
    "tests/spark/test_stream.py": "spark",
    "tests/spark/test_transforms.py": "spark",
    "tests/comparison/test_comparing.py": "comparison",
    "tests/comparison/test_page.py": "comparison",
    "tests/papers/report/test_page.py": "report",
    "tests/papers/report/test_report.py": "report",
    "tests/test_site.py": "site",
    "tests/test_wheel.py": "wheel",
}

# What takes longest comes first, so that both processes end at the same time. One builds the
# engines for Spark's tests, the other the steps of live members.
FIRST = (
    "tests/pipeline/test_spark.py",
    "tests/pipeline/test_interrupts.py",
    "tests/pipeline/test_events.py",
    "tests/pipeline/test_ranges.py",
    "tests/pipeline/test_reproduce.py",
    "tests/pipeline/test_clusters.py",
    "tests/pipeline/spark/test_connect.py",
    "tests/live/",
    "tests/compiled/test_compiled.py",
)


def place(nodeid: str) -> int:
    """The place of a test in the order, among others in the order of their files."""
    found = (number for number, prefix in enumerate(FIRST) if nodeid.startswith(prefix))
    return next(found, len(FIRST))


class Scheduling(LoadScopeScheduling):
    """Hands tests out one by one, but those that share something as one.

    The marks that xdist itself has for this are lost on the way with pytest 9.2.
    """

    def _split_scope(self, nodeid: str) -> str:
        return TOGETHER.get(nodeid.partition("::")[0], nodeid)
