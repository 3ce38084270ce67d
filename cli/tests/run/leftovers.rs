//! What a command leaves behind.

use libtest_mimic::Trial;
use nix::sys::signal::Signal;

use crate::support::actor::actor;
use crate::support::clock::pass_until;
use crate::support::needs::Need::PidNamespace;
use crate::support::tree::Tree;
use crate::support::{Lab, Run, SOON, TTL, ms, now, secs, until};
use crate::{trial, trial_with};

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        trial("scenario_21_leftovers_are_waited_for", scenario_21_leftovers_are_waited_for),
        trial("scenario_21_daemons_are_not", scenario_21_daemons_are_not),
        trial(
            "a_process_without_its_first_thread_is_waited_for",
            a_process_without_its_first_thread_is_waited_for,
        ),
        trial_with("leftovers_that_cannot_be_seen", &[PidNamespace], leftovers_that_cannot_be_seen),
        trial("scenario_21_term_ends_leftovers", scenario_21_term_ends_leftovers),
        trial("scenario_21_leftovers_can_be_killed", scenario_21_leftovers_can_be_killed),
        trial("scenario_21_loss_ends_leftovers", scenario_21_loss_ends_leftovers),
    ]
}

fn until_waiting(run: &Run) {
    until("the wait to be named", SOON, || {
        run.said().contains("waiting for what it left behind").then_some(())
    });
}

fn scenario_21_leftovers_are_waited_for() {
    let lab = Lab::new();
    let begun = now();
    let mut run = lab.run("--ttl 3s", &["sh", "-c", "sleep 2 & timeout 9 sleep 2 & sleep 0.5; exit 3"]);
    let token = lab.held();
    until_waiting(&run);
    let (said, mut next) = (run.said(), lab.run("", &["true"]));
    assert!(said.contains("sleep (") && said.contains("timeout ("), "{said}");
    while run.ended().is_none() {
        // In this order: they may end in between.
        let held = lab.token() == Some(token);
        let sleeping = lab.processes().iter().any(|process| process.name == "sleep");
        assert!(held || !sleeping, "another got it before they had ended");
        std::thread::sleep(ms(5));
    }
    assert_eq!(run.code(), 3);
    assert!(now() - begun >= secs(2), "it took only {:?}", now() - begun);
    assert_eq!(next.code(), 0);
}

fn a_process_without_its_first_thread_is_waited_for() {
    let lab = Lab::new();
    let headless = actor(&["headless", lab.folder().to_str().unwrap()]).join("' '");
    // It outlives the command by far, but not before it is what it is.
    let script = format!("'{headless}' & until test -e headless; do sleep 0.02; done; exit 3");
    let mut run = lab.run("--ttl 3s", &["sh", "-c", &script]);
    let token = lab.held();
    until("it to be headless", SOON, || lab.path("headless").exists().then_some(()));
    until_waiting(&run);
    pass_until(now() + ms(500));
    assert_eq!(run.ended(), None, "it works on");
    lab.assert_held(token);
    std::fs::write(lab.path("go"), "").unwrap();
    assert_eq!(run.code(), 3);
}

/// In a pid namespace that kept its parent's /proc nobody can be looked at by number. The group is known all the same.
fn leftovers_that_cannot_be_seen() {
    let lab = Lab::new();
    let blind = |options: &str, script: &str| {
        let lease = lab.lease(options, &["sh", "-c", script]);
        let mut unshare = lab.command("unshare");
        unshare.args(["-p", "-f", "--kill-child"]).arg(lease.get_program()).args(lease.get_args());
        lab.start(unshare)
    };
    let mut run = blind("--ttl 3s", "(until test -e go; do sleep 0.02; done; touch gone) & exit 3");
    let token = lab.held();
    until_waiting(&run);
    pass_until(now() + ms(300));
    assert_eq!(run.ended(), None, "it works on");
    lab.assert_held(token);
    std::fs::write(lab.path("go"), "").unwrap();
    assert_eq!(run.code(), 3);
    assert!(lab.path("gone").exists(), "it was released before that");

    let mut run = blind("--leftover kill --kill-after 100ms", "trap '' TERM; sleep 60 & exit 4");
    assert_eq!(run.code(), 4);
    lab.until_all_gone(SOON);
    lab.assert_free();
}

fn scenario_21_daemons_are_not() {
    let lab = Lab::new();
    let begun = now();
    let mut run = lab.run("--ttl 3s", &["sh", "-c", "setsid sleep 30 & sleep 0.1; exit 3"]);
    assert_eq!(run.code(), 3);
    assert!(now() - begun < secs(5), "it took {:?}", now() - begun);
    lab.assert_free();
    assert!(lab.processes().iter().any(|process| process.name == "sleep"), "the daemon lives on");
    assert_eq!(run.said(), "");
}

fn scenario_21_term_ends_leftovers() {
    let lab = Lab::new();
    let mut run = lab.run("--ttl 3s", &["sh", "-c", "sleep 60 & timeout 90 sleep 60 & exit 3"]);
    until_waiting(&run);
    let asked = now();
    run.signal(Signal::SIGTERM);
    assert_eq!(run.code(), 3);
    assert!(now() - asked < secs(2), "it took {:?}", now() - asked);
    lab.until_all_gone(ms(100));
    lab.assert_free();
}

fn scenario_21_leftovers_can_be_killed() {
    let lab = Lab::new();
    let script = "trap '' TERM; sleep 60 & timeout 90 sleep 60 & exit 3";
    let begun = now();
    let mut run = lab.run("--ttl 60s --leftover kill --kill-after 300ms", &["sh", "-c", script]);
    assert_eq!(run.code(), 3);
    // They are deaf to TERM.
    assert!(now() - begun >= ms(300) && now() - begun < secs(5), "it took {:?}", now() - begun);
    lab.until_all_gone(ms(100));
    lab.assert_free();
}

fn scenario_21_loss_ends_leftovers() {
    let lab = Lab::new();
    let tree = Tree::new(&lab);
    let member = tree.command().join("' '");
    // The whole tree is left behind.
    let script = format!("'{member}' & sleep 1; exit 3");
    let mut run = lab.run("--ttl 3s", &["sh", "-c", &script]);
    tree.until_grown();
    until_waiting(&run);
    let hole = lab.black_hole();
    let deadline = lab.deadline();
    assert_eq!(run.code(), 79);
    lab.until_all_gone(ms(100));
    tree.assert_last_act_before(deadline);
    assert!(deadline < now() + TTL);
    drop(hole);
}
