//! The products of the shop, and their search.
//!
//! **The hot function.** The search compares the query with the name of every product, although few
//! names begin like it. The comparison is the function with the most processor time of its own; the
//! code that serves a request does not mention it.

/// Number of products.
const PRODUCTS: usize = 4096;
/// Number of products that a search returns.
const SHOWN: usize = 20;

const COLORS: [&str; 8] = [
    "red", "green", "blue", "yellow", "white", "black", "silver", "golden",
];
const MATERIALS: [&str; 8] = [
    "wooden", "cotton", "leather", "linen", "steel", "copper", "glass", "paper",
];
const THINGS: [&str; 8] = [
    "kettle", "basket", "lantern", "blanket", "mirror", "cushion", "drawer", "bottle",
];

/// A product on sale.
#[derive(Debug)]
pub(crate) struct Product {
    pub(crate) name: String,
    pub(crate) cents: u64,
}

/// All products.
#[derive(Debug)]
pub(crate) struct Catalogue(Vec<Product>);

impl Catalogue {
    /// Makes the products that a shop would read from its database.
    pub(crate) fn load() -> Self {
        let product = |number: usize| Product {
            name: format!(
                "{} {} {} {}",
                COLORS[number % 8],
                MATERIALS[number / 8 % 8],
                THINGS[number / 64 % 8],
                number / 512
            ),
            cents: 199 + number as u64 * 7,
        };
        Self((0..PRODUCTS).map(product).collect())
    }

    /// The name of a product with two letters exchanged, as a visitor might type it.
    pub(crate) fn mistyped_name(&self, number: u64) -> String {
        let place = number.wrapping_mul(0x9e37_79b9) as usize % self.0.len();
        let mut letters: Vec<char> = self.0[place].name.chars().collect();
        let swapped = number as usize % (letters.len() - 1);
        letters.swap(swapped, swapped + 1);
        letters.into_iter().collect()
    }

    /// The products whose names are most similar to the query, the most similar first.
    #[inline(never)]
    pub(crate) fn search(&self, query: &str) -> Vec<&Product> {
        let mut found = Vec::with_capacity(self.0.len());
        for product in &self.0 {
            let distance = edit_distance(query.as_bytes(), product.name.as_bytes());
            found.push((distance, product));
        }
        found.sort_unstable_by_key(|(distance, _)| *distance);
        found.truncate(SHOWN);
        found.into_iter().map(|(_, product)| product).collect()
    }

    /// The number of products that cost about as much as those found.
    pub(crate) fn similar_prices(&self, found: &[&Product]) -> usize {
        let is_similar = |product: &&Product| {
            found
                .iter()
                .any(|shown| shown.cents.abs_diff(product.cents) < 100)
        };
        self.0.iter().filter(is_similar).count()
    }
}

/// The number of letters to insert, remove or replace until both names are equal.
#[inline(never)]
fn edit_distance(one: &[u8], other: &[u8]) -> usize {
    const LONGEST: usize = 64;
    let other = &other[..other.len().min(LONGEST - 1)];
    let mut row = [0_usize; LONGEST];
    for (place, distance) in row.iter_mut().enumerate() {
        *distance = place;
    }
    for (line, &letter) in one.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = line + 1;
        let mut column = 0;
        while column < other.len() {
            let mut best = diagonal + (letter != other[column]) as usize;
            diagonal = row[column + 1];
            if diagonal < best {
                best = diagonal + 1;
            }
            if row[column] < best {
                best = row[column] + 1;
            }
            column += 1;
            row[column] = best;
        }
    }
    row[other.len()]
}
