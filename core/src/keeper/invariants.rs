//! What always holds of a keeper, in one list. Checked after every transition in debug builds.

use core::time::Duration;

use super::{Keeper, Outcome, Phase, StopReason, Wait};

type Invariant = (&'static str, fn(&Keeper, Duration) -> bool);

const INVARIANTS: &[Invariant] = &[
    ("work goes on only under a lease that was granted", |keeper, _| {
        !matches!(keeper.phase, Phase::Starting | Phase::Working | Phase::Releasing)
            || keeper.holder.is_some()
    }),
    ("past the stop deadline nothing is live", |keeper, now| {
        keeper.stop_deadline().is_none_or(|deadline| now < deadline || !in_hold(keeper))
    }),
    ("a lease that is over was lost", |keeper, _| {
        keeper.phase != Phase::Working || keeper.stop_deadline().is_some() || keeper.loss.is_some()
    }),
    ("nothing is in flight for a lease that is over", |keeper, _| {
        !in_hold(keeper) || keeper.stop_deadline().is_some() || keeper.in_flight.is_none()
    }),
    ("a request is waited for no longer than its limit", |keeper, now| {
        keeper.in_flight.is_none_or(|flight| now <= flight.limit)
    }),
    ("an acquire is never outstanding once work has begun", |keeper, _| {
        !in_hold(keeper) || !keeper.unanswered
    }),
    ("a loss is told before the work is over, or there was no work", |keeper, _| {
        !keeper.loss_told || keeper.loss.is_some()
    }),
    ("a stop is told for a reason", |keeper, _| {
        !keeper.stop_told || keeper.stop.is_some() || keeper.loss.is_some()
    }),
    ("losses are kept apart from other reasons to stop", |keeper, _| {
        !matches!(keeper.stop, Some(StopReason::Lost(_)))
    }),
    ("a lease that was lost never counts as one that stood", |keeper, _| {
        keeper.loss.is_none() || !matches!(keeper.phase, Phase::Done(Outcome::Stood | Outcome::Unconfirmed))
    }),
    ("who does not wait has given up once another was met", |keeper, _| {
        !(keeper.phase == Phase::Acquiring && keeper.options.wait == Wait::No && keeper.occupied)
    }),
    ("once it is over nothing is in flight", |keeper, _| {
        !matches!(keeper.phase, Phase::Done(_)) || keeper.in_flight.is_none()
    }),
];

/// The first invariant that does not hold.
pub(super) fn broken(keeper: &Keeper, now: Duration) -> Option<&'static str> {
    INVARIANTS.iter().find(|(_, holds)| !holds(keeper, now)).map(|(name, _)| *name)
}

fn in_hold(keeper: &Keeper) -> bool {
    matches!(keeper.phase, Phase::Starting | Phase::Working | Phase::Releasing)
}
