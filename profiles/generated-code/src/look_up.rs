//! One look-up of names in the files of a process, within limits on bytes and time.
//!
//! Runs on a thread of its own ([`crate::patience`]). Invariants: a file is read only if it may be
//! used ([`crate::trust`]), up to the size that it had then; reading ends at the limit on bytes and
//! at the deadline, and the result says so.

use std::io::{self, BufReader, ErrorKind, Read, Seek, SeekFrom};
use std::time::{Duration, Instant};

use profiler_sys::ForeignFile;

use crate::code::GeneratedCode;
use crate::file_kind::{FileKind, Tally};
use crate::jitdump::{self, JitdumpError};
use crate::places::{Place, Places};
use crate::ranges::NamedRanges;
use crate::runtime_name::RuntimeName;
use crate::sys::{FileFacts, NamespacePid};
use crate::trust::Refusal;
use crate::{patience, perf_map};

/// How much longer than its limit a look-up may take: the time to open a file and start a thread.
const GRACE: Duration = Duration::from_secs(1);

/// Limits on one look-up.
#[derive(Clone, Copy, Debug)]
pub struct LookUpLimits {
    /// The bytes that are read.
    pub bytes: u64,
    /// The time that it takes.
    pub patience: Duration,
}

/// The result of a look-up.
#[derive(Debug)]
pub struct LookUp {
    pub(crate) ranges: NamedRanges,
    /// The bytes that were read.
    pub bytes: u64,
    /// Descriptions of what was left out.
    pub remarks: Vec<String>,
    /// Why the files of the process cannot be reached, if they cannot.
    pub unreachable: Option<String>,
}

impl GeneratedCode {
    /// Looks for the names of these addresses, which are ascending and distinct. Returns within
    /// the limits and a second.
    pub fn resolve(&self, addresses: &[u64], limits: LookUpLimits) -> LookUp {
        let code = self.clone();
        let wanted: Box<[u64]> = addresses.into();
        let look_up = move || LookUp::new(&wanted, &Places::of(&code), limits);
        let patience = limits.patience + GRACE;
        let found = match &self.files {
            Some(files) => files.within(patience, look_up),
            None => patience::within(patience, look_up),
        };
        found.unwrap_or_else(|error| {
            let mut nothing = LookUp::nothing(addresses);
            nothing.unreachable = Some(error.to_string());
            nothing
        })
    }
}

impl LookUp {
    /// A look-up without names.
    pub(crate) fn nothing(addresses: &[u64]) -> Self {
        Self {
            ranges: NamedRanges::new(addresses),
            bytes: 0,
            remarks: Vec::new(),
            unreachable: None,
        }
    }

    /// Looks for the names of these addresses, which are ascending and distinct.
    pub(crate) fn new(addresses: &[u64], places: &Places, limits: LookUpLimits) -> Self {
        let mut found = Self::nothing(addresses);
        let mut budget = Budget::new(limits);
        found.unreachable = places.unreachable();
        for kind in FileKind::ALL {
            found.read_first(kind, &places.all, &mut budget);
        }
        found.bytes = budget.read;
        found.remark_on_ranges();
        found
    }

    /// The name of the code at an address.
    pub fn name_at(&self, address: u64) -> Option<RuntimeName<'_>> {
        self.ranges.name_at(address).map(RuntimeName::parse)
    }

    /// Reads the first file of this kind that may be used. If no file may be used, remarks on the
    /// first of them.
    fn read_first(&mut self, kind: FileKind, places: &[Place], budget: &mut Budget) {
        let mut refused = None;
        for place in places.iter().filter(|place| place.kinds.contains(&kind)) {
            let name = kind.name(place.own_pid);
            let path = place.directory.path_to(&name).display().to_string();
            let Some(outcome) = Candidate::find(kind, &name, place).transpose() else {
                continue;
            };
            let outcome = outcome.and_then(|file| file.read(budget, &mut self.ranges));
            match outcome {
                Ok(outcome) => return self.remarks.extend(outcome.remarks(&path)),
                Err(why) => refused.get_or_insert(format!("{path} is not used: {why}")),
            };
        }
        self.remarks.extend(refused);
    }

    fn remark_on_ranges(&mut self) {
        let ranges = [
            (
                self.ranges.left_out(),
                "names of generated code are left out: too many",
            ),
            (
                self.ranges.nameless_moves(),
                "pieces of moved code have no names: no sample has an address of their former places",
            ),
        ];
        let ranges = ranges.iter().filter(|(count, _)| *count > 0);
        self.remarks
            .extend(ranges.map(|(count, what)| format!("{count} {what}")));
    }
}

