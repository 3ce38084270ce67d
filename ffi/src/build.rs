//! Ruby's `Data` objects, built and read without a call of a Ruby method.
//!
//! `Data.new` packs its members into a Hash and unpacks them in `initialize`: some ten times the work of a whole
//! decision. Here the object is allocated, its three members are set in order, and it is frozen. What comes out is equal,
//! by `==`, `eql?` and `hash`, to what `Data.new` makes of the same members.
//!
//! A rejection carries nothing but its reason, so that there are nine of them, made once.

use std::{ffi::c_int, ptr, sync::OnceLock};

use lease_machines::{Decision, Lease, Rejection};
use magnus::{
    Error, Integer, RClass, RModule, RString, Ruby, TypedData, Value,
    prelude::*,
    rb_sys::{AsRawValue, FromRawValue},
};
use rb_sys::{VALUE, rb_data_type_t, ruby_value_type};

use crate::{errors, time};

/// What is needed to build, found once and never collected: classes and symbols of Ruby's, as raw values.
struct Parts {
    decision: VALUE,
    lease: VALUE,
    cadence: VALUE,
    nil: VALUE,
    granted: VALUE,
    renewed: VALUE,
    released: VALUE,
    rejected: [(Rejection, VALUE); 9],
}

/// 0, 1 and 2 as Ruby has small integers.
const INDICES: [VALUE; 3] = [1, 3, 5];

static PARTS: OnceLock<Parts> = OnceLock::new();

/// Finds the classes that `lib/` has defined, and makes the decisions that never differ.
pub(crate) fn prepare(ruby: &Ruby, module: RModule) -> Result<(), Error> {
    let decision = data_class(ruby, module, "Decision", "[:status, :lease, :reason]")?;
    let lease = data_class(ruby, module, "Lease", "[:owner, :token, :expires_at]")?;
    let cadence = data_class(ruby, module, "Cadence", "[:ttl, :renew_every, :warn_before]")?;
    let nil = ruby.qnil().as_raw();
    let symbol = |name: &str| kept(ruby.to_symbol(name).as_raw());
    let constant = |status: &str, reason: Option<&str>| {
        let members = [symbol(status), nil, reason.map_or(nil, symbol)];
        // SAFETY: the class has three members, as was checked above, and these are live.
        kept(unsafe { frozen(decision, members) })
    };
    let rejected = [
        (Rejection::Occupied, "occupied"),
        (Rejection::Vacant, "vacant"),
        (Rejection::WrongOwner, "wrong_owner"),
        (Rejection::StaleToken, "stale_token"),
        (Rejection::Expired, "expired"),
        (Rejection::ClockRegressed, "clock_regressed"),
        (Rejection::InvalidTtl, "invalid_ttl"),
        (Rejection::DeadlineOverflow, "deadline_overflow"),
        (Rejection::TokensExhausted, "tokens_exhausted"),
    ]
    .map(|(rejection, reason)| (rejection, constant("rejected", Some(reason))));
    // Init runs once in a process; were it run again, what the first made is as good.
    PARTS.get_or_init(|| Parts {
        decision,
        lease,
        cadence,
        nil,
        granted: symbol("granted"),
        renewed: symbol("renewed"),
        released: constant("released", None),
        rejected,
    });
    Ok(())
}

/// The frozen `LeaseMachines::Decision`.
pub(crate) fn decision(ruby: &Ruby, decision: Decision) -> Result<Value, Error> {
    let parts = parts(ruby)?;
    let raw = match decision {
        Decision::Granted(lease) => with_lease(ruby, parts, parts.granted, lease),
        Decision::Renewed(lease) => with_lease(ruby, parts, parts.renewed, lease),
        Decision::Released => parts.released,
        Decision::Rejected(reason) => rejected(ruby, parts, reason)?,
    };
    // SAFETY: a live object: the newly built one, or one that is never collected.
    Ok(unsafe { Value::from_raw(raw) })
}

/// The frozen `LeaseMachines::Lease`.
pub(crate) fn lease(ruby: &Ruby, lease: Lease) -> Result<Value, Error> {
    let raw = raw_lease(ruby, parts(ruby)?, lease);
    // SAFETY: a live object, newly built.
    Ok(unsafe { Value::from_raw(raw) })
}

