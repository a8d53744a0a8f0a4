//! Writes the object `meta`: the properties of the whole profile. It comes last, because the range
//! of times is known only when all threads are written.

use std::io::Write;

use profiler_core::internal::reader::Definitions;
use profiler_core::session::{Features, SampleSource, SessionParams};
use profiler_core::time::SessionClock;
use profiler_gecko::model::{
    MetaSection, ProcessModel, SchemaFormat, write_host, write_session, write_shown_range,
    write_start,
};
use profiler_gecko::{ProfileSpec, ShownRange};
use profiler_json::GECKO_VERSION;
use profiler_json::JsonWriter;

use super::visible::Visible;
use profiler_json::PROCESSED_VERSION;

/// The data for the object `meta`.
#[derive(Debug)]
pub(super) struct Meta<'a> {
    pub(super) root: Option<ProcessModel<'a>>,
    pub(super) spec: &'a ProfileSpec,
    pub(super) clock: SessionClock,
    pub(super) shown: ShownRange,
    /// The definitions of all processes, the root first.
    pub(super) definitions: Vec<&'a Definitions>,
    pub(super) visible: &'a Visible,
    pub(super) is_symbolicated: bool,
    /// The command line, if it is to be shown.
    pub(super) arguments: Option<&'a str>,
    /// Further properties, which viewers show.
    pub(super) sections: &'a [MetaSection],
    /// Whether all frames are code, or all are labels.
    pub(super) has_one_stack_type: bool,
    /// The source of the samples, of the first process that has any.
    pub(super) sample_source: Option<SampleSource>,
}

impl Meta<'_> {
    /// Writes the key `meta`.
    pub(super) fn write<W: Write>(&self, out: &mut JsonWriter<W>) {
        let default = SessionParams::default();
        let params = self
            .root
            .as_ref()
            .and_then(|root| root.snapshot.header.params.as_ref());
        let params = params.unwrap_or(&default);
        let capture_ns = self
            .clock
            .converter(self.spec.later)
            .since_start_ns(self.spec.later.ticks);
        let limits = self.root.as_ref().map(ProcessModel::limits);
        let limits = limits.unwrap_or_default();
        out.key("meta");
        out.begin_object();
        out.entry_u64("version", u64::from(GECKO_VERSION));
        out.entry_u64("preprocessedProfileVersion", u64::from(PROCESSED_VERSION));
        out.entry_millis_ns("interval", i64::try_from(params.interval_ns).ok());
        write_start(&self.clock, out);
        if let Some(root) = &self.root {
            write_host(root, self.sections, out);
        }
        write_shown_range(self.shown, capture_ns, limits, out);
        out.entry_u64("processType", 0);
        out.entry_str(
            "product",
            self.root.as_ref().map_or("", |root| &root.role.name),
        );
        out.entry_str_if("arguments", self.arguments);
        out.entry_u64(
            "stackwalk",
            u64::from(params.features.contains(Features::STACK_WALK)),
        );
        if let Some(source) = self.sample_source {
            out.entry_str("sampleSource", source.name());
        }
        out.entry_bool("debug", false);
        out.entry_bool("symbolicated", self.is_symbolicated);
        // Viewers then offer no choice between frames of native code and other frames.
        if self.has_one_stack_type {
            out.entry_bool("usesOnlyOneStackType", true);
        }
        // Otherwise viewers search Firefox's sources for the names.
        out.entry_bool("sourceCodeIsNotOnSearchfox", true);
        write_session(
            params,
            &self.spec.categories,
            &self.definitions,
            SchemaFormat::Processed,
            out,
        );
        write_threads("initialVisibleThreads", &self.visible.threads, out);
        write_threads("initialSelectedThreads", &[self.visible.selected], out);
        out.end_object();
    }
}

fn write_threads<W: Write>(key: &str, threads: &[usize], out: &mut JsonWriter<W>) {
    out.entry_list(key, threads, |thread, out| {
        out.u64(u64::try_from(*thread).unwrap_or(0))
    });
}
