//! Every command on a server's store, from its setting up on: what it prints and what it exits with.

use std::fs;

use crate::engine::{Place, on_each_engine};
use crate::support::{Answer, Grant};

on_each_engine! {
    migrate_sets_up_once_and_prints_what_it_would_do
    a_lease_from_its_grant_to_its_release
    another_is_told_who_holds_it
    a_wait_ends_with_the_lease_that_it_waited_for
    check_answers_with_its_exit_code
    the_history_has_every_hold
    revoke_breaks_one_lease_and_burns_a_token
    a_pruned_resource_comes_back_with_a_greater_token
    a_new_epoch_ends_every_lease
    a_mark_is_raised_shown_and_reset
    marks_that_are_forgotten_go_on_refusing
    doctor_looks_at_the_server
    a_run_holds_the_lease_and_says_what_it_does
    once_is_once
}

fn migrate_sets_up_once_and_prints_what_it_would_do(place: &Place) {
    let printed = place.lease("migrate --print").ok().out;
    let expected = match place.url().split_once(':') {
        Some(("redis", _)) => ["ACL SETUSER", "+eval"],
        Some(("etcd", _)) => ["etcdctl role add", "grant-permission --prefix=true"],
        _ => ["CREATE TABLE", "GRANT "],
    };
    for word in expected {
        assert!(printed.to_lowercase().contains(&word.to_lowercase()), "no {word:?} in {printed}");
    }
    assert_eq!(place.json("migrate --print")["sql"].as_str().unwrap().trim(), printed.trim());
    // Printing opens nothing, and nothing but migrate sets up.
    for words in
        ["ls", "acquire r --ttl 1m", "run r -- true", "epoch show", "doctor", "prune --older-than 1d"]
    {
        place.lease(words).fails(78, &["lease migrate"]);
    }
    assert_eq!(place.json("migrate")["outcome"], "set_up");
    let epoch = place.json("epoch show")["epoch"].clone();
    assert_eq!(place.json("migrate")["outcome"], "up_to_date");
    assert_eq!(place.json("epoch show")["epoch"], epoch);
}

fn a_lease_from_its_grant_to_its_release(place: &Place) {
    place.set_up();
    assert_eq!(place.lease("ls").ok().out, "this store knows no resource\n");
    assert_eq!(place.json("show r")["state"], "unseen");
    let first = place.acquire("r --ttl 1h --label backup@db1");
    assert_eq!(place.lease("epoch show").ok().out, format!("{}\n", first.epoch));
    let shown = place.json("show r");
    assert_eq!(
        (shown["state"].as_str(), shown["holder"]["label"].as_str()),
        (Some("held"), Some("backup@db1"))
    );
    assert_eq!(shown["holder"]["token"], first.token);
    let renewed = place.json(&format!("renew r --ttl 2h {}", first.options()));
    assert_eq!(
        (renewed["outcome"].as_str(), renewed["token"].as_str()),
        (Some("renewed"), Some(&*first.token))
    );
    assert!(renewed["ttl_ms"].as_u64().unwrap() > 3_600_000);
    let released = place.json(&format!("release r --result good {}", first.options()));
    assert_eq!(released["outcome"], "released");
    let again = place.lease(&format!("release r {} --json", first.options()));
    assert_eq!(again.json()["outcome"], "already_released");
    place.lease(&format!("renew r --ttl 1h {}", first.options())).fails(79, &["r was not renewed"]);
    assert_eq!(place.json("show r")["last_good"]["token"], first.token);
    let second = place.acquire("r --ttl 1h");
    assert!(second.token() > first.token());
    place.acquire("s --ttl 1h");
    let listed = place.json("ls");
    let names: Vec<_> = listed["resources"].as_array().unwrap().iter().map(|one| &one["resource"]).collect();
    assert_eq!(names, ["r", "s"]);
    assert_eq!(place.json("ls s")["resources"].as_array().unwrap().len(), 1);
    place.lease("acquire r --ttl 25h").fails(64, &["25h", "24h"]);
}

fn another_is_told_who_holds_it(place: &Place) {
    let grant = place.set_up().acquire("r --ttl 1h --label backup@db1");
    let refused = place.lease("acquire r --ttl 1m --json");
    assert_eq!(refused.json()["holder"]["token"], grant.token);
    refused.fails(75, &["r was not granted", "held by backup@db1", &grant.token]);
    place.lease("run -n r -- true").fails(75, &["r: held by backup@db1"]);
    place.lease("run --skip-if-held r -- false").ok();
    // A token that was mistyped is not shown to the store, which would take it for a lost history.
    let options = format!("--owner {} --token {} --epoch {}", grant.owner, grant.token() + 1, grant.epoch);
    place.lease(&format!("renew r --ttl 1h {options}")).fails(79, &["does not know token"]);
    assert_eq!(place.json("show r")["holder"]["token"], grant.token);
}

fn a_wait_ends_with_the_lease_that_it_waited_for(place: &Place) {
    let short = place.set_up().acquire("r --ttl 300ms");
    let next = place.lease("acquire r --ttl 1h --wait 1m");
    assert!(Grant::of(&next).token() > short.token());
    place.lease("acquire r --ttl 1h --wait 100ms").fails(75, &["r was not granted"]);
}

