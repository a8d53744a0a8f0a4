//! Reads the rows of an answer, one at a time.
//!
//! The format is `JSONEachRow`: an object per line. If ClickHouse fails after the first row, it has
//! already sent the status of a success; its message then stands in or after the rows: as a text,
//! as an object with the key `exception`, or after a line `__exception__`. Invariants: an answer
//! with such a message, or without an end, is an error; the rows and the bytes of an answer are
//! bounded.

use std::io::{self, BufRead, Read};

use serde::de::DeserializeOwned;

use super::FleetError;
use super::error::ServerException;
use super::masked::RequestSecrets;

/// The longest row, in bytes.
const MAX_ROW: u64 = 16 << 20;
/// The longest answer, in bytes.
const MAX_ANSWER: u64 = 1 << 30;
/// The longest rest of an answer that is searched for a message, in bytes.
const MAX_REST: u64 = 64 << 10;
/// What is shown of an unexpected text.
const SHOWN: usize = 200;

/// Reads rows. See the [module](self).
pub(super) struct RowReader<R> {
    from: R,
    address: String,
    rows: u64,
    /// The number of rows that may follow.
    left_rows: u64,
    /// The number of bytes that may follow.
    left_bytes: u64,
    /// What an error must not show.
    secrets: RequestSecrets,
}

impl<R: BufRead> RowReader<R> {
    /// Reads at most `most` rows.
    pub(super) fn new(from: R, address: String, most: u64) -> Self {
        Self {
            from,
            address,
            rows: 0,
            left_rows: most,
            left_bytes: MAX_ANSWER,
            secrets: RequestSecrets::default(),
        }
    }

    /// No error shows these secrets.
    pub(crate) fn hide(&mut self, secrets: RequestSecrets) {
        self.secrets = secrets;
    }

    /// The next row; `None` at the end of a complete answer.
    pub(super) fn next_row<T: DeserializeOwned>(&mut self) -> Result<Option<T>, FleetError> {
        let mut line = Vec::new();
        while line.trim_ascii().is_empty() {
            line.clear();
            if self.read_line(&mut line)? == 0 {
                return Ok(None);
            }
        }
        match serde_json::from_slice(&line) {
            Ok(_) if self.left_rows == 0 => Err(self.too_long()),
            Ok(row) if line.ends_with(b"\n") => {
                self.rows += 1;
                self.left_rows -= 1;
                Ok(Some(row))
            }
            Ok(_) => Err(self.cut_off(io::ErrorKind::UnexpectedEof.into())),
            Err(error) => Err(self.explain(line, &error)),
        }
    }

    /// Reads a line, or a part of a long one. Returns its number of bytes; 0 at the end.
    fn read_line(&mut self, line: &mut Vec<u8>) -> Result<u64, FleetError> {
        // One more byte shows that the answer goes on.
        let most = MAX_ROW.min(self.left_bytes.saturating_add(1));
        let mut from = self.from.by_ref().take(most);
        let read = from.read_until(b'\n', line);
        let read = read.map_err(|source| self.cut_off(source))? as u64;
        let left = self.left_bytes.checked_sub(read);
        self.left_bytes = left.ok_or_else(|| self.too_long())?;
        Ok(read)
    }

    /// The error for a line that is no row.
    fn explain(&mut self, mut line: Vec<u8>, error: &serde_json::Error) -> FleetError {
        // Without the rest of the answer, the message is only shorter.
        drop(self.from.by_ref().take(MAX_REST).read_to_end(&mut line));
        let text = String::from_utf8_lossy(&line);
        let address = self.address.clone();
        match ServerException::find(&text, &self.secrets) {
            Some(ServerException { code, message }) => FleetError::FailedMidway {
                address,
                code,
                rows: self.rows,
                message,
            },
            None if error.is_eof() => self.cut_off(io::ErrorKind::UnexpectedEof.into()),
            None => FleetError::UnexpectedRow {
                address,
                why: {
                    let why = self.secrets.masked(&format!("{error} in {text}"));
                    why.chars().take(SHOWN).collect()
                },
            },
        }
    }

    fn too_long(&self) -> FleetError {
        FleetError::TooLong {
            address: self.address.clone(),
            rows: self.rows,
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

#[cfg(test)]
mod tests {
    use std::io::{BufReader, repeat};

    use test_support::assert_matches;

    use super::*;

    #[test]
    fn an_answer_of_empty_lines_without_an_end_is_an_error() {
        let mut rows = RowReader::new(BufReader::new(repeat(b'\n')), String::new(), 1);
        rows.left_bytes = 1_000;
        let error = rows.next_row::<u64>().unwrap_err();
        assert_matches!(error, FleetError::TooLong { rows: 0, .. });
    }

    #[test]
    fn rows_are_read_up_to_their_number_and_their_bytes() {
        let read = |most: u64, bytes: u64| {
            let mut rows = RowReader::new(&b"1\n22\n"[..], String::new(), most);
            rows.left_bytes = bytes;
            let mut all = Vec::new();
            loop {
                match rows.next_row::<u64>() {
                    Ok(Some(row)) => all.push(row),
                    Ok(None) => break (all, true),
                    Err(error) => {
                        let is_it = matches!(error, FleetError::TooLong { .. });
                        assert!(is_it, "{error:?}");
                        break (all, false);
                    }
                }
            }
        };
        assert_eq!(read(2, 5), (vec![1, 22], true));
        assert_eq!(read(1, 5), (vec![1], false));
        assert_eq!(read(2, 4), (vec![1], false));
    }
}
