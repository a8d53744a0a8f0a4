//! Writes metrics in the two text formats.
//!
//! Used by [`super::metrics`]. Pure. Invariants: every sample is below the head of its family;
//! label values are escaped; times are exact, in decimal. The caller writes each family once, and
//! each set of labels once per family.

use std::fmt::{self, Write};

use super::text_format::TextFormat;

/// What a metric measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MetricKind {
    /// A number that never falls.
    Counter,
    /// A number that may rise and fall.
    Gauge,
    /// Cumulative counts of events: for each bound, the events up to that bound.
    Histogram,
    /// Texts, as labels of a sample whose value is 1.
    Info,
}

/// A metric. Its samples differ in their labels.
#[derive(Clone, Copy, Debug)]
pub(super) struct MetricFamily {
    /// Its name, without the ending of its samples.
    pub(super) name: &'static str,
    pub(super) kind: MetricKind,
    /// The unit, with which the name ends.
    pub(super) unit: Option<&'static str>,
    /// One sentence, without backslashes, quotation marks and ends of lines.
    pub(super) help: &'static str,
}

impl MetricFamily {
    /// The ending of the names of all its samples.
    const fn ending(&self) -> &'static str {
        match self.kind {
            MetricKind::Counter => "_total",
            MetricKind::Info => "_info",
            MetricKind::Gauge | MetricKind::Histogram => "",
        }
    }
}

/// A number of a sample.
#[derive(Clone, Copy, Debug)]
pub(super) enum SampleValue {
    /// A whole number.
    Whole(u64),
    /// Nanoseconds, which are shown in seconds.
    Ns(u64),
}

impl fmt::Display for SampleValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SECOND: u64 = 1_000_000_000;
        match *self {
            Self::Whole(number) => write!(f, "{number}"),
            Self::Ns(ns) if ns.is_multiple_of(SECOND) => write!(f, "{}", ns / SECOND),
            Self::Ns(ns) => {
                let fraction = format!("{:09}", ns % SECOND);
                write!(f, "{}.{}", ns / SECOND, fraction.trim_end_matches('0'))
            }
        }
    }
}

/// The labels of a sample, as the text between the braces.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct SampleLabels(String);

impl SampleLabels {
    /// Names and values. The values may be any texts.
    pub(super) fn of<const N: usize>(labels: [(&str, &str); N]) -> Self {
        let none = Self::default();
        labels
            .into_iter()
            .fold(none, |all, (name, value)| all.with(name, value))
    }

    /// These labels and one more.
    pub(super) fn with(&self, name: &str, value: &str) -> Self {
        let mut text = self.0.clone();
        if !text.is_empty() {
            text.push(',');
        }
        text.push_str(name);
        text.push_str("=\"");
        for letter in value.chars() {
            match letter {
                '\\' => text.push_str("\\\\"),
                '"' => text.push_str("\\\""),
                '\n' => text.push_str("\\n"),
                _ => text.push(letter),
            }
        }
        text.push('"');
        Self(text)
    }
}

/// The writer of the text of one scrape.
#[derive(Debug)]
pub(super) struct Exposition {
    format: TextFormat,
    text: String,
}

impl Exposition {
    pub(super) const fn new(format: TextFormat) -> Self {
        let text = String::new();
        Self { format, text }
    }

    /// Writes the head of a family. Its samples follow.
    pub(super) fn begin(&mut self, family: &MetricFamily) {
        let MetricFamily { name, help, .. } = family;
        let kind = match (family.kind, self.format) {
            (MetricKind::Counter, _) => "counter",
            (MetricKind::Info, TextFormat::OpenMetrics) => "info",
            (MetricKind::Gauge | MetricKind::Info, _) => "gauge",
            (MetricKind::Histogram, _) => "histogram",
        };
        match self.format {
            TextFormat::Prometheus => {
                let ending = family.ending();
                self.put(format_args!("# HELP {name}{ending} {help}\n"));
                self.put(format_args!("# TYPE {name}{ending} {kind}\n"));
            }
            TextFormat::OpenMetrics => {
                self.put(format_args!("# TYPE {name} {kind}\n"));
                if let Some(unit) = family.unit {
                    self.put(format_args!("# UNIT {name} {unit}\n"));
                }
                self.put(format_args!("# HELP {name} {help}\n"));
            }
        }
    }

    /// Writes a sample.
    pub(super) fn sample(
        &mut self,
        family: &MetricFamily,
        labels: &SampleLabels,
        value: SampleValue,
    ) {
        self.line(family.name, family.ending(), labels, value);
    }

    /// Writes a family that has one sample, without labels.
    pub(super) fn single(&mut self, family: &MetricFamily, value: SampleValue) {
        self.begin(family);
        self.sample(family, &SampleLabels::default(), value);
    }

    /// Writes a histogram: for each bound the number of events up to that bound, the number of all
    /// events, and their sum. No count is less than the previous one.
    pub(super) fn histogram(
        &mut self,
        family: &MetricFamily,
        labels: &SampleLabels,
        buckets: impl IntoIterator<Item = (SampleValue, u64)>,
        (count, sum): (u64, SampleValue),
    ) {
        let mut least = 0;
        for (bound, number) in buckets {
            least = number.clamp(least, count.max(least));
            let labels = labels.with("le", &bound.to_string());
            self.line(family.name, "_bucket", &labels, SampleValue::Whole(least));
        }
        let labels_of_all = labels.with("le", "+Inf");
        let count = SampleValue::Whole(count);
        self.line(family.name, "_bucket", &labels_of_all, count);
        self.line(family.name, "_sum", labels, sum);
        self.line(family.name, "_count", labels, count);
    }

    fn line(
        &mut self,
        name: &str,
        ending: &str,
        SampleLabels(labels): &SampleLabels,
        value: SampleValue,
    ) {
        if labels.is_empty() {
            self.put(format_args!("{name}{ending} {value}\n"));
        } else {
            self.put(format_args!("{name}{ending}{{{labels}}} {value}\n"));
        }
    }

    fn put(&mut self, text: fmt::Arguments<'_>) {
        let _ = self.text.write_fmt(text); // a string takes any text
    }

    /// The complete text.
    pub(super) fn finish(mut self) -> String {
        if self.format == TextFormat::OpenMetrics {
            self.text.push_str("# EOF\n");
        }
        self.text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn label_values_are_escaped_and_others_are_not_changed() {
        let labels = SampleLabels::of([("a", "x\\y\"z\n"), ("b", "ü {},="), ("c", "")]);
        assert_eq!(labels.0, r#"a="x\\y\"z\n",b="ü {},=",c="""#);
    }

    #[test]
    fn times_are_exact_seconds() {
        for (ns, text) in [
            (0, "0"),
            (1, "0.000000001"),
            (1_000_000, "0.001"),
            (512_000_000, "0.512"),
            (3_000_000_000, "3"),
            (u64::MAX, "18446744073.709551615"),
        ] {
            assert_eq!(SampleValue::Ns(ns).to_string(), text);
        }
    }
}
