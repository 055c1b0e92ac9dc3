//! Operations of one activation that have no outcome yet.
//!
//! Only woken operations are polled, in wake order. The engine wakes waiters in the order of their requests. A set that wakes itself, such as `FuturesUnordered`, would keep the engine from finding out that the
//! code can go no further.

use std::collections::{BTreeMap, VecDeque};
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

use futures_util::task::AtomicWaker;
use hapax_api::RawJson;
use hapax_engine::Failure;

/// Outcome of an operation.
pub(crate) type Outcome = Result<RawJson, Failure>;

/// Future of an operation that is no scope.
pub(crate) type OpFuture = Pin<Box<dyn Future<Output = Outcome> + Send>>;

struct OpenOperation {
    future: OpFuture,
    /// The scope it is in.
    scope: Option<u32>,
    waker: Arc<OperationWaker>,
}

/// Open operations by number.
#[derive(Default)]
pub(crate) struct OpenOperations {
    open: BTreeMap<u32, OpenOperation>,
    woken: Arc<WokenOperations>,
}

/// Operations to poll, the one that was woken first in front.
#[derive(Default)]
struct WokenOperations {
    queue: Mutex<VecDeque<u32>>,
    task: AtomicWaker,
}

struct OperationWaker {
    op: u32,
    is_queued: AtomicBool,
    woken: Arc<WokenOperations>,
}

impl Wake for OperationWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.is_queued.swap(true, Ordering::AcqRel) {
            self.woken.queue.lock().unwrap_or_else(PoisonError::into_inner).push_back(self.op);
        }
        self.woken.task.wake();
    }
}

impl OpenOperations {
    pub(crate) fn len(&self) -> usize {
        self.open.len()
    }

    /// Adds an operation. It is polled at the next look.
    pub(crate) fn insert(&mut self, op: u32, future: OpFuture, scope: Option<u32>) {
        let waker =
            Arc::new(OperationWaker { op, is_queued: AtomicBool::new(false), woken: self.woken.clone() });
        self.open.insert(op, OpenOperation { future, scope, waker: waker.clone() });
        waker.wake();
    }

    pub(crate) fn remove(&mut self, op: u32) -> Option<OpFuture> {
        self.open.remove(&op).map(|open| open.future)
    }

    /// Operations in a scope.
    pub(crate) fn list_in(&self, scope: u32) -> Vec<u32> {
        self.open.iter().filter(|(_, open)| open.scope == Some(scope)).map(|(op, _)| *op).collect()
    }

    /// Drops all of them, in the order of their requests.
    pub(crate) fn clear(&mut self) {
        while self.open.pop_first().is_some() {}
    }

    /// Polls each operation that was woken, once, until one has an outcome.
    pub(crate) fn poll(&mut self, cx: &Context<'_>) -> Poll<(u32, Outcome)> {
        self.woken.task.register(cx.waker());
        let mut looks = self.queue_len();
        while looks > 0 {
            looks -= 1;
            let next = self.woken.queue.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
            let Some(open) = next.and_then(|op| self.open.get_mut(&op)) else { continue };
            open.waker.is_queued.store(false, Ordering::Release);
            let waker = Waker::from(open.waker.clone());
            if let Poll::Ready(outcome) = open.future.as_mut().poll(&mut Context::from_waker(&waker)) {
                let op = open.waker.op;
                self.open.remove(&op);
                if self.queue_len() > 0 {
                    cx.waker().wake_by_ref();
                }
                return Poll::Ready((op, outcome));
            }
        }
        Poll::Pending
    }

    fn queue_len(&self) -> usize {
        self.woken.queue.lock().unwrap_or_else(PoisonError::into_inner).len()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use tokio::sync::oneshot;

    use super::*;
    use crate::items::null;

    #[derive(Default)]
    struct Counting(AtomicUsize);

    impl Wake for Counting {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    fn waits(open: &mut OpenOperations, op: u32) -> oneshot::Sender<()> {
        let (end, ended) = oneshot::channel::<()>();
        let future = Box::pin(async move {
            let _ = ended.await;
            Ok(null())
        });
        open.insert(op, future, None);
        end
    }

    fn ended(open: &mut OpenOperations, cx: &Context<'_>) -> Option<u32> {
        match open.poll(cx) {
            Poll::Ready((op, _)) => Some(op),
            Poll::Pending => None,
        }
    }

    #[test]
    fn operations_end_in_the_order_in_which_they_were_woken_and_nothing_wakes_by_itself() {
        let wakes = Arc::new(Counting::default());
        let waker = Waker::from(wakes.clone());
        let cx = Context::from_waker(&waker);
        let mut open = OpenOperations::default();
        let ends: Vec<_> = (1..=3).map(|op| waits(&mut open, op)).collect();
        assert_eq!(ended(&mut open, &cx), None);
        let before = wakes.0.load(Ordering::SeqCst);
        assert_eq!(ended(&mut open, &cx), None);
        assert_eq!(wakes.0.load(Ordering::SeqCst), before, "a look wakes nobody");
        let mut ends = ends.into_iter();
        let (first, second, third) = (ends.next().unwrap(), ends.next().unwrap(), ends.next().unwrap());
        third.send(()).unwrap();
        first.send(()).unwrap();
        assert_eq!(
            (ended(&mut open, &cx), ended(&mut open, &cx), ended(&mut open, &cx)),
            (Some(3), Some(1), None)
        );
        drop(open.remove(2));
        drop(second);
        assert_eq!((ended(&mut open, &cx), open.len()), (None, 0));
    }
}
