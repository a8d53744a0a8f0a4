//! Samples in the Gecko format: each thread has its own tables of frames and stacks.

use std::sync::Arc;

use anyhow::Context;
use serde_json::Value;

use super::{Sample, Samples, Stacks, index};

impl Samples {
    /// Parses the samples of a thread of a process with these libraries.
    pub(crate) fn of_gecko(thread: &Value, libs: &Value) -> anyhow::Result<Self> {
        if thread.get("samples").is_none() {
            return Ok(Self::default()); // a child may omit them from its part
        }
        let rows = |table: &str| {
            thread[table]["data"]
                .as_array()
                .with_context(|| format!("no {table}"))
        };
        let frame = |row: &Value| frame_name(row, &thread["stringTable"], libs).map(Some);
        let stack = |row: &Value| Some((index(&row[0]), index(&row[1])?));
        let sample = |row: &Value| {
            Some(Sample {
                time: row[1].as_f64()?,
                cpu_ns: row[3].as_u64(),
                stack: index(&row[0]),
            })
        };
        let all = rows("samples")?.iter().map(sample);
        let frames = rows("frameTable")?.iter().map(frame);
        let stacks = rows("stackTable")?.iter().map(stack);
        Ok(Self {
            all: all.collect::<Option<_>>().context("a damaged sample")?,
            stacks: Arc::new(Stacks {
                frames: frames.collect::<Option<_>>().context("a damaged frame")?,
                all: stacks.collect::<Option<_>>().context("a damaged stack")?,
            }),
        })
    }
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
        let samples = Samples::of_gecko(&thread, &libs)?;
        assert_eq!(samples.stack(&samples.all[0]), ["label", "a.so+0x1010"]);
        assert_eq!((samples.all[0].time, samples.all[0].cpu_ns), (0.5, Some(7)));
        assert!(samples.stack(&samples.all[1]).is_empty());
        assert_eq!(samples.of(|name| name == "label"), (2, 1));
        Ok(())
    }
}
