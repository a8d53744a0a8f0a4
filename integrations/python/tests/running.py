"""Runs the programs of the tests, alone and below `profiler record`, and reads profiles.

The environment variable `PROFILER` names the command. Tests that need it are skipped without it.
"""

import json
import os
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
SOURCES = os.path.join(HERE, "..", "src")
PROFILER = os.environ.get("PROFILER")
#: Variables of a session in which the tests themselves may run.
SESSION = ("MULTIPROCESS_PROFILER_SESSION", "MULTIPROCESS_PROFILER_CHILD", "PROFILER_AGENT")
#: Far more than any program of the tests needs.
LONG = 300

needs_profiler = unittest.skipUnless(PROFILER, "PROFILER does not name the command `profiler`")


def environment(**changes):
    """The environment of this process without a session, with changes."""
    variables = {name: value for name, value in os.environ.items() if name not in SESSION}
    variables["PYTHONPATH"] = SOURCES
    # A slow machine may need longer than the default.
    variables.setdefault("PROFILER_JOIN_WAIT_MS", "10000")
    return {**variables, **changes}


def python(program, *arguments):
    """The command line that runs a program of the tests, or a text of Python."""
    file = os.path.join(HERE, "programs", program)
    return [sys.executable, *([file] if os.path.exists(file) else ["-c", program]), *arguments]


def run(program, *arguments, **changes):
    """Runs a program alone. `changes` change its environment."""
    return _run(python(program, *arguments), environment(**changes))


def _run(command, variables):
    return subprocess.run(
        command,
        env=variables,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        timeout=LONG,
    )


def install(prefix):
    """Installs the library below a directory."""
    result = _run([PROFILER, "agent", "--install", prefix], environment())
    assert result.returncode == 0, result.stderr


class Recorded:
    """A program that `profiler record` has recorded.

    `processes` has one entry for each process of the profile.
    """

    def __init__(self, program, *arguments, options=(), **changes):
        with tempfile.TemporaryDirectory() as directory:
            file = os.path.join(directory, "out.json")
            command = [PROFILER, "record", "-o", file, "--format", "gecko", *options, "--"]
            result = _run(command + python(program, *arguments), environment(**changes))
            self.code, self.output, self.error = result.returncode, result.stdout, result.stderr
            with open(file, encoding="utf-8") as profile:
                self.processes = [Process(part) for part in json.load(profile)["processes"]]

    def error_of_program(self):
        """The standard error without the lines of the command."""
        lines = self.error.splitlines()
        return [line for line in lines if not line.startswith("profiler: ")]

    def last(self):
        """The process as it was recorded last. Until it imports the package, it is observed, and
        the profile shows that as a process of its own if it took long.
        """
        (pid,) = {process.pid for process in self.processes}
        return [process for process in self.processes if process.pid == pid][-1]

    def having(self, marker):
        """The numbers of the processes that have recorded this marker."""
        return sorted(process.pid for process in self.processes if process.named(marker))


class Process:
    """A process of a profile. A marker is its name, its phase, its text and its other data."""

    INSTANT, INTERVAL, START, END = range(4)

    def __init__(self, part):
        self.pid = int(part["threads"][0]["pid"])
        self.threads = {thread["name"] for thread in part["threads"]}
        self.markers = [marker for thread in part["threads"] for marker in _markers(thread)]
        self.counters = {counter["name"] for counter in part.get("counters", [])}
        # The viewer draws counters of most categories only if they are markers with values.
        self.counters |= {marker[0] for marker in self.markers if "value" in marker[3]}

    def named(self, name):
        """Phase and text of the markers of this name."""
        return [marker[1:3] for marker in self.markers if marker[0] == name]


def _markers(thread):
    strings = thread["stringTable"]
    for row in thread["markers"]["data"]:
        data = row[5] if len(row) > 5 and row[5] else {}
        yield strings[row[0]], row[3], data.get("name", data.get("text")), data
