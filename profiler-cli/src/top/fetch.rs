//! Requests to a live page: minimal HTTP over loopback.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// The largest length of an answer, in bytes.
const MAX: u64 = 64 << 20;

/// The address of a live page.
#[derive(Debug)]
pub(super) struct LivePage {
    address: SocketAddr,
    host: String,
    /// The part from the first slash to the last.
    path: String,
}

impl LivePage {
    /// Parses the address of a page, as it is printed.
    pub(super) fn at(url: &str) -> Result<Self> {
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
    pub(super) fn ask(&self, path: &str, query: &[(&str, String)]) -> Result<String> {
        let pairs: Vec<String> = query
            .iter()
            .map(|(key, value)| format!("{key}={}", escape(value)))
            .collect();
        let target = format!("{}{path}?{}", self.path, pairs.join("&"));
        let answer = self
            .get(&target)
            .with_context(|| format!("{} does not answer", self.host))?;
        let (head, body) = answer
            .split_once("\r\n\r\n")
            .context("the answer is not HTTP")?;
        match head.split(' ').nth(1) {
            Some("200") => Ok(body.to_owned()),
            Some("403" | "404") => bail!("there is no live page at this address"),
            status => bail!(
                "the live page answers with status {}",
                status.unwrap_or("none")
            ),
        }
    }

    fn get(&self, target: &str) -> Result<String> {
        let mut stream = TcpStream::connect_timeout(&self.address, PATIENCE)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        // In one piece: the page does not wait long for the rest of a request.
        // HTTP/1.0: the answer ends with the connection, and is not chunked.
        let request = format!(
            "GET {target} HTTP/1.0\r\nHost: {}\r\nConnection: close\r\n\r\n",
            self.host
        );
        stream.write_all(request.as_bytes())?;
        let mut answer = String::new();
        stream.take(MAX).read_to_string(&mut answer)?;
        Ok(answer)
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
