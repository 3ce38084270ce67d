//! CosId#342, GitLab's failover epic: a store that was put back from a copy knows nothing of the numbers that it has given out
//! since, and gives them out again. Here the first token that it is shown proves it: holders stop, nothing is granted until it
//! is sure, and no stamp of the history that was lost is given out a second time.

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};
use std::{fs, thread};

use lease_machines_id::{Id64, IdError, Layout, Manager, Notice, Options, PoolLease, Reason};
use lease_machines_store::{
    Claimed, ErrorKind, Opening, PoolClaim, ResourceName, Store, Unclaimed, Undecided, fresh_owner,
};
use tokio::runtime::Builder;

use crate::rig::{Rig, at_once};

/// Only a failure takes it.
const PATIENCE: Duration = Duration::from_secs(90);

/// The shortest that there is.
const LEASE: Duration = Duration::from_secs(30);

/// The shortest that there are: renewed after 10 s, to be used for 20 s.
fn options() -> Options {
    Options::new().lease_duration(LEASE).renew_interval(Duration::from_secs(20))
}

/// Without this a store must believe that some lease was for 24 h, and some ID time reserved for as long: in a new epoch no claim
/// is granted whose time would end before that.
fn no_longer(url: &str) -> String {
    format!("{url}{}max_ttl=30s", if url.contains('?') { '&' } else { '?' })
}

fn pool() -> ResourceName {
    ResourceName::new("ids").unwrap()
}

/// One that opens the store anew for each call, as the gem does with files.
fn lease(url: &str, identity: &str) -> PoolLease {
    let url = url.to_owned();
    PoolLease::on_loan(move || Ok(Box::new(lease_machines_store::open_existing(&url)?)), pool(), 4)
        .with_identity(identity)
}

/// A manager with its notices.
fn start(url: &str, identity: &str) -> (Manager, Receiver<Notice>) {
    let (sender, notices) = channel();
    let manager = Manager::start_with(lease(url, identity), options(), move |notice| {
        let _ = sender.send(notice);
    });
    (manager.unwrap(), notices)
}

/// Makes IDs of both kinds until there are none any more, and says why.
fn make_until_it_stops(manager: &Manager, made: &mut Vec<Id64>) -> IdError {
    let (counter, sortable) = (manager.counter::<Id64>(), manager.sortable::<Id64>());
    let begun = Instant::now();
    loop {
        assert!(begun.elapsed() < PATIENCE, "it never stops");
        for batch in [counter.next_batch(50), sortable.next_batch(50)] {
            match batch {
                Ok(ids) => made.extend(ids),
                Err(error) => return error,
            }
        }
        thread::sleep(Duration::from_millis(5));
    }
}

fn block_on<T>(work: impl Future<Output = T>) -> T {
    Builder::new_current_thread().enable_all().build().unwrap().block_on(work)
}

/// `put_back` replaces the store by what it was before the first of these calls.
fn what_was_forgotten_is_noticed_and_nothing_repeats(url: &str, put_back: impl FnOnce()) {
    let store = lease_machines_store::open(url).unwrap();
    let epoch = block_on(store.epoch()).unwrap();
    let (first, notices) = start(url, "first");
    assert_eq!(first.machine_id(), Some(0));
    let mut made = first.sortable::<Id64>().next_batch(500).unwrap();
    drop(store);
    put_back();
    // By its own renewal, and no later than its own deadline.
    let why = make_until_it_stops(&first, &mut made);
    assert_eq!(why, IdError::Disabled(Reason::Lost));
    let lost = loop {
        if let Notice::Lost { machine_id, why, .. } = notices.recv_timeout(PATIENCE).unwrap() {
            break (machine_id, why);
        }
    };
    assert_eq!(lost.0, 0, "{lost:?}");

    // Others may hold what this store has forgotten: nobody is granted anything before their time is over.
    let store = lease_machines_store::open(url).unwrap();
    let current = block_on(store.epoch()).unwrap();
    assert_ne!(current, epoch, "the loss went unnoticed");
    let claim = PoolClaim::new(pool(), 4, fresh_owner().unwrap(), LEASE).with_id_time();
    match block_on(store.claim_slot(claim)) {
        Err(held_back) => assert_eq!(
            (held_back.kind(), held_back.undecided()),
            (ErrorKind::Busy, Undecided::NotDone),
            "{held_back}"
        ),
        // Stamps go by the clocks of clients there, with a margin: no ID time is left before it is looked at who may grant.
        Ok(told) => assert!(
            url.starts_with("etcd:") && matches!(told, Claimed::Rejected(Unclaimed::Exhausted { .. })),
            "{told:?}"
        ),
    }
    first.stop();

    // Here they are known to be gone. Whoever has the number next makes no ID that was made before.
    let opened = block_on(store.open_epoch(Opening::new(current).with_dead_holders())).unwrap();
    assert_ne!(opened, current);
    let (second, _) = start(url, "second");
    assert_eq!(second.machine_id(), Some(0), "the same number");
    let next = second.counter::<Id64>().next_batch(2_000).unwrap();
    second.stop();
    let layout = Layout::<Id64>::default();
    let times = |ids: &[Id64]| ids.iter().map(|id| layout.decode(*id).time).collect::<Vec<_>>();
    assert!(times(&made).iter().max() < times(&next).iter().min(), "above all that the first may have used");
    assert_eq!(made.iter().chain(&next).collect::<HashSet<_>>().len(), made.len() + next.len());
}

