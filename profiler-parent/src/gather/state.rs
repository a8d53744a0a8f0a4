//! The waits of a capture, as a pure state machine: no clock, channel or file.
//!
//! The capture drives the machine. It asks every child for its part, creates the machine, feeds it
//! the inputs and carries out the outputs. It calls [`Gather::step`] again at
//! [`Gather::next_wakeup`] at the latest. Invariants:
//!
//! - The wait for a child ends exactly once: its part is accepted, or the child is given up. An
//!   accepted part can still be rejected.
//! - A child that makes progress is waited for until the deadline, regardless of the others. A
//!   child that makes none is given up after the progress timeout, without effect on the others.
//! - At most one progress request per child is unanswered.
//! - Inputs from a child that was given up change nothing. Neither does the end of a child whose
//!   part was accepted.
//! - After the deadline no child is waited for.
//!
//! A closed channel alone does not end the wait: usually the child is dying, so the machine waits
//! for the report of its death for at most [`DEATH_NEWS`].
//!
//! A child makes progress when its proportion exceeds all its previous ones, or when its location
//! changes. So a child that alternates between two locations is waited for until the deadline, and
//! no longer.

use std::collections::BTreeMap;
use std::time::Duration;

use ipc_protocol::message::{GatherOutcome, Proportion};

use super::verdict::Why;

/// How long the report of a child's death is waited for after the child's channel has closed.
pub(crate) const DEATH_NEWS: Millis = Millis::new(250);

/// A point on the driver's clock, or a duration, in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Millis(u64);

impl Millis {
    /// Wraps the bare number.
    pub(crate) const fn new(value: u64) -> Self {
        Self(value)
    }

    /// The bare number.
    pub(crate) const fn get(self) -> u64 {
        self.0
    }

    /// The point `span` after `self`.
    #[must_use]
    pub(crate) const fn after(self, span: Self) -> Self {
        Self(self.0.saturating_add(span.0))
    }
}

impl From<Duration> for Millis {
    fn from(duration: Duration) -> Self {
        Self(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX))
    }
}

impl From<Millis> for Duration {
    fn from(millis: Millis) -> Self {
        Self::from_millis(millis.0)
    }
}

/// The time limits of a capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Patience {
    /// Time between a progress answer and the next request.
    pub(crate) ask_every: Millis,
    /// Longest time without progress of a child.
    pub(crate) progress_timeout: Millis,
    /// Longest time of the whole capture.
    pub(crate) deadline: Millis,
}

impl Default for Patience {
    fn default() -> Self {
        Self {
            ask_every: Millis::new(250),
            progress_timeout: Millis::new(5_000),
            deadline: Millis::new(60_000),
        }
    }
}

/// An input of the machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Input<K> {
    /// A child reports its progress.
    Progress {
        /// The child.
        child: K,
        /// Its proportion; an invalid one is not progress.
        proportion: Proportion,
        /// The part of the profile that it is writing.
        location: String,
    },
    /// A child reports the outcome of its writing.
    Profile {
        /// The child.
        child: K,
        /// The outcome.
        outcome: GatherOutcome,
    },
    /// A child ended.
    Died {
        /// The child.
        child: K,
        /// How it ended.
        why: Why,
    },
    /// A child's channel closed. If the child is dead, [`Input::Died`] follows.
    HungUp {
        /// The child.
        child: K,
        /// How the channel ended.
        message: String,
    },
    /// A child's output is not a part of a profile. May also be fed after the part was accepted.
    Rejected {
        /// The child.
        child: K,
        /// The error in it.
        message: String,
    },
    /// Time passed.
    Tick,
}

/// A command for the driver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Output<K> {
    /// Ask the child for its progress.
    RequestProgress(K),
    /// Check the child's part file and take it. If it is invalid: [`Input::Rejected`].
    Accept(K),
    /// Cancel the child's work and read its memory instead.
    GiveUp {
        /// The child.
        child: K,
        /// The reason.
        why: Why,
    },
    /// No child is waited for any more. Emitted once.
    Finished,
}

