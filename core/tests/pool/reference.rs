//! The naive pool: a list of what happened, read from the start for every question.

use std::collections::BTreeMap;

#[derive(Clone, Debug)]
enum Event {
    Looked(u64),
    /// Given or renewed: until when, in whose window.
    Held {
        slot: u16,
        owner: u64,
        identity: Option<u8>,
        token: u64,
        until: u64,
    },
    Reserved {
        slot: u16,
        token: u64,
        after: u64,
        until: u64,
    },
    Ended {
        slot: u16,
        free_from: u64,
    },
    Burnt {
        slot: u16,
        token: u64,
    },
    /// Nothing above this stamp was used of the window under that token.
    GivenBack {
        slot: u16,
        token: u64,
        used: u64,
    },
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Held {
    pub(crate) owner: u64,
    pub(crate) identity: Option<u8>,
    pub(crate) token: u64,
    pub(crate) until: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Got {
    pub(crate) slot: u16,
    pub(crate) token: u64,
    pub(crate) until: u64,
    pub(crate) window: Option<(u64, u64)>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Answer {
    Got(Got),
    Exhausted(Option<u64>),
    Busy,
    Done,
    Burnt(u64),
    No(&'static str),
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Wish {
    pub(crate) owner: u64,
    pub(crate) identity: Option<u8>,
    pub(crate) ttl: u64,
    pub(crate) first: u16,
    pub(crate) last: u16,
    pub(crate) exclusive: bool,
    pub(crate) gone: Option<(u16, u64)>,
    pub(crate) wall: Option<u64>,
    pub(crate) locked: u8,
}

pub(crate) struct Reference {
    size: u16,
    cool_down: u64,
    events: Vec<Event>,
}

impl Reference {
    pub(crate) fn new(size: u16, cool_down: u64) -> Self {
        Self { size, cool_down, events: Vec::new() }
    }

    fn look(&mut self, now: u64) -> u64 {
        self.events.push(Event::Looked(now));
        self.events
            .iter()
            .filter_map(|e| if let Event::Looked(at) = e { Some(*at) } else { None })
            .max()
            .unwrap_or(0)
    }

    /// The lease that stands there, over or not.
    pub(crate) fn held(&self, number: u16) -> Option<Held> {
        let mut held = None;
        for event in &self.events {
            match *event {
                Event::Held { slot, owner, identity, token, until } if slot == number => {
                    held = Some(Held { owner, identity, token, until });
                }
                Event::Ended { slot, .. } if slot == number => held = None,
                _ => {}
            }
        }
        held
    }

    pub(crate) fn last_token(&self, number: u16) -> u64 {
        let of = |event: &Event| match *event {
            Event::Held { slot, token, .. } | Event::Burnt { slot, token } if slot == number => Some(token),
            _ => None,
        };
        self.events.iter().filter_map(of).max().unwrap_or(0)
    }

    /// Who had it last, and from when on it is free.
    fn past(&self, number: u16) -> Option<(Option<u8>, u64)> {
        let mut past = None;
        for event in &self.events {
            match *event {
                Event::Held { slot, identity, until, .. } if slot == number => past = Some((identity, until)),
                Event::Ended { slot, free_from } if slot == number => {
                    past = past.map(|(identity, _)| (identity, free_from));
                }
                _ => {}
            }
        }
        past
    }

    /// Every stamp that somebody may have used, as the greatest.
    pub(crate) fn mark(&self, number: u16) -> u64 {
        // Windows by token; what was given back of one is no longer in it.
        let mut windows: BTreeMap<u64, (u64, u64)> = BTreeMap::new();
        for event in &self.events {
            match *event {
                Event::Reserved { slot, token, after, until } if slot == number => {
                    windows.insert(token, (after, until));
                }
                Event::GivenBack { slot, token, used } if slot == number => {
                    let (after, _) = windows.get(&token).copied().unwrap_or((0, 0));
                    windows.insert(token, (after, used.max(after)));
                }
                _ => {}
            }
        }
        windows.values().map(|(_, until)| *until).max().unwrap_or(0)
    }

    fn window(&self, number: u16, wanted: u64) -> Option<(u64, u64)> {
        let of = |event: &Event| match *event {
            Event::Reserved { slot, token, after, until } if slot == number && token == wanted => {
                Some((after, until))
            }
            _ => None,
        };
        self.events.iter().filter_map(of).next_back()
    }

    pub(crate) fn claim(&mut self, wish: Wish, now: u64) -> Answer {
        let now = self.look(now);
        if wish.ttl == 0 {
            return Answer::No("invalid ttl");
        }
        if wish.first >= self.size {
            return Answer::No("no such slot");
        }
        let range = wish.first..=wish.last.min(self.size - 1);
        let usable = |slot: u16| wish.wall.is_none_or(|wall| wall + wish.ttl > self.mark(slot));
        let named = |past: Option<u8>| past.is_some() && past == wish.identity;
        let live = |slot: u16| self.held(slot).filter(|held| held.until > now);

        // When it may have each slot: at once, later, or nobody knows.
        let mut may = Vec::new();
        let mut later = Vec::new();
        for slot in range.clone().filter(|slot| usable(*slot)) {
            let at = match self.past(slot) {
                None => 0,
                Some((who, free_from)) if named(who) => {
                    let over = live(slot)
                        .is_some_and(|held| wish.exclusive || wish.gone == Some((slot, held.token)));
                    if over { 0 } else { free_from }
                }
                Some((_, free_from)) => free_from + self.cool_down,
            };
            if at <= now { may.push(slot) } else { later.push(at) }
        }
        let (locked, open): (Vec<u16>, Vec<u16>) =
            may.iter().partition(|slot| wish.locked >> **slot & 1 == 1);
        let own = open.iter().filter(|slot| self.past(**slot).is_some_and(|(who, _)| named(who)));
        let own = own.max_by_key(|slot| (self.past(**slot).map(|(_, at)| at), u16::MAX - **slot));
        let fresh = open.iter().find(|slot| self.past(**slot).is_none());
        let longest = open.iter().min_by_key(|slot| (self.past(**slot).map(|(_, at)| at), **slot));
        match own.or(fresh).or(longest) {
            Some(slot) => self.give(*slot, wish, now, false),
            None if !locked.is_empty() => Answer::Busy,
            None => Answer::Exhausted(later.into_iter().min()),
        }
    }

    pub(crate) fn reclaim(&mut self, wish: Wish, now: u64) -> Answer {
        let at = self.look(now);
        let own = (wish.first..=wish.last.min(self.size - 1))
            .find(|slot| self.held(*slot).is_some_and(|held| held.until > at && held.owner == wish.owner));
        match own {
            Some(slot) if wish.ttl > 0 => self.give(slot, wish, at, true),
            _ => self.claim(Wish { locked: 0, ..wish }, now),
        }
    }

    fn give(&mut self, slot: u16, wish: Wish, now: u64, again: bool) -> Answer {
        let token = self.last_token(slot) + 1;
        let token_before = self.held(slot).map_or(0, |held| held.token);
        let before = self.held(slot).and_then(|held| self.window(slot, held.token)).filter(|_| again);
        let after = before.map_or_else(|| self.mark(slot), |(after, _)| after);
        let until = now + wish.ttl;
        let window = wish.wall.map(|wall| (after, self.mark(slot).max(wall + wish.ttl)));
        self.events.push(Event::Held { slot, owner: wish.owner, identity: wish.identity, token, until });
        if let Some((after, until)) = window.or_else(|| before.map(|(after, _)| (after, self.mark(slot)))) {
            if before.is_some() {
                // It is the new token's now: under the old one nothing was used.
                self.events.push(Event::GivenBack { slot, token: token_before, used: after });
            }
            self.events.push(Event::Reserved { slot, token, after, until });
        }
        Answer::Got(Got { slot, token, until, window })
    }

    fn current(&self, slot: u16, owner: u64, token: u64, now: u64) -> Result<Held, &'static str> {
        let held = self.held(slot).ok_or("vacant")?;
        match held {
            _ if held.owner != owner => Err("wrong owner"),
            _ if held.token != token => Err("stale token"),
            _ if held.until <= now => Err("expired"),
            _ => Ok(held),
        }
    }

    pub(crate) fn renew(
        &mut self,
        slot: u16,
        owner: u64,
        token: u64,
        now: u64,
        wall: Option<u64>,
        ttl: u64,
    ) -> Answer {
        let now = self.look(now);
        if ttl == 0 {
            return Answer::No("invalid ttl");
        }
        let held = match self.current(slot, owner, token, now) {
            Ok(held) => held,
            Err(reason) => return Answer::No(reason),
        };
        let until = held.until.max(now + ttl);
        let window = wall.map(|wall| {
            let after = self.window(slot, token).map_or_else(|| self.mark(slot), |(after, _)| after);
            (after, self.mark(slot).max(wall + ttl))
        });
        self.events.push(Event::Held { slot, owner, identity: held.identity, token, until });
        if let Some((after, until)) = window {
            self.events.push(Event::Reserved { slot, token, after, until });
        }
        Answer::Got(Got { slot, token, until, window })
    }

    pub(crate) fn release(
        &mut self,
        slot: u16,
        owner: u64,
        token: u64,
        used: Option<u64>,
        now: u64,
    ) -> Answer {
        let now = self.look(now);
        if let Err(reason) = self.current(slot, owner, token, now) {
            return Answer::No(reason);
        }
        if let Some(used) = used {
            // Without a window of its own, it can only say that something was used.
            let used = if self.window(slot, token).is_some() { used } else { used.max(self.mark(slot)) };
            self.events.push(Event::GivenBack { slot, token, used });
        }
        self.events.push(Event::Ended { slot, free_from: now });
        Answer::Done
    }

    pub(crate) fn withdraw(&mut self, owner: u64, now: u64) -> Answer {
        let now = self.look(now);
        let mut count = 0;
        for slot in 0..self.size {
            if self.held(slot).is_some_and(|held| held.owner == owner && held.until > now) {
                self.events.push(Event::Ended { slot, free_from: now });
                count += 1;
            }
        }
        Answer::Burnt(count)
    }

    pub(crate) fn revoke(&mut self, slot: u16, expect: Option<u64>, now: u64) -> Answer {
        self.look(now);
        let held = self.held(slot);
        match (expect, held) {
            (Some(_), None) => return Answer::No("vacant"),
            (Some(token), Some(held)) if held.token != token => return Answer::No("stale token"),
            _ => {}
        }
        if let Some(held) = held {
            self.events.push(Event::Ended { slot, free_from: held.until });
        }
        let token = self.last_token(slot) + 1;
        self.events.push(Event::Burnt { slot, token });
        Answer::Burnt(token)
    }
}
