//! Samples in the processed format: columns, and one table of stacks for all threads.

use std::sync::Arc;

use anyhow::Context;
use serde_json::Value;

use super::{Sample, Samples, Stacks, index};

impl Stacks {
    /// Parses the stacks of a profile.
    pub(crate) fn of_processed(profile: &Value) -> anyhow::Result<Self> {
        Self::parse(profile).context("a damaged table of stacks")
    }

    fn parse(profile: &Value) -> Option<Self> {
        let shared = &profile["shared"];
        let column = |table: &str, name: &str| shared[table][name].as_array();
        let addresses = column("frameTable", "address")?.iter();
        let depths = column("frameTable", "inlineDepth")?;
        let rows = addresses.zip(depths).zip(column("frameTable", "func")?);
        let frames = rows.map(|((address, depth), func)| match depth.as_u64()? {
            0 => frame_name(profile, address, func).map(Some),
            _ => Some(None),
        });
        let callers = column("stackTable", "prefix")?.iter();
        let stacks = callers.zip(column("stackTable", "frame")?);
        let stacks = stacks.map(|(caller, frame)| Some((index(caller), index(frame)?)));
        Some(Self {
            frames: frames.collect::<Option<_>>()?,
            all: stacks.collect::<Option<_>>()?,
        })
    }
}

/// The name of a frame that is not inlined.
fn frame_name(profile: &Value, address: &Value, func: &Value) -> Option<String> {
    let shared = &profile["shared"];
    let func = index(func)?;
    let resource = shared["funcTable"]["resource"].get(func)?;
    if let (Some(address), Some(resource)) = (address.as_u64(), index(resource)) {
        let lib = index(shared["resourceTable"]["lib"].get(resource)?)?;
        let name = profile["libs"].get(lib)?["name"].as_str()?;
        return Some(format!("{name}+{address:#x}"));
    }
    let name = index(shared["funcTable"]["name"].get(func)?)?;
    Some(shared["stringArray"].get(name)?.as_str()?.to_owned())
}

impl Samples {
    /// Parses the samples of a thread. `None` if a column is missing or damaged.
    pub(crate) fn of_processed(thread: &Value, stacks: &Arc<Stacks>) -> Option<Self> {
        let table = &thread["samples"];
        let len = usize::try_from(table["length"].as_u64()?).ok()?;
        let column = |name: &str| table[name].as_array().filter(|rows| rows.len() == len);
        let times = column("timeDeltas")?.iter().scan(0.0, |time, delta| {
            *time += delta.as_f64()?;
            Some(*time)
        });
        // Without this column, no processor time was measured.
        let cpu = column("threadCPUDelta").into_iter().flatten();
        let cpu = cpu.map(Value::as_u64).chain(std::iter::repeat(None));
        let rows = times.zip(column("stack")?).zip(cpu);
        let all = rows.map(|((time, stack), cpu_ns)| Sample {
            time,
            cpu_ns,
            stack: index(stack),
        });
        Some(Self {
            all: all.collect(),
            stacks: Arc::clone(stacks),
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn frames_have_the_names_of_labels_or_offsets_and_inlined_functions_have_none() {
        let profile = json!({
            "libs": [{"name": "a.so"}],
            "shared": {
                "stringArray": ["label", "f", "inlined", "0x10"],
                "resourceTable": {"lib": [0]},
                "funcTable": {"name": [0, 1, 2, 3], "resource": [-1, 0, 0, -1]},
                "frameTable": {
                    "address": [-1, 0x1010, 0x1010, -1], "inlineDepth": [0, 0, 1, 0],
                    "func": [0, 1, 2, 3],
                },
                "stackTable": {"frame": [0, 1, 2, 3], "prefix": [null, 0, 1, null]},
            },
        });
        let thread = json!({"samples": {
            "length": 3, "timeDeltas": [0.5, 1.0, 1.0], "stack": [2, null, 3],
            "threadCPUDelta": [7, null, 1],
        }});
        let stacks = Arc::new(Stacks::of_processed(&profile).unwrap());
        let samples = Samples::of_processed(&thread, &stacks).unwrap();
        let [first, second, third] = samples.all[..] else {
            panic!("{samples:?}");
        };
        assert_eq!(samples.stack(&first), ["label", "a.so+0x1010"]);
        assert_eq!((first.time, first.cpu_ns), (0.5, Some(7)));
        assert!(samples.stack(&second).is_empty());
        assert_eq!((samples.stack(&third), third.time), (vec!["0x10"], 2.5));
        assert_eq!(samples.of(|name| name == "label"), (1, 0));
    }
}
