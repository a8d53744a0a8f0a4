"""The table of programs: `programs/*.toml`, one table per program.

    [make]                          the name, for `.ci/zoo NAME`
    about = "..."                   what runs, for docs/programs.md
    debian = ["make", "gcc"]        the packages that it needs; also `pypi`, `npm`
    setup = '''...'''               a bash script, run once; the files that it leaves are there in both runs
    run = '''...'''                 the bash script that runs with and without the profiler
    processes = ["make", "cc1*8"]   names of processes that the profile must have, and how often at least
    brief = ["sleep"]               processes that may end before the loader has loaded the library
    hot = "sieve"                   a function that must have at least a fifth of the time
    limits = "..."                  what the profile is known to lack
    unrecorded = "..."              why the program is not recorded, if it is not
    harmed = "..."                  what the profiler is known to change
    varying = ["*.log"]             files that a run may leave or not
    normal = ["[0-9.]+ ms"]         what matches one of these is not compared in the output
    errors = "any"                  standard error is not compared
    user = "nobody"                 the user of both runs and of the profiler, if the zoo runs as root
    own_numbers = true              processes have other numbers in the profile than in the system
    needs = ["root"]                what else it needs: the rights of root, or a command that is no package's
    third = true                    one of the programs of `.ci/zoo --third`
    seconds = 60                    the limit of one run

The scripts run with `bash -eu -o pipefail` in an empty directory. $TMPDIR is another one, and $ZOO has
the files of the zoo itself (`programs/`).
"""

import dataclasses
import pathlib
import tomllib

PROGRAMS = pathlib.Path(__file__).parent / "programs"


@dataclasses.dataclass
class Program:
    """One row of the table."""

    name: str
    kind: str
    about: str
    run: str
    debian: list = dataclasses.field(default_factory=list)
    pypi: list = dataclasses.field(default_factory=list)
    npm: list = dataclasses.field(default_factory=list)
    setup: str = ""
    processes: list = dataclasses.field(default_factory=list)
    brief: list = dataclasses.field(default_factory=list)
    hot: str = ""
    limits: str = ""
    unrecorded: str = ""
    harmed: str = ""
    varying: list = dataclasses.field(default_factory=list)
    normal: list = dataclasses.field(default_factory=list)
    errors: str = "same"
    needs: list = dataclasses.field(default_factory=list)
    user: str = ""
    own_numbers: bool = False
    third: bool = False
    seconds: int = 60

    def expected_processes(self):
        """The names of `processes` with their numbers."""
        for word in self.processes:
            name, _, count = word.partition("*")
            yield name, int(count or 1)


def load():
    """All programs, in the order of the table. A wrong key is an error."""
    programs = []
    for path in sorted(PROGRAMS.glob("*.toml")):
        with open(path, "rb") as file:
            for name, row in tomllib.load(file).items():
                programs.append(Program(name=name, kind=path.stem, **row))
    names = [program.name for program in programs]
    assert len(names) == len(set(names)), "a name is twice in the table"
    return programs
