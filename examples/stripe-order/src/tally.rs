//! Counts of what happened.

use std::fmt;

/// The counts.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ShopCounts {
    pub(crate) orders: usize,
    pub(crate) calls: usize,
    pub(crate) charges: usize,
    pub(crate) early: usize,
    pub(crate) webhooks: usize,
    pub(crate) duplicates: usize,
    pub(crate) completed: usize,
    pub(crate) shipped: usize,
    pub(crate) twice: usize,
}

impl ShopCounts {
    /// One charge, one completion and one parcel for each order, whatever was sent how often.
    pub(crate) fn is_as_it_should_be(&self) -> bool {
        let ShopCounts { orders, charges, webhooks, duplicates, completed, shipped, twice, .. } = self;
        [charges, completed, shipped].iter().all(|count| *count == orders)
            && *webhooks == 3 * orders
            && *duplicates == 2 * orders
            && *twice == 0
    }
}

impl fmt::Display for ShopCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (what, count) in [
            ("orders", self.orders),
            ("calls that asked Stripe to charge", self.calls),
            ("charges that Stripe made", self.charges),
            ("webhooks that came before their promise", self.early),
            ("webhooks that Stripe delivered", self.webhooks),
            ("webhooks that were known to be duplicates", self.duplicates),
            ("runs that completed", self.completed),
            ("parcels that were shipped", self.shipped),
            ("effects that happened twice", self.twice),
        ] {
            writeln!(f, "{what:<41} {count:>2}")?;
        }
        Ok(())
    }
}
