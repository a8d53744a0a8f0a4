//! Writes markers as trace events.
//!
//! Used by [`super::chrome_trace`]. A span nested within the spans around it is a complete event
//! (`X`), which trace viewers nest by time. Other spans are asynchronous pairs (`b`, `e`), as are
//! starts and ends that were recorded separately; these are paired by name and, if they have one,
//! by span number. Instants are `i`. The payload is in `args.data`, with its texts written out. A
//! flow connects its events by `bind_id`, over all processes.

use std::collections::HashMap;
use std::io::Write;

use profiler_core::internal::profile::JsonWriter;
use serde_json::{Map, Value};

use super::chrome_trace::{Events, Track};
use super::recording::Thread;
use super::slices::bounded_ns;
use crate::reading::{Flow, RawMarker, Survey, TextField, as_index};

/// Writes the markers of a thread.
pub(super) fn write<W: Write>(
    events: &mut Events<W>,
    track: Track,
    thread: &Thread<'_>,
    survey: &Survey,
) {
    let all: Vec<RawMarker<'_>> = thread.markers.iter().collect();
    let nests = nesting(&all);
    let mut pairs = HashMap::new();
    for (marker, nests) in all.iter().zip(nests) {
        let name = as_index(marker.name)
            .and_then(|name| thread.texts.get(name))
            .map_or("", String::as_str);
        let category = survey.meta.category(marker.category);
        let us = |ms: f64| {
            events
                .clock
                .us_exact(bounded_ns(ms).saturating_add(thread.shift_ns))
        };
        let start = us(marker.start);
        let end = us(marker.end);
        let payload = Payload::of(marker.data, &events.text_fields, thread.texts);
        match Kind::of(marker, nests) {
            Kind::Instant => {
                events.begin(track, "i", name, category, Some(start));
                events.out.entry_str("s", "t");
                payload.end(&mut events.out);
            }
            Kind::Complete => {
                events.begin(track, "X", name, category, Some(start));
                events.out.key("dur");
                events.out.f64((end - start).max(0.0));
                payload.end(&mut events.out);
            }
            Kind::Overlapping => {
                let id = events.id();
                for (phase, at, payload) in [("b", start, payload), ("e", end, Payload::default())]
                {
                    events.begin(track, phase, name, category, Some(at));
                    events.out.entry_str("id", &id);
                    payload.end(&mut events.out);
                }
            }
            Kind::Half(phase) => {
                let pair = (name.to_owned(), marker.span());
                let id = pairs.entry(pair).or_insert_with(|| events.id()).clone();
                let at = if phase == "b" { start } else { end };
                events.begin(track, phase, name, category, Some(at));
                events.out.entry_str("id", &id);
                payload.end(&mut events.out);
            }
            Kind::Nothing => {}
        }
    }
}

/// The form in which a marker is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Instant,
    /// A span that nests.
    Complete,
    /// A span that does not nest.
    Overlapping,
    /// The start (`b`) or the end (`e`) of a span, recorded separately.
    Half(&'static str),
    /// A marker without a time, which is left out.
    Nothing,
}

impl Kind {
    fn of(marker: &RawMarker<'_>, nests: bool) -> Self {
        let has_start = marker.start.is_finite();
        let has_end = marker.end.is_finite();
        match as_index(marker.phase) {
            Some(1) if has_start && has_end && nests => Self::Complete,
            Some(1) if has_start && has_end => Self::Overlapping,
            Some(2) if has_start => Self::Half("b"),
            Some(3) if has_end => Self::Half("e"),
            _ if has_start => Self::Instant,
            _ => Self::Nothing,
        }
    }
}

