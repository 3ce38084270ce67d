//! What malformed input raises. Each message names the argument and says what was expected and what was found.

use core::fmt::Display;

use lease_machines::CheckpointError;
use lease_machines_id::{ClockError, IdError};
use lease_machines_store::{ErrorKind, StoreError, Undecided};
use magnus::{Error, Exception, ExceptionClass, RClass, RModule, Ruby, Value, kwargs, prelude::*};

use crate::machine_id::disabled_reason;

/// `TypeError`: another kind of thing altogether. Its class is named and not its value, since asking a foreign object
/// to describe itself can do anything.
#[cold]
pub(crate) fn wrong_type(ruby: &Ruby, name: &str, expected: &str, found: Value) -> Error {
    let found = if found.is_nil() { "nil".to_owned() } else { found.class().to_string() };
    Error::new(ruby.exception_type_error(), format!("{name} must be {expected}, not {found}"))
}

/// `RangeError`: a number that the core cannot hold.
#[cold]
pub(crate) fn range(ruby: &Ruby, message: String) -> Error {
    Error::new(ruby.exception_range_error(), message)
}

/// `ArgumentError`: a number that makes no sense here.
#[cold]
pub(crate) fn argument(ruby: &Ruby, message: String) -> Error {
    Error::new(ruby.exception_arg_error(), message)
}

/// `FrozenError`, with the object as its receiver, as Ruby's own has it.
#[cold]
pub(crate) fn frozen(ruby: &Ruby, found: Value) -> Error {
    let message = format!("can't modify frozen {}", found.class());
    match ruby.exception_frozen_error().new_instance((message, kwargs!(ruby, "receiver" => found))) {
        Ok(exception) => exception.into(),
        Err(error) => error,
    }
}

/// `LeaseMachines::InvalidCheckpoint`, with what was found wrong as its `kind`.
#[cold]
pub(crate) fn invalid_checkpoint(ruby: &Ruby, error: CheckpointError) -> Error {
    let kind = match error {
        CheckpointError::Length { .. } => "length",
        CheckpointError::Magic { .. } => "magic",
        CheckpointError::Version { .. } => "version",
        CheckpointError::Checksum { .. } => "checksum",
        _ => "impossible",
    };
    let raised = ruby
        .class_object()
        .const_get::<_, RModule>("LeaseMachines")
        .and_then(|module| module.const_get::<_, ExceptionClass>("InvalidCheckpoint"))
        .and_then(|class| {
            class.new_instance((error.to_string(), kwargs!(ruby, "kind" => ruby.to_symbol(kind))))
        });
    match raised {
        Ok(exception) => exception.into(),
        Err(error) => error,
    }
}

/// What a store says where there is no decision: a `LeaseMachines::StoreError` of the class for what is known instead.
#[cold]
pub(crate) fn store(ruby: &Ruby, error: &StoreError) -> Error {
    let undecided = match error.undecided() {
        Undecided::NotDone => "not_done",
        Undecided::Unknown => "unknown",
        Undecided::Refused => "refused",
    };
    let mut current = None;
    let kind = match error.kind() {
        ErrorKind::Busy => "busy",
        ErrorKind::Superseded => "superseded",
        ErrorKind::Unreachable => "unreachable",
        ErrorKind::Storage => "storage",
        ErrorKind::NewEpoch { current: epoch } => {
            current = Some(epoch.to_string());
            "new_epoch"
        }
        ErrorKind::NotSetUp => "not_set_up",
        ErrorKind::Schema => "schema",
        ErrorKind::Damaged => "damaged",
        ErrorKind::Permission => "permission",
        ErrorKind::Configuration => "configuration",
        ErrorKind::Request => "request",
        ErrorKind::PoolSize { .. } => "pool_size",
        ErrorKind::Unsupported => "unsupported",
        _ => "other",
    };
    undecided_error(ruby, undecided, kind, &error.to_string(), current)
}

/// A panic, which only a fault of this library's is: nobody knows what was done.
#[cold]
pub(crate) fn fault(ruby: &Ruby, said: &str) -> Error {
    undecided_error(ruby, "unknown", "fault", &format!("a fault in lease_machines: {said}"), None)
}

/// The process may have no thread, socket or memory more.
#[cold]
pub(crate) fn no_resources(ruby: &Ruby, error: &std::io::Error) -> Error {
    undecided_error(ruby, "not_done", "resources", &format!("the system gives no more: {error}"), None)
}

/// A child that its parent has forked while it waited for an answer, which the parent goes on waiting for.
#[cold]
pub(crate) fn forked(ruby: &Ruby) -> Error {
    let message = "this process was forked while it waited for a store: the answer is its parent's";
    undecided_error(ruby, "unknown", "forked", message, None)
}

fn undecided_error(
    ruby: &Ruby,
    undecided: &str,
    kind: &str,
    message: &str,
    current: Option<String>,
) -> Error {
    let made = ruby
        .class_object()
        .const_get::<_, RModule>("LeaseMachines")
        .and_then(|module| module.const_get::<_, ExceptionClass>("StoreError"))
        .and_then(|class| {
            class.funcall::<_, _, Exception>(
                "_of",
                (ruby.to_symbol(undecided), ruby.to_symbol(kind), message, current),
            )
        });
    match made {
        Ok(exception) => exception.into(),
        Err(error) => error,
    }
}

/// Why there is no ID: a `LeaseMachines::MachineId::Error` of the class for it.
#[cold]
pub(crate) fn id(ruby: &Ruby, error: IdError) -> Error {
    let (class, reason) = match error {
        IdError::NotStarted => ("NotStarted", None),
        IdError::Disabled(reason) => ("Disabled", Some(disabled_reason(reason))),
        IdError::EpochExhausted => ("EpochExhausted", None),
        IdError::Clock(ClockError::Behind(_)) => ("ClockError", Some("behind")),
        IdError::Clock(ClockError::BeforeEpoch) => ("ClockError", Some("before_epoch")),
        IdError::Clock(ClockError::WindowUsedUp) => ("ClockError", Some("window_used_up")),
        _ => ("ClockError", Some("other")),
    };
    of_machine_id(ruby, class, reason, &error.to_string())
}

/// Why a manager of a machine ID did not start.
#[cold]
pub(crate) fn not_started(ruby: &Ruby, reason: &str, message: &str) -> Error {
    of_machine_id(ruby, "StartError", Some(reason), message)
}

fn of_machine_id(ruby: &Ruby, class: &str, reason: Option<&str>, message: &str) -> Error {
    let made = ruby
        .class_object()
        .const_get::<_, RModule>("LeaseMachines")
        .and_then(|module| module.const_get::<_, RClass>("MachineId"))
        .and_then(|machine_id| machine_id.const_get::<_, ExceptionClass>(class))
        .and_then(|class| match reason {
            None => class.new_instance((message,)),
            Some(reason) => class.new_instance((message, kwargs!(ruby, "reason" => ruby.to_symbol(reason)))),
        });
    match made {
        Ok(exception) => exception.into(),
        Err(error) => error,
    }
}

/// A number in a message, cut where it goes on for ever: an Integer of Ruby's can have a million digits.
pub(crate) fn shortened(number: impl Display) -> String {
    const ENOUGH: usize = 40;
    let mut digits = number.to_string();
    if digits.len() > ENOUGH && digits.is_char_boundary(ENOUGH) {
        digits.truncate(ENOUGH);
        digits.push_str("...");
    }
    digits
}
