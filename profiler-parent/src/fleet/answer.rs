//! Reads the rows of an answer, one at a time.
//!
//! The format is `JSONEachRow`: an object per line. If ClickHouse fails after the first row, it has
//! already sent the status of a success; its message then stands in or after the rows: as a text, as
//! an object with the key `exception`, or after a line `__exception__`. Invariant: an answer with
//! such a message, or without an end, is an error.

use std::io::{self, BufRead, Read};

use serde::de::DeserializeOwned;

use super::FleetError;
use super::error::ServerException;

/// The longest row, in bytes.
const MOST_ROW: u64 = 16 << 20;
/// The longest rest of an answer that is searched for a message, in bytes.
const MOST_REST: u64 = 64 << 10;
/// What is shown of an unexpected text.
const SHOWN: usize = 200;

/// Reads rows. See the [module](self).
pub(super) struct RowReader<R> {
    from: R,
    address: String,
    rows: u64,
}

impl<R: BufRead> RowReader<R> {
    pub(super) const fn new(from: R, address: String) -> Self {
        Self {
            from,
            address,
            rows: 0,
        }
    }

    /// The next row; `None` at the end of a complete answer.
    pub(super) fn next_row<T: DeserializeOwned>(&mut self) -> Result<Option<T>, FleetError> {
        let mut line = Vec::new();
        while line.trim_ascii().is_empty() {
            line.clear();
            let read = self
                .from
                .by_ref()
                .take(MOST_ROW)
                .read_until(b'\n', &mut line);
            if read.map_err(|source| self.cut_off(source))? == 0 {
                return Ok(None);
            }
        }
        match serde_json::from_slice(&line) {
            Ok(row) if line.ends_with(b"\n") => {
                self.rows += 1;
                Ok(Some(row))
            }
            Ok(_) => Err(self.cut_off(io::ErrorKind::UnexpectedEof.into())),
            Err(error) => Err(self.explain(line, &error)),
        }
    }

    /// The error for a line that is no row.
    fn explain(&mut self, mut line: Vec<u8>, error: &serde_json::Error) -> FleetError {
        // Without the rest of the answer, the message is only shorter.
        drop(self.from.by_ref().take(MOST_REST).read_to_end(&mut line));
        let text = String::from_utf8_lossy(&line);
        let address = self.address.clone();
        match ServerException::find(&text) {
            Some(ServerException { code, message }) => FleetError::FailedMidway {
                address,
                code,
                rows: self.rows,
                message,
            },
            None if error.is_eof() => self.cut_off(io::ErrorKind::UnexpectedEof.into()),
            None => FleetError::UnexpectedRow {
                address,
                why: format!(
                    "{error} in {}",
                    text.chars().take(SHOWN).collect::<String>()
                ),
            },
        }
    }

    fn cut_off(&self, source: io::Error) -> FleetError {
        FleetError::CutOff {
            address: self.address.clone(),
            rows: self.rows,
            source,
        }
    }
}

/// The number of stacks in an answer to [`Question::Flame`](super::Question::Flame). The bytes may
/// be arbitrary. Used by the test and the fuzz target of untrusted answers.
///
/// # Errors
/// [`FleetError`] as of a question.
pub fn count_stacks(answer: impl BufRead) -> Result<u64, FleetError> {
    let mut rows = RowReader::new(answer, "a foreign server".to_owned());
    while rows.next_row::<super::FleetStack>()?.is_some() {}
    Ok(rows.rows)
}
