//! The writer thread. It takes everything that waits into one batch. An operation without
//! competition need not wake it: the caller takes the writer and writes the operation itself.

use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::Instant;

use tokio::sync::{mpsc, oneshot};

use crate::job::Task;
use crate::limits::{LINGER, MAX_BATCH, MAX_QUEUED};
use crate::store::breathe;
use crate::writer::Writer;

/// Messages to the thread.
pub(crate) enum Message {
    /// An operation.
    Task(Box<dyn Task>),
    /// See whether the log is long enough to be copied.
    Checkpoint,
    /// Write everything that waits, close the file, and confirm.
    Close(oneshot::Sender<()>),
}

/// The writer, for one user at a time; empty after the file is closed.
pub(crate) type WriterHandle = Arc<Mutex<Option<Writer>>>;

/// Starts the thread.
pub(crate) fn spawn(
    writer: Writer,
) -> std::io::Result<(mpsc::Sender<Message>, WriterHandle, JoinHandle<()>)> {
    let (sender, inbox) = mpsc::channel(MAX_QUEUED);
    let writer_handle: WriterHandle = Arc::new(Mutex::new(Some(writer)));
    let shared = writer_handle.clone();
    let thread = std::thread::Builder::new().name("hapax-sqlite-writer".into()).spawn(move || {
        let closers = run(&shared, inbox);
        // The file is closed before the confirmation.
        drop(take(&shared).take());
        for closed in closers {
            let _ = closed.send(());
        }
    })?;
    Ok((sender, writer_handle, thread))
}

/// A panic while holding the writer left a transaction in an unknown state: nothing is written after it.
fn take(writer_handle: &WriterHandle) -> MutexGuard<'_, Option<Writer>> {
    writer_handle.lock().expect("whoever writes does not panic")
}

/// Works until all senders are gone; returns the callers that wait for that.
fn run(writer_handle: &WriterHandle, mut inbox: mpsc::Receiver<Message>) -> Vec<oneshot::Sender<()>> {
    let mut messages = Vec::with_capacity(MAX_BATCH);
    let mut batch = Vec::with_capacity(MAX_BATCH);
    let mut closers = Vec::new();
    let mut last = 0;
    while receive(&mut inbox, &mut messages, last) {
        for message in messages.drain(..) {
            match message {
                Message::Task(task) => batch.push(task),
                Message::Checkpoint => {}
                Message::Close(closed) => {
                    inbox.close();
                    closers.push(closed);
                }
            }
        }
        last = batch.len();
        let mut writer_handle = take(writer_handle);
        let writer = writer_handle.as_mut().expect("this thread alone takes it away, at its end");
        writer.write_batch(&mut batch);
        writer.checkpoint();
    }
    closers
}

/// Takes everything that waits, or waits for a message; false when all senders are gone.
///
/// A sequential run sends its next write as soon as it gets the last outcome. Waking the thread for
/// it would take about as long as the commit, so after a single operation the writer lingers a
/// moment before it sleeps.
///
/// With many senders, the callers of the last commit are about to send their next write: if fewer
/// wait than were in that commit, the others get the core for a moment, so that one flush of the
/// disk serves more of them.
fn receive(inbox: &mut mpsc::Receiver<Message>, messages: &mut Vec<Message>, last: usize) -> bool {
    let lingering = Instant::now();
    while last == 1 && lingering.elapsed() < LINGER {
        if let Ok(message) = inbox.try_recv() {
            messages.push(message);
            take_waiting(inbox, messages);
            return true;
        }
        breathe();
    }
    if inbox.blocking_recv_many(messages, MAX_BATCH) == 0 {
        return false;
    }
    if messages.len() < last {
        std::thread::yield_now();
        take_waiting(inbox, messages);
    }
    true
}

/// Takes what waits already.
fn take_waiting(inbox: &mut mpsc::Receiver<Message>, messages: &mut Vec<Message>) {
    while messages.len() < MAX_BATCH
        && let Ok(message) = inbox.try_recv()
    {
        messages.push(message);
    }
}
