"""Is killed inside of a span."""

import os
import signal

import multiprocess_profiler as profiler

with profiler.span("open", path="a.txt"):
    os.kill(os.getpid(), signal.SIGKILL)
