//! `lease run`: a command under a lease.
//!
//! Two processes, since one cannot keep the promise: stopped by Ctrl-Z it could not renew, and killed it could not kill.
//!
//! | module | what it does |
//! | --- | --- |
//! | [`front`] | the process that was started: signals, terminal, messages, exit code, a second watch on the deadline |
//! | [`warden`] | the other one: the lease, the command, its end |
//! | [`course`], [`times`] | decides, without a clock: when TERM and KILL are sent, what is waited for |
//! | [`events`] | the lines of `--events` |
//! | [`tree`] | everything that descends from the command |
//! | [`page`], [`wire`] | what the two share, and what they tell each other |

pub(crate) mod args;
mod course;
mod events;
mod front;
mod page;
mod times;
mod tree;
pub(crate) mod warden;
mod wire;

pub(crate) use args::RunArgs;
pub(crate) use front::run;
