//! Tests of the Gecko writer: the entries of the sampler, of the allocator and of markers with
//! stacks are in the profile, exactly, and in the counts.
//!
//! This file tests frames, libraries, markers and allocations; `samples` and `counters` test the
//! other tables. `record` writes entries with exact times, and `show` reads the written profile.

mod counters;
mod record;
mod samples;
mod show;

use serde_json::{Value, json};

use self::record::{Session, allocation, marker_with_stack, module, on_thread, site};
use self::show::{marker_stack, profile, samples, thread};
use profiler_core::category;
use profiler_core::ids::ThreadId;
use profiler_core::sampler::{Frame, Sample, SampleWriter, define_label, define_module};
use profiler_core::time::Timestamp;

const MAPPED: u64 = 0x7f00_0000_1000;

fn main_thread() -> ThreadId {
    ThreadId::new(u64::from(std::process::id()))
}

fn sample(at: Timestamp, cpu_ns: Option<u64>, frames: &[Frame]) -> Sample<'_> {
    Sample {
        at,
        cpu_ns,
        frames,
        cut: false,
        failed: false,
    }
}

fn rows(table: &Value) -> Vec<Value> {
    table["data"].as_array().unwrap().clone()
}

#[test]
fn code_has_the_category_user_and_code_inside_a_label_inherits_the_labels_category() {
    let session = Session::start();
    let library =
        define_module(&module("/lib/libwork.so", MAPPED, MAPPED, MAPPED + 0x5000)).unwrap();
    let label = define_label("read", category::IO.sub(1), "", 33).unwrap();
    let code = Frame::Code(library, 0x10);
    on_thread("sampling", || {
        let mut writer = SampleWriter::new();
        writer.sample(
            main_thread(),
            &sample(session.ms(1), None, &[code, Frame::Label(label), code]),
        );
    });
    let profile = profile();
    let categories = profile["meta"]["categories"].as_array().unwrap();
    let index_of = |name: &str| {
        categories
            .iter()
            .position(|row| row["name"] == name)
            .unwrap()
    };
    let frames = rows(&thread(&profile, "GeckoMain")["frameTable"]);
    let found: Vec<_> = frames
        .iter()
        .map(|row| (row[6].clone(), row[7].clone(), row[4].clone()))
        .collect();
    let expected = [
        (json!(index_of("User")), json!(0), Value::Null),
        (json!(index_of("I/O")), json!(1), json!(33)),
        (Value::Null, Value::Null, Value::Null),
    ];
    assert_eq!(found, expected);
    assert_eq!(categories[index_of("User")]["color"], "yellow");
}

#[test]
fn a_stack_without_processor_time_ends_in_the_category_idle() {
    let session = Session::start();
    let library =
        define_module(&module("/lib/libwork.so", MAPPED, MAPPED, MAPPED + 0x5000)).unwrap();
    let label = define_label("read", category::IO.sub(1), "", 33).unwrap();
    let [outer, inner] = [0x10, 0x20].map(|at| Frame::Code(library, at));
    on_thread("sampling", || {
        let mut writer = SampleWriter::new();
        let mut stack = |ms, cpu_ns, frames: &[Frame]| {
            assert!(writer.sample(main_thread(), &sample(session.ms(ms), Some(cpu_ns), frames)));
        };
        stack(1, 7, &[outer, inner]);
        stack(2, 0, &[outer, inner]);
        stack(3, 9, &[outer, inner]);
        stack(4, 0, &[outer]);
        stack(5, 0, &[outer, Frame::Label(label)]);
    });
    let profile = profile();
    let main = thread(&profile, "GeckoMain");
    let row = |name: &str| {
        let categories = profile["meta"]["categories"].as_array().unwrap();
        let found = categories.iter().find(|row| row["name"] == name);
        (
            categories.iter().position(|row| row["name"] == name),
            found.map(|row| row["color"].clone()),
        )
    };
    let (idle, color) = row("Idle");
    assert_eq!(color, Some(json!("transparent")));
    let stacks: Vec<_> = rows(&main["samples"])
        .iter()
        .map(|row| row[0].as_u64().unwrap() as usize)
        .collect();
    let category = |stack: usize| {
        let frame = main["stackTable"]["data"][stack][1].as_u64().unwrap() as usize;
        main["frameTable"]["data"][frame][6]
            .as_u64()
            .map(|row| row as usize)
    };
    let found: Vec<_> = stacks.iter().map(|stack| category(*stack)).collect();
    assert_eq!(found, [None, idle, None, idle, idle]);
    assert_eq!(stacks[0], stacks[2], "the thread runs again where it ran");
    let names: Vec<_> = samples(main).into_iter().map(|sample| sample.2).collect();
    let both = "0x7f0000001010 > 0x7f0000001020";
    assert_eq!(
        names,
        [both, both, both, "0x7f0000001010", "0x7f0000001010 > read"]
    );
}

