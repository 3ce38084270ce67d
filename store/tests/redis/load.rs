//! Many who want one thing while their server is killed and frozen.

use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use lease_machines_store::{Acquired, Claim, Epoch, Store};

use crate::common::{block_on, claim, lease, name};
use crate::servers::redis::{DURABLE, RedisServer};
use crate::support::store;

const CLIENTS: u64 = 8;
const GRANTS: usize = 60;

/// What everybody knows of everybody.
#[derive(Default)]
struct Known {
    tokens: HashSet<u64>,
    holder: Option<(u64, Instant)>,
}

#[test]
fn kills_and_freezes_under_load_lose_and_repeat_nothing() {
    let mut server = RedisServer::start(DURABLE);
    let shared = Arc::new(store(&server, |options| options.timeout(Duration::from_secs(1))));
    shared.migrate().unwrap();
    let epoch: Epoch = block_on(shared.epoch()).unwrap();
    let (known, greatest) = (Arc::new(Mutex::new(Known::default())), Arc::new(AtomicU64::new(0)));
    let (granted, owners) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicU64::new(1)));
    let clients: Vec<_> = (0..CLIENTS)
        .map(|index| {
            // Half of them through connections of their own.
            let store = match index % 2 {
                0 => Arc::clone(&shared),
                _ => Arc::new(store(&server, |options| options.timeout(Duration::from_secs(1)))),
            };
            let (known, greatest) = (Arc::clone(&known), Arc::clone(&greatest));
            let (granted, owners) = (Arc::clone(&granted), Arc::clone(&owners));
            thread::spawn(move || {
                while granted.load(Ordering::SeqCst) < GRANTS {
                    let owner = owners.fetch_add(1, Ordering::SeqCst);
                    let ttl = Duration::from_millis(300);
                    let (before, sent) = (greatest.load(Ordering::SeqCst), Instant::now());
                    let grant = match block_on(store.acquire(claim_of(owner, ttl))) {
                        Ok(Acquired::Granted(grant)) => grant,
                        Ok(_) => {
                            let _ = block_on(store.wait(name("job"), Duration::from_millis(50)));
                            continue;
                        }
                        Err(_) => {
                            // Whether it was granted or not: it is not, from here on.
                            let _ =
                                block_on(store.withdraw(name("job"), lease_machines::OwnerId::new(owner)));
                            continue;
                        }
                    };
                    let (token, until) = (grant.token.value(), sent + grant.ttl);
                    {
                        let mut known = known.lock().unwrap();
                        assert!(known.tokens.insert(token), "token {token} was granted twice");
                        assert!(token > before, "token {token} after {before}");
                        let now = Instant::now();
                        if let Some((other, others)) = known.holder {
                            assert!(now >= others || now >= until, "{owner} was granted what {other} holds");
                        }
                        known.holder = Some((owner, until));
                        greatest.fetch_max(token, Ordering::SeqCst);
                    }
                    granted.fetch_add(1, Ordering::SeqCst);
                    let mut known = known.lock().unwrap();
                    if known.holder.is_some_and(|(holder, _)| holder == owner) {
                        known.holder = None;
                    }
                    drop(known);
                    let _ = block_on(store.release(lease("job", owner, grant), Default::default()));
                }
            })
        })
        .collect();
    // Each time when some more were granted, so that every one of these meets requests.
    for (after, kill) in [(10, true), (20, false), (30, true), (40, true), (50, false)] {
        let start = Instant::now();
        while granted.load(Ordering::SeqCst) < after && start.elapsed() < Duration::from_secs(60) {
            thread::sleep(Duration::from_millis(1));
        }
        if kill {
            server.restart();
        } else {
            server.freeze();
            thread::sleep(Duration::from_millis(400));
            server.thaw();
        }
    }
    for client in clients {
        client.join().unwrap();
    }
    assert!(granted.load(Ordering::SeqCst) >= GRANTS);
    assert_eq!(block_on(shared.epoch()).unwrap(), epoch, "a recorded restart is no loss");
}

fn claim_of(owner: u64, ttl: Duration) -> Claim {
    let mut claim = claim("job", owner);
    claim.ttl = ttl;
    claim
}
