//! Tests of `profiler record --crashes`: unmodified programs end as they do without the profiler,
//! and their crashes are in the profile.

use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Output, Stdio};

use anyhow::Context;
use integration_tests::foreign::Workplace;
use integration_tests::{own_process, tools};

/// Crashes in the way that its first argument names.
const CRASHES: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
static volatile int *volatile nowhere = (int *)16;
static volatile int zero, sink;
__attribute__((noinline)) static void write_nowhere(void) { *nowhere = 1; sink++; }
__attribute__((noinline)) static void divide(void) { sink = sink / zero; sink++; }
__attribute__((noinline)) static void read_cut_file(void) {
    char name[] = "/tmp/crash-XXXXXX"; int file = mkstemp(name); unlink(name);
    if (ftruncate(file, 4096)) _exit(9);
    volatile char *page = mmap(0, 4096, PROT_READ, MAP_SHARED, file, 0);
    if (ftruncate(file, 0)) _exit(9);
    sink += page[0]; sink++;
}
__attribute__((noinline)) static void stop_here(void) { __builtin_trap(); }
#if defined(__x86_64__)
__attribute__((noinline)) static void break_here(void) { __asm__ volatile("int3"); sink++; }
#else
__attribute__((noinline)) static void break_here(void) { __asm__ volatile("brk #0"); sink++; }
#endif
static void (*volatile no_function)(void);
__attribute__((noinline)) static void jump_nowhere(void) { no_function(); sink++; }
__attribute__((noinline)) static void give_up(void) { abort(); }
__attribute__((noinline)) static int go_deeper(int depth) {
    volatile char room[4096]; room[0] = depth;
    return go_deeper(depth + 1) + room[0];
}
static void *in_thread(void *words) { (void)words; write_nowhere(); return 0; }
static struct sigaction chained;
static void on_chained(int signal, siginfo_t *info, void *context) { chained.sa_sigaction(signal, info, context); }
__attribute__((noinline)) static void chain(void) {
    /* As a runtime does that calls the system itself: it sees every handler. */
    long before[4], own[4];
    syscall(SYS_rt_sigaction, SIGSEGV, 0, before, 8);
    if (!before[0]) { write_nowhere(); return; }
    memcpy(&chained.sa_sigaction, before, sizeof before[0]);
    memcpy(own, before, sizeof own);
    void (*handler)(int, siginfo_t *, void *) = on_chained; memcpy(own, &handler, sizeof own[0]);
    syscall(SYS_rt_sigaction, SIGSEGV, own, 0, 8);
    write_nowhere();
}
static void load(const char *path) {
    void *plugin = dlopen(path, RTLD_NOW);
    void (*run)(void) = plugin ? (void (*)(void))dlsym(plugin, "run_plugin") : 0;
    if (run) run(); else _exit(9);
}
static char alternate[65536];
static void filter(void) {
    struct sock_filter allow[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_rt_tgsigqueueinfo, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = { sizeof allow / sizeof *allow, allow };
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)) _exit(9);
}
static void use_alternate(void) { stack_t stack = { .ss_sp = alternate, .ss_size = sizeof alternate }; sigaltstack(&stack, 0); }
static void on_crash(int signal) { (void)signal; static const char text[] = "handled\n"; if (write(1, text, sizeof text - 1) < 0) _exit(8); _exit(7); }
int main(int count, char **words) {
    const char *way = count > 1 ? words[1] : "";
    struct sigaction before; memset(&before, 1, sizeof before);
    sigaction(SIGSEGV, 0, &before);
    if (before.sa_handler != SIG_DFL) return 3;
    if (!strcmp(way, "segv")) write_nowhere();
    if (!strcmp(way, "fpe")) divide();
    if (!strcmp(way, "bus")) read_cut_file();
    if (!strcmp(way, "ill")) stop_here();
    if (!strcmp(way, "trap")) break_here();
    if (!strcmp(way, "abort")) give_up();
    if (!strcmp(way, "jump")) jump_nowhere();
    if (!strcmp(way, "sent")) kill(getpid(), SIGSEGV);
    if (!strcmp(way, "overflow")) { use_alternate(); return go_deeper(0); }
    if (!strcmp(way, "thread")) { pthread_t thread; pthread_create(&thread, 0, in_thread, 0); pthread_join(thread, 0); }
    if (!strcmp(way, "fork")) { if (!fork()) write_nowhere(); int status; wait(&status); return WTERMSIG(status); }
    if (!strcmp(way, "exec")) { execl(words[0], words[0], "bus", (char *)0); }
    if (!strcmp(way, "handled")) { if (signal(SIGSEGV, on_crash) != SIG_DFL) return 4; write_nowhere(); }
    if (!strcmp(way, "reset")) { signal(SIGSEGV, on_crash); if (signal(SIGSEGV, SIG_DFL) != on_crash) return 5; write_nowhere(); }
    if (!strcmp(way, "ignored")) { signal(SIGFPE, SIG_IGN); raise(SIGFPE); return 6; }
    if (!strcmp(way, "filter")) { filter(); write_nowhere(); }
    if (!strcmp(way, "inherited filter")) { filter(); execl(words[0], words[0], "abort", (char *)0); }
    if (!strcmp(way, "chain")) chain();
    if (!strcmp(way, "small stack")) {
        stack_t stack = { .ss_sp = alternate, .ss_size = 2048 };
        sigaltstack(&stack, 0);
        give_up();
    }
    if (!strcmp(way, "plugin") && count > 2) load(words[2]);
    return 0;
}
"#;

