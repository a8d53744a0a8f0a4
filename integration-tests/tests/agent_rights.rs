//! Tests of the agent in programs that change their user, their capabilities or their namespaces.
//!
//! The system and the C library treat processes with several threads in another way there. The
//! agent leaves such a process before, if its threads would be in the way.

use std::path::PathBuf;

use integration_tests::foreign::{Workplace, is_installed};
use integration_tests::{own_process, own_process_tests};

use crate::agent_record::{has_used, text};

/// Changes its rights as its arguments say, and returns 7 if all went as without the profiler.
///
/// The first argument: `now`, or `recorded`, which waits until it is recorded, and then uses 200 ms
/// of processor time. The second one:
/// `keeps` changes the user and then the group with capabilities of this thread alone; `plain`
/// changes both, and stays recorded; `vfork` does as `keeps` in the child of a `vfork`, and stays
/// recorded; `namespace` makes a user namespace. A third one lets a forked process do all of it.
const CHANGES: &str = r#"
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <grp.h>
#include <linux/capability.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
/* The threads with a name of the profiler that begins like this. */
static int threads_of_profiler(const char *start) {
    DIR *all = opendir("/proc/self/task");
    struct dirent *each;
    int count = 0;
    while (all && (each = readdir(all))) {
        char path[300], name[32] = "";
        snprintf(path, sizeof path, "/proc/self/task/%s/comm", each->d_name);
        FILE *file = fopen(path, "r");
        if (!file) continue;
        if (fgets(name, sizeof name, file) && !strncmp(name, start, strlen(start))) count++;
        fclose(file);
    }
    if (all) closedir(all);
    return count;
}
static int is_profiled;
static int is_recorded(void) { return threads_of_profiler("profiler-stacks") > 0; }
static int change_keeping(void) {
    struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct data[2];
    if (prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0)) return 10;
    if (setresuid(65534, 65534, 65534)) return 11;
    if (syscall(SYS_capget, &header, data)) return 12;
    data[0].effective = data[0].permitted;
    if (syscall(SYS_capset, &header, data)) return 13;
    if (setgroups(0, NULL)) return 14;
    if (setresgid(65534, 65534, 65534)) return 15;
    return 7;
}
static int change_plainly(void) {
    errno = 33;
    if (setgroups(0, NULL) || setgid(65534) || setuid(65534)) return 20;
    if (errno != 33) return 21;
    if (setuid(0) != -1 || errno != EPERM) return 22;
    return is_profiled && !is_recorded() ? 23 : 7;
}
static int change_in_vfork(void) {
    int status;
    pid_t child = vfork();
    if (child == 0) _exit(prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0) || setuid(65534) ? 30 : 7);
    if (waitpid(child, &status, 0) != child) return 31;
    if (is_profiled && !is_recorded()) return 32;
    return WEXITSTATUS(status);
}
static int enter_namespace(void) {
    if (unshare(CLONE_NEWUSER)) return errno == EPERM || errno == ENOSPC ? 7 : 40;
    return 7;
}
static int change(const char *when, const char *what) {
    int is_late = !strcmp(when, "recorded"), has_left = 1, result;
    for (int i = 0; is_profiled && is_late && !is_recorded(); i++) {
        if (i == 30000) return 50;
        usleep(1000);
    }
    if (is_late) {
        clock_t end = clock() + CLOCKS_PER_SEC / 5;
        while (clock() < end) {}
    }
    if (!strcmp(what, "keeps")) result = change_keeping();
    else if (!strcmp(what, "namespace")) result = enter_namespace();
    else {
        has_left = 0;
        result = !strcmp(what, "plain") ? change_plainly() : change_in_vfork();
    }
    if (has_left && threads_of_profiler("profiler-")) return 51;
    return result;
}
int main(int count, char **words) {
    is_profiled = getenv("MULTIPROCESS_PROFILER_SESSION") != NULL;
    if (count < 3) return 60;
    if (count == 3) return change(words[1], words[2]);
    int status;
    pid_t child = fork();
    if (child == 0) exit(change(words[1], words[2]));
    if (waitpid(child, &status, 0) != child || !WIFEXITED(status)) return 61;
    return WEXITSTATUS(status);
}
"#;

/// The program, and a directory for it. `None` for other users than root, who may not change their
/// user.
fn changes() -> anyhow::Result<Option<(Workplace, PathBuf)>> {
    if !rustix::process::geteuid().is_root() {
        eprintln!("left out: this user may not become another one");
        return Ok(None);
    }
    let place = Workplace::new()?;
    let program = place.compile("changes", CHANGES, &[])?;
    Ok(Some((place, program)))
}

/// Checks that the program does the same with and without the agent.
fn goes_well(words: &[&str]) -> anyhow::Result<()> {
    let Some((place, changes)) = changes()? else {
        return Ok(());
    };
    let mut program = vec![text(&changes)];
    program.extend(words);
    // Without the profiler, `recorded` does not wait.
    assert_eq!(place.run(&program)?.status.code(), Some(7), "{words:?}");
    let recorded = place.record(&program)?;
    assert_eq!(recorded.output.status.code(), Some(7), "{words:?}");
    if words.first() == Some(&"recorded") {
        let is_recorded = has_used(&recorded.profile()?, "changes", 100_000_000);
        assert!(
            is_recorded,
            "what was recorded before the change is kept: {words:?}"
        );
    }
    Ok(())
}

#[test]
fn a_program_changes_its_user_with_capabilities_of_one_thread() -> anyhow::Result<()> {
    own_process!();
    goes_well(&["now", "keeps"])?;
    goes_well(&["recorded", "keeps"])
}

own_process_tests! {
    a_program_that_changes_its_user_for_all_threads_stays_recorded:
        goes_well(&["recorded", "plain"]);
    a_change_in_the_child_of_a_vfork_does_not_concern_its_parent: goes_well(&["recorded", "vfork"]);
}

#[test]
fn a_program_makes_a_user_namespace() -> anyhow::Result<()> {
    own_process!();
    goes_well(&["now", "namespace"])?;
    goes_well(&["recorded", "namespace"])
}

#[test]
fn a_forked_process_changes_its_rights_at_any_time() -> anyhow::Result<()> {
    own_process!();
    for what in ["keeps", "namespace"] {
        goes_well(&["now", what, "forked"])?;
        goes_well(&["recorded", what, "forked"])?;
    }
    Ok(())
}

#[test]
fn the_systems_own_programs_change_users_and_namespaces() -> anyhow::Result<()> {
    own_process!();
    if !rustix::process::geteuid().is_root() {
        eprintln!("left out: this user may not become another one");
        return Ok(());
    }
    let place = Workplace::new()?;
    let ways = [
        "setpriv --reuid 65534 --regid 65534 --clear-groups sh -c 'echo ok'",
        "capsh --user=nobody -- -c 'echo ok'",
        "unshare -Ur sh -c 'echo ok'",
        "unshare -m sh -c 'echo ok'",
    ];
    let is_there = |way: &&str| is_installed(way.split(' ').next().unwrap_or_default());
    for way in ways.into_iter().filter(is_there) {
        let program = ["sh", "-c", &format!("exec {way}")];
        let alone = place.run(&program)?;
        let recorded = place.record(&program)?.output;
        assert_eq!(recorded.status.code(), alone.status.code(), "{way}");
        assert_eq!(recorded.stdout, alone.stdout, "{way}");
    }
    Ok(())
}
