//! Tests of comparisons of profiles with known shares.

use profiler_files::WorkListener;
use serde_json::{Value, json};

use super::changes::FunctionChange;
use super::*;

/// The time of a sample in milliseconds.
const SAMPLE_MS: f64 = 4.0;

/// The content of a profile of one process called `worker`.
#[derive(Clone, Copy)]
struct Recording {
    /// The part of the samples that are in `slow`, in percent; the others are in `fast`.
    slow_percent: u64,
    samples: usize,
    seed: u64,
    library: &'static str,
    /// The duration of each marker called `request`.
    request_ms: f64,
    memory_bytes: u64,
    lost: u64,
}

const USUAL: Recording = Recording {
    slow_percent: 20,
    samples: 4000,
    seed: 1,
    library: "app",
    request_ms: 2.0,
    memory_bytes: 1 << 20,
    lost: 0,
};

const USUAL_PARAMS: RunParams = RunParams {
    blocks: BLOCKS,
    names: false,
    merge_numbered: false,
    with_trees: false,
};

impl Recording {
    fn to_json(self) -> Value {
        let mut random = fastrand::Rng::with_seed(self.seed);
        // Stack 0 is `main`, which calls `slow` (1) and `fast` (2).
        let stacks: Vec<u8> = (0..self.samples)
            .map(|_| {
                if random.u64(0..100) < self.slow_percent {
                    1
                } else {
                    2
                }
            })
            .collect();
        let starts: Vec<usize> = (0..100).collect();
        let ends: Vec<f64> = starts
            .iter()
            .map(|at| *at as f64 + self.request_ms)
            .collect();
        let thread = json!({
            "name": "main", "isMainThread": true, "processName": "worker", "pid": "7", "tid": 7,
            "samples": {
                "length": self.samples, "stack": stacks, "weight": null, "weightType": "samples",
                "timeDeltas": vec![SAMPLE_MS; self.samples],
                "threadCPUDelta": vec![SAMPLE_MS * 1e6; self.samples],
            },
            "markers": {
                "length": 100, "name": vec![4; 100], "startTime": starts, "endTime": ends,
                "phase": vec![1; 100], "category": vec![0; 100], "data": vec![Value::Null; 100],
            },
        });
        let row = json!({"name": "worker", "pid": 7, "verdict": "complete", "threads": 1, "recorded": 5000,
            "delivered": 5000 - self.lost, "evicted": self.lost, "unfinished": 0, "dropped": {}});
        json!({
            "meta": {"preprocessedProfileVersion": 66, "interval": SAMPLE_MS, "sampleUnits": {"threadCPUDelta": "ns"}},
            "threads": [thread],
            "counters": [{"name": "malloc", "category": "Memory", "pid": "7",
                "samples": {"length": 2, "timeDeltas": [1, 1], "count": [self.memory_bytes, -100]}}],
            "profileGatheringLog": {"7": {"processes": [row]}},
            "shared": {
                "stackTable": {"length": 3, "frame": [0, 1, 2], "prefix": [null, 0, 0]},
                "frameTable": {"length": 3, "func": [0, 1, 2]},
                "funcTable": {"length": 3, "name": [0, 1, 2], "resource": [0, 0, 0]},
                "resourceTable": {"length": 1, "name": [3]},
                "stringArray": ["main", "slow", "fast", self.library, "request"],
            },
        })
    }

    fn read(self, blocks: usize) -> Run {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), self.to_json().to_string()).unwrap();
        let params = RunParams {
            blocks,
            ..USUAL_PARAMS
        };
        Run::read(file.path(), params, WorkListener::default()).unwrap()
    }
}

/// Compares runs, and keeps all changes of at least a tenth of a point.
fn compared(before: &[Recording], after: &[Recording]) -> Comparison {
    let blocks = if before.len().min(after.len()) > 1 {
        1
    } else {
        BLOCKS
    };
    let read = |all: &[Recording]| all.iter().map(|one| one.read(blocks)).collect::<Vec<_>>();
    let params = ComparisonParams {
        smallest: 0.1,
        by: None,
        blocks,
    };
    compare(&read(before), &read(after), params)
}

fn with_shares(shares: &[u64]) -> Vec<Recording> {
    let runs = shares.iter().zip(10..);
    let runs = runs.map(|(slow_percent, seed)| Recording {
        slow_percent: *slow_percent,
        seed,
        ..USUAL
    });
    runs.collect()
}

