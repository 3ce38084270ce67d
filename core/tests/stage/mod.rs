//! The stage on which transcripts are played: one authority, one fence, and a holder for each name.
//!
//! ```text
//! authority [issued N] [clamp]               a new one; `issued`: as restored after N tokens
//! NAME acquire|reacquire at T for TTL
//! NAME renew N at T for TTL
//! NAME release N at T
//! operator revoke [N] at T                   with N: only that lease
//! restore [clamp]                            to bytes, and back; says what it then knows
//! fence [at N]                               a new one
//! fence accept N
//! NAME holds N sent T for TTL at T           a holder under the cadence TTL 30, renew every 10, warn 5 before
//! NAME refresh at T
//! NAME confirm N sent T for TTL at T
//! NAME regains N sent T for TTL at T         reacquire
//! NAME expire
//! NAME fenced
//! NAME looks at T                            its state, and whether it may act
//! ```
//!
//! And a keeper, see [`keeper`].
//!
//! Times are seconds: `1.5`, `0.000000001`, `max`, `max-2`.

mod keeper;

use core::time::Duration;
use std::collections::BTreeMap;

use lease_machines::{
    Cadence, Checkpoint, ClockPolicy, Decision, Fence, FencingToken, Holder, LeaseAuthority, OwnerId,
    Rejection,
};

use crate::rig::Rig;

const NAMES: [&str; 3] = ["alice", "bob", "carol"];

#[derive(Default)]
pub(crate) struct Stage {
    authority: LeaseAuthority,
    fence: Fence,
    holders: BTreeMap<String, Holder>,
    keeper: Option<Rig>,
}

type Played = Result<String, String>;

impl Stage {
    /// Plays one operation, and says what was decided.
    pub(crate) fn play(&mut self, operation: &str) -> Played {
        let words: Vec<&str> = operation.split_whitespace().collect();
        match words.as_slice() {
            ["authority", rest @ ..] => self.new_authority(rest),
            ["restore", rest @ ..] => self.restore(rest),
            ["operator", "revoke", "at", now] => self.revoke(None, now),
            ["operator", "revoke", expect, "at", now] => self.revoke(Some(token(expect)?), now),
            ["fence"] => self.new_fence(None),
            ["fence", "at", mark] => self.new_fence(Some(token(mark)?)),
            ["fence", "accept", n] => {
                let accepted = self.fence.accept(token(n)?);
                Ok(if accepted { "accepted".into() } else { format!("refused, {}", mark(&self.fence)) })
            }
            ["keeper", rest @ ..] => {
                let (keeper, said) = keeper::new(rest)?;
                self.keeper = Some(keeper);
                Ok(said)
            }
            ["at", rest @ ..] => keeper::at(self.keeper.as_mut().ok_or("there is no keeper yet")?, rest),
            [name, request @ ..] => self.of_a_holder(name, request),
            [] => Err("no operation".into()),
        }
    }

    fn new_authority(&mut self, words: &[&str]) -> Played {
        let (last, policy) = match words {
            [] => (None, ClockPolicy::Reject),
            ["clamp"] => (None, ClockPolicy::Clamp),
            ["issued", n] => (Some(token(n)?), ClockPolicy::Reject),
            ["issued", n, "clamp"] => (Some(token(n)?), ClockPolicy::Clamp),
            _ => return Err("expected [issued N] [clamp]".into()),
        };
        let start = Checkpoint::from_parts(last, None, Duration::ZERO).ok_or("an impossible state")?;
        self.authority = LeaseAuthority::restore(start).with_clock_policy(policy);
        Ok(self.known())
    }

    fn restore(&mut self, words: &[&str]) -> Played {
        let policy = match words {
            [] => ClockPolicy::Reject,
            ["clamp"] => ClockPolicy::Clamp,
            _ => return Err("expected restore [clamp]".into()),
        };
        let bytes = self.authority.checkpoint().to_bytes();
        let state = Checkpoint::from_bytes(&bytes).map_err(|error| error.to_string())?;
        self.authority = LeaseAuthority::restore(state).with_clock_policy(policy);
        Ok(self.known())
    }

    fn revoke(&mut self, expect: Option<FencingToken>, now: &str) -> Played {
        Ok(match self.authority.revoke(expect, time(now)?) {
            Ok(burnt) => format!("vacant, {burnt} burnt"),
            Err(reason) => self.refusal(reason),
        })
    }

    fn new_fence(&mut self, highest: Option<FencingToken>) -> Played {
        self.fence = Fence::new(highest);
        Ok(mark(&self.fence))
    }

    fn of_a_holder(&mut self, name: &str, request: &[&str]) -> Played {
        let owner = NAMES.iter().zip(1..).find(|(known, _)| **known == name).map(|(_, id)| OwnerId::new(id));
        let owner = owner.ok_or_else(|| format!("nobody is called {name:?}"))?;
        match *request {
            ["acquire", "at", now, "for", ttl] => {
                let decision = self.authority.acquire(owner, time(now)?, time(ttl)?);
                Ok(self.describe(decision))
            }
            ["reacquire", "at", now, "for", ttl] => {
                let decision = self.authority.reacquire(owner, time(now)?, time(ttl)?);
                Ok(self.describe(decision))
            }
            ["renew", n, "at", now, "for", ttl] => {
                let decision = self.authority.renew(owner, token(n)?, time(now)?, time(ttl)?);
                Ok(self.describe(decision))
            }
            ["release", n, "at", now] => {
                let decision = self.authority.release(owner, token(n)?, time(now)?);
                Ok(self.describe(decision))
            }
            ["holds", n, "sent", sent, "for", ttl, "at", now] => {
                let seconds = Duration::from_secs;
                let cadence =
                    Cadence::new(seconds(30), seconds(10), seconds(5)).ok_or("an unsound cadence")?;
                let holder = Holder::granted(token(n)?, time(sent)?, time(ttl)?, time(now)?, cadence);
                let described = state(&holder, time(now)?);
                self.holders.insert(name.into(), holder);
                Ok(described)
            }
            _ => self.of_a_held_lease(name, request),
        }
    }

