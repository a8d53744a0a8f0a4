//! Tests of `profiler record` with many programs, forks, kills and threads. Every process has a row
//! in the profile, and no time that it reported is missing.
//!
//! By default, the tests have a short form. The long form has 10,000 programs, 2,000 changes of the
//! user, 2,000 kills and 10,000 threads. It takes minutes, and prints its results:
//!
//! ```sh
//! AGENT_CROWD=long cargo test -p integration-tests --test all agent_crowd:: -- --nocapture
//! ```

use std::collections::HashMap;

use anyhow::Context;
use integration_tests::foreign::{Recorded, Workplace};
use integration_tests::own_process;
use integration_tests::patience::Stopwatch;

use crate::agent_record::{text, used_by};

/// Forks as many children as the second argument says, 20 at a time. Each child does what the first
/// argument says. Prints a line for each child: its process number and a time in nanoseconds.
///
/// `changes`: a child changes its user and its group, uses a millisecond of processor time and
/// ends. The time is the processor time that the system accounts to it. `killed`: a child spins,
/// and is killed at a random moment. The time is the processor time of its finished samples, as the
/// child has last read it in its own file: see `ThreadRow` in
/// `profiler-agent/observed/src/layout.rs`. The program ends when the session has read the files of
/// all children.
const FORKS: &str = r#"
#define _GNU_SOURCE
#include <dirent.h>
#include <grp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#define AT_ONCE 20
#define PAGE 4096
struct row { unsigned uses; int tid; unsigned long began, began_cpu, sampled_cpu; };
static volatile unsigned long *seen;
/* The mapped file of this process: not one that is kept for its children. */
static volatile struct row *own_row(void) {
    char line[4096], path[4096];
    unsigned long start;
    FILE *maps = fopen("/proc/self/maps", "r");
    while (fgets(line, sizeof line, maps)) {
        if (sscanf(line, "%lx-%*s %*s %*s %*s %*s %4095s", &start, path) != 2) continue;
        if (!strstr(path, "/profiler-observed-")) continue;
        if (((unsigned *)start)[3] != (unsigned)getpid()) continue;
        fclose(maps);
        return (struct row *)(start + PAGE);
    }
    fclose(maps);
    return NULL;
}
static void change(void) {
    if (setgroups(0, NULL) || setgid(65534) || setuid(65534)) _exit(9);
    while (clock() < CLOCKS_PER_SEC / 1000) continue;
    _exit(0);
}
static void spin(int place) {
    volatile struct row *row = own_row();
    if (!row) _exit(8);
    for (;;) {
        unsigned long sampled = row->sampled_cpu;
        seen[place] = sampled > row->began_cpu ? sampled - row->began_cpu : 1;
    }
}
/* The session removes a file when it has read all of it: until only that of this process is left. */
static int is_all_read(void) {
    DIR *directory = opendir(strrchr(getenv("MULTIPROCESS_PROFILER_OBSERVED"), ' ') + 1);
    int files = 0;
    for (struct dirent *entry; (entry = readdir(directory));) files += entry->d_name[0] != '.';
    closedir(directory);
    return files <= 1;
}
int main(int count, char **words) {
    unsigned random = 7;
    if (count < 3) return 2;
    int is_killed = !strcmp(words[1], "killed");
    seen = mmap(0, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    for (int left = atoi(words[2]); left > 0; left -= AT_ONCE) {
        int now = left < AT_ONCE ? left : AT_ONCE;
        pid_t all[AT_ONCE];
        for (int i = 0; i < now; i++) {
            seen[i] = 0;
            all[i] = fork();
            if (all[i] == 0 && is_killed) spin(i);
            if (all[i] == 0) change();
        }
        for (int i = 0; i < now; i++) {
            struct rusage used;
            int status;
            if (is_killed) {
                while (!seen[i] && waitpid(all[i], &status, WNOHANG) == 0) usleep(100);
                random = random * 1664525u + 1013904223u;
                usleep((random >> 8) % 20000);
                kill(all[i], SIGKILL);
            }
            if (wait4(all[i], &status, 0, &used) != all[i]) return 3;
            if (status != (is_killed ? SIGKILL : 0)) return 4;
            unsigned long ns = seen[i];
            if (!is_killed) ns = 1000 * (used.ru_utime.tv_sec * 1000000L + used.ru_utime.tv_usec
                + used.ru_stime.tv_sec * 1000000L + used.ru_stime.tv_usec);
            printf("%d %lu\n", all[i], ns);
        }
    }
    for (int rest = 10000; is_killed && rest > 0 && !is_all_read(); rest--) usleep(10000);
    return 0;
}
"#;

/// Starts as many threads as its argument says. They live at the same time, and use a millisecond
/// of processor time each. Prints the number of threads, and the processor time of the process.
const THREADS: &str = r#"
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
static pthread_barrier_t all_live;
static long ns(clockid_t clock) {
    struct timespec time;
    clock_gettime(clock, &time);
    return time.tv_sec * 1000000000L + time.tv_nsec;
}
static void *run(void *unused) {
    pthread_barrier_wait(&all_live);
    while (ns(CLOCK_THREAD_CPUTIME_ID) < 1000000) continue;
    pthread_barrier_wait(&all_live);
    return unused;
}
int main(int count, char **words) {
    int number = count > 1 ? atoi(words[1]) : 1;
    pthread_t *all = calloc(number, sizeof *all);
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 128 << 10);
    pthread_barrier_init(&all_live, NULL, number + 1);
    for (int i = 0; i < number; i++)
        if (pthread_create(&all[i], &attributes, run, NULL)) return 3;
    pthread_barrier_wait(&all_live);
    pthread_barrier_wait(&all_live);
    for (int i = 0; i < number; i++) pthread_join(all[i], NULL);
    printf("%d %ld\n", number, ns(CLOCK_PROCESS_CPUTIME_ID));
    return 0;
}
"#;

