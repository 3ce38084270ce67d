//! `acquire`, `renew` and `release`.

use std::fs::OpenOptions;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::support::{Answer, World};

#[test]
fn a_grant_is_one_line_that_is_safe_to_eval() {
    let world = World::new();
    let answer = world.lease("acquire r --ttl 1m").ok();
    let grant: Vec<&str> = answer.out.strip_suffix('\n').unwrap().split(' ').collect();
    let [owner, token, epoch] = grant[..] else { panic!("{grant:?}") };
    let digits =
        |text: &str, name: &str| text.strip_prefix(name).unwrap().bytes().all(|b| b.is_ascii_digit());
    assert!(digits(owner, "LEASE_OWNER=") && digits(token, "LEASE_TOKEN="), "{grant:?}");
    let epoch = epoch.strip_prefix("LEASE_EPOCH=").unwrap();
    assert!(epoch.len() == 16 && epoch.bytes().all(|b| b.is_ascii_hexdigit()), "{epoch}");

    // As the help text shows it: the three reach `lease release` through the environment.
    let script = r#"eval "export $1" && exec "$2" release r"#;
    let mut shell = Command::new("/bin/sh");
    shell.args(["-c", script, "sh", answer.out.trim(), env!("CARGO_BIN_EXE_lease")]);
    Answer::of(shell.env_clear().env("LEASE_STORE", world.url())).ok();
    assert_eq!(world.json("show r")["state"], "released");
}

#[test]
fn another_is_told_who_holds_it() {
    let world = World::new();
    let grant = world.acquire("r --ttl 1m --label backup@db1");
    let refused = world.lease("acquire r --ttl 1m");
    assert_eq!(refused.out, "");
    refused.fails(75, &["r was not granted", "held by backup@db1", &grant.token]);
    let refused = world.lease("acquire r --ttl 1m --json");
    let json = refused.json();
    assert_eq!((json["outcome"].as_str(), json["reason"].as_str()), (Some("rejected"), Some("occupied")));
    assert_eq!(json["holder"]["token"], grant.token);
    refused.fails(75, &["backup@db1"]);
}

#[test]
fn it_is_for_as_long_as_was_asked() {
    let world = World::new();
    // The keepers of leases ask for half a minute at first. Nobody would renew this one.
    let json = world.json("acquire r --ttl 24h");
    assert_eq!(json["ttl_ms"], 86_400_000);
    assert!(world.json("show r")["holder"]["remaining_ms"].as_u64().unwrap() > 86_000_000);
}

#[test]
fn tokens_rise_over_release_and_expiry() {
    let world = World::new();
    let first = world.acquire("r --ttl 1m");
    world.lease(&format!("release r {}", first.options())).ok();
    let second = world.acquire("r --ttl 1ms");
    let third = world.acquire("r --ttl 1m -w forever");
    assert!(first.token() < second.token() && second.token() < third.token());
}

#[test]
fn a_renewal_keeps_the_token_and_never_shortens() {
    let world = World::new();
    let grant = world.acquire("r --ttl 1m");
    let json = world.json(&format!("renew r --ttl 1h {}", grant.options()));
    assert_eq!((json["outcome"].as_str(), json["token"].as_str()), (Some("renewed"), Some(&*grant.token)));
    assert_eq!(json["ttl_ms"], 3_600_000);
    let shorter = world.lease(&format!("renew r --ttl 1s {}", grant.options())).ok();
    assert_eq!(shorter.out, "");
    assert!(world.json("show r")["holder"]["remaining_ms"].as_u64().unwrap() > 3_500_000);
}

#[test]
fn a_lease_that_is_gone_is_neither_renewed_nor_released() {
    let world = World::new();
    let gone = world.acquire("r --ttl 1ms");
    let current = world.acquire("r --ttl 1m -w forever --label next");
    for command in ["renew r --ttl 1m", "release r"] {
        world.lease(&format!("{command} {}", gone.options())).fails(79, &["held by next", &current.token]);
        let stale =
            format!("{command} --owner {} --token {} --epoch {}", current.owner, gone.token, current.epoch);
        world.lease(&stale).fails(79, &["the token is not the current one"]);
        let other_epoch =
            format!("{command} --owner {} --token {} --epoch 00000000000000ff", current.owner, current.token);
        world.lease(&other_epoch).fails(79, &["00000000000000ff", &current.epoch]);
    }
    assert_eq!(world.json("show r")["holder"]["token"], current.token, "it stands after all that");
    let expired = world.acquire("s --ttl 1ms");
    wait_until(|| world.json("show s")["holder"].is_null());
    world.lease(&format!("renew s --ttl 1m {}", expired.options())).fails(79, &["the lease is over"]);
}

