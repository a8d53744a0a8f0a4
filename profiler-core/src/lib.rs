//! What every process embeds.

pub mod codec;
pub mod ids;
pub mod manager;
pub mod marker;
pub mod profile;
pub mod record;
pub mod session;
pub mod thread;
pub mod time;
