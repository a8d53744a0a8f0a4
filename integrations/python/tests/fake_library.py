"""A library of the profiler that notes the calls. Used by the tests without a real one.

It checks the arguments as `ctypes` does: a text is bytes or `None`, all else is a number.
"""

import ctypes
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "src"))

from multiprocess_profiler import _state
from multiprocess_profiler._library import Entered, Library

#: Results of the functions that return something else than 0.
RESULTS = {"api_version": 1, "is_recording": 1, "join": 1}


class FakeFunction:
    """One function: notes its calls in the list of its library."""

    def __init__(self, fake, name):
        self._fake = fake
        self._name = name
        self.restype = None
        self.argtypes = None

    def __call__(self, *arguments):
        assert len(arguments) == len(self.argtypes), f"{self._name}{arguments}"
        for argument, kind in zip(arguments, self.argtypes):
            check(self._name, argument, kind)
        return self._fake.call(self._name, arguments)


def check(name, argument, kind):
    """Checks that `ctypes` would accept the argument."""
    if kind is ctypes.c_char_p:
        accepted = argument is None or isinstance(argument, bytes)
    elif kind is Entered:
        accepted = isinstance(argument, Entered)
    elif kind is ctypes.c_void_p:
        accepted = argument is None or isinstance(argument, int)
    else:
        accepted = isinstance(argument, (int, ctypes.Array))
    assert accepted, f"{name}: {argument!r} is not {kind}"


class FakeLibrary:
    """Stands for what `ctypes` loads. `calls` has the name and the arguments of each call."""

    def __init__(self, **results):
        self.calls = []
        self.results = {**RESULTS, **results}
        self._made = 0x1000

    def __getattr__(self, name):
        name = name[len("mpprof_") :]
        if self.results.get(name, 0) is None:
            raise AttributeError(name)
        return FakeFunction(self, name)

    def call(self, name, arguments):
        if name in ("is_recording", "api_version"):
            return self.results[name]
        self.calls.append((name, *arguments))
        if name in ("label_new", "counter_new", "group_new", "label_push", "now"):
            self._made += 1
            return self._made
        return Entered() if name in ("group_enter", "group_wait") else self.results.get(name, 0)

    def names(self):
        """The names of the functions that were called."""
        return [call[0] for call in self.calls]


def use(test, **results):
    """Lets the package use a fake library until the test ends, and returns it."""
    fake = FakeLibrary(**results)
    before = _state.api
    _state.api = Library(fake)
    test.addCleanup(setattr, _state, "api", before)
    return fake
