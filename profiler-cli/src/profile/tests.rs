//! Tests that the same samples give the same result in both forms.

use super::*;

const ALL: Wanted = Wanted {
    top: 10,
    by: None,
    names: true,
};

fn read_text(text: &str, wanted: Wanted) -> Report {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), text).unwrap();
    read(file.path(), wanted, WorkListener::default()).unwrap()
}

fn rows(report: &Report) -> Vec<(&str, f64, f64)> {
    let top = &report.samples.as_ref().unwrap().top;
    top.iter()
        .map(|row| (row.function.as_str(), row.self_percent, row.total_percent))
        .collect()
}

/// Two processes: the parent in `main` and `hot`, and a child in `main` and at an address without a
/// name.
fn gecko(meta: &str) -> String {
    let thread = |pid: u32, samples: &str, strings: &str| {
        format!(
            r#"{{"name":"GeckoMain","processName":"p{pid}","pid":{pid},"tid":{pid},
            "samples":{{"schema":{{"stack":0,"time":1,"eventDelay":2,"threadCPUDelta":3}},"data":[{samples}]}},
            "markers":{{"schema":{{}},"data":[[0,1,null,0,0,{{"samples":[1]}}]]}},
            "frameTable":{{"schema":{{"location":0,"relevantForJS":1}},"data":[[0,false],[1,false]]}},
            "stackTable":{{"schema":{{"prefix":0,"frame":1}},"data":[[null,0],[0,1]]}},
            "stringTable":[{strings}]}}"#
        )
    };
    let parent = thread(1, "[0,1,0,99],[1,2,0,30],[1,3,0,30]", r#""main","hot""#);
    let child = thread(
        2,
        "[0,1,0,5],[1,2,0,40],[0,3,0,0],[null,4]",
        r#""main","0x1010""#,
    );
    let libs = r#"[{"name":"libc.so","start":4096,"end":8192,"offset":0}]"#;
    format!(
        r#"{{"processes":[{{"threads":[{child}],"libs":{libs},"processes":[],"meta":{{"product":"p2"}}}}],
        "libs":[],"threads":[{parent}],"meta":{{"product":"p1","interval":2,{meta}
        "sampleUnits":{{"time":"ms","threadCPUDelta":"ns"}}}}}}"#
    )
}

fn processed() -> String {
    let thread = |pid: &str, stacks: &str, cpu: &str| {
        format!(
            r#"{{"name":"main","isMainThread":true,"processName":"p{pid}","pid":"{pid}","tid":1,
            "samples":{{"length":3,"stack":[{stacks}],"timeDeltas":[1,1,1,1],"weight":null,"weightType":"samples",
            "threadCPUDelta":[{cpu}]}},"markers":{{"length":0,"data":[]}}}}"#
        )
    };
    let parent = thread("1", "0,1,1", "99,30,30");
    let child = thread("2", "0,2,0,null", "5,40,0,null");
    format!(
        r#"{{"meta":{{"preprocessedProfileVersion":66,"interval":2,"sampleUnits":{{"threadCPUDelta":"ns"}}}},
        "libs":[{{"name":"libc.so"}}],"threads":[{parent},{child}],
        "profilingLog":{{"2":{{"total":{{"recorded":4,"delivered":3,"evicted":0,"dropped":1,"unfinished":0,"gap":1}}}}}},
        "shared":{{"stackTable":{{"length":3,"frame":[0,1,2],"prefixOffset":[0,1,2]}},
        "frameTable":{{"length":3,"func":[0,1,2],"line":[null,1,2]}},
        "funcTable":{{"length":3,"name":[0,1,2],"resource":[-1,-1,0]}},
        "resourceTable":{{"length":1,"lib":[0],"name":[3]}},
        "stringArray":["main","hot","libc.so+0x10","libc.so"]}}}}"#
    )
}

