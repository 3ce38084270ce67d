//! `show`, `ls`, `check` and `history`.

use std::fs;
use std::time::Duration;

use crate::support::{Answer, Grant, World};

#[test]
fn show_tells_how_a_resource_stands() {
    let world = World::set_up();
    assert_eq!(world.json("show r")["state"], "unseen");
    let grant = world.acquire("r --ttl 1h --label backup@db1");
    let text = world.lease("show r").ok().out;
    for line in ["state      held", "holder     backup@db1", "remaining  59m59s"] {
        assert!(text.contains(line), "no {line:?} in {text}");
    }
    assert!(text.contains(&format!("token      {}", grant.token)), "{text}");
    assert!(text.contains(&format!("owner      {}", grant.owner)), "{text}");
    assert!(text.contains(&format!("epoch      {}", grant.epoch)), "{text}");
    world.lease(&format!("release r --result good {}", grant.options())).ok();
    let text = world.lease("show r").ok().out;
    assert!(text.contains(&format!("vacated    token {} was released", grant.token)), "{text}");
    assert!(text.contains("by backup@db1 under token"), "{text}");
}

#[test]
fn show_mine_asks_for_the_lease_around_it() {
    let world = World::set_up();
    let grant = world.acquire("r --ttl 1h");
    let mine = |grant: &Grant| {
        let mut command = world.command(["show", "--mine"]);
        command.envs([
            ("LEASE_RESOURCE", "r"),
            ("LEASE_OWNER", &grant.owner),
            ("LEASE_TOKEN", &grant.token),
            ("LEASE_EPOCH", &grant.epoch),
        ]);
        Answer::of(&mut command)
    };
    assert!(mine(&grant).ok().out.contains("remaining  59m"));
    let elsewhere = Grant { epoch: "00000000000000ff".to_owned(), ..grant.clone() };
    mine(&elsewhere).fails(79, &["new epoch", &grant.epoch]);
    world.lease("revoke r --yes");
    mine(&grant).fails(79, &["is lost", "revoked by an operator"]);
    let next = world.acquire("r --ttl 1h --label next");
    mine(&grant).fails(79, &["is lost", "held by next", &next.token]);
    world.lease("show --mine").fails(64, &["LEASE_RESOURCE", "lease run"]);
    world.lease("show").fails(64, &["RESOURCE"]);
    world.lease("show r --mine").fails(64, &["--mine"]);
}

