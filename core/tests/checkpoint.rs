//! The state as a value and as bytes: every promise of the wire form, by name.

#![allow(clippy::indexing_slicing)] // bytes that are out of place may well fail the test

mod support;

use core::time::Duration;

use lease_machines::{Checkpoint, CheckpointError, FencingToken, Lease, LeaseAuthority, OwnerId};
use proptest::prelude::*;
use support::{ALICE, lease, secs, take, token};

/// The documented layout, told apart from the code: offset, length.
mod at {
    pub(crate) const MAGIC: usize = 0;
    pub(crate) const VERSION: usize = 2;
    pub(crate) const FLAG: usize = 3;
    pub(crate) const LAST_ISSUED: usize = 4;
    pub(crate) const OWNER: usize = 12;
    pub(crate) const TOKEN: usize = 20;
    pub(crate) const EXPIRES_SECS: usize = 28;
    pub(crate) const EXPIRES_NANOS: usize = 36;
    pub(crate) const OBSERVED_SECS: usize = 40;
    pub(crate) const OBSERVED_NANOS: usize = 48;
    pub(crate) const CHECKSUM: usize = 52;
}

fn checkpoint(last: Option<u64>, held: Option<Lease>, observed: Duration) -> Checkpoint {
    Checkpoint::from_parts(last.map(token), held, observed).expect("a possible state")
}

/// No field of it is zero, and no two bytes of a field are equal.
fn telling() -> Checkpoint {
    checkpoint(
        Some(0x1122_3344_5566_7788),
        Some(Lease::new(
            OwnerId::new(0x0102_0304_0506_0708),
            token(0x1020_3040_5060_7080),
            Duration::new(0xA1A2_A3A4_A5A6_A7A8, 0x0B0C_0D0E),
        )),
        Duration::new(0xC1C2_C3C4_C5C6_C7C8, 0x2A2B_2C2D),
    )
}

fn samples() -> Vec<Checkpoint> {
    let end = Duration::MAX;
    vec![
        LeaseAuthority::new().checkpoint(),
        telling(),
        checkpoint(Some(7), None, Duration::new(1_700_000_000, 999_999_999)),
        checkpoint(Some(2), Some(lease(ALICE, 1, secs(9))), secs(1)),
        checkpoint(Some(u64::MAX), Some(Lease::new(OwnerId::new(u64::MAX), token(u64::MAX), end)), end),
        checkpoint(Some(1), Some(Lease::new(OwnerId::new(0), token(1), Duration::ZERO)), Duration::ZERO),
    ]
}

/// CRC-32 as zlib has it, from its definition by a table: written apart from the one under test.
fn zlib_crc32(bytes: &[u8]) -> u32 {
    let table: Vec<u32> = (0..256_u32)
        .map(|n| (0..8).fold(n, |c, _| if c & 1 == 1 { 0xEDB8_8320 ^ (c >> 1) } else { c >> 1 }))
        .collect();
    !bytes.iter().fold(u32::MAX, |crc, &byte| table[((crc ^ u32::from(byte)) & 0xFF) as usize] ^ (crc >> 8))
}

/// Patches bytes of the wire form and makes the checksum right again.
fn forge(checkpoint: Checkpoint, patches: &[(usize, &[u8])]) -> [u8; Checkpoint::LEN] {
    let mut bytes = checkpoint.to_bytes();
    for &(offset, patch) in patches {
        bytes[offset..offset + patch.len()].copy_from_slice(patch);
    }
    let sum = zlib_crc32(&bytes[..at::CHECKSUM]);
    bytes[at::CHECKSUM..].copy_from_slice(&sum.to_le_bytes());
    bytes
}

#[track_caller]
fn assert_impossible(bytes: &[u8], why: &'static str) {
    assert_eq!(Checkpoint::from_bytes(bytes), Err(CheckpointError::Impossible(why)));
}

mod from_parts {
    use super::*;

    #[test]
    fn keeps_every_part() {
        let held = lease(ALICE, 3, secs(9));
        let checkpoint = Checkpoint::from_parts(Some(token(3)), Some(held), secs(4)).expect("possible");
        assert_eq!(checkpoint.last_issued(), Some(token(3)));
        assert_eq!(checkpoint.lease(), Some(held));
        assert_eq!(checkpoint.observed(), secs(4));
    }

