//! Timers on the processor time of one thread.
//!
//! A timer sends the sampler's signal to its thread while that thread runs: at the first of the
//! system's ticks at which the thread has used the interval. So the signal never ends a wait. A
//! thread that does not run costs nothing.
//!
//! The C library's functions are not used: they would start a thread of their own, or need the
//! thread's handle. `timer_create(2)` with `SIGEV_THREAD_ID` accepts any thread of the process and,
//! as its clock, that thread's processor time (`clock_getcpuclockid(3)` has the encoding).
//!
//! Timers end with the process and at `exec`. A forked child has none. A timer of a thread that has
//! ended never fires, and stays until it is deleted.

use std::io;
use std::time::Duration;

use super::signal::SIGNAL;
use crate::ids::ThreadId;

/// The system's number for a timer of this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TimerId(libc::c_int);

impl TimerId {
    /// The timer as a number, for an atomic; never 0.
    pub(crate) fn to_word(self) -> u64 {
        u64::from(self.0.cast_unsigned()) + 1
    }

    /// The timer of a word from [`TimerId::to_word`]; `None` for 0.
    pub(crate) fn from_word(word: u64) -> Option<Self> {
        let number = u32::try_from(word.checked_sub(1)?).ok()?;
        Some(Self(number.cast_signed()))
    }
}

/// `struct sigevent` in the kernel's layout on 64-bit machines.
type Event = [u64; 8];

