"""Forks a chain of processes: `forks.py WORD...`, one word per generation.

A process whose word is `records` records a marker and prints its number. One whose word is `silent`
does not use the package. One whose word is `threaded` starts a thread before it forks, and records.
Each process waits for its child.
"""

import os
import sys
import threading

import multiprocess_profiler as profiler


def live(word):
    if word == "threaded":
        threading.Thread(target=threading.Event().wait, daemon=True).start()
    if word != "silent":
        profiler.marker("lived", pid=os.getpid())
        print(os.getpid(), flush=True)


for word in sys.argv[1:]:
    live(word)
    child = os.fork()
    if child:
        sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
live("records")