/// The Symbol of a reason.
pub(crate) fn reason(ruby: &Ruby, reason: Rejection) -> Result<Value, Error> {
    let decision = rejected(ruby, parts(ruby)?, reason)?;
    // SAFETY: one of the decisions that `prepare` has made, which have three members; the third is their reason.
    Ok(unsafe { Value::from_raw(rb_sys::rb_struct_aref(decision, INDICES[2])) })
}

/// An Integer of any width up to this.
#[inline]
pub(crate) fn wide(ruby: &Ruby, value: u128) -> Value {
    match u64::try_from(value) {
        Ok(small) => ruby.integer_from_u64(small).as_value(),
        Err(_) => from_words([value as u64, (value >> 64) as u64]),
    }
}

/// The lower word comes first.
fn from_words(words: [u64; 2]) -> Value {
    const FLAGS: u32 = rb_sys::INTEGER_PACK_LSWORD_FIRST | rb_sys::INTEGER_PACK_NATIVE_BYTE_ORDER;
    // SAFETY: it reads two words of eight bytes, which are there, and raises only where memory has run out.
    unsafe { Value::from_raw(rb_sys::rb_integer_unpack(words.as_ptr().cast(), 2, 8, 0, FLAGS as c_int)) }
}

/// Reads an Integer of any width up to this; `None` out of this range.
pub(crate) fn from_wide(ruby: &Ruby, name: &str, value: Value) -> Result<Option<u128>, Error> {
    let Some(integer) = Integer::from_value(value) else {
        return Err(errors::wrong_type(ruby, name, "an Integer", value));
    };
    if let Ok(small) = integer.to_u64() {
        return Ok(Some(small.into()));
    }
    let high: Integer = integer.funcall(">>", (64,))?;
    let low: Integer = integer.funcall("&", (u64::MAX,))?;
    let low = low.to_u64()?;
    Ok(high.to_u64().ok().map(|high| u128::from(high) << 64 | u128::from(low)))
}

/// What an object of exactly this kind wraps; `None` where a closer look is needed, which `TryConvert` takes.
///
/// It is here for the sake of speed alone: `TryConvert` asks Ruby, which may raise, and to be ready for that costs nearly
/// half of an empty method call.
#[inline]
pub(crate) fn wrapped<'a, T: TypedData>(value: Value) -> Option<&'a T> {
    let raw = value.as_raw();
    let kind = ptr::from_ref(T::data_type()).cast::<rb_data_type_t>();
    // SAFETY: a live object; it is asked for its data only once it is known to have some, and of this type, by the address
    // that magnus gave it with. `DataType` is a transparent wrapper. The reference is used while the method runs whose
    // receiver the object is, so that it is kept.
    unsafe {
        let same = rb_sys::RB_TYPE_P(raw, ruby_value_type::RUBY_T_DATA)
            && rb_sys::RTYPEDDATA_P(raw)
            && ptr::eq(rb_sys::RTYPEDDATA_TYPE(raw), kind);
        same.then(|| rb_sys::RTYPEDDATA_GET_DATA(raw).cast::<T>().as_ref()).flatten()
    }
}

/// The members of a `LeaseMachines::Lease`: `owner`, `token` and `expires_at`. They can be anything, since there are odd
/// ways to make a `Data`.
pub(crate) fn lease_members(ruby: &Ruby, name: &str, value: Value) -> Result<[Value; 3], Error> {
    members(ruby, name, value, parts(ruby)?.lease, "a LeaseMachines::Lease")
}

/// The members of a `LeaseMachines::Cadence`: `ttl`, `renew_every` and `warn_before`, with the same caution.
pub(crate) fn cadence_members(ruby: &Ruby, name: &str, value: Value) -> Result<[Value; 3], Error> {
    members(ruby, name, value, parts(ruby)?.cadence, "a LeaseMachines::Cadence")
}

/// Hands the bytes of a String to a reader, in place.
pub(crate) fn read_bytes<T>(string: RString, read: fn(&[u8]) -> T) -> T {
    // SAFETY: the reader is a function of Rust's that is given nothing of Ruby's, so that it cannot change the String or
    // start the collector while it reads.
    read(unsafe { string.as_slice() })
}

