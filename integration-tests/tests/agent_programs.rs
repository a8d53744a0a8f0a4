//! Tests of `profiler record` with well-known programs of several processes: each does the same as
//! without the profiler, and its profile has all of its processes.
//!
//! A program that is not installed is skipped, and reported as skipped.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;

use integration_tests::foreign::{Recorded, Workplace};
use integration_tests::installed::{found_or_skip, skip};
use integration_tests::{own_process, programs, tools};

use crate::agent_record::does_the_same;

/// Checks that this program does the same when it is recorded.
fn record(place: &Workplace, program: &[String]) -> anyhow::Result<Recorded> {
    let words: Vec<&str> = program.iter().map(String::as_str).collect();
    does_the_same(place, &words)
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
    let place = Workplace::new()?;
    let Some(program) = programs::make(&place)? else {
        return Ok(());
    };
    let recorded = record(&place, &program)?;
    assert_eq!(count(&recorded, "make")?.0, 1);
    // The name of a process is that of its file.
    let assembler = place.run(&["sh", "-c", "basename $(realpath $(command -v as))"])?;
    let assembler = String::from_utf8(assembler.stdout)?;
    for name in ["cc1", assembler.trim()] {
        let found = count(&recorded, name)?;
        assert_eq!(
            found,
            (programs::MAKE_FILES, programs::MAKE_FILES),
            "{name}"
        );
    }
    Ok(())
}

#[test]
fn the_processes_of_a_pool_in_python_are_recorded_however_they_are_started() -> anyhow::Result<()> {
    own_process!();
    let place = Workplace::new()?;
    for method in ["fork", "spawn", "forkserver"] {
        let Some(program) = programs::python(&place, method)? else {
            return Ok(());
        };
        let recorded = record(&place, &program)?;
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
    let place = Workplace::new()?;
    let Some(program) = programs::node(&place)? else {
        return Ok(());
    };
    let recorded = record(&place, &program)?;
    assert_eq!(count(&recorded, "node")?, (2, 2), "{}", recorded.said());
    assert_eq!(count(&recorded, "echo")?.0, 1);
    Ok(())
}

#[test]
fn java_with_a_pool_of_threads_is_recorded() -> anyhow::Result<()> {
    own_process!();
    let place = Workplace::new()?;
    let Some(program) = programs::java(&place)? else {
        return Ok(());
    };
    let recorded = record(&place, &program)?;
    assert_eq!(count(&recorded, "java")?, (1, 1), "{}", recorded.said());
    assert_eq!(count(&recorded, "ls")?.0, 1);
    Ok(())
}

#[test]
fn git_packs_the_same_objects() -> anyhow::Result<()> {
    own_process!();
    let place = Workplace::new()?;
    let Some(program) = programs::git()? else {
        return Ok(());
    };
    let recorded = record(&place, &program)?;
    assert!(recorded.output.status.success());
    // Each command is a process, and `gc` starts further ones.
    let all = count(&recorded, "git")?.0;
    assert!(all > 12, "{all} {}", recorded.said());
    Ok(())
}

#[test]
fn a_script_of_bash_with_many_subshells_does_the_same() -> anyhow::Result<()> {
    own_process!();
    let place = Workplace::new()?;
    let Some(program) = programs::bash()? else {
        return Ok(());
    };
    let recorded = record(&place, &program)?;
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
    fs::write(place.path().join("nginx.conf"), configuration)?;
    let numbers: String = (0..40_000).map(|n| format!("{n}\n")).collect();
    fs::write(place.path().join("numbers"), numbers)?;
    let script = format!(
        "nginx -p . -c nginx.conf & p=$!; u=http://{address}/numbers; \
         until curl -s -o /dev/null $u; do sleep 0.05; done; \
         load() {{ for i in $(seq 40); do curl -s $u | cksum; done | uniq -c; }}; \
         load & a=$!; load & wait $a $!; kill -QUIT $p; wait $p; echo $?"
    );
    let recorded = does_the_same(&place, &["bash", "-c", &script])?;
    // The master process and its workers.
    let verdicts = recorded.verdicts("nginx")?;
    assert_eq!(count(&recorded, "nginx")?, (5, 5), "{verdicts:?}");
    Ok(())
}

#[test]
fn postgres_serves_the_same_transactions() -> anyhow::Result<()> {
    own_process!();
    let place = Workplace::new()?;
    let programs = place.run(&["sh", "-c", "ls -d /usr/lib/postgresql/*/bin | tail -1"])?;
    let programs = String::from_utf8(programs.stdout)?.trim().to_owned();
    if programs.is_empty() || !found_or_skip("setpriv")? {
        return skip("postgres", "no /usr/lib/postgresql");
    }
    fs::set_permissions(place.path(), PermissionsExt::from_mode(0o755))?;
    // The server refuses to run as root. A session records the processes of its own user, so the
    // command runs as the server's user, too.
    let script = format!(
        "set -e; rm -rf d; mkdir d; cd d; b={programs}; d=$PWD; \
         $b/initdb -D db -A trust -U u >/dev/null; \
         $b/pg_ctl -D db -o \"-k $d -c listen_addresses=\" -l log -w start >/dev/null; \
         $b/pgbench -h $d -U u -i -q postgres >/dev/null 2>&1; \
         $b/pgbench -h $d -U u -c 4 -t 100 postgres 2>/dev/null | grep -E 'processed|failed'; \
         $b/pg_ctl -D db -m fast -w stop >/dev/null; grep -c -i panic log || true"
    );
    fs::copy(tools::profiler()?, place.path().join("profiler"))?;
    let to_user = "if [ $(id -u) != 0 ]; then exec \"$@\"; fi; chown postgres .; \
        exec setpriv --reuid postgres --regid postgres --clear-groups env HOME=. \"$@\"";
    let program = ["sh", "-c", to_user, "sh", "sh", "-c", &script];
    let alone = place.run(&program)?;
    assert!(alone.status.success(), "{alone:?}");
    let record = [
        "./profiler",
        "record",
        "-o",
        "out.json",
        "--format",
        "gecko",
        "--",
    ];
    let program = [&program[..4], &record, &program[4..]].concat();
    let recorded = place.recorded(place.run(&program)?);
    assert_eq!(recorded.error_of_program(), "");
    assert_eq!(recorded.output.stdout, alone.stdout);
    assert!(recorded.output.status.success(), "{}", recorded.said());
    let (all, complete) = count(&recorded, "postgres")?;
    assert!(
        all > 5 && complete == all,
        "{:?}",
        recorded.verdicts("postgres")?
    );
    Ok(())
}
