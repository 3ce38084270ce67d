//! No bytes make `Checkpoint::from_bytes` panic, and whatever it accepts is written back as those very bytes and can be
//! gone on from.

#![no_main]

use core::time::Duration;

use lease_machines::{Checkpoint, CheckpointError, ClockPolicy, LeaseAuthority, OwnerId};
use libfuzzer_sys::fuzz_target;

const BODY: usize = Checkpoint::LEN - 4;

fuzz_target!(|data: &[u8]| {
    check(data);
    // No mutation finds a checksum: here it is right, so that what lies behind it is reached, too.
    if let Some(body) = data.first_chunk::<BODY>() {
        let mut bytes = [0; Checkpoint::LEN];
        bytes[..BODY].copy_from_slice(body);
        bytes[..3].copy_from_slice(b"LM\x01");
        let sum = crc32fast::hash(&bytes[..BODY]);
        bytes[BODY..].copy_from_slice(&sum.to_le_bytes());
        let refused = check(&bytes);
        assert!(matches!(refused, None | Some(CheckpointError::Impossible(_))), "{refused:?}");
    }
});

fn check(bytes: &[u8]) -> Option<CheckpointError> {
    match Checkpoint::from_bytes(bytes) {
        Ok(checkpoint) => {
            assert_eq!(checkpoint.to_bytes(), bytes);
            go_on(checkpoint);
            None
        }
        Err(error) => {
            assert!(!error.to_string().is_empty());
            Some(error)
        }
    }
}

/// Whatever state it is, no request panics, and no token that was issued is issued again.
fn go_on(checkpoint: Checkpoint) {
    let (owner, ttl) = (OwnerId::new(1), Duration::from_secs(1));
    for policy in [ClockPolicy::Reject, ClockPolicy::Clamp] {
        for now in [Duration::ZERO, checkpoint.observed(), Duration::MAX] {
            let mut authority = LeaseAuthority::restore(checkpoint).with_clock_policy(policy);
            for decision in [authority.acquire(owner, now, ttl), authority.reacquire(owner, now, ttl)] {
                if let Some(lease) = decision.lease() {
                    assert!(Some(lease.token()) > checkpoint.last_issued());
                    assert!(lease.is_live(now.max(checkpoint.observed())));
                }
            }
            if let Some(lease) = authority.lease() {
                let _ = authority.renew(lease.owner(), lease.token(), now, Duration::MAX);
                let _ = authority.release(lease.owner(), lease.token(), now);
            }
            let _ = authority.revoke(None, now);
            assert!(authority.last_issued() >= checkpoint.last_issued());
            assert!(authority.observed() >= checkpoint.observed());
        }
    }
}
