//! Every ID comes back from every notation, and nothing else does.

#![allow(clippy::panic)] // tests may

use lease_machines_id::{Id, Id64, Id96, Id128, Notation, ParseIdError};
use proptest::prelude::*;

fn round_trip<I: Id>(value: u128) {
    let id = I::new(value).expect("narrowed to its width");
    for notation in Notation::ALL {
        match notation.write(id) {
            Some(text) => {
                assert_eq!(notation.read::<I>(&text), Ok(id), "{notation:?}: {text}");
                if matches!(notation, Notation::Hex | Notation::Crockford) {
                    assert_eq!(notation.read::<I>(&text.to_lowercase()), Ok(id));
                    assert_eq!(notation.read::<I>(&text.to_uppercase()), Ok(id));
                }
            }
            None => assert!(notation == Notation::Uuid && I::BITS == 128 && value & 0x3f != 0),
        }
    }
}

proptest! {
    #[test]
    fn every_id_comes_back(value in any::<u128>()) {
        round_trip::<Id64>(value >> 64);
        round_trip::<Id96>(value >> 32);
        round_trip::<Id128>(value);
        round_trip::<Id128>(value >> 6 << 6);
    }

    #[test]
    fn texts_of_fixed_width_sort_as_the_numbers_do(a in any::<u64>(), b in any::<u64>(), by in 0..64_u32) {
        let id = |value: u64| Id64::new(u128::from(value >> by)).expect("64 bits");
        for notation in Notation::ALL.into_iter().filter(|notation| *notation != Notation::Decimal) {
            let (text_a, text_b) = (notation.write(id(a)), notation.write(id(b)));
            prop_assert_eq!(text_a.cmp(&text_b), id(a).cmp(&id(b)));
        }
    }

    #[test]
    fn any_text_is_an_id_or_an_error(text in ".{0,40}") {
        for notation in Notation::ALL {
            if let Ok(id) = notation.read::<Id128>(&text) {
                prop_assert_eq!(notation.read::<Id128>(&notation.write(id).expect("it was read")), Ok(id));
            }
            let _ = (notation.read::<Id64>(&text), notation.read::<Id96>(&text));
        }
    }
}

#[test]
fn the_ends_of_each_width_come_back() {
    for value in [0, 1, u128::MAX, u128::MAX - 1, 1 << 127] {
        round_trip::<Id64>(value >> 64);
        round_trip::<Id96>(value >> 32);
        round_trip::<Id128>(value);
    }
}

#[test]
fn known_texts() {
    let id = Id64::new(0x0123_4567_89ab_cdef).expect("64 bits");
    let texts = Notation::ALL.map(|notation| notation.write(id).expect("64 bits fit"));
    assert_eq!(
        texts,
        [
            "81985529216486895",
            "0123456789abcdef",
            "028T5CY4TQKFF",
            "063UfDVRKBz",
            "01234567-89ab-8cde-bc00-000000000000",
        ]
    );
    // What people take for 0 and 1 is read as that.
    let ones_and_zeros = Id64::new(0x0000_0008_4210_8421).expect("64 bits");
    let text = Notation::Crockford.write(ones_and_zeros).expect("64 bits fit");
    for (digit, alike) in [('1', "IiLl"), ('0', "Oo")] {
        assert!(text.contains(digit), "{text}");
        for alike in alike.chars() {
            let text = text.replace(digit, &alike.to_string());
            assert_eq!(Notation::Crockford.read(&text), Ok(ones_and_zeros), "{text}");
        }
    }
    let id = Id128::new(u128::MAX << 13).expect("128 bits");
    assert_eq!(Notation::Uuid.write(id).as_deref(), Some("ffffffff-ffff-8fff-bfff-ffffffffff80"));
}

#[test]
fn what_is_no_id_says_why() {
    let read = |notation: Notation, text: &str| notation.read::<Id64>(text).expect_err(text);
    let length = |found, expected| ParseIdError::Length { found, expected };
    assert_eq!(read(Notation::Decimal, ""), length(0, 20));
    assert_eq!(read(Notation::Decimal, "123456789012345678901"), length(21, 20));
    assert_eq!(read(Notation::Decimal, "18446744073709551616"), ParseIdError::TooLarge);
    assert_eq!(read(Notation::Decimal, "12 3"), ParseIdError::Character { found: ' ', at: 2 });
    assert_eq!(read(Notation::Decimal, "-1"), ParseIdError::Character { found: '-', at: 0 });
    assert_eq!(read(Notation::Hex, "0123"), length(4, 16));
    assert_eq!(read(Notation::Hex, "0123456789abcdeg"), ParseIdError::Character { found: 'g', at: 15 });
    assert_eq!(read(Notation::Crockford, "G000000000000"), ParseIdError::TooLarge, "its 65th bit");
    assert_eq!(read(Notation::Crockford, "U000000000000"), ParseIdError::Character { found: 'U', at: 0 });
    assert_eq!(read(Notation::Base62, "zzzzzzzzzzz"), ParseIdError::TooLarge);
    let uuid = "01234567-89ab-8cde-bc00-000000000000";
    assert!(Notation::Uuid.read::<Id64>(uuid).is_ok());
    for (at, wrong) in [(14, '4'), (19, '3'), (35, '1')] {
        let mut text = uuid.to_owned();
        text.replace_range(at..=at, &wrong.to_string());
        assert_eq!(read(Notation::Uuid, &text), ParseIdError::NotOurs, "{text}");
    }
    let hyphens = uuid.replacen('-', "0", 1);
    assert_eq!(read(Notation::Uuid, &hyphens), ParseIdError::Character { found: '0', at: 8 });
}
