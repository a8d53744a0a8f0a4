//! A message from a parent to a child, over the transport for tests.

use ipc_protocol::message::{RequestId, ToChild};
use ipc_protocol::transport::in_process;

fn main() -> anyhow::Result<()> {
    let (mut parent, mut child) = in_process::pair();
    parent.sender.send(&ToChild::Pause {
        request: RequestId::new(1),
    })?;
    println!("{:?}", child.receiver.recv()?);
    Ok(())
}
