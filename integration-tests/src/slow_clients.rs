//! Clients of a local server that keep connections open and never send a whole request.
//!
//! Used by the test and the figure of slow clients. A third of the clients send nothing, a third
//! send a head byte by byte, and a third send a head that never ends. A client connects again when
//! the server closes its connection, until all clients are dropped.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use crate::patience::until;

/// Time between two bytes, and between two checks whether the client must stop.
const BEAT: Duration = Duration::from_millis(50);

/// All clients. They stop when this is dropped.
#[derive(Debug)]
pub struct SlowClients {
    control: Arc<Control>,
    threads: Vec<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Control {
    is_over: AtomicBool,
    /// Clients that have connected at least once.
    connected: AtomicUsize,
}

impl SlowClients {
    /// Connects `count` clients, and waits until each has connected.
    ///
    /// # Errors
    /// When the system cannot start a thread, or the clients cannot connect.
    pub fn connect(address: SocketAddr, count: usize) -> anyhow::Result<Self> {
        let control = Arc::<Control>::default();
        let start = |number: usize| {
            let control = Arc::clone(&control);
            Builder::new()
                .stack_size(64 << 10)
                .spawn(move || occupy(address, number, &control))
        };
        let threads = (0..count).map(start).collect::<Result<_, _>>()?;
        let clients = Self { control, threads };
        anyhow::ensure!(
            until(|| clients.control.connected.load(Ordering::Relaxed) >= count),
            "they do not connect"
        );
        Ok(clients)
    }
}

impl Drop for SlowClients {
    fn drop(&mut self) {
        self.control.is_over.store(true, Ordering::Relaxed);
        self.threads
            .drain(..)
            .for_each(|thread| drop(thread.join()));
    }
}

fn occupy(address: SocketAddr, number: usize, control: &Control) {
    let mut is_first = true;
    while !control.is_over.load(Ordering::Relaxed) {
        let Ok(mut stream) = TcpStream::connect(address) else {
            std::thread::sleep(BEAT);
            continue;
        };
        control.connected.fetch_add(
            usize::from(std::mem::take(&mut is_first)),
            Ordering::Relaxed,
        );
        let _ = stream.set_read_timeout(Some(BEAT));
        let _ = stream.set_write_timeout(Some(BEAT));
        let is_over = || control.is_over.load(Ordering::Relaxed);
        loop {
            if is_over() || !is_held(&mut stream, number) {
                break;
            }
        }
    }
}

/// Sends the next bytes of this client. Returns whether the server keeps the connection open.
fn is_held(stream: &mut TcpStream, number: usize) -> bool {
    let sent: &[u8] = match number % 3 {
        0 => b"",
        1 => b"G",
        _ => b"GET / HTTP/1.1\r\nX-Endless: 0\r\n",
    };
    if stream.write_all(sent).is_err() {
        return false;
    }
    match stream.read(&mut [0; 256]) {
        Ok(read) => read > 0,
        Err(error) => matches!(
            error.kind(),
            std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut
        ),
    }
}
