//! Checks which public types are `Send` and `Sync`.

use profiler_parent::alerts::{ListenerError, SuppressedAlerts};
use profiler_parent::groups::{
    GroupId, GroupKind, GroupRow, GroupTotals, Histogram, Member, MergedGroup, MissingProcess,
    Peak, Probes, ProcessGroups, ProcessStanding, RowStatus,
};
use profiler_parent::observe::{
    Batch, BatchClock, Detail, Field, Flow, Forwarding, NoBatch, ObservedMarker, ObserverOptions,
    Origin, SessionNs, Shape, SharedText, SpanNumber, Value,
};
use profiler_parent::recover::{
    FindError, Life, PassedOver, RecoverError, Recovery, Survey, SurveyedProcess,
};
use profiler_parent::{
    Alert, AlertRules, AlertTarget, Alerts, AlertsError, ByteLimit, Capture, CaptureError,
    CaptureEvent, CaptureEvents, CaptureReport, CapturedProcess, ChildSignals, Confirmation,
    DropReason, Drops, EntryCounts, EnvSession, EnvSessionError, EvidenceOptions,
    FeatureUnavailable, Features, Filter, Format, GroupsSnapshot, LimitError, Monitor, NotRecorded,
    ObserveError, Observer, PoolDirectoryError, ProcessId, ProcessReport, ProcessState,
    ProfiledChild, SavingCapture, Session, SessionAddressError, SessionBuilder, SessionError,
    SessionSummary, SignalTaken, SlowRun, SpawnError, StartupError, SymbolOptions, Unsuitable,
    Verdict, Why, WriteAt,
};
use test_support::{assert_send, assert_send_sync};

assert_send_sync!(
    Session,
    SessionAddressError,
    SessionBuilder,
    SessionError,
    Confirmation,
    LimitError,
    NotRecorded,
    ByteLimit,
    Features,
    FeatureUnavailable,
    EnvSession,
    EnvSessionError,
    SignalTaken,
    StartupError,
    WriteAt,
    PoolDirectoryError,
    Unsuitable,
    ProfiledChild,
    ChildSignals,
    SpawnError,
    ProcessId,
    ProcessReport,
    ProcessState,
    SessionSummary,
    EntryCounts,
    Drops,
    DropReason,
    Verdict,
    Why,
);
assert_send_sync!(
    CaptureEvents,
    CaptureEvent,
    CaptureError,
    CaptureReport,
    CapturedProcess,
    Format,
    SymbolOptions,
);
assert_send_sync!(
    Alert,
    AlertRules,
    AlertTarget,
    Alerts,
    AlertsError,
    EvidenceOptions,
    ListenerError,
    SlowRun,
    SuppressedAlerts,
    GroupsSnapshot,
    Monitor,
    GroupId,
    GroupKind,
    GroupRow,
    GroupTotals,
    Histogram,
    Member,
    MergedGroup,
    MissingProcess,
    Peak,
    Probes,
    ProcessGroups,
    ProcessStanding,
    RowStatus,
);
assert_send_sync!(
    Observer,
    ObserveError,
    Filter,
    ObserverOptions,
    Forwarding,
    Batch,
    BatchClock,
    Detail,
    Field,
    Flow,
    NoBatch,
    ObservedMarker,
    Origin,
    SessionNs,
    Shape,
    SharedText,
    SpanNumber,
    Value,
);
assert_send_sync!(
    FindError,
    Life,
    PassedOver,
    RecoverError,
    Recovery,
    Survey,
    SurveyedProcess
);
#[cfg(feature = "live")]
assert_send_sync!(
    profiler_parent::LiveError,
    profiler_parent::LiveOptions,
    profiler_parent::LiveServer
);

// A capture owns the application's source of names, which may not be `Sync`.
assert_send!(Capture, SavingCapture);
