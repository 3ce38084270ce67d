//! Every sequence of requests up to a depth, over three owners and a few instants: no exception to the contract.
//!
//! The walk goes level by level and visits each state once, so that all `requests ^ depth` sequences are covered by
//! the few thousand states that they lead to. The counts are asserted, so that a walk that has silently become shorter
//! is noticed. Between any two requests the authority is written to bytes and read
//! back: a restore stands at every point of every sequence.
//!
//! What is checked after each request knows the authority only from its answers: a [`Witness`] that remembers the
//! greatest token it heard of, the one lease that it was told is live, and the latest time it told.

#![allow(clippy::panic)] // tests may

use core::time::Duration;
use std::collections::{BTreeMap, HashSet};

use lease_machines::{Checkpoint, ClockPolicy, Decision, FencingToken, LeaseAuthority, OwnerId, Rejection};

/// How far the walk goes, in requests.
const DEPTH: usize = 12;
const OWNERS: [u64; 3] = [1, 2, 3];
/// The instants of requests, in seconds from the world's first.
const NOWS: [u64; 6] = [0, 1, 2, 3, 4, 5];
const TTLS: [u64; 4] = [0, 1, 2, 3];

/// Where time and tokens begin.
#[derive(Clone, Copy)]
struct World {
    first_instant: Duration,
    last_issued: u64,
    policy: ClockPolicy,
}

/// At the origin, nothing issued.
const FRESH: World = World { first_instant: Duration::ZERO, last_issued: 0, policy: ClockPolicy::Reject };

/// The last requested instant and the shortest ttls just fit into time, and three tokens are left.
const LAST_DAYS: World = World {
    first_instant: Duration::from_secs(u64::MAX - 6),
    last_issued: u64::MAX - 3,
    policy: ClockPolicy::Reject,
};

#[test]
fn from_a_fresh_start_under_reject() {
    let found = walk(FRESH);
    found.print("fresh, Reject");
    assert_eq!((found.states, found.transitions), (1_221, 892_296));
}

#[test]
fn from_a_fresh_start_under_clamp() {
    let found = walk(World { policy: ClockPolicy::Clamp, ..FRESH });
    found.print("fresh, Clamp");
    assert_eq!((found.states, found.transitions), (1_221, 892_296));
    assert!(!found.answers.contains_key("ClockRegressed"), "Clamp refuses nothing for its clock");
}

#[test]
fn at_the_end_of_time_and_tokens_under_reject() {
    let found = walk(LAST_DAYS);
    found.print("last days, Reject");
    assert_eq!((found.states, found.transitions), (294, 146_628));
    // Here every answer there is can be reached.
    let all = "Burnt ClockRegressed DeadlineOverflow Expired Granted InvalidTtl Occupied Released Renewed StaleToken \
               TokensExhausted Vacant WrongOwner";
    assert_eq!(found.answers.keys().cloned().collect::<Vec<_>>().join(" "), all);
}

#[test]
fn at_the_end_of_time_and_tokens_under_clamp() {
    let found = walk(World { policy: ClockPolicy::Clamp, ..LAST_DAYS });
    found.print("last days, Clamp");
    assert_eq!((found.states, found.transitions), (294, 146_628));
}

#[derive(Clone, Copy, Debug)]
enum Request {
    Acquire { owner: u64, now: u64, ttl: u64 },
    Reacquire { owner: u64, now: u64, ttl: u64 },
    Renew { owner: u64, token: u64, now: u64, ttl: u64 },
    Release { owner: u64, token: u64, now: u64 },
    Revoke { expect: Option<u64>, now: u64 },
}

/// What the authority has told the world, and nothing else.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Witness {
    greatest_token: u64,
    latest: Duration,
    live: Option<Told>,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Told {
    owner: u64,
    token: u64,
    until: Duration,
}

#[derive(Clone, PartialEq, Eq, Hash)]
struct State {
    bytes: [u8; Checkpoint::LEN],
    witness: Witness,
}

#[derive(Default)]
struct Found {
    states: usize,
    transitions: u64,
    deepest: usize,
    requests_at_most: usize,
    answers: BTreeMap<String, u64>,
}

impl Found {
    fn print(&self, world: &str) {
        println!(
            "{world}: {} states and {} transitions to depth {} (the last new state at depth {}), up to {} requests a \
             step, answers {:?}",
            self.states, self.transitions, DEPTH, self.deepest, self.requests_at_most, self.answers
        );
    }
}

