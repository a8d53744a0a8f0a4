//! Checks which public types are `Send` and `Sync`, and that the crate exports all recording
//! macros.

use profiler_child::flow::Flow;
use profiler_child::{
    InitError, Status, blocking, flow, group, label, marker, scope, span, text_marker,
};
use test_support::assert_send_sync;

assert_send_sync!(InitError, Status);

#[test]
fn all_recording_macros_are_exported() {
    use profiler_child::core::marker::{MarkerOptions, category};
    marker!("marker");
    text_marker!("text", &category::OTHER, MarkerOptions::default(), "text");
    let _scope = scope!("scope");
    let _span = span!("span");
    let _label = label!("label");
    flow!(begin Flow::new());
    let _entered = group!("plugin:test").enter();
    let _waits = blocking!("disk");
}
