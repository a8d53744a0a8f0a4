//! Parsers for sizes, times, percentages and addresses in arguments.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

/// Parses a size in bytes, such as `1048576`, `512K`, `64M`, `64MiB` or `1.5G`. Units are powers of
/// 1024.
pub(crate) fn size(text: &str) -> Result<u64, String> {
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
        _ => return Err("expected a number of bytes, or a number with K, M, G or T".to_owned()),
    };
    let bytes = positive(number)? * f64::from(2_u32).powi(shift);
    if bytes < 1.0 || bytes > (1_u64 << 40) as f64 {
        return Err("must be between 1 byte and 1T".to_owned());
    }
    Ok(bytes as u64)
}

/// Parses milliseconds, optionally with a fraction. A session allows at most five seconds.
pub(crate) fn milliseconds(text: &str) -> Result<Duration, String> {
    let millis = positive(text)?;
    if !(0.01..=5000.0).contains(&millis) {
        return Err("must be between 0.01 and 5000 milliseconds".to_owned());
    }
    Ok(Duration::from_secs_f64(millis / 1000.0))
}

/// Parses the percentage of an overhead budget, optionally with a fraction and with `%`.
pub(crate) fn percent(text: &str) -> Result<f64, String> {
    let percent = positive(text.strip_suffix('%').unwrap_or(text))?;
    if !(0.01..=100.0).contains(&percent) {
        return Err("must be between 0.01 and 100 percent".to_owned());
    }
    Ok(percent)
}

/// Parses seconds, optionally with a fraction.
pub(crate) fn seconds(text: &str) -> Result<Duration, String> {
    let seconds = positive(text)?;
    if !(0.001..=1e9).contains(&seconds) {
        return Err("must be between 0.001 and 1e9 seconds".to_owned());
    }
    Ok(Duration::from_secs_f64(seconds))
}

/// Parses a number with a unit of time, such as `90s`, `30m`, `6h` or `7d`.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let wrong = || "expected a number with s, m, h or d".to_owned();
    let (number, unit) = text
        .split_at_checked(text.len().saturating_sub(1))
        .ok_or_else(wrong)?;
    let seconds = match unit {
        "s" => 1,
        "m" => 60,
        "h" => 3_600,
        "d" => 86_400,
        _ => return Err(wrong()),
    };
    let number: u32 = number.parse().map_err(|_| wrong())?;
    Ok(Duration::from_secs(u64::from(number) * seconds))
}

/// Parses an address such as `127.0.0.1:8080`, or `8080` for the same one.
pub(crate) fn address(text: &str) -> Result<SocketAddr, String> {
    let port = text
        .parse()
        .map(|port: u16| SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
    port.or_else(|_| text.parse())
        .map_err(|_| "expected an address with a port, such as 127.0.0.1:8080".to_owned())
}

fn positive(text: &str) -> Result<f64, String> {
    text.parse()
        .ok()
        .filter(|number: &f64| *number > 0.0 && number.is_finite())
        .ok_or_else(|| "not a number above 0".to_owned())
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
    fn a_port_alone_is_a_port_of_this_machine() {
        assert_eq!(
            address("8080"),
            Ok(SocketAddr::from((Ipv4Addr::LOCALHOST, 8080)))
        );
        assert_eq!(
            address("[::1]:0").map(|address| address.is_ipv6()),
            Ok(true)
        );
        for wrong in ["", "localhost", "70000", "127.0.0.1"] {
            assert!(address(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_time_is_a_number_with_a_unit() {
        assert_eq!(duration("90s"), Ok(Duration::from_secs(90)));
        assert_eq!(duration("7d"), Ok(Duration::from_secs(7 * 86_400)));
        for text in ["", "h", "5", "5x", "-5m", "1.5h", "5µ"] {
            assert!(duration(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_budget_is_a_percentage_with_bounds() {
        assert_eq!(percent("0.1"), Ok(0.1));
        assert_eq!(percent("2%"), Ok(2.0));
        for wrong in ["", "0", "-1", "nan", "0.001", "101", "1 %", "x"] {
            assert!(percent(wrong).is_err(), "{wrong}");
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
