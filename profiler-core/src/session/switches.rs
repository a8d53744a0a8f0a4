//! Functions that run when recording begins or ends in this process.
//!
//! Called by `session` after it has opened or closed the gate. The functions come from the packages
//! under `integrations/`: some libraries cache whether anything is interested in their events, and
//! must be told to ask again. That may take locks of the host and run its code, so the functions
//! run on a thread of their own, with the descriptor table of the program: a subscriber of the host
//! that is dropped there may close its files.
//!
//! ```text
//! session started by a thread of the program:   start ── starts a thread ─▶ functions ─▶ ends
//! session started by the profiler of a child:   start ── unparks ─▶ kept thread ─▶ functions
//! …, and there is no kept thread yet:           start; the kept thread runs them when it begins
//! ```
//!
//! The profiler's threads in a child have another descriptor table (`sys::descriptor_table`), and a
//! thread has the table of the thread that starts it. So a thread of the program starts the kept
//! thread: the one that calls [`expect_switches_by_profiler`] or [`on_switch`], whichever is later.
//!
//! Invariants: the functions never run on two threads at the same time, and they run at least once
//! after the latest start or stop, so what they leave behind is that of the latest. A start waits
//! for them for a limited time, so that the first events of the host are recorded; a stop does not
//! wait. A panic ends one call of one function. A function that never returns keeps the others
//! from running, and each start then waits for the whole time.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};
use std::thread::Thread;
use std::time::Duration;

use profiler_sys::DescriptorTable;
use profiler_sys::Renewable;

/// Most functions.
const MAX: usize = 8;
/// How often a start looks whether the functions have run.
const LOOKS: u32 = 500;
const THREAD_NAME: &str = "profiler-switch";
/// The time between two looks.
const PAUSE: Duration = Duration::from_millis(1);

static SWITCH_HOOKS: [OnceLock<fn()>; MAX] = [const { OnceLock::new() }; MAX];
static SWITCHES: Renewable<Switches> = Renewable::new(Switches::new());

/// The starts and stops of this process, by their number.
struct Switches {
    /// The latest one.
    latest: AtomicU64,
    /// The latest one after which the functions have run.
    done: AtomicU64,
    /// A thread runs the functions, or is about to look whether it has to run them again.
    is_running: AtomicBool,
    /// Threads with another descriptor table start and stop sessions.
    is_by_profiler: AtomicBool,
    /// The kept thread exists, or is about to.
    is_kept: AtomicBool,
    /// The kept thread.
    kept: OnceLock<Thread>,
}

impl Switches {
    const fn new() -> Self {
        Self {
            latest: AtomicU64::new(0),
            done: AtomicU64::new(0),
            is_running: AtomicBool::new(false),
            is_by_profiler: AtomicBool::new(false),
            is_kept: AtomicBool::new(false),
            kept: OnceLock::new(),
        }
    }

    /// Starts the kept thread, once, if the calling thread has the table of the program.
    fn keep_thread(&'static self) {
        let is_possible = DescriptorTable::current() == DescriptorTable::Program;
        if !is_possible || self.is_kept.swap(true, Ordering::SeqCst) {
            return;
        }
        let body = || {
            let _ = self.kept.set(std::thread::current());
            // A switch sees the thread, or the first look sees the switch: pairs with the fence there.
            fence(Ordering::SeqCst);
            loop {
                // Another thread that runs the functions looks at the latest number at its end.
                if !self.is_running.swap(true, Ordering::SeqCst) {
                    self.run_hooks();
                }
                std::thread::park();
            }
        };
        if profiler_sys::spawn_quiet_for_host_code(THREAD_NAME, body).is_err() {
            self.is_kept.store(false, Ordering::SeqCst);
        }
    }

