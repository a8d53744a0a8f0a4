//! The member `meta` of the merged profile.
//!
//! Written last. A property that all inputs have with the same value is one of the whole profile;
//! any other stays in the record of its host. Invariant: no property of an input is lost, and
//! merging in steps gives the same properties.

use std::collections::HashSet;

use serde_json::{Map, Value};

use super::hosts::{HostRecord, SECTION, section_label};
use super::naming::HostNames;
use profiler_json::PROCESSED_VERSION;

/// What became of one input.
#[derive(Debug)]
pub(super) struct Member {
    pub(super) meta: Map<String, Value>,
    pub(super) names: HostNames,
    pub(super) old_ids: Vec<String>,
    pub(super) offset_ns: i64,
    /// Threads of the inputs before it.
    pub(super) first_thread: u64,
    /// The places of its hosts in the list of all hosts.
    pub(super) hosts: std::ops::Range<usize>,
}

/// The properties that are not compared, because they have rules of their own.
const OWN_RULE: [&str; 17] = [
    "categories",
    "extra",
    "initialSelectedThreads",
    "initialVisibleThreads",
    "interval",
    "markerSchema",
    "preprocessedProfileVersion",
    "processType",
    "product",
    "profilingEndTime",
    "profilingStartTime",
    "sampleUnits",
    "stackwalk",
    "startTime",
    "startUnixNs",
    "symbolicated",
    "usesOnlyOneStackType",
];

/// The most bytes of properties that are written again for each host of an input with several
/// hosts. Those of a real host have some kilobytes.
const MAX_REPEATED: usize = 16 << 20;

/// Merges the properties of all inputs. Those that differ are added to `hosts`. The inputs must
/// have passed [`check`].
pub(super) fn merge(
    members: &[Member],
    hosts: &mut [HostRecord],
    start_unix_ns: i64,
) -> Map<String, Value> {
    let mut merged = common(members);
    add_to_hosts(members, &merged, hosts);
    let mut put = |key: &str, value: Option<Value>| {
        if let Some(value) = value {
            merged.insert(key.to_owned(), value);
        }
    };
    put("preprocessedProfileVersion", Some(PROCESSED_VERSION.into()));
    put("processType", Some(0.into()));
    put("startTime", Some(millis(start_unix_ns)));
    // Readers expect a time after 1970 here. An earlier one is in the other key alone.
    let exact = u64::try_from(start_unix_ns).ok();
    put("startUnixNs", exact.map(Value::from));
    put("interval", extreme(members, "interval", f64::min));
    put("stackwalk", extreme(members, "stackwalk", f64::max));
    put("sampleUnits", units(members).ok().flatten());
    put("product", Some(products(members).into()));
    for key in ["symbolicated", "usesOnlyOneStackType"] {
        let all = members
            .iter()
            .all(|member| member.meta.get(key) == Some(&Value::Bool(true)));
        let some = members.iter().any(|member| member.meta.contains_key(key));
        put(key, some.then_some(Value::Bool(all)));
    }
    put(
        "profilingStartTime",
        edge(members, "profilingStartTime", i64::min),
    );
    put(
        "profilingEndTime",
        edge(members, "profilingEndTime", i64::max),
    );
    let visible = threads(members, "initialVisibleThreads");
    put("initialVisibleThreads", visible.map(Value::from));
    let selected = threads(members, "initialSelectedThreads");
    let selected = selected.map(|threads| threads.into_iter().take(1).collect());
    put("initialSelectedThreads", selected);
    let sections = sections(members, hosts);
    put("extra", (!sections.is_empty()).then_some(sections.into()));
    merged
}

/// Checks that the properties of all inputs can be merged.
///
/// # Errors
/// They cannot, with the reason in words.
pub(super) fn check(members: &[Member]) -> Result<(), String> {
    units(members)?;
    let merged = common(members);
    let repeated = members.iter().filter(|member| member.hosts.len() > 1);
    let repeated = repeated.map(|member| {
        let own = own(member, &merged);
        let bytes = own.map(|(key, value)| key.len() + value.to_string().len());
        bytes.sum::<usize>().saturating_mul(member.hosts.len() - 1)
    });
    match repeated.fold(0, usize::saturating_add) <= MAX_REPEATED {
        true => Ok(()),
        false => Err("an input has too many properties of its own for all its hosts".to_owned()),
    }
}

/// The properties that all inputs have with the same value.
fn common(members: &[Member]) -> Map<String, Value> {
    let Some(first) = members.first() else {
        return Map::new();
    };
    let is_common = |key: &str, value: &Value| {
        let has = |member: &Member| member.meta.get(key) == Some(value);
        !OWN_RULE.contains(&key) && members.iter().all(has)
    };
    let common = first.meta.iter();
    let common = common.filter(|(key, value)| is_common(key, value) || *key == "version");
    common
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect()
}

