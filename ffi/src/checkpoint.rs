//! `LeaseMachines::Checkpoint`

use lease_machines::{Checkpoint as Core, FencingToken};
use magnus::{Error, RClass, RString, Ruby, Value, method, prelude::*, typed_data::Obj};

use crate::{build, errors, lease, numbers, time};

/// It holds the core's own value, since a Float cannot carry every instant to the nanosecond.
#[magnus::wrap(class = "LeaseMachines::Checkpoint", free_immediately, wb_protected, frozen_shareable, size)]
pub(crate) struct Checkpoint(Core);

pub(crate) fn define(class: RClass) -> Result<(), Error> {
    class.undef_default_alloc_func();
    let singleton = class.singleton_class()?;
    singleton.define_private_method("_from_parts", method!(from_parts, 3))?;
    singleton.define_method("from_bytes", method!(from_bytes, 1))?;
    class.define_method("last_issued", method!(last_issued, 0))?;
    class.define_method("lease", method!(lease, 0))?;
    class.define_method("observed", method!(observed, 0))?;
    class.define_method("to_bytes", method!(to_bytes, 0))
}

/// The core's value, frozen.
pub(crate) fn to_ruby(ruby: &Ruby, checkpoint: Core) -> Value {
    let object = ruby.obj_wrap(Checkpoint(checkpoint));
    object.freeze();
    object.as_value()
}

/// Reads a Checkpoint of Ruby's.
pub(crate) fn from_ruby(ruby: &Ruby, value: Value) -> Result<Core, Error> {
    match Obj::<Checkpoint>::try_convert(value) {
        Ok(checkpoint) => Ok(checkpoint.0),
        Err(_) => Err(errors::wrong_type(ruby, "checkpoint", "a LeaseMachines::Checkpoint", value)),
    }
}

fn from_parts(
    ruby: &Ruby,
    _: RClass,
    last_issued: Value,
    lease: Value,
    observed: Value,
) -> Result<Value, Error> {
    let last_issued = numbers::optional_token(ruby, "last_issued", last_issued)?;
    let lease = if lease.is_nil() { None } else { Some(lease::from_ruby(ruby, "lease", lease)?) };
    let observed = time::from_ruby(ruby, "observed", observed)?;
    let checkpoint = Core::from_parts(last_issued, lease, observed).ok_or_else(|| {
        let token = lease.map_or_else(String::new, |lease| lease.token().to_string());
        let last = last_issued.map_or_else(|| "none".to_owned(), |last| last.to_string());
        errors::argument(
            ruby,
            format!("lease has token {token}, which was never issued: last_issued is {last}"),
        )
    })?;
    Ok(to_ruby(ruby, checkpoint))
}

fn from_bytes(ruby: &Ruby, _: RClass, bytes: Value) -> Result<Value, Error> {
    let Some(bytes) = RString::from_value(bytes) else {
        return Err(errors::wrong_type(ruby, "bytes", "a String", bytes));
    };
    let checkpoint = build::read_bytes(bytes, Core::from_bytes)
        .map_err(|error| errors::invalid_checkpoint(ruby, error))?;
    Ok(to_ruby(ruby, checkpoint))
}

fn last_issued(this: &Checkpoint) -> Option<u64> {
    this.0.last_issued().map(FencingToken::value)
}

fn lease(ruby: &Ruby, this: &Checkpoint) -> Result<Option<Value>, Error> {
    this.0.lease().map(|lease| build::lease(ruby, lease)).transpose()
}

fn observed(this: &Checkpoint) -> f64 {
    time::to_seconds(this.0.observed())
}

fn to_bytes(ruby: &Ruby, this: &Checkpoint) -> RString {
    ruby.str_from_slice(&this.0.to_bytes())
}