fn function<'c>(comparison: &'c Comparison, name: &str) -> Option<&'c FunctionChange> {
    let [process] = &comparison.processes[..] else {
        panic!("{comparison:?}");
    };
    assert_eq!(process.name, "worker");
    process
        .functions
        .iter()
        .find(|function| function.function == name)
}

#[test]
fn a_function_whose_share_grew_is_found_with_one_run_of_each_side() {
    let comparison = compared(&with_shares(&[10]), &with_shares(&[20]));
    let slow = function(&comparison, "slow").unwrap();
    for share in [slow.cpu.unwrap(), slow.wall].map(|shares| shares.own) {
        assert!((share.before_percent - 10.0).abs() < 2.0, "{share:?}");
        assert!((share.after_percent - 20.0).abs() < 2.0, "{share:?}");
        let (low, high) = share.interval_points.unwrap();
        assert!(share.is_more_than_noise && low < share.points() && share.points() < high);
    }
    assert_eq!(slow.wall.own, slow.wall.total, "it calls no function");
    assert!(
        function(&comparison, "main").is_none(),
        "its share is 100 % on both sides"
    );
    let grown: Vec<_> = comparison
        .grown(5.0)
        .map(|(process, name, _)| (process, name))
        .collect();
    assert_eq!(grown, [("worker", "slow")]);
    assert_eq!(comparison.grown(50.0).count(), 0);
}

#[test]
fn two_runs_of_the_same_program_do_not_differ_by_more_than_noise() {
    let mistakes = |samples| {
        let mistakes = (0..20).filter(|seed| {
            let run = |seed| Recording {
                seed,
                samples,
                ..USUAL
            };
            let process = compared(&[run(*seed)], &[run(seed + 100)])
                .processes
                .remove(0);
            let shares = process.functions.iter().map(|function| function.wall.own);
            shares.into_iter().any(|share| share.is_more_than_noise)
        });
        mistakes.count()
    };
    for samples in [4000, 150, 40, 3] {
        assert!(mistakes(samples) <= 1, "{samples} samples");
    }
}

#[test]
fn a_function_whose_share_grew_is_found_in_short_runs() {
    let short = |slow_percent, seed| Recording {
        slow_percent,
        samples: 250,
        seed,
        ..USUAL
    };
    let comparison = compared(&[short(20, 1)], &[short(60, 2)]);
    let grown: Vec<_> = comparison.grown(5.0).map(|(_, name, _)| name).collect();
    assert_eq!(grown, ["slow"]);
}

#[test]
fn with_several_runs_a_change_counts_if_it_exceeds_the_differences_between_the_runs() {
    let varied = with_shares(&[10, 20, 30]);
    let comparison = compared(&varied, &with_shares(&[15, 24, 36]));
    assert_eq!(comparison.noise, "runs");
    let slow = function(&comparison, "slow").unwrap().wall.own;
    assert!(slow.points() > 3.0 && !slow.is_more_than_noise, "{slow:?}");
    let one_of_each = compared(&varied[..1], &with_shares(&[15]));
    assert_eq!(one_of_each.noise, "slices of time");
    assert!(
        function(&one_of_each, "slow")
            .unwrap()
            .wall
            .own
            .is_more_than_noise
    );
    let steady = with_shares(&[18, 20, 22]);
    let comparison = compared(&steady, &with_shares(&[70, 72, 74]));
    assert!(
        function(&comparison, "slow")
            .unwrap()
            .wall
            .own
            .is_more_than_noise
    );
}

#[test]
fn a_function_is_the_same_in_a_library_with_another_name() {
    let renamed = Recording {
        library: "app-2",
        ..USUAL
    };
    let comparison = compared(&[USUAL], &[renamed]);
    assert!(
        comparison.processes[0].functions.is_empty(),
        "{comparison:?}"
    );
}

