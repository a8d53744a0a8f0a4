//! Tests of `profiler record` with well-known programs of several processes: each does the same as
//! without the profiler, and its profile has all of its processes.
//!
//! A program that is not installed is skipped, and reported as skipped.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;

use integration_tests::foreign::{Recorded, Workplace};
use integration_tests::installed::found_or_skip;
use integration_tests::own_process;

use crate::agent_record::does_the_same;

/// Writes a file into the program's directory.
fn write(place: &Workplace, name: &str, text: &str) -> anyhow::Result<()> {
    Ok(fs::write(place.path().join(name), text)?)
}

/// How many processes of this name the profile contains, and how many of them recorded.
fn count(recorded: &Recorded, name: &str) -> anyhow::Result<(usize, usize)> {
    let verdicts = recorded.verdicts(name)?;
    let complete = verdicts.iter().filter(|verdict| *verdict == "complete");
    Ok((verdicts.len(), complete.count()))
}

#[test]
fn a_parallel_make_compiles_the_same_files() -> anyhow::Result<()> {
    own_process!();
    if !(found_or_skip("make")? && found_or_skip("gcc")?) {
        return Ok(());
    }
    const FILES: usize = 6;
    let place = Workplace::new()?;
    for number in 0..FILES {
        let functions = (0..200).map(|function| {
            format!(
                "int f{number}_{function}(int *a, int n) {{ int s = 0; for (int i = 0; i < n; i++) \
                 s += a[i % {}] * {function}; return s; }}\n",
                function + 1
            )
        });
        let text: String = functions.collect();
        write(&place, &format!("f{number}.c"), &text)?;
    }
    let objects: Vec<_> = (0..FILES).map(|number| format!("f{number}.o")).collect();
    let makefile = format!(
        "all: {0}\n\t@cat {0} | cksum\n%.o: %.c\n\t@gcc -O2 -c $< -o $@\n",
        objects.join(" ")
    );
    write(&place, "Makefile", &makefile)?;
    let recorded = does_the_same(&place, &["make", "-s", "-B", "-j4"])?;
    assert_eq!(count(&recorded, "make")?.0, 1);
    let (all, complete) = count(&recorded, "cc1")?;
    assert_eq!(all, FILES);
    // It compiles for more than 20 ms.
    assert!(complete > 0, "{:?}", recorded.verdicts("cc1")?);
    Ok(())
}

#[test]
fn the_processes_of_a_pool_in_python_are_recorded_however_they_are_started() -> anyhow::Result<()> {
    own_process!();
    if !found_or_skip("python3")? {
        return Ok(());
    }
    let place = Workplace::new()?;
    let program = r#"
import multiprocessing, sys
def work(number):
    return sum(i * i % 7 for i in range(number))
if __name__ == "__main__":
    multiprocessing.set_start_method(sys.argv[1])
    with multiprocessing.Pool(3) as pool:
        print(sum(pool.map(work, [300000] * 6, 1)))
"#;
    write(&place, "pool.py", program)?;
    for method in ["fork", "spawn", "forkserver"] {
        let recorded = does_the_same(&place, &["python3", "pool.py", method])?;
        let profile = recorded.profile()?;
        let mut threads = profile
            .processes
            .iter()
            .flat_map(|process| &process.threads);
        let sampled = threads
            .by_ref()
            .filter(|thread| !thread.samples.all.is_empty());
        // The parent process, and at least one worker.
        assert!(sampled.count() >= 2, "{method}: {:?}", recorded.said());
    }
    Ok(())
}

#[test]
fn node_with_worker_threads_and_child_processes_is_recorded() -> anyhow::Result<()> {
    own_process!();
    if !found_or_skip("node")? {
        return Ok(());
    }
    let place = Workplace::new()?;
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
    write(&place, "workers.js", program)?;
    let recorded = does_the_same(&place, &["node", "workers.js"])?;
    assert_eq!(count(&recorded, "node")?, (2, 2), "{}", recorded.said());
    assert_eq!(count(&recorded, "echo")?.0, 1);
    Ok(())
}

#[test]
fn java_with_a_pool_of_threads_is_recorded() -> anyhow::Result<()> {
    own_process!();
    if !(found_or_skip("java")? && found_or_skip("javac")?) {
        return Ok(());
    }
    let place = Workplace::new()?;
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
    write(&place, "Pool.java", program)?;
    let compiled = place.run(&["javac", "Pool.java"])?;
    assert!(compiled.status.success(), "{compiled:?}");
    let recorded = does_the_same(&place, &["java", "-cp", ".", "Pool"])?;
    assert_eq!(count(&recorded, "java")?, (1, 1), "{}", recorded.said());
    assert_eq!(count(&recorded, "ls")?.0, 1);
    Ok(())
}

