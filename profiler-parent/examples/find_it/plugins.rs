//! The plugins, each with a performance group and a marker per call.
//!
//! **The slow plugin.** From time to time, the ad server does not answer. The plugin `ads` then
//! waits until the time-out has passed.

use std::thread;
use std::time::Duration;

use profiler_child::core::marker::Category;
use profiler_child::core::marker::schema::CategoryColor;
use profiler_child::{blocking, group, scope};

use crate::catalogue::{Catalogue, Product};

/// How long the ads wait for a server that does not answer.
const AD_SERVER_TIMEOUT: Duration = Duration::from_millis(200);
/// The server answers all requests of a handler except the tenth of each 40.
const UNANSWERED: (u64, u64) = (10, 40);

static PLUGINS: Category = Category::new("Plugins", CategoryColor::Orange, &[]);

/// Shows the prices in the visitor's currency.
#[inline(never)]
pub(crate) fn convert_prices(found: &[&Product]) {
    let _group = group!("plugin:currency").enter();
    let _scope = scope!("currency", &PLUGINS);
    let sum: u64 = found
        .iter()
        .map(|product| product.cents * 1087 / 1000)
        .sum();
    std::hint::black_box(sum);
}

/// Finds products that are similar to those found.
#[inline(never)]
pub(crate) fn recommend(catalogue: &Catalogue, found: &[&Product]) {
    let _group = group!("plugin:recommendations").enter();
    let _scope = scope!("recommendations", &PLUGINS);
    std::hint::black_box(catalogue.similar_prices(found));
}

/// Asks the ad server for the ads of a page. `number` counts the requests of a handler.
#[inline(never)]
pub(crate) fn show_ads(number: u64) {
    let _group = group!("plugin:ads").enter();
    let _scope = scope!("ads", &PLUGINS);
    let (place, round) = UNANSWERED;
    if number % round == place {
        let _waits = blocking!("ad server");
        thread::sleep(AD_SERVER_TIMEOUT);
    }
}
