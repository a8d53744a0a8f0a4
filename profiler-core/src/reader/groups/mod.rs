//! Reads the groups of a process and their totals. The process may be running, stopped or dead.
//!
//! Called by the parent for each display or query, over hundreds of pools in a row. Only the cells
//! are read each time (1 KiB per group, twice, see `pool::live::group`); names are looked up once,
//! by the number in the cell, and kept. Nothing that the process writes is trusted: a cell with an
//! invalid definition ends the table.

mod totals;

use std::collections::HashMap;
use std::io;
use std::sync::Arc;

pub use totals::{GroupTotals, Histogram, Peak};

use super::ReadError;
use super::source::{ByteSource, high, low, word};
use crate::codec;
use crate::groups::{GroupKind, MAX_LABELS, MAX_NAME_BYTES, Probes};
use crate::ids::{DefinitionId, GroupIndex, PoolId, ProcessId, ProcessKey, ProcessStart};
use crate::pool::definitions::{Definition, READY};
use crate::pool::header::HeaderError;
use crate::pool::layout::{GROUP_BYTES, Layout, Life, MAGIC, MAX_GROUPS, Region, header as at};
use crate::pool::live::group::word as cell_word;

/// Maximum number of cells that are read at once.
const CELLS_AT_ONCE: u64 = 16;
/// Number of cells that are assumed to be in use before the first read.
const FIRST_CELLS: u64 = 7;
/// The number of reads of a changing cell before its copy is accepted, and of a pool whose session
/// changes before the pool is treated as one without a session.
const TRIES: usize = 3;
/// The longest encoded definition that is read. Our writer's definitions are shorter.
const MAX_DEFINITION_BYTES: usize = 16 * 1024;

/// The definition of a group. Never changes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct GroupDefinition {
    /// The kind of the group.
    pub kind: GroupKind,
    /// Shown name.
    pub name: String,
    /// Further labels.
    pub labels: Vec<(String, String)>,
    /// Whether it is measured only while fine groups are requested.
    pub is_fine: bool,
}

/// A group and its totals.
#[derive(Clone, Debug, PartialEq)]
pub struct GroupReading {
    /// Its row.
    pub index: GroupIndex,
    /// Its definition.
    pub definition: Arc<GroupDefinition>,
    /// Its totals.
    pub totals: GroupTotals,
}

/// All groups of a process at one time.
#[derive(Clone, Debug)]
pub struct PoolGroups {
    /// Identity of the process; pid 0 if no process has taken the pool yet.
    pub key: ProcessKey,
    /// Number of the process's session; 0 if none runs. Totals begin at zero in each session.
    pub epoch: u64,
    /// The probes in effect.
    pub probes: Probes,
    /// The number of groups that found no room in the pool.
    pub left_out: u64,
    /// The groups, without fine groups that are not measured now.
    pub groups: Vec<GroupReading>,
}

/// Reads the groups of one pool repeatedly.
#[derive(Debug)]
pub struct GroupReader<S> {
    source: S,
    /// As of [`Self::open`]: a pool's layout never changes.
    layout: Layout,
    /// Number of cells that have been in use, or are assumed to be.
    used: u64,
    pool: PoolId,
    names: HashMap<DefinitionId, Arc<GroupDefinition>>,
}

impl<S: ByteSource> GroupReader<S> {
    /// Opens a pool.
    ///
    /// # Errors
    /// When the bytes are not a pool, or cannot be read.
    pub fn open(source: S) -> Result<Self, ReadError> {
        let header = super::read_header(&source)?;
        let layout = header.layout;
        let pool = header.id;
        Ok(Self {
            source,
            layout,
            used: FIRST_CELLS,
            pool,
            names: HashMap::new(),
        })
    }

    /// Reads all groups as they are now.
    ///
    /// # Errors
    /// When the source can no longer be read, or is no longer a pool.
    pub fn read(&mut self) -> Result<PoolGroups, ReadError> {
        let mut found = self.read_once()?;
        for _ in 1..TRIES {
            // Cells are cleared when a session ends, so a mix of two sessions is invalid.
            crate::sync::full_fence();
            if self.epoch()? == found.epoch {
                return Ok(found);
            }
            found = self.read_once()?;
        }
        if self.epoch()? != found.epoch {
            (found.epoch, found.groups) = (0, Vec::new());
        }
        Ok(found)
    }

    fn epoch(&self) -> io::Result<u64> {
        let mut epoch = [0; 8];
        self.source.read_at(&mut epoch, at::EPOCH)?;
        Ok(word(&epoch, 0))
    }

    fn read_once(&mut self) -> Result<PoolGroups, ReadError> {
        // One call reads all header words that change, because there are hundreds of pools. It also
        // reads the word that identifies a pool: a process may overwrite its own pool.
        let mut words = [0; (at::GROUPS_LEFT_OUT + 8) as usize];
        self.source.read_at(&mut words, 0)?;
        let of = |offset: u64| word(&words, usize::try_from(offset / 8).unwrap_or(usize::MAX));
        if of(at::MAGIC) != MAGIC {
            return Err(HeaderError::NotAPool(of(at::MAGIC)).into());
        }
        let pid = u32::try_from(of(at::PID)).map_err(|_| HeaderError::Damaged("pid"))?;
        let life = Life::from_u64(of(at::LIFE)).ok_or(HeaderError::Damaged("life"))?;
        let probes = Probes::from_bits(u8::try_from(of(at::PROBES)).unwrap_or(0));
        let epoch = of(at::EPOCH);
        let left_out = of(at::GROUPS_LEFT_OUT);
        let pid = ProcessId::new(pid);
        let start = ProcessStart::new(of(at::PROCESS_START));
        let key = ProcessKey {
            pid,
            start,
            pool: self.pool,
        };
        let is_over = epoch == 0 || life == Life::Created;
        let groups = if is_over {
            Vec::new()
        } else {
            self.read_cells(probes)?
        };
        Ok(PoolGroups {
            key,
            epoch,
            probes,
            left_out,
            groups,
        })
    }