fn walk(world: World) -> Found {
    let start = Checkpoint::from_parts(FencingToken::new(world.last_issued), None, world.first_instant)
        .expect("a possible state");
    let witness = Witness { greatest_token: world.last_issued, latest: world.first_instant, live: None };
    let start = State { bytes: start.to_bytes(), witness };

    let mut found = Found::default();
    let mut visited = HashSet::from([start.clone()]);
    let mut level = vec![start];
    for depth in 1..=DEPTH {
        let mut next_level = Vec::new();
        for state in &level {
            let requests = requests(world, state.witness.greatest_token);
            found.requests_at_most = found.requests_at_most.max(requests.len());
            for request in requests {
                found.transitions += 1;
                let next = step(world, state, request, &mut found.answers);
                if visited.insert(next.clone()) {
                    found.deepest = depth;
                    next_level.push(next);
                }
            }
        }
        level = next_level;
    }
    found.states = visited.len();
    found
}

/// Every request that the small world knows; tokens from one before the first of this world to one never issued.
fn requests(world: World, greatest: u64) -> Vec<Request> {
    let tokens = world.last_issued.max(1)..=greatest.saturating_add(1);
    let mut all = Vec::new();
    for now in NOWS {
        for owner in OWNERS {
            for ttl in TTLS {
                all.push(Request::Acquire { owner, now, ttl });
                all.push(Request::Reacquire { owner, now, ttl });
                all.extend(tokens.clone().map(|token| Request::Renew { owner, token, now, ttl }));
            }
            all.extend(tokens.clone().map(|token| Request::Release { owner, token, now }));
        }
        all.push(Request::Revoke { expect: None, now });
        all.extend(tokens.clone().map(|token| Request::Revoke { expect: Some(token), now }));
    }
    all
}

fn step(world: World, state: &State, request: Request, answers: &mut BTreeMap<String, u64>) -> State {
    let mut authority = read_back(&state.bytes, world.policy);
    let answer = ask(&mut authority, world, request, None);
    *answers.entry(answer.name()).or_default() += 1;

    let mut witness = state.witness;
    let check = || format!("{request:?} answered {answer:?}, after {:?} in {:?}", state.witness, state.bytes);
    witness.hear(world, request, answer, &check);

    // The state is what the witness was told, no more and no less.
    let checkpoint = authority.checkpoint();
    assert_eq!(
        checkpoint.last_issued().map_or(0, FencingToken::value),
        witness.greatest_token,
        "{}",
        check()
    );
    assert_eq!(checkpoint.observed(), witness.latest, "{}", check());
    let live = checkpoint.lease().filter(|lease| lease.is_live(witness.latest)).map(|lease| Told {
        owner: lease.owner().value(),
        token: lease.token().value(),
        until: lease.expires_at(),
    });
    assert_eq!(
        live,
        witness.live,
        "a live lease that nobody was told of, or none where one was: {}",
        check()
    );

    // A request from the past is decided as one at the latest observation, or changes nothing.
    if request.at(world) < state.witness.latest {
        let mut twin = read_back(&state.bytes, world.policy);
        match (world.policy, request) {
            (ClockPolicy::Clamp, _) | (_, Request::Revoke { .. }) => {
                let same = ask(&mut twin, world, request, Some(state.witness.latest));
                assert_eq!((same, twin.checkpoint()), (answer, checkpoint), "{}", check());
            }
            (ClockPolicy::Reject, _) => {
                assert_eq!(answer, Answer::No(Rejection::ClockRegressed), "{}", check());
                assert_eq!(twin.checkpoint(), checkpoint, "{}", check());
            }
        }
    }

    let bytes = checkpoint.to_bytes();
    assert_eq!(read_back(&bytes, world.policy), authority, "restored, it is another: {}", check());
    State { bytes, witness }
}

