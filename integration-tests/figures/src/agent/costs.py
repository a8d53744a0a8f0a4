"""Measures functions of the package for Python: one line per function, with its nanoseconds."""

from time import perf_counter_ns

import multiprocess_profiler as profiler

ROUNDS = 50
CALLS = 2000


def per_call(statement: str) -> float:
    """The least time of a round: the others were interrupted more often."""
    names = {"profiler": profiler}
    exec(f"def run(calls):\n    for _ in calls:\n        {statement}\n", names)
    best = float("inf")
    for _ in range(ROUNDS):
        begin = perf_counter_ns()
        names["run"](range(CALLS))
        best = min(best, perf_counter_ns() - begin)
    return best / CALLS


loop = per_call("pass")
state = "" if profiler.is_recording() else "off_"
for name, statement in (
    ("span", "with profiler.span('name'): pass"),
    ("span_fields", "with profiler.span('name', path='a.txt', size=3): pass"),
    ("marker", "profiler.marker('name')"),
):
    print(f"{state}{name}_ns {per_call(statement) - loop:.1f}")