#[test]
fn markers_memory_and_lost_entries_are_compared() {
    let after = Recording {
        request_ms: 3.0,
        memory_bytes: 3 << 20,
        lost: 50,
        ..USUAL
    };
    let process = compared(&[USUAL], &[after]).processes.remove(0);
    let [request] = &process.markers[..] else {
        panic!("{:?}", process.markers);
    };
    let sides = |sides: Sides<Option<f64>>| (sides.before.unwrap(), sides.after.unwrap());
    assert_eq!(request.marker, "request");
    assert_eq!((request.count.before, request.count.after), (100.0, 100.0));
    assert_eq!(sides(request.median_ms), (2.0, 3.0));
    assert_eq!(sides(request.p95_ms), (2.0, 3.0));
    assert_eq!(
        (request.total_ms.before, request.total_ms.after),
        (200.0, 300.0)
    );
    let bytes = process.memory[0].highest_bytes;
    assert_eq!(
        (bytes.before, bytes.after),
        (f64::from(1 << 20), f64::from(3 << 20))
    );
    assert_eq!((process.lost.before, process.lost.after), (0.0, 50.0));
    assert_eq!(
        (process.recorded.before, process.recorded.after),
        (5000.0, 5000.0)
    );
}

#[test]
fn a_process_on_one_side_only_is_compared_with_nothing() {
    let mut after = USUAL.read(BLOCKS);
    let process = after.processes.remove("worker").unwrap();
    after.processes.insert("new".to_owned(), process);
    let params = ComparisonParams {
        smallest: 0.1,
        by: Some(Time::Wall),
        blocks: BLOCKS,
    };
    let comparison = compare(&[USUAL.read(BLOCKS)], &[after], params);
    let times: Vec<_> = comparison
        .processes
        .iter()
        .map(|process| {
            (
                process.name.as_str(),
                process.wall_ms.before > 0.0,
                process.wall_ms.after > 0.0,
            )
        })
        .collect();
    assert_eq!(times, [("new", false, true), ("worker", true, false)]);
    assert_eq!(
        comparison.grown(0.0).count(),
        0,
        "nothing has shares on both sides"
    );
}

#[test]
fn a_directory_stands_for_the_profiles_in_it() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    let error = profiles(directory.path()).unwrap_err();
    assert!(error.to_string().contains("has no profile"), "{error}");
    for name in ["b.json.gz", "a.json", "notes.txt"] {
        std::fs::write(path(name), "").unwrap();
    }
    assert_eq!(
        profiles(directory.path()).unwrap(),
        [path("a.json"), path("b.json.gz")]
    );
    assert_eq!(profiles(&path("notes.txt")).unwrap(), [path("notes.txt")]);
}

#[test]
fn the_page_does_not_replace_a_profile() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    std::fs::write(path("a.json"), "").unwrap();
    std::fs::write(path("page.html"), "an older page").unwrap();
    let files = [path("a.json")];
    let onto = |name: &str| not_onto_a_profile(Some(&path(name)), files.iter());
    for profile in ["a.json", "./a.json"] {
        let error = onto(profile).unwrap_err().to_string();
        assert!(error.contains("choose another file"), "{error}");
    }
    assert!(onto("page.html").is_ok() && onto("new.html").is_ok());
    assert!(not_onto_a_profile(None, files.iter()).is_ok());
}

/// Reads a profile with these threads: the name of their process, its id, their samples and their
/// markers.
fn read(threads: &[Value], params: RunParams) -> Run {
    let profile = json!({
        "meta": {"preprocessedProfileVersion": 66, "interval": 1, "sampleUnits": {"threadCPUDelta": "ns"}},
        "threads": threads,
        "shared": {
            "stackTable": {"length": 2, "frame": [0, 1], "prefix": [null, 0]},
            "frameTable": {"length": 2, "func": [0, 1]},
            "funcTable": {"length": 2, "name": [0, 1], "resource": [-1, -1]},
            "stringArray": ["main", "wait", "load"],
        },
    });
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), profile.to_string()).unwrap();
    Run::read(file.path(), params, WorkListener::default()).unwrap()
}

/// A thread with one sample per millisecond in `main`, and one in `wait` of the given length.
fn thread_that_waits(process: &str, pid: &str, samples: usize, wait_ms: usize) -> Value {
    let column = |usual: usize, last: usize| -> Vec<usize> {
        let column = (0..samples).map(|_| usual);
        column.chain([last]).collect()
    };
    json!({
        "name": "t", "processName": process, "pid": pid, "tid": 1,
        "samples": {
            "length": samples + 1, "stack": column(0, 1), "weight": column(1, wait_ms), "weightType": "samples",
            "timeDeltas": column(1, wait_ms), "threadCPUDelta": column(1_000_000, 0),
        },
        "markers": {"length": 0, "data": []},
    })
}

