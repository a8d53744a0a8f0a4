//! The environment variables of the profiler: the resources that a parent hands to a child at
//! spawn, the address of a session, the options of a session that a program starts by itself
//! ([`STARTUP_VARIABLE`]), and whether it says why it is off ([`VERBOSE_VARIABLE`]).
//!
//! The parent builds a [`ChildEnvironment`] per child and puts it into the child's `Command`; the
//! child takes it with [`take`] before anything else. Invariants: the variable is ignored in a
//! process with more rights than its parent process; a malformed value is a typed error, never a
//! guess; the value contains only numbers, a token and two names.
//!
//! # The variable stays when it cannot be removed safely
//!
//! [`take`] removes the variable, so that grandchildren do not inherit it, but only while the
//! process has one thread: changing the environment while another thread reads it is undefined
//! behaviour, and that thread need not be written in Rust. Otherwise the variable stays. That
//! does no harm: a process that inherits it by accident lacks the descriptors it names (they
//! are compared by device and inode, see [`InheritedHandle`]), would find the pool taken by another
//! process, and would be refused by the parent since the token is valid once.
//!
//! The variable with the address of the session ([`SESSION_VARIABLE`]) is meant for all
//! descendants, and is never removed. [`pass_on`] sets it in a process of one thread.

mod inherited_handle;
mod server;
mod session_address;
mod startup;
mod text;
mod token;
pub mod units;
mod verbose;

use std::process::Command;

pub use inherited_handle::InheritedHandle;
pub use server::Server;
pub use session_address::{AddressError, SESSION_VARIABLE, SessionAddress, session_address};
pub use startup::{
    STARTUP_VARIABLE, StartupError, StartupOptions, WriteAt, asks_for_startup, startup_options,
};
pub use token::Token;
pub use verbose::{VERBOSE_VARIABLE, is_verbose};

use crate::sys;
use crate::version::PROTOCOL_VERSION;

/// The name of the environment variable.
pub const VARIABLE: &str = "MULTIPROCESS_PROFILER_CHILD";

/// The text for an absent part file.
const NO_OUTBOX: &str = "none";

/// Longest accepted value.
const MAX_VALUE_BYTES: usize = 16 * 1024;

/// The reason why the variable cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EnvironmentError {
    /// The parent speaks another version of the protocol.
    #[error("the parent speaks version {theirs} of the protocol, this process version {ours}")]
    WrongVersion {
        /// The parent's version.
        theirs: u32,
        /// [`PROTOCOL_VERSION`].
        ours: u32,
    },
    /// The value does not have the format that a parent writes.
    #[error("{VARIABLE} is malformed: {0}")]
    Malformed(&'static str),
    /// A named resource is missing or is another file.
    #[error("{VARIABLE} names a resource that this process did not get: {0}")]
    NotHanded(#[source] std::io::Error),
    /// The system refused random bytes.
    #[error("no random bytes: {0}")]
    NoRandomness(getrandom::Error),
}

/// The resources of a child.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChildEnvironment {
    /// The shared memory to record into.
    pub pool: InheritedHandle,
    /// The file to write profiles to. `None`: the parent reads the pool instead.
    pub part_file: Option<InheritedHandle>,
    /// Proves to the parent that this process is the child that it spawned.
    pub token: Token,
    /// Where the parent listens.
    pub server: Server,
}

impl ChildEnvironment {
    /// Formats the value of the variable.
    pub fn to_value(&self) -> String {
        let pool = self.pool.to_value();
        let token = self.token.to_hex();
        let server = self.server.to_value();
        let part_file = self
            .part_file
            .as_ref()
            .map_or_else(|| NO_OUTBOX.to_owned(), InheritedHandle::to_value);
        format!("{PROTOCOL_VERSION};{pool};{part_file};{token};{server}")
    }

    /// Parses a value that [`Self::to_value`] made.
    ///
    /// # Errors
    /// [`EnvironmentError::WrongVersion`], which is checked first; [`EnvironmentError::Malformed`].
    pub fn parse(value: &str) -> Result<Self, EnvironmentError> {
        if value.len() > MAX_VALUE_BYTES {
            return Err(EnvironmentError::Malformed("too long"));
        }
        let mut parts = value.split(';');
        let mut next = |what| parts.next().ok_or(EnvironmentError::Malformed(what));
        check_version(next("no version")?)?;
        let environment = Self {
            pool: InheritedHandle::parse(next("no pool")?)?,
            part_file: match next("no part file")? {
                NO_OUTBOX => None,
                part_file => Some(InheritedHandle::parse(part_file)?),
            },
            token: Token::from_hex(next("no token")?)
                .ok_or(EnvironmentError::Malformed("token"))?,
            server: Server::parse(next("no server")?)?,
        };
        match parts.next() {
            Some(_) => Err(EnvironmentError::Malformed("more than expected")),
            None => Ok(environment),
        }
    }

