//! Tests of the processed format: stacks with names, samples, counts, and the threads that the
//! viewer shows first.
//!
//! The tests write the samples themselves, so the contents of the profile are known.

use std::path::Path;

use profiler_core::ids::{DefinitionId, ThreadId};
use profiler_core::internal::reader::ModuleDefinition;
use profiler_core::marker::Category;
use profiler_core::marker::schema::CategoryColor;
use profiler_core::sampler::{Frame, Sample, SampleWriter, define_label, define_module};
use profiler_core::session::Features;
use profiler_core::time::Timestamp;
use profiler_json::PROCESSED_VERSION;
use profiler_parent::capture::{CodeNames, InlineFrame, Symbols};
use profiler_parent::{Capture, Session, marker};
use serde_json::Value;
use test_support::own_process;
use test_support::patience::until;
use test_support::threads::on_thread;

static WORK: Category = Category::new("Work", CategoryColor::Blue, &["Parsing"]);

/// Knows two addresses: a function at 0x1000, and a function with two inlined ones at 0x2000.
#[derive(Debug)]
struct Known;

impl Symbols for Known {
    fn resolve(
        &mut self,
        module: &ModuleDefinition,
        addresses: &[u64],
        found: &mut dyn FnMut(u64, &CodeNames<'_>),
    ) {
        assert_eq!(module.path, "/opt/app");
        assert!(
            addresses.windows(2).all(|pair| pair[0] < pair[1]),
            "not ascending, or not unique: {addresses:x?}"
        );
        let frame = |function, line| InlineFrame {
            function,
            file: Some("src/app.rs"),
            line: Some(line),
        };
        for address in addresses {
            match address {
                0x1000 => {
                    let names = CodeNames {
                        frames: &[frame("main", 1)],
                        start: Some(0xff0),
                        size: Some(64),
                    };
                    found(*address, &names);
                }
                0x2000 => {
                    let frames = [frame("leaf", 30), frame("middle", 20), frame("outer", 10)];
                    found(
                        *address,
                        &CodeNames {
                            frames: &frames,
                            start: Some(0x1f00),
                            size: None,
                        },
                    );
                }
                _ => {}
            }
        }
    }
}

fn module() -> DefinitionId {
    let base = 0x5000_0000;
    let start = 0x5000_0000;
    let end = 0x5001_0000;
    let definition = ModuleDefinition {
        path: "/opt/app".to_owned(),
        build_id: vec![7; 20],
        base,
        start,
        end,
    };
    define_module(&definition).unwrap()
}

/// Starts a session without a sampler of its own.
fn start() -> Session {
    let builder = Session::builder().name("app").features(Features::NONE);
    builder.start().unwrap()
}

/// A whole sample of these frames at this moment.
fn sample(cpu_ns: Option<u64>, frames: &[Frame]) -> Sample<'_> {
    Sample {
        at: Timestamp::now(),
        cpu_ns,
        frames,
        cut: false,
        failed: false,
    }
}

fn own_tid() -> ThreadId {
    ThreadId::new(u64::try_from(rustix::thread::gettid().as_raw_nonzero().get()).unwrap())
}

