"""Many forks, their exit codes, and a daemon that outlives this process."""

import os
import signal
import time


def spin(n):
    total = 0
    for i in range(n):
        total += i
    return total


def daemon():
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            spin(1_000_000)
            with open("ended.new", "w", encoding="utf-8") as file:
                file.write("the daemon has ended\n")
            os.rename("ended.new", "ended")
        os._exit(0)
    os.wait()


codes = {}
for i in range(200):
    child = os.fork()
    if child == 0:
        spin(i * 100)
        if i % 50 == 7:
            os.kill(os.getpid(), signal.SIGKILL)
        os._exit(i % 5)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    codes[code] = codes.get(code, 0) + 1
print(sorted(codes.items()))
child = os.posix_spawn("/bin/sh", ["sh", "-c", "exit 7"], os.environ)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
stopped = os.fork()
if stopped == 0:
    signal.raise_signal(signal.SIGSTOP)
    os._exit(3)
os.waitpid(stopped, os.WUNTRACED)
os.kill(stopped, signal.SIGCONT)
print(os.waitstatus_to_exitcode(os.waitpid(stopped, 0)[1]), time.time() > 0)
daemon()
