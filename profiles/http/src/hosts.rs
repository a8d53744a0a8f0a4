//! The `Host` headers that a server accepts.
//!
//! Used by the services for each request. A page of another site can let its own host name resolve
//! to this machine; its requests have that name in their `Host` header. Invariant: a server accepts
//! only names of loopback, with the port on which it listens.

use std::net::SocketAddr;

use hyper::header::HOST;

use super::request::RequestHead;

/// The port that browsers omit from an address.
const USUAL_PORT: u16 = 80;

/// The `Host` headers of requests to this server.
#[derive(Debug)]
pub struct Hosts(Vec<String>);

impl Hosts {
    /// The names of a server that listens on this address.
    pub fn of(address: SocketAddr) -> Self {
        let port = address.port();
        let ip = match address {
            SocketAddr::V4(v4) => v4.ip().to_string(),
            SocketAddr::V6(v6) => format!("[{}]", v6.ip()),
        };
        let names = [ip, "localhost".to_owned()];
        let mut hosts: Vec<String> = names.iter().map(|name| format!("{name}:{port}")).collect();
        if port == USUAL_PORT {
            hosts.extend(names);
        }
        Self(hosts)
    }

    /// Whether a request has exactly one `Host` header, and it names this server.
    pub fn accept(&self, request: &RequestHead) -> bool {
        let mut hosts = request.headers().get_all(HOST).into_iter();
        let host = hosts
            .next()
            .and_then(|host| host.to_str().ok())
            .unwrap_or_default();
        self.have(host) && hosts.next().is_none()
    }

    fn have(&self, host: &str) -> bool {
        self.0.iter().any(|known| known.eq_ignore_ascii_case(host))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn l1_hosts_are_loopback_names_with_the_port_which_may_be_omitted_if_it_is_80() {
        let hosts = |address: &str| Hosts::of(address.parse().unwrap());
        let other = hosts("127.0.0.1:4000");
        assert!(other.have("127.0.0.1:4000") && other.have("LocalHost:4000"));
        let usual = hosts("127.0.0.1:80");
        assert!(
            ["127.0.0.1", "127.0.0.1:80", "localhost", "localhost:80"]
                .iter()
                .all(|host| usual.have(host))
        );
        assert!(hosts("[::1]:80").have("[::1]") && hosts("[::1]:9").have("[::1]:9"));
        for wrong in [
            "",
            "127.0.0.1",
            "localhost",
            "127.0.0.1:80",
            "evil.example:4000",
            "127.0.0.1:4000:4000",
        ] {
            assert!(!other.have(wrong), "{wrong}");
        }
        assert!(
            !usual.have("evil.example") && !usual.have("127.0.0.1:4000") && !usual.have("[::1]")
        );
    }
}
