//! Tells profilers outside of the process that its threads have records: OpenTelemetry's process
//! context (OTEP 4719), a mapping with a known name.
//!
//! Called by the application, once, if no library for OpenTelemetry in it publishes a process
//! context. The mapping has a header and, behind it, a protobuf message:
//!
//! ```text
//! byte 0…7 "OTEL_CTX"   8…11 version 2   12…15 bytes of the message   16…23 time in ns
//! byte 24…31 address of the message
//! message: the resource with the application's attributes; two attributes for thread contexts
//! ```
//!
//! Invariants: a process has at most one such mapping; the signature is written last; a forked
//! child does not inherit it.

#![allow(unsafe_code)]

use std::sync::atomic::{AtomicU32, Ordering, fence};
use std::{fs, io, ptr, slice};

use super::publish_error::PublishError;

const SIGNATURE: [u8; 8] = *b"OTEL_CTX";
/// The name of the mapping.
const NAME: &std::ffi::CStr = c"OTEL_CTX";
const VERSION: u32 = 2;
const HEADER_BYTES: usize = 32;
/// The form of the records of threads, as OTEP 4947 calls it.
const SCHEMA: &str = "tlsdesc_v1_dev";
/// The largest message.
const MOST_BYTES: usize = 1 << 16;

/// The process of which a thread publishes the context at this moment; 0 for none. A process that
/// has published it is known by its mapping, which a forked child does not have.
static PUBLISHING: AtomicU32 = AtomicU32::new(0);

/// Publishes a process context with these attributes of the process, such as `service.name`. It
/// stays until the process ends.
///
/// # Errors
/// [`PublishError`]
pub fn publish_process_context(attributes: &[(&str, &str)]) -> Result<(), PublishError> {
    let message = message_of(attributes);
    if message.len() > MOST_BYTES {
        return Err(PublishError::TooLarge);
    }
    let own = std::process::id();
    if PUBLISHING.swap(own, Ordering::AcqRel) == own {
        return Err(PublishError::AlreadyPublished);
    }
    let published = publish_once(&message);
    PUBLISHING.store(0, Ordering::Release);
    published
}

fn publish_once(message: &[u8]) -> Result<(), PublishError> {
    if is_published().map_err(PublishError::System)? {
        return Err(PublishError::AlreadyPublished);
    }
    publish(message).map_err(PublishError::System)
}

/// Whether the process has such a mapping.
fn is_published() -> io::Result<bool> {
    let maps = fs::read("/proc/self/maps")?;
    let maps = String::from_utf8_lossy(&maps); // paths are bytes
    let name = |line: &str| line.split_ascii_whitespace().nth(5).map(str::to_owned);
    let is_one = |name: String| {
        name.starts_with("/memfd:OTEL_CTX")
            || name.starts_with("[anon_shmem:OTEL_CTX")
            || name.starts_with("[anon:OTEL_CTX")
    };
    Ok(maps.lines().filter_map(name).any(is_one))
}

fn publish(message: &[u8]) -> io::Result<()> {
    let length = HEADER_BYTES + message.len();
    let (place, has_file) = map(length)?;
    // SAFETY: the mapping has just been made, has this length, and no other reference to it exists.
    let bytes = unsafe { slice::from_raw_parts_mut(place, length) };
    let (header, rest) = bytes.split_at_mut(HEADER_BYTES);
    rest.copy_from_slice(message);
    let size = u32::try_from(message.len()).unwrap_or(0);
    let address = rest.as_ptr().addr() as u64;
    let fields = [
        &VERSION.to_ne_bytes()[..],
        &size.to_ne_bytes(),
        &now_ns().to_ne_bytes(),
        &address.to_ne_bytes(),
    ];
    let (signature, others) = header.split_at_mut(SIGNATURE.len());
    others.copy_from_slice(&fields.concat());
    fence(Ordering::SeqCst);
    signature.copy_from_slice(&SIGNATURE);
    if name(place, length) || has_file {
        return Ok(());
    }
    let error = io::Error::last_os_error();
    // SAFETY: readers do not find it, and this function no longer uses it.
    unsafe { libc::munmap(place.cast(), length) };
    Err(error)
}

/// Nanoseconds since the system was started; never zero, which means that the context changes.
fn now_ns() -> u64 {
    let mut now = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the place is valid for writes.
    unsafe { libc::clock_gettime(libc::CLOCK_BOOTTIME, &raw mut now) };
    let seconds = u64::try_from(now.tv_sec).unwrap_or(0);
    let ns = seconds.saturating_mul(1_000_000_000);
    ns.saturating_add(u64::try_from(now.tv_nsec).unwrap_or(0))
        .max(1)
}

/// Maps memory that a forked child does not inherit. Also returns whether it is that of a file with
/// the name: the system may have no anonymous files.
fn map(length: usize) -> io::Result<(*mut u8, bool)> {
    // SAFETY: the name is a text that ends with a zero.
    let file = unsafe { libc::memfd_create(NAME.as_ptr(), libc::MFD_CLOEXEC) };
    // SAFETY: the descriptor has just been made.
    let is_sized = file >= 0 && unsafe { libc::ftruncate(file, length as libc::off_t) } == 0;
    let (flags, of) = match is_sized {
        true => (libc::MAP_PRIVATE, file),
        false => (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1),
    };
    let rights = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: a new mapping at an address that the system chooses.
    let place = unsafe { libc::mmap(ptr::null_mut(), length, rights, flags, of, 0) };
    let mapped = match place {
        libc::MAP_FAILED => Err(io::Error::last_os_error()),
        place => Ok(place),
    };
    if file >= 0 {
        // SAFETY: only this function knows the descriptor.
        unsafe { libc::close(file) };
    }
    let place = mapped?;
    // SAFETY: the mapping has just been made.
    match unsafe { libc::madvise(place, length, libc::MADV_DONTFORK) } {
        0 => Ok((place.cast(), is_sized)),
        _ => {
            let error = io::Error::last_os_error();
            // SAFETY: no reference to the mapping exists.
            unsafe { libc::munmap(place, length) };
            Err(error)
        }
    }
}

