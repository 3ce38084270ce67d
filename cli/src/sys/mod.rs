//! What the operating system offers, as small safe functions. The only unsafe code of this crate is here.
//!
//! Linux in full. Elsewhere there is no parent-death signal, no subreaper, no timerfd and no list of children: the
//! functions say so in their answers, and their callers do what can be done with a process group.

pub(crate) mod clock;
pub(crate) mod descendants;
pub(crate) mod fds;
pub(crate) mod latency;
pub(crate) mod page;
pub(crate) mod process;
pub(crate) mod ready;
pub(crate) mod signals;
pub(crate) mod spawn;
pub(crate) mod terminal;
pub(crate) mod timer;
