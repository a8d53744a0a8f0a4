//! The header page: the owner of the pool, its clock, and the location of its parts.
//!
//! The maker (the parent, with `pwrite`, before the child exists) writes it once. The child reads
//! it when it attaches; every reader of the pool reads it too. The process itself writes only its
//! identity (once, by compare-and-swap on the pid word), the pool's life and the session words.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use super::layout::{
    self, Backing, Extent, Layout, Life, MAX_NAME_BYTES, MAX_PARAMS_BYTES, header as at,
};
use crate::codec;
use crate::ids::{BootId, ByteLimit, PoolId, ProcessId, ProcessKey, ProcessStart};
use crate::params::{SampleSource, SessionParams};
use crate::sys;
use crate::time::{Anchor, ClockKind, LineAnchor, MonotonicNs, SessionClock, Timestamp, UnixNs};

/// Why bytes are not a pool that this build can read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HeaderError {
    /// The bytes could not be read.
    #[error("cannot read the pool: {0}")]
    Io(#[from] io::Error),
    /// Not a pool.
    #[error("not a profiler pool (magic number {0:#018x})")]
    NotAPool(u64),
    /// A pool of another version or byte order.
    #[error("pool has ABI word {theirs:#x}, this build reads {ours:#x}")]
    WrongAbi {
        /// ABI word of the pool.
        theirs: u64,
        /// ABI word of this build.
        ours: u64,
    },
    /// The header contradicts itself or the length of the file.
    #[error("pool header is damaged: {0}")]
    Damaged(&'static str),
}

/// The contents of a header, checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// Location of the parts.
    pub layout: Layout,
    /// The pool's random identity.
    pub id: PoolId,
    /// The session's clock.
    pub clock: SessionClock,
    /// When the pool was made, for a process whose clocks have another origin.
    pub made: LineAnchor,
    /// Process that attached; 0 if none did.
    pub pid: ProcessId,
    /// Start time of that process.
    pub start: ProcessStart,
    /// Stage of the pool's life.
    pub life: Life,
    /// Allowance that the maker granted first.
    pub allowance: ByteLimit,
    /// Epoch of the running session, 0 = none.
    pub epoch: u64,
    /// When this process began to record.
    pub recording_start: Timestamp,
    /// Shown name of the process.
    pub name: String,
    /// What holds the bytes.
    pub backing: Backing,
    /// Boot of the machine in which a pool in a file was made; 0 if unknown.
    pub boot: BootId,
    /// Parameters, unless they are too long for a header.
    pub params: Option<SessionParams>,
    /// The source of the samples; `None` if no sampler has run.
    pub sample_source: Option<SampleSource>,
}

impl Header {
    /// Identity of the process that the pool belongs to.
    pub const fn key(&self) -> ProcessKey {
        ProcessKey {
            pid: self.pid,
            start: self.start,
            pool: self.id,
        }
    }

    /// The process that has attached the pool, if one has.
    pub fn owner(&self) -> Option<ProcessId> {
        (self.life != Life::Created).then_some(self.pid)
    }

    /// Whether that process has declared the end of its recording.
    pub fn is_closed(&self) -> bool {
        self.life == Life::Closed
    }

    /// Whether that process runs and has not declared the end of its recording.
    pub fn has_running_owner(&self) -> bool {
        let may_run = self.boot.get() == 0 || self.is_of_this_boot();
        self.life == Life::Attached && may_run && sys::is_alive(&self.key())
    }

    /// Whether the pool is known to have been made since the machine was started.
    pub fn is_of_this_boot(&self) -> bool {
        self.boot.get() != 0 && self.boot == sys::boot_id()
    }

    /// Writes a new header page.
    ///
    /// # Errors
    /// Errors of the write.
    pub fn write_to(&self, file: &File) -> io::Result<()> {
        let mut page = HeaderPage::default();
        page.put_numbers(self);
        page.put_bytes(at::NAME, cut(&self.name, MAX_NAME_BYTES).as_bytes());
        let params = self
            .params
            .as_ref()
            .and_then(|params| codec::encode(params).ok());
        page.put_bytes(
            at::PARAMS,
            &params
                .filter(|bytes| bytes.len() <= MAX_PARAMS_BYTES)
                .unwrap_or_default(),
        );
        file.write_all_at(&page.0, 0)
    }

