//! Options, and how a run ends that never ran anything.

use std::fs;
use std::os::unix::process::ExitStatusExt;

use libtest_mimic::Trial;
use nix::libc;
use nix::sys::signal::Signal;

use crate::support::clock::pass_until;
use crate::support::lab::LEASE;
use crate::support::needs::Need::Program;
use crate::support::pty::{CTRL_Z, Pty, prompt};
use crate::support::{Lab, Run, SOON, TTL, ms, now, secs, until};
use crate::terminal::typed;
use crate::{trial, trial_with};

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        trial("another_holds_it", another_holds_it),
        trial("waits_until_it_is_free", waits_until_it_is_free),
        trial("interrupted_while_waiting", interrupted_while_waiting),
        trial("interrupted_while_the_store_is_silent", interrupted_while_the_store_is_silent),
        trial_with("stopped_while_waiting", &[Program("bash")], stopped_while_waiting),
        trial("max_hold", max_hold),
        trial("once", once),
        trial("at_least", at_least),
        trial("environment", environment),
        trial("revoked", revoked),
        trial("gone_at_the_release", gone_at_the_release),
        trial("no_answer_to_the_release", no_answer_to_the_release),
        trial("events_on_a_descriptor", events_on_a_descriptor),
        trial("wrong_command_lines", wrong_command_lines),
    ]
}

/// Somebody who holds the lease until a file is there.
fn holder(lab: &Lab) -> Run {
    let run = lab.run("--label the-holder", &["sh", "-c", "until test -e go; do sleep 0.02; done"]);
    lab.held();
    run
}

fn another_holds_it() {
    let lab = Lab::new();
    let mut holder = holder(&lab);
    for (options, code) in
        [("-n", 75), ("-w 0.2", 75), ("-n -E 9", 9), ("-w 200ms -E 0", 0), ("--skip-if-held", 0)]
    {
        let begun = now();
        let mut run = lab.run(options, &["touch", "ran"]);
        assert_eq!(run.code(), code, "{options}");
        // A scheduler is not told each time; see below for a holder that hangs.
        let silent = options == "--skip-if-held";
        assert_eq!(run.said().contains("held by the-holder"), !silent, "{options}: {}", run.said());
        assert!(now() - begun < secs(5), "{options}");
        assert!(!options.starts_with("-w") || now() - begun > ms(200), "{options}");
    }
    pass_until(now() + ms(100));
    let mut run = lab.run("--skip-if-held --max-hold 50ms", &["touch", "ran"]);
    assert_eq!(run.code(), 0);
    assert!(run.said().contains("longer than --max-hold"), "{}", run.said());
    assert_eq!(lab.run("-q -n", &["touch", "ran"]).code(), 75);
    assert!(!lab.path("ran").exists());
    fs::write(lab.path("go"), "").unwrap();
    assert_eq!(holder.code(), 0);
}

fn waits_until_it_is_free() {
    let lab = Lab::new();
    let mut holder = holder(&lab);
    let mut next = lab.run("", &["sh", "-c", "exit 5"]);
    until("it to wait", SOON, || next.said().contains("waiting for the-holder").then_some(()));
    fs::write(lab.path("go"), "").unwrap();
    let freed = now();
    assert_eq!((holder.code(), next.code()), (0, 5));
    // By a word from the store, and not at the end of the other's lease of a minute.
    assert!(now() - freed < secs(5), "it took {:?}", now() - freed);
}

fn interrupted_while_waiting() {
    for (signal, code) in [(Signal::SIGINT, 130), (Signal::SIGTERM, 143), (Signal::SIGHUP, 129)] {
        let lab = Lab::new();
        let mut holder = holder(&lab);
        let mut next = lab.run("", &["touch", "ran"]);
        until("it to wait", SOON, || next.said().contains("waiting for").then_some(()));
        let asked = now();
        next.signal(signal);
        let status = next.status();
        assert!(now() - asked < secs(1), "it took {:?}", now() - asked);
        assert_eq!(next.code(), code);
        // By INT it ends as by INT, so that a loop around it ends.
        assert_eq!(status.signal(), (signal == Signal::SIGINT).then_some(libc::SIGINT));
        fs::write(lab.path("go"), "").unwrap();
        assert_eq!(holder.code(), 0);
        lab.assert_free();
        assert!(!lab.path("ran").exists());
    }
}

fn interrupted_while_the_store_is_silent() {
    let lab = Lab::new();
    let hole = lab.black_hole();
    let mut run = lab.run("", &["touch", "ran"]);
    run.warden();
    pass_until(now() + ms(300));
    let asked = now();
    run.signal(Signal::SIGTERM);
    assert_eq!(run.code(), 143);
    assert!(now() - asked < secs(3), "it took {:?}", now() - asked);
    drop(hole);
    lab.until_all_gone(SOON);
    assert!(!lab.path("ran").exists());
    lab.assert_free();
}

fn stopped_while_waiting() {
    let lab = Lab::new();
    let mut holder = holder(&lab);
    let mut shell = Pty::shell(&lab, "bash");
    shell.line(&typed("--ttl 3s", "sh -c 'echo st''arted; exit 4'"));
    shell.expect("waiting for the-holder");
    shell.send(CTRL_Z);
    shell.expect("Stopped");
    fs::write(lab.path("go"), "").unwrap();
    assert_eq!(holder.code(), 0);
    // The lease is taken and kept, and nothing runs behind the user's back.
    let token = lab.held();
    pass_until(now() + TTL);
    lab.assert_held(token);
    assert!(!shell.unseen().contains("started"));
    shell.line("fg");
    shell.expect("started");
    shell.expect(&prompt(4));
    lab.assert_free();
}

