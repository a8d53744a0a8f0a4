//! Reads the file of an observed process, and empties its ring.
//!
//! Used by the session's reader of observed processes. The process may be dead, stopped or hostile:
//! nothing is mapped, every number is checked, and one call reads at most the ring once. A file
//! that was cut off gives an error, and never a signal.

use std::fs::File;
use std::io;
use std::mem::offset_of;
use std::ops::Range;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::sync::atomic::{Ordering, fence};

use rustix::fs::{FallocateFlags, Mode, OFlags, fallocate, open};

use crate::layout::{
    CONTROL_AT, CONTROL_BYTES, Control, FILE_BYTES, FIRST_BYTES, FIRST_RING_PAGES,
    FIRST_TEXT_BYTES, FREED_AT, GRANTED_AT, HEAD_BYTES, Header, MAGIC, MORE_TEXT_AT, PAGE, RING_AT,
    RING_PAGES, SAMPLE_PAGES, SampleHead, TEXT_AT, TEXT_BYTES, ThreadRow, VERSION, ring_page_at,
    row_at,
};

/// Why a file is not that of an observed process.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ObservedFileError {
    /// The system refuses an operation.
    #[error("the file of an observed process cannot be read: {0}")]
    Io(#[from] io::Error),
    /// It is no regular file of the expected length.
    #[error("a file in the directory of observed processes is not one of theirs")]
    NotOurs,
    /// The process has not finished the file.
    #[error("the file of an observed process is not finished")]
    Unfinished,
    /// It is of another version.
    #[error("the file of an observed process has version {0}, and not {VERSION}")]
    Version(u32),
}

/// What the header says at one moment. Every value is what the process claims.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ObservedHeader {
    /// See [`Header::pid`].
    pub pid: u32,
    /// See [`Header::parent`].
    pub parent: u32,
    /// See [`Header::began`].
    pub began: u64,
    /// See [`Header::began_monotonic_ns`].
    pub began_monotonic_ns: u64,
    /// See [`Header::began_cpu_ns`].
    pub began_cpu_ns: u64,
    /// See [`crate::layout::Ending`].
    pub ending: u32,
    /// See [`crate::layout::Notes`].
    pub notes: u32,
    /// See [`Header::ended`].
    pub ended: u64,
    /// See [`Header::ended_cpu_ns`].
    pub ended_cpu_ns: u64,
    /// See [`Header::threads`].
    pub threads: u64,
    /// See [`Header::threads_without_timer`].
    pub threads_without_timer: u64,
    /// See [`Header::refused`].
    pub refused: u64,
    /// See [`Header::forks_without_file`].
    pub forks_without_file: u64,
    /// See [`Header::program_device`].
    pub program_device: u64,
    /// See [`Header::program_inode`].
    pub program_inode: u64,
    /// See [`Header::crash_address`].
    pub crash_address: u64,
    /// See [`Header::crash_tid`].
    pub crash_tid: i32,
    /// See [`Header::crash_signal`].
    pub crash_signal: u32,
    /// See [`Header::crash_code`].
    pub crash_code: i32,
}

/// What a thread's row says at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ObservedThread {
    /// See [`ThreadRow::uses`].
    pub uses: u32,
    /// See [`ThreadRow::tid`].
    pub tid: i32,
    /// See [`ThreadRow::began`].
    pub began: u64,
    /// See [`ThreadRow::began_cpu_ns`].
    pub began_cpu_ns: u64,
    /// See [`ThreadRow::sampled_cpu_ns`].
    pub sampled_cpu_ns: u64,
    /// See [`ThreadRow::ended_cpu_ns`].
    pub ended_cpu_ns: u64,
    /// See [`ThreadRow::ended`].
    pub ended: u64,
    /// See [`ThreadRow::refused`].
    pub refused: u32,
}

