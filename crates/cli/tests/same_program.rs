//! One program, three homes of its runs: the memory of its process, a SQLite file of its own, and a server.

use crate::support;

mod bank;
mod instances;
mod kills;
mod orders;
mod refusals;
mod server;

use hapax::Hapax;

use bank::Bank;
use orders::check_program;
use server::TestServer;

#[tokio::test(flavor = "multi_thread")]
async fn the_program_keeps_its_promises_in_memory() {
    check_program(&Hapax::open("memory:").await.unwrap(), &Bank::default()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_program_keeps_its_promises_on_a_file_of_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}", folder.path().join("orders.db").display());
    check_program(&Hapax::open(&url).await.unwrap(), &Bank::default()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_program_keeps_its_promises_on_a_server() {
    let server = TestServer::start();
    check_program(&server.open().await, &Bank::default()).await;
}
