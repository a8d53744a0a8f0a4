//! Stands for the module `process_context` where no process publishes a context: on other systems
//! than Linux, and without the engine.

use super::publish_error::PublishError;

/// Does nothing.
///
/// # Errors
/// None.
#[inline(always)]
pub const fn publish_process_context(_attributes: &[(&str, &str)]) -> Result<(), PublishError> {
    Ok(())
}
