//! `LeaseMachines::MachineId::Factory`

use std::sync::Arc;

use lease_machines_id::{
    ClockError, Counter, Encrypt, Encrypted, Id, Id64, Id96, Id128, IdError, Manager, Sortable,
};
use magnus::{Error, RArray, RClass, RString, Ruby, Symbol, Value, method, prelude::*};

use crate::{build, errors, numbers, wait};

/// What makes IDs, whatever their kind and width.
pub(crate) trait Ids: Send + Sync {
    /// Without waiting for the clock.
    fn try_next(&self) -> Result<u128, IdError>;
    fn try_next_batch(&self, count: usize) -> Result<Vec<u128>, IdError>;
    fn next(&self) -> Result<u128, IdError>;
    fn next_batch(&self, count: usize) -> Result<Vec<u128>, IdError>;
    fn bits(&self) -> u32;
}

macro_rules! ids {
    ($kind:ident: $bound:ident) => {
        impl<I: $bound> Ids for $kind<I> {
            fn try_next(&self) -> Result<u128, IdError> {
                Self::try_next(self).map(Id::value)
            }

            fn try_next_batch(&self, count: usize) -> Result<Vec<u128>, IdError> {
                Self::try_next_batch(self, count).map(values)
            }

            fn next(&self) -> Result<u128, IdError> {
                Self::next(self).map(Id::value)
            }

            fn next_batch(&self, count: usize) -> Result<Vec<u128>, IdError> {
                Self::next_batch(self, count).map(values)
            }

            fn bits(&self) -> u32 {
                I::BITS
            }
        }
    };
}

ids!(Counter: Id);
ids!(Sortable: Id);
ids!(Encrypted: Encrypt);

fn values<I: Id>(ids: Vec<I>) -> Vec<u128> {
    ids.into_iter().map(Id::value).collect()
}

#[magnus::wrap(class = "LeaseMachines::MachineId::Factory", free_immediately, size)]
pub(crate) struct Factory(Arc<dyn Ids>);

pub(crate) fn define(class: RClass) -> Result<(), Error> {
    class.undef_default_alloc_func();
    class.define_method("next_id", method!(next_id, 0))?;
    class.define_method("next_batch", method!(next_batch, 1))?;
    class.define_method("bits", method!(bits, 0))
}

/// One of a manager's, by the name of its kind.
pub(super) fn of(
    ruby: &Ruby,
    manager: &Manager,
    kind: Symbol,
    bits: Value,
    key: Value,
) -> Result<Factory, Error> {
    let bits = width(ruby, bits)?;
    let ids: Arc<dyn Ids> = match (&*kind.name()?, bits) {
        ("counter", 64) => Arc::new(manager.counter::<Id64>()),
        ("counter", 96) => Arc::new(manager.counter::<Id96>()),
        ("counter", _) => Arc::new(manager.counter::<Id128>()),
        ("sortable", 64) => Arc::new(manager.sortable::<Id64>()),
        ("sortable", 96) => Arc::new(manager.sortable::<Id96>()),
        ("sortable", _) => Arc::new(manager.sortable::<Id128>()),
        (_, 64) => Arc::new(manager.encrypted::<Id64>(&key_of(ruby, key)?)),
        (_, 96) => Arc::new(manager.encrypted::<Id96>(&key_of(ruby, key)?)),
        (_, _) => Arc::new(manager.encrypted::<Id128>(&key_of(ruby, key)?)),
    };
    Ok(Factory(ids))
}

/// 64, 96 or 128.
pub(super) fn width(ruby: &Ruby, bits: Value) -> Result<u64, Error> {
    match numbers::count(ruby, "bits", bits)? {
        bits @ (64 | 96 | 128) => Ok(bits),
        other => Err(errors::argument(
            ruby,
            format!("bits must be 64, 96 or 128, not {}", errors::shortened(other)),
        )),
    }
}

/// The bytes of a key.
pub(super) fn key_of<const LENGTH: usize>(ruby: &Ruby, key: Value) -> Result<[u8; LENGTH], Error> {
    let Some(key) = RString::from_value(key) else {
        return Err(errors::wrong_type(ruby, "key", "a String of bytes", key));
    };
    build::read_bytes(key, |bytes| <[u8; LENGTH]>::try_from(bytes).map_err(|_| bytes.len())).map_err(
        |found| {
            errors::argument(ruby, format!("the key for IDs of this width has {LENGTH} bytes, found {found}"))
        },
    )
}

fn next_id(ruby: &Ruby, this: Value) -> Result<Value, Error> {
    let factory = match build::wrapped::<Factory>(this) {
        Some(factory) => factory,
        None => <&Factory>::try_convert(this)?,
    };
    one(ruby, &factory.0)
}

fn next_batch(ruby: &Ruby, this: &Factory, count: Value) -> Result<RArray, Error> {
    many(ruby, &this.0, count)
}

fn bits(this: &Factory) -> u32 {
    this.0.bits()
}

/// The next ID. Only where the clock has to be waited for does it let other threads run.
#[inline]
pub(super) fn one<I: Ids + ?Sized + 'static>(ruby: &Ruby, ids: &Arc<I>) -> Result<Value, Error> {
    match ids.try_next() {
        Ok(id) => Ok(build::wide(ruby, id)),
        Err(error) => one_waiting(ruby, ids, error),
    }
}

#[cold]
fn one_waiting<I: Ids + ?Sized + 'static>(ruby: &Ruby, ids: &Arc<I>, error: IdError) -> Result<Value, Error> {
    if !matches!(error, IdError::Clock(ClockError::Behind(_))) {
        return Err(errors::id(ruby, error));
    }
    let ids = Arc::clone(ids);
    elsewhere(ruby, move || ids.next()).map(|id| build::wide(ruby, id))
}

pub(super) fn many<I: Ids + ?Sized + 'static>(
    ruby: &Ruby,
    ids: &Arc<I>,
    count: Value,
) -> Result<RArray, Error> {
    /// More take longer than other threads should have to wait, or than should go on for one that was interrupted.
    const AT_ONCE: usize = 1_024;
    const MOST: u64 = 1_000_000;
    let count = match numbers::count(ruby, "count", count)? {
        count @ 0..=MOST => usize::try_from(count).unwrap_or(usize::MAX),
        more => {
            let more = errors::shortened(more);
            return Err(errors::argument(
                ruby,
                format!("count must be at most {MOST} in one call, not {more}"),
            ));
        }
    };
    let all = ruby.ary_new_capa(count);
    while all.len() < count {
        let part = AT_ONCE.min(count - all.len());
        let made = match ids.try_next_batch(part) {
            Err(IdError::Clock(ClockError::Behind(_))) => {
                let ids = Arc::clone(ids);
                elsewhere(ruby, move || ids.next_batch(part))?
            }
            made => made.map_err(|error| errors::id(ruby, error))?,
        };
        for id in made {
            all.push(build::wide(ruby, id))?;
        }
        ruby.thread_check_ints()?;
    }
    Ok(all)
}

/// By a thread that may sleep, while this one waits as for any answer.
fn elsewhere<T: Send + 'static>(
    ruby: &Ruby,
    make: impl FnOnce() -> Result<T, IdError> + Send + 'static,
) -> Result<T, Error> {
    wait::for_work(ruby, make)?.map_err(|error| errors::id(ruby, error))
}
