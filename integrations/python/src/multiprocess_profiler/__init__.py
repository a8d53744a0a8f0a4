"""Markers, counters and labels of Python programs for the multi-process profiler.

    import multiprocess_profiler as profiler

    with profiler.span("load", path="words.txt"):
        ...

A process records if it runs below a session, for example `profiler record -- python3 program.py`.
It joins when it imports this package, and so do its children of `multiprocessing` and
`concurrent.futures`. Otherwise all functions do nothing. No function raises because of profiling.
"""

from __future__ import annotations

from . import _state

_state.start()

from ._frames import follow_environment as _follow_environment
from ._frames import python_frames
from ._markers import is_recording, marker, marker_numbers, marker_stack, span
from ._traced import traced
from ._values import Counter, counter, group, label, thread_name, waiting

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .log_handler import LogHandler

__all__ = [
    "Counter",
    "LogHandler",
    "counter",
    "group",
    "is_recording",
    "label",
    "marker",
    "marker_numbers",
    "marker_stack",
    "python_frames",
    "span",
    "thread_name",
    "traced",
    "waiting",
]

_follow_environment()


def __getattr__(name: str) -> object:
    """Imports `logging` only for programs that use the handler."""
    if name == "LogHandler":
        from .log_handler import LogHandler

        return LogHandler
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
