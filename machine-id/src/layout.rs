//! Which bits of an ID mean what.

use std::fmt;
use std::marker::PhantomData;
use std::time::Duration;

use crate::id::sealed::Shifts;
use crate::{Id, Id64, Id96, Id128};

/// 2025-01-01T00:00:00Z, since Unix's origin: where time begins unless told otherwise.
const EPOCH: Duration = Duration::from_secs(1_735_689_600);
const MILLISECOND: Duration = Duration::from_millis(1);
const YEAR: Duration = Duration::from_secs(365 * 86_400);

/// How the bits of an ID are split into time, machine ID and counter, from the top in this order.
///
/// | | time | machine ID | counter | tick | since |
/// | --- | --- | --- | --- | --- | --- |
/// | `Layout::<Id64>::default()` | 42 | 9 | 13 | 1 ms | 2025-01-01Z |
/// | `Layout::<Id96>::default()` | 42 | 9 | 45 | 1 ms | 2025-01-01Z |
/// | `Layout::<Id128>::default()` | 42 | 9 | 64, and 13 zero bits below | 1 ms | 2025-01-01Z |
/// | [`twitter`](Layout::twitter) | 41 | 10 | 12 | 1 ms | 2010-11-04T01:42:54.657Z |
/// | [`sonyflake`](Layout::sonyflake) | 39 | 16, below the counter | 8 | 10 ms | 2014-09-01Z |
///
/// Every generator whose IDs share a column needs the same layout. Two layouts can make the same number.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Layout<I> {
    time_bits: u8,
    machine_bits: u8,
    counter_bits: u8,
    machine_below: bool,
    /// Zero bits below everything else.
    zeros: u8,
    tick: Duration,
    epoch: Duration,
    width: PhantomData<I>,
}

/// What an ID consists of.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Parts {
    /// The beginning of the tick that it was stamped with, since Unix's origin (1970-01-01T00:00:00Z).
    pub time: Duration,
    /// The machine ID.
    pub machine_id: u16,
    /// The counter within the tick.
    pub counter: u64,
}

/// Why a layout is none.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum LayoutError {
    /// A part has no bits, or more than it may have.
    Part {
        /// Which.
        part: &'static str,
        /// How many bits it was given.
        found: u8,
        /// The most that it may have.
        most: u8,
    },
    /// All together are wider than the ID.
    TooWide {
        /// How many bits they are.
        found: u32,
        /// The width of the ID.
        width: u32,
    },
    /// A tick is not between 1 µs and 1 s.
    Tick(Duration),
    /// Time does not end before the year 2262, which is as far as it can be counted here.
    TooLong,
}

impl fmt::Display for LayoutError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Part { part, found, most } => {
                write!(f, "the {part} has {found} bits, expected 1 to {most}")
            }
            Self::TooWide { found, width } => write!(f, "the parts have {found} bits, the ID has {width}"),
            Self::Tick(tick) => write!(f, "a tick takes {tick:?}, expected 1 µs to 1 s"),
            Self::TooLong => {
                f.write_str("the time bits reach beyond the year 2262; give it fewer, or a shorter tick")
            }
        }
    }
}

impl std::error::Error for LayoutError {}

impl Default for Layout<Id64> {
    fn default() -> Self {
        Self::of(42, 9, 13, 0)
    }
}

impl Default for Layout<Id96> {
    fn default() -> Self {
        Self::of(42, 9, 45, 0)
    }
}

impl Default for Layout<Id128> {
    fn default() -> Self {
        Self::of(42, 9, 64, 13)
    }
}

impl Layout<Id64> {
    /// Twitter's Snowflake.
    #[must_use]
    pub const fn twitter() -> Self {
        Self { epoch: Duration::from_millis(1_288_834_974_657), ..Self::of(41, 10, 12, 0) }
    }

    /// Sony's Sonyflake, which has the counter above the machine ID.
    #[must_use]
    pub const fn sonyflake() -> Self {
        Self {
            epoch: Duration::from_secs(1_409_529_600),
            tick: Duration::from_millis(10),
            machine_below: true,
            ..Self::of(39, 16, 8, 0)
        }
    }
}

impl<I> Layout<I> {
    const fn of(time_bits: u8, machine_bits: u8, counter_bits: u8, zeros: u8) -> Self {
        Self {
            time_bits,
            machine_bits,
            counter_bits,
            machine_below: false,
            zeros,
            tick: MILLISECOND,
            epoch: EPOCH,
            width: PhantomData,
        }
    }
}

impl<I: Id> Layout<I> {
    /// Ticks of 1 ms since 2025-01-01Z. Bits of the ID that are left over are zeros at the top.
    ///
    /// # Errors
    ///
    /// [`LayoutError`]: time has 1 to 62 bits, the machine ID 1 to 16, the counter 1 to 64, together no more than the ID,
    /// and time has to end before 2262.
    pub fn new(time_bits: u8, machine_bits: u8, counter_bits: u8) -> Result<Self, LayoutError> {
        let parts =
            [("time", time_bits, 62), ("machine ID", machine_bits, 16), ("counter", counter_bits, 64)];
        for (part, found, most) in parts {
            if found == 0 || found > most {
                return Err(LayoutError::Part { part, found, most });
            }
        }
        let found = u32::from(time_bits) + u32::from(machine_bits) + u32::from(counter_bits);
        if found > I::BITS {
            return Err(LayoutError::TooWide { found, width: I::BITS });
        }
        Self::of(time_bits, machine_bits, counter_bits, 0).checked()
    }