#[test]
fn libraries_do_not_overlap_and_every_frame_is_found_in_its_own_library() {
    let session = Session::start();
    let modules = [
        module("/lib/first.so", MAPPED, MAPPED, MAPPED + 0x5000),
        module(
            "/lib/in-its-place.so",
            MAPPED,
            MAPPED + 0x1000,
            MAPPED + 0x9000,
        ),
        module("/bin/program", 0, 0x40_0000, 0x41_0000),
        module("/lib/first.so", MAPPED, MAPPED, MAPPED + 0x5000),
        module(
            "/bin/other program at the same place",
            0,
            0x40_0000,
            0x41_0000,
        ),
        module(
            "[far]",
            u64::MAX - 0x9000,
            u64::MAX - 0x9000,
            u64::MAX - 0x1000,
        ),
        module("before", MAPPED - 0x1000, MAPPED - 0x1000, MAPPED),
    ];
    let ids: Vec<_> = modules
        .iter()
        .map(|module| define_module(module).unwrap())
        .collect();
    let relative = |index: usize| modules[index].start - modules[index].base + 0x10;
    let mut frames: Vec<_> = (0..ids.len())
        .map(|index| Frame::Code(ids[index], relative(index)))
        .collect();
    let not_there = [
        Frame::Code(ids[0], 0x9000),
        Frame::Unknown(MAPPED + 8),
        Frame::Unknown(8),
    ];
    frames.extend(not_there);
    on_thread("sampling", || {
        SampleWriter::new().sample(main_thread(), &sample(session.ms(1), None, &frames));
    });
    let profile = profile();
    let libs = profile["libs"].as_array().unwrap();
    let number = |lib: &Value, key: &str| lib[key].as_u64().unwrap();
    assert_eq!(libs.len(), 6);
    assert!(
        libs.windows(2)
            .all(|pair| number(&pair[0], "end") <= number(&pair[1], "start")),
        "{libs:?}"
    );
    let names = samples(thread(&profile, "GeckoMain"))[0].2.clone();
    let names: Vec<_> = names.split(" > ").collect();
    for (index, module) in modules.iter().enumerate() {
        let address = u64::from_str_radix(&names[index][2..], 16).unwrap();
        let lib = libs
            .iter()
            .find(|lib| (number(lib, "start")..number(lib, "end")).contains(&address))
            .unwrap();
        assert_eq!(lib["path"], module.path);
        assert_eq!(
            address - (number(lib, "start") - number(lib, "offset")),
            relative(index)
        );
    }
    let unknown = format!("\u{200b}{:#x}", MAPPED + 8);
    assert_eq!(names[modules.len()..], ["first.so+0x9000", &unknown, "0x8"]);
    let first = libs.iter().find(|lib| lib["name"] == "first.so").unwrap();
    assert_eq!(
        (number(first, "start"), number(first, "offset")),
        (MAPPED, 0)
    );
    assert_eq!(first["breakpadId"], "62696C2F662F726973742E736F0000000");
    assert_eq!(first["codeId"], "2f6c69622f66697273742e736f");
}

