"""Adversary and exact checker for group membership, and a reference that shares no code with it.

``world`` draws schedules of faults, ``stage`` carries out written ones (``schedules``). Both run
either the product's state machine (``adapter``) or the reference; ``host`` is the broadcast within
an epoch that both have in common, as ``live.member`` is in the product.
"""
