//! The three acceptance criteria of the seed, with a run as the payment and a provider that counts charges.

use super::support::{Provider, TestServer};
use super::{RUNS, charge, is_replay, run_of};

struct Shop {
    server: TestServer,
    provider: Provider,
    pay: String,
}

impl Shop {
    async fn open(server: TestServer) -> Self {
        let provider = Provider::start().await;
        let pay = server.upload(&provider.payment("payment")).await;
        Shop { server, provider, pay }
    }

    /// The provider was asked once, under the key of the effect, for this amount.
    async fn expect_one_charge(&self, run: &str, amount: u64) {
        assert_eq!(self.server.end(run).await["run"]["status"], "COMPLETED");
        let asked = self.provider.asked();
        assert_eq!(asked.len(), 1, "{asked:?}");
        assert_eq!(asked[0].key.as_deref(), Some(format!("{run}:charge").as_str()));
        assert_eq!(asked[0].body["amount"], amount);
    }
}

async fn a_retry_gets_the_same_bytes_and_charges_nothing(server: TestServer) {
    let shop = Shop::open(server).await;
    let key = [("idempotency-key", "abc")];
    let first = shop.server.post(RUNS, &charge(&shop.pay, 100), &key).await;
    assert_eq!(first.status, 201, "{}", first.text());
    shop.server.end(&run_of(&first)).await;
    let again = shop.server.post(RUNS, &charge(&shop.pay, 100), &key).await;
    assert_eq!((again.status, &again.bytes), (first.status, &first.bytes));
    assert!(is_replay(&again));
    shop.expect_one_charge(&run_of(&first), 100).await;
}

async fn another_amount_is_refused_with_what_is_stored(server: TestServer) {
    let shop = Shop::open(server).await;
    let key = [("idempotency-key", "abc")];
    let first = shop.server.post(RUNS, &charge(&shop.pay, 100), &key).await;
    let other = shop.server.post(RUNS, &charge(&shop.pay, 200), &key).await;
    assert_eq!(other.told(), (422, "idempotency_key_conflict".into()));
    let stored = &other.json()["storedRequest"];
    assert_eq!(stored["differingPaths"], serde_json::json!(["/input/amount"]), "{stored}");
    shop.expect_one_charge(&run_of(&first), 100).await;
}

async fn two_at_once_are_one_charge_and_one_answer(server: TestServer) {
    let shop = Shop::open(server).await;
    let body = charge(&shop.pay, 100);
    let key = [("idempotency-key", "abc")];
    let (one, other) = tokio::join!(shop.server.post(RUNS, &body, &key), shop.server.post(RUNS, &body, &key));
    assert_eq!((one.status, other.status), (201, 201), "{} {}", one.text(), other.text());
    assert_eq!(one.bytes, other.bytes);
    assert!(is_replay(&one) != is_replay(&other), "one of them did it");
    shop.expect_one_charge(&run_of(&one), 100).await;
}

/// S2.31
#[tokio::test]
async fn s2_31_a_retry_gets_the_same_bytes_and_charges_nothing_on_sqlite() {
    a_retry_gets_the_same_bytes_and_charges_nothing(TestServer::sqlite().await).await;
}

/// S2.31
#[tokio::test]
async fn s2_31_a_retry_gets_the_same_bytes_and_charges_nothing_on_postgres() {
    a_retry_gets_the_same_bytes_and_charges_nothing(TestServer::postgres().await).await;
}

/// S2.32
#[tokio::test]
async fn s2_32_another_amount_is_refused_with_what_is_stored_on_sqlite() {
    another_amount_is_refused_with_what_is_stored(TestServer::sqlite().await).await;
}

/// S2.32
#[tokio::test]
async fn s2_32_another_amount_is_refused_with_what_is_stored_on_postgres() {
    another_amount_is_refused_with_what_is_stored(TestServer::postgres().await).await;
}

/// S2.33
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s2_33_two_at_once_are_one_charge_and_one_answer_on_sqlite() {
    two_at_once_are_one_charge_and_one_answer(TestServer::sqlite().await).await;
}

/// S2.33
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s2_33_two_at_once_are_one_charge_and_one_answer_on_postgres() {
    two_at_once_are_one_charge_and_one_answer(TestServer::postgres().await).await;
}
