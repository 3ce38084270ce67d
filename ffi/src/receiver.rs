//! The object whose method was called.

use magnus::{Error, Ruby, TryConvert, TypedData, Value, prelude::*};

use crate::{build, errors};

/// What a Ruby object wraps, for a method that will change it: a `FrozenError` if it is frozen.
///
/// One look at the object serves the whole call. `magnus::typed_data::Obj` looks again at each use, which costs as much as
/// an empty method call does.
#[inline]
pub(crate) fn mutable<'a, T: TypedData>(ruby: &Ruby, this: Value) -> Result<&'a T, Error>
where
    &'a T: TryConvert,
{
    if this.is_frozen() {
        return Err(errors::frozen(ruby, this));
    }
    build::wrapped(this).map_or_else(|| <&T>::try_convert(this), Ok)
}
