"""Compares the two runs of a program, and the profile with the system's account."""

import collections
import difflib
import fnmatch
import re

# How much of the processor time may be missing or too much in the profile.
SHARE = 0.03
# The same in milliseconds, for programs that use little.
FLOOR_MS = 20.0
# How much the sums of an export may differ from those of `info`.
EXPORT_SHARE = 0.001
# The least share of the hot function in the time of the profile.
HOT_PERCENT = 20.0
# The shell names the process when a signal has ended it.
COMMON = [r"(?m)(?<=: line )(\d+): +\d+ "]


class Verdict:
    """What was found: `harm` in the program, `gaps` in the profile; `notes` are no faults."""

    def __init__(self, trial):
        self.program = trial.program
        self.harm, self.gaps, self.notes, self.unrecorded = [], [], [], {}
        self.ratio, self.covered, self.seconds = 0.0, 0.0, 0.0
        self.processes = 0
        if trial.error:
            self.harm.append(trial.error)
            return
        if trial.plain.exit != 0:
            self.harm.append(f"exit code {trial.plain.exit} without the profiler: {trial.plain.err.strip()[-300:]}")
            return
        self._compare(trial.plain, trial.recorded)
        if trial.info is None:
            said = trial.said.strip().splitlines()
            self.gaps.append(f"no profile: {said[-1] if said else 'nothing said'}")
            return
        self._read(trial)

    @property
    def unharmed(self):
        return not self.harm

    @property
    def complete(self):
        return not self.gaps

    def time(self):
        """The wall time of the recorded run, and its ratio to the other run."""
        return f"{self.seconds:.1f} s, x {self.ratio:.2f}"

    def expected(self):
        """Whether the table says what was found."""
        program = self.program
        return (self.unharmed or bool(program.harmed)) and (
            self.complete or bool(program.limits or program.unrecorded)
        )

    def _compare(self, plain, recorded):
        if plain.exit != recorded.exit:
            self.harm.append(f"exit code {plain.exit} without, {recorded.exit} with")
        streams = [("output", plain.out, recorded.out)]
        if self.program.errors != "any":
            streams.append(("errors", plain.err, recorded.err))
        for stream, without, with_it in streams:
            changed = difference(self._normal(without), self._normal(with_it))
            if changed:
                self.harm.append(f"{stream}: {changed}")
        left, also = plain.report["left"], recorded.report["left"]
        if left != also:
            self.harm.append(f"processes left: {left} without, {also} with")
        files = {f for f in plain.files ^ recorded.files if not self._varies(f)}
        if files:
            self.harm.append(f"files: {sorted(('+' if f in recorded.files else '-') + f for f in files)[:6]}")
        self.seconds = recorded.report["wall_s"]
        self.ratio = recorded.report["wall_s"] / max(plain.report["wall_s"], 0.001)

    def _normal(self, text):
        for pattern in COMMON + self.program.normal:
            text = re.sub(pattern, "#", text)
        return text

    def _varies(self, name):
        return any(fnmatch.fnmatch(name, pattern) for pattern in self.program.varying)

    def _read(self, trial):
        witness = trial.recorded.report["pid"]
        rows = [row for row in trial.info["processes"] if row["pid"] != witness]
        self._names(rows, trial.account or {})
        self._time(rows, trial.recorded.report["cpu_ms"], trial.account)
        if trial.account is not None and not self.program.own_numbers:
            self._each(rows, trial.account)
        if self.program.hot:
            self._hot(trial.info.get("samples", {}).get("top", []))
        self._sums(trial.sums)
        for row in rows:
            if row.get("evicted") or sum(row.get("dropped", {}).values()):
                self.notes.append(f"{row['name']}: evicted {row['evicted']}, dropped {row['dropped']}")

    def _names(self, rows, account):
        """A program that used less than the floor may be in the profile by its name and the reason."""
        found = collections.Counter()
        recorded = self._times(rows)
        for row in rows:
            reason = re.match(r"missing: not profiled: (.*)", row["verdict"])
            used_ms = reason and self._unrecorded_ms(row, account, recorded)
            if reason and used_ms < FLOOR_MS:
                self.notes.append(f"only named: {row['name']}, which used {used_ms:.1f} ms: {reason[1]}")
                found[row["name"]] += 1
            elif reason:
                self.unrecorded.setdefault(reason[1], set()).add(row["name"])
            else:
                found[row["name"]] += 1
        self.processes = sum(found.values())
        for name, least in self.program.expected_processes():
            if found[name] < least:
                self.gaps.append(f"{found[name]} of {least} processes {name}")
        for reason, names in self.unrecorded.items():
            self.gaps.append(f"not recorded: {', '.join(sorted(names))}: {reason}")

    def _unrecorded_ms(self, row, account, recorded):
        """The time that a process used without being recorded. The number of a process may stand for
        another one in a namespace: then the longest time of those with its name."""
        if self.program.own_numbers:
            named = [ms for name, ms in account.values() if name == row["name"][:15]]
            return max(named, default=FLOOR_MS)
        if row["pid"] not in account:
            return FLOOR_MS
        _, used_ms = account[row["pid"]]
        return used_ms - recorded[row["pid"]]

    @staticmethod
    def _times(rows):
        """The processor time of each process in the profile: the sum of its programs."""
        times = collections.Counter()
        for row in rows:
            times[row["pid"]] += row.get("cpu_ms") or 0.0
        return times

    def _time(self, rows, used, account):
        """The sum must be between two of the system's: up to the last instruction of each process
        (`account`, which is exact to some milliseconds), and with the time in which the system takes
        the processes down (`used`)."""
        sum_ms = sum(row.get("cpu_ms") or 0.0 for row in rows)
        self.covered = 100 * sum_ms / max(used, 0.001)
        least = used if account is None else min(used, sum(ms for _, ms in account.values()))
        off = max(least - sum_ms, sum_ms - used)
        if off > max(SHARE * used, FLOOR_MS):
            self.gaps.append(f"{sum_ms:.0f} of {least:.0f} to {used:.0f} ms of processor time ({self.covered:.1f} %)")

    def _each(self, rows, account):
        """Every process that the system has seen must have a row, with its time."""
        times = self._times(rows)
        without = (name for pid, (name, _) in account.items() if pid not in times)
        nowhere = collections.Counter(name for name in without if name not in self.program.brief)
        if nowhere:
            self.gaps.append(f"no row for {', '.join(f'{n} {c} times' for n, c in nowhere.items())}")
        wrong = [
            f"{name} {times[pid]:.0f} of {ms:.0f} ms"
            for pid, (name, ms) in account.items()
            if pid in times and abs(times[pid] - ms) > max(SHARE * ms, FLOOR_MS)
        ]
        if wrong:
            self.gaps.append(f"{len(wrong)} processes with another time: {'; '.join(wrong[:4])}")

    def _sums(self, sums):
        """The total time of an export must equal that of `info`, except for rounding."""
        for by, (told, exported) in sums.items():
            if abs(told - exported) > max(EXPORT_SHARE * told, 1.0):
                self.gaps.append(f"an export has {exported:.1f} of {told:.1f} ms ({by})")

    def _hot(self, functions):
        percent = max(
            (row["total_percent"] for row in functions if re.fullmatch(self.program.hot, row["function"])), default=0.0
        )
        if percent < HOT_PERCENT:
            most = ", ".join(f"{row['function']} {row['self_percent']:.0f} %" for row in functions[:4])
            self.gaps.append(f"{self.program.hot} has {percent:.0f} % of the time; most have {most}")


def difference(without, with_it):
    """The first lines that differ, or nothing."""
    if without == with_it:
        return ""
    lines = difflib.unified_diff(without.splitlines(), with_it.splitlines(), lineterm="", n=0)
    changed = [line for line in lines if not line.startswith(("---", "+++", "@@"))]
    return " | ".join(line[:160] for line in changed[:6]) or "the ends of lines differ"
