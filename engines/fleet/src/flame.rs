//! The flame graph of a fleet: all stacks of an answer, and the files that can be made of it.

use std::io::BufRead;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::answer::RowReader;
use super::{FleetError, FleetFilter, FleetQuery, FleetStore};
use profiler_export::stack_profile::{WeightedStack, write_folded, write_profile};

/// A stack of a fleet.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct FleetStack {
    /// The names of the functions, the outermost first. Empty if the store has no names for it.
    pub path: Vec<String>,
    /// The number of samples.
    #[serde(deserialize_with = "super::query::count")]
    pub samples: u64,
    /// Microseconds that threads spent in it, running or not.
    #[serde(deserialize_with = "super::query::count")]
    pub wall_us: u64,
    /// Microseconds of processor time.
    #[serde(deserialize_with = "super::query::count")]
    pub cpu_us: u64,
}

/// Which time of a stack counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StackTime {
    /// Processor time.
    #[default]
    Cpu,
    /// Wall time.
    Wall,
}

impl FleetStack {
    /// Microseconds of the chosen time.
    pub const fn us(&self, time: StackTime) -> u64 {
        match time {
            StackTime::Cpu => self.cpu_us,
            StackTime::Wall => self.wall_us,
        }
    }
}

/// The stacks of a fleet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FleetFlame {
    /// The stacks, those with the most processor time first.
    pub stacks: Vec<FleetStack>,
    /// Whether the store has more stacks than were asked for.
    pub is_cut: bool,
}

impl FleetFlame {
    /// Asks for at most `most` stacks.
    ///
    /// # Errors
    /// [`FleetError`].
    pub fn ask(store: &FleetStore, filter: &FleetFilter, most: usize) -> Result<Self, FleetError> {
        let limit = (most as u64).saturating_add(1);
        let mut stacks = Vec::new();
        let parameters = filter.parameters(limit);
        store.ask(FleetQuery::Flame, &parameters, |row| stacks.push(row))?;
        let is_cut = stacks.len() > most;
        stacks.truncate(most);
        Ok(Self { stacks, is_cut })
    }

    /// Writes folded stacks if the name of `to` ends in `.folded`, otherwise a profile in the
    /// processed format, compressed if it ends in `.gz`. The profile has one thread, whose stacks
    /// follow one after the other, each as long as its time.
    ///
    /// # Errors
    /// [`FleetError::Export`]; `to` is unchanged then.
    pub fn write(&self, to: &Path, name: &str, time: StackTime) -> Result<u64, FleetError> {
        let stacks = self.stacks.iter().map(|stack| WeightedStack {
            path: &stack.path,
            us: stack.us(time),
        });
        let is_folded = to.extension().is_some_and(|ending| ending == "folded");
        let bytes = match is_folded {
            true => write_folded(stacks, to)?,
            false => write_profile(stacks, name, to)?,
        };
        Ok(bytes)
    }
}

/// The number of stacks in an answer to [`FleetQuery::Flame`]. The bytes may be arbitrary. Used by
/// the test and the fuzz target of untrusted answers.
///
/// # Errors
/// [`FleetError`] as of a query.
#[doc(hidden)]
pub fn count_stacks(answer: impl BufRead) -> Result<u64, FleetError> {
    let mut rows = RowReader::new(answer, "a foreign server".to_owned(), u64::MAX);
    let mut count = 0;
    while rows.next_row::<FleetStack>()?.is_some() {
        count += 1;
    }
    Ok(count)
}
