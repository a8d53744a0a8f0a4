//! The connections of TCP, from `/proc/net/tcp` and `/proc/net/tcp6`.
//!
//! Used by `resolver`. The two ends of a connection on this machine are two rows with exchanged
//! addresses.

use std::collections::HashMap;
use std::fmt::Write;
use std::fs;

/// The maximum number of rows that are read of each table.
const MAX_ROWS: usize = 100_000;

/// The first port that the system gives to clients, by its usual setting.
const FIRST_OF_CLIENTS: u16 = 32_768;

/// The other end of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TcpPeer {
    /// A socket on this machine, by its inode.
    Here(u64),
    /// An address.
    Elsewhere(String),
}

/// All connections at one instant.
#[derive(Debug, Default)]
pub(crate) struct TcpConnections {
    addresses: HashMap<u64, (String, String)>,
    inodes: HashMap<(String, String), u64>,
    /// The sockets that listen, by their addresses.
    listeners: HashMap<String, u64>,
}

/// The state of a socket that listens, in the tables.
const LISTENS: &str = "0A";

impl TcpConnections {
    /// Reads the tables.
    pub(crate) fn read() -> Self {
        let mut all = Self::default();
        for name in ["/proc/net/tcp", "/proc/net/tcp6"] {
            all.add(&fs::read_to_string(name).unwrap_or_default());
        }
        all
    }

    fn add(&mut self, table: &str) {
        for row in table.lines().skip(1).take(MAX_ROWS) {
            let mut fields = row.split_ascii_whitespace();
            let (local, remote) = (fields.nth(1), fields.next());
            let state = fields.next();
            let inode = fields.nth(5).and_then(|inode| inode.parse().ok());
            let (Some(local), Some(remote), Some(inode)) = (local, remote, inode) else {
                continue;
            };
            if state == Some(LISTENS) {
                self.listeners.insert(unmapped(local), inode);
            }
            let pair = (unmapped(local), unmapped(remote));
            self.inodes.insert(pair.clone(), inode);
            self.addresses.insert(inode, pair);
        }
    }

    /// Whether the socket was in a table.
    pub(crate) fn contains(&self, inode: u64) -> bool {
        self.addresses.contains_key(&inode)
    }

    /// The other end of the connection of a socket. `None` if the socket has none.
    pub(crate) fn peer(&self, inode: u64) -> Option<TcpPeer> {
        let (local, remote) = self.addresses.get(&inode)?;
        match self.inodes.get(&(remote.clone(), local.clone())) {
            // The connection is not accepted yet.
            Some(0) => return Some(TcpPeer::Here(self.listener(remote).unwrap_or(0))),
            Some(inode) => return Some(TcpPeer::Here(*inode)),
            None => {}
        }
        let is_connected = !remote.ends_with(":0000");
        is_connected.then(|| TcpPeer::Elsewhere(shown(remote).unwrap_or_else(|| remote.clone())))
    }
}

impl TcpConnections {
    /// The socket that listens at an address, or at all addresses of the machine.
    fn listener(&self, address: &str) -> Option<u64> {
        const ANY: [&str; 2] = ["00000000", "00000000000000000000000000000000"];
        let (_, port) = address.split_once(':')?;
        let any = ANY.iter().map(|any| format!("{any}:{port}"));
        let mut all = std::iter::once(address.to_owned()).chain(any);
        all.find_map(|address| self.listeners.get(&address).copied())
    }
}

/// An address of the table, without the prefix of an IPv4 address in the table of IPv6: the two
/// ends of a connection may be in different tables.
fn unmapped(address: &str) -> String {
    const MAPPED: &str = "0000000000000000FFFF0000";
    address.strip_prefix(MAPPED).unwrap_or(address).to_owned()
}

/// An address in the usual notation.
fn shown(address: &str) -> Option<String> {
    let (host, port) = address.split_once(':')?;
    let port = u16::from_str_radix(port, 16).ok()?;
    // The port of a client says nothing, and each connection has another one.
    let port = if port < FIRST_OF_CLIENTS {
        format!(":{port}")
    } else {
        String::new()
    };
    let word = |at: usize| u32::from_str_radix(host.get(at..at + 8)?, 16).ok();
    let mut text = String::new();
    match host.len() {
        8 => {
            let host = std::net::Ipv4Addr::from(word(0)?.swap_bytes());
            write!(text, "{host}{port}").ok()?;
        }
        32 => {
            let words = [word(0)?, word(8)?, word(16)?, word(24)?];
            let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
            let host = std::net::Ipv6Addr::from(<[u8; 16]>::try_from(bytes).ok()?);
            match host.to_ipv4_mapped() {
                Some(host) => write!(text, "{host}{port}").ok()?,
                None => write!(text, "[{host}]{port}").ok()?,
            }
        }
        _ => return None,
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const TABLE: &str = "\
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 10 1 0
   1: 0100007F:1F90 0100007F:C350 01 00000000:00000000 00:00000000 00000000     0        0 11 1 0
   2: 0100007F:C350 0100007F:1F90 01 00000000:00000000 00:00000000 00000000     0        0 12 1 0
   3: 0100007F:C351 08080808:0035 01 00000000:00000000 00:00000000 00000000     0        0 13 1 0
";

    #[test]
    fn a_connection_on_this_machine_has_two_ends() {
        let mut all = TcpConnections::default();
        all.add(TABLE);
        assert_eq!(all.peer(11), Some(TcpPeer::Here(12)));
        assert_eq!(all.peer(12), Some(TcpPeer::Here(11)));
        assert_eq!(
            all.peer(13),
            Some(TcpPeer::Elsewhere("8.8.8.8:53".to_owned()))
        );
        assert_eq!(all.peer(10), None, "it listens");
        assert_eq!(all.peer(99), None);
    }

    #[test]
    fn a_connection_that_is_not_accepted_yet_waits_for_the_socket_that_listens() {
        let table = |listens: &str, accepted: u32| {
            format!(
                "\
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: {listens}:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 10 1 0
   1: 0100007F:1F90 0100007F:C350 01 00000000:00000000 00:00000000 00000000     0        0 {accepted} 1 0
   2: 0100007F:C350 0100007F:1F90 01 00000000:00000000 00:00000000 00000000     0        0 12 1 0
"
            )
        };
        for listens in ["0100007F", "00000000"] {
            let mut all = TcpConnections::default();
            all.add(&table(listens, 0));
            assert_eq!(all.peer(12), Some(TcpPeer::Here(10)), "{listens}");
        }
        let mut accepted = TcpConnections::default();
        accepted.add(&table("00000000", 11));
        assert_eq!(accepted.peer(12), Some(TcpPeer::Here(11)));
    }

    #[test]
    fn addresses_are_shown_as_people_write_them() {
        let local = "00000000000000000000000001000000:0050";
        assert_eq!(shown(local).as_deref(), Some("[::1]:80"));
        let mapped = "0000000000000000FFFF00000100007F:0050";
        assert_eq!(shown(mapped).as_deref(), Some("127.0.0.1:80"));
        assert_eq!(shown("0100007F"), None);
    }

    proptest! {
        #[test]
        fn any_table_is_accepted(table in ".*", address in "[0-9A-F:]{0,40}") {
            let mut all = TcpConnections::default();
            all.add(&table);
            let _ = shown(&address);
        }
    }
}
