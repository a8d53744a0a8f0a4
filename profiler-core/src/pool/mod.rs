//! The pool: all memory of one process from which a profile is made.
//!
//! [`PoolSpec::create_pool`] is called by the maker of the memory (the parent for its children, or
//! a process for itself), [`Pool::attach`] by the process that will write into it. The file
//! outlives the process: every holder can read everything committed, also after the writer has
//! died.
//!
//! Invariants: every page is taken from the [`budget`] before it is touched, so the file never
//! occupies more than the allowance; in a file on a disk that may be full, every page is also
//! allocated before it is touched ([`Words::secure`]), so that a full disk causes a counted drop
//! and never a signal.

pub(crate) mod budget;
pub(crate) mod definitions;
pub(crate) mod header;
pub(crate) mod layout;
pub(crate) mod live;
mod mapping;
pub(crate) mod slot;
pub(crate) mod tag;

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

pub(crate) use mapping::{Mapping, SharedWords, Words};

use crate::ids::{
    BootId, ByteLimit, ChunkIndex, CounterIndex, DefinitionId, GroupIndex, PoolId, ProcessId,
    ProcessStart, ThreadIndex,
};
use crate::params::SessionParams;
use crate::sync::{AtomicU64, Ordering};
use crate::sys;
use crate::time::{LineAnchor, SessionClock, Timestamp};
use budget::{Budget, ChargedPages};
use definitions::{DefineError, Definition, DefinitionWriter};
use header::{Header, HeaderError};
use layout::{Backing, Extent, Layout, Life, Region, header as at};
use live::{CounterCell, GroupCell, PanicTable, PauseTable, ThreadRow};
use profiler_sys::OwnFile;
use slot::ChunkSlot;

/// Pages of header, counters, definitions, thread rows, directory and pauses, one each, and of two
/// smallest chunks.
const FLOOR_PAGES: u64 = 8;

/// Bytes that a pool occupies as soon as a process records into it.
pub fn floor_bytes() -> u64 {
    FLOOR_PAGES.saturating_mul(sys::page_size())
}

