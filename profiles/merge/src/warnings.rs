//! What may be wrong with a merged profile, in words.

use serde_json::Value;

use super::align::{ClockPosition, Placed, apart};
use super::input::Input;

/// A wall clock that differs by at least this from the clock of an earlier input is reported.
const SET_NS: u64 = 1_000_000_000;

/// The warnings about all inputs. `ids` are the names of their hosts in the merged profile.
pub(super) fn of(inputs: &[Input], placed: &[Placed], ids: &[String]) -> Vec<String> {
    let mut first = 0;
    let names = inputs.iter().map(|input| {
        let own = ids
            .get(first..first + input.hosts.len())
            .unwrap_or_default();
        first += own.len();
        own.join(", ")
    });
    let names: Vec<String> = names.collect();
    let mut warnings = without_overlap(inputs, placed, &names);
    for ((input, placed), name) in inputs.iter().zip(placed).zip(&names) {
        if placed.correction_ns.unsigned_abs() >= SET_NS {
            let seconds = placed.correction_ns.unsigned_abs() as f64 / 1e9;
            warnings.push(format!(
                "the wall clock of {name} was set by {seconds:.3} s between two recordings, \
                 or the machine was suspended"
            ));
        }
        warnings.extend(same_session(input, inputs, name));
    }
    warnings.extend(intervals(inputs));
    warnings
}

fn without_overlap(inputs: &[Input], placed: &[Placed], names: &[String]) -> Vec<String> {
    let ranges = inputs.iter().zip(placed).map(|(input, placed)| {
        let (from, to) = input.range()?;
        let moved = |ns: i64| ns.saturating_add(placed.offset_ns);
        Some((moved(from), moved(to)))
    });
    let ranges: Vec<_> = ranges.collect();
    let told = |at: usize| {
        let (from, to) = ranges.get(at).copied().flatten()?;
        let [from, to] = [from, to].map(|ns| ns as f64 / 1e9);
        let name = names.get(at)?;
        Some(format!(
            "the time of {name}, from {from:.3} s to {to:.3} s, overlaps with no other recording"
        ))
    };
    apart(&ranges).into_iter().filter_map(told).collect()
}

/// Whether an earlier input is a profile of the same session, so that data may be there twice.
/// All profiles of a session state the same start in wall time, to the nanosecond.
fn same_session(input: &Input, inputs: &[Input], name: &str) -> Option<String> {
    let own = &input.anchor;
    let is_same = |other: &&Input| {
        let other = &other.anchor;
        own.unix_ns == other.unix_ns && may_be_of_one_boot(&own.clocks, &other.clocks)
    };
    let earlier = inputs.iter().take_while(|other| other.path != input.path);
    let other = earlier.into_iter().find(is_same)?;
    let other = other.path.display();
    Some(format!(
        "{name} is of the same session as {other}: their common time is in the profile twice"
    ))
}

/// Whether two inputs may be of one boot. A profile that was recovered after a restart has no
/// clock.
fn may_be_of_one_boot(one: &[ClockPosition], other: &[ClockPosition]) -> bool {
    let has = |clock: &str| other.iter().any(|known| known.clock == clock);
    one.is_empty() || other.is_empty() || one.iter().any(|known| has(&known.clock))
}

fn intervals(inputs: &[Input]) -> Option<String> {
    let all = inputs.iter().filter_map(|input| input.meta.get("interval"));
    let mut intervals: Vec<&Value> = Vec::new();
    for interval in all {
        if !intervals.contains(&interval) {
            intervals.push(interval);
        }
    }
    let told: Vec<String> = intervals
        .iter()
        .map(|interval| format!("{interval} ms"))
        .collect();
    (told.len() > 1).then(|| {
        let told = told.join(", ");
        format!("sampling intervals differ ({told}): compare processor times, not sample counts")
    })
}