#[test]
fn both_forms_have_the_same_functions() {
    for text in [gecko(""), processed()] {
        let report = read_text(&text, ALL);
        // 30 + 30 + 40 of processor time; the first sample of a thread has none.
        let expected = [
            ("hot", 60.0, 60.0),
            ("libc.so+0x10", 40.0, 40.0),
            ("main", 0.0, 100.0),
        ];
        assert_eq!(rows(&report), expected);
        let samples = report.samples.as_ref().unwrap();
        assert_eq!((samples.count, samples.time), (7.0, "cpu"));
        assert!((samples.all_ms - 100e-6).abs() < 1e-9, "nanoseconds");
        let wall = read_text(
            &text,
            Wanted {
                by: Some(Time::Wall),
                top: 2,
                ..ALL
            },
        );
        // The first sample of a thread stands for an interval, and others for the time since the last.
        let share = |ms: f64| ms / 9.0 * 100.0;
        assert_eq!(
            rows(&wall),
            [
                ("main", share(5.0), share(8.0)),
                ("hot", share(2.0), share(2.0))
            ]
        );
        assert_eq!(wall.samples.as_ref().unwrap().all_ms, 9.0);
        let names: Vec<_> = report
            .processes
            .iter()
            .map(|row| (row.name.as_str(), row.pid, row.threads))
            .collect();
        assert_eq!(names, [("p1", 1, 1), ("p2", 2, 1)]);
    }
    let counts = &read_text(&processed(), ALL).processes[1];
    assert_eq!(
        (counts.recorded, counts.delivered, counts.dropped["gap"]),
        (4, 3, 1)
    );
}

#[test]
fn a_recorded_crash_is_a_row_with_the_functions_of_its_stack() {
    let verdict = "recovered: crashed with signal 11 (SIGSEGV): worker: SIGSEGV: address not \
                   mapped, at 0x10";
    let marker =
        r#"{"type":"Crash","signal":"SIGSEGV","registers":"rip=0x1","cause":{"time":1,"stack":2}}"#;
    // Markers of a crash that was survived before, of one with another signal, and of the program.
    let survived =
        r#"{"type":"Crash","signal":"SIGSEGV","registers":"rip=0x1","cause":{"time":0,"stack":1}}"#;
    let other =
        r#"{"type":"Crash","signal":"SIGFPE","registers":"rip=0x1","cause":{"time":2,"stack":1}}"#;
    let own = r#"{"type":"Crash","signal":"SIGSEGV","cause":{"time":2,"stack":1}}"#;
    let markers = r#"{"length":0,"data":[]}"#;
    let with_marker = format!(
        r#"{{"length":4,"name":[0,0,0,0],"startTime":[1,0,2,2],"endTime":[null,null,null,null],
        "phase":[0,0,0,0],"category":[0,0,0,0],"data":[{marker},{survived},{other},{own}]}}"#
    );
    let log = format!(
        r#""profileGatheringLog":{{"1":{{"processes":[{{"name":"child","pid":2,"threads":1,
        "recorded":1,"delivered":1,"evicted":0,"unfinished":0,"dropped":{{}},"verdict":"{verdict}"}}]}}}},"shared""#
    );
    let text = processed()
        .replace(markers, &with_marker)
        .replace(r#""shared""#, &log);
    let report = read_text(&text, ALL);
    let crash = &report.crashes[0];
    assert_eq!((crash.process.as_str(), crash.pid), ("child", 2));
    assert_eq!(crash.verdict, verdict);
    assert_eq!(crash.stack, ["libc.so+0x10", "main"]);
    assert!(read_text(&processed(), ALL).crashes.is_empty());
}

#[test]
fn without_processor_times_functions_are_ranked_by_wall_time() {
    let text = processed().replace(
        r#""threadCPUDelta":"ns""#,
        r#""threadCPUDelta":"variable CPU cycles""#,
    );
    assert_eq!(read_text(&text, ALL).samples.unwrap().time, "wall");
    let text = r#"{"threads":[{"pid":1,"samples":{"data":[]}}],"meta":{}}"#;
    assert!(
        read_text(text, ALL).samples.is_none(),
        "no samples, no functions"
    );
}