/// A recording with `--crashes`: the output of the command, and the output of `profiler info`, or
/// the error output if there is no profile.
struct CrashRecording {
    output: Output,
    shown: String,
}

fn compiled(place: &Workplace) -> anyhow::Result<String> {
    let options = [
        "-O1",
        "-pthread",
        "-fno-optimize-sibling-calls",
        "-Wno-infinite-recursion",
    ];
    let program = place.compile("crashes", CRASHES, &options)?;
    Ok(program.to_str().context("a path")?.to_owned())
}

fn record(place: &Workplace, program: &[&str]) -> anyhow::Result<CrashRecording> {
    let profile = place.path().join("crash.json");
    let mut command = Command::new(tools::profiler()?);
    command.args(["record", "--crashes", "-o"]).arg(&profile);
    command.arg("--").args(program);
    command.current_dir(place.path()).stdin(Stdio::null());
    command.env("XDG_CACHE_HOME", tools::cache()?);
    let output = command.output()?;
    let told = String::from_utf8_lossy(&output.stderr);
    let shown = match profile.exists() {
        true => tools::run(&["info", &profile.to_string_lossy()])?.out,
        false => told.into_owned(),
    };
    let _ = std::fs::remove_file(&profile);
    Ok(CrashRecording { output, shown })
}

/// The lines about the first crash.
fn first_crash(recording: &CrashRecording) -> &str {
    recording.shown.split("\n\n").next().unwrap_or_default()
}

#[test]
fn crashes_of_unmodified_programs_have_their_stack_and_signal() -> anyhow::Result<()> {
    own_process!();
    let place = Workplace::new()?;
    let program = compiled(&place)?;
    let ways = [
        (
            "segv",
            "SIGSEGV: address not mapped, at 0x10",
            "write_nowhere",
        ),
        (
            "bus",
            "SIGBUS: no memory behind the address, at 0x",
            "read_cut_file",
        ),
        ("ill", "SIGILL: illegal instruction, at 0x", "stop_here"),
        (
            "jump",
            "SIGSEGV: address not mapped, at 0x0",
            "jump_nowhere",
        ),
        ("abort", "SIGABRT: aborted", "give_up"),
        ("sent", "SIGSEGV: sent by", "kill"),
        ("overflow", "SIGSEGV: stack overflow, at 0x", "go_deeper"),
        (
            "thread",
            "SIGSEGV: address not mapped, at 0x10",
            "in_thread",
        ),
        (
            "exec",
            "SIGBUS: no memory behind the address, at 0x",
            "read_cut_file",
        ),
        #[cfg(target_arch = "x86_64")]
        ("fpe", "SIGFPE: integer division by zero, at 0x", "divide"),
        ("trap", "SIGTRAP: ", "break_here"),
    ];
    for (way, reason, function) in ways {
        let alone = place.run(&[&program, way])?.status;
        let recording = record(&place, &[&program, way])?;
        let status = recording.output.status;
        let crash = first_crash(&recording);
        assert!(alone.signal().is_some(), "{way}: {alone}");
        assert_eq!(status.signal(), alone.signal(), "{way}: {status}, {crash}");
        assert!(crash.contains(reason), "{way}: {crash}");
        assert!(crash.contains(function), "{way}: {crash}");
    }
    Ok(())
}

