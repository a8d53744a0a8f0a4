"""A pool of processes of which one kills itself, and threads that start processes."""

import os
import signal
import subprocess
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool


def work(n):
    total = 0
    for i in range(n):
        total += i * i % 7
    return total


def die(_):
    os.kill(os.getpid(), signal.SIGKILL)


def run(n):
    return subprocess.run(["seq", str(n)], capture_output=True, check=True).stdout.count(b"\n")


if __name__ == "__main__":
    with ProcessPoolExecutor(2) as pool:
        print(list(pool.map(work, [300_000, 300_001, 300_002])))
    with ProcessPoolExecutor(2) as pool:
        try:
            list(pool.map(die, [1]))
        except BrokenProcessPool:
            print("a worker has died")
    with ThreadPoolExecutor(4) as threads:
        print(sum(threads.map(run, range(40))))
