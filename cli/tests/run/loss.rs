//! A lease that is lost, and a wrapper that is killed or stopped.

use libtest_mimic::Trial;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::support::actor::{Diary, actor};
use crate::support::clock::pass_until;
use crate::support::lab::RESOURCE;
use crate::support::processes::{children, look};
use crate::support::random::Random;
use crate::support::tree::Tree;
use crate::support::{Lab, MARGIN, Run, SOON, TTL, ms, now, secs, until};
use crate::trial;

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        trial("scenario_04_black_hole", scenario_04_black_hole),
        trial("scenario_05_front_killed", scenario_05_front_killed),
        trial("scenario_06_warden_killed", scenario_06_warden_killed),
        trial("scenario_07_front_stopped", scenario_07_front_stopped),
        trial("scenario_08_warden_stopped", scenario_08_warden_stopped),
        trial("scenario_09_both_killed", scenario_09_both_killed),
        trial("scenario_10_killed_while_starting", scenario_10_killed_while_starting),
    ]
}

fn grow(lab: &Lab, options: &str) -> (Run, Tree, u64) {
    let tree = Tree::new(lab);
    let command = tree.command();
    let run = lab.run(options, &command.iter().map(String::as_str).collect::<Vec<_>>());
    tree.until_grown();
    (run, tree, lab.held())
}

/// The next run gets the lease within the ttl, under a greater token.
#[track_caller]
fn assert_next_within_ttl(lab: &Lab, before: u64) {
    let begun = now();
    let mut next = lab.run("--ttl 3s", &["sh", "-c", "echo $LEASE_TOKEN >token"]);
    assert_eq!(next.code(), 0, "{}", next.said());
    assert!(now() - begun < TTL + secs(2), "it took {:?}", now() - begun);
    let token: u64 = std::fs::read_to_string(lab.path("token")).unwrap().trim().parse().unwrap();
    assert!(token > before, "{token} after {before}");
}

fn scenario_04_black_hole() {
    let lab = Lab::new();
    let (mut run, tree, token) = grow(&lab, "--ttl 3s");
    let hole = lab.black_hole();
    let deadline = lab.deadline();
    assert_eq!(run.code(), 79);
    lab.until_all_gone(ms(100));
    tree.assert_last_act_before(deadline);

    let warning = deadline - TTL / 3;
    for (name, diary) in tree.diaries().unwrap() {
        let term = diary.term_at.unwrap_or_else(|| panic!("{name} got no TERM"));
        assert!(term > warning - ms(100), "{name}: TERM {:?} before the warning deadline", warning - term);
        assert!(
            term < deadline - MARGIN - ms(300),
            "{name}: TERM only {:?} before the deadline",
            deadline - term
        );
        // `timeout` passes its own on.
        assert!(diary.terms == 1 || name == "own-group", "{name} got {} TERMs", diary.terms);
    }
    assert!(run.said().contains("the lease is lost (the store did not answer in time)"), "{}", run.said());
    drop(hole);
    assert_next_within_ttl(&lab, token);
}

fn scenario_05_front_killed() {
    let lab = Lab::new();
    // A ttl that plays no part: what frees the lease is its release.
    let (run, _tree, token) = grow(&lab, "--ttl 60s --kill-after 500ms");
    run.signal(Signal::SIGKILL);
    let killed = now();
    lab.until_all_gone(ms(500) + secs(1));
    assert!(now() - killed > ms(400), "KILL came before kill-after");
    lab.assert_free();
    assert!(lab.inspect().last_issued.unwrap().value() >= token);
}

fn scenario_06_warden_killed() {
    let lab = Lab::new();
    let (mut run, _tree, token) = grow(&lab, "--ttl 3s");
    kill(run.warden(), Signal::SIGKILL).unwrap();
    lab.until_all_gone(secs(1));
    assert_eq!(run.code(), 79);
    assert!(run.said().contains("its warden was killed"), "{}", run.said());
    assert_next_within_ttl(&lab, token);
}

