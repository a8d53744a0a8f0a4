//! Tests specific to the transport between processes.

use super::super::tests::{assert_matches, hello, on_thread};
use super::*;
use crate::limits::MAX_FRAME_BYTES;
use crate::message::{PROTOCOL_VERSION, RequestId};

fn refused(packet: Packet) -> TransportError {
    let listener = Listener::new().unwrap();
    IpcSender::connect(listener.name().to_owned())
        .unwrap()
        .send(packet)
        .unwrap();
    listener.accept(&Token::from_bytes([1; 16])).unwrap_err()
}

fn answers() -> Answers {
    Answers::new(ipc::channel().unwrap().0)
}

#[test]
fn abandon_ends_a_waiting_accept() {
    let listener = Listener::new().unwrap();
    let abandon = listener.cancel_handle();
    let (started, starts) = crossbeam_channel::bounded(1);
    let waiting = on_thread(move || {
        started.send(()).unwrap();
        listener.accept(&Token::from_bytes([1; 16]))
    });
    starts.recv().unwrap();
    abandon.abandon();
    assert_matches!(waiting.join().unwrap(), Err(TransportError::Abandoned));
}

#[test]
fn abandon_before_accept_ends_it() {
    let listener = Listener::new().unwrap();
    listener.cancel_handle().abandon();
    let error = listener.accept(&Token::from_bytes([1; 16])).unwrap_err();
    assert!(matches!(error, TransportError::Abandoned), "{error}");
}

#[test]
fn a_child_that_died_after_hello_is_accepted() {
    let token = Token::generate().unwrap();
    let listener = Listener::new().unwrap();
    let abandon = listener.cancel_handle();
    let mut child = connect(listener.name(), hello(&token)).unwrap();
    let last = ToParent::ShutdownProfile { length: 5 };
    child.sender.send(&last).unwrap();
    drop(child);
    abandon.abandon();
    let mut accepted = listener.accept(&token).unwrap();
    assert_eq!(accepted.ends.receiver.recv().unwrap(), last);
}

#[test]
fn abandon_after_accept_does_nothing() {
    let token = Token::generate().unwrap();
    let listener = Listener::new().unwrap();
    let abandon = listener.cancel_handle();
    let mut child = connect(listener.name(), hello(&token)).unwrap();
    let mut accepted = listener.accept(&token).unwrap();
    abandon.abandon();
    let message = ToParent::Done {
        request: RequestId::new(1),
    };
    child.sender.send(&message).unwrap();
    assert_eq!(accepted.ends.receiver.recv().unwrap(), message);
}

#[test]
fn a_wrong_token_is_refused() {
    let listener = Listener::new().unwrap();
    let _child = connect(listener.name(), hello(&Token::from_bytes([2; 16]))).unwrap();
    let error = listener.accept(&Token::from_bytes([1; 16])).unwrap_err();
    assert!(matches!(error, TransportError::WrongToken), "{error}");
}

#[test]
fn the_version_of_a_child_of_another_version_is_reported() {
    let error = refused(Packet::Hello {
        frame: vec![0xff, 0x7f, 1],
        answers: answers(),
    });
    let wrong = codec::ProtocolError::WrongVersion {
        theirs: 0x7fff,
        ours: PROTOCOL_VERSION,
    };
    assert_matches!(&error, TransportError::Protocol(e) if *e == wrong);
}

#[test]
fn a_first_packet_other_than_hello_is_refused() {
    let done = codec::encode(&ToParent::Done {
        request: RequestId::new(1),
    })
    .unwrap();
    for packet in [
        Packet::Frame(done.clone()),
        Packet::Hello {
            frame: done,
            answers: answers(),
        },
        Packet::Hello {
            frame: vec![],
            answers: answers(),
        },
        Packet::Hello {
            frame: vec![0; MAX_FRAME_BYTES + 1],
            answers: answers(),
        },
    ] {
        let error = refused(packet);
        assert_matches!(
            error,
            TransportError::PeerMisbehaved(_) | TransportError::Protocol(_)
        );
    }
}

