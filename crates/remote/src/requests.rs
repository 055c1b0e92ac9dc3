//! Requests of a session, sent until there is an answer.

use std::future::Future;
use std::time::Duration;

use hapax_api::client::ClientError;

use crate::errors::{RecoveryAction, remedy_of};
use crate::limits::{ANSWER_WITHIN, FIRST_WAIT, LONGEST_WAIT};

/// Sends until there is an answer, or one that sending again does not change. Each try may take `wait` and a little
/// more.
pub(crate) async fn send_until_answered<T, Fut>(
    wait: Duration,
    mut send: impl FnMut() -> Fut,
) -> Result<T, ClientError>
where
    Fut: Future<Output = Result<T, ClientError>>,
{
    let mut pause = FIRST_WAIT;
    loop {
        let answer = tokio::time::timeout(wait + ANSWER_WITHIN, send()).await;
        match answer {
            Ok(Ok(answer)) => return Ok(answer),
            Ok(Err(error)) if remedy_of(&error) == RecoveryAction::SendAgain => {
                tracing::debug!(%error, "a request is sent again");
            }
            Ok(Err(error)) => return Err(error),
            Err(_) => tracing::debug!("a request was not answered in time, and is sent again"),
        }
        tokio::time::sleep(pause.mul_f64(0.5 + fastrand::f64() / 2.0)).await;
        pause = (pause * 2).min(LONGEST_WAIT);
    }
}
