//! Models of the allowance: threads take from it, give back to it, and report unmet requests.

use loom::sync::Arc;
use loom::thread;

use super::NoWords;
use crate::ids::ByteLimit;
use crate::pool::budget::{Budget, ChargedPages};
use crate::pool::layout::Extent;

const PAGE: u64 = 4096;
const TABLE: Extent = Extent {
    offset: 0,
    len: 2 * PAGE,
};

fn held(budget: &Budget) -> u64 {
    let (used, allowed) = budget.used_and_allowed();
    assert!(used <= allowed, "{used} bytes held of {allowed}");
    used
}

#[test]
fn loom_concurrent_takes_and_returns_never_exceed_the_allowance() {
    loom::model(|| {
        let budget = Arc::new(Budget::new(ByteLimit::new(2 * PAGE), PAGE, PAGE));
        let takers = [(); 2].map(|()| {
            let budget = Arc::clone(&budget);
            thread::spawn(move || {
                let took = budget.take(PAGE, 0);
                held(&budget);
                took
            })
        });
        budget.give_back(PAGE);
        let taken = takers
            .map(|taker| u64::from(taker.join().unwrap()))
            .iter()
            .sum::<u64>();
        assert!(taken > 0, "there was always room for one page");
        assert_eq!(held(&budget), taken * PAGE);
    });
}

#[test]
fn loom_wanted_bytes_are_reported_once() {
    loom::model(|| {
        let budget = Arc::new(Budget::new(ByteLimit::new(0), 0, PAGE));
        let wishing = {
            let budget = Arc::clone(&budget);
            thread::spawn(move || (0..2).for_each(|_| budget.want(PAGE)))
        };
        let reported = budget.take_wanted();
        wishing.join().unwrap();
        assert_eq!(reported + budget.take_wanted(), 2 * PAGE);
    });
}

#[test]
fn loom_two_threads_that_reach_a_new_table_page_charge_it_once() {
    loom::model(|| {
        let budget = Arc::new(Budget::new(ByteLimit::new(3 * PAGE), 0, PAGE));
        let charged = Arc::new(ChargedPages::new(PAGE));
        let other = {
            let budget = Arc::clone(&budget);
            let charged = Arc::clone(&charged);
            thread::spawn(move || charged.cover(&NoWords, &budget, TABLE, 100))
        };
        assert!(charged.cover(&NoWords, &budget, TABLE, PAGE + 1));
        assert!(other.join().unwrap());
        assert_eq!(held(&budget), 2 * PAGE);
    });
}
