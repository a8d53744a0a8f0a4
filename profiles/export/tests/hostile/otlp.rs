//! Decodes requests of OTLP, and checks that the references of profiles are valid.
//!
//! Used by `exported`.

use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::profiles::v1development::ExportProfilesServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::profiles::v1development::ProfilesDictionary;
use profiler_export::Target;
use prost::Message;

/// Panics if the bytes are not a request of the target.
pub(crate) fn check(target: Target, bytes: &[u8]) {
    match target {
        Target::OtlpTraces => check_traces(&decode(bytes)),
        Target::OtlpMetrics => drop(decode::<ExportMetricsServiceRequest>(bytes)),
        _ => check_profiles(&decode(bytes)),
    }
}

fn decode<M: Message + Default>(bytes: &[u8]) -> M {
    M::decode(bytes).expect("a request")
}

fn check_traces(request: &ExportTraceServiceRequest) {
    let scopes = request
        .resource_spans
        .iter()
        .flat_map(|resource| &resource.scope_spans);
    for span in scopes.flat_map(|scope| &scope.spans) {
        assert_eq!((span.trace_id.len(), span.span_id.len()), (16, 8));
        assert!(matches!(span.parent_span_id.len(), 0 | 8));
        assert!(span.start_time_unix_nano <= span.end_time_unix_nano);
    }
}

fn check_profiles(request: &ExportProfilesServiceRequest) {
    let tables = request.dictionary.as_ref().expect("a dictionary");
    check_tables(tables);
    let scopes = request
        .resource_profiles
        .iter()
        .flat_map(|resource| &resource.scope_profiles);
    for sample in scopes
        .flat_map(|scope| &scope.profiles)
        .flat_map(|profile| &profile.samples)
    {
        is_in(&tables.stack_table, sample.stack_index);
        is_in(&tables.link_table, sample.link_index);
        sample
            .attribute_indices
            .iter()
            .for_each(|at| is_in(&tables.attribute_table, *at));
        assert_eq!(sample.values.len(), 1);
    }
}

fn check_tables(tables: &ProfilesDictionary) {
    let locations = tables
        .stack_table
        .iter()
        .flat_map(|stack| &stack.location_indices);
    locations.for_each(|at| is_in(&tables.location_table, *at));
    for location in &tables.location_table {
        is_in(&tables.mapping_table, location.mapping_index);
        let lines = location.lines.iter();
        lines.for_each(|line| is_in(&tables.function_table, line.function_index));
    }
    for function in &tables.function_table {
        is_in(&tables.string_table, function.name_strindex);
        is_in(&tables.string_table, function.filename_strindex);
    }
}

fn is_in<T>(table: &[T], index: i32) {
    assert!(
        usize::try_from(index).is_ok_and(|index| index < table.len()),
        "{index}"
    );
}