fn check_answers_with_its_exit_code(place: &Place) {
    place.set_up().lease("check r").fails(1, &[]);
    let grant = place.acquire("r --ttl 1h");
    place.lease("check r").ok();
    let json = place.lease("check r --held-max 0 --json").json();
    assert_eq!((json["ok"].as_bool(), json["problems"][0].as_str()), (Some(false), Some("held_too_long")));
    place.lease(&format!("release r --result good {}", grant.options())).ok();
    place.lease("check r --held-max 0 --idle-max 1h").ok();
}

fn the_history_has_every_hold(place: &Place) {
    let first = place.set_up().acquire("r --ttl 1h --label one");
    place.lease(&format!("renew r --ttl 1h {}", first.options())).ok();
    place.lease(&format!("release r --result failed {}", first.options())).ok();
    let second = place.acquire("r --ttl 1h --label two");
    let json = place.json("history r");
    let holds = json["holds"].as_array().unwrap();
    let of = |at: usize| (holds[at]["outcome"].as_str().unwrap(), holds[at]["label"].as_str().unwrap());
    assert_eq!((of(0), of(1)), (("held", "two"), ("released", "one")));
    assert_eq!(
        (holds[0]["token"].as_str(), holds[1]["token"].as_str()),
        (Some(&*second.token), Some(&*first.token))
    );
    assert_eq!((holds[1]["result"].as_str(), holds[1]["renewals"].as_u64()), (Some("failed"), Some(1)));
    assert_eq!(place.json("history r --limit 1")["holds"].as_array().unwrap().len(), 1);
}

fn revoke_breaks_one_lease_and_burns_a_token(place: &Place) {
    place.set_up().lease("revoke r --yes").fails(1, &["nothing was broken on r"]);
    let grant = place.acquire("r --ttl 1h --label backup@db1");
    place.lease("revoke r --yes --token 1").fails(1, &["nothing was broken", &grant.token]);
    let answer = place.lease("revoke r --yes --reason hung --json");
    let json = answer.json();
    assert_eq!((answer.code, json["outcome"].as_str()), (Some(0), Some("revoked")));
    let burnt: u64 = json["burnt_token"].as_str().unwrap().parse().unwrap();
    assert!(burnt > grant.token());
    place.lease(&format!("renew r --ttl 1h {}", grant.options())).fails(79, &["r was not renewed"]);
    assert_eq!(place.json("history r")["holds"][0]["reason"], "hung");
    assert!(place.acquire("r --ttl 1h").token() > burnt);
}

fn a_pruned_resource_comes_back_with_a_greater_token(place: &Place) {
    place.set_up();
    // Also where nothing was ever forgotten, the floor of the epoch is told.
    assert_eq!(place.lease("epoch open --yes --now").code, Some(0));
    let before = place.json("prune --older-than 1h")["floor"].as_str().unwrap().parse::<u64>().unwrap();
    let grant = place.acquire("r --ttl 1h");
    assert!(before > 0 && before < grant.token());
    let kept = place.acquire("kept --ttl 1h");
    place.lease(&format!("release r {}", grant.options())).ok();
    assert_eq!(place.json("prune --older-than 1h")["resources"], 0);
    let json = place.json("prune --older-than 0 --yes");
    assert_eq!(json["resources"], 1);
    assert!(json["floor"].as_str().unwrap().parse::<u64>().unwrap() >= grant.token());
    assert_eq!(place.json("show r")["state"], "unseen");
    assert_eq!(place.json("show kept")["holder"]["token"], kept.token);
    assert!(place.acquire("r --ttl 1h").token() > grant.token());
}

fn a_new_epoch_ends_every_lease(place: &Place) {
    let grant = place.set_up().acquire("r --ttl 1h");
    place.lease("epoch open --yes --instead-of 00000000000000ff").fails(1, &[&grant.epoch]);
    assert_eq!(place.lease("epoch open --yes").code, Some(0));
    place.lease("acquire s --ttl 1h").fails(69, &["lease epoch open --now"]);
    let above = grant.token() + (1 << 40);
    let answer = place.lease(&format!("epoch open --yes --now --json --above {above}"));
    let epoch = answer.json()["epoch"].as_str().unwrap().to_owned();
    assert_ne!(epoch, grant.epoch);
    place.lease(&format!("renew r --ttl 1h {}", grant.options())).fails(79, &[&grant.epoch, &epoch]);
    assert!(place.acquire("r --ttl 1h").token() > above);
}

