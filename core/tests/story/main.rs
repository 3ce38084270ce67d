//! The whole story, explored by a model checker: an authority, two holders, a network, and a resource with a fence.
//!
//! Every schedule of a small world is visited:
//!
//! - **Time** is a clock of a few ticks, which one schedule lets pass between any two steps and another does not.
//! - **The network** delivers a request, an answer or a write at any later time (delayed), before or after any other
//!   (reordered), never (lost: the schedule ends before), or twice (doubled: a few times in one schedule).
//! - **A holder that pauses** is one that the schedule passes over. Where it pauses between the question whether it may
//!   act and the write, the write arrives late; for the resource that is the same as a network that was slow, and so it
//!   is in this model: a write is asked for and sent in one step, and delivered in another.
//!
//! The machines are those of the crate, not copies: [`LeaseAuthority`], [`Holder`] and [`Fence`].

#![allow(clippy::panic, clippy::indexing_slicing)] // tests may

mod explored;

use core::time::Duration;
use std::collections::BTreeSet;

use lease_machines::{
    Cadence, Checkpoint, ClockPolicy, Decision, Fence, FencingToken, Holder, HolderState, LeaseAuthority,
    OwnerId,
    Rejection::{Expired, StaleToken, Vacant, WrongOwner},
};
use stateright::{Model, Property};

const HOLDERS: usize = 2;

/// A world to explore.
#[derive(Clone, Debug)]
struct Story {
    /// Whether the resource has a fence, or lets every write through.
    fenced: bool,
    /// The last tick.
    end: u64,
    /// How many requests each holder sends, and how many writes.
    requests: u8,
    writes: u8,
    /// How often the network delivers a message twice.
    doubles: u8,
    /// How often an operator revokes the lease, and tells the fence of the burnt token.
    revokes: u8,
    /// By how many ticks the authority's clock steps, once, at any moment.
    clock_step: i64,
    policy: ClockPolicy,
}