#[test]
fn a_long_wait_does_not_hide_a_change_of_the_wall_time() {
    let of = |wait_ms| {
        read(
            &[thread_that_waits("worker", "7", 2000, wait_ms)],
            USUAL_PARAMS,
        )
    };
    let params = ComparisonParams {
        smallest: 0.5,
        by: Some(Time::Wall),
        blocks: BLOCKS,
    };
    let comparison = compare(&[of(2000)], &[of(3000)], params);
    let wait = function(&comparison, "wait").unwrap().wall.own;
    assert!((wait.points() - 10.0).abs() < 0.1, "{wait:?}");
    assert!(wait.is_more_than_noise, "{wait:?}");
}

#[test]
fn numbered_processes_are_taken_together_on_request() {
    let threads = [("worker 1", "1"), ("worker 2", "2"), ("parent", "3")];
    let threads = threads.map(|(name, pid)| thread_that_waits(name, pid, 10, 1));
    let names = |merge_numbered| {
        let run = read(
            &threads,
            RunParams {
                merge_numbered,
                ..USUAL_PARAMS
            },
        );
        let processes = run.processes.into_iter();
        processes
            .map(|(name, process)| (name, process.processes))
            .collect::<Vec<_>>()
    };
    let of = |names: &[(&str, usize)]| -> Vec<(String, usize)> {
        let names = names.iter();
        names
            .map(|(name, count)| ((*name).to_owned(), *count))
            .collect()
    };
    assert_eq!(names(true), of(&[("parent", 1), ("worker #", 2)]));
    assert_eq!(
        names(false),
        of(&[("parent", 1), ("worker 1", 1), ("worker 2", 1)])
    );
}

/// A thread with markers called `load`: their phases, times and spans.
fn thread_with_spans(tid: u64, markers: &[(u8, f64, Option<u64>)]) -> Value {
    let times = |wanted: u8| -> Vec<Option<f64>> {
        let markers = markers.iter();
        markers
            .map(|(phase, at, _)| (*phase == wanted).then_some(*at))
            .collect()
    };
    let payload =
        |span: Option<u64>| span.map_or(Value::Null, |span| json!({"type": "Span", "span": span}));
    json!({
        "name": "t", "processName": "worker", "pid": "7", "tid": tid,
        "samples": {"length": 0, "stack": [], "timeDeltas": []},
        "markers": {
            "length": markers.len(), "name": vec![2; markers.len()],
            "startTime": times(START), "endTime": times(END),
            "phase": markers.iter().map(|(phase, ..)| *phase).collect::<Vec<_>>(),
            "category": vec![0; markers.len()],
            "data": markers.iter().map(|(.., span)| payload(*span)).collect::<Vec<_>>(),
        },
    })
}

const START: u8 = 2;
const END: u8 = 3;

fn durations(threads: &[Value]) -> (u64, Vec<f64>) {
    let run = read(threads, USUAL_PARAMS);
    let times = run.processes["worker"].markers.get("load").unwrap();
    let mut durations = times.durations_ms.clone();
    durations.sort_by(f64::total_cmp);
    (times.count, durations)
}

#[test]
fn starts_and_ends_belong_together_by_the_number_of_their_span() {
    // Without the numbers, the last start would belong to the first end.
    let overlapping = [
        (START, 0.0, Some(1)),
        (START, 10.0, Some(2)),
        (END, 100.0, Some(1)),
        (END, 15.0, Some(2)),
    ];
    let expected = (2, vec![5.0, 100.0]);
    let by_name = durations(&[thread_with_spans(1, &overlapping)]);
    assert_eq!(by_name, expected);
    let [one, two, three, four] = overlapping;
    for threads in [[[one, two], [three, four]], [[three, four], [one, two]]] {
        let threads = threads.map(|markers| thread_with_spans(1, &markers));
        assert_eq!(durations(&threads), expected, "on two threads");
    }
}

#[test]
fn starts_and_ends_without_a_number_nest() {
    let nested = [
        (START, 0.0, None),
        (START, 10.0, None),
        (END, 15.0, None),
        (END, 100.0, None),
    ];
    assert_eq!(
        durations(&[thread_with_spans(1, &nested)]),
        (2, vec![5.0, 100.0])
    );
    let halves = [(END, 5.0, Some(3)), (START, 7.0, Some(4)), (END, 9.0, None)];
    assert_eq!(
        durations(&[thread_with_spans(1, &halves)]),
        (2, vec![]),
        "ends without a start are counted"
    );
}
