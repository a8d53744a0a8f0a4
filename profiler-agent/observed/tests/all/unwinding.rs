//! Stacks of a real program, copied by the library, unwound by the session, read from the pool.

use std::collections::HashMap;
use std::fs;
use std::path::PathBuf;

use object::{Object, ObjectSymbol};
use profiler_core::ids::{ByteLimit, ProcessId, ProcessStart, ThreadId};
use profiler_core::internal::entry::Entry;
use profiler_core::internal::entry::sample::Stacks;
use profiler_core::internal::entry::stack::Frame;
use profiler_core::internal::observed::{
    LoadedFile, ObservedFiles, ObservedProcess, ObservedStack, PoolProcess, PoolWriter,
};
use profiler_core::internal::pool::{self, PoolSpec};
use profiler_core::internal::reader::{ChunkBuffer, PoolReader};
use profiler_core::session::SessionParams;
use profiler_core::time::{SessionClock, Timestamp};

use crate::observed::{Program, Sample, Session, run_until, test_program};

const LIMIT: u64 = 8 << 20;

fn new_pool() -> fs::File {
    let spec = PoolSpec {
        id: pool::new_id().unwrap(),
        limit: ByteLimit::new(LIMIT),
        allowance: ByteLimit::new(LIMIT),
        clock: SessionClock::start_now(),
        params: SessionParams::default(),
        name: "observed".to_owned(),
    };
    spec.create_pool().unwrap()
}

fn loaded_files(program: &Program) -> Vec<LoadedFile> {
    let own = String::from_utf8(program.text.program.clone()).unwrap();
    let loaded = program.text.files.iter().map(|(addresses, path)| {
        let path = String::from_utf8(path.clone()).unwrap();
        let path = if path.is_empty() { own.clone() } else { path };
        LoadedFile {
            addresses: addresses.clone(),
            found_at: PathBuf::from(&path),
            path,
        }
    });
    loaded.collect()
}

fn stack<'a>(sample: &'a Sample, cpu_ns: u64) -> ObservedStack<'a> {
    ObservedStack {
        at: Timestamp::from_raw(sample.head.at),
        cpu_ns,
        ticks: 1,
        pc: sample.head.pc,
        sp: sample.head.sp,
        fp: sample.head.fp,
        lr: sample.head.lr,
        words: &sample.stack,
        is_cut: sample.is_cut(),
    }
}

/// Writes the samples of a program into a pool, and returns their stacks, outermost first, as
/// names of the test program's functions.
fn stacks_of(program: &Program) -> Vec<Vec<String>> {
    let file = new_pool();
    let process = PoolProcess {
        pid: ProcessId::new(program.header.pid),
        start: ProcessStart::new(1),
        began: Timestamp::from_raw(program.header.began),
    };
    let mut files = ObservedFiles::new();
    let mut process =
        ObservedProcess::new(PoolWriter::new(file.try_clone().unwrap(), process).unwrap());
    process.set_loaded(&mut files, &loaded_files(program));
    let thread = ThreadId::new(u64::from(program.header.pid));
    let mut last = 0;
    for sample in &program.samples {
        let used = sample.head.cpu_ns.saturating_sub(last);
        last = sample.head.cpu_ns;
        assert!(process.add(&mut files, thread, &stack(sample, used)));
    }
    assert!(process.knows(program.samples[0].head.pc));
    names_in(&file)
}