/// Why a file is not used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NotUsed {
    /// The system cannot find, open or read it.
    #[error(transparent)]
    Unreadable(#[from] io::Error),
    /// It may belong to another user or process.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The kernel generates its content.
    #[error("it is not stored in a file system")]
    NotStored,
    /// It cannot be read as a jitdump.
    #[error(transparent)]
    Jitdump(#[from] JitdumpError),
}

/// A file that may be used.
pub(crate) struct Candidate {
    kind: FileKind,
    file: ForeignFile,
    pub(crate) facts: FileFacts,
    own_pid: NamespacePid,
}

impl Candidate {
    /// Opens a file of a place. `None` if there is no such file; otherwise fails with the reason
    /// for which it is not used.
    pub(crate) fn find(kind: FileKind, name: &str, place: &Place) -> Result<Option<Self>, NotUsed> {
        let found = match place.directory.find(name, place.is_trusted) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            found => found?,
        };
        let facts = crate::sys::facts_of_file(&found)?;
        place.terms.check(&facts)?;
        let file = found.open()?.ok_or(NotUsed::NotStored)?;
        Ok(Some(Self {
            kind,
            file,
            facts,
            own_pid: place.own_pid,
        }))
    }

    /// Reads the file into `ranges`, within the limits.
    pub(crate) fn read(
        self,
        budget: &mut Budget,
        ranges: &mut NamedRanges,
    ) -> Result<Outcome, NotUsed> {
        let bytes = self.facts.bytes.min(self.kind.largest());
        let limited = LimitedFile {
            file: self.file,
            budget,
        };
        let tally = match self.kind {
            FileKind::PerfMap => {
                let from = BufReader::with_capacity(1 << 16, limited.take(bytes));
                perf_map::read(from, ranges)?
            }
            FileKind::Jitdump => jitdump::read(limited, bytes, self.own_pid, ranges)?,
        };
        Ok(Outcome {
            tally,
            is_too_large: bytes < self.facts.bytes,
            ended: budget.ended,
        })
    }
}

/// What was read of a file.
#[derive(Debug)]
pub(crate) struct Outcome {
    tally: Tally,
    is_too_large: bool,
    ended: Option<End>,
}

impl Outcome {
    /// Descriptions of what was left out.
    fn remarks(&self, path: &str) -> Vec<String> {
        let part = match self.ended {
            Some(End::Bytes) => Some("the limit on the bytes of a capture is reached"),
            Some(End::Time) => Some("it takes too long"),
            None => (self.tally.is_cut || self.is_too_large).then_some("it is too large"),
        };
        let malformed = match self.tally.malformed {
            0 => None,
            1 => Some(format!("1 entry of {path} is not understood")),
            count => Some(format!("{count} entries of {path} are not understood")),
        };
        let part = part.map(|why| format!("{path} was read only in part: {why}"));
        malformed.into_iter().chain(part).collect()
    }
}

/// Why reading ended before the end of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Bytes,
    Time,
}

/// What a look-up may still read.
#[derive(Debug)]
pub(crate) struct Budget {
    left: u64,
    read: u64,
    deadline: Instant,
    ended: Option<End>,
}

impl Budget {
    /// Begins now.
    pub(crate) fn new(limits: LookUpLimits) -> Self {
        Self {
            left: limits.bytes,
            read: 0,
            deadline: now() + limits.patience,
            ended: None,
        }
    }

    /// Limits the next read to this number of bytes; 0 if reading must end.
    fn next(&mut self, wanted: usize) -> usize {
        let most = usize::try_from(self.left).unwrap_or(usize::MAX).min(wanted);
        if now() >= self.deadline {
            self.ended = Some(End::Time);
            return 0;
        }
        if most == 0 && wanted > 0 {
            self.ended = Some(End::Bytes);
        }
        most
    }

    fn spend(&mut self, bytes: usize) {
        let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
        self.left = self.left.saturating_sub(bytes);
        self.read = self.read.saturating_add(bytes);
    }
}

/// A file that seems to end when the budget is spent.
pub(crate) struct LimitedFile<'b, F> {
    pub(crate) file: F,
    pub(crate) budget: &'b mut Budget,
}

impl<F: Read> Read for LimitedFile<'_, F> {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        let most = self.budget.next(room.len());
        let got = match room.get_mut(..most) {
            Some(room) => self.file.read(room)?,
            None => 0,
        };
        self.budget.spend(got);
        Ok(got)
    }
}

impl<F: Seek> Seek for LimitedFile<'_, F> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.file.seek(to)
    }
}

/// The system's time, for the limits on look-ups.
#[allow(clippy::disallowed_methods)] // compared with itself only
fn now() -> Instant {
    Instant::now()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn budget(bytes: u64, patience: Duration) -> Budget {
        Budget::new(LookUpLimits { bytes, patience })
    }

    /// Reads lines without end.
    fn read_endless(budget: &mut Budget) -> Tally {
        let file = io::repeat(b'\n');
        let from = BufReader::new(LimitedFile { file, budget });
        perf_map::read(from, &mut NamedRanges::new(&[])).unwrap()
    }

    #[test]
    fn a_file_without_end_is_read_up_to_the_limit_on_bytes() {
        let mut budget = budget(100_000, Duration::from_secs(600));
        assert!(!read_endless(&mut budget).is_cut);
        assert_eq!((budget.read, budget.ended), (100_000, Some(End::Bytes)));
    }

    #[test]
    fn a_file_is_read_up_to_the_deadline() {
        let mut budget = budget(u64::MAX, Duration::ZERO);
        read_endless(&mut budget);
        assert_eq!((budget.read, budget.ended), (0, Some(End::Time)));
    }

    #[test]
    fn what_was_read_in_part_is_described_once() {
        let of = |malformed, is_cut, ended| {
            let tally = Tally {
                malformed,
                is_cut,
                ..Tally::default()
            };
            let outcome = Outcome {
                tally,
                is_too_large: is_cut,
                ended,
            };
            outcome.remarks("f").join("; ")
        };
        assert_eq!(of(0, false, None), "");
        let one = "1 entry of f is not understood; f was read only in part: it is too large";
        assert_eq!(of(1, true, None), one);
        let two = "2 entries of f are not understood; f was read only in part: it takes too long";
        assert_eq!(of(2, true, Some(End::Time)), two);
        assert!(of(0, false, Some(End::Bytes)).ends_with("bytes of a capture is reached"));
    }
}
