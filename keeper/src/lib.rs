//! Hold leases from async Rust.
#![forbid(unsafe_code)]

mod clock;

pub use clock::{BootClock, BootTimer, Clock, ManualClock, Timer, sleep_until};
