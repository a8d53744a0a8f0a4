"""Prints what was found, keeps it in a file for each program, and writes docs/programs.md."""

import dataclasses
import json
import platform
import time

HEAD = """# Programs that were tried

`.ci/zoo` runs each program without and with `profiler record`, and compares standard output and
errors, the exit code, and the processes and files that are left. Then it compares the profile with the
system's own account (`getrusage` of a process that waits for all of them, and the taskstats of each):
every process must be in it, with its processor time within 3 % (or 20 ms), and with the function in
which the program is known to spend its time. A process that used less than 20 ms may be listed by
name only, with the reason why it is not recorded. The system also uses time to take a process down
after its last instruction: that time is not in the profile, and may be missing. It is a large part
only in programs that start many short processes. `.ci/zoo` writes this page.
"""

STATES = {
    "works": "works",
    "limits": "works with limits",
    "unrecorded": "not recorded",
    "harmed": "does not work",
    "out": "not tried",
}


@dataclasses.dataclass
class Result:
    """What docs/programs.md has of one program."""

    name: str
    state: str
    words: str = ""
    version: str = ""
    processes: int = 0
    ratio: float = 0.0
    covered: float = 0.0

    @staticmethod
    def of(verdict, version):
        program = verdict.program
        words = []
        state = "limits" if program.limits else "works"
        if state == "limits":
            words = [program.limits]
        if verdict.gaps:
            state = "unrecorded" if program.unrecorded or not verdict.processes else "limits"
            words = [program.unrecorded or program.limits or "; ".join(verdict.gaps)]
        if verdict.harm:
            state = "harmed"
            words = [program.harmed or "; ".join(verdict.harm), *words]
        return Result(
            program.name,
            state,
            " ".join(words),
            version,
            verdict.processes,
            round(verdict.ratio, 2),
            round(verdict.covered, 1),
        )


class Results:
    """The last result of each program, in a directory."""

    def __init__(self, directory):
        self.directory = directory
        directory.mkdir(parents=True, exist_ok=True)

    def keep(self, result):
        text = json.dumps(dataclasses.asdict(result))
        (self.directory / f"{result.name}.json").write_text(text, encoding="utf-8")

    def of(self, name):
        path = self.directory / f"{name}.json"
        return Result(**json.loads(path.read_text(encoding="utf-8"))) if path.exists() else Result(name, "out")


def write_page(path, programs, results):
    """Writes docs/programs.md."""
    rows = [(program, results.of(program.name)) for program in programs]
    lines = [HEAD]
    day = time.strftime("%Y-%m-%d", time.gmtime())
    kernel = ".".join(platform.release().split(".")[:2])
    lines.append(f"Last run: {day}, Linux {kernel} on {platform.machine()}, {distribution()}.\n")
    lines += ["| result | programs |", "|---|---|"]
    for state, words in STATES.items():
        count = sum(result.state == state for _, result in rows)
        if count:
            lines.append(f"| {words} | {count} |")
    kind = None
    for program, result in rows:
        if program.kind != kind:
            kind = program.kind
            lines += [f"\n## {title(kind)}\n", "| program | what runs | result | processes | time found | with : without |"]
            lines.append("|---|---|---|---|---|---|")
        lines.append(row_of(program, result))
    lines.append(
        "\n*processes*: the rows of the profile. *time found*: the processor time in the profile, in percent of the"
        "\nsystem's account. *with : without*: the wall time of one run each, which other work on the machine"
        "\ndisturbs; the figures in [figures.md](figures.md) measure what the profiler costs."
    )
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def row_of(program, result):
    name = f"{program.name} {result.version}".strip()
    state = STATES[result.state] + (f": {result.words}" if result.words else "")
    tried = result.state != "out" and result.processes
    numbers = [f"{result.processes}", f"{result.covered:.1f} %", f"{result.ratio:.2f}"] if tried else ["–"] * 3
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in [name, program.about, state, *numbers]) + " |"


def title(kind):
    """The name of a table's file as a heading: `20-python.toml` is "Python"."""
    words = kind.partition("-")[2].replace("-", " ")
    return words[:1].upper() + words[1:]


def distribution():
    try:
        with open("/etc/os-release", encoding="utf-8") as file:
            return next(line.split("=", 1)[1].strip().strip('"') for line in file if line.startswith("PRETTY_NAME="))
    except (OSError, StopIteration):
        return "unknown"
