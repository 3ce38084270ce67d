//! What came out of a run.

use std::fmt;

/// How many cases ran, and which did not.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
#[must_use = "a report that nobody looks at proves nothing"]
pub struct Report {
    /// The subject's name.
    pub subject: String,
    /// Cases that ran and held.
    pub ran: usize,
    /// Cases that the store's capabilities rule out.
    pub skipped: Vec<Skipped>,
    /// Cases that did not hold.
    pub failed: Vec<Failed>,
}

/// A case that was not run.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Skipped {
    /// Its name.
    pub case: &'static str,
    /// Why not.
    pub why: &'static str,
}

/// A case that did not hold.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Failed {
    /// Its name.
    pub case: &'static str,
    /// What was found instead.
    pub message: String,
}

impl Report {
    pub(super) fn new(subject: String) -> Self {
        Self { subject, ran: 0, skipped: Vec::new(), failed: Vec::new() }
    }

    pub(super) fn skip(&mut self, case: &'static str, why: &'static str) {
        self.skipped.push(Skipped { case, why });
    }

    pub(super) fn fail(&mut self, case: &'static str, message: String) {
        self.failed.push(Failed { case, message });
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (skipped, failed) = (self.skipped.len(), self.failed.len());
        write!(f, "conformance of {}: {} ran, {skipped} skipped, {failed} failed", self.subject, self.ran)?;
        for Skipped { case, why } in &self.skipped {
            write!(f, "\n  skipped {case}: {why}")?;
        }
        for Failed { case, message } in &self.failed {
            write!(f, "\n  FAILED {case}: {message}")?;
        }
        Ok(())
    }
}
