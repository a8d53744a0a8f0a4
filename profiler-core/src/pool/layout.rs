//! The layout of a pool: the only description of the shared bytes.
//!
//! Used by the writer (`pool::mapping`), by the parent when it makes a pool, and by the reader,
//! which does not trust the bytes. All numbers are native-endian `u64` words unless stated
//! otherwise; the header names the endianness.
//!
//! ```text
//! offset 0        HEADER            1 page   magic, ABI, identity, clock, regions, parameters
//! PAGE            PAUSES            1 page   paused ranges, a ring of 255
//! 2 PAGE          COUNTERS          1,024 cells of 64 B
//! …               DEFINITIONS       append-only records (names, categories, schemas, counters)
//! …               THREADS           65,536 rows of 256 B
//! …               DIRECTORY         one 128 B slot per chunk that may exist
//! …               GROUPS            4,096 cells of 1 KiB
//! …               PANICS            1 page   the latest panics of the process
//! …               CHUNKS            the rest: blocks of PAGE << class, class 0..=8
//! ```
//!
//! The file is sparse: a table costs memory only for the pages in use, and each page is taken from
//! the allowance before it is touched.
//!
//! Life cycles and orderings are drawn in the modules that implement them: entries and chunks in
//! `pool::slot`, definitions in `pool::definitions`, rows in `pool::live`.

/// First word of a pool: "MPROFPOL" read as little-endian bytes.
pub(crate) const MAGIC: u64 = u64::from_le_bytes(*b"MPROFPOL");
/// Version of everything in this file. A reader refuses any other.
pub(crate) const ABI_VERSION: u32 = 4;
/// Byte-order mark: a reader of the other byte order sees another number.
pub(crate) const ENDIAN_MARK: u32 = 0x0102_0304;

/// Number of chunk size classes: class `c` is `page << c` bytes.
pub(crate) const SIZE_CLASSES: u8 = 9;
/// Bytes of a counter cell.
pub const COUNTER_BYTES: u64 = 64;
/// Maximum number of counters of a process.
pub(crate) const MAX_COUNTERS: u64 = 1024;
/// Bytes of a group's cell.
pub(crate) const GROUP_BYTES: u64 = 1024;
/// Maximum number of groups of a process.
pub(crate) const MAX_GROUPS: u64 = 4096;
/// Bytes of a thread row.
pub const THREAD_BYTES: u64 = 256;
/// Maximum number of threads of a process whose rows are alive at the same time.
pub(crate) const MAX_THREADS: u64 = 65_536;
/// Bytes of a directory slot.
pub const SLOT_BYTES: u64 = 128;
/// Largest size of the definitions region.
pub(crate) const MAX_DEFINITIONS_BYTES: u64 = 64 << 20;

