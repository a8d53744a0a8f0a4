//! Samples in the profile: their thread, their order, their stacks, and what eviction leaves.

use serde_json::json;
use test_support::patience::until;

use super::record::{Session, marker_with_stack, module, on_thread, site};
use super::show::{log, profile, profile_since, samples, stack_names, thread, thread_names};
use super::{MAPPED, main_thread, rows, sample};
use profiler_core::category;
use profiler_core::ids::ThreadId;
use profiler_core::marker;
use profiler_core::sampler::{Frame, Sample, SampleWriter, define_label, define_module};

#[test]
fn samples_are_in_the_table_of_the_sampled_thread_and_in_the_samplers_counts() {
    let session = Session::start();
    let library =
        define_module(&module("/lib/libwork.so", MAPPED, MAPPED, MAPPED + 0x5000)).unwrap();
    let layout = define_label("layout", category::IO.sub(2), "src/layout.rs", 33).unwrap();
    let outer = Frame::Code(library, 0x10);
    let inner = Frame::Code(library, 0x2_0);
    let main = main_thread();
    let other = ThreadId::new(99_999_999);
    on_thread("sampling", || {
        let mut writer = SampleWriter::new();
        let frames = [outer, Frame::Label(layout), inner];
        assert!(writer.sample(main, &sample(session.ms(1), Some(7), &frames)));
        assert!(writer.sample(other, &sample(session.ms(1), None, &[Frame::Unknown(0x77)])));
        assert!(writer.same_as_before(main, session.ms(2)));
        assert!(writer.sample(main, &sample(session.ms(3), Some(9), &frames[..2])));
        let cut = Sample {
            cut: true,
            ..sample(session.ms(4), Some(9), &frames[..2])
        };
        assert!(writer.sample(main, &cut));
        assert!(writer.sample(main, &sample(session.ms(5), Some(1), &[])));
    });
    let (profile, counts) = profile_since(None);
    let all = "0x7f0000001010 > layout > 0x7f0000001020".to_owned();
    let expected = vec![
        (1.0, Some(7), all.clone()),
        (2.0, Some(0), all),
        (3.0, Some(9), "0x7f0000001010 > layout".to_owned()),
        (
            4.0,
            Some(9),
            "(truncated stack) > 0x7f0000001010 > layout".to_owned(),
        ),
        (5.0, Some(1), String::new()),
    ];
    assert_eq!(samples(thread(&profile, "GeckoMain")), expected);
    assert_eq!(
        samples(thread(&profile, "(ended thread 99999999)")),
        [(1.0, None, "0x77".to_owned())]
    );
    assert_eq!(
        thread_names(&profile),
        ["GeckoMain", "(ended thread 99999999)"]
    );
    assert_eq!(
        (
            &log(&profile, "sampling")["delivered"],
            &log(&profile, "sampling")["evicted"]
        ),
        (&json!(6), &json!(0))
    );
    assert_eq!((counts.delivered, counts.recorded()), (6, 6));
}

#[test]
fn samples_of_several_samplers_are_in_the_order_of_time() {
    let session = Session::start();
    let record = |times: &[u64]| {
        let mut writer = SampleWriter::new();
        for at in times {
            writer.sample(
                main_thread(),
                &sample(session.ms(*at), None, &[Frame::Unknown(*at)]),
            );
        }
    };
    on_thread("late", || record(&[2, 4, 9]));
    on_thread("early", || record(&[1, 3, 10]));
    let profile = profile();
    let times: Vec<_> = samples(thread(&profile, "GeckoMain"))
        .into_iter()
        .map(|sample| sample.0)
        .collect();
    assert_eq!(times, [1.0, 2.0, 3.0, 4.0, 9.0, 10.0]);
}

#[test]
fn a_sample_earlier_than_the_one_before_it_gets_the_same_time() {
    let session = Session::start();
    on_thread("sampling", || {
        let mut writer = SampleWriter::new();
        for at in [3, 2, 5] {
            writer.sample(main_thread(), &sample(session.ms(at), None, &[]));
        }
    });
    let profile = profile();
    let times: Vec<_> = samples(thread(&profile, "GeckoMain"))
        .into_iter()
        .map(|sample| sample.0)
        .collect();
    assert_eq!(times, [3.0, 3.0, 5.0]);
}

