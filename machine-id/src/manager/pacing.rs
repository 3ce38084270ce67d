//! How long to wait before another try.

use std::time::Duration;

/// The first pause; each further one is twice as long.
const FIRST: Duration = Duration::from_millis(500);
/// No pause is longer.
const LONGEST: Duration = Duration::from_secs(30);

/// Pauses that grow with the failures in a row, each shortened by up to a half at random, so that many who failed together do
/// not come back together.
#[derive(Debug)]
pub(super) struct Pacing {
    failures: u32,
    random: u64,
}

impl Pacing {
    pub(super) const fn new(seed: u64) -> Self {
        Self { failures: 0, random: seed }
    }

    pub(super) const fn succeeded(&mut self) {
        self.failures = 0;
    }

    /// The pause after one more failure.
    pub(super) fn pause(&mut self) -> Duration {
        let full = FIRST.saturating_mul(1 << self.failures.min(10)).min(LONGEST);
        self.failures = self.failures.saturating_add(1);
        // SplitMix64, by Steele, Lea and Flood.
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.random;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        let share = (bits >> 33) as u32;
        full / 2 + (full / 2).mul_f64(f64::from(share) / f64::from(1_u32 << 31))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_up_to_thirty_seconds_and_begin_again_after_a_success() {
        let mut pacing = Pacing::new(7);
        for failures in 0..60 {
            let full = FIRST.saturating_mul(1 << failures.min(10)).min(LONGEST);
            let pause = pacing.pause();
            assert!((full / 2..=full).contains(&pause), "{pause:?} after {failures} failures");
        }
        pacing.succeeded();
        assert!(pacing.pause() <= FIRST);
        let mut others = Pacing::new(8);
        assert!((0..10).any(|_| others.pause() != pacing.pause()), "the same for all");
    }
}
