//! What a thread leaves behind when it ends at an awkward moment.

use super::*;

#[test]
fn a_thread_that_ends_within_an_entry_is_not_waited_for() {
    let body = || {
        let recorder = make_recorder().unwrap();
        let is_listed = || RECORDERS.lock().unwrap().iter().any(|listed| Arc::ptr_eq(listed, &recorder));
        assert!(is_listed());
        recorder.within_an_entry(|| drop(GUARD.take()));
        assert!(!is_listed(), "every later stop waits for the end of this entry");
    };
    std::thread::Builder::new().spawn(body).unwrap().join().unwrap();
}
