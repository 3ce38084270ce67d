//! `lease id` on a server's pool: what it prints and what it exits with.

use std::collections::BTreeSet;
use std::fs;
use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use crate::engine::{Place, on_each_engine};
use crate::servers::mysql;
use crate::servers::postgres::Server;
use crate::servers::redis::{DURABLE, RedisServer};
use crate::support::Answer;

const PATIENCE: Duration = Duration::from_secs(60);

on_each_engine! {
    a_machine_id_is_taken_listed_broken_and_given_back
    ids_are_made_taken_apart_and_traced_to_their_maker
    a_command_runs_under_a_machine_id_and_gives_it_back
}

/// The value of a word of what `lease id acquire` printed.
fn value<'a>(answer: &'a Answer, name: &str) -> &'a str {
    let found = answer.out.split_whitespace().find_map(|word| word.strip_prefix(name)?.strip_prefix('='));
    found.unwrap_or_else(|| panic!("no {name} in {answer:?}"))
}

/// What gives it back, with this added to its token.
fn release(taken: &Answer, ahead: u64) -> String {
    let token: u64 = value(taken, "MACHINE_ID_TOKEN").parse().unwrap();
    format!(
        "id release ids --machine-id {} --owner {} --token {} --epoch {}",
        value(taken, "MACHINE_ID"),
        value(taken, "MACHINE_ID_OWNER"),
        token + ahead,
        value(taken, "MACHINE_ID_EPOCH"),
    )
}

fn a_machine_id_is_taken_listed_broken_and_given_back(place: &Place) {
    assert_eq!(place.set_up().lease("id ls ids").ok().out, "this store knows no pool ids\n");
    let first = place.lease("id acquire ids --ttl 1h --size 2 --label me").ok();
    let second = place.lease("id acquire ids --ttl 1h --size 2 --identity web-1").ok();
    assert_eq!((value(&first, "MACHINE_ID"), value(&second, "MACHINE_ID")), ("0", "1"));
    place.lease("id acquire ids --ttl 1h --size 2").fails(75, &["every slot is held", "may come free in"]);
    place.lease("id acquire ids --ttl 1h --size 3").fails(78, &["2"]);
    let pool = place.json("id ls ids");
    assert_eq!((pool["held"].as_u64(), pool["size"].as_u64()), (Some(2), Some(2)), "{pool}");
    let holder = &pool["slots"][1]["holder"];
    assert_eq!((&holder["identity"], &pool["slots"][0]["holder"]["label"]), (&"web-1".into(), &"me".into()));

    // A token that was mistyped is not shown to the store, which would take it for a lost history.
    for ahead in [1, 1_000_000] {
        place.lease(&release(&first, ahead)).fails(79, &["does not know token", "ids#0"]);
    }
    assert_eq!(place.json("epoch show")["epoch"], value(&first, "MACHINE_ID_EPOCH"));
    assert_eq!(place.json("id ls ids")["held"], 2);
    // What the next one is, is no secret: it is given back twice, and nothing comes of the second time.
    place.lease(&release(&first, 0)).ok();
    place.lease(&release(&first, 0)).ok();
    let broken = place.lease("id revoke ids 1 --yes --reason stuck");
    assert_eq!(broken.code, Some(0), "{broken:?}");
    place.lease(&release(&second, 0)).fails(79, &["ids#1 was not released"]);
    assert_eq!(place.json("id ls ids")["held"], 0);
    assert_eq!(place.json("history ids#1")["holds"][0]["reason"], "stuck");
}

fn ids_are_made_taken_apart_and_traced_to_their_maker(place: &Place) {
    let made = place.set_up().lease("id next orders -n 200 --identity orders-0").ok();
    let ids: Vec<u64> = made.out.lines().map(|line| line.parse().unwrap()).collect();
    assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), 200);
    assert!(ids.is_sorted());
    assert_eq!(place.json(&format!("id decode {}", ids[0]))["machine_id"], 0);
    // It is its own again, with the time that was not used.
    let more = place.lease("id next orders -n 200 --identity orders-0").ok();
    let more: Vec<u64> = more.out.lines().map(|line| line.parse().unwrap()).collect();
    assert!(more.iter().all(|id| *id > ids[199]), "{ids:?} {more:?}");
    let who = place.json(&format!("id whois orders {}", ids[0]));
    assert_eq!((&who["holds"][0]["identity"], &who["machine_id"]), (&"orders-0".into(), &0.into()));
    let nobody = place.lease("id whois orders 1");
    assert!(nobody.code == Some(1) && nobody.out.contains("does not say"), "{nobody:?}");
}

