//! Random pauses, with the seed in what a failure prints.

use std::thread;
use std::time::Duration;

use super::now;

/// xorshift64*, by George Marsaglia and Sebastiano Vigna.
#[derive(Debug)]
pub(crate) struct Random {
    #[allow(dead_code)] // Printed.
    seed: u64,
    state: u64,
}

impl Random {
    pub(crate) fn new() -> Self {
        let seed = now().as_nanos() as u64 | 1;
        Self { seed, state: seed }
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.state ^= self.state >> 12;
        self.state ^= self.state << 25;
        self.state ^= self.state >> 27;
        self.state.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    pub(crate) fn pause(&mut self, longest: Duration) {
        let nanos = self.next() % (longest.as_nanos() as u64 + 1);
        thread::sleep(Duration::from_nanos(nanos));
    }
}
