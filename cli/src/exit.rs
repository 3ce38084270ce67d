//! Every exit code of every command, once.

/// What `lease` exits with, unless it passes on the code of a command that ran.
///
/// A command under `lease run` may return any of these itself; the event stream and the history tell them apart.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum Exit {
    /// Done, or "yes".
    Ok = 0,
    /// The command line is wrong.
    Usage = 64,
    /// The store cannot be reached: try again.
    Unreachable = 69,
    /// Another holds the resource, and the wait is over.
    Held = 75,
    /// The store refused us: rights, password.
    Denied = 77,
    /// Configuration: no store, a wrong URL, a missing schema.
    Configuration = 78,
    /// The lease was lost while the command ran, whatever the command returned, or its release or renewal was refused
    /// because it was gone.
    Lost = 79,
    /// Ended by `--max-hold`.
    MaxHold = 124,
    /// `lease` itself failed.
    Failed = 125,
    /// The command cannot be executed.
    CannotExecute = 126,
    /// The command is not found.
    NotFound = 127,
}

impl Exit {
    /// The number.
    pub(crate) const fn code(self) -> u8 {
        self as u8
    }
}

/// The code of something that ended by a signal, as every shell has it.
pub(crate) const fn by_signal(signo: i32) -> u8 {
    // Signals are numbered below 128; anything else would wrap, not fail.
    128_u8.wrapping_add(signo as u8)
}

/// What a store's error exits with.
pub(crate) const fn of_store(kind: lease_machines_store::ErrorKind) -> Exit {
    use lease_machines_store::ErrorKind;
    match kind {
        ErrorKind::Busy | ErrorKind::Superseded | ErrorKind::Unreachable | ErrorKind::Storage => {
            Exit::Unreachable
        }
        ErrorKind::Permission => Exit::Denied,
        ErrorKind::NewEpoch { .. } => Exit::Lost,
        ErrorKind::Request => Exit::Usage,
        _ => Exit::Configuration,
    }
}
