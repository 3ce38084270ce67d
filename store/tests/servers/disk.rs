//! A disk of a server's own that is small enough to be filled: a file system in memory, mounted where this program and the
//! servers that it starts see it, and nobody else.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use super::guard::{Guarded, is_root};

/// Set in a program whose mounts are its own.
const ALONE: &str = "LEASE_TEST_MOUNTS";

/// Has this program begin anew where its mounts are its own, if it may: they end with it, however it ends.
pub fn mount_alone() {
    if std::env::var_os(ALONE).is_some() || !may_mount() {
        return;
    }
    let mut unshare = Command::new("unshare");
    unshare.arg("--mount").arg(std::env::current_exe().unwrap()).args(std::env::args_os().skip(1));
    panic!("{}", unshare.env(ALONE, "1").exec());
}

fn may_mount() -> bool {
    let mut try_it = Command::new("unshare");
    try_it.args(["--mount", "mount", "-t", "tmpfs", "tmpfs"]).arg(std::env::temp_dir());
    let quiet = try_it.stdout(Stdio::null()).stderr(Stdio::null());
    is_root() && quiet.status().is_ok_and(|status| status.success())
}

pub struct Disk(PathBuf);

impl Disk {
    /// What this machine lacks for one, if so.
    pub fn missing() -> Option<&'static str> {
        std::env::var_os(ALONE).is_none().then_some("a root who may mount file systems")
    }

    /// An empty one of this size, as `mount` takes it.
    pub fn of(size: &str) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!("lease-disk-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::SeqCst));
        let folder = std::env::temp_dir().join(name);
        fs::create_dir(&folder).unwrap();
        let options = format!("size={size},mode=0755");
        let mut mount = Command::new("mount");
        assert!(
            mount.args(["-t", "tmpfs", "-o", &options, "tmpfs"]).arg(&folder).status().unwrap().success()
        );
        Self(folder)
    }

    /// A server's folder on it.
    pub fn folder(&self, of: &str) -> Guarded {
        Guarded::folder_in(&self.0, of)
    }

    /// Leaves no room on it.
    pub fn fill(&self) {
        let mut ballast = File::create(self.0.join("ballast")).unwrap();
        let full = loop {
            if let Err(error) = ballast.write_all(&[1; 65_536]) {
                break error;
            }
        };
        assert_eq!(full.kind(), io::ErrorKind::StorageFull, "{full}");
    }

    /// Makes room again.
    pub fn clear(&self) {
        fs::remove_file(self.0.join("ballast")).unwrap();
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // A server that has not ended may still have files there.
        let _ = Command::new("umount").arg("--lazy").arg(&self.0).status();
        let _ = fs::remove_dir(&self.0);
    }
}