    /// Lets a thread run the functions.
    ///
    /// # Errors
    /// If there is no thread for it. Then the functions run at the next start or stop, or when the
    /// kept thread begins.
    fn begin_to_run(&'static self) -> io::Result<()> {
        fence(Ordering::SeqCst); // pairs with the one in the kept thread, after the latest number
        if let Some(kept) = self.kept.get() {
            kept.unpark();
        } else if DescriptorTable::current() == DescriptorTable::Profiler {
            // A new thread would have this table. The kept one runs the functions when it begins.
            return Err(io::ErrorKind::WouldBlock.into());
        } else if !self.is_running.swap(true, Ordering::SeqCst) {
            let started = profiler_sys::spawn_quiet_for_host_code(THREAD_NAME, || self.run_hooks());
            if let Err(error) = started {
                self.is_running.store(false, Ordering::SeqCst);
                return Err(error);
            }
        }
        Ok(())
    }

    /// Runs the functions until they have run after the latest start or stop.
    fn run_hooks(&self) {
        loop {
            let latest = self.latest.load(Ordering::SeqCst);
            if self.done.load(Ordering::SeqCst) != latest {
                call_hooks();
                self.done.store(latest, Ordering::SeqCst);
                continue;
            }
            self.is_running.store(false, Ordering::SeqCst);
            // A start or stop in between has seen the flag and has started no thread.
            let is_latest = self.latest.load(Ordering::SeqCst) == latest;
            if is_latest || self.is_running.swap(true, Ordering::SeqCst) {
                return;
            }
        }
    }

    /// Waits until the functions have run after this start.
    fn wait_for(&self, number: u64) {
        for _ in 0..LOOKS {
            if self.done.load(Ordering::SeqCst) >= number {
                return;
            }
            std::thread::sleep(PAUSE);
        }
    }
}

/// Calls `hook` from now on after each start and each end of recording in this process, on a thread
/// of the profiler with the program's descriptors. The same function is called once, however often
/// it is added. Two switches in quick succession may be followed by one call. Returns false if
/// there are too many functions. Called on a thread of the program.
pub fn on_switch(hook: fn()) -> bool {
    let is_added = SWITCH_HOOKS
        .iter()
        .any(|place| std::ptr::fn_addr_eq(*place.get_or_init(|| hook), hook));
    fence(Ordering::SeqCst); // pairs with the one below: one of the two sees the other's store
    if SWITCHES.is_by_profiler.load(Ordering::Relaxed) {
        SWITCHES.keep_thread();
    }
    is_added
}

/// Called on a thread of the program before threads with another descriptor table start or stop
/// sessions of this process.
pub fn expect_switches_by_profiler() {
    SWITCHES.is_by_profiler.store(true, Ordering::Relaxed);
    fence(Ordering::SeqCst); // see `on_switch`
    if has_hooks() {
        SWITCHES.keep_thread();
    }
}

/// Runs the functions after a start, and waits for them.
pub(super) fn after_start() {
    if let Some(number) = run() {
        SWITCHES.wait_for(number);
    }
}

/// Runs the functions after a stop.
pub(super) fn after_stop() {
    run();
}

/// In a forked child that begins anew: no thread runs the functions.
pub(super) fn forget_parent() {
    SWITCHES.renew(Switches::new());
}

fn has_hooks() -> bool {
    SWITCH_HOOKS.iter().any(|place| place.get().is_some())
}

/// Lets a thread run the functions; returns the number of this start or stop.
fn run() -> Option<u64> {
    if !has_hooks() {
        return None;
    }
    let switches: &'static Switches = &SWITCHES;
    let before = switches.latest.fetch_add(1, Ordering::SeqCst);
    switches.begin_to_run().ok()?;
    Some(before.wrapping_add(1))
}