fn scenario_07_front_stopped() {
    let lab = Lab::new();
    let mut run = lab.run("--ttl 3s", &["sh", "-c", "until test -e go; do sleep 0.05; done; exit 5"]);
    let token = lab.held();
    run.signal(Signal::SIGSTOP);
    let end = now() + TTL * 2;
    while now() < end {
        lab.assert_held(token);
        std::thread::sleep(ms(20));
    }
    assert_eq!(look(run.front()).unwrap().state, 'T');
    run.signal(Signal::SIGCONT);
    // It must see the newest deadline, not the oldest.
    pass_until(now() + ms(300));
    lab.assert_held(token);
    std::fs::write(lab.path("go"), "").unwrap();
    assert_eq!(run.code(), 5);
    lab.assert_free();
}

fn scenario_08_warden_stopped() {
    let lab = Lab::new();
    let (mut run, tree, token) = grow(&lab, "--ttl 3s");
    kill(run.warden(), Signal::SIGSTOP).unwrap();
    let deadline = lab.deadline();
    assert_eq!(run.code(), 79);
    lab.until_all_gone(ms(100));
    tree.assert_last_act_before(deadline);
    assert!(run.said().contains("its warden did not act in time"), "{}", run.said());
    assert_next_within_ttl(&lab, token);
}

fn scenario_09_both_killed() {
    let lab = Lab::new();
    let (run, tree, token) = grow(&lab, "--ttl 3s");
    let warden = run.warden();
    let command = children(warden).into_iter().find(|child| child.command_line.contains(" tree ")).unwrap();
    for signal in [Signal::SIGSTOP, Signal::SIGKILL] {
        kill(warden, signal).unwrap();
        run.signal(signal);
    }
    until("the command's end", secs(1), || look(command.pid).is_none().then_some(()));
    // The rest lives: that is what the documentation says, and what the fence is for.
    assert!(lab.processes().iter().any(|process| process.command_line.contains("daemon")));
    assert!(tree.diaries().is_some());
    assert_next_within_ttl(&lab, token);
}

fn scenario_10_killed_while_starting() {
    let lab = Lab::new();
    let mut random = Random::new();
    let mut runs = Vec::new();
    for number in 0..100 {
        let resource = format!("{RESOURCE}-{number}");
        let mut lease = lab.command(crate::support::lab::LEASE);
        let diary = lab.path(&format!("diary-{number}"));
        let member = actor(&["member", diary.to_str().unwrap(), "deaf"]);
        lease
            .args(["run", "--ttl", "1s", "--kill-after", "500ms", &resource, "--"])
            .args(["sh", "-c", "setsid \"$@\" & \"$@\"", "sh"])
            .args(member);
        let run = lab.start(lease);
        random.pause(ms(10));
        let victim = if random.next() % 2 == 0 { Some(run.front()) } else { victim(&run) };
        if let Some(victim) = victim {
            let _ = kill(victim, Signal::SIGKILL);
        }
        runs.push((resource, diary, run, now()));
    }
    let (.., last) = runs.last().unwrap();
    pass_until(*last + secs(2));
    let alive = lab.processes();
    assert!(alive.is_empty(), "{random:?}: {alive:#?}");
    for (resource, diary, run, killed) in &mut runs {
        assert!(lab.inspect_other(resource).occupant.is_none(), "{resource} is held; {random:?}");
        if let Some(diary) = Diary::read(diary) {
            assert!(diary.last_act < *killed + secs(2), "{resource}; {random:?}");
        }
        run.code();
    }
}

/// The warden as soon as there is one, by whatever name.
fn victim(run: &Run) -> Option<Pid> {
    until("the warden", SOON, || {
        Some(children(run.front()).first().map(|child| child.pid)).filter(Option::is_some)
    })
    .filter(|&pid| look(pid).is_some())
}