#[test]
fn the_log_of_the_capture_determines_the_processes() {
    let log = r#""profileGatheringLog":{"1":{"events":[],"processes":[{"name":"lost","pid":7,"verdict":"missing: gone",
        "threads":0,"recorded":0,"delivered":0,"evicted":0,"unfinished":0,"dropped":{}}]}},"shared":"#;
    let report = read_text(&processed().replace(r#""shared":"#, log), ALL);
    assert_eq!(
        report
            .processes
            .iter()
            .map(|row| row.name.as_str())
            .collect::<Vec<_>>(),
        ["lost"]
    );
    assert_eq!(
        report.samples.unwrap().count,
        7.0,
        "the samples are still counted"
    );
}

#[test]
fn a_sample_with_a_stack_number_beyond_the_table_is_counted() {
    for text in [gecko(""), processed()] {
        let far = text
            .replace("[0,1,0,99]", "[268435455,1,0,99]")
            .replace(r#""stack":[0,"#, r#""stack":[268435455,"#);
        assert_ne!(far, text);
        let samples = read_text(&far, ALL).samples.unwrap();
        assert_eq!(samples.count, 7.0, "the sample counts, for no function");
        assert_eq!(rows(&read_text(&far, ALL))[0], ("hot", 60.0, 60.0));
    }
}

/// A profile in the processed format with one thread, whose functions are called `0`, `1`, `2` and
/// so on. A `null` in the arguments stands for a missing value.
fn of_stacks(samples: &str, stack_table: &str, funcs: usize) -> String {
    let numbers = |of: &dyn Fn(usize) -> String| (0..funcs).map(of).collect::<Vec<_>>().join(",");
    let rows = numbers(&|n| n.to_string());
    let names = numbers(&|n| format!("\"{n}\""));
    format!(
        r#"{{"meta":{{"preprocessedProfileVersion":66,"sampleUnits":{{"threadCPUDelta":"ns"}}}},
        "threads":[{{"pid":"1","samples":{{{samples}}}}}],"shared":{{"stackTable":{{{stack_table}}},
        "frameTable":{{"func":[{rows}]}},"funcTable":{{"name":[{rows}]}},"stringArray":[{names}]}}}}"#
    )
}

/// A function's own samples, its total samples, and its own nanoseconds.
fn costs(report: &Report, function: &str) -> Option<(f64, f64, f64)> {
    let top = &report.samples.as_ref().unwrap().top;
    let row = top.iter().find(|row| row.function == function)?;
    Some((
        row.self_samples,
        row.total_samples,
        (row.self_ms * 1e6).round(),
    ))
}