#[test]
fn a_mistyped_name_does_not_end_the_leases_of_everybody() {
    let world = World::new();
    let grant = world.acquire("r --ttl 1h");
    for command in ["renew unseen --ttl 1m", "release unseen"] {
        world
            .lease(&format!("{command} {}", grant.options()))
            .fails(79, &["does not know token", &grant.token]);
    }
    let mistyped =
        format!("renew r --ttl 1m --owner {} --token {}0 --epoch {}", grant.owner, grant.token, grant.epoch);
    world.lease(&mistyped).fails(79, &["does not know token"]);
    assert_eq!(world.json("epoch show")["epoch"], grant.epoch);
    world.lease(&format!("renew r --ttl 1h {}", grant.options())).ok();
}

#[test]
fn releasing_twice_is_no_error() {
    let world = World::new();
    let grant = world.acquire("r --ttl 1m");
    assert_eq!(world.json(&format!("release r {}", grant.options()))["outcome"], "released");
    assert_eq!(world.json(&format!("release r {}", grant.options()))["outcome"], "already_released");
    let next = world.acquire("r --ttl 1m");
    world.lease(&format!("release r {}", grant.options())).ok();
    assert_eq!(world.json("show r")["holder"]["token"], next.token, "the next holder is left alone");
}

#[test]
fn at_least_keeps_others_out_after_the_release() {
    let world = World::new();
    let grant = world.acquire("r --ttl 1m");
    let json = world.json(&format!("release r --at-least 1h --result good {}", grant.options()));
    assert_eq!(json["outcome"], "retained");
    assert!(json["ttl_ms"].as_u64().unwrap() > 3_500_000, "{json}");
    world.lease("acquire r --ttl 1m").fails(75, &["held back for 59m"]);
    assert_eq!(world.json("show r")["state"], "retained");
    world.lease("check r --held-max 0").ok();
}

#[test]
fn the_environment_names_the_lease_and_options_win() {
    let world = World::new();
    world.lease("renew r --ttl 1m").fails(64, &["--owner", "export $grant"]);
    let (first, second) = (world.acquire("r --ttl 1m"), world.acquire("s --ttl 1m"));
    let mut command = world.command(["renew", "r", "--ttl", "1m"]);
    command.envs([
        ("LEASE_OWNER", &first.owner),
        ("LEASE_TOKEN", &first.token),
        ("LEASE_EPOCH", &first.epoch),
    ]);
    Answer::of(&mut command).ok();
    command.args(["--owner", &second.owner, "--token", &second.token]);
    Answer::of(&mut command).fails(79, &[]);
}

#[test]
fn waiting_ends_when_the_holder_releases() {
    let world = World::new();
    let grant = world.acquire("r --ttl 1h --label backup@db1");
    let mut waiting = Waiting::begin(world.command(["acquire", "r", "--ttl", "1m", "--wait", "forever"]));
    assert!(
        waiting.said.contains("waiting for r") && waiting.said.contains("backup@db1"),
        "{}",
        waiting.said
    );
    world.lease(&format!("release r {}", grant.options())).ok();
    let out = waiting.output();
    assert!(out.starts_with("LEASE_OWNER="), "{out}");
    assert!(waiting.child.wait().unwrap().success());
}

#[test]
fn waiting_ends_when_its_time_is_over() {
    let world = World::new();
    world.acquire("r --ttl 1h");
    let begun = Instant::now();
    world
        .lease("acquire r --ttl 1m --wait 300ms")
        .fails(75, &["waiting for r for at most 300ms", "was not granted"]);
    assert!(begun.elapsed() >= Duration::from_millis(300));
}

