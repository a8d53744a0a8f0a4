//! Fuzzes the decoders of definitions and marker schemas, which a definitions region holds, and of
//! the session parameters in a pool's header.

use profiler_core::internal::codec;
use profiler_core::internal::pool::definitions::Definition;
use profiler_core::marker::schema::MarkerSchema;
use profiler_core::session::SessionParams;

/// Checks one input.
pub(crate) fn check_input(data: &[u8]) {
    if let Ok(Definition::MarkerType { schema, .. }) = codec::decode::<Definition>(data) {
        let _ = codec::decode::<MarkerSchema>(&schema);
    }
    let _ = codec::decode::<MarkerSchema>(data);
    let _ = codec::decode::<SessionParams>(data).map(SessionParams::normalized);
}
