//! `meta`: what holds for the whole profile.

use std::collections::HashSet;
use std::io::Write;

use profiler_core::internal::profile::gecko::GECKO_VERSION;
use profiler_core::internal::profile::gecko::shared::{
    MARGIN_NS, incomplete_process_schema, losses_schema, write_categories, write_configuration,
    write_platform, write_processed_schema, write_units,
};
use profiler_core::internal::profile::{CategoryRow, JsonWriter, ShownRange};
use profiler_core::internal::reader::Definitions;
use profiler_core::marker::schema::{Location, MarkerSchema};
use profiler_core::session::{Features, SessionParams};
use profiler_core::time::SessionClock;

use super::PROCESSED_VERSION;
use super::markers::STACK_ONLY;
use super::visible::Visible;

/// What `meta` is written from.
#[derive(Debug)]
pub(super) struct Meta<'a> {
    pub(super) product: &'a str,
    pub(super) params: &'a SessionParams,
    pub(super) clock: SessionClock,
    pub(super) capture_ns: i64,
    pub(super) shown: ShownRange,
    pub(super) categories: &'a [CategoryRow],
    /// Of all processes, the root first.
    pub(super) definitions: Vec<&'a Definitions>,
    pub(super) visible: &'a Visible,
    pub(super) is_symbolicated: bool,
}

impl Meta<'_> {
    /// Writes the key `meta`.
    pub(super) fn write<W: Write>(&self, out: &mut JsonWriter<W>) {
        out.key("meta");
        out.begin_object();
        out.entry_u64("version", u64::from(GECKO_VERSION));
        out.entry_u64("preprocessedProfileVersion", u64::from(PROCESSED_VERSION));
        out.entry_millis_ns("interval", i64::try_from(self.params.interval_ns).ok());
        self.write_times(out);
        out.entry_u64("processType", 0);
        out.entry_str("product", self.product);
        out.entry_u64("stackwalk", u64::from(self.params.features.contains(Features::STACK_WALK)));
        out.entry_bool("debug", false);
        out.entry_bool("symbolicated", self.is_symbolicated);
        // Names are looked up in Firefox's sources otherwise.
        out.entry_bool("sourceCodeIsNotOnSearchfox", true);
        write_platform(out);
        write_units(out);
        write_configuration(self.params, out);
        write_categories(self.categories, out);
        self.write_schemas(out);
        self.write_threads("initialVisibleThreads", &self.visible.threads, out);
        self.write_threads("initialSelectedThreads", &[self.visible.selected], out);
        out.end_object();
    }

    fn write_times<W: Write>(&self, out: &mut JsonWriter<W>) {
        out.entry_millis_ns("startTime", i64::try_from(self.clock.start_unix.0).ok());
        out.entry_u64("startTimeAsClockMonotonicNanosecondsSinceBoot", self.clock.start.monotonic.0);
        let first = self.shown.first_ns.clamp(MARGIN_NS.saturating_neg(), 0);
        let latest = self.capture_ns.saturating_add(MARGIN_NS);
        let last = self.shown.last_ns.clamp(self.capture_ns, latest);
        out.entry_millis_ns("profilingStartTime", Some(first));
        // Viewers leave the end itself out.
        out.entry_millis_ns("profilingEndTime", Some(last.saturating_add(1)));
    }

    /// All types that some process knows; of types with one name, the first.
    fn write_schemas<W: Write>(&self, out: &mut JsonWriter<W>) {
        out.key("markerSchema");
        out.begin_array();
        let own = [losses_schema(), incomplete_process_schema(), stack_only_schema()];
        let known = self.definitions.iter().flat_map(|definitions| definitions.marker_types());
        let mut names = HashSet::new();
        let is_first = |schema: &&MarkerSchema| names.insert(schema.name.clone());
        let all = own.iter().chain(known.map(|known| &known.schema)).filter(is_first);
        all.for_each(|schema| write_processed_schema(schema, out));
        out.end_array();
    }

    fn write_threads<W: Write>(&self, key: &str, threads: &[usize], out: &mut JsonWriter<W>) {
        out.key(key);
        out.begin_array();
        threads.iter().for_each(|thread| out.u64(u64::try_from(*thread).unwrap_or(0)));
        out.end_array();
    }
}

/// How markers are shown that have a stack and no payload.
fn stack_only_schema() -> MarkerSchema {
    MarkerSchema::new(STACK_ONLY, [Location::MarkerChart, Location::MarkerTable, Location::TimelineOverview])
        .all_labels("{marker.name}")
}
