//! Tests of `profiler record` with runtimes of programs: a C library that the handler interrupts
//! while it enlarges its tables of thread-locals, and a runtime that replaces handlers and has
//! stacks of its own.

use std::fs;

use integration_tests::foreign::Workplace;
use integration_tests::installed::found_or_skip;
use integration_tests::own_process;
use integration_tests::profile::Profile;

use crate::agent_record::{does_the_same, has_used, text};

/// The number of libraries that [`LOADS`] loads. At the first access of a thread to the
/// thread-local of a library, the C library enlarges the thread's table of thread-locals with
/// `realloc`.
const LIBRARIES: usize = 300;

/// A library with a thread-local.
const THREAD_LOCAL: &str = "static __thread long value[4];\nlong *at(void);\nlong *at(void) { value[0]++; return value; }\n";

/// Loads libraries that have thread-locals, while a second thread accesses those that are loaded
/// and frees the memory that the first one allocates. Its arguments are the directory of the
/// libraries and their number.
const LOADS: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#define ROOM 4096
static void *_Atomic memory[ROOM];
static long *(*_Atomic access_last)(void);
static atomic_ulong given, freed;
static atomic_int is_over;
static void *run(void *unused) {
    while (!is_over || freed < given) {
        long *(*access)(void) = access_last;
        if (access) access();
        if (freed == given) continue;
        free(memory[freed % ROOM]);
        freed++;
    }
    return unused;
}
int main(int count, char **words) {
    pthread_t thread;
    unsigned random = 7;
    if (count < 3 || pthread_create(&thread, NULL, run, NULL)) return 2;
    for (int number = 0; number < atoi(words[2]); number++) {
        char path[4096];
        for (int i = 0; i < 1500; i++) {
            random = random * 1664525u + 1013904223u;
            while (given - freed >= ROOM) continue;
            memory[given % ROOM] = malloc(1100 + (random >> 16) % 3000);
            given++;
        }
        snprintf(path, sizeof path, "%s/%d.so", words[1], number);
        void *library = dlopen(path, RTLD_NOW);
        if (!library) return 3;
        long *(*access)(void);
        *(void **)&access = dlsym(library, "at");
        access();
        access_last = access;
    }
    is_over = 1;
    pthread_join(thread, NULL);
    puts("loaded");
    return 0;
}
"#;

/// Uses 300 ms of processor time in functions of Go, or in functions of C that Go calls, on as many
/// threads as the runtime starts.
const GOES: &str = r#"
package main

// static unsigned long inC(unsigned long n) {
//     volatile unsigned long sum = 0;
//     for (unsigned long i = 0; i < n; i++) sum += i * i;
//     return sum;
// }
import "C"
import (
	"fmt"
	"os"
	"syscall"
)

//go:noinline
func inGo(n int) (sum int) {
	for i := 0; i < n; i++ {
		sum += i * i
	}
	return
}

func hasTime() bool {
	var used syscall.Rusage
	syscall.Getrusage(0, &used)
	return used.Utime.Nano()+used.Stime.Nano() < 300_000_000
}

func main() {
	done := make(chan bool)
	for i := 0; i < 2; i++ {
		go func() {
			for hasTime() {
				if os.Args[1] == "go" {
					inGo(1_000_000)
				} else {
					C.inC(1_000_000)
				}
			}
			done <- true
		}()
	}
	<-done
	<-done
	fmt.Println("done")
}
"#;

#[test]
fn the_tables_of_thread_locals_may_grow_at_any_moment() -> anyhow::Result<()> {
    own_process!();
    let place = Workplace::new()?;
    let source = place.path().join("local.c");
    fs::write(&source, THREAD_LOCAL)?;
    let library = place.compile_file("cc", "local.so", &source, &["-shared", "-fPIC"])?;
    let libraries = place.path().join("libraries");
    fs::create_dir(&libraries)?;
    for number in 0..LIBRARIES {
        fs::copy(&library, libraries.join(format!("{number}.so")))?;
    }
    let program = place.compile("loads", LOADS, &["-pthread", "-ldl"])?;
    let count = LIBRARIES.to_string();
    for _ in 0..2 {
        let recorded = does_the_same(&place, &[text(&program), text(&libraries), &count])?;
        assert_eq!(recorded.output.status.code(), Some(0));
        let profile = recorded.profile()?;
        assert!(has_used(&profile, "loads", 1), "{}", recorded.said());
    }
    Ok(())
}

/// The number of samples with more than 1 ms of processor time that have a frame of this program,
/// and the number of all samples with more than 1 ms.
fn with_frames(profile: &Profile, program: &str) -> (usize, usize) {
    let frame = format!("{program}+");
    let threads = profile.processes.iter();
    let threads = threads.flat_map(|process| &process.threads);
    threads.fold((0, 0), |(inside, all), thread| {
        let busy = thread.samples.all.iter();
        let busy = busy.filter(|sample| sample.cpu_ns.is_some_and(|used| used > 1_000_000));
        let stacks: Vec<_> = busy.map(|sample| thread.samples.stack(sample)).collect();
        let is_inside = |stack: &&Vec<&str>| stack.iter().any(|name| name.starts_with(&frame));
        let here = stacks.iter().filter(is_inside).count();
        (inside + here, all + stacks.len())
    })
}

#[test]
fn a_program_in_go_has_stacks_in_go_and_in_c() -> anyhow::Result<()> {
    own_process!();
    if !found_or_skip("go")? {
        return Ok(());
    }
    let place = Workplace::new()?;
    fs::write(place.path().join("goes.go"), GOES)?;
    let built = place.run(&["go", "build", "goes.go"])?;
    assert!(built.status.success(), "{built:?}");
    let program = place.path().join("goes");
    for language in ["go", "c"] {
        let recorded = does_the_same(&place, &[text(&program), language])?;
        assert_eq!(recorded.output.status.code(), Some(0), "{language}");
        let profile = recorded.profile()?;
        // Go ends with a raw system call, so the time of its threads after their last samples is
        // unknown.
        let used = has_used(&profile, "goes", 150_000_000);
        assert!(used, "{language}: {}", recorded.said());
        let (inside, all) = with_frames(&profile, "goes");
        assert!(inside * 10 >= all * 8, "{language}: {inside} of {all}");
    }
    Ok(())
}