/// Offsets of words in the header page.
pub mod header {
    /// [`super::MAGIC`].
    pub const MAGIC: u64 = 0;
    /// ABI version in the low half, [`super::ENDIAN_MARK`] in the high half.
    pub const ABI: u64 = 8;
    /// Length of the pool in bytes.
    pub const POOL_LEN: u64 = 16;
    /// Page size, which is also the smallest chunk.
    pub const PAGE: u64 = 24;
    /// Random identity, low half.
    pub const ID_LOW: u64 = 32;
    /// Random identity, high half.
    pub const ID_HIGH: u64 = 40;
    /// Clock kind.
    pub const CLOCK_KIND: u64 = 48;
    /// Session start on the session's clock.
    pub const START_TICKS: u64 = 56;
    /// Session start on the monotonic clock, ns.
    pub const START_MONOTONIC: u64 = 64;
    /// Session start in wall time, ns.
    pub const START_UNIX: u64 = 72;
    /// Process number; 0 until the process attaches. Written once, by compare-and-swap.
    pub const PID: u64 = 80;
    /// Start time of the process.
    pub const PROCESS_START: u64 = 88;
    /// Life of the pool, see [`super::Life`].
    pub const LIFE: u64 = 96;
    /// Allowance in bytes that the maker grants first.
    pub const INITIAL_ALLOWANCE: u64 = 104;
    /// Epoch of the running session (0 = none), raised at each start.
    pub const EPOCH: u64 = 112;
    /// Flags of the running session, see `session::state`.
    pub const FLAGS: u64 = 120;
    /// When recording started in this process.
    pub const RECORDING_START: u64 = 128;
    /// Whether the pool is sealed memory (0) or a private file (1), see [`super::Backing`].
    pub const BACKING: u64 = 136;
    /// Boot of the machine that made a pool in a file, low half; 0 if unknown.
    pub const BOOT_LOW: u64 = 144;
    /// Boot of the machine, high half.
    pub const BOOT_HIGH: u64 = 152;
    /// The group probes in effect, see `groups::Probes`. Written by the process.
    pub const PROBES: u64 = 160;
    /// Number of groups that found no room at their first use. Written by the process.
    pub const GROUPS_LEFT_OUT: u64 = 168;
    /// Time namespace of the maker; 0 if unknown. This field and the next three are a
    /// [`crate::time::LineAnchor`], taken when the pool was made.
    pub const MADE_NAMESPACE: u64 = 176;
    /// The maker's offset to its system clock, signed.
    pub const MADE_SHIFT: u64 = 184;
    /// When the pool was made, on the session's line.
    pub const MADE_LINE: u64 = 192;
    /// The same instant in wall time, ns; 0 if the maker took no anchor.
    pub const MADE_UNIX: u64 = 200;
    /// The source of the samples, see `params::SampleSource`; 0 if no sampler has run. Written by
    /// the process.
    pub const SAMPLE_SOURCE: u64 = 208;
    /// Eight pairs of (offset, length), in the order of [`super::Region`].
    pub const REGIONS: u64 = 256;
    /// Length of the process name in bytes, then the name, up to [`super::MAX_NAME_BYTES`].
    pub const NAME: u64 = 384;
    /// Length of the encoded parameters, then the parameters, up to [`super::MAX_PARAMS_BYTES`].
    pub const PARAMS: u64 = 640;
    /// Number of header bytes in use; the smallest page holds them all.
    pub const LEN: u64 = 4096;
}

/// Longest process name in the header, in bytes of UTF-8; a longer one is cut.
pub(crate) const MAX_NAME_BYTES: usize = 240;
/// Longest thread name in its row, in bytes of UTF-8; a longer one is cut.
pub(crate) const MAX_THREAD_NAME_BYTES: usize = 112;
/// Longest encoded parameters in the header. Longer ones arrive with the `Start` message only.
pub(crate) const MAX_PARAMS_BYTES: usize = 3448;
/// Bytes of the table of the latest panics; the smallest page holds it.
pub(crate) const PANIC_TABLE_BYTES: u64 = 4096;
/// Number of panics that are kept: the latest of the main thread, and the latest of others.
pub(crate) const MAX_PANICS: usize = 8;
/// Words of the texts of a panic: file, thread name and message.
pub const PANIC_TEXT_WORDS: usize = 55;
/// Longest file name of a panic, in bytes of UTF-8; of a longer one the end is kept.
pub(crate) const MAX_PANIC_FILE_BYTES: usize = 120;
/// Longest thread name of a panic, in bytes of UTF-8; a longer one is cut.
pub(crate) const MAX_PANIC_THREAD_BYTES: usize = 64;
/// Longest message of a panic, in bytes of UTF-8; a longer one is cut.
pub(crate) const MAX_PANIC_MESSAGE_BYTES: usize = 256;
/// Maximum number of paused ranges that are kept; a new one overwrites the oldest.
pub(crate) const MAX_PAUSES: u64 = 255;

/// Stage of a pool's life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum Life {
    /// Made by the parent; no process has attached.
    Created = 0,
    /// A process writes into it, or died while it did.
    Attached = 1,
    /// The process has announced that it writes no more.
    Closed = 2,
}