fn call_hooks() {
    for hook in SWITCH_HOOKS.iter().filter_map(OnceLock::get) {
        let _ = catch_unwind(AssertUnwindSafe(hook));
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::super::{SessionParams, StartOptions, alone_in_tests, is_active, start, stop};
    use super::*;

    static STARTS: AtomicUsize = AtomicUsize::new(0);
    static STOPS: AtomicUsize = AtomicUsize::new(0);

    fn count() {
        let counter = if is_active() { &STARTS } else { &STOPS };
        counter.fetch_add(1, Ordering::SeqCst);
    }

    #[test]
    fn a_function_runs_once_after_each_start_and_each_stop() {
        let _alone = alone_in_tests();
        assert!(on_switch(count) && on_switch(count));
        for round in 1..=2 {
            start(SessionParams::default(), StartOptions::default()).unwrap();
            assert!(test_support::patience::until(|| STARTS
                .load(Ordering::SeqCst)
                == round));
            stop();
            assert!(test_support::patience::until(|| STOPS
                .load(Ordering::SeqCst)
                == round));
        }
        wait_until_quiet();
    }

    static RUNNING: AtomicUsize = AtomicUsize::new(0);
    static MAX_RUNNING: AtomicUsize = AtomicUsize::new(0);
    static SLOW_CALLS: AtomicUsize = AtomicUsize::new(0);
    /// Whether a session ran when the latest call ended, plus 1.
    static LAST_SEEN: AtomicUsize = AtomicUsize::new(0);

    /// Looks at the session first, and is slow in every other call.
    fn slow() {
        let running = RUNNING.fetch_add(1, Ordering::SeqCst) + 1;
        MAX_RUNNING.fetch_max(running, Ordering::SeqCst);
        let seen = usize::from(is_active()) + 1;
        if SLOW_CALLS.fetch_add(1, Ordering::SeqCst).is_multiple_of(2) {
            std::thread::sleep(Duration::from_millis(20));
        }
        LAST_SEEN.store(seen, Ordering::SeqCst);
        RUNNING.fetch_sub(1, Ordering::SeqCst);
    }

    fn panics() {
        std::panic::resume_unwind(Box::new("the host's code"));
    }

    #[test]
    fn the_functions_have_the_last_word_about_the_latest_switch() {
        let _alone = alone_in_tests();
        assert!(on_switch(panics) && on_switch(slow));
        for _ in 0..20 {
            start(SessionParams::default(), StartOptions::default()).unwrap();
            stop();
            start(SessionParams::default(), StartOptions::default()).unwrap();
            let is_quiet = || !SWITCHES.is_running.load(Ordering::SeqCst);
            assert!(test_support::patience::until(is_quiet));
            assert_eq!(LAST_SEEN.load(Ordering::SeqCst), 2, "the session runs");
            stop();
        }
        assert_eq!(MAX_RUNNING.load(Ordering::SeqCst), 1);
        wait_until_quiet();
    }

    static TABLE_OF_HOOK: AtomicUsize = AtomicUsize::new(0);

    /// Waits until no function runs, so that a late call does not count for the next test.
    fn wait_until_quiet() {
        let is_quiet = || !SWITCHES.is_running.load(Ordering::SeqCst);
        assert!(test_support::patience::until(is_quiet));
    }

    fn notes_table() {
        let is_program = DescriptorTable::current() == DescriptorTable::Program;
        TABLE_OF_HOOK.store(usize::from(is_program) + 1, Ordering::SeqCst);
    }

    #[cfg(all(target_os = "linux", not(profiler_portable)))]
    #[test]
    fn the_functions_run_with_the_descriptors_of_the_program() {
        let _alone = alone_in_tests();
        assert!(on_switch(notes_table));
        wait_until_quiet();
        TABLE_OF_HOOK.store(0, Ordering::SeqCst);
        let switched = profiler_sys::spawn_quiet("apart", || {
            // An error: the system has no second table.
            let _ = profiler_sys::enter_own_table(&[]);
            start(SessionParams::default(), StartOptions::default()).unwrap();
            stop();
        });
        switched.unwrap().join().unwrap();
        // There was no kept thread, so the functions have waited for it.
        expect_switches_by_profiler();
        let table = || TABLE_OF_HOOK.load(Ordering::SeqCst);
        assert!(test_support::patience::until(|| table() != 0));
        assert_eq!(table(), 2, "that of the program");
    }
}