#[test]
fn the_crash_of_a_forked_child_is_recorded() -> anyhow::Result<()> {
    own_process!();
    let place = Workplace::new()?;
    let program = compiled(&place)?;
    let recording = record(&place, &[&program, "fork"])?;
    assert_eq!(recording.output.status.code(), Some(libc::SIGSEGV));
    let crash = first_crash(&recording);
    assert!(
        crash.contains("SIGSEGV: address not mapped, at 0x10"),
        "{}",
        recording.shown
    );
    assert!(crash.contains("write_nowhere"), "{crash}");
    Ok(())
}

/// The program compares the actions that it reads back with the default.
#[test]
fn a_program_with_actions_of_its_own_keeps_them() -> anyhow::Result<()> {
    own_process!();
    let place = Workplace::new()?;
    let program = compiled(&place)?;
    let handled = record(&place, &[&program, "handled"])?;
    assert_eq!(handled.output.status.code(), Some(7));
    assert_eq!(String::from_utf8_lossy(&handled.output.stdout), "handled\n");
    assert!(
        !handled.shown.contains("address not mapped"),
        "{}",
        handled.shown
    );
    let reset = record(&place, &[&program, "reset"])?;
    assert_eq!(reset.output.status.signal(), Some(libc::SIGSEGV));
    assert!(
        first_crash(&reset).contains("write_nowhere"),
        "{}",
        reset.shown
    );
    let ignored = record(&place, &[&program, "ignored"])?;
    assert_eq!(ignored.output.status.code(), Some(6));
    Ok(())
}

/// The cases: a filter that kills the process when it calls `rt_tgsigqueueinfo`, installed or
/// inherited; a handler of the program that calls the profiler's; an alternate signal stack that is
/// too small for a handler.
#[test]
fn filters_chains_of_handlers_and_small_stacks_keep_the_signal() -> anyhow::Result<()> {
    own_process!();
    let place = Workplace::new()?;
    let program = compiled(&place)?;
    let ways = [
        ("filter", libc::SIGSEGV),
        ("inherited filter", libc::SIGABRT),
        ("chain", libc::SIGSEGV),
        ("small stack", libc::SIGABRT),
    ];
    for (way, signal) in ways {
        let alone = place.run(&[&program, way])?.status;
        assert_eq!(alone.signal(), Some(signal), "{way}: {alone}");
        let status = record(&place, &[&program, way])?.output.status;
        assert_eq!(status.signal(), alone.signal(), "{way}: {status}");
    }
    Ok(())
}

#[test]
fn a_crash_in_a_library_that_was_loaded_later_has_function_names() -> anyhow::Result<()> {
    own_process!();
    let place = Workplace::new()?;
    let program = compiled(&place)?;
    let source = "volatile int *volatile nowhere = (int *)16; volatile int sink;\n\
        void run_plugin(void) { *nowhere = 1; sink++; }\n";
    let plugin = place.compile("plugin.so", source, &["-shared", "-fPIC"])?;
    let plugin = plugin.to_str().context("a path")?;
    let recording = record(&place, &[&program, "plugin", plugin])?;
    let crash = first_crash(&recording);
    for function in ["run_plugin", "load", "main"] {
        assert!(crash.contains(function), "{function}: {}", recording.shown);
    }
    Ok(())
}

#[test]
fn without_the_option_no_signal_of_a_crash_has_a_handler() -> anyhow::Result<()> {
    own_process!();
    let place = Workplace::new()?;
    let shows = ["sh", "-c", "grep SigCgt /proc/$$/status"];
    let caught = |output: &Output| {
        let text = String::from_utf8_lossy(&output.stdout);
        let digits = text.split_whitespace().next_back().map(str::to_owned);
        u64::from_str_radix(&digits.context("no digits")?, 16).context("no number")
    };
    let crashes: u64 = [4, 5, 6, 7, 8, 11]
        .iter()
        .map(|signal| 1 << (signal - 1))
        .sum();
    let alone = caught(&place.run(&shows)?)?;
    let without = caught(&place.record(&shows)?.output)?;
    assert_eq!(without & crashes, alone & crashes);
    let with = caught(&record(&place, &shows)?.output)?;
    assert_eq!(with & crashes, crashes, "{with:x}");
    Ok(())
}
