//! Marks for those who have no client of their own.

use etcd_client::Client;
use lease_machines::FencingToken;

use super::EtcdOptions;
use super::fence::EtcdFence;
use super::link::Link;
use super::url::{self, Members};
use crate::fence::{Advance, not_asked, refused};
use crate::server::Driver;
use crate::{Answer, GuardError, GuardErrorKind, LeaseRef, Mark, MarkKey, Marks, StoreError};

/// The marks at a URL. Each call connects anew: they are rare, and nothing is held between them.
pub(crate) struct EtcdMarks {
    members: Members,
    options: EtcdOptions,
    driver: Driver,
}

impl EtcdMarks {
    pub(crate) fn open(url: &str) -> Result<Self, StoreError> {
        let (members, options) = url::parse(url)?;
        let driver = Driver::start(Link::to(&members, &options)?.place.to_string())?;
        Ok(Self { members, options, driver })
    }

    /// Does something on a connection of its own, within the URL's `timeout`.
    async fn on<T, F>(
        &self,
        work: impl FnOnce(EtcdFence, Client) -> F + Send + 'static,
    ) -> Result<Result<T, GuardError>, StoreError>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, GuardError>> + Send + 'static,
    {
        let link = Link::to(&self.members, &self.options)?;
        let fence = EtcdFence::new(&self.options.namespace);
        let answer = self.driver.run(async move {
            let done =
                link.call_once(link.deadline(), |client| async { Ok(work(fence, client).await) }).await?;
            Ok(done.map_err(|error| match error.kind() {
                // What failed is the cluster. A refusal is about the mark.
                GuardErrorKind::Database => {
                    GuardError::new(error.kind(), format!("{}: {error}", link.place)).with_source(error)
                }
                _ => error,
            }))
        });
        answer.await
    }
}

impl Marks for EtcdMarks {
    fn advance(&self, key: MarkKey, lease: LeaseRef) -> Advance<'_> {
        Box::pin(async move {
            let advanced =
                self.on(|fence, mut client| async move { fence.advance(&mut client, &key, &lease).await });
            advanced.await.map_err(not_asked)?
        })
    }

    fn look(&self, key: MarkKey) -> Answer<'_, Option<Mark>> {
        Box::pin(async move {
            let looked = self.on(|fence, mut client| async move { fence.look(&mut client, &key).await });
            looked.await.and_then(|mark| mark.map_err(refused)).map_err(StoreError::nothing_changed)
        })
    }

    fn reset(&self, key: MarkKey, to: Option<FencingToken>, reason: String) -> Answer<'_, ()> {
        Box::pin(async move {
            let reset =
                self.on(
                    move |fence, mut client| async move { fence.reset(&mut client, &key, to, &reason).await },
                );
            reset.await?.map_err(refused)
        })
    }
}
