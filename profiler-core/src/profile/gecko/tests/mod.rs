//! What the sampler, the allocator and markers with stacks record is in the profile, exactly, and in the books.

mod record;
mod show;

use serde_json::{Value, json};

use self::record::{Session, allocation, marker_with_stack, module, on_thread, overhead, site};
use self::show::{log, marker_stack, profile, profile_since, samples, stack_names, thread, thread_names};
use crate::category;
use crate::counter::Counter;
use crate::entry::periodic::{CounterValue, OverheadEntry};
use crate::ids::{CounterIndex, ThreadId};
use crate::sampler::{Frame, Sample, SampleWriter, define_label, define_module};
use crate::time::Timestamp;
use crate::{marker, session, sys};

const MAPPED: u64 = 0x7f00_0000_1000;

fn main_thread() -> ThreadId {
    ThreadId::new(u64::from(std::process::id()))
}

fn sample(at: Timestamp, cpu_ns: Option<u64>, frames: &[Frame]) -> Sample<'_> {
    Sample { at, cpu_ns, frames, cut: false, failed: false }
}

fn rows(table: &Value) -> Vec<Value> {
    table["data"].as_array().unwrap().clone()
}

#[test]
fn samples_stand_in_the_table_of_the_sampled_thread_and_in_the_samplers_books() {
    let session = Session::start();
    let library = define_module(&module("/lib/libwork.so", MAPPED, MAPPED, MAPPED + 0x5000)).unwrap();
    let layout = define_label("layout", category::IO.sub(2), "src/layout.rs", 33).unwrap();
    let (outer, inner) = (Frame::Code(library, 0x10), Frame::Code(library, 0x2_0));
    let (main, other) = (main_thread(), ThreadId::new(99_999_999));
    on_thread("sampling", || {
        let mut writer = SampleWriter::new();
        let frames = [outer, Frame::Label(layout), inner];
        assert!(writer.sample(main, &sample(session.ms(1), Some(7), &frames)));
        assert!(writer.sample(other, &sample(session.ms(1), None, &[Frame::Unknown(0x77)])));
        assert!(writer.same_as_before(main, session.ms(2)));
        assert!(writer.sample(main, &sample(session.ms(3), Some(9), &frames[..2])));
        let cut = Sample { cut: true, ..sample(session.ms(4), Some(9), &frames[..2]) };
        assert!(writer.sample(main, &cut));
        assert!(writer.sample(main, &sample(session.ms(5), Some(1), &[])));
    });
    let (profile, counts) = profile_since(None);
    let all = "0x7f0000001010 > layout > 0x7f0000001020".to_owned();
    let expected = vec![
        (1.0, Some(7), all.clone()),
        (2.0, Some(0), all),
        (3.0, Some(9), "0x7f0000001010 > layout".to_owned()),
        (4.0, Some(9), "(truncated stack) > 0x7f0000001010 > layout".to_owned()),
        (5.0, Some(1), String::new()),
    ];
    assert_eq!(samples(thread(&profile, "GeckoMain")), expected);
    assert_eq!(samples(thread(&profile, "(ended thread 99999999)")), [(1.0, None, "0x77".to_owned())]);
    assert_eq!(thread_names(&profile), ["GeckoMain", "(ended thread 99999999)"]);
    assert_eq!(
        (&log(&profile, "sampling")["delivered"], &log(&profile, "sampling")["evicted"]),
        (&json!(6), &json!(0))
    );
    assert_eq!((counts.delivered, counts.recorded()), (6, 6));
}

