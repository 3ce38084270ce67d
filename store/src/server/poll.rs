//! Waiting until another try is worth it, where a server wakes nobody.

use std::future::Future;
use std::ops::RangeInclusive;
use std::time::Duration;

use tokio::time::sleep;

use crate::StoreError;
use crate::owner::random;

/// Looks again and again until `look` finds the resource free, which is `None`, or `limit` has passed by the clock `now`.
/// `look` says how long its lease still lasts: nobody sleeps longer. The pauses grow from the first to the last of `pauses`,
/// and differ by up to a half, so that those who wait for the same do not all look at the same instants.
///
/// # Errors
///
/// What `look` says.
pub(crate) async fn poll<F>(
    limit: Duration,
    pauses: RangeInclusive<Duration>,
    now: impl Fn() -> Duration,
    mut look: impl FnMut() -> F,
) -> Result<(), StoreError>
where
    F: Future<Output = Result<Option<Duration>, StoreError>>,
{
    /// Less would be to look without a pause.
    const LEAST: Duration = Duration::from_millis(1);
    let begun = now();
    let mut pause = *pauses.start();
    loop {
        let Some(remaining) = look().await? else { return Ok(()) };
        let left = limit.saturating_sub(now().saturating_sub(begun));
        if left.is_zero() {
            return Ok(());
        }
        let share = f64::from((random()? >> 32) as u32) / f64::from(u32::MAX);
        sleep(pause.mul_f64(0.5 + share).min(remaining).min(left).max(LEAST)).await;
        pause = pause.mul_f64(1.5).min(*pauses.end());
    }
}
