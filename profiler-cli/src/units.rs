//! Parsers for sizes, times, percentages and addresses in arguments.

use std::net::{Ipv4Addr, SocketAddr};

use profiler_parent::core::internal::units::positive;
pub(crate) use profiler_parent::core::internal::units::{milliseconds, seconds, size};

/// Parses the percentage of an overhead budget, optionally with a fraction and with `%`.
pub(crate) fn percent(text: &str) -> Result<f64, &'static str> {
    let percent = positive(text.strip_suffix('%').unwrap_or(text))?;
    if !(0.01..=100.0).contains(&percent) {
        return Err("must be between 0.01 and 100 percent");
    }
    Ok(percent)
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