fn server(mut rig: Rig) {
    rig.back_up();
    let url = no_longer(&rig.url());
    what_was_forgotten_is_noticed_and_nothing_repeats(&url, || rig.put_back());
}

fn copy(from: &Path, to: &Path) {
    for file in ["leases.db", "leases.db-wal", "leases.db-shm"] {
        let _ = fs::remove_file(to.join(file));
        if from.join(file).exists() {
            fs::copy(from.join(file), to.join(file)).unwrap();
        }
    }
}

struct Folder(std::path::PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("lease-rewound-{name}-{}", std::process::id()));
        fs::create_dir_all(folder.join("copy")).unwrap();
        Self(folder)
    }

    fn url(&self) -> String {
        no_longer(&format!("sqlite:{}", self.0.join("leases.db").display()))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn file() {
    let folder = Folder::new("anew");
    let there = folder.0.as_path();
    drop(lease_machines_store::open(&folder.url()).unwrap());
    copy(there, &there.join("copy"));
    what_was_forgotten_is_noticed_and_nothing_repeats(&folder.url(), || copy(&there.join("copy"), there));
}

#[test]
fn a_store_that_was_put_back_is_noticed_and_no_id_is_made_twice() {
    let stories: Vec<(&'static str, fn())> = vec![
        ("postgresql", || server(Rig::postgres().set_up())),
        ("mariadb", || server(Rig::mariadb().set_up())),
        ("redis", || server(Rig::redis().set_up())),
        #[cfg(feature = "etcd")]
        ("etcd", || server(Rig::etcd().set_up())),
        ("sqlite", file),
    ];
    at_once(stories);
}

/// A store that is kept open belongs to a file that is gone. It says so, and its holders stop with their leases.
#[test]
fn a_file_that_was_replaced_under_a_store_that_is_kept_open_ends_its_ids_in_time() {
    let folder = Folder::new("kept");
    let there = folder.0.as_path();
    let store: Arc<dyn Store> = lease_machines_store::open(&folder.url()).unwrap();
    copy(there, &there.join("copy"));
    let started = Instant::now();
    let (sender, notices) = channel();
    let kept = PoolLease::new(store, pool(), 4).with_identity("first");
    let first = Manager::start_with(kept, options(), move |notice| {
        let _ = sender.send(notice);
    });
    let first = first.unwrap();
    copy(&there.join("copy"), there);
    let mut made = Vec::new();
    let why = make_until_it_stops(&first, &mut made);
    assert!(matches!(why, IdError::Disabled(Reason::Expired | Reason::Lost)), "{why:?}");
    assert!(started.elapsed() < Duration::from_secs(30), "its lease was over by then");
    let doubt = notices.try_iter().find_map(|notice| match notice {
        Notice::NotRenewed { why, .. } | Notice::Lost { why, .. } => Some(why),
        _ => None,
    });
    assert!(doubt.is_some_and(|why| why.contains("removed or replaced")));
    first.stop();
    let (second, _) = start(&folder.url(), "second");
    assert_eq!(second.machine_id(), Some(0), "the file that is there now knows of nobody");
    made.extend(second.sortable::<Id64>().next_batch(500).unwrap());
    second.stop();
    assert_eq!(made.iter().collect::<HashSet<_>>().len(), made.len());
}
