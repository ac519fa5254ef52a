"""Reads spans of OpenTelemetry: OTLP as JSON, an export request a line.

A PRODUCER span is a broadcast, a CONSUMER span a delivery of the spans in its links, or its parent.
Files of spans have no order, so the events of a node are ordered by their start times, the best
that the log has. Spans are sampled: a delivery without a producer span is not an error, but counted
as skipped, so that the verdict is at most unknown.

All spans are held in memory, about 60 bytes for each that counts and the ids of producers; more
than ``SPANS_MAX`` are refused.
"""

from __future__ import annotations

import base64
import binascii
import io
import json
from array import array
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from precedes.errors import UserError
from precedes.model import printable
from precedes.trace.arrays import repeated, strings, to_arrow
from precedes.trace.dialect import Dialect, Notes
from precedes.trace.formats.text import BATCH_ROWS, blocks, one_line
from precedes.trace.schema import DRAWN, EVENTS

SPANS_MAX: Final = 100_000_000

PRODUCER: Final = (4, "SPAN_KIND_PRODUCER")
CONSUMER: Final = (5, "SPAN_KIND_CONSUMER")
MESSAGE_ID: Final = "messaging.message.id"
OPERATIONS: Final = ("messaging.operation.type", "messaging.operation", "messaging.operation.name")
INSTANCE: Final = "service.instance.id"
NAMED: Final = ("service.name", "host.name", "process.pid")

SPAN_BYTES: Final = 8
TRACE_BYTES: Final = 16


def batches(
    text: io.BufferedReader, *, title: str, dialect: Dialect, notes: Notes
) -> Iterator[pa.RecordBatch]:
    """The broadcasts and deliveries of the spans, each node's by their start."""
    spans = _Spans(title, dialect)
    for block in blocks(text, title=title):
        for number, line in enumerate(io.BytesIO(block.text), start=block.first):
            if not line.isspace():
                spans.add_line(number, line)
    yield from spans.batches(notes)


class _Ref(NamedTuple):
    """Reference to a span."""

    trace: bytes
    span: bytes