/// The file of one program of an observed process.
#[derive(Debug)]
pub struct ObservedFile {
    file: File,
    control: [u8; CONTROL_BYTES],
    /// What this reader has written to [`Control::freed`]: the process may have changed the bytes.
    freed: [u8; RING_PAGES],
    granted: u8,
    /// Room for one sample.
    sample: Vec<u8>,
}

impl ObservedFile {
    /// Opens a file of the session's directory.
    ///
    /// # Errors
    /// If it is not the file of an observed process, or not finished yet.
    pub fn open(path: &Path) -> Result<Self, ObservedFileError> {
        let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = File::from(open(path, flags, Mode::empty()).map_err(io::Error::from)?);
        let about = file.metadata()?;
        if about.is_file() && about.len() == 0 {
            return Err(ObservedFileError::Unfinished);
        }
        if !about.is_file() || about.len() != FILE_BYTES as u64 {
            return Err(ObservedFileError::NotOurs);
        }
        let mut start = [0; 16];
        file.read_exact_at(&mut start, 0)?;
        let version = u32_at(&start, offset_of!(Header, version));
        // The last word that is written.
        match u64_at(&start, offset_of!(Header, magic)) {
            0 => return Err(ObservedFileError::Unfinished),
            MAGIC if version == VERSION => {}
            MAGIC => return Err(ObservedFileError::Version(version)),
            _ => return Err(ObservedFileError::NotOurs),
        }
        Ok(Self {
            file,
            control: [0; CONTROL_BYTES],
            freed: [0; RING_PAGES],
            granted: 0,
            sample: vec![0; SAMPLE_PAGES * PAGE],
        })
    }

    /// Reads the header.
    ///
    /// # Errors
    /// Errors of the system; the file was cut off.
    pub fn header(&self) -> io::Result<ObservedHeader> {
        let mut bytes = [0; size_of::<Header>()];
        self.file.read_exact_at(&mut bytes, 0)?;
        let word = |at| u64_at(&bytes, at);
        let half = |at| u32_at(&bytes, at);
        Ok(ObservedHeader {
            pid: half(offset_of!(Header, pid)),
            parent: half(offset_of!(Header, parent)),
            began: word(offset_of!(Header, began)),
            began_monotonic_ns: word(offset_of!(Header, began_monotonic_ns)),
            began_cpu_ns: word(offset_of!(Header, began_cpu_ns)),
            ending: half(offset_of!(Header, ending)),
            notes: half(offset_of!(Header, notes)),
            ended: word(offset_of!(Header, ended)),
            ended_cpu_ns: word(offset_of!(Header, ended_cpu_ns)),
            threads: word(offset_of!(Header, threads)),
            threads_without_timer: word(offset_of!(Header, threads_without_timer)),
            refused: word(offset_of!(Header, refused)),
            forks_without_file: word(offset_of!(Header, forks_without_file)),
            program_device: word(offset_of!(Header, program_device)),
            program_inode: word(offset_of!(Header, program_inode)),
            crash_address: word(offset_of!(Header, crash_address)),
            crash_tid: half(offset_of!(Header, crash_tid)).cast_signed(),
            crash_signal: half(offset_of!(Header, crash_signal)),
            crash_code: half(offset_of!(Header, crash_code)).cast_signed(),
        })
    }

    /// Reads a thread's row. `None` if there is none with this number.
    ///
    /// # Errors
    /// Errors of the system; the file was cut off.
    pub fn thread(&self, row: usize) -> io::Result<Option<ObservedThread>> {
        let Some(at) = row_at(row) else {
            return Ok(None);
        };
        let mut bytes = [0; size_of::<ThreadRow>()];
        self.file.read_exact_at(&mut bytes, at as u64)?;
        let word = |at| u64_at(&bytes, at);
        Ok(Some(ObservedThread {
            uses: u32_at(&bytes, offset_of!(ThreadRow, uses)),
            tid: u32_at(&bytes, offset_of!(ThreadRow, tid)).cast_signed(),
            began: word(offset_of!(ThreadRow, began)),
            began_cpu_ns: word(offset_of!(ThreadRow, began_cpu_ns)),
            sampled_cpu_ns: word(offset_of!(ThreadRow, sampled_cpu_ns)),
            ended_cpu_ns: word(offset_of!(ThreadRow, ended_cpu_ns)),
            ended: word(offset_of!(ThreadRow, ended)),
            refused: u32_at(&bytes, offset_of!(ThreadRow, refused)),
        }))
    }

