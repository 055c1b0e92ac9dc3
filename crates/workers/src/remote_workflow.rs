//! A workflow whose function runs in a worker.
//!
//! Each item of the worker becomes a call on the context of the run, so every rule is the engine's. This function plays
//! the part of the code: it holds a computation guard whenever the worker owes a batch, and gives outcomes one by one, in
//! the engine's order of delivery.

use std::collections::{HashSet, VecDeque};
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll};

use hapax_api::RawJson;
use hapax_engine::{Ctx, Failure};

use crate::items::{FunctionEnd, Item, Operation};
use crate::limits::{BATCH_WITHIN, MAX_LOG_PAGE, MAX_LOG_PAGE_BYTES, MAX_OPEN_OPERATIONS};
use crate::link::{Batch, BatchItem, LinkEnd, RunLink};
use crate::mailbox::Envelope;
use crate::messages::{Activate, Resolved, record_of, text_of, trace_of};
use crate::open_operations::{OpenOperations, Outcome};
use crate::operations::{BegunOperation, OpenedScope, begin};
use crate::session::Session;

/// Runs the function of a run in the worker of `session`.
pub(crate) async fn run_remotely(
    ctx: Ctx,
    input: RawJson,
    session: Arc<Session>,
) -> Result<RawJson, Failure> {
    let recorded = ctx.list_recorded();
    let left_to_replay = recorded.iter().filter(|step| step.is_ordered).count();
    let records: Vec<RawJson> = recorded.iter().map(record_of).collect();
    let link = RunLink::new(session, ctx.run_id().to_string(), ctx.return_handle());
    activate(&ctx, &link, &input, records);
    let mut remote = RemoteWorkflow::new(ctx.clone(), link.clone(), left_to_replay);
    match remote.run(&ctx).await {
        FunctionEnd::Returns(output) => {
            link.end();
            Ok(output)
        }
        FunctionEnd::Throws(failure) => {
            link.end();
            Err(failure)
        }
        FunctionEnd::ContinuesAsNew(input) => {
            link.end();
            ctx.continue_as_new(&input)
        }
    }
}

fn activate(ctx: &Ctx, link: &RunLink, input: &RawJson, records: Vec<RawJson>) {
    let first = first_page(&records, 0);
    let message = text_of(&Activate {
        kind: "activate",
        run: &link.run,
        activation: &link.activation,
        workflow: ctx.workflow_name(),
        version: ctx.workflow_version(),
        fence: ctx.fence(),
        key_prefix: &ctx.effect_key_prefix(),
        workspace: ctx.workspace().as_str(),
        input,
        log: &records[..first],
        log_more: first < records.len(),
        now: ctx.current_time().to_string(),
        trace: trace_of(ctx.run_id(), ctx.fence()),
    });
    if first < records.len() {
        link.keep_log(Arc::new(records));
    }
    link.session.post(Envelope::new(message).taking_slot());
}

/// End of the page of records that begins at `from`.
pub(crate) fn first_page(records: &[RawJson], from: usize) -> usize {
    let mut bytes = 0;
    let page = records[from..].iter().take(MAX_LOG_PAGE);
    let fitting = page.take_while(|record| {
        let is_first = bytes == 0;
        bytes += record.text().len();
        is_first || bytes <= MAX_LOG_PAGE_BYTES
    });
    from + fitting.count()
}

/// Next event for the function.
enum Next {
    Batch(Batch),
    Resolved(u32, Outcome),
}

/// How a batch was carried out.
enum Carried {
    /// The worker is to hear of the next outcome.
    Waits,
    Ends(FunctionEnd),
    /// The run goes on elsewhere.
    Elsewhere,
}

/// One open scope or shield, with the operations in it.
struct OpenScope {
    op: u32,
    parent: Option<u32>,
    opened: OpenedScope,
}

