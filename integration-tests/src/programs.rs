//! Well-known programs of several processes, for recording: what each works on, and its command.
//!
//! Used by the tests `agent_programs` and by the figures of the agent. Each function writes the
//! program's input into a directory, and returns the command, which runs in that directory and
//! prints the same each time. `None` means that the program is not installed; the calling test is
//! then reported as skipped.

use std::fs;

use crate::foreign::Workplace;
use crate::installed::found_or_skip;

/// The files that [`make`] compiles.
pub const MAKE_FILES: usize = 6;

fn words<const N: usize>(words: [&str; N]) -> Option<Vec<String>> {
    Some(words.map(str::to_owned).to_vec())
}

fn write(place: &Workplace, name: &str, text: &str) -> anyhow::Result<()> {
    Ok(fs::write(place.path().join(name), text)?)
}

/// A parallel `make` that compiles C files with gcc.
///
/// # Errors
/// When a file cannot be written.
pub fn make(place: &Workplace) -> anyhow::Result<Option<Vec<String>>> {
    if !(found_or_skip("make")? && found_or_skip("gcc")?) {
        return Ok(None);
    }
    for number in 0..MAKE_FILES {
        let functions = (0..200).map(|function| {
            format!(
                "int f{number}_{function}(int *a, int n) {{ int s = 0; for (int i = 0; i < n; i++) \
                 s += a[i % {}] * {function}; return s; }}\n",
                function + 1
            )
        });
        let text: String = functions.collect();
        write(place, &format!("f{number}.c"), &text)?;
    }
    let objects: Vec<_> = (0..MAKE_FILES)
        .map(|number| format!("f{number}.o"))
        .collect();
    let makefile = format!(
        "all: {0}\n\t@cat {0} | cksum\n%.o: %.c\n\t@gcc -O2 -c $< -o $@\n",
        objects.join(" ")
    );
    write(place, "Makefile", &makefile)?;
    Ok(words(["make", "-s", "-B", "-j4"]))
}

/// A pool of processes in Python, which are started with this method: `fork`, `spawn` or
/// `forkserver`.
///
/// # Errors
/// When a file cannot be written.
pub fn python(place: &Workplace, method: &str) -> anyhow::Result<Option<Vec<String>>> {
    if !found_or_skip("python3")? {
        return Ok(None);
    }
    let program = r#"
import multiprocessing, sys
def work(number):
    return sum(i * i % 7 for i in range(number))
if __name__ == "__main__":
    multiprocessing.set_start_method(sys.argv[1])
    with multiprocessing.Pool(3) as pool:
        print(sum(pool.map(work, [300000] * 6, 1)))
"#;
    write(place, "pool.py", program)?;
    Ok(words(["python3", "pool.py", method]))
}

/// Node with worker threads and child processes.
///
/// # Errors
/// When a file cannot be written.
pub fn node(place: &Workplace) -> anyhow::Result<Option<Vec<String>>> {
    if !found_or_skip("node")? {
        return Ok(None);
    }
    let program = r#"
const { Worker, isMainThread, parentPort } = require("worker_threads");
const { fork, spawnSync } = require("child_process");
function spin(ms) {
  const start = process.cpuUsage().user;
  let x = 0;
  while (process.cpuUsage().user - start < ms * 1000) x += Math.sqrt(x + 1);
  return x > 0;
}
if (process.argv[2] === "child") {
  process.send(spin(200));
  process.disconnect();
} else if (!isMainThread) {
  parentPort.postMessage(spin(200));
} else {
  const answers = [1, 2].map(() =>
    new Promise((done) => new Worker(__filename).on("message", done)));
  answers.push(new Promise((done) => fork(__filename, ["child"]).on("message", done)));
  Promise.all(answers).then((all) => {
    console.log(all, String(spawnSync("echo", ["from a process"]).stdout).trim());
  });
}
"#;
    write(place, "workers.js", program)?;
    Ok(words(["node", "workers.js"]))
}

/// Java with a pool of threads and a child process.
///
/// # Errors
/// When the program cannot be compiled.
pub fn java(place: &Workplace) -> anyhow::Result<Option<Vec<String>>> {
    if !(found_or_skip("java")? && found_or_skip("javac")?) {
        return Ok(None);
    }
    let program = r#"
import java.util.concurrent.*;
public class Pool {
    static long work() {
        long sum = 0;
        for (long i = 0; i < 20_000_000L; i++) sum += i * i % 7;
        return sum;
    }
    public static void main(String[] words) throws Exception {
        ExecutorService pool = Executors.newFixedThreadPool(4);
        var all = new java.util.ArrayList<Future<Long>>();
        for (int i = 0; i < 8; i++) all.add(pool.submit(Pool::work));
        long sum = 0;
        for (var one : all) sum += one.get();
        pool.shutdown();
        System.out.println(sum);
        System.exit(new ProcessBuilder("ls", "/").inheritIO().start().waitFor());
    }
}
"#;
    write(place, "Pool.java", program)?;
    let compiled = place.run(&["javac", "Pool.java"])?;
    anyhow::ensure!(compiled.status.success(), "{compiled:?}");
    Ok(words(["java", "-cp", ".", "Pool"]))
}

/// git that makes commits and packs them.
///
/// # Errors
/// When the search path cannot be read.
pub fn git() -> anyhow::Result<Option<Vec<String>>> {
    if !found_or_skip("git")? {
        return Ok(None);
    }
    let script = "set -e; rm -rf r; git init -q r; cd r; git config user.name n; \
        git config user.email e; export GIT_AUTHOR_DATE=2020-01-01T00:00:00Z GIT_COMMITTER_DATE=2020-01-01T00:00:00Z; \
        for i in 1 2 3; do seq $((i * 20000)) >numbers; git add .; git commit -qm $i; done; \
        git gc -q --aggressive --prune=now; git fsck --no-progress; git rev-parse HEAD; \
        git count-objects -v | grep in-pack";
    Ok(words(["sh", "-c", script]))
}

/// A script of bash with many short processes and subshells.
///
/// # Errors
/// When the search path cannot be read.
pub fn bash() -> anyhow::Result<Option<Vec<String>>> {
    if !found_or_skip("bash")? {
        return Ok(None);
    }
    let script = "trap 'echo end' EXIT; for i in $(seq 60); do /bin/true; x=$(echo $i | cat); \
        (exit 7); s=$?; { echo $x $s >&2; } 2>>log; read y < <(echo $x); exec 9<log; exec 9<&-; \
        coproc cat; echo $y >&${COPROC[1]}; read z <&${COPROC[0]}; eval \"exec ${COPROC[1]}>&-\"; \
        wait; echo $z; done; cksum <log; rm log; kill -0 $$; exit 5";
    Ok(words(["bash", "-c", script]))
}
