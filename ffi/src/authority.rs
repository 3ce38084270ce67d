//! `LeaseMachines::Authority`

use std::cell::RefCell;

use lease_machines::{ClockPolicy, Decision, FencingToken, LeaseAuthority};
use magnus::{Error, RClass, Ruby, Symbol, Value, method, prelude::*, typed_data::Obj};

use crate::{build, checkpoint, errors, numbers, receiver, time};

/// It is borrowed only within one call of the core, which calls nothing of Ruby's, so that no second borrow can come to
/// meet the first. For that it must not be in two Ractors, and it is not shareable, frozen or not.
#[magnus::wrap(class = "LeaseMachines::Authority", free_immediately, wb_protected, size)]
pub(crate) struct Authority {
    core: RefCell<LeaseAuthority>,
    policy: ClockPolicy,
}

pub(crate) fn define(class: RClass) -> Result<(), Error> {
    class.undef_default_alloc_func();
    let singleton = class.singleton_class()?;
    singleton.define_private_method("_new", method!(new, 1))?;
    singleton.define_private_method("_restore", method!(restore, 2))?;
    class.define_private_method("_acquire", method!(acquire, 3))?;
    class.define_private_method("_reacquire", method!(reacquire, 3))?;
    class.define_private_method("_renew", method!(renew, 4))?;
    class.define_private_method("_release", method!(release, 3))?;
    class.define_private_method("_revoke", method!(revoke, 2))?;
    class.define_method("checkpoint", method!(checkpoint, 0))?;
    class.define_method("lease", method!(lease, 0))?;
    class.define_method("last_issued", method!(last_issued, 0))?;
    class.define_method("observed", method!(observed, 0))?;
    class.define_method("clock_policy", method!(clock_policy, 0))
}

fn new(ruby: &Ruby, class: RClass, policy: Value) -> Result<Obj<Authority>, Error> {
    wrap(ruby, class, LeaseAuthority::new(), policy)
}

fn restore(ruby: &Ruby, class: RClass, from: Value, policy: Value) -> Result<Obj<Authority>, Error> {
    wrap(ruby, class, LeaseAuthority::restore(checkpoint::from_ruby(ruby, from)?), policy)
}

fn wrap(ruby: &Ruby, class: RClass, core: LeaseAuthority, policy: Value) -> Result<Obj<Authority>, Error> {
    let policy = policy_from_ruby(ruby, policy)?;
    Ok(ruby.obj_wrap_as(Authority { core: RefCell::new(core.with_clock_policy(policy)), policy }, class))
}

fn acquire(ruby: &Ruby, this: Value, owner: Value, now: Value, ttl: Value) -> Result<Value, Error> {
    let this = receiver::mutable::<Authority>(ruby, this)?;
    let owner = numbers::owner(ruby, owner)?;
    let now = time::from_ruby(ruby, "now", now)?;
    let ttl = time::from_ruby(ruby, "ttl", ttl)?;
    build::decision(ruby, this.core.borrow_mut().acquire(owner, now, ttl))
}

fn reacquire(ruby: &Ruby, this: Value, owner: Value, now: Value, ttl: Value) -> Result<Value, Error> {
    let this = receiver::mutable::<Authority>(ruby, this)?;
    let owner = numbers::owner(ruby, owner)?;
    let now = time::from_ruby(ruby, "now", now)?;
    let ttl = time::from_ruby(ruby, "ttl", ttl)?;
    build::decision(ruby, this.core.borrow_mut().reacquire(owner, now, ttl))
}

fn renew(
    ruby: &Ruby,
    this: Value,
    owner: Value,
    token: Value,
    now: Value,
    ttl: Value,
) -> Result<Value, Error> {
    let this = receiver::mutable::<Authority>(ruby, this)?;
    let owner = numbers::owner(ruby, owner)?;
    let token = numbers::shown_token(ruby, "token", token)?;
    let now = time::from_ruby(ruby, "now", now)?;
    let ttl = time::from_ruby(ruby, "ttl", ttl)?;
    let token = this.stale_if_zero(token);
    build::decision(ruby, this.core.borrow_mut().renew(owner, token, now, ttl))
}

fn release(ruby: &Ruby, this: Value, owner: Value, token: Value, now: Value) -> Result<Value, Error> {
    let this = receiver::mutable::<Authority>(ruby, this)?;
    let owner = numbers::owner(ruby, owner)?;
    let token = numbers::shown_token(ruby, "token", token)?;
    let now = time::from_ruby(ruby, "now", now)?;
    let token = this.stale_if_zero(token);
    build::decision(ruby, this.core.borrow_mut().release(owner, token, now))
}

/// The burnt token, or the rejected decision.
fn revoke(ruby: &Ruby, this: Value, now: Value, expect: Value) -> Result<Value, Error> {
    let this = receiver::mutable::<Authority>(ruby, this)?;
    let now = time::from_ruby(ruby, "now", now)?;
    let expect = if expect.is_nil() {
        None
    } else {
        Some(this.stale_if_zero(numbers::shown_token(ruby, "expect", expect)?))
    };
    match this.core.borrow_mut().revoke(expect, now) {
        Ok(burnt) => Ok(ruby.integer_from_u64(burnt.value()).as_value()),
        Err(reason) => build::decision(ruby, Decision::Rejected(reason)),
    }
}

fn checkpoint(ruby: &Ruby, this: &Authority) -> Value {
    checkpoint::to_ruby(ruby, this.core.borrow().checkpoint())
}

fn lease(ruby: &Ruby, this: &Authority) -> Result<Option<Value>, Error> {
    this.core.borrow().lease().map(|lease| build::lease(ruby, lease)).transpose()
}

fn last_issued(this: &Authority) -> Option<u64> {
    this.core.borrow().last_issued().map(FencingToken::value)
}

fn observed(this: &Authority) -> f64 {
    time::to_seconds(this.core.borrow().observed())
}

fn clock_policy(ruby: &Ruby, this: &Authority) -> Symbol {
    ruby.to_symbol(match this.policy {
        ClockPolicy::Reject => "reject",
        ClockPolicy::Clamp => "clamp",
    })
}

impl Authority {
    /// The core's tokens are never zero, and a zero shown by a caller is as stale as any token that was never issued. So
    /// another such token goes in for it, and everything that is checked before the token is still checked before it.
    fn stale_if_zero(&self, token: Option<FencingToken>) -> FencingToken {
        token.unwrap_or_else(|| {
            let current = self.core.borrow().lease().map(|lease| lease.token());
            if current == Some(FencingToken::FIRST) {
                FencingToken::FIRST.next().unwrap_or(FencingToken::FIRST)
            } else {
                FencingToken::FIRST
            }
        })
    }
}

fn policy_from_ruby(ruby: &Ruby, value: Value) -> Result<ClockPolicy, Error> {
    let Some(policy) = Symbol::from_value(value) else {
        return Err(errors::wrong_type(ruby, "clock_policy", "the Symbol :reject or :clamp", value));
    };
    match &*policy.name()? {
        "reject" => Ok(ClockPolicy::Reject),
        "clamp" => Ok(ClockPolicy::Clamp),
        other => Err(errors::argument(
            ruby,
            format!("clock_policy must be :reject or :clamp, not :{}", errors::shortened(other)),
        )),
    }
}
