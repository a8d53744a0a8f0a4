//! The allowance between those who take, those who give back and the parent's word.

use loom::sync::Arc;
use loom::thread;

use super::NoWords;
use crate::ids::ByteLimit;
use crate::pool::budget::{BookedPages, Budget};
use crate::pool::layout::Extent;

const PAGE: u64 = 4096;
const TABLE: Extent = Extent { offset: 0, len: 2 * PAGE };

fn held(budget: &Budget) -> u64 {
    let (used, allowed) = budget.used_and_allowed();
    assert!(used <= allowed, "{used} bytes held of {allowed}");
    used
}

#[test]
fn loom_two_takers_and_one_who_gives_back_never_hold_more_than_allowed() {
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
        let taken = takers.map(|taker| u64::from(taker.join().unwrap())).iter().sum::<u64>();
        assert!(taken > 0, "there was room for one at any time");
        assert_eq!(held(&budget), taken * PAGE);
    });
}

#[test]
fn loom_a_wish_is_told_once_however_takers_and_reports_meet() {
    loom::model(|| {
        let budget = Arc::new(Budget::new(ByteLimit::new(0), 0, PAGE));
        let wishing = {
            let budget = Arc::clone(&budget);
            thread::spawn(move || (0..2).for_each(|_| budget.want(PAGE)))
        };
        let told = budget.take_wanted();
        wishing.join().unwrap();
        assert_eq!(told + budget.take_wanted(), 2 * PAGE);
    });
}

#[test]
fn loom_two_who_reach_a_new_page_of_a_table_book_it_once() {
    loom::model(|| {
        let budget = Arc::new(Budget::new(ByteLimit::new(3 * PAGE), 0, PAGE));
        let booked = Arc::new(BookedPages::new(PAGE));
        let other = {
            let (budget, booked) = (Arc::clone(&budget), Arc::clone(&booked));
            thread::spawn(move || booked.cover(&NoWords, &budget, TABLE, 100))
        };
        assert!(booked.cover(&NoWords, &budget, TABLE, PAGE + 1));
        assert!(other.join().unwrap());
        assert_eq!(held(&budget), 2 * PAGE);
    });
}
