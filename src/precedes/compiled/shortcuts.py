"""Shortcuts through Numba's internals, active while a loop of this package is compiled.

Nothing here changes the result of a compilation. Work that Numba repeats is done once:

- a helper is linked into the loop that calls it, not into every other helper on the way;
- a helper is compiled once for given types, not once more for every caller whose own options
  differ: the options of the helpers are all the same;
- the meaning of an operator for given types is looked up once, not at every occurrence;
- garbage, of which a compilation makes millions of objects, is collected rarely.

All of it relies on names that are private to Numba: ``options.SHORTENED`` lists the versions that
have them in the expected form. The rest of the process uses Numba unchanged.
"""

from __future__ import annotations

import contextlib
import gc
import operator
from collections.abc import Iterator
from typing import Any, Final

from numba.core import codegen, registry, types
from numba.core.targetconfig import ConfigStack
from numba.core.types.functions import BaseFunction
from numba.core.typing.templates import _OverloadFunctionTemplate

# Environments of compiled functions that have no address yet.
_waiting: Final[dict[str, Any]] = {}


def _set_environment(target: Any, name: str, environment: Any) -> None:
    """Set the environment of a compiled function, needed for exceptions alone, once it has one."""
    if target._engine.get_global_value_address(name):
        _waiting.pop(name, None)
        codegen.JITCPUCodegen.set_env(target, name, environment)
    else:
        _waiting[name] = environment


class _Library(codegen.JITCodeLibrary):  # type: ignore[misc]
    """The code of one function, unoptimised until it has to run.

    Numba optimises every function together with all that it calls and makes machine code of it,
    then does the same again in each of its callers. The helpers here are never called
    from Python, so the loop at the top alone is finished, with all that it needs linked in once.
    """

    _linking_libraries: list[Any]
    _inner: list[str]  # functions of helpers, linked in and called from here alone

    def add_linking_library(self, library: Any) -> None:
        self._linking_libraries.append(library)

    def get_pointer_to_function(self, name: str) -> int:
        if not self._finalized and not self._defines(name):
            return 0
        return int(super().get_pointer_to_function(name))

    def _defines(self, name: str) -> bool:
        try:
            return not self._final_module.get_function(name).is_declaration
        except NameError:
            return False

    def _optimize_functions(self, ll_module: Any) -> None:
        # Without it the loop at the top is a tenth slower.
        ll_module.data_layout = self._codegen._data_layout
        passes, builder = self._codegen._function_pass_manager()
        for function in ll_module.functions:
            if not function.is_declaration:
                passes.run(function, builder)

    def _get_module_for_linking(self) -> Any:
        # Unchanged: exported names stay until all that refer to them are linked.
        return super()._get_module_for_linking() if self._finalized else self._final_module

    def _exported(self) -> list[str]:
        return [
            function.name
            for function in self._final_module.functions
            if not function.is_declaration and function.linkage == codegen.ll.Linkage.external
        ]

    def finalize(self) -> None:
        libraries: dict[Any, None] = {}
        waiting = [*self._linking_libraries]
        while waiting:
            library = waiting.pop()
            if library not in libraries:
                libraries[library] = None
                waiting += [] if library._finalized else library._linking_libraries
        self._linking_libraries = [*libraries]
        self._inner = [
            name for library in libraries if not library._finalized for name in library._exported()
        ]
        super().finalize()
        for name, environment in [*_waiting.items()]:
            _set_environment(self._codegen, name, environment)

    def _optimize_final_module(self) -> None:
        for name in self._inner:
            self._final_module.get_function(name).linkage = "internal"
        super()._optimize_final_module()


class _Codegen(codegen.JITCPUCodegen):  # type: ignore[misc]
    """Numba's own, with deferred libraries; its methods replace those of the one in use."""

    _library_class = _Library

    def set_env(self, env_name: str, env: Any) -> None:
        _set_environment(self, env_name, env)


# The wrapper that helpers of this package do without, which tells them from those of Numba.
OWN_OPTION: Final = "no_cfunc_wrapper"

# Objects between two collections of garbage, instead of 700; it comes to about 10 MB.
GARBAGE_OBJECTS: Final = 100_000

_options_seen: Final[list[dict[str, Any]]] = []


def _options_number() -> int:
    """A number for the current options: comparing and hashing them whole takes Numba long."""
    options = ConfigStack.top_or_none()
    if options is None:
        return -1
    if options._values not in _options_seen:
        _options_seen.append(dict(options._values))
    return _options_seen.index(options._values)


_Template: Any = _OverloadFunctionTemplate
_get_impl: Final[Any] = _Template._get_impl


def _find_helper(template: Any, arguments: Any, keywords: Any) -> Any:
    """The compiled helper for these types, in place of ``_get_impl`` of Numba's templates."""
    number = -2 if OWN_OPTION in template._jit_options else _options_number()
    key = template.context, tuple(arguments), tuple(keywords.items()), number
    helper = template._impl_cache.get(key)
    return template._build_impl(key, arguments, keywords) if helper is None else helper


_OPERATORS: Final = frozenset(getattr(operator, name) for name in operator.__all__)
_Function: Any = BaseFunction
_look_up: Final[Any] = _Function.get_call_type


def _meaning(function: Any, context: Any, arguments: Any, keywords: Any) -> Any:
    """The signature of a call, in place of ``get_call_type`` of Numba's functions."""
    simple = (types.Number, types.Boolean, types.Literal, types.Array)
    if (
        keywords
        or function.typing_key not in _OPERATORS
        or not all(isinstance(argument, simple) for argument in arguments)
    ):
        return _look_up(function, context, arguments, keywords)
    known = vars(function).setdefault("_precedes_known", {})
    if arguments not in known:
        known[arguments] = _look_up(function, context, arguments, keywords)
    return known[arguments]


@contextlib.contextmanager
def shortcuts() -> Iterator[None]:
    """Apply the shortcuts within the block."""
    target = registry.cpu_target.target_context.codegen()
    if type(target) is not codegen.JITCPUCodegen:
        yield
        return
    target.__class__ = _Codegen
    _Template._get_impl = _find_helper
    _Function.get_call_type = _meaning
    thresholds = gc.get_threshold()
    gc.set_threshold(GARBAGE_OBJECTS, *thresholds[1:])
    try:
        yield
    finally:
        gc.set_threshold(*thresholds)
        target.__class__ = codegen.JITCPUCodegen
        _Template._get_impl = _get_impl
        _Function.get_call_type = _look_up
