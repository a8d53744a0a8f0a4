"""Finds the library, and lets this process join the session.

Called by `_state`, once when the package is imported, and once in each forked child that uses it.

A process has one recorder. So the copy that is loaded already, usually by `profiler record`, comes
first. A forked child needs a copy of its own, because the copy of its parent process records
nothing in it. `forks/N` beside the library contains the copy for the N-th generation of children,
and the library itself loads it 10 ms after a fork if the program had one thread. This module loads
the same file, so the child has one recorder, from the first of the two. A child without such a file loads a
copy of the library from memory.

The other thread may still be joining. Then this module waits for it, as long as a process waits for
the session. A second copy would be refused.

Loading a library takes a lock of the loader. In the child of a fork in a program with several
threads, a thread that no longer exists may hold the lock. Python itself takes the same risk when it
imports an extension module in such a child.
"""

from __future__ import annotations

import os
import sys
import time

from ._library import Library, is_loaded, open_library

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable, Iterator, List, Optional

#: The file name of the library.
NAME = "libprofiler_agent.so"
#: Names a library to use; `profiler record` uses the same variable.
LIBRARY_VARIABLE = "PROFILER_AGENT"
#: Changes how long a process waits for the session, in milliseconds.
WAIT_VARIABLE = "PROFILER_JOIN_WAIT_MS"
#: The file for pkg-config, which `profiler agent --install` writes.
PKG_CONFIG = "profiler-agent.pc"
#: How long a process waits for the session, in seconds, and the most that the variable can set.
WAIT, LONGEST_WAIT = 0.02, 10.0
#: A flag of the kernel: the process was forked, and has executed no program since.
_FORKED = 0x40


def attach() -> Optional[Library]:
    """Finds the library and joins. `None` if this process does not record."""
    library = open_library(None, None, 0) or _first(_files())
    if library is None:
        return None
    library.join()
    # A forked child that imports the package has the copy of its parent process, which is dead.
    if is_forked() and not library.now():
        return attach_child(library, 0)
    return library if _may_record(library) else None


def attach_child(previous: Library, forks: int) -> Optional[Library]:
    """Joins in a forked child. `previous` was the library of a process that is `forks` forks
    before this one; 0 means that the number is not known.
    """
    copies = _loaded_copies(previous)
    if copies:
        library = _active(lambda: _loaded_copies(previous))
        if library is not None or forks == 1:
            return library
        # Processes in between have loaded the copies, which are dead in this one.
    own = _open_next(copies[-1] if copies else previous)
    if own is None:
        return None
    own.join()
    # The other thread may have begun to join just before.
    return _active(lambda: [own])


def _active(candidates: Callable[[], List[Library]]) -> Optional[Library]:
    """The first of the candidates that records in this process. Waits for one that is joining, as
    long as a process waits for the session.
    """
    deadline = time.monotonic() + _longest_wait()
    while True:
        copies = candidates()
        recording = [library for library in copies if library.now()]
        if recording:
            return recording[0]
        if time.monotonic() >= deadline or not _has_other_threads():
            return copies[-1] if _may_record(copies[-1]) else None
        time.sleep(0.001)


def _may_record(library: Library) -> bool:
    """Whether this process records, or may do so later because another thread is joining."""
    return bool(library.now()) or _has_other_threads()


def _has_other_threads() -> bool:
    """Whether this process has other threads than the calling one, of any kind."""
    try:
        return len(os.listdir("/proc/self/task")) > 1
    except OSError:
        return True


def _longest_wait() -> float:
    """How long this process waits for the session, in seconds."""
    try:
        return min(int(os.environ[WAIT_VARIABLE]) / 1000, LONGEST_WAIT)
    except (KeyError, ValueError):
        return WAIT


def _loaded_copies(previous: Library) -> List[Library]:
    """The copies for later generations that this process has loaded, the next one first."""
    copies: List[Library] = []
    latest: Optional[Library] = previous
    while latest is not None and _is_loaded(_file_of_next(latest)):
        latest = _open_next(latest)
        if latest is not None:
            copies.append(latest)
    return copies


def _is_loaded(file: Optional[str]) -> bool:
    return file is not None and os.path.exists(file) and is_loaded(file)


def _file_of_next(library: Library) -> Optional[str]:
    """The file for the generation after that of a library. It need not exist."""
    if library.path is None:
        return None
    directory = os.path.dirname(library.path)
    return os.path.join(directory, "forks", str(library.generation + 1), NAME)


def _open_next(library: Library) -> Optional[Library]:
    """Opens the copy for the generation after that of a library."""
    file = _file_of_next(library)
    if file is None or library.path is None:
        return None
    if os.path.exists(file):
        return open_library(file, library.path, library.generation + 1)
    return _copy_in_memory(library.path, library.generation + 1)


def _copy_in_memory(path: str, generation: int) -> Optional[Library]:
    """Loads a copy that is in no directory."""
    with open(path, "rb") as file:
        content = file.read()
    memory = os.memfd_create(NAME, os.MFD_CLOEXEC)
    with open(memory, "wb") as copy:
        copy.write(content)
        copy.flush()
        # The loader knows its files by name, and the parent's copy may have had the same number.
        name = "./" * generation + str(memory)
        return open_library(f"/proc/self/fd/{name}", path, generation)


def is_forked() -> bool:
    """Whether this process was forked and has executed no program since."""
    try:
        with open("/proc/self/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
        return bool(int(fields[6]) & _FORKED)
    except (OSError, IndexError, ValueError):
        return False


def _first(files: Iterator[str]) -> Optional[Library]:
    """The first of these files that can be loaded."""
    return next(filter(None, (open_library(file, None, 0) for file in files)), None)


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
