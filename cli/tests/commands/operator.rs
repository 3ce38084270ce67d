//! `revoke`, `prune`, `epoch`, `doctor` and `migrate`.

use std::fs;

use rusqlite::Connection;

use crate::support::{Answer, World};
use crate::terminal::Terminal;

#[test]
fn revoke_names_what_it_breaks_and_what_may_follow() {
    let world = World::new();
    let grant = world.acquire("r --ttl 1h --label backup@db1");
    let answer = world.lease("revoke r --yes --reason hung");
    assert_eq!(answer.code, Some(0), "{answer:?}");
    for word in ["backup@db1", "r", &grant.token, &(grant.token() + 1).to_string()] {
        assert!(answer.out.contains(word), "no {word:?} in {answer:?}");
    }
    assert!(answer.err.contains("may run on until its holder notices"), "{answer:?}");
    let next = world.acquire("r --ttl 1h");
    assert!(next.token() > grant.token() + 1, "the token between is burnt");
}

#[test]
fn break_is_another_name_for_it() {
    let world = World::new();
    let grant = world.acquire("r --ttl 1h");
    let answer = world.lease("break r --yes --json");
    let json = answer.json();
    assert_eq!((json["outcome"].as_str(), json["token"].as_str()), (Some("revoked"), Some(&*grant.token)));
    assert_eq!(json["burnt_token"], (grant.token() + 1).to_string());
}

#[test]
fn nobody_is_broken_by_mistake() {
    let world = World::set_up();
    world.lease("revoke r --yes").fails(1, &["nothing was broken on r", "nobody holds"]);
    let grant = world.acquire("r --ttl 1h --label backup@db1");
    world.lease("revoke r").fails(64, &["--yes"]);
    world.lease("revoke r --yes --token 1").fails(1, &["nothing was broken", "backup@db1", &grant.token]);
    assert_eq!(world.json("show r")["holder"]["token"], grant.token);
    world.lease(&format!("release r {}", grant.options())).ok();
    world.lease("revoke r --yes").fails(1, &["was released"]);
}

#[test]
fn revoke_asks_on_a_terminal() {
    let world = World::new();
    let grant = world.acquire("r --ttl 1h --label backup@db1");
    let mut terminal = Terminal::spawn(world.command(["revoke", "r"]));
    terminal.expect("r is held by backup@db1");
    terminal.expect("[y/N]");
    terminal.say("\n");
    assert_eq!(terminal.end(), Some(1));
    assert_eq!(world.json("show r")["holder"]["token"], grant.token);
    let mut terminal = Terminal::spawn(world.command(["revoke", "r"]));
    terminal.expect("[y/N]");
    terminal.say("yes\n");
    terminal.expect("broke the lease of backup@db1");
    assert_eq!(terminal.end(), Some(0));
    assert_eq!(world.json("show r")["state"], "revoked");
}

#[test]
fn who_comes_between_question_and_answer_is_left_alone() {
    let world = World::new();
    let grant = world.acquire("r --ttl 1h --label first");
    let mut terminal = Terminal::spawn(world.command(["revoke", "r"]));
    terminal.expect("[y/N]");
    world.lease(&format!("release r {}", grant.options())).ok();
    let next = world.acquire("r --ttl 1h --label second");
    terminal.say("y\n");
    terminal.expect("nothing was broken on r");
    assert_eq!(terminal.end(), Some(1));
    assert_eq!(world.json("show r")["holder"]["token"], next.token);
}

#[test]
fn a_pruned_resource_comes_back_with_a_greater_token() {
    let world = World::new();
    let grant = world.acquire("r --ttl 1h");
    let kept = world.acquire("kept --ttl 1h");
    world.lease(&format!("release r {}", grant.options())).ok();
    assert_eq!(world.lease("prune --older-than 1h").ok().out, "forgot 0 resources and 0 rows of history\n");
    let json = world.json("prune --older-than 0 --yes");
    assert_eq!(json["resources"], 1);
    assert!(json["floor"].as_str().unwrap().parse::<u64>().unwrap() >= grant.token());
    assert_eq!(world.json("show kept")["holder"]["token"], kept.token);
    assert!(world.acquire("r --ttl 1h").token() > grant.token());
    assert!(world.lease("prune --older-than 1d").ok().out.starts_with("forgot 0 resources and 0 rows"));
    world.lease("prune").fails(64, &["--older-than"]);
    world.lease("prune --older-than 0").fails(64, &["--yes"]);
}

#[test]
fn a_new_epoch_ends_every_lease() {
    let world = World::new();
    let grant = world.acquire("r --ttl 1h");
    assert_eq!(world.lease("epoch show").ok().out, format!("{}\n", grant.epoch));
    world.lease("epoch open").fails(64, &["--yes"]);
    world
        .lease("epoch open --yes --instead-of 00000000000000ff")
        .fails(1, &["00000000000000ff", &grant.epoch]);
    let answer = world.lease("epoch open --yes --now --json");
    let epoch = answer.json()["epoch"].as_str().unwrap().to_owned();
    assert!(epoch != grant.epoch && answer.err.contains("is lost"), "{answer:?}");
    assert_eq!(world.json("epoch show")["epoch"], epoch);
    world.lease(&format!("renew r --ttl 1h {}", grant.options())).fails(79, &[&grant.epoch, &epoch]);
    assert!(world.acquire("r --ttl 1h").token() > grant.token());
}

