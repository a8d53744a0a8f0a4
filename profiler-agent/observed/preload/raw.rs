//! System calls without the C library, which may have been replaced, and which keeps `errno`.
//!
//! Invariant: a call touches no memory but that which its arguments name, and no thread-local.

pub(crate) mod valgrind;

use core::arch::asm;

/// The number of a system call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Call(pub(crate) i64);

#[cfg(target_arch = "x86_64")]
macro_rules! numbers {
    ($($name:ident = $x86:literal, $arm:literal;)*) => {
        impl Call { $(pub(crate) const $name: Self = Self($x86);)* }
    };
}

#[cfg(target_arch = "aarch64")]
macro_rules! numbers {
    ($($name:ident = $x86:literal, $arm:literal;)*) => {
        impl Call { $(pub(crate) const $name: Self = Self($arm);)* }
    };
}

numbers! {
    READLINKAT = 267, 78;
    NEWFSTATAT = 262, 79;
    OPENAT = 257, 56;
    READ = 0, 63;
    CLOSE = 3, 57;
    FTRUNCATE = 77, 46;
    FALLOCATE = 285, 47;
    UNLINKAT = 263, 35;
    MMAP = 9, 222;
    MUNMAP = 11, 215;
    MADVISE = 28, 233;
    CLOCK_GETTIME = 228, 113;
    GETPID = 39, 172;
    GETPPID = 110, 173;
    GETTID = 186, 178;
    PRLIMIT64 = 302, 261;
    RT_SIGACTION = 13, 134;
    RT_SIGPROCMASK = 14, 135;
    RT_SIGRETURN = 15, 139;
    SIGALTSTACK = 131, 132;
    TIMER_CREATE = 222, 107;
    TIMER_SETTIME = 223, 110;
    TIMER_DELETE = 226, 111;
    SECCOMP = 317, 277;
    PRCTL = 157, 167;
    EXECVE = 59, 221;
    EXECVEAT = 322, 281;
    EXIT_GROUP = 231, 94;
    TGKILL = 234, 131;
    RT_TGSIGQUEUEINFO = 297, 240;
    NANOSLEEP = 35, 101;
    // Does not exist on aarch64.
    ARCH_PRCTL = 158, -1;
}

/// Calls the system. A result from -4095 to -1 is a negative error number.
///
/// # Safety
/// As for the system call with these arguments.
#[cfg(target_arch = "x86_64")]
pub(crate) unsafe fn call(number: Call, arguments: [usize; 6]) -> isize {
    let [a, b, c, d, e, f] = arguments;
    let result: isize;
    // SAFETY: the caller's promise; the kernel changes only the registers that are named.
    unsafe {
        asm!("syscall", inlateout("rax") number.0 as isize => result, in("rdi") a, in("rsi") b,
            in("rdx") c, in("r10") d, in("r8") e, in("r9") f, out("rcx") _, out("r11") _,
            options(nostack));
    }
    result
}

/// Calls the system. A result from -4095 to -1 is a negative error number.
///
/// # Safety
/// As for the system call with these arguments.
#[cfg(target_arch = "aarch64")]
pub(crate) unsafe fn call(number: Call, arguments: [usize; 6]) -> isize {
    let [a, b, c, d, e, f] = arguments;
    let result: isize;
    // SAFETY: the caller's promise; the kernel changes only the registers that are named.
    unsafe {
        asm!("svc 0", inlateout("x0") a as isize => result, in("x1") b, in("x2") c, in("x3") d,
            in("x4") e, in("x5") f, in("x8") number.0, options(nostack));
    }
    result
}

/// Calls the system with up to three arguments.
///
/// # Safety
/// As for the system call with these arguments.
pub(crate) unsafe fn call3(number: Call, a: usize, b: usize, c: usize) -> isize {
    // SAFETY: the caller's promise.
    unsafe { call(number, [a, b, c, 0, 0, 0]) }
}

/// Whether the word at an address may be read: asks the system to change the signal mask to that
/// word by an invalid operation. The system reads the word first.
pub(crate) fn is_readable(address: u64) -> bool {
    const EINVAL: isize = 22;
    let arguments = [usize::MAX, address as usize, 0, 8, 0, 0];
    // SAFETY: the kernel checks the address, changes no mask, and writes nothing.
    let failed = unsafe { call(Call::RT_SIGPROCMASK, arguments) };
    failed == -EINVAL
}

/// Allocates the missing pages of a mapping. False if the system refuses it.
pub(crate) fn populate_pages(place: usize, bytes: usize) -> bool {
    const MADV_POPULATE_WRITE: usize = 23;
    // SAFETY: changes no contents of memory.
    unsafe { call3(Call::MADVISE, place, bytes, MADV_POPULATE_WRITE) == 0 }
}

/// A clock of the system.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock(pub(crate) usize);

impl Clock {
    pub(crate) const MONOTONIC: Self = Self(1);
    /// The processor time of the process.
    pub(crate) const PROCESS: Self = Self(2);
    /// The processor time of the calling thread.
    pub(crate) const THREAD: Self = Self(3);

    /// The time of the clock in nanoseconds.
    pub(crate) fn now_ns(self) -> u64 {
        let mut time = [0_u64; 2];
        // SAFETY: the kernel writes two words into a local array of that size.
        unsafe { call3(Call::CLOCK_GETTIME, self.0, (&raw mut time).addr(), 0) };
        let [seconds, nanoseconds] = time;
        seconds
            .wrapping_mul(1_000_000_000)
            .wrapping_add(nanoseconds)
    }
}

/// A limit of the process; the highest number if it has none.
pub(crate) fn limit_of_process(resource: usize) -> u64 {
    let [soft, _] = limits_of_process(resource);
    soft
}

/// The soft and the hard limit of the process on this resource.
pub(crate) fn limits_of_process(resource: usize) -> [u64; 2] {
    let mut limit = [u64::MAX; 2];
    // SAFETY: the kernel writes two words into a local array of that size.
    unsafe {
        call(
            Call::PRLIMIT64,
            [0, resource, 0, (&raw mut limit).addr(), 0, 0],
        );
    }
    limit
}

/// The number of the process, as it sees itself.
pub(crate) fn process_id() -> u32 {
    // SAFETY: takes no argument and cannot fail.
    unsafe { call3(Call::GETPID, 0, 0, 0) as u32 }
}

/// The number of the calling thread, as its process sees it.
pub(crate) fn thread_id() -> i32 {
    // SAFETY: takes no argument and cannot fail.
    unsafe { call3(Call::GETTID, 0, 0, 0) as i32 }
}

/// The processor's own clock.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(crate) fn processor_ticks() -> u64 {
    // SAFETY: reads a counter that every process may read.
    unsafe { core::arch::x86_64::_rdtsc() }
}

/// The processor's own clock.
#[cfg(target_arch = "aarch64")]
#[inline(always)]
pub(crate) fn processor_ticks() -> u64 {
    let ticks: u64;
    // SAFETY: reads a counter that every process may read.
    unsafe { asm!("mrs {}, cntvct_el0", out(reg) ticks, options(nomem, nostack, preserves_flags)) };
    ticks
}
