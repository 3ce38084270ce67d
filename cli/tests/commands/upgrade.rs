//! Files that released versions wrote, under this program.

use std::fs;
use std::path::PathBuf;

use crate::support::World;

/// What `store/tests/sqlite_upgrade.rs` has in each: `held` is held by "nightly", `free` was done on 2026-05-28, `lost`
/// lost its epoch, and `held` and `free` have marks.
fn released() -> Vec<PathBuf> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../store/tests/released");
    let files: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(!files.is_empty());
    files
}

#[test]
fn a_file_of_every_released_version_is_worked_with() {
    for file in released() {
        let world = World::new();
        fs::copy(&file, world.path("leases.db")).unwrap();
        let held = world.json("show held");
        assert_eq!((&held["state"], &held["holder"]["label"]), (&"held".into(), &"nightly".into()), "{held}");
        world.lease("run --skip-if-held held -- false").ok();
        let free = world.json("show free");
        assert_eq!(free["last_good"]["once"], "2026-05-28", "{free}");
        let done = world.lease("run --once 2026-05-28 free -- false");
        assert!(done.code == Some(0) && done.err.contains("already, by report"), "{done:?}");
        assert!(world.lease("history lost").ok().out.contains("epoch"));
        world.lease("fence check held --token 1").fails(1, &[]);
        world.lease("run --fence sqlite:leases.db revoked -- true").ok();
        world.lease("doctor").ok();
    }
}
