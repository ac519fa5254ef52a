"""Messages to some nodes alone: refused in every format that can say so, and not misjudged."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from precedes.cli.main import main
from precedes.errors import UserError
from precedes.trace import Dialect, from_arrow, load
from precedes.trace.sort.pack import checked_columns

ROWS = [
    {"node": "ann", "kind": "broadcast", "message": "m", "to": "bob"},
    {"node": "bob", "kind": "deliver", "message": "m", "to": None},
]
TABLE = pa.Table.from_pylist(ROWS)
REFUSED = "messages to some nodes alone cannot be judged"


MORE = ', "run_id": 7, "time_us": 1, "local_seq": %d'


@pytest.mark.parametrize("more", ["", MORE])
@pytest.mark.parametrize("key", ["to", "t\\u006f", "\\u0074o", "\\u0074\\u006F"])
@pytest.mark.parametrize("receivers", ['"bob"', '["bob"]', "[]"])
def test_json_lines(tmp_path, receivers, key, more):
    """Whatever other keys there are, and however the key is written."""
    log = tmp_path / "log.jsonl"
    line = '{"node": "ann", "kind": "broadcast", "message": "%s"%s}\n'
    first, second = (more and more % number for number in (1, 2))
    log.write_text(line % ("m", first) + line % ("n", f'{second}, "{key}": {receivers}'))
    with pytest.raises(UserError, match=f'line 2: "to" names receivers, and {REFUSED}'):
        load(log)
    log.write_text(line % ("m", first) + line % ("n", f'{second}, "{key}": null'))
    assert load(log)[0].messages == 2


def test_what_a_send_says_does_not_matter(tmp_path):
    """Only a broadcast tells to whom its message goes."""
    log = tmp_path / "log.jsonl"
    log.write_text(
        '{"node": "ann", "kind": "broadcast", "message": "m"}\n'
        '{"node": "ann", "kind": "send", "message": "m", "to": "bob"}\n'
        '{"node": "bob", "kind": "deliver", "message": "m", "to": "bob"}\n'
    )
    assert load(log)[0].kind.size == 2


def test_tables(tmp_path, capsys):
    (tmp_path / "log.csv").write_text("node,kind,message,to\nann,broadcast,m,bob\n")
    pq.write_table(TABLE, tmp_path / "log.parquet")
    for name in ("log.csv", "log.parquet"):
        assert main(["audit", str(tmp_path / name)]) == 2
        assert REFUSED in capsys.readouterr().err
    with pytest.raises(UserError, match=REFUSED):
        from_arrow(TABLE)
    with pytest.raises(UserError, match=REFUSED):
        checked_columns(TABLE.schema)
    assert from_arrow(TABLE.drop("to"))[0].messages == 1


def test_a_folder(tmp_path, capsys):
    (tmp_path / "to=bob").mkdir()
    table = TABLE.drop("to").append_column("local_seq", pa.array([0, 0]))
    pq.write_table(table, tmp_path / "to=bob" / "log.parquet")
    for form in ("parquet", "events"):
        assert main(["audit", str(tmp_path), "--format", form]) == 2
        assert REFUSED in capsys.readouterr().err
    lines = tmp_path / "to=bob" / "log.jsonl"
    lines.write_text('{"node": "ann", "kind": "broadcast", "message": "m"}')
    with pytest.raises(UserError, match=REFUSED):
        load(lines)


def test_a_column_of_that_name_may_mean_something_else(tmp_path):
    log = tmp_path / "log.csv"
    log.write_text("node,kind,to\nann,broadcast,m\nbob,deliver,m\n")
    (history,) = load(log, "csv", dialect=Dialect(columns={"message": "to"}))
    assert history.messages == 1