    /// Checks a header page against the length of its file.
    ///
    /// # Errors
    /// [`HeaderError`] for anything that is not a pool of this build.
    pub fn parse(page: &[u8], file_len: u64) -> Result<Self, HeaderError> {
        let word = |offset: u64| word_at(page, offset);
        let magic = word(at::MAGIC)?;
        if magic != layout::MAGIC {
            return Err(HeaderError::NotAPool(magic));
        }
        let theirs = word(at::ABI)?;
        let ours = abi_word();
        if theirs != ours {
            return Err(HeaderError::WrongAbi { theirs, ours });
        }
        let pid = u32::try_from(word(at::PID)?).map_err(|_| HeaderError::Damaged("pid"))?;
        Ok(Self {
            layout: parse_layout(page, file_len)?,
            id: PoolId::new(u128::from(word(at::ID_LOW)?) | (u128::from(word(at::ID_HIGH)?) << 64)),
            clock: parse_clock(page)?,
            made: parse_made(page)?,
            pid: ProcessId::new(pid),
            start: ProcessStart::new(word(at::PROCESS_START)?),
            life: Life::from_u64(word(at::LIFE)?).ok_or(HeaderError::Damaged("life"))?,
            allowance: ByteLimit::new(word(at::INITIAL_ALLOWANCE)?),
            epoch: word(at::EPOCH)?,
            recording_start: Timestamp::from_raw(word(at::RECORDING_START)?),
            backing: Backing::from_u64(word(at::BACKING)?)
                .ok_or(HeaderError::Damaged("backing"))?,
            boot: BootId::new(
                u128::from(word(at::BOOT_LOW)?) | (u128::from(word(at::BOOT_HIGH)?) << 64),
            ),
            name: String::from_utf8_lossy(counted_bytes(page, at::NAME, MAX_NAME_BYTES)?)
                .into_owned(),
            params: parse_params(page)?,
            sample_source: SampleSource::from_word(word(at::SAMPLE_SOURCE)?),
        })
    }
}

struct HeaderPage([u8; 4096]);

impl Default for HeaderPage {
    fn default() -> Self {
        Self([0; 4096])
    }
}

impl HeaderPage {
    fn put_numbers(&mut self, header: &Header) {
        let clock = &header.clock;
        let id = header.id.get();
        let boot = header.boot.get();
        let words = [
            (at::MAGIC, layout::MAGIC),
            (at::ABI, abi_word()),
            (at::POOL_LEN, header.layout.pool_len),
            (at::PAGE, header.layout.page),
            (at::ID_LOW, low_half(id)),
            (at::ID_HIGH, low_half(id >> 64)),
            (at::CLOCK_KIND, clock.kind as u64),
            (at::START_TICKS, clock.start.ticks.raw()),
            (at::START_MONOTONIC, clock.start.monotonic.0),
            (at::START_UNIX, clock.start_unix.0),
            (at::MADE_NAMESPACE, header.made.namespace),
            (at::MADE_SHIFT, header.made.shift.cast_unsigned()),
            (at::MADE_LINE, header.made.line.0),
            (at::MADE_UNIX, header.made.unix.0),
            (at::PID, u64::from(header.pid.get())),
            (at::PROCESS_START, header.start.get()),
            (at::LIFE, header.life as u64),
            (at::INITIAL_ALLOWANCE, header.allowance.get()),
            (at::BACKING, header.backing as u64),
            (at::BOOT_LOW, low_half(boot)),
            (at::BOOT_HIGH, low_half(boot >> 64)),
        ];
        words
            .into_iter()
            .for_each(|(offset, value)| self.put(offset, value));
        for (extent, offset) in header
            .layout
            .regions()
            .into_iter()
            .zip((at::REGIONS..).step_by(16))
        {
            self.put(offset, extent.offset);
            self.put(offset + 8, extent.len);
        }
    }

