//! Scripts, loops and runs within runs.

use std::fs;

use libtest_mimic::Trial;

use crate::support::lab::LEASE;
use crate::support::needs::Need::Program;
use crate::support::processes::look;
use crate::support::pty::{CTRL_C, CTRL_Z, Pty, prompt};
use crate::support::{Lab, MARGIN, SOON, TTL, ms, now, until};
use crate::terminal::{assert_kept, find, find_front, typed, until_state};
use crate::{trial, trial_with};

pub(crate) fn trials() -> Vec<Trial> {
    let shells = &[Program("bash"), Program("dash")];
    vec![
        trial_with("scenario_14_loops_and_scripts_end", shells, scenario_14_loops_and_scripts_end),
        trial_with("scenario_14_scripts_stop", shells, scenario_14_scripts_stop),
        trial_with("scenario_19_nested", shells, scenario_19_nested),
        trial_with("scenario_19_inner_shell", shells, scenario_19_inner_shell),
        trial("scenario_20_stopped_by_itself", scenario_20_stopped_by_itself),
        trial("scenario_20_stopped_at_loss", scenario_20_stopped_at_loss),
    ]
}

fn the_loop() -> String {
    format!("for i in 1 2 3; do echo round-$i; {}; done", typed("", "sleep 100"))
}

fn scenario_14_loops_and_scripts_end() {
    for how in ["", "bash", "dash"] {
        let lab = Lab::new();
        let mut shell = Pty::shell(&lab, "bash");
        if how.is_empty() {
            shell.line(&the_loop());
        } else {
            fs::write(lab.path("script"), the_loop()).unwrap();
            shell.line(&format!("{how} script"));
        }
        shell.expect("round-1\r\n");
        lab.held();
        let command = find(&lab, "sleep");
        shell.until_foreground(command.group);
        shell.send(CTRL_C);
        shell.expect(&prompt(130));
        assert!(!shell.unseen().contains("round-2"), "{how:?} went on");
        lab.assert_free();
        assert!(lab.processes().iter().all(|process| process.name != "sleep"), "{how:?} went on");
        assert_eq!(shell.foreground(), shell.own_group());
    }
}

fn scenario_14_scripts_stop() {
    for how in ["bash", "dash"] {
        let lab = Lab::new();
        let mut shell = Pty::shell(&lab, "bash");
        fs::write(lab.path("script"), the_loop()).unwrap();
        shell.line(&format!("{how} script"));
        lab.held();
        let command = find(&lab, "sleep");
        let (script, front) = (find(&lab, &format!("{how} script")), find_front(&lab));
        shell.until_foreground(command.group);
        shell.send(CTRL_Z);
        shell.expect("Stopped");
        shell.expect(&prompt(148));
        for process in [&command, &front, &script] {
            until_state(process.pid, |state| state == 'T');
        }
        shell.line("fg");
        shell.until_foreground(command.group);
        for process in [&command, &front, &script] {
            until_state(process.pid, |state| state != 'T');
        }
        shell.send(CTRL_C);
        shell.expect(&prompt(130));
        lab.assert_free();
    }
}

fn scenario_19_nested() {
    let lab = Lab::new();
    let mut shell = Pty::shell(&lab, "bash");
    shell.line(&format!("{LEASE} run --ttl 3s outer -- {}", typed("--ttl 3s", "cat")));
    let token = lab.held();
    let outer = lab.inspect_other("outer").occupant.unwrap().token;
    let command = find(&lab, "cat");
    shell.until_foreground(command.group);
    shell.line("hello");
    shell.expect("hello\r\nhello");
    shell.send(CTRL_Z);
    shell.expect(&prompt(148));
    assert_eq!(look(command.pid).unwrap().state, 'T');
    assert_kept(&lab, token);
    assert_eq!(lab.inspect_other("outer").occupant.map(|occupant| occupant.token), Some(outer));
    shell.line("fg");
    shell.until_foreground(command.group);
    shell.line("again");
    shell.expect("again\r\nagain");
    shell.send(CTRL_C);
    shell.expect(&prompt(130));
    lab.assert_free();
    assert!(lab.inspect_other("outer").occupant.is_none());
    assert_eq!(shell.foreground(), shell.own_group());
}

fn scenario_19_inner_shell() {
    let lab = Lab::new();
    let mut shell = Pty::shell(&lab, "bash");
    shell.line(&typed("--ttl 3s", "bash --norc --noprofile --noediting -i"));
    lab.held();
    let inner = find(&lab, "bash --norc --noprofile --noediting -i");
    shell.expect(&prompt(0));
    shell.line("sleep 101 & sleep 102 &");
    let jobs = ["sleep 101", "sleep 102"].map(|job| find(&lab, job));
    assert!(jobs.iter().all(|job| job.group != inner.group), "jobs have groups of their own");
    let hole = lab.black_hole();
    let deadline = lab.deadline();
    for job in jobs {
        until("the job's end", SOON, || look(job.pid).is_none().then_some(()));
    }
    assert!(now() < deadline, "a job outlived the lease");
    shell.expect(&prompt(79));
    drop(hole);
}

fn scenario_20_stopped_by_itself() {
    let lab = Lab::new();
    let mut run = lab.run("--ttl 3s", &["sh", "-c", "kill -STOP $$; exit 8"]);
    let token = lab.held();
    let command = find(&lab, "sh -c kill");
    until_state(command.pid, |state| state == 'T');
    assert_kept(&lab, token);
    assert_ne!(look(run.front()).unwrap().state, 'T', "the wrapper runs");
    nix::sys::signal::kill(command.pid, nix::sys::signal::Signal::SIGCONT).unwrap();
    assert_eq!(run.code(), 8);
    lab.assert_free();
}

fn scenario_20_stopped_at_loss() {
    let lab = Lab::new();
    let mut run =
        lab.run("--ttl 3s", &["sh", "-c", "trap 'echo >trapped; exit 0' TERM; kill -STOP $$; exit 8"]);
    lab.held();
    until_state(find(&lab, "sh -c trap").pid, |state| state == 'T');
    let _hole = lab.black_hole();
    let deadline = lab.deadline();
    until("its trap to run", SOON, || lab.path("trapped").exists().then_some(()));
    assert!(now() < deadline - MARGIN, "only KILL ended it");
    assert_eq!(run.code(), 79);
    assert!(now() < deadline + ms(500), "{:?}", TTL);
}
