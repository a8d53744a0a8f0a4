//! The socket at which a running `profiler record` takes requests for profiles, by its number.
//!
//! `record` listens, and `capture` connects. The socket has no file: its name is in the abstract
//! namespace of the system, contains the number of the command, and ends with the command. Every
//! user of the machine may connect to such a name, so both sides ask the system for the process at
//! the other end. Invariants: the command answers only its own user and root; a client talks only
//! to the process that it names, of its own user unless the client is root's; the command waits for
//! at most ten seconds for a client. Linux only.
//!
//! ```text
//! capture                                     record
//!   connect to multiprocess-profiler/record/PID
//!   capture 1 10000 ──────────────────────▶     writes a profile of the last 10,000 ms, or `all`
//!   ◀── ok 12345 ──                             12,345 bytes follow, compressed
//!   ◀── error TEXT ──                           or why there are none
//! ```

#[cfg(target_os = "linux")]
#[path = "linux.rs"]
mod imp;
#[cfg(not(target_os = "linux"))]
#[path = "none.rs"]
mod imp;

use std::io::{self, BufRead, Read, Write};
use std::time::Duration;

pub(crate) use imp::{Connection, Listener, connect};

/// How long the command waits until a client sends or reads something.
#[cfg(target_os = "linux")]
const PATIENCE: Duration = Duration::from_secs(10);
/// The largest length of a line.
const MAX_LINE: u64 = 4096;
/// The first words of a request, with the version.
const REQUEST: &str = "capture 1 ";
const ALL: &str = "all";

/// What a profile shall show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// Everything that is kept.
    All,
    /// This much time before the request.
    Last(Duration),
}

impl Wanted {
    fn line(self) -> String {
        match self {
            Self::All => format!("{REQUEST}{ALL}\n"),
            Self::Last(time) => format!("{REQUEST}{}\n", time.as_millis()),
        }
    }

    /// Parses a request; `None` for one of another version.
    fn parse(line: &str) -> Option<Self> {
        match line.strip_prefix(REQUEST)? {
            ALL => Some(Self::All),
            ms => ms.parse().ok().map(Duration::from_millis).map(Self::Last),
        }
    }
}

/// Reads a request. `None` for one of another version.
pub(crate) fn read_request(stream: &mut impl BufRead) -> io::Result<Option<Wanted>> {
    Ok(Wanted::parse(&line(stream)?))
}

/// Sends a profile with this length.
pub(crate) fn send_profile(
    stream: &mut impl Write,
    length: u64,
    profile: &mut impl Read,
) -> io::Result<()> {
    writeln!(stream, "ok {length}")?;
    io::copy(profile, stream)?;
    stream.flush()
}

/// Says why there is no profile.
pub(crate) fn send_error(stream: &mut impl Write, why: &str) -> io::Result<()> {
    writeln!(stream, "error {}", why.replace('\n', " "))
}

/// Sends a request.
pub(crate) fn send_request(stream: &mut impl Write, wanted: Wanted) -> io::Result<()> {
    stream.write_all(wanted.line().as_bytes())
}

/// Receives the profile.
///
/// # Errors
/// Those of the streams, and what the other side says.
pub(crate) fn receive_profile(
    stream: &mut impl BufRead,
    file: &mut impl Write,
) -> anyhow::Result<()> {
    let head = line(stream)?;
    let length: u64 = match head.split_once(' ') {
        Some(("ok", length)) => length.parse()?,
        Some(("error", why)) => anyhow::bail!("{}", crate::plain::plain(why)),
        _ => anyhow::bail!("the recording has ended"),
    };
    let copied = io::copy(&mut stream.take(length), file)?;
    anyhow::ensure!(copied == length, "the recording has ended");
    Ok(())
}

/// One line, without its end.
fn line(stream: &mut impl BufRead) -> io::Result<String> {
    let mut line = String::new();
    stream.take(MAX_LINE).read_line(&mut line)?;
    Ok(line.trim_end().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_read_as_it_was_sent_and_others_are_refused() {
        for wanted in [Wanted::All, Wanted::Last(Duration::from_millis(10_500))] {
            let mut sent = Vec::new();
            send_request(&mut sent, wanted).unwrap();
            assert_eq!(read_request(&mut &sent[..]).unwrap(), Some(wanted));
        }
        for other in [
            "",
            "capture 2 all",
            "capture 1 -5",
            "capture 1 ",
            "GET / HTTP/1.0",
        ] {
            assert_eq!(
                read_request(&mut other.as_bytes()).unwrap(),
                None,
                "{other}"
            );
        }
    }

    #[test]
    fn a_profile_arrives_whole_or_not_at_all() {
        let mut sent = Vec::new();
        send_profile(&mut sent, 3, &mut &b"abc"[..]).unwrap();
        let receive = |mut sent: &[u8]| {
            let mut file = Vec::new();
            let received = receive_profile(&mut sent, &mut file);
            received.map(|()| file).map_err(|error| error.to_string())
        };
        assert_eq!(receive(&sent), Ok(b"abc".to_vec()));
        let over = "the recording has ended".to_owned();
        let part = sent.get(..sent.len() - 1).unwrap();
        assert_eq!(receive(part), Err(over.clone()));
        assert_eq!(receive(b""), Err(over));
        let mut refused = Vec::new();
        send_error(&mut refused, "no room").unwrap();
        assert_eq!(receive(&refused), Err("no room".to_owned()));
    }
}
