//! The native half of the `lease_machines` gem: what `lib/` cannot say in Ruby, one file per Ruby class.
//!
//! Nothing here decides anything: values are read (`numbers`, `time`), the core is asked, and its answer is put
//! into frozen Ruby objects (`build`). The classes themselves, their documentation and every method that takes
//! keywords are defined in `lib/`; the positional methods here that begin with `_` are private to it.
//!
//! No method panics on any input, and none lets go of Ruby's lock: a decision takes less time than that would.

#![expect(missing_docs, reason = "the one public item is the entry point, which a macro writes")]

mod authority;
mod build;
mod cadence;
mod checkpoint;
mod errors;
mod fence;
mod holder;
mod lease;
mod numbers;
mod receiver;
mod time;

use magnus::{Error, Ruby, prelude::*};

#[magnus::init]
fn init(ruby: &Ruby) -> Result<(), Error> {
    build::declare_ractor_safe();
    let module = ruby.define_module("LeaseMachines")?;
    build::prepare(ruby, module)?;
    authority::define(module.const_get("Authority")?)?;
    cadence::define(module.const_get("Cadence")?)?;
    checkpoint::define(module.const_get("Checkpoint")?)?;
    fence::define(module.const_get("Fence")?)?;
    holder::define(module.const_get("Holder")?)?;
    lease::define(module.const_get("Lease")?)
}
