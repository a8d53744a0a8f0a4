//! Checks which public types are `Send` and `Sync`.

use profiler_view::{Kind, Library, NotAProfile, Server, ViewError};
use test_support::assert_send_sync;

assert_send_sync!(Kind, Library, NotAProfile, Server, ViewError);
