//! Checks which public types are `Send` and `Sync`, with recording and without.

use profiler_core::alloc::ProfilingAllocator;
use profiler_core::counter::Counter;
use profiler_core::flow::{Flow, ParseFlowError, TraceparentError};
use profiler_core::future::{InFlow, Scoped};
use profiler_core::groups::{
    CustomLoop, Entered, Group, GroupKind, Groups, InGroup, NestedLoop, Probes,
};
use profiler_core::ids::{ByteLimit, DefinitionId, ProcessId, ThreadId};
use profiler_core::label::LabelScope;
use profiler_core::marker::schema::{
    CategoryColor, FieldFormat, Format, GraphColor, GraphType, Location, MarkerField, MarkerGraph,
    MarkerSchema, SchemaError, SchemaRow, TableColumn,
};
use profiler_core::marker::{
    Category, CategoryPair, MarkerOptions, MarkerScope, MarkerSpan, MarkerStack, MarkerTiming,
    SpanOptions, Text,
};
use profiler_core::safepoint::{FunctionId, FunctionName, SafePointSampler};
use profiler_core::sampler::{Frame, ModuleDefinition, Sample, SampleWriter};
use profiler_core::thread::ThreadFilter;
use profiler_core::time::Timestamp;
use test_support::{assert_not_send, assert_send_sync};

assert_send_sync!(
    ProfilingAllocator,
    Counter,
    Flow,
    ParseFlowError,
    TraceparentError,
    Group,
    Groups<'static, 2>,
    GroupKind,
    InGroup<std::future::Ready<()>>,
    Scoped<std::future::Ready<()>>,
    InFlow<std::future::Ready<()>>,
    Probes,
    ByteLimit,
    DefinitionId,
    ProcessId,
    ThreadId,
);
assert_send_sync!(
    CategoryColor,
    FieldFormat,
    Format,
    GraphColor,
    GraphType,
    Location,
    MarkerField,
    MarkerGraph,
    MarkerSchema,
    SchemaError,
    SchemaRow,
    TableColumn,
);
assert_send_sync!(
    Category,
    CategoryPair,
    MarkerOptions,
    MarkerSpan,
    MarkerStack,
    MarkerTiming,
    SpanOptions<'static>,
    Text<'static>,
);
assert_send_sync!(
    FunctionId,
    FunctionName<'static>,
    SafePointSampler,
    Frame,
    ModuleDefinition,
    Sample<'static>,
    SampleWriter,
    ThreadFilter,
    Timestamp,
);
#[cfg(feature = "enabled")]
assert_send_sync!(
    profiler_core::session::Features,
    profiler_core::session::SessionParams
);

// A guard belongs to the thread that created it.
assert_not_send!(
    MarkerScope<'static>,
    LabelScope,
    Entered,
    CustomLoop,
    NestedLoop
);
