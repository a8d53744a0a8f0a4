"""Lets worker processes record: `workers.py KIND METHOD`.

KIND is `process`, `pool` or `executor`; METHOD is how `multiprocessing` starts a process. Prints
the number of each process that has worked.
"""

import concurrent.futures
import multiprocessing
import os
import sys

import multiprocess_profiler as profiler


def work(number):
    with profiler.span("work", number=number):
        profiler.counter("Jobs").add(1)
        profiler.marker("worked", pid=os.getpid())
    return os.getpid()


def send(pipe, number):
    pipe.send(work(number))


def in_processes(context):
    for number in range(2):
        receive, pipe = context.Pipe(duplex=False)
        process = context.Process(target=send, args=(pipe, number))
        process.start()
        yield receive.recv()
        process.join()


def in_pool(context):
    with context.Pool(2) as pool:
        yield from pool.map(work, range(8), chunksize=1)
        pool.close()
        pool.join()


def in_executor(context):
    with concurrent.futures.ProcessPoolExecutor(2, mp_context=context) as executor:
        yield from executor.map(work, range(8))


if __name__ == "__main__":
    kind, method = sys.argv[1:]
    kinds = {"process": in_processes, "pool": in_pool, "executor": in_executor}
    for pid in sorted(set(kinds[kind](multiprocessing.get_context(method)))):
        print(pid)
