//! Tests of labels in the stacks of markers: a label is shown from its start to its end, also if
//! sessions start and stop in between.

#![allow(unsafe_code)]

use crate::support::{self};
use profiler_core::internal::entry::Entry;
use profiler_core::internal::entry::stack::Frame;
use profiler_core::internal::payload::{FieldValue, PayloadReader};
use profiler_core::internal::reader::LabelDefinition;
use profiler_core::label;
use profiler_core::marker::schema::MarkerSchema;
use profiler_core::marker::{
    MarkerOptions, MarkerStack, ProfilerMarker, add_marker, add_text_marker, add_untyped_marker,
    category,
};
use profiler_core::session::{self, SessionParams, StartOptions};
use profiler_core::{marker, text_marker};
use test_support::forks::in_forked_child;
use test_support::own_process;

/// Starts the session of the process.
fn start() {
    session::start(SessionParams::default(), StartOptions::default()).unwrap();
}

fn with_labels() -> MarkerOptions {
    MarkerOptions::default().with_stack(MarkerStack::Labels)
}

/// A recorded marker: its name, the labels of its stack and its payload.
#[derive(Debug)]
struct Seen {
    name: String,
    labels: Vec<LabelDefinition>,
    payload: Vec<u8>,
}

impl Seen {
    fn label_names(&self) -> Vec<&str> {
        self.labels
            .iter()
            .map(|label| label.name.as_str())
            .collect()
    }
}

fn read() -> Vec<Seen> {
    let reader = support::pool();
    let snapshot = reader.snapshot().unwrap();
    assert_eq!(
        snapshot.counts().dropped.total(),
        0,
        "{:?}",
        snapshot.counts()
    );
    let mut seen = Vec::new();
    let label = |frame| match frame {
        Frame::Label(id) => snapshot.definitions.label(id).unwrap().clone(),
        other => panic!("{other:?}"),
    };
    support::for_each_entry(&reader, &snapshot, |entry| {
        let Entry::Marker(marker) = entry else {
            panic!("{entry:?}")
        };
        let site = snapshot.definitions.site(marker.site).unwrap();
        seen.push(Seen {
            name: marker.name.unwrap_or(&site.name).to_owned(),
            labels: marker.stack.frames().map(label).collect(),
            payload: marker.payload.to_vec(),
        });
    });
    seen
}

#[label::function(crate = ::profiler_core, &category::IO)]
fn labelled(depth: u32) -> u32 {
    if depth == 0 {
        marker!("deepest", &category::TEST, with_labels());
        return 0;
    }
    labelled(depth - 1) + 1
}

struct Thing;

impl Thing {
    /// A method with generics and a `where` clause before its body.
    #[label::function]
    pub(crate) fn method<'a, T>(&'a self, value: T) -> [T; 1]
    where
        T: Copy + 'a,
    {
        marker!("in a method", &category::TEST, with_labels());
        [value]
    }
}

#[test]
fn a_marker_shows_the_labels_that_are_open_around_it() {
    own_process!();
    start();
    let line = line!() + 1;
    let _outer = label!("outer");
    {
        let _inner = label!("inner", &category::NETWORK);
        marker!("inside", &category::TEST, with_labels());
    }
    marker!("after", &category::TEST, with_labels());
    marker!("without");
    let seen = read();
    session::stop();
    let names: Vec<_> = seen
        .iter()
        .map(|marker| (marker.name.as_str(), marker.label_names()))
        .collect();
    assert_eq!(
        names,
        [
            ("inside", vec!["outer", "inner"]),
            ("after", vec!["outer"]),
            ("without", vec![])
        ]
    );
    let outer = &seen[0].labels[0];
    assert_eq!((outer.file.as_str(), outer.line), (file!(), line));
    assert_ne!(seen[0].labels[1].category, outer.category);
}

#[test]
fn every_call_of_a_labelled_function_has_the_path_of_the_function() {
    own_process!();
    start();
    assert_eq!(labelled(2), 2);
    assert_eq!(Thing.method(7), [7]);
    let seen = read();
    session::stop();
    assert_eq!(
        seen[0].label_names(),
        [concat!(module_path!(), "::labelled"); 3]
    );
    assert!(seen[0].labels[0].file.ends_with("labels.rs") && seen[0].labels[0].line > 0);
    assert_eq!(seen[1].label_names(), [concat!(module_path!(), "::method")]);
}

#[derive(serde::Serialize)]
struct Number {
    number: u64,
}

impl ProfilerMarker for Number {
    const TYPE_NAME: &'static str = "Number";

    fn schema() -> MarkerSchema {
        MarkerSchema::in_chart_and_table(Self::TYPE_NAME)
    }
}

#[test]
fn every_form_of_a_marker_takes_a_stack_and_keeps_its_payload() {
    own_process!();
    start();
    let _label = label!("around");
    let payload = Number { number: 77 };
    marker!("plain", &category::TEST, with_labels());
    marker!("typed", &category::TEST, with_labels(), &payload);
    text_marker!("text", &category::TEST, with_labels(), "words");
    add_untyped_marker("plain", &category::TEST, with_labels());
    add_marker("typed", &category::TEST, with_labels(), &payload);
    add_text_marker("text", &category::TEST, with_labels(), "words");
    let seen = read();
    session::stop();
    assert_eq!(seen.len(), 6);
    for marker in &seen {
        assert_eq!(marker.label_names(), ["around"], "{}", marker.name);
        let values: Vec<_> = PayloadReader::new(&marker.payload)
            .map(Result::unwrap)
            .collect();
        match marker.name.as_str() {
            "plain" => assert!(values.is_empty()),
            "typed" => assert!(matches!(values[..], [FieldValue::U64(77)]), "{values:?}"),
            _ => assert!(
                matches!(values[..], [FieldValue::Str("words")]),
                "{values:?}"
            ),
        }
    }
}

#[test]
fn labels_stay_balanced_when_sessions_start_and_stop_inside_them() {
    own_process!();
    let before = label!("before the first session");
    start();
    let first = label!("in the first");
    let inside = label!("in the first, too");
    session::stop();
    drop(inside);
    start();
    let second = label!("in the second");
    marker!("seen", &category::TEST, with_labels());
    drop(second);
    drop(first);
    drop(before);
    marker!("last", &category::TEST, with_labels());
    let seen = read();
    session::stop();
    assert_eq!(seen[0].label_names(), ["in the second"]);
    assert_eq!(seen[1].label_names(), [""; 0]);
}

#[test]
fn labels_of_a_forked_child_are_not_recorded() {
    own_process!();
    start();
    let mut outer = Some(label!("before the fork"));
    let in_child = || {
        {
            let _inner = label!("in the child");
            marker!("in the child", &category::TEST, with_labels());
        }
        drop(outer.take()); // it stays open in the parent
        7
    };
    // SAFETY: the child calls only functions that are allowed in a forked child.
    let status = unsafe { in_forked_child(in_child) };
    marker!("in the parent", &category::TEST, with_labels());
    let seen = read();
    session::stop();
    assert!(
        libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 7,
        "status {status}"
    );
    assert_eq!(seen.len(), 1);
    assert_eq!(seen[0].label_names(), ["before the fork"]);
}
