//! The ways in which the processes of the tests crash.

use std::hint::black_box;
use std::ptr::null_mut;
use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};

use libc::c_int;
use profiler_core::label;
use profiler_core::marker;
use profiler_core::marker::category;
use profiler_core::marker::schema::MarkerSchema;
use profiler_core::marker::{MarkerOptions, ProfilerMarker};
use serde::{Serialize, Serializer};

use crate::allocator;

/// A way to crash.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Way {
    pub(crate) name: &'static str,
    /// The signals that the record may name.
    pub(crate) signals: &'static [&'static str],
    /// Texts that the verdict contains.
    pub(crate) told: &'static str,
    /// A function on the stack; empty if the stack is not that of the crash.
    pub(crate) function: &'static str,
    pub(crate) crash: fn(),
}

const fn way(
    name: &'static str,
    signals: &'static [&'static str],
    told: &'static str,
    function: &'static str,
    crash: fn(),
) -> Way {
    Way {
        name,
        signals,
        told,
        function,
        crash,
    }
}

const SEGV: &[&str] = &["SIGSEGV"];

/// All ways.
pub(crate) const WAYS: &[Way] = &[
    way(
        "read",
        SEGV,
        "address not mapped, at 0x10",
        "read_address",
        || fall(0x10),
    ),
    way(
        "write",
        SEGV,
        "access not permitted, at 0x",
        "write_to_code",
        write_to_code,
    ),
    way(
        "bus",
        &["SIGBUS"],
        "no memory behind the address, at 0x",
        "read_truncated_file",
        read_truncated_file,
    ),
    way(
        "illegal",
        &["SIGILL"],
        "illegal instruction, at 0x",
        "execute_illegal",
        execute_illegal,
    ),
    way("divide", &["SIGFPE"], "", "divide_by_zero", divide_by_zero),
    way(
        "abort",
        &["SIGABRT"],
        "SIGABRT: aborted",
        "call_abort",
        call_abort,
    ),
    way(
        "trap",
        &["SIGTRAP"],
        "breakpoint",
        "execute_breakpoint",
        execute_breakpoint,
    ),
    way("overflow", SEGV, "stack overflow, at 0x", "recurse", || {
        let _ = black_box(recurse(1));
    }),
    way(
        "overflow of a thread",
        SEGV,
        "stack overflow, at 0x",
        "recurse",
        overflow_in_thread,
    ),
    way(
        "sent",
        &["SIGILL"],
        "sent by the process itself",
        "send_to_itself",
        send_to_itself,
    ),
    way(
        "jump",
        SEGV,
        "address not mapped, at 0x1234",
        "jump_nowhere",
        jump_nowhere,
    ),
    way("smashed stack", SEGV, "", "", smash_stack),
    way("lost stack", SEGV, "", "lose_stack", lose_stack),
    way(
        "allocator",
        SEGV,
        "address not mapped, at 0x10",
        "alloc",
        allocator::crash,
    ),
    way(
        "recorder",
        SEGV,
        "address not mapped, at 0x20",
        "read_address",
        crash_in_recorder,
    ),
    way(
        "handler",
        SEGV,
        "address not mapped, at 0x30",
        "on_signal",
        crash_in_handler,
    ),
    way("two threads", &["SIGSEGV", "SIGILL"], "", "", crash_twice),
];

/// Crashes in the way of this name.
pub(crate) fn crash(name: &str) {
    let way = WAYS.iter().find(|way| way.name == name).expect("a way");
    (way.crash)();
}

#[inline(never)]
fn read_address(address: usize) -> u64 {
    // SAFETY: none: it crashes, as it should.
    black_box(unsafe { black_box(address as *const u64).read_volatile() }) + 1
}

/// Reads from an address without memory.
pub(crate) fn fall(address: usize) {
    black_box(read_address(address) + 1);
}

#[inline(never)]
fn write_to_code() {
    let code = write_to_code as *const () as *mut u8;
    // SAFETY: none: it crashes, as it should.
    unsafe { black_box(code).write_volatile(0) };
}

#[inline(never)]
fn read_truncated_file() {
    let name = c"crash";
    // SAFETY: makes a file without a name.
    let file = unsafe { libc::memfd_create(name.as_ptr(), 0) };
    // SAFETY: maps the file, which has no bytes.
    let memory =
        unsafe { libc::mmap(null_mut(), 4096, libc::PROT_READ, libc::MAP_SHARED, file, 0) };
    assert_ne!(memory, libc::MAP_FAILED);
    // SAFETY: none: it crashes, as it should.
    black_box(unsafe { memory.cast::<u64>().read_volatile() });
}

#[inline(never)]
fn execute_illegal() {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: none: it crashes, as it should.
    unsafe {
        std::arch::asm!("ud2")
    };
    #[cfg(target_arch = "aarch64")]
    // SAFETY: none: it crashes, as it should.
    unsafe {
        std::arch::asm!("udf #0")
    };
}

