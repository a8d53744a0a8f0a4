//! One shop: its main thread hands the visitors' requests to the threads that serve them.

use std::mem::ManuallyDrop;
use std::thread;

use anyhow::{Result, anyhow};
use crossbeam_channel::{Receiver, Sender, bounded};
use profiler_child::core::counter::Counter;
use profiler_child::core::marker::Category;
use profiler_child::core::marker::schema::CategoryColor;
use profiler_child::scope;

use crate::audit_log::AuditLog;
use crate::catalogue::Catalogue;
use crate::pages::PageCache;
use crate::plugins;

/// Number of threads that serve requests.
const HANDLERS: usize = 6;

static REQUESTS: Category = Category::new("Requests", CategoryColor::Green, &[]);
static SERVED: Counter = Counter::new("Requests", "Requests", "Requests that were served");

/// A visitor asks for a product.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) number: u64,
    /// As typed, so with errors.
    pub(crate) query: String,
}

/// The parts of the shop that all handlers use.
#[derive(Debug)]
struct Shop {
    catalogue: Catalogue,
    audit_log: AuditLog,
}

/// Serves this many requests.
pub(crate) fn run(requests: u64) -> Result<()> {
    if let profiler_child::Status::Off(error) = profiler_child::init() {
        eprintln!("the shop is not profiled: {error}"); // it runs on
    }
    SERVED.register();
    let shop = Shop {
        catalogue: Catalogue::load(),
        audit_log: AuditLog::default(),
    };
    let (sender, queue) = bounded(HANDLERS);
    let served = thread::scope(|scope| {
        let handlers = (1..=HANDLERS)
            .map(|number| {
                let (shop, queue) = (&shop, queue.clone());
                thread::Builder::new()
                    .name(format!("handler {number}"))
                    .spawn_scoped(scope, move || handle_requests(shop, &queue))
            })
            .collect::<Result<Vec<_>, _>>()?;
        drop(queue);
        hand_out(&shop.catalogue, requests, sender);
        handlers.into_iter().try_fold(0, |sum, handler| {
            let served = handler.join().map_err(|_| anyhow!("a handler panicked"))?;
            Ok::<_, anyhow::Error>(sum + served)
        })
    })?;
    println!("served {served} requests");
    Ok(())
}

/// Stands for the visitors. Ends when all requests are in the queue, or no handler is left.
fn hand_out(catalogue: &Catalogue, requests: u64, sender: Sender<Request>) {
    for number in 1..=requests {
        let query = catalogue.mistyped_name(number);
        if sender.send(Request { number, query }).is_err() {
            break;
        }
    }
}

/// Serves requests until there are no more, and returns their number.
fn handle_requests(shop: &Shop, queue: &Receiver<Request>) -> u64 {
    // A server is stopped while it runs, so its caches are never dropped.
    let mut pages = ManuallyDrop::new(PageCache::default());
    let mut served = 0;
    for request in queue {
        let _scope = scope!("request", &REQUESTS, &request.query);
        served += 1;
        serve(shop, &mut pages, &request, served);
        SERVED.add(1);
    }
    served
}

/// Serves one request, the `number`th of its handler.
fn serve(shop: &Shop, pages: &mut PageCache, request: &Request, number: u64) {
    let found = shop.catalogue.search(&request.query);
    plugins::convert_prices(&found);
    plugins::recommend(&shop.catalogue, &found);
    plugins::show_ads(number);
    let page = pages.page(request, &found);
    shop.audit_log.append(request, page.len());
}
