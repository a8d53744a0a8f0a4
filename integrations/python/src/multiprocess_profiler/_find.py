"""Finds the library, and lets this process join the session.

Called by `_state`, once when the package is imported, and once in each forked child that uses it.
A process has one recorder. So the library that is loaded already comes first.

In a forked child, the library begins anew. It starts threads there, which needs locks of the C
library: a thread that no longer exists may hold one of the dynamic linker or of the environment.
Python itself takes the same risk when it imports an extension module in such a child.
"""

from __future__ import annotations

import os
import sys

from ._library import Library, open_library

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Iterator, List, Optional

#: The file name of the library.
NAME = "libprofiler_agent.so"
#: Names a library to use; `profiler record` names its own one.
LIBRARY_VARIABLE = "PROFILER_AGENT"
#: The file for pkg-config, which `profiler agent --install` writes.
PKG_CONFIG = "profiler-agent.pc"
#: How a user obtains the library.
ASK_FOR_IT = f"{LIBRARY_VARIABLE} may name it, and `profiler agent --install PREFIX` installs it"


_found: List[Library] = []


def has_library() -> bool:
    """Whether `attach` has found the library, which then says itself why nothing is recorded."""
    return bool(_found)


def attach() -> Optional[Library]:
    """Finds the library and joins. `None` if this process does not record."""
    library = open_library(None) or _first(_files())
    if library is None:
        return None
    _found.append(library)
    library.join()
    # In a forked child that imports the package, the library is that of its parent process.
    if not library.now() and library.after_fork is not None:
        library.after_fork()
    return library if library.now() else None


def attach_child(previous: Library) -> Optional[Library]:
    """Begins anew in a forked child. `previous` was the library of a process before this one."""
    if previous.after_fork is None:
        return None
    previous.after_fork()
    own = previous.anew()
    return own if own.now() else None


def _first(files: Iterator[str]) -> Optional[Library]:
    """The first of these files that can be loaded."""
    return next(filter(None, (open_library(file) for file in files)), None)


def _files() -> Iterator[str]:
    """The files that may be the library, the best first."""
    named = os.environ.get(LIBRARY_VARIABLE)
    if named:
        yield named
    yield os.path.join(os.path.dirname(os.path.abspath(__file__)), NAME)
    for directory in _pkg_config_directories():
        if os.path.exists(os.path.join(directory, PKG_CONFIG)):
            yield os.path.join(os.path.dirname(directory), NAME)
    yield NAME  # where the loader looks


def _pkg_config_directories() -> Iterator[str]:
    """The directories that may contain the file for pkg-config. The library is above it."""
    listed = os.environ.get("PKG_CONFIG_PATH", "").split(os.pathsep)
    yield from (os.path.abspath(directory) for directory in listed if directory)
    for prefix in (sys.prefix, os.path.expanduser("~/.local"), "/usr/local", "/usr"):
        yield os.path.join(prefix, "lib", "pkgconfig")
