"""Which library is loaded, and which copy of it a forked child uses."""

import os
import tempfile
import unittest
from unittest import mock

from fake_library import FakeLibrary

from multiprocess_profiler import _find
from multiprocess_profiler._library import Library
from running import run


class Copies:
    """A directory with copies of the library. `loaded` has the generations that are loaded, and
    `active` those that record.
    """

    def __init__(self, test, on_disk):
        directory = tempfile.TemporaryDirectory()
        test.addCleanup(directory.cleanup)
        self.path = os.path.join(directory.name, _find.NAME)
        self.loaded, self.active, self.opened, self.polled = set(), set(), [], 0
        for generation in range(on_disk + 1):
            self.make(generation)
        self.patch(test, "open_library", self.open)
        self.patch(test, "is_loaded", lambda file: self.generation_of(file) in self.loaded)
        self.patch(test, "_longest_wait", lambda: 60.0)
        self.patch(test, "_has_other_threads", lambda: True)

    def patch(self, test, name, value):
        patch = mock.patch.object(_find, name, value)
        patch.start()
        test.addCleanup(patch.stop)

    def make(self, generation):
        if generation:
            os.makedirs(os.path.join(os.path.dirname(self.path), "forks", str(generation)))
        with open(self.file(generation), "w", encoding="utf-8"):
            pass

    def file(self, generation):
        middle = ("forks", str(generation)) if generation else ()
        return os.path.join(os.path.dirname(self.path), *middle, _find.NAME)

    def generation_of(self, file):
        directory = os.path.basename(os.path.dirname(file))
        return int(directory) if directory.isdigit() else 0

    def open(self, file, base, generation):
        if generation not in self.loaded:
            self.opened.append((file, generation))
        self.loaded.add(generation)
        return self.library(generation)

    def library(self, generation):
        fake = FakeLibrary()
        fake.call = lambda name, arguments: self.call(generation, name)
        return Library(fake, self.path, generation)

    def call(self, generation, name):
        if name == "join" and generation == len(self.loaded) - 1:
            self.active.add(generation)
        if name == "now":
            self.polled += 1
            return int(generation in self.active)
        return FakeLibrary().results.get(name, 0)


class ForkedChildren(unittest.TestCase):
    def test_a_child_loads_the_copy_for_its_generation(self):
        copies = Copies(self, on_disk=3)
        for generation in range(3):
            copies.loaded.add(generation)
            found = _find.attach_child(copies.library(generation), 1)
            self.assertEqual(found.generation, generation + 1)
            self.assertEqual(copies.opened[-1], (copies.file(generation + 1), generation + 1))

    def test_a_child_waits_for_the_copy_that_is_joining_and_loads_no_other(self):
        for forks in (0, 1, 2):
            copies = Copies(self, on_disk=3)
            copies.loaded = {0, 1}

            def call(generation, name, copies=copies):
                if name == "now":
                    copies.polled += 1
                    return int(generation == 1 and copies.polled > 5)
                return FakeLibrary().results.get(name, 0)

            copies.call = call
            found = _find.attach_child(copies.library(0), forks)
            self.assertEqual((found.generation, copies.opened), (1, []))

    def test_a_copy_of_a_process_in_between_is_not_used(self):
        copies = Copies(self, on_disk=3)
        copies.loaded = {0, 1}
        with mock.patch.object(_find, "_has_other_threads", lambda: False):
            found = _find.attach_child(copies.library(0), 2)
        self.assertEqual((found.generation, copies.opened), (2, [(copies.file(2), 2)]))

    def test_a_child_waits_if_another_thread_joins_first(self):
        copies = Copies(self, on_disk=3)
        copies.loaded = {0}

        def call(generation, name):
            copies.polled += name == "now"
            return int(name == "api_version" or (name == "now" and copies.polled > 5))

        copies.call = call
        found = _find.attach_child(copies.library(0), 1)
        self.assertEqual((found.generation, len(copies.opened)), (1, 1))

    def test_a_copy_that_joins_late_is_used_when_it_has_joined(self):
        copies = Copies(self, on_disk=3)
        copies.loaded = {0, 1}
        copies.patch(self, "_longest_wait", lambda: 0.0)
        found = _find.attach_child(copies.library(0), 1)
        self.assertEqual((found.generation, copies.opened), (1, []))

    def test_a_child_without_other_threads_does_not_wait(self):
        copies = Copies(self, on_disk=3)
        for loaded in ({0}, {0, 1}):
            copies.loaded = loaded
            copies.call = lambda generation, name: int(name == "api_version")
            with mock.patch.object(_find, "_has_other_threads", lambda: False):
                with mock.patch.object(_find.time, "sleep", mock.Mock(side_effect=AssertionError)):
                    self.assertIsNone(_find.attach_child(copies.library(0), 1))
        self.assertEqual(copies.opened, [(copies.file(1), 1)])

    def test_without_a_file_a_child_loads_a_copy_from_memory(self):
        copies = Copies(self, on_disk=1)
        copies.loaded = {0, 1}
        found = _find.attach_child(copies.library(1), 1)
        file, generation = copies.opened[0]
        self.assertEqual((found.generation, generation), (2, 2))
        self.assertRegex(file, r"^/proc/self/fd/\./\./\d+$")
        descriptor = int(os.path.basename(file))
        self.assertRaises(OSError, os.fstat, descriptor)

    def test_a_library_of_unknown_place_has_no_copies(self):
        fake = FakeLibrary()
        self.assertIsNone(_find.attach_child(Library(fake, None), 1))

    def test_a_child_that_imports_the_package_has_a_copy_of_its_own(self):
        copies = Copies(self, on_disk=3)
        copies.loaded = {0}
        copies.call = lambda generation, name: int(name == "api_version" or generation == 1)
        copies.patch(self, "open_library", lambda file, base, number: copies.library(number))
        copies.patch(self, "is_forked", lambda: True)
        self.assertEqual(_find.attach().generation, 1)


