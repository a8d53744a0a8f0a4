//! The samples of a thread in a saved profile, with their stacks as names.
//!
//! Parsed by [`crate::profile`]. The name of a label frame is the label. The name of a code frame
//! is `library+0x12`, relative to the address of the library's byte 0, or `0x12` if the address is
//! in no library.

use anyhow::Context;
use serde_json::Value;

/// One sample.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sample {
    /// Milliseconds since the session began.
    pub time: f64,
    /// Processor time since the previous sample, in nanoseconds.
    pub cpu_ns: Option<u64>,
    stack: Option<usize>,
}

/// The samples of one thread.
#[derive(Debug, Default)]
pub struct Samples {
    /// In the order of the file.
    pub all: Vec<Sample>,
    frames: Vec<String>,
    /// For each stack, the stack of its caller and its innermost frame.
    stacks: Vec<(Option<usize>, usize)>,
}

impl Samples {
    /// Parses the samples of a thread of a process with these libraries.
    pub(crate) fn parse(thread: &Value, libs: &Value) -> anyhow::Result<Self> {
        if thread.get("samples").is_none() {
            return Ok(Self::default()); // a child may omit them from its part
        }
        let rows = |table: &str| {
            thread[table]["data"]
                .as_array()
                .with_context(|| format!("no {table}"))
        };
        let frame = |row: &Value| frame_name(row, &thread["stringTable"], libs);
        let stack = |row: &Value| Some((index(&row[0]), index(&row[1])?));
        let sample = |row: &Value| {
            Some(Sample {
                time: row[1].as_f64()?,
                cpu_ns: row[3].as_u64(),
                stack: index(&row[0]),
            })
        };
        Ok(Self {
            all: rows("samples")?
                .iter()
                .map(sample)
                .collect::<Option<_>>()
                .context("a damaged sample")?,
            frames: rows("frameTable")?
                .iter()
                .map(frame)
                .collect::<Option<_>>()
                .context("a damaged frame")?,
            stacks: rows("stackTable")?
                .iter()
                .map(stack)
                .collect::<Option<_>>()
                .context("a damaged stack")?,
        })
    }

    /// Returns the stack of a sample, outermost frame first.
    pub fn stack(&self, sample: &Sample) -> Vec<&str> {
        let mut names = Vec::new();
        let mut next = sample.stack;
        while let Some((caller, frame)) = next.and_then(|stack| self.stacks.get(stack)) {
            names.push(self.frames.get(*frame).map_or("", String::as_str));
            next = *caller;
        }
        names.reverse();
        names
    }

    /// Returns how many samples have the function anywhere in their stack, and how many have it as
    /// the innermost frame.
    pub fn of(&self, is_function: impl Fn(&str) -> bool) -> (usize, usize) {
        let stacks = self.all.iter().map(|sample| self.stack(sample));
        stacks.fold((0, 0), |(total, own), stack| {
            let is_in = stack.iter().any(|name| is_function(name));
            let is_last = stack.last().is_some_and(|name| is_function(name));
            (total + usize::from(is_in), own + usize::from(is_last))
        })
    }
}

fn index(value: &Value) -> Option<usize> {
    value
        .as_u64()
        .and_then(|number| usize::try_from(number).ok())
}

fn frame_name(row: &Value, strings: &Value, libs: &Value) -> Option<String> {
    let location = strings.get(index(&row[0])?)?.as_str()?;
    let address = location
        .strip_prefix("0x")
        .and_then(|digits| u64::from_str_radix(digits, 16).ok());
    Some(
        address
            .and_then(|address| in_library(address, libs))
            .unwrap_or_else(|| location.to_owned()),
    )
}

fn in_library(address: u64, libs: &Value) -> Option<String> {
    libs.as_array()?.iter().find_map(|lib| {
        let number = |key: &str| lib[key].as_u64();
        let start = number("start")?;
        let end = number("end")?;
        let offset = number("offset")?;
        let relative = (start..end)
            .contains(&address)
            .then(|| address - (start - offset))?;
        Some(format!("{}+{relative:#x}", lib["name"].as_str()?))
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn frames_are_named_by_label_or_by_offset_in_a_library() -> anyhow::Result<()> {
        let libs = json!([{"name": "a.so", "start": 0x2000, "end": 0x3000, "offset": 0x1000}]);
        let thread = json!({
            "samples": {"data": [[1, 0.5, 0, 7], [null, 1.5, 0, null], [0, 2.5, 0, 1]]},
            "stackTable": {"data": [[null, 0], [0, 1], [1, 2]]},
            "frameTable": {"data": [[1], [0], [2]]},
            "stringTable": ["0x2010", "label", "0x10"],
        });
        let samples = Samples::parse(&thread, &libs)?;
        assert_eq!(samples.stack(&samples.all[0]), ["label", "a.so+0x1010"]);
        assert_eq!((samples.all[0].time, samples.all[0].cpu_ns), (0.5, Some(7)));
        assert!(samples.stack(&samples.all[1]).is_empty());
        assert_eq!(samples.of(|name| name == "label"), (2, 1));
        Ok(())
    }
}
