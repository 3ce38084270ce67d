//! Writes that are guarded in the writer's own transaction.

use std::time::Duration;

use etcd_client::{Client, Compare, CompareOp, Txn, TxnOp};
use lease_machines::{FencingToken, OwnerId};
use lease_machines_store::conformance::block_on;
use lease_machines_store::{
    Ending, EtcdFence, EtcdGuard, EtcdStore, GuardError, GuardErrorKind, GuardKind, GuardMode, LeaseRef,
    MarkKey, Released, ResourceName, Store,
};
use tokio::runtime::{Builder, Runtime};

use crate::help::{claim, claim_for, granted, lease};
use crate::servers::etcd::{EtcdServer, namespace};
use crate::servers::guard::free_port;

/// Leases and data in one cluster.
struct Bench {
    runtime: Runtime,
    client: Client,
    url: String,
    store: EtcdStore,
    fence: EtcdFence,
    /// What the writes go to.
    data: String,
}

impl Bench {
    fn new() -> Self {
        let (server, space) = (EtcdServer::shared(), namespace());
        let url = server.url(&space);
        let store = EtcdStore::open(&url).unwrap();
        store.migrate().unwrap();
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        let members = [format!("127.0.0.1:{}", server.port)];
        let client = runtime.block_on(Client::connect(members, None)).unwrap();
        Self { runtime, client, url, store, fence: EtcdFence::new(&space), data: format!("data-{space}") }
    }

    fn hold(&self, owner: u64) -> LeaseRef {
        lease("job", owner, granted(&self.store, claim("job", owner)))
    }

    fn advance(&mut self, lease: &LeaseRef) -> Result<(), GuardError> {
        self.runtime.block_on(self.fence.advance(&mut self.client, &mark(), lease))
    }

    fn guard(&mut self, lease: &LeaseRef, mode: GuardMode) -> Result<EtcdGuard, GuardError> {
        self.runtime.block_on(self.fence.guard(&mut self.client, &mark(), lease, mode))
    }

    fn write(&mut self, guard: &EtcdGuard, text: &str) -> Result<(), GuardError> {
        let txn = guard.txn([TxnOp::put(self.data.clone(), text, None)]);
        guard.passed(&self.runtime.block_on(self.client.txn(txn)).unwrap())
    }

    fn read(&mut self) -> String {
        let found = self.runtime.block_on(self.client.get(self.data.clone(), None)).unwrap();
        found.kvs().first().map(|kv| kv.value_str().unwrap().to_owned()).unwrap_or_default()
    }
}

fn mark() -> MarkKey {
    MarkKey::new(ResourceName::new("job").unwrap())
}

fn is_stale(answer: Result<(), GuardError>, held: &LeaseRef, newer: &LeaseRef) {
    let expected = GuardErrorKind::StaleToken { held: held.token, highest: newer.token };
    assert_eq!(answer.unwrap_err().kind(), expected);
}

#[test]
fn whoever_was_replaced_writes_nothing_from_the_advance_on() {
    let mut bench = Bench::new();
    for mode in [GuardMode::Plain, GuardMode::Auto] {
        let first = bench.hold(1);
        bench.advance(&first).unwrap();
        let overslept = bench.guard(&first, mode).unwrap();
        bench.write(&overslept, "first").unwrap();
        bench.write(&overslept, "first again").unwrap();
        let _ = block_on(bench.store.revoke(first.resource.clone(), None, None)).unwrap();
        let second = bench.hold(2);
        bench.advance(&second).unwrap();
        is_stale(bench.write(&overslept, "late"), &first, &second);
        is_stale(bench.advance(&first), &first, &second);
        let guard = bench.guard(&second, mode).unwrap();
        bench.write(&guard, "second").unwrap();
        is_stale(bench.write(&overslept, "later"), &first, &second);
        assert_eq!(bench.read(), "second");
        let _ = block_on(bench.store.release(second, Ending::default())).unwrap();
    }
}

