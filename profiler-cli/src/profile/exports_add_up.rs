//! Tests that each format of an export has the same time as `profiler info` for every function, with
//! processor time and with all time.
//!
//! The formats are read according to their own rules, not with the code that writes them. Not tested
//! are Perfetto, whose samples have no weights, and ClickHouse.

use std::collections::{BTreeMap, HashMap};
use std::io::Read;
use std::path::Path;

use opentelemetry_proto::tonic::collector::profiles::v1development::ExportProfilesServiceRequest;
use opentelemetry_proto::tonic::profiles::v1development::ProfilesDictionary;
use profiler_export::{ExportOptions, Target, TimeKind, export};
use proptest::prelude::*;
use prost::Message;
use serde_json::{Value, json};
use test_support::protobuf::{Field, fields, packed};

use super::*;

/// The own time of each function, in milliseconds.
type OwnTimes = BTreeMap<String, f64>;

/// The functions of the random profiles.
const FUNCTIONS: usize = 5;

/// What the weights of a thread's samples are.
#[derive(Clone, Copy, Debug)]
enum Weights {
    None,
    Intervals,
    MsBefore,
    MsAfter,
}

/// A sample: its stack, the time since the sample before, its processor time, its weight.
type Sample = (Option<usize>, u32, Option<u32>, u32);

#[derive(Clone, Debug)]
struct RandomProfile {
    /// The caller of each stack, and its function.
    stacks: Vec<(usize, usize)>,
    threads: Vec<(Weights, Vec<Sample>)>,
    /// Whether samples have processor times.
    is_measured: bool,
    pauses: Vec<(u32, u32)>,
    interval_ms: u32,
    knows_start: bool,
}

fn random_thread(stacks: usize) -> impl Strategy<Value = (Weights, Vec<Sample>)> {
    let weights = prop_oneof![
        Just(Weights::None),
        Just(Weights::Intervals),
        Just(Weights::MsBefore),
        Just(Weights::MsAfter)
    ];
    let ns = 0_u32..9_000_000;
    let sample = (
        prop::option::of(0..stacks),
        ns.clone(),
        prop::option::weighted(0.8, ns.clone()),
        prop_oneof![Just(0), ns],
    );
    // Without any processor time, a thread has only wall time in exports.
    let samples = prop::collection::vec(sample, 1..60).prop_map(|mut samples: Vec<Sample>| {
        samples[0].2.get_or_insert(0);
        samples
    });
    (weights, samples)
}

fn random_profile() -> impl Strategy<Value = RandomProfile> {
    let stacks = prop::collection::vec((any::<prop::sample::Index>(), 0..FUNCTIONS), 1..16);
    stacks.prop_flat_map(|stacks| {
        let stack = |(at, (caller, function)): (usize, &(prop::sample::Index, usize))| {
            (caller.index(at + 1), *function)
        };
        let stacks: Vec<_> = stacks.iter().enumerate().map(stack).collect();
        let threads = prop::collection::vec(random_thread(stacks.len()), 1..4);
        let pauses = prop::collection::vec((0_u32..300, 0_u32..300), 0..3);
        let flags = (any::<bool>(), prop::bool::weighted(0.9));
        (threads, pauses, 1_u32..6, flags).prop_map(
            move |(threads, pauses, interval_ms, (knows_start, is_measured))| RandomProfile {
                stacks: stacks.clone(),
                threads,
                is_measured,
                pauses,
                interval_ms,
                knows_start,
            },
        )
    })
}

impl RandomProfile {
    fn thread(&self, number: usize) -> Value {
        let (weights, samples) = &self.threads[number];
        let ms = |ns: u32| f64::from(ns) / 1e6;
        let weight = |sample: &Sample| match weights {
            Weights::None => Value::Null,
            Weights::Intervals => json!(sample.3 % 9),
            Weights::MsBefore | Weights::MsAfter => json!(ms(sample.3)),
        };
        let unit = match weights {
            Weights::None | Weights::Intervals => "samples",
            Weights::MsBefore | Weights::MsAfter => "tracing-ms",
        };
        let column = |of: &dyn Fn(&Sample) -> Value| samples.iter().map(of).collect::<Vec<_>>();
        let pauses = self.pauses.iter().map(|(from, length)| {
            json!({"startTime": from, "endTime": from + length, "reason": "paused"})
        });
        json!({
            "name": format!("t{number}"), "isMainThread": number == 0, "processName": "p",
            "pid": "7", "tid": 7 + number, "pausedRanges": pauses.collect::<Vec<_>>(),
            "samples": {
                "length": samples.len(), "stack": column(&|sample| json!(sample.0)),
                "timeDeltas": column(&|sample| json!(ms(sample.1))),
                "threadCPUDelta": column(&|sample| json!(sample.2.filter(|_| self.is_measured))),
                "weight": column(&weight), "weightType": unit,
                "weightsAreTimeBefore": matches!(weights, Weights::MsBefore),
            },
            "markers": {"length": 0, "data": []},
        })
    }

