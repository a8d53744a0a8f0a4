//! A worker: answers the requests of the front end, each in a span and in the group of its tenant.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use profiler_child::core::groups::{Group, GroupKind, InGroups};
use profiler_tracing::SpanFlow;
use tokio::io::AsyncReadExt;
use tokio::net::TcpListener;
use tracing::{Instrument, debug, info_span, instrument};

use crate::http::{self, Received};
use crate::{FLOW_HEADER, TENANTS, runtime};

/// Runs until the standard input is closed.
pub(crate) fn main(name: &str) -> Result<()> {
    // The front end may be busy with other workers.
    profiler_child::init_within(Duration::from_secs(10));
    tracing::subscriber::set_global_default(profiler_tracing::subscriber())?;
    runtime(name)?.block_on(async {
        let listener = TcpListener::bind((std::net::Ipv4Addr::LOCALHOST, 0)).await?;
        println!("{}", listener.local_addr()?);
        let groups = Arc::new(TENANTS.map(|tenant| Group::register(GroupKind::Tenant, tenant)));
        let serving = http::serve(listener, move |request| {
            answer(request, Arc::clone(&groups))
        });
        tokio::spawn(serving);
        // An error is the end of the input, too.
        let _ = tokio::io::stdin().read_u8().await;
        Ok(())
    })
}

async fn answer(request: Received, groups: Arc<[Group; TENANTS.len()]>) -> Result<String> {
    let flow = request.headers().get(FLOW_HEADER);
    let flow = flow.and_then(|text| text.to_str().ok()?.parse::<SpanFlow>().ok());
    let name = request.uri().path().trim_matches('/');
    let tenant = TENANTS.iter().position(|tenant| *tenant == name);
    let tenant = tenant.context("an unknown tenant")?;
    let group = groups.get(tenant).context("an unknown tenant")?;
    let work = async move {
        if let Some(flow) = flow {
            flow.end();
        }
        let rows = query(tenant).await;
        render(rows)
    };
    let span = info_span!("request", tenant = name);
    Ok(work.instrument(span).in_group(group).await)
}

/// Stands for a database: returns the number of the tenant's rows.
#[instrument]
async fn query(tenant: usize) -> u64 {
    tokio::time::sleep(Duration::from_millis(2)).await;
    let is_last = tenant + 1 == TENANTS.len();
    let rows = if is_last { 40_000 } else { 200 };
    debug!(rows, "found");
    rows
}

/// Uses the processor: 40,000 rows take about a tenth of a second.
#[instrument]
fn render(rows: u64) -> String {
    let row = |row: u64| (0..1_000).fold(row, |sum, number| black_box(sum.rotate_left(5) ^ number));
    format!("{:016x}", (0..rows).map(row).fold(0, |sum, row| sum ^ row))
}
