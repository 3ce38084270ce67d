//! The scripts that decide, broken in one place at a time: what decides there is checked by something each time.
//!
//! What is broken is what a store tells its server as it connects. A proxy asks for the broken scripts where the store asks
//! for the right ones.

use std::sync::Arc;
use std::time::Duration;

use lease_machines::Rejection;
use lease_machines_store::conformance::{self, Fixture, Subject};
use lease_machines_store::{RedisStore, Renewed, Store, StoreError};

use crate::common::{TestClock, block_on, claim, granted, lease};
use crate::proxy::Proxy;
use crate::servers::redis::{FORGETFUL, RedisServer};
use crate::slot_mutants;
use crate::support::namespace;

/// What is broken, as what is found and what stands in its place, and the case of the suite that notices it; without one it
/// is a clock that is set back.
pub(crate) type Mutant = (&'static str, &'static str, &'static str, Option<&'static str>);

const MUTANTS: &[Mutant] = &[
    (
        "no look at the epoch before a grant",
        "if believed ~= '' and believed ~= epoch then return {'epoch', epoch, count, before, 0} end",
        "",
        Some("a request for another epoch changes nothing, and says so"),
    ),
    (
        "no look at a lease's epoch",
        "or held and row[OWNER] == owner and row[TOKEN] == token and row[EPOCH] ~= epoch then",
        "then",
        Some("a lease of an old epoch is neither released nor echoed"),
    ),
    (
        "a lease goes on at its deadline",
        "local live = held and at < row[UNTIL]",
        "local live = held and at <= row[UNTIL]",
        Some("1 ms, 500 ms and 1.5 s are exact"),
    ),
    (
        "the last token is not written",
        "= token, owner, token, at, at + ttl, epoch",
        "= row[LAST], owner, token, at, at + ttl, epoch",
        Some("tokens rise across release, expiry and rotation"),
    ),
    (
        "a token is the one before",
        "string.sub(last, -9) + 1",
        "string.sub(last, -9) + 0",
        Some("tokens rise across release, expiry and rotation"),
    ),
    (
        "numbers lose digits",
        "local function digits(number) return string.format('%.0f', number) end",
        "local function digits(number) return tostring(number) end",
        Some("tokens rise across release, expiry and rotation"),
    ),
    (
        "the last attempt counts for nothing",
        "row[ASKER] == owner and not less(row[ATTEMPT], attempt)",
        "false",
        Some("an echo is answered with what remains of the grant"),
    ),
    (
        "the same attempt is decided twice",
        "row[ASKER] == owner and not less(row[ATTEMPT], attempt)",
        "row[ASKER] == owner and less(attempt, row[ATTEMPT])",
        Some("a doubled acquire is one grant"),
    ),
    (
        "a renewal shortens",
        "row[UNTIL] = math.max(row[UNTIL], at + ttl)",
        "row[UNTIL] = at + ttl",
        Some("a renewal extends and never shortens"),
    ),
    (
        "the ttl of a grant is doubled",
        "= token, owner, token, at, at + ttl, epoch",
        "= token, owner, token, at, at + 2 * ttl, epoch",
        Some("a lease keeps others out until its deadline and not longer"),
    ),
    (
        "nobody looks whose lease it is",
        "elseif row[OWNER] ~= owner then\n  reason = 'WrongOwner'\n",
        "",
        Some("only the owner, under its token, renews and releases"),
    ),
    (
        "nobody looks at the token",
        "elseif row[TOKEN] ~= token then\n  reason = 'StaleToken'\n",
        "",
        Some("only the owner, under its token, renews and releases"),
    ),
    (
        "another's live lease is taken over",
        "(ARGV[1] == 'again' and row[KEPT] == 0 and row[OWNER] == owner)",
        "(ARGV[1] == 'again' and row[KEPT] == 0)",
        Some("random operations are decided as the core decides"),
    ),
    (
        "what is held back is renewed",
        "if held and row[KEPT] == 1 and row[TOKEN] == token and ttl > 0 then",
        "if false then",
        Some("at_least holds the resource back, from its grant on"),
    ),
    (
        "a once-key counts for nothing",
        "if done then return {'done', epoch, count, before, 0, cmsgpack.unpack(done)} end",
        "",
        Some("work done under a once-key is not done again"),
    ),
    (
        "a revoke breaks whatever is there",
        "elseif expect ~= '' and row[TOKEN] ~= expect then",
        "elseif false then",
        Some("a revoke breaks the lease that was meant, and no other"),
    ),
    (
        "grants begin at once in a new epoch",
        "elseif at < grants_from then",
        "elseif false then",
        Some("where old holders may be at work, nothing is granted"),
    ),
    (
        "a lost history goes unnoticed",
        "  rewound = 1",
        "  rewound = 0",
        Some("a token that was never issued shows a lost history"),
    ),
    (
        "a second release is not known for one",
        "row[GONE_HOW] == 'released' then\n  return {'already', epoch, count, before, 0}",
        "row[GONE_HOW] == 'released' then\n  return {'rejected', epoch, count, before, 0, 'Vacant', false, false}",
        Some("a second release of a token is already released"),
    ),
    (
        "withdrawals are remembered nowhere",
        "redis.call('HSET', bucket, 'n', count, 'w', math.max(tonumber(withdrawn or 0), now + REMEMBER * 1e6))",
        "",
        Some("withdraw vacates without a token, once for all"),
    ),
    ("no clamp by what was observed", "local at = math.max(now, row[SEEN])", "local at = now", None),
    ("an expiry that is told and not written", "if reason == 'Expired' then", "if false then", None),
];

