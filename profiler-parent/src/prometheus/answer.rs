//! The answer to a scrape.
//!
//! Used by the services that have the path `metrics`. The text is made on a worker thread, because
//! the pools of all processes are read for it.

use std::sync::Arc;

use hyper::header::ACCEPT;

use super::reader::MetricsReader;
use super::text_format::TextFormat;
use profiler_http::{Answer, RequestHead, Work, put, with_type};

/// The path of the metrics, below the token or with the token in a header.
pub(crate) const METRICS: &str = "metrics";

/// Reads the metrics and writes them in the format that the request asks for.
pub(crate) fn answer(
    reader: &Arc<MetricsReader>,
    request: &RequestHead,
    headers: &'static [(&'static str, &'static str)],
) -> Work {
    let reader = Arc::clone(reader);
    let accepted = request.headers().get_all(ACCEPT).iter();
    let accepted: Vec<&str> = accepted.filter_map(|value| value.to_str().ok()).collect();
    let format = TextFormat::accepted(&accepted.join(","));
    Box::new(move || {
        let text = Answer::from(reader.text(format).into_bytes());
        let mut response = with_type(text, format.content_type());
        put(&mut response, headers);
        response
    })
}
