//! The span that was open when a sample was taken, and its group.
//!
//! Used by [`super::profiles`], in the order of the samples' times. If the sample's thread worked
//! for a trace of the application, the sample has the span of the application. If the sample
//! carries a group, it has this group, and not that of a span. The innermost span is the one that
//! began last. A span of `tracing` may be open without being entered: it counts only if its name is
//! a label in the sample's stack, or if a poll of it contains the sample. Of a stack, only the
//! innermost functions are searched and only the innermost labels are known. Memory therefore grows
//! with the number of stacks, but not with their depth.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use super::super::by_row::ByRow;
use super::super::depth::MAX_FRAMES;
use super::super::recording::Thread;
use super::kinds::MarkerKind;
use super::span_message::{Vocabulary, marker_name};
use super::thread_spans::ThreadSpans;
use profiler_reader::{NodeId, Tables};

/// The number of open spans that are tried for a sample.
const MAX_TRIED: usize = 64;
/// The number of different labels of a stack that are known: the innermost ones.
const MAX_LABELS: usize = 64;
/// The field of a payload that has the name of a group.
const GROUP: &str = "group";

/// The names of groups, by the places of their spans. Equal names have the same memory.
pub(in super::super) type GroupNames = HashMap<usize, Arc<str>>;

/// The number of a name that spans of `tracing` have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct LabelNumber(u32);

/// What a sample belongs to: places of spans.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(in super::super) struct SampleContext {
    pub(in super::super) span: Option<usize>,
    /// The innermost span with a group.
    pub(in super::super) group: Option<usize>,
}

/// The spans of a thread over time. See the [module](self).
#[derive(Debug)]
pub(in super::super) struct OpenSpans<'s> {
    /// Start, and place.
    starts: Vec<(i64, usize)>,
    /// End, start, and place.
    ends: Vec<(i64, i64, usize)>,
    started: usize,
    ended: usize,
    /// By start and place.
    open: BTreeMap<(i64, usize), Candidate>,
    candidates: HashMap<usize, Candidate>,
    /// Start, end and place of the intervals of samples with the same context, in the order of
    /// time. They do not overlap.
    contexts: Vec<(i64, i64, usize)>,
    /// The names of spans of `tracing`.
    names: HashMap<&'s str, LabelNumber>,
    /// The names in each stack that are names of such spans, each once.
    labels: ByRow<Vec<LabelNumber>>,
}

#[derive(Clone, Copy, Debug)]
struct Candidate {
    /// The label that a sample must have.
    label: Option<LabelNumber>,
    has_group: bool,
    /// Whether it is a context with a span of the application.
    has_span: bool,
}

impl<'s> OpenSpans<'s> {
    pub(in super::super) fn of(
        spans: &ThreadSpans<'_>,
        thread: &Thread<'s>,
        groups: &GroupNames,
    ) -> Self {
        let mut all = Self {
            starts: Vec::new(),
            ends: Vec::new(),
            started: 0,
            ended: 0,
            open: BTreeMap::new(),
            candidates: HashMap::new(),
            contexts: Vec::new(),
            names: HashMap::new(),
            labels: ByRow::default(),
        };
        all.labels.begin(thread.tables.node_count());
        for (place, span) in spans.spans.iter().enumerate() {
            let Some(start) = span.start else { continue };
            let has_group = groups.contains_key(&place);
            if let MarkerKind::Context { span: of } = span.kind {
                let candidate = Candidate {
                    label: None,
                    has_group,
                    has_span: of.is_some(),
                };
                all.candidates.insert(place, candidate);
                all.contexts.push((start, span.end.unwrap_or(start), place));
                continue;
            }
            let is_traced = matches!(span.kind, MarkerKind::Traced { .. });
            let label = is_traced.then(|| all.number(marker_name(&span.marker, thread)));
            all.starts.push((start, place));
            all.ends.push((span.end.unwrap_or(i64::MAX), start, place));
            let candidate = Candidate {
                label,
                has_group,
                has_span: false,
            };
            all.candidates.insert(place, candidate);
        }
        all.contexts.sort_unstable();
        all.starts.sort_unstable();
        all.ends.sort_unstable();
        all
    }

    /// The number of a name.
    fn number(&mut self, name: &'s str) -> LabelNumber {
        let next = LabelNumber(u32::try_from(self.names.len()).unwrap_or(u32::MAX));
        *self.names.entry(name).or_insert(next)
    }