/// Lets the methods of this library be called in every Ractor. They share nothing but `PARTS`, which is never written
/// after `Init`, and objects, which Ruby keeps from being in two Ractors unless they are frozen.
pub(crate) fn declare_ractor_safe() {
    // SAFETY: called in `Init`, where Ruby expects it; it sets a flag for the methods that are defined after it.
    unsafe { rb_sys::rb_ext_ractor_safe(true) };
}

fn parts(ruby: &Ruby) -> Result<&'static Parts, Error> {
    PARTS.get().ok_or_else(|| missing(ruby, "LeaseMachines is not loaded"))
}

/// The class that `lib/` defines with `Data.define`, if it has these members in this order.
fn data_class(ruby: &Ruby, module: RModule, name: &str, members: &str) -> Result<VALUE, Error> {
    let class: RClass = module.const_get(name)?;
    let found = class.funcall::<_, _, Value>("members", ())?.inspect();
    if found != members {
        return Err(missing(ruby, &format!("{name} must have the members {members}, not {found}")));
    }
    Ok(kept(class.as_raw()))
}

/// Keeps an object where it is, for as long as the process lives.
fn kept(object: VALUE) -> VALUE {
    // SAFETY: every caller has just been given the object, which is live.
    unsafe { rb_sys::rb_gc_register_mark_object(object) };
    object
}

fn members(ruby: &Ruby, name: &str, value: Value, class: VALUE, expected: &str) -> Result<[Value; 3], Error> {
    // SAFETY: a class, which is never collected, and a live object of any kind: the question calls no method.
    if unsafe { rb_sys::rb_obj_is_kind_of(value.as_raw(), class) } != ruby.qtrue().as_raw() {
        return Err(errors::wrong_type(ruby, name, expected, value));
    }
    // SAFETY: an object of a class that has three members, as `prepare` has checked, or of one derived from it, which has
    // the same; so the indices are in range, and there is no reason to raise.
    Ok(INDICES.map(|index| unsafe { Value::from_raw(rb_sys::rb_struct_aref(value.as_raw(), index)) }))
}

fn rejected(ruby: &Ruby, parts: &Parts, reason: Rejection) -> Result<VALUE, Error> {
    let found = parts.rejected.iter().find(|(rejection, _)| *rejection == reason);
    found.map(|(_, decision)| *decision).ok_or_else(|| missing(ruby, &format!("no symbol for {reason:?}")))
}

fn with_lease(ruby: &Ruby, parts: &Parts, status: VALUE, lease: Lease) -> VALUE {
    let lease = raw_lease(ruby, parts, lease);
    // SAFETY: `prepare` has checked that the class has three members; all values are live.
    unsafe { frozen(parts.decision, [status, lease, parts.nil]) }
}

fn raw_lease(ruby: &Ruby, parts: &Parts, lease: Lease) -> VALUE {
    // SAFETY: as in `with_lease`. Numbers are immediate values, or new objects that the array keeps on the stack, where
    // Ruby's collector looks for them.
    unsafe {
        let members = [
            ruby.integer_from_u64(lease.owner().value()).as_raw(),
            ruby.integer_from_u64(lease.token().value()).as_raw(),
            ruby.float_from_f64(time::to_seconds(lease.expires_at())).as_raw(),
        ];
        frozen(parts.lease, members)
    }
}

/// A new, frozen object of a `Data` class, with these members.
///
/// # Safety
///
/// `class` was made by `Data.define` with three members, Ruby's lock is held, and the members are live objects, which may
/// be in the array alone. Only the allocation can raise, when memory has run out; nothing is owned here, or by the callers
/// in this file, that unwinding past them would leave behind.
unsafe fn frozen(class: VALUE, members: [VALUE; 3]) -> VALUE {
    // SAFETY: this function's own conditions. The object is new, so that nobody has frozen it, and the indices are in
    // range: `rb_struct_aset` has no reason to raise.
    unsafe {
        let object = rb_sys::rb_struct_alloc_noinit(class);
        for (index, member) in INDICES.into_iter().zip(members) {
            // A new one's members are nil.
            if member != rb_sys::Qnil as VALUE {
                rb_sys::rb_struct_aset(object, index, member);
            }
        }
        rb_sys::rb_obj_freeze_inline(object);
        object
    }
}

/// What only a broken build of this gem can meet.
#[cold]
fn missing(ruby: &Ruby, message: &str) -> Error {
    Error::new(ruby.exception_runtime_error(), message.to_owned())
}
