//! The result of a comparison, as `--json` prints it.
//!
//! Created by [`mod@super::compare`], printed by [`super::table`].

use std::ops::AddAssign;

use serde::Serialize;

use crate::profile::Time;

/// The differences between two lists of runs. The numbers of a side are means over its runs; its
/// shares and quantiles are those of all its runs together.
#[derive(Debug, Serialize)]
pub(super) struct Comparison {
    pub(super) files: Sides<Vec<String>>,
    /// The differences from which the intervals come: between `runs`, or between `slices of time`.
    pub(super) noise: &'static str,
    /// The time by which functions are ranked.
    #[serde(serialize_with = "time_name")]
    pub(super) by: Time,
    pub(super) processes: Vec<ProcessChange>,
}

/// A value of each side.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(super) struct Sides<T> {
    pub(super) before: T,
    pub(super) after: T,
}

impl<T> Sides<T> {
    /// Another value for that of each side.
    pub(super) fn map<U>(self, of: impl Fn(T) -> U) -> Sides<U> {
        Sides {
            before: of(self.before),
            after: of(self.after),
        }
    }

    /// The values as references.
    pub(super) const fn as_ref(&self) -> Sides<&T> {
        Sides {
            before: &self.before,
            after: &self.after,
        }
    }

    /// Both values of each side.
    pub(super) fn zip<U>(self, other: Sides<U>) -> Sides<(T, U)> {
        Sides {
            before: (self.before, other.before),
            after: (self.after, other.after),
        }
    }
}

impl<T: AddAssign> AddAssign for Sides<T> {
    fn add_assign(&mut self, other: Self) {
        self.before += other.before;
        self.after += other.after;
    }
}

/// The differences between the processes with one name.
#[derive(Debug, Serialize)]
pub(super) struct ProcessChange {
    pub(super) name: String,
    /// The number of processes.
    pub(super) processes: Sides<f64>,
    /// Processor time; `None` if a run has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) cpu_ms: Option<Sides<f64>>,
    /// Time, running or waiting.
    pub(super) wall_ms: Sides<f64>,
    /// The functions whose share changed, those first whose share without callees changed most.
    pub(super) functions: Vec<FunctionChange>,
    pub(super) markers: Vec<MarkerChange>,
    pub(super) memory: Vec<MemoryChange>,
    /// All recorded entries.
    pub(super) recorded: Sides<f64>,
    /// The recorded entries that are lost.
    pub(super) lost: Sides<f64>,
}

/// The differences of a function's shares.
#[derive(Debug, Serialize)]
pub(super) struct FunctionChange {
    pub(super) function: String,
    /// Shares of the processor time; `None` if a run has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) cpu: Option<ShareChanges>,
    /// Shares of the time, running or waiting.
    pub(super) wall: ShareChanges,
}

/// The differences of a function's shares of one kind of time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct ShareChanges {
    /// Of the function itself.
    #[serde(rename = "self")]
    pub(super) own: ShareChange,
    /// With all functions that it calls.
    pub(super) total: ShareChange,
}

/// The difference of a share.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct ShareChange {
    pub(super) before_percent: f64,
    pub(super) after_percent: f64,
    /// The time, as a mean over the runs.
    pub(super) before_ms: f64,
    pub(super) after_ms: f64,
    /// Whether the change is large enough to be shown.
    #[serde(skip)]
    pub(super) is_shown: bool,
    /// The 99 % interval of the change in percentage points, not corrected for the number of
    /// functions; `None` if both shares are too small, or if there are too few samples or runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) interval_points: Option<(f64, f64)>,
    /// The p-value of the change, corrected for the number of functions that were tested (see
    /// [`super::many_tests`]). `None` if there is no interval.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) adjusted_probability: Option<f64>,
    /// Whether the corrected p-value is at most 1 %.
    pub(super) is_more_than_noise: bool,
    /// Whether the time grew, too, by more than noise. A share also grows if other functions take
    /// less time.
    pub(super) takes_more_time: bool,
}

/// The differences of the markers with one name.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct MarkerChange {
    pub(super) marker: String,
    pub(super) count: Sides<f64>,
    /// `None` for a side without intervals.
    pub(super) median_ms: Sides<Option<f64>>,
    /// `None` for a side without intervals.
    pub(super) p95_ms: Sides<Option<f64>>,
    /// The sum of the durations.
    pub(super) total_ms: Sides<f64>,
}

/// The difference of a memory counter's highest value: the sum over all processes with one name.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct MemoryChange {
    pub(super) counter: String,
    pub(super) highest_bytes: Sides<f64>,
}

fn time_name<S: serde::Serializer>(time: &Time, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(match time {
        Time::Cpu => "cpu",
        Time::Wall => "wall",
    })
}

impl Comparison {
    /// The functions whose share of the time by which they are ranked grew by more than `points`,
    /// and by more than noise, because they take more time: the name of their processes, their
    /// name, and the share that grew more.
    pub(super) fn grown(&self, points: f64) -> impl Iterator<Item = (&str, &str, ShareChange)> {
        self.processes.iter().flat_map(move |process| {
            process.functions.iter().filter_map(move |function| {
                let shares = function.shares(self.by)?;
                let grown = [shares.own, shares.total]
                    .into_iter()
                    .filter(|share| share.has_grown() && share.points() > points);
                let most = grown.max_by(|one, other| one.points().total_cmp(&other.points()))?;
                Some((process.name.as_str(), function.function.as_str(), most))
            })
        })
    }
}

impl FunctionChange {
    /// The shares of this kind of time.
    pub(super) const fn shares_mut(&mut self, time: Time) -> Option<&mut ShareChanges> {
        match time {
            Time::Cpu => self.cpu.as_mut(),
            Time::Wall => Some(&mut self.wall),
        }
    }

    /// Whether a share changed enough to be shown.
    pub(super) fn is_shown(&self) -> bool {
        let shares = self.cpu.iter().chain([&self.wall]);
        shares
            .flat_map(ShareChanges::both)
            .any(|share| share.is_shown)
    }

    /// The shares of this kind of time.
    pub(super) const fn shares(&self, time: Time) -> Option<&ShareChanges> {
        match time {
            Time::Cpu => self.cpu.as_ref(),
            Time::Wall => Some(&self.wall),
        }
    }
}

impl ShareChanges {
    /// Of the function itself, and with all functions that it calls.
    pub(super) const fn both(&self) -> [&ShareChange; 2] {
        [&self.own, &self.total]
    }

    /// Of the function itself, and with all functions that it calls.
    pub(super) const fn both_mut(&mut self) -> [&mut ShareChange; 2] {
        [&mut self.own, &mut self.total]
    }

    /// The larger change of both shares, without its sign.
    pub(super) fn largest_points(&self) -> f64 {
        self.own.points().abs().max(self.total.points().abs())
    }
}

impl ShareChange {
    /// Whether the function takes a larger share because it takes more time, beyond noise.
    const fn has_grown(&self) -> bool {
        self.is_more_than_noise && self.takes_more_time
    }

    /// The change in percentage points.
    pub(super) const fn points(&self) -> f64 {
        self.after_percent - self.before_percent
    }
}
