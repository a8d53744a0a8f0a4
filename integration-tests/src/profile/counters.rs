//! The counters of a process, with their changes.
//!
//! Parsed by [`super::gecko`] and [`super::processed`].

use anyhow::Context;
use serde_json::Value;

/// One counter of a process.
#[derive(Clone, Debug)]
pub struct Counter {
    /// Name.
    pub name: String,
    /// Category.
    pub category: String,
    /// In the order of the file.
    pub changes: Vec<CounterChange>,
}

/// One row of a counter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CounterChange {
    /// Milliseconds since the session began.
    pub time: f64,
    /// The amount that was added since the previous row.
    pub count: f64,
    /// The number of additions since the previous row.
    pub number: u64,
}

impl Counter {
    /// Parses the counters of a part in the Gecko format. A part may omit them.
    pub(super) fn of_gecko(part: &Value) -> anyhow::Result<Vec<Self>> {
        let all = part["counters"].as_array().into_iter().flatten();
        let rows = |counter: &Value| {
            let rows = counter["samples"]["data"].as_array()?.iter();
            rows.map(|row| CounterChange::parse(row[0].as_f64()?, &row[1], &row[2]))
                .collect()
        };
        all.map(|counter| Self::parse(counter, rows(counter)))
            .collect::<Option<_>>()
            .context("a damaged counter")
    }

    /// Parses the counters of the process with this id in the processed format.
    pub(super) fn of_processed(profile: &Value, pid: &str) -> anyhow::Result<Vec<Self>> {
        let all = profile["counters"].as_array().context("no counters")?;
        let own = all.iter().filter(|counter| counter["pid"] == pid);
        own.map(|counter| Self::parse(counter, changes(&counter["samples"])))
            .collect::<Option<_>>()
            .context("a damaged counter")
    }

    fn parse(counter: &Value, changes: Option<Vec<CounterChange>>) -> Option<Self> {
        let text = |key: &str| counter[key].as_str().map(str::to_owned);
        Some(Self {
            name: text("name")?,
            category: text("category")?,
            changes: changes?,
        })
    }
}

/// The rows of a table of columns in the processed format.
fn changes(samples: &Value) -> Option<Vec<CounterChange>> {
    let len = usize::try_from(samples["length"].as_u64()?).ok()?;
    let column = |name: &str| samples[name].as_array().filter(|rows| rows.len() == len);
    let [deltas, counts, numbers] = ["timeDeltas", "count", "number"].map(column);
    let mut time = 0.0;
    let rows = deltas?.iter().zip(counts?).zip(numbers?);
    rows.map(|((delta, count), number)| {
        time += delta.as_f64()?;
        CounterChange::parse(time, count, number)
    })
    .collect()
}

impl CounterChange {
    fn parse(time: f64, count: &Value, number: &Value) -> Option<Self> {
        Some(Self {
            time,
            count: count.as_f64()?,
            number: number.as_u64()?,
        })
    }
}
