//! Tests of `profiler record` with programs that change their user, their capabilities or their
//! namespaces.
//!
//! The system and the C library treat processes with several threads in another way there. The
//! profiler has no thread in such a process, and it stays recorded.

use std::path::PathBuf;

use integration_tests::foreign::{Workplace, is_installed};
use integration_tests::{own_process, own_process_tests};

use crate::agent_record::{has_used, text};

/// Uses 100 ms of processor time, changes its rights as its first argument says, uses 100 ms more,
/// and returns 7 if all went well.
///
/// `keeps` changes the user and then the group with capabilities of this thread alone; `plain`
/// changes both; `vfork` does as `keeps` in the child of a `vfork`; `namespace` makes a user
/// namespace. A second one lets a forked process do all of it.
const CHANGES: &str = r#"
#define _GNU_SOURCE
#include <errno.h>
#include <grp.h>
#include <linux/capability.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
static void spin(void) {
    clock_t end = clock() + CLOCKS_PER_SEC / 10;
    while (clock() < end) continue;
}
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
    return 7;
}
static int change_in_vfork(void) {
    int status;
    pid_t child = vfork();
    if (child == 0) _exit(prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0) || setuid(65534) ? 30 : 7);
    if (waitpid(child, &status, 0) != child) return 31;
    return WEXITSTATUS(status);
}
static int enter_namespace(void) {
    if (unshare(CLONE_NEWUSER)) return errno == EPERM || errno == ENOSPC ? 7 : 40;
    return 7;
}
static int change(const char *what) {
    int result;
    spin();
    if (!strcmp(what, "keeps")) result = change_keeping();
    else if (!strcmp(what, "namespace")) result = enter_namespace();
    else result = !strcmp(what, "plain") ? change_plainly() : change_in_vfork();
    spin();
    return result;
}
int main(int count, char **words) {
    if (count < 2) return 60;
    if (count == 2) return change(words[1]);
    int status;
    pid_t child = fork();
    if (child == 0) exit(change(words[1]));
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

/// Checks that the program does the same with and without the profiler, and that its time before and
/// after the change is in the profile.
fn goes_well(words: &[&str]) -> anyhow::Result<()> {
    let Some((place, changes)) = changes()? else {
        return Ok(());
    };
    let mut program = vec![text(&changes)];
    program.extend(words);
    assert_eq!(place.run(&program)?.status.code(), Some(7), "{words:?}");
    let recorded = place.record(&program)?;
    assert_eq!(recorded.output.status.code(), Some(7), "{words:?}");
    let is_recorded = has_used(&recorded.profile()?, "changes", 194_000_000);
    assert!(
        is_recorded,
        "{words:?}: {:?}",
        recorded.verdicts("changes")?
    );
    Ok(())
}

own_process_tests! {
    a_program_changes_its_user_with_capabilities_of_one_thread: goes_well(&["keeps"]);
    a_program_that_changes_its_user_for_all_threads_stays_recorded: goes_well(&["plain"]);
    a_change_in_the_child_of_a_vfork_does_not_concern_its_parent: goes_well(&["vfork"]);
    a_program_makes_a_user_namespace: goes_well(&["namespace"]);
    a_forked_process_changes_its_user: goes_well(&["keeps", "forked"]);
    a_forked_process_makes_a_user_namespace: goes_well(&["namespace", "forked"]);
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
