//! The answer to a scrape.
//!
//! Used by the server. The text is made on a worker thread, because the pools of all processes are
//! read for it.

use hyper::header::ACCEPT;
use profiler_http::{Answer, RequestHead, Work, put, with_type};

use super::scrapes::Scrapes;
use super::text_format::TextFormat;

/// The path of the metrics, below the token or with the token in a header.
pub(crate) const METRICS: &str = "metrics";

/// Reads the metrics and writes them in the format that the request asks for.
pub(crate) fn answer(
    scrapes: &Scrapes,
    request: &RequestHead,
    headers: &'static [(&'static str, &'static str)],
) -> Work {
    let scrapes = scrapes.clone();
    let accepted = request.headers().get_all(ACCEPT).iter();
    let accepted: Vec<&str> = accepted.filter_map(|value| value.to_str().ok()).collect();
    let format = TextFormat::accepted(&accepted.join(","));
    Box::new(move || {
        let text = Answer::from(scrapes.text_in(format).into_bytes());
        let mut response = with_type(text, format.content_type());
        put(&mut response, headers);
        response
    })
}
