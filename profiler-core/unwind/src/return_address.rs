//! Decides whether an address can be a return address: the instruction before it is a call.
//!
//! Used by `walk` for every address that it takes from a stack, and by `without_tables` to tell a
//! frame from other data. A return address of the kernel's is the exception: a signal handler
//! returns to the instructions that end it.
//!
//! Invariants: any bytes are accepted; nothing is allocated per stack.

use std::cell::Cell;

/// The bytes before a return address that are decoded: the longest call has 7.
pub(crate) const BEFORE: usize = 8;
/// The bytes after it.
pub(crate) const AFTER: usize = 9;
/// The binary logarithm of the number of addresses that are kept.
const KEPT_BITS: u32 = 10;

/// What is known of an address on a stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// The instruction before it is a call.
    BehindCall,
    /// A signal handler returns to it.
    SignalReturn,
    /// It is no return address.
    Elsewhere,
    /// The code there cannot be read now.
    Unknown,
}

/// The instruction before a return address, if it is a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Call {
    /// Calls this address.
    To(u64),
    /// Calls the function whose address is at this address. Only x86-64 has such an instruction.
    #[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))]
    Through(u64),
    /// Calls a function whose address is in a register, or in memory to which a register points.
    Unknown,
}

/// The call whose last bytes are `before` and that returns to `address`, on x86-64. `is_code` tells
/// whether there can be a function at an address.
#[cfg(target_arch = "x86_64")]
pub(crate) fn call(
    before: [u8; BEFORE],
    address: u64,
    is_code: impl Fn(u64) -> bool,
) -> Option<Call> {
    if let [_, _, _, 0xe8, distance @ ..] = before {
        let target = relative(address, distance);
        // Otherwise this byte is part of another instruction.
        if is_code(target) {
            return Some(Call::To(target));
        }
    }
    match before {
        [_, _, 0xff, 0x15, distance @ ..] => Some(Call::Through(relative(address, distance))),
        // The second byte names the form: a register, or an address in one to three registers with
        // no distance, one byte, or four bytes.
        [.., 0xff, 0xd0..=0xd7]
        | [.., 0xff, 0x10..=0x13 | 0x16 | 0x17]
        | [.., 0xff, 0x14, _]
        | [.., 0xff, 0x50..=0x53 | 0x55..=0x57, _]
        | [.., 0xff, 0x54, _, _]
        | [_, _, 0xff, 0x90..=0x93 | 0x95..=0x97, ..]
        | [_, 0xff, 0x94, ..]
        | [_, 0xff, 0x14, ..] => Some(Call::Unknown),
        _ => None,
    }
}

/// The address at a distance from the next instruction, as x86-64 encodes it.
pub(crate) fn relative(next: u64, distance: [u8; 4]) -> u64 {
    next.wrapping_add_signed(i64::from(i32::from_le_bytes(distance)))
}

/// The call whose last bytes are `before` and that returns to `address`, on aarch64: `bl`, `blr`, or
/// `blr` with a signed address.
#[cfg(target_arch = "aarch64")]
pub(crate) fn call(
    before: [u8; BEFORE],
    address: u64,
    is_code: impl Fn(u64) -> bool,
) -> Option<Call> {
    let [_, _, _, _, instruction @ ..] = before;
    let instruction = u32::from_le_bytes(instruction);
    if instruction >> 26 == 0b10_0101 {
        let words = (instruction << 6).cast_signed() >> 6;
        let place = address.wrapping_sub(4);
        let target = place.wrapping_add_signed(i64::from(words) * 4);
        return is_code(target).then_some(Call::To(target));
    }
    let is_register = instruction & 0xffff_fc1f == 0xd63f_0000;
    let is_signed = instruction & 0xfeff_f800 == 0xd63f_0800;
    (is_register || is_signed).then_some(Call::Unknown)
}

/// Whether the code that follows ends a signal handler: the system call `rt_sigreturn`.
fn is_signal_return(code: &[u8]) -> bool {
    #[cfg(target_arch = "x86_64")] // mov rax, 15; syscall
    let starts: [&[u8]; 2] = [
        &[0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05],
        &[0xb8, 0x0f, 0, 0, 0, 0x0f, 0x05],
    ];
    #[cfg(target_arch = "aarch64")] // mov x8, 139; svc 0
    let starts: [&[u8]; 2] = [
        &[0x68, 0x11, 0x80, 0xd2, 0x01, 0, 0, 0xd4],
        &[0x68, 0x11, 0x80, 0x52, 0x01, 0, 0, 0xd4],
    ];
    starts.iter().any(|start| code.starts_with(start))
}

/// What the code around an address says of it. `read` fills its room from an address on, and
/// returns the number of bytes; it finds none if the code cannot be read.
pub(crate) fn standing(
    address: u64,
    read: impl Fn(u64, &mut [u8]) -> usize,
    is_code: impl Fn(u64) -> bool,
) -> Option<Standing> {
    let mut room = [0; BEFORE + AFTER];
    let first = address.checked_sub(BEFORE as u64)?;
    let mut len = read(first, &mut room);
    let page = address & !0xfff;
    if len == 0 && page > first && page < address {
        // The page before may not be mapped.
        let missing = usize::try_from(page - first).ok()?;
        room = [0; BEFORE + AFTER];
        len = match read(page, room.get_mut(missing..)?) {
            0 => 0,
            len => missing + len,
        };
    }
    let before = *room.get(..len)?.first_chunk::<BEFORE>()?;
    Some(if call(before, address, is_code).is_some() {
        Standing::BehindCall
    } else if is_signal_return(room.get(BEFORE..len).unwrap_or_default()) {
        Standing::SignalReturn
    } else {
        Standing::Elsewhere
    })
}

/// What was found out about an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Facts {
    pub(crate) standing: Standing,
    /// Whether the unwinding tables describe the function that is called from there.
    pub(crate) is_covered: bool,
}

const NOTHING: Facts = Facts {
    standing: Standing::Unknown,
    is_covered: false,
};

/// The number of a snapshot of the modules, an address, and what was found out about it.
type Kept = Cell<(u32, u64, Facts)>;

/// What was found out about the addresses that were met last.
#[derive(Debug)]
pub(crate) struct KeptFacts(Box<[Kept]>);

impl KeptFacts {
    pub(crate) fn new() -> Self {
        Self(vec![Cell::new((0, 0, NOTHING)); 1 << KEPT_BITS].into())
    }

    /// What was found out about an address. `find` finds it out, and says whether it is to be kept.
    pub(crate) fn get(
        &self,
        modules: u32,
        address: u64,
        find: impl FnOnce() -> (Facts, bool),
    ) -> Facts {
        let mixed = (address ^ u64::from(modules) << 48).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let place = usize::try_from(mixed >> (u64::BITS - KEPT_BITS)).ok();
        let place = place.and_then(|place| self.0.get(place));
        let kept = place.map(Cell::get);
        if let Some((number, known, facts)) = kept
            && (number, known) == (modules, address)
        {
            return facts;
        }
        let (facts, is_kept) = find();
        if let Some(place) = place.filter(|_| is_kept) {
            place.set((modules, address, facts));
        }
        facts
    }
}