#[test]
fn code_is_about_the_user_and_what_is_inside_a_label_about_the_labels_category() {
    let session = Session::start();
    let library = define_module(&module("/lib/libwork.so", MAPPED, MAPPED, MAPPED + 0x5000)).unwrap();
    let label = define_label("read", category::IO.sub(1), "", 33).unwrap();
    let code = Frame::Code(library, 0x10);
    on_thread("sampling", || {
        let mut writer = SampleWriter::new();
        writer.sample(main_thread(), &sample(session.ms(1), None, &[code, Frame::Label(label), code]));
    });
    let profile = profile();
    let categories = profile["meta"]["categories"].as_array().unwrap();
    let of = |name: &str| categories.iter().position(|row| row["name"] == name).unwrap();
    let frames = rows(&thread(&profile, "GeckoMain")["frameTable"]);
    let about: Vec<_> = frames.iter().map(|row| (row[6].clone(), row[7].clone(), row[4].clone())).collect();
    let expected = [
        (json!(of("User")), json!(0), Value::Null),
        (json!(of("I/O")), json!(1), json!(33)),
        (Value::Null, Value::Null, Value::Null),
    ];
    assert_eq!(about, expected);
    assert_eq!(categories[of("User")]["color"], "yellow");
}

#[test]
fn libraries_do_not_overlap_and_every_frame_is_found_in_its_own() {
    let session = Session::start();
    let modules = [
        module("/lib/first.so", MAPPED, MAPPED, MAPPED + 0x5000),
        module("/lib/in-its-place.so", MAPPED, MAPPED + 0x1000, MAPPED + 0x9000),
        module("/bin/program", 0, 0x40_0000, 0x41_0000),
        module("/lib/first.so", MAPPED, MAPPED, MAPPED + 0x5000),
        module("/bin/other program at the same place", 0, 0x40_0000, 0x41_0000),
        module("[far]", u64::MAX - 0x9000, u64::MAX - 0x9000, u64::MAX - 0x1000),
        module("before", MAPPED - 0x1000, MAPPED - 0x1000, MAPPED),
    ];
    let ids: Vec<_> = modules.iter().map(|module| define_module(module).unwrap()).collect();
    let relative = |index: usize| modules[index].start - modules[index].base + 0x10;
    let mut frames: Vec<_> = (0..ids.len()).map(|index| Frame::Code(ids[index], relative(index))).collect();
    let not_there = [Frame::Code(ids[0], 0x9000), Frame::Unknown(MAPPED + 8), Frame::Unknown(8)];
    frames.extend(not_there);
    on_thread("sampling", || {
        SampleWriter::new().sample(main_thread(), &sample(session.ms(1), None, &frames));
    });
    let profile = profile();
    let libs = profile["libs"].as_array().unwrap();
    let number = |lib: &Value, key: &str| lib[key].as_u64().unwrap();
    assert_eq!(libs.len(), 6);
    assert!(libs.windows(2).all(|pair| number(&pair[0], "end") <= number(&pair[1], "start")), "{libs:?}");
    let names = samples(thread(&profile, "GeckoMain"))[0].2.clone();
    let names: Vec<_> = names.split(" > ").collect();
    for (index, module) in modules.iter().enumerate() {
        let address = u64::from_str_radix(&names[index][2..], 16).unwrap();
        let lib =
            libs.iter().find(|lib| (number(lib, "start")..number(lib, "end")).contains(&address)).unwrap();
        assert_eq!(lib["path"], module.path);
        assert_eq!(address - (number(lib, "start") - number(lib, "offset")), relative(index));
    }
    let unknown = format!("\u{200b}{:#x}", MAPPED + 8);
    assert_eq!(names[modules.len()..], ["first.so+0x9000", &unknown, "0x8"]);
    let first = libs.iter().find(|lib| lib["name"] == "first.so").unwrap();
    assert_eq!((number(first, "start"), number(first, "offset")), (MAPPED, 0));
    assert_eq!(first["breakpadId"], "62696C2F662F726973742E736F0000000");
    assert_eq!(first["codeId"], "2f6c69622f66697273742e736f");
}

