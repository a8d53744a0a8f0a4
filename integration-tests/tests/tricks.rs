//! Tests of the packets that a hostile child can send, over both transports between processes.
//!
//! A packet costs the child at most its channel. It does not end the parent's process, and costs it
//! no memory and no descriptor. The process of the test plays both the parent and the child.

use std::os::fd::{AsFd, BorrowedFd};

use anyhow::{Context, ensure};
use integration_tests::own::Possessions;
use integration_tests::own_process;
use integration_tests::patience::until;
use integration_tests::peer::{Peer, hello};
use ipc_protocol::environment::Token;
use ipc_protocol::message::{RequestId, ToParent};
use ipc_protocol::transport::{ParentEnds, TransportError, inherited, ipc_channel};
use profiler_core::ids::ProcessId;

/// The most by which the virtual memory of the process may grow. Some packets claim to be longer.
/// The C library reserves 128 MiB of addresses when a thread allocates for the first time.
const MAX_GROWTH_KIB: u64 = 1 << 20;

/// Sends hostile packets through the child's end of a channel.
type Trick = fn(&Peer) -> anyhow::Result<()>;
/// Makes a channel whose child has sent its hello.
type Connect = fn() -> anyhow::Result<(ParentEnds, Peer)>;

/// Makes a test of each packet, over both transports.
macro_rules! tricks {
    ($($trick:ident: $send:expr,)*) => {
        mod ipc_channel_receives {
            use super::*;
            $(#[test]
            fn $trick() -> anyhow::Result<()> {
                own_process!();
                attempt(named, $send)
            })*
        }

        mod an_inherited_channel_receives {
            use super::*;
            $(#[test]
            fn $trick() -> anyhow::Result<()> {
                own_process!();
                attempt(inherited, $send)
            })*
        }
    };
}

tricks! {
    three_bytes: |peer| peer.send(&[1, 2, 3], &[]),
    a_wrong_length: |peer| packet(peer, 1 << 20, 8, &[]),
    a_part_without_its_channel: |peer| packet(peer, 24, 1 << 20, &[]),
    a_length_of_2_to_the_63: |peer| packet(peer, 24, 1 << 63, &[]),
    a_tebibyte_and_a_socket: |peer| packet(peer, 24, 1 << 40, &[peer.socket.as_fd()]),
    many_tebibytes_and_a_socket: |peer| packet(peer, 24, 64 << 40, &[peer.socket.as_fd()]),
    a_read_only_file: |peer| packet(peer, 24, 8, &[std::fs::File::open("/dev/null")?.as_fd()]),
    a_hundred_unwanted_descriptors: hundred_descriptors,
    a_sender_that_is_not_there: |peer| peer.send(&[&header(19, 3)[..], &[1, 0, 7]].concat(), &[]),
    more_than_64_descriptors: |peer| packet(peer, 24, 8, &[peer.socket.as_fd(); 65]),
    half_a_message_and_then_nothing: |peer| packet(peer, 100_016, 8 << 20, &[peer.socket.as_fd()]),
    a_packet_of_100_kib: |peer| peer.send(&[7; 100 << 10], &[]),
    two_hundred_packets_of_noise: noise,
    an_empty_packet: |peer| peer.send(&[], &[]),
}

fn header(packet: u64, message: u64) -> [u8; 16] {
    let mut header = [0; 16];
    header[..8].copy_from_slice(&packet.to_ne_bytes());
    header[8..].copy_from_slice(&message.to_ne_bytes());
    header
}

/// Sends a packet with the header of `ipc_channel`; the other transport sees only bytes. Its true
/// length is `length` if that is at most 100,016, and 24 otherwise.
fn packet(
    peer: &Peer,
    length: u64,
    message: u64,
    attached: &[BorrowedFd<'_>],
) -> anyhow::Result<()> {
    let true_length = if length <= 100_016 { length } else { 24 };
    let mut bytes = header(length, message).to_vec();
    bytes.resize(usize::try_from(true_length)?, 0);
    peer.send(&bytes, attached)
}

fn hundred_descriptors(peer: &Peer) -> anyhow::Result<()> {
    (0..100).try_for_each(|_| packet(peer, 24, 8, &[peer.socket.as_fd()]))
}

/// Sends about as many packets as a socket holds.
fn noise(peer: &Peer) -> anyhow::Result<()> {
    (0..200_u32).try_for_each(|n| peer.send(&n.to_ne_bytes(), &[]))
}

fn named() -> anyhow::Result<(ParentEnds, Peer)> {
    let listener = ipc_channel::Listener::new()?;
    let peer = Peer::connect(listener.name())?;
    let token = Token::generate()?;
    peer.say_hello(hello(&token))?;
    Ok((listener.accept(&token)?.ends, peer))
}

fn inherited() -> anyhow::Result<(ParentEnds, Peer)> {
    let (listener, theirs) = inherited::Listener::new()?;
    let peer = Peer::inherited(theirs);
    let token = Token::generate()?;
    peer.say_hello(hello(&token))?;
    Ok((
        listener
            .accept(&token, ProcessId::new(std::process::id()))?
            .ends,
        peer,
    ))
}

/// A parent and its hostile child. Honest children before and after must work.
fn attempt(connect: Connect, trick: Trick) -> anyhow::Result<()> {
    honest(connect)?;
    let before = Possessions::count();
    let memory = peak_kib()?;
    let (mut ends, peer) = connect()?;
    trick(&peer)?;
    let Err(error) = ends.receiver.recv() else {
        anyhow::bail!("the packet was accepted as a message")
    };
    println!("  {error}");
    drop(ends); // a parent does this at the first error
    ensure!(peer.send(&[0], &[]).is_err(), "the channel is still open");
    drop(peer);
    honest(connect)?;
    ensure!(
        until(|| Possessions::count().within(&before)),
        "{before:?}, then {:?}",
        Possessions::count()
    );
    let grown = peak_kib()? - memory;
    ensure!(grown < MAX_GROWTH_KIB, "the process grew by {grown} KiB");
    Ok(())
}

/// Checks that a channel that is used correctly works.
fn honest(connect: Connect) -> anyhow::Result<()> {
    let (mut ends, peer) = connect()?;
    let message = ToParent::Done {
        request: RequestId::new(5),
    };
    peer.say(&message)?;
    ensure!(
        ends.receiver.recv()? == message,
        "a different message arrives"
    );
    drop(peer);
    ensure!(
        matches!(ends.receiver.recv(), Err(TransportError::Disconnected)),
        "the end of the channel is not noticed"
    );
    Ok(())
}

/// The peak of this process's virtual memory, in KiB.
fn peak_kib() -> anyhow::Result<u64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmPeak:"))
        .context("no VmPeak")?;
    Ok(line.trim().trim_end_matches(" kB").parse()?)
}