    /// Reads the names of the program and of its files.
    ///
    /// # Errors
    /// Errors of the system; the file was cut off.
    pub fn text(&self) -> io::Result<ObservedText> {
        let mut len = [0; 4];
        self.file
            .read_exact_at(&mut len, offset_of!(Header, text_bytes) as u64)?;
        let len = (u32::from_ne_bytes(len) as usize).min(TEXT_BYTES);
        let mut bytes = vec![0; len];
        let (first, rest) = bytes.split_at_mut(len.min(FIRST_TEXT_BYTES));
        self.file.read_exact_at(first, TEXT_AT as u64)?;
        self.file.read_exact_at(rest, MORE_TEXT_AT as u64)?;
        Ok(ObservedText::parse(&bytes))
    }

    /// The number of pages that have been used, among the pages that exist from the start. 0 if the
    /// file cannot be read.
    #[must_use]
    pub fn used_pages(&self) -> usize {
        let mut claimed = [0; FIRST_RING_PAGES];
        let at = (CONTROL_AT + offset_of!(Control, claimed)) as u64;
        let is_read = self.file.read_exact_at(&mut claimed, at).is_ok();
        let used = claimed.iter().filter(|count| **count != 0);
        if is_read { used.count() } else { 0 }
    }

    /// The memory that the file occupies, in bytes.
    ///
    /// # Errors
    /// Errors of the system.
    pub fn allocated_bytes(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.blocks().saturating_mul(512))
    }

    /// The bytes of the file that exist before anything was granted.
    #[must_use]
    pub const fn first_bytes() -> u64 {
        FIRST_BYTES as u64
    }

    /// Allocates pages of the ring in addition to those that exist, and lets the process use them:
    /// `more` times 16 pages in all. Pages are never taken back.
    ///
    /// # Errors
    /// If the file system has no room; then nothing changes.
    pub fn grant(&mut self, more: u8) -> io::Result<()> {
        let most = (RING_PAGES - FIRST_RING_PAGES) / 16;
        let more = more.min(u8::try_from(most).unwrap_or(u8::MAX));
        if more <= self.granted {
            return Ok(());
        }
        let start = FIRST_BYTES + usize::from(self.granted) * 16 * PAGE;
        let end = FIRST_BYTES + usize::from(more) * 16 * PAGE;
        let len = (end - start) as u64;
        fallocate(&self.file, FallocateFlags::empty(), start as u64, len)?;
        self.file.write_all_at(&[more], GRANTED_AT as u64)?;
        self.granted = more;
        Ok(())
    }

    /// The pages that the process may use, in units of 16, besides the first.
    #[must_use]
    pub const fn granted(&self) -> u8 {
        self.granted
    }

    /// Passes all published samples with their stacks to `take`, and frees their pages. The order
    /// is that of the pages, not that of time. Returns the number of samples.
    ///
    /// # Errors
    /// Errors of the system; the file was cut off. Samples that were passed before are freed.
    pub fn drain(&mut self, mut take: impl FnMut(&SampleHead, &[u8])) -> io::Result<usize> {
        self.file
            .read_exact_at(&mut self.control, CONTROL_AT as u64)?;
        // What the handlers wrote before they published is read after the states.
        fence(Ordering::Acquire);
        // The states are not of one instant: a page that is claimed meanwhile, and freed below as a
        // further page of a sample, looks as if it was published before.
        let before = self.freed;
        let mut taken = 0;
        let mut changed: Option<Range<usize>> = None;
        let mut result = Ok(());
        for page in 0..RING_PAGES {
            let Some(claim) = self.published(page, &before) else {
                continue;
            };
            let head = match self.read_sample(page, claim) {
                Ok(head) => head,
                Err(error) => {
                    result = Err(error);
                    break;
                }
            };
            let mut free = |page: usize, claim: u8| {
                if let Some(freed) = self.freed.get_mut(page) {
                    *freed = claim;
                    let range = changed.get_or_insert(page..page + 1);
                    *range = range.start.min(page)..range.end.max(page + 1);
                }
            };
            free(page, claim);
            let Some(head) = head else {
                continue;
            };
            for (more, claim) in further_pages(&head) {
                free(more, claim);
            }
            let end = HEAD_BYTES + head.stack_bytes as usize;
            if let Some(stack) = self.sample.get(HEAD_BYTES..end) {
                take(&head, stack);
                taken += 1;
            }
        }
        if let Some(range) = changed {
            let at = (FREED_AT + range.start) as u64;
            self.file
                .write_all_at(self.freed.get(range).unwrap_or_default(), at)?;
        }
        result.map(|()| taken)
    }

    /// Whether any sample is published: a cheap look at a process that is mostly idle.
    ///
    /// # Errors
    /// Errors of the system; the file was cut off.
    pub fn has_samples(&mut self) -> io::Result<bool> {
        self.file
            .read_exact_at(&mut self.control, CONTROL_AT as u64)?;
        Ok((0..RING_PAGES).any(|page| self.published(page, &self.freed).is_some()))
    }

    /// The state at which a page is published as the first one of a sample, if these are the states
    /// up to which pages are freed.
    fn published(&self, page: usize, freed: &[u8; RING_PAGES]) -> Option<u8> {
        let state = |array: usize| self.control.get(array + page).copied();
        let claimed = state(offset_of!(Control, claimed))?;
        let published = state(offset_of!(Control, published))?;
        (published == claimed && freed.get(page) != Some(&claimed)).then_some(claimed)
    }

    /// Reads a sample into the room for it. `None` if its head is not valid.
    fn read_sample(&mut self, page: usize, claim: u8) -> io::Result<Option<SampleHead>> {
        let Some(at) = ring_page_at(page) else {
            return Ok(None);
        };
        let room = self.sample.get_mut(..PAGE).unwrap_or_default();
        // The head says how much of the first page is in use, but one read is cheaper than two.
        self.file.read_exact_at(room, at as u64)?;
        let head = head_of(room);
        if !is_valid(&head, claim) || !self.has_claimed(&head)? {
            return Ok(None);
        }
        for (number, (more, _)) in further_pages(&head).enumerate() {
            let start = (number + 1) * PAGE;
            let room = self.sample.get_mut(start..start + PAGE).unwrap_or_default();
            self.file
                .read_exact_at(room, (RING_AT + more * PAGE) as u64)?;
        }
        Ok(Some(head))
    }

    /// Whether the further pages of a sample are claimed for it. A page that is freed with the
    /// wrong claim looks published again.
    fn has_claimed(&mut self, head: &SampleHead) -> io::Result<bool> {
        let is_claimed = |control: &[u8], (page, claim): (usize, u8)| {
            control.get(offset_of!(Control, claimed) + page) == Some(&claim)
        };
        if further_pages(head).all(|further| is_claimed(&self.control, further)) {
            return Ok(true);
        }
        // A thread may have claimed them after the states were read.
        let mut claimed = [0; RING_PAGES];
        let at = CONTROL_AT + offset_of!(Control, claimed);
        self.file.read_exact_at(&mut claimed, at as u64)?;
        let mut further = further_pages(head);
        Ok(further.all(|(page, claim)| claimed.get(page) == Some(&claim)))
    }
}

