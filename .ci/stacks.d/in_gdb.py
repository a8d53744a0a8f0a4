"""Runs in gdb, for `.ci/stacks`: stops the program at instructions, and compares its stacks there.

Reads the stacks from the file STACKS_REQUEST: lists of a library and an address in it, the innermost
first, each with the start of the innermost caller. Writes a line for each stack to STACKS_ANSWER, with the callers that gdb has seen at the
instruction, and the function that each of its callers calls, if the call has an address. gdb shows the address to which a function returns; a profile shows the address before it.
"""
import json
import os
import signal
import subprocess
import time

import gdb

# A program calls a function from many places. So often it is stopped at an instruction.
STOPS = 30
SECONDS_PER_STACK = 12
# The instructions of a function that are executed to find its caller.
MAX_STEPS = 20_000

for setting in ["pagination off", "confirm off", "breakpoint pending on", "backtrace past-main on",
                "backtrace limit 200", "print thread-events off", "auto-load no", "debuginfod enabled off"]:
    try:
        gdb.execute("set " + setting, to_string=True)
    except gdb.error:
        pass  # an older gdb does not have it


def modules():
    """The addresses of all files that the program has mapped: start, end, load address, path."""
    found, bases = [], {}
    with open(f"/proc/{gdb.selected_inferior().pid}/maps") as maps:
        for line in maps:
            words = line.split(None, 5)
            if len(words) < 6 or not words[5].startswith("/"):
                continue
            start, end = (int(word, 16) for word in words[0].split("-"))
            path = words[5].strip()
            base = bases.setdefault(path, start)
            found.append((start, end, base, path))
    return found


def stack(mapped):
    """The frames of the selected thread: file and address in it, without inlined functions."""
    frames, frame = [], gdb.newest_frame()
    while frame is not None and frame.is_valid():
        if frame.type() != gdb.INLINE_FRAME:
            pc = frame.pc()
            for start, end, base, path in mapped:
                if start <= pc < end:
                    frames.append((path, pc - base))
                    break
            else:
                frames.append(("?", pc))
        try:
            frame = frame.older()
        except gdb.error:
            break
    return frames


def is_same(callers, seen):
    """Whether gdb has seen these callers. Where one of both ends, nothing is compared."""
    return bool(seen) and all(
        os.path.realpath(one[0]) == os.path.realpath(other[0]) and other[1] - one[1] in (0, 1)
        for one, other in zip(callers, seen)
    ) and len(seen) >= len(callers) - 1


def read(address, length):
    try:
        return bytes(gdb.selected_inferior().read_memory(address, length))
    except gdb.error:
        return b""  # nothing is mapped there


def called(path, address, mapped):
    """The function that the call with this last byte calls: file and address in it. Follows the jump of
    the linker's tables. None if the call is through a register."""
    base = next((base for _, _, base, known in mapped if os.path.realpath(known) == os.path.realpath(path)), None)
    if base is None:
        return None
    end = base + address + 1
    code = read(end - 5, 5)
    if len(code) < 5 or code[0] != 0xE8:
        return None
    target = end + int.from_bytes(code[1:], "little", signed=True)
    code = read(target, 16).removeprefix(b"\xf3\x0f\x1e\xfa").removeprefix(b"\xf2")
    if code.startswith(b"\xff\x25"):
        after = target + (16 - len(code)) + 6
        place = after + int.from_bytes(code[2:6], "little", signed=True)
        target = int.from_bytes(read(place, 8), "little")
    for start, stop, base, known in mapped:
        if start <= target < stop:
            return known, target - base
    return None


def to_return(mapped):
    """Executes the innermost function to its end. Returns the stack after it."""
    depth = 0
    for _ in range(MAX_STEPS):
        frame = gdb.newest_frame()
        text = frame.architecture().disassemble(frame.pc())[0]["asm"].split()
        words = [word for word in text if word not in ("bnd", "rep", "repz", "notrack")]
        is_return = words[0].startswith("ret")
        depth += words[0].startswith("call")
        gdb.execute("stepi", to_string=True)
        if is_return:
            if depth == 0:
                return stack(mapped)
            depth -= 1
    return []


