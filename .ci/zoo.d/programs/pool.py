"""A pool of two processes with the start method of the first argument."""

import multiprocessing
import sys


def work(n):
    total = 0
    for i in range(n):
        total += i * i % 7
    return total


if __name__ == "__main__":
    context = multiprocessing.get_context(sys.argv[1])
    with context.Pool(2, maxtasksperchild=4) as pool:
        print(sum(pool.map(work, [200_000 + i for i in range(12)], chunksize=2)))
        pool.close()
        pool.join()
