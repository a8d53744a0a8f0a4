//! The key `meta`: the properties of the process and, in the root, of the whole profile.
//!
//! Viewers read most of it from the root only. Children have the same keys, so that each object can
//! also be opened on its own.

use std::io::Write;

use crate::model::{
    MetaSection, ProcessModel, SchemaFormat, write_host, write_session, write_shown_range,
    write_start,
};
use crate::{ProfileSubject, ShownRange};
use profiler_core::session::{Features, SessionParams};
use profiler_json::GECKO_VERSION;
use profiler_json::JsonWriter;

/// Writes `meta`, with the shown range if this is the root. `subject` is what the profile is about,
/// if not this process, and `sections` are further properties of the root.
pub(super) fn write<W: Write>(
    process: &ProcessModel<'_>,
    subject: Option<&ProfileSubject>,
    sections: &[MetaSection],
    shown: ShownRange,
    out: &mut JsonWriter<W>,
) {
    let default = SessionParams::default();
    let own = process.snapshot.header.params.as_ref();
    let params = subject.and_then(|subject| subject.params.as_ref()).or(own);
    let params = params.unwrap_or(&default);
    let product = subject.map_or(&process.role.name, |subject| &subject.product);
    out.key("meta");
    out.begin_object();
    out.entry_u64("version", u64::from(GECKO_VERSION));
    out.entry_millis_ns("interval", i64::try_from(params.interval_ns).ok());
    write_start(&process.clock, out);
    out.entry_millis_ns("shutdownTime", process.ended.map(|at| process.ns(at)));
    if process.role.is_root {
        write_host(process, sections, out);
        write_shown_range(shown, process.capture_ns(), process.limits(), out);
    }
    out.entry_u64("processType", u64::from(!process.role.is_root));
    out.entry_str("product", product);
    let arguments = subject.and_then(|subject| subject.arguments.as_deref());
    out.entry_str_if("arguments", arguments);
    out.entry_u64(
        "stackwalk",
        u64::from(params.features.contains(Features::STACK_WALK)),
    );
    if let Some(source) = process.snapshot.header.sample_source {
        out.entry_str("sampleSource", source.name());
    }
    for unused in ["debug", "gcpoison", "asyncstack"] {
        out.entry_u64(unused, 0);
    }
    let definitions = [&process.snapshot.definitions];
    write_session(
        params,
        &process.spec.categories,
        &definitions,
        SchemaFormat::Gecko,
        out,
    );
    out.end_object();
}