fn save(capture: Capture, directory: &Path) -> Value {
    let path = directory.join("profile.json");
    capture.save(&path).unwrap();
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

fn number(value: &Value) -> usize {
    usize::try_from(value.as_u64().unwrap()).unwrap()
}

/// The frames of a stack, outermost first: function, file, line, inline depth, category.
fn frames(profile: &Value, stack: &Value) -> Vec<String> {
    let shared = &profile["shared"];
    let mut stack = stack.clone();
    let mut all = Vec::new();
    while !stack.is_null() {
        let at = number(&stack);
        let frame = number(&shared["stackTable"]["frame"][at]);
        let column = |name: &str| &shared["frameTable"][name][frame];
        let func = number(column("func"));
        let text = |index: &Value| {
            shared["stringArray"][number(index)]
                .as_str()
                .unwrap()
                .to_owned()
        };
        let mut shown = text(&shared["funcTable"]["name"][func]);
        let source = &shared["funcTable"]["source"][func];
        if !source.is_null() {
            shown += &format!(" {}", text(&shared["sources"]["filename"][number(source)]));
        }
        if !column("line").is_null() {
            shown += &format!(":{}", column("line"));
        }
        if column("inlineDepth") != 0 {
            shown += &format!(" inlined {}", column("inlineDepth"));
        }
        if !column("category").is_null() {
            let category = &profile["meta"]["categories"][number(column("category"))];
            let subcategory = &category["subcategories"][number(column("subcategory"))];
            shown += &format!(
                " [{} {}]",
                category["name"].as_str().unwrap(),
                subcategory.as_str().unwrap()
            );
        }
        all.push(shown);
        let prefix = &shared["stackTable"]["prefix"][at];
        assert!(
            prefix.is_null() || number(prefix) < at,
            "a caller comes first"
        );
        stack = prefix.clone();
    }
    all.reverse();
    all
}

fn thread(profile: &Value, has: impl Fn(&Value) -> bool) -> (usize, &Value) {
    let mut found = profile["threads"]
        .as_array()
        .unwrap()
        .iter()
        .enumerate()
        .filter(|(_, thread)| has(thread));
    let first = found.next().expect("no such thread");
    assert!(found.next().is_none(), "two such threads");
    first
}

fn of_tid(tid: ThreadId) -> impl Fn(&Value) -> bool {
    move |thread| thread["tid"] == tid.get()
}

/// Checks that all columns of a table have its length.
fn check_lengths(table: &Value) {
    let length = number(&table["length"]);
    for (name, column) in table.as_object().unwrap() {
        if let Some(rows) = column.as_array() {
            assert_eq!(rows.len(), length, "{name}");
        }
    }
}

#[test]
fn stacks_have_names_files_lines_and_a_frame_for_each_inlined_function() {
    own_process!();
    let session = start();
    let module = module();
    let label = define_label("Job", WORK.sub(1), "src/job.rs", 5).unwrap();
    // A return address is one byte after the call. The innermost address is that of an instruction.
    let stack = [
        Frame::Code(module, 0x1001),
        Frame::Label(label),
        Frame::Code(module, 0x2000),
    ];
    let tid = own_tid();
    let cut = [Frame::Code(module, 0x3001), stack[2]];
    write_samples(tid, &stack, &cut);
    let directory = tempfile::tempdir().unwrap();
    let profile = save(session.capture().symbols(Known), directory.path());
    drop(session);
    let (_, thread) = thread(&profile, of_tid(tid));
    let samples = &thread["samples"];
    check_lengths(samples);
    let shown: Vec<_> = samples["stack"]
        .as_array()
        .unwrap()
        .iter()
        .map(|stack| frames(&profile, stack))
        .collect();
    let inlined = [
        "outer src/app.rs:10",
        "middle src/app.rs:20 inlined 1",
        "leaf src/app.rs:30 inlined 2",
    ];
    let whole: Vec<_> = ["main src/app.rs:1", "Job src/job.rs:5 [Work Parsing]"]
        .into_iter()
        .chain(inlined)
        .collect();
    let whole: Vec<String> = whole.iter().map(|text| (*text).to_owned()).collect();
    let plain = |frames: &[String]| {
        frames
            .iter()
            .map(|frame| frame.replace(" [User Other]", ""))
            .collect::<Vec<_>>()
    };
    assert_eq!(plain(&shown[0]), whole);
    // The same stack without processor time: only the category of the innermost code differs.
    let idle = shown[0].iter().map(|frame| match frame.as_str() {
        "outer src/app.rs:10" => "outer src/app.rs:10 [Idle Other]".to_owned(),
        frame => frame.to_owned(),
    });
    assert_eq!(shown[1], idle.collect::<Vec<_>>(), "same as before");
    assert_eq!(plain(&shown[2])[..2], ["(truncated stack)", "app+0x3000"]);
    assert_eq!(shown[2][2..], inlined);
    assert_eq!(plain(&shown[3]), ["0xabc0"]);
    assert!(samples["stack"][4].is_null(), "no frames, no stack");
    assert_eq!(
        samples["threadCPUDelta"],
        serde_json::json!([500, 0, 500, 500, 500])
    );
    for table in [
        "stackTable",
        "frameTable",
        "funcTable",
        "resourceTable",
        "nativeSymbols",
        "sources",
    ] {
        check_lengths(&profile["shared"][table]);
    }
    check_native_symbols(&profile);
}

/// Writes five samples: `stack`, the same stack again, `cut`, unknown code, and no frames.
fn write_samples(tid: ThreadId, stack: &[Frame], cut: &[Frame]) {
    let mut writer = SampleWriter::new();
    // While the session has no empty chunk, a sample is dropped.
    let write = |writer: &mut SampleWriter, frames, cut| {
        let sample = || Sample {
            cut,
            ..sample(Some(500), frames)
        };
        assert!(until(|| writer.sample(tid, &sample())));
    };
    write(&mut writer, stack, false);
    assert!(until(|| writer.same_as_before(tid, Timestamp::now())));
    write(&mut writer, cut, true);
    write(&mut writer, &[Frame::Unknown(0xabc0)], false);
    write(&mut writer, &[], false);
}

fn check_native_symbols(profile: &Value) {
    let natives = &profile["shared"]["nativeSymbols"];
    assert_eq!(
        (&natives["address"], &natives["functionSize"]),
        (
            &[0xff0, 0x1f00].into_iter().collect(),
            &serde_json::json!([64, null])
        )
    );
    assert_eq!(profile["libs"][0]["codeId"], "07".repeat(20));
    assert_eq!(profile["meta"]["symbolicated"], true);
    assert_eq!(
        profile["meta"]["preprocessedProfileVersion"],
        PROCESSED_VERSION
    );
}

#[test]
fn a_thread_that_is_known_only_from_samples_is_shown_and_counts_are_exact() {
    own_process!();
    let session = start();
    let gone = ThreadId::new(4_000_000_001);
    on_thread(move || {
        let mut writer = SampleWriter::new();
        for number in 0..20_000_u64 {
            let frames = [Frame::Unknown(0x10), Frame::Unknown(0x20 + number % 3)];
            let sample = sample(Some(1000), &frames);
            assert!(until(|| writer.sample(gone, &sample)));
        }
    });
    marker!("here");
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("profile.json.gz");
    let report = session.capture().save(&path).unwrap();
    let profile = save(session.capture().symbols(Known), directory.path());
    drop(session);
    let (place, ended) = thread(&profile, of_tid(gone));
    assert_eq!(ended["name"], "(ended thread 4000000001)");
    let samples = number(&ended["samples"]["length"]) as u64;
    assert!(samples > 10_000, "{samples}");
    assert_eq!(
        profile["shared"]["stackTable"]["length"], 4,
        "stacks are shared"
    );
    let log = profile["profilingLog"]
        .as_object()
        .unwrap()
        .values()
        .next()
        .unwrap();
    let total = |name: &str| log["total"][name].as_u64().unwrap();
    assert_eq!(total("delivered"), samples + 1, "the marker");
    let parts = ["delivered", "outside", "evicted", "dropped", "unfinished"].map(total);
    assert_eq!(total("recorded"), parts.iter().sum::<u64>());
    assert_eq!(report.processes[0].counts.delivered, samples + 1);
    let threads = profile["threads"].as_array().unwrap();
    assert_eq!(report.processes[0].threads as usize, threads.len());
    assert_eq!(
        threads.len(),
        3,
        "the main thread, the recording thread and the ended thread: {threads:?}"
    );
    assert_eq!(
        profile["meta"]["initialSelectedThreads"],
        serde_json::json!([place])
    );
    assert!(
        profile["meta"]["initialVisibleThreads"]
            .as_array()
            .unwrap()
            .contains(&place.into())
    );
    let deltas = ended["samples"]["timeDeltas"].as_array().unwrap();
    assert!(
        deltas
            .iter()
            .skip(1)
            .all(|delta| delta.as_f64().unwrap() >= 0.0)
    );
}

#[test]
fn a_profile_without_names_is_marked_as_not_symbolicated() {
    own_process!();
    let session = start();
    let frames = [Frame::Code(module(), 0x1001)];
    let tid = ThreadId::new(4_000_000_002);
    let sample = sample(None, &frames);
    assert!(until(|| SampleWriter::new().sample(tid, &sample)));
    let directory = tempfile::tempdir().unwrap();
    let profile = save(session.capture(), directory.path());
    drop(session);
    let (_, thread) = thread(&profile, of_tid(tid));
    assert!(frames_of(&profile, thread)[0].starts_with("app+0x1001"));
    assert!(
        thread["samples"].get("threadCPUDelta").is_none(),
        "nothing was measured"
    );
    assert_eq!(profile["meta"]["symbolicated"], false);
}

fn frames_of(profile: &Value, thread: &Value) -> Vec<String> {
    frames(profile, &thread["samples"]["stack"][0])
}

/// Knows files of the standard library and of a package.
#[derive(Debug)]
struct Published;

impl Symbols for Published {
    fn resolve(
        &mut self,
        _: &ModuleDefinition,
        addresses: &[u64],
        found: &mut dyn FnMut(u64, &CodeNames<'_>),
    ) {
        let frame = |function, file| InlineFrame {
            function,
            file: Some(file),
            line: Some(1),
        };
        let frames = [
            frame(
                "decode",
                "/c/registry/src/a.registry-01/package-1.2.3/src/lib.rs",
            ),
            frame("start", "/rustc/0123abc/library/std/src/rt.rs"),
        ];
        for address in addresses {
            let (start, size) = (None, None);
            let frames = &frames;
            found(
                *address,
                &CodeNames {
                    frames,
                    start,
                    size,
                },
            );
        }
    }
}

#[test]
fn sources_that_the_viewer_can_find_have_its_form_and_stacks_of_one_type_are_marked() {
    own_process!();
    let session = start();
    let directory = tempfile::tempdir().unwrap();
    let tid = own_tid();
    let record = |frames: &[Frame]| {
        assert!(SampleWriter::new().sample(tid, &sample(None, frames)));
        save(session.capture().symbols(Published), directory.path())
    };
    let code = Frame::Code(module(), 0x1000);
    let profile = record(&[code]);
    let sources = &profile["shared"]["sources"]["filename"];
    let names: Vec<_> = sources
        .as_array()
        .unwrap()
        .iter()
        .map(|name| &profile["shared"]["stringArray"][number(name)])
        .collect();
    assert_eq!(
        names,
        [
            "git:github.com/rust-lang/rust:library/std/src/rt.rs:0123abc",
            "cargo:a.registry-01:package-1.2.3:src/lib.rs"
        ]
    );
    assert_eq!(profile["meta"]["usesOnlyOneStackType"], true);
    let file = "/c/registry/src/a.registry-01/package-1.2.3/src/job.rs";
    let label = define_label("Job", WORK.sub(1), file, 5).unwrap();
    let profile = record(&[code, Frame::Label(label)]);
    assert_eq!(profile["meta"].get("usesOnlyOneStackType"), None);
    let texts = profile["shared"]["stringArray"].as_array().unwrap();
    assert!(texts.contains(&"cargo:a.registry-01:package-1.2.3:src/job.rs".into()));
}
