//! What one client does, until it is told to stop: what holders do, what those do who oversleep, lose answers, leave in the
//! middle or show wrong tokens.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use lease_machines_store::{Epoch, MarkKey, Store};
use tokio::time::{sleep, timeout};

use crate::engine::{Job, Writer};
use crate::history::{Answer, Ask, Call, Holder, Line, now};
use crate::question::{failed, heard, name, question, reference, renewed};
use crate::random::Random;
use crate::record::Recorder;

/// For how long the hot resources have the same names: what they go through stays short enough to look back on.
const GENERATION: u64 = 6_000_000_000;
/// And how often there are others that nobody has ever seen.
const FRESH: u64 = 150_000_000;
const HOT: u64 = 3;
const MANY: u64 = 200;

const TTLS: [u64; 6] = [3, 25, 100, 400, 1_000, 2_000];

pub(crate) struct Client {
    pub(crate) number: u32,
    pub(crate) random: Random,
    pub(crate) store: Arc<dyn Store>,
    /// Its connections to what is written.
    pub(crate) writers: [Box<dyn Writer>; 2],
    pub(crate) recorder: Recorder,
    /// When the run began.
    pub(crate) began: u64,
    pub(crate) stop: Arc<AtomicBool>,
    pub(crate) epoch: Option<Epoch>,
    pub(crate) written: u64,
    /// Leases that it may have lost long ago.
    pub(crate) former: Vec<Lease>,
}

#[derive(Clone)]
pub(crate) struct Lease {
    resource: String,
    owner: u64,
    token: u64,
    attempt: u64,
    ttl: u64,
}

impl Client {
    /// Asks until it is told to stop.
    pub(crate) async fn run(mut self) {
        while !self.stop.load(Ordering::SeqCst) {
            if self.epoch.is_none() {
                self.epoch =
                    timeout(Duration::from_secs(5), self.store.epoch()).await.ok().and_then(Result::ok);
            }
            match self.random.below(100) {
                0..=3 => self.fleet().await,
                4..=7 => self.oversleeper().await,
                _ => self.hold_once().await,
            }
            self.pause(15).await;
        }
    }

    fn resource(&mut self) -> String {
        let since = now().saturating_sub(self.began);
        match self.random.below(100) {
            0..=59 => format!("hot-{}-{}", since / GENERATION, self.random.below(HOT)),
            60..=79 => format!("many-{}", self.random.below(MANY)),
            _ => format!("fresh-{}-{}", since / FRESH, self.random.below(2)),
        }
    }

    async fn pause(&mut self, most: u64) {
        sleep(Duration::from_millis(self.random.below(most))).await;
    }

    fn ttl(&mut self) -> u64 {
        self.random.of(&TTLS) * 1_000_000
    }

    async fn hold_once(&mut self) {
        let resource = self.resource();
        let (owner, ttl) = (self.random.next().max(1), self.ttl());
        let mut attempt = 1;
        let again = self.random.percent(10);
        let mut answer = self.ask(&resource, Ask::Acquire { owner, attempt, again, ttl }).await;
        // Whoever does not know asks again; some give up, and take back what they may have got.
        for _ in 0..4 {
            match &answer {
                Answer::Granted { token, .. } => {
                    let lease = Lease { resource, owner, token: *token, attempt, ttl };
                    return self.hold(lease).await;
                }
                Answer::Unknown(_) if self.random.percent(40) => {
                    self.ask(&resource, Ask::Withdraw { owner }).await;
                    if self.random.percent(30) {
                        let attempt = attempt + 1;
                        self.ask(&resource, Ask::Acquire { owner, attempt, again: true, ttl }).await;
                    }
                    return;
                }
                Answer::Rejected { holder: Some(holder), .. } => {
                    let holder = *holder;
                    self.other_than_holder(&resource, owner, holder).await;
                    if self.random.percent(50) {
                        return;
                    }
                }
                Answer::Rejected { .. } | Answer::Superseded => return,
                _ => self.pause(60).await,
            }
            if self.stop.load(Ordering::SeqCst) {
                return;
            }
            self.pause(20).await;
            attempt += 1;
            answer = self.ask(&resource, Ask::Acquire { owner, attempt, again: true, ttl }).await;
        }
    }

