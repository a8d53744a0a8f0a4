"""Python's own functions in the stacks of samples.

From Python 3.12 on, the interpreter can call each Python function through a piece of machine code
of its own. It writes the names of these pieces to `/tmp/perf-PID.map`, which the parent of the
session reads. The interpreter never removes the file. Calls of Python functions take longer.
"""

from __future__ import annotations

import os
import sys

from . import _state

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

#: Shows Python functions in all processes that import the package, if it is `1`.
FRAMES_VARIABLE = "MULTIPROCESS_PROFILER_PYTHON_FRAMES"


def python_frames() -> bool:
    """Shows Python functions in the samples of this process, from their next call on.

    Needs Python 3.12 or later. Does nothing if this process does not record. Returns whether Python
    functions are shown.
    """
    if _state.api is None or not hasattr(sys, "activate_stack_trampoline"):
        return False
    interpreter: Any = sys
    try:
        if not interpreter.is_stack_trampoline_active():
            interpreter.activate_stack_trampoline("perf")
    except Exception:
        return False  # the interpreter was built without it
    return True


def follow_environment() -> None:
    """Calls `python_frames` if the environment asks for it."""
    if os.environ.get(FRAMES_VARIABLE) == "1":
        python_frames()
