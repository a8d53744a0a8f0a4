//! Sizes and times as people write them, in arguments of the command and in environment variables.
//!
//! Used by [`super::startup`] and `profiler-cli`. Invariant: a value is within the bounds of its
//! function, or it is an error that says what is expected.

use std::time::Duration;

use profiler_core::session::SessionParams;

/// Parses a size in bytes, such as `1048576`, `512K`, `64M`, `64MiB` or `1.5G`. Units are powers of
/// 1024.
///
/// # Errors
/// What is expected.
pub fn size(text: &str) -> Result<u64, &'static str> {
    let number = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let unit = text
        .get(number.len()..)
        .unwrap_or_default()
        .to_ascii_uppercase();
    let unit = unit
        .strip_suffix("IB")
        .or_else(|| unit.strip_suffix('B'))
        .unwrap_or(&unit);
    let shift = match unit {
        "" => 0,
        "K" => 10,
        "M" => 20,
        "G" => 30,
        "T" => 40,
        _ => return Err("expected a number of bytes, or a number with K, M, G or T"),
    };
    let bytes = positive(number)? * f64::from(2_u32).powi(shift);
    if bytes < 1.0 || bytes > SessionParams::MAX_LIMIT.get() as f64 {
        return Err("must be between 1 byte and 1T");
    }
    Ok(bytes as u64)
}

/// Parses milliseconds, optionally with a fraction. A session allows at most five seconds.
///
/// # Errors
/// What is expected.
pub fn milliseconds(text: &str) -> Result<Duration, &'static str> {
    let millis = positive(text)?;
    if !(0.01..=5000.0).contains(&millis) {
        return Err("must be between 0.01 and 5000 milliseconds");
    }
    Ok(Duration::from_secs_f64(millis / 1000.0))
}

/// Parses seconds, optionally with a fraction.
///
/// # Errors
/// What is expected.
pub fn seconds(text: &str) -> Result<Duration, &'static str> {
    let seconds = positive(text)?;
    if !(0.001..=1e9).contains(&seconds) {
        return Err("must be between 0.001 and 1e9 seconds");
    }
    Ok(Duration::from_secs_f64(seconds))
}

/// Parses a number above 0.
///
/// # Errors
/// What is expected.
pub fn positive(text: &str) -> Result<f64, &'static str> {
    text.parse()
        .ok()
        .filter(|number: &f64| *number > 0.0 && number.is_finite())
        .ok_or("not a number above 0")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_as_people_write_them() {
        let sizes = [
            ("1048576", 1 << 20),
            ("512K", 512 << 10),
            ("64MiB", 64 << 20),
            ("1.5g", 3 << 29),
            ("1TB", 1 << 40),
        ];
        for (text, bytes) in sizes {
            assert_eq!(size(text), Ok(bytes), "{text}");
        }
        for wrong in [
            "", "0", "-1", "M", "1X", "2T", "1e400", "nan", "inf", "1 M", "0.1",
        ] {
            assert!(size(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn times_have_bounds() {
        assert_eq!(milliseconds("0.5"), Ok(Duration::from_micros(500)));
        assert_eq!(seconds("2"), Ok(Duration::from_secs(2)));
        for wrong in ["", "0", "-1", "nan", "5001", "x"] {
            assert!(milliseconds(wrong).is_err(), "{wrong}");
        }
        assert!(seconds("1e300").is_err() && seconds("inf").is_err());
    }
}
