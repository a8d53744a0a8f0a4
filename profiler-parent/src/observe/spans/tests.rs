//! Tests of pairing: its rules one by one, and a comparison with a naive model.

use proptest::prelude::*;

use super::*;

fn span(thread: u64, name: &str, start: u64) -> OpenSpan {
    OpenSpan {
        marker: ObservedMarker::test_span(thread, name),
        start: Timestamp::from_raw(start),
        id: None,
        label: None,
        group: None,
    }
}

fn labelled(thread: u64, name: &str, label: &str, start: u64) -> OpenSpan {
    OpenSpan {
        label: Some(label.to_owned()),
        ..span(thread, name, start)
    }
}

fn numbered(thread: u64, id: u64, start: u64) -> OpenSpan {
    OpenSpan {
        id: Some(id),
        ..span(thread, "s", start)
    }
}

/// Starts `span`, with `number`.
fn start(spans: &mut Spans, number: u64, span: OpenSpan) {
    assert!(spans.start(SpanNumber(number), span).is_none());
}

fn began(span: Option<OpenSpan>) -> Option<u64> {
    span.map(|span| span.start.raw())
}

const T: ThreadId = ThreadId::new(1);

#[test]
fn t3_nested_spans_of_one_name_pair_innermost_first_and_only_with_equal_texts() {
    let mut spans = Spans::default();
    start(&mut spans, 1, span(1, "load", 10));
    start(&mut spans, 2, span(1, "load", 20));
    start(&mut spans, 3, labelled(1, "load", "a", 30));
    start(&mut spans, 4, labelled(1, "load", "b", 40));
    assert_eq!(began(spans.end_named(T, "load", Some("a"))), Some(30));
    assert_eq!(began(spans.end_named(T, "load", None)), Some(20));
    assert_eq!(began(spans.end_named(T, "load", None)), Some(10));
    assert_eq!(began(spans.end_named(T, "load", None)), None);
    assert_eq!(began(spans.end_named(T, "load", Some("b"))), Some(40));
    assert_eq!(spans.orphans(), 1);
}

#[test]
fn t5_an_end_by_name_never_pairs_with_a_start_of_another_thread() {
    let mut spans = Spans::default();
    start(&mut spans, 1, span(2, "load", 10));
    assert!(spans.end_named(T, "load", None).is_none());
    assert_eq!(
        began(spans.end_named(ThreadId::new(2), "load", None)),
        Some(10)
    );
}

#[test]
fn t3_numbered_spans_pair_by_their_number_in_any_order() {
    let mut spans = Spans::default();
    start(&mut spans, 1, numbered(1, 100, 10));
    start(&mut spans, 2, numbered(1, 101, 20));
    assert!(
        spans.end_named(T, "s", None).is_none(),
        "an end without a number does not end a numbered span"
    );
    assert_eq!(began(spans.end_numbered(100, Timestamp::ZERO, 1)), Some(10));
    assert_eq!(began(spans.end_numbered(101, Timestamp::ZERO, 1)), Some(20));
}

#[test]
fn t5_an_end_read_before_its_start_is_kept_for_one_more_pass() {
    let mut spans = Spans::default();
    let end = Timestamp::from_raw(99);
    assert!(spans.end_numbered(7, end, 1).is_none());
    assert!(spans.end_numbered(8, end, 1).is_none());
    spans.end_pass(1);
    let (over, at) = spans.start(SpanNumber(1), numbered(1, 7, 10)).unwrap();
    assert_eq!((over.start.raw(), at), (10, end));
    spans.end_pass(2);
    assert_eq!(spans.orphans(), 1);
    start(&mut spans, 2, numbered(1, 8, 10));
}

#[test]
fn the_details_of_a_span_are_limited_in_number() {
    let mut spans = Spans::default();
    start(&mut spans, 1, numbered(1, 7, 10));
    for _ in 0..100 {
        spans.detail(
            7,
            Detail {
                name: "rectangle".into(),
                value: "0 0 10 10".to_owned(),
            },
        );
    }
    let span = spans.end_numbered(7, Timestamp::ZERO, 1).unwrap();
    assert_eq!(
        (span.marker.details.len(), span.marker.cut),
        (MAX_DETAILS, true)
    );
}