/// Makes a stopped timer whose signals carry `word`.
///
/// # Errors
/// `EAGAIN` if the user has as many timers and queued signals as `RLIMIT_SIGPENDING` allows;
/// `EINVAL` if the thread has ended.
pub(crate) fn create(thread: ThreadId, word: u64) -> io::Result<TimerId> {
    let tid = libc::clockid_t::try_from(thread.get()).map_err(|_| io::ErrorKind::InvalidInput)?;
    let clock = (!tid << 3) | 4 | 2; // per thread, scheduler's clock
    let mut event: Event = [0; 8];
    let [value, how, target, ..] = &mut event;
    *value = word;
    *how = u64::from(SIGNAL.cast_unsigned())
        | (u64::from(libc::SIGEV_THREAD_ID.cast_unsigned()) << 32);
    *target = thread.get();
    let mut id: libc::c_int = 0;
    // SAFETY: the kernel reads 64 bytes of `event` and writes one number to `id`.
    let failed =
        unsafe { libc::syscall(libc::SYS_timer_create, clock, event.as_ptr(), &raw mut id) };
    if failed == 0 {
        Ok(TimerId(id))
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Starts a timer, or sets it anew: it fires once the thread has used `first` more of processor
/// time, then after each `interval`. A `first` of 0 stops it.
///
/// # Errors
/// `EINVAL` if there is no such timer, `ESRCH` if the thread has ended.
pub(crate) fn start(timer: TimerId, first: Duration, interval: Duration) -> io::Result<()> {
    let spec = libc::itimerspec {
        it_interval: timespec(interval),
        it_value: timespec(first),
    };
    let nowhere = std::ptr::null_mut::<libc::itimerspec>();
    // SAFETY: the kernel reads `spec` and writes nothing.
    let failed = unsafe {
        libc::syscall(
            libc::SYS_timer_settime,
            timer.0,
            0,
            &raw const spec,
            nowhere,
        )
    };
    if failed == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// The interval of a timer that shall fire after each `interval`: one of one tick becomes half a
/// tick. A timer fires at the first tick after its expiry, and half of the expiries would come just
/// after a tick.
pub(crate) fn finer_than_tick(interval: Duration) -> Duration {
    let tick = tick();
    if interval <= tick { tick / 2 } else { interval }
}

/// Whether the thread of a timer lives: the system reports the remaining time of such a timer only.
pub(crate) fn is_of_living_thread(timer: TimerId) -> bool {
    let mut spec = libc::itimerspec {
        it_interval: timespec(Duration::ZERO),
        it_value: timespec(Duration::ZERO),
    };
    // SAFETY: the kernel writes `spec`.
    let failed = unsafe { libc::syscall(libc::SYS_timer_gettime, timer.0, &raw mut spec) };
    failed == 0 && (spec.it_value.tv_sec, spec.it_value.tv_nsec) != (0, 0)
}

/// Whether a signal that arrives during a fork makes the system begin the fork anew, as Linux did
/// before 4.19. A long fork would then never end beside a timer.
pub(crate) fn restarts_forks() -> bool {
    release() < (4, 19)
}

/// The first two numbers of the system's version.
pub(crate) fn release() -> (u32, u32) {
    let mut name = std::mem::MaybeUninit::<libc::utsname>::zeroed();
    // SAFETY: writes into memory of its type.
    unsafe { libc::uname(name.as_mut_ptr()) };
    // SAFETY: zeros are valid, and the call has written it.
    let name = unsafe { name.assume_init() };
    let text: String = name
        .release
        .iter()
        .map(|byte| char::from(byte.to_ne_bytes()[0])) // `c_char` has a sign on some processors only
        .take_while(|byte| *byte != '\0')
        .collect();
    parse_release(&text)
}

fn parse_release(text: &str) -> (u32, u32) {
    let mut numbers = text
        .split(|letter: char| !letter.is_ascii_digit())
        .map_while(|number| number.parse::<u32>().ok());
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0))
}

/// Deletes a timer. Does nothing if there is no such timer.
pub(crate) fn delete(timer: TimerId) {
    // SAFETY: takes a number; the kernel checks it.
    unsafe { libc::syscall(libc::SYS_timer_delete, timer.0) };
}

fn timespec(time: Duration) -> libc::timespec {
    libc::timespec {
        tv_sec: i64::try_from(time.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: time.subsec_nanos().into(),
    }
}

/// The time between two ticks of the system, the finest resolution of these timers.
pub(crate) fn tick() -> Duration {
    let mut resolution = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: writes into a timespec that lives through the call.
    unsafe { libc::clock_getres(libc::CLOCK_MONOTONIC_COARSE, &raw mut resolution) };
    let nanos = u64::try_from(resolution.tv_nsec).unwrap_or(0);
    Duration::from_nanos(nanos).clamp(Duration::from_millis(1), Duration::from_millis(10))
}

/// The number of timers that leave half of the user's queued signals (`RLIMIT_SIGPENDING`) to the
/// program: the system counts a timer as a queued signal, and refuses the program's own signals and
/// timers once the limit is reached.
pub(crate) fn most_timers() -> u64 {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: writes into a variable that lives through the call.
    let failed = unsafe { libc::getrlimit(libc::RLIMIT_SIGPENDING, &raw mut limit) };
    if failed == 0 { limit.rlim_cur / 2 } else { 0 }
}

/// Whether the calling thread may make timers without the risk that a filter of system calls, which
/// the program has installed since the session began, ends the process. `at_start` is the result of
/// [`filter_mode`] at that time.
///
/// A thread without privileges must give up the right to gain some (`no_new_privs`) before it
/// installs a filter. So a thread with a filter that still has this right has the filter that the
/// process started with, as in most containers.
pub(crate) fn may_create(at_start: FilterMode) -> bool {
    let now = filter_mode();
    match now {
        FilterMode::None => true,
        FilterMode::Inherited => at_start == FilterMode::Inherited,
        FilterMode::Other => false,
    }
}

/// Whether the calling thread's system calls are filtered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FilterMode {
    /// They are not.
    None,
    /// By a filter that the process inherited.
    Inherited,
    /// By a filter of unknown origin.
    Other,
}

/// Asks the system for the calling thread's [`FilterMode`].
pub(crate) fn filter_mode() -> FilterMode {
    // SAFETY: reads a number about the calling thread.
    let filtered = unsafe { libc::prctl(libc::PR_GET_SECCOMP, 0, 0, 0, 0) };
    if filtered == 0 {
        return FilterMode::None;
    }
    // SAFETY: reads a number about the calling thread.
    let has_given_up = unsafe { libc::prctl(libc::PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) };
    if filtered == 2 && has_given_up == 0 {
        FilterMode::Inherited
    } else {
        FilterMode::Other
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys;

    #[test]
    fn a_timer_is_made_set_and_deleted() {
        let timer = create(sys::current_thread_id(), 7).unwrap();
        assert_eq!(TimerId::from_word(timer.to_word()), Some(timer));
        let hour = Duration::from_secs(3600);
        start(timer, hour, hour).unwrap();
        start(timer, Duration::ZERO, hour).unwrap();
        delete(timer);
        let error = start(timer, hour, hour).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EINVAL));
    }

    #[test]
    fn the_timer_of_an_ended_thread_is_recognised() {
        let hour = Duration::from_secs(3600);
        let make = move || {
            let timer = create(sys::current_thread_id(), 7).unwrap();
            start(timer, hour, hour).unwrap();
            assert!(is_of_living_thread(timer));
            timer
        };
        let timer = std::thread::scope(|scope| scope.spawn(make).join().unwrap());
        // The system may take a moment to end the thread.
        while is_of_living_thread(timer) {
            std::thread::yield_now();
        }
        delete(timer);
    }

    #[test]
    fn the_version_of_the_system_is_parsed() {
        assert_eq!(parse_release("4.18.0-553.el8.x86_64"), (4, 18));
        assert_eq!(parse_release("6.18.5-generic"), (6, 18));
        assert!(parse_release("unknown") < parse_release("3.10.0"));
        assert!(!restarts_forks());
    }

    #[test]
    fn a_thread_that_does_not_exist_has_no_timer() {
        assert!(create(ThreadId::new(0x3f_fffe), 7).is_err());
        assert_eq!(TimerId::from_word(0), None);
    }

    #[test]
    fn the_tick_is_that_of_a_system() {
        assert!((1..=10).contains(&tick().as_millis()), "{:?}", tick());
    }
}
