//! Random pauses.

use std::time::Duration;

/// A small generator (xorshift64*, Vigna 2016) for pauses; nothing that must not be guessed depends on it.
pub(super) struct Jitter(u64);

impl Jitter {
    pub(super) fn new() -> Self {
        // Without random numbers the pauses are merely less random.
        Self(getrandom::u64().unwrap_or(0x9E37_79B9_7F4A_7C15) | 1)
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    /// A time between the two, in microseconds.
    pub(super) fn between(&mut self, least: u64, most: u64) -> Duration {
        let span = most.saturating_sub(least).saturating_add(1);
        Duration::from_micros(least.saturating_add((self.next() >> 11) % span))
    }

    /// How long to leave a lock alone that one has been waiting for this long.
    ///
    /// - At first about as long as a commit takes.
    /// - Then some milliseconds: of fifty that wait, one looks every 80 µs or so, which keeps the lock busy without
    ///   keeping the processors busy with looking (each look costs some 15 µs).
    /// - The few who have had no luck for so long look more often than the others.
    /// - Where even that does not help, everybody waits as long, and looking is what there is too much of.
    pub(super) fn pause(&mut self, waited: Duration) -> Duration {
        match waited.as_micros() {
            0..=500 => self.between(50, 250),
            150_000..=450_000 => self.between(200, 1_000),
            501..=1_000_000 => self.between(1_000, 7_000),
            _ => self.between(4_000, 20_000),
        }
    }
}
