//! Pools of more slots than the suite's: what finds a slot for a claim is held to the core, and to its cost.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use lease_machines::{FencingToken, Gone, OwnerId, Pool, Slot, SlotClaim, SlotRange};
use lease_machines_store::{
    Claimed, ErrorKind, Opening, PoolClaim, RedisStore, Released, SlotLease, SlotRef, SlotRenewed, Store,
    Unclaimed,
};

use crate::common::{TestClock, block_on, name};
use crate::servers::redis::{DURABLE, FORGETFUL, RedisServer};
use crate::support::{driven, namespace, store};

const SECOND: Duration = Duration::from_secs(1);

fn claim(size: u32, owner: u64) -> PoolClaim {
    PoolClaim::new(name("ids"), size, OwnerId::new(owner), 10 * SECOND)
}

fn slot(store: &RedisStore, claim: PoolClaim) -> SlotLease {
    match block_on(store.claim_slot(claim)).unwrap() {
        Claimed::Granted(lease) => lease,
        other => panic!("no slot: {other:?}"),
    }
}

fn release(store: &RedisStore, owner: u64, held: SlotLease, last_used: Option<Duration>) {
    let lease = SlotRef::new(name("ids"), held.slot, OwnerId::new(owner), held.token, Some(held.epoch));
    assert_eq!(block_on(store.release_slot(lease, last_used)).unwrap(), Released::Released);
}

#[test]
fn sixty_four_clients_at_once_get_a_slot_each() {
    let server = RedisServer::start(DURABLE);
    let namespace = namespace();
    let stores: Vec<_> =
        (0..8).map(|_| Arc::new(store(&server, |options| options.namespace(&namespace)))).collect();
    stores[0].migrate().unwrap();
    let slots: Vec<u16> = thread::scope(|scope| {
        let clients: Vec<_> = (0..64_u64)
            .map(|client| {
                let store = Arc::clone(&stores[usize::try_from(client % 8).unwrap()]);
                scope.spawn(move || slot(&store, claim(64, 1 + client).with_id_time()).slot)
            })
            .collect();
        clients.into_iter().map(|client| client.join().unwrap()).collect()
    });
    assert_eq!(slots.iter().copied().collect::<BTreeSet<_>>(), (0..64).collect());
    let late = block_on(stores[0].claim_slot(claim(64, 65))).unwrap();
    assert!(matches!(late, Claimed::Rejected(Unclaimed::Exhausted { next_chance: Some(_) })), "{late:?}");
}

/// What finds the slots of an identity has a name of its own, whatever others are called: sets of blocks are numbered from 000.
#[test]
fn an_identity_whose_name_is_that_of_a_part_of_another_s_index_disturbs_nobody() {
    let server = RedisServer::start(DURABLE);
    let store = store(&server, |options| options.namespace(namespace()));
    store.migrate().unwrap();
    for other in ["web@000", "web@001", "web000", "web\u{1}000", "@000", "000"] {
        let of = |owner: u64, identity: &str| {
            let mut claim = claim(8, owner);
            claim.pool = name(&format!("ids-{other}"));
            claim.identity = Some(identity.to_owned());
            claim
        };
        let first = slot(&store, of(1, "web"));
        let second = slot(&store, of(2, other));
        let lease = SlotRef::new(
            name(&format!("ids-{other}")),
            second.slot,
            OwnerId::new(2),
            second.token,
            Some(second.epoch),
        );
        assert_eq!(block_on(store.release_slot(lease, None)).unwrap(), Released::Released);
        let third = slot(&store, of(3, "web"));
        assert!(third.slot != first.slot, "{other:?}: {third:?} beside {first:?}");
    }
}

/// A generator of its own, so that a failure is repeated by its seed.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }

    fn of<T: Copy>(&mut self, all: &[T]) -> T {
        all[usize::try_from(self.below(all.len() as u64)).unwrap()]
    }
}

