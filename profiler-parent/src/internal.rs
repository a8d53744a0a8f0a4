//! Re-exports for the other crates of the workspace: the `profiler` command, tests and fuzz
//! targets.
//!
//! Not for applications, and hidden in the documentation. Invariant: every item that applications
//! need has a path outside this module.

pub mod call_tree {
    //! See `export::call_tree` in the sources: the call tree of stacks with weights.

    pub use crate::export::call_tree::*;
}

pub mod controller {
    //! See `controller` in the sources: the global controller.

    pub use crate::controller::*;
}

#[cfg(feature = "live")]
pub mod flame {
    //! See `live::flame` in the sources: the live flame graph.

    pub use crate::live::flame::ForeignSamples;
}

#[cfg(feature = "push")]
pub mod fleet_answer {
    //! See `fleet::answer` in the sources: the rows of an answer.

    pub use crate::fleet::answer::count_stacks;
}

pub mod gather {
    //! See `gather` in the sources: the capture in the Gecko format.

    pub use crate::gather::*;
}

pub mod generated_code {
    //! See `generated_code` in the sources: names of code that a process generates at run time.

    pub use crate::generated_code::*;
}

#[cfg(feature = "push")]
pub mod otlp_answer {
    //! See `push::otlp_answer` in the sources: what an OTLP endpoint has refused.

    pub use crate::push::otlp_answer::*;
}

pub mod output {
    //! See `output` in the sources: files of profiles.

    pub use crate::output::*;
}

pub mod part_file {
    //! See `part_file` in the sources: files of parts.

    pub use crate::part_file::*;
}

pub mod processed {
    //! See `processed` in the sources: the writer of the processed format.

    pub use crate::processed::*;
}

pub mod reading {
    //! See `reading` in the sources: the reader of profiles.

    pub use crate::reading::*;
}

pub mod spawn {
    //! See `spawn` in the sources: the start of a child.

    pub use crate::spawn::*;
}

pub mod symbols {
    //! See `symbols` in the sources: names of code addresses.

    pub use crate::symbols::*;
}
