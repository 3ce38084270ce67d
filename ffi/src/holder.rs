//! `LeaseMachines::Holder`

use core::time::Duration;
use std::cell::RefCell;

use lease_machines::{Holder as Core, HolderState};
use magnus::{Error, RClass, Ruby, Symbol, Value, method, prelude::*, typed_data::Obj};

use crate::{cadence, numbers, receiver, time};

/// The core's holder. It is borrowed only within one call of the core, which calls nothing of Ruby's, so that no second
/// borrow can come to meet the first. For that it must not be in two Ractors, and it is not shareable, frozen or not.
#[magnus::wrap(class = "LeaseMachines::Holder", free_immediately, wb_protected, size)]
pub(crate) struct Holder(RefCell<Core>);

pub(crate) fn define(class: RClass) -> Result<(), Error> {
    class.undef_default_alloc_func();
    let singleton = class.singleton_class()?;
    singleton.define_private_method("_new", method!(new, 3))?;
    singleton.define_private_method("_granted", method!(granted, 5))?;
    class.define_private_method("_state_at", method!(state_at, 1))?;
    class.define_private_method("_may_act", method!(may_act, 1))?;
    class.define_private_method("_at_risk", method!(at_risk, 1))?;
    class.define_private_method("_renewal_due", method!(renewal_due, 1))?;
    class.define_private_method("_refresh", method!(refresh, 1))?;
    class.define_private_method("_confirm", method!(confirm, 2))?;
    class.define_private_method("_confirm_at", method!(confirm_at, 4))?;
    class.define_private_method("_reacquire", method!(reacquire, 2))?;
    class.define_private_method("_reacquire_at", method!(reacquire_at, 4))?;
    class.define_method("token", method!(token, 0))?;
    class.define_method("confirmed_at", method!(confirmed_at, 0))?;
    class.define_method("state", method!(state, 0))?;
    class.define_method("renewal_at", method!(renewal_at, 0))?;
    class.define_method("warning_deadline", method!(warning_deadline, 0))?;
    class.define_method("stop_deadline", method!(stop_deadline, 0))?;
    class.define_method("expire", method!(expire, 0))?;
    class.define_method("fence", method!(fence, 0))
}

fn new(
    ruby: &Ruby,
    class: RClass,
    token: Value,
    confirmed_at: Value,
    cadence: Value,
) -> Result<Obj<Holder>, Error> {
    let token = numbers::issued_token(ruby, "token", token)?;
    let confirmed_at = time::from_ruby(ruby, "confirmed_at", confirmed_at)?;
    let cadence = cadence::from_ruby(ruby, "cadence", cadence)?;
    Ok(wrap(ruby, class, Core::new(token, confirmed_at, cadence)))
}

fn granted(
    ruby: &Ruby,
    class: RClass,
    token: Value,
    sent: Value,
    granted_ttl: Value,
    now: Value,
    cadence: Value,
) -> Result<Obj<Holder>, Error> {
    let token = numbers::issued_token(ruby, "token", token)?;
    let sent = time::from_ruby(ruby, "sent", sent)?;
    let granted_ttl = time::from_ruby(ruby, "granted_ttl", granted_ttl)?;
    let now = time::from_ruby(ruby, "now", now)?;
    let cadence = cadence::from_ruby(ruby, "cadence", cadence)?;
    Ok(wrap(ruby, class, Core::granted(token, sent, granted_ttl, now, cadence)))
}

fn wrap(ruby: &Ruby, class: RClass, holder: Core) -> Obj<Holder> {
    ruby.obj_wrap_as(Holder(RefCell::new(holder)), class)
}

fn token(this: &Holder) -> u64 {
    this.0.borrow().token().value()
}

fn confirmed_at(this: &Holder) -> f64 {
    time::to_seconds(this.0.borrow().confirmed_at())
}

fn state(ruby: &Ruby, this: &Holder) -> Result<Symbol, Error> {
    symbol(ruby, this.0.borrow().state())
}

fn state_at(ruby: &Ruby, this: &Holder, now: Value) -> Result<Symbol, Error> {
    let now = time::from_ruby(ruby, "now", now)?;
    symbol(ruby, this.0.borrow().state_at(now))
}

fn may_act(ruby: &Ruby, this: &Holder, now: Value) -> Result<bool, Error> {
    let now = time::from_ruby(ruby, "now", now)?;
    Ok(this.0.borrow().may_act(now))
}

fn at_risk(ruby: &Ruby, this: &Holder, now: Value) -> Result<bool, Error> {
    let now = time::from_ruby(ruby, "now", now)?;
    Ok(this.0.borrow().at_risk(now))
}

