//! Checks which public types are `Send` and `Sync`.

use profiler_export::{ExportError, ExportOptions, Exported, Imported, Target, TimeKind};
use test_support::assert_send_sync;

assert_send_sync!(
    ExportError,
    ExportOptions,
    Exported,
    Imported,
    Target,
    TimeKind
);
