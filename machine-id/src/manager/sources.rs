//! The streams of stamps of one manager: one for each width.

use std::sync::Arc;
use std::time::Duration;

use lease_machines::Window;
use lease_machines_os::Generation;

use super::{Notice, Options};
use crate::id::sealed::Sealed;
use crate::source::{Source, Term};
use crate::{Clock, Id, Id64, Id96, Id128, Layout, Reason};

/// All of them are started, extended and closed together.
#[derive(Debug)]
pub struct Sources<C> {
    pub(crate) id64: Arc<Source<Id64, C>>,
    pub(crate) id96: Arc<Source<Id96, C>>,
    pub(crate) id128: Arc<Source<Id128, C>>,
}

impl<C: Clock + Clone> Sources<C> {
    pub(super) fn new(options: &Options, clock: &C, generation: Generation) -> Self {
        fn source<I: Id, C: Clock + Clone>(
            layout: Layout<I>,
            options: &Options,
            clock: &C,
            generation: Generation,
        ) -> Arc<Source<I, C>> {
            Arc::new(Source::new(layout, options.patience, clock.clone(), generation))
        }
        Self {
            id64: source(options.id64, options, clock, generation),
            id96: source(options.id96, options, clock, generation),
            id128: source(options.id128, options, clock, generation),
        }
    }

    pub(crate) fn of<I: Sealed>(&self) -> &Arc<Source<I, C>> {
        I::source(self)
    }

    pub(super) fn start(&self, machine_id: u16, term: Term) {
        self.id64.start(machine_id, term);
        self.id96.start(machine_id, term);
        self.id128.start(machine_id, term);
    }

    pub(super) fn extend(&self, term: Term) {
        self.id64.extend(term);
        self.id96.extend(term);
        self.id128.extend(term);
    }

    /// The last stamp that any of them has used. Where none has, and a window was reserved, it is the last before it.
    pub(super) fn close(&self, reason: Reason, window: Option<Window>) -> Option<Duration> {
        let used = [self.id64.close(reason), self.id96.close(reason), self.id128.close(reason)];
        used.into_iter().flatten().max().or(window.map(|window| window.after))
    }

    /// What is to be said of time that runs out.
    pub(super) fn warnings(&self, now: Duration) -> impl Iterator<Item = Notice> {
        let left = [
            (Id64::BITS, self.id64.layout().running_out(now)),
            (Id96::BITS, self.id96.layout().running_out(now)),
            (Id128::BITS, self.id128.layout().running_out(now)),
        ];
        left.into_iter().filter_map(|(bits, left)| left.map(|left| Notice::TimeRunsOut { bits, left }))
    }
}
