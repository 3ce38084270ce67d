//! Every statement that is sent, by name, and what it is sent with.

use std::time::Duration;

use mysql_async::Value;

/// A procedure, or a statement.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Call {
    Acquire,
    Renew,
    RenewNow,
    RenewMany,
    Standing,
    Release,
    Withdraw,
    Revoke,
    Prune,
    OpenEpoch,
    Trust,
    Epoch,
    Inspect,
    List,
    History,
    ClaimSlot,
    RenewSlot,
    ReleaseSlot,
    WithdrawSlot,
    RevokeSlot,
    ResizePool,
    Pools,
    Slots,
    Room,
}

impl Call {
    pub(super) const fn text(self) -> &'static str {
        match self {
            Self::Acquire => "CALL lease_acquire_1(?,?,?,?,?,?,?,?,?,?)",
            Self::Renew => "CALL lease_renew_1(?,?,?,?,?,?)",
            Self::RenewNow => "CALL lease_renew_now_1(?,?,?,?,?,?)",
            Self::RenewMany => "CALL lease_renew_many_1(?)",
            Self::Standing => "CALL lease_standing_1(?)",
            Self::Release => "CALL lease_release_1(?,?,?,?,?,?,?,?)",
            Self::Withdraw => "CALL lease_withdraw_1(?,?,?)",
            Self::Revoke => "CALL lease_revoke_1(?,?,?,?)",
            Self::Prune => "CALL lease_prune_1(?,?)",
            Self::OpenEpoch => "CALL lease_open_epoch_1(?,?,?,?,?)",
            Self::Trust => "CALL lease_trust_1()",
            Self::Epoch => "CALL lease_epoch_1()",
            Self::Inspect => "CALL lease_inspect_1(?)",
            Self::List => "CALL lease_list_1(?,?)",
            Self::History => "CALL lease_history_1(?,?,?,?)",
            Self::ClaimSlot => "CALL lease_claim_slot_1(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)",
            Self::RenewSlot => "CALL lease_renew_slot_1(?,?,?,?,?,?,?,?)",
            Self::ReleaseSlot => "CALL lease_release_slot_1(?,?,?,?,?,?,?)",
            Self::WithdrawSlot => "CALL lease_withdraw_slot_1(?,?,?)",
            Self::RevokeSlot => "CALL lease_revoke_slot_1(?,?,?,?,?)",
            Self::ResizePool => "CALL lease_resize_pool_1(?,?)",
            // No procedure: so it also reads what an older program has set up. A pool of size 0 is none yet.
            Self::Pools => "SELECT p.pool AS name FROM lease_pool AS p WHERE p.size > 0 ORDER BY p.pool",
            Self::Slots => "CALL lease_slots_1(?)",
            Self::Room => "CALL lease_room_1(?,?,?,?)",
        }
    }
}

pub(super) fn text(value: &str) -> Value {
    Value::Bytes(value.as_bytes().to_vec())
}

pub(super) fn some_text(value: Option<&str>) -> Value {
    value.map_or(Value::NULL, text)
}

/// The bits of an unsigned number.
pub(super) const fn bits(value: u64) -> Value {
    Value::Int(value as i64)
}

pub(super) fn some_bits(value: Option<u64>) -> Value {
    value.map_or(Value::NULL, bits)
}

pub(super) const fn number(value: i64) -> Value {
    Value::Int(value)
}

pub(super) fn truth(value: bool) -> Value {
    Value::Int(i64::from(value))
}

pub(super) fn micros(time: Duration) -> i64 {
    i64::try_from(time.as_micros()).unwrap_or(i64::MAX)
}

pub(super) fn span(time: Duration) -> Value {
    number(micros(time))
}
