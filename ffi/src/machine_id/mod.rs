//! `LeaseMachines::MachineId`, and what makes and reads IDs.

mod factory;
mod inbox;
mod layout;
mod manager;
mod strategy;
mod text;

pub(crate) use inbox::disabled_reason;

use magnus::{Error, RModule, Ruby, prelude::*};

pub(crate) fn define(ruby: &Ruby, module: RModule) -> Result<(), Error> {
    let class = module.const_get("MachineId")?;
    manager::define(class)?;
    factory::define(class.const_get("Factory")?)?;
    inbox::define(ruby, class)?;
    layout::define(class.const_get("Layout")?)?;
    text::define(class)
}