/// Claims in a pool of three sets of 256 numbers, of ranges, identities, rests and lengths of all kinds, between renewals,
/// releases and revokes: each gets the slot that the core's pool gives it, or is told the same time.
#[test]
fn a_pool_of_several_hundred_slots_gives_out_what_the_core_gives_out() {
    const SIZE: u16 = 600;
    const SEED: u64 = 20_261_130;
    let server = RedisServer::start(FORGETFUL);
    let clock = TestClock::new("boot");
    let store = driven(&server, &namespace(), &clock);
    store.migrate().unwrap();
    let mut random = Random(SEED);
    let mut slots: Vec<Slot<&str>> = (0..SIZE).map(|_| Slot::new()).collect();
    // By slot: owner, the store's token, the core's.
    let mut held: HashMap<u16, (u64, SlotLease, FencingToken)> = HashMap::new();
    let mut counts = [0_u32; 3];
    let _ = block_on(store.resize_pool(name("ids"), SIZE.into())).unwrap();
    let mut now = block_on(store.slots(name("ids"))).unwrap().wall;
    for step in 0..2_500_u64 {
        let passes = Duration::from_micros(random.of(&[0, 1, 1_000, 200_000, 1_500_000]));
        clock.advance(passes);
        now += passes;
        let some = u16::try_from(random.below(SIZE.into())).unwrap();
        let picked = (0..SIZE).map(|n| (some + n) % SIZE).find(|n| held.contains_key(n));
        let ttl = SECOND * random.of(&[1, 10, 10, 40, 200]);
        match (random.below(20), picked) {
            (0..=12, _) | (_, None) => {
                let rest = SECOND * random.of(&[0, 2, 20]);
                let first = random.of(&[0, 0, some]);
                let last = random.of(&[u16::MAX, first.saturating_add(5), first.saturating_add(300)]);
                let range = SlotRange::new(first, last).unwrap();
                let identity = random.of(&[None, Some("a"), Some("b"), Some("c")]);
                let exclusive = identity.is_some() && random.below(4) == 0;
                let gone = picked.filter(|_| random.below(3) == 0).map(|slot| (slot, &held[&slot]));
                let id_time = random.below(3) > 0;
                let mut asked = claim(SIZE.into(), step + 1).with_range(range).with_cool_down(rest);
                let mut expected = SlotClaim::new(OwnerId::new(step + 1), ttl).with_range(range);
                asked.ttl = ttl;
                asked.id_time = id_time;
                asked.gone = gone.map(|(slot, (_, lease, _))| Gone { slot, token: lease.token });
                if let Some(identity) = identity {
                    asked = asked.with_identity(identity);
                    expected = expected.with_identity(identity);
                }
                if exclusive {
                    asked = asked.with_exclusive_identity();
                    expected = expected.with_exclusive_identity();
                }
                if let Some((slot, (_, _, token))) = gone {
                    expected = expected.with_gone(Gone { slot, token: *token });
                }
                let answer = block_on(store.claim_slot(asked)).unwrap();
                let mut pool = Pool::over(&mut slots, rest).unwrap();
                match (answer, pool.claim(&expected, now, id_time.then_some(now))) {
                    (Claimed::Granted(found), Ok(right)) => {
                        let window = (found.slot, found.window);
                        assert_eq!(window, (right.slot, right.window), "step {step} of seed {SEED}");
                        held.insert(found.slot, (step + 1, found, right.lease.token()));
                        counts[0] += 1;
                    }
                    (
                        Claimed::Rejected(Unclaimed::Exhausted { next_chance: found }),
                        Err(lease_machines::Unclaimed::Exhausted { next_chance }),
                    ) => {
                        let right = next_chance.map(|at| at - now);
                        assert_eq!(found, right, "step {step} of seed {SEED}");
                        counts[1] += 1;
                    }
                    (found, right) => {
                        panic!("step {step} of seed {SEED}: {found:?}, where the core says {right:?}")
                    }
                }
            }
            (how, Some(number)) => {
                let (owner, lease, token) = held[&number];
                let named = SlotRef::new(name("ids"), number, OwnerId::new(owner), lease.token, None);
                let mut pool = Pool::over(&mut slots, Duration::ZERO).unwrap();
                let (owner, id_time) = (OwnerId::new(owner), random.below(2) == 0);
                let (found, right) = match how {
                    13..=14 => (
                        matches!(
                            block_on(store.renew_slot(named, ttl, id_time)).unwrap(),
                            SlotRenewed::Renewed(_)
                        ),
                        pool.renew(number, owner, token, now, id_time.then_some(now), ttl).is_ok(),
                    ),
                    15..=17 => {
                        held.remove(&number);
                        let used = random.of(&[None, Some(now), Some(now + 30 * SECOND)]);
                        (
                            block_on(store.release_slot(named, used)).unwrap() == Released::Released,
                            pool.release(number, owner, token, used, now).is_ok(),
                        )
                    }
                    18 => {
                        held.remove(&number);
                        (
                            block_on(store.withdraw_slot(name("ids"), owner)).unwrap() == Released::Released,
                            pool.withdraw(owner, now) == 1,
                        )
                    }
                    _ => {
                        held.remove(&number);
                        let _ = block_on(store.revoke_slot(name("ids"), number, None, None)).unwrap();
                        (true, pool.revoke(number, None, now).is_ok())
                    }
                };
                assert_eq!(found, right, "step {step} of seed {SEED}, {how} of slot {number}");
                counts[2] += 1;
            }
        }
    }
    assert!(counts.iter().all(|count| *count > 100), "granted, exhausted, other: {counts:?}");
}

