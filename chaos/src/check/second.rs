//! The second store, which is pruned and whose epochs are replaced. What was forgotten there says nothing, so that it is
//! looked at pair by pair, for what may not be whatever happened in between.

use std::collections::BTreeMap;

use super::clock::{Instant, signed};
use super::{Kind, Run, Violation};
use crate::history::{Act, Deed, Said};

/// A hold that was answered.
struct Hold<'a> {
    owner: u64,
    token: u64,
    ttl: u64,
    act: &'a Act,
}

struct Resource<'a> {
    run: &'a Run,
    store: &'a Store<'a>,
    acts: Vec<&'a Act>,
    holds: Vec<Hold<'a>>,
}

/// What is about all resources.
struct Store<'a> {
    run: &'a Run,
    openings: Vec<&'a Act>,
    /// By when it was answered that another has taken an epoch's place.
    gone: BTreeMap<u64, u64>,
}

pub(super) fn check(run: &Run, acts: &[&Act]) -> Vec<Violation> {
    let mut found = Vec::new();
    let store = Store::new(run, acts);
    let mut resources: BTreeMap<&str, Vec<&Act>> = BTreeMap::new();
    for act in acts {
        if let Said::Refused(why) = &act.said {
            found.push(violation(Kind::Refused, act, why));
        }
        if act.ended - act.began > run.timeout + run.bound && !matches!(act.deed, Deed::Prune { .. }) {
            found.push(violation(Kind::TooLong, act, "it took too long"));
        }
        store.epochs(act, &mut found);
        if !act.resource.is_empty() {
            resources.entry(&act.resource).or_default().push(act);
        }
    }
    for mut acts in resources.into_values() {
        acts.sort_by_key(|act| (act.began, act.ended));
        Resource::new(run, &store, acts).check(&mut found);
    }
    found
}

impl<'a> Store<'a> {
    fn new(run: &'a Run, acts: &[&'a Act]) -> Self {
        let mut gone: BTreeMap<u64, u64> = BTreeMap::new();
        for act in acts {
            let replaced = match (&act.deed, &act.said) {
                (Deed::Open { instead_of, .. }, Said::Opened { epoch }) if epoch != instead_of => *instead_of,
                (_, Said::NewEpoch { .. }) => act.epoch,
                _ => continue,
            };
            let by = gone.entry(replaced).or_insert(act.ended);
            *by = act.ended.min(*by);
        }
        let openings = acts.iter().copied().filter(|act| matches!(act.deed, Deed::Open { .. })).collect();
        Self { run, openings, gone }
    }

    /// Once another has taken its place, nothing is decided under an epoch; and none takes it unasked.
    fn epochs(&self, act: &Act, found: &mut Vec<Violation>) {
        let under = match act.said {
            Said::Granted { epoch, .. } => epoch,
            Said::Renewed { .. } | Said::Released | Said::Retained { .. } => act.epoch,
            _ => 0,
        };
        if matches!(act.said, Said::Granted { .. }) && act.epoch != 0 && act.epoch != under {
            found.push(violation(Kind::EpochForgotten, act, "it is of another epoch than was asked for"));
        }
        if self.gone.get(&under).is_some_and(|by| *by < act.began) {
            found.push(violation(Kind::EpochForgotten, act, "its epoch had been replaced before it began"));
        }
        let asked = |opening: &&&Act| {
            let Deed::Open { instead_of, .. } = opening.deed else { return false };
            instead_of == act.epoch && may_have(self.run, opening) && opening.began <= act.ended
        };
        if matches!(act.said, Said::NewEpoch { .. }) && !self.openings.iter().any(|act| asked(&act)) {
            found.push(violation(Kind::FalselyLost, act, "nobody had opened another epoch"));
        }
    }

    /// Whether leases may have been ended by an operator's word in between.
    fn buried(&self, began: u64, ended: u64) -> bool {
        self.opened(began, ended).any(|act| matches!(act.deed, Deed::Open { dead: true, .. }))
    }

    /// Whether an epoch may have been replaced in between.
    fn replaced(&self, began: u64, ended: u64) -> bool {
        self.opened(began, ended).next().is_some()
    }

    fn opened(&self, began: u64, ended: u64) -> impl Iterator<Item = &&Act> {
        self.openings.iter().filter(move |act| {
            let may_come = act.ended >= began || !matches!(act.said, Said::Opened { .. });
            may_have(self.run, act) && act.began <= ended && may_come
        })
    }
}