#[test]
fn samples_of_several_samplers_are_in_the_order_of_time() {
    let session = Session::start();
    let record = |times: &[u64]| {
        let mut writer = SampleWriter::new();
        for at in times {
            writer.sample(main_thread(), &sample(session.ms(*at), None, &[Frame::Unknown(*at)]));
        }
    };
    on_thread("late", || record(&[2, 4, 9]));
    on_thread("early", || record(&[1, 3, 10]));
    let profile = profile();
    let times: Vec<_> = samples(thread(&profile, "GeckoMain")).into_iter().map(|sample| sample.0).collect();
    assert_eq!(times, [1.0, 2.0, 3.0, 4.0, 9.0, 10.0]);
}

#[test]
fn samples_that_go_back_in_time_do_not_in_the_profile() {
    let session = Session::start();
    on_thread("sampling", || {
        let mut writer = SampleWriter::new();
        for at in [3, 2, 5] {
            writer.sample(main_thread(), &sample(session.ms(at), None, &[]));
        }
    });
    let profile = profile();
    let times: Vec<_> = samples(thread(&profile, "GeckoMain")).into_iter().map(|sample| sample.0).collect();
    assert_eq!(times, [3.0, 3.0, 5.0]);
}

#[test]
fn what_is_left_after_evictions_is_whole_and_the_rest_is_in_the_books() {
    const MANY: u64 = 60_000;
    let session = Session::with_limit(1 << 20);
    let stack = |number: u64| -> Vec<Frame> {
        (0..3 + number % 7)
            .map(|level| Frame::Unknown(0x100 * (level + 1) + if level > 2 { number % 5 } else { 0 }))
            .collect()
    };
    let name = |number: u64| {
        let frame = |frame: &Frame| match frame {
            Frame::Unknown(address) => format!("{address:#x}"),
            _ => unreachable!(),
        };
        stack(number).iter().map(frame).collect::<Vec<_>>().join(" > ")
    };
    let mut accepted = Vec::new();
    on_thread("sampling", || {
        let mut writer = SampleWriter::new();
        for number in 1..=MANY {
            let thread = if number % 3 == 0 { main_thread() } else { ThreadId::new(99_999_999) };
            let is_there = writer.sample(thread, &sample(session.ms(number), Some(number), &stack(number)));
            if is_there && number % 3 == 0 {
                accepted.push(number);
            }
            if number % 1000 == 0 {
                std::thread::sleep(std::time::Duration::from_millis(1)); // chunks are made ready
            }
        }
    });
    let (profile, counts) = profile_since(None);
    let seen = samples(thread(&profile, "GeckoMain"));
    assert!(seen.len() > 1000 && seen.len() < accepted.len(), "{}", seen.len());
    let expected = &accepted[accepted.len() - seen.len()..];
    let expected: Vec<_> = expected.iter().map(|at| (*at as f64, Some(*at), name(*at))).collect();
    assert_eq!(seen, expected);
    let others = samples(thread(&profile, "(ended thread 99999999)")).len();
    assert_eq!(counts.delivered, (seen.len() + others) as u64);
    assert_eq!(counts.recorded(), MANY);
    let sampling = log(&profile, "sampling");
    assert_eq!(
        (sampling["recorded"].as_u64(), sampling["delivered"].as_u64()),
        (Some(MANY), Some(counts.delivered))
    );
}

#[test]
fn markers_have_their_stacks_in_the_payload() {
    let session = Session::start();
    let (typed, plain) = (site("typed", true), site("plain", false));
    let frames = [Frame::Unknown(0x10), Frame::Unknown(0x20)];
    on_thread("marking", || {
        marker_with_stack(typed, session.ms(1), &frames, Some("first"), None);
        marker_with_stack(plain, session.ms(2), &frames, None, None);
        marker_with_stack(typed, session.ms(3), &[], Some("third"), None);
        marker_with_stack(plain, session.ms(4), &[], None, None);
        marker_with_stack(plain, session.ms(5), &frames[..1], None, Some(main_thread()));
    });
    let profile = profile();
    let marking = thread(&profile, "marking");
    let own = rows(&marking["markers"]);
    let both = "0x10 > 0x20";
    assert_eq!((&own[0][5]["type"], &own[0][5]["title"]), (&json!("Job"), &json!("first")));
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
    assert!(schemas.iter().any(|schema| schema["name"] == "NoPayloadUserData"));
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
    assert_eq!(thread["stringTable"][rows[0][0].as_u64().unwrap() as usize], "Native allocation");
}

