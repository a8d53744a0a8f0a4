//! A cluster of two ClickHouse servers on this machine, for one test.
//!
//! `PROFILER_CLICKHOUSE` names the directory into which Debian's packages `clickhouse-server`,
//! `clickhouse-common` and their dependencies are unpacked (`dpkg -x`); without it, the server must
//! be in the search path. The servers keep their data in a temporary directory, listen on loopback
//! only, and end with the test.

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, bail, ensure};
use profiler_export::{Engine, FleetSchema, FleetTable};

use crate::installed::skip;
use crate::patience::until;

/// The directory with the unpacked packages.
const UNPACKED: &str = "PROFILER_CLICKHOUSE";
const SERVER: &str = "clickhouse-server";
/// The name of the cluster in the configuration.
const CLUSTER: &str = "fleet";
/// The database of the tables.
pub const DATABASE: &str = "profiler";

/// Two servers. The first one is asked.
#[derive(Debug)]
pub struct Cluster {
    servers: Vec<Server>,
    _directory: tempfile::TempDir,
}

#[derive(Debug)]
struct Server {
    port: u16,
    process: Child,
}

/// The ports of a server.
#[derive(Clone, Copy, Debug)]
struct Ports {
    http: u16,
    native: u16,
}

impl Cluster {
    /// Starts the servers, and creates the tables. `None` if there is no ClickHouse; the skip is
    /// reported then.
    ///
    /// # Errors
    /// When a server does not start, or refuses the tables.
    pub fn start() -> anyhow::Result<Option<Self>> {
        let unpacked = std::env::var_os(UNPACKED).map(PathBuf::from);
        let Some(program) = program(unpacked.as_deref()) else {
            skip(
                SERVER,
                &format!("neither in {UNPACKED} nor in the search path"),
            )?;
            return Ok(None);
        };
        let directory = tempfile::tempdir()?;
        let ports = [free_ports()?, free_ports()?];
        let libraries = unpacked.as_deref().map(libraries).unwrap_or_default();
        let start = |own: &Ports| {
            let place = directory.path().join(own.http.to_string());
            start_server(&program, &libraries, &place, *own, &ports)
        };
        let servers = ports.iter().map(start).collect::<anyhow::Result<_>>()?;
        let cluster = Self {
            servers,
            _directory: directory,
        };
        cluster.create_tables()?;
        Ok(Some(cluster))
    }

    fn create_tables(&self) -> anyhow::Result<()> {
        for server in &self.servers {
            ensure!(
                until(|| server.send("", b"SELECT 1").is_ok()),
                "a server does not answer"
            );
        }
        let schema = FleetSchema::new(DATABASE)?.keep_days(30, Engine::WithoutTtl);
        for statement in schema.cluster(CLUSTER)?.statements() {
            for server in &self.servers {
                server.send("", statement.as_bytes())?;
            }
        }
        Ok(())
    }

    /// The port of the first server.
    pub fn port(&self) -> u16 {
        self.servers.first().map_or(0, |server| server.port)
    }

    /// The address for `profiler fleet --from`.
    pub fn address(&self) -> String {
        format!("clickhouse://127.0.0.1:{}/{DATABASE}", self.port())
    }

    /// Executes a statement on the first server. Returns the answer.
    ///
    /// # Errors
    /// When the server refuses it.
    pub fn execute(&self, statement: &str) -> anyhow::Result<String> {
        let server = self.servers.first().context("no server")?;
        server.send(&format!("database={DATABASE}"), statement.as_bytes())
    }

    /// Inserts rows in the form `JSONEachRow` through the first server. They are on their servers
    /// when this returns.
    ///
    /// # Errors
    /// When a server refuses them.
    pub fn insert(&self, table: FleetTable, rows: &[u8]) -> anyhow::Result<()> {
        let server = self.servers.first().context("no server")?;
        let statement = table.insert_statement().replace(' ', "+");
        let query = format!("database={DATABASE}&insert_distributed_sync=1&query={statement}");
        server.send(&query, rows).map(drop)
    }

    /// The number of rows that each server has in its own part of a table.
    ///
    /// # Errors
    /// When a server does not answer.
    pub fn local_rows(&self, table: FleetTable) -> anyhow::Result<Vec<u64>> {
        let statement = format!("SELECT count() FROM {DATABASE}.{}_local", table.name());
        let count = |server: &Server| {
            let answer = server.send("", statement.as_bytes())?;
            Ok(answer.trim().parse()?)
        };
        self.servers.iter().map(count).collect()
    }
}

/// For programs that measure.
impl Cluster {
    /// The address to which a host with this number pushes. Neighbours push to different servers.
    pub fn push_address(&self, host: usize) -> String {
        let at = host % self.servers.len().max(1);
        let port = self.servers.get(at).map_or(0, |server| server.port);
        format!("clickhouse+http://127.0.0.1:{port}/{DATABASE}")
    }