/// For each span, whether it lies within the nested spans that are open at its start.
fn nesting(markers: &[RawMarker<'_>]) -> Vec<bool> {
    let is_span = |marker: &RawMarker<'_>| marker.start.is_finite() && marker.end.is_finite();
    let mut order: Vec<(f64, f64, usize)> = markers
        .iter()
        .enumerate()
        .filter(|(_, marker)| is_span(marker))
        .map(|(at, marker)| (marker.start, marker.end, at))
        .collect();
    // Among spans with the same start, the longest is the outermost.
    order.sort_by(|a, b| a.0.total_cmp(&b.0).then(b.1.total_cmp(&a.1)));
    let mut nests = vec![false; markers.len()];
    let mut open: Vec<f64> = Vec::new();
    for (start, end, at) in order {
        while open.last().is_some_and(|outer| *outer <= start) {
            open.pop();
        }
        if open.last().is_none_or(|outer| end <= *outer) {
            open.push(end);
            nests
                .iter_mut()
                .skip(at)
                .take(1)
                .for_each(|nests| *nests = true);
        }
    }
    nests
}

/// The payload of a marker.
#[derive(Debug, Default)]
struct Payload {
    data: Option<Map<String, Value>>,
    flow: Option<(String, Flow)>,
}

impl Payload {
    fn of(data: Option<&str>, fields: &HashMap<String, Vec<TextField>>, texts: &[String]) -> Self {
        let parsed = data.and_then(|data| serde_json::from_str::<Map<String, Value>>(data).ok());
        let Some(mut data) = parsed else {
            return Self::default();
        };
        // Stacks refer to tables that are not in the file.
        data.remove("cause");
        data.remove("stack");
        let kind = data
            .get("type")
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned();
        let mut flow = None;
        for TextField {
            key,
            flow: of_field,
        } in fields.get(&kind).into_iter().flatten()
        {
            let Some(value) = data.get_mut(key) else {
                continue;
            };
            let Some(text) = value
                .as_u64()
                .and_then(|at| texts.get(usize::try_from(at).ok()?))
            else {
                continue;
            };
            *value = Value::String(text.clone());
            flow = flow.or(of_field.map(|flow| (text.clone(), flow)));
        }
        Self {
            data: Some(data),
            flow,
        }
    }

    /// Writes the payload and ends the event.
    fn end<W: Write>(self, out: &mut JsonWriter<W>) {
        if let Some((id, flow)) = self.flow {
            out.entry_str("bind_id", &format!("0x{id}"));
            out.entry_bool("flow_in", true);
            out.entry_bool("flow_out", flow == Flow::Goes);
        }
        out.key("args");
        out.begin_object();
        if let Some(data) = self.data {
            out.key("data");
            out.raw(&Value::Object(data).to_string());
        }
        out.end_object();
        out.end_object();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(start: f64, end: f64) -> RawMarker<'static> {
        RawMarker {
            name: 0.0,
            start,
            end,
            phase: 1.0,
            category: 0.0,
            data: None,
        }
    }

    #[test]
    fn only_spans_that_lie_within_others_nest() {
        let markers = [
            span(0.0, 10.0),
            span(2.0, 4.0),
            span(3.0, 5.0),
            span(4.0, 6.0),
            span(8.0, 12.0),
            span(0.0, 20.0),
        ];
        assert_eq!(nesting(&markers), [true, true, false, true, false, true]);
        let point = RawMarker {
            phase: 0.0,
            end: f64::NAN,
            ..span(1.0, 1.0)
        };
        assert_eq!(
            (nesting(&[point]), Kind::of(&point, false)),
            (vec![false], Kind::Instant)
        );
        let nothing = RawMarker {
            start: f64::NAN,
            end: f64::NAN,
            ..point
        };
        assert_eq!(Kind::of(&nothing, false), Kind::Nothing);
    }

    #[test]
    fn texts_are_written_out_and_flows_bind() {
        let field = |key: &str, flow| TextField {
            key: key.to_owned(),
            flow,
        };
        let fields = HashMap::from([(
            "T".to_owned(),
            vec![field("what", None), field("id", Some(Flow::Ends))],
        )]);
        let texts = ["zero".to_owned(), "ab12".to_owned()];
        let data = r#"{"type":"T","what":0,"id":1,"n":3,"cause":{"stack":7}}"#;
        let mut out = JsonWriter::new(Vec::new());
        out.begin_object();
        Payload::of(Some(data), &fields, &texts).end(&mut out);
        let written: Value = serde_json::from_slice(&out.finish().unwrap()).unwrap();
        let expected = serde_json::json!({
            "bind_id": "0xab12", "flow_in": true, "flow_out": false,
            "args": {"data": {"type": "T", "what": "zero", "id": "ab12", "n": 3}},
        });
        assert_eq!(written, expected);
    }
}
