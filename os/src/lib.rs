//! What the other crates ask the operating system: what time it is on a clock that counts sleep, whether this process is a
//! fork of the one that it remembers being, and whether another process is gone.
//!
//! [`boot_time`], [`Generation`], [`PerProcess`] and [`Process`]; nothing is decided here.
#![cfg_attr(docsrs, feature(doc_cfg))]

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod boot;
mod generation;
mod per_process;
mod process;

pub use boot::{boot_nanos, boot_time};
pub use generation::Generation;
pub use per_process::PerProcess;
pub use process::{NoProcess, Process};