def from_caller(caller, start, instruction, base, until):
    """Stops the program at the call of the innermost caller, which begins at an address of its file,
    until the called function reaches the instruction. Returns the callers then, or None."""
    path, address = caller
    after = base + address + 1
    found = gdb.newest_frame().architecture().disassemble(base + start, after - 1)
    calls = [one for one in found[-1:] if one["addr"] + one["length"] == after and "call" in one["asm"]]
    if not calls:
        return None
    call, inner, end = (
        gdb.Breakpoint(f"*{place:#x}", internal=True) for place in (calls[0]["addr"], instruction, after)
    )
    try:
        while time.monotonic() < until:
            inner.enabled = end.enabled = False
            gdb.execute("continue", to_string=True)
            if gdb.newest_frame().pc() != calls[0]["addr"]:
                return None
            callers = [(path, address + 1)] + stack(modules())[1:]
            inner.enabled = end.enabled = True
            gdb.execute("continue", to_string=True)
            if gdb.newest_frame().pc() == instruction:
                return callers
        return None
    finally:
        for point in (call, inner, end):
            point.delete()


def look(wanted, start, mapped):
    """Stops the program where a stack was seen, until it has the same one."""
    (path, address), callers = wanted[0], wanted[1:]
    bases = {os.path.realpath(path): base for _, _, base, path in reversed(mapped)}
    base = bases.get(os.path.realpath(path))
    if base is None:
        return {"result": "not reached", "seen": []}
    point = gdb.Breakpoint(f"*{base + address:#x}", internal=True)
    until, seen = time.monotonic() + SECONDS_PER_STACK, []
    try:
        for _ in range(STOPS):
            gdb.execute("continue", to_string=True)
            if gdb.selected_inferior().pid == 0 or gdb.newest_frame().pc() != base + address:
                break
            last = stack(mapped)[1:]
            if not is_same(callers[:1], last):
                # Without tables for the function, gdb guesses its caller.
                point.enabled = False
                last = to_return(mapped) or last
                point.enabled = True
            if last not in seen:
                seen.append(last)
            if is_same(callers, last):
                return {"result": "same", "seen": seen}
            if time.monotonic() > until:
                break
        point.enabled = False
        caller_base = bases.get(os.path.realpath(callers[0][0]))
        if seen and caller_base is not None:
            until += SECONDS_PER_STACK
            seen.append(from_caller(callers[0], start, base + address, caller_base, until))
    except gdb.error as error:
        print(f"{path}+{address:#x}: {error}")  # a thread has ended, for example
    finally:
        point.delete()
    seen = [callers for callers in seen if callers]
    return {"result": "other" if seen else "not reached", "seen": seen}


class Alarm:
    """Stops the program after some time, also if it reaches no breakpoint."""

    def __init__(self, pid, seconds):
        words = ["sh", "-c", f"sleep {seconds}; exec kill -STOP {pid}"]
        self.process = subprocess.Popen(words, start_new_session=True)

    def cancel(self):
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()


def main():
    with open(os.environ["STACKS_REQUEST"]) as file:
        wanted = json.load(file)
    gdb.execute("starti", to_string=True)
    # The program is stopped when it has begun its work: its libraries are loaded then.
    pid = gdb.selected_inferior().pid
    alarm = Alarm(pid, 2)
    gdb.execute("handle SIGSTOP stop nopass", to_string=True)
    gdb.execute("handle SIGALRM nostop noprint pass", to_string=True)
    gdb.execute("continue", to_string=True)
    alarm.cancel()
    gdb.execute("set scheduler-locking step", to_string=True)
    mapped = modules()
    with open(os.environ["STACKS_ANSWER"], "w") as answer:
        for one, start in wanted:
            alarm = Alarm(pid, 2 * SECONDS_PER_STACK)
            row = look([(path, address) for path, address in one], start, mapped)
            alarm.cancel()
            targets = [called(path, address, mapped) for path, address in one[1:]]
            answer.write(json.dumps(dict(row, stack=one, targets=targets)) + "\n")
            answer.flush()
            if gdb.selected_inferior().pid == 0:
                break
    gdb.execute("kill", to_string=True)


main()
