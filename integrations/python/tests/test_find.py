"""Which library is loaded, and how a forked child begins anew."""

import os
import tempfile
import unittest
from unittest import mock

from fake_library import FakeLibrary

from multiprocess_profiler import _find
from multiprocess_profiler._library import Library


class ForkedChildren(unittest.TestCase):
    def test_a_child_begins_anew_and_looks_its_labels_up_again(self):
        fake = FakeLibrary(now=1)
        parents = Library(fake)
        parents.label(b"phase")
        fake.calls.clear()
        own = _find.attach_child(parents)
        own.label(b"phase")
        self.assertEqual(fake.names(), ["after_fork", "now", "label_new"])

    def test_a_child_that_is_refused_does_not_record(self):
        fake = FakeLibrary()
        fake.call = lambda name, arguments: 0
        self.assertIsNone(_find.attach_child(Library(fake)))

    def test_a_child_of_an_older_library_records_nothing(self):
        fake = FakeLibrary(now=1, after_fork=None)
        parents = Library(fake)
        self.assertIsNone(parents.after_fork)
        self.assertIsNone(_find.attach_child(parents))
        self.assertEqual(fake.calls, [])

    def test_a_child_that_imports_the_package_begins_anew(self):
        fake = FakeLibrary()
        records = []

        def call(name, arguments):
            if name == "after_fork":
                records.append(True)
            return int(name == "api_version" or (name == "now" and bool(records)))

        fake.call = call
        with mock.patch.object(_find, "open_library", lambda file: Library(fake)):
            self.assertIsNotNone(_find.attach())


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
        loaded = Library(fake)
        opened = []

        def open_library(file):
            opened.append(file)
            return loaded if file is None else None

        with mock.patch.object(_find, "open_library", open_library):
            self.assertIs(_find.attach(), loaded)
        self.assertEqual(opened, [None])

    def test_a_process_that_is_refused_does_not_record(self):
        fake = FakeLibrary()
        fake.call = lambda name, arguments: int(name == "api_version")
        with mock.patch.object(_find, "open_library", lambda _: Library(fake)):
            self.assertIsNone(_find.attach())


if __name__ == "__main__":
    unittest.main()
