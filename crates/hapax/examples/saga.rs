//! A trip that is undone, last step first, when the last booking fails.

use std::sync::{Arc, Mutex};

use hapax::{Ctx, Failure, Hapax, Result};

async fn confirmed(what: &str) -> Result<String> {
    Ok(what.to_owned())
}

async fn done() -> Result<()> {
    Ok(())
}

type BookingLog = Arc<Mutex<Vec<String>>>;

fn note(diary: &BookingLog, what: impl Into<String>) {
    diary.lock().expect("no writer panics").push(what.into());
}

async fn book_trip(ctx: Ctx, diary: BookingLog) -> Result<()> {
    for what in ["flight", "hotel"] {
        let (booked, cancelled) = (diary.clone(), diary.clone());
        ctx.step(&format!("book-{what}"), move |_| {
            note(&booked, format!("book {what}"));
            confirmed(what)
        })
        .compensate(move |_, what: String| {
            note(&cancelled, format!("cancel {what}"));
            done()
        })
        .await?;
    }
    ctx.step("book-car", |_| async { Err::<(), _>(Failure::permanent("no cars left")) }).await
}

async fn run() -> std::result::Result<String, Box<dyn std::error::Error>> {
    let hapax = Hapax::open("memory:").await?;
    let diary = BookingLog::default();
    let kept = diary.clone();
    hapax.register("book-trip", move |ctx, (): ()| book_trip(ctx, kept.clone()))?;
    let run = hapax.start("book-trip", &()).await?;
    let failure = match run.result::<()>().await {
        Err(hapax::Error::Failed { failure, .. }) => failure.to_string(),
        other => format!("{other:?}"),
    };
    let mut said = diary.lock().expect("no writer panics").join("\n");
    said += &format!("\nthe run failed: {failure}\n");
    Ok(said)
}

#[tokio::main]
async fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    print!("{}", run().await?);
    Ok(())
}

#[tokio::test]
async fn what_was_booked_is_cancelled_last_first() {
    assert_eq!(
        run().await.unwrap(),
        "book flight\nbook hotel\ncancel hotel\ncancel flight\nthe run failed: no cars left\n"
    );
}
