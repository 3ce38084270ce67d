//! Which bits mean what.

#![allow(clippy::panic)] // tests may

use std::time::Duration;

use lease_machines_id::{Id, Id64, Id96, Id128, Layout, LayoutError, Parts};
use proptest::prelude::*;

/// 2026-01-01T00:00:00Z.
const IN_2026: Duration = Duration::from_secs(1_767_225_600);

fn parts(machine_id: u16, counter: u64) -> Parts {
    Parts { time: IN_2026, machine_id, counter }
}

#[test]
fn the_default_layouts_bit_by_bit() {
    // 365 days of milliseconds.
    let ticks = 365 * 86_400_000_u128;
    let id = Layout::<Id64>::default().encode(parts(5, 9)).expect("it fits");
    assert_eq!(id.value(), ticks << 22 | 5 << 13 | 9);
    let id = Layout::<Id96>::default().encode(parts(5, 9)).expect("it fits");
    assert_eq!(id.value(), ticks << 54 | 5 << 45 | 9);
    let id = Layout::<Id128>::default().encode(parts(5, 9)).expect("it fits");
    assert_eq!(id.value(), ticks << 86 | 5 << 77 | 9 << 13);
}

#[test]
fn layouts_of_others_bit_by_bit() {
    // The ID of https://twitter.com/Wikipedia/status/1541815603606036480, after Wikipedia's article on Snowflake IDs:
    // 367597485448 ms since the epoch, machine 378, sequence 0.
    let id = Id64::new(1_541_815_603_606_036_480).expect("64 bits");
    let found = Layout::twitter().decode(id);
    assert_eq!(found.time, Duration::from_millis(1_288_834_974_657 + 367_597_485_448));
    assert_eq!((found.machine_id, found.counter), (378, 0));
    // Sonyflake: 39 bits of time in units of 10 ms, 8 bits of sequence, 16 bits of machine ID, in this order.
    let id = Layout::sonyflake().encode(parts(0xabcd, 0x12)).expect("it fits");
    let ticks = (u128::from(IN_2026.as_secs()) - 1_409_529_600) * 100;
    assert_eq!(id.value(), ticks << 24 | 0x12 << 16 | 0xabcd);
}

#[test]
fn a_layout_that_cannot_be_is_refused() {
    let part = |part, found, most| Err(LayoutError::Part { part, found, most });
    assert_eq!(Layout::<Id64>::new(0, 9, 13), part("time", 0, 62));
    assert_eq!(Layout::<Id64>::new(63, 1, 1), part("time", 63, 62));
    assert_eq!(Layout::<Id64>::new(42, 0, 13), part("machine ID", 0, 16));
    assert_eq!(Layout::<Id64>::new(32, 17, 13), part("machine ID", 17, 16));
    assert_eq!(Layout::<Id64>::new(42, 9, 0), part("counter", 0, 64));
    let counter = LayoutError::Part { part: "counter", found: 65, most: 64 };
    assert_eq!(Layout::<Id128>::new(42, 9, 65), Err(counter));
    assert_eq!(Layout::<Id64>::new(42, 9, 14), Err(LayoutError::TooWide { found: 65, width: 64 }));
    assert_eq!(Layout::<Id64>::new(43, 9, 12), Err(LayoutError::TooLong), "278 years from 2025");
    let sound = Layout::<Id64>::new(42, 9, 13).expect("the default");
    assert_eq!(sound, Layout::default());
    let nothing = Duration::ZERO;
    assert_eq!(sound.with_tick(nothing), Err(LayoutError::Tick(nothing)));
    assert_eq!(sound.with_tick(Duration::from_secs(2)), Err(LayoutError::Tick(Duration::from_secs(2))));
    assert_eq!(sound.with_tick(Duration::from_millis(10)), Err(LayoutError::TooLong));
    assert_eq!(sound.with_epoch(Duration::MAX), Err(LayoutError::TooLong));
    assert!(sound.with_epoch(Duration::ZERO).is_ok());
}

/// baidu/uid-generator#100: the time bits ran out without warning.
#[test]
fn it_is_said_long_before_that_the_time_bits_run_out() {
    let layout = Layout::<Id64>::default();
    let year = Duration::from_secs(365 * 86_400);
    assert_eq!(layout.end(), layout.epoch() + Duration::from_millis(1 << 42));
    assert_eq!(layout.running_out(IN_2026), None, "139 years are enough");
    assert_eq!(layout.running_out(layout.end() - 5 * year), None);
    let left = 5 * year - Duration::from_nanos(1);
    assert_eq!(layout.running_out(layout.end() - left), Some(left));
    assert_eq!(layout.running_out(layout.end() + year), Some(Duration::ZERO));
    // Seconds in 28 bits are eight and a half years: the last tenth.
    let short = Layout::<Id64>::new(28, 9, 13).and_then(|layout| layout.with_tick(Duration::from_secs(1)));
    let short = short.expect("sound");
    assert_eq!(short.running_out(short.end() - year), None);
    assert!(short.running_out(short.end() - year / 2).is_some());
}

#[test]
fn what_has_no_room_is_no_id() {
    let layout = Layout::<Id64>::default();
    assert_eq!(layout.max_machine_id(), 511);
    assert_eq!(layout.per_tick(), Some(8_192));
    assert_eq!(Layout::<Id128>::default().per_tick(), None);
    assert!(layout.encode(parts(511, 8_191)).is_some());
    assert_eq!(layout.encode(parts(512, 0)), None);
    assert_eq!(layout.encode(parts(0, 8_192)), None);
    assert_eq!(layout.encode(Parts { time: layout.end(), ..parts(0, 0) }), None);
    assert_eq!(
        layout.encode(Parts { time: Duration::from_secs(1), ..parts(0, 0) }),
        None,
        "before the epoch"
    );
}

proptest! {
    #[test]
    fn what_was_put_together_comes_apart(
        time_bits in 20..42_u8, machine_bits in 1..17_u8, counter_bits in 1..30_u8, below in any::<bool>(),
        time in any::<u64>(), machine in any::<u16>(), counter in any::<u64>(),
    ) {
        fn check<I: Id>(layout: Result<Layout<I>, LayoutError>, below: bool, time: u64, machine_id: u16, counter: u64) {
            let Ok(layout) = layout else { return };
            let layout = if below { layout.with_machine_below() } else { layout };
            let time = Duration::from_millis(time % ((layout.end() - layout.epoch()).as_millis() as u64));
            let parts = Parts {
                time: layout.epoch() + time,
                machine_id: machine_id & layout.max_machine_id(),
                counter: layout.per_tick().map_or(counter, |numbers| counter % numbers),
            };
            let id = layout.encode(parts).expect("it fits");
            assert_eq!(layout.decode(id), parts);
        }
        check(Layout::<Id64>::new(time_bits, machine_bits, counter_bits), below, time, machine, counter);
        check(Layout::<Id96>::new(time_bits, machine_bits, counter_bits + 8), below, time, machine, counter);
        check(Layout::<Id128>::new(time_bits, machine_bits, counter_bits + 34), below, time, machine, counter);
        check(Ok(Layout::<Id128>::default()), below, time, machine, counter);
    }
}
