//! Nothing allocates: every operation of every machine, counted by the allocator.

mod support;

use core::hint::black_box;

use lease_machines::{
    Cadence, Checkpoint, ClockPolicy, Command, Event, Fence, Holder, Keeper, KeeperOptions, LeaseAuthority,
    Loss, Pool, Slot, SlotClaim, StopReason, Wait,
};
use support::{ALICE, BOB, millis, secs, token};

/// Runs `work` and says how often it asked for memory.
fn allocations(work: impl FnOnce()) -> u64 {
    allocation_counter::measure(work).count_total
}

/// A counter that counts nothing would pass everything below.
#[test]
fn an_allocation_is_counted() {
    assert_eq!(allocations(|| drop(black_box(vec![1_u8]))), 1);
}

#[test]
fn no_decision_of_an_authority_allocates() {
    let count = allocations(|| {
        for policy in [ClockPolicy::Reject, ClockPolicy::Clamp] {
            let mut authority = LeaseAuthority::new().with_clock_policy(policy);
            let _ = black_box(authority.acquire(ALICE, secs(1), secs(9)));
            let _ = black_box(authority.acquire(BOB, secs(1), secs(9)));
            let _ = black_box(authority.reacquire(ALICE, secs(2), secs(9)));
            let _ = black_box(authority.renew(ALICE, token(2), secs(3), secs(9)));
            let _ = black_box(authority.renew(ALICE, token(2), secs(0), secs(9)));
            let _ = black_box(authority.release(ALICE, token(2), secs(4)));
            let _ = black_box(authority.revoke(None, secs(5)));
        }
    });
    assert_eq!(count, 0);
}

#[test]
fn no_checkpoint_allocates() {
    let count = allocations(|| {
        let mut authority = LeaseAuthority::new();
        let _ = authority.acquire(ALICE, secs(1), secs(9));
        let mut bytes = authority.checkpoint().to_bytes();
        authority = LeaseAuthority::restore(Checkpoint::from_bytes(&bytes).expect("its own bytes"));
        let _ = black_box(authority.lease());
        bytes[7] ^= 1;
        let _ = black_box(Checkpoint::from_bytes(&bytes));
        let _ = black_box(Checkpoint::from_bytes(&bytes[..7]));
    });
    assert_eq!(count, 0);
}

#[test]
fn no_fence_allocates() {
    let count = allocations(|| {
        let mut fence = Fence::new(None);
        for n in [1, 2, 2, 1] {
            let _ = black_box(fence.would_accept(token(n)));
            let _ = black_box(fence.accept(token(n)));
        }
    });
    assert_eq!(count, 0);
}

#[test]
fn no_pool_allocates() {
    let mut slots: [Slot<u8>; 8] = Default::default();
    let count = allocations(|| {
        let mut pool = Pool::over(&mut slots, secs(30)).expect("eight slots");
        for owner in [ALICE, BOB] {
            let claim = SlotClaim::new(owner, secs(9)).with_identity(1);
            let grant = pool.claim(&claim, secs(1), Some(secs(1))).expect("free");
            let again = pool.reclaim(&claim, secs(2), Some(secs(2))).expect("its own");
            let token = again.lease.token();
            let _ = black_box(pool.renew(grant.slot, owner, token, secs(3), Some(secs(3)), secs(9)));
            let _ = black_box(pool.release(grant.slot, owner, token, Some(secs(3)), secs(4)));
        }
        let _ = black_box(pool.revoke(0, None, secs(5)));
        let _ = black_box((pool.withdraw(ALICE, secs(5)), pool.holders(secs(5))));
    });
    assert_eq!(count, 0);
    let record = slots[0].record();
    assert_eq!(allocations(|| assert!(Slot::restore(record).is_some())), 0);
}

#[test]
fn no_holder_allocates() {
    let count = allocations(|| {
        let cadence = Cadence::new(secs(30), secs(10), secs(5)).expect("sound");
        let mut holder = Holder::granted(token(1), secs(0), secs(20), secs(1), cadence);
        let _ = black_box(holder.refresh(secs(5)));
        let _ = black_box(holder.confirm_at(token(1), secs(5), secs(30), secs(6)));
        let _ = black_box((holder.state_at(secs(7)), holder.may_act(secs(7)), holder.renewal_due(secs(7))));
        let _ = black_box(holder.expire());
        let _ = black_box(holder.reacquire_at(token(2), secs(40), secs(30), secs(41)));
        holder.fence();
    });
    assert_eq!(count, 0);
}

#[test]
fn no_keeper_allocates() {
    let count = allocations(|| {
        let cadence = Cadence::new(secs(30), secs(10), secs(5)).expect("sound");
        let mut keeper = Keeper::new(KeeperOptions::new(cadence).with_wait(Wait::Forever), 7, secs(0));
        let mut now = secs(0);
        let mut requests = 0;
        for _ in 0..200 {
            let Some(command) = keeper.poll(now) else { break };
            match command {
                Command::Acquire { attempt, ttl, .. } | Command::Reacquire { attempt, ttl, .. } => {
                    let event = if attempt == 1 {
                        Event::NoAnswer { attempt }
                    } else {
                        Event::Granted { attempt, token: token(attempt), ttl, sent: now }
                    };
                    keeper.handle(event, now);
                }
                Command::Renew { attempt, token, ttl, .. } => {
                    requests += 1;
                    if requests < 4 {
                        keeper.handle(Event::Renewed { attempt, token, ttl, sent: now }, now);
                    }
                }
                Command::StopWork { reason } => {
                    assert!(matches!(reason, StopReason::Lost(Loss::Unreachable)));
                    keeper.handle(Event::WorkFinished, now);
                }
                Command::WaitUntil(until) => now = until,
                _ => now += millis(1),
            }
        }
        assert!(keeper.outcome().is_some());
    });
    assert_eq!(count, 0);
}