    #[test]
    fn refuses_a_lease_under_a_token_that_was_never_issued() {
        let held = Some(lease(ALICE, 3, secs(9)));
        assert_eq!(Checkpoint::from_parts(None, held, secs(0)), None);
        assert_eq!(Checkpoint::from_parts(Some(token(2)), held, secs(0)), None);
    }

    #[test]
    fn accepts_a_lease_under_the_last_issued_token_and_below_it() {
        let held = Some(lease(ALICE, 3, secs(9)));
        for last in [3, 4, u64::MAX] {
            assert!(Checkpoint::from_parts(Some(token(last)), held, secs(0)).is_some());
        }
    }

    #[test]
    fn accepts_a_history_without_a_lease_and_neither() {
        assert!(Checkpoint::from_parts(Some(token(3)), None, secs(0)).is_some());
        assert!(Checkpoint::from_parts(None, None, secs(9)).is_some());
    }

    #[test]
    fn accepts_a_lease_that_was_over_when_it_was_last_observed() {
        assert!(Checkpoint::from_parts(Some(token(1)), Some(lease(ALICE, 1, secs(1))), secs(9)).is_some());
    }
}

mod to_bytes {
    use super::*;

    #[test]
    fn has_the_documented_length() {
        assert_eq!(Checkpoint::LEN, 56);
        assert_eq!(telling().to_bytes().len(), Checkpoint::LEN);
    }

    #[test]
    fn puts_every_field_where_the_table_says_little_endian() {
        let bytes = telling().to_bytes();
        let u64_at = |i: usize| u64::from_le_bytes(bytes[i..i + 8].try_into().expect("8 bytes"));
        let u32_at = |i: usize| u32::from_le_bytes(bytes[i..i + 4].try_into().expect("4 bytes"));
        assert_eq!(&bytes[at::MAGIC..at::VERSION], b"LM");
        assert_eq!((bytes[at::VERSION], bytes[at::FLAG]), (1, 1));
        assert_eq!(u64_at(at::LAST_ISSUED), 0x1122_3344_5566_7788);
        assert_eq!(u64_at(at::OWNER), 0x0102_0304_0506_0708);
        assert_eq!(u64_at(at::TOKEN), 0x1020_3040_5060_7080);
        assert_eq!(u64_at(at::EXPIRES_SECS), 0xA1A2_A3A4_A5A6_A7A8);
        assert_eq!(u32_at(at::EXPIRES_NANOS), 0x0B0C_0D0E);
        assert_eq!(u64_at(at::OBSERVED_SECS), 0xC1C2_C3C4_C5C6_C7C8);
        assert_eq!(u32_at(at::OBSERVED_NANOS), 0x2A2B_2C2D);
        assert_eq!(u32_at(at::CHECKSUM), zlib_crc32(&bytes[..at::CHECKSUM]));
    }

    /// Bytes that another implementation of the table made. They must never change: somebody has them on disk.
    #[test]
    fn gives_the_golden_bytes() {
        let golden = [
            (
                LeaseAuthority::new().checkpoint(),
                "4c4d010000000000000000000000000000000000000000000000000000000000\
                 0000000000000000000000000000000000000000e6c78381",
            ),
            (
                telling(),
                "4c4d0101887766554433221108070605040302018070605040302010a8a7a6a5\
                 a4a3a2a10e0d0c0bc8c7c6c5c4c3c2c12d2c2b2a25376273",
            ),
            (
                checkpoint(Some(7), None, Duration::new(1_700_000_000, 999_999_999)),
                "4c4d010007000000000000000000000000000000000000000000000000000000\
                 0000000000000000 00f1536500000000ffc99a3b7420d247",
            ),
            (
                checkpoint(
                    Some(u64::MAX),
                    Some(Lease::new(OwnerId::new(u64::MAX), token(u64::MAX), Duration::MAX)),
                    Duration::MAX,
                ),
                "4c4d0101ffffffffffffffffffffffffffffffffffffffffffffffffffffffff\
                 ffffffffffc99a3bffffffffffffffffffc99a3b9a065385",
            ),
        ];
        for (state, hex) in golden {
            let bytes = unhex(hex);
            assert_eq!(state.to_bytes().to_vec(), bytes, "{state:?}");
            assert_eq!(Checkpoint::from_bytes(&bytes), Ok(state));
        }
    }

