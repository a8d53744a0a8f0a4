//! The series of captures that each destination of a session has got.
//!
//! One per session. A pusher that follows another one to the same destination continues its series,
//! so the destination does not get entries twice. Invariants: at most one pusher of a session sends
//! to an address; the memory is bounded by the addresses and by the processes of their series.

use std::collections::HashMap;
use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::capture::series::CaptureSeries;

/// The series of all destinations. See the head of this file.
#[derive(Debug, Default)]
pub(crate) struct DestinationSeries(Mutex<HashMap<String, AddressSeries>>);

/// What was sent to an address.
#[derive(Debug)]
struct AddressSeries {
    series: Arc<Mutex<CaptureSeries>>,
    /// A pusher sends to the address.
    is_used: bool,
}

/// The addresses of a pusher. Another pusher can use them when this is dropped.
#[derive(Debug)]
pub(super) struct UsedAddresses {
    all: Arc<DestinationSeries>,
    addresses: Vec<String>,
    series: Arc<Mutex<CaptureSeries>>,
}

impl DestinationSeries {
    fn lock(&self) -> MutexGuard<'_, HashMap<String, AddressSeries>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes these addresses for a pusher. It continues the longest series of them, or begins one.
    ///
    /// # Errors
    /// The address that another pusher uses.
    pub(super) fn take(self: &Arc<Self>, addresses: &[String]) -> Result<UsedAddresses, String> {
        let mut all = self.lock();
        let is_used = |address: &&String| all.get(*address).is_some_and(|one| one.is_used);
        if let Some(used) = addresses.iter().find(is_used) {
            return Err(used.clone());
        }
        let known = addresses.iter().filter_map(|address| all.get(address));
        let longest = known.max_by_key(|one| written(&one.series));
        let series = longest.map_or_else(Arc::default, |one| Arc::clone(&one.series));
        for address in addresses {
            let series = Arc::clone(&series);
            let is_used = true;
            all.insert(address.clone(), AddressSeries { series, is_used });
        }
        drop(all);
        Ok(UsedAddresses {
            all: Arc::clone(self),
            addresses: addresses.to_vec(),
            series,
        })
    }
}

impl UsedAddresses {
    /// The series of the pusher's captures.
    pub(super) fn series(&self) -> Arc<Mutex<CaptureSeries>> {
        Arc::clone(&self.series)
    }
}

impl Drop for UsedAddresses {
    fn drop(&mut self) {
        let mut all = self.all.lock();
        for address in mem::take(&mut self.addresses) {
            if let Some(one) = all.get_mut(&address) {
                one.is_used = false;
            }
        }
    }
}

fn written(series: &Mutex<CaptureSeries>) -> u64 {
    let series = series.lock().unwrap_or_else(PoisonError::into_inner);
    series.written()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take(all: &Arc<DestinationSeries>, addresses: &[&str]) -> Result<UsedAddresses, String> {
        let addresses: Vec<String> = addresses.iter().map(|&one| one.to_owned()).collect();
        all.take(&addresses)
    }

    #[test]
    fn an_address_is_used_by_one_pusher_at_a_time() {
        let all = Arc::default();
        let first = take(&all, &["a", "b"]).unwrap();
        assert_eq!(take(&all, &["c", "b"]).unwrap_err(), "b");
        drop(take(&all, &["c"]).expect("a refused pusher takes no address"));
        drop(first);
        drop(take(&all, &["b", "c"]).unwrap());
    }

    #[test]
    fn a_pusher_continues_the_series_of_the_one_before() {
        let all = Arc::default();
        let [first, second] = ["a", "b"].map(|address| take(&all, &[address]).unwrap().series());
        assert!(!Arc::ptr_eq(&first, &second));
        assert!(Arc::ptr_eq(&take(&all, &["a"]).unwrap().series(), &first));
        let third = take(&all, &["c", "b"]).unwrap().series();
        assert!(Arc::ptr_eq(&third, &second), "and the new address, too");
        assert!(Arc::ptr_eq(&take(&all, &["c"]).unwrap().series(), &second));
    }
}