#[inline(never)]
fn divide_by_zero() {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: none: it crashes, as it should.
    unsafe {
        std::arch::asm!("div {0}", in(reg) black_box(0_u64), inout("rax") 1_u64 => _, inout("rdx") 0_u64 => _)
    };
    // Division by zero is no error of this processor.
    #[cfg(target_arch = "aarch64")]
    raise(libc::SIGFPE);
}

#[inline(never)]
fn call_abort() {
    std::process::abort();
}

#[inline(never)]
fn execute_breakpoint() {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: none: it crashes, as it should.
    unsafe {
        std::arch::asm!("int3")
    };
    #[cfg(target_arch = "aarch64")]
    // SAFETY: none: it crashes, as it should.
    unsafe {
        std::arch::asm!("brk #0")
    };
}

#[inline(never)]
#[allow(unconditional_recursion)]
fn recurse(depth: u64) -> u64 {
    let room = black_box([depth; 64]);
    recurse(depth + 1) + room[0]
}

fn overflow_in_thread() {
    let thread = std::thread::Builder::new().name("deep".to_owned());
    let _ = thread.spawn(|| recurse(black_box(1))).unwrap().join();
}

/// Raises a signal for which the standard library has no handler.
#[inline(never)]
fn send_to_itself() {
    assert_eq!(raise(libc::SIGILL), 0);
}

pub(crate) fn raise(signal: c_int) -> c_int {
    // SAFETY: sends a signal to this thread.
    unsafe { libc::raise(signal) }
}

#[inline(never)]
fn jump_nowhere() {
    // SAFETY: none: it crashes, as it should.
    let nowhere =
        unsafe { std::mem::transmute::<usize, extern "C" fn() -> u64>(black_box(0x1234)) };
    black_box(nowhere() + 1);
}

/// Overwrites the stack from here out, and returns to an address that is not mapped. The loop is in
/// assembly, because a loop of a build without optimization is on the stack itself.
#[inline(never)]
fn smash_stack() {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: none: it destroys the stack, as it should.
    unsafe {
        std::arch::asm!(
            "mov rdi, rsp", "mov ecx, 512", "mov eax, 0x4242", "rep stosq",
            out("rdi") _, out("rcx") _, out("rax") _,
        )
    };
    #[cfg(target_arch = "aarch64")]
    // SAFETY: none: it destroys the stack, as it should.
    unsafe {
        std::arch::asm!(
            "mov x0, sp", "mov x1, #512", "mov x2, #0x4242",
            "2: str x2, [x0], #8", "subs x1, x1, #1", "b.ne 2b",
            out("x0") _, out("x1") _, out("x2") _,
        )
    };
}

/// Loses the stack pointer.
#[inline(never)]
fn lose_stack() {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: none: it crashes, as it should.
    unsafe {
        std::arch::asm!("mov rsp, 8", "push rax", options(noreturn))
    };
    #[cfg(target_arch = "aarch64")]
    // SAFETY: none: it crashes, as it should.
    unsafe {
        std::arch::asm!(
            "mov x0, #16",
            "mov sp, x0",
            "ldr x0, [sp]",
            options(noreturn)
        )
    };
}

/// A payload whose serialisation crashes, in the middle of an entry.
struct Falls;

impl Serialize for Falls {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        static CALLS: AtomicU64 = AtomicU64::new(0);
        // The first call asks for the keys.
        if CALLS.fetch_add(1, Ordering::Relaxed) > 0 {
            fall(0x20);
        }
        profiler_core::marker::Text { name: "" }.serialize(serializer)
    }
}

impl ProfilerMarker for Falls {
    const TYPE_NAME: &'static str = "Falls";

    fn schema() -> MarkerSchema {
        MarkerSchema::in_chart_and_table(Self::TYPE_NAME)
    }
}

fn crash_in_recorder() {
    marker!("falls", &category::TEST, MarkerOptions::default(), &Falls);
}

extern "C" fn on_signal(_: c_int) {
    fall(0x30);
}

fn crash_in_handler() {
    // SAFETY: the handler crashes, as it should.
    unsafe { libc::signal(libc::SIGUSR1, on_signal as extern "C" fn(c_int) as usize) };
    raise(libc::SIGUSR1);
}

/// Handlers that wait until both threads of [`crash_twice`] have crashed.
pub(crate) fn wait_for_both() {
    extern "C" fn wait(signal: c_int) {
        static ARRIVED: AtomicU64 = AtomicU64::new(0);
        ARRIVED.fetch_add(1, Ordering::AcqRel);
        while ARRIVED.load(Ordering::Acquire) < 2 {
            std::hint::spin_loop();
        }
        // SAFETY: the instruction crashes again, with the default action.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
    }
    for signal in [libc::SIGSEGV, libc::SIGILL] {
        // SAFETY: the handler calls only functions that a handler may call.
        unsafe { libc::signal(signal, wait as *const () as usize) };
    }
}

/// Two threads crash at the same time, in different ways.
fn crash_twice() {
    let barrier = Barrier::new(2);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let _label = label!("waits");
            barrier.wait();
            fall(0x40);
        });
        barrier.wait();
        execute_illegal();
    });
}
