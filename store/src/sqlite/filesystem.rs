//! Which file systems a lease store may lie on, and under which names.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use super::connection::folder_of;
use crate::{ErrorKind, StoreError};

/// Refuses file systems that another machine may have mounted too, or whose locks and shared memory may be another's:
/// two machines would each grant the same lease.
pub(super) fn check(path: &Path) -> Result<(), StoreError> {
    match shared_file_system(path) {
        Some(name) => Err(StoreError::new(
            ErrorKind::Configuration,
            format!(
                "{} lies on {name}, expected a local file system: locks and shared memory do not reach other machines, \
                 so two of them could hold one lease. ?allow_network_fs=1 if no other machine ever uses this file",
                path.display()
            ),
        )),
        None => Ok(()),
    }
}

/// Refuses a file that others may reach by another path than this one. SQLite keeps the log and the locks beside the path
/// that it was given: two programs that use two of them see nothing of each other, and would each grant the same lease.
pub(super) fn check_name(path: &Path) -> Result<(), StoreError> {
    // One that is missing will have the name that it is created under.
    let (Ok(real), Ok(found)) = (path.canonicalize(), fs::metadata(path)) else { return Ok(()) };
    let what = if !found.is_file() {
        return Ok(());
    } else if found.nlink() > 1 {
        format!("has {} names (hard links), expected one: remove the others", found.nlink())
    } else if is_mounted_alone(&real) {
        "was mounted without its folder, as containers do with single files: mount the folder that it lies in"
            .to_owned()
    } else {
        return Ok(());
    };
    Err(StoreError::new(
        ErrorKind::Configuration,
        format!(
            "{} {what}. The log and the locks lie beside each name, so that programs which use two of them could hold one \
             lease. ?allow_network_fs=1 if nobody ever uses it by another name",
            path.display()
        ),
    ))
}

/// Whether something is mounted at this very path.
fn is_mounted_alone(path: &Path) -> bool {
    #[cfg(target_os = "linux")]
    if let Ok(found) = rustix::fs::statx(
        rustix::fs::CWD,
        path,
        rustix::fs::AtFlags::empty(),
        rustix::fs::StatxFlags::empty(),
    ) {
        let root = rustix::fs::StatxAttributes::MOUNT_ROOT;
        if found.stx_attributes_mask.contains(root) {
            return found.stx_attributes.contains(root);
        }
    }
    // Seen so only where it comes from another file system.
    let device = |path: &Path| fs::metadata(path).map(|found| found.dev()).ok();
    device(path) != device(folder_of(path))
}

/// The kind of file system, if it is a shared one.
pub(super) fn shared_file_system(path: &Path) -> Option<&'static str> {
    // The file itself may be a mount of its own; one that is missing will lie where its folder does.
    let stat = rustix::fs::statfs(path).or_else(|_| rustix::fs::statfs(folder_of(path))).ok()?;
    name_of(&stat)
}

/// Whether what lies there is gone when the machine starts anew: tmpfs, ramfs.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub(super) fn is_in_memory(path: &Path) -> bool {
    rustix::fs::statfs(path)
        .is_ok_and(|stat| [0x0102_1994, 0x8584_58F6].contains(&(stat.f_type as u64 & 0xFFFF_FFFF)))
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub(super) fn is_in_memory(_: &Path) -> bool {
    false
}

#[cfg(any(target_os = "linux", target_os = "android"))]
fn name_of(stat: &rustix::fs::StatFs) -> Option<&'static str> {
    // Some architectures' field is signed and would be extended.
    magic_name((stat.f_type as u64 & 0xFFFF_FFFF) as u32)
}

/// From Linux's `magic.h` and the sources of the file systems that are not part of it.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn magic_name(magic: u32) -> Option<&'static str> {
    Some(match magic {
        0x0000_6969 => "NFS",
        0x0000_517B | 0xFE53_4D42 | 0xFF53_4D42 => "SMB",
        0x0102_1997 => "9p (a folder of another machine)",
        0x6573_5546 => "FUSE (sshfs, virtiofs and the like)",
        0x5346_414F | 0x6B41_4653 => "AFS",
        0x00C3_6400 => "Ceph",
        0x7375_7245 => "Coda",
        0x0116_1970 => "GFS2",
        0x7461_636F => "OCFS2",
        0x0BD0_0BD0 => "Lustre",
        0x4750_4653 => "GPFS",
        0x1983_0326 => "BeeGFS",
        0x786F_4256 => "vboxsf (a folder of the virtual machine's host)",
        0x0000_564C => "NCP",
        0xAAD7_AAEA => "PanFS",
        _ => return None,
    })
}

#[cfg(target_vendor = "apple")]
fn name_of(stat: &rustix::fs::StatFs) -> Option<&'static str> {
    let name: Vec<u8> =
        stat.f_fstypename.iter().map(|&byte| byte as u8).take_while(|&byte| byte != 0).collect();
    match name.as_slice() {
        b"nfs" => Some("NFS"),
        b"smbfs" => Some("SMB"),
        b"afpfs" => Some("AFP"),
        b"webdav" => Some("WebDAV"),
        b"macfuse" | b"osxfuse" => Some("FUSE"),
        b"virtiofs" => Some("virtiofs (a folder of the virtual machine's host)"),
        _ => None,
    }
}

#[cfg(not(any(target_os = "linux", target_os = "android", target_vendor = "apple")))]
fn name_of(_: &rustix::fs::StatFs) -> Option<&'static str> {
    None
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn network_file_systems_are_known_and_local_ones_are_not() {
        assert_eq!(magic_name(0x6969), Some("NFS"));
        assert_eq!(magic_name(0xFF53_4D42), Some("SMB"));
        // ext4, xfs, btrfs, tmpfs, overlayfs, zfs
        for local in [0xEF53, 0x5846_5342, 0x9123_683E, 0x0102_1994, 0x794C_7630, 0x2FC1_2FC1] {
            assert_eq!(magic_name(local), None, "{local:#x}");
        }
    }

    #[test]
    fn the_temporary_folder_is_local() {
        assert_eq!(shared_file_system(&std::env::temp_dir().join("missing.db")), None);
        assert!(check(&std::env::temp_dir().join("missing.db")).is_ok());
    }
}
