"""The decorator: functions, coroutines and generators do the same as without it."""

import asyncio
import inspect
import types
import unittest

from fake_library import use

import multiprocess_profiler as profiler


class Functions(unittest.TestCase):
    def test_each_call_of_a_function_is_a_span(self):
        fake = use(self)

        @profiler.traced
        def add(a, b=1):
            """Adds."""
            return a + b

        self.assertEqual((add(1), add(1, b=2)), (2, 3))
        self.assertEqual((add.__name__, add.__doc__), ("add", "Adds."))
        name = add.__qualname__.encode()
        self.assertEqual(fake.calls, [("begin", name, None), ("end", name)] * 2)

    def test_the_decorator_takes_a_name(self):
        fake = use(self)

        @profiler.traced("addition")
        def add(a, b):
            return a + b

        self.assertEqual(add(1, 2), 3)
        self.assertEqual(fake.calls, [("begin", b"addition", None), ("end", b"addition")])

    def test_an_error_of_the_function_passes(self):
        fake = use(self)

        @profiler.traced()
        def fail():
            raise KeyError("own")

        self.assertRaises(KeyError, fail)
        self.assertEqual(fake.names(), ["begin", "end"])

    def test_methods_of_each_kind_are_spans(self):
        fake = use(self)

        class Shop:
            @profiler.traced
            def one(self):
                return self

            @profiler.traced
            @classmethod
            def two(cls):
                return cls

            @profiler.traced
            @staticmethod
            def three():
                return 3

        shop = Shop()
        self.assertEqual((shop.one(), shop.two(), shop.three()), (shop, Shop, 3))
        self.assertEqual(fake.names(), ["begin", "end"] * 3)

    def test_what_a_wrapper_would_change_stays(self):
        use(self)
        both = types.coroutine(lambda: (yield))
        for target in (int, property(), both, 7):
            self.assertIs(profiler.traced(target), target)

    def test_without_a_library_the_function_stays(self):
        def function():
            pass

        self.assertIs(profiler.traced(function), function)
        self.assertIs(profiler.traced("name")(function), function)


class Coroutines(unittest.TestCase):
    def test_a_coroutine_is_one_interval_whichever_ends_first(self):
        fake = use(self)

        @profiler.traced("wait")
        async def wait(event):
            await event.wait()
            return "done"

        async def main():
            first, second = asyncio.Event(), asyncio.Event()
            tasks = [asyncio.ensure_future(wait(event)) for event in (first, second)]
            await asyncio.sleep(0)
            first.set()
            await tasks[0]
            second.set()
            return [await task for task in tasks]

        self.assertEqual(asyncio.run(main()), ["done", "done"])
        self.assertTrue(inspect.iscoroutinefunction(wait))
        # The interval that began first also ended first, with its own start.
        ends = [call[2] for call in fake.calls if call[0] == "interval"]
        self.assertEqual(ends, [0x1001, 0x1002])

    def test_a_coroutine_that_is_cancelled_ends_its_interval(self):
        fake = use(self)

        @profiler.traced
        async def wait():
            await asyncio.sleep(3600)

        async def main():
            task = asyncio.ensure_future(wait())
            await asyncio.sleep(0)
            task.cancel()
            await task

        with self.assertRaises(asyncio.CancelledError):
            asyncio.run(main())
        self.assertEqual(fake.names(), ["now", "interval"])


class Generators(unittest.TestCase):
    def test_a_generator_gets_what_is_sent_and_thrown_and_returns_its_value(self):
        fake = use(self)

        @profiler.traced
        def echo():
            received = []
            try:
                while True:
                    received.append((yield len(received)))
            except KeyError:
                return received

        steps = echo()
        self.assertEqual(fake.calls, [])
        self.assertEqual((next(steps), steps.send("a"), steps.send("b")), (0, 1, 2))
        with self.assertRaises(StopIteration) as stop:
            steps.throw(KeyError())
        self.assertEqual(stop.exception.value, ["a", "b"])
        self.assertTrue(inspect.isgeneratorfunction(echo))
        self.assertEqual(fake.names(), ["now", "interval"])

    def test_a_generator_that_is_closed_ends_its_interval(self):
        fake = use(self)

        @profiler.traced
        def count():
            yield 1

        steps = count()
        next(steps)
        steps.close()
        self.assertEqual(fake.names(), ["now", "interval"])


class AsyncGenerators(unittest.TestCase):
    def test_an_asynchronous_generator_gets_what_is_sent_and_thrown(self):
        fake = use(self)

        @profiler.traced
        async def echo():
            received = []
            while True:
                try:
                    received.append((yield list(received)))
                except KeyError:
                    received.append("error")
                await asyncio.sleep(0)
                if "end" in received:
                    return

        async def main():
            steps = echo()
            seen = [await steps.__anext__(), await steps.asend("a"), await steps.athrow(KeyError())]
            with self.assertRaises(StopAsyncIteration):
                await steps.asend("end")
            return seen

        self.assertEqual(asyncio.run(main()), [[], ["a"], ["a", "error"]])
        self.assertTrue(inspect.isasyncgenfunction(echo))
        self.assertEqual(fake.names(), ["now", "interval"])

    def test_an_asynchronous_generator_that_is_closed_closes_the_function(self):
        fake = use(self)
        closed = []

        @profiler.traced
        async def count():
            try:
                yield 1
                yield 2
            finally:
                await asyncio.sleep(0)
                closed.append(True)

        async def main():
            steps = count()
            await steps.__anext__()
            await steps.aclose()

        asyncio.run(main())
        self.assertEqual(closed, [True])
        self.assertEqual(fake.names(), ["now", "interval"])

    def test_an_error_in_an_asynchronous_generator_passes(self):
        fake = use(self)

        @profiler.traced
        async def fail():
            yield 1
            raise KeyError("own")

        async def main():
            return [value async for value in fail()]

        with self.assertRaises(KeyError):
            asyncio.run(main())
        self.assertEqual(fake.names(), ["now", "interval"])


if __name__ == "__main__":
    unittest.main()
