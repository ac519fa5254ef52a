"""The table that finds the slot of a message by its name, against a dictionary."""

import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from precedes.live.member import store
from precedes.parts.pool import NONE

# Few sources and sequences in a table of a few places: most names meet others in flight.
names = st.builds(store.name_of, st.integers(0, 3), st.integers(1, 12))
FIRST_SLOTS = 2
STEPS = settings(max_examples=60, stateful_step_count=40, deadline=None)


class Names(RuleBasedStateMachine):
    """Enters, finds and removes names; what is full grows first, as in a node."""

    def __init__(self):
        super().__init__()
        self.slots = FIRST_SLOTS
        self.table = store.allocate_names(self.slots)
        self.model = {}

    def grow(self):
        self.slots *= 2
        self.table = store.larger_names(self.table, self.slots)

    @rule(name=names, slot=st.integers(0, 1000))
    def add(self, name, slot):
        if name in self.model:
            return
        if len(self.model) == self.slots:
            self.grow()
        store.enter(self.table, name, slot)
        self.model[name] = slot

    @precondition(lambda self: self.model)
    @rule(data=st.data())
    def remove(self, data):
        name = data.draw(st.sampled_from(sorted(self.model)))
        store.remove(self.table, name)
        del self.model[name]

    @precondition(lambda self: self.slots < 64)
    @rule()
    def grow_early(self):
        self.grow()

    @rule(name=names)
    def find(self, name):
        found = store.find(self.table, name)
        assert found == self.model.get(name, NONE), f"{name} is found at {found}"

    @invariant()
    def holds_what_was_entered(self):
        for name, slot in self.model.items():
            found = store.find(self.table, name)
            assert found == slot, f"{name} is found at {found}, not at {slot}"
        assert (self.table[:, store.NAME] != 0).sum() == len(self.model)


def test_the_table_is_a_dictionary():
    run_state_machine_as_test(Names, settings=STEPS)


def leave_a_gap(table, name):
    """Removes a name and moves up nothing."""
    table[table[:, store.NAME] == name] = 0


def move_up_too_much(table, name):
    """Fills the gap with whatever stands behind it, also before its own place."""
    mask = len(table) - 1
    (at,) = (table[:, store.NAME] == name).nonzero()[0]
    while table[(at + 1) & mask, store.NAME] != 0:
        table[at] = table[(at + 1) & mask]
        at = (at + 1) & mask
    table[at] = 0


@pytest.mark.parametrize("mistake", [leave_a_gap, move_up_too_much])
def test_a_mistake_in_removing_is_found(mistake, monkeypatch):
    says = "is found at"
    monkeypatch.setattr(store, "remove", mistake)
    once = settings(STEPS, max_examples=500, phases=[Phase.generate], derandomize=True)
    with pytest.raises(AssertionError, match=says):
        run_state_machine_as_test(Names, settings=once)
