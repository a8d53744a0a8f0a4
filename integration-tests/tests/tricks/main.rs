//! What a hostile child can send, over both transports between processes: each packet costs that
//! child its channel at most, and never the process, its memory or its descriptors.
//!
//! Some of these would abort, hang or blow up a process that believes packets, so every one is tried in a
//! process of its own: the program starts itself again per transport and trick, and waits for its end
//! only so long. The child of the tried parent is played by the same process, by hand.

mod table;

fn main() -> anyhow::Result<()> {
    table::main()
}