/// Names the mapping; false if the system has no names of mappings. Readers find it by its file,
/// too.
fn name(place: *mut u8, length: usize) -> bool {
    let arguments = [
        libc::PR_SET_VMA_ANON_NAME as libc::c_ulong,
        place.addr() as libc::c_ulong,
        length as libc::c_ulong,
        NAME.as_ptr().addr() as libc::c_ulong,
    ];
    let [what, place, length, name] = arguments;
    // SAFETY: the call only changes the name of the mapping.
    unsafe { libc::prctl(libc::PR_SET_VMA, what, place, length, name) == 0 }
}

/// The message `ProcessContext`.
fn message_of(attributes: &[(&str, &str)]) -> Vec<u8> {
    let mut resource = Vec::new();
    for (key, value) in attributes {
        put(1, &attribute(key, &text(value)), &mut resource);
    }
    let mut message = Vec::new();
    put(1, &resource, &mut message);
    let schema = attribute("threadlocal.schema_version", &text(SCHEMA));
    put(2, &schema, &mut message);
    // An empty list (field 5 of a value): the records have no attributes.
    let mut no_keys = Vec::new();
    put(5, &[], &mut no_keys);
    let keys = attribute("threadlocal.attribute_key_map", &no_keys);
    put(2, &keys, &mut message);
    message
}

/// A value that is a text.
fn text(text: &str) -> Vec<u8> {
    let mut value = Vec::new();
    put(1, text.as_bytes(), &mut value);
    value
}

/// The message `KeyValue`.
fn attribute(key: &str, value: &[u8]) -> Vec<u8> {
    let mut attribute = Vec::new();
    put(1, key.as_bytes(), &mut attribute);
    put(2, value, &mut attribute);
    attribute
}

/// Adds a field of bytes to a message.
fn put(field: u8, bytes: &[u8], to: &mut Vec<u8>) {
    to.push(field << 3 | 2);
    let mut length = bytes.len();
    while length >= 0x80 {
        to.push((length & 0x7f) as u8 | 0x80);
        length >>= 7;
    }
    to.push((length & 0x7f) as u8);
    to.extend_from_slice(bytes);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads the mapping as a profiler outside of the process does.
    fn read() -> Vec<u8> {
        let maps = fs::read_to_string("/proc/self/maps").unwrap();
        let line = maps.lines().find(|line| line.contains("OTEL_CTX")).unwrap();
        let start = line.split('-').next().unwrap();
        let start = u64::from_str_radix(start, 16).unwrap();
        let memory = fs::File::open("/proc/self/mem").unwrap();
        let at = |from: u64, length: usize| {
            let mut bytes = vec![0; length];
            std::os::unix::fs::FileExt::read_exact_at(&memory, &mut bytes, from).unwrap();
            bytes
        };
        let header = at(start, HEADER_BYTES);
        assert_eq!(header[..8], SIGNATURE);
        let number = |from: usize| u32::from_ne_bytes(header[from..from + 4].try_into().unwrap());
        assert_eq!(number(8), VERSION);
        let wide = |from: usize| u64::from_ne_bytes(header[from..from + 8].try_into().unwrap());
        assert_ne!(wide(16), 0);
        at(wide(24), number(12) as usize)
    }

    fn unmap() {
        let maps = fs::read_to_string("/proc/self/maps").unwrap();
        let line = maps.lines().find(|line| line.contains("OTEL_CTX")).unwrap();
        let (start, end) = line.split_once(' ').unwrap().0.split_once('-').unwrap();
        let [start, end] = [start, end].map(|at| usize::from_str_radix(at, 16).unwrap());
        let place = ptr::without_provenance_mut(start);
        // SAFETY: no reference to the mapping exists.
        assert_eq!(unsafe { libc::munmap(place, end - start) }, 0);
    }

    #[test]
    fn a_reader_finds_the_context_which_is_published_once() {
        publish_process_context(&[("service.name", "shop")]).unwrap();
        let message = read();
        assert_eq!(message, message_of(&[("service.name", "shop")]));
        let text = String::from_utf8_lossy(&message);
        for part in ["service.name", "shop", "threadlocal.schema_version", SCHEMA] {
            assert!(text.contains(part), "{text}");
        }
        let again = publish_process_context(&[]);
        assert!(
            matches!(again, Err(PublishError::AlreadyPublished)),
            "{again:?}"
        );
        // As in a forked child of a new process namespace: the same number, and no mapping.
        unmap();
        publish_process_context(&[("service.name", "child")]).unwrap();
        assert_eq!(read(), message_of(&[("service.name", "child")]));
    }

    #[test]
    fn long_fields_have_lengths_of_several_bytes() {
        let mut message = Vec::new();
        put(1, &[7; 300], &mut message);
        assert_eq!(message[..3], [0x0a, 0xac, 0x02]);
        assert_eq!(message.len(), 303);
    }
}
