//! Exit codes and signals.

use std::fs;

use libtest_mimic::Trial;
use nix::sys::signal::Signal;

use crate::support::actor::actor;
use crate::support::random::Random;
use crate::support::{Lab, SOON, ms, secs, until};
use crate::trial;

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        trial("scenario_01_exit_codes", scenario_01_exit_codes),
        trial("scenario_02_signals_are_passed_on_once", scenario_02_signals_are_passed_on_once),
        trial("scenario_02_term_at_any_moment", scenario_02_term_at_any_moment),
        trial("scenario_03_ignored_signals_stay_ignored", scenario_03_ignored_signals_stay_ignored),
    ]
}

fn scenario_01_exit_codes() {
    let lab = Lab::new();
    let not_executable = lab.path("not-executable");
    fs::write(&not_executable, "#!/bin/sh\n").unwrap();
    let cases: [(&[&str], i32); 9] = [
        (&["sh", "-c", "exit 0"], 0),
        (&["sh", "-c", "exit 3"], 3),
        (&["sh", "-c", "exit 79"], 79),
        (&["sh", "-c", "exit 255"], 255),
        (&["sh", "-c", "kill -TERM $$"], 143),
        (&["sh", "-c", "kill -KILL $$"], 137),
        (&["sh", "-c", "kill -SEGV $$"], 139),
        (&["/no/such/command"], 127),
        (&[not_executable.to_str().unwrap()], 126),
    ];
    for (command, code) in cases {
        let mut run = lab.run("--ttl 60s", command);
        assert_eq!(run.code(), code, "{command:?}: {}", run.said());
        lab.assert_free();
    }
}

fn scenario_02_signals_are_passed_on_once() {
    for (signal, name) in [
        (Signal::SIGHUP, "HUP"),
        (Signal::SIGINT, "INT"),
        (Signal::SIGQUIT, "QUIT"),
        (Signal::SIGTERM, "TERM"),
        (Signal::SIGUSR1, "USR1"),
        (Signal::SIGUSR2, "USR2"),
    ] {
        let lab = Lab::new();
        let heard = lab.path("heard");
        let ear = actor(&["ear", heard.to_str().unwrap()]);
        let mut run = lab.run("", &ear.iter().map(String::as_str).collect::<Vec<_>>());
        until("the command to listen", SOON, || heard.exists().then_some(()));
        run.signal(signal);
        assert_eq!(run.code(), 7);
        assert_eq!(fs::read_to_string(&heard).unwrap(), format!("{name}\n"));
        lab.assert_free();
    }
}

fn scenario_02_term_at_any_moment() {
    let lab = Lab::new();
    let mut random = Random::new();
    let mut codes = std::collections::BTreeMap::new();
    for _ in 0..300 {
        let mut run = lab.run("", &["true"]);
        random.pause(ms(12));
        // It may have ended.
        let _ = nix::sys::signal::kill(run.front(), Signal::SIGTERM);
        *codes.entry(run.code()).or_insert(0) += 1;
        // Killed before it had handlers, it leaves the withdrawal to its warden.
        until("the lease to be free", secs(5), || lab.token().is_none().then_some(()));
    }
    assert!(codes.keys().all(|code| [0, 143].contains(code)), "{codes:?}, {random:?}");
    lab.until_all_gone(SOON);
}

fn scenario_03_ignored_signals_stay_ignored() {
    let lab = Lab::new();
    let heard = lab.path("heard");
    let status = lab.path("status");
    // The command installs handlers even for what it was started to ignore, so that it would hear what is passed on.
    let ear = actor(&["ear", heard.to_str().unwrap()]).join("' '");
    let script = format!("cp /proc/self/status '{}'; exec '{ear}'", status.display());
    let lease = lab.lease("", &["sh", "-c", &script]);
    let mut shell = lab.command("sh");
    shell.args(["-c", "trap '' HUP INT; exec \"$@\"", "sh"]).arg(lease.get_program()).args(lease.get_args());
    let mut run = lab.start(shell);
    until("the command to listen", SOON, || heard.exists().then_some(()));

    let status = fs::read_to_string(&status).unwrap();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap();
    // Bits 0 and 1: HUP and INT, and nothing of what the warden ignores.
    assert_eq!(u64::from_str_radix(ignored.trim(), 16).unwrap(), 0b11, "{status}");

    run.signal(Signal::SIGHUP);
    run.signal(Signal::SIGINT);
    run.signal(Signal::SIGTERM);
    assert_eq!(run.code(), 7);
    assert_eq!(fs::read_to_string(&heard).unwrap(), "TERM\n");
}
