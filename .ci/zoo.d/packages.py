"""What the programs need: packages of Debian, PyPI and npm.

Packages of PyPI and npm are installed below the zoo's own directory, those of Debian in the system.
"""

import os
import shutil
import subprocess


class Packages:
    """What is installed, and where."""

    def __init__(self, directory, may_install):
        self.venv = directory / "venv"
        self.node = directory / "node"
        self.may_install = may_install
        self.debian = self._debian()
        self.pypi = self._pypi()

    def path(self):
        """The `PATH` of the programs: the zoo's packages, then those of the system."""
        own = [self.venv / "bin", self.node / "node_modules" / ".bin"]
        system = ["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin", "/usr/games"]
        cargo = shutil.which("cargo")
        return ":".join([*map(str, own), *system, *([os.path.dirname(cargo)] if cargo else [])])

    def install(self, programs):
        """Installs what the programs need, as far as that is allowed and possible."""
        if not self.may_install:
            return
        missing = sorted({name for program in programs for name in program.debian} - set(self.debian))
        if missing and shutil.which("apt-get"):
            self._apt(missing)
            self.debian = self._debian()
        missing = sorted({name for program in programs for name in program.pypi} - set(self.pypi))
        if missing:
            self._pip(missing)
            self.pypi = self._pypi()
        missing = sorted({name for program in programs for name in program.npm if not self._npm_has(name)})
        if missing and shutil.which("npm"):
            self.node.mkdir(parents=True, exist_ok=True)
            run("npm", "install", "--no-audit", "--no-fund", "--silent", "--prefix", self.node, *missing)

    def missing(self, program):
        """What is missing for the program, as words for the report."""
        said = [name for name in program.debian if name not in self.debian]
        said += [f"{name} (PyPI)" for name in program.pypi if name not in self.pypi]
        said += [f"{name} (npm)" for name in program.npm if not self._npm_has(name)]
        for need in program.needs:
            if need == "root":
                said += ["the rights of root"] if os.geteuid() else []
            elif not shutil.which(need, path=self.path()):
                said.append(need)
        return said

    def version(self, program):
        """The version of the program's first package."""
        if program.pypi:
            return self.pypi.get(program.pypi[0], "")
        if program.debian and not program.npm:
            # Debian's own part of the version says nothing about the program.
            version = self.debian.get(program.debian[0], "")
            return version.split(":")[-1].split("-")[0].split("+")[0]
        return ""

    def _apt(self, names):
        as_root = [] if os.geteuid() == 0 else ["sudo", "-n"]
        quiet = ["-o", "DPkg::Lock::Timeout=300", "-qq", "-y", "--no-install-recommends"]
        run(*as_root, "apt-get", "update", "-qq")
        environment = [*as_root, "env", "DEBIAN_FRONTEND=noninteractive"]
        if run(*environment, "apt-get", "install", *quiet, *names):
            return
        # One name that is missing, or in conflict with another package, must not stop the others.
        for name in names:
            run(*environment, "apt-get", "install", *quiet, name)

    def _pip(self, names):
        if not (self.venv / "bin" / "python3").exists():
            python = "/usr/bin/python3" if os.path.exists("/usr/bin/python3") else "python3"
            if not run(python, "-m", "venv", self.venv):
                run("python3", "-m", "venv", self.venv)
        run(self.venv / "bin" / "pip", "install", "-q", "--disable-pip-version-check", *names)

    def _debian(self):
        try:
            said = subprocess.run(
                ["dpkg-query", "-W", "-f", "${db:Status-Abbrev}\t${Package}\t${Version}\n"],
                capture_output=True,
                text=True,
                check=False,
            ).stdout
        except OSError:
            return {}
        rows = (line.split("\t") for line in said.splitlines())
        return {name: version for status, name, version in rows if status.startswith("ii")}

    def _pypi(self):
        try:
            said = subprocess.run(
                [self.venv / "bin" / "pip", "list", "--format=freeze", "--disable-pip-version-check"],
                capture_output=True,
                text=True,
                check=False,
            ).stdout
        except OSError:
            return {}
        return dict(line.split("==", 1) for line in said.splitlines() if "==" in line)

    def _npm_has(self, name):
        return (self.node / "node_modules" / name.partition("@")[0]).is_dir()


def run(*command):
    """Runs a command and shows what it says if it fails."""
    try:
        done = subprocess.run(
            [str(word) for word in command], capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False
        )
    except OSError as error:
        print(f"zoo: {command[0]}: {error}")
        return False
    if done.returncode:
        print(f"zoo: failed: {' '.join(map(str, command))}\n{done.stdout[-1000:]}{done.stderr[-2000:]}")
    return done.returncode == 0
