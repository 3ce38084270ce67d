//! Marks for those who have no connection of their own.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use lease_machines::FencingToken;
use tokio::time::timeout;

use super::failure::not_connected;
use super::fence::MysqlFence;
use super::link::{Link, Target, settings};
use super::url;
use crate::fence::{Advance, not_asked, refused};
use crate::server::Driver;
use crate::{Answer, ErrorKind, GuardError, GuardErrorKind, LeaseRef, Mark, MarkKey, Marks, StoreError};

/// The marks at a URL. Each call connects anew: they are rare, and nothing is held between them.
pub(crate) struct MysqlMarks {
    target: Arc<Target>,
    driver: Driver,
}

impl MysqlMarks {
    pub(crate) fn open(url: &str) -> Result<Self, StoreError> {
        let target = Arc::new(url::target(url)?);
        let driver = Driver::start(target.place.clone())?;
        Ok(Self { target, driver })
    }

    /// Has something done on a new connection, within the time of a request.
    fn run<T, F>(&self, work: impl FnOnce(Link) -> F + Send + 'static) -> Answer<'_, Result<T, GuardError>>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, GuardError>> + Send + 'static,
    {
        let target = Arc::clone(&self.target);
        self.driver.run(async move {
            let limit = target.options.limits.timeout;
            let doing = async {
                let mut link = Link::open(&target).await?;
                let set = link.query(&settings(&target)).await;
                set.map_err(|error| not_connected(&target.place, error))?;
                Ok(work(link).await.map_err(|error| placed(error, &target.place)))
            };
            timeout(limit, doing).await.unwrap_or_else(|_| {
                let message = format!("{} did not answer within {limit:?}", target.place);
                Err(StoreError::new(ErrorKind::Unreachable, message))
            })
        })
    }
}

/// What failed, and where. A refusal is about the mark, not about the server.
fn placed(error: GuardError, place: &str) -> GuardError {
    match error.kind() {
        GuardErrorKind::Busy
        | GuardErrorKind::Serialization
        | GuardErrorKind::Permission
        | GuardErrorKind::NotSetUp
        | GuardErrorKind::Database => {
            GuardError::new(error.kind(), format!("{place}: {error}")).with_source(error)
        }
        _ => error,
    }
}

impl Marks for MysqlMarks {
    fn advance(&self, key: MarkKey, lease: LeaseRef) -> Advance<'_> {
        let advanced = self.run(|mut link| async move {
            let missing = match MysqlFence::advance(link.conn(), &key, &lease).await {
                Err(error) if error.kind() == GuardErrorKind::NotSetUp => error,
                answer => return answer,
            };
            // Where they cannot be created, that they are missing is what there is to be told.
            MysqlFence::set_up(link.conn()).await.map_err(|error| {
                let message = format!("{missing}; creating them failed, too: {error}");
                GuardError::new(error.kind(), message).with_source(error)
            })?;
            MysqlFence::advance(link.conn(), &key, &lease).await
        });
        Box::pin(async move { advanced.await.map_err(not_asked)? })
    }

    fn look(&self, key: MarkKey) -> Answer<'_, Option<Mark>> {
        let looked = self.run(|mut link| async move {
            match MysqlFence::look(link.conn(), &key).await {
                // Nobody has ever raised one.
                Err(error) if error.kind() == GuardErrorKind::NotSetUp => Ok(None),
                answer => answer,
            }
        });
        Box::pin(async move {
            looked.await.and_then(|mark| mark.map_err(refused)).map_err(StoreError::nothing_changed)
        })
    }

    fn reset(&self, key: MarkKey, to: Option<FencingToken>, reason: String) -> Answer<'_, ()> {
        let reset =
            self.run(move |mut link| async move { MysqlFence::reset(link.conn(), &key, to, &reason).await });
        Box::pin(async move { reset.await?.map_err(refused) })
    }

    fn prune(&self, older_than: Duration) -> Answer<'_, u64> {
        let pruned = self.run(move |mut link| async move {
            match MysqlFence::prune(link.conn(), older_than).await {
                // Nobody has ever raised one.
                Err(error) if error.kind() == GuardErrorKind::NotSetUp => Ok(0),
                answer => answer,
            }
        });
        Box::pin(async move { pruned.await?.map_err(refused) })
    }
}
