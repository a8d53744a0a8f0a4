//! The client's side of one connection, and a server's loop, over hyper.

use std::convert::Infallible;
use std::future::Future;
use std::net::SocketAddr;

use anyhow::{Result, bail};
use http_body_util::{BodyExt, Empty, Full};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};

/// A request that a server has received.
pub(crate) type Received = Request<Incoming>;

/// A connection to a server.
pub(crate) struct Connection(SendRequest<Empty<Bytes>>);

impl Connection {
    /// Connects to a server.
    pub(crate) async fn to(address: SocketAddr) -> Result<Self> {
        let stream = TcpStream::connect(address).await?;
        let (sender, connection) = handshake(TokioIo::new(stream)).await?;
        tokio::spawn(connection);
        Ok(Self(sender))
    }

    /// Sends a request for `path`, with a header, and returns the answer's text.
    pub(crate) async fn get(
        &mut self,
        path: &str,
        header: Option<(&str, String)>,
    ) -> Result<String> {
        let mut request = Request::get(path).header(hyper::header::HOST, "localhost");
        if let Some((name, value)) = header {
            request = request.header(name, value);
        }
        self.0.ready().await?;
        let answer = self.0.send_request(request.body(Empty::new())?).await?;
        if !answer.status().is_success() {
            bail!("{path}: {}", answer.status());
        }
        let body = answer.into_body().collect().await?.to_bytes();
        Ok(String::from_utf8_lossy(&body).into_owned())
    }
}

/// Answers the requests of all connections with the text that `answer` returns, or with an error.
pub(crate) async fn serve<F, A>(listener: TcpListener, answer: F) -> Result<()>
where
    F: Fn(Received) -> A + Clone + Send + 'static,
    A: Future<Output = Result<String>> + Send + 'static,
{
    loop {
        let (stream, _) = listener.accept().await?;
        let answer = answer.clone();
        let service = service_fn(move |request| {
            let answer = answer(request);
            async move { Ok::<_, Infallible>(response(answer.await)) }
        });
        let connection = http1::Builder::new().serve_connection(TokioIo::new(stream), service);
        tokio::spawn(connection);
    }
}

fn response(answer: Result<String>) -> Response<Full<Bytes>> {
    let (status, text) = match answer {
        Ok(text) => (200, text),
        Err(error) => (500, format!("{error:#}")),
    };
    let mut response = Response::new(Full::from(text));
    *response.status_mut() = status.try_into().unwrap_or_default();
    response
}
