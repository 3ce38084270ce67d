//! `LeaseMachines::MachineId::Layout`

use std::time::Duration;

use lease_machines_id::{Id, Id64, Id96, Id128, Layout as Core, LayoutError, Options};
use magnus::{Error, RArray, RClass, Ruby, Symbol, Value, method, prelude::*, typed_data::Obj};

use super::factory;
use crate::{build, errors, numbers, time};

/// A layout of each width.
#[derive(Clone, Copy)]
pub(crate) enum AnyLayout {
    Id64(Core<Id64>),
    Id96(Core<Id96>),
    Id128(Core<Id128>),
}

#[magnus::wrap(class = "LeaseMachines::MachineId::Layout", free_immediately, size, frozen_shareable)]
pub(crate) struct Layout(AnyLayout);

macro_rules! each_width {
    ($any:expr, $layout:ident => $result:expr) => {
        match $any {
            AnyLayout::Id64($layout) => $result,
            AnyLayout::Id96($layout) => $result,
            AnyLayout::Id128($layout) => $result,
        }
    };
}

pub(crate) fn define(class: RClass) -> Result<(), Error> {
    class.undef_default_alloc_func();
    let singleton = class.singleton_class()?;
    singleton.define_private_method("_new", method!(new, 7))?;
    singleton.define_private_method("_known", method!(known, 2))?;
    class.define_private_method("_decode", method!(decode, 1))?;
    class.define_method("bits", method!(bits, 0))?;
    class.define_method("max_machine_id", method!(max_machine_id, 0))?;
    class.define_private_method("_end", method!(end, 0))?;
    class.define_private_method("_key", method!(key, 0))
}

impl Layout {
    /// The options with this one as that of its width.
    pub(super) fn apply(&self, options: Options) -> Options {
        match self.0 {
            AnyLayout::Id64(layout) => options.layout64(layout),
            AnyLayout::Id96(layout) => options.layout96(layout),
            AnyLayout::Id128(layout) => options.layout128(layout),
        }
    }

    pub(super) fn bits(&self) -> u32 {
        fn of<I: Id>(_: Core<I>) -> u32 {
            I::BITS
        }
        each_width!(self.0, layout => of(layout))
    }
}

#[expect(clippy::too_many_arguments, reason = "the wrapper's keywords, by position")]
fn new(
    ruby: &Ruby,
    class: RClass,
    bits: Value,
    time_bits: Value,
    machine_bits: Value,
    counter_bits: Value,
    tick: Value,
    epoch: Value,
    machine_below: bool,
) -> Result<Obj<Layout>, Error> {
    let bits = factory::width(ruby, bits)?;
    let part =
        |name, value| numbers::count(ruby, name, value).map(|bits| u8::try_from(bits).unwrap_or(u8::MAX));
    let parts = [
        part("time_bits", time_bits)?,
        part("machine_bits", machine_bits)?,
        part("counter_bits", counter_bits)?,
    ];
    let tick = time::from_ruby(ruby, "tick", tick)?;
    let epoch = if epoch.is_nil() { None } else { Some(time::from_ruby(ruby, "epoch", epoch)?) };
    let made = match bits {
        64 => make(parts, tick, epoch, machine_below).map(AnyLayout::Id64),
        96 => make(parts, tick, epoch, machine_below).map(AnyLayout::Id96),
        _ => make(parts, tick, epoch, machine_below).map(AnyLayout::Id128),
    };
    wrap(ruby, class, made.map_err(|error| errors::argument(ruby, error.to_string()))?)
}

fn make<I: Id>(
    [time, machine, counter]: [u8; 3],
    tick: Duration,
    epoch: Option<Duration>,
    machine_below: bool,
) -> Result<Core<I>, LayoutError> {
    let layout = Core::new(time, machine, counter)?.with_tick(tick)?;
    let layout = if machine_below { layout.with_machine_below() } else { layout };
    match epoch {
        Some(epoch) => layout.with_epoch(epoch),
        None => Ok(layout),
    }
}

fn known(ruby: &Ruby, class: RClass, name: Symbol, bits: Value) -> Result<Obj<Layout>, Error> {
    let layout = match (&*name.name()?, factory::width(ruby, bits)?) {
        ("twitter", _) => AnyLayout::Id64(Core::twitter()),
        ("sonyflake", _) => AnyLayout::Id64(Core::sonyflake()),
        (_, 64) => AnyLayout::Id64(Core::default()),
        (_, 96) => AnyLayout::Id96(Core::default()),
        (_, _) => AnyLayout::Id128(Core::default()),
    };
    wrap(ruby, class, layout)
}

fn wrap(ruby: &Ruby, class: RClass, layout: AnyLayout) -> Result<Obj<Layout>, Error> {
    let layout = ruby.obj_wrap_as(Layout(layout), class);
    layout.freeze();
    Ok(layout)
}

/// `[seconds since Unix's origin as a whole number, and nanoseconds, machine_id, counter]`
fn decode(ruby: &Ruby, this: &Layout, id: Value) -> Result<RArray, Error> {
    let parts = each_width!(this.0, layout => layout.decode(id_of(ruby, id)?));
    Ok(ruby.ary_new_from_values(&[
        ruby.integer_from_u64(parts.time.as_secs()).as_value(),
        ruby.integer_from_u64(parts.time.subsec_nanos().into()).as_value(),
        ruby.integer_from_u64(parts.machine_id.into()).as_value(),
        ruby.integer_from_u64(parts.counter).as_value(),
    ]))
}

/// An ID of this width.
pub(super) fn id_of<I: Id>(ruby: &Ruby, id: Value) -> Result<I, Error> {
    build::from_wide(ruby, "id", id)?.and_then(I::new).ok_or_else(|| {
        errors::range(ruby, format!("id must be in 0..2**{}-1, not {}", I::BITS, errors::shortened(id)))
    })
}

fn bits(this: &Layout) -> u32 {
    this.bits()
}

fn max_machine_id(this: &Layout) -> u16 {
    each_width!(this.0, layout => layout.max_machine_id())
}

/// Seconds since Unix's origin.
fn end(this: &Layout) -> f64 {
    time::to_seconds(each_width!(this.0, layout => layout.end()))
}

/// Equal for equal layouts.
fn key(this: &Layout) -> String {
    each_width!(this.0, layout => format!("{layout:?}"))
}
