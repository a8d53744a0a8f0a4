//! What holds for every answer of a store and of an OTLP endpoint, whatever its bytes are. Shared
//! with the fuzz targets `fleet_answer` and `otlp_answer`.

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceResponse;
use profiler_fleet::count_stacks;
use profiler_push::otlp_answer::refused_part;
use prost::Message;

/// Reads an answer. Returns the number of its rows, or the error.
pub(crate) fn check(answer: &[u8]) -> Result<u64, String> {
    let read = count_stacks(answer).map_err(|error| error.to_string());
    if let Ok(rows) = read {
        let lines = answer.split(|byte| *byte == b'\n').count() as u64;
        assert!(rows < lines, "{rows} rows in {lines} lines");
        let last = answer.trim_ascii_end();
        let is_cut = |last: &[u8]| count_stacks(last).is_err();
        assert!(
            last.is_empty() || is_cut(last),
            "a row without its end counts"
        );
    }
    read
}

/// Reads the answer of an OTLP endpoint. Returns the number of refused items. The decoder of
/// `opentelemetry-proto` must agree if it takes the answer for a message.
pub(crate) fn check_refusal(answer: &[u8]) -> u64 {
    let refused = refused_part(answer).map_or(0, |part| part.items);
    let theirs = ExportTraceServiceResponse::decode(answer).ok();
    // Ours does not know groups, which no message has that is written today.
    let theirs = theirs.filter(|theirs| theirs.encode_to_vec().len() == answer.len());
    if let Some(part) = theirs.and_then(|theirs| theirs.partial_success) {
        let items = u64::try_from(part.rejected_spans).unwrap_or(0);
        assert_eq!(refused, items, "{answer:?}");
    }
    refused
}
