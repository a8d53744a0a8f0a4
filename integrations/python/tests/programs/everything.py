"""Uses all functions of the package, with arguments that make sense and with others.

Prints whether it records, and `done` at the end.
"""

import asyncio
import logging
import threading

import multiprocess_profiler as profiler


class Unshowable:
    """A value whose text cannot be made."""

    def __str__(self):
        raise ValueError("no text")


@profiler.traced
def work(steps):
    return sum(range(steps))


@profiler.traced("fetch")
async def fetch(number):
    await asyncio.sleep(0)
    return number


@profiler.traced
def numbers():
    yield from range(3)


@profiler.traced
async def stream():
    for number in range(3):
        yield number


async def main():
    assert await asyncio.gather(fetch(1), fetch(2)) == [1, 2]
    assert [number async for number in stream()] == [0, 1, 2]
    with profiler.span("in a coroutine", number=1):
        await asyncio.sleep(0)


def values():
    read = profiler.counter("Bytes read", "Bandwidth")
    read.add(100)
    read.set(50)
    read.add("no number")
    with profiler.label("phase"), profiler.group("tenant:acme"), profiler.waiting("disk"):
        work(1000)
    profiler.marker("plain")
    profiler.marker("with fields", path="a.txt", bad=Unshowable())
    profiler.marker_numbers("with numbers", [1, 2.5], unit="ms")
    profiler.marker_numbers("with others", ["a", None])
    profiler.marker_stack("with a stack", reason="test")
    profiler.marker(Unshowable(), long="x" * 100_000)


def log():
    logger = logging.Logger("shop")
    logger.addHandler(profiler.LogHandler())
    logger.warning("order %d is late", 7)
    logger.warning("%d", "no number")


print("recording" if profiler.is_recording() else "not recording")
profiler.thread_name("main")
with profiler.span("all", reason="test"):
    assert work(10) == 45
    assert list(numbers()) == [0, 1, 2]
    asyncio.run(main())
    values()
    log()
thread = threading.Thread(name="reader", target=profiler.marker, args=("in a thread",))
thread.start()
thread.join()
profiler.python_frames()
assert threading.active_count() == 1
print("done")
