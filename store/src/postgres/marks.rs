//! Marks for those who have no connection of their own.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use lease_machines::FencingToken;
use tokio::time::{Instant, timeout_at};
use tokio_postgres::Client;

use super::failure::Place;
use super::fence::PostgresFence;
use super::link::{Link, Target};
use crate::fence::{Advance, not_asked, refused};
use crate::server::Driver;
use crate::{Answer, ErrorKind, GuardError, GuardErrorKind, LeaseRef, Mark, MarkKey, Marks, StoreError};

/// The marks at a URL. Each call connects anew: they are rare, and nothing is held between them.
pub(crate) struct PostgresMarks {
    target: Arc<Target>,
    driver: Driver,
}

/// What is done on a connection.
type Work<'a, T> = Pin<Box<dyn Future<Output = Result<T, GuardError>> + Send + 'a>>;

impl PostgresMarks {
    pub(crate) fn open(url: &str) -> Result<Self, StoreError> {
        let (target, _) = super::store::target(url, |options| options)?;
        let driver = Driver::start(target.place.to_string())?;
        Ok(Self { target: Arc::new(target), driver })
    }

    /// Does something on a connection of its own, within the URL's `timeout`. A lock is waited for a little less, so that
    /// the server says that nothing was done before nobody knows.
    async fn on<T: Send + 'static>(
        &self,
        work: impl for<'a> FnOnce(&'a PostgresFence, &'a mut Client, Duration) -> Work<'a, T> + Send + 'static,
    ) -> Result<Result<T, GuardError>, StoreError> {
        let target = Arc::clone(&self.target);
        self.driver
            .run(async move {
                let (place, limit) = (&target.place, target.options.limits.timeout);
                let until = Instant::now() + limit;
                let late = || format!("{place} did not answer within {limit:?}");
                let opened = timeout_at(until, Link::open(&target)).await;
                let (mut link, _) = opened
                    .map_err(|_| StoreError::new(ErrorKind::Unreachable, late()).nothing_changed())??;
                let fence = PostgresFence::new(&target.options.schema);
                let left = until.saturating_duration_since(Instant::now()).mul_f64(0.8);
                let Ok(done) = timeout_at(until, work(&fence, link.client_mut(), left)).await else {
                    link.cut();
                    return Err(StoreError::new(ErrorKind::Unreachable, late()));
                };
                if done.is_ok() {
                    link.synced(place)?;
                }
                Ok(done.map_err(|error| placed(error, place)))
            })
            .await
    }
}

/// What failed, and where. A refusal is about the mark, not about the server.
fn placed(error: GuardError, place: &Place) -> GuardError {
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

impl Marks for PostgresMarks {
    fn advance(&self, key: MarkKey, lease: LeaseRef) -> Advance<'_> {
        Box::pin(async move {
            let advanced = self.on(move |fence, client, left| {
                Box::pin(async move {
                    let missing = match fence.advance_within(client, &key, &lease, Some(left)).await {
                        Err(error) if error.kind() == GuardErrorKind::NotSetUp => error,
                        answer => return answer,
                    };
                    // Where they cannot be created, that they are missing is what there is to be told.
                    fence.set_up(client).await.map_err(|error| {
                        let message = format!("{missing}; creating them failed, too: {error}");
                        GuardError::new(error.kind(), message).with_source(error)
                    })?;
                    fence.advance_within(client, &key, &lease, Some(left)).await
                })
            });
            advanced.await.map_err(not_asked)?
        })
    }

    fn look(&self, key: MarkKey) -> Answer<'_, Option<Mark>> {
        Box::pin(async move {
            let looked = self.on(move |fence, client, _| {
                Box::pin(async move {
                    match fence.look(&*client, &key).await {
                        // Nobody has ever raised one.
                        Err(error) if error.kind() == GuardErrorKind::NotSetUp => Ok(None),
                        answer => answer,
                    }
                })
            });
            looked.await.and_then(|mark| mark.map_err(refused)).map_err(StoreError::nothing_changed)
        })
    }

    fn reset(&self, key: MarkKey, to: Option<FencingToken>, reason: String) -> Answer<'_, ()> {
        Box::pin(async move {
            let reset = self.on(move |fence, client, _| {
                Box::pin(async move { fence.reset(client, &key, to, &reason).await })
            });
            reset.await?.map_err(refused)
        })
    }

    fn prune(&self, older_than: Duration) -> Answer<'_, u64> {
        Box::pin(async move {
            let pruned = self.on(move |fence, client, _| {
                Box::pin(async move {
                    match fence.prune(client, older_than).await {
                        // Nobody has ever raised one.
                        Err(error) if error.kind() == GuardErrorKind::NotSetUp => Ok(0),
                        answer => answer,
                    }
                })
            });
            pruned.await?.map_err(refused)
        })
    }
}
