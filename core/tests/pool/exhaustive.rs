//! Every sequence of requests up to a depth, over two slots, three claimants of two identities and a few instants.
//!
//! The walk goes level by level and visits each state once. What is checked knows the pool only from its answers: a
//! [`Witness`] that remembers, for each slot, what it was told and which stamps were promised to whom. A record and its
//! restoration stand between any two requests.

use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

use lease_machines::{FencingToken, Gone, OwnerId, Pool, Slot, SlotClaim, SlotGrant, SlotRecord, Unclaimed};

const DEPTH: usize = 6;
const SLOTS: usize = 2;
const COOL_DOWN: u64 = 2;
/// Owner and identity of each claimant: the first and the last share one.
const CLAIMANTS: [(u64, u8); 3] = [(1, 0), (2, 1), (3, 0)];
const NOWS: [u64; 4] = [1, 2, 3, 5];
const TTL: u64 = 1;
/// A wall clock that is this far from the clock of the leases, and may step back.
const WALLS: [u64; 2] = [10, 8];

#[derive(Clone, Copy, Debug)]
enum Request {
    Claim { by: usize, exclusive: bool, gone: Option<usize>, again: bool },
    Renew { slot: usize },
    Release { slot: usize, by: Option<u64>, all_used: bool },
    Revoke { slot: usize },
}

