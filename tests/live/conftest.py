"""Tests of live groups are coroutines; each runs in an event loop of its own."""

import inspect

import pytest

from tests.support import groups


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem):
    """Run a test that is a coroutine function, with a time limit."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    names = inspect.signature(pyfuncitem.obj).parameters
    groups.run(pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in names}))
    return True