#[test]
fn an_interrupted_wait_ends_by_the_signal_and_leaves_nothing_held() {
    for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP] {
        let world = World::new();
        let grant = world.acquire("r --ttl 1h");
        world.lease("id acquire ids --ttl 1h --size 1").ok();
        for words in ["acquire r", "id acquire ids --size 1"] {
            // Whoever started the tests may ignore signals: a shell does for what it puts in the background.
            let mut command = Command::new("/usr/bin/env");
            if cfg!(target_os = "linux") {
                command.arg("--default-signal=HUP,INT");
            }
            command
                .arg(env!("CARGO_BIN_EXE_lease"))
                .args(words.split(' '))
                .args(["--ttl", "1h", "--wait", "forever"]);
            command.env_clear().env("LEASE_STORE", world.url());
            let mut waiting = Waiting::begin(command);
            waiting.signal(signal);
            assert_eq!(waiting.child.wait().unwrap().signal(), Some(signal as i32), "{words}");
        }
        world.lease(&format!("release r {}", grant.options())).ok();
        assert_eq!(world.json("show r")["state"], "released");
    }
}

#[test]
fn a_signal_that_was_ignored_stays_so() {
    let world = World::new();
    let grant = world.acquire("r --ttl 1h");
    let mut shell = Command::new("/bin/sh");
    shell.args([
        "-c",
        r#"trap "" HUP; exec "$0" acquire r --ttl 1m --wait forever"#,
        env!("CARGO_BIN_EXE_lease"),
    ]);
    shell.env_clear().env("LEASE_STORE", world.url());
    let mut waiting = Waiting::begin(shell);
    waiting.signal(Signal::SIGHUP);
    world.lease(&format!("release r {}", grant.options())).ok();
    assert!(waiting.output().starts_with("LEASE_OWNER="));
    assert!(waiting.child.wait().unwrap().success());
}

#[test]
fn a_grant_that_cannot_be_told_is_taken_back() {
    let world = World::new();
    let mut command = world.command(["acquire", "r", "--ttl", "1h"]);
    let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
    let status = command.stdout(full).stderr(Stdio::null()).status().unwrap();
    assert_eq!(status.code(), Some(125));
    assert_eq!(world.json("show r")["state"], "withdrawn");

    let (reader, writer) = nix::unistd::pipe().unwrap();
    drop(reader);
    let status = command.stdout(writer).status().unwrap();
    assert_eq!(status.signal(), Some(Signal::SIGPIPE as i32));
    assert_eq!(world.json("show r")["state"], "withdrawn");
}

#[test]
fn a_holder_is_called_by_user_host_and_the_process_that_asked() {
    let world = World::new();
    let mut command = world.command(["acquire", "r", "--ttl", "1m"]);
    Answer::of(command.env("LOGNAME", "deploy")).ok();
    let label = world.json("show r")["holder"]["label"].as_str().unwrap().to_owned();
    let (user, rest) = label.split_once('@').unwrap();
    let (host, pid) = rest.rsplit_once(':').unwrap();
    assert_eq!((user, pid), ("deploy", &*std::process::id().to_string()));
    assert!(!host.is_empty());
}

/// A command that waits for another holder.
struct Waiting {
    child: Child,
    /// The first line that it wrote to standard error.
    said: String,
}

impl Waiting {
    fn begin(mut command: Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut said = String::new();
        let mut errors = BufReader::new(child.stderr.take().unwrap());
        errors.read_line(&mut said).unwrap();
        // Kept open: a closed one would be another test.
        child.stderr = Some(errors.into_inner());
        Self { child, said }
    }

    fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.child.id() as i32), signal).unwrap();
    }

    fn output(&mut self) -> String {
        let mut out = String::new();
        self.child.stdout.take().unwrap().read_to_string(&mut out).unwrap();
        out
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        // It has ended already unless the test failed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Waits for what time brings about, at most a minute.
#[track_caller]
fn wait_until(mut condition: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !condition() {
        assert!(begun.elapsed() < Duration::from_secs(60), "it did not come about within a minute");
        std::thread::sleep(Duration::from_millis(2));
    }
}
