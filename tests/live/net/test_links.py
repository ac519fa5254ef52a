"""Connections that are dialled again."""

from precedes.live.net import links
from tests.support.groups import group_of, run, until


def test_after_a_link_dialling_begins_with_the_shortest_wait(monkeypatch):
    """A connection that breaks now and then for a day is not redialled ever more slowly."""
    waits = []  # for each time that the waits began anew, how many there were

    def noted():
        waits.append(0)
        place = len(waits) - 1
        while True:
            waits[place] += 1
            yield 0.001

    monkeypatch.setattr(links, "redial_waits_s", noted)

    async def test():
        async with group_of(2) as (one, two):
            dialling = two._driver.links  # the one with the higher number dials
            for times in range(1, 4):
                connection = dialling.connections[0]
                connection.abort()
                await until(lambda old=connection: dialling.connections.get(0, old) is not old)
                assert dialling.reconnections == times
            assert one.view == two.view == [0, 1]

    run(test())
    assert waits == [1, 1, 1], "slower after a link than at first"
