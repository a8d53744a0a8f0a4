//! Uses every public name with which libraries and applications record. This file is compiled with
//! and without recording, so these names exist in both builds with the same signatures.
//!
//! `cargo test -p profiler-core --no-default-features --test all` compiles it without recording.

use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use profiler_core::alloc::ProfilingAllocator;
use profiler_core::category::Category;
use profiler_core::counter::Counter;
use profiler_core::flow::{Flow, ParseFlowError, TraceparentError};
use profiler_core::future::{InFlow, InTrace, RecordFuture, Scoped};
use profiler_core::groups::{self, Group, GroupKind, Groups, InGroups, Probes};
use profiler_core::ids::{DefinitionId, ThreadId};
use profiler_core::marker::schema::{
    CategoryColor, FieldFormat, Format, GraphColor, GraphType, Location, MarkerField, MarkerSchema,
    SchemaError, TableColumn,
};
use profiler_core::marker::{
    CategoryPair, MarkerOptions, MarkerScope, MarkerSpan, MarkerStack, MarkerTiming,
    ProfilerMarker, SpanOptions, Text, category,
};
use profiler_core::safepoint::{FunctionId, FunctionName, SafePointSampler, StackRoom};
use profiler_core::sampler::{self, Frame, ModuleDefinition, Sample, SampleWriter};
use profiler_core::time::Timestamp;
use profiler_core::trace::{self, PublishError, TraceContext, TraceScope};
use profiler_core::{
    blocking, flow, group, label, marker, scope, session, span, text_marker, thread,
};

static STORAGE: Category = Category::new("Storage", CategoryColor::Blue, &["Read"]);
static BYTES: Counter = Counter::new("Bytes", "Bandwidth", "Bytes read");
static ALLOCATOR: ProfilingAllocator = ProfilingAllocator::new()
    .sampling_every(1 << 20)
    .with_seed(1);

#[derive(serde::Serialize)]
struct Request<'a> {
    url: &'a str,
    bytes: Option<u64>,
}

impl ProfilerMarker for Request<'_> {
    const TYPE_NAME: &'static str = "Request";

    fn schema() -> MarkerSchema {
        let table = FieldFormat::table([TableColumn::new("Name", Format::String)]);
        MarkerSchema::new(
            Self::TYPE_NAME,
            [Location::MarkerChart, Location::MarkerTable],
        )
        .all_labels("{marker.data.url}")
        .field(MarkerField::new("url", Format::Url).label("URL"))
        .key_label_format("bytes", "Size", Format::Bytes)
        .key_format("rows", table)
        .graph("bytes", GraphType::Bar, Some(GraphColor::Blue))
    }
}

#[label::function]
fn labelled() -> u32 {
    7
}

#[label::function(&STORAGE)]
fn labelled_with_a_category() {}

fn markers() {
    let start = Timestamp::now();
    let category: CategoryPair = STORAGE.sub(1);
    let request = Request {
        url: "http://localhost",
        bytes: Some(1),
    };
    marker!("plain");
    marker!("with a category", &category::IO);
    marker!(
        "with options",
        category,
        MarkerOptions::interval_until_now_from(start)
    );
    let options = MarkerOptions::from(MarkerTiming::InstantAt(start));
    let options = options
        .on_thread(thread::current())
        .with_stack(MarkerStack::Labels);
    marker!("with a payload", &STORAGE, options, &request);
    marker!(
        "with a text",
        &STORAGE,
        MarkerOptions::default(),
        &Text { name: "text" }
    );
    text_marker!(
        "text",
        &category::IO,
        MarkerOptions::interval_start(),
        "text"
    );
    marker::add_untyped_marker("untyped", &STORAGE, MarkerOptions::interval_end());
    marker::add_text_marker("text", &STORAGE, MarkerOptions::instant_at(start), "text");
    marker::add_marker(
        "typed",
        category,
        MarkerOptions::interval(start, start),
        &request,
    );
    let url = String::from("index.html");
    marker!("fields", url = url, bytes = 17, ok = true);
    marker!(
        "fields",
        category = &category::IO,
        options = options,
        url = url
    );
    text_marker!("text", "text");
    text_marker!("text", &category::IO, "text");
    let _fields = scope!("scope with fields", category = &STORAGE, url = &url);
    let with_fields: MarkerSpan = span!("span with fields", url = url, bytes = Some(17));
    drop(with_fields);
    let _none: MarkerScope<'static> = MarkerScope::disabled();
    let _scope = scope!("scope");
    let text = String::from("text");
    let inner = scope!("scope with a text", &STORAGE, &text);
    drop(inner);
    let span: MarkerSpan = span!(
        "span",
        &category::IO,
        SpanOptions::default().group("tenant")
    );
    span.detail("rows", "17");
    let _id: Option<u64> = span.id();
    let _text = span!("span with a text", &category::IO, "text");
    drop(span);
}

