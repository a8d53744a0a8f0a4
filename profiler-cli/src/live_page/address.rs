//! The address of the live page: from an argument, the environment, or standard input.
//!
//! Other users of a machine can read the arguments of a process, but not its environment or input.

use std::io::BufRead;

use anyhow::{Context, Result, anyhow};

/// The environment variable with the address.
pub(crate) const VARIABLE: &str = "PROFILER_LIVE_URL";
/// The argument for standard input.
const FROM_INPUT: &str = "-";
/// The largest length of an address, in bytes.
const MAX: u64 = 4096;

/// The address that the user gave.
pub(crate) fn address(argument: Option<&str>) -> Result<String> {
    match argument {
        Some(FROM_INPUT) => first_line(std::io::stdin().lock()),
        Some(url) => Ok(url.to_owned()),
        None => std::env::var(VARIABLE).map_err(|_| {
            anyhow!("no address of a live page: set {VARIABLE} or give it as an argument; `-` reads it from standard input")
        }),
    }
}

/// Reads at most one line.
fn first_line(input: impl BufRead) -> Result<String> {
    let mut line = String::new();
    input
        .take(MAX)
        .read_line(&mut line)
        .context("cannot read the address from standard input")?;
    Ok(line.trim_end().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_an_argument_or_the_first_line() {
        assert_eq!(
            address(Some("http://127.0.0.1:1/ab/")).unwrap(),
            "http://127.0.0.1:1/ab/"
        );
        assert_eq!(first_line(&b"http://a/\nmore"[..]).unwrap(), "http://a/");
        assert_eq!(first_line(&b"http://a/"[..]).unwrap(), "http://a/");
        assert!(first_line(&b"\xff\n"[..]).is_err());
        assert_eq!(
            first_line(std::io::BufReader::new(std::io::repeat(b'x')))
                .unwrap()
                .len(),
            4096
        );
    }
}
