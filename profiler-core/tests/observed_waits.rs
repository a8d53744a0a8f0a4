//! Looks at the threads of another process, and what they leave in its pool.

use std::fs::File;
use std::process::{Child, Command};

use profiler_core::ids::{ByteLimit, ProcessId, ProcessStart};
use profiler_core::internal::entry::Entry;
use profiler_core::internal::observed::{
    AwaitedName, LookBudget, LookHelp, ObservedClock, ObservedFiles, ObservedPlace,
    ObservedProcess, ObservedThreads, PoolProcess, PoolWriter, SampledThread, WaitingThread,
};
use profiler_core::internal::pool::{self, PoolSpec};
use profiler_core::internal::reader::{ChunkBuffer, PoolReader};
use profiler_core::internal::sys::ProcessStat;
use profiler_core::session::{Features, SessionParams};
use profiler_core::time::{SessionClock, Timestamp};
use test_support::patience;

/// A process that sleeps, and its pool.
struct Sleeper {
    child: Child,
    file: File,
    process: ObservedProcess,
    place: ObservedPlace,
    clock: ObservedClock,
    threads: ObservedThreads,
}

fn params() -> SessionParams {
    SessionParams {
        features: Features::STACK_WALK
            .with(Features::PROCESS_CPU)
            .with(Features::MEMORY),
        ..SessionParams::default()
    }
}

const ENOUGH: LookBudget = LookBudget {
    threads: 100,
    stacks: 100,
};

impl Sleeper {
    fn start() -> Self {
        let child = Command::new("sleep").arg("1000").spawn().unwrap();
        let pid = ProcessId::new(child.id());
        let stat = || ProcessStat::of(pid).unwrap();
        let is_asleep = || {
            let call = std::fs::read_to_string(format!("/proc/{pid}/syscall"));
            stat().state() == Some("S") && call.is_ok_and(|call| call != "running\n")
        };
        assert!(patience::until(is_asleep));
        let start = stat().start().unwrap();
        let spec = PoolSpec {
            id: pool::new_id().unwrap(),
            limit: ByteLimit::new(8 << 20),
            allowance: ByteLimit::new(8 << 20),
            clock: SessionClock::start_now(),
            params: params(),
            name: "sleeper".to_owned(),
        };
        let file = spec.create_pool().unwrap();
        let about = PoolProcess {
            pid,
            start,
            began: Timestamp::now(),
        };
        let writer = PoolWriter::new(file.try_clone().unwrap(), about).unwrap();
        let process = ObservedProcess::new(writer);
        let place = ObservedPlace {
            pid,
            start: Some(start),
            base_ns: 0,
            began: Timestamp::now(),
            is_outside: false,
        };
        Self {
            child,
            file,
            place,
            clock: ObservedClock::new(&place),
            threads: ObservedThreads::new(&process, place, &params()),
            process,
        }
    }

    /// Looks at the process as a pass does. True if there was anything to record.
    fn look(&mut self) -> bool {
        self.clock.has_run();
        self.threads.note_clock(&self.clock);
        let has_found =
            self.threads
                .begin_look(&mut self.process, &mut ENOUGH.clone(), &mut NoHelp);
        let files = &mut ObservedFiles::new();
        self.threads.end_look(files, &mut self.process, &mut NoHelp);
        has_found
    }

    /// The samples: whether the thread waited, whether it goes on to wait, the processor time.
    fn samples(&self) -> Vec<(bool, bool, Option<u64>)> {
        let reader = PoolReader::open(&self.file).unwrap();
        let snapshot = reader.snapshot().unwrap();
        let (mut found, mut buffer) = (Vec::new(), ChunkBuffer::default());
        for chunk in snapshot.chunks() {
            let Some(entries) = reader.read_chunk(chunk, &mut buffer).unwrap() else {
                panic!("nothing else writes");
            };
            for entry in entries {
                if let Entry::Sample(sample) = entry {
                    found.push((sample.waited, sample.waits, sample.cpu_ns));
                }
            }
        }
        found
    }