/// The waits of one capture.
#[derive(Clone, Debug)]
pub(crate) struct Gather<K> {
    patience: Patience,
    started: Millis,
    now: Millis,
    children: BTreeMap<K, Standing>,
    finished: bool,
}

/// The state of a child.
#[derive(Clone, Debug)]
enum Standing {
    Waiting(Waiting),
    Accepted,
    GivenUp,
}

/// The progress of a child that is waited for.
#[derive(Clone, Debug)]
struct Waiting {
    /// Its highest proportion so far.
    best: Proportion,
    location: String,
    /// When it last made progress.
    moved: Millis,
    /// When it was last asked for its progress, at first when it was asked for its part.
    asked: Millis,
    /// Whether a progress request is unanswered.
    outstanding: bool,
    /// When and how its channel closed.
    hung_up: Option<(Millis, String)>,
}

impl<K: Clone + Ord> Gather<K> {
    /// Begins to wait for `children`, which were asked for their parts at `now`. Feed it
    /// [`Input::Tick`] at once: if there are no children, the machine finishes then.
    pub(crate) fn new(
        now: Millis,
        patience: Patience,
        children: impl IntoIterator<Item = K>,
    ) -> Self {
        let waiting = Waiting {
            best: Proportion::ZERO,
            location: String::new(),
            moved: now,
            asked: now,
            outstanding: false,
            hung_up: None,
        };
        let children = children
            .into_iter()
            .map(|child| (child, Standing::Waiting(waiting.clone())))
            .collect();
        Self {
            patience,
            started: now,
            now,
            children,
            finished: false,
        }
    }

    /// Processes an input at `now`, and returns the commands. If the clock goes back, the latest
    /// time counts.
    pub(crate) fn step(&mut self, now: Millis, input: Input<K>) -> Vec<Output<K>> {
        self.now = self.now.max(now);
        let mut outputs: Vec<_> = self.take_in(input).into_iter().collect();
        self.judge_time(&mut outputs);
        if !self.finished && self.waiting().next().is_none() {
            self.finished = true;
            outputs.push(Output::Finished);
        }
        outputs
    }

    /// When to call [`Self::step`] at the latest; `None` once finished.
    pub(crate) fn next_wakeup(&self) -> Option<Millis> {
        let of_child = |child: &Waiting| match (&child.hung_up, child.outstanding) {
            (Some((at, _)), _) => child.gives_up(&self.patience).min(at.after(DEATH_NEWS)),
            (None, true) => child.gives_up(&self.patience),
            (None, false) => child
                .gives_up(&self.patience)
                .min(child.asks(&self.patience)),
        };
        Some(
            self.waiting()
                .map(|(_, child)| of_child(child))
                .min()?
                .min(self.deadline()),
        )
    }

    /// The children still waited for.
    #[cfg(test)]
    fn pending(&self) -> impl Iterator<Item = &K> {
        self.waiting().map(|(key, _)| key)
    }

    /// Whether no child is waited for any more, and [`Output::Finished`] was returned.
    #[cfg(test)]
    const fn is_finished(&self) -> bool {
        self.finished
    }

    const fn deadline(&self) -> Millis {
        self.started.after(self.patience.deadline)
    }

    fn waiting(&self) -> impl Iterator<Item = (&K, &Waiting)> {
        self.children
            .iter()
            .filter_map(|(key, standing)| match standing {
                Standing::Waiting(waiting) => Some((key, waiting)),
                _ => None,
            })
    }

