//! The naive authority: a list of what happened, read from the start for every answer.

/// Nanoseconds since the origin.
pub(crate) type Nanos = u128;

/// The last instant that a `Duration` can name.
pub(crate) const END_OF_TIME: Nanos = u64::MAX as u128 * 1_000_000_000 + 999_999_999;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Held {
    pub(crate) owner: u64,
    pub(crate) token: u64,
    pub(crate) until: Nanos,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Answer {
    Granted(Held),
    Renewed(Held),
    Released,
    Burnt(u64),
    No(&'static str),
}

impl Answer {
    pub(crate) fn kind(self) -> &'static str {
        match self {
            Self::Granted(_) => "granted",
            Self::Renewed(_) => "renewed",
            Self::Released => "released",
            Self::Burnt(_) => "burnt",
            Self::No(reason) => reason,
        }
    }
}

enum Event {
    Looked { at: Nanos },
    Issued { token: u64 },
    Given { to: u64, token: u64 },
    Promised { token: u64, until: Nanos },
    Vacated,
}

pub(crate) struct Reference {
    pub(crate) clamp: bool,
    events: Vec<Event>,
}

impl Reference {
    pub(crate) fn starting_with(last_issued: u64, held: Option<Held>, clock: Nanos, clamp: bool) -> Self {
        let mut events = vec![Event::Looked { at: clock }];
        if last_issued > 0 {
            events.push(Event::Issued { token: last_issued });
        }
        if let Some(Held { owner, token, until }) = held {
            events.push(Event::Given { to: owner, token });
            events.push(Event::Promised { token, until });
        }
        Self { clamp, events }
    }

    pub(crate) fn observed(&self) -> Nanos {
        let mut latest = 0;
        for event in &self.events {
            if let Event::Looked { at } = event {
                if *at > latest {
                    latest = *at;
                }
            }
        }
        latest
    }

    pub(crate) fn last_issued(&self) -> u64 {
        let mut greatest = 0;
        for event in &self.events {
            if let Event::Issued { token } = event {
                if *token > greatest {
                    greatest = *token;
                }
            }
        }
        greatest
    }

    /// Whose it is: the last that it was given to, unless it was vacated since, until the furthest promise.
    pub(crate) fn held(&self) -> Option<Held> {
        let mut held: Option<Held> = None;
        for event in &self.events {
            match event {
                Event::Given { to, token } => held = Some(Held { owner: *to, token: *token, until: 0 }),
                Event::Vacated => held = None,
                Event::Promised { token, until } => {
                    if let Some(held) = &mut held {
                        if held.token == *token && *until > held.until {
                            held.until = *until;
                        }
                    }
                }
                Event::Looked { .. } | Event::Issued { .. } => {}
            }
        }
        held
    }

    pub(crate) fn acquire(&mut self, owner: u64, now: Nanos, ttl: Nanos) -> Answer {
        self.give(owner, now, ttl, false)
    }

    pub(crate) fn reacquire(&mut self, owner: u64, now: Nanos, ttl: Nanos) -> Answer {
        self.give(owner, now, ttl, true)
    }

    fn give(&mut self, owner: u64, now: Nanos, ttl: Nanos, own_lease_may_go: bool) -> Answer {
        if !self.look(now) {
            return Answer::No("clock regressed");
        }
        let now = self.observed();
        if ttl == 0 {
            return Answer::No("invalid ttl");
        }
        if let Some(held) = self.held() {
            let live = held.until > now;
            let in_the_way = !(own_lease_may_go && held.owner == owner);
            if live && in_the_way {
                return Answer::No("occupied");
            }
        }
        if now + ttl > END_OF_TIME {
            return Answer::No("overflow");
        }
        if self.last_issued() == u64::MAX {
            return Answer::No("exhausted");
        }
        let token = self.last_issued() + 1;
        self.events.push(Event::Issued { token });
        self.events.push(Event::Given { to: owner, token });
        self.events.push(Event::Promised { token, until: now + ttl });
        Answer::Granted(Held { owner, token, until: now + ttl })
    }

    pub(crate) fn renew(&mut self, owner: u64, token: u64, now: Nanos, ttl: Nanos) -> Answer {
        if !self.look(now) {
            return Answer::No("clock regressed");
        }
        let now = self.observed();
        if ttl == 0 {
            return Answer::No("invalid ttl");
        }
        if let Some(no) = self.objection(owner, token, now) {
            return Answer::No(no);
        }
        if now + ttl > END_OF_TIME {
            return Answer::No("overflow");
        }
        self.events.push(Event::Promised { token, until: now + ttl });
        Answer::Renewed(self.held().expect("it was held a moment ago"))
    }

    pub(crate) fn release(&mut self, owner: u64, token: u64, now: Nanos) -> Answer {
        if !self.look(now) {
            return Answer::No("clock regressed");
        }
        let now = self.observed();
        if let Some(no) = self.objection(owner, token, now) {
            return Answer::No(no);
        }
        self.events.push(Event::Vacated);
        Answer::Released
    }

    pub(crate) fn revoke(&mut self, expect: Option<u64>, now: Nanos) -> Answer {
        self.events.push(Event::Looked { at: now });
        if let Some(expect) = expect {
            match self.held() {
                None => return Answer::No("vacant"),
                Some(held) if held.token != expect => return Answer::No("stale token"),
                Some(_) => {}
            }
        }
        self.events.push(Event::Vacated);
        if self.last_issued() == u64::MAX {
            return Answer::No("exhausted");
        }
        let token = self.last_issued() + 1;
        self.events.push(Event::Issued { token });
        Answer::Burnt(token)
    }

    fn objection(&self, owner: u64, token: u64, now: Nanos) -> Option<&'static str> {
        match self.held() {
            None => Some("vacant"),
            Some(held) if held.owner != owner => Some("wrong owner"),
            Some(held) if held.token != token => Some("stale token"),
            Some(held) if now >= held.until => Some("expired"),
            Some(_) => None,
        }
    }

    fn look(&mut self, now: Nanos) -> bool {
        if now < self.observed() && !self.clamp {
            return false;
        }
        self.events.push(Event::Looked { at: now });
        true
    }
}