/// The properties that an input has for itself.
fn own<'m>(
    member: &'m Member,
    common: &Map<String, Value>,
) -> impl Iterator<Item = (&'m String, &'m Value)> {
    let own = member.meta.iter();
    own.filter(|(key, _)| !common.contains_key(*key) && !OWN_RULE.contains(&key.as_str()))
}

/// Adds the properties that an input has for itself to its hosts.
fn add_to_hosts(members: &[Member], common: &Map<String, Value>, hosts: &mut [HostRecord]) {
    for member in members {
        for host in hosts.get_mut(member.hosts.clone()).unwrap_or_default() {
            for (key, value) in own(member, common) {
                let of_host = host.own_meta.entry(key.clone());
                of_host.or_insert_with(|| value.clone());
            }
        }
    }
}

fn extreme(members: &[Member], key: &str, choose: fn(f64, f64) -> f64) -> Option<Value> {
    let all = members
        .iter()
        .filter_map(|member| member.meta.get(key)?.as_f64());
    let chosen = all.reduce(choose)?;
    // Whole numbers stay as they are.
    let whole = chosen as u64;
    Some(if whole as f64 == chosen {
        whole.into()
    } else {
        chosen.into()
    })
}

/// The units of all inputs that state them.
///
/// # Errors
/// The units differ, in words.
fn units(members: &[Member]) -> Result<Option<Value>, String> {
    let mut all = members
        .iter()
        .filter_map(|member| member.meta.get("sampleUnits"));
    let first = all.next();
    match all.find(|other| Some(*other) != first) {
        Some(other) => {
            let first = first.unwrap_or(&Value::Null);
            Err(format!(
                "samples are in different units: {first} and {other}"
            ))
        }
        None => Ok(first.cloned()),
    }
}

/// The names of all programs, each once.
fn products(members: &[Member]) -> String {
    let all = members
        .iter()
        .filter_map(|member| member.meta.get("product")?.as_str());
    let mut known = HashSet::new();
    let products = all.flat_map(|product| product.split(", "));
    let products: Vec<&str> = products.filter(|product| known.insert(*product)).collect();
    products.join(", ")
}

/// The first or last time of all inputs.
fn edge(members: &[Member], key: &str, choose: fn(i64, i64) -> i64) -> Option<Value> {
    let moved = |member: &Member| {
        let ns = (member.meta.get(key)?.as_f64()? * 1e6).round() as i64;
        Some(ns.saturating_add(member.offset_ns))
    };
    let chosen = members.iter().filter_map(moved).reduce(choose)?;
    Some(millis(chosen))
}

/// Nanoseconds as milliseconds.
fn millis(ns: i64) -> Value {
    match ns % 1_000_000 {
        0 => (ns / 1_000_000).into(),
        _ => (ns as f64 / 1e6).into(),
    }
}

/// The threads that the inputs name, by their new numbers.
fn threads(members: &[Member], key: &str) -> Option<Vec<u64>> {
    let of = |member: &Member| {
        let threads = member.meta.get(key)?.as_array()?;
        let threads = threads.iter().filter_map(Value::as_u64);
        let moved = threads.map(|thread| thread.saturating_add(member.first_thread));
        Some(moved.collect::<Vec<_>>())
    };
    let all: Vec<u64> = members.iter().filter_map(of).flatten().collect();
    (!all.is_empty()).then_some(all)
}

/// The sections of all hosts, and those that the inputs have besides.
fn sections(members: &[Member], hosts: &[HostRecord]) -> Vec<Value> {
    let mut sections = Vec::new();
    for (place, host) in hosts.iter().enumerate().filter(|_| hosts.len() > 1) {
        sections.push(host.section(hosts.get(..place).unwrap_or_default()));
    }
    for member in members {
        let extra = member.meta.get("extra").and_then(Value::as_array);
        let ids = member.old_ids.iter();
        let own: HashSet<String> = ids.map(|id| section_label(id)).collect();
        let is_of_host = |label: &str| hosts.len() > 1 && (label == SECTION || own.contains(label));
        for section in extra.into_iter().flatten() {
            let label = section
                .get("label")
                .and_then(Value::as_str)
                .unwrap_or_default();
            if is_of_host(label) {
                continue;
            }
            let label = member.names.process_name(label).into_owned();
            let mut section = section.clone();
            if let (true, [host]) = (label == SECTION, hosts) {
                host.rename_in(&mut section);
            }
            if let Some(section) = section.as_object_mut() {
                section.insert("label".to_owned(), label.into());
            }
            sections.push(section);
        }
    }
    sections
}
