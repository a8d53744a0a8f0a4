//! Fuzzes the parsers of perf maps and jitdumps, in which runtimes name the code that they generate:
//! any file gives names of limited length, without a panic.
//!
//! The first eight bytes of the input are an address to look up, in addition to the addresses of
//! the seeds. The rest is the file, which both parsers read.

use profiler_generated_code::{names_in_jitdump, names_in_perf_map};

/// The process that the seeds name.
const PID: u32 = 7;
/// Limit on the bytes of a name in a file. A byte that is not valid becomes a sign of three bytes.
const LONGEST: usize = 1024;

/// Checks one input.
pub(crate) fn check_input(data: &[u8]) {
    let Some((address, file)) = data.split_first_chunk::<8>() else {
        return;
    };
    let requested = u64::from_le_bytes(*address);
    let mut addresses = vec![requested, 0, 0x1000, 0x1008, 0x2000, 0x3000, u64::MAX];
    addresses.sort_unstable();
    addresses.dedup();
    for names in [
        names_in_perf_map(file, &addresses),
        names_in_jitdump(file, PID, &addresses),
    ] {
        assert_eq!(names.len(), addresses.len());
        let known = names.iter().flatten();
        known.for_each(|name| assert!(!name.is_empty() && name.len() <= 3 * (LONGEST + 1)));
    }
}
