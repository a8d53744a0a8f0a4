//! The series of captures that each destination of a session has got.
//!
//! One per session. A pusher that follows another one to the same destination continues its series,
//! so the destination does not get entries twice. Invariants: at most one pusher of a session uses
//! an address; a series changes together with the spool, so it has a batch exactly if the spool has
//! got it; the memory is bounded by the addresses and by the processes of their series.

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::error::PushError;
use profiler_parent::internal::pushers::CaptureSeries;

/// The series of all destinations. See the head of this file.
#[derive(Debug, Default)]
pub(crate) struct DestinationSeries(Mutex<HashMap<String, AddressSeries>>);

/// What an address has got.
#[derive(Debug, Default)]
struct AddressSeries {
    /// `None` before the first batch.
    series: Option<Arc<CaptureSeries>>,
    /// A pusher uses the address.
    is_used: bool,
}

/// The addresses of a pusher. Its captures are published here.
#[derive(Debug, Default)]
pub(super) struct PushedAddresses {
    all: Arc<DestinationSeries>,
    addresses: Vec<String>,
}

/// Frees the addresses of a pusher when it is dropped.
#[derive(Debug)]
pub(super) struct UsedAddresses(Arc<PushedAddresses>);

impl DestinationSeries {
    fn lock(&self) -> MutexGuard<'_, HashMap<String, AddressSeries>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes these addresses for a pusher, and returns the series that it continues.
    ///
    /// # Errors
    /// Another pusher uses one of them, or they have got different parts of the data.
    pub(super) fn take(
        self: &Arc<Self>,
        addresses: Vec<String>,
    ) -> Result<(UsedAddresses, CaptureSeries), PushError> {
        let mut all = self.lock();
        let series = series_of(&all, &addresses)?;
        for address in &addresses {
            all.entry(address.clone()).or_default().is_used = true;
        }
        drop(all);
        let all = Arc::clone(self);
        let used = UsedAddresses(Arc::new(PushedAddresses { all, addresses }));
        let series = series.map(|series| CaptureSeries::clone(&series));
        Ok((used, series.unwrap_or_default()))
    }
}

/// The series that a pusher to these addresses continues, if it continues one.
fn series_of(
    all: &HashMap<String, AddressSeries>,
    addresses: &[String],
) -> Result<Option<Arc<CaptureSeries>>, PushError> {
    let mut found: Option<&Arc<CaptureSeries>> = None;
    for address in addresses {
        let refused = |reason| PushError::Address {
            address: address.clone(),
            reason,
        };
        let Some(known) = all.get(address) else {
            continue;
        };
        if known.is_used {
            return Err(refused("another pusher of this session sends to it"));
        }
        match (found, &known.series) {
            (Some(first), Some(series)) if !Arc::ptr_eq(first, series) => {
                return Err(refused(
                    "it has got another part of the data than another destination of this pusher",
                ));
            }
            (None, Some(series)) => found = Some(series),
            _ => {}
        }
    }
    Ok(found.cloned())
}

impl UsedAddresses {
    /// Where the pusher publishes its captures.
    pub(super) fn addresses(&self) -> Arc<PushedAddresses> {
        Arc::clone(&self.0)
    }
}

impl Drop for UsedAddresses {
    fn drop(&mut self) {
        let mut all = self.0.all.lock();
        for address in &self.0.addresses {
            if let Some(one) = all.get_mut(address) {
                one.is_used = false;
            }
        }
    }
}

impl PushedAddresses {
    /// Adds a batch to the spool with `add`. The addresses then have this series.
    ///
    /// # Errors
    /// That of `add`; the addresses keep their series.
    pub(super) fn publish(
        &self,
        series: &CaptureSeries,
        add: impl FnOnce() -> io::Result<()>,
    ) -> io::Result<()> {
        let mut all = self.all.lock();
        add()?;
        let series = Arc::new(series.clone());
        for address in &self.addresses {
            if let Some(one) = all.get_mut(address) {
                one.series = Some(Arc::clone(&series));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use profiler_core::ids::{PoolId, ProcessId};

    use super::*;

    type Taken = Result<(UsedAddresses, CaptureSeries), PushError>;

    fn take(all: &Arc<DestinationSeries>, addresses: &[&str]) -> Taken {
        all.take(addresses.iter().map(|&one| one.to_owned()).collect())
    }

    /// A pusher to these addresses adds a batch and ends. Returns the number of batches before it.
    fn push(all: &Arc<DestinationSeries>, addresses: &[&str]) -> u32 {
        let (used, mut series) = take(all, addresses).unwrap();
        // Each batch has a further process of one number.
        let before = series.life_of(PoolId::new(0), ProcessId::new(1));
        series.forget(PoolId::new(0));
        used.addresses().publish(&series, || Ok(())).unwrap();
        before
    }

    #[test]
    fn an_address_is_used_by_one_pusher_at_a_time() {
        let all = Arc::default();
        let first = take(&all, &["a", "b"]).unwrap();
        let refused = take(&all, &["c", "b"]).unwrap_err().to_string();
        assert!(refused.contains("\"b\": another pusher"), "{refused}");
        drop(take(&all, &["c"]).expect("a refused pusher takes no address"));
        drop(first);
        drop(take(&all, &["b", "c"]).unwrap());
    }

    #[test]
    fn a_pusher_continues_the_series_of_its_destinations() {
        let all = Arc::default();
        assert_eq!(push(&all, &["a"]), 0);
        assert_eq!(push(&all, &["b"]), 0, "a new destination has a new series");
        assert_eq!(push(&all, &["a"]), 1);
        assert_eq!(push(&all, &["c", "b"]), 1, "c joins the series of b");
        assert_eq!(push(&all, &["b", "c"]), 2);
        assert_eq!(push(&all, &["c"]), 3);
        assert_eq!(push(&all, &["b"]), 3, "b has not got the last batch");
        let refused = take(&all, &["b", "c"]).unwrap_err().to_string();
        assert!(refused.contains("another part of the data"), "{refused}");
    }

    #[test]
    fn a_pusher_without_a_batch_changes_no_series() {
        let all = Arc::default();
        push(&all, &["a"]);
        drop(take(&all, &["a", "b"]).unwrap());
        assert_eq!(push(&all, &["b"]), 0, "b has got nothing");
        let (used, series) = take(&all, &["a"]).unwrap();
        let full = || Err(io::ErrorKind::StorageFull.into());
        used.addresses().publish(&series, full).unwrap_err();
        drop(used);
        assert_eq!(push(&all, &["a"]), 1);
    }
}
