"""The decorator `traced`.

Without a library, the decorator returns the function itself, so calls cost nothing.
"""

from __future__ import annotations

from . import _state
from ._markers import Interval, Span
from ._text import encoded

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Optional, TypeVar, overload

    F = TypeVar("F", bound=Callable[..., Any])



# Flags of the code of functions.
_GENERATOR = 0x20
_COROUTINE = 0x80
_GENERATOR_AND_COROUTINE = 0x100
_ASYNC_GENERATOR = 0x200


if TYPE_CHECKING:

    @overload
    def traced(function: F, /) -> F: ...

    @overload
    def traced(name: Optional[str] = None, /) -> Callable[[F], F]: ...


def traced(target: Any = None, /) -> Any:
    """Records each call of a function as a span: `@traced`, or `@traced("name")`.

    Without a name, the span has the qualified name of the function. For coroutines and generators,
    the span lasts from the first step to the last one, and contains the time in which they wait.
    """
    if target is None or isinstance(target, str):
        return lambda function: _wrapped(function, target)
    return _wrapped(target, None)


def _wrapped(function: Any, name: Optional[str]) -> Any:
    """The function with spans, or the function itself if this process does not record."""
    if _state.api is None:
        return function
    if isinstance(function, (classmethod, staticmethod)):
        return type(function)(_wrapped(function.__func__, name))
    wrapper = _wrapper_for(function)
    if wrapper is None:
        return function
    from functools import wraps

    shown = name or getattr(function, "__qualname__", None) or type(function).__qualname__
    return wraps(function)(wrapper(function, encoded(shown)))


def _wrapper_for(function: Any) -> Optional[Callable[[Any, bytes], Any]]:
    """The wrapper for this kind of function. `None` for what a wrapper would change: classes, what
    cannot be called, and generators that are also coroutines (`types.coroutine`).
    """
    flags = getattr(getattr(function, "__code__", None), "co_flags", 0)
    is_function = callable(function) and not isinstance(function, type)
    if flags & _GENERATOR_AND_COROUTINE or not is_function:
        return None
    if flags & _ASYNC_GENERATOR:
        return _async_generator
    if flags & _COROUTINE:
        return _coroutine
    return _generator if flags & _GENERATOR else _plain


def _plain(function: Any, name: bytes) -> Any:
    def call(*args: Any, **kwargs: Any) -> Any:
        api = _state.api
        if api is None:
            return function(*args, **kwargs)
        with Span(api, name, None):
            return function(*args, **kwargs)

    return call


def _generator(function: Any, name: bytes) -> Any:
    def generate(*args: Any, **kwargs: Any) -> Any:
        with _interval(name):
            return (yield from function(*args, **kwargs))

    return generate


def _coroutine(function: Any, name: bytes) -> Any:
    async def run(*args: Any, **kwargs: Any) -> Any:
        with _interval(name):
            return await function(*args, **kwargs)

    return run


def _async_generator(function: Any, name: bytes) -> Any:
    async def generate(*args: Any, **kwargs: Any) -> Any:
        with _interval(name):
            steps = function(*args, **kwargs)
            try:
                value = await steps.__anext__()
                while True:
                    try:
                        sent = yield value
                    except GeneratorExit:
                        await steps.aclose()
                        raise
                    except BaseException as error:
                        value = await steps.athrow(error)
                    else:
                        value = await steps.asend(sent)
            except StopAsyncIteration:
                pass

    return generate


def _interval(name: bytes) -> Interval:
    api = _state.api
    return Interval(_state.NOTHING if api is None else api, name, None)
