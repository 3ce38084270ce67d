//! Marks for those who have no connection of their own.

use std::sync::Arc;

use lease_machines::FencingToken;
use redis::{Cmd, Value};

use super::address;
use super::fence::{self, RedisFence};
use super::hub::Hub;
use super::link::Target;
use crate::fence::{Advance, not_asked, refused};
use crate::server::Driver;
use crate::{Answer, ErrorKind, GuardMode, LeaseRef, Mark, MarkKey, Marks, StoreError};

/// The marks at a URL.
pub(crate) struct RedisMarks {
    hub: Arc<Hub>,
    driver: Driver,
    fence: RedisFence,
}

impl RedisMarks {
    pub(crate) fn open(url: &str) -> Result<Self, StoreError> {
        let (address, options) = address::from_url(url)?;
        let fence = RedisFence::new(&options.namespace);
        let driver = Driver::start(address.to_string())?;
        let hub = Arc::new(Hub::new(Target::Address(address), options)?);
        Ok(Self { hub, driver, fence })
    }

    fn ask(&self, cmd: Cmd) -> Answer<'_, Value> {
        let hub = Arc::clone(&self.hub);
        self.driver.run(async move {
            let deadline = hub.link.deadline();
            let live = hub.link.live(deadline).await?;
            hub.link.ask(&live, &cmd, deadline).await
        })
    }
}

impl Marks for RedisMarks {
    fn advance(&self, key: MarkKey, lease: LeaseRef) -> Advance<'_> {
        Box::pin(async move {
            let cmd = self.fence.guard(&key, &lease, GuardMode::Auto)?;
            let answer = self.ask(cmd).await.map_err(not_asked)?;
            fence::fenced(&answer, &key, &lease).map(drop)
        })
    }

    fn look(&self, key: MarkKey) -> Answer<'_, Option<Mark>> {
        Box::pin(async move {
            let answer = self.ask(self.fence.looking(&key)).await.map_err(StoreError::nothing_changed)?;
            fence::mark(&answer, &key).map_err(refused)
        })
    }

    fn reset(&self, key: MarkKey, to: Option<FencingToken>, reason: String) -> Answer<'_, ()> {
        Box::pin(async move {
            let answer = self.ask(self.fence.resetting(&key, to, &reason)).await?;
            match (&answer, to) {
                (Value::Array(parts), Some(token)) if parts.len() == 1 && said(parts) == "out of range" => {
                    Err(refused(crate::fence::out_of_range(token)))
                }
                (Value::Array(parts), _) if said(parts) == "reset" => Ok(()),
                _ => Err(StoreError::new(
                    ErrorKind::Unreachable,
                    format!("the server answered {answer:.200?}, which the fence's script does not"),
                )),
            }
        })
    }
}

fn said(parts: &[Value]) -> String {
    parts.first().and_then(super::answer::text).unwrap_or_default()
}