    fn put(&mut self, offset: u64, value: u64) {
        self.put_raw(offset, &value.to_ne_bytes());
    }

    fn put_bytes(&mut self, offset: u64, bytes: &[u8]) {
        self.put(offset, bytes.len() as u64);
        self.put_raw(offset + 8, bytes);
    }

    fn put_raw(&mut self, offset: u64, bytes: &[u8]) {
        let start = usize::try_from(offset).unwrap_or(usize::MAX);
        if let Some(room) = self.0.get_mut(start..start.saturating_add(bytes.len())) {
            room.copy_from_slice(bytes);
        }
    }
}

fn low_half(number: u128) -> u64 {
    u64::try_from(number & u128::from(u64::MAX)).unwrap_or(0)
}

fn abi_word() -> u64 {
    u64::from(layout::ABI_VERSION) | (u64::from(layout::ENDIAN_MARK) << 32)
}

fn parse_layout(page: &[u8], file_len: u64) -> Result<Layout, HeaderError> {
    let pool_len = word_at(page, at::POOL_LEN)?;
    if pool_len > file_len {
        return Err(HeaderError::Damaged("the file is shorter than the pool"));
    }
    let mut regions = [Extent::default(); layout::REGIONS];
    for (extent, offset) in regions.iter_mut().zip((at::REGIONS..).step_by(16)) {
        *extent = Extent {
            offset: word_at(page, offset)?,
            len: word_at(page, offset + 8)?,
        };
    }
    Layout::from_parts(word_at(page, at::PAGE)?, pool_len, regions)
        .ok_or(HeaderError::Damaged("regions"))
}

fn parse_clock(page: &[u8]) -> Result<SessionClock, HeaderError> {
    let kind = u8::try_from(word_at(page, at::CLOCK_KIND)?)
        .ok()
        .and_then(ClockKind::from_u8);
    Ok(SessionClock {
        kind: kind.ok_or(HeaderError::Damaged("clock"))?,
        start: Anchor {
            ticks: Timestamp::from_raw(word_at(page, at::START_TICKS)?),
            monotonic: MonotonicNs(word_at(page, at::START_MONOTONIC)?),
        },
        start_unix: UnixNs(word_at(page, at::START_UNIX)?),
    })
}

fn parse_made(page: &[u8]) -> Result<LineAnchor, HeaderError> {
    Ok(LineAnchor {
        namespace: word_at(page, at::MADE_NAMESPACE)?,
        shift: word_at(page, at::MADE_SHIFT)?.cast_signed(),
        line: MonotonicNs(word_at(page, at::MADE_LINE)?),
        unix: UnixNs(word_at(page, at::MADE_UNIX)?),
    })
}

fn parse_params(page: &[u8]) -> Result<Option<SessionParams>, HeaderError> {
    let bytes = counted_bytes(page, at::PARAMS, MAX_PARAMS_BYTES)?;
    if bytes.is_empty() {
        return Ok(None);
    }
    let params: SessionParams =
        codec::decode(bytes).map_err(|_| HeaderError::Damaged("parameters"))?;
    Ok(Some(params.normalized()))
}

fn counted_bytes(page: &[u8], offset: u64, most: usize) -> Result<&[u8], HeaderError> {
    let len = usize::try_from(word_at(page, offset)?).unwrap_or(usize::MAX);
    let start = usize::try_from(offset)
        .unwrap_or(usize::MAX)
        .saturating_add(8);
    if len > most {
        return Err(HeaderError::Damaged("a length in the header"));
    }
    page.get(start..start.saturating_add(len))
        .ok_or(HeaderError::Damaged("short header"))
}

/// The native-endian word at `offset`.
fn word_at(page: &[u8], offset: u64) -> Result<u64, HeaderError> {
    let start = usize::try_from(offset).unwrap_or(usize::MAX);
    let bytes = page
        .get(start..start.saturating_add(8))
        .and_then(|bytes| bytes.try_into().ok());
    bytes
        .map(u64::from_ne_bytes)
        .ok_or(HeaderError::Damaged("short header"))
}

