//! Which forms of what is stored a program may use. Every engine keeps two numbers beside its epoch, and only reads and
//! writes them: what they mean is decided here, in one way for all.

use std::fmt::Display;

use crate::{ErrorKind, StoreError};

/// The two numbers, as they stand in a store.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Stamp {
    /// The form of what is stored.
    pub(crate) version: i64,
    /// The oldest form that a program may know and still use it. A program that would misread what is there knows an older one,
    /// and is kept out.
    pub(crate) usable_by: i64,
}

/// What a program knows of an engine's form.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Known {
    /// What it writes where it sets a store up.
    pub(crate) writes: Stamp,
    /// The oldest form that it still reads.
    pub(crate) oldest: i64,
}

/// How old a store is that may be used, against the program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Age {
    /// It is used as it is; a migrate makes it the program's own form.
    Older,
    Same,
    /// Another program has brought it further, and admits this one.
    Newer,
}

impl Stamp {
    /// Of an engine that keeps texts. A store that was set up before there was the second number is usable by whoever knows its
    /// form, as it was then.
    ///
    /// # Errors
    ///
    /// [`Damaged`](ErrorKind::Damaged) for what is no whole number as it is written here.
    #[cfg(any(feature = "redis", feature = "etcd"))]
    pub(crate) fn read(
        place: &dyn Display,
        version: Option<&str>,
        usable_by: Option<&str>,
    ) -> Result<Self, StoreError> {
        // Written in another way it is not this program's, nor its like's.
        let number = |text: &str| text.parse().ok().filter(|number: &i64| number.to_string() == text);
        let found = || version.and_then(number).zip(usable_by.or(version).and_then(number));
        found().map(|(version, usable_by)| Self { version, usable_by }).ok_or_else(|| {
            // Whatever it is, it may be long.
            let short = |text: &str| text.chars().take(40).collect::<String>();
            let shown =
                |text: Option<&str>| text.map_or("nothing".to_owned(), |text| format!("{:?}", short(text)));
            nonsense(place, &shown(version), &shown(usable_by))
        })
    }
}

impl Known {
    /// One that reads no other form than the one that it writes, which nobody may use who does not know it.
    pub(crate) const fn alone(version: i64) -> Self {
        Self { writes: Stamp { version, usable_by: version }, oldest: version }
    }

    /// The rule.
    ///
    /// # Errors
    ///
    /// [`Schema`](ErrorKind::Schema) for a store that this program must not use: it says what was found, what this program knows,
    /// and what to do. [`Damaged`](ErrorKind::Damaged) for numbers that no program writes.
    pub(crate) fn admit(self, place: &dyn Display, found: Stamp) -> Result<Age, StoreError> {
        let Stamp { version, usable_by } = found;
        let own = self.writes.version;
        if usable_by < 1 || usable_by > version {
            return Err(nonsense(place, &version.to_string(), &usable_by.to_string()));
        }
        if usable_by > own {
            return Err(StoreError::new(
                ErrorKind::Schema,
                format!(
                    "{place} is of version {version}, usable by programs that know version {usable_by} or later; this one knows \
                     version {own}. Use a newer one"
                ),
            ));
        }
        if version < self.oldest {
            return Err(StoreError::new(
                ErrorKind::Schema,
                format!(
                    "{place} is of version {version}, and this program knows versions {} to {own}: `lease migrate` of one in \
                     between brings it further",
                    self.oldest
                ),
            ));
        }
        Ok(match version {
            _ if version < own => Age::Older,
            _ if version == own => Age::Same,
            _ => Age::Newer,
        })
    }
}

