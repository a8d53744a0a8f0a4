//! Gecko profiles of damaged pools: an error, or a profile that a viewer can load.

use std::cell::Cell;
use std::collections::BTreeMap;

use profiler_core::ids::ThreadId;
use profiler_core::internal::reader::{ByteSource, ModuleDefinition, PoolReader};
use profiler_core::marker::{MarkerOptions, add_untyped_marker, category};
use profiler_core::sampler::{self, Frame, Sample, SampleWriter};
use profiler_core::session;
use profiler_core::time::Timestamp;
use profiler_core::{marker, text_marker};
use profiler_gecko::FailureLatch;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use serde_json::Value;
use test_support::own_process;

use super::{Job, QUEUED, spec, write};
use crate::support::RunningSession;

const PAGE: usize = 4096;

/// A copy of a pool that keeps only the pages that are not empty.
struct PoolCopy {
    pages: BTreeMap<u64, Vec<u8>>,
    len: u64,
}

impl PoolCopy {
    fn take() -> Self {
        let file = session::pool_file().unwrap();
        let len = file.len().unwrap();
        let mut pages = BTreeMap::new();
        for offset in (0..len).step_by(PAGE) {
            let mut page = vec![0; PAGE];
            file.read_at(&mut page, offset).unwrap();
            if page.iter().any(|byte| *byte != 0) {
                pages.insert(offset, page);
            }
        }
        Self { pages, len }
    }

    fn byte_mut(&mut self, number: usize) -> &mut u8 {
        let page = self.pages.values_mut().nth(number / PAGE).unwrap();
        &mut page[number % PAGE]
    }
}

impl ByteSource for PoolCopy {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> std::io::Result<()> {
        if offset
            .checked_add(buffer.len() as u64)
            .is_none_or(|end| end > self.len)
        {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        buffer.fill(0);
        let mut done = 0;
        while done < buffer.len() {
            let at = offset + done as u64;
            let within = (at % PAGE as u64) as usize;
            let count = (PAGE - within).min(buffer.len() - done);
            if let Some(page) = self.pages.get(&(at - within as u64)) {
                buffer[done..done + count].copy_from_slice(&page[within..within + count]);
            }
            done += count;
        }
        Ok(())
    }

