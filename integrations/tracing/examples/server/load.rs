//! The clients: several connections, each of which sends its requests one after the other.

use std::net::SocketAddr;

use anyhow::Result;
use tokio::task::JoinSet;

use crate::TENANTS;
use crate::http::Connection;

const CLIENTS: u32 = 8;
/// One request in this many is for the last tenant, whose requests are expensive.
const EXPENSIVE: u32 = 50;

/// Sends `requests` requests; returns how many were answered.
pub(crate) async fn send(address: SocketAddr, requests: u32) -> Result<u32> {
    let mut clients = JoinSet::new();
    for client in 0..CLIENTS {
        clients.spawn(async move {
            let mut connection = Connection::to(address).await?;
            let mut answered = 0;
            for number in (client..requests).step_by(CLIENTS as usize) {
                connection
                    .get(&format!("/{}", tenant_of(number)), None)
                    .await?;
                answered += 1;
            }
            anyhow::Ok(answered)
        });
    }
    let mut answered = 0;
    while let Some(client) = clients.join_next().await {
        answered += client??;
    }
    Ok(answered)
}

fn tenant_of(number: u32) -> &'static str {
    let others = TENANTS.len() as u32 - 1;
    let place = if number % EXPENSIVE == EXPENSIVE - 1 {
        others
    } else {
        number % others
    };
    TENANTS[place as usize]
}
