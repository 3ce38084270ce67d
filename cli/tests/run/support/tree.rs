//! A tree of processes that write down when they last did something.

use std::path::PathBuf;
use std::time::Duration;

use super::actor::{Diary, actor};
use super::{Lab, SOON, until};

/// The members of the tree, by the names of their files.
pub(crate) const MEMBERS: [&str; 5] = ["command", "same-group", "own-group", "own-session", "daemon"];

/// The tree of one lab.
pub(crate) struct Tree {
    folder: PathBuf,
}

impl Tree {
    pub(crate) fn new(lab: &Lab) -> Self {
        let folder = lab.path("tree");
        std::fs::create_dir_all(&folder).unwrap();
        Self { folder }
    }

    /// The command that grows it.
    pub(crate) fn command(&self) -> Vec<String> {
        actor(&["tree", self.folder.to_str().unwrap()])
    }

    /// Waits until all members are at work.
    pub(crate) fn until_grown(&self) {
        until("the whole tree", SOON, || self.diaries());
    }

    /// What they wrote down, once all have begun.
    pub(crate) fn diaries(&self) -> Option<Vec<(&'static str, Diary)>> {
        MEMBERS.into_iter().map(|name| Some((name, Diary::read(&self.folder.join(name))?))).collect()
    }

    /// No member did anything at or after that instant.
    #[track_caller]
    pub(crate) fn assert_last_act_before(&self, deadline: Duration) {
        for (name, diary) in self.diaries().unwrap() {
            assert!(
                diary.last_act < deadline,
                "{name} was at work {:?} after the deadline",
                diary.last_act - deadline
            );
        }
    }
}
