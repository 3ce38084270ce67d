//! The numbers under which databases keep how a hold ended and what became of its work, in their SQL as here. They are on
//! disks: none ever changes its meaning.

use crate::{HoldOutcome, VacatedHow, WorkResult};

#[cfg(feature = "sqlite")]
pub(crate) const fn outcome_code(outcome: HoldOutcome) -> u8 {
    match outcome {
        HoldOutcome::Held => 0,
        HoldOutcome::Released => 1,
        HoldOutcome::Expired => 2,
        HoldOutcome::Revoked => 3,
        HoldOutcome::Withdrawn => 4,
        HoldOutcome::Rotated => 5,
        HoldOutcome::EpochLost => 6,
    }
}

pub(crate) const fn outcome(code: i64) -> HoldOutcome {
    match code {
        0 => HoldOutcome::Held,
        1 => HoldOutcome::Released,
        3 => HoldOutcome::Revoked,
        4 => HoldOutcome::Withdrawn,
        5 => HoldOutcome::Rotated,
        6 => HoldOutcome::EpochLost,
        _ => HoldOutcome::Expired,
    }
}

pub(crate) const fn result_code(result: WorkResult) -> u8 {
    match result {
        WorkResult::Unknown => 0,
        WorkResult::Good => 1,
        WorkResult::Failed => 2,
    }
}

pub(crate) const fn result(code: i64) -> WorkResult {
    match code {
        1 => WorkResult::Good,
        2 => WorkResult::Failed,
        _ => WorkResult::Unknown,
    }
}

#[cfg(feature = "sqlite")]
pub(crate) const fn how_code(how: VacatedHow) -> u8 {
    match how {
        VacatedHow::Released => 1,
        VacatedHow::Revoked => 2,
        VacatedHow::Withdrawn => 3,
    }
}

pub(crate) const fn how(code: i64) -> VacatedHow {
    match code {
        2 => VacatedHow::Revoked,
        3 => VacatedHow::Withdrawn,
        _ => VacatedHow::Released,
    }
}