/// Operations of one activation. Fields are dropped in their order: operations before the scopes they are in.
struct RemoteWorkflow {
    /// Outcomes that were there at once, in the order of their requests.
    ready: VecDeque<(u32, Outcome)>,
    open: OpenOperations,
    scopes: Vec<OpenScope>,
    link: Arc<RunLink>,
    ctx: Ctx,
    last_op: u32,
    /// Operation of the last outcome sent to the worker, until the worker has gone on.
    told: Option<u32>,
    /// Operations with an outcome that the code has received.
    taken: HashSet<u32>,
    /// Outcomes of the log that the code has not received.
    left_to_replay: usize,
    /// Steps without an attempt so far.
    starting: HashSet<u32>,
}

impl Drop for RemoteWorkflow {
    fn drop(&mut self) {
        // Effects of an inner scope belong to the outer one once the inner one is dropped.
        self.open.clear();
        while self.scopes.pop().is_some() {}
    }
}

impl RemoteWorkflow {
    fn new(ctx: Ctx, link: Arc<RunLink>, left_to_replay: usize) -> Self {
        RemoteWorkflow {
            ready: VecDeque::new(),
            open: OpenOperations::default(),
            scopes: Vec::new(),
            link,
            ctx,
            last_op: 0,
            told: None,
            taken: HashSet::new(),
            left_to_replay,
            starting: HashSet::new(),
        }
    }

    /// Carries out what the worker asks for until its function ends.
    async fn run(&mut self, ctx: &Ctx) -> FunctionEnd {
        // Until the first batch, the code is at work.
        let mut computing = Some(ctx.begin_computation());
        loop {
            let next = match computing.is_some() {
                true => self.wait_for_batch().await,
                false => self.wait_for_anything().await,
            };
            match next {
                None => {
                    drop(computing.take());
                    return self.finish_elsewhere().await;
                }
                Some(Next::Resolved(op, outcome)) => {
                    computing = Some(ctx.begin_computation());
                    self.tell(op, &outcome);
                }
                Some(Next::Batch(batch)) => {
                    drop(computing.take());
                    match self.carry_out(batch).await {
                        Carried::Ends(end) => return end,
                        Carried::Elsewhere => return self.finish_elsewhere().await,
                        Carried::Waits => {}
                    }
                    if self.told.is_some() {
                        // Outcomes of attempts came, but the code has not gone on yet.
                        computing = Some(ctx.begin_computation());
                        self.link.be_quiet();
                    }
                }
            }
        }
    }

    /// Waits for the batch that the worker owes.
    async fn wait_for_batch(&mut self) -> Option<Next> {
        let patience = self.link.session.clock().sleep(BATCH_WITHIN);
        let link = self.link.clone();
        let batch = poll_fn(|cx| match link.poll_batch(cx) {
            Poll::Ready(batch) => Poll::Ready(Some(Next::Batch(batch))),
            Poll::Pending if link.is_severed() => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        });
        tokio::select! {
            biased;
            next = batch => next,
            () = patience => {
                self.link.sever(LinkEnd::Reload);
                None
            }
        }
    }

    /// Waits for the next batch, or the next outcome.
    async fn wait_for_anything(&mut self) -> Option<Next> {
        let link = self.link.clone();
        poll_fn(|cx| {
            if let Poll::Ready(batch) = link.poll_batch(cx) {
                return Poll::Ready(Some(Next::Batch(batch)));
            }
            if link.is_severed() {
                return Poll::Ready(None);
            }
            if let Poll::Ready((op, outcome)) = self.poll_outcome(cx) {
                return Poll::Ready(Some(Next::Resolved(op, outcome)));
            }
            let link = &self.link;
            self.starting.retain(|op| !link.has_begun(*op));
            if self.starting.is_empty() {
                link.be_quiet();
            }
            Poll::Pending
        })
        .await
    }

    /// Next outcome, in the engine's order of delivery.
    fn poll_outcome(&mut self, cx: &mut Context<'_>) -> Poll<(u32, Outcome)> {
        if let Some(ready) = self.ready.pop_front() {
            return Poll::Ready(ready);
        }
        if let Poll::Ready((op, outcome)) = self.open.poll(cx) {
            self.starting.remove(&op);
            return Poll::Ready((op, outcome));
        }
        // A scope whose body failed has its outcome when its effects are undone.
        for place in (0..self.scopes.len()).rev() {
            if let Poll::Ready(outcome) = self.scopes[place].opened.poll(cx) {
                let scope = self.scopes.remove(place);
                return Poll::Ready((scope.op, outcome));
            }
        }
        Poll::Pending
    }