#[test]
fn open_spans_and_early_ends_are_limited_in_number() {
    let mut spans = Spans::default();
    for number in 0..5_000 {
        assert!(
            spans
                .start(SpanNumber(number), numbered(1, number, number))
                .is_none()
        );
        assert!(
            spans
                .end_numbered(1_000_000 + number, Timestamp::ZERO, 1)
                .is_none()
        );
    }
    assert_eq!(spans.open().count(), MAX_OPEN);
    assert_eq!(spans.early.len(), MAX_EARLY);
    assert_eq!(spans.take_all().len(), MAX_OPEN);
    assert_eq!(
        (
            spans.open().count(),
            spans.by_id.len(),
            spans.by_thread.len()
        ),
        (0, 0, 0)
    );
}

#[test]
fn new_spans_evict_the_oldest_open_spans() {
    let mut spans = Spans::default();
    (0..5_000).for_each(|number| start(&mut spans, number, span(1, "leaked", number)));
    start(&mut spans, 5_000, span(1, "load", 77));
    start(&mut spans, 5_001, numbered(2, 9, 78));
    assert_eq!(began(spans.end_named(T, "load", None)), Some(77));
    assert_eq!(began(spans.end_numbered(9, Timestamp::ZERO, 1)), Some(78));
    assert_eq!(
        began(spans.end_named(T, "leaked", None)),
        Some(4_999),
        "the latest leaked span is still open"
    );
    assert_eq!(spans.orphans(), 5_002 - MAX_OPEN as u64);
}

#[test]
fn an_evicted_span_counts_once_also_if_it_ends_later() {
    let most = MAX_OPEN as u64;
    let mut spans = Spans::default();
    (0..most).for_each(|id| start(&mut spans, id, numbered(1, id, id)));
    (most..2 * most).for_each(|id| start(&mut spans, id, labelled(1, "load", "a", id)));
    (2 * most..3 * most).for_each(|id| start(&mut spans, id, numbered(1, id, id)));
    assert_eq!(spans.orphans(), 2 * most);
    spans.detail(
        0,
        Detail {
            name: "late".into(),
            value: String::new(),
        },
    );
    for id in 0..most {
        assert!(spans.end_numbered(id, Timestamp::ZERO, 1).is_none());
        assert!(spans.end_named(T, "load", Some("a")).is_none());
    }
    assert_eq!(
        spans.early.len(),
        0,
        "ends of evicted spans do not wait for a start"
    );
    spans.end_pass(1);
    spans.end_pass(2);
    assert_eq!(spans.orphans(), 2 * most, "each evicted span counts once");
    assert!(spans.end_named(T, "load", Some("a")).is_none());
    assert!(spans.end_numbered(0, Timestamp::ZERO, 2).is_none());
    spans.end_pass(3);
    assert_eq!(
        spans.orphans(),
        2 * most + 2,
        "both further ends have no start"
    );
    assert!(spans.end_numbered(2 * most, Timestamp::ZERO, 3).is_some());
}

#[test]
fn evicted_spans_are_remembered_per_thread_and_limited_in_number() {
    let mut spans = Spans::default();
    let late = |spans: &mut Spans, thread| {
        let before = spans.orphans();
        assert!(
            spans
                .end_named(ThreadId::new(thread), "load", None)
                .is_none()
        );
        spans.orphans() - before
    };
    (0..3).for_each(|number| start(&mut spans, number, span(number, "load", number)));
    let mut next = 3_u64;
    let mut evict = |spans: &mut Spans, count: usize| {
        (0..count).for_each(|_| {
            start(spans, next, numbered(9, next, next));
            next += 1;
        });
    };
    evict(&mut spans, MAX_OPEN);
    spans.forget_thread(ThreadId::new(2));
    assert_eq!(
        [
            late(&mut spans, 0),
            late(&mut spans, 0),
            late(&mut spans, 2)
        ],
        [0, 1, 1]
    );
    evict(&mut spans, evicted::MAX);
    assert_eq!(
        late(&mut spans, 1),
        1,
        "the eviction is no longer remembered"
    );
}

#[test]
fn open_spans_and_their_details_are_limited_in_bytes() {
    let mut spans = Spans::default();
    let large_span = |id: u64| {
        let mut span = numbered(1, id, id);
        span.marker.name = "n".repeat(1_000).as_str().into();
        span
    };
    for id in 0..1_000 {
        start(&mut spans, id, large_span(id));
        for _ in 0..MAX_DETAILS {
            spans.detail(
                id,
                Detail {
                    name: "d".into(),
                    value: "v".repeat(16 << 10),
                },
            );
        }
    }
    let weigh = |spans: &Spans| spans.open().map(|(_, span)| span.weight()).sum::<usize>();
    assert!(
        weigh(&spans) <= MAX_BYTES && spans.bytes == weigh(&spans),
        "{}",
        weigh(&spans)
    );
    assert!(
        spans.open().any(|(_, span)| span.marker.cut),
        "some details do not fit"
    );
    assert!(spans.end_numbered(999, Timestamp::ZERO, 1).is_some());
    assert_eq!(
        spans.bytes,
        weigh(&spans),
        "the bytes of an ended span are free again"
    );
    spans.take_all();
    assert_eq!(spans.bytes, 0);
}

