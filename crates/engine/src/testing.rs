//! Test tools for workflow authors: an in-memory engine with a clock you control, a crash at every point of a
//! workflow, and a replay of a recorded history against changed code.
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
mod partition;
mod replay;
mod report;
mod test_environment;

pub use crash::{CrashEverywhere, crash_everywhere};
pub use replay::replay;
pub use report::{CrashFinding, CrashReport, EffectReport, Expect, ExpectEnd};
pub use test_environment::TestEnvironment;

/// Asserts the expected guarantee of each effect of a [`CrashReport`](crate::testing::CrashReport):
/// `effects!(report, "wire" => Expect::AtMostOnce, "charge" => Expect::AtLeastOnce)`.
#[macro_export]
macro_rules! effects {
    ($report:expr, $($name:expr => $expect:expr),+ $(,)?) => {
        $( $report.assert_effect($name, $expect); )+
    };
}
