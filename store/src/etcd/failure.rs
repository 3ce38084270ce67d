//! What a driver's error means: whether something was changed, and what to do.

use std::error::Error as _;
use std::fmt::Display;

use etcd_client::Error;
use tonic::{Code, Status};

use crate::server::with_causes;
use crate::{ErrorKind, StoreError};

/// A request failed.
pub(super) fn of_call(place: &dyn Display, error: Error) -> StoreError {
    let at = |kind, message: String| StoreError::new(kind, format!("{place}: {message}"));
    let made = match &error {
        Error::GRpcStatus(status) => of_status(&at, status),
        Error::TransportError(_) | Error::IoError(_) => {
            at(ErrorKind::Unreachable, format!("the connection failed: {error}"))
        }
        // Made here, before anything was sent.
        _ => at(ErrorKind::Configuration, error.to_string()),
    };
    made.with_source(error)
}

fn of_status(at: &dyn Fn(ErrorKind, String) -> StoreError, status: &Status) -> StoreError {
    let said = status.message();
    let has = |part: &str| said.contains(part);
    match status.code() {
        Code::PermissionDenied => at(
            ErrorKind::Permission,
            format!("rights are missing ({said}); `lease migrate --print` shows which a role needs"),
        ),
        Code::Unauthenticated => at(ErrorKind::Permission, format!("it refused the login ({said})")),
        _ if has("authentication failed")
            || has("user name is empty")
            || has("authentication is not enabled") =>
        {
            at(ErrorKind::Permission, format!("it refused the login ({said})"))
        }
        _ if has("database space exceeded") => at(
            ErrorKind::Storage,
            format!(
                "its space is used up ({said}): compact, defragment, disarm the alarm, or raise the quota"
            ),
        )
        .nothing_changed(),
        // Again, after a new login.
        _ if OLD_LOGIN.into_iter().any(has) => {
            at(ErrorKind::Unreachable, format!("its users or roles are being changed ({said})"))
                .nothing_changed()
        }
        // It is not passed on to the others.
        _ if has("not supported for learner") => {
            at(ErrorKind::Unreachable, format!("it is a learner, which decides nothing ({said})"))
                .nothing_changed()
        }
        _ if has("too many requests") || has("requested lease not found") || has("not leader") => {
            at(ErrorKind::Busy, said.to_owned())
        }
        _ if has("etcdserver: no leader") => {
            at(ErrorKind::Unreachable, format!("its members have no leader ({said})"))
        }
        _ if has("duplicate key") || has("too many operations") || has("request is too large") => {
            at(ErrorKind::Request, said.to_owned())
        }
        Code::DataLoss => at(ErrorKind::Damaged, said.to_owned()).outcome_unknown(),
        Code::Unimplemented => at(
            ErrorKind::Configuration,
            format!("it does not know what is asked ({said}): expected etcd 3.4 or later"),
        ),
        _ => {
            let why = causes(status);
            let told = at(ErrorKind::Unreachable, why.clone());
            if is_unsent(&why) { told.nothing_changed() } else { told }
        }
    }
}

/// How a login is told that is older than a change of users or roles: by today's versions, and by 3.4.
const OLD_LOGIN: [&str; 2] = ["revision of auth store is old", "revision in header is old"];

/// The login is over, after a while or by a restart of the member, or it is older than a change of users or roles: nothing was
/// done, and a new one is needed.
pub(super) fn login_is_over(error: &Error) -> bool {
    let Error::GRpcStatus(status) = error else { return false };
    ["invalid auth token"].into_iter().chain(OLD_LOGIN).any(|part| status.message().contains(part))
}

/// Whether the login was taken, and what it was for was not allowed.
pub(super) fn lacks_rights(error: &StoreError) -> bool {
    let cause = error.source().and_then(|cause| cause.downcast_ref::<Error>());
    matches!(cause, Some(Error::GRpcStatus(status)) if status.code() == Code::PermissionDenied)
}

/// Nobody listened, so that nothing was sent.
fn is_unsent(why: &str) -> bool {
    ["tcp connect error", "dns error", "deadline has elapsed: connect"].iter().any(|part| why.contains(part))
}

/// A status and what caused it, in one line.
fn causes(status: &Status) -> String {
    let text = match status.message() {
        "" => format!("{:?}", status.code()),
        message => message.to_owned(),
    };
    with_causes(text, status.source())
}

/// Whether the connection is no good for another request.
pub(super) fn ends_connection(error: &Error) -> bool {
    match error {
        Error::GRpcStatus(status) => {
            matches!(status.code(), Code::Unavailable | Code::Unknown | Code::Cancelled | Code::Internal)
                || status.source().is_some()
        }
        _ => true,
    }
}