    fn tell(&mut self, op: u32, outcome: &Outcome) {
        self.told = Some(op);
        let (output, failure) = match outcome {
            Ok(output) => (Some(output), None),
            Err(failure) => (None, Some(failure.into())),
        };
        let (run, activation) = (&*self.link.run, &*self.link.activation);
        self.link.say_or_give_back(text_of(&Resolved {
            kind: "resolved",
            run,
            activation,
            op,
            output,
            failure,
        }));
    }

    /// Carries out the items of a batch, in their order.
    async fn carry_out(&mut self, batch: Batch) -> Carried {
        let mut ended: Option<(u32, bool)> = None;
        for item in batch.items {
            let done = match item {
                BatchItem::Ended { op, counts } => {
                    ended = Some((op, counts));
                    continue;
                }
                BatchItem::Other(Item::Took(op)) => self.take(op, ended.take()).await,
                BatchItem::Other(Item::Asks(operation)) => self.ask(*operation).await,
                BatchItem::Other(Item::Abandons(op)) => self.abandon(op),
                BatchItem::Other(Item::ClosesScope(op, failure)) => self.close_scope(op, failure).await,
                BatchItem::Other(Item::Ends(end)) => return Carried::Ends(end),
                BatchItem::Other(Item::Evicted) => {
                    self.link.sever(LinkEnd::Evicted);
                    return Carried::Elsewhere;
                }
                BatchItem::Other(Item::Violation(why)) => Err(format!("DeterminismViolation: {why}.")),
                BatchItem::Other(Item::Ended(_)) => unreachable!("ends of attempts are sorted out before"),
            };
            if let Err(why) = done {
                self.link.violate(why);
            }
            if self.link.is_severed() {
                return Carried::Elsewhere;
            }
        }
        Carried::Waits
    }

    /// The code received the outcome of `op`. Waits until the engine delivers it.
    async fn take(&mut self, op: u32, ended: Option<(u32, bool)>) -> Result<(), String> {
        if self.told == Some(op) {
            self.told = None;
            self.left_to_replay = self.left_to_replay.saturating_sub(1);
            return self.mark_taken(op);
        }
        let of_attempt = ended.filter(|(of, _)| *of == op);
        match of_attempt {
            // The attempt was over before: it took too long, say. The code went on with what does not count.
            Some((_, false)) => {
                self.link.sever(LinkEnd::Reload);
                return Ok(());
            }
            Some((_, true)) if self.told.is_none() => {}
            None if self.told.is_none() && self.left_to_replay > 0 => self.left_to_replay -= 1,
            Some((_, true)) | None => {
                return Err(format!("the code received an outcome of operation {op} that nobody gave it."));
            }
        }
        let link = self.link.clone();
        let next = poll_fn(|cx| {
            if link.is_severed() {
                return Poll::Ready(None);
            }
            link.watch(cx);
            self.poll_outcome(cx).map(Some)
        })
        .await;
        match next {
            None => Ok(()),
            Some((resolved, Ok(_))) if resolved == op => self.mark_taken(op),
            Some((resolved, Err(_))) if resolved == op && of_attempt.is_none() => self.mark_taken(op),
            Some((resolved, _)) if of_attempt.is_none() => Err(format!(
                "DeterminismViolation: the history gives the outcome of operation {resolved} here, but the code received \
                 that of operation {op}."
            )),
            // It was decided otherwise in the meantime.
            Some(_) => {
                self.link.sever(LinkEnd::Reload);
                Ok(())
            }
        }
    }

    fn mark_taken(&mut self, op: u32) -> Result<(), String> {
        match self.taken.insert(op) {
            true => Ok(()),
            false => Err(format!("the code received the outcome of operation {op} twice.")),
        }
    }

