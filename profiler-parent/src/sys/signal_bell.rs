//! A signal to this process that wakes a thread of the profiler.
//!
//! Used by sessions that write their profile on a signal, and by captures on a signal. Invariants:
//! an action that the program has chosen for the signal is never changed, and neither is a mask;
//! the handler stores to an atomic, wakes a thread and returns, on the thread's alternate stack if
//! it has one; it stays installed, because the default action of the signal ends the process; in a
//! forked child, which has inherited the handler, the signal has its default action. A program that
//! is executed does not inherit the handler.

#![allow(unsafe_code)]

use std::io;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use libc::c_int;
use profiler_sys::{keeping_errno, wait_on_word, wake_word};

/// How often each signal has arrived, by its number.
static RINGS: [AtomicU32; 128] = [const { AtomicU32::new(0) }; 128];
/// The process that has installed the handler. A forked child has the number of its parent.
static OWNER: AtomicU32 = AtomicU32::new(0);

/// Why the profiler cannot use a signal.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SignalTaken {
    /// The program has a handler for it.
    #[error("the program handles it itself")]
    Handled,
    /// The program, or the one that has started it, ignores it.
    #[error("it is ignored")]
    Ignored,
    /// The calling thread blocks it: the program may wait for it in another way than by a handler.
    #[error("the calling thread blocks it")]
    Blocked,
    /// The system refuses a handler.
    #[error("the system refuses a handler: {0}")]
    System(#[from] io::Error),
}

/// A signal that wakes a thread.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SignalBell {
    rings: &'static AtomicU32,
}

impl SignalBell {
    /// Whether the profiler can use the signal now. Changes nothing.
    ///
    /// # Errors
    /// [`SignalTaken`].
    pub(crate) fn check(signal: c_int) -> Result<(), SignalTaken> {
        if is_blocked_here(signal) {
            return Err(SignalTaken::Blocked);
        }
        taken_by(&change(signal, None)?)
    }

    /// Installs the handler, unless it is installed.
    ///
    /// # Errors
    /// [`SignalTaken`]; the action of the signal is as before then.
    pub(crate) fn install(signal: c_int) -> Result<Self, SignalTaken> {
        let place = usize::try_from(signal).ok();
        let rings = place.and_then(|place| RINGS.get(place));
        let invalid = || io::Error::from(io::ErrorKind::InvalidInput);
        let rings = rings.ok_or_else(invalid)?;
        Self::check(signal)?;
        OWNER.store(std::process::id(), Ordering::Release);
        let before = change(signal, Some(&ours()))?;
        if let Err(taken) = taken_by(&before) {
            change(signal, Some(&before))?; // a thread of the program has just taken it
            return Err(taken);
        }
        Ok(Self { rings })
    }

    /// How often the signal has arrived, for [`Self::wait`].
    pub(crate) fn rings(self) -> u32 {
        self.rings.load(Ordering::Acquire)
    }

    /// Sleeps until the signal has arrived more often than `seen`, or the time has passed. May
    /// return earlier.
    pub(crate) fn wait(self, seen: u32, at_most: Duration) {
        wait_on_word(self.rings, seen, at_most);
    }

    /// Does the same as the signal.
    pub(crate) fn ring(self) {
        ring(self.rings);
    }
}

fn ring(rings: &AtomicU32) {
    rings.fetch_add(1, Ordering::Release);
    wake_word(rings);
}

extern "C" fn on_signal(signal: c_int) {
    keeping_errno(|| {
        if OWNER.load(Ordering::Acquire) != std::process::id() {
            return default_action(signal);
        }
        let place = usize::try_from(signal).ok();
        if let Some(rings) = place.and_then(|place| RINGS.get(place)) {
            ring(rings);
        }
    });
}

/// Ends this process as the signal does without a handler, when the handler returns.
fn default_action(signal: c_int) {
    // SAFETY: the default action refers to no function.
    unsafe { libc::signal(signal, libc::SIG_DFL) };
    // SAFETY: sends the calling thread a signal.
    unsafe { libc::raise(signal) };
}

/// The address of our handler.
fn handler() -> libc::sighandler_t {
    on_signal as extern "C" fn(c_int) as *const () as libc::sighandler_t
}

/// The action of our handler: no other signals are blocked, and system calls are restarted.
fn ours() -> libc::sigaction {
    // SAFETY: all zeros are an action without flags.
    let mut action: libc::sigaction = unsafe { MaybeUninit::zeroed().assume_init() };
    // SAFETY: initialises the set, which is ours.
    unsafe { libc::sigemptyset(&raw mut action.sa_mask) };
    action.sa_sigaction = handler();
    action.sa_flags = libc::SA_RESTART | libc::SA_ONSTACK;
    action
}

/// Why the signal cannot be used if this is its action.
fn taken_by(action: &libc::sigaction) -> Result<(), SignalTaken> {
    match action.sa_sigaction {
        libc::SIG_DFL => Ok(()),
        libc::SIG_IGN => Err(SignalTaken::Ignored),
        handled if handled == handler() => Ok(()),
        _ => Err(SignalTaken::Handled),
    }
}

/// Gives the signal an action, or leaves it as it is. Returns the action that it had.
fn change(signal: c_int, new: Option<&libc::sigaction>) -> io::Result<libc::sigaction> {
    let mut before = MaybeUninit::<libc::sigaction>::zeroed();
    let new = new.map_or(std::ptr::null(), std::ptr::from_ref);
    // SAFETY: `new` is null or an action; `before` is memory of its type. Our handler is a static
    // function of one argument, as its flags say.
    match unsafe { libc::sigaction(signal, new, before.as_mut_ptr()) } {
        // SAFETY: written by the call; zeroed before it.
        0 => Ok(unsafe { before.assume_init() }),
        _ => Err(io::Error::last_os_error()),
    }
}

fn is_blocked_here(signal: c_int) -> bool {
    let mut set = MaybeUninit::<libc::sigset_t>::zeroed();
    // SAFETY: without a new mask the call only writes the present one, into memory of its type.
    let failed =
        unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, std::ptr::null(), set.as_mut_ptr()) };
    // SAFETY: written by the call; zeroed before it.
    failed != 0 || unsafe { libc::sigismember(set.as_ptr(), signal) } == 1
}