fn names_in(file: &fs::File) -> Vec<Vec<String>> {
    let reader = PoolReader::open(file).unwrap();
    let definitions = reader.definitions().unwrap();
    let snapshot = reader.snapshot().unwrap();
    let functions = functions();
    let name_of = |frame: &Frame| {
        let Frame::Code(module, address) = frame else {
            return "?".to_owned();
        };
        let path = &definitions.module(*module).unwrap().path;
        if !path.ends_with("/program") {
            return path.rsplit('/').next().unwrap().to_owned();
        }
        // The address behind a call may be that of the next function.
        let (_, (start, name)) = functions
            .iter()
            .filter(|(start, _)| **start < *address)
            .map(|(start, name)| (address - start, (start, name)))
            .min()
            .unwrap();
        assert!(start <= address);
        name.clone()
    };
    let (mut names, mut stacks, mut buffer) =
        (Vec::new(), Stacks::default(), ChunkBuffer::default());
    for chunk in snapshot.chunks() {
        let Some(entries) = reader.read_chunk(chunk, &mut buffer).unwrap() else {
            panic!("nothing else writes");
        };
        stacks.begin_chunk();
        for entry in entries {
            if let Entry::Sample(sample) = entry {
                names.push(stacks.of(&sample).iter().map(name_of).collect());
            }
        }
    }
    names
}

/// The functions of the test program, by their addresses in the file.
fn functions() -> HashMap<u64, String> {
    let bytes = fs::read(test_program()).unwrap();
    let file = object::File::parse(&*bytes).unwrap();
    file.symbols()
        .filter(|symbol| symbol.kind() == object::SymbolKind::Text && symbol.size() > 0)
        .map(|symbol| (symbol.address(), symbol.name().unwrap().to_owned()))
        .collect()
}

#[test]
fn the_stack_of_a_program_that_has_ended_has_all_its_functions() {
    let enough = |programs: &[Program]| programs[0].samples.len() > 10;
    let (_, programs) = run_until(enough, || Session::new().run(&["deep", "15"]));
    let stacks = stacks_of(&programs[0]);
    let spinning: Vec<_> = stacks
        .iter()
        .filter(|stack| stack.iter().any(|name| name == "spin"))
        .collect();
    assert!(spinning.len() > 5, "{}", stacks.len());
    let expected: Vec<&str> = std::iter::once("main")
        .chain(["deep"; 16])
        .chain(["spin"])
        .collect();
    let mut right = 0;
    for stack in &spinning {
        let from = stack
            .iter()
            .position(|name| name == "main")
            .unwrap_or(stack.len());
        let own: Vec<&str> = stack[from..].iter().map(String::as_str).take(18).collect();
        right += usize::from(own == expected);
    }
    assert!(
        right * 100 >= spinning.len() * 95,
        "{right} of {}: {:?}",
        spinning.len(),
        spinning[0]
    );
}

#[test]
fn a_stack_of_garbage_is_a_sample_that_has_failed() {
    let (_, programs) = Session::new().run(&["busy", "50"]);
    let file = new_pool();
    let process = PoolProcess {
        pid: ProcessId::new(1),
        start: ProcessStart::new(1),
        began: Timestamp::now(),
    };
    let mut files = ObservedFiles::new();
    let mut process =
        ObservedProcess::new(PoolWriter::new(file.try_clone().unwrap(), process).unwrap());
    process.set_loaded(&mut files, &loaded_files(&programs[0]));
    let mut random = fastrand::Rng::with_seed(1);
    let in_file = programs[0].text.files[0].0.clone();
    for _ in 0..2000 {
        let words: Vec<u64> = (0..random.usize(0..64))
            .map(|_| {
                if random.bool() {
                    random.u64(in_file.clone())
                } else {
                    random.u64(..)
                }
            })
            .collect();
        let garbage = ObservedStack {
            at: Timestamp::now(),
            cpu_ns: random.u64(..),
            ticks: random.u64(..),
            pc: if random.bool() {
                random.u64(in_file.clone())
            } else {
                random.u64(..)
            },
            sp: random.u64(..),
            fp: random.u64(..),
            lr: random.u64(..),
            words: &words,
            is_cut: random.bool(),
        };
        process.add(&mut files, ThreadId::new(random.u64(..)), &garbage);
    }
    let counts = PoolReader::open(&file)
        .unwrap()
        .snapshot()
        .unwrap()
        .counts();
    assert_eq!(counts.recorded(), 2000);
}
