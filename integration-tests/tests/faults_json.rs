//! Tests of a child that sends a malformed or misleading part of a profile in the Gecko format.
//!
//! If the part is refused, the parent reads the child's memory instead, and the verdict tells the
//! defect. The parts are made by `src/bin/child/part_liar.rs`.

use integration_tests::fixture::Fixture;
use integration_tests::own;
use integration_tests::patience::{LONG, Stopwatch};
use integration_tests::{own_process, own_process_tests};

const CHILD: &str = env!("CARGO_BIN_EXE_child");

/// The part is refused in two captures: all entries come from the child's memory, and the reason
/// contains `why`.
fn is_refused(lie: &str, why: &str) -> anyhow::Result<()> {
    let mut scene = Fixture::set(CHILD, |builder| builder)?;
    let mut helper = scene.child("faulty", &format!("liar-{lie}"))?;
    helper.ask("hold 2 500")?;
    for _ in 0..2 {
        let (_, profile) = scene.capture_gecko()?;
        let verdict = profile.verdict("faulty")?;
        assert!(
            verdict.starts_with("recovered: refused: ") && verdict.contains(why),
            "{verdict}"
        );
        assert_eq!(profile.incomplete(), [("faulty".to_owned(), verdict)]);
        let process = profile.process("faulty")?;
        process.numbers_up_to(500, 2)?;
        assert_eq!(process.counts()?.delivered, 1000);
    }
    assert!(helper.end("exit 0")?.success());
    let (_, profile) = scene.capture_gecko()?;
    assert_eq!(
        profile.verdict("faulty")?,
        "complete",
        "its memory was not read after its end"
    );
    scene.end()
}

/// The part is accepted, because it is well-formed and of the right shape.
fn is_taken(lie: &str) -> anyhow::Result<()> {
    let mut scene = Fixture::set(CHILD, |builder| builder)?;
    let _puppet = scene.child("faulty", &format!("liar-{lie}"))?;
    for _ in 0..2 {
        let (_, profile) = scene.capture_gecko()?;
        assert_eq!(profile.verdict("faulty")?, "complete");
        assert_eq!(profile.process("liar")?.threads.len(), 1);
    }
    scene.end()
}

own_process_tests! {
    a_part_that_is_cut_is_refused: is_refused("cut", "cut after");
    a_part_that_is_empty_is_refused: is_refused("empty", "cut after 0 bytes");
    a_part_that_is_not_json_is_refused: is_refused("not-json", "not JSON at byte 0");
    a_part_of_the_wrong_shape_is_refused:
        is_refused("wrong-shape", "wrong shape: libs is not an array");
    a_part_without_threads_is_refused: is_refused("no-threads", "wrong shape: no threads");
    a_part_that_is_an_array_is_refused: is_refused("array", "expected an object");
    a_part_with_descendants_is_refused:
        is_refused("descendants", "wrong shape: processes is not empty");
    a_part_with_a_zero_byte_is_refused: is_refused("nul", "no control character");
    a_part_with_half_a_surrogate_pair_is_refused:
        is_refused("surrogate", "half of a surrogate pair");
    a_part_with_a_number_out_of_range_is_refused: is_refused("1e999", "number out of range");
    a_part_nested_ten_thousand_deep_is_refused: is_refused("deep", "nested deeper than 64 levels");
    a_part_that_names_a_member_twice_is_refused: is_refused("duplicate", "wrong shape: meta twice");
    a_part_with_a_stray_byte_behind_is_refused: is_refused("not-utf8", "bytes after the object");
    a_part_that_is_not_utf8_is_refused: is_refused("utf8-inside", "not UTF-8");
    a_part_with_a_second_one_behind_is_refused: is_refused("behind", "bytes after the object");
    a_part_of_which_less_is_announced_is_refused: is_refused("short", "cut after");
    a_part_of_which_more_is_announced_is_refused: is_refused("beyond", "shorter than announced");
    a_part_without_end_is_refused: is_refused("endless", "shorter than announced");
    a_part_of_one_gibibyte_of_nothing_is_refused: is_refused("huge", "not JSON");
    a_part_that_grows_while_it_is_read_is_refused: is_refused("growing", "shorter than announced");
}

own_process_tests! {
    a_part_that_tells_the_truth_is_taken: is_taken("truth");
    a_part_with_the_largest_numbers_is_taken: is_taken("1e308");
    a_part_is_taken_up_to_its_announced_length: is_taken("hidden");
}

#[test]
fn a_long_part_is_taken_without_ever_being_in_memory() -> anyhow::Result<()> {
    own_process!();
    let mut scene = Fixture::set(CHILD, |builder| builder)?;
    let _puppet = scene.child("faulty", "liar-long")?;
    let before = own::resident_bytes();
    let saved = scene.gecko_capture()?.save(scene.path("long.json"))?;
    let grown = own::resident_bytes().saturating_sub(before);
    assert!(
        saved.bytes > 64 << 20 && grown < 16 << 20,
        "{} bytes, {grown} more in memory",
        saved.bytes
    );
    scene.capture_gecko()?;
    scene.end()
}

/// The part changes while the parent reads it. The parent either accepts it, and the file contains
/// the bytes that were checked, or refuses it and reads all entries from the child's memory.
fn never_spoils_the_file(lie: &str) -> anyhow::Result<()> {
    let mut scene = Fixture::set(CHILD, |builder| builder)?;
    let mut helper = scene.child("faulty", &format!("liar-{lie}"))?;
    helper.ask("hold 2 500")?;
    for _ in 0..10 {
        let watch = Stopwatch::start();
        let (_, profile) = scene.capture_gecko()?;
        assert!(
            watch.elapsed() < LONG,
            "the capture waited for changes of the part"
        );
        let verdict = profile.verdict("faulty")?;
        match verdict.as_str() {
            "complete" => assert_eq!(profile.process("liar")?.threads.len(), 1),
            _ => {
                assert!(verdict.starts_with("recovered: refused: "), "{verdict}");
                assert_eq!(profile.process("faulty")?.counts()?.delivered, 1000);
            }
        }
    }
    helper.child.kill()?;
    scene.end()
}

own_process_tests! {
    a_part_that_changes_while_it_is_read_never_spoils_the_file: never_spoils_the_file("changing");
    a_part_that_vanishes_while_it_is_read_never_spoils_the_file: never_spoils_the_file("vanishing");
}
