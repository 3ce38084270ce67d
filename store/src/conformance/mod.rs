//! What every store must show: named cases, random runs against the core, concurrency under faults.
//!
//! A backend's own test says how to make an empty store and how time passes there ([`Subject`], [`Fixture`]), and
//! prints and checks the [`Report`]:
//!
//! ```
//! use std::sync::Arc;
//! use std::time::Duration;
//! use lease_machines_store::conformance::{self, Fixture, Subject};
//! use lease_machines_store::{MemoryStore, Store, StoreError};
//!
//! struct Memory;
//! struct Fresh(Arc<MemoryStore>);
//!
//! impl Subject for Memory {
//!     fn name(&self) -> String {
//!         "memory".to_owned()
//!     }
//!     fn fresh(&self) -> Result<Box<dyn Fixture>, StoreError> {
//!         Ok(Box::new(Fresh(Arc::new(MemoryStore::new()?))))
//!     }
//! }
//!
//! impl Fixture for Fresh {
//!     fn store(&self) -> Arc<dyn Store> {
//!         Arc::clone(&self.0) as Arc<dyn Store>
//!     }
//!     fn pass(&self, time: Duration) {
//!         self.0.advance(time);
//!     }
//! }
//!
//! let report = conformance::run(&Memory);
//! println!("{report}");
//! assert!(report.failed.is_empty());
//! assert!(report.ran > 30, "a suite that ran nothing is no proof");
//! ```

macro_rules! ensure {
    ($condition:expr, $($message:tt)+) => {
        if !$condition {
            return Err(format!($($message)+));
        }
    };
}

/// The value of a pattern, or a failure that shows what was there instead.
macro_rules! expect {
    ($value:expr, $pattern:pat => $result:expr, $what:expr) => {
        match $value {
            $pattern => $result,
            other => return Err(format!("{}: found {other:?}", $what)),
        }
    };
}

mod context;
mod deadlines;
mod endings;
mod epochs;
mod faults;
mod leaving;
mod linear;
mod looking;
mod model;
mod names;
mod owners;
mod pruning;
mod random;
mod report;
mod slots;
mod subject;
mod task;
mod tokens;
mod waiting;

pub use report::{Failed, Report, Skipped};
pub use subject::{Fixture, Subject};
pub use task::block_on;

use context::Context;
use subject::Need;

/// One thing that a store must show.
struct Case {
    name: &'static str,
    need: Need,
    run: fn(&Context<'_>) -> Result<(), String>,
}

const fn case(name: &'static str, need: Need, run: fn(&Context<'_>) -> Result<(), String>) -> Case {
    Case { name, need, run }
}

/// Runs everything that the store's capabilities call for, each case on an empty store of its own.
pub fn run(subject: &dyn Subject) -> Report {
    run_where(subject, |_| true)
}

/// Runs the cases with these names. One that there is not is a failure.
pub fn run_only(subject: &dyn Subject, names: &[&'static str]) -> Report {
    let mut report = run_where(subject, |name| names.contains(&name));
    if report.ran + report.skipped.len() + report.failed.len() != names.len() {
        report.fail("the choice of cases", format!("not each of {names:?} is the name of one case"));
    }
    report
}

fn run_where(subject: &dyn Subject, wanted: impl Fn(&'static str) -> bool) -> Report {
    let mut report = Report::new(subject.name());
    let suites = [
        tokens::CASES,
        deadlines::CASES,
        owners::CASES,
        names::CASES,
        endings::CASES,
        epochs::CASES,
        looking::CASES,
        waiting::CASES,
        leaving::CASES,
        pruning::CASES,
        faults::CASES,
        random::CASES,
        linear::CASES,
    ];
    for case in suites.into_iter().chain(slots::CASES).flatten().filter(|case| wanted(case.name)) {
        let fixture = match subject.fresh() {
            Ok(fixture) => fixture,
            Err(error) => {
                report.fail(case.name, format!("no empty store: {error}"));
                continue;
            }
        };
        let context = Context::new(subject, fixture);
        match case.need.missing(&context) {
            Some(why) => report.skip(case.name, why),
            None => match (case.run)(&context) {
                Ok(()) => report.ran += 1,
                Err(message) => report.fail(case.name, message),
            },
        }
    }
    report
}
