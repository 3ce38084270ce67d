//! `lease migrate --from --to`, between engines.

use std::time::{Duration, Instant};

use serde_json::Value;

use crate::engine::Place;
use crate::support::Answer;

/// From a file to a server, from one server to the other, and back.
fn each(check: fn(&Place, &Place)) {
    check(Place::sqlite().set_up(), &Place::postgres());
    check(Place::redis().set_up(), &Place::postgres());
    check(Place::postgres().set_up(), &Place::mariadb());
    check(Place::mariadb().set_up(), &Place::redis());
    #[cfg(feature = "etcd")]
    {
        check(Place::etcd().set_up(), &Place::postgres());
        check(Place::redis().set_up(), &Place::etcd());
    }
}

fn moving(from: &Place, to: &Place, more: &[&str]) -> Answer {
    let words = ["migrate", "--json", "--from", from.url(), "--to", to.url()];
    Answer::of(&mut from.command(words.iter().chain(more)))
}

#[track_caller]
fn moved(from: &Place, to: &Place, more: &[&str]) -> Value {
    let answer = moving(from, to, more);
    assert_eq!(answer.code, Some(0), "{answer:?}");
    answer.json()
}

#[test]
fn tokens_are_above_all_that_the_old_store_issued_and_it_issues_no_more() {
    each(|old, new| {
        // Far above the clock, by which the new store would begin.
        let ahead = old.acquire("r --ttl 1h").token() + (1 << 44);
        let open = old.lease(&format!("epoch open --yes --now --above {ahead}"));
        assert_eq!(open.code, Some(0), "{open:?}");
        let last = old.acquire("r --ttl 1h");
        assert!(last.token() > ahead);
        old.lease(&format!("release r {}", last.options())).ok();
        // Only the floor still knows of it.
        assert_eq!(old.json("prune --older-than 0 --yes")["resources"], 1);
        let answer = moved(old, new, &["--yes"]);
        assert_eq!(
            (&answer["outcome"], &answer["epoch"]),
            (&"moved".into(), &new.json("epoch show")["epoch"])
        );
        assert!(new.acquire("r --ttl 1h").token() > last.token());
        assert!(new.acquire("never-seen --ttl 1h").token() > last.token());
        old.lease("acquire s --ttl 1h").fails(69, &["nothing was changed", "lease epoch open --now"]);
    });
}

#[test]
fn a_lease_that_is_held_keeps_all_as_it_is() {
    each(|old, new| {
        let held = old.acquire("r --ttl 1h --label backup@db1");
        moving(old, new, &["--yes"]).fails(75, &["nothing was moved", "held by backup@db1", "--end-leases"]);
        assert_eq!(old.lease("epoch show").ok().out, format!("{}\n", held.epoch));
        old.lease(&format!("renew r --ttl 1h {}", held.options())).ok();
        assert_eq!(new.json("ls")["resources"].as_array().unwrap().len(), 0);
        // Nor one in the new store: who works under it must not be ended by a move.
        old.lease(&format!("release r {}", held.options())).ok();
        let working = new.acquire("s --ttl 1h --label report@db2");
        moving(old, new, &["--yes"]).fails(75, &["nothing was moved", "the new store", "report@db2"]);
        new.lease(&format!("renew s --ttl 1h {}", working.options())).ok();
    });
}

#[test]
fn leases_that_are_ended_are_waited_for() {
    const TERM: Duration = Duration::from_secs(4);
    each(|old, new| {
        let begun = Instant::now();
        let held = old.acquire("r --ttl 4s");
        let answer = moving(old, new, &["--yes", "--end-leases"]);
        assert!(begun.elapsed() >= TERM, "the holder may be at work for {:?} more", TERM - begun.elapsed());
        assert_eq!(answer.code, Some(0), "{answer:?}");
        assert!(answer.err.contains("waiting for the end"), "{answer:?}");
        old.lease(&format!("renew r --ttl 1h {}", held.options())).fails(79, &[&held.epoch]);
        assert!(new.acquire("r --ttl 1h").token() > held.token());
    });
}

#[test]
fn slots_of_pools_are_seen_in_both_stores_and_waited_for() {
    const TERM: Duration = Duration::from_secs(8);
    each(|old, new| {
        let held = old.json("id acquire ids --ttl 8s --label app@web1");
        let begun = Instant::now();
        moving(old, new, &["--yes"]).fails(75, &["in the old store ids#0 is held by app@web1"]);
        new.json("id acquire others --ttl 2s --label report@db2");
        let refused = moving(old, new, &["--yes", "--end-leases"]);
        refused.fails(75, &["nothing was moved", "in the new store others#0 is held by report@db2"]);
        std::thread::sleep(Duration::from_millis(2_500));
        let answer = moving(old, new, &["--yes", "--end-leases"]);
        // From a moment on that lies behind the grant.
        let waited = begun.elapsed() + Duration::from_millis(500);
        assert!(waited >= TERM, "the holder may be at work for {:?} more", TERM - waited);
        assert_eq!(answer.code, Some(0), "{answer:?}");
        let floor: u64 = answer.json()["floor"].as_str().unwrap().parse().unwrap();
        assert!(floor >= held["token"].as_str().unwrap().parse().unwrap(), "{held}, {answer:?}");
    });
}

#[test]
fn what_was_done_once_is_not_done_again() {
    each(|old, new| {
        let run = |place: &Place, key| {
            Answer::of(&mut place.command(["run", "--once", key, "r", "--", "echo", "ran"]))
        };
        assert_eq!(run(old, "today").ok().out, "ran\n");
        old.acquire("s --ttl 2s");
        let answer = moved(old, new, &["--yes", "--end-leases"]);
        assert_eq!(answer["once_keys"], 1);
        let again = run(new, "today");
        assert_eq!((again.code, again.out.as_str()), (Some(0), ""), "{again:?}");
        assert_eq!(run(new, "tomorrow").ok().out, "ran\n");
    });
}

#[test]
fn a_move_that_would_be_none_is_refused() {
    let (old, new) = (Place::redis(), Place::postgres());
    old.set_up();
    moving(&old, &old, &["--yes"]).fails(78, &["they are one"]);
    moving(&old, &new, &[]).fails(64, &["--yes"]);
    moving(&new, &old, &["--yes"]).fails(78, &["lease migrate"]);
    old.lease(&format!("migrate --from {}", old.url())).fails(64, &["--to"]);
    old.lease(&format!("migrate --print --from {} --to {}", old.url(), new.url())).fails(64, &["--print"]);
}
