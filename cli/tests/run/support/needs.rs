//! What a scenario needs of the machine.

use std::path::Path;
use std::process::{Command, Stdio};

/// Something that not every machine has.
#[derive(Clone, Copy)]
pub(crate) enum Need {
    /// This program in the path.
    Program(&'static str),
    /// Pid namespaces that we may make.
    PidNamespace,
    /// A freezer for control groups that we may use.
    Freezer,
    /// To be root, and a temporary folder that honours set-uid.
    Root,
}

impl Need {
    /// The words for it, where it is missing.
    pub(crate) fn missing(self) -> Option<&'static str> {
        match self {
            Self::Program(name) => (!in_path(name)).then_some(name),
            Self::PidNamespace => (!makes_namespaces()).then_some("pid namespaces that this user may make"),
            Self::Freezer => {
                let there = Path::new(super::lab::FREEZER).is_dir() && nix::unistd::geteuid().is_root();
                (!there).then_some("a writable cgroup freezer")
            }
            Self::Root => (!nix::unistd::geteuid().is_root()).then_some("root"),
        }
    }
}

fn in_path(name: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(name).is_file())
}

fn makes_namespaces() -> bool {
    let mut unshare = Command::new("unshare");
    unshare.args(["-p", "-f", "--mount-proc", "--kill-child", "true"]);
    unshare.stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
}