    fn of_a_held_lease(&mut self, name: &str, request: &[&str]) -> Played {
        let holder = self
            .holders
            .get_mut(name)
            .ok_or_else(|| format!("no such operation, or {name} holds nothing"))?;
        let recorded = |done: bool, holder: &Holder| {
            let word = if done { "yes" } else { "no" };
            Ok(format!("{word}, {:?}", holder.state()).replace("AtRisk", "at risk").to_lowercase())
        };
        match *request {
            ["refresh", "at", now] => {
                let done = holder.refresh(time(now)?);
                recorded(done, holder)
            }
            ["confirm", n, "sent", sent, "for", ttl, "at", now] => {
                let done = holder.confirm_at(token(n)?, time(sent)?, time(ttl)?, time(now)?);
                recorded(done, holder)
            }
            ["regains", n, "sent", sent, "for", ttl, "at", now] => {
                let done = holder.reacquire_at(token(n)?, time(sent)?, time(ttl)?, time(now)?);
                recorded(done, holder)
            }
            ["expire"] => {
                let done = holder.expire();
                recorded(done, holder)
            }
            ["fenced"] => {
                holder.fence();
                recorded(true, holder)
            }
            ["looks", "at", now] => Ok(state(holder, time(now)?)),
            _ => Err("no such operation".into()),
        }
    }

    fn describe(&self, decision: Decision) -> String {
        match decision {
            Decision::Granted(lease) => {
                format!("granted {} until {}", lease.token(), shown(lease.expires_at()))
            }
            Decision::Renewed(lease) => {
                format!("renewed {} until {}", lease.token(), shown(lease.expires_at()))
            }
            Decision::Released => "released".into(),
            Decision::Rejected(reason) => self.refusal(reason),
        }
    }

    /// The reason, with what it is measured against.
    fn refusal(&self, reason: Rejection) -> String {
        match reason {
            Rejection::ClockRegressed => {
                format!("no: {reason}, it was {} already", shown(self.authority.observed()))
            }
            Rejection::Occupied | Rejection::WrongOwner | Rejection::StaleToken | Rejection::Expired => {
                format!("no: {reason} ({})", self.held())
            }
            _ => format!("no: {reason}"),
        }
    }

    fn held(&self) -> String {
        match self.authority.lease() {
            None => "vacant".into(),
            Some(lease) => {
                let index = usize::try_from(lease.owner().value()).unwrap_or(0).wrapping_sub(1);
                let name = NAMES.get(index).copied().unwrap_or("somebody");
                format!("{name}, {} until {}", lease.token(), shown(lease.expires_at()))
            }
        }
    }

    fn known(&self) -> String {
        let last = self.authority.last_issued().map_or("none".into(), |token| token.to_string());
        format!("{}; last issued {last}; observed {}", self.held(), shown(self.authority.observed()))
    }
}

fn state(holder: &Holder, now: Duration) -> String {
    let act = if holder.may_act(now) { "may act" } else { "must not act" };
    let due = if holder.renewal_due(now) { ", renewal due" } else { "" };
    format!("{:?}, {act}{due}", holder.state_at(now)).replace("AtRisk", "at risk").to_lowercase()
}

fn mark(fence: &Fence) -> String {
    fence.highest().map_or("no mark yet".into(), |mark| format!("the mark is {mark}"))
}

fn token(word: &str) -> Result<FencingToken, String> {
    let number = match word.split_once("max") {
        Some(("", "")) => u64::MAX,
        Some(("", below)) => {
            let below: u64 =
                below.trim_start_matches('-').parse().map_err(|_| format!("no token: {word:?}"))?;
            u64::MAX - below
        }
        _ => word.parse().map_err(|_| format!("no token: {word:?}"))?,
    };
    FencingToken::new(number).ok_or_else(|| "0 is no token".into())
}

fn time(word: &str) -> Result<Duration, String> {
    let wrong = || format!("no time: {word:?}");
    if let Some(below) = word.strip_prefix("max") {
        let below = if below.is_empty() { Duration::ZERO } else { time(below.trim_start_matches('-'))? };
        return Duration::MAX.checked_sub(below).ok_or_else(wrong);
    }
    let (whole, fraction) = word.split_once('.').unwrap_or((word, ""));
    if fraction.len() > 9 {
        return Err(wrong());
    }
    let nanos: u32 = format!("{fraction:0<9}").parse().map_err(|_| wrong())?;
    Ok(Duration::new(whole.parse().map_err(|_| wrong())?, nanos))
}

fn shown(time: Duration) -> String {
    if time.as_secs() > u64::MAX / 2 {
        let below = Duration::MAX - time;
        return if below.is_zero() { "max".into() } else { format!("max-{}", shown(below)) };
    }
    let all = format!("{}.{:09}", time.as_secs(), time.subsec_nanos());
    all.trim_end_matches('0').trim_end_matches('.').into()
}
