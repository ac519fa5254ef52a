"""Spans as a collector of OpenTelemetry writes them, a request a line."""

import base64
import json

START_NS = 1_700_000_000_000_000_000


def attribute(key, value):
    kind = "intValue" if isinstance(value, int) else "stringValue"
    # int64 is a string in protobuf's JSON.
    return {"key": key, "value": {kind: str(value)}}


def identity(number, size):
    return number.to_bytes(size, "big")


def span(number, *, kind, start_ns, node=None, links=(), parent=None, packed=False, **attributes):
    """A span of trace 1; ids in hex, or packed in base 64 with names of kinds."""

    def written(value, size):
        raw = identity(value, size)
        return base64.b64encode(raw).decode() if packed else raw.hex()

    found = {
        "traceId": written(1, 16),
        "spanId": written(number, 8),
        "name": "orders publish" if kind == "PRODUCER" else "orders process",
        "kind": f"SPAN_KIND_{kind}" if packed else {"PRODUCER": 4, "CONSUMER": 5}.get(kind, 1),
        "startTimeUnixNano": str(start_ns),
        "endTimeUnixNano": str(start_ns + 1000),
        "attributes": [
            attribute("messaging.system", "kafka"),
            *(attribute(key.replace("_", "."), value) for key, value in attributes.items()),
        ],
        "status": {},
    }
    if parent is not None:
        found["parentSpanId"] = written(parent, 8)
    if links:
        found["links"] = [{"traceId": written(1, 16), "spanId": written(n, 8)} for n in links]
    return found


def request(resource, spans):
    """A line: spans of one resource, given as its attributes."""
    return json.dumps(
        {
            "resourceSpans": [
                {
                    "resource": {"attributes": [attribute(k, v) for k, v in resource.items()]},
                    "scopeSpans": [{"scope": {"name": "kafka"}, "spans": list(spans)}],
                }
            ]
        }
    )


def as_spans(rows, rng, *, step_ns=1):
    """Rows (node, kind, message) as requests, each node's order in its starts alone."""
    sent = {}
    for number, (_, kind, message) in enumerate(rows, start=1):
        if kind == "broadcast":
            sent[message] = number
    lines = []
    for number, (node, kind, message) in enumerate(rows, start=1):
        start_ns = START_NS + number * step_ns
        made = (
            span(number, kind="PRODUCER", start_ns=start_ns, messaging_message_id=message)
            if kind == "broadcast"
            else span(number, kind="CONSUMER", start_ns=start_ns, links=[sent[message]])
        )
        lines.append(request({"service.instance.id": node}, [made]))
    rng.shuffle(lines)
    return lines
