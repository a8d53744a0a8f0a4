"""Uses spans and markers as CPython calls them without `ctypes`. Prints `done` at the end.

The process that it forks records nothing of the spans that are open at the fork.
"""

import os
import sys
import threading

import multiprocess_profiler as profiler

assert type(profiler.span).__name__ == "builtin_function_or_method", profiler.span
assert type(profiler.marker) is type(profiler.span)


class Failure(Exception):
    pass


def nested():
    with profiler.span("outer", size=3, path="a.txt") as outer:
        assert outer is not None
        try:
            with profiler.span("failing"):
                raise Failure
        except Failure:
            profiler.marker("raised")


def in_a_generator():
    with profiler.span("suspended", number=1):
        yield


def elsewhere():
    """A span that another thread ends has no end."""
    span = profiler.span("moved")
    span.__enter__()
    thread = threading.Thread(target=span.__exit__, args=(None, None, None))
    thread.start()
    thread.join()


def odd():
    """Names and calls that are not those of most programs."""
    for name in ("ä" * 2000, "\ud800", 7, None, "cut\0off"):
        with profiler.span(name):
            profiler.marker(name)
    for wrong in (lambda: profiler.span(), lambda: profiler.marker("a", "b")):
        try:
            wrong()
        except TypeError:
            continue
        raise AssertionError("no TypeError")
    span = type(profiler.span("made"))()  # has no name
    with span:
        pass
    with profiler.span("twice") as twice:
        pass
    with twice:
        pass


def keeps_nothing():
    """The counts of references are as before."""
    name, value = "".join(["counted ", "name"]), object()
    before = sys.getrefcount(name), sys.getrefcount(value), sys.getrefcount(None)
    for _ in range(50):
        with profiler.span(name, value=value):
            profiler.marker(name, value=value)
    after = sys.getrefcount(name), sys.getrefcount(value), sys.getrefcount(None)
    assert after[:2] == before[:2], (before, after)
    assert abs(after[2] - before[2]) < 20, (before, after)


def forks():
    with profiler.span("open at the fork"):
        child = os.fork()
        if not child:
            profiler.marker("child")
    if not child:
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0


nested()
assert list(in_a_generator()) == [None]
elsewhere()
odd()
keeps_nothing()
forks()
print("done")