/// Whether the numbers of a head fit each other.
fn is_valid(head: &SampleHead, claim: u8) -> bool {
    let [first, ..] = head.claims;
    let more = head.more_pages as usize;
    let room = (1 + more).saturating_mul(PAGE) - HEAD_BYTES;
    first == claim
        && more < SAMPLE_PAGES
        && head.stack_bytes as usize <= room
        && head.stack_bytes.is_multiple_of(8)
        && head
            .pages
            .iter()
            .take(more)
            .all(|page| usize::from(*page) < RING_PAGES)
}

/// The further pages of a sample, and at which state each was claimed.
fn further_pages(head: &SampleHead) -> impl Iterator<Item = (usize, u8)> + '_ {
    let claims = head.claims.iter().skip(1);
    head.pages
        .iter()
        .zip(claims)
        .take(head.more_pages as usize)
        .map(|(page, claim)| (usize::from(*page), *claim))
}

fn head_of(bytes: &[u8]) -> SampleHead {
    let word = |at| u64_at(bytes, at);
    let half = |at| u32_at(bytes, at);
    let mut head = SampleHead {
        at: word(offset_of!(SampleHead, at)),
        cpu_ns: word(offset_of!(SampleHead, cpu_ns)),
        pc: word(offset_of!(SampleHead, pc)),
        sp: word(offset_of!(SampleHead, sp)),
        fp: word(offset_of!(SampleHead, fp)),
        lr: word(offset_of!(SampleHead, lr)),
        row: half(offset_of!(SampleHead, row)),
        uses: half(offset_of!(SampleHead, uses)),
        stack_bytes: half(offset_of!(SampleHead, stack_bytes)),
        flags: half(offset_of!(SampleHead, flags)),
        held: half(offset_of!(SampleHead, held)),
        more_pages: half(offset_of!(SampleHead, more_pages)),
        tid: half(offset_of!(SampleHead, tid)).cast_signed(),
        ..SampleHead::default()
    };
    let pages = bytes
        .get(offset_of!(SampleHead, pages)..)
        .unwrap_or_default();
    for (place, page) in head.pages.iter_mut().zip(pages.as_chunks::<2>().0) {
        *place = u16::from_ne_bytes(*page);
    }
    let claims = bytes
        .get(offset_of!(SampleHead, claims)..)
        .unwrap_or_default();
    for (place, claim) in head.claims.iter_mut().zip(claims) {
        *place = *claim;
    }
    head
}