    #[test]
    fn leaves_the_fields_of_a_missing_lease_zero() {
        let bytes = checkpoint(Some(7), None, secs(3)).to_bytes();
        assert!(bytes[at::OWNER..at::OBSERVED_SECS].iter().all(|&byte| byte == 0));
    }

    fn unhex(hex: &str) -> Vec<u8> {
        let digits: Vec<u8> = hex.chars().filter_map(|c| c.to_digit(16)).map(|d| d as u8).collect();
        digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect()
    }
}

mod from_bytes {
    use super::*;

    #[test]
    fn gives_back_what_to_bytes_was_given() {
        for state in samples() {
            assert_eq!(Checkpoint::from_bytes(&state.to_bytes()), Ok(state));
        }
    }

    #[test]
    fn refuses_every_single_flipped_bit() {
        let mut flips = 0;
        for state in samples() {
            for bit in 0..Checkpoint::LEN * 8 {
                let mut bytes = state.to_bytes();
                bytes[bit / 8] ^= 1 << (bit % 8);
                let error = Checkpoint::from_bytes(&bytes).expect_err("a flipped bit");
                match bit / 8 {
                    at::MAGIC..at::VERSION => assert!(matches!(error, CheckpointError::Magic { .. })),
                    at::VERSION => assert!(matches!(error, CheckpointError::Version { .. })),
                    _ => assert!(matches!(error, CheckpointError::Checksum { .. }), "bit {bit}: {error}"),
                }
                flips += 1;
            }
        }
        assert_eq!(flips, samples().len() * 448);
    }

    #[test]
    fn refuses_every_two_flipped_bits() {
        let sound = telling().to_bytes();
        for first in 0..Checkpoint::LEN * 8 {
            for second in 0..first {
                let mut bytes = sound;
                bytes[first / 8] ^= 1 << (first % 8);
                bytes[second / 8] ^= 1 << (second % 8);
                assert!(Checkpoint::from_bytes(&bytes).is_err(), "bits {first} and {second}");
            }
        }
    }

    #[test]
    fn refuses_every_other_value_of_every_byte() {
        for state in samples() {
            let sound = state.to_bytes();
            for offset in 0..Checkpoint::LEN {
                for value in (0..=u8::MAX).filter(|&value| value != sound[offset]) {
                    let mut bytes = sound;
                    bytes[offset] = value;
                    assert!(Checkpoint::from_bytes(&bytes).is_err(), "byte {offset} as {value}");
                }
            }
        }
    }

    #[test]
    fn refuses_every_truncation_and_says_how_much_there_was() {
        let bytes = telling().to_bytes();
        for found in 0..Checkpoint::LEN {
            let expected = Err(CheckpointError::Length { found });
            assert_eq!(Checkpoint::from_bytes(&bytes[..found]), expected);
            assert_eq!(Checkpoint::from_bytes(&bytes[Checkpoint::LEN - found..]), expected);
        }
    }

    #[test]
    fn refuses_every_extension() {
        let mut bytes = telling().to_bytes().to_vec();
        for found in Checkpoint::LEN + 1..Checkpoint::LEN * 3 {
            bytes.push(0);
            assert_eq!(Checkpoint::from_bytes(&bytes), Err(CheckpointError::Length { found }));
        }
    }

    #[test]
    fn names_bytes_that_are_something_else_altogether() {
        let bytes = forge(telling(), &[(at::MAGIC, b"PK")]);
        assert_eq!(Checkpoint::from_bytes(&bytes), Err(CheckpointError::Magic { found: *b"PK" }));
    }

    #[test]
    fn names_a_version_it_does_not_know_before_it_looks_at_the_rest() {
        for version in [0, 2, 255] {
            let mut bytes = forge(telling(), &[(at::VERSION, &[version])]);
            let expected = Err(CheckpointError::Version { found: version });
            assert_eq!(Checkpoint::from_bytes(&bytes), expected);
            bytes[at::CHECKSUM] ^= 1; // another version may keep its checksum elsewhere
            assert_eq!(Checkpoint::from_bytes(&bytes), expected);
        }
    }

