"""Measures what the functions of the package cost in Python, and what another binding would cost.

    python3 bench.py

Prints nanoseconds per call, the best of several rounds, without the cost of the loop. The C library
is not needed: a function of the C library of the system, which returns a constant, stands for every
function. So the time that the profiler itself needs, about 40 ns per marker, is not included.

`bench_extension.c` is an extension module in C with the limited API, for the comparison. If it was
compiled beside this file, it is measured, too:

    cc -O2 -shared -fPIC $(python3-config --includes) bench_extension.c -o bench_extension.so
"""

from __future__ import annotations

import ctypes
import operator
import os
import sys
from time import perf_counter_ns

ROUNDS = 200
CALLS = 500

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "src"), HERE]
# Without a session, so that the package loads nothing by itself.
for variable in ("MULTIPROCESS_PROFILER_SESSION", "MULTIPROCESS_PROFILER_CHILD", "PROFILER_AGENT"):
    os.environ.pop(variable, None)

import multiprocess_profiler as profiler
from multiprocess_profiler import _state
from multiprocess_profiler._library import Library


class StandIn:
    """Has each function of the library: `getpagesize`, which ignores its arguments."""

    def __init__(self) -> None:
        self._system = ctypes.PyDLL(None)

    def __getattr__(self, name: str) -> object:
        return self._system["getpagesize"]


def per_call(statement: str, names: dict) -> float:
    """Nanoseconds per execution of the statement, with those of the loop."""
    source = f"def run(calls):\n    for _ in calls:\n        {statement}\n"
    exec(source, names)
    best = float("inf")
    for _ in range(ROUNDS):
        begin = perf_counter_ns()
        names["run"](range(CALLS))
        best = min(best, perf_counter_ns() - begin)
    return best / CALLS


def report(title: str, statement: str, **names: object) -> None:
    """Prints the cost of a statement without that of the loop."""
    names["profiler"] = profiler
    cost = per_call(statement, names) - per_call("pass", {})
    print(f"{cost:8.0f} ns  {title}")


def package(state: str) -> None:
    """Measures the functions of the package."""

    @profiler.traced
    def function() -> None:
        pass

    counter = profiler.counter("bytes")
    report(f"marker, {state}", "profiler.marker('name')")
    report(f"marker with two fields, {state}", "profiler.marker('name', path='a.txt', size=3)")
    report(f"span, {state}", "with profiler.span('name'): pass")
    report(f"label, {state}", "with profiler.label('name'): pass")
    report(f"counter, {state}", "counter.add(1)", counter=counter)
    report(f"call of a traced function, {state}", "function()", function=function)


def bindings() -> None:
    """Measures one call from Python to C in several ways."""
    for kind in (ctypes.PyDLL, ctypes.CDLL):
        call = kind(None)["getpagesize"]
        call.argtypes, call.restype = (ctypes.c_char_p,), None
        report(f"one text by ctypes.{kind.__name__}", "call(b'name')", call=call)
    report("one argument to a built-in function in C", "call(1)", call=operator.index)
    try:
        import bench_extension
    except ImportError:
        print("     left out: bench_extension is not compiled")
    else:
        report("one text by an extension in C", "call('name')", call=bench_extension.marker)


def main() -> None:
    print(f"Python {sys.version.split()[0]}")
    package("without a session")
    _state.api = Library(StandIn())
    package("with a session")
    bindings()


if __name__ == "__main__":
    main()
