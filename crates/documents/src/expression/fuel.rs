//! Fuel of one evaluation, and the functions that spend it. An evaluation stays on its thread from start to end.

use std::cell::Cell;
use std::cmp::Ordering;

use cel::common::types::{
    CelBool, CelBytes, CelInt, CelList, CelMap, CelMapKey, CelOptional, CelString, DYN_TYPE, INT_TYPE,
};
use cel::common::value::{CowVal, Val};
use cel::{Env, ExecutionError};

use crate::limits::MAX_EXPRESSION_FUEL;

/// Returns a value and pays for its size.
pub(super) const READ: &str = "@read";
/// Returns the items of a loop: a list, or the keys of an object in order.
pub(super) const RANGE: &str = "@range";
/// Pays for one iteration of a loop; false if no fuel is left.
pub(super) const TURN: &str = "@turn";
/// Pays for an element that a loop creates, and returns it.
pub(super) const MADE: &str = "@made";

thread_local! {
    static LEFT: Cell<u64> = const { Cell::new(0) };
    static SPENT: Cell<bool> = const { Cell::new(false) };
    /// Fuel left for all evaluations of one call of [`within_fuel`].
    static TOGETHER: Cell<u64> = const { Cell::new(u64::MAX) };
    /// Set when an evaluation needed more than that.
    static OVER: Cell<bool> = const { Cell::new(false) };
}

/// Runs `evaluate`, whose expressions share `fuel`, and returns whether it was enough. If not, an expression failed
/// because of it.
pub(crate) fn within_fuel<T>(fuel: u64, evaluate: impl FnOnce() -> T) -> (T, bool) {
    let _reset = Reset((TOGETHER.replace(fuel), OVER.replace(false)));
    let value = evaluate();
    (value, !OVER.get())
}

/// Restores the previous state, even if an evaluation panics.
struct Reset((u64, bool));

impl Drop for Reset {
    fn drop(&mut self) {
        TOGETHER.set(self.0.0);
        OVER.set(self.0.1);
    }
}

/// Begins an evaluation, with the fuel of one evaluation or the rest, whichever is less.
pub(super) fn fill() {
    let left = MAX_EXPRESSION_FUEL.min(TOGETHER.get());
    LEFT.set(left);
    SPENT.set(left == 0);
    OVER.set(OVER.get() || left == 0);
}

/// Ends an evaluation and deducts its fuel from the rest.
pub(super) fn settle() {
    let filled = MAX_EXPRESSION_FUEL.min(TOGETHER.get());
    if SPENT.get() && filled < MAX_EXPRESSION_FUEL {
        OVER.set(true);
    }
    let burnt = if SPENT.get() { filled } else { filled - LEFT.get() };
    TOGETHER.set(TOGETHER.get().saturating_sub(burnt));
}

/// Pays for preparing data for an evaluation, from the shared fuel. False if none is left.
pub(super) fn prepare(amount: u64) -> bool {
    if TOGETHER.get() == u64::MAX {
        return true;
    }
    match TOGETHER.get().checked_sub(amount) {
        Some(left) => TOGETHER.set(left),
        None => OVER.set(true),
    }
    !OVER.get()
}

pub(super) fn is_spent() -> bool {
    SPENT.get()
}

pub(super) fn add_to(mut env: Env) -> Env {
    let added = env
        .add_overload(READ, READ, vec![DYN_TYPE], read)
        .and_then(|()| env.add_overload(RANGE, RANGE, vec![DYN_TYPE], range))
        .and_then(|()| env.add_overload(TURN, TURN, vec![INT_TYPE], turn))
        .and_then(|()| env.add_overload(MADE, MADE, vec![INT_TYPE, DYN_TYPE], made));
    added.expect("no standard function has such a name");
    env
}

fn pay(amount: u64) -> bool {
    match LEFT.get().checked_sub(amount) {
        Some(left) if !SPENT.get() => LEFT.set(left),
        _ => SPENT.set(true),
    }
    !SPENT.get()
}

fn spent() -> ExecutionError {
    ExecutionError::function_error("fuel", "it is spent")
}

/// Pays for a whole value; stops as soon as the fuel is used up.
fn pay_for(value: &(dyn Val + '_)) -> bool {
    if let Some(text) = value.downcast_ref::<CelString>() {
        return pay(8 + text.inner().len() as u64);
    }
    if let Some(bytes) = value.downcast_ref::<CelBytes>() {
        return pay(8 + bytes.inner().len() as u64);
    }
    if let Some(list) = value.downcast_ref::<CelList>() {
        return pay(8) && list.inner().iter().all(|item| pay_for(item.as_ref()));
    }
    if let Some(map) = value.downcast_ref::<CelMap>() {
        return pay(8)
            && map.inner().iter().all(|(key, item)| pay_for(key.inner()) && pay_for(item.as_ref()));
    }
    if let Some(optional) = value.downcast_ref::<CelOptional>() {
        return pay(8) && optional.inner().is_none_or(pay_for);
    }
    pay(8)
}

fn read<'b, 'v>(mut args: Vec<CowVal<'b, 'v>>) -> Result<CowVal<'b, 'v>, ExecutionError> {
    let value = args.pop().ok_or_else(spent)?;
    match pay_for(value.as_ref()) {
        true => Ok(value),
        false => Err(spent()),
    }
}

fn range<'b, 'v>(args: Vec<CowVal<'b, 'v>>) -> Result<CowVal<'b, 'v>, ExecutionError> {
    let value = read(args)?;
    let Some(map) = value.downcast_ref::<CelMap>() else {
        return Ok(value);
    };
    let mut keys: Vec<&CelMapKey<'v>> = map.inner().keys().collect();
    keys.sort_by(|a, b| a.partial_cmp(b).unwrap_or(Ordering::Equal));
    let keys: Vec<Box<dyn Val + 'v>> = keys.into_iter().map(|key| key.inner().clone_as_boxed()).collect();
    Ok(CowVal::owned(CelList::from(keys)))
}

fn amount(args: &[CowVal<'_, '_>]) -> u64 {
    let amount = args.first().and_then(|arg| arg.downcast_ref::<CelInt>()).map(|amount| *amount.inner());
    amount.and_then(|amount| u64::try_from(amount).ok()).unwrap_or(u64::MAX)
}

fn turn<'b, 'v>(args: Vec<CowVal<'b, 'v>>) -> Result<CowVal<'b, 'v>, ExecutionError> {
    Ok(CowVal::owned(CelBool::from(pay(amount(&args)))))
}

fn made<'b, 'v>(mut args: Vec<CowVal<'b, 'v>>) -> Result<CowVal<'b, 'v>, ExecutionError> {
    match pay(amount(&args)) {
        true => args.pop().ok_or_else(spent),
        false => Err(spent()),
    }
}