    #[test]
    fn names_both_checksums_where_they_differ() {
        let mut bytes = telling().to_bytes();
        bytes[at::CHECKSUM..].copy_from_slice(&[1, 2, 3, 4]);
        let computed = zlib_crc32(&bytes[..at::CHECKSUM]);
        let expected = CheckpointError::Checksum { found: 0x0403_0201, computed };
        assert_eq!(Checkpoint::from_bytes(&bytes), Err(expected));
    }

    #[test]
    fn takes_a_checksum_made_elsewhere() {
        let bytes = forge(telling(), &[(at::OWNER, &5_u64.to_le_bytes())]);
        let read = Checkpoint::from_bytes(&bytes).expect("a sound checkpoint");
        assert_eq!(read.lease().map(|lease| lease.owner()), Some(OwnerId::new(5)));
    }
}

mod an_impossible_state_is_refused_though_its_checksum_is_right {
    use super::*;

    const HELD: fn() -> Checkpoint = || checkpoint(Some(5), Some(lease(ALICE, 5, secs(9))), secs(1));
    const FREE: fn() -> Checkpoint = || checkpoint(Some(5), None, secs(1));

    #[test]
    fn a_lease_under_a_token_that_was_never_issued() {
        let why = "a lease under a token that was never issued";
        assert_impossible(&forge(HELD(), &[(at::TOKEN, &6_u64.to_le_bytes())]), why);
        assert_impossible(&forge(HELD(), &[(at::LAST_ISSUED, &4_u64.to_le_bytes())]), why);
        assert_impossible(&forge(HELD(), &[(at::LAST_ISSUED, &0_u64.to_le_bytes())]), why);
    }

    #[test]
    fn a_lease_under_token_zero() {
        assert_impossible(&forge(HELD(), &[(at::TOKEN, &[0; 8])]), "a lease under token 0");
    }

    #[test]
    fn a_flag_that_is_neither_yes_nor_no() {
        let why = "a lease flag that is neither 0 nor 1";
        for flag in [2, 3, 128, 255] {
            assert_impossible(&forge(HELD(), &[(at::FLAG, &[flag])]), why);
            assert_impossible(&forge(FREE(), &[(at::FLAG, &[flag])]), why);
        }
    }

    #[test]
    fn fields_of_a_lease_where_there_is_none() {
        let why = "fields of a lease where there is none";
        assert_impossible(&forge(HELD(), &[(at::FLAG, &[0])]), why);
        for offset in at::OWNER..at::EXPIRES_NANOS {
            assert_impossible(&forge(FREE(), &[(offset, &[1])]), why);
        }
        assert_impossible(&forge(FREE(), &[(at::EXPIRES_NANOS, &[1])]), why);
    }

    #[test]
    fn a_time_with_a_full_second_of_nanoseconds() {
        let why = "a time with a full second of nanoseconds or more";
        for offset in [at::EXPIRES_NANOS, at::OBSERVED_NANOS] {
            for nanos in [1_000_000_000_u32, u32::MAX] {
                assert_impossible(&forge(HELD(), &[(offset, &nanos.to_le_bytes())]), why);
                // Seconds at their limit: the carry would leave the range of time.
                let latest = [(offset - 8, &[0xFF; 8][..]), (offset, &nanos.to_le_bytes()[..])];
                assert_impossible(&forge(HELD(), &latest), why);
            }
            let most = 999_999_999_u32.to_le_bytes();
            assert!(Checkpoint::from_bytes(&forge(HELD(), &[(offset, &most)])).is_ok());
        }
    }
}

mod an_error {
    use super::*;

    #[test]
    fn says_what_was_found_and_what_was_expected() {
        let texts = [
            (CheckpointError::Length { found: 12 }, "a checkpoint has 56 bytes, found 12"),
            (
                CheckpointError::Magic { found: *b"PK" },
                "a checkpoint begins with the bytes 4c 4d, found 50 4b",
            ),
            (
                CheckpointError::Version { found: 9 },
                "this program reads checkpoints of version 1, found version 9",
            ),
            (
                CheckpointError::Checksum { found: 0xAB, computed: 0xCDEF_0123 },
                "the checkpoint is damaged: checksum 000000ab, its bytes amount to cdef0123",
            ),
            (
                CheckpointError::Impossible("a lease under token 0"),
                "the checkpoint holds an impossible state: a lease under token 0",
            ),
        ];
        for (error, text) in texts {
            assert_eq!(error.to_string(), text);
            let _: &dyn core::error::Error = &error;
        }
    }
}