    /// What somebody does who was told of another holder.
    async fn other_than_holder(&mut self, resource: &str, owner: u64, holder: Holder) {
        let token = holder.token;
        let ttl = self.ttl();
        match self.random.below(40) {
            0..=1 => self.ask(resource, Ask::Revoke { expect: Some(token) }).await,
            2 => self.ask(resource, Ask::Renew { owner, token, ttl, many: false }).await,
            3 => self.ask(resource, Ask::Release { owner, token }).await,
            4 => self.ask(resource, Ask::Revoke { expect: Some(token - 1) }).await,
            5 => {
                self.ask(resource, Ask::Renew { owner: holder.owner, token: token - 1, ttl, many: false })
                    .await
            }
            _ => return,
        };
    }

    async fn hold(&mut self, mut lease: Lease) {
        if self.random.percent(30) {
            self.advance(&lease).await;
        }
        for _ in 0..self.random.below(6) {
            let ttl = self.ttl();
            match self.random.below(20) {
                0..=6 => {
                    let ask = Ask::Renew { owner: lease.owner, token: lease.token, ttl, many: false };
                    if let Answer::Rejected { .. } = self.ask(&lease.resource, ask).await {
                        break;
                    }
                }
                7..=12 => self.write(&lease).await,
                13 => {
                    lease.attempt += 1;
                    let ask = Ask::Acquire { owner: lease.owner, attempt: lease.attempt, again: true, ttl };
                    match self.ask(&lease.resource, ask).await {
                        Answer::Granted { token, .. } => lease.token = token,
                        Answer::Rejected { .. } | Answer::Superseded => break,
                        _ => {}
                    }
                }
                14 => {
                    // It oversleeps, and knows nothing.
                    sleep(Duration::from_nanos(lease.ttl) + Duration::from_millis(self.random.below(60)))
                        .await;
                }
                _ => self.pause(30).await,
            }
            if self.stop.load(Ordering::SeqCst) {
                break;
            }
        }
        let (owner, token) = (lease.owner, lease.token);
        match self.random.below(20) {
            0..=11 => {
                self.ask(&lease.resource, Ask::Release { owner, token }).await;
                if self.random.percent(20) {
                    self.ask(&lease.resource, Ask::Release { owner, token }).await;
                }
            }
            12..=14 => {
                self.ask(&lease.resource, Ask::Withdraw { owner }).await;
                if self.random.percent(30) {
                    let (attempt, ttl) = (lease.attempt + 1, self.ttl());
                    self.ask(&lease.resource, Ask::Acquire { owner, attempt, again: true, ttl }).await;
                }
            }
            15 => {
                self.ask(&lease.resource, Ask::Revoke { expect: Some(token) }).await;
            }
            _ => {}
        }
        if self.former.len() > 8 {
            self.former.remove(0);
        }
        self.former.push(lease);
    }

    /// Goes on with a lease of some time ago.
    async fn oversleeper(&mut self) {
        let Some(lease) = self.former.pop() else { return };
        self.write(&lease).await;
        let ttl = self.ttl();
        let ask = Ask::Renew { owner: lease.owner, token: lease.token, ttl, many: false };
        self.ask(&lease.resource, ask).await;
        self.write(&lease).await;
    }

    /// Holds several at once, and renews them in one call.
    async fn fleet(&mut self) {
        let mut leases = Vec::new();
        for _ in 0..3 + self.random.below(4) {
            let resource = self.resource();
            let (owner, ttl) = (self.random.next().max(1), self.ttl());
            if let Answer::Granted { token, .. } =
                self.ask(&resource, Ask::Acquire { owner, attempt: 1, again: false, ttl }).await
            {
                leases.push(Lease { resource, owner, token, attempt: 1, ttl });
            }
        }
        for _ in 0..2 {
            if !leases.is_empty() {
                self.renew_many(&leases).await;
            }
            self.pause(30).await;
        }
        for lease in leases {
            self.ask(&lease.resource, Ask::Release { owner: lease.owner, token: lease.token }).await;
        }
    }

