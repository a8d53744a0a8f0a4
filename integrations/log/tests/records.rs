//! What a record becomes in the profile.

use log::{Level, LevelFilter, Record, debug, error, info, trace, warn};
use profiler_core::internal::manager::is_maintenance_idle;
use profiler_core::session::{Features, SessionParams};
use profiler_log::RecordingRules;
use recorded_session::{RunningSession, Value, dropped, markers};
use test_support::own_process;
use test_support::patience::until;

use crate::support::messages;

fn start(rules: RecordingRules) -> RunningSession {
    rules.alone().install(LevelFilter::Off).unwrap();
    RunningSession::with(SessionParams {
        features: Features::default().with(Features::STACK_WALK),
        ..SessionParams::default()
    })
}

#[test]
fn a_record_is_a_marker_with_its_level_message_and_place() {
    own_process!();
    let _session = start(RecordingRules::default());
    let line = line!() + 1;
    warn!(target: "storage::cache", "{} of {} missed", 3, 7);
    let seen = markers().pop().unwrap();
    assert_eq!(
        (&*seen.name, &*seen.category),
        ("storage::cache", "storage")
    );
    assert_eq!(seen.type_name, "LogRecord");
    let expected = [
        ("level", "WARN".into()),
        ("message", "3 of 7 missed".into()),
        ("module", module_path!().into()),
        ("file", file!().into()),
        ("line", Value::U64(line.into())),
        ("color", "orange".into()),
    ];
    assert_eq!(
        seen.fields,
        expected.map(|(key, value)| (key.to_owned(), value))
    );
}

#[test]
fn the_module_is_left_out_if_it_is_the_target() {
    own_process!();
    let _session = start(RecordingRules::default());
    info!("a constant message");
    let seen = markers().pop().unwrap();
    assert_eq!((&*seen.name, seen.field("module")), (module_path!(), None));
}

#[test]
fn key_values_keep_their_types() {
    own_process!();
    let _session = start(RecordingRules::default());
    for round in 0..2_u64 {
        let letters: Option<&str> = None;
        info!(
            unsigned = u64::MAX - round, signed = -5_i32, float = 0.5, yes = true, text = "text",
            debugged:? = [1, 2], displayed:% = 'x', huge = u128::MAX, nothing = letters;
            "typed"
        );
    }
    let seen = markers();
    assert_eq!(seen.len(), 2);
    let own = seen[1]
        .fields
        .iter()
        .position(|(key, _)| key == "line")
        .unwrap();
    let expected = [
        ("unsigned", Value::U64(u64::MAX - 1)),
        ("signed", Value::I64(-5)),
        ("float", Value::F64(0.5)),
        ("yes", Value::Bool(true)),
        ("text", "text".into()),
        ("debugged", "[1, 2]".into()),
        ("displayed", "x".into()),
        ("huge", "340282366920938463463374607431768211455".into()),
    ];
    assert_eq!(
        seen[1].fields[own + 1..],
        expected.map(|(key, value)| (key.to_owned(), value))
    );
    assert!(seen[1].type_name.starts_with("LogRecord "));
    assert_eq!(dropped(), 0);
}

#[test]
fn key_values_beyond_the_bound_are_counted() {
    own_process!();
    let _session = start(RecordingRules::default());
    let names: Vec<String> = (0..20).map(|number| format!("key{number}")).collect();
    let values: Vec<(&str, u64)> = names.iter().map(String::as_str).zip(0..).collect();
    let record = Record::builder().target("many").key_values(&values).build();
    log::logger().log(&record);
    let seen = markers().pop().unwrap();
    assert_eq!(seen.field("key15"), Some(Value::U64(15)));
    assert_eq!(seen.field("key16"), None);
    assert_eq!(seen.field("left_out"), Some(Value::U64(4)));
}

#[test]
fn levels_finer_than_the_recorded_ones_are_left_out() {
    own_process!();
    let _session = start(RecordingRules::default().max_level(LevelFilter::Info));
    info!("recorded");
    debug!("too fine");
    trace!("much too fine");
    let record = Record::builder().level(Level::Trace).build();
    log::logger().log(&record);
    assert_eq!(messages(), ["recorded"]);
}

#[test]
fn severe_records_have_stacks_if_the_rules_say_so() {
    own_process!();
    let _session = start(RecordingRules::default().stacks_from(Level::Warn));
    // The profiler walks stacks as soon as it knows the modules.
    assert!(until(|| {
        error!("probe");
        markers().last().is_some_and(|seen| !seen.stack.is_empty())
    }));
    let probes = markers().len();
    error!(target: "alarm", code = 7, text = "x"; "severe {}", 1);
    warn!("severe");
    info!(code = 7; "not severe");
    let [severe, warning, other] = markers().split_off(probes).try_into().unwrap();
    let frames = [&severe, &warning, &other].map(|seen| seen.stack.len());
    assert!(
        frames[0] > 0 && frames[1] > 0 && frames[2] == 0,
        "{frames:?}"
    );
    assert_eq!((&*severe.name, &*severe.category), ("alarm", "alarm"));
    assert_eq!(severe.type_name, "LogRecord");
    assert_eq!(severe.field("message"), Some("severe 1".into()));
    assert_eq!(severe.field("values"), Some("code=7 text=x".into()));
    assert_eq!(severe.field("color"), Some("red".into()));
    assert_eq!(other.field("code"), Some(Value::I64(7)));
    assert_eq!(dropped(), 0);
}

#[test]
fn more_targets_than_the_bound_have_one_name_and_are_all_recorded() {
    own_process!();
    let _session = start(RecordingRules::default());
    for number in 0..1200 {
        if number % 50 == 0 {
            // Otherwise it may hold the lock of the chunks, and a record is dropped.
            assert!(until(|| is_maintenance_idle() != Some(false)));
        }
        info!(target: &format!("target{number}"), number; "one of many");
    }
    let seen = markers();
    assert_eq!((seen.len(), dropped()), (1200, 0));
    let last = seen.last().unwrap();
    assert_eq!(last.name, "log");
    assert_eq!(last.field("target"), Some("target1199".into()));
    assert_eq!(last.field("left_out"), Some(Value::U64(1)));
    assert_eq!(seen[0].name, "target0");
    assert_eq!(seen[0].field("number"), Some(Value::I64(0)));
}
