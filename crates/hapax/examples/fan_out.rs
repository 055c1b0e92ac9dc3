//! Many parts side by side: parallel steps, and child runs with a history of their own.

use hapax::{Ctx, Hapax, Result};

async fn count_page(page: String) -> Result<usize> {
    Ok(page.split(' ').count())
}

/// Counts the words of one document, its pages side by side.
async fn count_document(ctx: Ctx, pages: Vec<String>) -> Result<usize> {
    let ctx = &ctx;
    let counts = ctx
        .join_all(pages.iter().enumerate().map(|(number, page)| async move {
            ctx.step(&format!("page-{number}"), |_| count_page(page.clone())).await
        }))
        .await;
    counts.into_iter().sum()
}

/// Counts a library: one child run for each document.
async fn count_library(ctx: Ctx, documents: Vec<Vec<String>>) -> Result<usize> {
    let ctx = &ctx;
    let counts = ctx
        .join_all(
            documents.iter().map(|pages| async move { ctx.child::<_, usize>("count-document", pages).await }),
        )
        .await;
    counts.into_iter().sum()
}

async fn run() -> std::result::Result<String, Box<dyn std::error::Error>> {
    let hapax = Hapax::open("memory:").await?;
    hapax.register("count-document", count_document)?;
    hapax.register("count-library", count_library)?;
    let library: Vec<Vec<String>> =
        (1..=20).map(|n| (0..5).map(|_| vec!["word"; n].join(" ")).collect()).collect();
    let run = hapax.start("count-library", &library).idempotency_key("library-2026").await?;
    let words: usize = run.result().await?;
    let runs = hapax.engine()?.list(hapax::store::ListRuns {
        workspace: None,
        statuses: vec![hapax::RunStatus::Completed],
        workflow: None,
        filter: Default::default(),
        before: None,
        limit: 100,
    });
    Ok(format!("{words} words, counted by {} runs\n", runs.await?.runs.len()))
}

#[tokio::main]
async fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    print!("{}", run().await?);
    Ok(())
}

#[tokio::test]
async fn a_library_is_counted_by_its_children() {
    assert_eq!(run().await.unwrap(), "1050 words, counted by 21 runs\n");
}