class _Spans:
    """The spans that count, in the order of the file."""

    def __init__(self, title: str, dialect: Dialect) -> None:
        self._title = title
        self._node_by = dialect.node_by
        self._drawn = dialect.drawn
        self._texts: dict[str | None, int] = {}
        self._text = array("i")  # of a picture: names of spans
        self._run_id = dialect.one_run
        self._nodes: dict[str, int] = {}
        self._node = array("i")
        self._start_ns = array("q")
        self._message = array("i")  # of a producer its own, of others what they name
        self._is_sent = array("b")
        self._is_receive = array("b")  # the operation is reception; processing may follow
        self._refs: dict[_Ref | str, int] = {}  # a span, or a message's id -> number
        self._labels: list[str] = []  # number -> label of the message
        self._sent = array("b")  # number -> whether a producer was seen
        self._same_as = array("i")  # number -> that of the same message, or itself
        self._without = 0  # consumers without a reference
        self._unnamed = 0  # spans without the attributes of --node-by

    def add_line(self, number: int, line: bytes) -> None:
        """Take a line: a request with the spans of several resources."""
        try:
            request = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise self._error(number, f"not a JSON object ({error})") from None
        if not isinstance(request, dict) or not isinstance(request.get("resourceSpans"), list):
            raise self._error(number, 'not an OTLP request: it has no list "resourceSpans"')
        try:
            for part in request["resourceSpans"]:
                resource = _attributes(part.get("resource", {}).get("attributes", []))
                scopes = part.get("scopeSpans") or part.get("instrumentationLibrarySpans") or []
                for scope in scopes:
                    for span in scope.get("spans", []):
                        self._add(number, resource, span)
        except (AttributeError, KeyError, TypeError):
            raise self._error(number, "a span that is not as OTLP has them") from None

    def _add(self, number: int, resource: dict[str, str], span: dict[str, Any]) -> None:
        is_sent = span.get("kind") in PRODUCER
        if not is_sent and span.get("kind") not in CONSUMER:
            return
        start_ns = self._start(number, span)
        own = _attributes(span.get("attributes", []))
        node = self._node_of(number, resource, own)
        if node is None:
            self._unnamed += 1
            return
        named = (
            [self._produced(number, span, own)] if is_sent else self._consumed(number, span, own)
        )
        if not named:
            self._without += 1
        operation = next((own[key] for key in OPERATIONS if key in own), "")
        for message in named:
            self._node.append(self._nodes.setdefault(node, len(self._nodes)))
            self._start_ns.append(start_ns)
            self._message.append(message)
            self._is_sent.append(is_sent)
            self._is_receive.append(operation == "receive")
            if self._drawn:
                words = one_line(span.get("name"))
                self._text.append(self._texts.setdefault(words, len(self._texts)))
        if len(self._node) > SPANS_MAX:
            raise self._error(number, f"more than {SPANS_MAX:,} spans: split the log")

    def _node_of(self, number: int, resource: dict[str, str], own: dict[str, str]) -> str | None:
        if self._node_by:
            values = [own.get(key, resource.get(key)) for key in self._node_by]
            return None if None in values else "/".join(filter(None, values))
        if INSTANCE in resource:
            return resource[INSTANCE]
        if NAMED[0] not in resource:
            raise self._error(
                number,
                f"a resource with neither {INSTANCE} nor {NAMED[0]}: name what makes a node with "
                "`node_by`",
            )
        return "/".join(resource[key] for key in NAMED if key in resource)

    def _produced(self, number: int, span: dict[str, Any], own: dict[str, str]) -> int:
        """The message of a producer, under its span and under its own id."""
        ref = self._ref(number, span, "spanId")
        keys: list[_Ref | str] = [ref]
        label = ref.span.hex()
        if MESSAGE_ID in own:
            label = own[MESSAGE_ID]
            keys.append(label)
        known = {self._same_as[self._refs[key]] for key in keys if key in self._refs}
        if any(self._sent[message] for message in known):
            raise self._error(
                number,
                f"message {printable(label)} is sent by a second span: ids of messages must differ",
            )
        message = min(known, default=len(self._labels))
        if message == len(self._labels):
            self._named(label)
        self._labels[message] = label
        self._sent[message] = 1
        for key in keys:
            # It may have been referred to by its id here, and by its span there.
            self._same_as[self._refs.setdefault(key, message)] = message
        return message

    def _named(self, label: str) -> None:
        self._same_as.append(len(self._labels))
        self._labels.append(label)
        self._sent.append(0)

    def _consumed(self, number: int, span: dict[str, Any], own: dict[str, str]) -> list[int]:
        """The messages that a consumer delivers: links, else parent, else the message's id."""
        links = span.get("links") or []
        keys: list[_Ref | str] = [self._ref(number, link, "spanId") for link in links]
        if not keys and span.get("parentSpanId"):
            keys = [self._ref(number, span, "parentSpanId")]
        if not keys and MESSAGE_ID in own:
            keys = [own[MESSAGE_ID]]
        messages = []
        for key in dict.fromkeys(keys):
            message = self._refs.setdefault(key, len(self._labels))
            if message == len(self._labels):
                self._named(key if isinstance(key, str) else key.span.hex())
            messages.append(message)
        return messages

    def _ref(self, number: int, span: dict[str, Any], key: str) -> _Ref:
        return _Ref(
            self._id(number, span.get("traceId"), TRACE_BYTES),
            self._id(number, span.get(key), SPAN_BYTES),
        )

    def _id(self, number: int, text: object, size: int) -> bytes:
        """An id as OTLP writes it, in hex, or as protobuf's own JSON does, in base 64."""
        try:
            if isinstance(text, str) and len(text) == 2 * size:
                return bytes.fromhex(text)
            data = base64.b64decode(str(text), validate=True)
        except (ValueError, binascii.Error):
            data = b""
        if len(data) != size:
            raise self._error(number, f"{text!r} is not an id of {size} bytes, in hex or base 64")
        return data

    def _start(self, number: int, span: dict[str, Any]) -> int:
        try:
            start_ns = int(span["startTimeUnixNano"])
        except (KeyError, TypeError, ValueError):
            raise self._error(number, "a span without startTimeUnixNano") from None
        if not 0 < start_ns < 2**63:
            raise self._error(number, f"startTimeUnixNano is {start_ns}: spans need their start")
        return start_ns

    def batches(self, notes: Notes) -> Iterator[pa.RecordBatch]:
        """The events of each node by their start, ties in the order of the file."""
        node = np.frombuffer(self._node, np.int32)
        start_ns = np.frombuffer(self._start_ns, np.int64)
        message = np.array(self._same_as, np.int32)[np.frombuffer(self._message, np.int32)]
        is_sent = np.frombuffer(self._is_sent, np.int8).astype(bool)
        kept = self._kept(node, message, is_sent, notes)
        order = np.lexsort((np.arange(node.size), start_ns, node))
        order = order[kept[order]]
        self._tell_ties(node[order], start_ns[order], notes)
        if self._unnamed:
            notes.skipped[self._run_id] += self._unnamed
            by = ", ".join(self._node_by)
            notes.note(self._run_id, f"{_spans(self._unnamed)} skipped without {by}")
        names = strings(list(self._nodes))
        labels = strings(self._labels)
        starts = np.searchsorted(node[order], np.arange(len(self._nodes) + 1))
        for first in range(0, order.size, BATCH_ROWS):
            rows = order[first : first + BATCH_ROWS]
            local_seq = np.arange(first, first + rows.size) - starts[node[rows]]
            kinds = ["broadcast" if sent else "deliver" for sent in is_sent[rows]]
            columns = [
                repeated(self._run_id, rows.size),
                names.take(to_arrow(node[rows])),
                to_arrow(local_seq),
                to_arrow(start_ns[rows] // 1000),
                strings(kinds),
                labels.take(to_arrow(message[rows])),
            ]
            if self._drawn:
                texts = strings([*self._texts])
                columns.append(texts.take(to_arrow(np.frombuffer(self._text, np.int32)[rows])))
            yield pa.RecordBatch.from_arrays(columns, schema=DRAWN if self._drawn else EVENTS)

    def _kept(
        self,
        node: NDArray[np.int32],
        message: NDArray[np.int32],
        is_sent: NDArray[np.bool_],
        notes: Notes,
    ) -> NDArray[np.bool_]:
        """Mask of the events to keep: no orphan deliveries; of twins the later kind."""
        sent = np.frombuffer(self._sent, np.int8).astype(bool) if self._labels else is_sent[:0]
        lacking = ~sent[message] & ~is_sent if message.size else is_sent
        count = int(lacking.sum()) + self._without
        if count:
            notes.skipped[self._run_id] += count
            notes.note(
                self._run_id,
                f"{count:,} deliveries without a producer span were skipped: the log is "
                "sampled, or lacks senders",
            )
        is_receive = np.frombuffer(self._is_receive, np.int8).astype(bool) & ~is_sent
        key = node.astype(np.int64) * max(len(self._labels), 1) + message
        processed = np.isin(key, key[~is_receive & ~is_sent])
        twins = is_receive & processed
        if twins.any():
            notes.note(
                self._run_id,
                f"{int(twins.sum()):,} spans of reception are skipped: their messages have "
                "spans of processing at the same node",
            )
        return ~lacking & ~twins

    def _tell_ties(
        self, node: NDArray[np.int32], start_ns: NDArray[np.int64], notes: Notes
    ) -> None:
        same = (node[1:] == node[:-1]) & (start_ns[1:] == start_ns[:-1])
        ties = int(same.sum())
        if ties:
            notes.note(
                self._run_id,
                f"{_spans(ties)} start in the same nanosecond as the one before at their node: "
                "taken in the order of the file",
            )

    def _error(self, number: int, reason: str) -> UserError:
        return UserError(f"{self._title}, line {number}: {reason}")


def _spans(count: int) -> str:
    return f"{count:,} {'span' if count == 1 else 'spans'}"


def _attributes(pairs: list[dict[str, Any]]) -> dict[str, str]:
    """Attributes with scalar values; others are ignored."""
    attributes = {}
    for pair in pairs:
        value = pair.get("value", {})
        for kind in ("stringValue", "intValue", "boolValue"):
            if kind in value:
                attributes[pair["key"]] = str(value[kind])
    return attributes
