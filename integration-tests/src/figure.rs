//! A figure, its promise, and the report that compares them.
//!
//! Used by every group. Invariants: a figure is printed as soon as it is known. A figure that could
//! not be measured validly is printed as `invalid` and counts as a missed promise.

use std::fmt;

/// What is promised of a figure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Promise {
    /// Nothing is promised.
    None,
    /// It is at most this.
    AtMost(f64),
    /// It is less than this.
    Below(f64),
    /// It is at least this.
    AtLeast(f64),
    /// It is between the two.
    Between(f64, f64),
}

impl Promise {
    fn is_kept(self, value: f64) -> bool {
        match self {
            Self::None => true,
            Self::AtMost(bound) => value <= bound,
            Self::Between(least, most) => (least..=most).contains(&value),
            Self::Below(bound) => value < bound,
            Self::AtLeast(bound) => value >= bound,
        }
    }
}

impl fmt::Display for Promise {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("-"),
            Self::AtMost(bound) => write!(f, "<= {bound}"),
            Self::Between(least, most) => write!(f, "{least} to {most}"),
            Self::Below(bound) => write!(f, "< {bound}"),
            Self::AtLeast(bound) => write!(f, ">= {bound}"),
        }
    }
}

/// One measured number.
#[derive(Clone, Debug)]
pub struct Figure {
    name: String,
    value: f64,
    unit: &'static str,
    promise: Promise,
    /// Why the value is not valid.
    invalid: Option<String>,
    /// Why there is no value, where this is not a failure.
    left_out: Option<String>,
}

impl Figure {
    /// Creates a figure without a promise.
    pub fn new(name: impl Into<String>, value: f64, unit: &'static str) -> Self {
        Self {
            name: name.into(),
            value,
            unit,
            promise: Promise::None,
            invalid: None,
            left_out: None,
        }
    }

    /// Sets the promise.
    pub fn promised(mut self, promise: Promise) -> Self {
        self.promise = promise;
        self
    }

    /// Marks the figure as not valid if there is a reason.
    pub fn unless(mut self, reason: Option<String>) -> Self {
        self.invalid = self.invalid.or(reason);
        self
    }

    /// Leaves the figure out if there is a reason, for example a peer that does not run here. A
    /// figure that is left out is not a missed promise.
    pub fn or_left_out(mut self, reason: Option<String>) -> Self {
        self.left_out = reason;
        self
    }

    fn complaint(&self) -> Option<String> {
        let Self {
            name,
            value,
            unit,
            promise,
            ..
        } = self;
        match &self.invalid {
            _ if self.left_out.is_some() => None,
            Some(reason) => Some(format!("{name} is not valid: {reason}")),
            None if promise.is_kept(*value) => None,
            None => Some(format!(
                "{name} missed: {value:.3} {unit}, promised {promise}"
            )),
        }
    }
}

impl fmt::Display for Figure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(reason) = &self.left_out {
            return write!(f, "{}\tnone\t{}\t- ({reason})", self.name, self.unit);
        }
        let value = if self.invalid.is_some() {
            "invalid".to_owned()
        } else {
            shown(self.value)
        };
        write!(
            f,
            "{}\t{}\t{}\t{}",
            self.name, value, self.unit, self.promise
        )
    }
}

/// Formats whole numbers without decimals, and others with three.
fn shown(value: f64) -> String {
    if value.fract() == 0.0 {
        format!("{value:.0}")
    } else {
        format!("{value:.3}")
    }
}

/// Prints figures and remembers which promises were missed.
#[derive(Debug, Default)]
pub struct Report {
    complaints: Vec<String>,
}

impl Report {
    /// Prints a figure.
    pub fn put(&mut self, figure: Figure) {
        println!("{figure}");
        self.complaints.extend(figure.complaint());
    }

    /// Notes that a group could not be measured.
    pub fn failed(&mut self, group: &str, error: &anyhow::Error) {
        self.complaints
            .push(format!("{group} could not be measured: {error:#}"));
    }

    /// Prints the missed promises. Returns true if there are none.
    pub fn conclude(self) -> bool {
        self.complaints
            .iter()
            .for_each(|complaint| eprintln!("{complaint}"));
        self.complaints.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_four_columns() {
        let figure = Figure::new("a.b", 1.5, "ns").promised(Promise::AtMost(2.5));
        assert_eq!(figure.to_string(), "a.b\t1.500\tns\t<= 2.5");
        assert_eq!(
            Figure::new("a", 3.0, "entries").to_string(),
            "a\t3\tentries\t-"
        );
    }

    #[test]
    fn an_invalid_figure_is_a_missed_promise() {
        let figure = Figure::new("a", 1.0, "ns").unless(Some("too few".to_owned()));
        assert_eq!(figure.to_string(), "a\tinvalid\tns\t-");
        let mut report = Report::default();
        report.put(figure);
        assert!(!report.conclude());
    }

    #[test]
    fn a_left_out_figure_prints_its_reason_and_misses_no_promise() {
        let figure = Figure::new("a", f64::NAN, "%").or_left_out(Some("no perf".to_owned()));
        assert_eq!(figure.to_string(), "a\tnone\t%\t- (no perf)");
        let mut report = Report::default();
        report.put(figure);
        assert!(report.conclude());
    }

    #[test]
    fn only_the_promise_below_excludes_its_bound() {
        assert!(Promise::AtMost(1.0).is_kept(1.0));
        assert!(!Promise::Below(1.0).is_kept(1.0));
        assert!(Promise::AtLeast(0.8).is_kept(0.8) && !Promise::AtLeast(0.8).is_kept(0.79));
        assert!(
            !Promise::AtMost(0.0).is_kept(f64::NAN) && !Promise::AtLeast(0.0).is_kept(f64::NAN)
        );
    }
}