/// The size of a test: `long` if the environment asks for the long form, `short` otherwise.
fn size(short: usize, long: usize) -> usize {
    let is_long = std::env::var("AGENT_CROWD").is_ok_and(|form| form == "long");
    if is_long { long } else { short }
}

/// Records a program that must succeed, and prints how long it took and what it printed.
fn recorded(place: &Workplace, program: &[&str]) -> anyhow::Result<Recorded> {
    let watch = Stopwatch::start();
    let recorded = place.record(program)?;
    let lines = recorded.said();
    println!("{program:?}: {:.1?}: {lines}", watch.elapsed());
    assert_eq!(recorded.output.status.code(), Some(0), "{lines}");
    Ok(recorded)
}

/// The pairs of numbers in the lines that a program has printed.
fn pairs(recorded: &Recorded) -> anyhow::Result<Vec<(u64, u64)>> {
    let text = String::from_utf8_lossy(&recorded.output.stdout).into_owned();
    let pair = |line: &str| {
        let (first, second) = line.split_once(' ').context("not two numbers")?;
        Ok((first.parse()?, second.parse()?))
    };
    text.lines().map(pair).collect()
}

/// The processor time in the samples of each process of this name, by number.
fn used_by_number(recorded: &Recorded, name: &str) -> anyhow::Result<HashMap<u64, u64>> {
    let profile = recorded.profile()?;
    let named = profile.processes.iter();
    let named = named.filter(|process| process.name == name);
    let mut all = HashMap::new();
    for process in named {
        *all.entry(process.pid).or_default() += used_by(process);
    }
    Ok(all)
}

/// The number of processes in the common row of earlier processes. The row exists if more processes
/// have ended than the session lists.
fn earlier(recorded: &Recorded) -> anyhow::Result<usize> {
    let profile = recorded.profile()?;
    let names = profile.log_rows()?.iter();
    let mut names = names.filter_map(|row| row["name"].as_str());
    let count = names.find_map(|name| name.strip_suffix(" earlier processes"));
    Ok(count.map_or(Ok(0), str::parse)?)
}