    fn text(&self) -> String {
        let stacks = self.stacks.iter().enumerate();
        let prefixes = stacks.map(|(at, (caller, _))| Some(*caller).filter(|caller| *caller < at));
        let functions = self.stacks.iter().map(|(_, function)| function);
        let names: Vec<String> = (0..FUNCTIONS)
            .map(|function| format!("f{function}"))
            .collect();
        let all: Vec<usize> = (0..FUNCTIONS).collect();
        let threads = (0..self.threads.len()).map(|number| self.thread(number));
        json!({
            "meta": {
                "preprocessedProfileVersion": 66, "interval": self.interval_ms, "product": "p",
                "startTime": 1.7e12, "startUnixNs": self.knows_start.then_some(1_700_000_000_000_000_000_u64),
                "startTimeAsClockMonotonicNanosecondsSinceBoot": 5_000_000_000_u64,
                "sampleUnits": {"threadCPUDelta": "ns"}, "markerSchema": [], "categories": [],
            },
            "libs": [], "threads": threads.collect::<Vec<_>>(),
            "shared": {
                "stackTable": {"length": self.stacks.len(), "frame": functions.collect::<Vec<_>>(),
                    "prefix": prefixes.collect::<Vec<_>>()},
                "frameTable": {"length": FUNCTIONS, "func": all, "line": vec![Value::Null; FUNCTIONS],
                    "address": vec![-1; FUNCTIONS]},
                "funcTable": {"length": FUNCTIONS, "name": all, "resource": vec![-1; FUNCTIONS]},
                "resourceTable": {"length": 0, "lib": [], "name": []},
                "stringArray": names,
            },
        })
        .to_string()
    }
}

/// The own times of `profiler info`. `None` if the profile does not have this kind of time.
fn of_info(path: &Path, by: Time) -> Option<OwnTimes> {
    let wanted = Wanted {
        top: usize::MAX,
        by: Some(by),
        names: false,
    };
    let samples = read(path, wanted, WorkListener::default())
        .unwrap()
        .samples?;
    let is_wanted = samples.time == kind(by);
    let own = samples
        .top
        .into_iter()
        .map(|row| (row.function, row.self_ms));
    let own = own.filter(|(function, _)| is_function(function));
    is_wanted.then(|| own.collect())
}

/// The name of a kind of time in reports and in exports.
fn kind(by: Time) -> &'static str {
    match by {
        Time::Cpu => "cpu",
        Time::Wall => "wall",
    }
}

fn is_function(name: &str) -> bool {
    name.starts_with('f') && name.len() == 2
}

fn add(to: &mut OwnTimes, function: &str, ms: f64) {
    if is_function(function) {
        *to.entry(function.to_owned()).or_default() += ms;
    }
}

fn exported(path: &Path, to: &Path, target: Target, by: Time) -> OwnTimes {
    let time = match by {
        Time::Cpu => TimeKind::Cpu,
        Time::Wall => TimeKind::Wall,
    };
    export(path, to, &ExportOptions::to(target).time(time).names(false)).unwrap();
    match target {
        Target::Folded => of_folded(to),
        Target::CpuProfile => of_cpuprofiles(to),
        Target::ChromeTrace => of_chrome_trace(to),
        Target::Speedscope => of_speedscope(to),
        Target::Pprof => of_pprof(to, by),
        Target::OtlpProfiles => of_otlp(to, by),
        other => panic!("{other:?} has no sums"),
    }
}

