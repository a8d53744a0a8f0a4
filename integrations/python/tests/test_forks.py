"""When a forked child joins. The fork itself is only played; `test_recorded` has real ones."""

import multiprocessing.util
import threading
import unittest
from unittest import mock

from fake_library import FakeLibrary, use

import multiprocess_profiler as profiler
from multiprocess_profiler import _find, _state, _threads
from multiprocess_profiler._library import Library


class Children(unittest.TestCase):
    def setUp(self):
        self.parents = use(self)
        self.parents_library = _state.api
        self.joined = []
        self.childs = FakeLibrary()
        patch = mock.patch.object(_find, "attach_child", self.attach_child)
        patch.start()
        self.addCleanup(patch.stop)

    def attach_child(self, previous):
        self.joined.append(previous)
        return Library(self.childs)

    def test_a_child_that_uses_nothing_loads_nothing(self):
        _state._begin_child()
        self.assertEqual(self.joined, [])

    def test_a_child_joins_once_when_it_first_uses_the_library(self):
        _state._begin_child()
        with profiler.span("load"):
            profiler.marker("inside")
        self.assertEqual(self.joined, [self.parents_library])
        self.assertEqual(self.childs.names(), ["begin", "marker", "end"])
        self.assertEqual(self.parents.calls, [])

    def test_each_function_may_be_the_first(self):
        uses = {
            "span": lambda: profiler.span("a").__enter__(),
            "marker": lambda: profiler.marker("a", field=1),
            "numbers": lambda: profiler.marker_numbers("a", [1]),
            "stack": lambda: profiler.marker_stack("a"),
            "label": lambda: profiler.label("a").__enter__(),
            "group": lambda: profiler.group("a").__enter__(),
            "wait": lambda: profiler.waiting("a").__enter__(),
            "counter": lambda: profiler.counter("a").add(1),
            "thread": lambda: profiler.thread_name("a"),
        }
        for name, first_use in uses.items():
            with self.subTest(name):
                _state.api, self.childs.calls = self.parents_library, []
                _state._begin_child()
                first_use()
                self.assertIsInstance(_state.api, Library)
                self.assertNotEqual(self.childs.calls, [])

    def test_a_child_of_children_that_use_nothing_has_the_library_of_the_first(self):
        _state._begin_child()
        _state._begin_child()
        _state._begin_child()
        self.assertTrue(profiler.is_recording())
        self.assertEqual(self.joined, [self.parents_library])

    def test_a_child_joins_before_it_starts_a_thread(self):
        _threads.name_new_threads()
        _state._begin_child()
        thread = threading.Thread(target=lambda: None)
        with mock.patch.object(_state, "_child_library", self.on_main_thread):
            thread.start()
        thread.join()
        self.assertEqual(self.joined, ["MainThread"])

    def on_main_thread(self):
        self.joined.append(threading.current_thread().name)

    def test_a_child_of_multiprocessing_joins_before_its_work(self):
        _state._begin_child()
        multiprocessing.util._run_after_forkers()
        self.assertEqual(self.joined, [self.parents_library])

    def test_what_was_open_at_the_fork_is_not_closed_in_the_child(self):
        for opened in (profiler.span("load"), profiler.label("phase"), profiler.group("a")):
            with opened:
                _state._begin_child()
                profiler.marker("in child")
            self.assertEqual(self.childs.names(), ["marker"])
            self.childs.calls.clear()
            _state.api = self.parents_library

    def test_pointers_of_the_parent_are_not_used_in_the_child(self):
        jobs = profiler.counter("Jobs")
        jobs.add(1)
        with profiler.label("phase"):
            pass
        _state._begin_child()
        jobs.add(2)
        with profiler.label("phase"):
            pass
        new = ["counter_new", "counter_add", "label_new", "label_push", "label_pop"]
        self.assertEqual(self.childs.names(), new)

    def test_a_child_that_cannot_join_records_nothing_and_does_not_try_again(self):
        for failure in (lambda *_: None, mock.Mock(side_effect=OSError("no memory"))):
            _state.api = self.parents_library
            with mock.patch.object(_find, "attach_child", failure):
                _state._begin_child()
                with profiler.span("load"), profiler.label("phase"), profiler.group("a"):
                    profiler.marker("inside")
                    profiler.counter("Jobs").add(1)
            self.assertIsNone(_state.api)
            self.assertFalse(profiler.is_recording())


if __name__ == "__main__":
    unittest.main()
