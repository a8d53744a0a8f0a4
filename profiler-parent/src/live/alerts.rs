//! The latest alerts, numbered. The page uses the numbers to request new alerts and evidence.

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
pub(crate) struct AlertBook(Mutex<Book>);

#[derive(Debug, Default)]
struct Book {
    count: u64,
    latest: VecDeque<Numbered>,
}

impl AlertBook {
    fn lock(&self) -> MutexGuard<'_, Book> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds alerts.
    pub(super) fn add(&self, alerts: &[Alert]) {
        let mut book = self.lock();
        for alert in alerts {
            book.count += 1;
            let number = book.count;
            book.latest.push_back(Numbered { number, alert: alert.clone() });
        }
        while book.latest.len() > KEPT {
            book.latest.pop_front();
        }
    }

    /// The alerts with a higher number, the latest first.
    pub(super) fn after(&self, number: u64) -> Vec<Numbered> {
        let book = self.lock();
        book.latest.iter().rev().take_while(|one| one.number > number).cloned().collect()
    }

    /// The alert with this number, if it is still kept.
    pub(super) fn get(&self, number: u64) -> Option<Alert> {
        self.lock().latest.iter().find(|one| one.number == number).map(|one| one.alert.clone())
    }
}
