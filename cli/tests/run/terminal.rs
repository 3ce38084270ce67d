//! The terminal: who has it, who stops, and what a shell sees of it.

use std::fs;
use std::os::unix::process::ExitStatusExt;

use libtest_mimic::Trial;
use nix::libc;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::support::actor::actor;
use crate::support::clock::pass_until;
use crate::support::lab::LEASE;
use crate::support::needs::Need::Program;
use crate::support::processes::{Process, look};
use crate::support::pty::{CTRL_C, CTRL_Z, Pty, prompt};
use crate::support::{Lab, SOON, TTL, ms, now, until};
use crate::trial_with;

pub(crate) fn trials() -> Vec<Trial> {
    let bash = &[Program("bash")];
    let less = &[Program("bash"), Program("less")];
    vec![
        trial_with("scenario_11_ctrl_c", bash, scenario_11_ctrl_c),
        trial_with("scenario_12_ctrl_z_fg_bg", bash, scenario_12_ctrl_z_fg_bg),
        trial_with("scenario_13_loss_while_stopped", bash, scenario_13_loss_while_stopped),
        trial_with("scenario_15_pipelines", less, scenario_15_pipelines),
        trial_with("scenario_16_background_reader", &[Program("dash")], scenario_16_background_reader),
        trial_with("scenario_17_modes", bash, scenario_17_modes),
        trial_with("scenario_17_less", less, scenario_17_less),
        trial_with("scenario_17_window_size", bash, scenario_17_window_size),
        trial_with("scenario_18_session_leader", &[], scenario_18_session_leader),
        trial_with("scenario_18_hang_up", &[], scenario_18_hang_up),
    ]
}

/// Waits for a process of the lab whose command line begins with this.
#[track_caller]
pub(crate) fn find(lab: &Lab, command_line: &str) -> Process {
    let found = || lab.processes().into_iter().find(|process| process.command_line.starts_with(command_line));
    until(&format!("a process {command_line:?}"), SOON, found)
}

/// Waits for the front of a run.
#[track_caller]
pub(crate) fn find_front(lab: &Lab) -> Process {
    find(lab, &format!("{LEASE} run"))
}

#[track_caller]
pub(crate) fn until_state(pid: Pid, state: impl Fn(char) -> bool) {
    until("the process to stop or go on", SOON, || {
        look(pid).filter(|process| state(process.state)).map(drop)
    });
}

/// The lease is held under this token throughout one and a half ttls.
#[track_caller]
pub(crate) fn assert_kept(lab: &Lab, token: u64) {
    let end = now() + TTL * 3 / 2;
    while now() < end {
        lab.assert_held(token);
        std::thread::sleep(ms(20));
    }
}

/// `lease run OPTIONS job -- COMMAND`, as it is typed.
pub(crate) fn typed(options: &str, command: &str) -> String {
    format!("{LEASE} run {options} job -- {command}")
}

fn scenario_11_ctrl_c() {
    let lab = Lab::new();
    let mut shell = Pty::shell(&lab, "bash");
    shell.line(&typed("", "sleep 100"));
    lab.held();
    let command = find(&lab, "sleep");
    shell.until_foreground(command.group);
    assert_eq!(command.group, command.pid, "a group of its own");
    let typed_at = now();
    shell.send(CTRL_C);
    shell.expect(&prompt(130));
    let took = now() - typed_at;
    assert!(took < ms(500), "it took {took:?}");
    lab.assert_free();
    assert_eq!(shell.foreground(), shell.own_group());
}

