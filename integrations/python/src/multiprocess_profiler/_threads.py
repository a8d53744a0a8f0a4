"""Names of the threads that `threading` starts.

Called by `_state` when this process records. `threading` has no public hook that runs in a new
thread at its start: `threading.setprofile` would make all code slower from Python 3.12 on, and a
change of `Thread.run` would be visible in tracebacks. So the method that runs in the new thread is
replaced. Without that method, threads keep the names that the system knows.

A forked child can join only while it has one thread. So `Thread.start` is replaced, too: it lets the
child join before it starts the first one.
"""

from __future__ import annotations

import threading

from . import _state
from ._text import encoded

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_METHOD = "_bootstrap_inner"


def name_new_threads() -> None:
    """Gives the threads that start from now on their names in the profile."""
    original = getattr(threading.Thread, _METHOD, None)
    if original is None:
        return

    def begin(self: Any, *args: Any, **kwargs: Any) -> Any:
        _name(self)
        return original(self, *args, **kwargs)

    setattr(threading.Thread, _METHOD, begin)
    original_start = threading.Thread.start

    def start(self: Any) -> None:
        if _state.api is _state.PENDING:
            _state.settled()
        return original_start(self)

    setattr(threading.Thread, "start", start)


def _name(thread: Any) -> None:
    try:
        api = _state.api
        if api is not None:
            api.thread_name(encoded(thread.name))
    except Exception:
        pass  # the thread keeps the name that the system knows