/// What the text of a file says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObservedText {
    /// The path of the program.
    pub program: Vec<u8>,
    /// The loaded files: their addresses and their paths. The path of the program is empty.
    pub files: Vec<(Range<u64>, Vec<u8>)>,
}

impl ObservedText {
    /// Parses the items of the text; leaves out those that are not complete or not valid.
    #[must_use]
    pub fn parse(bytes: &[u8]) -> Self {
        let complete = bytes.iter().rposition(|byte| *byte == 0).unwrap_or(0);
        let mut items = bytes
            .get(..complete)
            .unwrap_or_default()
            .split(|byte| *byte == 0);
        let program = items.next().unwrap_or_default().to_vec();
        Self {
            program,
            files: items.filter_map(loaded_file).collect(),
        }
    }
}

/// `7f00-7f10 /path`.
fn loaded_file(item: &[u8]) -> Option<(Range<u64>, Vec<u8>)> {
    let mut parts = item.splitn(2, |byte| *byte == b' ');
    let (addresses, path) = (parts.next()?, parts.next()?);
    let mut ends = addresses.split(|byte| *byte == b'-');
    let mut number = || u64::from_str_radix(std::str::from_utf8(ends.next()?).ok()?, 16).ok();
    let range = number()?..number()?;
    (range.start < range.end).then(|| (range, path.to_vec()))
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    let word = bytes.get(at..).and_then(<[u8]>::first_chunk);
    word.map_or(0, |word| u32::from_ne_bytes(*word))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    let word = bytes.get(at..).and_then(<[u8]>::first_chunk);
    word.map_or(0, |word| u64::from_ne_bytes(*word))
}