impl<'a> Resource<'a> {
    fn new(run: &'a Run, store: &'a Store<'a>, acts: Vec<&'a Act>) -> Self {
        let holds = acts
            .iter()
            .filter_map(|act| match (&act.deed, &act.said) {
                (Deed::Acquire { owner, .. }, Said::Granted { token, ttl, .. }) => {
                    Some(Hold { owner: *owner, token: *token, ttl: *ttl, act })
                }
                _ => None,
            })
            .collect();
        Self { run, store, acts, holds }
    }

    fn check(&self, found: &mut Vec<Violation>) {
        self.tokens(found);
        self.work(found);
        for hold in &self.holds {
            self.hold(hold, found);
        }
    }

    /// Tokens do not come twice, and do not go down, whatever was forgotten.
    fn tokens(&self, found: &mut Vec<Violation>) {
        let mut owners: BTreeMap<u64, u64> = BTreeMap::new();
        for hold in &self.holds {
            if *owners.entry(hold.token).or_insert(hold.owner) != hold.owner {
                found.push(violation(Kind::TokenRepeated, hold.act, "the token was issued before"));
            }
        }
        let mut by_end: Vec<&Hold<'_>> = self.holds.iter().collect();
        by_end.sort_by_key(|hold| hold.act.ended);
        let mut by_end = by_end.into_iter().peekable();
        let mut highest = 0;
        for hold in &self.holds {
            while let Some(earlier) = by_end.next_if(|earlier| earlier.act.ended < hold.act.began) {
                highest = earlier.token.max(highest);
            }
            if hold.token < highest {
                let text = format!("token {highest} had been issued before it began");
                found.push(violation(Kind::OutOfOrder, hold.act, &text));
            }
        }
    }

    /// Work that has been done is not to be done again, and is not said to be done by nobody.
    fn work(&self, found: &mut Vec<Violation>) {
        let good = |act: &&&Act| matches!(act.deed, Deed::Release { is_good: true, .. });
        let kept = |act: &&Act| matches!(act.said, Said::Released | Said::Retained { .. });
        let done = self.acts.iter().filter(good).filter(|act| kept(act)).map(|act| act.ended);
        let told = self.acts.iter().filter(|act| matches!(act.said, Said::Done { .. })).map(|act| act.ended);
        let known = done.chain(told).min().unwrap_or(u64::MAX);
        for act in &self.acts {
            let Deed::Acquire { once: true, .. } = act.deed else { continue };
            match act.said {
                Said::Granted { .. } if known < act.began => {
                    found.push(violation(Kind::DoneTwice, act, "the work had been done before it began"));
                }
                Said::Done { token } => {
                    let by_whom = |release: &&&Act| {
                        matches!(release.deed, Deed::Release { token: released, is_good: true, .. } if released == token)
                            && may_have(self.run, release)
                            && release.began <= act.ended
                    };
                    if !self.acts.iter().any(|act| by_whom(&act)) {
                        found.push(violation(Kind::Phantom, act, "nobody had done the work"));
                    }
                }
                _ => {}
            }
        }
    }

