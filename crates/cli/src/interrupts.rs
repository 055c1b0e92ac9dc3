//! Signals: the first one ends the command in good order, the second at once.

use std::fmt;
use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::oneshot;

/// A signal stopped the command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Interrupted {
    number: i32,
}

impl Interrupted {
    /// Exit code that a shell uses for a command ended by this signal.
    pub(crate) fn exit_code(self) -> u8 {
        u8::try_from(128 + self.number).unwrap_or(1)
    }
}

impl fmt::Display for Interrupted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("interrupted")
    }
}

impl std::error::Error for Interrupted {}

/// The signals that ask a command to end.
pub(crate) struct Signals {
    hangup: Signal,
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    pub(crate) fn listen() -> io::Result<Self> {
        Ok(Signals {
            hangup: signal(SignalKind::hangup())?,
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
        })
    }

    pub(crate) async fn next(&mut self) -> Interrupted {
        let kind = tokio::select! {
            _ = self.hangup.recv() => SignalKind::hangup(),
            _ = self.interrupt.recv() => SignalKind::interrupt(),
            _ = self.terminate.recv() => SignalKind::terminate(),
        };
        Interrupted { number: kind.as_raw_value() }
    }
}

/// Resolves at the first signal. A second one ends the process, whatever it is doing.
pub(crate) fn first_signal() -> io::Result<oneshot::Receiver<Interrupted>> {
    let mut signals = Signals::listen()?;
    let (tell, told) = oneshot::channel();
    tokio::spawn(async move {
        // The command may have ended; then nobody listens.
        let _ = tell.send(signals.next().await);
        let second = signals.next().await;
        std::process::exit(second.exit_code().into());
    });
    Ok(told)
}
