//! Every statement that is sent, by name.

use std::time::Duration;

use tokio_postgres::types::{ToSql, Type};

/// What a statement is sent with: a value, and its type.
pub(super) type Parameter = (Box<dyn ToSql + Sync + Send>, Type);

/// A statement.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Call {
    Acquire,
    Renew,
    RenewMany,
    Release,
    Withdraw,
    Revoke,
    Prune,
    OpenEpoch,
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

const COUNT: usize = Call::Room as usize + 1;

/// What [`answer::inspection`](super::answer::inspection) reads.
macro_rules! inspected {
    ($rest:literal) => {
        concat!(
            "SELECT s.epoch, greatest({schema}.lease_clock_1(), t.observed), t.name, t.last_issued, t.token, t.owner, \
             t.granted_at, t.expires_at, t.retained, t.label, t.identity, t.vacated_token, t.vacated_owner, t.vacated_how, \
             g.token, g.owner, g.label, g.once, g.at FROM {schema}.lease_store AS s ",
            $rest
        )
    };
}

impl Call {
    const ALL: [Self; COUNT] = [
        Self::Acquire,
        Self::Renew,
        Self::RenewMany,
        Self::Release,
        Self::Withdraw,
        Self::Revoke,
        Self::Prune,
        Self::OpenEpoch,
        Self::Epoch,
        Self::Inspect,
        Self::List,
        Self::History,
        Self::ClaimSlot,
        Self::RenewSlot,
        Self::ReleaseSlot,
        Self::WithdrawSlot,
        Self::RevokeSlot,
        Self::ResizePool,
        Self::Pools,
        Self::Slots,
        Self::Room,
    ];

    const fn template(self) -> &'static str {
        match self {
            Self::Acquire => "SELECT * FROM {schema}.lease_acquire_1($1,$2,$3,$4,$5,$6,$7,$8,$9,$10,$11)",
            Self::Renew => "SELECT * FROM {schema}.lease_renew_1($1,$2,$3,$4,$5,$6,$7,$8)",
            Self::RenewMany => {
                "SELECT m.n, m.remains, (m.answer).* FROM {schema}.lease_renew_many_1($1,$2,$3,$4,$5,$6,$7) AS m"
            }
            Self::Release => "SELECT * FROM {schema}.lease_release_1($1,$2,$3,$4,$5,$6,$7,$8,$9)",
            Self::Withdraw => "SELECT * FROM {schema}.lease_withdraw_1($1,$2,$3,$4)",
            Self::Revoke => "SELECT * FROM {schema}.lease_revoke_1($1,$2,$3,$4,$5)",
            Self::Prune => "SELECT * FROM {schema}.lease_prune_1($1,$2,$3)",
            Self::OpenEpoch => "SELECT {schema}.lease_open_epoch_1($1,$2,$3,$4,$5,$6)",
            Self::Epoch => {
                "SELECT s.epoch, s.timeline = {schema}.lease_timeline_1() FROM {schema}.lease_store AS s"
            }
            Self::Inspect => inspected!(
                "LEFT JOIN {schema}.lease_row AS t ON t.name = $1 LEFT JOIN {schema}.lease_good AS g ON g.name = $1"
            ),
            Self::List => inspected!(
                "CROSS JOIN {schema}.lease_row AS t LEFT JOIN {schema}.lease_good AS g ON g.name = t.name \
                 WHERE t.name >= $1 AND ($2::bytea IS NULL OR t.name < $2) AND t.last_issued > 0 ORDER BY t.name"
            ),
            Self::History => {
                "SELECT h.token, h.owner, h.label, h.identity, h.granted_at, h.renewed_at, h.renewals, h.ends_at, h.outcome, \
                 h.result, h.reason FROM {schema}.lease_history AS h WHERE h.name = $1 UNION ALL \
                 SELECT t.token, t.owner, t.label, t.identity, t.granted_at, t.renewed_at, t.renewals, t.expires_at, \
                 CASE WHEN greatest({schema}.lease_clock_1(), t.observed) < t.expires_at THEN 0 ELSE 2 END, 0, NULL \
                 FROM {schema}.lease_row AS t WHERE t.name = $1 AND t.token IS NOT NULL AND NOT t.retained \
                 AND NOT EXISTS (SELECT FROM {schema}.lease_history AS o WHERE o.name = $1 AND o.token = t.token) UNION ALL \
                 SELECT t.token, t.owner, t.label, t.identity, t.granted_at, t.renewed_at, t.renewals, t.free_from, \
                 CASE WHEN greatest({schema}.lease_clock_1(), t.observed) < t.free_from THEN 0 ELSE 2 END, 0, NULL \
                 FROM {schema}.lease_slot AS t WHERE t.pool = $3 AND t.slot = $4 AND t.token IS NOT NULL \
                 AND NOT EXISTS (SELECT FROM {schema}.lease_history AS o WHERE o.name = $1 AND o.token = t.token) \
                 ORDER BY token DESC LIMIT $2"
            }
            Self::ClaimSlot => {
                "SELECT c.o_slot, c.o_size, c.o_wall, c.o_after, c.o_until, c.o_next, (c.answer).* FROM \
                 {schema}.lease_claim_slot_1($1,$2,$3,$4,$5,$6,$7,$8,$9,$10,$11,$12,$13,$14,$15,$16,$17,$18) AS c"
            }
            Self::RenewSlot => {
                "SELECT c.o_slot, c.o_wall, c.o_after, c.o_until, (c.answer).* FROM \
                 {schema}.lease_renew_slot_1($1,$2,$3,$4,$5,$6,$7,$8,$9) AS c"
            }
            Self::ReleaseSlot => "SELECT * FROM {schema}.lease_release_slot_1($1,$2,$3,$4,$5,$6,$7,$8)",
            Self::WithdrawSlot => "SELECT * FROM {schema}.lease_withdraw_slot_1($1,$2,$3,$4)",
            Self::RevokeSlot => "SELECT * FROM {schema}.lease_revoke_slot_1($1,$2,$3,$4,$5,$6)",
            Self::ResizePool => "SELECT * FROM {schema}.lease_resize_pool_1($1,$2,$3)",
            Self::Pools => "SELECT p.pool FROM {schema}.lease_pool AS p ORDER BY p.pool",
            Self::Slots => {
                "SELECT s.epoch, {schema}.lease_clock_1(), p.size, t.slot, t.last_issued, t.observed, t.token, t.owner, \
                 t.granted_at, t.free_from, t.label, t.identity, t.mark FROM {schema}.lease_store AS s \
                 LEFT JOIN {schema}.lease_pool AS p ON p.pool = $1 LEFT JOIN {schema}.lease_slot AS t \
                 ON t.pool = p.pool AND t.slot < p.size AND t.last_issued > 0 ORDER BY t.slot"
            }
            Self::Room => {
                "SELECT p.size, (SELECT count(*) FROM {schema}.lease_slot AS t WHERE t.pool = p.pool AND t.slot >= $2 \
                 AND t.slot < least(p.size, $3) AND t.free_from > (SELECT {schema}.lease_clock_1()) - $4) \
                 FROM {schema}.lease_store AS s LEFT JOIN {schema}.lease_pool AS p ON p.pool = $1"
            }
        }
    }

    /// Whether the last parameter is how long a lock may be waited for. It is added where the statement is sent.
    pub(super) const fn locks(self) -> bool {
        !matches!(
            self,
            Self::Epoch | Self::Inspect | Self::List | Self::History | Self::Pools | Self::Slots | Self::Room
        )
    }
}

