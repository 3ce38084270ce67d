//! Leases that the keeper holds on a server.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use lease_machines_keeper::{Guard, HoldOptions, LossReason, hold};
use lease_machines_store::{ResourceName, Store, WorkResult};
use tokio::runtime::{Builder, Runtime};
use tokio::time::timeout;

use crate::proxy::Proxy;
use crate::rig::{Rig, on_each};
use crate::servers::{mysql, postgres};

/// Only a failure takes it.
const PATIENCE: Duration = Duration::from_secs(90);

/// Renewed often, and far from its end while a server starts again.
const LONG: HoldOptions =
    HoldOptions::new().ttl(Duration::from_secs(60)).renew_every(Duration::from_millis(300));

/// A manager of leases is told of servers from another thread than those that it runs on.
fn runtime() -> Runtime {
    Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap()
}

/// How often the lease on this resource has been renewed; a server that is away is asked again.
fn renewals(runtime: &Runtime, store: &Arc<dyn Store>, resource: &str) -> u64 {
    let begun = Instant::now();
    loop {
        let name = ResourceName::new(resource).unwrap();
        match runtime.block_on(async { store.history(name, 1).await }) {
            Ok(holds) => return holds[0].renewals,
            Err(error) => assert!(begun.elapsed() < PATIENCE, "no answer: {error}"),
        }
        thread::sleep(Duration::from_millis(20));
    }
}

/// Returns once the lease has been renewed from now on.
fn is_renewed(runtime: &Runtime, store: &Arc<dyn Store>, guard: &Guard) {
    let resource = guard.resource().as_str();
    let (before, begun) = (renewals(runtime, store, resource), Instant::now());
    while renewals(runtime, store, resource) < before + 2 {
        assert!(guard.may_act(), "lost: {:?}", guard.loss());
        assert!(begun.elapsed() < PATIENCE, "it is not renewed");
        thread::sleep(Duration::from_millis(20));
    }
}

/// cirello-io/dynamolock#446, and its siblings: whatever the server does, the lease goes on for as long as somebody renews it,
/// and is over by the local clock alone where nobody does.
fn a_lease_outlives_its_server_and_ends_without_it(mut rig: Rig) {
    let runtime = runtime();
    let (store, look) = (rig.open(), rig.open());
    let guard = runtime.block_on(hold(&store, "job", LONG)).unwrap();
    is_renewed(&runtime, &look, &guard);
    rig.kill();
    rig.up();
    is_renewed(&runtime, &look, &guard);
    let frozen = rig.freeze();
    thread::sleep(Duration::from_secs(1));
    assert!(guard.may_act(), "nothing is wrong yet");
    drop(frozen);
    is_renewed(&runtime, &look, &guard);
    let token = guard.token();
    assert!(runtime.block_on(guard.release(WorkResult::Good)).stood());

    let short = Duration::from_secs(2);
    let options = HoldOptions::new().ttl(short);
    let guard = runtime.block_on(hold(&store, "job", options.clone())).unwrap();
    assert!(guard.token() > token);
    is_renewed(&runtime, &look, &guard);
    rig.kill();
    let killed = Instant::now();
    let lost = runtime.block_on(async { timeout(PATIENCE, guard.lost()).await }).unwrap();
    assert!(matches!(lost, LossReason::Unreachable { .. } | LossReason::Expired), "{lost:?}");
    thread::sleep(short.saturating_sub(killed.elapsed()));
    assert!(!guard.may_act(), "no renewal was sent later");
    rig.up();
    let options = options.wait(PATIENCE);
    let next = runtime.block_on(hold(&look, "job", options)).unwrap();
    assert!(next.token() > guard.token() && !guard.may_act());
    assert!(runtime.block_on(next.release(WorkResult::Good)).stood());
}

#[test]
fn a_lease_outlives_every_server_and_ends_without_it() {
    on_each(a_lease_outlives_its_server_and_ends_without_it);
}

/// Whoever waits asks again every 5 s by itself: what is granted sooner, somebody has told.
fn a_waiter_is_woken(rig: &Rig) {
    let runtime = runtime();
    let (first, second) = (rig.open(), rig.open());
    for resource in ["a", "b"] {
        let guard = runtime.block_on(hold(&first, resource, LONG)).unwrap();
        let token = guard.token();
        let store = Arc::clone(&second);
        let waiting = runtime.spawn(async move { hold(&store, resource, LONG.wait_forever()).await });
        // Long enough for it to have asked once. If not, it is granted at once below, and nothing is shown by that.
        thread::sleep(Duration::from_millis(700));
        assert!(!waiting.is_finished());
        assert!(runtime.block_on(guard.release(WorkResult::Good)).stood());
        let woken = runtime.block_on(async { timeout(Duration::from_millis(3_500), waiting).await });
        let next = woken.expect("nobody woke it").unwrap().unwrap();
        assert!(next.token() > token);
        assert!(runtime.block_on(next.release(WorkResult::Good)).stood());
    }
}

#[test]
fn whoever_waits_is_woken_on_every_server() {
    on_each(|rig| a_waiter_is_woken(&rig));
}

/// Renewals that fall due together are one request, however many leases they are of.
fn many_are_renewed_together(url: &str, straight: &str, proxy: &Proxy) {
    const LEASES: u64 = 40;
    let runtime = runtime();
    let (store, look) = [url, straight].map(|url| lease_machines_store::open(url).unwrap()).into();
    let name = |number: u64| format!("job-{number}");
    let guards: Vec<Guard> =
        (0..LEASES).map(|number| runtime.block_on(hold(&store, name(number), LONG)).unwrap()).collect();
    let all = || (0..LEASES).map(|number| renewals(&runtime, &look, &name(number))).sum::<u64>();
    let (before, asked, begun) = (all(), proxy.asked(), Instant::now());
    while all() < before + 4 * LEASES {
        assert!(begun.elapsed() < PATIENCE, "they are not renewed");
        thread::sleep(Duration::from_millis(50));
    }
    // Those of the last round may have been asked for without being counted yet.
    let asked = proxy.asked() - asked;
    let renewed = all() - before;
    assert!(asked * 8 < renewed, "{asked} requests for {renewed} renewals");
    assert!(guards.iter().all(|guard| guard.may_act()));
    for guard in guards {
        assert!(runtime.block_on(guard.release(WorkResult::Good)).stood());
    }
}

#[test]
fn many_leases_are_renewed_together_on_postgresql() {
    let server = postgres::Server::shared();
    let (schema, url) = server.fresh();
    let proxy = Proxy::start(server.port);
    let through =
        format!("postgres://lease@127.0.0.1:{}/postgres?schema={schema}&sslmode=disable", proxy.port);
    many_are_renewed_together(&through, &url, &proxy);
}

#[test]
fn many_leases_are_renewed_together_on_mariadb() {
    let server = mysql::Server::shared(mysql::Kind::MariaDb);
    let (database, url) = server.fresh();
    let proxy = Proxy::to_mysql(server.port);
    let through = format!("mariadb://lease:@127.0.0.1:{}/{database}", proxy.port);
    many_are_renewed_together(&through, &url, &proxy);
}