#[test]
fn the_strict_guard_knows_that_a_lease_is_over_before_the_next_holder_comes() {
    let mut bench = Bench::new();
    let held = bench.hold(1);
    bench.advance(&held).unwrap();
    let (plain, strict) =
        (bench.guard(&held, GuardMode::Plain).unwrap(), bench.guard(&held, GuardMode::Auto).unwrap());
    assert_eq!((plain.kind(), strict.kind()), (GuardKind::Plain, GuardKind::Strict));
    // A renewal holds nothing up, and changes nothing that is compared.
    let _ = block_on(bench.store.renew(held.clone(), Duration::from_secs(70))).unwrap();
    bench.write(&strict, "held").unwrap();
    assert_eq!(block_on(bench.store.release(held.clone(), Ending::default())).unwrap(), Released::Released);
    assert_eq!(bench.write(&strict, "released").unwrap_err().kind(), GuardErrorKind::Lost);
    assert_eq!(bench.guard(&held, GuardMode::Strict).unwrap_err().kind(), GuardErrorKind::Lost);
    assert_eq!(bench.read(), "held");
    // All that a plain one knows is that nobody has come yet.
    bench.write(&plain, "nobody has come").unwrap();
}

#[test]
fn the_strict_guard_refuses_a_lease_that_has_run_out() {
    let mut bench = Bench::new();
    let held = lease("job", 1, granted(&bench.store, claim_for("job", 1, Duration::from_secs(2))));
    bench.advance(&held).unwrap();
    let strict = bench.guard(&held, GuardMode::Strict).unwrap();
    bench.write(&strict, "live").unwrap();
    let begun = std::time::Instant::now();
    // Waits until the cluster has let it run out, whatever its members' clocks do.
    while block_on(bench.store.inspect(held.resource.clone())).unwrap().occupant.is_some() {
        assert!(begun.elapsed() < Duration::from_secs(30), "it does not run out");
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(bench.write(&strict, "over").unwrap_err().kind(), GuardErrorKind::Lost);
    assert_eq!(bench.read(), "live");
}

#[test]
fn two_fenced_writers_at_once_are_one_after_the_other() {
    let mut bench = Bench::new();
    let (mut last, mut written) = (None::<EtcdGuard>, 0);
    for owner in 1..=10 {
        let held = bench.hold(owner);
        let guard = {
            bench.advance(&held).unwrap();
            bench.guard(&held, GuardMode::Plain).unwrap()
        };
        // Both are on their way; the one of the older lease never comes through.
        let count = |guard: &EtcdGuard, name: &str| guard.txn([TxnOp::put(name, "x", None)]);
        let (mut one, mut other) = (bench.client.clone(), bench.client.clone());
        let data = bench.data.clone();
        let late = last.clone();
        let answers = bench.runtime.block_on(async {
            let new = tokio::spawn(async move { one.txn(count(&guard, &data)).await.unwrap().succeeded() });
            let old = match late {
                Some(late) => other.txn(count(&late, "stale")).await.unwrap().succeeded(),
                None => false,
            };
            (new.await.unwrap(), old)
        });
        assert_eq!(answers, (true, false), "owner {owner}");
        written += 1;
        last = Some(bench.guard(&held, GuardMode::Plain).unwrap());
        assert_eq!(
            block_on(bench.store.withdraw(held.resource, OwnerId::new(owner))).unwrap(),
            Released::Released
        );
    }
    assert_eq!(written, 10);
}

#[test]
fn what_is_wrong_with_a_lease_or_a_mark_is_told() {
    let mut bench = Bench::new();
    let held = bench.hold(1);
    // Without an advance nothing passes: a writer that forgot it would be stopped by nobody.
    let guard = bench.guard(&held, GuardMode::Plain).unwrap();
    assert_eq!(bench.write(&guard, "x").unwrap_err().kind(), GuardErrorKind::NotSetUp);
    // Where nobody has shown a token, whoever has none may write; from then on not.
    let unfenced = bench.fence.unfenced(&mark());
    bench.write(&unfenced, "without").unwrap();
    bench.advance(&held).unwrap();
    assert_eq!(bench.write(&unfenced, "x").unwrap_err().kind(), GuardErrorKind::Unfenced);
    // The same token of another owner: history was lost.
    let twin = LeaseRef::new(held.resource.clone(), OwnerId::new(9), held.token, None);
    let expected = GuardErrorKind::Rewound { token: held.token, first: held.owner };
    assert_eq!(bench.advance(&twin).unwrap_err().kind(), expected);
    let guard = bench.guard(&twin, GuardMode::Plain).unwrap();
    assert_eq!(bench.write(&guard, "x").unwrap_err().kind(), expected);
    // A token that no store can have issued.
    let absurd =
        LeaseRef::new(held.resource.clone(), held.owner, FencingToken::new(i64::MAX as u64).unwrap(), None);
    let expected = GuardErrorKind::OutOfRange { token: absurd.token };
    assert_eq!(bench.advance(&absurd).unwrap_err().kind(), expected);
    let elsewhere = LeaseRef::new(ResourceName::new("other").unwrap(), held.owner, held.token, held.epoch);
    assert_eq!(bench.advance(&elsewhere).unwrap_err().kind(), GuardErrorKind::OtherResource);
    // Leases of a store elsewhere: plain, and the strict one says no.
    let fence = EtcdFence::new("elsewhere");
    let guard =
        bench.runtime.block_on(fence.guard(&mut bench.client, &mark(), &held, GuardMode::Auto)).unwrap();
    assert_eq!(guard.kind(), GuardKind::Plain);
    let strict = bench.runtime.block_on(fence.guard(&mut bench.client, &mark(), &held, GuardMode::Strict));
    assert_eq!(strict.unwrap_err().kind(), GuardErrorKind::NotStrict);
    // An operator sets it back, and the holder goes on by advancing it again.
    let seen = bench.runtime.block_on(bench.fence.look(&mut bench.client, &mark())).unwrap().unwrap();
    assert_eq!((seen.token, seen.owner), (held.token, held.owner));
    let back = FencingToken::new(held.token.value() - 1);
    bench.runtime.block_on(bench.fence.reset(&mut bench.client, &mark(), back, "a test")).unwrap();
    bench.advance(&held).unwrap();
    assert_eq!(bench.read(), "without");
}

#[test]
fn marks_at_a_url_are_those_of_the_fence() {
    let mut bench = Bench::new();
    let marks = lease_machines_store::open_marks(&bench.url).unwrap();
    assert_eq!(block_on(marks.look(mark())).unwrap(), None);
    let first = bench.hold(1);
    block_on(marks.advance(mark(), first.clone())).unwrap();
    block_on(marks.advance(mark(), first.clone())).unwrap();
    let guard = bench.guard(&first, GuardMode::Plain).unwrap();
    bench.write(&guard, "first").unwrap();
    assert_eq!(block_on(bench.store.release(first.clone(), Ending::default())).unwrap(), Released::Released);
    let second = bench.hold(2);
    block_on(marks.advance(mark(), second.clone())).unwrap();
    is_stale(bench.write(&guard, "late"), &first, &second);
    is_stale(block_on(marks.advance(mark(), first.clone())), &first, &second);
    let seen = block_on(marks.look(mark())).unwrap().unwrap();
    assert_eq!((seen.token, seen.owner), (second.token, second.owner));
    block_on(marks.reset(mark(), None, "a test".to_owned())).unwrap();
    assert_eq!(block_on(marks.look(mark())).unwrap(), None);
    block_on(marks.advance(mark(), first)).unwrap();
    // A cluster that is not there says where it should have been, and nothing of the password.
    let port = free_port();
    let gone = format!("etcd://user:s3cret@127.0.0.1:{port}?timeout=300ms");
    let marks = lease_machines_store::open_marks(&gone).unwrap();
    let error = block_on(marks.advance(mark(), second)).unwrap_err();
    assert_eq!(error.kind(), GuardErrorKind::Database, "{error}");
    let told = format!("{error} {error:?}");
    assert!(told.contains(&port.to_string()) && !told.contains("s3cret"), "{told}");
}

#[test]
fn a_guard_goes_into_a_transaction_that_compares_more() {
    let mut bench = Bench::new();
    let held = bench.hold(1);
    bench.advance(&held).unwrap();
    let guard = bench.guard(&held, GuardMode::Strict).unwrap();
    bench.write(&guard, "one").unwrap();
    for (expected, passes) in [("one", true), ("one", false)] {
        let mut when = guard.compares();
        when.push(Compare::value(bench.data.clone(), CompareOp::Equal, expected));
        let mut then = guard.operations();
        then.push(TxnOp::put(bench.data.clone(), "two", None));
        let txn = Txn::new().when(when).and_then(then);
        assert_eq!(bench.runtime.block_on(bench.client.txn(txn)).unwrap().succeeded(), passes);
    }
    assert_eq!(bench.read(), "two");
}
