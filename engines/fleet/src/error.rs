//! Why a query has no answer.

use std::io;

use super::masked::RequestSecrets;
use profiler_files::secret_file::SecretError;

/// Why a query to a store has no answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FleetError {
    /// The password cannot be read.
    #[error("cannot read the password from {from}: {why}")]
    Password {
        /// The file or variable that should have it.
        from: String,
        /// The problem, in words.
        why: String,
    },
    /// No server answers.
    #[error("cannot reach {address}: {why}")]
    Unreachable {
        /// The address.
        address: String,
        /// The problem, in words.
        why: String,
    },
    /// Something else than ClickHouse answers.
    #[error("{address} does not answer like ClickHouse: {why}")]
    NotClickHouse {
        /// The address.
        address: String,
        /// The unexpected answer.
        why: String,
    },
    /// The server is older than 18.16.
    #[error("{address} is ClickHouse {version}; the queries need 18.16 or later")]
    TooOld {
        /// The address.
        address: String,
        /// The server's version.
        version: String,
    },
    /// The server refuses the user.
    #[error("{address} refuses the user: {message}")]
    Denied {
        /// The address.
        address: String,
        /// The server's message.
        message: String,
    },
    /// The tables are missing, or those of another version of the profiler.
    #[error("{address} does not have the tables; `profiler fleet ddl` creates them: {message}")]
    NoTables {
        /// The address.
        address: String,
        /// The server's message.
        message: String,
    },
    /// The server could not answer.
    #[error("{address} failed with code {code}: {message}")]
    Failed {
        /// The address.
        address: String,
        /// ClickHouse's number of the error.
        code: u32,
        /// The server's message.
        message: String,
    },
    /// The server failed in the middle of its answer. ClickHouse has reported success then.
    #[error("{address} failed with code {code} after {rows} rows of its answer: {message}")]
    FailedMidway {
        /// The address.
        address: String,
        /// ClickHouse's number of the error.
        code: u32,
        /// The rows before the failure.
        rows: u64,
        /// The server's message.
        message: String,
    },
    /// The connection ended before the answer did.
    #[error("the answer of {address} is cut off after {rows} rows: {source}")]
    CutOff {
        /// The address.
        address: String,
        /// The rows before the end.
        rows: u64,
        /// The error of the connection.
        #[source]
        source: io::Error,
    },
    /// The answer has more rows than were asked for, or more bytes than any answer should have.
    #[error("the answer of {address} is longer than asked for, after {rows} rows")]
    TooLong {
        /// The address.
        address: String,
        /// The rows before.
        rows: u64,
    },
    /// A row is not what was asked for.
    #[error("{address} sent an unexpected row: {why}")]
    UnexpectedRow {
        /// The address.
        address: String,
        /// The problem, in words.
        why: String,
    },
    /// A query has a parameter without a value.
    #[error(transparent)]
    Parameter(#[from] super::UnknownParameter),
    /// A profile cannot be written.
    #[error(transparent)]
    Export(#[from] profiler_export::ExportError),
}

impl From<SecretError> for FleetError {
    fn from(SecretError { origin, reason, .. }: SecretError) -> Self {
        Self::Password {
            from: origin,
            why: reason,
        }
    }
}

/// Codes of ClickHouse.
const UNKNOWN_TABLE: u32 = 60;
const UNKNOWN_DATABASE: u32 = 81;
const UNKNOWN_IDENTIFIER: u32 = 47;
const NO_SUCH_COLUMN: u32 = 16;
const UNKNOWN_USER: u32 = 192;
const WRONG_PASSWORD: u32 = 193;
const REQUIRED_PASSWORD: u32 = 194;
const ADDRESS_NOT_ALLOWED: u32 = 195;
const ACCESS_DENIED: u32 = 497;
const AUTHENTICATION_FAILED: u32 = 516;

/// An exception as ClickHouse reports it: `Code: 60. DB::Exception: Table … (UNKNOWN_TABLE)`, or
/// `Code: 60, e.displayText() = DB::Exception: Table …, e.what() = DB::Exception`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ServerException {
    pub(super) code: u32,
    pub(super) message: String,
}

/// The longest message that is repeated.
const MAX_MESSAGE: usize = 2_000;
const START: &str = "Code: ";

impl ServerException {
    /// Finds an exception in a text. Its message does not contain the secrets.
    pub(crate) fn find(text: &str, secrets: &RequestSecrets) -> Option<Self> {
        let (_, rest) = text.split_once(START)?;
        let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let (code, rest) = rest.split_at_checked(digits)?;
        let rest = rest
            .strip_prefix(", e.displayText() = ")
            .or(rest.strip_prefix(". "))?;
        let message = rest.strip_prefix("DB::Exception: ").unwrap_or(rest);
        let end = message.find(", e.what()").unwrap_or(message.len());
        let message = message.get(..end).unwrap_or(message).trim();
        Some(Self {
            code: code.parse().ok()?,
            message: secrets.masked(message).chars().take(MAX_MESSAGE).collect(),
        })
    }

    /// The error of a request that failed before it had an answer.
    pub(super) fn into_error(self, address: String) -> FleetError {
        let Self { code, message } = self;
        match code {
            UNKNOWN_TABLE | UNKNOWN_DATABASE | UNKNOWN_IDENTIFIER | NO_SUCH_COLUMN => {
                FleetError::NoTables { address, message }
            }
            UNKNOWN_USER
            | WRONG_PASSWORD
            | REQUIRED_PASSWORD
            | ADDRESS_NOT_ALLOWED
            | ACCESS_DENIED
            | AUTHENTICATION_FAILED => FleetError::Denied { address, message },
            _ => FleetError::Failed {
                address,
                code,
                message,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{RequestSecrets, ServerException};

    #[test]
    fn exceptions_of_old_and_new_servers_are_found_anywhere_in_a_text() {
        let old = "{\"a\":1,Code: 395, e.displayText() = DB::Exception: Value is non zero, e.what() = DB::Exception\n";
        let new = "Code: 395. DB::Exception: Value is non zero";
        for text in [old, new] {
            let found = ServerException::find(text, &RequestSecrets::default()).unwrap();
            assert_eq!(
                (found.code, found.message.as_str()),
                (395, "Value is non zero")
            );
        }
        for text in [
            "",
            "Code: ",
            "Code: x. y",
            "Code: 99999999999. z",
            "{\"a\":\"Code: 1\"}",
        ] {
            assert_eq!(
                ServerException::find(text, &RequestSecrets::default()),
                None,
                "{text}"
            );
        }
    }
}