fn scenario_12_ctrl_z_fg_bg() {
    let lab = Lab::new();
    let mut shell = Pty::shell(&lab, "bash");
    let reader = actor(&["reader", "go"]).join(" ");
    shell.line(&typed("--ttl 3s", &reader));
    shell.expect("ready");
    let (token, command) = (lab.held(), find(&lab, &reader));
    shell.send(CTRL_Z);
    shell.expect("Stopped");
    shell.expect(&prompt(148));
    assert_eq!(look(command.pid).unwrap().state, 'T');
    assert_eq!(shell.foreground(), shell.own_group());
    assert_kept(&lab, token);

    shell.line("fg");
    shell.until_foreground(command.group);
    until_state(command.pid, |state| state != 'T');

    shell.send(CTRL_Z);
    shell.expect(&prompt(148));
    shell.line("bg");
    shell.expect(&prompt(0));
    until_state(command.pid, |state| state != 'T');
    assert_eq!(shell.foreground(), shell.own_group());
    // bash believes it to be running and sends no CONT: only the read itself can bring the terminal.
    shell.line("fg");
    until("the shell to let go", SOON, || (shell.foreground() != shell.own_group()).then_some(()));
    fs::write(lab.path("go"), "").unwrap();
    shell.until_foreground(command.group);
    shell.line("hello");
    shell.expect("got:hello");
    shell.expect(&prompt(0));
    lab.assert_free();
}

fn scenario_13_loss_while_stopped() {
    let lab = Lab::new();
    let mut shell = Pty::shell(&lab, "bash");
    shell.line(&typed("--ttl 3s", "sleep 100"));
    lab.held();
    let command = find(&lab, "sleep");
    shell.until_foreground(command.group);
    shell.send(CTRL_Z);
    shell.expect(&prompt(148));
    let _hole = lab.black_hole();
    let deadline = lab.deadline();
    until("the command's end", SOON, || look(command.pid).is_none().then_some(()));
    assert!(now() < deadline, "it outlived the lease");
    // bash tells of jobs before a prompt, once it has heard of them itself.
    until("bash to tell of it", SOON, || {
        shell.line("");
        std::thread::sleep(ms(100));
        shell.unseen().contains("Exit 79").then_some(())
    });
}

fn scenario_15_pipelines() {
    let lab = Lab::new();
    let mut shell = Pty::shell(&lab, "bash");
    // The pager must not be stopped by a command that takes the terminal without needing it.
    shell.line(&format!("{} | less", typed("", "sh -c 'seq 200; exec sleep 60'")));
    let less = find(&lab, "less");
    let command = find(&lab, "sleep");
    shell.expect("20");
    shell.send("q");
    until("less to end", SOON, || look(less.pid).is_none().then_some(()));
    until_state(command.pid, |state| state == 'S');
    lab.held();
    shell.send(CTRL_C);
    shell.expect("> ");
    until("the command's end", SOON, || look(command.pid).is_none().then_some(()));
    until("the release", SOON, || lab.token().is_none().then_some(()));

    shell.line(&format!("{} | cat", typed("", "sh -c 'echo re''ady; read x; echo got:$x'")));
    shell.expect("ready");
    shell.line("hello");
    shell.expect("got:hello");
    shell.expect(&prompt(0));
    assert_eq!(shell.foreground(), shell.own_group());
}

fn scenario_16_background_reader() {
    let lab = Lab::new();
    // dash, since bash does not say what stopped a job.
    let mut shell = Pty::shell(&lab, "dash");
    shell.line(&format!("{} &", typed("", "cat")));
    shell.expect(&prompt(0));
    let command = find(&lab, "cat");
    until_state(command.pid, |state| state == 'T');
    until_state(find_front(&lab).pid, |state| state == 'T');
    shell.line("");
    shell.expect("Stopped (tty input)");
    shell.line("fg");
    shell.until_foreground(command.group);
    shell.line("hello");
    shell.expect("hello\r\nhello");
    shell.send("\x04");
    shell.expect(&prompt(0));
    assert_eq!(shell.foreground(), shell.own_group());
}

fn scenario_17_modes() {
    for by_loss in [false, true] {
        let lab = Lab::new();
        // dash leaves the modes as it finds them: what is sane here is so by our doing.
        let mut shell = Pty::shell(&lab, "sh");
        shell.line(&typed("--ttl 3s", "sh -c 'stty raw -echo; echo re''ady; exec sleep 100'"));
        shell.expect("ready");
        lab.held();
        assert!(!shell.is_sane());
        let command = find(&lab, "sleep");
        let hole = by_loss.then(|| lab.black_hole());
        if !by_loss {
            kill(command.pid, Signal::SIGKILL).unwrap();
        }
        shell.expect(&prompt(if by_loss { 79 } else { 137 }));
        assert!(shell.is_sane(), "by loss: {by_loss}");
        drop(hole);
    }
}

