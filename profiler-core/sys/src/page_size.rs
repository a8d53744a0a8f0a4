//! The size of a page of memory.

/// Size of a page of memory in bytes; the unit in which memory is taken and returned.
pub fn page_size() -> u64 {
    let size = u64::try_from(rustix::param::page_size()).unwrap_or(4096);
    size.clamp(4096, 1 << 20)
}
