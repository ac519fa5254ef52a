"""The archive that executors import: the code, and nothing that is only shown."""

import zipfile

from precedes import sources
from precedes.pipeline.spark.package import write_archive


def test_pages_stay_at_home(tmp_path, monkeypatch):
    package = tmp_path / "precedes"
    for name in ("model.py", "report/page.css", "share/docs/live.md", "share/examples/chat.py"):
        (package / name).parent.mkdir(parents=True, exist_ok=True)
        (package / name).touch()
    monkeypatch.setattr(sources, "PACKAGE", package)
    monkeypatch.setattr(sources, "SHARE", package / "share")
    write_archive(tmp_path / "package.zip")
    assert zipfile.ZipFile(tmp_path / "package.zip").namelist() == ["model.py", "report/page.css"]
    assert [path.name for path in sources.files()] == ["model.py"]