impl Life {
    /// The stage with this number.
    pub const fn from_u64(value: u64) -> Option<Self> {
        match value {
            0 => Some(Self::Created),
            1 => Some(Self::Attached),
            2 => Some(Self::Closed),
            _ => None,
        }
    }
}

/// What holds a pool's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum Backing {
    /// Memory that is sealed against shrinking and freed with the last process that holds it.
    Memory = 0,
    /// A named file, which outlives all processes. It cannot be sealed.
    File = 1,
}

impl Backing {
    /// The backing with this number.
    pub const fn from_u64(value: u64) -> Option<Self> {
        match value {
            0 => Some(Self::Memory),
            1 => Some(Self::File),
            _ => None,
        }
    }
}

/// The parts of a pool after its header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Region {
    /// Paused ranges.
    Pauses = 0,
    /// Counter cells.
    Counters = 1,
    /// Definitions.
    Definitions = 2,
    /// Thread rows.
    Threads = 3,
    /// Chunk slots.
    Directory = 4,
    /// Group cells.
    Groups = 5,
    /// The latest panics.
    Panics = 6,
    /// Chunk memory.
    Chunks = 7,
}

/// A range of bytes in a pool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Extent {
    /// First byte.
    pub offset: u64,
    /// Length in bytes.
    pub len: u64,
}

impl Extent {
    /// First byte after the range; saturates for forged numbers.
    pub const fn end(&self) -> u64 {
        self.offset.saturating_add(self.len)
    }

    /// Offset of row `index` of a table of rows of `bytes` each, if it lies inside.
    pub const fn row(&self, index: u64, bytes: u64) -> Option<u64> {
        let Some(relative) = index.checked_mul(bytes) else {
            return None;
        };
        let Some(end) = relative.checked_add(bytes) else {
            return None;
        };
        if end > self.len {
            None
        } else {
            self.offset.checked_add(relative)
        }
    }

    /// Whether `other` lies inside.
    pub const fn contains(&self, other: Self) -> bool {
        other.offset >= self.offset && other.end() <= self.end()
    }
}

/// Number of parts after the header.
pub(crate) const REGIONS: usize = 8;

/// Sizes of all parts of a pool, derived from the page size and the limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Page size and smallest chunk.
    pub page: u64,
    /// Length of the file.
    pub pool_len: u64,
    regions: [Extent; REGIONS],
}

impl Layout {
    /// The layout of a pool whose chunks may take up to `limit` bytes.
    pub fn for_limit(limit: u64, page: u64) -> Self {
        let whole = |bytes: u64| bytes.div_ceil(page).saturating_mul(page);
        let chunks = whole(limit.max(page));
        let slots = chunks / page;
        let definitions = whole((limit / 4).clamp(256 * 1024, MAX_DEFINITIONS_BYTES));
        let sizes = [
            page,
            whole(COUNTER_BYTES * MAX_COUNTERS),
            definitions,
            whole(THREAD_BYTES * MAX_THREADS),
            whole(slots.saturating_mul(SLOT_BYTES)),
            whole(GROUP_BYTES * MAX_GROUPS),
            page,
            chunks,
        ];
        let mut offset = whole(header::LEN);
        let regions = sizes.map(|len| {
            let extent = Extent { offset, len };
            offset = offset.saturating_add(len);
            extent
        });
        Self {
            page,
            pool_len: offset,
            regions,
        }
    }

    /// A layout from the numbers of a header; `None` unless every part lies inside the file, starts
    /// at a page and follows the part before it, and no table exceeds the maximum size of its kind.
    pub fn from_parts(page: u64, pool_len: u64, regions: [Extent; REGIONS]) -> Option<Self> {
        let sane_page = page.is_power_of_two() && (4096..=1 << 20).contains(&page);
        let mut previous_end = page.max(header::LEN);
        for extent in regions {
            let end = extent.offset.checked_add(extent.len)?;
            let aligned = extent.offset.is_multiple_of(page) && extent.len.is_multiple_of(page);
            if !sane_page || !aligned || extent.offset < previous_end || end > pool_len {
                return None;
            }
            previous_end = end;
        }
        let layout = Self {
            page,
            pool_len,
            regions,
        };
        layout.tables_are_sane().then_some(layout)
    }

