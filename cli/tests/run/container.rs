//! Without a shell around it: the first process of a container, cron, a service manager.

use std::fs;
use std::process::Stdio;

use libtest_mimic::Trial;
use nix::sys::signal::{Signal, kill};

use crate::support::actor::{Diary, actor};
use crate::support::lab::detach;
use crate::support::needs::Need::{PidNamespace, Root};
use crate::support::processes::{self, Process, children, look};
use crate::support::tree::Tree;
use crate::support::{Lab, Run, SOON, ms, secs, until};
use crate::{trial, trial_with};

pub(crate) fn trials() -> Vec<Trial> {
    let namespace = &[PidNamespace];
    vec![
        trial_with("scenario_23_first_process_codes", namespace, scenario_23_first_process_codes),
        trial_with("scenario_23_first_process_signals", namespace, scenario_23_first_process_signals),
        trial_with("scenario_23_first_process_orphans", namespace, scenario_23_first_process_orphans),
        trial_with("scenario_23_first_process_killed", namespace, scenario_23_first_process_killed),
        trial_with("a_container_without_devices", &[PidNamespace, Root], a_container_without_devices),
        trial_with("a_container_without_proc", &[PidNamespace, Root], a_container_without_proc),
        trial("scenario_23_cron", scenario_23_cron),
        trial("scenario_23_term_once_as_by_a_service_manager", scenario_23_term_once),
    ]
}

/// `lease run` as the first process of a pid namespace of its own.
pub(crate) fn contained(lab: &Lab, options: &str, command: &[&str]) -> Run {
    let lease = lab.lease(options, command);
    let mut unshare = lab.command("unshare");
    unshare
        .args(["-p", "-f", "--mount-proc", "--kill-child"])
        .arg(lease.get_program())
        .args(lease.get_args());
    lab.start(unshare)
}

/// Its front, as it is seen from outside.
pub(crate) fn front_of(run: &Run) -> Process {
    let is_front = |process: &Process| process.name == "lease";
    until("the front", SOON, || children(run.front()).into_iter().find(is_front))
}

fn scenario_23_first_process_codes() {
    let lab = Lab::new();
    for (script, code) in
        [("exit 0", 0), ("exit 3", 3), ("exit 255", 255), ("kill -TERM $$", 143), ("kill -INT $$", 130)]
    {
        let mut run = contained(&lab, "", &["sh", "-c", script]);
        assert_eq!(run.code(), code, "{script}: {}", run.said());
        lab.assert_free();
    }
    assert_eq!(contained(&lab, "", &["/no/such/command"]).code(), 127);
}

/// Without a /dev/null front and warden cannot let go of the command's pipes; the command runs all the same.
fn a_container_without_devices() {
    let lab = Lab::new();
    let mut unshare = lab.command("unshare");
    let script = r#"mount -t tmpfs none /dev && test ! -e /dev/null && exec "$@""#;
    let lease = lab.lease("--ttl 5s", &["sh", "-c", "sleep 0.5; exit 6"]);
    unshare
        .args(["-p", "-f", "--mount-proc", "--kill-child", "sh", "-c", script, "sh"])
        .arg(lease.get_program())
        .args(lease.get_args());
    let mut run = lab.start(unshare);
    assert_eq!((run.code(), run.said()), (6, String::new()));
    lab.assert_free();
}

fn a_container_without_proc() {
    let lab = Lab::new();
    let mut unshare = lab.command("unshare");
    let lease = lab.lease("--ttl 5s", &["true"]);
    unshare
        .args([
            "-p",
            "-f",
            "--mount-proc",
            "--kill-child",
            "sh",
            "-c",
            r#"mount -t tmpfs none /proc && exec "$@""#,
            "sh",
        ])
        .arg(lease.get_program())
        .args(lease.get_args());
    let mut run = lab.start(unshare);
    assert_eq!(run.code(), 125);
    assert!(run.said().contains("is /proc mounted?"), "{}", run.said());
    lab.assert_free();
}

fn scenario_23_first_process_signals() {
    for (signal, code) in [(Signal::SIGINT, 130), (Signal::SIGTERM, 143)] {
        let lab = Lab::new();
        let mut run = contained(&lab, "", &["sleep", "100"]);
        lab.held();
        let front = front_of(&run);
        until("the command", SOON, || lab.processes().into_iter().find(|process| process.name == "sleep"));
        kill(front.pid, signal).unwrap();
        assert_eq!(run.code(), code, "{}", run.said());
        lab.assert_free();
    }
}

fn scenario_23_first_process_orphans() {
    let lab = Lab::new();
    let script =
        "for i in $(seq 100); do (setsid sleep 0.05 &); done; until test -e go; do sleep 0.05; done; exit 4";
    let mut run = contained(&lab, "", &["sh", "-c", script]);
    let front = front_of(&run);
    let warden = until("the warden", SOON, || processes::warden_of(front.pid));
    let sleeping = || lab.processes().iter().filter(|process| process.command_line == "sleep 0.05").count();
    until("orphans", SOON, || (sleeping() > 1).then_some(()));
    until("them to be gone", SOON, || (sleeping() <= 1).then_some(()));
    until("no zombie", SOON, || {
        let zombies = processes::zombies_of(front.pid) + processes::zombies_of(warden.pid);
        (zombies == 0).then_some(())
    });
    fs::write(lab.path("go"), "").unwrap();
    assert_eq!(run.code(), 4);
    lab.assert_free();
}

fn scenario_23_first_process_killed() {
    let lab = Lab::new();
    let tree = Tree::new(&lab);
    let command = tree.command();
    let run = contained(&lab, "--ttl 3s", &command.iter().map(String::as_str).collect::<Vec<_>>());
    tree.until_grown();
    kill(front_of(&run).pid, Signal::SIGKILL).unwrap();
    lab.until_all_gone(secs(1));
}

fn scenario_23_cron() {
    let lab = Lab::new();
    for code in [0, 3] {
        let mut lease = lab.lease("", &["sh", "-c", &format!("echo out; echo err >&2; cat; exit {code}")]);
        lease.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        detach(&mut lease);
        let output = lease.spawn().unwrap().wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(code));
        assert_eq!((output.stdout, output.stderr), (b"out\n".to_vec(), b"err\n".to_vec()));
        lab.assert_free();
    }
}

/// systemd with `KillMode=mixed` sends TERM to the main process alone.
fn scenario_23_term_once() {
    let lab = Lab::new();
    let diary = lab.path("diary");
    let member = actor(&["member", diary.to_str().unwrap(), "deaf"]);
    let run = lab.run("--ttl 3s", &member.iter().map(String::as_str).collect::<Vec<_>>());
    until("the command", SOON, || Diary::read(&diary));
    run.signal(Signal::SIGTERM);
    until("TERM", SOON, || Diary::read(&diary).filter(|diary| diary.terms > 0));
    // What must not come cannot be waited for: a second TERM would follow the first at once.
    std::thread::sleep(ms(300));
    assert_eq!(Diary::read(&diary).unwrap().terms, 1);
    assert!(look(run.front()).is_some(), "a command that goes on has its lease");
    lab.held();
}
