//! Which process something belongs to.

/// The process that made something. A fork copies memory, but neither the threads that renew nor the right to a lease.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Process(u32);

impl Process {
    pub(crate) fn current() -> Self {
        Self(std::process::id())
    }

    pub(crate) fn is_current(self) -> bool {
        self == Self::current()
    }
}
