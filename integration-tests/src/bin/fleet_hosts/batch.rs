//! A recorded profile that can be moved in time.
//!
//! Used by each host. A profile states when its session began, in two members of `meta`; everything
//! else in it is relative to that instant. So one recording, moved, stands for the batches of many
//! periods.

use std::fs;
use std::io::{Read, Write};
use std::ops::Range;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};
use flate2::read::MultiGzDecoder;

/// A profile, and where its text states the start of the session.
#[derive(Debug)]
pub(crate) struct RecordedBatch {
    text: String,
    start_ms: Range<usize>,
    start_ns: Range<usize>,
    /// From the start of the session to the end of the recording.
    length: Duration,
}

impl RecordedBatch {
    /// Reads a profile in the processed format, compressed or not.
    pub(crate) fn read(path: &Path) -> Result<Self> {
        let bytes = fs::read(path).with_context(|| path.display().to_string())?;
        let mut text = String::new();
        if bytes.starts_with(&[0x1f, 0x8b]) {
            MultiGzDecoder::new(bytes.as_slice()).read_to_string(&mut text)?;
        } else {
            text = String::from_utf8(bytes)?;
        }
        let end: f64 = number(&text, "profilingEndTime").and_then(|at| value(&text, at))?;
        Ok(Self {
            start_ms: number(&text, "startTime")?,
            start_ns: number(&text, "startUnixNs")?,
            length: Duration::from_secs_f64(end.max(0.0) / 1e3),
            text,
        })
    }

    /// Writes the profile as if it ended now.
    pub(crate) fn write_ending_now(&self, to: &Path) -> Result<()> {
        #[allow(clippy::disallowed_methods)] // the time in the profile is that of the wall clock
        let now = SystemTime::now().duration_since(UNIX_EPOCH)?;
        let start = now.saturating_sub(self.length);
        let mut changes = [
            (
                self.start_ms.clone(),
                format!("{:.3}", start.as_secs_f64() * 1e3),
            ),
            (self.start_ns.clone(), start.as_nanos().to_string()),
        ];
        changes.sort_by_key(|(at, _)| at.start);
        let mut file = fs::File::create(to)?;
        let mut done = 0;
        for (at, new) in changes {
            let before = self.text.get(done..at.start).unwrap_or_default();
            file.write_all(before.as_bytes())?;
            file.write_all(new.as_bytes())?;
            done = at.end;
        }
        file.write_all(self.text.get(done..).unwrap_or_default().as_bytes())?;
        Ok(())
    }
}

/// Where the text has a number as this member for the first time. Columns have the same names, but
/// are lists.
fn number(text: &str, member: &str) -> Result<Range<usize>> {
    let key = format!("\"{member}\":");
    let length = |begin: usize| {
        let rest = text.get(begin..).unwrap_or_default();
        let is_number = |letter: char| letter.is_ascii_digit() || ".eE+-".contains(letter);
        rest.find(|letter| !is_number(letter)).unwrap_or(0)
    };
    let mut places = text.match_indices(&key).map(|(at, _)| at + key.len());
    let found =
        places.find_map(|begin| Some((begin, length(begin))).filter(|(_, length)| *length > 0));
    let (begin, length) = found.with_context(|| format!("the profile has no {member}"))?;
    Ok(begin..begin + length)
}

fn value(text: &str, at: Range<usize>) -> Result<f64> {
    let number = text.get(at).unwrap_or_default();
    number
        .parse()
        .with_context(|| format!("not a number: {number:?}"))
}
