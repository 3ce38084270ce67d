//! `lease id`.

use std::collections::BTreeSet;
use std::process::Command;

use crate::support::{Answer, World};

/// The value of a word of what `lease id acquire` printed.
fn value<'a>(answer: &'a Answer, name: &str) -> &'a str {
    let found = answer.out.split_whitespace().find_map(|word| word.strip_prefix(name)?.strip_prefix('='));
    found.unwrap_or_else(|| panic!("no {name} in {answer:?}"))
}

#[test]
fn ids_are_made_and_taken_apart() {
    let world = World::new();
    let made = world.lease("id next orders -n 500").ok();
    let ids: Vec<u64> = made.out.lines().map(|line| line.parse().unwrap()).collect();
    assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), 500);
    assert!(ids.is_sorted(), "sortable ones");
    let decoded = world.json(&format!("id decode {}", ids[0]));
    assert_eq!((decoded["machine_id"].as_u64(), decoded["bits"].as_u64()), (Some(0), Some(64)));
    for notation in ["hex", "crockford", "base62", "uuid"] {
        let text = decoded[notation].as_str().unwrap();
        assert_eq!(world.json(&format!("id decode {text} --notation {notation}")), decoded, "{notation}");
    }
    // The slot was given back, and what was not used of its time, too: the next can make IDs at once.
    assert_eq!(world.json("id ls orders")["held"], 0);
    let wide = world.lease("id next orders --bits 128 --notation uuid --kind counter").ok();
    assert_eq!(wide.out.trim().len(), 36);
    let decoded = world.json(&format!("id decode {} --bits 128", wide.out.trim()));
    assert_eq!(decoded["machine_id"], 1, "the first is cooling down");
}

#[test]
fn known_ids_of_other_makers_are_read() {
    let world = World::new();
    // https://twitter.com/Wikipedia/status/1541815603606036480, after Wikipedia's article on Snowflake IDs.
    let text = world.lease("id decode 1541815603606036480 --layout twitter").ok().out;
    assert!(text.contains("2022-06-28T16:07:40.105Z") && text.contains("machine ID  378"), "{text}");
    world.lease("id decode zz").fails(64, &["\"zz\" has 2 characters"]);
    world.lease("id decode 1 --layout 60/10/12").fails(64, &["--layout"]);
    world.lease("id decode 99999999999999999999").fails(64, &["wider"]);
}

#[test]
fn a_machine_id_is_taken_shown_and_given_back() {
    let world = World::new();
    let taken = world.lease("id acquire ids --ttl 1h --size 2 --label me").ok();
    assert_eq!(value(&taken, "MACHINE_ID"), "0");
    let other = world.json("id acquire ids --ttl 1h --size 2 --identity web-1");
    assert_eq!(other["machine_id"], 1);
    let full = world.lease("id acquire ids --ttl 1h --size 2");
    assert_eq!(full.out, "");
    full.fails(75, &["no slot of ids was granted", "every slot is held"]);
    let full = world.lease("id acquire ids --ttl 1h --size 2 --json").json();
    assert_eq!((&full["outcome"], &full["reason"]), (&"rejected".into(), &"exhausted".into()), "{full}");
    assert!(full["next_chance_ms"].as_u64() > Some(3_500_000) && full["machine_id"].is_null(), "{full}");
    world.lease("id acquire ids --ttl 1h --size 3").fails(78, &["2"]);
    let listed = world.lease("id ls ids").ok().out;
    assert!(listed.contains("me") && listed.contains("web-1"), "{listed}");
    assert!(listed.ends_with("2 of 2 slots of ids are held\n"), "{listed}");

    // As the help text says: what was printed reaches `lease id release` through the environment.
    let script = r#"eval "export $1" && exec "$2" id release ids"#;
    let mut shell = Command::new("/bin/sh");
    shell.args(["-c", script, "sh", taken.out.trim(), env!("CARGO_BIN_EXE_lease")]);
    Answer::of(shell.env_clear().env("LEASE_STORE", world.url())).ok();
    let pool = world.json("id ls ids");
    assert_eq!((pool["held"].as_u64(), pool["size"].as_u64()), (Some(1), Some(2)));
    let held = world.json("id ls ids --held");
    assert_eq!(held["slots"].as_array().unwrap().len(), 1);
    assert_eq!(held["slots"][0]["holder"]["identity"], "web-1");
    // Given back, and still cooling down for everybody who is not known by its identity.
    world.lease("id acquire ids --ttl 1h --size 2").fails(75, &["may come free in"]);
    assert_eq!(world.lease("id ls others").ok().out, "this store knows no pool others\n");
}