fn renewal_due(ruby: &Ruby, this: &Holder, now: Value) -> Result<bool, Error> {
    let now = time::from_ruby(ruby, "now", now)?;
    Ok(this.0.borrow().renewal_due(now))
}

fn renewal_at(this: &Holder) -> Option<f64> {
    this.0.borrow().renewal_at().map(time::to_seconds)
}

fn warning_deadline(this: &Holder) -> Option<f64> {
    this.0.borrow().warning_deadline().map(time::to_seconds)
}

fn stop_deadline(this: &Holder) -> Option<f64> {
    this.0.borrow().stop_deadline().map(time::to_seconds)
}

fn refresh(ruby: &Ruby, this: Value, now: Value) -> Result<bool, Error> {
    let this = receiver::mutable::<Holder>(ruby, this)?;
    let now = time::from_ruby(ruby, "now", now)?;
    Ok(this.0.borrow_mut().refresh(now))
}

fn confirm(ruby: &Ruby, this: Value, token: Value, at: Value) -> Result<bool, Error> {
    let this = receiver::mutable::<Holder>(ruby, this)?;
    let token = numbers::shown_token(ruby, "token", token)?;
    let at = time::from_ruby(ruby, "at", at)?;
    Ok(token.is_some_and(|token| this.0.borrow_mut().confirm(token, at)))
}

fn confirm_at(
    ruby: &Ruby,
    this: Value,
    token: Value,
    sent: Value,
    granted_ttl: Value,
    now: Value,
) -> Result<bool, Error> {
    let this = receiver::mutable::<Holder>(ruby, this)?;
    let token = numbers::shown_token(ruby, "token", token)?;
    let sent = time::from_ruby(ruby, "sent", sent)?;
    let granted_ttl = time::from_ruby(ruby, "granted_ttl", granted_ttl)?;
    let now = time::from_ruby(ruby, "now", now)?;
    let holder = &mut this.0.borrow_mut();
    Ok(match token {
        Some(token) => holder.confirm_at(token, sent, granted_ttl, now),
        None => never_issued(holder, now),
    })
}

fn reacquire(ruby: &Ruby, this: Value, token: Value, at: Value) -> Result<bool, Error> {
    let this = receiver::mutable::<Holder>(ruby, this)?;
    let token = numbers::shown_token(ruby, "token", token)?;
    let at = time::from_ruby(ruby, "at", at)?;
    Ok(token.is_some_and(|token| this.0.borrow_mut().reacquire(token, at)))
}

fn reacquire_at(
    ruby: &Ruby,
    this: Value,
    token: Value,
    sent: Value,
    granted_ttl: Value,
    now: Value,
) -> Result<bool, Error> {
    let this = receiver::mutable::<Holder>(ruby, this)?;
    let token = numbers::shown_token(ruby, "token", token)?;
    let sent = time::from_ruby(ruby, "sent", sent)?;
    let granted_ttl = time::from_ruby(ruby, "granted_ttl", granted_ttl)?;
    let now = time::from_ruby(ruby, "now", now)?;
    let holder = &mut this.0.borrow_mut();
    Ok(match token {
        Some(token) => holder.reacquire_at(token, sent, granted_ttl, now),
        None => never_issued(holder, now),
    })
}

fn expire(ruby: &Ruby, this: Value) -> Result<bool, Error> {
    let this = receiver::mutable::<Holder>(ruby, this)?;
    Ok(this.0.borrow_mut().expire())
}

fn fence(ruby: &Ruby, this: Value) -> Result<(), Error> {
    let this = receiver::mutable::<Holder>(ruby, this)?;
    this.0.borrow_mut().fence();
    Ok(())
}

/// An answer under token zero is older than any token and changes nothing, except that the clock has its say, as it has
/// with every answer.
fn never_issued(holder: &mut Core, now: Duration) -> bool {
    if holder.state_at(now) == HolderState::Expired {
        holder.expire();
    }
    false
}

fn symbol(ruby: &Ruby, state: HolderState) -> Result<Symbol, Error> {
    Ok(ruby.to_symbol(match state {
        HolderState::Confirmed => "confirmed",
        HolderState::Unconfirmed => "unconfirmed",
        HolderState::AtRisk => "at_risk",
        HolderState::Expired => "expired",
        HolderState::Fenced => "fenced",
        _ => return Err(Error::new(ruby.exception_runtime_error(), format!("no symbol for {state:?}"))),
    }))
}
