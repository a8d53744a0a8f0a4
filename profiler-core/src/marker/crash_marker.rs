//! The marker of a crash: its fields, and how viewers show them.
//!
//! Made by `integrations/crash` in a handler, and by the session for observed programs.

use serde::Serialize;

use super::ProfilerMarker;
use crate::schema::{Format, MarkerSchema};

/// The fields of a crash. `profiler_gecko::model` reads them in this order.
#[derive(Debug, Serialize)]
pub struct CrashMarker<'a> {
    /// The name of the signal.
    pub signal: &'a str,
    /// What the signal reports.
    pub reason: &'a str,
    /// The address that the fault is about; empty if there is none.
    pub address: &'a str,
    /// Names and values of registers.
    pub registers: &'a str,
}

impl CrashMarker<'_> {
    /// Any value, which shows which fields there are.
    pub(super) const EXAMPLE: Self = Self {
        signal: "",
        reason: "",
        address: "",
        registers: "",
    };
}

impl ProfilerMarker for CrashMarker<'_> {
    const TYPE_NAME: &'static str = "Crash";
    const IS_OF_PROFILER: bool = true;

    fn schema() -> MarkerSchema {
        MarkerSchema::in_chart_and_table(Self::TYPE_NAME)
            .all_labels("{marker.data.signal}: {marker.data.reason}")
            .key_label_format("signal", "Signal", Format::String)
            .key_label_format("reason", "Reason", Format::String)
            .key_label_format("address", "Address", Format::SanitizedString)
            .key_label_format("registers", "Registers", Format::SanitizedString)
            .static_label_value(
                "Description",
                "The thread crashed. The stack is that of the crash.",
            )
    }
}
