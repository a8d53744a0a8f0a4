//! Random secrets.
//!
//! Used by the servers of pages and by files with tokens.

use std::io;

/// A new secret: 128 random bits, as 32 hexadecimal digits.
///
/// # Errors
/// When the system gives no random numbers.
pub fn new_secret() -> io::Result<String> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(|error| io::Error::other(error.to_string()))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}