    /// Until a hold's end nobody else is granted the resource, and its holder is not told that it is over.
    fn hold(&self, hold: &Hold<'_>, found: &mut Vec<Violation>) {
        let own = |act: &&&Act| match act.deed {
            Deed::Renew { owner, token, .. } | Deed::Release { owner, token, .. } => {
                (owner, token) == (hold.owner, hold.token)
            }
            _ => false,
        };
        let own: Vec<&Act> = self.acts.iter().filter(own).copied().collect();
        let mut lasts = signed(hold.act.began).saturating_add(signed(hold.ttl));
        for act in &own {
            match (&act.deed, &act.said) {
                (_, Said::Renewed { ttl }) => {
                    lasts = lasts.max(signed(act.began).saturating_add(signed(*ttl)));
                }
                (Deed::Renew { .. }, Said::Rejected { reason })
                    if signed(act.ended) < lasts
                        && self.is_steady(hold, act)
                        && !self.store.replaced(hold.act.began, act.ended) =>
                {
                    let text =
                        format!("the lease had {} ms left ({reason})", (lasts - signed(act.ended)) / MS);
                    found.push(violation(Kind::FalselyLost, act, &text));
                }
                (Deed::Release { at_least, .. }, said) => {
                    self.held_back(hold, act, signed(*at_least), said, found);
                    // It may be over from here on, or is held back.
                    if may_have(self.run, act) || matches!(said, Said::Rejected { .. }) {
                        self.exclusive(hold, hold.act.ended, lasts.min(signed(act.began)), found);
                        if let Said::Retained { left } = said {
                            let lasts = signed(act.began).saturating_add(signed(*left));
                            self.exclusive(hold, act.ended, lasts, found);
                        }
                        return;
                    }
                }
                _ => {}
            }
        }
        self.exclusive(hold, hold.act.ended, lasts, found);
    }

    /// Nobody else is granted it by then.
    fn exclusive(&self, hold: &Hold<'_>, since: u64, lasts: Instant, found: &mut Vec<Violation>) {
        for other in &self.holds {
            let comes_later = other.token > hold.token && other.act.ended > since;
            if comes_later
                && signed(other.act.ended) < lasts
                && self.is_steady(hold, other.act)
                && !self.store.buried(hold.act.began, other.act.ended)
            {
                let left = (lasts - signed(other.act.ended)) / MS;
                let text = format!("token {} had at least {left} ms left", hold.token);
                found.push(violation(Kind::TwoLive, other.act, &text));
            }
        }
    }

    /// A release with a time before which nobody else gets it is not a plain one before that.
    fn held_back(
        &self,
        hold: &Hold<'_>,
        act: &Act,
        at_least: Instant,
        said: &Said,
        found: &mut Vec<Violation>,
    ) {
        /// Roundings of the store's clock.
        const SLACK: Instant = 3 * MS;
        if !self.is_steady(hold, act) {
            return;
        }
        let latest = signed(act.ended) - signed(hold.act.began);
        match said {
            Said::Released if latest + SLACK < at_least => {
                let text = format!("released at once, {} ms after its grant", latest / MS);
                found.push(violation(Kind::NotAsCore, act, &text));
            }
            Said::Retained { left } if !self.run.ends_by_leases => {
                let earliest = signed(act.began) - signed(hold.act.ended);
                let most = at_least - earliest;
                if signed(*left) > most + SLACK {
                    let text = format!("held back for more than {} ms", most / MS);
                    found.push(violation(Kind::NotAsCore, act, &text));
                }
            }
            _ => {}
        }
    }

    /// Whether the clock was not stepped since anything was asked about the resource: until it has caught up, one that was
    /// put back stands still there.
    fn is_steady(&self, hold: &Hold<'_>, until: &Act) -> bool {
        let first = self.acts.first().map_or(hold.act.began, |act| act.began);
        self.run.clock.is_steady(first, until.ended)
    }
}

const MS: Instant = 1_000_000;

/// Whether it was carried out, or may have been: what came twice was perhaps carried out the second time.
fn may_have(run: &Run, act: &Act) -> bool {
    let not_done = matches!(
        act.said,
        Said::NotDone(_) | Said::Refused(_) | Said::Rejected { .. } | Said::NewEpoch { .. }
    );
    !not_done || run.came_twice(act.began, act.ended)
}

fn violation(kind: Kind, act: &Act, text: &str) -> Violation {
    let (from, until) = (act.began as f64 / 1e9, act.ended as f64 / 1e9);
    let (deed, said) = (&act.deed, &act.said);
    Violation {
        kind,
        resource: format!("{} of the second store", act.resource),
        text: format!(
            "{text}: from {from:.6} to {until:.6}, in epoch {:x}: {deed:?} was answered {said:?}",
            act.epoch
        ),
    }
}