#[test]
fn connecting_fails_once_the_listener_is_gone() {
    let name = Listener::new().unwrap().name().to_owned();
    let error = connect(&name, hello(&Token::from_bytes([1; 16]))).unwrap_err();
    assert!(matches!(error, TransportError::Disconnected), "{error}");
}

#[test]
fn a_name_that_would_be_cut_is_refused() {
    let long = format!("/tmp/{}", "x".repeat(MAX_SOCKET_PATH));
    let error = connect(&long, hello(&Token::from_bytes([1; 16]))).unwrap_err();
    assert_matches!(error, TransportError::NameTooLong { .. });
    assert_matches!(
        check_room(Path::new(&long)),
        Err(TransportError::NameTooLong { .. })
    );
    assert_matches!(check_bound(&long), Err(TransportError::NameTooLong { .. }));
    assert!(check_room(Path::new(&"/".repeat(MAX_SOCKET_PATH - SOCKET_SUFFIX))).is_ok());
}

#[test]
fn the_suffix_is_as_long_as_the_appended_path() {
    let listener = Listener::new().unwrap();
    let directory = std::env::temp_dir();
    assert_eq!(
        listener.name().len(),
        directory.as_os_str().len() + SOCKET_SUFFIX,
        "{}",
        listener.name()
    );
}

#[test]
fn a_listener_leaves_nothing_behind() {
    let listener = Listener::new().unwrap();
    let directory = Path::new(listener.name()).parent().unwrap().to_owned();
    assert!(directory.exists());
    drop(listener);
    assert!(!directory.exists());
}

#[cfg(all(target_os = "linux", not(profiler_portable)))]
mod guarded_packets {
    use std::io::{IoSlice, IoSliceMut};
    use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
    use std::os::unix::fs::PermissionsExt;

    use profiler_sys::FileIdentity;
    use rustix::net::{
        AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix,
        SocketFlags, SocketType,
    };

    use super::*;

    /// A child that has sent `Hello`, and its socket for packets of any content.
    #[allow(unsafe_code)]
    fn hostile() -> (Accepted, OwnedFd) {
        let token = Token::from_bytes([3; 16]);
        let listener = Listener::new().unwrap();
        let packets = IpcSender::connect(listener.name().to_owned()).unwrap();
        let frame = codec::encode(&ToParent::Hello(hello(&token))).unwrap();
        packets
            .send(Packet::Hello {
                frame,
                answers: answers(),
            })
            .unwrap();
        let number = own_channel(packets.clone()).number().unwrap();
        // SAFETY: `packets` is alive, so the number is open.
        let socket = unsafe { BorrowedFd::borrow_raw(number) }
            .try_clone_to_owned()
            .unwrap();
        (listener.accept(&token).unwrap(), socket)
    }

    fn send(socket: &OwnedFd, parts: &[&[u8]], attached: bool) {
        let parts: Vec<_> = parts.iter().map(|part| IoSlice::new(part)).collect();
        let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        let fds = [socket.as_fd()];
        if attached {
            assert!(control.push(SendAncillaryMessage::ScmRights(&fds)));
        }
        rustix::net::sendmsg(socket, &parts, &mut control, SendFlags::EOR).unwrap();
    }

    fn open_descriptors() -> usize {
        std::fs::read_dir("/proc/self/fd").unwrap().count()
    }

    fn header(packet: usize, message: usize) -> Vec<u8> {
        [packet.to_ne_bytes(), message.to_ne_bytes()].concat()
    }

    fn ends_the_channel(parts: &[&[u8]], attached: bool) {
        let (mut accepted, socket) = hostile();
        send(&socket, parts, attached);
        let error = accepted.ends.receiver.recv().unwrap_err();
        assert_matches!(error, TransportError::PeerMisbehaved(_));
        let error = accepted.ends.receiver.recv().unwrap_err();
        assert!(matches!(error, TransportError::Disconnected), "{error}");
    }

    #[test]
    fn three_bytes_do_not_hang_the_parent() {
        ends_the_channel(&[&[1, 2, 3]], false);
    }