mod of_an_authority {
    use super::*;

    #[test]
    fn is_the_whole_of_it() {
        let mut authority = LeaseAuthority::new();
        let held = take(&mut authority, ALICE, secs(1), secs(5));
        let _ = authority.acquire(ALICE, secs(2), secs(5));
        let checkpoint = authority.checkpoint();
        assert_eq!(
            (checkpoint.last_issued(), checkpoint.lease(), checkpoint.observed()),
            (Some(held.token()), Some(held), secs(2))
        );
        assert_eq!(LeaseAuthority::restore(checkpoint).checkpoint(), checkpoint);
    }

    #[test]
    fn restores_from_bytes_to_the_same_decisions() {
        for state in samples() {
            let bytes = state.to_bytes();
            let mut direct = LeaseAuthority::restore(state);
            let mut carried = LeaseAuthority::restore(Checkpoint::from_bytes(&bytes).expect("sound"));
            for now in [state.observed(), state.observed().saturating_add(secs(10))] {
                assert_eq!(direct.acquire(ALICE, now, secs(1)), carried.acquire(ALICE, now, secs(1)));
                assert_eq!(direct.checkpoint().to_bytes(), carried.checkpoint().to_bytes());
            }
        }
    }
}

fn any_time() -> impl Strategy<Value = Duration> {
    (any::<u64>(), 0..1_000_000_000_u32).prop_map(|(secs, nanos)| Duration::new(secs, nanos))
}

fn any_checkpoint() -> impl Strategy<Value = Checkpoint> {
    let held = proptest::option::of((any::<u64>(), 1..=u64::MAX, any_time()));
    (any::<u64>(), held, any_time()).prop_map(|(last, held, observed)| {
        let held = held.map(|(owner, n, until)| Lease::new(OwnerId::new(owner), token(n), until));
        let last = last.max(held.map_or(0, |lease| lease.token().value()));
        Checkpoint::from_parts(FencingToken::new(last), held, observed).expect("never below its lease")
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn every_state_survives_the_round_trip_and_has_one_encoding(state in any_checkpoint()) {
        let bytes = state.to_bytes();
        prop_assert_eq!(Checkpoint::from_bytes(&bytes), Ok(state));
        prop_assert_eq!(&zlib_crc32(&bytes[..at::CHECKSUM]).to_le_bytes(), &bytes[at::CHECKSUM..]);
    }

    #[test]
    fn bytes_with_the_right_checksum_are_a_state_with_those_very_bytes_or_refused(
        mut bytes in proptest::array::uniform32(any::<u8>()).prop_flat_map(|head| {
            proptest::array::uniform24(any::<u8>()).prop_map(move |tail| {
                let mut whole = [0; Checkpoint::LEN];
                whole[..32].copy_from_slice(&head);
                whole[32..].copy_from_slice(&tail);
                whole
            })
        }),
        flag in 0..=2_u8,
        small_nanos in any::<bool>(),
    ) {
        bytes[..4].copy_from_slice(&[b'L', b'M', 1, flag]);
        if small_nanos {
            bytes[at::EXPIRES_NANOS + 3] = 0;
            bytes[at::OBSERVED_NANOS + 3] = 0;
        }
        let sum = zlib_crc32(&bytes[..at::CHECKSUM]);
        bytes[at::CHECKSUM..].copy_from_slice(&sum.to_le_bytes());
        match Checkpoint::from_bytes(&bytes) {
            Ok(state) => prop_assert_eq!(state.to_bytes(), bytes),
            Err(error) => prop_assert!(matches!(error, CheckpointError::Impossible(_)), "{}", error),
        }
    }

    #[test]
    fn arbitrary_bytes_are_refused_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..120)) {
        prop_assert!(Checkpoint::from_bytes(&bytes).is_err());
    }
}
