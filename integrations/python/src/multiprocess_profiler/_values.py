"""Labels, groups, counters and names of threads.

The library makes one label, group or counter per name. A forked child looks them up again.
"""

from __future__ import annotations

from . import _state
from ._markers import NOTHING, Scope
from ._text import encoded

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, ContextManager, Optional

#: The place of a label that is outside of all native frames: the highest address.
OUTERMOST = (1 << 64) - 1


def label(name: str, /) -> ContextManager[Any]:
    """Shows a name in the samples of the calling thread during a `with` block.

    The label is the outermost frame of the stacks, because a function in Python has no place of its
    own on the native stack. The block must not contain `await` or `yield`: other code of the thread
    would get the label.
    """
    api = _state.api
    if api is None:
        return NOTHING
    pointer = api.label(encoded(name))
    return Scope(api.label_push, (pointer, OUTERMOST), api.label_pop)


def group(name: str, /) -> ContextManager[Any]:
    """Counts the time of a `with` block for a group, such as `plugin:spell checker`.

    The part before the colon is the kind of the group. The block must not contain `await` or
    `yield`: the group would get the time of other code of the thread.
    """
    api = _state.api
    if api is None:
        return NOTHING
    return Scope(api.group_enter, (api.group(encoded(name)),), api.group_leave)


def waiting(name: str, /) -> ContextManager[Any]:
    """Counts the time of a `with` block as a wait for a group, such as a database.

    The time is blocking time of all groups in which the block is. As for `group`, the block must
    not contain `await` or `yield`.
    """
    api = _state.api
    if api is None:
        return NOTHING
    return Scope(api.group_wait, (api.group(encoded(name)),), api.group_leave)


class Counter:
    """A number that the profile shows as a graph. Made by `counter`."""

    __slots__ = ("_name", "_category", "_api", "_pointer")

    def __init__(self, name: str, category: str) -> None:
        self._name = encoded(name)
        self._category = encoded(category)
        self._api: Any = None
        self._pointer: Optional[int] = None

    def add(self, delta: int = 1) -> None:
        """Adds to the counter."""
        api = _state.api
        if api is None:
            return
        try:
            if api is not self._api:
                api = self._found()
            api.counter_add(self._pointer, int(delta))
        except Exception:
            pass  # it is not a number

    def set(self, value: int) -> None:
        """Sets the counter."""
        api = _state.api
        if api is None:
            return
        try:
            if api is not self._api:
                api = self._found()
            api.counter_set(self._pointer, int(value))
        except Exception:
            pass  # it is not a number

    def _found(self) -> Any:
        """Looks the counter up in the library of this process, and returns the library."""
        api = _state.settled()
        self._pointer = api.counter_new(self._name, self._category)
        self._api = api
        return api


def counter(name: str, category: str = "", /) -> Counter:
    """The counter of this name.

    The category `Memory` is drawn as accumulated bytes, `Bandwidth` as bytes per second, any other
    one as a rate.
    """
    return Counter(name, category)


def thread_name(name: str, /) -> None:
    """Names the calling thread in the profile.

    Threads of `threading` have their names already, as far as they start after the import of this
    package.
    """
    api = _state.api
    if api is not None:
        api.thread_name(encoded(name))
