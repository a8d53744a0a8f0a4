"""Programs below `profiler record`: what the profile contains."""

import multiprocessing
import os
import sys
import tempfile
import unittest

from running import Process, Recorded, install, needs_profiler, run


@needs_profiler
class OneProcess(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        # The session begins to measure groups a moment after the process records. On a busy machine
        # the program may have ended by then.
        for _ in range(10):
            cls.recorded = Recorded("everything.py", options=["--groups"])
            cls.process = cls.recorded.last()
            if any("disk" in counter for counter in cls.process.counters):
                break

    def test_the_program_runs_as_usual(self):
        recorded = self.recorded
        self.assertEqual((recorded.output, recorded.code), ("recording\ndone\n", 0))
        self.assertEqual(recorded.error_of_program(), [])

    def test_a_span_has_a_start_and_an_end(self):
        start, end = self.process.named("all")
        self.assertEqual(start, (Process.START, "reason=test"))
        self.assertEqual(end, (Process.END, None))

    def test_calls_of_traced_functions_are_spans(self):
        work = [phase for phase, _ in self.process.named("work")]
        self.assertEqual(work, [Process.START, Process.END] * 2)

    def test_coroutines_and_generators_are_intervals(self):
        for name, count in (("fetch", 2), ("numbers", 1), ("stream", 1), ("in a coroutine", 1)):
            phases = [phase for phase, _ in self.process.named(name)]
            self.assertEqual(phases, [Process.INTERVAL] * count, name)
        self.assertEqual(self.process.named("in a coroutine")[0][1], "number=1")

    def test_instants_have_their_texts(self):
        texts = {
            "plain": None,
            "with fields": "path=a.txt, bad=<Unshowable>",
            "with numbers": "unit=ms",
            "with a stack": "reason=test",
            "<Unshowable>": "long=" + "x" * 1000,
        }
        for name, text in texts.items():
            self.assertEqual(self.process.named(name), [(Process.INSTANT, text)], name)

    def test_numbers_are_recorded(self):
        data = [marker[3] for marker in self.process.markers if marker[0] == "with numbers"]
        self.assertEqual([entry["numbers"] for entry in data], [[1.0, 2.5]])
        self.assertEqual(self.process.named("with others"), [])

    def test_messages_of_logging_are_instants(self):
        expected = [(Process.INSTANT, "shop: order 7 is late")]
        self.assertEqual(self.process.named("WARNING"), expected)

    def test_counters_and_groups_are_tracks(self):
        self.assertIn("Bytes read", self.process.counters)
        for name in ("acme", "disk"):
            found = [counter for counter in self.process.counters if name in counter]
            self.assertTrue(found, (name, self.process.counters))

    def test_new_threads_have_their_names(self):
        self.assertIn("reader", self.process.threads)


@needs_profiler
@unittest.skipUnless(sys.implementation.name == "cpython", "the functions are for CPython")
class Native(unittest.TestCase):
    def test_functions_that_the_interpreter_calls_record_what_those_in_python_record(self):
        recorded = Recorded("native.py")
        self.assertEqual(recorded.error_of_program(), [])
        self.assertEqual((recorded.output, recorded.code), ("done\n", 0))
        (parent,) = (process for process in recorded.processes if process.named("outer"))
        both = [(Process.START, None), (Process.END, None)]
        outer = [(Process.START, "size=3, path=a.txt"), (Process.END, None)]
        self.assertEqual(parent.named("outer"), outer)
        self.assertEqual(parent.named("failing"), both)
        self.assertEqual(parent.named("raised"), [(Process.INSTANT, None)])
        self.assertEqual(parent.named("suspended"), [(Process.INTERVAL, "number=1")])
        self.assertEqual(parent.named("moved"), [(Process.START, None)])
        self.assertEqual(parent.named("twice"), both * 2)
        for name in ("ä" * 512, "7", "None", "cut"):
            self.assertEqual(len(parent.named(name)), 3, name)
        self.assertEqual(parent.named("open at the fork"), both)
        (child,) = (process for process in recorded.processes if process.named("child"))
        self.assertNotEqual(child.pid, parent.pid)
        self.assertEqual(child.named("open at the fork"), [])


@needs_profiler
class Verbose(unittest.TestCase):
    def test_the_library_says_why_a_program_is_not_recorded(self):
        with tempfile.TemporaryDirectory() as prefix:
            install(prefix)
            variables = {
                "PROFILER_AGENT": os.path.join(prefix, "lib", "libprofiler_agent.so"),
                "MULTIPROCESS_PROFILER_SESSION": "nonsense",
                "MULTIPROCESS_PROFILER_VERBOSE": "1",
            }
            result = run("everything.py", **variables)
        self.assertEqual(result.stdout, "not recording\ndone\n")
        (line,) = result.stderr.splitlines()
        self.assertIn("MULTIPROCESS_PROFILER_SESSION is malformed", line)


@needs_profiler
class Workers(unittest.TestCase):
    def check(self, kind, method):
        recorded = Recorded("workers.py", kind, method)
        self.assertEqual((recorded.code, recorded.error_of_program()), (0, []))
        pids = sorted(map(int, recorded.output.split()))
        self.assertEqual(recorded.having("worked"), pids, recorded.error)
        for process in recorded.processes:
            self.assertEqual(len(process.named("work")), 2 * len(process.named("worked")))
        # A counter that another thread holds up is left out if the process ends at once.
        counting = {process.pid for process in recorded.processes if "Jobs" in process.counters}
        self.assertLessEqual(counting, set(pids))

    def test_workers_join_by_themselves(self):
        for kind in ("process", "pool", "executor"):
            for method in multiprocessing.get_all_start_methods():
                with self.subTest(kind=kind, method=method):
                    self.check(kind, method)


@needs_profiler
class Forks(unittest.TestCase):
    def check(self, *words):
        # From 3.12 on, Python warns at a fork, because the threads of the profiler are threads.
        recorded = Recorded("forks.py", *words, PYTHONWARNINGS="ignore::DeprecationWarning")
        self.assertEqual((recorded.code, recorded.error_of_program()), (0, []))
        pids = sorted(map(int, recorded.output.split()))
        recording = [word for word in words if word != "silent"]
        self.assertEqual(len(pids), len(recording) + 1)
        self.assertEqual(recorded.having("lived"), pids, recorded.error)

    def test_each_generation_of_forked_processes_joins(self):
        self.check("records", "records", "records", "records", "records")

    def test_a_process_joins_below_processes_that_do_not_use_the_package(self):
        self.check("records", "silent", "silent")

    def test_a_process_joins_that_was_forked_while_there_were_threads(self):
        self.check("threaded", "threaded")


@needs_profiler
class Ends(unittest.TestCase):
    def test_a_process_that_is_killed_has_its_open_span(self):
        recorded = Recorded("dies.py")
        process = recorded.last()
        self.assertEqual(recorded.code, -9)
        self.assertEqual(process.named("open"), [(Process.START, "path=a.txt")])


@needs_profiler
class Frames(unittest.TestCase):
    def shown(self, **changes):
        """What `frames.py` prints, and the file of names that the interpreter has written."""
        recorded = Recorded("frames.py", **changes)
        pid, shows = recorded.output.split()
        file = f"/tmp/perf-{pid}.map"
        if not os.path.exists(file):
            return shows, ""
        self.addCleanup(os.remove, file)
        with open(file, encoding="utf-8") as names:
            return shows, names.read()

    @unittest.skipUnless(hasattr(sys, "activate_stack_trampoline"), "needs Python 3.12")
    def test_python_functions_are_named_on_request(self):
        for variables in ({}, {"MULTIPROCESS_PROFILER_PYTHON_FRAMES": "1"}):
            shows, names = self.shown(**variables)
            self.assertEqual(shows, "True")
            self.assertIn("py::hot_function:", names)

    @unittest.skipIf(hasattr(sys, "activate_stack_trampoline"), "this Python can name functions")
    def test_an_older_python_runs_without_names(self):
        self.assertEqual(self.shown(), ("False", ""))


@needs_profiler
class Installed(unittest.TestCase):
    def test_a_library_that_is_only_installed_records_forked_workers_too(self):
        # Nothing is preloaded, and the command names no library.
        with tempfile.TemporaryDirectory() as prefix:
            install(prefix)
            variables = {
                "PKG_CONFIG_PATH": os.path.join(prefix, "lib", "pkgconfig"),
                "PROFILER_AGENT": "",
            }
            for method in multiprocessing.get_all_start_methods():
                with self.subTest(method=method):
                    options = ["--no-agent"]
                    recorded = Recorded("workers.py", "pool", method, options=options, **variables)
                    pids = sorted(map(int, recorded.output.split()))
                    self.assertEqual(recorded.having("worked"), pids, recorded.error)


if __name__ == "__main__":
    unittest.main()