#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
struct Told {
    greatest_token: u64,
    /// Owner, identity, token, until, and where the window begins.
    live: Option<(u64, u8, u64, u64, u64)>,
    /// Who held it last, and from when on it is free.
    past: Option<(u8, u64)>,
    /// The greatest stamp that was promised to anybody and not given back.
    promised: u64,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct State {
    slots: [SlotRecord<u8>; SLOTS],
    told: [Told; SLOTS],
    now: u64,
}

#[test]
fn every_small_world_keeps_the_contract() {
    let fresh = || Slot::new().record();
    let start = State { slots: [fresh(), fresh()], told: Default::default(), now: 0 };
    let (mut visited, mut level) = (HashSet::from([start.clone()]), vec![start]);
    let (mut transitions, mut answers) = (0_u64, BTreeMap::<&str, u64>::new());
    for _ in 1..=DEPTH {
        let mut next_level = Vec::new();
        for state in &level {
            for (request, now, wall) in requests(state) {
                transitions += 1;
                let next = step(state, request, now, wall, &mut answers);
                if visited.insert(next.clone()) {
                    next_level.push(next);
                }
            }
        }
        level = next_level;
    }
    println!("{} states, {transitions} transitions to depth {DEPTH}: {answers:?}", visited.len());
    assert_eq!((visited.len(), transitions), (STATES, TRANSITIONS));
    for answer in
        ["granted", "taken over", "exhausted", "granted again", "renewed", "released", "revoked", "refused"]
    {
        assert!(answers.contains_key(answer), "{answer} was never reached: {answers:?}");
    }
}

const STATES: usize = 353_257;
const TRANSITIONS: u64 = 8_549_164;

fn requests(state: &State) -> Vec<(Request, u64, u64)> {
    let mut all = Vec::new();
    let mut kinds = Vec::new();
    for by in 0..CLAIMANTS.len() {
        kinds.push(Request::Claim { by, exclusive: false, gone: None, again: false });
        kinds.push(Request::Claim { by, exclusive: false, gone: None, again: true });
    }
    kinds.push(Request::Claim { by: 0, exclusive: true, gone: None, again: false });
    kinds.extend((0..SLOTS).map(|slot| Request::Claim {
        by: 2,
        exclusive: false,
        gone: Some(slot),
        again: false,
    }));
    for slot in 0..SLOTS {
        kinds.push(Request::Renew { slot });
        kinds.push(Request::Release { slot, by: None, all_used: true });
        kinds.push(Request::Release { slot, by: None, all_used: false });
        kinds.push(Request::Release { slot, by: Some(9), all_used: false });
        kinds.push(Request::Revoke { slot });
    }
    for now in NOWS.into_iter().filter(|now| *now >= state.now) {
        for wall in WALLS {
            all.extend(kinds.iter().map(|kind| (*kind, now, now + wall)));
        }
    }
    all
}

fn step(
    state: &State,
    request: Request,
    now: u64,
    wall: u64,
    answers: &mut BTreeMap<&'static str, u64>,
) -> State {
    let mut slots = state.slots.clone().map(|record| Slot::restore(record).expect("its own record"));
    let mut told = state.told.clone();
    let context = || format!("{request:?} at {now}, wall {wall}, in {state:#?}");
    let mut pool = Pool::over(&mut slots, secs(COOL_DOWN)).expect("two slots");
    let token_at = |slot: usize| FencingToken::new(state.told[slot].greatest_token.max(1)).expect("not zero");

    let answer = match request {
        Request::Claim { by, exclusive, gone, again } => {
            let (owner, identity) = CLAIMANTS[by];
            let mut claim = SlotClaim::new(OwnerId::new(owner), secs(TTL)).with_identity(identity);
            if exclusive {
                claim = claim.with_exclusive_identity();
            }
            if let Some(slot) = gone {
                claim = claim.with_gone(Gone { slot: slot as u16, token: token_at(slot) });
            }
            let answer = if again {
                pool.reclaim(&claim, secs(now), Some(secs(wall)))
            } else {
                pool.claim(&claim, secs(now), Some(secs(wall)))
            };
            match answer {
                Ok(grant) => hear_grant(&mut told, grant, by, exclusive, gone, again, now, wall, &context),
                Err(Unclaimed::Exhausted { .. }) => {
                    // Nobody is kept from a slot that is fresh, or that has been free for long.
                    for told in &told {
                        let free = told.past.is_none_or(|(_, free_from)| free_from + COOL_DOWN <= now);
                        assert!(!free || told.promised >= wall + TTL, "kept from a free slot: {}", context());
                    }
                    "exhausted"
                }
                Err(other) => panic!("{other:?}: {}", context()),
            }
        }
        Request::Renew { slot } => {
            let live = state.told[slot].live.filter(|(.., until, _)| *until > now);
            let (owner, ..) = state.told[slot].live.unwrap_or_default();
            match pool.renew(
                slot as u16,
                OwnerId::new(owner),
                token_at(slot),
                secs(now),
                Some(secs(wall)),
                secs(TTL),
            ) {
                Ok(grant) => {
                    let (owner, identity, token, until, after) =
                        live.unwrap_or_else(|| panic!("resurrected: {}", context()));
                    let until = until.max(now + TTL);
                    let window = grant.window.expect("asked for");
                    assert_eq!(grant.lease.expires_at(), secs(until), "{}", context());
                    assert_eq!(window.after, secs(after), "{}", context());
                    told[slot].live = Some((owner, identity, token, until, after));
                    told[slot].past = Some((identity, until));
                    told[slot].promised = told[slot].promised.max(wall + TTL);
                    assert_eq!(window.until, secs(told[slot].promised), "{}", context());
                    "renewed"
                }
                Err(_) => {
                    assert!(
                        live.is_none_or(|(_, _, token, ..)| token != state.told[slot].greatest_token),
                        "{}",
                        context()
                    );
                    "refused"
                }
            }
        }
        Request::Release { slot, by, all_used } => {
            let live = state.told[slot].live.filter(|(.., until, _)| *until > now);
            let owner = by.or(live.map(|live| live.0)).unwrap_or(1);
            // Used up to just now, or all of it, which it need not say.
            let used = (!all_used).then_some(wall);
            match pool.release(slot as u16, OwnerId::new(owner), token_at(slot), used.map(secs), secs(now)) {
                Ok(()) => {
                    let (_, identity, _, _, after) =
                        live.unwrap_or_else(|| panic!("not held: {}", context()));
                    assert_eq!(by, None, "another's: {}", context());
                    told[slot].live = None;
                    told[slot].past = Some((identity, now));
                    if let Some(used) = used {
                        told[slot].promised = used.max(after);
                    }
                    "released"
                }
                Err(_) => {
                    assert!(by.is_some() || live.is_none(), "kept from releasing: {}", context());
                    "refused"
                }
            }
        }
        Request::Revoke { slot } => {
            let burnt = pool.revoke(slot as u16, None, secs(now)).expect("tokens are left").value();
            assert!(burnt > told[slot].greatest_token, "{}", context());
            told[slot].greatest_token = burnt;
            // What it was told of when the slot is free stays as it is: until the end of the lease it is closed.
            told[slot].live = None;
            "revoked"
        }
    };
    *answers.entry(answer).or_default() += 1;
    for (slot, told) in slots.iter().zip(&told) {
        assert_eq!(slot.mark(), secs(told.promised), "{}", context());
        assert_eq!(slot.last_issued().map_or(0, FencingToken::value), told.greatest_token, "{}", context());
    }
    State { slots: slots.map(|slot| slot.record()), told, now }
}

#[allow(clippy::too_many_arguments)] // all that a claim and its answer consist of
fn hear_grant(
    told: &mut [Told; SLOTS],
    grant: SlotGrant,
    by: usize,
    exclusive: bool,
    gone: Option<usize>,
    again: bool,
    now: u64,
    wall: u64,
    context: &dyn Fn() -> String,
) -> &'static str {
    let (owner, identity) = CLAIMANTS[by];
    let number = usize::from(grant.slot);
    let told = &mut told[number];
    let token = grant.lease.token().value();
    assert!(token > told.greatest_token, "a token that is not greater: {}", context());
    assert_eq!(grant.lease.expires_at(), secs(now + TTL), "{}", context());

    let live = told.live.filter(|(.., until, _)| *until > now);
    let window = grant.window.expect("asked for");
    let (mut after, mut answer) = (told.promised, "granted");
    if let Some((held_by, held_as, ..)) = live {
        if again && held_by == owner {
            (after, answer) = (live.map_or(0, |live| live.4), "granted again");
        } else {
            let proven = gone == Some(number);
            assert!(
                held_as == identity && (exclusive || proven),
                "taken over without a right: {}",
                context()
            );
            answer = "taken over";
        }
    } else if let Some((who, free_from)) = told.past {
        let from = if who == identity { free_from } else { free_from + COOL_DOWN };
        assert!(now >= from, "given out while closed or cooling down: {}", context());
    }
    assert_eq!(window.after, secs(after), "a stamp of two holders: {}", context());
    told.greatest_token = token;
    told.live = Some((owner, identity, token, now + TTL, after));
    told.past = Some((identity, now + TTL));
    told.promised = told.promised.max(wall + TTL);
    assert_eq!(window.until, secs(told.promised), "{}", context());
    answer
}

fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}