static MEMORY: Counter = Counter::new("Cache", "Memory", "");
static RATE: Counter = Counter::new("Jobs", "Jobs", "");
static NEVER: Counter = Counter::new("Quiet", "Jobs", "");

/// The cells of [`MEMORY`], [`RATE`] and [`NEVER`].
fn cells() -> [CounterIndex; 3] {
    [&MEMORY, &RATE, &NEVER].iter().for_each(|counter| counter.add(5));
    let reader = crate::reader::PoolReader::open(session::pool_file().unwrap()).unwrap();
    let snapshot = reader.snapshot().unwrap();
    ["Cache", "Jobs", "Quiet"].map(|name| {
        let known = snapshot.counters.iter().find(|counter| counter.definition.name == name);
        known.unwrap().definition.cell
    })
}

/// Time, count and number of all rows but the last, which is of the capture; and the sum of all.
fn counter_rows(profile: &Value, name: &str) -> (Vec<(f64, i64, u64)>, i64) {
    let counters = profile["counters"].as_array().unwrap();
    let counter = counters.iter().find(|counter| counter["name"] == name).unwrap();
    let row = |row: &Value| (row[0].as_f64().unwrap(), row[1].as_i64().unwrap(), row[2].as_u64().unwrap());
    let mut rows: Vec<_> = rows(&counter["samples"]).iter().map(row).collect();
    let sum = rows.iter().map(|row| row.1).sum();
    rows.pop();
    (rows, sum)
}

#[test]
fn counters_show_how_they_went_and_end_with_what_they_came_to() {
    let session = Session::start();
    let [memory, rate, _] = cells();
    let value = |cell, value, number| CounterValue { cell, value, number };
    on_thread("sampling", || {
        record::counters(session.ms(100), &[value(memory, 3, 1), value(rate, 10, 2)]);
        record::counters(session.ms(101), &[value(memory, 1, 2), value(CounterIndex::new(900), 1, 1)]);
        let locking_ns = 1_500;
        overhead(&OverheadEntry {
            at: session.ms(101),
            locking_ns,
            counters_ns: 2_000,
            threads_ns: 30,
            total_ns: 9_999,
        });
        record::counters(session.ms(102), &[value(rate, 14, 3)]);
    });
    let (profile, counts) = profile_since(None);
    let (memory, memory_sum) = counter_rows(&profile, "Cache");
    assert_eq!((&memory[1..], memory_sum), (&[(100.0, 3, 1), (101.0, -2, 1)][..], 5));
    assert!(memory[0].0 < 100.0 && (memory[0].1, memory[0].2) == (0, 0), "{memory:?}");
    let (rate, rate_sum) = counter_rows(&profile, "Jobs");
    assert_eq!((&rate[1..], rate_sum), (&[(100.0, 10, 2), (102.0, 4, 1)][..], 5));
    assert_eq!(counter_rows(&profile, "Quiet").1, 5);
    assert_eq!(rows(&profile["profilerOverhead"]["samples"]), [json!([101_000, 1.5, 0, 2, 0.03])]);
    assert_eq!((counts.delivered, counts.recorded()), (4, 4));
    assert_eq!(thread_names(&profile), ["GeckoMain"]);
}