/// A store that is shown a token of its own epoch above its last must believe that it was put back from a backup, and ends
/// every lease. A person's slip must not.
#[test]
fn a_slip_of_the_pen_does_not_end_the_machine_ids_of_everybody() {
    let world = World::new();
    let first = world.lease("id acquire ids --ttl 1h --size 4").ok();
    let second = world.lease("id acquire ids --ttl 1h --size 4").ok();
    let lease = world.acquire("r --ttl 1h");
    let token: u64 = value(&second, "MACHINE_ID_TOKEN").parse().unwrap();
    let (owner, epoch) = (value(&second, "MACHINE_ID_OWNER"), value(&second, "MACHINE_ID_EPOCH"));
    for (pool, number, token) in [
        ("ids", 1, token + 1),
        ("ids", 1, token + 1_000_000),
        ("ids", 0, token),
        ("ids", 3, token),
        ("idz", 1, token),
    ] {
        let shown = format!("--machine-id {number} --owner {owner} --token {token} --epoch {epoch}");
        let name = format!("{pool}#{number}");
        world
            .lease(&format!("id release {pool} {shown}"))
            .fails(79, &["does not know token", &token.to_string(), &name]);
    }
    // To break one, the token has to be the one that is found.
    world
        .lease(&format!("id revoke ids 1 --yes --token {}", token + 1))
        .fails(1, &["nothing was broken on ids#1"]);
    world
        .lease(&format!("revoke r --yes --token {}", lease.token() + 1))
        .fails(1, &["nothing was broken on r"]);
    assert_eq!(world.json("epoch show")["epoch"], epoch, "and everybody's lease stands");
    assert_eq!(world.json("id ls ids")["held"], 2);
    world.lease(&format!("renew r --ttl 1h {}", lease.options())).ok();
    // What it does know it decides on. A token that is older is another's affair.
    let stale = format!("--owner {owner} --token {} --epoch {epoch}", token - 1);
    world
        .lease(&format!("id release ids --machine-id 1 {stale}"))
        .fails(79, &["the token is not the current one"]);
    for held in [&first, &second, &second] {
        let number = value(held, "MACHINE_ID");
        let (owner, token) = (value(held, "MACHINE_ID_OWNER"), value(held, "MACHINE_ID_TOKEN"));
        world
            .lease(&format!(
                "id release ids --machine-id {number} --owner {owner} --token {token} --epoch {epoch}"
            ))
            .ok();
    }
    assert_eq!(world.json("id ls ids")["held"], 0);
}

#[test]
fn a_machine_id_that_is_broken_stays_closed_for_as_long_as_it_could_be_used() {
    let world = World::new();
    let taken = world.lease("id acquire ids --ttl 1h --size 1 --label me").ok();
    let token = value(&taken, "MACHINE_ID_TOKEN");
    world.lease("id revoke ids 0").fails(64, &["--yes"]);
    world.lease("id revoke ids 0 --yes --token 1").fails(1, &["nothing was broken on ids#0", "me"]);
    world.lease("id revoke ids 1 --yes").fails(1, &["nothing was broken on ids#1"]);
    let broken = world.lease("id revoke ids 0 --yes --reason stuck");
    assert_eq!(broken.code, Some(0), "{broken:?}");
    assert!(broken.out.contains(&format!("on ids#0 under token {token}")), "{broken:?}");
    assert!(broken.err.contains("nobody else is given the machine ID"), "{broken:?}");
    assert_eq!(world.json("id ls ids")["held"], 0);
    world.lease("id acquire ids --ttl 1h --size 1").fails(75, &["may come free in"]);
    assert_eq!(world.json("history ids#0")["holds"][0]["reason"], "stuck");
    let again = world.lease("id revoke ids 0 --yes --json");
    assert_eq!((again.code, again.json()["resource"].as_str()), (Some(1), Some("ids#0")), "{again:?}");
}

