//! The server of `profiler view`.
//!
//! [`Server::start`] checks the file and starts [`profiler_http`] with the paths of
//! [`super::routes`]. Dropping the server ends it; a worker that looks up symbols ends with its
//! request.

use std::fs::File;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crossbeam_channel::never;
use hyper::header::HeaderValue;

use super::api::SymbolicationApi;
use super::check::{NotAProfile, check};
use super::link::origin;
use super::routes::ViewRoutes;
use profiler_http::{Hosts, HttpServer, ServerOptions};
use profiler_reader::text::is_compressed;
use profiler_sys::new_secret;

/// The reason why the server cannot start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ViewError {
    /// The file cannot be opened.
    #[error("cannot read {}: {source}", path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// The system's error.
        #[source]
        source: io::Error,
    },
    /// The file is not a profile.
    #[error("{} is not a profile: {source}", path.display())]
    NotAProfile {
        /// The file.
        path: PathBuf,
        /// The reason.
        #[source]
        source: NotAProfile,
    },
    /// The port is in use, or not permitted.
    #[error("cannot listen on port {port}: {source}")]
    Listen {
        /// The port; 0 for any.
        port: u16,
        /// The system's error.
        #[source]
        source: io::Error,
    },
    /// The system returned no random bytes.
    #[error("no random bytes: {0}")]
    Token(#[source] io::Error),
    /// The system cannot start a thread.
    #[error("cannot start the server: {0}")]
    Thread(#[source] io::Error),
}

/// A profile being served. Dropping it ends the server.
pub struct Server {
    address: SocketAddr,
    base: String,
    _server: HttpServer,
}

/// Omits the token, which grants full access.
impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server")
            .field("address", &self.address)
            .finish_non_exhaustive()
    }
}

impl Server {
    /// Serves `path` on `port` of 127.0.0.1 (0: any free port), with `api` answering requests for
    /// symbols, source files and assembly code. All pages that know the base address may read the
    /// answers.
    ///
    /// # Errors
    /// [`ViewError`]; nothing is served then.
    pub fn start(
        path: &Path,
        port: u16,
        api: Box<dyn SymbolicationApi>,
    ) -> Result<Self, ViewError> {
        Self::start_for_origin(None, path, port, api)
    }

    /// Like [`Self::start`], but browsers let only the pages of the viewer at this address read the
    /// answers. The address must be the one that the browser shows, not one that leads to it.
    ///
    /// # Errors
    /// [`ViewError`]; nothing is served then.
    pub fn start_for_viewer(
        viewer: &str,
        path: &Path,
        port: u16,
        api: Box<dyn SymbolicationApi>,
    ) -> Result<Self, ViewError> {
        let origin = origin(viewer).and_then(|origin| HeaderValue::from_str(&origin).ok());
        Self::start_for_origin(origin, path, port, api)
    }

    fn start_for_origin(
        origin: Option<HeaderValue>,
        path: &Path,
        port: u16,
        api: Box<dyn SymbolicationApi>,
    ) -> Result<Self, ViewError> {
        let open = |source| ViewError::Open {
            path: path.to_owned(),
            source,
        };
        let not_a_profile = |source| ViewError::NotAProfile {
            path: path.to_owned(),
            source,
        };
        let listen = |source| ViewError::Listen { port, source };
        let file = open_file(path).map_err(open)?;
        check(&file).map_err(not_a_profile)?;
        let is_compressed = is_compressed(&file).map_err(open)?;
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).map_err(listen)?;
        let address = listener.local_addr().map_err(listen)?;
        let token = new_secret().map_err(ViewError::Token)?;
        let base = format!("http://{address}/{token}");
        let file = Arc::new(file);
        let api = api.into();
        let hosts = Hosts::of(address);
        let routes = ViewRoutes {
            token,
            file,
            is_compressed,
            hosts,
            origin,
            api,
        };
        let options = ServerOptions {
            thread_name: "profiler-view",
            keep_alive: false,
            session_end: never(),
        };
        let server = HttpServer::start(listener, Arc::new(routes), options);
        Ok(Self {
            address,
            base,
            _server: server.map_err(ViewError::Thread)?,
        })
    }

    /// The address that the server listens on.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// The base address of all paths, without a slash at the end. It contains the token, which is a
    /// secret of the user.
    pub fn base(&self) -> String {
        self.base.clone()
    }
}

/// Opens a file without waiting for the writer of a pipe.
fn open_file(path: &Path) -> io::Result<File> {
    let mut options = File::options();
    options.read(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::custom_flags(&mut options, libc::O_NONBLOCK);
    options.open(path)
}
