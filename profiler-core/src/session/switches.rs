//! Functions that run when recording begins or ends in this process.
//!
//! Called by `session` after it has opened or closed the gate. The functions come from the packages
//! under `integrations/`: some libraries cache whether anything is interested in their events, and
//! must be told to ask again. That may take locks of the host, so the functions run on a thread of
//! their own, which ends after them. Invariants: a start waits for them for a limited time, so that
//! the first events of the host are recorded; a stop does not wait. A thread that never returns
//! from a function costs only itself.

use std::sync::OnceLock;
use std::sync::mpsc::sync_channel;
use std::time::Duration;

use crate::sys;

/// Most functions.
const MOST: usize = 8;
/// How long a start waits for the functions.
const PATIENCE: Duration = Duration::from_millis(500);

static SWITCH_HOOKS: [OnceLock<fn()>; MOST] = [const { OnceLock::new() }; MOST];

/// Calls `hook` from now on after each start and each end of recording in this process, on a thread
/// of the profiler. The same function is called once, however often it is added. Returns false if
/// there are too many functions.
pub fn on_switch(hook: fn()) -> bool {
    SWITCH_HOOKS
        .iter()
        .any(|place| std::ptr::fn_addr_eq(*place.get_or_init(|| hook), hook))
}

/// Runs the functions after a start.
pub(super) fn after_start() {
    run(PATIENCE);
}

/// Runs the functions after a stop.
pub(super) fn after_stop() {
    run(Duration::ZERO);
}

fn run(patience: Duration) {
    if SWITCH_HOOKS.iter().all(|place| place.get().is_none()) {
        return;
    }
    let (done, is_done) = sync_channel(1);
    let body = move || {
        for hook in SWITCH_HOOKS.iter().filter_map(OnceLock::get) {
            hook();
        }
        let _ = done.send(());
    };
    // Without a thread, the libraries ask again at the next start or stop.
    if sys::spawn_quiet("profiler-switch", body).is_ok() && !patience.is_zero() {
        let _ = is_done.recv_timeout(patience);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::PoisonError;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::super::{ALONE_IN_TESTS, SessionParams, StartOptions, is_active, start, stop};
    use super::*;

    static STARTS: AtomicUsize = AtomicUsize::new(0);
    static STOPS: AtomicUsize = AtomicUsize::new(0);

    fn count() {
        let counter = if is_active() { &STARTS } else { &STOPS };
        counter.fetch_add(1, Ordering::SeqCst);
    }

    #[test]
    fn a_function_runs_once_after_each_start_and_each_stop() {
        let _alone = ALONE_IN_TESTS
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
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
    }
}