    fn read_cells(&mut self, probes: Probes) -> io::Result<Vec<GroupReading>> {
        let mut found = Vec::new();
        let most = self.layout.region(Region::Groups).len / GROUP_BYTES;
        let mut first = 0;
        let known = self.used;
        while first < most {
            // The cells in use and one more, which shows whether there are others.
            let expected = known
                .checked_sub(first)
                .map_or(CELLS_AT_ONCE, |used| used + 1);
            let count = expected.min(CELLS_AT_ONCE).min(most - first);
            let cells = self.copy_cells(first, count)?;
            for (index, cell) in (first..).zip(cells.chunks_exact(GROUP_BYTES as usize)) {
                let Some(definition) = self.definition_of(cell) else {
                    return Ok(found);
                };
                self.used = self.used.max(index + 1);
                if definition.is_fine && !probes.contains(Probes::FINE) {
                    continue;
                }
                let index = GroupIndex::new(u32::try_from(index).unwrap_or(u32::MAX));
                found.push(GroupReading {
                    index,
                    definition,
                    totals: GroupTotals::parse(cell),
                });
            }
            first += count;
        }
        Ok(found)
    }

    /// Copies cells until two copies in a row agree. A cell that keeps changing is accepted: each
    /// of its numbers is valid, but they may be from two instants.
    fn copy_cells(&self, first: u64, count: u64) -> io::Result<Vec<u8>> {
        let bytes = usize::try_from(count * GROUP_BYTES).unwrap_or(0);
        let offset = self
            .layout
            .region(Region::Groups)
            .offset
            .saturating_add(first * GROUP_BYTES);
        let mut copy = vec![0; bytes];
        let mut again = vec![0; bytes];
        self.source.read_at(&mut copy, offset)?;
        for _ in 0..TRIES {
            crate::sync::full_fence();
            self.source.read_at(&mut again, offset)?;
            if copy == again {
                break;
            }
            std::mem::swap(&mut copy, &mut again);
        }
        mark_unsettled(&mut copy, &again);
        Ok(copy)
    }

    fn definition_of(&mut self, cell: &[u8]) -> Option<Arc<GroupDefinition>> {
        let number = u32::try_from(word(cell, cell_word::DEFINITION))
            .ok()
            .filter(|number| *number != 0)?;
        let id = DefinitionId::new(number);
        if let Some(known) = self.names.get(&id) {
            return Some(Arc::clone(known));
        }
        let definition = Arc::new(read_definition(&self.source, &self.layout, id)?);
        if self.names.len() as u64 >= MAX_GROUPS {
            self.names.clear(); // our writer makes fewer: forged
        }
        self.names.insert(id, Arc::clone(&definition));
        Some(definition)
    }
}

/// Marks cells that differ in two copies as having a commit under way.
fn mark_unsettled(copy: &mut [u8], again: &[u8]) {
    let cells = copy
        .chunks_exact_mut(GROUP_BYTES as usize)
        .zip(again.chunks_exact(GROUP_BYTES as usize));
    for (cell, _) in cells.filter(|(cell, again)| **cell != **again) {
        let ended = word(cell, cell_word::ENDED);
        let begun = cell_word::BEGUN * 8;
        if let Some(place) = cell.get_mut(begun..begun + 8) {
            place.copy_from_slice(&ended.wrapping_add(1).to_ne_bytes());
        }
    }
}

/// The definition of a group; `None` if the number has none.
fn read_definition(
    source: &impl ByteSource,
    layout: &Layout,
    id: DefinitionId,
) -> Option<GroupDefinition> {
    let region = layout.region(Region::Definitions);
    let head_at = region.row(u64::from(id.get()).checked_sub(1)?, 8)?;
    let mut head = [0; 8];
    source.read_at(&mut head, head_at).ok()?;
    let len = low(word(&head, 0)) as usize;
    let state = high(word(&head, 0));
    let end = head_at.checked_add(8)?.checked_add(len as u64)?;
    if u64::from(state) != READY || end > region.end() || len > MAX_DEFINITION_BYTES {
        return None;
    }
    let mut record = vec![0; len];
    source.read_at(&mut record, head_at + 8).ok()?;
    let Ok(Definition::Group {
        kind,
        name,
        labels,
        is_fine,
        ..
    }) = codec::decode(&record)
    else {
        return None;
    };
    let is_short = |text: &String| text.len() <= MAX_NAME_BYTES;
    let is_sane = labels.len() <= MAX_LABELS
        && labels
            .iter()
            .all(|(key, value)| is_short(key) && is_short(value));
    if !is_sane || !is_short(&name) {
        return None;
    }
    let kind = GroupKind::from_name(&kind).unwrap_or(GroupKind::Other);
    Some(GroupDefinition {
        kind,
        name,
        labels,
        is_fine,
    })
}
