//! Test of a pool file that can shrink. It is refused, because a write behind its new end would
//! kill the host.

#![cfg(all(target_os = "linux", not(profiler_portable)))]

use std::io::{Read, Write};

use crate::support;
use profiler_core::internal::pool::AttachError;
use profiler_core::session::{self, SessionParams, StartError};
use test_support::assert_matches;
use test_support::own_process;

#[test]
fn a_pool_that_can_shrink_is_refused_and_recording_stays_off() {
    own_process!();
    let params = SessionParams {
        limit: profiler_core::ids::ByteLimit::new(65_536),
        ..SessionParams::default()
    };
    let spec = support::pool_spec(&params);
    let mut sealed = spec.create_pool().unwrap();
    let mut header = [0; 4096];
    sealed.read_exact(&mut header).unwrap();
    let mut unsealed = tempfile::tempfile().unwrap();
    unsealed.write_all(&header).unwrap();
    unsealed.set_len(sealed.metadata().unwrap().len()).unwrap();
    let refused = session::attach(unsealed);
    assert_matches!(refused, Err(StartError::Attach(AttachError::NotSealed)));
    assert!(!session::is_active());
    session::attach(sealed).unwrap();
}
