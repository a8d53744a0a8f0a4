//! Requests to a live page: minimal HTTP over loopback.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// The largest length of an answer in JSON, in bytes.
const MAX: u64 = 64 << 20;
/// The largest length of the first lines of an answer.
const MAX_HEAD: u64 = 64 << 10;

/// The address of a live page.
#[derive(Debug)]
pub(crate) struct LivePage {
    address: SocketAddr,
    host: String,
    /// The part from the first slash to the last.
    path: String,
}

impl LivePage {
    /// Parses the address of a page, as it is printed.
    pub(crate) fn at(url: &str) -> Result<Self> {
        let rest = url
            .trim()
            .strip_prefix("http://")
            .context("not the address of a live page: no http://")?;
        let (host, path) = rest
            .split_once('/')
            .context("not the address of a live page: no token in it")?;
        let token = path.split('/').next().unwrap_or_default();
        ensure!(
            !token.is_empty() && token.bytes().all(|byte| byte.is_ascii_hexdigit()),
            "not the address of a live page: no token in it"
        );
        // Browsers omit port 80.
        let has_port = host
            .rsplit_once(':')
            .is_some_and(|(_, port)| port.bytes().all(|byte| byte.is_ascii_digit()));
        let host = if has_port {
            host.to_owned()
        } else {
            format!("{host}:80")
        };
        let address = host.to_socket_addrs().ok().and_then(|mut all| all.next());
        let address = address.with_context(|| format!("{host} is not an address with a port"))?;
        ensure!(address.ip().is_loopback(), "{host} is not this machine");
        Ok(Self {
            address,
            host,
            path: format!("/{token}/"),
        })
    }

    /// Requests JSON at this path of the page.
    pub(crate) fn ask(&self, path: &str, query: &[(&str, String)]) -> Result<String> {
        self.text_of(&Request::get(path, query))
    }

    /// Tells the page to do something, and returns the JSON that it answers.
    pub(crate) fn tell(&self, path: &str, query: &[(&str, String)]) -> Result<String> {
        self.text_of(&Request::post(path, query))
    }

    /// Copies the file at this path of the page to `file`.
    pub(crate) fn download(&self, path: &str, file: &mut impl Write) -> Result<()> {
        let (head, mut body) = self.send(&Request::get(path, &[]))?;
        let length = head.length().context("the answer has no length")?;
        let copied = std::io::copy(&mut body, file)?;
        ensure!(copied == length, "{} has ended before the file", self.host);
        Ok(())
    }

    fn text_of(&self, request: &Request) -> Result<String> {
        let (_, body) = self.send(request)?;
        let mut text = String::new();
        let read = body.take(MAX).read_to_string(&mut text);
        read.with_context(|| self.no_answer())?;
        Ok(text)
    }

    fn no_answer(&self) -> String {
        format!("{} does not answer", self.host)
    }

    /// Sends a request. Returns the head of the answer, and its body.
    fn send(&self, request: &Request) -> Result<(Head, BufReader<TcpStream>)> {
        let stream = self.connect(request).with_context(|| self.no_answer())?;
        let mut stream = BufReader::new(stream);
        let head = Head::read(&mut stream).with_context(|| self.no_answer())?;
        match head.status() {
            Some("200" | "202") => Ok((head, stream)),
            Some("403" | "404") => bail!("there is no live page at this address"),
            Some("409") => bail!("the live page is busy with another profile; try again"),
            status => bail!(
                "the live page answers with status {}",
                status.unwrap_or("none")
            ),
        }
    }

    fn connect(&self, request: &Request) -> std::io::Result<TcpStream> {
        let mut stream = TcpStream::connect_timeout(&self.address, PATIENCE)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let Request {
            method,
            path,
            length,
        } = request;
        // In one piece: the page does not wait long for the rest of a request.
        // HTTP/1.0: the answer ends with the connection, and is not chunked.
        let text = format!(
            "{method} {}{path} HTTP/1.0\r\nHost: {}\r\n{length}Connection: close\r\n\r\n",
            self.path, self.host
        );
        stream.write_all(text.as_bytes())?;
        Ok(stream)
    }
}