    /// Executes a statement on each server. Returns the answers.
    ///
    /// # Errors
    /// When a server refuses it.
    pub fn execute_on_each(&self, statement: &str) -> anyhow::Result<Vec<String>> {
        let query = format!("database={DATABASE}");
        let send = |server: &Server| server.send(&query, statement.as_bytes());
        self.servers.iter().map(send).collect()
    }

    /// The processes of the servers.
    pub fn processes(&self) -> Vec<u32> {
        self.servers
            .iter()
            .map(|server| server.process.id())
            .collect()
    }
}

impl Server {
    /// Posts a body. HTTP 1.0 has no chunks, so the answer ends with the connection.
    fn send(&self, query: &str, body: &[u8]) -> anyhow::Result<String> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port))?;
        let length = body.len();
        write!(
            stream,
            "POST /?{query} HTTP/1.0\r\nContent-Length: {length}\r\n\r\n"
        )?;
        stream.write_all(body)?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        let (head, body) = answer.split_once("\r\n\r\n").context("no answer")?;
        if !head.contains(" 200 ") || body.starts_with("Code: ") {
            bail!("{body}");
        }
        Ok(body.to_owned())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended by itself.
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

/// The program of the server.
fn program(unpacked: Option<&Path>) -> Option<PathBuf> {
    let directories: Vec<PathBuf> = match unpacked {
        Some(root) => ["usr/sbin", "usr/bin"]
            .map(|inside| root.join(inside))
            .into(),
        None => std::env::split_paths(&std::env::var_os("PATH")?).collect(),
    };
    let mut programs = directories.iter().map(|directory| directory.join(SERVER));
    programs.find(|program| program.is_file())
}

/// The directories with the libraries of unpacked packages.
fn libraries(unpacked: &Path) -> String {
    let inside = ["usr/lib", "lib"].map(|inside| unpacked.join(inside));
    let entries = inside
        .iter()
        .filter_map(|directory| fs::read_dir(directory).ok());
    let directories = entries.flat_map(|entries| entries.flatten().map(|entry| entry.path()));
    let directories: Vec<String> = directories
        .filter(|path| path.is_dir())
        .map(|path| path.to_string_lossy().into_owned())
        .collect();
    directories.join(":")
}

/// Ports that were free a moment ago.
fn free_ports() -> anyhow::Result<Ports> {
    let listeners = [
        TcpListener::bind("127.0.0.1:0")?,
        TcpListener::bind("127.0.0.1:0")?,
    ];
    let [http, native] = &listeners;
    Ok(Ports {
        http: http.local_addr()?.port(),
        native: native.local_addr()?.port(),
    })
}

fn start_server(
    program: &Path,
    libraries: &str,
    place: &Path,
    own: Ports,
    all: &[Ports],
) -> anyhow::Result<Server> {
    fs::create_dir_all(place)?;
    let config = place.join("config.xml");
    fs::write(&config, configuration(place, own, all))?;
    fs::write(place.join("users.xml"), USERS)?;
    let mut command = Command::new(program);
    command.arg(format!("--config-file={}", config.display()));
    if !libraries.is_empty() {
        command.env("LD_LIBRARY_PATH", libraries);
    }
    let quiet = command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    Ok(Server {
        port: own.http,
        process: quiet.spawn()?,
    })
}

fn configuration(place: &Path, own: Ports, all: &[Ports]) -> String {
    let shard = |ports: &Ports| {
        let port = ports.native;
        format!("<shard><replica><host>127.0.0.1</host><port>{port}</port></replica></shard>")
    };
    let shards: String = all.iter().map(shard).collect();
    let (place, Ports { http, native }) = (place.display(), own);
    format!(
        "<yandex><logger><level>warning</level><log>{place}/log</log><errorlog>{place}/err</errorlog></logger>
        <http_port>{http}</http_port><tcp_port>{native}</tcp_port><listen_host>127.0.0.1</listen_host>
        <path>{place}/data/</path><tmp_path>{place}/tmp/</tmp_path><mark_cache_size>67108864</mark_cache_size>
        <users_config>{place}/users.xml</users_config><default_profile>default</default_profile>
        <default_database>default</default_database>
        <remote_servers><{CLUSTER}>{shards}</{CLUSTER}></remote_servers></yandex>"
    )
}

const USERS: &str = "<yandex><profiles><default/></profiles><users><default><password></password>
    <networks><ip>127.0.0.1</ip></networks><profile>default</profile><quota>default</quota></default></users>
    <quotas><default/></quotas></yandex>";