#[test]
fn samples_that_remain_after_evictions_are_complete_and_the_others_are_counted() {
    const MANY: u64 = 60_000;
    let session = Session::with_limit(1 << 20);
    let stack = |number: u64| -> Vec<Frame> {
        (0..3 + number % 7)
            .map(|level| {
                Frame::Unknown(0x100 * (level + 1) + if level > 2 { number % 5 } else { 0 })
            })
            .collect()
    };
    let name = |number: u64| {
        let frame = |frame: &Frame| match frame {
            Frame::Unknown(address) => format!("{address:#x}"),
            _ => unreachable!(),
        };
        stack(number)
            .iter()
            .map(frame)
            .collect::<Vec<_>>()
            .join(" > ")
    };
    let mut accepted = Vec::new();
    on_thread("sampling", || {
        let mut writer = SampleWriter::new();
        for number in 1..=MANY {
            let thread = if number % 3 == 0 {
                main_thread()
            } else {
                ThreadId::new(99_999_999)
            };
            let is_accepted = writer.sample(
                thread,
                &sample(session.ms(number), Some(number), &stack(number)),
            );
            if is_accepted && number % 3 == 0 {
                accepted.push(number);
            }
            if number % 1000 == 0 {
                // Lets the manager prepare chunks.
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
        }
    });
    let (profile, counts) = profile_since(None);
    let seen = samples(thread(&profile, "GeckoMain"));
    assert!(
        seen.len() > 1000 && seen.len() < accepted.len(),
        "{}",
        seen.len()
    );
    let expected = &accepted[accepted.len() - seen.len()..];
    let expected: Vec<_> = expected
        .iter()
        .map(|at| (*at as f64, Some(*at), name(*at)))
        .collect();
    assert_eq!(seen, expected);
    let others = samples(thread(&profile, "(ended thread 99999999)")).len();
    assert_eq!(counts.delivered, (seen.len() + others) as u64);
    assert_eq!(counts.recorded(), MANY);
    let sampling = log(&profile, "sampling");
    assert_eq!(
        (
            sampling["recorded"].as_u64(),
            sampling["delivered"].as_u64()
        ),
        (Some(MANY), Some(counts.delivered))
    );
}

#[test]
fn samples_older_than_the_window_are_left_out_and_later_stacks_are_complete() {
    let session = Session::start();
    let frames = [
        Frame::Unknown(0x10),
        Frame::Unknown(0x20),
        Frame::Unknown(0x30),
    ];
    on_thread("sampling", || {
        let mut writer = SampleWriter::new();
        for (at, depth) in [(1, 2), (2, 2), (5, 3)] {
            writer.sample(
                main_thread(),
                &sample(session.ms(at), None, &frames[..depth]),
            );
        }
    });
    let (profile, counts) = profile_since(Some(session.ms(4)));
    assert_eq!(
        samples(thread(&profile, "GeckoMain")),
        [(5.0, None, "0x10 > 0x20 > 0x30".to_owned())]
    );
    assert_eq!((counts.delivered, counts.outside, counts.lost()), (1, 2, 0));
}

#[test]
fn a_sampler_that_also_records_markers_is_shown_and_has_its_own_samples() {
    let session = Session::start();
    on_thread("sampling", || {
        let own = ThreadId::new(profiler_sys::current_thread_number());
        let mut writer = SampleWriter::new();
        writer.sample(
            main_thread(),
            &sample(session.ms(1), None, &[Frame::Unknown(0x10)]),
        );
        writer.sample(own, &sample(session.ms(2), None, &[Frame::Unknown(0x20)]));
        marker!("tick");
    });
    let (profile, counts) = profile_since(None);
    assert_eq!(
        samples(thread(&profile, "GeckoMain")),
        [(1.0, None, "0x10".to_owned())]
    );
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
    marker_with_stack(
        site("plain", false),
        session.ms(1),
        &frames,
        None,
        Some(main_thread()),
    );
    on_thread("sampling", || {
        let mut writer = SampleWriter::new();
        for at in 1..100 {
            let sample = sample(session.ms(at), None, &frames);
            assert!(until(|| writer.sample(main_thread(), &sample)));
        }
    });
    let profile = profile();
    let main = thread(&profile, "GeckoMain");
    assert_eq!(
        (
            rows(&main["samples"]).len(),
            rows(&main["stackTable"]).len()
        ),
        (99, 2)
    );
    assert_eq!(stack_names(main, Some(1)), "0x10 > 0x20");
}
