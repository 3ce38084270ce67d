//! `LeaseMachines::Fence`

use std::cell::Cell;

use lease_machines::{Fence as Core, FencingToken};
use magnus::{Error, RClass, Ruby, Value, method, prelude::*, typed_data::Obj};

use crate::{numbers, receiver};

/// The mark of a fence between two questions.
#[magnus::wrap(class = "LeaseMachines::Fence", free_immediately, wb_protected, size)]
pub(crate) struct Fence {
    highest: Cell<Option<FencingToken>>,
}

pub(crate) fn define(class: RClass) -> Result<(), Error> {
    class.undef_default_alloc_func();
    class.singleton_class()?.define_private_method("_new", method!(new, 1))?;
    class.define_method("accept", method!(accept, 1))?;
    class.define_method("would_accept?", method!(would_accept, 1))?;
    class.define_method("highest", method!(highest, 0))
}

fn new(ruby: &Ruby, class: RClass, highest: Value) -> Result<Obj<Fence>, Error> {
    let highest = numbers::optional_token(ruby, "highest", highest)?;
    Ok(ruby.obj_wrap_as(Fence { highest: Cell::new(highest) }, class))
}

fn accept(ruby: &Ruby, this: Value, token: Value) -> Result<bool, Error> {
    let this = receiver::mutable::<Fence>(ruby, this)?;
    let Some(token) = numbers::shown_token(ruby, "token", token)? else { return Ok(false) };
    let mut fence = Core::new(this.highest.get());
    let accepted = fence.accept(token);
    this.highest.set(fence.highest());
    Ok(accepted)
}

fn would_accept(ruby: &Ruby, this: &Fence, token: Value) -> Result<bool, Error> {
    let token = numbers::shown_token(ruby, "token", token)?;
    Ok(token.is_some_and(|token| Core::new(this.highest.get()).would_accept(token)))
}

fn highest(this: &Fence) -> Option<u64> {
    this.highest.get().map(FencingToken::value)
}
