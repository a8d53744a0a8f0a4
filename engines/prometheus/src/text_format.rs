//! The two formats of the text, and the choice between them.
//!
//! Used by the writer, and by applications that answer scrapes themselves.

/// A format of the text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum TextFormat {
    /// Prometheus's text format, version 0.0.4. Every scraper reads it.
    #[default]
    Prometheus,
    /// OpenMetrics, version 1.0.0.
    OpenMetrics,
}

/// The media type of OpenMetrics.
const OPEN_METRICS: &str = "application/openmetrics-text";
/// The media type of Prometheus's text format.
const PLAIN: &str = "text/plain";

impl TextFormat {
    /// The format for a request with this `Accept` header: OpenMetrics if the header names its
    /// version 1.0.0, or no version, and does not prefer Prometheus's text format.
    ///
    /// ```
    /// use profiler_prometheus::TextFormat;
    ///
    /// let accept = "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5";
    /// assert_eq!(TextFormat::accepted(accept), TextFormat::OpenMetrics);
    /// assert_eq!(TextFormat::accepted("*/*"), TextFormat::Prometheus);
    /// ```
    pub fn accepted(accept: &str) -> Self {
        let ranges = || accept.split(',').filter_map(MediaRange::parse);
        let best = |is_wanted: fn(&MediaRange<'_>) -> bool| {
            let wanted = ranges().filter(is_wanted).map(|range| range.quality);
            wanted.fold(0.0, f32::max)
        };
        let open = best(|range| {
            range.is(OPEN_METRICS) && range.version.is_none_or(|version| version == "1.0.0")
        });
        let plain = best(|range| range.is(PLAIN));
        if open > 0.0 && open >= plain {
            Self::OpenMetrics
        } else {
            Self::Prometheus
        }
    }

    /// The value of the header `Content-Type` for an answer in this format.
    pub const fn content_type(self) -> &'static str {
        match self {
            Self::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }
}

/// One of the media types in an `Accept` header.
struct MediaRange<'a> {
    media_type: &'a str,
    version: Option<&'a str>,
    /// From 0, which refuses the type, to 1.
    quality: f32,
}

impl<'a> MediaRange<'a> {
    /// Parses a media type with its parameters; `None` if its quality is not a number from 0 to 1.
    fn parse(text: &'a str) -> Option<Self> {
        let mut parts = text.split(';').map(str::trim);
        let mut range = Self {
            media_type: parts.next()?,
            version: None,
            quality: 1.0,
        };
        for (name, value) in parts.filter_map(|part| part.split_once('=')) {
            let value = value.trim().trim_matches('"');
            match name.trim() {
                name if name.eq_ignore_ascii_case("q") => {
                    let quality = value.parse().ok();
                    range.quality = quality.filter(|quality| (0.0..=1.0).contains(quality))?;
                }
                name if name.eq_ignore_ascii_case("version") => range.version = Some(value),
                _ => {}
            }
        }
        Some(range)
    }

    const fn is(&self, media_type: &str) -> bool {
        self.media_type.eq_ignore_ascii_case(media_type)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn open_metrics_is_chosen_if_it_is_accepted_and_not_less_than_text() {
        // The first is what Prometheus 2.42 sends.
        for open in [
            "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;\
             q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1",
            "application/openmetrics-text",
            "Application/OpenMetrics-Text; Version=\"1.0.0\" ; q=0.5, text/plain; q=0.5",
            "text/html, application/openmetrics-text;q=0.1",
        ] {
            assert_eq!(
                TextFormat::accepted(open),
                TextFormat::OpenMetrics,
                "{open}"
            );
        }
        for text in [
            "",
            "*/*",
            "text/plain",
            "application/openmetrics-text;q=0",
            "application/openmetrics-text;version=0.0.1",
            "application/openmetrics-text;version=2.0.0",
            "application/openmetrics-text;q=0.4,text/plain;q=0.5",
            "application/openmetrics-text;q=2",
            "application/openmetrics-text;q=NaN",
            "application/openmetrics",
        ] {
            assert_eq!(TextFormat::accepted(text), TextFormat::Prometheus, "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_header_gets_a_format(accept in "\\PC{0,100}") {
            let _ = TextFormat::accepted(&accept);
        }
    }
}
