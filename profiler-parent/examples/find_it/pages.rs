//! The pages that visitors see, and a cache of them.
//!
//! **The leak.** The key of a cached page contains the number of its request, so no page is ever
//! found again, and no page is ever removed.

use std::collections::HashMap;
use std::fmt::Write;

use crate::catalogue::Product;
use crate::shop::Request;

/// The pages of one handler.
#[derive(Debug, Default)]
pub(crate) struct PageCache(HashMap<String, String>);

impl PageCache {
    /// The page for a request: the cached one, or a new one.
    pub(crate) fn page(&mut self, request: &Request, found: &[&Product]) -> String {
        let key = format!("{}?visit={}", request.query, request.number);
        if let Some(page) = self.0.get(&key) {
            return page.clone();
        }
        let page = render(request, found);
        self.store(key, &page);
        page
    }

    #[inline(never)]
    fn store(&mut self, key: String, page: &str) {
        self.0.insert(key, page.to_owned());
    }
}

/// Writes a page. Its memory is freed after the answer is sent.
#[inline(never)]
fn render(request: &Request, found: &[&Product]) -> String {
    let mut page = format!("<h1>Results for {:?}</h1>\n", request.query);
    for product in found {
        for size in ["small", "medium", "large", "very large"] {
            // Writing to a string does not fail.
            let _ = writeln!(
                page,
                "<li class=\"product in-stock\" data-size=\"{size}\"><a href=\"/product/{}\">\
                 <img src=\"/pictures/{0}.jpg\" alt=\"{}\">{1}</a>, {size}: {}.{:02}</li>",
                product.name.replace(' ', "-"),
                product.name,
                product.cents / 100,
                product.cents % 100,
            );
        }
    }
    page
}