/// Returns `text`, cut at a character boundary to at most `most` bytes.
pub(crate) fn cut(text: &str, most: usize) -> &str {
    let mut end = text.len().min(most);
    while !text.is_char_boundary(end) {
        end = end.saturating_sub(1);
    }
    text.get(..end).unwrap_or("")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header() -> Header {
        Header {
            layout: Layout::for_limit(1 << 20, 4096),
            id: PoolId::new(0x1234_5678_9abc_def0_0fed_cba9_8765_4321),
            clock: SessionClock::start_now(),
            made: LineAnchor::take(),
            pid: ProcessId::new(0),
            start: ProcessStart::new(0),
            life: Life::Created,
            allowance: ByteLimit::new(65_536),
            epoch: 0,
            recording_start: Timestamp::ZERO,
            name: "ä worker".to_owned(),
            backing: Backing::File,
            boot: BootId::new(u128::MAX - 7),
            params: Some(SessionParams::default()),
            sample_source: None,
        }
    }

    #[test]
    fn a_pool_runs_with_its_process_until_it_is_closed_or_the_machine_is_started_again() {
        let created = header();
        assert!(created.owner().is_none() && !created.has_running_owner());
        let attached = Header {
            pid: sys::process_id(),
            start: sys::own_process_start(),
            life: Life::Attached,
            boot: sys::boot_id(),
            ..created
        };
        assert_eq!(attached.owner(), Some(sys::process_id()));
        assert!(attached.has_running_owner() && !attached.is_closed());
        let earlier = Header {
            boot: BootId::new(1),
            ..attached.clone()
        };
        assert!(!earlier.is_of_this_boot() && !earlier.has_running_owner());
        let other = Header {
            start: ProcessStart::new(attached.start.get() + 1),
            ..attached.clone()
        };
        assert!(
            !other.has_running_owner(),
            "another process with its number"
        );
        let closed = Header {
            life: Life::Closed,
            ..attached
        };
        assert!(closed.is_closed() && !closed.has_running_owner());
        assert_eq!(closed.owner(), Some(sys::process_id()));
    }

    fn page_of(header: &Header) -> Vec<u8> {
        let file = tempfile::tempfile().unwrap();
        header.write_to(&file).unwrap();
        let mut page = vec![0; 4096];
        file.read_exact_at(&mut page, 0).unwrap();
        page
    }

    #[test]
    fn a_header_survives_the_page() {
        let header = header();
        assert_eq!(
            Header::parse(&page_of(&header), header.layout.pool_len).unwrap(),
            header
        );
    }

    #[test]
    fn parameters_too_long_for_the_page_are_left_out() {
        let params = SessionParams {
            filters: vec!["x".repeat(250); 100],
            ..SessionParams::default()
        };
        let header = Header {
            params: Some(params),
            ..header()
        };
        assert_eq!(
            Header::parse(&page_of(&header), header.layout.pool_len)
                .unwrap()
                .params,
            None
        );
    }

    #[test]
    fn every_damaged_byte_gives_an_error_or_a_header_but_no_panic() {
        let header = header();
        let page = page_of(&header);
        for index in 0..700 {
            for value in [0_u8, 0x7f, 0xff] {
                let mut damaged = page.clone();
                damaged[index] = value;
                let _ = Header::parse(&damaged, header.layout.pool_len);
            }
        }
        assert!(matches!(
            Header::parse(&[0; 4096], 1 << 30),
            Err(HeaderError::NotAPool(0))
        ));
        assert!(matches!(
            Header::parse(&page, header.layout.pool_len - 1),
            Err(HeaderError::Damaged(_))
        ));
        assert!(Header::parse(&page[..50], header.layout.pool_len).is_err());
    }

    #[test]
    fn names_are_cut_at_a_character() {
        assert_eq!(cut("aä", 2), "a");
        assert_eq!(cut("aä", 3), "aä");
    }
}
