//! How a number of `metrics` becomes a whole number of the profile.
//!
//! The counters of a profile are whole numbers. A number is converted to the unit in which its
//! fractions are whole: seconds to microseconds, percent to thousandths of a percent. The unit is
//! the one of the description; without a description, it is the one with which the name ends, as in
//! `request_duration_seconds` and `sent_bytes_total`.

use metrics::Unit;

/// What a number counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Quantity {
    Bytes,
    /// The viewer has no form for it; the name of the track has the unit.
    Other(&'static str),
    /// Time. The name of the track has the unit.
    Time(&'static str),
    /// The unit is not known, or it is a count. Fractions are not expected.
    Count,
}

/// The unit of a metric in the profile.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Scale {
    pub(crate) quantity: Quantity,
    /// The profile's units in one unit of the metric.
    pub(crate) factor: f64,
}

/// The factor of thousandths.
pub(crate) const THOUSANDTHS: Scale = Scale {
    quantity: Quantity::Other("thousandths"),
    factor: 1e3,
};

impl Scale {
    /// The scale of a metric with this name.
    pub(crate) fn of(name: &str, unit: Option<Unit>) -> Self {
        let unit = unit.or_else(|| unit_of_name(name));
        match unit {
            None if last_word(name) == "ratio" => THOUSANDTHS,
            None => Self::new(Quantity::Count, 1.0),
            Some(unit) => Self::of_unit(unit),
        }
    }

    const fn new(quantity: Quantity, factor: f64) -> Self {
        Self { quantity, factor }
    }

    fn of_unit(unit: Unit) -> Self {
        let bytes = |shift: i32| Self::new(Quantity::Bytes, 2_f64.powi(shift));
        let bits = |power: i32| Self::new(Quantity::Other("bit/s"), 10_f64.powi(power));
        match unit {
            Unit::Count | Unit::CountPerSecond => Self::new(Quantity::Count, 1.0),
            Unit::Percent => Self::new(Quantity::Other("1/1000 %"), 1e3),
            Unit::Seconds => Self::new(Quantity::Time("µs"), 1e6),
            Unit::Milliseconds => Self::new(Quantity::Time("µs"), 1e3),
            Unit::Microseconds => Self::new(Quantity::Time("µs"), 1.0),
            Unit::Nanoseconds => Self::new(Quantity::Time("ns"), 1.0),
            Unit::Tebibytes => bytes(40),
            Unit::Gibibytes => bytes(30),
            Unit::Mebibytes => bytes(20),
            Unit::Kibibytes => bytes(10),
            Unit::Bytes => bytes(0),
            Unit::TerabitsPerSecond => bits(12),
            Unit::GigabitsPerSecond => bits(9),
            Unit::MegabitsPerSecond => bits(6),
            Unit::KilobitsPerSecond => bits(3),
            Unit::BitsPerSecond => bits(0),
        }
    }

    /// The nearest whole number of the profile's units. What is not a number is 0.
    #[inline]
    pub(crate) fn whole(self, value: f64) -> i64 {
        // A conversion of floating-point numbers saturates.
        (value * self.factor).round() as i64
    }

    /// A whole number in the profile's units.
    #[inline]
    pub(crate) fn whole_of(self, value: u64) -> i64 {
        if self.factor == 1.0 {
            // The sum of changes wraps, like that of `metrics`.
            value.cast_signed()
        } else {
            self.whole(value as f64)
        }
    }

    /// The unit behind the name of a track, if it needs one.
    pub(crate) fn suffix(self) -> &'static str {
        match self.quantity {
            Quantity::Bytes | Quantity::Count => "",
            Quantity::Other(unit) | Quantity::Time(unit) => unit,
        }
    }

    /// The nanoseconds in a value, if it is a time.
    pub(crate) fn nanoseconds(self, value: f64) -> Option<f64> {
        match self.quantity {
            Quantity::Time("ns") => Some(value * self.factor),
            Quantity::Time(_) => Some(value * self.factor * 1e3),
            _ => None,
        }
    }
}

/// The last word of a name, apart from `total`.
fn last_word(name: &str) -> &str {
    let name = name.strip_suffix("_total").unwrap_or(name);
    name.rsplit(['_', '.']).next().unwrap_or(name)
}

fn unit_of_name(name: &str) -> Option<Unit> {
    Some(match last_word(name) {
        "seconds" | "secs" => Unit::Seconds,
        "milliseconds" | "millis" | "ms" => Unit::Milliseconds,
        "microseconds" | "micros" | "us" => Unit::Microseconds,
        "nanoseconds" | "nanos" | "ns" => Unit::Nanoseconds,
        "bytes" => Unit::Bytes,
        "percent" => Unit::Percent,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_unit_that_is_not_described_is_the_last_word_of_the_name() {
        let of = |name| Scale::of(name, None);
        assert_eq!(of("request_duration_seconds").whole(0.012), 12_000);
        assert_eq!(of("http.request.ms").whole(1.5), 1_500);
        assert_eq!(of("sent_bytes_total").quantity, Quantity::Bytes);
        assert_eq!(of("hit_ratio").whole(0.5), 500);
        assert_eq!(of("items").whole(0.4), 0);
        assert_eq!(of("bytes_per_item").quantity, Quantity::Count);
    }

    #[test]
    fn a_described_unit_is_stronger_than_the_name() {
        let scale = Scale::of("size_bytes", Some(Unit::Kibibytes));
        assert_eq!(scale.whole(1.5), 1536);
        assert_eq!(Scale::of("x_seconds", Some(Unit::Count)).whole(2.0), 2);
    }

    #[test]
    fn a_time_has_nanoseconds_in_every_unit() {
        let seconds = [
            (Unit::Seconds, 2.0),
            (Unit::Milliseconds, 2e3),
            (Unit::Microseconds, 2e6),
            (Unit::Nanoseconds, 2e9),
        ];
        for (unit, value) in seconds {
            assert_eq!(Scale::of_unit(unit).nanoseconds(value), Some(2e9));
        }
        assert_eq!(Scale::of_unit(Unit::Bytes).nanoseconds(1.0), None);
    }

    #[test]
    fn what_is_no_whole_number_saturates() {
        let scale = Scale::of("x_seconds", None);
        let odd = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, f64::MAX];
        assert_eq!(
            odd.map(|value| scale.whole(value)),
            [0, i64::MAX, i64::MIN, i64::MAX]
        );
    }

    proptest! {
        #[test]
        fn a_whole_number_without_a_factor_is_exact(value: u64) {
            prop_assert_eq!(Scale::of("items", None).whole_of(value).cast_unsigned(), value);
        }
    }
}