#[test]
fn a_counter_whose_beginning_is_gone_begins_with_what_is_left() {
    let session = Session::start();
    let [memory, rate, _] = cells();
    let value = |cell, value, number| CounterValue { cell, value, number };
    on_thread("sampling", || {
        record::counters(session.ms(1), &[value(memory, 3, 1), value(rate, 10, 2)]);
        record::counters(session.ms(5), &[value(memory, 4, 2), value(rate, 30, 5)]);
        record::counters(session.ms(6), &[value(memory, 9, 3), value(rate, 31, 6)]);
    });
    let (profile, counts) = profile_since(Some(session.ms(4)));
    assert_eq!(counter_rows(&profile, "Cache").0, [(5.0, 0, 0), (5.0, 4, 2), (6.0, 5, 1)]);
    assert_eq!(counter_rows(&profile, "Jobs").0, [(5.0, 0, 0), (6.0, 1, 1)]);
    assert_eq!((counts.delivered, counts.evicted), (2, 1));
}

#[test]
fn what_is_older_than_the_window_is_left_out_of_samples_too_and_stacks_stay_right() {
    let session = Session::start();
    let frames = [Frame::Unknown(0x10), Frame::Unknown(0x20), Frame::Unknown(0x30)];
    on_thread("sampling", || {
        let mut writer = SampleWriter::new();
        for (at, depth) in [(1, 2), (2, 2), (5, 3)] {
            writer.sample(main_thread(), &sample(session.ms(at), None, &frames[..depth]));
        }
    });
    let (profile, counts) = profile_since(Some(session.ms(4)));
    assert_eq!(samples(thread(&profile, "GeckoMain")), [(5.0, None, "0x10 > 0x20 > 0x30".to_owned())]);
    assert_eq!((counts.delivered, counts.evicted), (1, 2));
}

#[test]
fn a_sampler_that_records_markers_too_is_shown_and_samples_itself_in_its_own_table() {
    let session = Session::start();
    on_thread("sampling", || {
        let own = sys::current_thread_id();
        let mut writer = SampleWriter::new();
        writer.sample(main_thread(), &sample(session.ms(1), None, &[Frame::Unknown(0x10)]));
        writer.sample(own, &sample(session.ms(2), None, &[Frame::Unknown(0x20)]));
        marker!("tick");
    });
    let (profile, counts) = profile_since(None);
    assert_eq!(samples(thread(&profile, "GeckoMain")), [(1.0, None, "0x10".to_owned())]);
    let sampling = thread(&profile, "sampling");
    assert_eq!(samples(sampling), [(2.0, None, "0x20".to_owned())]);
    assert_eq!(rows(&sampling["markers"]).len(), 1, "no marker of losses");
    assert_eq!((counts.delivered, counts.recorded()), (3, 3));
    assert_eq!(log(&profile, "sampling")["delivered"], 3);
}

#[test]
fn equal_stacks_of_samples_and_markers_are_one_row() {
    let session = Session::start();
    let frames = [Frame::Unknown(0x10), Frame::Unknown(0x20)];
    marker_with_stack(site("plain", false), session.ms(1), &frames, None, Some(main_thread()));
    on_thread("sampling", || {
        let mut writer = SampleWriter::new();
        for at in 1..100 {
            writer.sample(main_thread(), &sample(session.ms(at), None, &frames));
        }
    });
    let profile = profile();
    let main = thread(&profile, "GeckoMain");
    assert_eq!((rows(&main["samples"]).len(), rows(&main["stackTable"]).len()), (99, 2));
    assert_eq!(stack_names(main, Some(1)), "0x10 > 0x20");
}

#[test]
fn all_that_speaks_of_code_looks_like_this() {
    let session = Session::start();
    let library =
        define_module(&module("/lib/libwork.so", MAPPED, MAPPED + 0x1000, MAPPED + 0x5000)).unwrap();
    let label = define_label("GET /item:42", category::IO.sub(1), "src/get.rs", 12).unwrap();
    let frames = [Frame::Code(library, 0x1010), Frame::Label(label), Frame::Unknown(0x77)];
    on_thread("working", || {
        marker_with_stack(site("asked", true), session.ms(1), &frames[..2], Some("a"), None);
        allocation(session.ms(2), 64, 0x5000, &frames);
        let own = sys::current_thread_id();
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
