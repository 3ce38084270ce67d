//! What a driver's error means: whether something was changed, and what to do.

use std::fmt::Display;

use redis::{ErrorKind as Driver, RedisError};

use crate::{ErrorKind, StoreError};

/// The server answered with an error, or the connection failed while it was asked.
pub(super) fn of_call(server: &dyn Display, error: RedisError) -> StoreError {
    let code = error.code().unwrap_or("").to_owned();
    let detail = error.detail().unwrap_or("").to_owned();
    let at = |kind, message: String| StoreError::new(kind, format!("{server}: {message}"));
    let said = format!("{code} {detail}").trim().to_owned();
    let made = match error.kind() {
        Driver::BusyLoadingError => {
            at(ErrorKind::Unreachable, "it is still loading its data".to_owned()).nothing_changed()
        }
        Driver::ReadOnly => {
            at(ErrorKind::Unreachable, "it is a replica, which decides nothing".to_owned()).nothing_changed()
        }
        Driver::MasterDown | Driver::ClusterDown | Driver::TryAgain => {
            at(ErrorKind::Unreachable, format!("it takes no requests now ({said})")).nothing_changed()
        }
        Driver::Moved | Driver::Ask | Driver::CrossSlot => at(ErrorKind::Configuration, cluster()),
        Driver::NoScriptError => {
            at(ErrorKind::Busy, "it has forgotten the scripts again and again".to_owned())
        }
        Driver::AuthenticationFailed => at(ErrorKind::Permission, format!("it refused the password {said}")),
        Driver::IoError => at(ErrorKind::Unreachable, format!("the connection was lost: {error}")),
        Driver::ParseError => {
            at(ErrorKind::Unreachable, format!("it answered what no Redis server does: {error}"))
        }
        _ => of_code(&at, &code, &said, &error),
    };
    made.with_source(error)
}

/// Whether a connection is no good for another request: it failed, or the server is not what it was when it was looked over.
/// Should it be so again, it may have lost something meanwhile.
pub(super) fn is_over(error: &RedisError) -> bool {
    matches!(error.kind(), Driver::ReadOnly | Driver::BusyLoadingError | Driver::MasterDown)
        || is_stale(&error.to_string())
        || error.is_unrecoverable_error()
}

/// A replica whose primary is gone, as a script is told from 7.0 on.
fn is_stale(said: &str) -> bool {
    said.contains("on a stale replica")
}

fn of_code(
    at: &dyn Fn(ErrorKind, String) -> StoreError,
    code: &str,
    said: &str,
    error: &RedisError,
) -> StoreError {
    // Within a script, Redis 6.2 says it behind the line that failed.
    let within = |inner: &&str| code == "ERR" && said.contains(&format!(": -{inner} "));
    match ["OOM", "MISCONF", "NOREPLICAS"].into_iter().find(within).unwrap_or(code) {
        "NOAUTH" | "WRONGPASS" => at(ErrorKind::Permission, format!("it refused the login ({said})")),
        "NOPERM" => at(ErrorKind::Permission, rights(said)),
        "WRONGTYPE" => at(
            ErrorKind::Schema,
            "a key of this namespace is not what a lease store keeps there: something else uses it"
                .to_owned(),
        ),
        "OOM" => at(
            ErrorKind::Storage,
            "its memory is full (maxmemory): give it more, or prune the store".to_owned(),
        )
        .nothing_changed(),
        "MISCONF" => {
            let mend = "it cannot write to its disk: make room there";
            at(ErrorKind::Storage, format!("{mend} ({said})")).nothing_changed()
        }
        "NOREPLICAS" => {
            at(ErrorKind::Unreachable, format!("too few replicas are connected ({said})")).nothing_changed()
        }
        // Where a script may not read, it has not written.
        _ if is_stale(said) => {
            at(ErrorKind::Unreachable, format!("it is a replica that has lost its primary ({said})"))
                .nothing_changed()
        }
        "BUSY" => at(ErrorKind::Busy, format!("another script runs there ({said})")),
        _ if said.contains("user executing the script") || said.contains("ACL failure in script") => {
            at(ErrorKind::Permission, rights(said))
        }
        _ if said.contains("DB index") => {
            at(ErrorKind::Configuration, format!("the database does not exist there ({said})"))
        }
        // A script may have got half through: only what it says itself is a decision.
        "" => at(ErrorKind::Unreachable, error.to_string()),
        _ => at(ErrorKind::Damaged, format!("it failed ({said})")).outcome_unknown(),
    }
}

fn rights(said: &str) -> String {
    format!("rights are missing ({said}); `lease migrate --print` shows which a user needs")
}

/// Said of a cluster, however it shows.
pub(super) fn cluster() -> String {
    "it is a node of a cluster, which cannot open an epoch in all its nodes at once: expected a server of its own".to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Undecided;

    /// By the words of 6.2 and of 7.0.
    #[test]
    fn what_a_script_had_no_room_for_has_changed_nothing() {
        let script = "Error running script (call to f_0a1b): @user_script:3: @user_script: 3: ";
        let oom = "OOM command not allowed when used memory > 'maxmemory'.";
        let disk = "MISCONF Errors writing to the AOF file: No space left on device";
        for (code, said) in [
            ("ERR", format!("ERR {script}-{oom}")),
            ("OOM", format!("{oom} script: 0a1b, on @user_script:3.")),
            ("ERR", format!("ERR {script}-{disk}")),
            ("MISCONF", format!("{disk} script: 0a1b, on @user_script:3.")),
        ] {
            let error = RedisError::from((Driver::ResponseError, "told"));
            let told = of_code(&|kind, message| StoreError::new(kind, message), code, &said, &error);
            assert_eq!((told.kind(), told.undecided()), (ErrorKind::Storage, Undecided::NotDone), "{said}");
        }
    }
}
