//! A cluster that asks who one is: logins that grow old, passwords that are replaced, hosts that do not answer.

use std::thread;
use std::time::{Duration, Instant};

use etcd_client::{Client, ConnectOptions, Permission, PermissionType};
use lease_machines_store::conformance::block_on;
use lease_machines_store::{EtcdOptions, EtcdStore, Store};
use tokio::runtime::{Builder, Runtime};

use crate::black_hole::is_given_up_in_time;
use crate::help::{claim, granted, lease};
use crate::rotating::{Vault, is_asked_at_each_new_connection};
use crate::servers::etcd::EtcdServer;
use crate::servers::guard::Guarded;

const TTL: Duration = Duration::from_secs(60);

#[test]
fn a_host_that_does_not_answer_is_given_up_in_the_time_for_connecting() {
    is_given_up_in_time(|port| {
        EtcdStore::open(&format!("etcd://127.0.0.1:{port}?timeout=60s&connect_timeout=300ms")).unwrap()
    });
    // With somebody to log in as, too: that is what is asked first.
    is_given_up_in_time(|port| {
        EtcdStore::open(&format!("etcd://u:p@127.0.0.1:{port}?timeout=60s&connect_timeout=300ms")).unwrap()
    });
}

/// A server that asks for a login, and whoever may change who may what.
struct Guard {
    server: EtcdServer,
    runtime: Runtime,
    _folder: Option<Guarded>,
}

impl Guard {
    /// With tokens that the member keeps as long as somebody uses them every so many seconds. It takes them back from whoever is
    /// changed.
    fn simple(seconds: &'static str) -> Self {
        let settings = Vec::leak(vec!["--auth-token-ttl", seconds]);
        Self::over(EtcdServer::start_with(settings), None)
    }

    /// With tokens that carry the time at which they end and the revision of users and roles: any change of these makes all
    /// of them old.
    fn signed(seconds: u32) -> Self {
        let folder = Guarded::folder("key");
        folder.write("key", "of this test alone, and so no secret");
        let key = folder.path().join("key").to_str().unwrap().to_owned();
        let how = format!("jwt,sign-method=HS256,priv-key={key},ttl={seconds}s");
        let settings = Vec::leak(vec!["--auth-token", &*String::leak(how)]);
        Self::over(EtcdServer::start_with(settings), Some(folder))
    }

    fn over(server: EtcdServer, folder: Option<Guarded>) -> Self {
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let guard = Self { server, runtime, _folder: folder };
        guard.runtime.block_on(async {
            let mut client = Client::connect([guard.member()], None).await.unwrap();
            client.user_add("root", "rootsecret", None).await.unwrap();
            client.user_grant_role("root", "root").await.unwrap();
            client.role_add("leases").await.unwrap();
            let rights = Permission::new(PermissionType::Readwrite, "/lease-machines/").with_prefix();
            client.role_grant_permission("leases", rights).await.unwrap();
            client.user_add("app", "s3cret-1", None).await.unwrap();
            client.user_grant_role("app", "leases").await.unwrap();
            client.auth_enable().await.unwrap();
        });
        guard
    }

    fn member(&self) -> String {
        format!("127.0.0.1:{}", self.server.port)
    }

    fn url(&self, login: &str) -> String {
        format!("etcd://{login}@{}", self.member())
    }

    fn store(&self) -> EtcdStore {
        let store = EtcdStore::open(&self.url("app:s3cret-1")).unwrap();
        store.migrate().unwrap();
        store
    }

    /// Logins so far, those of this test's own among them.
    fn logins(&self) -> u64 {
        self.server.count("Authenticate")
    }

    /// Somebody else is allowed something: nobody who uses the store is concerned.
    fn changes_somebody(&self, name: &str) {
        self.as_root(|mut client| async move {
            client.role_add(name).await.unwrap();
        });
    }

    fn replaces_password(&self, password: &str) {
        self.as_root(|mut client| async move {
            client.user_change_password("app", password).await.unwrap();
        });
    }

    fn as_root<F: Future<Output = ()>>(&self, change: impl FnOnce(Client) -> F) {
        self.runtime.block_on(async {
            let login = ConnectOptions::new().with_user("root", "rootsecret");
            change(Client::connect([self.member()], Some(login)).await.unwrap()).await;
        });
    }
}

#[test]
fn a_login_that_is_older_than_a_change_of_roles_is_made_anew() {
    let guard = Guard::signed(600);
    let store = guard.store();
    let held = lease("job", 1, granted(&store, claim("job", 1)));
    for (round, owner) in ["one", "two", "three"].into_iter().zip(2..) {
        let before = guard.logins();
        guard.changes_somebody(round);
        // One of each kind that the store sends: transactions, leases, looks.
        assert!(block_on(store.renew(held.clone(), TTL)).is_ok());
        granted(&store, claim(round, owner));
        assert!(block_on(store.inspect(held.resource.clone())).is_ok());
        assert_eq!(guard.logins(), before + 2, "the test's own, and one of the store");
    }
}

#[test]
fn many_who_find_their_login_old_at_once_all_go_on() {
    let guard = Guard::signed(600);
    let store = guard.store();
    granted(&store, claim("first", 1));
    for round in ["one", "two"] {
        let before = guard.logins();
        guard.changes_somebody(round);
        thread::scope(|scope| {
            for owner in 1..=16 {
                let (store, resource) = (&store, format!("{round}-{owner}"));
                scope.spawn(move || granted(store, claim(&resource, owner)));
            }
        });
        let made = guard.logins() - before;
        assert!((2..=4).contains(&made), "{made} logins, one of them the test's own, for 16 calls");
    }
}

#[test]
fn a_login_that_is_over_is_made_anew() {
    // One ends after its time, the other when nobody has used it for so long.
    for guard in [Guard::signed(2), Guard::simple("1")] {
        let store = guard.store();
        let held = lease("job", 1, granted(&store, claim("job", 1)));
        let (before, begun) = (guard.logins(), Instant::now());
        let mut pause = Duration::from_secs(2);
        while guard.logins() == before {
            assert!(begun.elapsed() < Duration::from_secs(60), "no login was over");
            thread::sleep(pause);
            pause += Duration::from_secs(1);
            assert!(block_on(store.renew(held.clone(), TTL)).is_ok());
        }
        granted(&store, claim("other", 1));
    }
}

#[test]
fn a_client_of_the_programs_own_logs_in_anew_too() {
    let guard = Guard::signed(600);
    guard.store();
    let login = ConnectOptions::new().with_user("app", "s3cret-1");
    let client = guard.runtime.block_on(Client::connect([guard.member()], Some(login))).unwrap();
    let store = EtcdStore::from_client(client, EtcdOptions::default()).unwrap();
    granted(&store, claim("job", 1));
    guard.changes_somebody("one");
    granted(&store, claim("other", 1));
}

#[test]
fn a_password_is_asked_for_at_each_new_login() {
    for guard in [Guard::simple("300"), Guard::signed(600)] {
        guard.store();
        let vault = Vault::with("s3cret-1");
        let ask = |options: EtcdOptions| options.password_from(vault.asks());
        let store = EtcdStore::open_with(&guard.url("app"), ask).unwrap();
        // The change alone makes every login of the account old: no connection has to be ended.
        is_asked_at_each_new_connection(&store, &vault, &|password| guard.replaces_password(password));
        assert!(!format!("{store:?}").contains("s3cret"));
    }
}
