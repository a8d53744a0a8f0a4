"""Says why the process does not record, if the environment asks for it.

Imported by `_state` only then. The library says so itself if it was loaded. Nothing here raises, or
waits for a reader of the line.
"""

from __future__ import annotations

import os
import select

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Optional

#: The longest line in bytes: a pipe takes as many at once.
LONGEST = 512
STANDARD_ERROR = 2


def tell(why: str) -> None:
    """Prints one line to standard error, unless the pipe or file takes nothing now."""
    try:
        name = os.path.basename(os.readlink("/proc/self/exe"))
        line = f"profiler: {name} [{os.getpid()}]: off: {why}".encode("utf-8", "replace")
        if _may_tell() and select.select([], [STANDARD_ERROR], [], 0)[1]:
            os.write(STANDARD_ERROR, line[: LONGEST - 1] + b"\n")
    except Exception:
        pass  # standard error is closed


def _may_tell() -> bool:
    """Whether the process has no more rights than its parent process, which has asked."""
    return os.getuid() == os.geteuid() and os.getgid() == os.getegid()