    async fn renew_many(&mut self, leases: &[Lease]) {
        let ttl = self.ttl();
        let mut calls: Vec<Call> = leases
            .iter()
            .map(|lease| {
                let ask = Ask::Renew { owner: lease.owner, token: lease.token, ttl, many: true };
                self.begin(&lease.resource, ask)
            })
            .collect();
        let asked = leases
            .iter()
            .map(|lease| {
                (reference(&lease.resource, lease.owner, lease.token, self.epoch), Duration::from_nanos(ttl))
            })
            .collect();
        let answers = self.store.renew_many(asked).await;
        let ended = now();
        for (index, call) in calls.iter_mut().enumerate() {
            call.ended = ended;
            call.answer = match &answers {
                Ok(all) => match all.get(index) {
                    Some(answer) => heard(answer.clone(), renewed),
                    None => Answer::Refused("no answer for one of many".to_owned()),
                },
                Err(error) => failed(error),
            };
        }
        for call in calls {
            self.recorder.line(Line::Call(call));
        }
    }

    fn begin(&self, resource: &str, ask: Ask) -> Call {
        let call = Call {
            client: self.number,
            resource: resource.to_owned(),
            ask,
            began: now(),
            guarded: None,
            ended: 0,
            answer: Answer::Unknown("the process was killed".to_owned()),
        };
        self.recorder.begun(&call);
        call
    }

    /// Asks, and takes down what is heard. Some leave before the answer, some ask twice.
    async fn ask(&mut self, resource: &str, ask: Ask) -> Answer {
        let mut call = self.begin(resource, ask);
        let question = || question(&*self.store, self.epoch, resource, &call.ask);
        let answer = match self.random.below(100) {
            0..=1 => {
                let patience = Duration::from_micros(self.random.below(6_000));
                let left = Answer::Unknown("the client left".to_owned());
                timeout(patience, question()).await.unwrap_or(left)
            }
            2..=3 => {
                let mut twin = self.begin(resource, call.ask.clone());
                // Each has the time of its own answer.
                let timed = |answer| async move { (answer, now()) };
                let (first, second) = tokio::join!(async { timed(question().await).await }, async {
                    timed(question().await).await
                });
                (twin.answer, twin.ended) = second;
                self.recorder.line(Line::Call(twin));
                call.ended = first.1;
                first.0
            }
            _ => question().await,
        };
        if call.ended == 0 {
            call.ended = now();
        }
        call.answer = answer.clone();
        self.recorder.line(Line::Call(call));
        answer
    }

    /// Writes; now and then on both connections at once, which the guard has to put in a row.
    async fn write(&mut self, lease: &Lease) {
        let first = self.job(lease);
        if self.random.percent(75) {
            let call = done(first, &mut *self.writers[0]).await;
            return self.recorder.line(Line::Call(call));
        }
        let second = self.job(lease);
        let [one, other] = &mut self.writers;
        let (one, other) = tokio::join!(done(first, &mut **one), done(second, &mut **other));
        self.recorder.line(Line::Call(one));
        self.recorder.line(Line::Call(other));
    }

    fn job(&mut self, lease: &Lease) -> (Call, Job) {
        let (way, can_be_strict) = self.random.of(self.writers[0].ways());
        let strict = can_be_strict && self.random.percent(50) && self.epoch.is_some();
        self.written += 1;
        // The client, when it was started, and what number of its writes this is.
        let id = (u64::from(self.number) << 48)
            | ((now() / 1_000_000 % (1 << 28)) << 20)
            | (self.written % (1 << 20));
        let ask = Ask::Write { owner: lease.owner, token: lease.token, strict, how: way.to_owned(), id };
        let key = MarkKey::new(name(&lease.resource));
        let shown = reference(&lease.resource, lease.owner, lease.token, self.epoch);
        (self.begin(&lease.resource, ask), Job { key, lease: shown, strict, way, id })
    }

    async fn advance(&mut self, lease: &Lease) {
        let ask = Ask::Advance { owner: lease.owner, token: lease.token };
        let mut call = self.begin(&lease.resource, ask);
        let key = MarkKey::new(name(&lease.resource));
        let shown = reference(&lease.resource, lease.owner, lease.token, self.epoch);
        call.answer = self.writers[0].advance(&key, &shown).await;
        call.ended = now();
        self.recorder.line(Line::Call(call));
    }
}

async fn done((mut call, job): (Call, Job), writer: &mut dyn Writer) -> Call {
    (call.guarded, call.answer) = writer.write(&job).await;
    call.ended = now();
    call
}
