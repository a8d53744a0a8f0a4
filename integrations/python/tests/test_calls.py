"""What the functions of the package call in the library. A fake library notes the calls."""

import contextlib
import logging
import threading
import unittest

from fake_library import use

import multiprocess_profiler as profiler
from multiprocess_profiler import _state, _threads


class Unshowable:
    """A value whose text cannot be made."""

    def __str__(self):
        raise ValueError("no text")


class Spans(unittest.TestCase):
    def test_a_span_in_a_function_is_recorded_at_both_ends(self):
        fake = use(self)
        with profiler.span("load", path="a.txt", size=3):
            fake.call("inside", ())
        expected = [("begin", b"load", b"path=a.txt, size=3"), ("inside",), ("end", b"load")]
        self.assertEqual(fake.calls, expected)

    def test_a_span_in_a_generator_is_one_interval(self):
        fake = use(self)

        def steps():
            with profiler.span("steps", n=1):
                yield

        list(steps())
        self.assertEqual(fake.calls, [("now",), ("interval", b"steps", 0x1001, b"n=1")])

    def test_a_span_ends_when_the_block_raises_and_the_error_is_the_programs(self):
        fake = use(self)
        with self.assertRaises(KeyError):
            with profiler.span("load"):
                raise KeyError("own")
        self.assertEqual(fake.names(), ["begin", "end"])

    def test_a_span_does_not_end_on_another_thread(self):
        fake = use(self)
        span = profiler.span("load")
        span.__enter__()
        thread = threading.Thread(target=span.__exit__, args=(None, None, None))
        thread.start()
        thread.join()
        self.assertEqual(fake.names(), ["begin"])

    def test_a_span_whose_library_is_gone_at_its_end_does_nothing(self):
        fake = use(self)
        with profiler.span("load"):
            _state.api = None
        self.assertEqual(fake.names(), ["begin"])

    def test_spans_can_be_kept_in_a_stack_of_contexts(self):
        fake = use(self)
        with contextlib.ExitStack() as stack:
            stack.enter_context(profiler.span("outer"))
            stack.enter_context(profiler.span("inner"))
        ends = [call[1] for call in fake.calls if call[0] == "end"]
        self.assertEqual(ends, [b"inner", b"outer"])


class Texts(unittest.TestCase):
    def test_fields_are_formatted_only_while_the_process_records(self):
        fake = use(self, is_recording=0)

        class Watched:
            shown = 0

            def __str__(self):
                Watched.shown += 1
                return ""

        with profiler.span("load", value=Watched()):
            profiler.marker("m", value=Watched())
        profiler.marker_stack("m", value=Watched())
        profiler.marker_numbers("m", [1], value=Watched())
        self.assertEqual(Watched.shown, 0)
        fake.results["is_recording"] = 1
        profiler.marker("m", value=Watched())
        self.assertEqual(Watched.shown, 1)

    def test_a_value_without_a_text_is_named_and_the_others_stay(self):
        fake = use(self)
        profiler.marker("m", bad=Unshowable(), good=1)
        self.assertEqual(fake.calls, [("marker_text", b"m", b"bad=<Unshowable>, good=1")])

    def test_a_long_value_is_cut(self):
        fake = use(self)
        profiler.marker("m", long="x" * 5000, next=1)
        text = fake.calls[0][2]
        self.assertEqual(text, b"long=" + b"x" * 1000 + b", next=1")

    def test_names_of_any_kind_are_accepted(self):
        fake = use(self)
        for name in ("\ud800", 7, None, Unshowable(), b"bytes"):
            profiler.marker(name)
        expected = [b"?", b"7", b"None", b"<Unshowable>", b"b'bytes'"]
        self.assertEqual([call[1] for call in fake.calls], expected)

    def test_fields_may_have_the_names_of_parameters(self):
        fake = use(self)
        profiler.marker("m", name="a", self="b")
        self.assertEqual(fake.calls[0][2], b"name=a, self=b")


class Instants(unittest.TestCase):
    def test_instants_call_their_functions(self):
        fake = use(self)
        profiler.marker("a")
        profiler.marker("b", n=1)
        profiler.marker_stack("c")
        expected = [("marker", b"a"), ("marker_text", b"b", b"n=1"), ("marker_stack", b"c", None)]
        self.assertEqual(fake.calls, expected)

    def test_at_most_64_numbers_are_read(self):
        fake = use(self)

        def endless():
            while True:
                yield 0.5

        profiler.marker_numbers("n", endless(), unit="ms")
        name, title, text, numbers, count = fake.calls[0]
        self.assertEqual((name, title, text, count), ("marker_numbers", b"n", b"unit=ms", 64))
        self.assertEqual(list(numbers), [0.5] * 64)

    def test_numbers_that_are_none_harm_nothing(self):
        fake = use(self)
        for numbers in (["a"], 5, None, [Unshowable()]):
            profiler.marker_numbers("n", numbers)
        self.assertEqual(fake.calls, [])

    def test_recording_is_what_the_library_says(self):
        use(self, is_recording=0)
        self.assertIs(profiler.is_recording(), False)
        use(self)
        self.assertIs(profiler.is_recording(), True)