#[test]
fn each_of_many_programs_has_a_row() -> anyhow::Result<()> {
    own_process!();
    let programs = size(400, 10_000);
    let place = Workplace::new()?;
    let script = "i=0; while [ $i -lt $0 ]; do /bin/true || exit 1; i=$((i + 1)); done";
    let recorded = recorded(&place, &["sh", "-c", script, &programs.to_string()])?;
    let verdicts = recorded.verdicts("true")?;
    let (listed, earlier) = (verdicts.len(), earlier(&recorded)?);
    println!("{listed} are listed, and {earlier} were earlier");
    assert_eq!(listed + earlier, programs, "{}", recorded.said());
    if earlier == 0 {
        let is_complete = |verdict: &String| verdict == "complete";
        assert!(verdicts.iter().all(is_complete), "{verdicts:?}");
    }
    Ok(())
}

#[test]
fn each_of_many_forks_that_change_their_user_has_its_time() -> anyhow::Result<()> {
    own_process!();
    if !rustix::process::geteuid().is_root() {
        eprintln!("left out: this user may not become another one");
        return Ok(());
    }
    let place = Workplace::new()?;
    let program = place.compile("changes", FORKS, &[])?;
    let forks = size(200, 2_000);
    let recorded = recorded(&place, &[text(&program), "changes", &forks.to_string()])?;
    let in_profile = used_by_number(&recorded, "changes")?;
    let children = pairs(&recorded)?;
    assert_eq!(children.len(), forks);
    let missing = children.iter();
    let missing = missing.filter(|(pid, _)| !in_profile.contains_key(pid));
    assert_eq!(missing.count(), 0, "{}", recorded.said());
    let used: u64 = children.iter().map(|(_, used)| used).sum();
    let found = children.iter().filter_map(|(pid, _)| in_profile.get(pid));
    let found: u64 = found.sum();
    println!("{found} ns of {used} ns");
    // Each child has used a millisecond itself; the system uses more time for its start and its
    // end.
    assert!(found >= forks as u64 * 1_000_000, "{found} of {used}");
    Ok(())
}

#[test]
fn a_kill_at_any_moment_loses_no_sample_that_is_finished() -> anyhow::Result<()> {
    own_process!();
    let place = Workplace::new()?;
    let program = place.compile("kills", FORKS, &[])?;
    let kills = size(200, 2_000);
    let recorded = recorded(&place, &[text(&program), "killed", &kills.to_string()])?;
    let in_profile = used_by_number(&recorded, "kills")?;
    let children = pairs(&recorded)?;
    assert_eq!(children.len(), kills);
    // A child that was killed before its first sample has a row, and nothing else.
    assert_eq!(recorded.verdicts("kills")?.len(), kills + 1);
    for (pid, sampled) in children.iter().filter(|(_, sampled)| *sampled > 1) {
        let found = in_profile.get(pid);
        let found = found.with_context(|| format!("no samples of {pid}: {}", recorded.said()))?;
        assert!(found >= sampled, "{pid}: {found} of {sampled}");
    }
    let sampled = children.iter().filter(|(_, sampled)| *sampled > 1).count();
    println!("{sampled} of {kills} had samples");
    assert!(sampled > 0, "no child has been sampled");
    Ok(())
}

#[test]
fn a_program_with_many_threads_at_once_keeps_its_time() -> anyhow::Result<()> {
    own_process!();
    let place = Workplace::new()?;
    let program = place.compile("threads", THREADS, &["-pthread"])?;
    let threads = size(1_000, 10_000);
    let recorded = recorded(&place, &[text(&program), &threads.to_string()])?;
    let all = pairs(&recorded)?;
    let [(made, used)] = all[..] else {
        anyhow::bail!("{all:?}");
    };
    assert_eq!(made, threads as u64);
    let profile = recorded.profile()?;
    let process = profile.process("threads")?;
    let found = used_by(process);
    println!("{} threads, {found} ns of {used} ns", process.threads.len());
    assert!(found * 100 >= used * 97, "{found} of {used}");
    Ok(())
}
