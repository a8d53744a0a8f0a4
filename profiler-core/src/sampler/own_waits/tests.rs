//! Tests of keys, questions and answers about the waits of this process.

use std::os::fd::AsRawFd;
use std::sync::mpsc::channel;

use super::*;
use crate::ids::ByteLimit;
use crate::params::SessionParams;
use crate::pool::{Pool, PoolSpec};
use crate::sys;

fn wait(call: i64, first: u64) -> Wait {
    Wait {
        call,
        arguments: [first, 0, 0],
        ..Wait::default()
    }
}

fn key(wait: Wait) -> WaitKey {
    key_of(sys::current_thread_id(), wait, &OwnMemory::open())
}

fn waits() -> OwnWaits {
    let limit = ByteLimit::new(1 << 20);
    let spec = PoolSpec {
        limit,
        allowance: limit,
        ..PoolSpec::starting_now(SessionParams::default()).unwrap()
    };
    let (pool, _) = Pool::attach(spec.create_pool().unwrap()).unwrap();
    OwnWaits::new(Arc::new(ChunkManager::new(pool)))
}

#[test]
fn a_descriptor_that_refers_to_another_pipe_is_another_wait() {
    let (mut first, _first_end) = rustix::pipe::pipe().unwrap();
    let (second, _second_end) = rustix::pipe::pipe().unwrap();
    let number = u64::try_from(first.as_raw_fd()).unwrap();
    let reads = wait(libc::SYS_read, number);
    let before = key(reads);
    assert_eq!(before, key(reads));
    assert_ne!(before, key(wait(libc::SYS_write, number)), "the other end");
    rustix::io::dup2(&second, &mut first).unwrap();
    assert_ne!(before, key(reads));
}

#[test]
fn the_owner_distinguishes_waits_for_a_mutex() {
    let mut mutex = [2_u32, 0, 1234, 0];
    let mut waits = wait(libc::SYS_futex, mutex.as_ptr() as u64);
    assert!(!may_have_holder(waits), "a word of another kind");
    waits.arguments[2] = 2;
    assert!(may_have_holder(waits));
    let before = key(waits);
    let owner = |key| match key {
        WaitKey::Call { owner, .. } => owner,
        WaitKey::Descriptor { .. } => 0,
    };
    assert_eq!(owner(before), 1234);
    mutex[2] = 1235;
    std::hint::black_box(&mut mutex);
    assert_ne!(before, key(waits));
}

/// One test, because the listener is that of the process.
#[test]
fn a_wait_is_asked_for_once_and_has_the_label_of_the_answer() {
    let (sender, questions) = channel();
    let asked = move |waits: Vec<AskedWait>| sender.send(waits).unwrap();
    let (end, _other_end) = rustix::pipe::pipe().unwrap();
    let reads = wait(libc::SYS_read, u64::try_from(end.as_raw_fd()).unwrap());
    let memory = OwnMemory::open();
    let thread = sys::current_thread_id();
    let mut waits = waits();
    assert_eq!(
        waits.of(thread, reads, (&memory, None)),
        OwnWait::WITHOUT_HOLDER,
        "without a listener"
    );

    asked_waits::set_wait_listener(Some(Box::new(asked)));
    let unknown = OwnWait {
        label: None,
        is_known: false,
    };
    assert_eq!(waits.of(thread, reads, (&memory, None)), unknown);
    assert_eq!(waits.of(thread, reads, (&memory, None)), unknown);
    waits.exchange();
    let question = questions.try_recv().unwrap();
    let [asked] = &question[..] else {
        panic!("{question:?}")
    };
    assert_eq!(waits.of(thread, reads, (&memory, None)), unknown);
    waits.exchange();
    assert!(questions.try_recv().is_err(), "it is not answered yet");

    asked_waits::name_waits(vec![NamedWait {
        number: asked.number,
        name: Some("waiting for worker [7] (pipe)".to_owned()),
    }]);
    waits.exchange();
    let named = waits.of(thread, reads, (&memory, None));
    assert!(named.label.is_some() && named.is_known, "{named:?}");
    asked_waits::name_waits(vec![NamedWait {
        number: asked.number.wrapping_sub(1),
        name: None,
    }]);
    waits.exchange();
    assert_eq!(
        waits.of(thread, reads, (&memory, None)),
        named,
        "an old answer"
    );
    assert!(waits.ask_anew(thread, reads, &memory));
    let is_asked = || {
        waits.exchange();
        questions.try_recv().is_ok()
    };
    assert!(test_support::patience::until(is_asked), "after a pause");
    let sleeps = wait(libc::SYS_nanosleep, 0);
    assert_eq!(
        waits.of(thread, sleeps, (&memory, None)),
        OwnWait::WITHOUT_HOLDER
    );
    asked_waits::set_wait_listener(None);
}
