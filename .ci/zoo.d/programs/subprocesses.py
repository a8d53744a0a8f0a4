"""Subprocesses, their output and signals in an event loop."""

import asyncio
import os
import signal


async def sort(n):
    process = await asyncio.create_subprocess_exec(
        "sort", "-n", stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    text = "\n".join(str(i * 7919 % 100_003) for i in range(n)).encode()
    out, _ = await process.communicate(text)
    return out.split()[0], process.returncode


async def main():
    got = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, got.set)
    os.kill(os.getpid(), signal.SIGUSR1)
    await asyncio.wait_for(got.wait(), 10)
    print(await asyncio.gather(*(sort(40_000 + i) for i in range(6))))
    sleeper = await asyncio.create_subprocess_exec("sleep", "60")
    sleeper.terminate()
    print(await sleeper.wait())


asyncio.run(main())
