"""The library that this process records with.

All functions of the package read `api`: `None` if nothing records, which is the usual case and must
cost as little as possible. `api` is set when the package is imported, and changes only at a fork.

A forked child begins with `PENDING`. The child joins when it first uses the library, because most
children execute another program at once. Children of `multiprocessing`, and so of
`concurrent.futures`, join before they begin their work.

Invariant: nothing here raises, starts a thread or registers anything for the exit. One line is
printed if the environment asks for the reason for which the process does not record.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Optional

    from ._library import Library

#: The address of a session, which all processes below it inherit.
SESSION_VARIABLE = "MULTIPROCESS_PROFILER_SESSION"
#: What a parent hands to a child that it spawns.
CHILD_VARIABLE = "MULTIPROCESS_PROFILER_CHILD"
#: Asks for the reason for which the process does not record.
VERBOSE_VARIABLE = "MULTIPROCESS_PROFILER_VERBOSE"


class _Nothing:
    """Has all functions of a library. They do nothing."""

    def __getattr__(self, name: str) -> Any:
        return _ignore


def _ignore(*_: object) -> int:
    return 0


class _Pending:
    """Stands for the library in a forked child that has not used it. Joins when it is used."""

    def __getattr__(self, name: str) -> Any:
        return getattr(settled(), name)


NOTHING = _Nothing()
PENDING = _Pending()

#: The library; `None` if this process does not record.
api: Any = None
#: In a forked child: the library of the latest process that has used one.
_previous: Optional[Library] = None


def is_profiled() -> bool:
    """Whether the environment names a session."""
    return SESSION_VARIABLE in os.environ or CHILD_VARIABLE in os.environ


def start() -> None:
    """Joins the session, if there is one. Called when the package is imported."""
    global api
    if sys.platform != "linux":
        return
    if not is_profiled():
        _tell(
            "no session has started this process or one above it: neither "
            f"{CHILD_VARIABLE} nor {SESSION_VARIABLE} is set"
        )
        return
    try:
        from . import _find, _threads

        api = _find.attach()
        if api is not None:
            os.register_at_fork(after_in_child=_begin_child)
            _threads.name_new_threads()
        elif not _find.has_library():
            _tell(f"{_find.NAME} was not found, or is of another version; {_find.ASK_FOR_IT}")
    except Exception:
        api = None  # the program runs on without the profiler


def _tell(why: str) -> None:
    """Prints why this process does not record, if the environment asks for it."""
    if os.environ.get(VERBOSE_VARIABLE, "0") not in ("", "0"):
        from ._verbose import tell

        tell(why)


def _begin_child() -> None:
    """Called in a forked child, before it continues."""
    global api, _previous
    if api is None:
        return
    if api is not PENDING:
        _previous = api
        api = PENDING
    _follow_multiprocessing()


def _follow_multiprocessing() -> None:
    """Lets this child join before its work begins, if `multiprocessing` has forked it.

    The module calls the function only in its own children, and not in one that executes another
    program. The package does not import the module: if it is not loaded, it has forked nothing.
    """
    util = sys.modules.get("multiprocessing.util")
    try:
        if util is not None:
            util.register_after_fork(PENDING, _join_in_child)
    except Exception:
        pass  # the child joins when it first uses the library


def _join_in_child(_: object) -> None:
    settled()


def settled() -> Any:
    """The library, after joining in a forked child. `NOTHING` if this process does not record."""
    global api
    if api is PENDING:
        api = None  # other threads record nothing meanwhile
        api = _child_library()
    return NOTHING if api is None else api


def _child_library() -> Optional[Library]:
    try:
        from . import _find

        return _find.attach_child(_previous) if _previous is not None else None
    except Exception:
        return None
