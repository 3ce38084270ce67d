//! `lease migrate --from --to` and the slots of pools. Leases, and other engines: `tests/servers/moving.rs`.

use std::time::{Duration, Instant};

use serde_json::Value;

use crate::support::{Answer, World};

/// The URL of a file beside the old one.
fn new_of(old: &World) -> String {
    format!("sqlite:{}", old.path("new.db").display())
}

/// Moves from the store of this world to another.
fn moving(old: &World, to: &str, more: &str) -> Answer {
    old.lease(&format!("migrate --yes --from {} --to {to}{more}", old.url()))
}

fn token(taken: &Value) -> u64 {
    taken["token"].as_str().unwrap().parse().unwrap()
}

#[test]
fn a_slot_that_is_held_in_the_new_store_is_left_alone() {
    let old = World::set_up();
    let new = new_of(&old);
    old.lease(&format!("migrate --store {new}")).ok();
    let working = old.json(&format!("id acquire ids --ttl 1h --label report@db2 --store {new}"));
    let closed = ["nothing was moved", "in the new store ids#0 is held by report@db2"];
    moving(&old, &new, " --end-leases").fails(75, &closed);
    let pool = old.json(&format!("id ls ids --held --store {new}"));
    assert_eq!(pool["slots"][0]["holder"]["token"], working["token"], "{pool}");
    // The old store was not closed for it either.
    old.acquire("r --ttl 1h");
}

#[test]
fn a_slot_that_is_held_in_the_old_store_keeps_all_as_it_is() {
    let old = World::set_up();
    let new = new_of(&old);
    old.json("id acquire ids --ttl 1h --label app@web1");
    let held = ["nothing was moved", "in the old store ids#0 is held by app@web1", "--end-leases"];
    moving(&old, &new, "").fails(75, &held);
    // Who held a slot that was revoked may not have heard of it.
    assert_eq!(old.lease("id revoke ids 0 --yes").code, Some(0));
    moving(&old, &new, "").fails(75, &["nothing was moved", "ids#0 is closed for 59m", "after a revoke"]);
    old.acquire("r --ttl 1h");
}

#[test]
fn slots_that_are_ended_are_waited_for() {
    const TERM: Duration = Duration::from_secs(3);
    let old = World::set_up();
    let new = new_of(&old);
    // Far above the clock, by which the new store would begin. An epoch that is opened with a short longest ttl grants machine
    // IDs soon.
    let ahead = old.acquire("r --ttl 1h").token() + (1 << 44);
    let opened =
        old.lease(&format!("epoch open --yes --now --above {ahead} --store {}?max_ttl=1s", old.url()));
    assert_eq!(opened.code, Some(0), "{opened:?}");
    let begun = Instant::now();
    let held = old.json("id acquire ids --ttl 3s");
    assert!(token(&held) > ahead, "{held}");
    let answer = moving(&old, &new, " --end-leases");
    assert!(begun.elapsed() >= TERM, "the holder may be at work for {:?} more", TERM - begun.elapsed());
    assert_eq!(answer.code, Some(0), "{answer:?}");
    assert!(answer.err.contains("waiting for the end") && answer.err.contains("1 held"), "{answer:?}");
    // Shorter ones are granted once their ID time ends beyond all that the old store can have reserved.
    let next = old.json(&format!("id acquire ids --ttl 24h --store {new}"));
    assert_eq!(next["machine_id"], held["machine_id"]);
    assert!(token(&next) > token(&held), "{next} after {held}");
    old.lease("id acquire ids --ttl 24h").fails(69, &["nothing was changed"]);
}

#[test]
fn id_time_beyond_the_longest_ttl_of_the_new_store_is_not_given_out_again() {
    let old = World::set_up();
    let new = new_of(&old);
    let short = format!("{new}?max_ttl=1h");
    let taken = old.lease("id acquire ids --ttl 2h").ok();
    let options = taken.out.trim();
    let script = r#"eval "export $1" && exec "$2" id release ids"#;
    let mut shell = std::process::Command::new("/bin/sh");
    shell.args(["-c", script, "sh", options, env!("CARGO_BIN_EXE_lease")]);
    Answer::of(shell.env_clear().env("LEASE_STORE", old.url())).ok();
    let found = ["nothing was moved", "the old store has pools, ids among them", "1d ahead", "lies 1h ahead"];
    let refused = moving(&old, &short, "").fails(78, &found);
    // It says what would do.
    let wanted = refused.err.split_whitespace().find(|word| word.starts_with("max_ttl=")).unwrap();
    let moved = moving(&old, &format!("{new}?{wanted}"), "");
    assert_eq!(moved.code, Some(0), "{moved:?}");
    // Where no stamp was ever given out, a shorter ttl is nobody's harm.
    let other = World::set_up();
    let moved = moving(&other, &format!("{}?max_ttl=1h", new_of(&other)), "");
    assert_eq!(moved.code, Some(0), "{moved:?}");
}