#[test]
fn ls_lists_by_name_and_prefix() {
    let world = World::set_up();
    assert_eq!(world.lease("ls").ok().out, "this store knows no resource\n");
    for name in ["jobs/b", "jobs/a", "other", "jobs"] {
        world.acquire(&format!("{name} --ttl 1h --label me"));
    }
    world.lease("revoke other --yes");
    let names = |json: serde_json::Value| -> Vec<String> {
        let resources = json["resources"].as_array().unwrap().clone();
        resources.iter().map(|one| one["resource"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(names(world.json("ls")), ["jobs", "jobs/a", "jobs/b", "other"]);
    assert_eq!(names(world.json("ls jobs/")), ["jobs/a", "jobs/b"]);
    assert_eq!(names(world.json("ls nothing")), [""; 0]);
    let table = world.lease("ls").ok().out;
    let last = table.lines().last().unwrap();
    assert!(last.starts_with("other ") && last.ends_with(" revoked"), "{table}");
    assert_eq!(table.matches(" held\n").count(), 3, "{table}");
}

#[test]
fn what_nobody_ever_held_is_said_in_words() {
    let world = World::set_up();
    assert_eq!(world.lease("ls").ok().out, "this store knows no resource\n");
    world.acquire("r --ttl 1h");
    assert_eq!(world.lease("ls s").ok().out, "this store knows no resource whose name begins with s\n");
    let none = "this store knows no hold of s: there was none yet, or it was pruned\n";
    assert_eq!(world.lease("history s").ok().out, none);
    assert_eq!(world.json("history s")["holds"], serde_json::json!([]));
    assert_eq!(world.json("ls s")["resources"], serde_json::json!([]));
}

#[test]
fn check_answers_with_its_exit_code() {
    let world = World::set_up();
    let no = |words: &str, problem: &str| {
        let answer = world.lease(&format!("check {words} --json"));
        let json = answer.json();
        assert_eq!((json["ok"].as_bool(), json["problems"][0].as_str()), (Some(false), Some(problem)));
        answer.fails(1, &[]);
        let text = world.lease(&format!("check {words}"));
        assert_eq!((text.code, text.err.as_str()), (Some(1), ""));
        assert!(text.out.starts_with("no: r "), "{text:?}");
    };
    no("r", "not_held");
    no("r --idle-max 1h", "never_good");
    world.lease("check r --held-max 1h").ok();
    let grant = world.acquire("r --ttl 1h");
    world.lease("check r").ok();
    world.lease("check r --held-max 1h").ok();
    no("r --held-max 0", "held_too_long");
    world.lease(&format!("release r --result good {}", grant.options())).ok();
    let yes = world.lease("check r --held-max 0 --idle-max 1h").ok();
    assert!(yes.out.starts_with("ok: r is not held; its work last ended well "), "{yes:?}");
    no("r --idle-max 0", "idle_too_long");
    let failed = world.acquire("s --ttl 1h");
    world.lease(&format!("release s --result failed {}", failed.options())).ok();
    world.lease("check s --idle-max 1h").fails(1, &[]);
}

/// One hold of each kind that can be had without waiting for long, the latest first.
fn eventful(world: &World) -> [&'static str; 6] {
    let release = |grant: &Grant, result: &str| {
        world.lease(&format!("release r --result {result} {}", grant.options())).ok();
    };
    release(&world.acquire("r --ttl 1h --label a@one:1"), "good");
    world.acquire("r --ttl 1h --label <b>&c:2");
    assert_eq!(world.lease("revoke r --yes --reason hung").code, Some(0));
    world.acquire("r --ttl 1ms --label a@one:3");
    let next = world.acquire("r --ttl 1h --label a@two:4 --wait forever");
    release(&next, "failed");
    world.acquire("r --ttl 1h --label a@one:5");
    assert_eq!(world.lease("epoch open --now --yes").code, Some(0));
    world.acquire("r --ttl 1h --label a@one:6");
    ["held", "epoch_lost", "released", "expired", "revoked", "released"]
}

#[test]
fn history_tells_how_each_hold_ended() {
    let world = World::new();
    let outcomes = eventful(&world);
    let json = world.json("history r");
    let holds = json["holds"].as_array().unwrap();
    assert_eq!(holds.iter().map(|hold| hold["outcome"].as_str().unwrap()).collect::<Vec<_>>(), outcomes);
    let tokens: Vec<u64> =
        holds.iter().map(|hold| hold["token"].as_str().unwrap().parse().unwrap()).collect();
    assert!(tokens.windows(2).all(|pair| pair[0] > pair[1]), "{tokens:?}");
    assert_eq!((holds[5]["result"].as_str(), holds[2]["result"].as_str()), (Some("good"), Some("failed")));
    assert_eq!(holds[4]["reason"], "hung");
    let table = world.lease("history r").ok().out;
    let rows: Vec<&str> = table.lines().skip(1).collect();
    for (row, outcome) in rows.iter().zip(outcomes) {
        assert!(row.contains(outcome), "{table}");
    }
    assert_eq!(rows.len(), outcomes.len());
    assert_eq!(world.lease("history r --limit 2").ok().out.lines().count(), 3);
    assert_eq!(world.lease("history unseen").ok().out.lines().count(), 1);
}

#[test]
fn the_timeline_is_a_picture_of_the_history() {
    let world = World::new();
    eventful(&world);
    let file = world.path("r.svg");
    let answer = world.lease(&format!("history r --svg {}", file.display())).ok();
    assert_eq!(answer.out, "");
    let svg = fs::read_to_string(&file).unwrap();
    let document = roxmltree::Document::parse(&svg).unwrap();
    let titles: Vec<&str> = document
        .descendants()
        .filter(|node| node.has_tag_name("title"))
        .filter_map(|node| node.text())
        .collect();
    for said in [
        "Who held r",
        "revoked from",
        "released from",
        "expired from",
        "epoch_lost from",
        "held from",
        ": hung",
    ] {
        assert!(titles.iter().any(|title| title.contains(said)), "no {said:?} in {titles:?}");
    }
    assert!(titles.iter().any(|title| title.starts_with("nobody held it for")), "{titles:?}");
    let texts: Vec<&str> = document
        .descendants()
        .filter(|node| node.has_tag_name("text"))
        .filter_map(|node| node.text())
        .collect();
    assert!(
        texts.contains(&"6 holds, ") || texts.iter().any(|text| text.starts_with("6 holds, ")),
        "{texts:?}"
    );
    for legend in ["released", "released, work failed", "held now", "lost: ran out", "broken by an operator"]
    {
        assert!(texts.contains(&legend), "no {legend:?} in {texts:?}");
    }
    // One lane a machine, whatever the process: the name without its number, and markup as it was written.
    let lanes: Vec<&str> = document
        .descendants()
        .filter(|node| node.has_tag_name("text"))
        .filter(|node| node.children().any(|child| child.has_tag_name("title")))
        .filter_map(|node| node.children().find(|child| child.is_text()).and_then(|child| child.text()))
        .collect();
    assert_eq!(lanes, ["a@one", "<b>&c", "a@two"]);

    let piped = world.lease("history r --svg -").ok().out;
    assert!(roxmltree::Document::parse(&piped).is_ok());
    world.lease("history r --svg missing/r.svg").fails(125, &["missing/r.svg"]);
    world.lease("history r --svg x --json").fails(64, &["--json"]);
    let nobody = world.lease("history unseen --svg -").ok().out;
    assert!(roxmltree::Document::parse(&nobody).is_ok());
}

#[test]
fn the_timeline_of_any_name_is_a_document() {
    let world = World::new();
    let name = "a\u{1}\u{1b}]]>&<\u{fffe}\u{ffff}\u{feff}\n";
    let grant = ["acquire", "--ttl", "1h", "--label", "\u{ffff}\u{2}", "--", name];
    assert_eq!(Answer::of(&mut world.command(grant)).code, Some(0));
    let svg = Answer::of(&mut world.command(["history", "--svg", "-", "--", name])).ok().out;
    roxmltree::Document::parse(&svg).unwrap();
}

#[test]
fn a_loss_is_drawn_full_up_to_the_last_that_was_heard_of_it() {
    let world = World::new();
    let lost = world.acquire("r --ttl 2s");
    let held = |world: &World| world.json("show r")["holder"]["held_for_ms"].as_u64().unwrap();
    while held(&world) < 500 {
        std::thread::sleep(Duration::from_millis(20));
    }
    world.lease(&format!("renew r --ttl 2s {}", lost.options())).ok();
    let next = world.acquire("r --ttl 1m --wait forever");
    world.lease(&format!("release r {}", next.options())).ok();
    let svg = world.lease("history r --svg -").ok().out;
    let document = roxmltree::Document::parse(&svg).unwrap();
    let lost = document
        .descendants()
        .find(|node| {
            node.has_tag_name("title") && node.text().is_some_and(|text| text.contains("expired from"))
        })
        .and_then(|title| title.parent())
        .unwrap();
    let widths: Vec<f64> = lost
        .children()
        .filter(|node| node.has_tag_name("rect"))
        .map(|rect| rect.attribute("width").unwrap().parse().unwrap())
        .collect();
    // Half a second of at least two and a half, and the rest paler.
    let [full, pale] = widths[..] else { panic!("{widths:?}") };
    assert!(full > 10.0 && pale > full, "{widths:?}");
}