    /// What a sample belongs to. `at` is not before that of the previous call.
    pub(in super::super) fn at(
        &mut self,
        at: i64,
        stack: Option<NodeId>,
        tables: &'s Tables,
    ) -> SampleContext {
        self.advance(at);
        let carried = self.carried(at);
        let belongs = self.innermost(stack, tables);
        SampleContext {
            span: carried.span.or(belongs.span),
            group: carried.group.or(belongs.group),
        }
    }

    /// What the sample itself carries.
    fn carried(&self, at: i64) -> SampleContext {
        let begun = self.contexts.partition_point(|(start, ..)| *start <= at);
        let last = begun
            .checked_sub(1)
            .and_then(|last| self.contexts.get(last));
        let place = last
            .filter(|(_, end, _)| at <= *end)
            .map(|(.., place)| *place);
        let candidate = place.and_then(|place| self.candidates.get(&place));
        let has = |wanted: fn(&Candidate) -> bool| candidate.is_some_and(wanted);
        SampleContext {
            span: place.filter(|_| has(|one| one.has_span)),
            group: place.filter(|_| has(|one| one.has_group)),
        }
    }

    /// The innermost open span that the thread has entered, and the innermost one with a group.
    fn innermost(&mut self, stack: Option<NodeId>, tables: &'s Tables) -> SampleContext {
        if self.open.is_empty() {
            return SampleContext::default();
        }
        self.find_labels(stack, tables);
        let labels = stack.and_then(|stack| self.labels.get(stack.0));
        let is_entered = |candidate: &Candidate| {
            let has = |label| labels.is_some_and(|labels| labels.contains(&label));
            candidate.label.is_none_or(has)
        };
        let mut belongs = SampleContext::default();
        for ((_, place), candidate) in self.open.iter().rev().take(MAX_TRIED) {
            if !is_entered(candidate) {
                continue;
            }
            belongs.span = belongs.span.or(Some(*place));
            if candidate.has_group {
                belongs.group = Some(*place);
                break;
            }
        }
        belongs
    }

    fn advance(&mut self, at: i64) {
        while let Some((start, place)) = self.starts.get(self.started).filter(|next| next.0 <= at) {
            if let Some(candidate) = self.candidates.get(place) {
                self.open.insert((*start, *place), *candidate);
            }
            self.started += 1;
        }
        while let Some((_, start, place)) = self.ends.get(self.ended).filter(|next| next.0 < at) {
            self.open.remove(&(*start, *place));
            self.ended += 1;
        }
    }

    fn find_labels(&mut self, stack: Option<NodeId>, tables: &'s Tables) {
        let Some(stack) = stack.filter(|_| !self.names.is_empty()) else {
            return;
        };
        if self.labels.get(stack.0).is_some() {
            return;
        }
        let most = MAX_LABELS.min(self.names.len());
        let mut labels = Vec::new();
        for func in tables.functions(stack).take(MAX_FRAMES) {
            let function = tables.function(func);
            let label = function.and_then(|function| self.names.get(function.name).copied());
            let label = label.filter(|label| !labels.contains(label));
            labels.extend(label);
            if labels.len() >= most {
                break;
            }
        }
        self.labels.insert(stack.0, labels);
    }
}

/// Whether any marker of a thread may have a group. Much faster than reading them.
pub(in super::super) fn may_have_groups(thread: &Thread<'_>) -> bool {
    let mut payloads = thread.markers.iter().filter_map(|marker| marker.data);
    payloads.any(|data| data.contains(GROUP))
}

/// The groups of spans.
pub(in super::super) fn groups(
    spans: &ThreadSpans<'_>,
    thread: &Thread<'_>,
    vocabulary: &Vocabulary,
) -> GroupNames {
    let mut known: HashSet<Arc<str>> = HashSet::new();
    let group = |(place, span): (usize, &super::thread_spans::ThreadSpan<'_>)| {
        let has_group = span.marker.data.is_some_and(|data| data.contains(GROUP));
        let payload = has_group.then(|| vocabulary.payload(&span.marker, thread))?;
        let (_, json) = payload.members().find(|(key, _)| *key == GROUP)?;
        let name: String = serde_json::from_str(json).ok()?;
        let name = match known.get(name.as_str()) {
            Some(known) => known.clone(),
            None => Arc::from(name),
        };
        known.insert(name.clone());
        (!name.is_empty()).then_some((place, name))
    };
    spans.spans.iter().enumerate().filter_map(group).collect()
}
