//! What the other crates ask the operating system: what time it is on a clock that counts sleep, and whether this process
//! is a fork of the one that it remembers being.
//!
//! [`boot_time`], [`Generation`] and [`PerProcess`]; nothing is decided here.
#![cfg_attr(docsrs, feature(doc_cfg))]

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod boot;
mod generation;
mod per_process;

pub use boot::{boot_nanos, boot_time};
pub use generation::Generation;
pub use per_process::PerProcess;