#[test]
fn markers_have_their_stacks_in_the_payload() {
    let session = Session::start();
    let typed = site("typed", true);
    let plain = site("plain", false);
    let frames = [Frame::Unknown(0x10), Frame::Unknown(0x20)];
    on_thread("marking", || {
        marker_with_stack(typed, session.ms(1), &frames, Some("first"), None);
        marker_with_stack(plain, session.ms(2), &frames, None, None);
        marker_with_stack(typed, session.ms(3), &[], Some("third"), None);
        marker_with_stack(plain, session.ms(4), &[], None, None);
        marker_with_stack(
            plain,
            session.ms(5),
            &frames[..1],
            None,
            Some(main_thread()),
        );
    });
    let profile = profile();
    let marking = thread(&profile, "marking");
    let own = rows(&marking["markers"]);
    let both = "0x10 > 0x20";
    assert_eq!(
        (&own[0][5]["type"], &own[0][5]["title"]),
        (&json!("Job"), &json!("first"))
    );
    assert_eq!(marker_stack(marking, &own[0][5]), both);
    assert_eq!(own[0][5]["stack"]["samples"]["data"][0][1], 1);
    assert_eq!(own[1][5]["type"], "NoPayloadUserData");
    assert_eq!(marker_stack(marking, &own[1][5]), both);
    assert_eq!(own[2][5], json!({"type": "Job", "title": "third"}));
    assert_eq!((own[3].get(5), own.len()), (None, 4));
    let main = thread(&profile, "GeckoMain");
    let given = rows(&main["markers"]);
    assert_eq!(marker_stack(main, &given[0][5]), "0x10");
    assert_eq!(given[0][5]["stack"]["tid"], marking["tid"]);
    assert!(own[0][5]["stack"]["tid"].is_null());
    let schemas = profile["meta"]["markerSchema"].as_array().unwrap();
    assert!(
        schemas
            .iter()
            .any(|schema| schema["name"] == "NoPayloadUserData")
    );
}

#[test]
fn allocations_are_markers_with_address_and_thread() {
    let session = Session::start();
    on_thread("taking", || {
        allocation(session.ms(1), 4096, 0x7f00_1234, &[Frame::Unknown(0x10)]);
        allocation(session.ms(2), -4096, 0x7f00_1234, &[]);
    });
    let profile = profile();
    let thread = thread(&profile, "taking");
    let tid = &thread["tid"];
    let rows = rows(&thread["markers"]);
    let data = |size: i64| json!({"type": "Native allocation", "size": size, "memoryAddress": 0x7f00_1234, "threadId": tid});
    let mut taken = rows[0][5].clone();
    assert_eq!(marker_stack(thread, &taken), "0x10");
    taken.as_object_mut().unwrap().remove("stack");
    assert_eq!((taken, &rows[1][5]), (data(4096), &data(-4096)));
    assert_eq!((&rows[0][1], &rows[0][3]), (&json!(1), &json!(0)));
    assert_eq!(
        thread["stringTable"][rows[0][0].as_u64().unwrap() as usize],
        "Native allocation"
    );
}

#[test]
fn stacks_labels_and_libraries_are_written_as_in_the_snapshot() {
    let session = Session::start();
    let library = define_module(&module(
        "/lib/libwork.so",
        MAPPED,
        MAPPED + 0x1000,
        MAPPED + 0x5000,
    ))
    .unwrap();
    let label = define_label("GET /item:42", category::IO.sub(1), "src/get.rs", 12).unwrap();
    let frames = [
        Frame::Code(library, 0x1010),
        Frame::Label(label),
        Frame::Unknown(0x77),
    ];
    on_thread("working", || {
        marker_with_stack(
            site("asked", true),
            session.ms(1),
            &frames[..2],
            Some("a"),
            None,
        );
        allocation(session.ms(2), 64, 0x5000, &frames);
        let own = ThreadId::new(profiler_sys::current_thread_number());
        let mut writer = SampleWriter::new();
        writer.sample(own, &sample(session.ms(3), Some(5), &frames));
        writer.same_as_before(own, session.ms(4));
    });
    let mut profile = profile();
    let mut working = thread(&profile, "working").clone();
    for varies in ["pid", "tid", "registerTime", "unregisterTime"] {
        working[varies] = json!("varies");
    }
    working["markers"]["data"][1][5]["threadId"] = json!("varies");
    profile["libs"][0]["arch"] = json!("varies");
    let categories = &profile["meta"]["categories"];
    insta::assert_json_snapshot!(
        json!({"libs": profile["libs"], "thread": working, "categories": categories})
    );
}