#[test]
fn git_packs_the_same_objects() -> anyhow::Result<()> {
    own_process!();
    if !found_or_skip("git")? {
        return Ok(());
    }
    let place = Workplace::new()?;
    let script = "set -e; rm -rf r; git init -q r; cd r; git config user.name n; \
        git config user.email e; export GIT_AUTHOR_DATE=@1 GIT_COMMITTER_DATE=@1; \
        for i in 1 2 3; do seq $((i * 20000)) >numbers; git add .; git commit -qm $i; done; \
        git gc -q --aggressive --prune=now; git fsck --no-progress; git rev-parse HEAD; \
        git count-objects -v | grep in-pack";
    let recorded = does_the_same(&place, &["sh", "-c", script])?;
    // Each command is a process, and `gc` starts further ones.
    assert!(count(&recorded, "git")?.0 > 12, "{}", recorded.said());
    Ok(())
}

#[test]
fn a_script_of_bash_with_many_subshells_does_the_same() -> anyhow::Result<()> {
    own_process!();
    if !found_or_skip("bash")? {
        return Ok(());
    }
    let place = Workplace::new()?;
    let script = "trap 'echo end' EXIT; for i in $(seq 60); do /bin/true; x=$(echo $i | cat); \
        (exit 7); s=$?; { echo $x $s >&2; } 2>>log; read y < <(echo $x); exec 9<log; exec 9<&-; \
        coproc cat; echo $y >&${COPROC[1]}; read z <&${COPROC[0]}; eval \"exec ${COPROC[1]}>&-\"; \
        wait; echo $z; done; cksum <log; rm log; kill -0 $$; exit 5";
    let recorded = does_the_same(&place, &["bash", "-c", script])?;
    assert_eq!(count(&recorded, "true")?.0, 60);
    assert_eq!(recorded.output.status.code(), Some(5));
    Ok(())
}

#[test]
fn nginx_with_four_workers_serves_the_same_file() -> anyhow::Result<()> {
    own_process!();
    if !(found_or_skip("nginx")? && found_or_skip("curl")?) {
        return Ok(());
    }
    let place = Workplace::new()?;
    // The workers belong to another user if the master process is that of root.
    fs::set_permissions(place.path(), PermissionsExt::from_mode(0o755))?;
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    drop(listener);
    let directories = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"];
    let places = directories.map(|name| format!("{name}_temp_path {name};"));
    let configuration = format!(
        "daemon off; worker_processes 4; pid pid; error_log err;\n\
         events {{ worker_connections 64; }}\n\
         http {{ access_log off; {} server {{ listen {address}; root .; }} }}\n",
        places.join(" ")
    );
    write(&place, "nginx.conf", &configuration)?;
    write(
        &place,
        "numbers",
        &(0..40_000).map(|n| format!("{n}\n")).collect::<String>(),
    )?;
    let script = format!(
        "nginx -p . -c nginx.conf & p=$!; u=http://{address}/numbers; \
         until curl -s -o /dev/null $u; do sleep 0.05; done; \
         load() {{ for i in $(seq 40); do curl -s $u | cksum; done | uniq -c; }}; \
         load & a=$!; load & wait $a $!; kill -QUIT $p; wait $p; echo $?"
    );
    let recorded = does_the_same(&place, &["bash", "-c", &script])?;
    // The master process and its workers.
    assert_eq!(
        count(&recorded, "nginx")?.0,
        5,
        "{:?}",
        recorded.verdicts("nginx")?
    );
    Ok(())
}

#[test]
fn postgres_serves_the_same_transactions() -> anyhow::Result<()> {
    own_process!();
    let place = Workplace::new()?;
    let programs = place.run(&["sh", "-c", "ls -d /usr/lib/postgresql/*/bin | tail -1"])?;
    let programs = String::from_utf8(programs.stdout)?.trim().to_owned();
    if programs.is_empty() || !found_or_skip("setpriv")? {
        return integration_tests::installed::skip("postgres", "no /usr/lib/postgresql");
    }
    fs::set_permissions(place.path(), PermissionsExt::from_mode(0o755))?;
    // The server refuses to run as root.
    let script = format!(
        "set -e; rm -rf d; mkdir d; s=; \
         if [ $(id -u) = 0 ]; then chown postgres d; \
         s='setpriv --reuid postgres --regid postgres --clear-groups'; fi; \
         cd d; b={programs}; d=$PWD; $s $b/initdb -D db -A trust -U u >/dev/null; \
         $s $b/pg_ctl -D db -o \"-k $d -c listen_addresses=\" -l log -w start >/dev/null; \
         $s $b/pgbench -h $d -U u -i -q postgres >/dev/null 2>&1; \
         $s $b/pgbench -h $d -U u -c 4 -t 100 postgres 2>/dev/null | grep -E 'processed|failed'; \
         $s $b/pg_ctl -D db -m fast -w stop >/dev/null; grep -c -i panic log || true"
    );
    let recorded = does_the_same(&place, &["sh", "-c", &script])?;
    let (all, complete) = count(&recorded, "postgres")?;
    assert!(
        all > 5 && complete > 0,
        "{:?}",
        recorded.verdicts("postgres")?
    );
    Ok(())
}
