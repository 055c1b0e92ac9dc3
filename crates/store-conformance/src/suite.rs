//! Running the cases on a store.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use hapax_engine::clock::ManualClock;

use crate::Candidate;
use crate::cases::{CASES, Case};
use crate::fixture::TestStore;

/// Time limit of a case.
const PATIENCE: Duration = Duration::from_secs(220);

/// One test for every case. An async function makes the store for the given clock: `conformance_suite!(make_store);`.
#[macro_export]
macro_rules! conformance_suite {
    ($make_store:expr) => {
        $crate::with_every_case! { $crate::one_test_per_case!($make_store) }
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! one_test_per_case {
    (($make_store:expr) $($topic:ident { $($name:ident)* })*) => {
        $(
            mod $topic {
                #[allow(unused_imports)]
                use super::*;
                $(
                    #[test]
                    fn $name() {
                        $crate::run_case(stringify!($topic), stringify!($name), $make_store);
                    }
                )*
            }
        )*
    };
}

/// Runs one case against a fresh store, and checks afterwards that its data is sound.
#[doc(hidden)]
pub fn run_case<F: Future<Output = Candidate>>(
    topic: &str,
    name: &str,
    make_store: impl FnOnce(Arc<ManualClock>) -> F,
) {
    let case = CASES.iter().find(|case| case.topic == topic && case.name == name).expect("the case exists");
    block_on(judge(case, make_store));
}

/// Runs a test as a program would, on several threads, with a time limit.
pub(crate) fn block_on(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.expect("threads can be started").block_on(async {
        tokio::time::timeout(PATIENCE, test).await.expect("it ends");
    });
}

async fn judge<F: Future<Output = Candidate>>(case: &Case, make_store: impl FnOnce(Arc<ManualClock>) -> F) {
    let clock = Arc::new(ManualClock::default());
    let candidate = make_store(clock.clone()).await;
    let stage = TestStore::new(candidate.store(), clock).with_tables(candidate.tables.clone());
    (case.run)(&stage).await;
    let report = stage.fsck().await;
    assert!(report.is_clean(), "after the case the data is not sound: {report}");
    assert_eq!(report.moving, 0, "nothing moves after the case");
    stage.store.close().await.expect("it closes");
}