#[test]
fn a_command_runs_under_a_machine_id_of_its_own() {
    let world = World::new();
    let one = world.lease("id acquire ids --ttl 1h").ok();
    assert_eq!(value(&one, "MACHINE_ID"), "0");
    let mut run = world.command(["id", "run", "ids", "--", "/bin/sh", "-c"]);
    run.arg("echo $MACHINE_ID $MACHINE_ID_TOKEN $LEASE_TOKEN $LEASE_RESOURCE");
    let told = Answer::of(&mut run).ok().out;
    let words: Vec<&str> = told.split_whitespace().collect();
    let [id, token, lease_token, resource] = words[..] else { panic!("{told}") };
    assert_eq!((id, token, resource), ("1", lease_token, "ids#1"));
    let pool = world.json("id ls ids");
    assert_eq!(pool["held"], 1, "given back: {pool}");

    let full = world.lease("id run -n --size 1 ids -- /bin/true");
    full.fails(75, &["ids: every slot is held"]);
    let skipped = world.lease("id run --skip-if-held --size 1 ids -- /bin/false");
    assert_eq!(skipped.code, Some(0), "{skipped:?}");
    world.lease("id run --once k ids -- /bin/true").fails(64, &["--once"]);
    let code = world.lease("id run ids -- /bin/sh -c exit\\ 7");
    assert_ne!(code.code, Some(0));
}

/// The mark of each slot is its own.
#[test]
fn a_slot_is_fenced_by_its_own_name() {
    let world = World::new();
    let url = world.url();
    let mut run = world.command(["id", "run", "--fence", &url, "ids", "--"]);
    run.args([env!("CARGO_BIN_EXE_lease"), "fence", "check"]);
    run.args(["ids#0"]);
    let checked = Answer::of(&mut run).ok().out;
    assert!(checked.contains("ids#0"), "{checked}");
}

#[test]
fn who_had_the_machine_id_of_an_id_is_known_from_the_history() {
    let world = World::new();
    let made = world.lease("id next orders --identity orders-0").ok();
    let id = made.out.trim();
    let who = world.lease(&format!("id whois orders {id}")).ok().out;
    assert!(who.contains("had machine ID 0 of orders under token"), "{who}");
    let who = world.json(&format!("id whois orders {id}"));
    assert_eq!(who["holds"][0]["identity"], "orders-0");
    assert_eq!(who["machine_id"], 0);
    // Clocks may be 10 s apart: so close behind, it may have been the next hold as well.
    world.lease("id next orders --identity orders-0").ok();
    let who = world.lease(&format!("id whois orders {id}")).ok().out;
    assert!(who.starts_with("one of these:\n") && who.lines().count() == 3, "{who}");
    let nobody = world.lease("id whois orders 1");
    assert_eq!(nobody.code, Some(1), "{nobody:?}");
    assert!(nobody.out.contains("does not say"), "{nobody:?}");
}

/// The ID is stamped with time beyond what its maker took over: whoever has the number by then did not make it.
#[test]
fn an_id_that_was_made_after_a_take_over_is_not_ascribed_to_whoever_has_the_number_at_its_time() {
    let world = World::new();
    world.lease("id acquire ids --ttl 50s --label crashed --identity pod --exclusive").ok();
    let made = world.lease("id next ids --kind counter --identity pod --exclusive").ok();
    let id = made.out.trim();
    let who = world.json(&format!("id whois ids {id}"));
    assert_eq!((who["holds"].as_array().unwrap().len(), &who["certain"]), (2, &false.into()), "{who}");
    world.lease("id acquire ids --ttl 2h --label later --identity pod --exclusive").ok();
    let who = world.lease(&format!("id whois ids {id}")).ok().out;
    assert!(who.starts_with("one of these:\nlater had") && who.lines().count() == 4, "{who}");

    // Neither a revoke nor a new epoch makes it certain.
    assert_eq!(world.lease("id revoke ids 0 --yes").code, Some(0));
    let who = world.lease(&format!("id whois ids {id}")).ok().out;
    assert!(who.starts_with("one of these:\nlater had") && who.contains("(revoked)"), "{who}");
    assert_eq!(world.lease("epoch open --yes --now").code, Some(0));
    assert_eq!(world.json(&format!("id whois ids {id}"))["certain"], false);
}

/// What was held when the epoch was lost, others may have had by then: a store that is put back does not know of them.
#[test]
fn an_id_from_before_a_new_epoch_may_be_of_a_hold_that_was_lost_with_the_history() {
    let world = World::new();
    let made = world.lease("id next ids").ok();
    let whois = format!("id whois ids {}", made.out.trim());
    assert_eq!(world.json(&whois)["certain"], true);
    // The same number, of another pool.
    let lost = format!("id whois held {}", made.out.trim());
    world.lease("id acquire held --ttl 1h --label me").ok();
    assert_eq!(world.json(&lost)["certain"], true);
    assert_eq!(world.lease("epoch open --yes --now").code, Some(0));
    assert_eq!(world.json(&whois)["certain"], true, "it was given back by then");
    assert_eq!(world.json(&lost)["certain"], false);
    let who = world.lease(&lost).ok().out;
    assert!(who.starts_with("one of these, or one that was lost with the store's history:\nme had"), "{who}");
}