#[test]
fn a_function_that_calls_itself_is_counted_once() {
    // 1 calls 2, which calls itself; the frame 9 has no function.
    let samples = r#""stack":[0,3,2,null],"threadCPUDelta":[100,5,null,7]"#;
    for callers in [r#""prefix":[null,0,1,2]"#, r#""prefixOffset":[0,1,1,1]"#] {
        let text = of_stacks(samples, &format!(r#""frame":[1,2,2,9],{callers}"#), 4);
        let report = read_text(&text, ALL);
        assert_eq!(costs(&report, "1"), Some((1.0, 3.0, 0.0)));
        assert_eq!(costs(&report, "2"), Some((2.0, 2.0, 5.0)));
        assert_eq!(costs(&report, NO_STACK), Some((1.0, 1.0, 7.0)));
        assert_eq!(report.samples.unwrap().top.len(), 3);
    }
}

#[test]
fn cycles_and_invalid_numbers_in_tables_end_the_walk() {
    let samples = r#""stack":[0,1,2,1e12,50],"weight":[2,1,1]"#;
    let text = of_stacks(samples, r#""prefix":[1,0,7],"frame":[0,1,2]"#, 3);
    let report = read_text(&text, ALL);
    assert_eq!(
        costs(&report, "0").unwrap().1,
        3.0,
        "its own samples, and that of its callee"
    );
    assert_eq!(costs(&report, "2").unwrap().1, 1.0);
}

#[test]
fn memory_does_not_grow_with_the_stack_numbers_of_samples() {
    let samples = r#""stack":[268435455,1,4e9,268435455]"#;
    let report = read_text(
        &of_stacks(samples, r#""prefix":[null,0],"frame":[0,1]"#, 2),
        ALL,
    );
    assert_eq!(report.samples.as_ref().unwrap().count, 4.0);
    assert_eq!(
        (
            costs(&report, "1").unwrap().0,
            costs(&report, "0").unwrap().1
        ),
        (1.0, 1.0)
    );
}

#[test]
fn stacks_far_down_a_shared_table_are_counted() {
    const FAR: usize = (1 << 20) + 3;
    let nulls = "null,".repeat(FAR - 1);
    let stack_table = format!(r#""prefix":[null,{nulls}0],"frame":[0,{nulls}1]"#);
    let report = read_text(
        &of_stacks(&format!(r#""stack":[{FAR}]"#), &stack_table, 2),
        ALL,
    );
    assert_eq!(
        (
            costs(&report, "1").unwrap().0,
            costs(&report, "0").unwrap().1
        ),
        (1.0, 1.0)
    );
}

/// A profile of this profiler in the processed format, with two programs of one process. The second
/// program has one sample, which has no stack.
fn of_programs() -> String {
    let thread = |pid: &str, samples: &str| {
        format!(
            r#"{{"name":"main","processName":"p","pid":"{pid}","tid":2,"samples":{{{samples}}}}}"#
        )
    };
    let first = thread(
        "2",
        r#""stack":[0,null],"threadCPUDelta":[3000000,1000000]"#,
    );
    let second = thread("2.1", r#""stack":[null],"threadCPUDelta":[6000000]"#);
    let row = |name: &str, threads: u32| {
        format!(
            r#"{{"name":"{name}","pid":2,"verdict":"complete","threads":{threads},"recorded":0,
            "delivered":0,"evicted":0,"unfinished":0,"dropped":{{}}}}"#
        )
    };
    let rows = [row("one", 1), row("lost", 0), row("two", 1)].join(",");
    format!(
        r#"{{"meta":{{"preprocessedProfileVersion":66,"startUnixNs":5,
        "sampleUnits":{{"threadCPUDelta":"ns"}}}},"threads":[{first},{second}],
        "profileGatheringLog":{{"1":{{"processes":[{rows}]}}}},
        "shared":{{"stackTable":{{"frame":[0],"prefix":[null]}},"frameTable":{{"func":[0]}},
        "funcTable":{{"name":[0]}},"stringArray":["f"]}}}}"#
    )
}

#[test]
fn processor_time_without_a_stack_is_a_row_and_in_the_total() {
    let report = read_text(&of_programs(), ALL);
    let expected = [("(no stack)", 70.0, 70.0), ("f", 30.0, 30.0)];
    assert_eq!(rows(&report), expected);
    assert_eq!(report.samples.unwrap().all_ms, 10.0);
}

#[test]
fn every_program_has_its_own_processor_time() {
    let report = read_text(&of_programs(), ALL);
    let times = report
        .processes
        .iter()
        .map(|row| (row.name.as_str(), row.cpu_ms));
    let expected = [("one", Some(4.0)), ("lost", None), ("two", Some(6.0))];
    assert_eq!(times.collect::<Vec<_>>(), expected);
    let merged = of_programs()
        .replace(r#""pid":"2"#, r#""pid":"db:2"#)
        .replace(r#""pid":2,"#, r#""pid":2,"host":"db","#);
    let report = read_text(&merged, ALL);
    assert_eq!(report.processes[2].cpu_ms, Some(6.0));
}

#[test]
fn the_first_processor_time_of_a_thread_counts_only_in_profiles_of_this_profiler() {
    let other = of_programs().replace(r#""startUnixNs":5,"#, "");
    let samples = read_text(&other, ALL).samples.unwrap();
    assert_eq!(samples.all_ms, 1.0);
}

#[test]
fn the_remarks_of_processes_are_told_with_their_names() {
    let log = r#""profilingLog":{"2.1":{"notices":["it has a filter"]},"3":{}},"shared":"#;
    let report = read_text(&of_programs().replace(r#""shared":"#, log), ALL);
    let lines = crate::remarks::grouped(&report.remarks);
    assert_eq!(lines, ["p (2.1): it has a filter"]);
}
