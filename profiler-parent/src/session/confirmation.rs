//! Whether the children of a session have confirmed a command.

/// How many children have confirmed a command, such as a pause.
///
/// A child that is stopped or busy confirms later, and carries out the command later; the command
/// is not lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Confirmation {
    unconfirmed: usize,
}

impl Confirmation {
    pub(super) const fn new(unconfirmed: usize) -> Self {
        Self { unconfirmed }
    }

    /// Whether every child has confirmed.
    pub const fn is_complete(self) -> bool {
        self.unconfirmed == 0
    }

    /// The number of children that have not confirmed in time.
    pub const fn unconfirmed(self) -> usize {
        self.unconfirmed
    }
}
