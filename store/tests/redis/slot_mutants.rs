//! The script about pools, broken in one place at a time.

use crate::mutants::Mutant;

pub(crate) const MUTANTS: &[Mutant] = &[
    (
        "leases are listed as pools",
        "if string.sub(field, 1, 1) == 'p' then names",
        "if string.find(field, '^[pr]') then names",
        Some("every pool is listed, in byte order, and nothing else"),
    ),
    (
        "a slot that was held is taken for one never used",
        "if free >= 0 or spent then redis.call('SETBIT'",
        "if spent then redis.call('SETBIT'",
        Some("each claim gets a slot of its own, until there is none"),
    ),
    (
        "nobody returns to the slot of its identity",
        "if identity ~= '' and size then\n    local slot",
        "if false then\n    local slot",
        Some("an identity returns to the slot that it held last"),
    ),
    (
        "freed slots do not rest",
        "if slot and free + cool_down <= at then return slot end",
        "if slot and free <= at then return slot end",
        Some("a freed slot cools down before another has it"),
    ),
    (
        "the one freed last comes first",
        "slot, free = first_of('free', low, high, '-inf', false, passed)",
        "slot, free = first_of('free', low, high, '-inf', true, passed)",
        Some("never used slots come first, then the one free for longest"),
    ),
    (
        "an exclusive identity is like any other",
        "if exclusive then\n      slot, score",
        "if false then\n      slot, score",
        Some("a live slot is taken over by an exclusive identity or a proof alone"),
    ),
    (
        "a proof counts whatever its token",
        "live(row) and row[TOKEN] == gone_token and row[IDENTITY] == identity",
        "live(row) and row[IDENTITY] == identity",
        Some("a live slot is taken over by an exclusive identity or a proof alone"),
    ),
    (
        "a revoked slot is free at once",
        "vacate(row, slot, 'revoked', row[UNTIL])",
        "vacate(row, slot, 'revoked', at)",
        Some("a revoked slot is closed until its lease would have ended"),
    ),
    (
        "an exclusive identity meets what was revoked",
        "not held(row) and free > at and free)",
        "false)",
        Some("a revoked slot is closed until its lease would have ended"),
    ),
    (
        "a range has no end",
        "if slot < low or slot > high or others[slot] then return end",
        "if slot < low or others[slot] then return end",
        Some("random operations on a pool are decided as the core decides"),
    ),
    (
        "marks are passed over by nobody",
        "if marked > 0 then found[1]",
        "if false then found[1]",
        Some("random operations on a pool are decided as the core decides"),
    ),
    (
        "a doubled claim takes a second slot",
        "if slot and not less(row[ATTEMPT], attempt) then",
        "if false then",
        Some("an echo of a claim is answered with its slot"),
    ),
    (
        "an owner takes a second slot",
        "local going_on = slot and live(row)",
        "local going_on = false",
        Some("an owner holds one slot of a pool"),
    ),
    (
        "an owner that has withdrawn comes back",
        "if redis.call('EXISTS', withdrawal(owner)) == 1 then",
        "if false then",
        Some("withdraw gives a slot back without its number, once for all"),
    ),
    (
        "a claim may name any size",
        "if size and slots > size then return say('size', size) end",
        "",
        Some("a claim that names more slots than the pool has is refused"),
    ),
    (
        "what is held is cut off",
        "if highest then return say('in use', highest, until_then - at) end",
        "",
        Some("a pool grows, and shrinks where nobody holds what is cut off"),
    ),
    (
        "a window begins at the clock",
        "if row[AFTER] < 0 then row[AFTER] = row[MARK] end",
        "if row[AFTER] < 0 then row[AFTER] = now end",
        Some("random operations on a pool are decided as the core decides"),
    ),
    (
        "a mark goes down with a shorter renewal",
        "row[MARK] = math.max(row[MARK], time_until)",
        "row[MARK] = time_until",
        Some("a renewal reserves on from where the grant began"),
    ),
    (
        "a release gives back what others had",
        "row[MARK] = math.max(last_used, row[AFTER] < 0 and row[MARK] or row[AFTER])",
        "row[MARK] = last_used",
        Some("a release gives back what was not used, and no more"),
    ),
    (
        "a new epoch gives out old stamps",
        "if time_until and time_until <= stamps_above or",
        "if",
        Some("a new epoch gives out no stamp of the old one"),
    ),
    (
        "a new epoch leaves live leases in the way",
        "if not size or swept >= dead then return end",
        "if true then return end",
        Some("a new epoch loses every slot"),
    ),
];