    #[test]
    fn a_forged_length_does_not_allocate() {
        ends_the_channel(&[&header(24, 1 << 40), &[0; 8]], true);
        ends_the_channel(&[&header(24, 1 << 63), &[0; 8]], false);
        ends_the_channel(&[&header(1 << 20, 8), &[0; 8]], false);
    }

    #[test]
    fn attached_descriptors_are_refused_and_not_received() {
        let (mut accepted, socket) = hostile();
        let before = open_descriptors();
        for _ in 0..40 {
            send(&socket, &[&header(24, 8), &[0; 8]], true);
        }
        let error = accepted.ends.receiver.recv().unwrap_err();
        assert_matches!(
            error,
            TransportError::PeerMisbehaved("a packet of another kind")
        );
        drop((accepted, socket));
        // Other tests open and close descriptors meanwhile, but not 40 of them.
        assert!(open_descriptors() < before + 30);
    }

    #[test]
    fn a_packet_beyond_a_frame_is_refused_before_it_is_received() {
        let content = vec![0; 100_000];
        ends_the_channel(&[&header(100_016, 100_000), &content], false);
    }

    #[test]
    fn a_whole_packet_that_does_not_decode_is_refused() {
        ends_the_channel(&[&header(24, 8), &[0xff; 8]], false);
    }

    #[test]
    fn a_second_hello_is_refused() {
        // The sender in a `Hello` travels as a descriptor.
        let token = Token::from_bytes([3; 16]);
        let listener = Listener::new().unwrap();
        let packets = IpcSender::connect(listener.name().to_owned()).unwrap();
        let frame = codec::encode(&ToParent::Hello(hello(&token))).unwrap();
        for _ in 0..2 {
            packets
                .send(Packet::Hello {
                    frame: frame.clone(),
                    answers: answers(),
                })
                .unwrap();
        }
        let mut accepted = listener.accept(&token).unwrap();
        let error = accepted.ends.receiver.recv().unwrap_err();
        assert_matches!(
            error,
            TransportError::PeerMisbehaved("a packet of another kind")
        );
    }

    #[test]
    fn a_forged_first_packet_is_contained() {
        let listener = Listener::new().unwrap();
        let socket = rustix::net::socket_with(
            AddressFamily::UNIX,
            SocketType::SEQPACKET,
            SocketFlags::CLOEXEC,
            None,
        )
        .unwrap();
        rustix::net::connect(&socket, &SocketAddrUnix::new(listener.name()).unwrap()).unwrap();
        send(&socket, &[&header(24, 1 << 63), &[0; 8]], false);
        let error = listener.accept(&Token::from_bytes([3; 16])).unwrap_err();
        assert_matches!(error, TransportError::PeerMisbehaved(_));
    }

    #[test]
    fn abandon_ends_the_wait_for_a_connected_silent_child() {
        let listener = Listener::new().unwrap();
        let abandon = listener.cancel_handle();
        let name = listener.name().to_owned();
        let waiting = on_thread(move || listener.accept(&Token::from_bytes([3; 16])));
        let _silent: IpcSender<Packet> = IpcSender::connect(name.clone()).unwrap();
        // A socket bound to the name has a peer after the accept; then accept waits for the packet.
        while accepted_sockets(&name).is_empty() {
            std::thread::yield_now();
        }
        abandon.abandon();
        assert_matches!(waiting.join().unwrap(), Err(TransportError::Abandoned));
    }

    /// The numbers of sockets that were accepted from the listener of this name. Only examines bare
    /// numbers.
    #[allow(unsafe_code)]
    fn accepted_sockets(name: &str) -> Vec<i32> {
        let is_accepted = |number: &i32| {
            if FileIdentity::of_number(*number).is_err() {
                return false;
            }
            // SAFETY: the number was open just now; a wrong one makes the calls fail.
            let socket = unsafe { BorrowedFd::borrow_raw(*number) };
            let own = rustix::net::getsockname(socket)
                .ok()
                .and_then(|a| SocketAddrUnix::try_from(a).ok());
            own.is_some_and(|address| address.path_bytes() == Some(name.as_bytes()))
                && rustix::net::getpeername(socket).is_ok()
        };
        (3..1024).filter(is_accepted).collect()
    }

