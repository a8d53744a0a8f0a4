//! Tests of `profiler record` with programs that do not load the library. They are observed from
//! outside: always with their time and their waits, and with their stacks where the system permits
//! perf events.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::Context;
use integration_tests::foreign::{Recorded, Workplace};
use integration_tests::{own_process, tools};

use crate::agent_record::{SPIN, does_the_same, text, used_by};
use crate::live_support::Page;

/// Uses as much processor time as the first argument says, then executes the other ones with an
/// empty environment.
const EXECUTES: &str = r#"
#include <stdlib.h>
#include <time.h>
#include <unistd.h>
int main(int count, char **words) {
    char *nothing[] = {0};
    if (count < 3) return 98;
    while (clock() < atol(words[1]) * (CLOCKS_PER_SEC / 1000)) {}
    execve(words[2], words + 2, nothing);
    return 99;
}
"#;

/// Four threads use half a second each; then the main thread uses half a second.
const THREADS: &str = r#"
#include <pthread.h>
#include <time.h>
__attribute__((noinline)) static void *work(void *unused) {
    struct timespec at = {0, 0};
    while (at.tv_sec * 1000 + at.tv_nsec / 1000000 < 500) {
        for (volatile int i = 0; i < 100000; i++) {}
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &at);
    }
    return unused;
}
int main(void) {
    pthread_t all[4];
    for (int i = 0; i < 4; i++) if (pthread_create(all + i, 0, work, 0)) return 1;
    for (int i = 0; i < 4; i++) pthread_join(all[i], 0);
    work(0);
    return 0;
}
"#;

/// Uses half a second in small steps, and prints what a process can see of an observer: its
/// descriptors, its threads, the signals that it handles, blocks and has pending, its mappings with
/// a file, and its environment.
const SEES: &str = r#"
#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
extern char **environ;
static int entries(const char *path) {
    DIR *directory = opendir(path);
    int count = 0;
    while (directory && readdir(directory)) count++;
    if (directory) closedir(directory);
    return count;
}
static void lines(const char *path, const char *with) {
    char line[512];
    FILE *file = fopen(path, "r");
    while (file && fgets(line, sizeof line, file)) {
        char *found = strstr(line, with);
        if (found) fputs(found, stdout);
    }
    if (file) fclose(file);
}
int main(void) {
    while (clock() < CLOCKS_PER_SEC) {}
    printf("%d %d\n", entries("/proc/self/fd"), entries("/proc/self/task"));
    lines("/proc/self/status", "SigPnd");
    lines("/proc/self/status", "SigBlk");
    lines("/proc/self/status", "SigCgt");
    lines("/proc/self/status", "TracerPid");
    lines("/proc/self/status", "Seccomp");
    lines("/proc/self/maps", "/");
    for (char **one = environ; *one; one++) puts(*one);
    return 7;
}
"#;

/// Executes its arguments under a filter that refuses `perf_event_open`.
const WITHOUT_EVENTS: &str = r#"
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>
int main(int count, char **words) {
    struct sock_filter rules[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_perf_event_open, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {4, rules};
    if (count < 2 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)) return 97;
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)) return 96;
    execv(words[1], words + 1);
    return 99;
}
"#;

/// Whether the system permits perf events to this process: it opens one of its own processor time.
#[allow(unsafe_code)]
fn permits_events() -> bool {
    // `struct perf_event_attr`, in its second version of 72 bytes: the type (software) and the
    // size, the number of the event (the clock of a task), and the flags `exclude_kernel` and
    // `exclude_hv`.
    const CLOSE_ON_EXEC: libc::c_ulong = 8;
    let mut about = [0_u64; 9];
    about[0] = 1 | 72 << 32;
    about[1] = 1;
    about[5] = 1 << 5 | 1 << 6;
    // SAFETY: the system reads the 72 bytes that `about` has, and returns a descriptor or -1.
    let event = unsafe {
        libc::syscall(
            libc::SYS_perf_event_open,
            about.as_ptr(),
            0,
            -1,
            -1,
            CLOSE_ON_EXEC,
        )
    };
    if event < 0 {
        eprintln!("no perf events here: stacks are not checked");
        return false;
    }
    // SAFETY: the descriptor was opened here, and nothing else has it.
    unsafe { libc::close(i32::try_from(event).unwrap_or(-1)) };
    true
}

