//! The variable by which a session asks for recording.
//!
//! `MULTIPROCESS_PROFILER_OBSERVED=3 61 4000000 t c /dev/shm/profiler-x`: the version of the
//! layout, the signal, the interval in nanoseconds, `t` for the processor's own clock or `m` for
//! the monotonic one, `c` if crashes are recorded or `-` if not, and the directory.

use crate::layout::VERSION;
use crate::process::{Configuration, MAX_DIRECTORY};

/// The variable's name, with the sign behind it.
pub(crate) const VARIABLE: &[u8] = b"MULTIPROCESS_PROFILER_OBSERVED=";
/// The signals that may be asked for: real-time signals that no C library uses.
const SIGNALS: core::ops::RangeInclusive<u64> = 35..=64;
const SHORTEST_INTERVAL_NS: u64 = 100_000;

/// Reads the variable. `None` if it is not of this version.
pub(crate) fn parse(value: &[u8]) -> Option<Configuration> {
    let (version, rest) = number(value)?;
    let (signal, rest) = number(rest)?;
    let (interval_ns, rest) = number(rest)?;
    let (clock, rest) = rest.split_first_chunk::<2>()?;
    let (crashes, path) = rest.split_first_chunk::<2>()?;
    let mut directory = [0; MAX_DIRECTORY];
    // The last byte stays zero.
    let fits = !path.is_empty() && path.len() < MAX_DIRECTORY && !path.contains(&0);
    for (place, byte) in directory.iter_mut().zip(path) {
        *place = *byte;
    }
    let uses_ticks = match clock {
        b"t " => true,
        b"m " => false,
        _ => return None,
    };
    let records_crashes = match crashes {
        b"c " => true,
        b"- " => false,
        _ => return None,
    };
    let is_ours = version == u64::from(VERSION) && SIGNALS.contains(&signal);
    (is_ours && fits && interval_ns >= SHORTEST_INTERVAL_NS).then_some(Configuration {
        signal: signal as u32,
        interval_ns,
        uses_ticks,
        records_crashes,
        directory,
    })
}

/// A number with a space behind it, and the rest.
fn number(text: &[u8]) -> Option<(u64, &[u8])> {
    let space = text.iter().position(|byte| *byte == b' ')?;
    let (digits, rest) = text.split_at_checked(space)?;
    let (_, rest) = rest.split_first()?;
    let mut number = 0_u64;
    for digit in digits {
        let value = digit.checked_sub(b'0').filter(|value| *value < 10)?;
        number = number.checked_mul(10)?.checked_add(u64::from(value))?;
    }
    (!digits.is_empty()).then_some((number, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_variable_has_six_parts() {
        let configuration = parse(b"3 61 4000000 t c /dev/shm/a b").unwrap();
        assert_eq!(
            (configuration.signal, configuration.interval_ns),
            (61, 4_000_000)
        );
        assert!(configuration.uses_ticks && configuration.records_crashes);
        assert!(configuration.directory.starts_with(b"/dev/shm/a b\0"));
        let other = parse(b"3 61 4000000 m - /x").unwrap();
        assert!(!other.uses_ticks && !other.records_crashes);
    }

    #[test]
    fn another_value_is_refused() {
        let long = [b"3 61 4000000 t - /".as_slice(), &[b'x'; MAX_DIRECTORY]].concat();
        let values: [&[u8]; 12] = [
            b"",
            b"3",
            b"2 61 4000000 t - /x",
            b"3 9 4000000 t - /x",
            b"3 65 4000000 t - /x",
            b"3 61 1 t - /x",
            b"3 61 4000000 x - /x",
            b"3 61 4000000 t /x",
            b"3 61 4000000 t - ",
            b"3 61 99999999999999999999 t - /x",
            b"3 6a 4000000 t - /x",
            &long,
        ];
        for value in values {
            assert!(parse(value).is_none(), "{}", value.escape_ascii());
        }
    }
}
