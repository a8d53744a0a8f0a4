//! The server: it listens, and gives every connection a thread for its one request.
//!
//! The number of connections at once is bounded, separately for those with the token and those
//! without: see [`super::admission`].
//! Dropping it ends the listening; requests that are being answered end by their timeouts, or with the process.

use std::fs::File;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use ipc_protocol::environment::{EnvironmentError, Token};
use profiler_core::internal::sys::spawn_quiet;

use super::admission::{Admission, Admitted};
use super::check::{NotAProfile, check};
use super::connection;
use super::routes::ViewRoutes;
use super::symbols::Symbolicate;
use crate::reading::text::is_compressed;

/// How long a client may take for a write. A paused browser tab reads nothing for a while.
const WRITE: Duration = Duration::from_secs(60);
/// Reads of what a client still sends after its answer, so that the answer is not lost with the connection.
const LAST_READS: usize = 16;
/// Pause when the system has no descriptor for a connection.
const PAUSE: Duration = Duration::from_millis(50);

/// Why nothing is served.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ViewError {
    /// The file cannot be opened.
    #[error("cannot read {}: {source}", path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        #[source]
        source: io::Error,
    },
    /// The file is something else.
    #[error("{} is not a profile: {source}", path.display())]
    NotAProfile {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        #[source]
        source: NotAProfile,
    },
    /// The port is taken, or not ours to take.
    #[error("cannot listen on port {port}: {source}")]
    Listen {
        /// The port; 0 for any.
        port: u16,
        /// The system's reason.
        #[source]
        source: io::Error,
    },
    /// The system gave no randomness.
    #[error(transparent)]
    Token(#[from] EnvironmentError),
    /// The system gave no thread.
    #[error("cannot start the server: {0}")]
    Thread(#[source] io::Error),
}

/// A profile being served.
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    token: String,
    state: Arc<ServerState>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct ServerState {
    site: ViewRoutes,
    ended: AtomicBool,
}

impl Server {
    /// Serves `path` on `port` of 127.0.0.1 (0: any that is free), with `symbolicate` answering for symbols.
    ///
    /// # Errors
    /// [`ViewError`]; nothing is served then.
    pub fn start(path: &Path, port: u16, symbolicate: Box<Symbolicate>) -> Result<Self, ViewError> {
        let open = |source| ViewError::Open { path: path.to_owned(), source };
        let not_a_profile = |source| ViewError::NotAProfile { path: path.to_owned(), source };
        let listen = |source| ViewError::Listen { port, source };
        let file = open_file(path).map_err(open)?;
        check(&file).map_err(not_a_profile)?;
        let is_compressed = is_compressed(&file).map_err(open)?;
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).map_err(listen)?;
        let address = listener.local_addr().map_err(listen)?;
        let token = Token::generate()?.to_hex();
        let hosts = [address.to_string(), format!("localhost:{}", address.port())];
        let site = ViewRoutes { token: token.clone(), file, is_compressed, hosts, symbolicate };
        let state = Arc::new(ServerState { site, ended: AtomicBool::new(false) });
        let theirs = Arc::clone(&state);
        let thread = spawn_quiet("profiler-view", move || accept(&listener, &theirs));
        Ok(Self { address, token, state, thread: Some(thread.map_err(ViewError::Thread)?) })
    }

    /// Where it listens.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Where everything is served, without a slash at the end.
    pub fn base(&self) -> String {
        format!("http://{}/{}", self.address, self.token)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.state.ended.store(true, Ordering::Release);
        // It waits for a connection: here is one.
        let woken = TcpStream::connect(self.address).is_ok();
        if let Some(thread) = self.thread.take().filter(|_| woken) {
            let _ = thread.join();
        }
    }
}

/// Opens without waiting for the writer of a pipe.
fn open_file(path: &Path) -> io::Result<File> {
    let mut options = File::options();
    options.read(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::custom_flags(&mut options, libc::O_NONBLOCK);
    options.open(path)
}

fn accept(listener: &TcpListener, state: &Arc<ServerState>) {
    let admission = Admission::new();
    loop {
        let accepted = listener.accept();
        if state.ended.load(Ordering::Acquire) {
            return;
        }
        let Ok((stream, _)) = accepted else {
            std::thread::sleep(PAUSE);
            continue;
        };
        let admitted = admission.enter(stream);
        let state = Arc::clone(state);
        // Without a thread the connection is closed as well.
        let _ = spawn_quiet("profiler-view", move || {
            let _ = converse(&admitted, &state.site); // the client's loss
        });
    }
}

fn converse(admitted: &Admitted, site: &ViewRoutes) -> io::Result<()> {
    admitted.stream().set_write_timeout(Some(WRITE))?;
    let mut client = admitted.client();
    connection::serve(&mut client, site, || admitted.show_token())?;
    client.flush()?;
    // What is unread when a connection closes takes the answer with it.
    admitted.stream().shutdown(Shutdown::Write)?;
    let mut rest = [0; 4096];
    for _ in 0..LAST_READS {
        if client.read(&mut rest)? == 0 {
            break;
        }
    }
    Ok(())
}