/// The processor time of all rows of a process in milliseconds, and of the samples in which a
/// function of this name runs.
fn times(recorded: &Recorded, name: &str, function: &str) -> anyhow::Result<(u64, u64)> {
    let profile = recorded.profile()?;
    let rows = profile.processes.iter().filter(|row| row.name == name);
    let (mut all, mut inside) = (0, 0);
    for row in rows {
        all += used_by(row);
        for thread in &row.threads {
            let in_function = |frame: &&str| frame.starts_with(function);
            let samples = thread.samples.all.iter();
            let samples = samples.filter(|sample| {
                let stack = thread.samples.stack(sample);
                stack.iter().any(in_function)
            });
            inside += samples.filter_map(|sample| sample.cpu_ns).sum::<u64>();
        }
    }
    Ok((all / 1_000_000, inside / 1_000_000))
}

/// Checks that a program has used this time, within 3 %, and that its stacks show where.
fn has_stacks(recorded: &Recorded, name: &str, used: u64) -> anyhow::Result<()> {
    let (all, inside) = times(recorded, name, &format!("{name}+"))?;
    let verdicts = recorded.verdicts(name)?;
    let about = format!(
        "{all} ms, {inside} ms in {name}: {verdicts:?}\n{}",
        recorded.said()
    );
    assert!(all * 100 >= used * 97 && all * 100 <= used * 106, "{about}");
    assert!(!permits_events() || inside * 100 >= used * 40, "{about}");
    assert!(
        verdicts.iter().all(|verdict| verdict == "complete"),
        "{about}"
    );
    Ok(())
}

#[test]
fn a_static_program_is_recorded_from_outside_with_its_stacks() -> anyhow::Result<()> {
    own_process!();
    let place = Workplace::new()?;
    let spin = place.compile("spin", SPIN, &["-static"])?;
    let recorded = does_the_same(&place, &[text(&spin), "2000"])?;
    has_stacks(&recorded, "spin", 2000)
}

#[test]
fn a_program_without_the_environment_is_recorded_from_outside() -> anyhow::Result<()> {
    own_process!();
    let place = Workplace::new()?;
    let spin = place.compile("spin", SPIN, &[])?;
    let script = format!("env -i '{}' 2000; exit 3", text(&spin));
    let recorded = does_the_same(&place, &["sh", "-c", &script])?;
    has_stacks(&recorded, "spin", 2000)
}

#[test]
fn the_time_of_a_process_is_divided_where_it_executes_a_program_without_a_file()
-> anyhow::Result<()> {
    own_process!();
    let place = Workplace::new()?;
    let spin = place.compile("spin", SPIN, &["-static"])?;
    let executes = place.compile("executes", EXECUTES, &[])?;
    let words = [text(&executes), "1000", text(&spin), "3000"];
    let recorded = does_the_same(&place, &words)?;
    // The clock of the process goes on.
    has_stacks(&recorded, "spin", 2000)?;
    let (before, _) = times(&recorded, "executes", "main")?;
    assert!((970..=1060).contains(&before), "{before} ms");
    Ok(())
}

#[test]
fn each_program_of_a_process_without_files_is_a_row() -> anyhow::Result<()> {
    own_process!();
    let place = Workplace::new()?;
    let spin = place.compile("spin", SPIN, &["-static"])?;
    let executes = place.compile("executes", EXECUTES, &["-static"])?;
    let words = [
        text(&executes),
        "1000",
        text(&executes),
        "2000",
        text(&spin),
        "4000",
    ];
    let recorded = does_the_same(&place, &words)?;
    has_stacks(&recorded, "spin", 2000)?;
    let (before, _) = times(&recorded, "executes", "main")?;
    assert!((1940..=2080).contains(&before), "{before} ms");
    assert_eq!(recorded.verdicts("executes")?.len(), 2);
    Ok(())
}

#[test]
fn a_killed_program_without_a_file_has_its_time() -> anyhow::Result<()> {
    own_process!();
    let place = Workplace::new()?;
    let spin = place.compile("spin", SPIN, &["-static"])?;
    let script = r#""$0" 1000000 & while [ "$(cut -d' ' -f14 /proc/$!/stat)" -lt 100 ]; do sleep 0.02; done; kill -9 $!; wait $! 2>/dev/null; exit 5"#;
    let recorded = place.record(&["bash", "-c", script, text(&spin)])?;
    assert_eq!(recorded.output.status.code(), Some(5));
    let (all, inside) = times(&recorded, "spin", "spin+")?;
    assert!(all >= 970, "{all} ms");
    assert!(!permits_events() || inside > 0, "{inside} ms");
    Ok(())
}

#[test]
fn all_threads_of_a_program_without_a_file_are_recorded() -> anyhow::Result<()> {
    own_process!();
    let place = Workplace::new()?;
    let work = place.compile("work", THREADS, &["-static", "-pthread"])?;
    let recorded = does_the_same(&place, &[text(&work)])?;
    has_stacks(&recorded, "work", 2500)
}

