//! Calls that a program with its runs on a server cannot make, and their errors.

use hapax::sqlite::TransactionStep;
use hapax::{Ctx, Error, Failure, Hapax, OpenError, Result, WorkflowOptions, hours};

use super::server::TestServer;

async fn book(ctx: Ctx, (): ()) -> Result<u32> {
    ctx.transaction("ledger", |_| Ok::<_, Failure>(7)).await
}

fn needs_engine<T: std::fmt::Debug>(result: Result<T, Error>) -> String {
    match result {
        Err(Error::NeedsEngine { what, why }) => format!("{what}: {why}"),
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_needs_a_store_of_its_own_fails_and_says_why() {
    let server = TestServer::start();
    let hapax = server.open().await;
    hapax.register("book", book).unwrap();
    let run = hapax.start("book", &()).await.unwrap();
    match run.result::<u32>().await {
        Err(Error::Failed { failure, .. }) => {
            assert_eq!(failure.code(), Some("needs_engine"), "{failure}");
            assert!(
                failure.message().contains("ledger") && failure.message().contains("server"),
                "{failure}"
            );
        }
        other => panic!("{other:?}"),
    }
    assert!(needs_engine(hapax.engine()).contains(&server.url));
    let options = [
        WorkflowOptions::default().require_key(),
        WorkflowOptions::default().keep_keys_for(hours(1)),
        WorkflowOptions::default().release_key_on_failure(),
    ];
    for options in options {
        needs_engine(hapax.register_with("other", options, book));
    }
    assert!(matches!(hapax.register("book", book), Err(Error::AlreadyRegistered(_))));
    assert!(matches!(hapax.start("nobody", &()).await, Err(Error::UnknownWorkflow(_))));
    assert!(matches!(hapax.start("book", &7).await, Err(Error::Invalid(_))), "an input is an object");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_may_not_work_is_refused_when_it_matters() {
    let server = TestServer::start();
    let hapax = Hapax::builder(&server.url).api_key("hpx_wrong").open().await.unwrap();
    hapax.register("book", book).unwrap();
    match hapax.ready().await {
        Err(Error::Server { detail, .. }) => assert!(detail.contains("unauthorized"), "{detail}"),
        other => panic!("{other:?}"),
    }
    let options = hapax::EngineOptions::default();
    let refused = Hapax::builder(&server.url).api_key(&server.key).options(options).open().await;
    assert!(matches!(refused, Err(OpenError::Engine(Error::NeedsEngine { .. }))), "{refused:?}");
}

#[tokio::test]
async fn a_program_with_an_engine_is_told_what_needs_a_server() {
    let hapax = Hapax::open("memory:").await.unwrap();
    let task = hapax.register_task("mail", |_| async { Ok::<_, Failure>(()) });
    assert!(matches!(task, Err(Error::NeedsServer { .. })), "{task:?}");
    assert!(matches!(hapax.server(), Err(Error::NeedsServer { .. })));
    assert!(hapax.engine().is_ok());
}
