//! The native half of the `lease_machines` gem: what `lib/` cannot say in Ruby, one file per Ruby class.
//!
//! Nothing here decides anything: values are read (`numbers`, `time`), the core is asked, and its answer is put
//! into frozen Ruby objects (`build`). The classes themselves, their documentation and every method that takes
//! keywords are defined in `lib/`; the positional methods here that begin with `_` are private to it.
//!
//! No method panics on any input. None that decides by itself lets go of Ruby's lock: that takes longer than a decision.
//! Those of a store do, and can be interrupted (`wait`).

#![expect(missing_docs, reason = "the one public item is the entry point, which a macro writes")]

mod answers;
mod authority;
mod build;
mod cadence;
mod checkpoint;
mod errors;
mod fence;
mod file;
mod gvl;
mod holder;
mod lease;
mod machine_id;
mod numbers;
mod opened;
mod process;
mod receiver;
mod sqlite;
mod store;
mod time;
mod wait;

use magnus::{Error, Ruby, prelude::*};

#[magnus::init]
fn init(ruby: &Ruby) -> Result<(), Error> {
    build::declare_ractor_safe();
    sqlite::survive_forks();
    // MySQL's driver asks rustls for a provider of the whole process. The rustls that is linked in here is this library's
    // own: no other extension and no program has it, so that what is installed in it is installed for nobody else. An error
    // only says that this was done before.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let module = ruby.define_module("LeaseMachines")?;
    build::prepare(ruby, module)?;
    authority::define(module.const_get("Authority")?)?;
    cadence::define(module.const_get("Cadence")?)?;
    checkpoint::define(module.const_get("Checkpoint")?)?;
    fence::define(module.const_get("Fence")?)?;
    holder::define(module.const_get("Holder")?)?;
    lease::define(module.const_get("Lease")?)?;
    store::define(ruby, module.const_get("Store")?)?;
    machine_id::define(ruby, module)
}
