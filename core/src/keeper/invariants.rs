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

#[cfg(test)]
#[allow(clippy::arithmetic_side_effects)] // a test that overflows fails
mod tests {
    use core::time::Duration;
    use std::vec::Vec;

    use super::*;
    use crate::keeper::{Flight, Loss, NotHeld};
    use crate::{Cadence, FencingToken, Holder, KeeperOptions};

    const NOW: Duration = Duration::from_secs(1);

    fn acquiring() -> Keeper {
        let second = Duration::from_secs;
        let cadence = Cadence::new(second(30), second(10), second(5)).expect("a sound cadence");
        Keeper::new(KeeperOptions::new(cadence), 1, Duration::ZERO)
    }

    /// At work, in a state that no invariant objects to.
    fn working() -> Keeper {
        let mut keeper = acquiring();
        keeper.holder = Some(Holder::new(FencingToken::FIRST, Duration::ZERO, keeper.options.cadence));
        keeper.phase = Phase::Working;
        keeper
    }

    fn flight(limit: Duration) -> Option<Flight> {
        Some(Flight { attempt: 1, limit })
    }

    /// An impossible keeper for each invariant, in the order of the list.
    fn impossible() -> Vec<Keeper> {
        let spoilt = |mut keeper: Keeper, spoil: fn(&mut Keeper)| {
            spoil(&mut keeper);
            keeper
        };
        let mut over = working();
        over.loss = Some(Loss::Expired);
        over.holder.as_mut().map(Holder::expire);
        [
            spoilt(acquiring(), |keeper| keeper.phase = Phase::Starting),
            spoilt(working(), |keeper| {
                let (token, cadence) = (FencingToken::FIRST, keeper.options.cadence);
                let cadence = Cadence::new(NOW, cadence.renew_every() / 20, cadence.warn_before() / 20);
                keeper.holder = cadence.map(|cadence| Holder::new(token, Duration::ZERO, cadence));
            }),
            spoilt(over.clone(), |keeper| keeper.loss = None),
            spoilt(over.clone(), |keeper| keeper.in_flight = flight(NOW)),
            spoilt(working(), |keeper| keeper.in_flight = flight(NOW - Duration::from_nanos(1))),
            spoilt(working(), |keeper| keeper.unanswered = true),
            spoilt(working(), |keeper| keeper.loss_told = true),
            spoilt(working(), |keeper| keeper.stop_told = true),
            spoilt(working(), |keeper| keeper.stop = Some(StopReason::Lost(Loss::Expired))),
            spoilt(over, |keeper| keeper.phase = Phase::Done(Outcome::Stood)),
            spoilt(acquiring(), |keeper| keeper.occupied = true),
            spoilt(acquiring(), |keeper| {
                keeper.phase = Phase::Done(Outcome::NotHeld(NotHeld::Stopped));
                keeper.in_flight = flight(NOW);
            }),
        ]
        .into()
    }

    #[test]
    fn every_invariant_objects_to_what_it_names_and_the_others_do_not() {
        let impossible = impossible();
        assert_eq!(impossible.len(), INVARIANTS.len());
        for (keeper, (name, _)) in impossible.iter().zip(INVARIANTS) {
            let objections: Vec<_> =
                INVARIANTS.iter().filter(|(_, holds)| !holds(keeper, NOW)).map(|(name, _)| *name).collect();
            assert_eq!(objections, [*name]);
            assert_eq!(broken(keeper, NOW), Some(*name));
        }
    }

    #[test]
    fn what_is_possible_is_not_objected_to() {
        let mut flying = working();
        flying.in_flight = flight(NOW);
        let mut lost = working();
        lost.holder.as_mut().map(Holder::expire);
        lost.loss = Some(Loss::Taken);
        (lost.loss_told, lost.stop_told) = (true, true);
        let mut stopping = working();
        stopping.stop = Some(StopReason::Requested);
        stopping.stop_told = true;
        let mut waiting = acquiring();
        waiting.options = waiting.options.with_wait(Wait::Forever);
        (waiting.occupied, waiting.unanswered) = (true, true);
        let mut done = acquiring();
        done.phase = Phase::Done(Outcome::Stood);
        for keeper in [acquiring(), working(), flying, lost, stopping, waiting, done] {
            assert_eq!(broken(&keeper, NOW), None, "{keeper:?}");
        }
    }

    #[test]
    #[cfg(debug_assertions)]
    #[should_panic(expected = "work goes on only under a lease that was granted")]
    fn a_debug_build_does_not_go_on_from_an_impossible_state() {
        impossible().remove(0).handle(crate::Event::Tick, NOW);
    }
}
