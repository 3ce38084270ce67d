//! The examples in the repository's pages that are written in Rust, as doctests. Here and in no crate that is published: the
//! tests of a package compile from the package alone.

#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct Readme;

#[cfg(doctest)]
#[doc = include_str!("../../docs/testing.md")]
struct Testing;

#[cfg(doctest)]
#[doc = include_str!("../../docs/fencing.md")]
struct Fencing;

#[cfg(doctest)]
#[doc = include_str!("../../docs/stores.md")]
struct Stores;
