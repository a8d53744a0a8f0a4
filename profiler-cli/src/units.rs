//! Parsers for sizes, times, percentages and addresses in arguments.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use ipc_protocol::environment::units::positive;
pub(crate) use ipc_protocol::environment::units::{milliseconds, seconds, size};

/// Parses the percentage of an overhead budget, optionally with a fraction and with `%`.
pub(crate) fn percent(text: &str) -> Result<f64, &'static str> {
    let percent = positive(text.strip_suffix('%').unwrap_or(text))?;
    if !(0.01..=100.0).contains(&percent) {
        return Err("must be between 0.01 and 100 percent");
    }
    Ok(percent)
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

#[cfg(test)]
mod tests {
    use super::*;

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
}
