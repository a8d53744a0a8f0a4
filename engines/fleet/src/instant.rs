//! Instants as people write them: `2026-11-26T03:12:23Z`, `2026-11-26`, or seconds since 1970.

use profiler_export::clickhouse::days_since_1970;

/// Microseconds since 1970.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct UnixMicros(
    /// The number.
    pub u64,
);

/// A text is not an instant.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not an instant like 2026-11-26T03:12:23Z, 2026-11-26, or seconds since 1970: {text}")]
pub struct InvalidInstant {
    /// The text.
    pub text: String,
}

/// Reads an instant in UTC. See the [module](self).
///
/// # Errors
/// [`InvalidInstant`].
pub fn parse_instant(text: &str) -> Result<UnixMicros, InvalidInstant> {
    let seconds = match text.parse() {
        Ok(seconds) => Some(seconds),
        Err(_) => date_and_time(text),
    };
    let micros = seconds.and_then(|seconds: u64| seconds.checked_mul(1_000_000));
    micros.map(UnixMicros).ok_or_else(|| InvalidInstant {
        text: text.to_owned(),
    })
}

fn date_and_time(text: &str) -> Option<u64> {
    let text = text.strip_suffix('Z').unwrap_or(text);
    let (date, time) = text.split_once('T').unwrap_or((text, "00:00:00"));
    let [year, month, day] = parts(date, '-')?;
    let [hour, minute, second] = parts(time, ':')?;
    let days = days_since_1970(i64::from(year), month, day)?;
    let is_time = hour < 24 && minute < 60 && second < 60;
    let seconds = u64::from(hour * 3600 + minute * 60 + second);
    let days = u64::try_from(days).ok().filter(|_| is_time)?;
    Some(days * 86_400 + seconds)
}

/// Three numbers of at most four digits.
fn parts(text: &str, between: char) -> Option<[u32; 3]> {
    let number = |text: &str| {
        let is_short = text.len() <= 4 && text.bytes().all(|byte| byte.is_ascii_digit());
        text.parse::<u32>().ok().filter(|_| is_short)
    };
    let numbers: Option<Vec<u32>> = text.split(between).map(number).collect();
    numbers?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instants_are_dates_times_or_seconds() {
        for (text, seconds) in [
            ("1970-01-01", 0),
            ("2026-11-26T03:12:23Z", 1_795_662_743),
            ("2026-11-26T03:12:23", 1_795_662_743),
            ("1795662743", 1_795_662_743),
        ] {
            assert_eq!(
                parse_instant(text),
                Ok(UnixMicros(seconds * 1_000_000)),
                "{text}"
            );
        }
        for text in [
            "",
            "yesterday",
            "2026-02-30",
            "2026-11-26T24:00:00",
            "1969-12-31",
            "-5",
            "2026-1-1T",
        ] {
            assert!(parse_instant(text).is_err(), "{text}");
        }
    }
}
