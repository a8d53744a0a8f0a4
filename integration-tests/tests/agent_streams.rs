//! Tests of `profiler record` with programs that close descriptors at any time.

use anyhow::Context;
use integration_tests::foreign::Workplace;
use integration_tests::own_process;

use crate::agent_record::{does_the_same, text};

#[test]
fn a_closed_standard_stream_stays_closed() -> anyhow::Result<()> {
    own_process!();
    let place = Workplace::new()?;
    for script in [
        "exec cat <&-",
        "exec env echo hello >&-",
        "exec ls /does/not/exist 2>&-",
        "exec cat <&- >&- 2>&-",
    ] {
        does_the_same(&place, &["sh", "-c", script])?;
    }
    let program = place.compile("streams", STREAMS, &[])?;
    for closed in ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"] {
        let script = format!("exec \"$0\" {closed}");
        does_the_same(&place, &["sh", "-c", &script, text(&program)])?;
    }
    Ok(())
}

/// Uses processor time, and returns which of the standard streams are open then.
const STREAMS: &str = r#"
#include <fcntl.h>
#include <stdlib.h>
#include <time.h>
int main(void) {
    int open = 0;
    while (clock() < CLOCKS_PER_SEC / 5) {}
    for (int stream = 0; stream < 3; stream++) open += (fcntl(stream, F_GETFD) != -1) << stream;
    return open;
}
"#;

/// Uses processor time for some milliseconds, closes all descriptors, has sockets of its own there,
/// and returns 7 if nothing has happened to them 0.2 s of processor time later.
const REUSES: &str = r#"
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>
static void spin(double milliseconds) {
    clock_t end = clock() + (clock_t)(milliseconds * (CLOCKS_PER_SEC / 1000));
    while (clock() < end) {}
}
int main(int count, char **words) {
    int pairs[8][2];
    char byte;
    spin(count > 1 ? atof(words[1]) : 1);
    for (int number = 3; number < 64; number++) close(number);
    for (int i = 0; i < 8; i++) {
        if (socketpair(AF_UNIX, SOCK_STREAM, 0, pairs[i])) return 1;
    }
    spin(200);
    for (int i = 0; i < 8; i++) {
        for (int end = 0; end < 2; end++) {
            if (recv(pairs[i][end], &byte, 1, MSG_DONTWAIT) != -1) return 2;
            if (errno != EAGAIN) return 3;
            if (send(pairs[i][!end], "x", 1, MSG_NOSIGNAL) != 1) return 4;
            if (recv(pairs[i][end], &byte, 1, MSG_DONTWAIT) != 1) return 5;
        }
    }
    return 7;
}
"#;

#[test]
fn a_program_that_reuses_all_numbers_keeps_its_files() -> anyhow::Result<()> {
    own_process!();
    let place = Workplace::new()?;
    let program = place.compile("reuses", REUSES, &[])?;
    // They close their descriptors at different times after their start.
    let script = "for delay in 1 2 3 4 5 6 7 8 9 10 11 12 14 16 18 20 22 25; do
        \"$0\" $delay || [ $? = 7 ] || echo \"$delay: damaged\"
    done";
    let program = ["sh", "-c", script, text(&program)];
    assert!(place.run(&program)?.stdout.is_empty());
    let recorded = place.record(&program)?;
    assert_eq!(String::from_utf8(recorded.output.stdout)?, "");
    Ok(())
}

/// Prints the numbers of its descriptors while it runs for a second of processor time, and those
/// that a forked process of it has.
const LISTS: &str = r#"
#include <fcntl.h>
#include <stdio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
static void list(const char *who) {
    for (int number = 0; number < 1024; number++)
        if (fcntl(number, F_GETFD) != -1) printf("%s %d\n", who, number);
    fflush(stdout);
}
int main(void) {
    list("begins");
    while (clock() < CLOCKS_PER_SEC) {}
    list("runs");
    if (fork() == 0) { list("forked"); _exit(0); }
    wait(0);
    return 0;
}
"#;

#[test]
fn no_descriptor_is_added_to_a_program() -> anyhow::Result<()> {
    own_process!();
    let place = Workplace::new()?;
    let program = place.compile("lists", LISTS, &[])?;
    let alone = place.run(&[text(&program)])?;
    for words in [&[][..], &["sh", "-c", "\"$0\"; true"]] {
        let words = [words, &[text(&program)]].concat();
        let recorded = place.record(&words)?;
        assert_eq!(recorded.output.stdout, alone.stdout, "{words:?}");
        let profile = recorded.profile()?;
        let mut all = profile.processes.iter();
        let first = all.find(|process| process.name == "lists");
        let main = first.context("no process")?.thread("GeckoMain")?;
        let stacks = main
            .samples
            .all
            .iter()
            .map(|sample| main.samples.stack(sample));
        let with_stacks = stacks.filter(|stack| !stack.is_empty()).count();
        assert!(with_stacks > 100, "{words:?}: {with_stacks}");
    }
    Ok(())
}
