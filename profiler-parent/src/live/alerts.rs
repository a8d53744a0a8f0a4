//! The latest alerts, numbered. The page uses the numbers to request new alerts and evidence.
//!
//! Filled by a listener of the alerts, read by [`super::routes`]. Invariant: the number of kept
//! alerts is bounded.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::Serialize;

use crate::alerts::Alert;

/// Limit on the alerts that are kept.
const KEPT: usize = 200;

/// An alert with its number.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Numbered {
    number: u64,
    #[serde(flatten)]
    pub(super) alert: Alert,
}

/// The latest alerts of a session.
#[derive(Debug, Default)]
pub(crate) struct AlertLog(Mutex<AlertLogEntries>);

#[derive(Debug, Default)]
struct AlertLogEntries {
    count: u64,
    latest: VecDeque<Numbered>,
}

impl AlertLog {
    fn lock(&self) -> MutexGuard<'_, AlertLogEntries> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds alerts.
    pub(super) fn add(&self, alerts: &[Alert]) {
        let mut entries = self.lock();
        for alert in alerts {
            entries.count += 1;
            let number = entries.count;
            entries.latest.push_back(Numbered {
                number,
                alert: alert.clone(),
            });
        }
        while entries.latest.len() > KEPT {
            entries.latest.pop_front();
        }
    }

    /// The alerts with a higher number, the latest first.
    pub(super) fn after(&self, number: u64) -> Vec<Numbered> {
        let entries = self.lock();
        entries
            .latest
            .iter()
            .rev()
            .take_while(|one| one.number > number)
            .cloned()
            .collect()
    }

    /// The alert with this number, if it is still kept.
    pub(super) fn get(&self, number: u64) -> Option<Alert> {
        self.lock()
            .latest
            .iter()
            .find(|one| one.number == number)
            .map(|one| one.alert.clone())
    }
}