    fn is_inherited(number: i32) -> bool {
        let info = std::fs::read_to_string(format!("/proc/self/fdinfo/{number}")).unwrap();
        let flags = info
            .lines()
            .find_map(|line| line.strip_prefix("flags:"))
            .unwrap()
            .trim();
        i32::from_str_radix(flags, 8).unwrap() & libc::O_CLOEXEC == 0
    }

    #[test]
    fn no_process_started_before_hello_inherits_the_accepted_socket() {
        let listener = Listener::new().unwrap();
        let abandon = listener.cancel_handle();
        let name = listener.name().to_owned();
        let waiting = on_thread(move || listener.accept(&Token::from_bytes([3; 16])));
        let _silent: IpcSender<Packet> = IpcSender::connect(name.clone()).unwrap();
        let accepted = loop {
            match accepted_sockets(&name).as_slice() {
                [] => std::thread::yield_now(),
                accepted => break accepted.to_vec(),
            }
        };
        assert!(!accepted.into_iter().any(is_inherited));
        abandon.abandon();
        assert!(waiting.join().unwrap().is_err());
    }

    #[test]
    fn no_process_started_later_inherits_the_accepted_socket() {
        let token = Token::from_bytes([3; 16]);
        let listener = Listener::new().unwrap();
        let name = listener.name().to_owned();
        let _child = connect(&name, hello(&token)).unwrap();
        let _accepted = listener.accept(&token).unwrap();
        let sockets = accepted_sockets(&name);
        assert!(!sockets.is_empty());
        for number in sockets {
            assert!(!is_inherited(number), "descriptor {number} is inherited");
        }
    }

    #[test]
    fn only_its_owner_may_enter_the_directory_of_the_socket() {
        let listener = Listener::new().unwrap();
        let directory = Path::new(listener.name()).parent().unwrap();
        assert_eq!(
            directory.metadata().unwrap().permissions().mode() & 0o777,
            0o700
        );
    }

    #[test]
    fn a_fork_may_not_use_the_channel_of_its_parent() {
        let token = Token::from_bytes([3; 16]);
        let listener = Listener::new().unwrap();
        let _child = connect(listener.name(), hello(&token)).unwrap();
        let (sender, receiver) = ipc::channel().unwrap();
        let owner = std::process::id() + 1;
        use crate::transport::{FrameReceiver, FrameSender};
        let sender = own_channel(sender);
        let receiver = own_channel(receiver);
        let mut sender = PacketSender {
            packets: sender,
            owner,
            answers: None,
        };
        let mut receiver = PacketReceiver {
            packets: receiver,
            guard: None,
            owner,
            ended: false,
        };
        assert!(matches!(sender.send(&[1]), Err(TransportError::Forked)));
        assert!(matches!(receiver.recv(), Err(TransportError::Forked)));
    }

    #[test]
    fn a_peek_does_not_remove_the_packet() {
        let (mut accepted, socket) = hostile();
        let frame = codec::encode(&ToParent::ShutdownProfile { length: 1 }).unwrap();
        let mut content = vec![0, u8::try_from(frame.len()).unwrap()]; // Packet::Frame, its length
        content.extend(&frame);
        send(
            &socket,
            &[&header(content.len() + 16, content.len()), &content],
            false,
        );
        assert_eq!(
            accepted.ends.receiver.recv().unwrap(),
            ToParent::ShutdownProfile { length: 1 }
        );
        let mut byte = [0];
        let nothing = rustix::net::recvmsg(
            &socket,
            &mut [IoSliceMut::new(&mut byte)],
            &mut rustix::net::RecvAncillaryBuffer::default(),
            rustix::net::RecvFlags::DONTWAIT,
        );
        assert!(nothing.is_err());
    }
}