#[test]
fn without_now_a_new_epoch_grants_nothing_at_first() {
    let world = World::new();
    world.acquire("r --ttl 1h");
    let mut terminal = Terminal::spawn(world.command(["epoch", "open", "--above", "9000000000000000000"]));
    terminal.expect("after the longest ttl has passed: in 1d, or by");
    terminal.expect("[y/N]");
    terminal.say("y\n");
    assert_eq!(terminal.end(), Some(0));
    world
        .lease("acquire s --ttl 1h")
        .fails(69, &["nothing was changed", "lease epoch open --now", "another 2"]);
    let doctor = world.lease("doctor").ok().out;
    assert!(doctor.starts_with("warning") && doctor.contains("nothing is granted for another 2"), "{doctor}");
    assert!(doctor.contains("lease epoch open --now"), "{doctor}");
    assert_eq!(world.lease("epoch open --yes --now").code, Some(0));
    assert!(world.acquire("s --ttl 1h").token() > 9_000_000_000_000_000_000);
}

#[test]
fn doctor_says_what_is_wrong_and_how_to_mend_it() {
    let world = World::set_up();
    let json = world.json("doctor");
    assert_eq!(json["ok"], true);
    let checks: Vec<&str> = json["findings"]
        .as_array()
        .unwrap()
        .iter()
        .map(|finding| finding["check"].as_str().unwrap())
        .collect();
    for check in ["program", "store", "schema", "durability", "latency", "epoch"] {
        assert!(checks.contains(&check), "no {check:?} in {checks:?}");
    }
    // Damage in a part of the file that no decision on this resource reads.
    let connection = Connection::open(world.path("leases.db")).unwrap();
    let columns = "name, token, owner, granted_at, renewed_at, renewals, ends_at, outcome, result";
    connection
        .execute_batch(&format!(
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20000)
             INSERT INTO lease_history ({columns}) SELECT 'other', i, 1, 1, 1, 0, 1, 1, 0 FROM n;
             PRAGMA wal_checkpoint(TRUNCATE);"
        ))
        .unwrap();
    drop(connection);
    let mut bytes = fs::read(world.path("leases.db")).unwrap();
    let middle = bytes.len() / 2 / 4096 * 4096;
    bytes[middle..middle + 4096].fill(0xa5);
    fs::write(world.path("leases.db"), bytes).unwrap();
    let answer = world.lease("doctor");
    assert_eq!(answer.code, Some(1), "{answer:?}");
    assert!(
        answer.out.starts_with("error    integrity") && answer.out.contains("mend: put a backup back"),
        "{answer:?}"
    );
    assert_eq!(world.lease("doctor --json").json()["ok"], false);
}

#[test]
fn doctor_warns_where_no_store_was_named() {
    let world = World::new();
    let mut command = world.bare(["migrate", "--store", "local"]);
    Answer::of(command.env("HOME", world.path("home"))).ok();
    let mut command = world.bare(["doctor"]);
    let answer = Answer::of(command.env("HOME", world.path("home")));
    assert_eq!(answer.code, Some(0));
    assert!(answer.out.starts_with("warning  store") && answer.out.contains("mend: name one"), "{answer:?}");
}

#[test]
fn migrate_sets_up_once_and_prints_what_it_would_do() {
    let world = World::new();
    let printed = world.lease("migrate --print").ok().out;
    assert!(printed.contains("CREATE TABLE"), "{printed}");
    assert!(!world.path("leases.db").exists(), "printing opens nothing");
    let in_memory = Connection::open_in_memory().unwrap();
    in_memory.execute_batch(&printed).unwrap();
    assert_eq!(world.json("migrate")["outcome"], "set_up");
    assert_eq!(world.json("migrate")["outcome"], "up_to_date");
    assert_eq!(world.json("migrate --print")["sql"].as_str().unwrap().trim(), printed.trim());
}

#[test]
fn a_store_that_lost_its_tables_is_set_up_by_migrate_alone() {
    let world = World::new();
    let old = world.acquire("r --ttl 1h");
    let connection = Connection::open(world.path("leases.db")).unwrap();
    let tables: Vec<String> = connection
        .prepare("SELECT name FROM sqlite_master WHERE type = 'table' AND name LIKE 'lease_%'")
        .unwrap()
        .query_map([], |row| row.get(0))
        .unwrap()
        .collect::<Result<_, _>>()
        .unwrap();
    assert!(tables.len() > 2, "{tables:?}");
    for table in tables {
        connection.execute_batch(&format!("DROP TABLE {table}")).unwrap();
    }
    drop(connection);
    world.lease("acquire r --ttl 1h").fails(78, &["leases.db", "migrate"]);
    assert_eq!(world.json("migrate")["outcome"], "set_up");
    let epoch = world.json("epoch show")["epoch"].as_str().unwrap().to_owned();
    assert_ne!(epoch, old.epoch);
    world.lease(&format!("renew r --ttl 1h {}", old.options())).fails(79, &[&old.epoch, &epoch]);
    assert!(fs::metadata(world.path("leases.db")).is_ok());
}