    /// The same, with ticks of this length.
    ///
    /// # Errors
    ///
    /// [`LayoutError::Tick`] and [`LayoutError::TooLong`].
    pub fn with_tick(mut self, tick: Duration) -> Result<Self, LayoutError> {
        if tick < Duration::from_micros(1) || tick > Duration::from_secs(1) {
            return Err(LayoutError::Tick(tick));
        }
        self.tick = tick;
        self.checked()
    }

    /// The same, counted from this instant, since Unix's origin.
    ///
    /// # Errors
    ///
    /// [`LayoutError::TooLong`].
    pub fn with_epoch(mut self, epoch: Duration) -> Result<Self, LayoutError> {
        self.epoch = epoch;
        self.checked()
    }

    /// The same, with the machine ID below the counter.
    #[must_use]
    pub const fn with_machine_below(mut self) -> Self {
        self.machine_below = true;
        self
    }

    fn checked(self) -> Result<Self, LayoutError> {
        let ticks = 1_u128 << self.time_bits;
        let end = ticks.saturating_mul(self.tick.as_nanos()).saturating_add(self.epoch.as_nanos());
        if end > i64::MAX as u128 { Err(LayoutError::TooLong) } else { Ok(self) }
    }

    /// The instant from which on the time bits are used up, since Unix's origin.
    #[must_use]
    pub fn end(&self) -> Duration {
        let span = (1_u128 << self.time_bits).saturating_mul(self.tick.as_nanos());
        let span = Duration::new(
            u64::try_from(span / 1_000_000_000).unwrap_or(u64::MAX),
            u32::try_from(span % 1_000_000_000).unwrap_or(0),
        );
        self.epoch.saturating_add(span)
    }

    /// The time that is left, once that is a reason to worry: in the last five years, or the last tenth where all of it is
    /// less than fifty. `now` is counted since Unix's origin.
    #[must_use]
    pub fn running_out(&self, now: Duration) -> Option<Duration> {
        let span = self.end().saturating_sub(self.epoch);
        let left = self.end().saturating_sub(now);
        (left < (5 * YEAR).min(span / 10)).then_some(left)
    }

    /// The greatest machine ID.
    #[must_use]
    pub const fn max_machine_id(&self) -> u16 {
        // No part has more than 16 bits.
        ((1_u32 << self.machine_bits) - 1) as u16
    }

    /// How many IDs one machine can make in one tick; `None` where that is more than a `u64` says.
    #[must_use]
    pub fn per_tick(&self) -> Option<u64> {
        1_u64.checked_shl(self.counter_bits.into())
    }

    /// The length of a tick.
    #[must_use]
    pub const fn tick(&self) -> Duration {
        self.tick
    }

    /// Where time begins, since Unix's origin.
    #[must_use]
    pub const fn epoch(&self) -> Duration {
        self.epoch
    }

    /// Takes an ID apart. Of an ID that was made with another layout, or encrypted, the parts mean nothing.
    #[must_use]
    pub fn decode(&self, id: I) -> Parts {
        let by = self.shifts();
        let part = |by: u8, bits: u8| (id.value() >> by) & ((1_u128 << bits) - 1);
        let ticks = part(by.ticks, self.time_bits).saturating_mul(self.tick.as_nanos());
        Parts {
            // Less than `end`, which is less than 2^63 nanoseconds.
            time: self.epoch.saturating_add(Duration::from_nanos(u64::try_from(ticks).unwrap_or(u64::MAX))),
            machine_id: u16::try_from(part(by.machine, self.machine_bits)).unwrap_or(u16::MAX),
            counter: u64::try_from(part(by.counter, self.counter_bits)).unwrap_or(u64::MAX),
        }
    }

    /// Puts an ID together; `None` where a part has no room. The time is cut off to whole ticks.
    #[must_use]
    pub fn encode(&self, parts: Parts) -> Option<I> {
        let ticks = parts.time.checked_sub(self.epoch)?.as_nanos() / self.tick.as_nanos();
        let fits = |value: u128, bits: u8| value >> bits == 0;
        if !fits(ticks, self.time_bits)
            || !fits(parts.machine_id.into(), self.machine_bits)
            || !fits(parts.counter.into(), self.counter_bits)
        {
            return None;
        }
        let ticks = u64::try_from(ticks).ok()?;
        Some(I::assemble(ticks, parts.machine_id.into(), parts.counter, self.shifts()))
    }

    pub(crate) const fn time_bits(&self) -> u8 {
        self.time_bits
    }

    pub(crate) const fn counter_bits(&self) -> u8 {
        self.counter_bits
    }

    pub(crate) const fn shifts(&self) -> Shifts {
        let (low, upper) = if self.machine_below {
            (self.machine_bits, self.counter_bits)
        } else {
            (self.counter_bits, self.machine_bits)
        };
        let above_low = self.zeros + low;
        let (machine, counter) =
            if self.machine_below { (self.zeros, above_low) } else { (above_low, self.zeros) };
        Shifts { ticks: above_low + upper, machine, counter }
    }
}
