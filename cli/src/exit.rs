//! Every exit code of every command, once: the help text and the manual page print this table.

macro_rules! exits {
    ($($(#[$note:meta])* $name:ident = $code:literal $meaning:literal,)*) => {
        /// What `lease` exits with, unless it passes on the code of a command that ran.
        ///
        /// A command under `lease run` may return any of these itself; the event stream and the history tell them apart.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        #[repr(u8)]
        pub(crate) enum Exit {
            $(#[doc = $meaning] $(#[$note])* $name = $code,)*
        }

        impl Exit {
            /// All of them, from the smallest.
            pub(crate) const ALL: &[Self] = &[$(Self::$name),*];

            /// What it means, in a line.
            pub(crate) const fn meaning(self) -> &'static str {
                match self {
                    $(Self::$name => $meaning,)*
                }
            }
        }
    };
}

exits! {
    Ok = 0 "done, or yes",
    No = 1 "no, from a question; nothing was broken, from revoke",
    Usage = 64 "the command line is wrong",
    Unreachable = 69 "the store cannot be reached, or not be written now: try again",
    Held = 75 "another holds the resource, and the wait is over",
    Denied = 77 "the store, or the database of a fence, refused us: rights, password",
    Configuration = 78 "configuration: no store, a wrong URL, a missing, newer or damaged schema",
    Lost = 79 "the lease was lost while the command ran, or gone before it was released, renewed or fenced",
    MaxHold = 124 "ended by --max-hold",
    Failed = 125 "lease itself failed",
    CannotExecute = 126 "the command cannot be executed",
    NotFound = 127 "the command is not found",
}

/// What is no number of this table, but may be seen.
const OTHERS: [(&str, &str); 2] = [
    ("0-255", "from lease run: the command's own, where it ended by itself and the lease stood"),
    ("128+n", "ended by signal n; interrupted while waiting, and nothing stays held"),
];

impl Exit {
    /// The number.
    pub(crate) const fn code(self) -> u8 {
        self as u8
    }
}

/// Every code and its meaning.
pub(crate) fn rows() -> impl Iterator<Item = (String, &'static str)> {
    let own = Exit::ALL.iter().map(|exit| (exit.code().to_string(), exit.meaning()));
    own.chain(OTHERS.into_iter().map(|(code, meaning)| (code.to_owned(), meaning)))
}

/// The code of something that ended by a signal, as every shell has it.
pub(crate) const fn by_signal(signo: i32) -> u8 {
    // Signals are numbered below 128; anything else would wrap, not fail.
    128_u8.wrapping_add(signo as u8)
}

/// What the refusal of a fence exits with.
pub(crate) const fn of_guard(kind: lease_machines_store::GuardErrorKind) -> Exit {
    use lease_machines_store::GuardErrorKind;
    match kind {
        GuardErrorKind::StaleToken { .. } | GuardErrorKind::Rewound { .. } | GuardErrorKind::Lost => {
            Exit::Lost
        }
        GuardErrorKind::OutOfRange { .. } => Exit::Usage,
        GuardErrorKind::Busy | GuardErrorKind::Serialization | GuardErrorKind::Database => Exit::Unreachable,
        GuardErrorKind::Permission => Exit::Denied,
        GuardErrorKind::NotSetUp | GuardErrorKind::Configuration | GuardErrorKind::Poisoned { .. } => {
            Exit::Configuration
        }
        _ => Exit::Failed,
    }
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
