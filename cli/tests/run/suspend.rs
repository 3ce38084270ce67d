//! Time that passes while nothing runs, and processes that nobody may signal.
//!
//! A machine that sleeps is the subject of unit tests with a driven clock, which have this scenario's number too.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::PathBuf;
use std::process::Command;

use lease_machines::{Fence, FencingToken};
use libtest_mimic::Trial;
use nix::unistd::Pid;

use crate::support::actor::{Diary, actor};
use crate::support::clock::pass_until;
use crate::support::lab::{FREEZER, LEASE};
use crate::support::needs::Need::{Freezer, Program, Root};
use crate::support::processes::{self, look};
use crate::support::tree::Tree;
use crate::support::{Lab, SOON, TTL, ms, now, secs, until};
use crate::trial_with;

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        trial_with("scenario_25_frozen", &[Freezer], scenario_25_frozen),
        trial_with("scenario_25_became_root", &[Root, Program("setpriv")], scenario_25_became_root),
    ]
}

/// A control group that can be frozen; thawed and removed at the end.
struct Freezable(PathBuf);

impl Freezable {
    fn new(lab: &Lab) -> Self {
        let folder = PathBuf::from(FREEZER).join(lab.folder().file_name().unwrap());
        fs::create_dir(&folder).unwrap();
        Self(folder)
    }

    fn set(&self, state: &str) {
        fs::write(self.0.join("freezer.state"), state).unwrap();
        until("the freezer", SOON, || {
            let now = fs::read_to_string(self.0.join("freezer.state")).unwrap();
            (now.trim() == state).then_some(())
        });
    }
}

impl Drop for Freezable {
    fn drop(&mut self) {
        let _ = fs::write(self.0.join("freezer.state"), "THAWED");
        // What is left in it is killed; only an empty group can be removed.
        for _ in 0..500 {
            let members = fs::read_to_string(self.0.join("cgroup.procs")).unwrap_or_default();
            for pid in members.split_ascii_whitespace().filter_map(|pid| pid.parse().ok()) {
                let _ = nix::sys::signal::kill(Pid::from_raw(pid), nix::sys::signal::Signal::SIGKILL);
            }
            if fs::remove_dir(&self.0).is_ok() {
                return;
            }
            std::thread::sleep(ms(10));
        }
    }
}

fn scenario_25_frozen() {
    let lab = Lab::new();
    let tree = Tree::new(&lab);
    let command = tree.command();
    let freezable = Freezable::new(&lab);
    let lease = lab.lease("--ttl 3s", &command.iter().map(String::as_str).collect::<Vec<_>>());
    let mut shell = lab.command("sh");
    shell.args(["-c", &format!("echo $$ >{}/cgroup.procs; exec \"$@\"", freezable.0.display()), "sh"]);
    shell.arg(lease.get_program()).args(lease.get_args());
    let mut run = lab.start(shell);
    tree.until_grown();
    let token = lab.held();

    freezable.set("FROZEN");
    let frozen = now();
    let mut next = lab.run("--ttl 3s", &["sh", "-c", "echo $LEASE_TOKEN >token"]);
    assert_eq!(next.code(), 0, "{}", next.said());
    let newer: u64 = fs::read_to_string(lab.path("token")).unwrap().trim().parse().unwrap();
    pass_until(frozen + TTL * 2);
    freezable.set("THAWED");
    let thawed = now();
    assert_eq!(run.code(), 79, "{}", run.said());
    lab.until_all_gone(secs(1));
    tree.assert_last_act_before(thawed + secs(1));
    for (name, diary) in tree.diaries().unwrap() {
        assert_eq!(diary.terms, 0, "{name}: past the deadline there is no time for TERM");
    }
    // What it may have written in that moment is for the fence to refuse.
    let mut fence = Fence::new(FencingToken::new(newer));
    assert!(!fence.accept(FencingToken::new(token).unwrap()));
}

/// A command that became root by a set-uid program is out of reach for a `lease run` that is not root.
fn scenario_25_became_root() {
    const NOBODY: u32 = 65_534;
    let lab = Lab::for_anyone();
    let diary = lab.path("diary");
    let (set_uid, lease) = (lab.path("set-uid"), lab.path("lease"));
    for (program, copy) in [(&std::env::current_exe().unwrap(), &set_uid), (&LEASE.into(), &lease)] {
        // Not by this process: what a fork of another scenario keeps open for writing cannot be executed.
        assert!(Command::new("cp").arg(program).arg(copy).status().unwrap().success());
    }
    fs::set_permissions(&set_uid, PermissionsExt::from_mode(0o4755)).unwrap();
    for entry in fs::read_dir(lab.folder()).unwrap() {
        let path = entry.unwrap().path();
        if path != set_uid {
            chown(path, Some(NOBODY), Some(NOBODY)).unwrap();
        }
    }
    chown(lab.folder(), Some(NOBODY), Some(NOBODY)).unwrap();

    let mut role = actor(&["root", diary.to_str().unwrap()]);
    role[0] = set_uid.to_str().unwrap().to_owned();
    let mut command = lab.command("setpriv");
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(lease);
    command.args(["run", "--ttl", "3s", "job", "--"]).args(role);
    let mut run = lab.start(command);
    until("the command to be root", SOON, || Diary::read(&diary));
    let warden = until("the warden", SOON, || processes::warden_of(run.front())).pid;
    lab.held();
    let hole = lab.black_hole();
    let deadline = lab.deadline();
    let used = processes::processor_time(warden);
    until("the message", SOON, || run.said().contains("not permitted to signal set-uid").then_some(()));
    while look(warden).is_some() && now() < deadline {
        let busy = processes::processor_time(warden).saturating_sub(used);
        assert!(busy < ms(300), "a busy loop: {busy:?}");
        std::thread::sleep(ms(10));
    }
    assert_eq!(run.code(), 79, "{}", run.said());
    assert!(now() < deadline + secs(2), "it waited for what it cannot kill");
    assert!(run.said().contains("sudo lease run"), "{}", run.said());
    drop(hole);
}
