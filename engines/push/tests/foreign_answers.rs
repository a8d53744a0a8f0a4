//! Test of the answers of foreign servers: the reader takes whole rows, and reports everything
//! else.
//!
//! The fuzz targets `fleet_answer` and `otlp_answer` use the same checks. An input that fuzzing
//! finds is added to the corpus.

#[path = "hostile/answered.rs"]
mod answered;

use std::path::Path;

use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTracePartialSuccess, ExportTraceServiceResponse,
};
use proptest::prelude::*;
use prost::Message;

/// The name of a file begins with the number of its rows, or with `error`.
#[test]
fn every_answer_of_the_corpus_is_read_or_refused() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus/fleet_answer");
    let files = std::fs::read_dir(folder).unwrap();
    let files: Vec<_> = files.map(|file| file.unwrap().path()).collect();
    assert!(files.len() >= 8, "{} files", files.len());
    for path in files {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let read = answered::check(&std::fs::read(&path).unwrap());
        let told = read
            .as_ref()
            .map_or_else(|_| "error".to_owned(), u64::to_string);
        assert_eq!(
            name.split('-').next(),
            Some(told.as_str()),
            "{name}: {read:?}"
        );
    }
}

/// The name of a file begins with the number of refused items.
#[test]
fn every_refusal_of_the_corpus_is_read() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus/otlp_answer");
    let files: Vec<_> = std::fs::read_dir(folder).unwrap().collect();
    assert!(files.len() >= 8, "{} files", files.len());
    for file in files {
        let path = file.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let refused = answered::check_refusal(&std::fs::read(&path).unwrap());
        let named = name.split('-').next();
        assert_eq!(named, Some(refused.to_string().as_str()), "{name}");
    }
}

proptest! {
    #[test]
    fn what_an_endpoint_refuses_is_read_as_the_decoder_of_opentelemetry_does(
        rejected_spans in any::<i64>(),
        error_message in ".{0,9}",
        more in prop::collection::vec(any::<u8>(), 0..9),
    ) {
        let part = ExportTracePartialSuccess { rejected_spans, error_message };
        let answer = ExportTraceServiceResponse { partial_success: Some(part) };
        let mut bytes = answer.encode_to_vec();
        prop_assert_eq!(answered::check_refusal(&bytes), rejected_spans.max(0) as u64);
        bytes.extend(more);
        answered::check_refusal(&bytes);
    }
}