    /// The code asks for an operation.
    async fn ask(&mut self, operation: Operation) -> Result<(), String> {
        let Operation { op, scope, what } = operation;
        if op != self.last_op + 1 {
            return Err(format!("operation {op} follows operation {}.", self.last_op));
        }
        if self.open.len() + self.ready.len() + self.scopes.len() >= MAX_OPEN_OPERATIONS {
            return Err(format!("{MAX_OPEN_OPERATIONS} operations are open at once."));
        }
        self.last_op = op;
        let ctx = self.ctx_of(scope)?;
        let begun = begin(&ctx, &self.link, op, what)?;
        match begun {
            BegunOperation::Known => Ok(()),
            BegunOperation::Scope(mut opened) => {
                // The body runs as far as it goes, which gives the context of the scope.
                poll_fn(|cx| Poll::Ready(opened.poll(cx).is_ready())).await;
                self.scopes.push(OpenScope { op, parent: scope, opened });
                Ok(())
            }
            BegunOperation::Open { mut future, is_step } => {
                // The first look at an operation belongs to the turn of its request.
                let polled = poll_fn(|cx| Poll::Ready(future.as_mut().poll(cx))).await;
                match polled {
                    Poll::Ready(outcome) => self.ready.push_back((op, outcome)),
                    Poll::Pending => {
                        if is_step {
                            self.starting.insert(op);
                        }
                        self.open.insert(op, future, scope);
                    }
                }
                Ok(())
            }
        }
    }

    /// Context of operations in `scope`.
    fn ctx_of(&self, scope: Option<u32>) -> Result<Ctx, String> {
        let Some(op) = scope else { return Ok(self.ctx.clone()) };
        let found = self.scopes.iter().find(|scope| scope.op == op && !scope.opened.is_closed());
        let found = found.ok_or_else(|| format!("scope {op} is not open."))?;
        match found.opened.inner() {
            Some(ctx) => Ok(ctx),
            // A shield has no effects of its own.
            None => self.ctx_of(found.parent),
        }
    }

    /// The code no longer waits for `op`.
    fn abandon(&mut self, op: u32) -> Result<(), String> {
        if op == 0 || op > self.last_op {
            return Err(format!("operation {op} was never asked for."));
        }
        self.ready.retain(|(ready, _)| *ready != op);
        if let Some(future) = self.open.remove(op) {
            self.starting.remove(&op);
            self.ctx.abandon(future);
        } else if let Some(place) = self.scopes.iter().position(|scope| scope.op == op) {
            self.drop_inside(op);
            let scope = self.scopes.remove(place);
            self.ctx.abandon(scope);
        }
        Ok(())
    }

    /// Drops what is still open in a scope.
    fn drop_inside(&mut self, scope: u32) {
        for op in self.open.list_in(scope) {
            self.starting.remove(&op);
            self.ctx.abandon(self.open.remove(op));
        }
        while let Some(place) = self.scopes.iter().rposition(|inner| inner.parent == Some(scope)) {
            let inner = self.scopes[place].op;
            self.drop_inside(inner);
            let inner = self.scopes.remove(place);
            self.ctx.abandon(inner);
        }
    }

    /// The body of a scope ended.
    async fn close_scope(&mut self, op: u32, failure: Option<Failure>) -> Result<(), String> {
        let is_open = |scope: &&mut OpenScope| scope.op == op && !scope.opened.is_closed();
        if self.scopes.iter_mut().find(is_open).is_none() {
            return Err(format!("scope {op} is not open."));
        }
        self.drop_inside(op);
        let place = self.scopes.iter().position(|scope| scope.op == op).expect("found just now");
        let is_known = self.scopes[place].opened.close(failure);
        if is_known {
            // Its outcome is there at once.
            let mut scope = self.scopes.remove(place);
            let done = poll_fn(|cx| Poll::Ready(scope.opened.poll(cx).is_ready())).await;
            debug_assert!(done, "a scope whose body succeeded has nothing to undo");
        }
        Ok(())
    }

    /// The run is given back. Attempts under way end first, and their outcomes are recorded.
    async fn finish_elsewhere(&mut self) -> FunctionEnd {
        poll_fn(|cx| {
            while self.poll_outcome(cx).is_ready() {}
            Poll::Pending
        })
        .await
    }
}