class Values(unittest.TestCase):
    def test_a_label_is_made_once_and_is_outside_of_all_frames(self):
        fake = use(self)
        for _ in range(2):
            with profiler.label("parse"):
                pass
        highest = 2**64 - 1
        expected = [
            ("label_new", b"parse"),
            ("label_push", 0x1001, highest),
            ("label_pop", 0x1002),
            ("label_push", 0x1001, highest),
            ("label_pop", 0x1003),
        ]
        self.assertEqual(fake.calls, expected)

    def test_groups_are_entered_waited_for_and_left(self):
        fake = use(self)
        with profiler.group("tenant:acme"):
            with profiler.waiting("disk"):
                pass
        entered = ["group_new", "group_enter", "group_new", "group_wait"]
        self.assertEqual(fake.names(), entered + ["group_leave"] * 2)

    def test_a_counter_is_looked_up_once_in_each_library(self):
        first = use(self)
        bytes_read = profiler.counter("Bytes read", "Bandwidth")
        bytes_read.add(5)
        bytes_read.add()
        second = use(self)
        bytes_read.set(7)
        new = ("counter_new", b"Bytes read", b"Bandwidth")
        add = [("counter_add", 0x1001, 5), ("counter_add", 0x1001, 1)]
        self.assertEqual(first.calls, [new, *add])
        self.assertEqual(second.calls, [new, ("counter_set", 0x1001, 7)])

    def test_a_counter_ignores_what_is_no_number(self):
        fake = use(self)
        counter = profiler.counter("n")
        counter.add("many")
        counter.set(None)
        counter.add(2.9)
        self.assertEqual(fake.calls[-1], ("counter_add", 0x1001, 2))
        self.assertEqual(fake.names(), ["counter_new", "counter_add"])


class Logging(unittest.TestCase):
    def log(self, **results):
        fake = use(self, **results)
        logger = logging.Logger("shop.orders")
        logger.addHandler(profiler.LogHandler(logging.INFO))
        return fake, logger

    def test_a_message_is_an_instant_named_by_its_level(self):
        fake, logger = self.log()
        logger.warning("order %d is late", 7)
        logger.debug("below the level")
        text = b"shop.orders: order 7 is late"
        self.assertEqual(fake.calls, [("marker_text", b"WARNING", text)])

    def test_a_message_that_cannot_be_formatted_is_left_out(self):
        fake, logger = self.log()
        logger.warning("%d", "no number")
        logger.warning("%s", Unshowable())
        self.assertEqual(fake.calls, [])

    def test_a_message_is_not_formatted_while_nothing_records(self):
        fake, logger = self.log(is_recording=0)
        logger.warning("%s", Unshowable())
        self.assertEqual(fake.calls, [])

    def test_a_formatter_is_used(self):
        fake, logger = self.log()
        logger.handlers[0].setFormatter(logging.Formatter("<%(message)s>"))
        logger.error("text")
        self.assertEqual(fake.calls, [("marker_text", b"ERROR", b"shop.orders: <text>")])


class Threads(unittest.TestCase):
    def setUp(self):
        self.addCleanup(
            setattr, threading.Thread, _threads._METHOD, getattr(threading.Thread, _threads._METHOD)
        )
        _threads.name_new_threads()

    def test_new_threads_have_their_names(self):
        fake = use(self)
        thread = threading.Thread(name="reader", target=lambda: profiler.marker("in thread"))
        thread.start()
        thread.join()
        self.assertEqual(fake.calls, [("thread_name", b"reader"), ("marker", b"in thread")])

    def test_a_thread_can_name_itself(self):
        fake = use(self)
        profiler.thread_name("main")
        self.assertEqual(fake.calls, [("thread_name", b"main")])

    def test_a_thread_runs_if_it_cannot_be_named(self):
        fake = use(self)
        fake.call = None
        ran = []
        thread = threading.Thread(target=ran.append, args=(1,))
        thread.start()
        thread.join()
        self.assertEqual(ran, [1])


if __name__ == "__main__":
    unittest.main()