/// A request to a page.
struct Request {
    method: &'static str,
    /// With the query.
    path: String,
    /// The header with the length of the body, if the method has one.
    length: &'static str,
}

impl Request {
    fn get(path: &str, query: &[(&str, String)]) -> Self {
        Self {
            method: "GET",
            path: with_query(path, query),
            length: "",
        }
    }

    fn post(path: &str, query: &[(&str, String)]) -> Self {
        Self {
            method: "POST",
            path: with_query(path, query),
            length: "Content-Length: 0\r\n",
        }
    }
}

fn with_query(path: &str, query: &[(&str, String)]) -> String {
    let pair = |(key, value): &(&str, String)| format!("{key}={}", escape(value));
    let pairs: Vec<String> = query.iter().map(pair).collect();
    format!("{path}?{}", pairs.join("&"))
}

/// The first lines of an answer.
struct Head(Vec<String>);

impl Head {
    /// Reads them, up to the empty line.
    fn read(stream: &mut impl BufRead) -> Result<Self> {
        let mut lines = Vec::new();
        let mut limited = stream.take(MAX_HEAD);
        loop {
            let mut line = String::new();
            limited.read_line(&mut line)?;
            ensure!(line.ends_with('\n'), "the answer is not HTTP");
            match line.trim_end() {
                "" => return Ok(Self(lines)),
                line => lines.push(line.to_owned()),
            }
        }
    }

    fn status(&self) -> Option<&str> {
        self.0.first()?.split(' ').nth(1)
    }

    /// The length of the body, if the answer contains it.
    fn length(&self) -> Option<u64> {
        let mut values = self.0.iter().filter_map(|line| {
            let (name, value) = line.split_once(':')?;
            let is_length = name.eq_ignore_ascii_case("content-length");
            is_length.then(|| value.trim().parse().ok()).flatten()
        });
        values.next()
    }
}

/// Percent-encodes everything but letters, digits and `-._~`.
fn escape(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    text.bytes()
        .map(|byte| {
            if plain(byte) {
                char::from(byte).to_string()
            } else {
                format!("%{byte:02X}")
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_head_of_an_answer_ends_with_an_empty_line() {
        let mut answer = &b"HTTP/1.1 202 Accepted\r\nContent-Length: 3\r\n\r\nabc"[..];
        let head = Head::read(&mut answer).unwrap();
        assert_eq!((head.status(), head.length()), (Some("202"), Some(3)));
        assert_eq!(answer, b"abc");
        for wrong in ["", "HTTP/1.1 200 OK\r\n", "no end"] {
            assert!(Head::read(&mut wrong.as_bytes()).is_err(), "{wrong}");
        }
    }

    #[test]
    fn only_addresses_with_a_token_on_this_machine_are_taken() {
        let page = LivePage::at("http://127.0.0.1:4000/00ff/groups.json").unwrap();
        assert_eq!(
            (page.host.as_str(), page.path.as_str()),
            ("127.0.0.1:4000", "/00ff/")
        );
        for (url, host) in [
            ("http://127.0.0.1/ab/", "127.0.0.1:80"),
            ("http://[::1]/ab/", "[::1]:80"),
            ("http://[::1]:9/ab/", "[::1]:9"),
        ] {
            assert_eq!(LivePage::at(url).unwrap().host, host);
        }
        for wrong in [
            "",
            "https://127.0.0.1:1/ab/",
            "http://127.0.0.1:1",
            "http://127.0.0.1:1/",
            "http://8.8.8.8:1/ab/",
            "http://127.0.0.1/x y/",
        ] {
            assert!(LivePage::at(wrong).is_err(), "{wrong}");
        }
        assert_eq!(escape("a b&c"), "a%20b%26c");
    }
}
