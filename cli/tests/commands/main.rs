//! Every command, as the real program on a real file.
// What is for #[test] functions holds for what they call too.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]

mod documented;
mod errors;
mod fences;
mod ids;
mod leases;
mod links;
mod looks;
mod moving;
mod operator;
mod output;
mod run;
mod stores;
mod support;
mod terminal;
mod upgrade;
