//! The front end: the session, the workers, and the way of a request to its worker.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;

use anyhow::{Context, Result};
use profiler_parent::core::groups::{GroupKind, Probes};
use profiler_parent::{Alert, AlertRules, AlertTarget, EvidenceOptions, Session};
use profiler_tracing::SpanFlow;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::net::TcpListener;
use tokio::process::{Child, Command};
use tokio::sync::Mutex;
use tracing::{info, instrument};

use crate::http::{self, Connection, Received};
use crate::{FLOW_HEADER, TENANTS, WORKER, load, runtime};

const WORKERS: usize = 4;

/// A worker process. A worker that the front end has started ends
/// when its standard input is closed, so when this is dropped.
struct Worker {
    address: SocketAddr,
    /// Connections that no request uses.
    idle: Mutex<Vec<Connection>>,
    _process: Option<Child>,
}

/// Runs the server until the clients have sent `requests` requests, and saves a profile. Without
/// the addresses of workers, it starts workers.
pub(crate) fn main(requests: u32, workers: &[SocketAddr], out: &Path) -> Result<()> {
    tracing::subscriber::set_global_default(profiler_tracing::subscriber())?;
    let session = Session::builder().name("front end").start()?;
    let _measured = session.monitor(Probes::ALL);
    let alerts = session.alerts(AlertRules::default(), EvidenceOptions::none())?;
    alerts.add(AlertTarget::All, "the terminal", |alerts| {
        alerts.iter().for_each(show_alert)
    })?;
    let answered = runtime("front end")?.block_on(answer_clients(&session, workers, requests))?;
    println!("{answered} requests answered\n");
    show_tenants(&session);
    let saved = session.capture().save(out);
    saved.with_context(|| format!("cannot write {}", out.display()))?;
    println!(
        "\nwrote {}: open it with `profiler view` or at https://profiler.firefox.com",
        out.display()
    );
    Ok(())
}

async fn answer_clients(session: &Session, others: &[SocketAddr], requests: u32) -> Result<u32> {
    let mut workers: Vec<Worker> = others.iter().copied().map(Worker::at).collect();
    if workers.is_empty() {
        for number in 1..=WORKERS {
            workers.push(Worker::start(session, number).await?);
        }
    }
    let workers = Arc::new(workers);
    let listener = TcpListener::bind((std::net::Ipv4Addr::LOCALHOST, 0)).await?;
    let address = listener.local_addr()?;
    info!(%address, workers = workers.len(), "up");
    tokio::spawn(http::serve(listener, move |request| {
        forward(request, Arc::clone(&workers))
    }));
    load::send(address, requests).await
}

/// Answers a request with what the tenant's worker answers.
#[instrument(skip_all, fields(path = request.uri().path()))]
async fn forward(request: Received, workers: Arc<Vec<Worker>>) -> Result<String> {
    let path = request.uri().path();
    let tenant = TENANTS
        .iter()
        .position(|tenant| path.trim_matches('/') == *tenant);
    let tenant = tenant.context("an unknown tenant")?;
    let worker = workers.get(tenant % workers.len().max(1));
    let answer = worker.context("no worker")?.ask(path).await?;
    info!(bytes = answer.len(), "answered");
    Ok(answer)
}

impl Worker {
    /// A worker that runs already.
    fn at(address: SocketAddr) -> Self {
        Self {
            address,
            idle: Mutex::default(),
            _process: None,
        }
    }

    async fn start(session: &Session, number: usize) -> Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args([WORKER, &format!("worker {number}")]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        session.prepare(command.as_std_mut())?;
        let mut process = command.spawn()?;
        let output = process.stdout.take().context("the output is a pipe")?;
        let mut address = String::new();
        BufReader::new(output).read_line(&mut address).await?;
        let address = address.trim().parse();
        Ok(Self {
            _process: Some(process),
            ..Self::at(address.context("the worker has no address")?)
        })
    }

    /// Sends a request with a flow from the current span to the worker's.
    #[instrument(skip(self))]
    async fn ask(&self, path: &str) -> Result<String> {
        let idle = self.idle.lock().await.pop();
        let mut connection = match idle {
            Some(connection) => connection,
            None => Connection::to(self.address).await?,
        };
        let flow = SpanFlow::begin().map(|flow| (FLOW_HEADER, flow.to_string()));
        let answer = connection.get(path, flow).await?;
        self.idle.lock().await.push(connection);
        Ok(answer)
    }
}

fn show_alert(alert: &Alert) {
    let longest = alert.highest_ns / 1_000_000;
    println!(
        "alert: {} {:?} in {:?}: {} slow, up to {longest} ms",
        alert.kind, alert.group, alert.process_name, alert.runs
    );
}

fn show_tenants(session: &Session) {
    println!(
        "{:<10} {:>8} {:>9} {:>9}",
        "tenant", "polls", "time", "longest"
    );
    let mut groups = session.groups().merged();
    groups.retain(|group| group.kind == GroupKind::Tenant);
    groups.sort_by_key(|group| std::cmp::Reverse(group.totals.longest_ns));
    for group in groups {
        let ms = |ns: u64| format!("{} ms", ns / 1_000_000);
        let totals = &group.totals;
        println!(
            "{:<10} {:>8} {:>9} {:>9}",
            group.name,
            totals.ticks,
            ms(totals.wall_ns),
            ms(totals.longest_ns)
        );
    }
}
