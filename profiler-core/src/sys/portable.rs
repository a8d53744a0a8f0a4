//! The portable fallback: file-backed pools, no populating of pages without faults, no seizing of
//! idle chunks.
//!
//! Has the same functions as `linux`. An operation that a system does not support returns an error
//! or `false`, and the callers' accounting stays correct: memory that cannot be returned stays
//! charged.

#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::os::fd::AsFd;

use super::ClockError;
use crate::ids::{BootId, ProcessId, ProcessStart};

/// Makes the memory of a pool: an unlinked sparse file of `len` bytes in the temporary folder.
///
/// # Errors
/// Errors of the file system.
pub(crate) fn create_pool_file(len: u64) -> io::Result<File> {
    let mut random = [0_u8; 16];
    getrandom::fill(&mut random).map_err(|error| io::Error::other(error.to_string()))?;
    let name = format!("profiler-pool-{:032x}", u128::from_le_bytes(random));
    let path = std::env::temp_dir().join(name);
    let file = File::options()
        .read(true)
        .write(true)
        .create_new(true)
        .open(&path)?;
    std::fs::remove_file(&path)?;
    stretch(&file, len)?;
    Ok(file)
}

/// Makes an empty file `len` bytes long, without taking disk where files may have holes.
///
/// # Errors
/// Errors of the file system.
pub(crate) fn stretch(file: &impl AsFd, len: u64) -> io::Result<()> {
    Ok(rustix::fs::ftruncate(file, len)?)
}

/// The default value: the boot is unknown here.
pub fn boot_id() -> BootId {
    BootId::default()
}

/// Always `None`: the error of the clock is unknown here.
pub fn clock_error() -> Option<ClockError> {
    None
}

/// Always true, because it cannot be checked here: the file has no name, so only processes that
/// received its descriptor could shorten it.
pub(crate) fn cannot_shrink(_file: &impl AsFd) -> bool {
    true
}

/// Returning pages is not possible here.
///
/// # Errors
/// Always `Unsupported`.
pub(crate) fn punch_hole(_file: &impl AsFd, _offset: u64, _len: u64) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Does nothing: mappings need no preparation here.
///
/// # Safety
/// None needed; kept equal to the Linux signature.
pub(crate) unsafe fn advise_mapping(_start: *mut u8, _len: usize) -> io::Result<()> {
    Ok(())
}

/// Writes one byte of each page again, so that no thread faults on the page later. Memory that
/// `may_fault` is refused: only a fault would reveal that there is no room.
///
/// # Safety
/// The range lies in a mapping that stays, and no other thread uses it meanwhile.
pub(crate) unsafe fn populate(start: *mut u8, len: usize, may_fault: bool) -> io::Result<()> {
    if may_fault {
        return Err(io::ErrorKind::Unsupported.into());
    }
    for offset in (0..len).step_by(4096) {
        // SAFETY: offset < len, so the address stays inside the caller's range.
        let address = unsafe { start.add(offset) };
        // SAFETY: the caller owns the range exclusively.
        let byte = unsafe { address.read_volatile() };
        // SAFETY: as above; volatile so that the fault happens.
        unsafe { address.write_volatile(byte) };
    }
    Ok(())
}

/// Returning pages is not possible here.
///
/// # Safety
/// None needed; kept equal to the Linux signature.
pub(crate) unsafe fn release(_start: *mut u8, _len: usize) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Always `None`: thread names cannot be read here.
pub(crate) fn current_thread_name() -> Option<String> {
    None
}

/// Always `None`: the process's name cannot be read here.
pub(crate) fn process_name() -> Option<String> {
    None
}

/// Always 0: there are no time namespaces here.
pub(crate) fn time_namespace() -> u64 {
    0
}

/// Not used here, because names are not read from the system.
pub(crate) const THREAD_NAME_BYTES: usize = 15;

/// The number of the process that runs this.
pub(crate) fn running_process() -> u64 {
    u64::from(std::process::id())
}

/// Always false: the number of threads is not known here.
pub(crate) fn has_other_threads() -> bool {
    false
}

/// Unknown here; only the pool's random number distinguishes two processes with the same pid.
pub(crate) fn process_start(_pid: ProcessId) -> ProcessStart {
    ProcessStart::new(0)
}

/// The resident memory cannot be known here.
#[derive(Debug)]
pub(crate) struct ResidentMemory;

impl ResidentMemory {
    pub(crate) fn open() -> Option<Self> {
        None
    }

    /// Never called, since there is no such value.
    pub(crate) fn bytes(&self) -> Option<u64> {
        None
    }
}

/// Always false: there is no such barrier here.
pub(crate) fn barrier_on_all_threads() -> bool {
    false
}

/// Always false: there is no such advice here, and only the fork handler clears the page.
///
/// # Safety
/// None needed; kept equal to the Linux signature.
pub(crate) unsafe fn wipe_on_fork(_page: *mut u8, _len: usize) -> bool {
    false
}

/// Registers functions that run around every `fork` made through the C library: before it, and
/// after it in the parent and in the child.
pub(crate) fn on_fork(
    before: extern "C" fn(),
    parent: extern "C" fn(),
    child: extern "C" fn(),
) -> bool {
    // SAFETY: the handlers are static functions that only store to atomics.
    unsafe { libc::pthread_atfork(Some(before), Some(parent), Some(child)) == 0 }
}
