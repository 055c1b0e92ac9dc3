//! For the tests of people who write workflows: an engine in memory whose clock they move, a crash at every point of a workflow, and
//! the replay of a recorded history against changed code.
//!
//! ```
//! use hapax_engine::testing::{Expect, crash_everywhere};
//! use hapax_engine::{Ctx, Failure};
//!
//! async fn pay(ctx: Ctx, cents: u64) -> Result<(), Failure> {
//!     ctx.step("wire", move |_| async move { Ok::<_, Failure>(cents) }).claimed().await?;
//!     ctx.after_effect("mail", "paid").await?;
//!     Ok(())
//! }
//!
//! # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
//! let report = crash_everywhere(pay, &500u64).await;
//! hapax_engine::effects!(report, "wire" => Expect::AtMostOnce);
//! # });
//! ```

mod crash;
mod lab;
mod partition;
mod replay;
mod report;

pub use crash::{CrashEverywhere, crash_everywhere};
pub use lab::Lab;
pub use replay::replay;
pub use report::{CrashReport, EffectReport, Expect, ExpectEnd, Story};

/// Asserts what each effect of a [`CrashReport`](crate::testing::CrashReport) may come to:
/// `effects!(report, "wire" => Expect::AtMostOnce, "charge" => Expect::AtLeastOnce)`.
#[macro_export]
macro_rules! effects {
    ($report:expr, $($name:expr => $expect:expr),+ $(,)?) => {
        $( $report.assert_effect($name, $expect); )+
    };
}