/// How many commands the server has run since.
fn commands(server: &RedisServer) -> u64 {
    let stats = server.command(&["INFO", "commandstats"]);
    let calls =
        stats.lines().filter_map(|line| line.split_once(":calls=")?.1.split(',').next()?.parse::<u64>().ok());
    calls.sum()
}

#[test]
fn a_claim_is_few_commands_however_many_slots_there_are() {
    const SIZE: u32 = 1_200;
    let server = RedisServer::start(FORGETFUL);
    let clock = TestClock::new("boot");
    let store = driven(&server, &namespace(), &clock);
    store.migrate().unwrap();
    let mut all = Vec::new();
    for owner in 1..=u64::from(SIZE) {
        all.push((owner, slot(&store, claim(SIZE, owner).with_id_time().with_identity("one"))));
    }
    let mut costs = Vec::new();
    let mut count = |what: &'static str, claim: PoolClaim, granted: bool| {
        let before = commands(&server);
        let answer = block_on(store.claim_slot(claim)).unwrap();
        // The look itself is one.
        costs.push((what, commands(&server) - before - 1));
        assert_eq!(matches!(answer, Claimed::Granted(_)), granted, "{what}: {answer:?}");
    };
    count("none is free", claim(SIZE, 5_001), false);
    count("its own are not free", claim(SIZE, 5_002).with_identity("one"), false);
    // Given back without word of what was used: their marks are ahead of a shorter claim.
    clock.advance(SECOND);
    for (owner, held) in &all[..1_000] {
        release(&store, *owner, *held, None);
    }
    clock.advance(SECOND);
    let short = |owner: u64| {
        let mut short = claim(SIZE, owner).with_cool_down(Duration::ZERO);
        short.ttl = 5 * SECOND;
        short
    };
    count("every one is marked", short(5_003).with_id_time(), false);
    count("its own, the last one left", claim(SIZE, 5_004).with_identity("one"), true);
    count("another's", short(5_005), true);
    let range = SlotRange::new(700, 900).unwrap();
    count("another's, of a range", short(5_006).with_range(range), true);
    assert!(costs.iter().all(|(_, cost)| *cost <= 60), "{costs:?}");
}

#[test]
fn rows_that_are_gone_are_noticed_and_what_finds_slots_is_not_believed() {
    let server = RedisServer::start(FORGETFUL);
    let clock = TestClock::new("boot");
    let store = driven(&server, &namespace(), &clock);
    store.migrate().unwrap();
    let first = slot(&store, claim(2, 1));
    let all = "return table.concat(redis.call('KEYS', '*:pool:ids*'), ' ')";
    let keys = server.command(&["EVAL", all, "0"]);
    let keys: Vec<&str> = keys.split(' ').collect();
    let rows = keys.iter().find(|key| key.ends_with(":pool:ids")).unwrap();
    for key in keys.iter().filter(|key| *key != rows) {
        server.command(&["DEL", key]);
    }
    // Where the slots are thought to be never used, the row of the first says what it is.
    let answer = block_on(store.claim_slot(claim(2, 2)));
    assert_eq!(answer.map_err(|error| error.kind()), Err(ErrorKind::Damaged));
    server.command(&["DEL", rows]);
    let answer = block_on(store.claim_slot(claim(2, 3)));
    assert_eq!(answer.map_err(|error| error.kind()), Err(ErrorKind::Damaged));
    // With the epoch goes what the rows said.
    block_on(store.open_epoch(Opening::new(first.epoch).with_dead_holders())).unwrap();
    let next = slot(&store, claim(2, 4));
    assert!(next.slot == first.slot && next.token > first.token, "{next:?} after {first:?}");
}
