//! What `lease run` refuses, waits for and says, apart from the processes: those have a test program of their own.

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::support::{Answer, World};

/// The wide margin for what is to come "at once" on a loaded machine, and far below what it is told apart from.
const SOON: Duration = Duration::from_secs(20);

fn run(world: &World, options: &str, command: &str) -> Answer {
    Answer::of(&mut lease(world, options, command))
}

/// `lease run OPTIONS r -- /bin/sh -c COMMAND`.
fn lease(world: &World, options: &str, command: &str) -> Command {
    let words = options.split_ascii_whitespace();
    let words = ["run"].into_iter().chain(words).chain(["r", "--", "/bin/sh", "-c", command]);
    world.command(words)
}

/// A run that holds `r` until its standard input is closed.
struct Holder(Child);

impl Holder {
    fn new(world: &World, options: &str) -> Self {
        let mut command = lease(world, options, "echo held; read line; exit 0");
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        let out = child.stdout.take().unwrap();
        std::io::BufRead::read_line(&mut std::io::BufReader::new(out), &mut line).unwrap();
        assert_eq!(line, "held\n");
        Self(child)
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

#[test]
fn a_wait_is_one_for_another_holder_and_not_for_the_store() {
    let world = World::new();
    for wait in ["-w 0", "-w 1ms", "-w 2ms", "-n"] {
        run(&world, wait, "exit 0").ok();
    }
    let _holder = Holder::new(&world, "");
    for wait in ["-w 0", "-w 1ms", "-n"] {
        let begun = Instant::now();
        run(&world, wait, "exit 0").fails(75, &["r: held by "]);
        assert!(begun.elapsed() < SOON, "{wait}");
    }
}

#[test]
fn a_script_without_its_interpreter_is_there_and_cannot_be_executed() {
    use std::os::unix::fs::PermissionsExt;
    let world = World::new();
    let script = world.path("script");
    std::fs::write(&script, "#!/no/such/interpreter\n").unwrap();
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
    let run = |name: &str| Answer::of(&mut world.command(["run", "r", "--", name]));
    run("./script").fails(126, &["./script: cannot be executed: the interpreter"]);
    run(script.to_str().unwrap()).fails(126, &["the interpreter"]);
    run("./no-such-script").fails(127, &["./no-such-script: command not found"]);
}

/// Both processes are the program that was started, also where another was installed in its place meanwhile.
#[test]
#[cfg(target_os = "linux")]
fn a_program_that_was_removed_since_it_began_runs_its_command() {
    let world = World::new();
    let script =
        r#"cp "$0" program && exec 9<program && rm program && exec /proc/self/fd/9 run r -- sh -c 'exit 5'"#;
    let mut shell = Command::new("/bin/sh");
    shell.args(["-c", script, env!("CARGO_BIN_EXE_lease")]).current_dir(world.path("."));
    let answer = Answer::of(shell.env("LEASE_STORE", world.url()));
    assert_eq!((answer.code, answer.err.as_str()), (Some(5), ""));
}

#[test]
fn a_hold_of_no_time_is_refused_and_one_that_is_over_at_once_is_told() {
    let world = World::new();
    run(&world, "--max-hold 0", "exit 0").fails(64, &["--max-hold"]);
    run(&world, "--max-hold 1ms", "sleep 60").fails(124, &["--max-hold"]);
    assert_eq!(world.json("show r")["state"], "released");
}

#[test]
fn what_the_store_would_refuse_later_is_refused_before_the_command_starts() {
    let world = World::new();
    let started = world.path("started");
    let command = format!("> {}", started.display());
    for (options, words) in [
        ("--at-least 25h", ["--at-least is 1d1h", "at most 1d"]),
        ("--ttl 25h", ["--ttl is 1d1h", "at most 1d"]),
    ] {
        run(&world, options, &command).fails(64, &words);
    }
    run(&world, "--store sqlite::memory:", &command).fails(78, &["keeps nobody out"]);
    assert!(!started.exists());
    assert_eq!(world.json("show r")["state"], "unseen");
}

#[test]
fn a_lease_that_the_command_gave_back_itself_did_not_stand() {
    let world = World::new();
    let lease = env!("CARGO_BIN_EXE_lease");
    run(&world, "--ttl 1h", &format!("{lease} release r")).fails(79, &["r: ", "not by this run"]);
    run(&world, "--ttl 1h", "exit 3").fails(3, &[]);
}

#[test]
fn a_run_within_a_run_does_not_wait_for_itself() {
    let world = World::new();
    let inner = format!("{} run --ttl 1h r -- /bin/sh -c 'echo ran'", env!("CARGO_BIN_EXE_lease"));
    let begun = Instant::now();
    let answer = run(&world, "--ttl 1h", &inner).fails(75, &["already runs under the lease"]);
    assert!(begun.elapsed() < SOON);
    assert_eq!(answer.out, "");
    // Another resource is no such case.
    assert_eq!(run(&world, "", &inner.replace(" r -- ", " s -- ")).ok().out, "ran\n");
}

#[test]
fn a_command_finds_the_store_from_another_folder() {
    let world = World::new();
    let inner = format!("cd / && {} show r --json", env!("CARGO_BIN_EXE_lease"));
    let answer = Answer::of(&mut world.bare([
        "run",
        "--store",
        "sqlite:leases.db",
        "r",
        "--",
        "/bin/sh",
        "-c",
        &inner,
    ]));
    assert_eq!(answer.ok().json()["state"], "held");
    let mut by_variable = world.bare(["run", "r", "--", "/bin/sh", "-c", &inner]);
    let answer = Answer::of(by_variable.env("LEASE_STORE", "sqlite:leases.db"));
    assert_eq!(answer.ok().json()["state"], "held");
}

#[test]
fn slips_on_the_command_line_are_named() {
    let world = World::new();
    let once = world.command(["run", "--once", "", "r", "--", "/bin/true"]).output().unwrap();
    Answer::from(once).fails(64, &["--once", "at least one byte"]);
    world.lease("run --ttl -1 r -- /bin/true").fails(64, &["'-1' for '--ttl <DURATION>'"]);
    world.lease("run --max-hold -1s r -- /bin/true").fails(64, &["'-1s' for '--max-hold <DURATION>'"]);
    world.lease("acquire r --ttl -1").fails(64, &["'-1' for '--ttl <DURATION>'"]);
    world.lease("run nightly echo hi").fails(64, &["tip: write -- before the command"]);
}

#[test]
fn a_store_that_grants_nothing_is_not_waited_for_without_a_wait() {
    let world = World::new();
    world.acquire("other --ttl 1h");
    // Leases of the old epoch may still be held: it holds grants back.
    assert_eq!(world.lease("epoch open --yes").code, Some(0));
    for options in ["-n", "--skip-if-held", "-w 0"] {
        let begun = Instant::now();
        run(&world, options, "exit 0").fails(69, &["r: ", "history was lost"]);
        assert!(begun.elapsed() < SOON, "{options} took {:?}", begun.elapsed());
    }
    // Whoever waits is told why.
    run(&world, "-w 100ms", "exit 0").fails(69, &["did not decide, and is asked again", "history was lost"]);
}

#[test]
fn a_scheduler_hears_nothing_of_a_held_lease_until_it_hangs() {
    let world = World::new();
    let _holder = Holder::new(&world, "");
    run(&world, "--skip-if-held", "echo ran").ok();
    run(&world, "--skip-if-held --max-hold 1h", "echo ran").ok();
    let answer = run(&world, "--skip-if-held --max-hold 1ms", "echo ran");
    assert_eq!((answer.code, answer.out.as_str()), (Some(0), ""), "{answer:?}");
    assert_eq!(answer.err.lines().count(), 1, "{answer:?}");
    assert!(answer.err.contains("longer than --max-hold"), "{answer:?}");
}

#[test]
fn a_holder_whose_work_has_ended_is_not_said_to_work() {
    let world = World::new();
    run(&world, "--at-least 1h --label first", "exit 0").ok();
    run(&world, "-n", "exit 0")
        .fails(75, &["r: it is held back for ", "after the work of first", "which has ended"]);
}

#[test]
fn chatty_lines_name_the_resource() {
    let world = World::new();
    let answer = run(&world, "-v", "exit 0");
    assert!(answer.err.starts_with("lease: r: held under token "), "{answer:?}");
}

/// What a run with `--events FILE` wrote there.
fn events(world: &World) -> Vec<serde_json::Value> {
    let text = std::fs::read_to_string(world.path("events")).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn words(events: &[serde_json::Value]) -> Vec<&str> {
    events.iter().map(|event| event["event"].as_str().unwrap()).collect()
}

#[test]
fn events_tell_the_course_of_a_run() {
    let world = World::new();
    let answer = run(&world, "--ttl 20s --events events", "echo $LEASE_TOKEN; exit 3").fails(3, &[]);
    let told = events(&world);
    assert_eq!(words(&told), ["granted", "started", "ended", "released"]);
    for event in &told {
        assert_eq!(
            (event["resource"].as_str(), event["token"].as_str()),
            (Some("r"), Some(answer.out.trim()))
        );
        let at = event["at"].as_str().unwrap();
        assert!(at.len() == 24 && at.ends_with('Z'), "{at}");
    }
    assert!(told[0]["remaining_ms"].as_u64().unwrap() > 0 && told[1]["pid"].is_u64() && told[2]["code"] == 3);
    // A second run appends.
    run(&world, "--ttl 20s --events events", "kill -KILL $$").fails(137, &[]);
    assert_eq!(events(&world).len(), 8);
    assert_eq!(events(&world)[6]["signal"], 9);
}

#[test]
fn events_tell_why_a_command_was_ended() {
    let world = World::new();
    run(
        &world,
        "--max-hold 500ms --kill-after 200ms --events events",
        "trap '' TERM; while :; do sleep 1; done",
    )
    .fails(124, &[]);
    let told = events(&world);
    let told: Vec<_> = told.iter().filter(|event| event["event"] != "renewed").collect();
    let words: Vec<&str> = told.iter().map(|event| event["event"].as_str().unwrap()).collect();
    assert_eq!(words, ["granted", "started", "stopping", "killed", "ended", "released"]);
    assert_eq!((&told[2]["reason"], &told[3]["reason"]), (&"max_hold".into(), &"max_hold".into()));
}

#[test]
fn events_tell_of_waiting_of_renewals_and_of_a_loss() {
    let world = World::new();
    world.acquire("r --ttl 1500ms --label other");
    let revoke = format!(
        "until grep -q renewed events; do sleep 0.05; done; {} revoke r --yes >&2; sleep 60",
        env!("CARGO_BIN_EXE_lease")
    );
    run(&world, "--ttl 3s --events events", &revoke).fails(79, &[]);
    let told = events(&world);
    let words = words(&told);
    assert_eq!(words[..4], ["waiting", "granted", "started", "renewed"], "{words:?}");
    assert_eq!(told[0]["holder"]["label"], "other");
    assert_eq!(words[words.len() - 1], "lost");
    assert_eq!(told[told.len() - 1]["reason"], "vacated");
}

#[test]
fn a_target_for_events_that_cannot_be_opened_is_told_before_anything_is_taken() {
    let world = World::set_up();
    nix::unistd::mkfifo(&world.path("fifo"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    for (target, code, word) in [
        ("no/such/folder/events", 78, "No such file"),
        ("fifo", 78, "fifo"),
        ("fd:77", 64, "fd:77, which is not open"),
        ("fd:2", 64, "the command's own"),
        ("fd:x", 64, "no number"),
        ("fd:", 64, "no number"),
    ] {
        run(&world, &format!("--events {target}"), "echo ran")
            .fails(code, &["--events", word][usize::from(code == 78)..]);
    }
    assert_eq!(world.json("show r")["state"], "unseen");
}

/// A run whose descriptor 7 was opened by the shell around it. Up to a ttl of 30 s nothing is renewed at once.
fn with_descriptor(world: &World, redirection: &str, command: &str) -> Answer {
    let lease = env!("CARGO_BIN_EXE_lease");
    let script =
        format!("exec 7{redirection}; exec {lease} run --ttl 20s --events fd:7 r -- /bin/sh -c '{command}'");
    let mut shell = Command::new("/bin/sh");
    Answer::of(
        shell.args(["-c", &script]).env_clear().env("LEASE_STORE", world.url()).current_dir(world.path(".")),
    )
}

#[test]
fn events_go_to_a_descriptor_that_the_command_does_not_get() {
    let world = World::new();
    with_descriptor(&world, ">events", "if [ -e /dev/fd/7 ]; then exit 9; fi").ok();
    assert_eq!(words(&events(&world)), ["granted", "started", "ended", "released"]);
    with_descriptor(&world, "</dev/null", "exit 0").fails(64, &["reading only"]);
}

#[test]
fn a_reader_that_does_not_read_holds_nothing_up() {
    let world = World::new();
    let fifo = world.path("fifo");
    nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU).unwrap();
    // Open at both ends, so that writing does not fail, and filled up.
    let mut pipe = std::fs::File::options().read(true).write(true).open(&fifo).unwrap();
    let full = nix::fcntl::fcntl(&pipe, nix::fcntl::FcntlArg::F_GETFL).unwrap();
    let flags = nix::fcntl::OFlag::from_bits_retain(full) | nix::fcntl::OFlag::O_NONBLOCK;
    nix::fcntl::fcntl(&pipe, nix::fcntl::FcntlArg::F_SETFL(flags)).unwrap();
    while std::io::Write::write(&mut pipe, &[b'x'; 4096]).is_ok() {}
    let begun = Instant::now();
    run(&world, "--ttl 1h --events fifo", "exit 3").fails(3, &[]);
    assert!(begun.elapsed() < SOON);
    assert_eq!(world.json("show r")["state"], "released");
}
