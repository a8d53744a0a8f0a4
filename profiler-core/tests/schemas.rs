//! Tests of marker types whose schemas are refused, and of types that share a name.

use profiler_core::internal::entry::Entry;
use profiler_core::marker;
use profiler_core::marker::schema::{Format, MarkerSchema};
use profiler_core::marker::{
    MarkerOptions, ProfilerMarker, Text, add_marker, add_text_marker, category,
};
use test_support::own_process;

use crate::support::{self, RunningSession, for_each_entry};

/// Has the name of the profiler's own type, and other fields.
#[derive(serde::Serialize)]
struct Message {
    body: u64,
}

impl ProfilerMarker for Message {
    const TYPE_NAME: &'static str = "Text";

    fn schema() -> MarkerSchema {
        MarkerSchema::in_chart_and_table("Text").key_label_format("body", "Body", Format::Bytes)
    }
}

/// A type of a name, whose schema refers to a field that does not exist.
macro_rules! broken {
    ($type:ident, $name:literal) => {
        #[derive(serde::Serialize)]
        struct $type {
            value: u64,
        }

        impl ProfilerMarker for $type {
            const TYPE_NAME: &'static str = $name;

            fn schema() -> MarkerSchema {
                MarkerSchema::in_chart_and_table($name)
                    .key_format("value", Format::Integer)
                    .color_field("nothing")
            }
        }
    };
}

broken!(NoColor, "NoColor");
broken!(Nameless, "");
broken!(Spans, "Span of mine");

/// Two types that share the name of their schema.
mod two {
    use super::*;

    macro_rules! pair {
        ($type:ident, $key:ident) => {
            #[derive(serde::Serialize)]
            pub(super) struct $type {
                pub(super) $key: u64,
            }

            impl ProfilerMarker for $type {
                const TYPE_NAME: &'static str = "Pair";

                fn schema() -> MarkerSchema {
                    MarkerSchema::in_chart_and_table("Pair")
                        .key_format(stringify!($key), Format::Integer)
                }
            }
        };
    }

    pair!(Left, left);
    pair!(Right, right);
}

/// The markers of a category as the name, the type and the keys of their payloads.
fn markers() -> Vec<(String, String, Vec<String>)> {
    let reader = support::pool();
    let snapshot = reader.snapshot().unwrap();
    let definitions = &snapshot.definitions;
    let mut all = Vec::new();
    for_each_entry(&reader, &snapshot, |entry| {
        if let Entry::Marker(marker) = entry {
            let site = definitions.site(marker.site).unwrap();
            let name = marker.name.unwrap_or(&site.name);
            let of = definitions.marker_type(site.marker_type).unwrap();
            all.push((name.to_owned(), of.schema.name.clone(), of.keys.clone()));
        }
    });
    all
}

fn found(name: &str, type_name: &str, key: &str) -> (String, String, Vec<String>) {
    (name.to_owned(), type_name.to_owned(), vec![key.to_owned()])
}

#[test]
fn a_type_named_text_does_not_take_the_text_from_text_markers() {
    own_process!();
    let _session = RunningSession::with_limit(1 << 20);
    let options = MarkerOptions::default;
    add_marker("mine", &category::OTHER, options(), &Message { body: 1 });
    add_text_marker("text", &category::OTHER, options(), "a text");
    marker!("site", &category::OTHER, options(), &Message { body: 2 });
    let expected = [
        found("mine", "Text_", "body"),
        found("text", "Text", "name"),
        found("site", "Text_", "body"),
    ];
    assert_eq!(markers(), expected);
    let snapshot = support::snapshot();
    let schemas: Vec<_> = snapshot.definitions.marker_types().into_iter().collect();
    let of = |name: &str| schemas.iter().find(|known| known.schema.name == name);
    assert_eq!(of("Text").unwrap().schema, Text::schema());
    assert!(of("Text_").unwrap().schema.field_named("body").is_some());
}

#[test]
fn a_refused_schema_is_reported_once_and_its_markers_are_shown_plainly() {
    own_process!();
    let _session = RunningSession::with_limit(1 << 20);
    let options = MarkerOptions::default;
    for value in 0..3 {
        marker!("a", &category::OTHER, options(), &NoColor { value });
        marker!("b", &category::OTHER, options(), &NoColor { value });
        marker!("c", &category::OTHER, options(), &Nameless { value });
        marker!("d", &category::OTHER, options(), &Spans { value });
    }
    let markers = markers();
    let expected = [
        found("a", "NoColor", "value"),
        found("b", "NoColor", "value"),
        found("c", "(no name)", "value"),
        found("d", "_Span of mine", "value"),
    ];
    assert_eq!(markers[..4], expected);
    assert_eq!(markers.len(), 12, "every marker is recorded");
    let snapshot = support::snapshot();
    let plain = snapshot.definitions.marker_types().into_iter();
    assert!(
        plain
            .into_iter()
            .all(|known| known.schema.check() == Ok(()))
    );
    let mut notices = snapshot.definitions.notices().to_vec();
    notices.sort_unstable();
    let type_of = |name: &str, why: &str| {
        format!("markers of the type {name:?} are shown without their schema: {why}")
    };
    assert_eq!(
        notices,
        [
            type_of("", "a marker type needs a name"),
            type_of("NoColor", "there is no field \"nothing\""),
            type_of(
                "Span of mine",
                "the marker type name \"Span of mine\" is reserved"
            ),
        ]
    );
}

#[test]
fn markers_with_names_made_at_run_time_keep_the_keys_of_their_own_type() {
    own_process!();
    let _session = RunningSession::with_limit(1 << 20);
    let options = MarkerOptions::default;
    add_marker("l", &category::OTHER, options(), &two::Left { left: 1 });
    add_marker("r", &category::OTHER, options(), &two::Right { right: 2 });
    let expected = [found("l", "Pair", "left"), found("r", "Pair", "right")];
    assert_eq!(markers(), expected);
}