fn scenario_17_less() {
    let lab = Lab::new();
    let text: String = (0..500).map(|line| format!("line {line}\n")).collect();
    fs::write(lab.path("text"), text).unwrap();
    let mut shell = Pty::shell(&lab, "bash");
    shell.line(&typed("", "less text"));
    shell.expect("line 20");
    let less = find(&lab, "less text");
    until("less to have its modes", SOON, || (!shell.is_sane()).then_some(()));
    // It acts upon Ctrl-Z only when it waits for a key.
    shell.expect("text");
    until_state(less.pid, |state| state == 'S');
    std::thread::sleep(ms(200));
    shell.send(CTRL_Z);
    shell.expect(&prompt(148));
    assert!(shell.is_sane(), "the shell has its modes");
    shell.line("fg");
    shell.until_foreground(less.group);
    until("less to have its modes again", SOON, || (!shell.is_sane()).then_some(()));
    shell.send("G");
    shell.expect("line 499");
    shell.send("q");
    shell.expect(&prompt(0));
    assert!(shell.is_sane());
}

fn scenario_17_window_size() {
    let script = "sh -c 'trap \"stty size </dev/tty\" WINCH; echo re''ady; while :; do sleep 0.05; done'";
    for pipe in ["", " | cat"] {
        let lab = Lab::new();
        let mut shell = Pty::shell(&lab, "bash");
        shell.line(&format!("{}{pipe}", typed("", script)));
        shell.expect("ready");
        for columns in [91, 113] {
            shell.resize(columns);
            shell.expect(&format!("24 {columns}"));
        }
        shell.send(CTRL_C);
        shell.expect("> ");
    }
}

/// A session that nobody stopped could be continued in: what `docker run -it` gives.
fn leader(lab: &Lab, command: &[&str]) -> Pty {
    Pty::start(lab.lease("--ttl 3s", command))
}

fn scenario_18_session_leader() {
    let lab = Lab::new();
    let clock = actor(&["clock"]);
    let mut pty = leader(&lab, &clock.iter().map(String::as_str).collect::<Vec<_>>());
    pty.expect("ready");
    let (token, command) = (lab.held(), find(&lab, &clock.join(" ")));
    pty.until_foreground(command.group);
    pty.send(CTRL_Z);
    pty.expect("^Z");
    pty.expect("alive");
    pty.expect("alive");
    pty.until_foreground(command.group);
    assert_ne!(look(command.pid).unwrap().state, 'T');
    lab.assert_held(token);
    pty.send(CTRL_C);
    let status = until("its end", SOON, || pty.leader.try_wait().unwrap());
    assert_eq!(status.signal(), Some(libc::SIGINT));
    lab.assert_free();
}

fn scenario_18_hang_up() {
    let lab = Lab::new();
    let mut pty = leader(&lab, &["sh", "-c", "echo ready; exec sleep 100"]);
    pty.expect("ready");
    let token = lab.held();
    pty.hang_up();
    let status = until("its end", SOON, || pty.leader.try_wait().unwrap());
    assert_eq!(status.code(), Some(129));
    lab.assert_free();

    let script = "trap 'echo hup >hup' HUP; echo ready; until test -e go; do sleep 0.05; done; exit 6";
    let mut pty = leader(&lab, &["sh", "-c", script]);
    pty.expect("ready");
    pty.hang_up();
    until("the command to hear of it", SOON, || lab.path("hup").exists().then_some(()));
    let next = lab.held();
    assert!(next > token);
    pass_until(now() + TTL * 3 / 2);
    lab.assert_held(next);
    fs::write(lab.path("go"), "").unwrap();
    let status = until("its end", SOON, || pty.leader.try_wait().unwrap());
    assert_eq!(status.code(), Some(6));
    lab.assert_free();
}
