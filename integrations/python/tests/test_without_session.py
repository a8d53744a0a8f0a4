"""Programs that use the package do the same without a session, and without a library."""

import os
import tempfile
import time
import unittest

from running import environment, run

#: A session that is over.
SESSION = {"MULTIPROCESS_PROFILER_SESSION": "/no/such/session"}


class WithoutSession(unittest.TestCase):
    def is_unharmed(self, result):
        """The program has run to its end, has not recorded, and has printed nothing else."""
        expected = ("not recording\ndone\n", "", 0)
        self.assertEqual((result.stdout, result.stderr, result.returncode), expected)

    def test_all_functions_do_nothing_without_a_session(self):
        self.is_unharmed(run("everything.py"))

    def test_nothing_is_loaded_without_a_session(self):
        script = "import sys, multiprocess_profiler; print('ctypes' in sys.modules)"
        self.assertEqual(run(script).stdout, "False\n")

    def test_all_functions_do_nothing_if_the_library_cannot_be_loaded(self):
        with tempfile.TemporaryDirectory() as directory:
            text = os.path.join(directory, "text.so")
            with open(text, "w", encoding="utf-8") as file:
                file.write("no library")
            # No file, no library, a directory, and a library without the functions.
            for library in ("/no/such/file.so", text, directory, "libm.so.6"):
                with self.subTest(library=library):
                    self.is_unharmed(
                        run("everything.py", HOME=directory, PROFILER_AGENT=library, **SESSION)
                    )

    def test_the_reason_is_one_line_and_only_on_request(self):
        missing = {
            "PROFILER_AGENT": "/no/such/file.so",
            "HOME": "/nonexistent",
            "LD_LIBRARY_PATH": "",
            "XDG_CACHE_HOME": "/nonexistent",
            **SESSION,
        }
        for variables, reason in (({}, "off: no session"), (missing, "was not found")):
            result = run("everything.py", MULTIPROCESS_PROFILER_VERBOSE="1", **variables)
            (line,) = result.stderr.splitlines()
            self.assertTrue(line.startswith("profiler: python"), line)
            self.assertIn(reason, line)
        self.is_unharmed(run("everything.py", MULTIPROCESS_PROFILER_VERBOSE="0"))

    def test_the_reason_harms_nothing_if_standard_error_is_closed(self):
        script = "import os, sys; os.close(2); import multiprocess_profiler; print('done')"
        result = run(script, MULTIPROCESS_PROFILER_VERBOSE="1")
        self.assertEqual((result.stdout, result.returncode), ("done\n", 0))

    def test_workers_run_without_a_session(self):
        for variables in ({}, SESSION):
            result = run("workers.py", "executor", "fork", **variables)
            self.assertEqual((result.stderr, result.returncode), ("", 0))
            self.assertGreaterEqual(len(result.stdout.split()), 1)

    def test_python_frames_are_shown_only_while_the_process_records(self):
        begin = time.time()
        result = run("frames.py", MULTIPROCESS_PROFILER_PYTHON_FRAMES="1")
        pid, shows = result.stdout.split()
        self.assertEqual(shows, "False")
        # An earlier process with this number may have left its file.
        file = f"/tmp/perf-{pid}.map"
        self.assertFalse(os.path.exists(file) and os.path.getmtime(file) >= begin)

    def test_the_environment_of_the_tests_has_no_session(self):
        self.assertFalse(set(SESSION) & set(environment()))


if __name__ == "__main__":
    unittest.main()
