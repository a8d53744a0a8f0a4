//! Tests of the sockets of a session and of the processes that join it.

use super::*;

fn deadline() -> Deadline {
    Deadline::after(Duration::from_secs(60))
}

#[test]
fn a_socket_below_a_long_path_is_reached() {
    let place = tempfile::tempdir().unwrap();
    let mut long = place.path().to_owned();
    while long.as_os_str().len() < 300 {
        long.push("a-directory-with-a-long-name");
    }
    std::fs::create_dir_all(&long).unwrap();
    let path = long.join("socket");
    let listening = SessionSocket::bind(&path).unwrap();
    assert!(listening.accept().unwrap().is_none());
    let asker = Asker::connect(&path, &deadline()).unwrap();
    assert!(listening.accept().unwrap().is_some());
    let own = Peer {
        pid: Some(ProcessId::new(std::process::id())),
        user: own_user(),
    };
    assert_eq!(asker.peer().unwrap(), own);
}

#[test]
fn the_kernel_names_the_process_that_connects() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("socket");
    let listening = SessionSocket::bind(&path).unwrap();
    let _asker = Asker::connect(&path, &deadline()).unwrap();
    let accepted = listening.accept().unwrap().unwrap();
    let (peer, _) = peer_of(accepted.as_fd()).unwrap();
    assert_eq!(peer.pid, Some(ProcessId::new(std::process::id())));
    assert_eq!(peer.user, own_user());
}

#[test]
fn a_process_does_not_wait_without_a_listener_or_an_answer() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("socket");
    let none = Asker::connect(&path, &deadline()).unwrap_err();
    assert_eq!(none.kind(), io::ErrorKind::NotFound);
    let listening = SessionSocket::bind(&path).unwrap();
    let asker = Asker::connect(&path, &deadline()).unwrap();
    let soon = Deadline::after(Duration::from_millis(1));
    assert!(asker.receive(&mut [0; 8], &soon).unwrap().is_none());
    drop(listening);
    let gone = Asker::connect(&path, &deadline()).unwrap_err();
    assert_eq!(gone.kind(), io::ErrorKind::ConnectionRefused);
}

#[test]
fn a_socket_that_the_program_closed_is_bound_again() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("socket");
    let mut listening = SessionSocket::bind(&path).unwrap();
    listening.renew().unwrap();
    let _asker = Asker::connect(&path, &deadline()).unwrap();
    assert!(listening.accept().unwrap().is_some());
}