class Processes(unittest.TestCase):
    SCRIPT = """if True:
        import os, sys
        from multiprocess_profiler._find import is_forked
        print(is_forked(), flush=True)
        if len(sys.argv) > 1 and os.fork() == 0:
            print(is_forked(), flush=True)
            os.execv(sys.executable, [sys.executable, "-c", sys.argv[1]])
        elif len(sys.argv) > 1:
            os.wait()
    """

    def test_a_process_is_forked_until_it_executes_a_program(self):
        result = run(self.SCRIPT, self.SCRIPT)
        self.assertEqual(result.stdout.split(), ["False", "True", "False"], result.stderr)


class Files(unittest.TestCase):
    def test_the_named_library_is_the_first_and_the_loaders_the_last(self):
        with tempfile.TemporaryDirectory() as prefix:
            directory = os.path.join(prefix, "lib", "pkgconfig")
            os.makedirs(directory)
            with open(os.path.join(directory, _find.PKG_CONFIG), "w", encoding="utf-8"):
                pass
            variables = {_find.LIBRARY_VARIABLE: "/named.so", "PKG_CONFIG_PATH": directory}
            with mock.patch.dict(os.environ, variables):
                files = list(_find._files())
        beside = os.path.join(os.path.dirname(os.path.abspath(_find.__file__)), _find.NAME)
        installed = os.path.join(prefix, "lib", _find.NAME)
        self.assertEqual(files[:3], ["/named.so", beside, installed])
        self.assertEqual(files[-1], _find.NAME)

    def test_a_library_that_is_loaded_already_comes_before_all_files(self):
        fake = FakeLibrary(now=1)
        fake.call = lambda name, arguments: 1
        loaded = Library(fake, None)
        opened = []

        def open_library(file, base, generation):
            opened.append(file)
            return loaded if file is None else None

        with mock.patch.object(_find, "open_library", open_library):
            self.assertIs(_find.attach(), loaded)
        self.assertEqual(opened, [None])

    def test_a_process_that_is_refused_does_not_record(self):
        fake = FakeLibrary()
        fake.call = lambda name, arguments: int(name == "api_version")
        refused = Library(fake, None)
        for is_joining, found in ((False, None), (True, refused)):
            with mock.patch.object(_find, "open_library", lambda *_: refused):
                with mock.patch.object(_find, "_has_other_threads", lambda: is_joining):
                    self.assertIs(_find.attach(), found)


if __name__ == "__main__":
    unittest.main()
