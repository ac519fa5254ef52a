"""The notebooks, run as a reader would, give what they show.

``pytest tests/test_notebook.py --rewrite-transcripts`` takes new outputs over.
"""

import warnings

import nbclient
import nbformat
import pytest

from tests.support.places import ROOT

# Each with its frames: a diagram, or two in lockstep.
NOTEBOOKS = {"tour": 2, "dataframe": 1}
OUTPUTS_MAX_BYTES = 20_000
CELL_MAX_S = 600


def executed(notebook, folder, monkeypatch):
    """Run a notebook in a kernel of this interpreter; what it leaves is below the folder."""
    for name in ("IPYTHONDIR", "JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR"):
        monkeypatch.setenv(name, str(folder / name.lower()))
    monkeypatch.setenv("JUPYTER_PLATFORM_DIRS", "1")
    monkeypatch.setenv("TMPDIR", str(folder))
    client = nbclient.NotebookClient(
        notebook,
        timeout=CELL_MAX_S,
        kernel_name="python3",
        resources={"metadata": {"path": str(folder)}},
    )
    with warnings.catch_warnings():
        # What a client of Jupyter says of its own event loop and sockets as they are closed.
        warnings.simplefilter("ignore", ResourceWarning)
        return client.execute()


def kept(output):
    """An output as the notebook keeps it: what is shown, but of a frame, which is large, the words.

    The words of a result, which is shown as a table, have times in them.
    """
    data = {**output.get("data", {})}
    if "<iframe" in data.get("text/html", ""):
        del data["text/html"]
    elif "text/html" in data:
        del data["text/plain"]
    return {**output, "data": data} if data else output


@pytest.mark.gate
@pytest.mark.parametrize("name", NOTEBOOKS)
def test_a_notebook_gives_what_it_shows(name, tmp_path, monkeypatch, request):
    path = ROOT / f"examples/{name}.ipynb"
    notebook = nbformat.read(path, as_version=4)
    expected = [cell.get("outputs", []) for cell in notebook.cells]
    executed(notebook, tmp_path, monkeypatch)
    frames = 0
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.metadata = {}  # when it ran
            frames += sum("<iframe" in str(output) for output in cell.outputs)
            cell.outputs = [nbformat.from_dict(kept(output)) for output in cell.outputs]
    if request.config.getoption("rewrite_transcripts"):
        nbformat.write(notebook, path)
        expected = [cell.get("outputs", []) for cell in notebook.cells]
    found = [cell.get("outputs", []) for cell in notebook.cells]
    assert found == expected, "read the difference; --rewrite-transcripts takes it over"
    assert frames == NOTEBOOKS[name]
    text = str(found)
    assert len(text.encode()) < OUTPUTS_MAX_BYTES
    assert str(tmp_path) not in text
    assert "'name': 'stderr'" not in text


def test_a_cell_that_fails_fails_the_test(tmp_path, monkeypatch):
    cell = nbformat.v4.new_code_cell("import precedes; precedes.simulate('vectr', nodes=2)")
    notebook = nbformat.v4.new_notebook(cells=[cell])
    with pytest.raises(nbclient.exceptions.CellExecutionError, match="did you mean 'vector'"):
        executed(notebook, tmp_path, monkeypatch)
