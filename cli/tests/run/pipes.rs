//! Descriptors: who sees the end of a pipe, and when.

use std::fs::{self, File};
use std::io::Read;
use std::process::Stdio;

use libtest_mimic::Trial;

use crate::support::needs::Need::Program;
use crate::support::processes::look;
use crate::support::{Lab, Run, SOON, ms, now, secs, until};
use crate::terminal::{find, typed};
use crate::{trial, trial_with};

pub(crate) fn trials() -> Vec<Trial> {
    let bash = &[Program("bash"), Program("yes")];
    vec![
        trial_with("scenario_22_pipes_end_when_the_command_ends_them", bash, scenario_22_pipes_end),
        trial_with("scenario_22_a_reader_that_leaves", bash, scenario_22_a_reader_that_leaves),
        trial("scenario_22_descriptors_are_passed_through", scenario_22_descriptors_are_passed_through),
        trial("scenario_22_full_standard_error", scenario_22_full_standard_error),
    ]
}

fn bash(lab: &Lab, line: &str) -> Run {
    let mut bash = lab.command("bash");
    bash.args(["--norc", "--noprofile", "-c", line]);
    lab.start(bash)
}

fn scenario_22_pipes_end() {
    // Standard input, standard output, and another one that was passed on.
    let closes = [
        (format!("yes | {}", typed("", "sh -c 'exec <&-; sleep 60'")), "yes"),
        (format!("{} | cat", typed("", "sh -c 'exec >&-; sleep 60'")), "cat"),
        (format!("{} 7>&1 >/dev/null | cat", typed("", "sh -c 'exec 7>&-; sleep 60'")), "cat"),
    ];
    for (line, other) in closes {
        let lab = Lab::new();
        let _run = bash(&lab, &line);
        let sleep = find(&lab, "sleep 60");
        let gone = || !lab.processes().iter().any(|process| process.name == other);
        until(&format!("{other} to end in {line}"), SOON, || gone().then_some(()));
        assert!(look(sleep.pid).is_some(), "the command lives");
    }
}

fn scenario_22_a_reader_that_leaves() {
    let lab = Lab::new();
    let line = format!("{} | head -1 >line; echo ${{PIPESTATUS[0]}} >code", typed("", "yes"));
    assert_eq!(bash(&lab, &line).code(), 0);
    assert_eq!(fs::read_to_string(lab.path("line")).unwrap(), "y\n");
    assert_eq!(fs::read_to_string(lab.path("code")).unwrap(), "141\n");
    lab.assert_free();

    // Whoever ignores SIGPIPE is not told by it, under a lease as without one.
    let mut run = lab.start({
        let mut shell = lab.command("sh");
        let script = typed("", "grep SigIgn /proc/self/status >ignored");
        shell.args(["-c", &format!("trap '' PIPE; {script}")]);
        shell
    });
    assert_eq!(run.code(), 0);
    let ignored = fs::read_to_string(lab.path("ignored")).unwrap();
    let ignored = u64::from_str_radix(ignored.trim_start_matches("SigIgn:").trim(), 16).unwrap();
    assert_eq!(ignored, 1 << 12);
}

fn scenario_22_descriptors_are_passed_through() {
    let lab = Lab::new();
    let line = format!("{} 7>seven 8<words", typed("", "sh -c 'cat <&8 >&7'"));
    fs::write(lab.path("words"), "through\n").unwrap();
    let mut shell = lab.command("sh");
    shell.args(["-c", &line]);
    assert_eq!(lab.start(shell).code(), 0);
    assert_eq!(fs::read_to_string(lab.path("seven")).unwrap(), "through\n");
}

fn scenario_22_full_standard_error() {
    let lab = Lab::new();
    let (reader, writer) = nix::unistd::pipe2(nix::fcntl::OFlag::O_CLOEXEC).unwrap();
    let mut reader = File::from(reader);
    // With so much of the ttl between a renewal and its last moment, a machine that is slow loses no lease: only one that
    // is not renewed at all is lost.
    let ttl = secs(6);
    let options = "-v --ttl 6s --renew-every 500ms --warn-before 1s";
    let mut lease = lab.lease(options, &["sh", "-c", "echo full >&2; yes >&2"]);
    lease.stderr(Stdio::from(writer));
    crate::support::lab::detach(&mut lease);
    let mut child = lease.spawn().unwrap();
    drop(lease);
    let token = lab.held();
    let end = now() + ttl * 2;
    while now() < end {
        lab.assert_held(token);
        std::thread::sleep(ms(20));
    }
    // Lost while nobody reads: the end does not wait for a reader either.
    lab.revoke();
    let status = until("the end", secs(30), || child.try_wait().unwrap());
    assert_eq!(status.code(), Some(79));
    lab.until_all_gone(SOON);
    let mut first = [0; 5];
    reader.read_exact(&mut first).unwrap();
}