fn read_back(bytes: &[u8], policy: ClockPolicy) -> LeaseAuthority {
    let checkpoint = Checkpoint::from_bytes(bytes).expect("its own bytes");
    LeaseAuthority::restore(checkpoint).with_clock_policy(policy)
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Answer {
    Granted(Told),
    Renewed(Told),
    Released,
    Burnt(u64),
    No(Rejection),
}

impl Answer {
    fn name(self) -> String {
        match self {
            Self::Granted(_) => "Granted".into(),
            Self::Renewed(_) => "Renewed".into(),
            Self::Released => "Released".into(),
            Self::Burnt(_) => "Burnt".into(),
            Self::No(reason) => format!("{reason:?}"),
        }
    }
}

fn ask(authority: &mut LeaseAuthority, world: World, request: Request, instead: Option<Duration>) -> Answer {
    let token = |n| FencingToken::new(n).expect("no request carries token 0");
    let ttl = Duration::from_secs;
    let now = instead.unwrap_or(request.at(world));
    let decision = match request {
        Request::Acquire { owner, ttl: t, .. } => authority.acquire(OwnerId::new(owner), now, ttl(t)),
        Request::Reacquire { owner, ttl: t, .. } => authority.reacquire(OwnerId::new(owner), now, ttl(t)),
        Request::Renew { owner, token: n, ttl: t, .. } => {
            authority.renew(OwnerId::new(owner), token(n), now, ttl(t))
        }
        Request::Release { owner, token: n, .. } => authority.release(OwnerId::new(owner), token(n), now),
        Request::Revoke { expect, .. } => match authority.revoke(expect.map(token), now) {
            Ok(burnt) => return Answer::Burnt(burnt.value()),
            Err(reason) => Decision::Rejected(reason),
        },
    };
    let told = |lease: lease_machines::Lease| Told {
        owner: lease.owner().value(),
        token: lease.token().value(),
        until: lease.expires_at(),
    };
    match decision {
        Decision::Granted(lease) => Answer::Granted(told(lease)),
        Decision::Renewed(lease) => Answer::Renewed(told(lease)),
        Decision::Released => Answer::Released,
        Decision::Rejected(reason) => Answer::No(reason),
    }
}

impl Request {
    fn at(self, world: World) -> Duration {
        let (Self::Acquire { now, .. }
        | Self::Reacquire { now, .. }
        | Self::Renew { now, .. }
        | Self::Release { now, .. }
        | Self::Revoke { now, .. }) = self;
        world.first_instant + Duration::from_secs(now)
    }
}

impl Witness {
    /// Takes an answer in, and protests where the contract forbids it.
    fn hear(&mut self, world: World, request: Request, answer: Answer, context: &dyn Fn() -> String) {
        let now = request.at(world);
        if answer != Answer::No(Rejection::ClockRegressed) {
            self.latest = self.latest.max(now);
        }
        // What was promised until now or earlier is over, and stays so: no answer below may bring it back.
        self.live = self.live.filter(|told| told.until > self.latest);

        match (request, answer) {
            (
                Request::Acquire { owner, ttl, .. } | Request::Reacquire { owner, ttl, .. },
                Answer::Granted(told),
            ) => {
                let own = matches!(request, Request::Reacquire { .. })
                    && self.live.is_some_and(|live| live.owner == owner);
                assert!(self.live.is_none() || own, "a second live lease: {}", context());
                assert!(told.token > self.greatest_token, "a token that is not greater: {}", context());
                assert_eq!(told.owner, owner, "{}", context());
                assert_eq!(told.until, self.latest + Duration::from_secs(ttl), "{}", context());
                self.greatest_token = told.token;
                self.live = Some(told);
            }
            (Request::Renew { owner, token, ttl, .. }, Answer::Renewed(told)) => {
                let before = self.live.unwrap_or_else(|| panic!("a lease was resurrected: {}", context()));
                assert_eq!((before.owner, before.token), (owner, token), "not the holder's: {}", context());
                let until = before.until.max(self.latest + Duration::from_secs(ttl));
                assert_eq!(told, Told { until, ..before }, "{}", context());
                self.live = Some(told);
            }
            (Request::Release { owner, token, .. }, Answer::Released) => {
                let before = self.live.unwrap_or_else(|| panic!("released what was over: {}", context()));
                assert_eq!((before.owner, before.token), (owner, token), "not the holder's: {}", context());
                self.live = None;
            }
            (Request::Revoke { expect, .. }, Answer::Burnt(token)) => {
                assert!(token > self.greatest_token, "a token that is not greater: {}", context());
                if let (Some(live), Some(expect)) = (self.live, expect) {
                    assert_eq!(live.token, expect, "the next holder was broken by mistake: {}", context());
                }
                self.greatest_token = token;
                self.live = None;
            }
            (Request::Revoke { expect, .. }, Answer::No(Rejection::TokensExhausted)) => {
                assert_eq!(self.greatest_token, u64::MAX, "{}", context());
                if let (Some(live), Some(expect)) = (self.live, expect) {
                    assert_eq!(live.token, expect, "the next holder was broken by mistake: {}", context());
                }
                self.live = None;
            }
            (_, Answer::No(reason)) => self.doubt(request, reason, context),
            _ => panic!("an answer to another question: {}", context()),
        }
    }

    /// A refusal has a cause: nobody is kept from a free resource, and no holder is denied what is its own.
    fn doubt(&self, request: Request, reason: Rejection, context: &dyn Fn() -> String) {
        let caused = match (reason, request) {
            (Rejection::Occupied, Request::Reacquire { owner, .. }) => {
                self.live.is_some_and(|live| live.owner != owner)
            }
            (Rejection::Occupied, _) => self.live.is_some(),
            (Rejection::Vacant | Rejection::Expired, _) => self.live.is_none(),
            (Rejection::WrongOwner, Request::Renew { owner, .. } | Request::Release { owner, .. }) => {
                self.live.is_none_or(|live| live.owner != owner)
            }
            (Rejection::StaleToken, Request::Renew { token, .. } | Request::Release { token, .. })
            | (Rejection::StaleToken, Request::Revoke { expect: Some(token), .. }) => {
                self.live.is_none_or(|live| live.token != token)
            }
            (Rejection::WrongOwner | Rejection::StaleToken, _) => false,
            (Rejection::TokensExhausted, _) => self.greatest_token == u64::MAX,
            _ => true,
        };
        assert!(caused, "refused without cause: {}", context());
    }
}