fn a_command_runs_under_a_machine_id_and_gives_it_back(place: &Place) {
    let first = place.set_up().lease("id acquire ids --ttl 1h").ok();
    let mut run = place.command(["id", "run", "ids", "--", "sh", "-c"]);
    let told = Answer::of(run.arg("echo $MACHINE_ID $MACHINE_ID_TOKEN $LEASE_TOKEN $LEASE_RESOURCE; exit 7"));
    assert_eq!(told.code, Some(7), "{told:?}");
    let words: Vec<&str> = told.out.split_whitespace().collect();
    let [id, token, lease_token, resource] = words[..] else { panic!("{told:?}") };
    assert_eq!((id, token, resource), ("1", lease_token, "ids#1"));
    assert_ne!(token, value(&first, "MACHINE_ID_TOKEN"));
    assert_eq!(place.json("id ls ids")["held"], 1);
    // No command, no ID: the time that was reserved for it is given back.
    place.lease("id run --ttl 1h ids -- /no/such/program").fails(127, &[]);
    let pool = place.json("id ls ids");
    assert_eq!(
        (&pool["held"], &pool["slots"][2]["mark"]),
        (&1.into(), &"1970-01-01T00:00:00.000Z".into()),
        "{pool}"
    );
    place.lease("id run -n --size 1 ids -- true").fails(75, &["ids: every slot is held"]);
}

/// For how long a command may run on without its store.
const TTL: Duration = Duration::from_secs(3);

/// It is renewed for as long as there is somebody to renew it, and its command ends before somebody else could have the number.
fn keeps_its_machine_id_and_loses_it_in_time(place: &Place, kill: impl FnOnce()) {
    let loop_of_stamps = "while :; do date +%s%N >>stamps; sleep 0.02; done";
    let mut run = place.command(["id", "run", "--ttl", "3s", "ids", "--", "sh", "-c", loop_of_stamps]);
    let run = run.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let begun = Instant::now();
    loop {
        let renewals = place.json("history ids#0")["holds"][0]["renewals"].as_u64();
        if renewals >= Some(3) {
            break;
        }
        assert!(begun.elapsed() < PATIENCE, "it is not renewed");
        thread::sleep(Duration::from_millis(20));
    }
    kill();
    // No renewal was sent later.
    let end = SystemTime::now() + TTL;
    let ended: Answer = run.wait_with_output().unwrap().into();
    ended.fails(79, &["ids"]);
    let stamps = fs::read_to_string(place.path("stamps")).unwrap();
    let stamps: Vec<u64> = stamps.lines().filter_map(|line| line.parse().ok()).collect();
    let last = SystemTime::UNIX_EPOCH + Duration::from_nanos(*stamps.last().unwrap());
    assert!(last < end, "the command made {last:?}, and its lease was over at {end:?}");
    let first = SystemTime::UNIX_EPOCH + Duration::from_nanos(stamps[0]);
    assert!(last.duration_since(first).unwrap() > TTL, "it went on beyond its first term");
}

#[test]
fn a_run_loses_its_machine_id_in_time_when_postgresql_is_killed() {
    let mut server = Server::start(&[]);
    let (_, url) = server.fresh();
    keeps_its_machine_id_and_loses_it_in_time(&Place::at(url), || server.kill());
}

#[test]
fn a_run_loses_its_machine_id_in_time_when_mariadb_is_killed() {
    let mut server = mysql::Server::start(mysql::Kind::MariaDb, &mysql::Server::LAX);
    let (_, url) = server.fresh();
    keeps_its_machine_id_and_loses_it_in_time(&Place::at(url), || server.kill());
}

#[test]
fn a_run_loses_its_machine_id_in_time_when_redis_is_killed() {
    let mut server = RedisServer::start(DURABLE);
    let place = Place::at(server.url("namespace=ids"));
    keeps_its_machine_id_and_loses_it_in_time(place.set_up(), || server.kill());
}