fn flows() {
    let request = Flow::new();
    let options = MarkerOptions::default();
    flow!(begin request);
    flow!(step request, "passed");
    flow!(step request, "passed", category = &STORAGE);
    flow!(step request, "passed", options = options);
    flow!(end request, "answered", category = &STORAGE, options = options);
    flow!(end request, "answered", category = &STORAGE, options = options, bytes = 17);
    marker!("flow as a field", flow = request);
    let parsed: Result<Flow, ParseFlowError> = request.to_string().parse();
    assert_eq!(parsed, Ok(request));
    let read: Result<Flow, TraceparentError> = Flow::from_traceparent(&request.to_traceparent());
    assert_eq!(read, Ok(request));
    assert_ne!(request.to_traceparent_of(1), request.to_traceparent());
    assert_eq!(Flow::from(request.number()), request);
}

fn traces() {
    let header = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let read: Result<TraceContext, TraceparentError> = header.parse();
    let Ok(context) = read else { return };
    let ids = (context.trace_id(), context.span_id(), context.flags());
    assert_eq!(TraceContext::new(ids.0, ids.1, ids.2), context);
    let bytes = (ids.0.get().to_be_bytes(), ids.1.get().to_be_bytes());
    assert_eq!(
        TraceContext::from_bytes(bytes.0, bytes.1, ids.2),
        Some(context)
    );
    assert_eq!(context.to_string(), header);
    let scope = TraceScope::enter(context);
    let carried = trace::current_trace();
    assert!(carried.is_none_or(|carried| carried == context));
    drop(scope);
    assert_eq!(trace::set_trace(None), None);
    let future: InTrace<_> = async { trace::current_trace() }.in_trace(context);
    let polled = pin!(future).poll(&mut Context::from_waker(Waker::noop()));
    assert_eq!(polled, Poll::Ready(carried));
    // Only named: it publishes once for each process.
    type Publish = fn(&[(&str, &str)]) -> Result<(), PublishError>;
    let _: Publish = trace::publish_process_context;
}

fn labels() -> u32 {
    let _label = label!("label");
    let inner = label!("label with a category", &STORAGE);
    drop(inner);
    labelled_with_a_category();
    labelled()
}

fn counters() -> i64 {
    BYTES.register();
    BYTES.add(1);
    BYTES.set(2);
    BYTES.get()
}

fn groups_are_entered() {
    static FINE: Group = Group::fine(GroupKind::Task, "fine");
    let tenant = Group::register(GroupKind::Tenant, "acme");
    let labelled = Group::register_with(GroupKind::Request, "GET", &[("host", "localhost")]);
    let both = Groups::of([&tenant, group!(Plugin, "spell checker")]).enter();
    let _waits = blocking!("disk");
    let _also_waits = groups::blocking(&labelled);
    let mut custom = groups::custom_loop();
    let nested = groups::nested_loop();
    drop(FINE.enter());
    groups::turn();
    custom.turn();
    drop(nested);
    drop(custom);
    drop(both);
    assert!(groups::probes() == Probes::NONE, "no session runs");
    groups::set_probes(Probes::NONE);
    let mut future = pin!(
        async { 5 }
            .in_group(&tenant)
            .in_group(group!("plugin:ad blocker"))
    );
    assert_eq!(
        future
            .as_mut()
            .poll(&mut Context::from_waker(Waker::noop())),
        Poll::Ready(5)
    );
}