#[test]
fn all_threads_of_a_program_in_another_pid_namespace_are_recorded() -> anyhow::Result<()> {
    own_process!();
    let place = Workplace::new()?;
    let work = place.compile("work", THREADS, &["-static", "-pthread"])?;
    let unshare = ["unshare", "--user", "--map-root-user", "--pid", "--fork"];
    let mut permitted = Command::new(unshare[0]);
    if !permitted
        .args(&unshare[1..])
        .arg("true")
        .status()?
        .success()
    {
        eprintln!("left out: no namespaces here");
        return Ok(());
    }
    let words: Vec<&str> = unshare.into_iter().chain([text(&work)]).collect();
    let recorded = does_the_same(&place, &words)?;
    has_stacks(&recorded, "work", 2500)
}

#[test]
fn all_programs_without_a_file_that_begin_at_once_are_recorded() -> anyhow::Result<()> {
    own_process!();
    const COUNT: usize = 200;
    let place = Workplace::new()?;
    let waits = "#include <unistd.h>\nint main(void) { char c; return read(0, &c, 1); }\n";
    let waits = place.compile("waits", waits, &["-static"])?;
    let begin = format!("'{}' <&3 &", text(&waits));
    let script = format!("exec 3<&0; for i in $(seq {COUNT}); do {begin} done; wait");
    let mut command = Command::new(tools::profiler()?);
    command.args(["record", "-o", "out.json", "--live", "127.0.0.1:0", "--"]);
    command
        .args(["sh", "-c", &script])
        .current_dir(place.path());
    command.env("XDG_CACHE_HOME", tools::cache()?);
    let mut running = command
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let mut lines = BufReader::new(running.stderr.take().context("a pipe")?).lines();
    let url =
        lines.find_map(|line| Some(line.ok()?.strip_prefix("profiler: live at ")?.to_owned()));
    let page = Page::parse(url.context("no address")?.trim())?;
    page.until("processes.json?ptop=all", |listing| {
        let rows = listing["rows"].as_array().into_iter().flatten();
        let recorded = rows.filter(|row| row["name"] == "waits" && row["state"] == "recording");
        recorded.count() == COUNT
    })?;
    drop(running.stdin.take());
    let said: Vec<String> = lines.map_while(Result::ok).collect();
    running.wait()?;
    let info = tools::info(&place.path().join("out.json"))?;
    let rows = info["processes"].as_array().into_iter().flatten();
    let own: Vec<_> = rows.filter(|row| row["name"] == "waits").collect();
    let complete = own.iter().filter(|row| row["verdict"] == "complete");
    assert_eq!((complete.count(), own.len()), (COUNT, COUNT), "{said:?}");
    Ok(())
}

#[test]
fn a_program_sees_nothing_of_an_observer_outside() -> anyhow::Result<()> {
    own_process!();
    let place = Workplace::new()?;
    let sees = place.compile("sees", SEES, &["-static"])?;
    let recorded = does_the_same(&place, &["env", "-i", text(&sees)])?;
    assert_eq!(recorded.output.status.code(), Some(7));
    assert_eq!(recorded.verdicts("sees")?, ["complete"]);
    Ok(())
}

/// Records a program where the system refuses perf events.
fn record_without_events(place: &Workplace, program: &[&str]) -> anyhow::Result<Recorded> {
    let wrapper = place.compile("without_events", WITHOUT_EVENTS, &[])?;
    let mut command = Command::new(wrapper);
    command.arg(tools::profiler()?);
    command.args(["record", "-o", "out.json", "--format", "gecko", "--"]);
    command.args(program).current_dir(place.path());
    command
        .env("XDG_CACHE_HOME", tools::cache()?)
        .stdin(Stdio::null());
    Ok(place.recorded(command.output()?))
}

/// Whether the log of the profile has this text about a process.
fn log_has(path: &Path, needle: &str) -> anyhow::Result<bool> {
    Ok(std::fs::read_to_string(path)?.contains(needle))
}

#[test]
fn without_perf_events_the_time_is_recorded_and_the_profile_says_why_there_are_no_stacks()
-> anyhow::Result<()> {
    own_process!();
    let place = Workplace::new()?;
    let spin = place.compile("spin", SPIN, &["-static"])?;
    let script = r#""$0" 1500; "$0" 1; exit 4"#;
    let recorded = record_without_events(&place, &["sh", "-c", script, text(&spin)])?;
    assert_eq!(
        recorded.output.status.code(),
        Some(4),
        "{}",
        recorded.said()
    );
    let (all, inside) = times(&recorded, "spin", "spin+")?;
    assert!(
        (1400..=1600).contains(&all),
        "{all} ms: {}",
        recorded.said()
    );
    assert_eq!(inside, 0);
    let why = "its threads have no stacks while they run: the system does not permit perf events";
    assert!(log_has(&recorded.path(), why)?);
    Ok(())
}