fn a_mark_is_raised_shown_and_reset(place: &Place) {
    let first = place.set_up().acquire("r --ttl 1h");
    place.lease(&format!("release r {}", first.options())).ok();
    let second = place.acquire("r --ttl 1h");
    place.lease(&format!("fence advance r {}", second.options())).ok();
    place
        .lease(&format!("fence advance r {}", first.options()))
        .fails(79, &["was not raised", &second.token]);
    assert_eq!(place.json("fence check r")["mark"]["token"], second.token);
    place.lease(&format!("fence check r --token {}", first.token)).fails(1, &[]);
    place.lease(&format!("fence check r --token {} --owner {}", second.token, second.owner)).ok();
    let words = ["fence", "reset", "r", "--yes", "--reason", "a test", "--to", &first.token];
    Answer::of(&mut place.command(words)).ok();
    place.lease(&format!("fence check r --token {}", first.token)).ok();
}

fn marks_that_are_forgotten_go_on_refusing(place: &Place) {
    let prune = "fence prune --yes --older-than";
    let can = !["redis:", "etcd:"].iter().any(|engine| place.url().starts_with(engine));
    if can {
        assert_eq!(place.lease(&format!("{prune} 0")).ok().out, "forgot 0 marks\n", "nobody has set them up");
    }
    let first = place.set_up().acquire("r --ttl 1h");
    place.lease(&format!("release r {}", first.options())).ok();
    let second = place.acquire("r --ttl 1h");
    place.lease(&format!("fence advance r {}", second.options())).ok();
    if can {
        assert_eq!(place.json(&format!("{prune} 1h"))["marks"], 0);
        assert_eq!(place.json(&format!("{prune} 0"))["marks"], 1);
        assert!(place.json("fence check r")["mark"].is_null());
    } else {
        place.lease(&format!("{prune} 0")).fails(78, &["marks cannot be pruned"]);
        assert_eq!(place.json("fence check r")["mark"]["token"], second.token);
    }
    let stale = place.lease(&format!("fence advance r {}", first.options()));
    stale.fails(79, &["was not raised", &second.token]);
    place.lease(&format!("fence advance r {}", second.options())).ok();
}

fn doctor_looks_at_the_server(place: &Place) {
    let answer = place.set_up().lease("doctor --json");
    let json = answer.json();
    let all = json["findings"].as_array().unwrap();
    let errors: Vec<_> =
        all.iter().filter(|one| one["severity"] == "error").map(|one| &one["check"]).collect();
    // The tests' own server does not wait for the disk, and that is found.
    let found: &[&str] =
        if place.url().starts_with("mariadb") { &["innodb_flush_log_at_trx_commit"] } else { &[] };
    assert_eq!(errors, found, "{json}");
    assert_eq!((answer.code, &json["ok"]), (Some(i32::from(!found.is_empty())), &found.is_empty().into()));
    let checks: Vec<&str> = all.iter().map(|one| one["check"].as_str().unwrap()).collect();
    let own: &[&str] = match place.url().split_once(':') {
        Some(("redis", _)) => &["server", "durability", "eviction", "replicas", "memory", "clock"],
        Some(("etcd", _)) => &["version", "epoch", "space", "members", "alarms", "transport"],
        Some(("mariadb", _)) => &[
            "version",
            "innodb_flush_log_at_trx_commit",
            "innodb_doublewrite",
            "read_only",
            "clock",
            "epoch",
        ],
        _ => &["version", "fsync", "full_page_writes", "failover", "isolation", "clock", "epoch"],
    };
    for check in own.iter().chain(&["program", "store", "latency"]) {
        assert!(checks.contains(check), "no {check:?} in {checks:?}");
    }
}

fn a_run_holds_the_lease_and_says_what_it_does(place: &Place) {
    place.set_up();
    let lease = env!("CARGO_BIN_EXE_lease");
    let events = place.path("events");
    let mut run =
        place.command(["run", "--ttl", "30s", "--events", events.to_str().unwrap(), "--fence", place.url()]);
    let script = format!("{lease} show --mine --json && {lease} fence check r && exit 7");
    let answer = Answer::of(run.args(["r", "--", "sh", "-c", &script]));
    assert_eq!(answer.code, Some(7), "{answer:?}");
    let mine: serde_json::Value = serde_json::from_str(answer.out.lines().next().unwrap()).unwrap();
    assert_eq!(
        (mine["state"].as_str(), place.json("show r")["state"].as_str()),
        (Some("held"), Some("released"))
    );
    assert!(answer.out.contains("ok: the mark of r is token"), "{answer:?}");
    let lines = fs::read_to_string(events).unwrap();
    let names: Vec<String> = lines
        .lines()
        .map(|line| {
            serde_json::from_str::<serde_json::Value>(line).unwrap()["event"].as_str().unwrap().to_owned()
        })
        .collect();
    for event in ["granted", "started", "ended", "released"] {
        assert!(names.iter().any(|name| name == event), "no {event:?} in {names:?}");
    }
    assert_eq!(place.json("history r")["holds"][0]["result"], "failed");
}

fn once_is_once(place: &Place) {
    place.set_up();
    let run = || Answer::of(&mut place.command(["run", "--once", "today", "r", "--", "echo", "ran"]));
    assert_eq!(run().ok().out, "ran\n");
    let second = run();
    assert_eq!((second.code, second.out.as_str()), (Some(0), ""), "{second:?}");
    assert_eq!(place.json("show r")["last_good"]["once"], "today");
}