/// Why a process could not take its pool.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AttachError {
    /// This build does not understand the header.
    #[error(transparent)]
    Header(#[from] HeaderError),
    /// Another process (or a previous process with the same number) has the pool.
    #[error("the pool already belongs to process {0}")]
    Taken(ProcessId),
    /// The memory could shrink under the mapping.
    #[error("the pool's memory is not sealed against shrinking")]
    NotSealed,
    /// The file is not private to this user, so others could shorten it under the mapping.
    #[error("the pool's file is not this user's alone")]
    NotPrivate,
    /// The memory could not be mapped.
    #[error("cannot map the pool: {0}")]
    Map(#[from] io::Error),
}

/// The parameters that the maker of a pool chooses.
#[derive(Clone, Debug)]
pub struct PoolSpec {
    /// Random identity, from [`new_id`].
    pub id: PoolId,
    /// Bytes of chunks that the pool reserves addresses for: the session's limit.
    pub limit: ByteLimit,
    /// Initial allowance; may be changed at any time.
    pub allowance: ByteLimit,
    /// The session's clock.
    pub clock: SessionClock,
    /// What to record.
    pub params: SessionParams,
    /// Shown name of the process.
    pub name: String,
}

impl PoolSpec {
    /// A new pool without a name, for a session that starts now, with the limit of `params`.
    ///
    /// # Errors
    /// As [`new_id`].
    pub fn starting_now(params: SessionParams) -> io::Result<Self> {
        Ok(Self {
            id: new_id()?,
            limit: params.limit,
            allowance: params.limit,
            clock: SessionClock::start_now(),
            params,
            name: String::new(),
        })
    }

    /// Makes the memory of the pool and writes its header. Costs one page of memory.
    ///
    /// # Errors
    /// If the system provides no memory file.
    pub fn create_pool(&self) -> io::Result<File> {
        let layout = self.layout();
        let file = sys::create_pool_file(layout.pool_len)?;
        self.header(layout, Backing::Memory).write_to(&file)?;
        Ok(file)
    }

    /// Makes the pool in `file`, which is new, empty and private to this user (mode 0600): it
    /// survives the death of all processes. Costs one page.
    ///
    /// # Errors
    /// Errors of the file system: it is full, or does not support files of this size.
    pub fn create_pool_in(&self, file: &File) -> io::Result<()> {
        let layout = self.layout();
        sys::stretch(file, layout.pool_len)?;
        self.header(layout, Backing::File).write_to(file)
    }

    fn layout(&self) -> Layout {
        Layout::for_limit(self.limit.get(), sys::page_size())
    }

    fn header(&self, layout: Layout, backing: Backing) -> Header {
        let in_file = backing == Backing::File;
        Header {
            layout,
            id: self.id,
            clock: self.clock,
            made: LineAnchor::take(),
            pid: ProcessId::new(0),
            start: ProcessStart::new(0),
            life: Life::Created,
            allowance: self.allowance,
            epoch: 0,
            recording_start: Timestamp::ZERO,
            name: self.name.clone(),
            backing,
            boot: if in_file {
                sys::boot_id()
            } else {
                BootId::default()
            },
            params: Some(self.params.clone()),
            sample_source: None,
        }
    }
}

/// Maps a pool for writing, if no other user can shorten it.
///
/// Memory is sealed. A file cannot be sealed; it is accepted if only this user may write it,
/// because a process that could shorten it (another process of the same user, or root) could
/// equally kill this process. The header states which of the two it is; memory that is neither is
/// refused.
fn map(file: &File, header: &Header) -> Result<Mapping, AttachError> {
    let len = header.layout.pool_len;
    match header.backing {
        Backing::Memory if sys::cannot_shrink(file) => Ok(Mapping::new(file, len)?),
        Backing::Memory => Err(AttachError::NotSealed),
        Backing::File if sys::is_private(file) => Ok(Mapping::of_file(file, len)?),
        Backing::File => Err(AttachError::NotPrivate),
    }
}

/// Draws the random identity of a new pool.
///
/// # Errors
/// If the system provides no random numbers.
pub fn new_id() -> io::Result<PoolId> {
    let mut random = [0_u8; 16];
    getrandom::fill(&mut random).map_err(|error| io::Error::other(error.to_string()))?;
    Ok(PoolId::new(u128::from_le_bytes(random)))
}

/// A pool that this process writes into.
#[derive(Debug)]
pub(crate) struct Pool {
    map: Mapping,
    file: OwnFile,
    layout: Layout,
    clock: SessionClock,
    budget: Budget,
    definitions: DefinitionWriter,
    /// The page of the latest panics, which is charged at the first panic.
    panics: ChargedPages,
}

impl Pool {
    /// Takes a pool for this process, permanently.
    pub(crate) fn attach(file: impl Into<OwnFile>) -> Result<(Self, Header), AttachError> {
        Self::attach_for(file, sys::process_id(), sys::own_process_start())
    }

    /// Takes a pool for a process that does not write into it itself.
    pub(crate) fn attach_for(
        file: impl Into<OwnFile>,
        pid: ProcessId,
        start: ProcessStart,
    ) -> Result<(Self, Header), AttachError> {
        let file = file.into();
        let lost = io::Error::from;
        let mut page = vec![0; 4096];
        file.get().map_err(lost)?.read_exact_at(&mut page, 0)?;
        let length = file.get().map_err(lost)?.metadata()?.len();
        let mut header = Header::parse(&page, length)?;
        let map = map(file.get().map_err(lost)?, &header)?;
        let budget = Budget::new(header.allowance, header.layout.page, header.layout.page);
        let definitions = DefinitionWriter::new(&header.layout);
        let panics = ChargedPages::new(header.layout.page);
        let layout = header.layout;
        let clock = header.clock;
        let pool = Self {
            map,
            file,
            layout,
            clock,
            budget,
            definitions,
            panics,
        };
        pool.claim(pid, start)?;
        (header.pid, header.start) = (pid, start);
        Ok((pool, header))
    }

    /// Charges the page at `at` of a table, and makes sure that touching it cannot fault.
    pub(crate) fn take_page(&self, table: Region, at: u64) -> bool {
        let page = self.layout.page;
        if !self.budget.take(page, 0) {
            return false;
        }
        let offset = self.layout.region(table).offset.saturating_add(at);
        let is_there = self.map.secure(Extent { offset, len: page });
        if !is_there {
            self.budget.give_back(page);
        }
        is_there
    }

    fn claim(&self, pid: ProcessId, start: ProcessStart) -> Result<(), AttachError> {
        let word = self.header(at::PID)?;
        let mine = u64::from(pid.get());
        if let Err(owner) = word.compare_exchange(0, mine, Ordering::AcqRel, Ordering::Acquire) {
            return Err(AttachError::Taken(ProcessId::new(
                u32::try_from(owner).unwrap_or(0),
            )));
        }
        self.header(at::PROCESS_START)?
            .store(start.get(), Ordering::Release);
        self.header(at::LIFE)?
            .store(Life::Attached as u64, Ordering::Release);
        Ok(())
    }

    fn header(&self, offset: u64) -> Result<&AtomicU64, HeaderError> {
        self.map
            .word(offset)
            .ok_or(HeaderError::Damaged("short header"))
    }

    /// Stores a word of the header. The header page always exists.
    pub(crate) fn set_header(&self, offset: u64, value: u64) {
        if let Some(word) = self.map.word(offset) {
            word.store(value, Ordering::Release);
        }
    }

    /// A word of the header. It stays valid while the pool is mapped.
    pub(crate) fn header_word(&self, offset: u64) -> Option<&AtomicU64> {
        self.map.word(offset)
    }

    pub(crate) const fn map(&self) -> &Mapping {
        &self.map
    }

    /// Whether the pool outlives all processes.
    pub(crate) const fn is_file(&self) -> bool {
        self.map.may_fault()
    }

    /// The file of the pool, for the calling thread to read.
    pub(crate) fn reopen(&self) -> io::Result<File> {
        self.file.reopen()
    }

    #[cfg(test)]
    pub(crate) fn file(&self) -> Result<&File, profiler_sys::DescriptorLost> {
        self.file.get()
    }

    pub(crate) const fn layout(&self) -> &Layout {
        &self.layout
    }

    pub(crate) const fn clock(&self) -> &SessionClock {
        &self.clock
    }

    pub(crate) const fn budget(&self) -> &Budget {
        &self.budget
    }

    pub(crate) fn define(&self, definition: &Definition) -> Result<DefinitionId, DefineError> {
        self.definitions.define(&self.map, &self.budget, definition)
    }

    pub(crate) fn slot(&self, index: ChunkIndex) -> Option<&ChunkSlot> {
        self.row(
            Region::Directory,
            u64::from(index.get()),
            layout::SLOT_BYTES,
        )
    }

    pub(crate) fn thread_row(&self, index: ThreadIndex) -> Option<&ThreadRow> {
        self.row(
            Region::Threads,
            u64::from(index.get()),
            layout::THREAD_BYTES,
        )
    }

    pub(crate) fn counter(&self, index: CounterIndex) -> Option<&CounterCell> {
        self.row(
            Region::Counters,
            u64::from(index.get()),
            layout::COUNTER_BYTES,
        )
    }

    pub(crate) fn group(&self, index: GroupIndex) -> Option<&GroupCell> {
        self.row(Region::Groups, u64::from(index.get()), layout::GROUP_BYTES)
    }

    /// Counts a group that found no room.
    pub(crate) fn count_group_left_out(&self) {
        if let Some(word) = self.map.word(at::GROUPS_LEFT_OUT) {
            word.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(crate) fn pauses(&self) -> Option<&PauseTable> {
        self.map.view(self.layout.region(Region::Pauses).offset)
    }

    /// The table of the latest panics; `None` if the pool has no room for its page. Lock-free.
    pub(crate) fn panics(&self) -> Option<&PanicTable> {
        let table = self.layout.region(Region::Panics);
        let has_room = self
            .panics
            .cover(&self.map, &self.budget, table, layout::PANIC_TABLE_BYTES);
        has_room.then(|| self.map.view(table.offset)).flatten()
    }

    fn row<T: SharedWords>(&self, region: Region, index: u64, bytes: u64) -> Option<&T> {
        self.map.view(self.layout.region(region).row(index, bytes)?)
    }

    /// Memory of a chunk.
    pub(crate) fn chunk_extent(&self, slot: &ChunkSlot) -> Extent {
        Extent {
            offset: slot.offset(),
            len: slot.bytes(),
        }
    }
}