const TTL: u64 = 2;

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct World {
    now: u64,
    /// How far the authority's clock is ahead of the holders'.
    ahead: i64,
    stepped: bool,
    revokes_left: u8,
    authority: Checkpoint,
    holders: [Worker; HOLDERS],
    /// What was sent and not yet delivered.
    network: BTreeSet<Message>,
    doubles_left: u8,
    fence: Fence,
    /// What the resource let through last, and whether it ever let an older token through after a newer one.
    last_write: Option<u64>,
    overwritten: bool,
    /// A holder was told that it may act while another one was.
    two_at_once: bool,
    /// Whether the fence ever had something to refuse, and whether a renewal was ever confirmed.
    refused: bool,
    renewed: bool,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
struct Worker {
    holder: Option<Holder>,
    requests_sent: u8,
    writes_sent: u8,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
enum Message {
    Request { from: usize, sent: u64, what: Request },
    Answer { to: usize, sent: u64, what: Answer },
    Write { from: usize, token: u64 },
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
enum Request {
    Acquire,
    Reacquire,
    Renew { token: u64 },
    Release { token: u64 },
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
enum Answer {
    Granted { token: u64, ttl: u64 },
    Renewed { token: u64, ttl: u64 },
    Over { token: u64 },
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum Step {
    /// One tick passes for everybody.
    Tick,
    /// The authority's clock steps.
    ClockSteps,
    Send {
        from: usize,
        what: Request,
    },
    Deliver(Message),
    /// Delivered now, and perhaps once more.
    DeliverAndKeep(Message),
    /// A holder asks whether it may act, is told yes, and writes.
    Write {
        from: usize,
    },
    Revoke,
}

const NO_OLDER_WRITE: &str = "no write with an older token is accepted after one with a newer token";
const ONE_AT_A_TIME: &str = "no two holders may act at the same time";
const TWO_AT_ONCE: &str = "two holders may act at the same time";
const REFUSED: &str = "the fence refuses a write";
const BOTH_WROTE: &str = "both holders write, one after the other";
const RENEWED: &str = "a renewal is confirmed";

impl Model for Story {
    type State = World;
    type Action = Step;

    fn init_states(&self) -> Vec<World> {
        vec![World {
            now: 0,
            // Two clocks have two origins; this one has room for a step back.
            ahead: 10,
            stepped: self.clock_step == 0,
            revokes_left: self.revokes,
            authority: LeaseAuthority::new().checkpoint(),
            holders: Default::default(),
            network: BTreeSet::new(),
            doubles_left: self.doubles,
            fence: Fence::new(None),
            last_write: None,
            overwritten: false,
            two_at_once: false,
            refused: false,
            renewed: false,
        }]
    }

    fn actions(&self, world: &World, steps: &mut Vec<Step>) {
        if world.now < self.end {
            steps.push(Step::Tick);
        }
        if !world.stepped {
            steps.push(Step::ClockSteps);
        }
        if world.revokes_left > 0 && world.authority.lease().is_some() {
            steps.push(Step::Revoke);
        }
        for (index, worker) in world.holders.iter().enumerate() {
            if worker.requests_sent < self.requests {
                steps.extend(worker.wishes(world.now).map(|what| Step::Send { from: index, what }));
            }
            if worker.writes_sent < self.writes && worker.may_act(world.now) {
                steps.push(Step::Write { from: index });
            }
        }
        steps.extend(world.network.iter().copied().map(Step::Deliver));
        if world.doubles_left > 0 {
            steps.extend(world.network.iter().copied().map(Step::DeliverAndKeep));
        }
    }

    fn next_state(&self, world: &World, step: Step) -> Option<World> {
        let mut next = world.clone();
        match step {
            Step::Tick => next.now += 1,
            Step::ClockSteps => {
                next.ahead += self.clock_step;
                next.stepped = true;
            }
            Step::Send { from, what } => {
                next.holders[from].send(what, world.now);
                next.network.insert(Message::Request { from, sent: world.now, what });
            }
            Step::Deliver(message) => {
                next.network.remove(&message);
                next.arrive(self, message);
            }
            Step::DeliverAndKeep(message) => {
                next.doubles_left -= 1;
                next.arrive(self, message);
            }
            Step::Write { from } => {
                let worker = &mut next.holders[from];
                worker.writes_sent += 1;
                let token = worker.holder.as_ref()?.token().value();
                next.network.insert(Message::Write { from, token });
            }
            Step::Revoke => {
                next.revokes_left -= 1;
                let mut authority = next.restored(self);
                let burnt = authority.revoke(None, next.authority_time()).expect("tokens abound");
                next.authority = authority.checkpoint();
                assert!(next.fence.accept(burnt), "a burnt token is greater than every other");
            }
        }
        next.two_at_once |= next.holders.iter().filter(|worker| worker.may_act(next.now)).count() > 1;
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let mut properties = vec![
            Property::always(NO_OLDER_WRITE, |_, world: &World| !world.overwritten),
            Property::sometimes(BOTH_WROTE, |_, world: &World| {
                world.last_write.is_some_and(|token| token > 1)
                    && world.holders.iter().all(|w| w.writes_sent > 0)
            }),
            Property::sometimes(RENEWED, |_, world: &World| world.renewed),
        ];
        if self.revokes == 0 && self.clock_step <= 0 {
            properties.push(Property::always(ONE_AT_A_TIME, |_, world: &World| !world.two_at_once));
        }
        if self.clock_step > 0 {
            properties.push(Property::sometimes(TWO_AT_ONCE, |_, world: &World| world.two_at_once));
        }
        if self.fenced {
            properties.push(Property::sometimes(REFUSED, |_, world: &World| world.refused));
        }
        properties
    }
}

impl World {
    fn authority_time(&self) -> Duration {
        secs(self.now.saturating_add_signed(self.ahead))
    }

    fn restored(&self, story: &Story) -> LeaseAuthority {
        LeaseAuthority::restore(self.authority).with_clock_policy(story.policy)
    }

    fn arrive(&mut self, story: &Story, message: Message) {
        match message {
            Message::Request { from, sent, what } => {
                if let Some(what) = self.decide(story, from, what) {
                    self.network.insert(Message::Answer { to: from, sent, what });
                }
            }
            Message::Answer { to, sent, what } => self.renewed |= self.holders[to].hear(what, sent, self.now),
            Message::Write { token, .. } => self.write(story, token),
        }
    }

    /// The authority's answer. One that tells its holder nothing it would act on is not sent.
    fn decide(&mut self, story: &Story, from: usize, what: Request) -> Option<Answer> {
        let (owner, now) = (OwnerId::new(from as u64), self.authority_time());
        let mut authority = self.restored(story);
        let decision = match what {
            Request::Acquire => authority.acquire(owner, now, secs(TTL)),
            Request::Reacquire => authority.reacquire(owner, now, secs(TTL)),
            Request::Renew { token: n } => authority.renew(owner, token(n), now, secs(TTL)),
            Request::Release { token: n } => authority.release(owner, token(n), now),
        };
        self.authority = authority.checkpoint();
        // What is left of the lease at the instant of the decision, by the authority's clock.
        let left = |until: Duration| until.saturating_sub(self.authority.observed()).as_secs();
        match (decision, what) {
            (Decision::Granted(lease), _) => {
                Some(Answer::Granted { token: lease.token().value(), ttl: left(lease.expires_at()) })
            }
            (Decision::Renewed(lease), _) => {
                Some(Answer::Renewed { token: lease.token().value(), ttl: left(lease.expires_at()) })
            }
            // A renewal that comes too late says so; a release is over for its holder before it is sent.
            (Decision::Rejected(Vacant | WrongOwner | StaleToken | Expired), Request::Renew { token }) => {
                Some(Answer::Over { token })
            }
            _ => None,
        }
    }

    fn write(&mut self, story: &Story, n: u64) {
        if story.fenced && !self.fence.accept(token(n)) {
            self.refused = true;
            return;
        }
        self.overwritten |= self.last_write.is_some_and(|newest| n < newest);
        self.last_write = self.last_write.max(Some(n));
    }
}

impl Worker {
    fn may_act(&self, now: u64) -> bool {
        self.holder.as_ref().is_some_and(|holder| holder.may_act(secs(now)))
    }

    /// What it could ask for now. Whether it does, the schedule decides.
    fn wishes(&self, now: u64) -> impl Iterator<Item = Request> + use<> {
        let held = self.holder.as_ref().filter(|_| self.may_act(now));
        let token = held.map(|holder| holder.token().value());
        let due = held.is_some_and(|holder| holder.renewal_due(secs(now)));
        let (first, again) = match token {
            None if self.requests_sent == 0 => (Some(Request::Acquire), None),
            // The answer to an earlier one may have been lost, or be on its way.
            None => (None, Some(Request::Reacquire)),
            Some(_) => (None, None),
        };
        let renew = token.filter(|_| due).map(|token| Request::Renew { token });
        let release = token.map(|token| Request::Release { token });
        first.into_iter().chain(again).chain(renew).chain(release)
    }

    fn send(&mut self, what: Request, now: u64) {
        self.requests_sent += 1;
        if let Some(holder) = &mut self.holder {
            match what {
                Request::Renew { .. } => assert!(holder.refresh(secs(now)), "it was due"),
                // It stops before it asks for the release, not when it hears of it.
                Request::Release { .. } => assert!(holder.expire(), "it was held"),
                Request::Acquire | Request::Reacquire => {}
            }
        }
    }

    /// True where a renewal was confirmed.
    fn hear(&mut self, what: Answer, sent: u64, now: u64) -> bool {
        let (sent, now) = (secs(sent), secs(now));
        match (what, &mut self.holder) {
            (Answer::Granted { token: n, ttl }, None) => {
                self.holder = Some(Holder::granted(token(n), sent, secs(ttl), now, cadence()));
                false
            }
            (Answer::Granted { token: n, ttl }, Some(holder)) => {
                let _ = if holder.state_at(now) == HolderState::Expired {
                    holder.reacquire_at(token(n), sent, secs(ttl), now)
                } else {
                    holder.confirm_at(token(n), sent, secs(ttl), now)
                };
                false
            }
            (Answer::Renewed { token: n, ttl }, Some(holder)) => {
                holder.confirm_at(token(n), sent, secs(ttl), now)
            }
            (Answer::Over { token: n }, Some(holder)) if holder.token().value() == n => {
                holder.expire();
                false
            }
            (Answer::Renewed { .. } | Answer::Over { .. }, _) => false,
        }
    }
}

fn cadence() -> Cadence {
    Cadence::new(secs(TTL), secs(1), secs(1)).expect("a sound cadence")
}

fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

fn token(n: u64) -> FencingToken {
    FencingToken::new(n).expect("a token is at least 1")
}
