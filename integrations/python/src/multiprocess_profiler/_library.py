"""The functions of the C library, as Python calls them.

`_find` opens libraries, and all other modules call the functions of the library that `_state` has
chosen. Imported only if a session is in the environment, because `ctypes` takes a few milliseconds
to import.

The functions are called with the interpreter's lock held (`PyDLL`). Most of them take far less than
a microsecond, and a thread that releases the lock may wait milliseconds until it has it again.
`join` waits for the session, usually for a millisecond and once per process. It reads the
environment, which other threads could change if the lock were released.
"""

from __future__ import annotations

import ctypes
import sys
from itertools import islice

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, Iterable, Optional, Tuple

#: The version of the interface in `profiler.h`. Libraries of the same version only add functions.
API_VERSION = 1
#: The most numbers that a marker records.
MOST_NUMBERS = 64


class Entered(ctypes.Structure):
    """`mpprof_entered`: what `mpprof_group_leave` needs to know."""

    _fields_ = [("words", ctypes.c_uint64 * 2)]


_TEXT = ctypes.c_char_p
_POINTER = ctypes.c_void_p

#: Result and arguments of each function, as `profiler.h` declares them.
FUNCTIONS: Dict[str, Tuple[Any, Tuple[Any, ...]]] = {
    "api_version": (ctypes.c_uint32, ()),
    "join": (ctypes.c_int, ()),
    "is_recording": (ctypes.c_int, ()),
    "marker": (None, (_TEXT,)),
    "marker_text": (None, (_TEXT, _TEXT)),
    "marker_numbers": (None, (_TEXT, _TEXT, ctypes.POINTER(ctypes.c_double), ctypes.c_size_t)),
    "marker_stack": (None, (_TEXT, _TEXT)),
    "now": (ctypes.c_uint64, ()),
    "interval": (None, (_TEXT, ctypes.c_uint64, _TEXT)),
    "begin": (None, (_TEXT, _TEXT)),
    "end": (None, (_TEXT,)),
    "label_new": (_POINTER, (_TEXT,)),
    "label_push": (ctypes.c_uint32, (_POINTER, _POINTER)),
    "label_pop": (None, (ctypes.c_uint32,)),
    "counter_new": (_POINTER, (_TEXT, _TEXT)),
    "counter_add": (None, (_POINTER, ctypes.c_int64)),
    "counter_set": (None, (_POINTER, ctypes.c_int64)),
    "group_new": (_POINTER, (_TEXT,)),
    "group_enter": (Entered, (_POINTER,)),
    "group_wait": (Entered, (_POINTER,)),
    "group_leave": (None, (Entered,)),
    "thread_name": (None, (_TEXT,)),
}


class Library:
    """The loaded library, with its functions as attributes.

    `after_fork` is `None` in an older library, with which forked children record nothing.
    """

    __slots__ = (*FUNCTIONS, "after_fork", "labels", "groups", "_dll")

    def __init__(self, dll: Any) -> None:
        """Describes the functions of `dll`. Raises `AttributeError` if a function is missing."""
        for name, (result, arguments) in FUNCTIONS.items():
            setattr(self, name, _function(dll, name, result, arguments))
        try:
            self.after_fork = _function(dll, "after_fork", ctypes.c_int, ())
        except AttributeError:
            self.after_fork = None
        self.labels: Dict[bytes, int] = {}
        self.groups: Dict[bytes, int] = {}
        self._dll = dll

    def anew(self) -> "Library":
        """The same library for a forked child, which looks its labels and groups up again."""
        return Library(self._dll)

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """A function of the library."""

    def native_functions(self, *replaced: Any) -> Optional[Tuple[Any, Any]]:
        """`span` and `marker` as functions that CPython calls without `ctypes`.

        `replaced` are the functions in Python that they call where they do not suffice, and the one
        that formats fields. `None` with another interpreter, or with an older library.
        """
        if sys.implementation.name != "cpython":
            return None
        arguments = (*[ctypes.py_object] * len(replaced), ctypes.c_size_t)
        try:
            make = _function(self._dll, "python_functions", ctypes.py_object, arguments)
            span, marker = make(*replaced, object.__basicsize__)
            return span, marker
        except Exception:
            return None

    def label(self, name: bytes) -> Optional[int]:
        """The label of this name; `None` if there are too many."""
        return _known(self.labels, self.label_new, name)

    def group(self, name: bytes) -> Optional[int]:
        """The group of this name; `None` if there are too many."""
        return _known(self.groups, self.group_new, name)

    def numbers_marker(self, name: bytes, text: Optional[bytes], numbers: Iterable[float]) -> None:
        """Records an instant with numbers."""
        values = [float(number) for number in islice(numbers, MOST_NUMBERS)]
        array = (ctypes.c_double * len(values))(*values)
        self.marker_numbers(name, text, array, len(values))


def _function(dll: Any, name: str, result: Any, arguments: Tuple[Any, ...]) -> Any:
    function = getattr(dll, "mpprof_" + name)
    function.restype = result
    function.argtypes = arguments
    return function


def _known(known: Dict[bytes, int], make: Any, name: bytes) -> Optional[int]:
    """The pointer of this name; makes it if it is new. The library bounds the number of names."""
    pointer = known.get(name)
    if pointer is None:
        pointer = make(name)
        if pointer:
            known[name] = pointer
    return pointer


def open_library(file: Optional[str]) -> Optional[Library]:
    """Loads a library, unless it is loaded already; `None` stands for all that is loaded.

    Returns `None` if there is no such library, or if it is of another version.
    """
    try:
        library = Library(ctypes.PyDLL(file))
    except (OSError, AttributeError, ValueError):
        return None
    return library if library.api_version() == API_VERSION else None