#[test]
fn t2_a_thread_is_in_the_groups_of_its_open_spans_until_the_last_of_a_group_ends() {
    let mut spans = Spans::default();
    let groups = |spans: &Spans| {
        spans
            .groups(T)
            .iter()
            .map(|group| group.to_string())
            .collect::<Vec<_>>()
    };
    let grouped = |id: u64, group: &str| OpenSpan {
        group: Some(group.into()),
        ..numbered(1, id, id)
    };
    for (id, group) in [(1, "b"), (2, "a"), (3, "b")] {
        start(&mut spans, id, grouped(id, group));
    }
    assert_eq!(groups(&spans), ["a", "b"]);
    spans.end_numbered(1, Timestamp::ZERO, 1);
    assert_eq!(groups(&spans), ["a", "b"]);
    spans.end_numbered(3, Timestamp::ZERO, 1);
    assert_eq!(groups(&spans), ["a"]);
    spans.end_numbered(2, Timestamp::ZERO, 1);
    assert!(
        spans.groups(T).is_empty()
            && spans.groups(ThreadId::new(2)).is_empty()
            && spans.by_thread.is_empty()
    );
    (10..500).for_each(|id| start(&mut spans, id, grouped(id, &format!("group {id}"))));
    assert_eq!(spans.groups(T).len(), MAX_GROUPS);
}

#[test]
fn threads_lists_the_threads_with_unnumbered_open_spans() {
    let mut spans = Spans::default();
    start(&mut spans, 1, numbered(1, 1, 1));
    assert_eq!(
        spans.threads().count(),
        0,
        "any thread may end a numbered span"
    );
    start(&mut spans, 2, span(2, "load", 2));
    assert_eq!(spans.threads().collect::<Vec<_>>(), [ThreadId::new(2)]);
    spans.forget_thread(ThreadId::new(2));
    assert_eq!((spans.threads().count(), spans.orphans()), (0, 1));
}

#[test]
fn forgetting_a_thread_drops_only_its_unnumbered_open_spans() {
    let mut spans = Spans::default();
    start(&mut spans, 1, span(1, "load", 10));
    start(&mut spans, 2, numbered(1, 5, 20));
    spans.forget_thread(T);
    assert!(spans.end_named(T, "load", None).is_none());
    assert_eq!(
        began(spans.end_numbered(5, Timestamp::ZERO, 1)),
        Some(20),
        "any thread may end a numbered span"
    );
}

#[derive(Clone, Debug)]
enum Step {
    Start(u64, usize, Option<usize>),
    End(u64, usize, Option<usize>),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let key = || (1_u64..4, 0_usize..2, prop::option::of(0_usize..2));
    let step = prop_oneof![
        key().prop_map(|(thread, name, label)| Step::Start(thread, name, label)),
        key().prop_map(|(thread, name, label)| Step::End(thread, name, label)),
    ];
    prop::collection::vec(step, 0..80)
}

proptest! {
    /// The model keeps one list of all starts and searches it from the back.
    #[test]
    fn t3_pairing_by_name_agrees_with_a_list_searched_from_the_back(steps in steps()) {
        let names = ["a", "b"];
        let labels = ["x", "y"];
        let mut model: Vec<(u64, usize, Option<usize>, u64)> = Vec::new();
        let mut spans = Spans::default();
        let mut orphans = 0;
        for (at, step) in steps.into_iter().enumerate() {
            let at = at as u64;
            match step {
                Step::Start(thread, name, label) => {
                    let label_text = label.map(|label| labels[label].to_owned());
                    start(&mut spans, at, OpenSpan { label: label_text, ..span(thread, names[name], at) });
                    model.push((thread, name, label, at));
                }
                Step::End(thread, name, label) => {
                    let place = model.iter().rposition(|one| (one.0, one.1, one.2) == (thread, name, label));
                    let expected = place.map(|place| model.remove(place).3);
                    orphans += u64::from(expected.is_none());
                    let ended = spans.end_named(
                        ThreadId::new(thread), names[name], label.map(|label| labels[label]));
                    prop_assert_eq!(began(ended), expected);
                }
            }
            prop_assert_eq!(spans.open().count(), model.len());
            prop_assert_eq!(spans.orphans(), orphans);
        }
    }
}