    /// Whether no table is longer than `for_limit` would make it, so that reading a forged header
    /// costs no more than reading a valid one.
    fn tables_are_sane(&self) -> bool {
        let most =
            |region, bytes: u64| self.region(region).len <= bytes.next_multiple_of(self.page);
        let slots = self.region(Region::Chunks).len / self.page;
        self.region(Region::Pauses).len == self.page
            && most(Region::Counters, COUNTER_BYTES * MAX_COUNTERS)
            && most(Region::Definitions, MAX_DEFINITIONS_BYTES)
            && most(Region::Threads, THREAD_BYTES * MAX_THREADS)
            && most(Region::Directory, slots.saturating_mul(SLOT_BYTES))
            && most(Region::Groups, GROUP_BYTES * MAX_GROUPS)
            && self.region(Region::Panics).len == self.page
    }

    /// The location of a part.
    pub fn region(&self, region: Region) -> Extent {
        self.regions
            .get(region as usize)
            .copied()
            .unwrap_or_default()
    }

    /// All parts, in the order of [`Region`].
    pub const fn regions(&self) -> [Extent; REGIONS] {
        self.regions
    }

    /// Bytes of a chunk of this size class.
    pub const fn class_bytes(&self, class: u8) -> u64 {
        self.page << class
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_follow_each_other_without_gaps_or_overlap() {
        for limit in [0, 1, 4096, 1 << 20, (1 << 20) + 5, 1 << 30] {
            let layout = Layout::for_limit(limit, 4096);
            let mut end = 4096;
            for extent in layout.regions() {
                assert_eq!(extent.offset, end);
                end = extent.end();
            }
            assert_eq!(end, layout.pool_len);
            assert!(layout.region(Region::Chunks).len >= limit);
            assert_eq!(
                Layout::from_parts(4096, layout.pool_len, layout.regions()),
                Some(layout)
            );
        }
    }

    #[test]
    fn forged_parts_are_refused() {
        let good = Layout::for_limit(1 << 20, 4096);
        let forge = |change: fn(&mut [Extent; REGIONS])| {
            let mut regions = good.regions();
            change(&mut regions);
            Layout::from_parts(4096, good.pool_len, regions)
        };
        assert!(forge(|_| {}).is_some());
        assert!(forge(|r| r[7].len += 4096).is_none());
        assert!(forge(|r| r[7].len = u64::MAX).is_none());
        assert!(forge(|r| r[3].offset -= 4096).is_none());
        assert!(forge(|r| r[0].offset = 0).is_none());
        assert!(forge(|r| r[2].len -= 1).is_none());
        assert!(forge(|r| r[0].len = 0).is_none());
        let longer = |region: usize| {
            let mut regions = good.regions();
            regions[region].len = 128 << 20;
            regions
                .iter_mut()
                .skip(region + 1)
                .for_each(|extent| extent.offset += 128 << 20);
            Layout::from_parts(4096, good.pool_len + (128 << 20), regions)
        };
        assert!(
            (0..7).all(|table| longer(table).is_none()),
            "a table longer than any pool's"
        );
        assert!(longer(7).is_some());
        assert!(Layout::from_parts(0, good.pool_len, good.regions()).is_none());
        assert!(Layout::from_parts(1 << 40, good.pool_len, good.regions()).is_none());
    }

    #[test]
    fn a_row_outside_its_table_has_no_offset() {
        let table = Extent {
            offset: 4096,
            len: 1024,
        };
        assert_eq!(table.row(3, 256), Some(4096 + 768));
        assert_eq!(table.row(4, 256), None);
        assert_eq!(table.row(u64::MAX, 256), None);
    }
}