fn futures() {
    let scoped: Scoped<_> = async { 5 }.scoped("scoped");
    let in_flow: InFlow<_> = scoped.in_flow(Flow::new());
    let mut context = Context::from_waker(Waker::noop());
    let mut future = pin!(in_flow);
    assert_eq!(future.as_mut().poll(&mut context), Poll::Ready(5));
}

fn own_samplers() {
    let module = ModuleDefinition {
        path: "/lib/script.so".to_owned(),
        build_id: Vec::new(),
        base: 0,
        start: 0,
        end: 1,
    };
    assert_eq!(sampler::define_module(&module), None);
    let label: Option<DefinitionId> = sampler::define_label("main", &STORAGE, "script.js", 1);
    let frames = [
        Frame::Unknown(1),
        label.map_or(Frame::Unknown(2), Frame::Label),
    ];
    let sample = Sample {
        at: Timestamp::now(),
        cpu_ns: None,
        frames: &frames,
        cut: false,
        failed: false,
    };
    let mut writer = SampleWriter::new();
    let thread: ThreadId = thread::current();
    assert!(!writer.sample(thread, &sample));
    assert!(
        !writer.same_as_before(thread, sample.at) && !writer.repeat(thread, sample.at, Some(1))
    );
    writer.keep_only(|_| false);
    let mut script = SafePointSampler::new(thread, Duration::from_millis(1)).about(&STORAGE);
    let stack = |stack: &mut StackRoom<'_>| {
        stack.push(FunctionId(1), || FunctionName {
            name: "main",
            file: "",
            line: 0,
        });
    };
    assert!(!script.start() && !script.is_on());
    script.poll(stack);
    script.suspend();
    script.resume();
    script.stop(stack);
}

fn switches() {
    session::pause();
    session::resume();
    session::pause_sampling();
    session::resume_sampling();
    assert!(!session::is_active() && !session::is_paused() && !session::is_sampling_paused());
    assert!(!session::wait_one_periodic_sampling());
}

#[test]
fn every_name_for_recording_exists_with_and_without_recording() {
    test_support::own_process!();
    thread::register("all names");
    markers();
    flows();
    traces();
    assert_eq!(labels(), 7);
    assert_eq!(counters(), 0, "no session runs");
    groups_are_entered();
    futures();
    own_samplers();
    switches();
    thread::unregister();
    let wrong: Result<(), SchemaError> = Request::schema().check();
    assert_eq!(wrong, Ok(()));
    let text = format!("{ALLOCATOR:?}");
    assert!(text.starts_with("ProfilingAllocator"));
}

#[cfg(not(feature = "enabled"))]
#[test]
fn arguments_of_macros_are_not_evaluated_without_recording() {
    fn evaluated<T>() -> T {
        panic!("an argument of a disabled macro was evaluated")
    }
    marker!("off", &category::OTHER, evaluated());
    marker!(
        "off",
        &category::OTHER,
        MarkerOptions::default(),
        &evaluated::<Request<'static>>()
    );
    text_marker!("off", &category::OTHER, evaluated(), "text");
    let _scope = scope!("off", &category::OTHER, evaluated());
    let _span = span!("off", &category::OTHER, evaluated::<SpanOptions<'_>>());
    let _label = label!("off", evaluated::<CategoryPair>());
    flow!(begin evaluated::<Flow>());
    flow!(end evaluated::<Flow>(), "off", bytes = 17);
}
