//! A bank wire that must not happen twice: claimed, in doubt after a lost answer, and settled by what a person finds out.

use hapax::{Actor, Ctx, Delivery, Failure, Hapax, Resolution, Result, Role, Ruling};

async fn pay(ctx: Ctx, cents: u64) -> Result<String> {
    let reference = ctx
        .step("wire", |_| async { Err::<String, _>(Failure::unknown("the bank's answer was lost")) })
        .claimed()
        .await?;
    ctx.after_effect("mail", &format!("{cents} cents were sent as {reference}")).await?;
    Ok(reference)
}

async fn run() -> std::result::Result<String, Box<dyn std::error::Error>> {
    let hapax = Hapax::open("memory:").await?;
    let (sent, mut mails) = tokio::sync::mpsc::unbounded_channel();
    hapax.register("pay", pay)?;
    hapax.engine()?.register_target("mail", move |_: Delivery, body: String| {
        std::future::ready(sent.send(body).map_err(Failure::permanent))
    })?;
    let run = hapax.start("pay", &500u64).idempotency_key("invoice-17").await?;

    // Nobody knows whether the money is gone, so it is not sent again: people see it.
    let doubt = loop {
        match hapax.list_doubts(10).await?.into_iter().next() {
            Some(doubt) => break doubt,
            None => tokio::task::yield_now().await,
        }
    };
    let mut said = format!("in doubt: {} after {} attempt: {}\n", doubt.step, doubt.attempts, doubt.failure);

    // Ada calls the bank.
    let ruling = Ruling {
        resolution: Resolution::Happened { output: "wire-4711".into() },
        by: Actor::new("ada", Role::Operator),
        seconded_by: None,
        reason: "it is on the statement".into(),
    };
    hapax.resolve_doubt(&doubt.as_seen(), ruling).await?;
    said += &format!("paid: {}\n", run.result::<String>().await?);
    said += &format!("mailed: {}\n", mails.recv().await.ok_or("no mail came")?);
    let known: u64 = hapax.engine()?.count_repeats().await?.values().map(|count| count.happened_twice).sum();
    said += &format!("effects that happened twice: {known}\n");
    Ok(said)
}

#[tokio::main]
async fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    print!("{}", run().await?);
    Ok(())
}

#[tokio::test]
async fn a_wire_in_doubt_is_settled_by_people() {
    assert_eq!(
        run().await.unwrap(),
        "in doubt: wire after 1 attempt: the bank's answer was lost\n\
         paid: wire-4711\n\
         mailed: 500 cents were sent as wire-4711\n\
         effects that happened twice: 0\n"
    );
}