fn of_json(path: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// Lines of `process;thread;function;… microseconds`.
fn of_folded(path: &Path) -> OwnTimes {
    let mut own = OwnTimes::new();
    for line in std::fs::read_to_string(path).unwrap().lines() {
        let (stack, us) = line.rsplit_once(' ').unwrap();
        let (_, function) = stack.rsplit_once(';').unwrap();
        add(&mut own, function, us.parse::<f64>().unwrap() / 1e3);
    }
    own
}

/// Adds samples of V8's profiles, each of which lasts until the next one, or until the end.
fn add_v8(own: &mut OwnTimes, names: &HashMap<u64, String>, samples: &[(u64, f64)], end_us: f64) {
    let ends = samples.iter().skip(1).map(|(_, at)| *at).chain([end_us]);
    for ((node, at), end) in samples.iter().zip(ends) {
        add(own, &names[node], (end - at) / 1e3);
    }
}

fn v8_names(nodes: &[Value]) -> impl Iterator<Item = (u64, String)> {
    nodes.iter().map(|node| {
        let name = node["callFrame"]["functionName"].as_str().unwrap();
        (node["id"].as_u64().unwrap(), name.to_owned())
    })
}

/// The samples of V8's profiles with their times, from their distances.
fn v8_samples(samples: &Value, deltas: &Value, at: &mut f64) -> Vec<(u64, f64)> {
    let sample = |(node, delta): (&Value, &Value)| {
        *at += delta.as_f64().unwrap();
        (node.as_u64().unwrap(), *at)
    };
    list(samples).iter().zip(list(deltas)).map(sample).collect()
}

fn of_cpuprofiles(directory: &Path) -> OwnTimes {
    let mut own = OwnTimes::new();
    for file in std::fs::read_dir(directory).unwrap() {
        let file = file.unwrap().path();
        if file
            .extension()
            .is_none_or(|extension| extension != "cpuprofile")
        {
            continue;
        }
        let profile = of_json(&file);
        let names = v8_names(list(&profile["nodes"])).collect();
        let mut at = profile["startTime"].as_f64().unwrap();
        let samples = v8_samples(&profile["samples"], &profile["timeDeltas"], &mut at);
        let end = profile["endTime"].as_f64().unwrap();
        add_v8(&mut own, &names, &samples, end);
    }
    own
}

fn of_chrome_trace(path: &Path) -> OwnTimes {
    #[derive(Default)]
    struct Track {
        names: HashMap<u64, String>,
        samples: Vec<(u64, f64)>,
        at: f64,
        end: f64,
    }
    let trace = of_json(path);
    let mut tracks: HashMap<&str, Track> = HashMap::new();
    for event in list(&trace["traceEvents"]) {
        let data = &event["args"]["data"];
        let Some(id) = event["id"].as_str() else {
            continue;
        };
        let track = tracks.entry(id).or_default();
        if event["name"] == "Profile" {
            track.at = data["startTime"].as_f64().unwrap();
        }
        let profile = &data["cpuProfile"];
        track.names.extend(v8_names(list(&profile["nodes"])));
        let samples = v8_samples(&profile["samples"], &data["timeDeltas"], &mut track.at);
        track.samples.extend(samples);
        track.end = data["endTime"].as_f64().unwrap_or(track.end);
    }
    let mut own = OwnTimes::new();
    for track in tracks.values() {
        add_v8(&mut own, &track.names, &track.samples, track.end);
    }
    own
}

fn of_speedscope(path: &Path) -> OwnTimes {
    let file = of_json(path);
    let mut own = OwnTimes::new();
    for profile in list(&file["profiles"]) {
        let unit_ms = match profile["unit"].as_str().unwrap() {
            "nanoseconds" => 1e-6,
            "microseconds" => 1e-3,
            "milliseconds" => 1.0,
            other => panic!("{other}"),
        };
        let rows = list(&profile["samples"])
            .iter()
            .zip(list(&profile["weights"]));
        for (stack, weight) in rows {
            let Some(frame) = list(stack).last().and_then(Value::as_u64) else {
                continue;
            };
            let name = file["shared"]["frames"][frame as usize]["name"]
                .as_str()
                .unwrap();
            add(&mut own, name, weight.as_f64().unwrap() * unit_ms);
        }
    }
    own
}

fn of_pprof(path: &Path, by: Time) -> OwnTimes {
    let mut bytes = Vec::new();
    let file = std::fs::File::open(path).unwrap();
    flate2::read::GzDecoder::new(file)
        .read_to_end(&mut bytes)
        .unwrap();
    let number = |message: &[u8], wanted: u64| {
        let value = |field| match field {
            Field::Number(at, value) if at == wanted => Some(value),
            _ => None,
        };
        fields(message).into_iter().find_map(value).unwrap_or(0)
    };
    let inner = |message: &'static [u8], wanted: u64| -> Vec<&'static [u8]> {
        let value = |field| match field {
            Field::Bytes(at, value) if at == wanted => Some(value),
            _ => None,
        };
        fields(message).into_iter().filter_map(value).collect()
    };
    let bytes: &'static [u8] = bytes.leak();
    let texts: Vec<&str> = inner(bytes, 6)
        .into_iter()
        .map(|text| std::str::from_utf8(text).unwrap())
        .collect();
    let kinds: Vec<&str> = inner(bytes, 1)
        .into_iter()
        .map(|kind| texts[number(kind, 1) as usize])
        .collect();
    let Some(column) = kinds.iter().position(|name| *name == kind(by)) else {
        return OwnTimes::new();
    };
    let functions: HashMap<u64, &str> = inner(bytes, 5)
        .into_iter()
        .map(|function| (number(function, 1), texts[number(function, 2) as usize]))
        .collect();
    let locations: HashMap<u64, &str> = inner(bytes, 4)
        .into_iter()
        .filter_map(|location| {
            let line = inner(location, 4).into_iter().next()?;
            Some((number(location, 1), *functions.get(&number(line, 1))?))
        })
        .collect();
    let mut own = OwnTimes::new();
    for sample in inner(bytes, 2) {
        let stack = inner(sample, 1).into_iter().flat_map(packed).next();
        let values: Vec<u64> = inner(sample, 2).into_iter().flat_map(packed).collect();
        if let Some(function) = stack.and_then(|innermost| locations.get(&innermost)) {
            add(&mut own, function, values[column] as f64 / 1e6);
        }
    }
    own
}

fn of_otlp(path: &Path, by: Time) -> OwnTimes {
    let bytes = std::fs::read(path).unwrap();
    let request = ExportProfilesServiceRequest::decode(bytes.as_slice()).unwrap();
    let dictionary = request.dictionary.unwrap_or_default();
    let text = |at: i32| dictionary.string_table[at as usize].as_str();
    let resources = request.resource_profiles.iter();
    let scopes = resources.flat_map(|resource| &resource.scope_profiles);
    let mut own = OwnTimes::new();
    for profile in scopes.flat_map(|scope| &scope.profiles) {
        let values = profile.sample_type.as_ref().unwrap();
        if text(values.type_strindex) != kind(by) {
            continue;
        }
        assert_eq!(text(values.unit_strindex), "nanoseconds");
        for sample in &profile.samples {
            if let Some(function) = innermost(&dictionary, sample.stack_index) {
                let sum: i64 = sample.values.iter().sum();
                add(&mut own, function, sum as f64 / 1e6);
            }
        }
    }
    own
}

/// The innermost function of a stack.
fn innermost(dictionary: &ProfilesDictionary, stack: i32) -> Option<&str> {
    let stack = &dictionary.stack_table[stack as usize];
    let location = &dictionary.location_table[*stack.location_indices.first()? as usize];
    let function = location.lines.first()?.function_index;
    let name = dictionary.function_table[function as usize].name_strindex;
    Some(&dictionary.string_table[name as usize])
}

/// The largest difference that rounding to whole microseconds makes: half of one at each end of
/// every slice, if each sample had an end of its own.
fn rounding_ms(profile: &RandomProfile) -> f64 {
    let samples: usize = profile
        .threads
        .iter()
        .map(|(_, samples)| samples.len())
        .sum();
    2.0 * samples as f64 / 1e3
}

const TARGETS: [Target; 6] = [
    Target::Folded,
    Target::CpuProfile,
    Target::ChromeTrace,
    Target::Speedscope,
    Target::Pprof,
    Target::OtlpProfiles,
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn every_format_has_the_sums_of_info_for_each_function(profile in random_profile()) {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("profile.json");
        std::fs::write(&path, profile.text()).unwrap();
        let most = rounding_ms(&profile);
        for by in [Time::Cpu, Time::Wall] {
            let Some(expected) = of_info(&path, by) else {
                continue;
            };
            for (number, target) in TARGETS.into_iter().enumerate() {
                let to = place.path().join(format!("{number}-{by:?}"));
                let own = exported(&path, &to, target, by);
                for function in (0..FUNCTIONS).map(|function| format!("f{function}")) {
                    let of = |times: &OwnTimes| times.get(&function).copied().unwrap_or(0.0);
                    let (exported, told) = (of(&own), of(&expected));
                    prop_assert!(
                        (exported - told).abs() <= most,
                        "{target:?} by {by:?}: {function} has {exported} ms of {told}"
                    );
                }
            }
        }
    }
}
