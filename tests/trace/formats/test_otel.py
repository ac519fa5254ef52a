"""Spans of OpenTelemetry: who sent, who delivered, and what cannot be known of it."""

import json

import pytest

from precedes.audit import audit
from tests.support.otlp import START_NS, request, span
from tests.support.reading import read_one, refused, rows_of

ANN, BOB, EVE = ({"service.instance.id": name} for name in ("ann", "bob", "eve"))


def sent(number, at, **more):
    return span(number, kind="PRODUCER", start_ns=START_NS + at, **more)


def got(number, at, **more):
    return span(number, kind="CONSUMER", start_ns=START_NS + at, **more)


def lines(*requests):
    return "\n".join(requests) + "\n"


def chat(**more):
    """The question, its answer, and eve who hears only of the answer first."""
    return [
        request(ANN, [sent(1, 10, messaging_message_id="question", **more)]),
        request(BOB, [got(2, 20, links=[1], **more)]),
        request(BOB, [sent(3, 30, messaging_message_id="answer", **more)]),
        request(EVE, [got(4, 40, links=[3], **more), got(5, 50, links=[1], **more)]),
    ]


CHAT = {
    "ann": ["broadcast question"],
    "bob": ["deliver question", "broadcast answer"],
    "eve": ["deliver answer", "deliver question"],
}


@pytest.mark.parametrize("packed", [False, True])
def test_links_name_what_is_delivered(packed):
    """Ids in hex and kinds as numbers, or ids in base 64 and kinds by name."""
    for content in (lines(*chat(packed=packed)), lines(*chat(packed=packed)[::-1])):
        history = read_one(content)
        assert rows_of(history) == CHAT
    report = audit(history)
    assert (report.verdict, report.violations) == ("violated", 1)
    assert history.notes == ()


def test_the_parent_names_it_without_links_and_the_id_without_both():
    history = read_one(
        lines(
            request(ANN, [sent(1, 10, messaging_message_id="x")]),
            request(BOB, [got(2, 20, parent=1)]),
            request(EVE, [got(3, 30, messaging_message_id="x")]),
        )
    )
    assert rows_of(history) == {
        "ann": ["broadcast x"],
        "bob": ["deliver x"],
        "eve": ["deliver x"],
    }
    assert audit(history).verdict == "held"


def test_a_message_without_an_id_is_called_by_its_span():
    history = read_one(lines(request(BOB, [got(2, 20, links=[1])]), request(ANN, [sent(1, 10)])))
    assert rows_of(history) == {
        "ann": [f"broadcast {1:016x}"],
        "bob": [f"deliver {1:016x}"],
    }


def test_a_message_known_by_its_id_and_by_its_span_before_it_is_sent():
    history = read_one(
        lines(
            request(BOB, [got(2, 20, messaging_message_id="x")]),
            request(EVE, [got(3, 30, links=[1])]),
            request(ANN, [sent(1, 10, messaging_message_id="x")]),
        )
    )
    assert rows_of(history)["bob"] == rows_of(history)["eve"] == ["deliver x"]


def test_a_batch_is_as_many_deliveries():
    history = read_one(
        lines(request(ANN, [sent(1, 10), sent(2, 11)]), request(BOB, [got(3, 20, links=[1, 2])]))
    )
    assert len(rows_of(history)["bob"]) == 2
    assert history.notes == (
        "1 span start in the same nanosecond as the one before at their node: taken in the order "
        "of the file",
    )


def test_what_was_not_sampled_is_unknown_and_no_phantom():
    content = lines(*chat()[1:3], request(EVE, [got(5, 50, links=[9])]), request(ANN, [got(6, 5)]))
    history = read_one(content)
    report = audit(history)
    # Nobody sent 1 and 9, and one span names nothing.
    assert (report.verdict, report.phantom, report.skipped) == ("unknown", 0, 3)
    assert "3 deliveries without a producer span" in history.notes[0]


def test_reception_and_processing_are_one_delivery():
    first = got(2, 20, links=[1], messaging_operation_type="receive")
    then = got(3, 25, links=[1], messaging_operation_type="process")
    history = read_one(lines(request(ANN, [sent(1, 10)]), request(BOB, [first, then])))
    assert len(rows_of(history)["bob"]) == 1
    assert "1 spans of reception are skipped" in history.notes[0]
    assert audit(history).verdict == "held"
    alone = read_one(lines(request(ANN, [sent(1, 10)]), request(BOB, [first])))
    assert len(rows_of(alone)["bob"]) == 1
    twice = read_one(lines(request(ANN, [sent(1, 10)]), request(BOB, [then, {**then}])))
    assert audit(twice).duplicates == 1


def test_other_spans_are_not_looked_at():
    other = {**sent(7, 1), "kind": 1}
    del other["startTimeUnixNano"]
    history = read_one(lines(*chat(), request({}, [other])))
    assert rows_of(history) == CHAT


def test_nodes_are_instances_or_names_with_host_and_process():
    resource = {"service.name": "shop", "host.name": "h1", "process.pid": 17}
    history = read_one(lines(request(resource, [sent(1, 10)])))
    assert list(rows_of(history)) == ["shop/h1/17"]
    refused(
        lines(request({"host.name": "h1"}, [sent(1, 10)])),
        "line 1: a resource with neither service.instance.id nor service.name.*`node_by`",
    )


def test_nodes_by_attributes():
    content = lines(request(ANN, [sent(1, 10, thread_id=1), sent(2, 10, thread_id=2), sent(3, 11)]))
    history = read_one(content, node_by=("service.instance.id", "thread.id"))
    assert list(rows_of(history)) == ["ann/1", "ann/2"]
    assert history.skipped == 1
    assert history.notes == ("1 span skipped without service.instance.id, thread.id",)


def changed(**fields):
    return request(ANN, [{**sent(1, 10), **fields}])


@pytest.mark.parametrize(
    ("line", "match"),
    [
        ("{}", 'line 2: not an OTLP request: it has no list "resourceSpans"'),
        ("[]", "line 2: not an OTLP request"),
        ('{"resourceSpans": [7]}', "line 2: a span that is not as OTLP has them"),
        ("{", "line 2: not a JSON object"),
        (changed(spanId="xyz"), "line 2: 'xyz' is not an id of 8 bytes, in hex or base 64"),
        (changed(traceId=None), "line 2: None is not an id of 16 bytes"),
        (changed(startTimeUnixNano="soon"), "line 2: a span without startTimeUnixNano"),
        (changed(startTimeUnixNano="0"), "line 2: startTimeUnixNano is 0"),
        (
            request(BOB, [sent(9, 1, messaging_message_id="question")]),
            "line 2: message question is sent by a second span",
        ),
    ],
)
def test_lines_that_are_refused(line, match):
    refused(chat()[0] + "\n" + line + "\n", match, "otel")


def test_a_request_may_hold_many_resources():
    whole = {"resourceSpans": [json.loads(line)["resourceSpans"][0] for line in chat()]}
    assert rows_of(read_one(json.dumps(whole))) == CHAT
