//! Reads lists of a server page by page, up to a limit.

use anyhow::Result;
use hapax_api::client::{ClientError, Paging};
use hapax_api::{MAX_PAGE_ITEMS, Page, ToSchema};

use crate::output::say;

/// Option for the number of items.
#[derive(Debug, clap::Args)]
pub(crate) struct LimitOptions {
    /// Maximum number of items.
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    limit: u32,
}

impl LimitOptions {
    pub(crate) fn get(&self) -> usize {
        self.limit as usize
    }

    /// The first items up to the limit; says so if there are more.
    pub(crate) async fn read<T: ToSchema>(
        &self,
        fetch: impl AsyncFnMut(Paging) -> Result<Page<T>, ClientError>,
    ) -> Result<Vec<T>> {
        let (items, is_all) = self.read_some(fetch).await?;
        if !is_all {
            say_more(self.get());
        }
        Ok(items)
    }

    /// The first items up to the limit, and whether those are all.
    pub(crate) async fn read_some<T: ToSchema>(
        &self,
        fetch: impl AsyncFnMut(Paging) -> Result<Page<T>, ClientError>,
    ) -> Result<(Vec<T>, bool)> {
        read_up_to(self.get(), fetch).await
    }
}

/// Says that a list was cut.
pub(crate) fn say_more(limit: usize) {
    say(&format!("there are more; show them with a --limit above {limit}"));
}

async fn read_up_to<T: ToSchema>(
    limit: usize,
    mut fetch: impl AsyncFnMut(Paging) -> Result<Page<T>, ClientError>,
) -> Result<(Vec<T>, bool)> {
    let (mut items, mut cursor) = (Vec::new(), None);
    loop {
        // One more than is shown, to know whether there is one.
        let rest = (limit + 1 - items.len()).min(MAX_PAGE_ITEMS);
        let page = fetch(Paging { limit: Some(rest), cursor }).await?;
        items.extend(page.items);
        if items.len() > limit {
            items.truncate(limit);
            return Ok((items, false));
        }
        cursor = page.next_cursor;
        if cursor.is_none() {
            return Ok((items, true));
        }
    }
}

/// Every page there is, each handed to `take` as it comes.
pub(crate) async fn each_page<T: ToSchema>(
    mut fetch: impl AsyncFnMut(Paging) -> Result<Page<T>, ClientError>,
    mut take: impl FnMut(Vec<T>) -> Result<()>,
) -> Result<()> {
    let mut cursor = None;
    loop {
        let page = fetch(Paging { limit: Some(MAX_PAGE_ITEMS), cursor }).await?;
        take(page.items)?;
        cursor = page.next_cursor;
        if cursor.is_none() {
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A server with `count` numbers, at most three a page.
    async fn page(count: u32, paging: Paging) -> Result<Page<u32>, ClientError> {
        let from: u32 = paging.cursor.map_or(0, |cursor| cursor.parse().unwrap());
        let upto = count.min(from + (paging.limit.unwrap() as u32).min(3));
        let next_cursor = (upto < count).then(|| upto.to_string());
        Ok(Page { items: (from..upto).collect(), next_cursor })
    }

    #[tokio::test]
    async fn pages_are_read_until_there_is_enough() {
        for (count, limit, shown, is_all) in
            [(0, 5, 0, true), (5, 5, 5, true), (6, 5, 5, false), (8, 50, 8, true)]
        {
            let (items, all) = read_up_to(limit, async |paging| page(count, paging).await).await.unwrap();
            assert_eq!((items, all), ((0..shown).collect(), is_all), "{count} {limit}");
        }
        let mut seen = Vec::new();
        let take = |items| {
            seen.extend::<Vec<u32>>(items);
            Ok(())
        };
        each_page(async |paging| page(7, paging).await, take).await.unwrap();
        assert_eq!(seen, [0, 1, 2, 3, 4, 5, 6]);
    }
}
