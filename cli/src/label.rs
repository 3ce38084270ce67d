//! What a holder calls itself unless it was told otherwise.

use std::env;

use nix::unistd::{Uid, User, gethostname};

/// `user@host:pid`: enough to find the holder by. What cannot be found out is `?`, or the number of the user.
pub(crate) fn of(pid: u32) -> String {
    let named = |name| env::var(name).ok().filter(|user| !user.is_empty());
    // The environment first: the user database may ask a server, which may take longer than the command.
    let uid = Uid::current();
    let known = || User::from_uid(uid).ok().flatten().map(|user| user.name);
    let user = named("LOGNAME").or_else(|| named("USER")).or_else(known).unwrap_or_else(|| uid.to_string());
    let host = gethostname().ok().and_then(|name| name.into_string().ok()).unwrap_or_else(|| "?".to_owned());
    format!("{user}@{host}:{pid}")
}