/// The scripts that a store tells its server.
fn scripts() -> Vec<String> {
    let server = RedisServer::start(FORGETFUL);
    let proxy = Proxy::to(server.port);
    RedisStore::open(&format!("redis://127.0.0.1:{}", proxy.port)).unwrap().migrate().unwrap();
    let told = proxy.words().into_iter().filter(|words| words[0] == "SCRIPT");
    told.map(|mut words| words.swap_remove(2)).collect()
}

/// A server on which the store's scripts have one text in place of another.
struct Broken {
    _server: RedisServer,
    proxy: Proxy,
}

impl Broken {
    fn new(scripts: &[String], found: &str, instead: &str) -> Self {
        let server = RedisServer::start(FORGETFUL);
        let load = |script: &str| {
            let hash = server.command(&["SCRIPT", "LOAD", script]);
            assert_eq!(hash.len(), 40, "{hash}");
            hash
        };
        let broken = scripts.iter().filter(|script| script.contains(found));
        let hashes = broken.map(|script| (load(script), load(&script.replace(found, instead)))).collect();
        let proxy = Proxy::replacing(server.port, hashes);
        Self { _server: server, proxy }
    }

    fn store(&self, namespace: &str, clock: &Arc<TestClock>) -> RedisStore {
        let url = format!("redis://127.0.0.1:{}/0?timeout=20s", self.proxy.port);
        let store =
            RedisStore::open_with(&url, |options| options.namespace(namespace).clock(Arc::clone(clock) as _));
        store.unwrap()
    }
}

struct Fresh(Arc<RedisStore>, Arc<TestClock>);

impl Subject for Broken {
    fn name(&self) -> String {
        "a broken script".to_owned()
    }

    fn fresh(&self) -> Result<Box<dyn Fixture>, StoreError> {
        let clock = TestClock::new("boot");
        let store = Arc::new(self.store(&namespace(), &clock));
        store.migrate()?;
        Ok(Box::new(Fresh(store, clock)))
    }
}

impl Fixture for Fresh {
    fn store(&self) -> Arc<dyn Store> {
        Arc::clone(&self.0) as Arc<dyn Store>
    }

    fn pass(&self, time: Duration) {
        self.1.advance(time);
    }
}

/// Whether a lease that is over stays so, also when the clock is set back.
fn stays_over(broken: &Broken) -> bool {
    let clock = TestClock::new("boot");
    let store = broken.store(&namespace(), &clock);
    store.migrate().unwrap();
    let ttl = Duration::from_secs(60);
    let held = lease("job", 1, granted(&store, claim("job", 1)));
    let is_expired = || {
        let answer = block_on(store.renew(held.clone(), ttl)).unwrap();
        matches!(answer, Renewed::Rejected(why) if why.reason == Rejection::Expired)
    };
    clock.advance(ttl);
    assert!(is_expired(), "at its deadline");
    clock.step_wall(-30);
    is_expired()
}

#[test]
fn a_clock_that_is_set_back_revives_nothing() {
    assert!(stays_over(&Broken::new(&scripts(), "local now", "local now")));
}

#[test]
fn every_mutant_is_caught() {
    let (scripts, mut survivors) = (scripts(), Vec::new());
    for (what, found, instead, case) in MUTANTS.iter().chain(slot_mutants::MUTANTS) {
        let has = scripts.iter().any(|script| script.contains(found));
        assert!(has, "no script has {found:?}: adapt the mutant {what:?}");
        let broken = Broken::new(&scripts, found, instead);
        let caught = match case {
            Some(case) => {
                let report = conformance::run_only(&broken, &[case]);
                assert_eq!(report.ran + report.failed.len(), 1, "{what}: {report}");
                report.failed.first().is_some_and(|failed| failed.case == *case)
            }
            None => !stays_over(&broken),
        };
        if !caught {
            survivors.push(what);
        }
    }
    assert!(survivors.is_empty(), "nothing noticed: {survivors:?}");
}