fn max_hold() {
    let lab = Lab::new();
    let mut run = lab.run(
        "--max-hold 300ms --kill-after 200ms",
        &["sh", "-c", "trap 'echo >told' TERM; while :; do sleep 0.1; done"],
    );
    assert_eq!(run.code(), 124);
    assert!(lab.path("told").exists(), "TERM came before KILL");
    assert!(run.said().contains("--max-hold"), "{}", run.said());
    lab.until_all_gone(ms(100));
    lab.assert_free();
}

fn once() {
    let lab = Lab::new();
    assert_eq!(lab.run("--once today", &["sh", "-c", "echo x >>runs; exit 3"]).code(), 3);
    assert_eq!(lab.run("--once today --label first", &["sh", "-c", "echo x >>runs"]).code(), 0);
    let mut again = lab.run("--once today", &["sh", "-c", "echo x >>runs"]);
    assert_eq!(again.code(), 0);
    assert!(again.said().contains("by first"), "{}", again.said());
    assert_eq!(lab.run("--once tomorrow", &["sh", "-c", "echo x >>runs"]).code(), 0);
    let runs = fs::read_to_string(lab.path("runs")).unwrap();
    assert_eq!(runs.lines().count(), 3, "a bad end does not count, and neither does another key");
}

fn at_least() {
    let lab = Lab::new();
    let begun = now();
    assert_eq!(lab.run("--at-least 1s", &["true"]).code(), 0);
    assert_eq!(lab.run("-n", &["true"]).code(), 75);
    assert_eq!(lab.run("", &["true"]).code(), 0);
    assert!(now() - begun >= secs(1));
}

fn environment() {
    let lab = Lab::new();
    let mut lease = lab.command(LEASE);
    lease.args([
        "run",
        "--store",
        &lab.url(),
        "a b",
        "--",
        "sh",
        "-c",
        "env | grep ^LEASE_ | sort >environment",
    ]);
    lease.env_remove("LEASE_STORE").env("KEPT", "yes");
    assert_eq!(lab.start(lease).code(), 0);
    let text = fs::read_to_string(lab.path("environment")).unwrap();
    let value =
        |name: &str| text.lines().find_map(|line| line.strip_prefix(&format!("{name}="))).map(str::to_owned);
    assert_eq!(value("LEASE_RESOURCE").as_deref(), Some("a b"));
    assert_eq!(value("LEASE_STORE"), Some(lab.url()));
    assert!(value("LEASE_TOKEN").unwrap().parse::<u64>().unwrap() > 0);
    value("LEASE_OWNER").unwrap().parse::<u64>().unwrap();
    assert_eq!(value("LEASE_EPOCH").unwrap().len(), 16);
}

fn revoked() {
    let lab = Lab::new();
    let mut run = lab.run(
        "--ttl 3s",
        &["sh", "-c", "trap 'echo >told; exit 0' TERM; echo >ready; while :; do sleep 0.05; done"],
    );
    until("the command", SOON, || lab.path("ready").exists().then_some(()));
    lab.revoke();
    assert_eq!(run.code(), 79);
    assert!(lab.path("told").exists());
    assert!(run.said().contains("it was revoked"), "{}", run.said());
}

fn gone_at_the_release() {
    let lab = Lab::new();
    let mut run = lab.run("--ttl 20s", &["sh", "-c", "until test -e go; do sleep 0.02; done"]);
    lab.held();
    lab.revoke();
    fs::write(lab.path("go"), "").unwrap();
    assert_eq!(run.code(), 79, "{}", run.said());
    assert!(run.said().contains("when it was to be released"), "{}", run.said());
}

fn no_answer_to_the_release() {
    let lab = Lab::new();
    let mut run = lab.run("--ttl 3s", &["sh", "-c", "until test -e go; do sleep 0.02; done; exit 6"]);
    lab.held();
    let hole = lab.black_hole();
    fs::write(lab.path("go"), "").unwrap();
    assert_eq!(run.code(), 6);
    assert!(run.said().contains("no answer to the release"), "{}", run.said());
    drop(hole);
}

fn events_on_a_descriptor() {
    let lab = Lab::new();
    let line = format!("{} 7>events", typed("--events fd:7", "true"));
    let mut shell = lab.command("sh");
    shell.args(["-c", &line]);
    assert_eq!(lab.start(shell).code(), 0);
    let events = fs::read_to_string(lab.path("events")).unwrap();
    assert!(events.lines().last().unwrap().contains("\"event\":\"released\""), "{events}");
    assert_eq!(lab.run("--events fd:99", &["true"]).code(), 64);
}

fn wrong_command_lines() {
    let lab = Lab::new();
    for options in ["--ttl 1", "--ttl 0.5", "--ttl 3 --renew-every 4", "--no-such-option", "-n -w 3"] {
        let code = lab.run(options, &["touch", "ran"]).code();
        assert_eq!(code, if options == "--ttl 1" { 0 } else { 64 }, "{options}");
    }
    fs::remove_file(lab.path("ran")).unwrap();
    for store in ["nonsense", "sqlite:/no/such/folder/leases.db"] {
        let mut run = lab.run(&format!("--store {store}"), &["touch", "ran"]);
        assert!([77, 78].contains(&run.code()), "{store}: {}", run.said());
        assert!(run.said().starts_with("lease: "), "{}", run.said());
    }
    assert!(!lab.path("ran").exists());
}
