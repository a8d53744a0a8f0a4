//! Executable files and debug information: whatever they say, names are looked up in bounded time and memory.
//!
//! The first eight bytes are an address that is asked for, besides some that programs have.

#![no_main]

use libfuzzer_sys::fuzz_target;
use profiler_parent::internal::symbols::resolve_image;

fuzz_target!(|data: &[u8]| {
    let Some((address, image)) = data.split_first_chunk::<8>() else { return };
    let asked = u64::from_le_bytes(*address);
    let addresses = [asked, asked.wrapping_add(1), 0, 0x1000, 0x401000, 0x401010, 0x401020, u64::MAX];
    for place in resolve_image(image.to_vec(), &addresses) {
        assert!(place.frames.len() <= 257);
    }
});
