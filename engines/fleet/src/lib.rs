//! Questions to a ClickHouse that stores the profiles of many hosts.
//!
//! Called by `profiler fleet`. The tables are those of
//! [`FleetSchema`](profiler_export::FleetSchema), the rows come from
//! [`Target::ClickHouse`](profiler_export::Target::ClickHouse). The queries are the files in
//! `sql/`, which a client of ClickHouse can send, too: their parameters have the form `{name:Type}`
//! of today's servers. Here they are filled in by [`Parameters`], because ClickHouse 18.16 has no
//! parameters.
//!
//! ```text
//! sql/*.sql ─▶ Parameters ─▶ FleetStore ─▶ HTTP ─▶ RowReader ─▶ one row at a time
//! ```
//!
//! Invariants: every parameter is a literal of its type, so a value never becomes a part of the
//! statement; only `SELECT` is sent; a password is neither in an address, nor in an argument, nor
//! in a message; an answer counts only if it is complete.

#![cfg_attr(
    not(test),
    deny(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::indexing_slicing
    )
)]

mod address;
mod answer;
mod error;
mod filter;
mod flame;
mod http_client;
mod instant;
mod masked;
mod parameters;
mod query;
mod request_error;
mod store;

pub use address::{CLICKHOUSE_PORT, DEFAULT_DATABASE, is_of_name};
pub use address::{FleetAddress, InvalidAddress};
pub use error::FleetError;
pub use filter::{FleetFilter, TimeRange};
pub use flame::{FleetFlame, FleetStack, StackTime, count_stacks};
pub use http_client::USER_AGENT;
pub use instant::{InvalidInstant, UnixMicros, parse_instant};
pub use masked::RequestSecrets;
pub use parameters::{Parameters, UnknownParameter};
pub use query::{FleetQuery, count};
pub use request_error::request_error;
pub use store::FleetStore;

pub use profiler_files::secret_file::PasswordSource;

#[cfg(test)]
mod tests;