    /// In the child: whether this process has the pool. Makes no descriptor.
    ///
    /// # Errors
    /// [`EnvironmentError::NotHanded`].
    pub fn check(&self) -> Result<(), EnvironmentError> {
        self.pool.check()
    }

    /// In the child: the inherited descriptor numbers.
    pub fn descriptors(&self) -> Vec<i32> {
        let pool = self.pool.number();
        let part_file = self.part_file.as_ref().and_then(InheritedHandle::number);
        let server = self.server.number();
        [pool, part_file, server].into_iter().flatten().collect()
    }

    /// In the child: closes the inherited descriptors in the table of the calling thread, see
    /// [`InheritedHandle::release`]. Numbers that refer to other files stay open.
    pub fn release(self) {
        let _ = self.pool.release();
        let _ = self.part_file.map(InheritedHandle::release);
        let _ = self.server.release();
    }

    /// Sets the variable for the child that `command` will start.
    pub fn put_into(&self, command: &mut Command) {
        command.env(VARIABLE, self.to_value());
    }
}

fn check_version(text: &str) -> Result<(), EnvironmentError> {
    match text.parse() {
        Ok(PROTOCOL_VERSION) => Ok(()),
        Ok(theirs) => Err(EnvironmentError::WrongVersion {
            theirs,
            ours: PROTOCOL_VERSION,
        }),
        Err(_) => Err(EnvironmentError::Malformed("version")),
    }
}

/// In the child: reads the variable and, if that is safe, removes it (see the [module](self)).
///
/// `None` without a parent: the variable is not set, or this process has more rights than its
/// parent process (`AT_SECURE`) and so must not obey its environment.
///
/// # Errors
/// [`EnvironmentError::WrongVersion`], [`EnvironmentError::Malformed`].
pub fn take() -> Result<Option<ChildEnvironment>, EnvironmentError> {
    if sys::has_raised_rights() {
        return Ok(None);
    }
    let Some(value) = std::env::var_os(VARIABLE) else {
        return Ok(None);
    };
    remove_if_single_threaded();
    let value = value
        .to_str()
        .ok_or(EnvironmentError::Malformed("not UTF-8"))?;
    ChildEnvironment::parse(value).map(Some)
}

#[allow(unsafe_code)]
fn remove_if_single_threaded() {
    if sys::is_single_threaded() {
        #[allow(clippy::disallowed_methods)] // safe, see below
        // SAFETY: this is the only thread of the process, as the kernel has just reported, and it
        // starts no thread in between; so no other thread reads the environment meanwhile.
        unsafe {
            std::env::remove_var(VARIABLE);
        }
    }
}

/// Says that this process had one thread when the value was made, and that only threads of the
/// profiler were started since.
#[derive(Debug)]
pub struct OneThread(());

impl OneThread {
    /// `None` if the process has several threads, or if their number is not known.
    pub fn now() -> Option<Self> {
        sys::is_single_threaded().then_some(Self(()))
    }
}

/// Lets all processes that this process starts from now on join the session at this address, in
/// whichever way they are started: puts it into the environment of this process. Removes
/// [`STARTUP_VARIABLE`], so that they start no sessions of their own.
#[allow(unsafe_code)]
pub fn pass_on(address: &SessionAddress, _alone: OneThread) {
    #[allow(clippy::disallowed_methods)] // safe, see below
    // SAFETY: the program has one thread, this one, by `OneThread`. The other threads are those of
    // the profiler, which read the environment only through `std::env`, whose lock is held here.
    unsafe {
        std::env::set_var(SESSION_VARIABLE, address.to_value());
    }
    #[allow(clippy::disallowed_methods)] // safe, see below
    // SAFETY: as above.
    unsafe {
        std::env::remove_var(STARTUP_VARIABLE);
    }
}

#[cfg(test)]
mod tests;
