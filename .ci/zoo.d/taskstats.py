"""The system's own list of processes that have ended: name, parent and processor time.

The kernel sends a record for each thread that ends to a listener of its taskstats interface
(`Documentation/accounting/taskstats.rst` of Linux). That needs the rights of root.
"""

import os
import socket
import struct
import threading

NETLINK_GENERIC = 16
GENL_ID_CTRL = 16
CTRL_CMD_GETFAMILY = 3
CTRL_ATTR_FAMILY_ID = 1
CTRL_ATTR_FAMILY_NAME = 2
TASKSTATS_CMD_GET = 1
TASKSTATS_CMD_ATTR_REGISTER_CPUMASK = 3
TASKSTATS_TYPE_STATS = 3
TASKSTATS_TYPE_AGGR_PID = 4
SO_RCVBUFFORCE = 33

# Offsets in `struct taskstats`.
CPU_RUN_VIRTUAL_TOTAL = 72
AC_COMM = 80
AC_PID = 128
AC_TGID = 368
AC_TGID_SINCE_VERSION = 12


def attribute(kind, data):
    length = 4 + len(data)
    return struct.pack("HH", length, kind) + data + bytes(-length % 4)


def attributes(data):
    """The attributes in a message, by kind."""
    at, found = 0, {}
    while at + 4 <= len(data):
        length, kind = struct.unpack_from("HH", data, at)
        if length < 4:
            break
        found[kind & 0x3FFF] = data[at + 4 : at + length]
        at += (length + 3) & ~3
    return found


class Listener:
    """Collects the threads that end while it runs. `processes_below` adds them up."""

    def __init__(self):
        """Raises `OSError` if the system does not allow it."""
        self.threads = []
        self.lost = False
        self.socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_GENERIC)
        self.socket.bind((0, 0))
        self.socket.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 16 << 20)
        family = self._ask(
            GENL_ID_CTRL, CTRL_CMD_GETFAMILY, attribute(CTRL_ATTR_FAMILY_NAME, b"TASKSTATS\0")
        )
        (self.family,) = struct.unpack("H", attributes(family[20:])[CTRL_ATTR_FAMILY_ID])
        cpus = f"0-{(os.cpu_count() or 1) - 1}\0".encode()
        self._ask(
            self.family,
            TASKSTATS_CMD_GET,
            attribute(TASKSTATS_CMD_ATTR_REGISTER_CPUMASK, cpus),
            acknowledge=True,
        )
        self.socket.settimeout(0.2)
        self.ending = threading.Event()
        self.thread = threading.Thread(target=self._listen, daemon=True)
        self.thread.start()

    def _ask(self, kind, command, body, acknowledge=False):
        body = struct.pack("BBH", command, 1, 0) + body
        flags = 5 if acknowledge else 1
        self.socket.send(struct.pack("IHHII", 16 + len(body), kind, flags, 1, 0) + body)
        answer = self.socket.recv(1 << 16)
        (message,) = struct.unpack_from("H", answer, 4)
        if message == 2:
            (error,) = struct.unpack_from("i", answer, 16)
            if error:
                raise OSError(-error, os.strerror(-error))
        return answer

    def _listen(self):
        while True:
            try:
                message = self.socket.recv(1 << 16)
            except TimeoutError:
                if self.ending.is_set():
                    return
                continue
            except OSError:
                self.lost = True
                continue
            self._take(message)

    def _take(self, message):
        group = attributes(message[20:]).get(TASKSTATS_TYPE_AGGR_PID)
        stats = group and attributes(group).get(TASKSTATS_TYPE_STATS)
        if not stats:
            return
        (version,) = struct.unpack_from("H", stats)
        pid, parent = struct.unpack_from("II", stats, AC_PID)
        group_of = pid
        if version >= AC_TGID_SINCE_VERSION:
            (group_of,) = struct.unpack_from("I", stats, AC_TGID)
        (nanoseconds,) = struct.unpack_from("Q", stats, CPU_RUN_VIRTUAL_TOTAL)
        name = stats[AC_COMM : AC_COMM + 32].split(b"\0")[0].decode(errors="replace")
        self.threads.append((pid, group_of, parent, name, nanoseconds / 1e6))

    def processes_below(self, pid):
        """Ends the collection. Returns {pid: (name, milliseconds)} of all processes below `pid`."""
        self.ending.set()
        self.thread.join()
        self.socket.close()
        below = {pid}
        while True:
            more = {group for _, group, parent, _, _ in self.threads if parent in below} - below
            if not more:
                break
            below |= more
        found = {}
        for thread, group, _, name, milliseconds in self.threads:
            if group in below and group != pid:
                before = found.get(group, ("", 0.0))
                name = name if thread == group else before[0]
                found[group] = (name, before[1] + milliseconds)
        return found
