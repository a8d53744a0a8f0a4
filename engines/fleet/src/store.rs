//! A store that answers queries.

use std::io::{BufReader, Read};
use std::time::Duration;

use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::answer::RowReader;
use super::error::ServerException;
use super::http_client::{self, HttpAnswer};
use super::masked::RequestSecrets;
use super::parameters::Parameters;
use super::{FleetAddress, FleetError, FleetQuery};
use profiler_files::secret_file::{PasswordSource, Secret};

/// The oldest version whose answers are known to be right.
const OLDEST: (u32, u32) = (18, 16);
/// The longest message of a failed request, in bytes.
const MAX_MESSAGE: u64 = 64 << 10;
/// What is shown of an unexpected text.
const SHOWN: usize = 200;

/// A ClickHouse with the profiles of many hosts.
#[derive(Debug)]
pub struct FleetStore {
    address: FleetAddress,
    password: Option<Secret>,
    /// How long the rows of an answer may take.
    body_time: Duration,
}

#[derive(Deserialize)]
struct VersionRow {
    version: String,
}

impl FleetStore {
    /// Asks the server for its version.
    ///
    /// # Errors
    /// [`FleetError`] if the password cannot be read, no server answers, it refuses the user, or it
    /// is older than 18.16.
    pub fn connect(address: FleetAddress, password: &PasswordSource) -> Result<Self, FleetError> {
        Self::connect_for(address, password, http_client::BODY)
    }

    /// As [`Self::connect`], with the time that the rows of an answer may take.
    pub(super) fn connect_for(
        address: FleetAddress,
        password: &PasswordSource,
        body_time: Duration,
    ) -> Result<Self, FleetError> {
        let store = Self {
            address,
            password: password.read()?,
            body_time,
        };
        let mut versions = Vec::new();
        let query = "SELECT version() AS version FORMAT JSONEachRow";
        store.rows(query, 1, |row: VersionRow| versions.push(row.version))?;
        let version = versions.pop().unwrap_or_default();
        match is_recent(&version) {
            Some(true) => Ok(store),
            Some(false) => Err(FleetError::TooOld {
                address: store.address.to_string(),
                version: store.secrets().masked(&version),
            }),
            None => Err(store.not_clickhouse(&version)),
        }
    }

    /// Asks a query, and passes every row of the answer to `take`.
    ///
    /// # Errors
    /// [`FleetError`], also if the answer has more rows than the parameter `limit` says, more than
    /// 1 GiB, or no end after ten minutes. The rows that `take` got until then are not the answer.
    pub fn ask<T: DeserializeOwned>(
        &self,
        query: FleetQuery,
        parameters: &Parameters,
        take: impl FnMut(T),
    ) -> Result<(), FleetError> {
        let statement = parameters.fill(query.text())?;
        let limit = parameters.limit().filter(|_| query.is_limited());
        let most = limit.unwrap_or(u64::MAX);
        self.rows(&format!("{statement}\nFORMAT JSONEachRow"), most, take)
    }

    fn rows<T: DeserializeOwned>(
        &self,
        statement: &str,
        most: u64,
        mut take: impl FnMut(T),
    ) -> Result<(), FleetError> {
        let answer = self.send(statement)?;
        let body = BufReader::new(answer.body);
        let mut rows = RowReader::new(body, self.address.to_string(), most);
        rows.hide(self.secrets());
        while let Some(row) = rows.next_row()? {
            take(row);
        }
        Ok(())
    }

    /// Sends a statement. Returns the answer of a success.
    fn send(&self, statement: &str) -> Result<HttpAnswer, FleetError> {
        let mut headers = Vec::new();
        let user = self.address.user.as_deref();
        if user.is_some() || self.password.is_some() {
            headers.push(("X-ClickHouse-User", user.unwrap_or("default")));
        }
        if let Some(password) = &self.password {
            headers.push(("X-ClickHouse-Key", password.reveal()));
        }
        let sent = http_client::post(&self.address.url(), &headers, statement, self.body_time);
        let answer = sent.map_err(|why| FleetError::Unreachable {
            address: self.address.to_string(),
            why,
        })?;
        match answer.status {
            200 => Ok(answer),
            status => Err(self.failed(status, answer)),
        }
    }

    fn failed(&self, status: u16, answer: HttpAnswer) -> FleetError {
        let mut text = Vec::new();
        // A message that is cut off is still a message.
        drop(answer.body.take(MAX_MESSAGE).read_to_end(&mut text));
        let text = String::from_utf8_lossy(&text);
        match ServerException::find(&text, &self.secrets()) {
            Some(exception) => exception.into_error(self.address.to_string()),
            None => self.not_clickhouse(&format!("status {status}: {text}")),
        }
    }

    /// What an error must not show.
    fn secrets(&self) -> RequestSecrets {
        let password = self.password.as_ref();
        RequestSecrets::new(password.map(|password| password.reveal().to_owned()))
    }

    fn not_clickhouse(&self, answer: &str) -> FleetError {
        let answer = match answer.trim() {
            "" => "it answers nothing".to_owned(),
            answer => self.secrets().masked(answer),
        };
        FleetError::NotClickHouse {
            address: self.address.to_string(),
            why: answer.chars().take(SHOWN).collect(),
        }
    }
}

/// Whether a version is recent enough; `None` if the text is no version.
fn is_recent(version: &str) -> Option<bool> {
    let mut numbers = version.split('.').map(|number| number.parse().ok());
    let version: (u32, u32) = (numbers.next()??, numbers.next()??);
    Some(version >= OLDEST)
}

#[cfg(test)]
mod tests {
    use super::is_recent;

    #[test]
    fn versions_before_18_16_are_too_old() {
        for (version, is) in [
            ("18.16.1", Some(true)),
            ("26.9.2.1", Some(true)),
            ("18.12.17", Some(false)),
            ("1.1.54310", Some(false)),
            ("", None),
            ("nginx", None),
        ] {
            assert_eq!(is_recent(version), is, "{version}");
        }
    }
}