/// The statements, in one schema.
#[derive(Debug)]
pub(super) struct Calls([String; COUNT]);

impl Calls {
    pub(super) fn new(quoted_schema: &str) -> Self {
        Self(Call::ALL.map(|call| call.template().replace("{schema}", quoted_schema)))
    }

    pub(super) fn text(&self, call: Call) -> &str {
        self.0.get(call as usize).map_or("", String::as_str)
    }
}

/// Puts a value beside its type.
fn with(value: impl ToSql + Sync + Send + 'static, of: Type) -> Parameter {
    (Box::new(value), of)
}

pub(super) fn bytes(value: &str) -> Parameter {
    with(value.as_bytes().to_vec(), Type::BYTEA)
}

pub(super) fn some_bytes(value: Option<Vec<u8>>) -> Parameter {
    with(value, Type::BYTEA)
}

/// The bits of an unsigned number.
pub(super) fn bits(value: u64) -> Parameter {
    with(value as i64, Type::INT8)
}

pub(super) fn some_bits(value: Option<u64>) -> Parameter {
    with(value.map(|value| value as i64), Type::INT8)
}

pub(super) fn number(value: i64) -> Parameter {
    with(value, Type::INT8)
}

/// Microseconds.
pub(super) fn span(value: Duration) -> Parameter {
    number(micros(value))
}

pub(super) fn micros(time: Duration) -> i64 {
    i64::try_from(time.as_micros()).unwrap_or(i64::MAX)
}

pub(super) fn small(value: i32) -> Parameter {
    with(value, Type::INT4)
}

pub(super) fn some_span(value: Option<Duration>) -> Parameter {
    with(value.map(micros), Type::INT8)
}

pub(super) fn some_small(value: Option<i32>) -> Parameter {
    with(value, Type::INT4)
}

pub(super) fn truth(value: bool) -> Parameter {
    with(value, Type::BOOL)
}

pub(super) fn text(value: Option<String>) -> Parameter {
    with(value, Type::TEXT)
}

pub(super) fn numbers(values: Vec<i64>) -> Parameter {
    with(values, Type::INT8_ARRAY)
}

pub(super) fn some_numbers(values: Vec<Option<i64>>) -> Parameter {
    with(values, Type::INT8_ARRAY)
}

pub(super) fn names(values: Vec<Vec<u8>>) -> Parameter {
    with(values, Type::BYTEA_ARRAY)
}
