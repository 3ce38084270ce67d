//! What every new connection to a server needs: that it is there in time, and a password.

use std::error::Error;
use std::fmt::{self, Display};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;

use crate::url::wrong;
use crate::{ErrorKind, StoreError};

/// A connection that is not there after this long is given up, unless told otherwise.
pub(crate) const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// # Errors
///
/// [`Configuration`](ErrorKind::Configuration) where it is out of range.
pub(crate) fn check_connect_timeout(found: Duration) -> Result<(), StoreError> {
    if found < Duration::from_millis(1) {
        return Err(wrong(format!("connect_timeout is {found:?}, expected at least 1ms")));
    }
    Ok(())
}

type Asked = Pin<Box<dyn Future<Output = Result<String, Cause>> + Send>>;
type Cause = Box<dyn Error + Send + Sync>;

/// A program's own source of passwords, asked at each new connection. Nothing of it is ever shown, or kept.
#[derive(Clone)]
pub(crate) struct Passwords(Arc<dyn Fn() -> Asked + Send + Sync>);

impl Passwords {
    pub(crate) fn of<F, E>(ask: impl Fn() -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<String, E>> + Send + 'static,
        E: Into<Cause>,
    {
        Self(Arc::new(move || {
            let asked = ask();
            Box::pin(async move { asked.await.map_err(Into::into) })
        }))
    }

    /// The one for a connection that is made now, at `place`, if it comes within `limit`.
    ///
    /// # Errors
    ///
    /// [`Unreachable`](ErrorKind::Unreachable), *not done*: nothing was asked of the server. Another try may bring one.
    pub(crate) async fn ask(
        &self,
        place: &(dyn Display + Sync),
        limit: Duration,
    ) -> Result<String, StoreError> {
        let none = |why: String| {
            let message = format!("{place}: there is no password to connect with: {why}");
            StoreError::new(ErrorKind::Unreachable, message).nothing_changed()
        };
        match timeout(limit, (self.0)()).await {
            Ok(Ok(password)) => Ok(password),
            Ok(Err(cause)) => Err(none(cause.to_string()).with_source(cause)),
            Err(_) => Err(none(format!("whoever was asked for it said nothing within {limit:?}"))),
        }
    }
}

impl fmt::Debug for Passwords {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Passwords")
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;
    use crate::Undecided;

    fn asked(passwords: &Passwords, limit: Duration) -> Result<String, StoreError> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(passwords.ask(&"a server", limit))
    }

    #[test]
    fn no_connection_is_there_in_no_time() {
        assert!(check_connect_timeout(Duration::from_millis(1)).is_ok());
        let error = check_connect_timeout(Duration::from_micros(999)).unwrap_err();
        assert!(error.to_string().contains("999µs, expected at least 1ms"), "{error}");
    }

    #[test]
    fn a_password_that_is_not_to_be_had_is_not_done_and_says_why() {
        let passwords = Passwords::of(|| async { Ok::<_, io::Error>("s3cret".to_owned()) });
        assert_eq!(asked(&passwords, CONNECT_TIMEOUT).unwrap(), "s3cret");
        assert!(!format!("{passwords:?}").contains("s3cret"));

        let passwords = Passwords::of(|| async { Err(io::Error::other("no such role")) });
        let error = asked(&passwords, CONNECT_TIMEOUT).unwrap_err();
        assert_eq!((error.kind(), error.undecided()), (ErrorKind::Unreachable, Undecided::NotDone));
        assert!(
            error.to_string().contains("a server: ") && error.to_string().contains("no such role"),
            "{error}"
        );
        let source = error.source().unwrap();
        assert!(source.downcast_ref::<io::Error>().is_some(), "{source:?}");

        let passwords = Passwords::of(|| async { std::future::pending::<Result<String, io::Error>>().await });
        let error = asked(&passwords, Duration::from_millis(1)).unwrap_err();
        assert_eq!((error.kind(), error.undecided()), (ErrorKind::Unreachable, Undecided::NotDone));
        assert!(error.to_string().contains("within 1ms"), "{error}");
    }
}
