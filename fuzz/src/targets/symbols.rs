//! Fuzzes the lookup of names in executable files and debug information: any content is processed
//! in bounded time and memory.
//!
//! The first eight bytes of the input are an address to look up, in addition to some typical
//! addresses of programs.

use profiler_symbols::resolve_image;

/// Checks one input.
pub(crate) fn check_input(data: &[u8]) {
    let Some((address, image)) = data.split_first_chunk::<8>() else {
        return;
    };
    let requested = u64::from_le_bytes(*address);
    let addresses = [
        requested,
        requested.wrapping_add(1),
        0,
        0x1000,
        0x401000,
        0x401010,
        0x401020,
        u64::MAX,
    ];
    for place in resolve_image(image.to_vec(), &addresses) {
        assert!(place.frames.len() <= 257);
    }
}
