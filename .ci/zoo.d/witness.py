"""Runs one command and writes what became of it: `witness.py REPORT SECONDS COMMAND...`

The witness adopts the processes that their parents leave behind (`PR_SET_CHILD_SUBREAPER`).
Therefore it knows which processes outlive the command, and the system adds the processor time of
all of them to the witness's account (`RUSAGE_CHILDREN`). The profiler knows nothing of it: the
witness runs in the same way with and without `profiler record`.

The report is a JSON object. The command's output goes to REPORT.out and REPORT.err.
"""

import ctypes
import json
import os
import resource
import signal
import sys
import time

PR_SET_CHILD_SUBREAPER = 36
# How long a process may outlive the command before it counts as left behind: a daemon that has got
# its signal needs a moment.
GRACE_SECONDS = 3


def descendants():
    """The processes below this one that still run: their numbers and names."""
    parents, names = {}, {}
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            with open(f"/proc/{entry}/stat", encoding="utf-8", errors="replace") as file:
                stat = file.read()
        except OSError:
            continue
        name = stat[stat.index("(") + 1 : stat.rindex(")")]
        state, parent = stat[stat.rindex(")") + 2 :].split()[:2]
        if state not in "ZX":
            parents[int(entry)], names[int(entry)] = int(parent), name
    below = {os.getpid()}
    while True:
        more = {pid for pid, parent in parents.items() if parent in below} - below
        if not more:
            break
        below |= more
    below.discard(os.getpid())
    return {pid: names[pid] for pid in below if pid in names}


def become(command, report):
    """In the child: the state that the command begins with, and the command."""
    for number in (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT):
        signal.signal(number, signal.SIG_DFL)
    for target, path, flags in (
        (0, "/dev/null", os.O_RDONLY),
        (1, report + ".out", os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND),
        (2, report + ".err", os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND),
    ):
        descriptor = os.open(path, flags, 0o666)
        os.dup2(descriptor, target)
        os.close(descriptor)
    os.execvp(command[0], command)


def reap(until, wanted=None):
    """Reaps processes until `wanted` has ended or none is left, or until the time is over."""
    status = None
    while True:
        try:
            pid, ended = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return status
        if pid == 0:
            if time.monotonic() >= until:
                return status
            time.sleep(0.002)
        elif pid == wanted:
            return ended


def end(left):
    """Ends the processes that are left: first with SIGTERM, then with SIGKILL."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        for pid in left:
            try:
                os.kill(pid, number)
            except OSError:
                pass
        reap(time.monotonic() + 2)
        left = descendants()
        if not left:
            return


def main():
    report, seconds, command = sys.argv[1], float(sys.argv[2]), sys.argv[3:]
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    began = time.monotonic()
    first = os.fork()
    if first == 0:
        try:
            become(command, report)
        finally:
            os._exit(127)
    status = reap(began + seconds, first)
    wall = time.monotonic() - began
    in_time = status is not None
    if in_time:
        reap(time.monotonic() + GRACE_SECONDS)
    left = descendants()
    end(left)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    with open(report, "w", encoding="utf-8") as file:
        json.dump(
            {
                "pid": os.getpid(),
                "exit": os.waitstatus_to_exitcode(status) if in_time else "time-out",
                "wall_s": wall,
                "cpu_ms": 1000 * (used.ru_utime + used.ru_stime),
                "left": sorted(left.values()),
            },
            file,
        )


main()
