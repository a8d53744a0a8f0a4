"""Shows Python functions in stacks, if this Python can. Prints its number and whether it does."""

import os
import time

import multiprocess_profiler as profiler


def hot_function():
    end = time.process_time() + 0.3
    while time.process_time() < end:
        sum(range(1000))


if "MULTIPROCESS_PROFILER_PYTHON_FRAMES" not in os.environ:
    profiler.python_frames()
hot_function()
print(os.getpid(), profiler.python_frames())
