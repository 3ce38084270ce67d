//! What must hold of every schedule.

use lease_machines::Outcome;

use super::*;

impl Simulation<'_> {
    /// For as long as the keeper's work may act, from now to the last nanosecond before its stop deadline, the store
    /// holds the lease for it, under the token that it works under.
    pub(super) fn check_that_it_acts_under_its_lease(&mut self, who: usize, keeper: &Keeper, now: Duration) {
        let worker = &self.workers[who];
        if let Some(outcome) = keeper.outcome() {
            self.tally.count(&format!("{outcome:?}"));
        }
        if !keeper.may_act(now) || !self.plan.revokes.is_empty() {
            return;
        }
        let token = worker.working_under.expect("it may act, so it works");
        let deadline = keeper.stop_deadline().expect("it may act");
        // The first true instant at which its clock has reached the deadline is not one at which it acts.
        let last = worker.true_time_of(deadline).saturating_sub(Duration::from_nanos(1));
        let lease =
            self.store.lease().unwrap_or_else(|| panic!("{who} acts under {token}, and nobody holds"));
        assert_eq!((lease.owner().value(), lease.token()), (who as u64, token), "acts under another's lease");
        assert!(
            last < lease.expires_at(),
            "{who} acts until {last:?}, and its lease ends {:?}",
            lease.expires_at()
        );
        self.tally.count("acted under its lease");
    }

    pub(super) fn check_the_end(&mut self) {
        for who in 0..self.workers.len() {
            let worker = &self.workers[who];
            let Some(keeper) = &worker.keeper else { panic!("{who} never ran") };
            let Some(outcome) = keeper.outcome() else { panic!("{who} never ends: {keeper:?}") };
            match outcome {
                Outcome::Stood => {
                    let token = worker.worked_under.last().expect("it worked");
                    assert!(self.store.was_released(*token), "{who} stood, and nobody released {token}");
                }
                Outcome::NotHeld(_) => {
                    assert!(worker.plan.retake || worker.holds == 0, "{who} held nothing, and worked");
                }
                Outcome::Lost(_) | Outcome::Unconfirmed => {}
            }
            // Every grant that arrived was worked under, given back, or superseded by a later request.
            for (attempt, token) in &worker.unused {
                let superseded = worker.superseding.iter().any(|later| later > attempt);
                let over_before_the_work = matches!(outcome, Outcome::Lost(_));
                assert!(
                    worker.given_back.contains(token)
                        || superseded
                        || worker.worked_under.iter().any(|worked| worked > token)
                        || over_before_the_work,
                    "{who} was granted {token} and forgot it"
                );
            }
            self.tally.count(&format!("in the end {outcome:?}"));
        }
        // Where nothing was lost on the way, nobody who has ended still holds anything for longer than a request takes to
        // arrive: that much, and the drift of clocks, the store's deadline may lie behind a holder's.
        if let Some(lease) = self.store.lease().filter(|lease| lease.is_live(self.now)) {
            let Network { drops, unknown, not_done, longest_delay, .. } = self.plan.network;
            let ttl = self.plan.keepers[lease.owner().value() as usize].ttl;
            let soon = self.now + longest_delay + (ttl / 100).max(Duration::from_millis(2));
            let lossless = drops + unknown + not_done == 0 && !self.plan.blackout;
            assert!(!lossless || lease.expires_at() <= soon, "{lease:?} is left behind");
            self.tally.count("left behind");
        }
    }
}
