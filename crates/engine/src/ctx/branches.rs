//! Branches of a select.

use std::future::{Future, IntoFuture};
use std::pin::Pin;

/// Boxed branch of a [`Ctx::select`](super::Ctx::select).
pub type Branch<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Branches of a [`Ctx::select`](super::Ctx::select): a tuple of two to six steps, waits or other futures, or a
/// `Vec` of branches of one type.
pub trait Branches<'a, T> {
    /// Boxes the branches, in order.
    fn into_branches(self) -> Vec<Branch<'a, T>>;
}

impl<'a, T, F> Branches<'a, T> for Vec<F>
where
    F: IntoFuture<Output = T>,
    F::IntoFuture: Send + 'a,
{
    fn into_branches(self) -> Vec<Branch<'a, T>> {
        self.into_iter().map(|branch| Box::pin(branch.into_future()) as Branch<'a, T>).collect()
    }
}

macro_rules! impl_for_tuple {
    ($($type:ident $name:ident),+) => {
        impl<'a, T, $($type),+> Branches<'a, T> for ($($type,)+)
        where
            $($type: IntoFuture<Output = T>, $type::IntoFuture: Send + 'a),+
        {
            fn into_branches(self) -> Vec<Branch<'a, T>> {
                let ($($name,)+) = self;
                vec![$(Box::pin($name.into_future()) as Branch<'a, T>),+]
            }
        }
    };
}

impl_for_tuple!(A a, B b);
impl_for_tuple!(A a, B b, C c);
impl_for_tuple!(A a, B b, C c, D d);
impl_for_tuple!(A a, B b, C c, D d, E e);
impl_for_tuple!(A a, B b, C c, D d, E e, F f);
