//! What a backend's test provides.

use std::sync::Arc;
use std::time::Duration;

use super::Context;
use crate::{Store, StoreError};

/// A store to put to the test.
pub trait Subject: Sync {
    /// As it is called in the report.
    fn name(&self) -> String;

    /// An empty store that nobody else uses.
    ///
    /// # Errors
    ///
    /// The store's own. Every case that needs it then fails.
    fn fresh(&self) -> Result<Box<dyn Fixture>, StoreError>;
}

/// One empty store.
pub trait Fixture: Send + Sync {
    /// The store.
    fn store(&self) -> Arc<dyn Store>;

    /// The same data through another connection, as another process would have it. `None` where there is no such
    /// thing; its cases are then skipped.
    fn another(&self) -> Option<Arc<dyn Store>> {
        None
    }

    /// Lets time pass on the store's clock: moves it, or sleeps.
    fn pass(&self, time: Duration);

    /// Whether nothing but [`pass`](Self::pass) moves the store's clock. Otherwise times are compared with a margin of
    /// one [`unit`](Self::unit), and random runs, which need exact ones, are skipped.
    fn is_driven(&self) -> bool {
        true
    }

    /// The time that cases count in: all their ttls are some of it. A store on a real clock takes one that is longer
    /// than any delay on its machine.
    fn unit(&self) -> Duration {
        Duration::from_secs(1)
    }
}

/// What a case needs of a store.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Need {
    Nothing,
    Millis,
    Expired,
    History,
    Endings,
    Prune,
    Driven,
    Another,
    Slots,
    SlotsDriven,
    SlotsHistory,
    SlotsAnother,
}

impl Need {
    /// Why the case cannot be run here.
    pub(super) fn missing(self, context: &Context<'_>) -> Option<&'static str> {
        let store = context.store();
        let can = store.capabilities();
        if !can.slots
            && matches!(self, Self::Slots | Self::SlotsDriven | Self::SlotsHistory | Self::SlotsAnother)
        {
            return Some("no pools are kept");
        }
        let (there, why) = match self {
            Self::Nothing | Self::Slots => (true, ""),
            Self::Millis => (
                can.ttl_grain <= Duration::from_millis(1) && context.fixture.is_driven(),
                "ttls are not exact to the millisecond, or the clock is not the test's",
            ),
            Self::Expired => (can.tells_expired, "the engine removes expired leases by itself"),
            Self::History | Self::SlotsHistory => (can.history, "no history is kept"),
            Self::Endings => (can.endings, "endings are not kept"),
            Self::Prune => (can.prune, "nothing can be pruned"),
            Self::Driven | Self::SlotsDriven => (context.fixture.is_driven(), "the clock is not the test's"),
            Self::Another | Self::SlotsAnother => {
                (context.fixture.another().is_some(), "there is no second connection")
            }
        };
        (!there).then_some(why)
    }
}
