"""People type one text together, replayed by real processes; their documents converge.

    python examples/live_editing.py [FILE [CHANGES]]

FILE is an editing trace as in github.com/josephg/editing-traces (`.json` or `.json.gz`). Every
author is a process with its own copy of the text, and one more process only reads. An author
makes a change once it has all changes that the person had seen (`parents`), and broadcasts it.
Causal order is all that this text needs to be the same everywhere: each letter is put
behind one that is already there. Without FILE a tiny text of three authors is replayed.
"""

import asyncio
import gzip
import hashlib
import json
import multiprocessing
import sys

from live_chat import free_addresses

from precedes.live import Config, Group

TINY = [
    {"agent": 0, "parents": [], "patches": [[0, 0, "causes"]]},
    {"agent": 1, "parents": [0], "patches": [[6, 0, " before"]]},
    {"agent": 2, "parents": [0], "patches": [[0, 0, "all "]]},
    {"agent": 2, "parents": [2], "patches": [[0, 4, ""]]},
    {"agent": 0, "parents": [1, 3], "patches": [[13, 0, " effects"]]},
    {"agent": 1, "parents": [4], "patches": [[21, 0, "."]]},
]


class Text:
    """A replicated text: letters with names, deleted ones kept to be found again.

    A letter is (count, author). It stands behind the letter that it was typed after; of several
    typed there at once, the largest name comes first (a replicated growable array).
    """

    def __init__(self):
        self.letters = [[(0, -1), "", False]]  # name, letter, whether it is visible
        self.count = 0

    def visible(self):
        return [place for place, letter in enumerate(self.letters) if letter[2]]

    def type(self, author, patches):
        """Change the text here; return the change in terms of letters, for the others."""
        change = []
        for position, deleted, inserted in patches:
            places = self.visible()
            position = min(position, len(places))
            for place in places[position : position + deleted]:
                change.append(["-", self.letters[place][0]])
                self.letters[place][2] = False
            before = self.letters[places[position - 1]][0] if position else (0, -1)
            for letter in inserted:
                self.count += 1
                name = (self.count, author)
                change.append(["+", before, name, letter])
                self.insert(before, name, letter)
                before = name
        return change

    def insert(self, before, name, letter):
        place = next(i for i, other in enumerate(self.letters) if other[0] == before) + 1
        while place < len(self.letters) and self.letters[place][0] > name:
            place += 1
        self.letters.insert(place, [name, letter, True])

    def apply(self, change):
        """Apply a change of another author."""
        for kind, name, *more in change:
            if kind == "+":
                new = tuple(more[0])
                self.count = max(self.count, new[0])
                self.insert(tuple(name), new, more[1])
            else:
                letter = next(other for other in self.letters if other[0] == tuple(name))
                letter[2] = False

    def __str__(self):
        return "".join(letter for _, letter, seen in self.letters if seen)


async def author(member, addresses, txns):
    """One process: make the own changes in turn, apply those of the others."""
    text, known = Text(), set()
    own = [number for number, txn in enumerate(txns) if txn["agent"] == member]
    async with Group.open(Config(member=member, addresses=addresses)) as group:

        async def type_what_can_be():
            while own and known.issuperset(txns[own[0]]["parents"]):
                number = own.pop(0)
                change = text.type(member, txns[number]["patches"])
                known.add(number)
                await group.broadcast(json.dumps([number, change]).encode())
            if not own:
                await group.finish()

        await type_what_can_be()
        async for message in group:
            number, change = json.loads(message.payload)
            text.apply(change)
            known.add(number)
            if own:
                await type_what_can_be()
    return str(text), len(known)


def process(member, addresses, txns, results):
    """The body of each process."""
    results.put(asyncio.run(author(member, addresses, txns)))


def read(arguments):
    """The changes to replay."""
    if not arguments:
        return TINY
    opened = gzip.open if arguments[0].endswith(".gz") else open
    with opened(arguments[0], "rt", encoding="utf-8") as file:
        txns = json.load(file)["txns"]
    return txns[: int(arguments[1]) if len(arguments) > 1 else 1000]


def main(arguments):
    txns = read(arguments)
    members = max(txn["agent"] for txn in txns) + 2  # and one that only reads
    addresses = free_addresses(members)
    context = multiprocessing.get_context("spawn")
    results = context.Queue()
    processes = [
        context.Process(target=process, args=(member, addresses, txns, results))
        for member in range(members)
    ]
    for each in processes:
        each.start()
    texts = [results.get(timeout=300) for _ in processes]
    for each in processes:
        each.join()
    assert all(known == len(txns) for _, known in texts)
    digests = {hashlib.sha256(text.encode()).hexdigest()[:12] for text, _ in texts}
    outcome = "the same text everywhere" if len(digests) == 1 else f"{len(digests)} texts"
    print(f"{members} processes, {len(txns)} changes: {outcome}")
    print(texts[0][0][:60].replace("\n", " "))


if __name__ == "__main__":
    main(sys.argv[1:])