    fn len(&self) -> std::io::Result<u64> {
        Ok(self.len)
    }
}

fn record_samples() {
    let file = |path: &str, start: u64| ModuleDefinition {
        path: path.to_owned(),
        build_id: vec![1; 20],
        base: start,
        start,
        end: start + 0x9000,
    };
    let modules = [
        file("/lib/a.so", 0x7f00_0000_0000),
        file("/lib/b.so", 0x7f00_0000_8000),
    ]
    .map(|module| sampler::define_module(&module).unwrap());
    let label = sampler::define_label("label", category::IO.sub(1), "src/a.rs", 7).unwrap();
    let mut writer = SampleWriter::new();
    for number in 0..60 {
        let thread = ThreadId::new(u64::from(std::process::id()) + number % 2);
        let code =
            |level: u64| Frame::Code(modules[level as usize % 2], level * 0x100 + number % 3);
        let mut frames: Vec<_> = (0..number % 6).map(code).collect();
        frames.extend([Frame::Label(label), Frame::Unknown(number)]);
        let cut = number % 7 == 0;
        writer.sample(
            thread,
            &Sample {
                at: Timestamp::now(),
                cpu_ns: Some(1),
                frames: &frames,
                cut,
                failed: false,
            },
        );
        writer.same_as_before(thread, Timestamp::now());
    }
}

fn record_every_kind_of_entry() {
    QUEUED.add(1);
    record_samples();
    for number in 0..20 {
        marker!("plain");
        text_marker!("text", &category::IO, MarkerOptions::default(), "some text");
        add_untyped_marker(
            &number.to_string(),
            &category::TEST,
            MarkerOptions::interval_start(),
        );
        let rows = vec![("a", number)];
        let steps = ["one", "two"];
        let stacks = "";
        let job = Job {
            title: "t",
            missing: Some(1),
            flow: 1,
            single: 1,
            steps,
            rows,
            stacks,
            ratio: 0.5,
        };
        marker!("typed", &category::IPC, MarkerOptions::default(), &job);
    }
}

/// Checks the properties that every viewer relies on. They must hold for a damaged pool, too.
pub(super) fn assert_loadable(profile: &Value) {
    let threads = profile["threads"].as_array().unwrap();
    assert!(threads.iter().any(|thread| thread["name"] == "GeckoMain"));
    let categories = profile["meta"]["categories"].as_array().unwrap().len() as u64;
    for thread in threads {
        let strings = thread["stringTable"].as_array().unwrap().len() as u64;
        for row in thread["markers"]["data"].as_array().unwrap() {
            assert!(row[0].as_u64().unwrap() < strings);
            assert!(row[1].is_number() || row[2].is_number());
            assert!(row[3].as_u64().unwrap() < 4 && row[4].as_u64().unwrap() < categories);
            assert!(
                row.get(5).is_none_or(|data| data["type"].is_string() && is_stack(thread, &data["stack"]))
            );
        }
        assert_stacks_loadable(thread, strings, categories);
    }
    assert_libs_loadable(profile["libs"].as_array().unwrap());
}

/// Whether a marker has no stack, or a stack that is in the table.
fn is_stack(thread: &Value, stack: &Value) -> bool {
    let stacks = thread["stackTable"]["data"].as_array().unwrap().len() as u64;
    stack.is_null()
        || stack["samples"]["data"][0][0]
            .as_u64()
            .is_some_and(|stack| stack < stacks)
}

fn assert_stacks_loadable(thread: &Value, strings: u64, categories: u64) {
    let table = |key: &str| thread[key]["data"].as_array().unwrap();
    let stacks = table("stackTable");
    let frames = table("frameTable");
    let is_below =
        |index: &Value, end: usize| index.as_u64().is_none_or(|index| index < end as u64);
    for (number, row) in stacks.iter().enumerate() {
        assert!(
            is_below(&row[0], number) && row[1].is_u64() && is_below(&row[1], frames.len()),
            "{row}"
        );
    }
    for row in frames {
        assert!(
            row[0].as_u64().unwrap() < strings && is_below(&row[6], categories as usize),
            "{row}"
        );
        assert!(row[6].is_null() == row[7].is_null());
    }
    let mut last = -1e20_f64;
    for row in table("samples") {
        // serde_json does not parse the last digit of a long number exactly.
        let at = row[1].as_f64().unwrap();
        let slack = last.abs() * 1e-14;
        assert!(
            is_below(&row[0], stacks.len()) && at >= last - slack,
            "{row} after {last}"
        );
        last = at;
    }
}

fn assert_libs_loadable(libs: &[Value]) {
    let mut last = 0;
    for lib in libs {
        let [start, end, offset] = ["start", "end", "offset"].map(|key| lib[key].as_u64().unwrap());
        assert!(
            last <= start && start < end && offset <= start && end < 1 << 53,
            "{lib}"
        );
        last = end;
    }
}

#[test]
fn a_damaged_pool_gives_an_error_or_a_loadable_profile() {
    own_process!();
    let _session = RunningSession::with_limit(1 << 20);
    record_every_kind_of_entry();
    let intact = PoolCopy::take();
    let mut runner = TestRunner::new(Config {
        cases: 1_000,
        ..Config::default()
    });
    let bytes = intact.pages.len() * PAGE;
    let patches = prop::collection::vec((0..bytes, any::<u8>()), 1..40);
    let loaded = Cell::new(0);
    let result = runner.run(&patches, |patches| {
        let mut damaged = PoolCopy {
            pages: intact.pages.clone(),
            len: intact.len,
        };
        patches
            .into_iter()
            .for_each(|(number, byte)| *damaged.byte_mut(number) = byte);
        let Ok(reader) = PoolReader::open(damaged) else {
            return Ok(());
        };
        let Ok(snapshot) = reader.snapshot() else {
            return Ok(());
        };
        if let Ok((_, json)) = write(
            &reader,
            &snapshot,
            &spec(&snapshot),
            &FailureLatch::default(),
        ) {
            assert_loadable(&serde_json::from_slice(&json).unwrap());
            loaded.set(loaded.get() + 1);
        }
        Ok(())
    });
    result.unwrap();
    assert!(
        loaded.get() > 100,
        "only {} damaged pools could be read at all",
        loaded.get()
    );
}