    fn take_in(&mut self, input: Input<K>) -> Option<Output<K>> {
        match input {
            Input::Progress {
                child,
                proportion,
                location,
            } => {
                if let Some(Standing::Waiting(waiting)) = self.children.get_mut(&child) {
                    waiting.answer(self.now, proportion, location);
                }
                None
            }
            Input::Profile {
                child,
                outcome: GatherOutcome::Written { .. },
            } => self.accept(child),
            Input::Profile {
                child,
                outcome: GatherOutcome::Failed(message),
            } => self.give_up_waiting(child, Why::Refused { message }),
            Input::Died { child, why } => self.give_up_waiting(child, why),
            Input::HungUp { child, message } => {
                if let Some(Standing::Waiting(waiting)) = self.children.get_mut(&child) {
                    waiting.hung_up.get_or_insert((self.now, message));
                }
                None
            }
            Input::Rejected { child, message } => self.reject(child, message),
            Input::Tick => None,
        }
    }

    fn accept(&mut self, child: K) -> Option<Output<K>> {
        let standing = self.children.get_mut(&child)?;
        if !matches!(standing, Standing::Waiting(_)) {
            return None;
        }
        *standing = Standing::Accepted;
        Some(Output::Accept(child))
    }

    fn give_up_waiting(&mut self, child: K, why: Why) -> Option<Output<K>> {
        let standing = self.children.get_mut(&child)?;
        if !matches!(standing, Standing::Waiting(_)) {
            return None;
        }
        *standing = Standing::GivenUp;
        Some(Output::GiveUp { child, why })
    }

    /// Rejects a part, which may have been accepted before.
    fn reject(&mut self, child: K, message: String) -> Option<Output<K>> {
        let standing = self.children.get_mut(&child)?;
        if matches!(standing, Standing::GivenUp) {
            return None;
        }
        *standing = Standing::GivenUp;
        Some(Output::GiveUp {
            child,
            why: Why::Refused { message },
        })
    }

    fn judge_time(&mut self, outputs: &mut Vec<Output<K>>) {
        let now = self.now;
        let patience = self.patience;
        let deadline = self.deadline();
        for (child, standing) in &mut self.children {
            let Standing::Waiting(waiting) = standing else {
                continue;
            };
            let why = match waiting.gives_up(&patience) {
                frozen if frozen < deadline && frozen <= now => Some(Why::Frozen),
                _ if deadline <= now => Some(Why::Late),
                _ => None,
            };
            let why = if waiting.is_lost(now) {
                Some(Why::Gone)
            } else {
                why
            };
            // A closed channel is a more precise reason than a timeout.
            let hung_up = why.as_ref().and_then(|_| waiting.hung_up.take());
            let why = hung_up.map(|(_, message)| Why::Refused { message }).or(why);
            if let Some(why) = why {
                outputs.push(Output::GiveUp {
                    child: child.clone(),
                    why,
                });
                *standing = Standing::GivenUp;
            } else if waiting.ask(now, &patience) {
                outputs.push(Output::RequestProgress(child.clone()));
            }
        }
    }
}

impl Waiting {
    const fn gives_up(&self, patience: &Patience) -> Millis {
        self.moved.after(patience.progress_timeout)
    }

    const fn asks(&self, patience: &Patience) -> Millis {
        self.asked.after(patience.ask_every)
    }

    /// Whether its channel closed at least [`DEATH_NEWS`] ago: the child is not dying, but refuses.
    fn is_lost(&self, now: Millis) -> bool {
        self.hung_up
            .as_ref()
            .is_some_and(|(at, _)| at.after(DEATH_NEWS) <= now)
    }

    /// Whether to ask now; if so, notes it as asked.
    fn ask(&mut self, now: Millis, patience: &Patience) -> bool {
        let due = !self.outstanding && self.hung_up.is_none() && self.asks(patience) <= now;
        if due {
            (self.asked, self.outstanding) = (now, true);
        }
        due
    }

    fn answer(&mut self, now: Millis, proportion: Proportion, location: String) {
        self.outstanding = false;
        if !proportion.is_valid() {
            return;
        }
        if proportion > self.best || location != self.location {
            self.moved = now;
        }
        self.best = self.best.max(proportion);
        self.location = location;
    }
}

#[cfg(test)]
mod tests;