fn nonsense(place: &dyn Display, version: &str, usable_by: &str) -> StoreError {
    StoreError::new(
        ErrorKind::Damaged,
        format!(
            "{place} says that it is of version {version}, usable by {usable_by}: expected two numbers from 1 up, the second \
             no greater than the first. Something else than a lease program has written there"
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Undecided;

    /// One that writes the third form, reads the second, and lets programs that know the second in.
    const KNOWN: Known = Known { writes: Stamp { version: 3, usable_by: 2 }, oldest: 2 };

    #[test]
    fn what_a_program_may_use() {
        use ErrorKind::{Damaged, Schema};
        for (version, usable_by, answer) in [
            // Older.
            (1, 1, Err(Schema)),
            (2, 1, Ok(Age::Older)),
            (2, 2, Ok(Age::Older)),
            // The same.
            (3, 1, Ok(Age::Same)),
            (3, 2, Ok(Age::Same)),
            (3, 3, Ok(Age::Same)),
            // Newer, which may still admit it.
            (4, 1, Ok(Age::Newer)),
            (4, 3, Ok(Age::Newer)),
            (9, 3, Ok(Age::Newer)),
            (4, 4, Err(Schema)),
            (i64::MAX, i64::MAX, Err(Schema)),
            (i64::MAX, 3, Ok(Age::Newer)),
            // Nonsense.
            (0, 0, Err(Damaged)),
            (3, 0, Err(Damaged)),
            (3, -1, Err(Damaged)),
            (-3, -3, Err(Damaged)),
            (2, 3, Err(Damaged)),
            (1, 4, Err(Damaged)),
        ] {
            let told = KNOWN.admit(&"a store", Stamp { version, usable_by });
            let told = told.inspect_err(|error| {
                assert_eq!(error.undecided(), Undecided::Refused, "{error}");
                assert!(error.to_string().starts_with("a store "), "{error}");
            });
            assert_eq!(told.map_err(|error| error.kind()), answer, "{version}, usable by {usable_by}");
        }
    }

    #[test]
    fn who_may_not_is_told_what_was_found_what_is_known_and_what_to_do() {
        for (version, usable_by, words) in [
            (9, 8, ["of version 9", "version 8 or later", "knows version 3", "Use a newer one"]),
            (1, 1, ["of version 1", "versions 2 to 3", "lease migrate", "in between"]),
            (1, 2, ["of version 1", "usable by 2", "expected two numbers", "Something else"]),
        ] {
            let told = KNOWN.admit(&"a store", Stamp { version, usable_by }).unwrap_err().to_string();
            for word in words {
                assert!(told.contains(word), "{told}");
            }
        }
    }

    #[test]
    fn a_program_of_one_form_alone_uses_no_older_one() {
        let known = Known::alone(2);
        assert_eq!(known.writes, Stamp { version: 2, usable_by: 2 });
        let age = |version, usable_by| {
            known.admit(&"a store", Stamp { version, usable_by }).map_err(|error| error.kind())
        };
        assert_eq!(age(1, 1), Err(ErrorKind::Schema));
        assert_eq!((age(2, 1), age(3, 2)), (Ok(Age::Same), Ok(Age::Newer)));
    }

    #[cfg(any(feature = "redis", feature = "etcd"))]
    #[test]
    fn texts_are_read_as_they_are_written_and_in_no_other_way() {
        let read = |version, usable_by| Stamp::read(&"a store", version, usable_by);
        for (version, usable_by, expected) in [
            // Of a store from before there was the second one.
            (Some("1"), None, (1, 1)),
            (Some("7"), None, (7, 7)),
            (Some("1"), Some("1"), (1, 1)),
            (Some("12"), Some("3"), (12, 3)),
            // What it means is no matter of reading it.
            (Some("-1"), Some("0"), (-1, 0)),
        ] {
            let stamp = read(version, usable_by).unwrap();
            assert_eq!((stamp.version, stamp.usable_by), expected);
        }
        for (version, usable_by) in [
            (None, None),
            (None, Some("1")),
            (Some(""), None),
            (Some("x"), None),
            (Some("01"), None),
            (Some("+1"), None),
            (Some("1.0"), None),
            (Some(" 1"), None),
            (Some("9223372036854775808"), None),
            (Some("1"), Some("")),
            (Some("1"), Some("one")),
            (Some("2"), Some("1 ")),
        ] {
            let error = read(version, usable_by).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Damaged, "{error}");
            let shown =
                usable_by.map_or("usable by nothing".to_owned(), |text| format!("usable by {text:?}"));
            assert!(error.to_string().contains(&shown), "{error}");
        }
    }
}
