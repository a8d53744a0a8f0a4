"""Spans and instants.

A span in a function is recorded at its start and at its end, so the profile of a process that dies
contains its open spans. The library connects an end with the latest start of the same name on the
thread. Coroutines and generators do not end their spans in that order, and may end them on another
thread. So a span in them is recorded at its end, as one interval.

What was open at a fork is not closed in the forked child, which records anew.

If the library can, it replaces `span` and `marker` of this module by functions that CPython calls
without `ctypes`. They record the same in less time, and call the functions here in coroutines,
generators and forked children.
"""

from __future__ import annotations

import sys
from _thread import get_ident

from . import _state
from ._text import encoded, fields_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, ContextManager, Iterable, Optional, Tuple

#: Flags of the code of generators, coroutines and asynchronous generators.
SUSPENDS = 0x20 | 0x80 | 0x100 | 0x200


class Nothing:
    """A context that does nothing. One object serves all calls."""

    __slots__ = ()

    def __enter__(self) -> "Nothing":
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        pass


NOTHING = Nothing()


class Span:
    """An interval that is recorded at its start and at its end."""

    __slots__ = ("_api", "_name", "_text", "_thread")

    def __init__(self, api: Any, name: bytes, text: Optional[bytes]) -> None:
        self._api = api
        self._name = name
        self._text = text

    def __enter__(self) -> "Span":
        self._thread = get_ident()
        self._api.begin(self._name, self._text)
        self._api = _state.api
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        api = self._api
        if api is not None and api is _state.api and self._thread == get_ident():
            api.end(self._name)


class Interval:
    """An interval that is recorded at its end."""

    __slots__ = ("_api", "_name", "_text", "_start")

    def __init__(self, api: Any, name: bytes, text: Optional[bytes]) -> None:
        self._api = api
        self._name = name
        self._text = text

    def __enter__(self) -> "Interval":
        self._start = self._api.now()
        self._api = _state.api
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        api = self._api
        if api is not None and api is _state.api:
            api.interval(self._name, self._start, self._text)


class Scope:
    """Opens something on the calling thread, and closes it on the same thread."""

    __slots__ = ("_open", "_arguments", "_close", "_opened", "_thread", "_api")

    def __init__(
        self, opens: Callable[..., Any], arguments: Tuple[Any, ...], close: Callable[[Any], Any]
    ) -> None:
        self._open = opens
        self._arguments = arguments
        self._close = close

    def __enter__(self) -> "Scope":
        self._thread = get_ident()
        self._opened = self._open(*self._arguments)
        self._api = _state.api
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if self._api is _state.api and self._thread == get_ident():
            self._close(self._opened)


def span(name: str, /, **fields: Any) -> ContextManager[Any]:
    """Records the time of a `with` block.

    The fields become one text. They are formatted only while the process records. The name should
    be constant.

        with profiler.span("load", path=path):
            ...

    In a function, the profile contains the span even if the process dies inside the block. In a
    coroutine or a generator, the span is recorded when the block ends.
    """
    api = _state.api
    if api is None:
        return NOTHING
    text = _text(api, fields) if fields else None
    if sys._getframe(1).f_code.co_flags & SUSPENDS:
        return Interval(api, encoded(name), text)
    return Span(api, encoded(name), text)


def marker(name: str, /, **fields: Any) -> None:
    """Records an instant."""
    api = _state.api
    if api is None:
        return
    if fields:
        api.marker_text(encoded(name), _text(api, fields))
    else:
        api.marker(encoded(name))


def marker_numbers(name: str, numbers: Iterable[float], /, **fields: Any) -> None:
    """Records an instant with up to 64 numbers."""
    api = _state.api
    if api is not None and api.is_recording():
        try:
            api.numbers_marker(encoded(name), fields_text(fields), numbers)
        except Exception:
            pass  # they are not numbers


def marker_stack(name: str, /, **fields: Any) -> None:
    """Records an instant with the native stack of the calling thread."""
    api = _state.api
    if api is not None:
        api.marker_stack(encoded(name), _text(api, fields))


def is_recording() -> bool:
    """Whether this process records now. Use it before you prepare an expensive text."""
    api = _state.api
    return api is not None and bool(api.is_recording())


def _text(api: Any, fields: Any) -> Optional[bytes]:
    """The text of the fields; `None` without fields, or if nothing is recorded now."""
    return fields_text(fields) if api.is_recording() else None


def _use_native_functions() -> None:
    """Called once, when the package is imported."""
    api = _state.api
    native = api.native_functions(span, marker, fields_text) if api is not None else None
    if native is not None:
        globals()["span"], globals()["marker"] = native


_use_native_functions()
