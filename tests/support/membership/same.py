"""The product and the reference under one schedule."""

from tests.support.membership import founding
from tests.support.membership.reference import Reference
from tests.support.membership.world import Product, run_schedule


def outcome(world):
    """Decisions and deliveries of the members of a world."""
    views = [view.contents for view in world.checker.views.values()]
    return views, dict(world.checker.deliveries)


def check(profile, seed):
    """Run one schedule with both: the same verdict, views, cuts and deliveries. Its coverage."""
    if profile == "founding":
        verdict, reason, world = founding.run_schedule(seed)
        assert verdict == "held", reason
        return world.covered
    verdict, reason, world = run_schedule(seed, Product, profile)
    assert verdict in ("held", "blocked"), f"{verdict}: {reason}"
    other, _, model = run_schedule(seed, Reference, profile)
    assert verdict == other
    assert outcome(world) == outcome(model)
    return model.covered | world.covered


def check_all(seeds, profiles):
    """Profiles with these seeds; a failure says how to repeat it. Their coverage."""
    covered = founding.Counter()
    for profile in profiles:
        for seed in seeds:
            try:
                covered += check(profile, seed)
            except Exception as error:
                again = f"python -m tests.support.membership {profile} {seed}"
                error.add_note(f"repeat it with: {again}")
                raise
    return covered
