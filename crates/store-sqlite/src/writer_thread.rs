//! The thread that writes. It takes everything that waits into one batch. An operation that nothing else competes with need not
//! wake it: whoever sent it takes the pen and writes it.

use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::Instant;

use tokio::sync::{mpsc, oneshot};

use crate::job::Task;
use crate::limits::{LINGER, MAX_BATCH, MAX_QUEUED};
use crate::store::breathe;
use crate::writer::Writer;

/// What reaches the thread.
pub(crate) enum Message {
    /// An operation.
    Task(Box<dyn Task>),
    /// See whether the log is long enough to be copied.
    Checkpoint,
    /// Write what waits, let go of the file, and say so.
    Close(oneshot::Sender<()>),
}

/// The writer, for one at a time; nothing is in it once the file is let go of.
pub(crate) type WriterHandle = Arc<Mutex<Option<Writer>>>;

/// Starts the thread.
pub(crate) fn spawn(
    writer: Writer,
) -> std::io::Result<(mpsc::Sender<Message>, WriterHandle, JoinHandle<()>)> {
    let (sender, inbox) = mpsc::channel(MAX_QUEUED);
    let pen: WriterHandle = Arc::new(Mutex::new(Some(writer)));
    let shared = pen.clone();
    let thread = std::thread::Builder::new().name("hapax-sqlite-writer".into()).spawn(move || {
        let closers = run(&shared, inbox);
        // The file is free before anybody is told so.
        drop(take(&shared).take());
        for closed in closers {
            let _ = closed.send(());
        }
    })?;
    Ok((sender, pen, thread))
}

/// Whoever panicked with the pen left a transaction that nobody knows the state of: nothing is written after it.
fn take(pen: &WriterHandle) -> MutexGuard<'_, Option<Writer>> {
    pen.lock().expect("whoever writes does not panic")
}

/// Works until nobody can send any more; answers with those who wait for that.
fn run(pen: &WriterHandle, mut inbox: mpsc::Receiver<Message>) -> Vec<oneshot::Sender<()>> {
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
        let mut pen = take(pen);
        let writer = pen.as_mut().expect("this thread alone takes it away, at its end");
        writer.write_batch(&mut batch);
        writer.checkpoint();
    }
    closers
}

/// Takes everything that waits, or waits for something; false when nobody can send any more.
///
/// A run that goes step by step sends its next write as soon as it hears of the last one. To be woken for it would take
/// about as long as to commit it, so after an operation that was alone the writer lingers a moment before it sleeps.
///
/// Where many send, those who were just told of the last commit are about to send their next write: if fewer wait than went into
/// that commit, the others get the core for a moment, so that one flush of the disk serves more of them.
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
