"""Runs one program without and with `profiler record`, in the same state, and keeps what was seen."""

import json
import os
import pathlib
import pwd
import shutil
import subprocess
import sys
import tempfile

import taskstats

# The system's python can be executed by every user.
PYTHON = "/usr/bin/python3" if os.path.exists("/usr/bin/python3") else sys.executable
WITNESS = pathlib.Path(__file__).with_name("witness.py")
# The name of samples without a stack in `profiler info`.
NO_STACK = "(no stack)"
# The least number of functions of the profile in which the hot one is looked for.
FUNCTIONS = "60"
# What a run has beyond the limit of its program: the profile is written, processes are ended.
MORE_SECONDS = 60


class Run:
    """What one run of the program did."""

    def __init__(self, report, place):
        self.report = report
        self.exit = report["exit"]
        self.out = read(place / "reports" / "report.out")
        self.err = read(place / "reports" / "report.err")
        self.files = files_below(place / "work") | files_below(place / "tmp", "$TMPDIR/")


class Trial:
    """Both runs, the profile, and the system's account of the recorded one."""

    def __init__(self, program, profiler, path, keep=False):
        self.program, self.profiler, self.path = program, profiler, path
        self.place = pathlib.Path(tempfile.mkdtemp(prefix="zoo-", dir="/tmp"))
        self.place.chmod(0o755)
        self.info, self.account, self.said = None, None, ""
        self.sums = {}
        self.error = ""
        try:
            self._run_both()
        finally:
            if keep:
                print(f"    kept: {self.place}")
            else:
                shutil.rmtree(self.place, ignore_errors=True)

    def _run_both(self):
        for name, script in (("setup", self.program.setup), ("run", self.program.run)):
            (self.place / name).write_text(script, encoding="utf-8")
        self._lay("tmp", "home", "work", "reports")
        if self.program.setup and not self._set_up():
            return
        copy(self.place / "work", self.place / "prepared")
        self.plain = self._run([])
        self._record()

    def _set_up(self):
        done = subprocess.run(
            [*self._as_user(), "bash", "-eu", "-o", "pipefail", self.place / "setup"],
            cwd=self.place / "work",
            env=self._environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        if done.returncode:
            self.error = f"setup: exit {done.returncode}: {(done.stdout + done.stderr).strip()[-800:]}"
        return done.returncode == 0

    def _record(self):
        try:
            listener = taskstats.Listener()
        except OSError:
            listener = None
        profile = self.place / "reports" / "profile.json.gz"
        self.recorded = self._run([self.profiler, "record", "-o", profile, "--"])
        if listener:
            self.account = listener.processes_below(self.recorded.report["pid"])
        if profile.exists():
            self.info = json.loads(self._told("info", "--json", "--top", FUNCTIONS, profile))
            self.sums = {by: self._sums(profile, by) for by in ("cpu", "wall")}

    def _told(self, *words):
        """What the command prints."""
        words = [self.profiler, *words]
        return subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False).stdout

    def _sums(self, profile, by):
        """The time of all functions in milliseconds, in `info` and in the lines of an export."""
        samples = json.loads(self._told("info", "--json", "--no-names", "--by", by, "--top", "1000000", profile))
        samples = samples.get("samples") or {"time": by, "top": []}
        if samples["time"] != by:
            return 0.0, 0.0
        told = sum(row["self_ms"] for row in samples["top"] if row["function"] != NO_STACK)
        folded = self.place / f"{by}.folded"
        self._told("export", "--to", "folded", "--no-names", f"--{by}", "-o", folded, profile)
        lines = folded.read_text(errors="replace").splitlines()
        folded.unlink()
        lines = (line.rsplit(" ", 1) for line in lines)
        exported = sum(int(us) for stack, us in lines if not stack.endswith((";(idle)", ";(program)")))
        return told, exported / 1000

    def _run(self, before):
        """Runs the script in a fresh copy of what the setup has left."""
        self._lay("tmp", "home")
        shutil.rmtree(self.place / "work")
        copy(self.place / "prepared", self.place / "work")
        report = self.place / "reports" / "report"
        report.unlink(missing_ok=True)
        script = ["bash", "-eu", "-o", "pipefail", str(self.place / "run")]
        done = subprocess.run(
            [*self._as_user(), *before, PYTHON, WITNESS, report, str(self.program.seconds), *script],
            cwd=self.place / "work",
            env=self._environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=self.program.seconds + MORE_SECONDS,
            check=False,
        )
        if before:
            self.said = done.stdout + done.stderr
        if not report.exists():
            raise RuntimeError(f"the witness wrote no report: {(done.stdout + done.stderr)[-1500:]}")
        return Run(json.loads(report.read_text(encoding="utf-8")), self.place)

    def _lay(self, *names):
        """Makes these directories anew, for the user of the program."""
        for name in names:
            directory = self.place / name
            if directory.exists():
                shutil.rmtree(directory)
            directory.mkdir()
            if self._as_user():
                shutil.chown(directory, self.program.user)

    def _as_user(self):
        """What starts a program as the user that its row asks for."""
        if not self.program.user or os.geteuid():
            return []
        user = pwd.getpwnam(self.program.user)
        return ["setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups"]

    def _environment(self):
        home = os.environ.get("HOME", "/root")
        return {
            "PATH": self.path,
            "HOME": str(self.place / "home"),
            "TMPDIR": str(self.place / "tmp"),
            "ZOO": str(WITNESS.with_name("programs")),
            "NODE_PATH": self.path.split(":")[1].removesuffix("/.bin"),
            "CARGO_HOME": str(self.place / "home" / ".cargo"),
            "RUSTUP_HOME": os.environ.get("RUSTUP_HOME", f"{home}/.rustup"),
            "LANG": "C.UTF-8",
            "TZ": "UTC",
            "USER": os.environ.get("USER", "root"),
        }


def copy(source, target):
    """Copies a directory with its owners, times and links."""
    subprocess.run(["cp", "-a", source, target], check=True)


def read(path):
    """The text of a file; a byte that is no text is shown as such."""
    return path.read_text(encoding="utf-8", errors="backslashreplace") if path.exists() else ""


def files_below(directory, prefix=""):
    """The names of all files below the directory."""
    found = set()
    for at, directories, files in os.walk(directory):
        for name in files + directories:
            found.add(prefix + os.path.relpath(os.path.join(at, name), directory))
    return found