    /// The names of the counters, with their values.
    fn counters(&self) -> Vec<(String, i64)> {
        let snapshot = PoolReader::open(&self.file).unwrap().snapshot().unwrap();
        let counters = snapshot.counters.iter();
        counters
            .map(|counter| (counter.definition.name.clone(), counter.value))
            .collect()
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

const BEGIN: (bool, bool, Option<u64>) = (true, true, Some(0));
const END: (bool, bool, Option<u64>) = (true, false, Some(0));

/// A session that knows no files and no holders.
struct NoHelp;

impl LookHelp for NoHelp {
    fn find_files(&mut self, _: &mut ObservedFiles, _: &mut ObservedProcess) -> bool {
        false
    }

    fn for_whom(&mut self, _: &WaitingThread<'_>) -> AwaitedName {
        AwaitedName::None
    }
}

#[test]
fn a_wait_is_recorded_once_and_goes_on_while_the_clock_does_not_change() {
    let mut sleeper = Sleeper::start();
    assert!(sleeper.threads.needs_look(), "it was never looked at");
    assert!(sleeper.look());
    assert_eq!(sleeper.samples(), [BEGIN]);
    assert!(!sleeper.threads.needs_look(), "all threads wait");
    assert!(!sleeper.clock.has_run());
    assert!(!sleeper.look());
    assert_eq!(sleeper.samples(), [BEGIN], "it waits where it waited");
    // Some ticks of the session later, the wait has a time.
    std::thread::sleep(std::time::Duration::from_nanos(10 * params().interval_ns));
    assert!(!sleeper.clock.has_run());
    sleeper.threads.note_clock(&sleeper.clock);
    assert!(sleeper.threads.record_waits(&mut sleeper.process, true));
    assert_eq!(sleeper.samples(), [BEGIN, BEGIN]);
    sleeper.threads.suspend(&mut sleeper.process);
    assert_eq!(sleeper.samples(), [BEGIN, BEGIN, END]);
}

#[test]
fn a_process_that_is_not_the_observed_one_is_not_looked_at() {
    let mut sleeper = Sleeper::start();
    let start = sleeper.place.start.unwrap();
    sleeper.place.start = Some(ProcessStart::new(start.get() + 1));
    let params = params();
    sleeper.threads = ObservedThreads::new(&sleeper.process, sleeper.place, &params);
    assert!(!sleeper.look());
    sleeper.place.start = None; // hidden
    sleeper.threads = ObservedThreads::new(&sleeper.process, sleeper.place, &params);
    assert!(!sleeper.threads.needs_look());
    assert!(!sleeper.look());
    assert!(sleeper.samples().is_empty() && sleeper.counters().is_empty());
}

#[test]
fn a_sample_after_the_copy_of_a_stack_means_that_the_stack_is_not_recorded() {
    let mut sleeper = Sleeper::start();
    sleeper.clock.has_run();
    sleeper.threads.note_clock(&sleeper.clock);
    let process = &mut sleeper.process;
    assert!(
        sleeper
            .threads
            .begin_look(process, &mut ENOUGH.clone(), &mut NoHelp)
    );
    let sample = SampledThread {
        row: 0,
        uses: 1,
        number: 0,
        at: Timestamp::now(),
        cpu_ns: 5_000_000,
    };
    let used = sleeper.threads.begin_sample(process, &sample, false).cpu_ns;
    assert_eq!(used, 5_000_000);
    let files = &mut ObservedFiles::new();
    sleeper.threads.end_look(files, process, &mut NoHelp);
    assert!(sleeper.samples().is_empty());
    assert!(sleeper.threads.needs_look(), "it is looked at again");
}

#[test]
fn counters_keep_their_last_values_after_the_end() {
    let mut sleeper = Sleeper::start();
    sleeper.look();
    let used = 7_000_000_000;
    let end = (Timestamp::now(), Some(used));
    sleeper.threads.end(&mut sleeper.process, end, false);
    let counters = sleeper.counters();
    let value = |name: &str| counters.iter().find(|(found, _)| found == name).unwrap().1;
    assert_eq!(value("processCPU"), i64::try_from(used).unwrap());
    assert!(value("Resident memory") > 1 << 16);
}
