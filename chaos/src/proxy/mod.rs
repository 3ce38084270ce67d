//! Stands between clients and a server, and does to requests and replies what networks do.
//!
//! It knows where a request and a reply end, so that it can carry a request out twice and hide the second reply, or let one
//! arrive after its client has gone.

mod mysql;
mod wire;

use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::time::sleep;

use crate::history::{Line, now};
use crate::random::Random;
use crate::record::Recorder;
pub(crate) use wire::Wire;
use wire::{Replies, Requests};

/// What happens to one request, or to its reply.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Fate {
    Pass,
    /// It comes later, with all behind it.
    Delay,
    /// It vanishes, with all behind it, and the connection stays.
    DropRequest,
    /// It is carried out, and its reply vanishes, with all behind it.
    DropReply,
    /// The connection breaks before it arrives.
    CutRequest,
    /// The connection breaks instead of the reply.
    CutReply,
    /// It arrives twice.
    Double,
    /// The connection breaks, and the request arrives later all the same.
    Late,
}

const FATES: [(Fate, &str); 7] = [
    (Fate::Delay, "request delayed"),
    (Fate::DropRequest, "request dropped"),
    (Fate::DropReply, "reply dropped"),
    (Fate::CutRequest, "connection cut before a request"),
    (Fate::CutReply, "connection cut before a reply"),
    (Fate::Double, "request doubled"),
    (Fate::Late, "request late"),
];

pub(crate) struct Proxy {
    pub(crate) port: u16,
    shared: Arc<Shared>,
}

struct Shared {
    wire: Wire,
    /// Whether a second request does no more than the first.
    may_double: bool,
    /// Of 1,000 requests so many meet each fate.
    odds: AtomicU64,
    random: Mutex<Random>,
    recorder: Recorder,
    storming: AtomicBool,
    /// How many requests are still to arrive, or may not have been carried out yet.
    late: AtomicU64,
    /// While it is on, nothing gets through.
    hole: watch::Sender<bool>,
    /// Connections of an earlier number are cut.
    cut: watch::Sender<u64>,
}

impl Proxy {
    /// In front of a port of this machine.
    pub(crate) async fn start(
        wire: Wire,
        may_double: bool,
        to: u16,
        random: Random,
        recorder: &Recorder,
    ) -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let port = listener.local_addr()?.port();
        let shared = Arc::new(Shared {
            wire,
            may_double,
            odds: 0.into(),
            random: Mutex::new(random),
            recorder: recorder.clone(),
            storming: false.into(),
            late: 0.into(),
            hole: watch::channel(false).0,
            cut: watch::channel(0).0,
        });
        let proxy = Self { port, shared: Arc::clone(&shared) };
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let shared = Arc::clone(&shared);
                tokio::spawn(async move {
                    let _ = shared.pass_on(client, to).await;
                });
            }
        });
        Ok(proxy)
    }

    /// Whether nothing is on its way any more.
    pub(crate) fn is_empty(&self) -> bool {
        self.shared.late.load(Ordering::SeqCst) == 0
    }

    /// Until [`calm`](Self::calm), of 1,000 requests so many meet each of the fates.
    pub(crate) fn storm(&self, each: u64) {
        self.shared.odds.store(each, Ordering::SeqCst);
        self.shared.storming.store(true, Ordering::SeqCst);
    }

    pub(crate) fn calm(&self) {
        self.shared.odds.store(0, Ordering::SeqCst);
        self.shared.storming.store(false, Ordering::SeqCst);
    }

    /// Whether nothing gets through, in either direction; what comes meanwhile waits.
    pub(crate) fn hole(&self, open: bool) {
        self.shared.hole.send_replace(open);
    }

    /// Breaks all connections.
    pub(crate) fn cut(&self) {
        self.shared.cut.send_modify(|number| *number += 1);
    }
}

/// What is known of a reply that is to come.
enum Due {
    Deliver,
    /// Of a request that was doubled at this instant.
    Hide(u64),
    /// The connection is to break instead.
    Cut,
}

/// One connection.
struct Between {
    due: Mutex<VecDeque<Due>>,
    /// Replies are not delivered any more.
    mute: AtomicBool,
    /// The connection breaks instead of whatever comes next, where it is not known what is a reply.
    cut: AtomicBool,
}

impl Shared {
    async fn pass_on(self: &Arc<Self>, client: TcpStream, to: u16) -> io::Result<()> {
        let mut cut = self.cut.subscribe();
        cut.mark_unchanged();
        let server = TcpStream::connect(("127.0.0.1", to)).await?;
        client.set_nodelay(true)?;
        server.set_nodelay(true)?;
        let (from_client, to_client) = client.into_split();
        let (from_server, to_server) = server.into_split();
        let (requests, replies) = self.wire.connection();
        let between = Between { due: Mutex::default(), mute: false.into(), cut: false.into() };
        tokio::select! {
            // A client that has gone may have left something on its way, which arrives.
            _ = async {
                let _ = self.requests(requests, from_client, to_server, &between).await;
            } => {}
            _ = self.replies(replies, from_server, to_client, &between) => {}
            _ = cut.changed() => {}
        }
        // A second time that was not seen to come back may have been carried out a while later, by a server that was frozen.
        for due in between.due.lock().unwrap().drain(..) {
            if let Due::Hide(from) = due {
                self.recorder.line(Line::Doubled { from, until: now() + 10_000_000_000 });
            }
        }
        Ok(())
    }

    async fn requests(
        self: &Arc<Self>,
        mut wire: Requests,
        mut from: OwnedReadHalf,
        mut to: OwnedWriteHalf,
        between: &Between,
    ) -> io::Result<()> {
        let mut buffer = Vec::new();
        loop {
            while let Some(request) = wire.next(&mut buffer) {
                let fate = if request.has_begun { self.fate(request.may_double) } else { Fate::Pass };
                self.through().await;
                match fate {
                    Fate::Pass => {}
                    Fate::Delay => {
                        let by = self.random.lock().unwrap().below(400);
                        sleep(Duration::from_millis(by)).await;
                    }
                    Fate::DropRequest => {
                        // Deaf from here on, until the client has had enough.
                        let mut rest = [0; 4096];
                        while from.read(&mut rest).await? > 0 {}
                        return Ok(());
                    }
                    Fate::DropReply => between.mute.store(true, Ordering::SeqCst),
                    Fate::CutRequest => return Ok(()),
                    Fate::CutReply if request.replies == 0 => between.cut.store(true, Ordering::SeqCst),
                    Fate::CutReply | Fate::Double => {}
                    Fate::Late => {
                        self.deliver_late(to, request.bytes);
                        return Ok(());
                    }
                }
                for _ in 0..request.replies {
                    let due = if fate == Fate::CutReply { Due::Cut } else { Due::Deliver };
                    between.due.lock().unwrap().push_back(due);
                }
                wire.sent(&request);
                if fate == Fate::Double {
                    wire.sent(&request);
                    between.due.lock().unwrap().push_back(Due::Hide(now()));
                    to.write_all(&request.bytes).await?;
                }
                to.write_all(&request.bytes).await?;
            }
            if from.read_buf(&mut buffer).await? == 0 {
                return Ok(());
            }
        }
    }

    /// Its connection is gone; the request comes.
    fn deliver_late(self: &Arc<Self>, mut to: OwnedWriteHalf, request: Vec<u8>) {
        let by = 200 + self.random.lock().unwrap().below(2_500);
        self.late.fetch_add(1, Ordering::SeqCst);
        let shared = Arc::clone(self);
        tokio::spawn(async move {
            sleep(Duration::from_millis(by)).await;
            let _ = to.write_all(&request).await;
            sleep(Duration::from_secs(2)).await;
            shared.late.fetch_sub(1, Ordering::SeqCst);
        });
    }

    async fn replies(
        &self,
        mut wire: Replies,
        mut from: OwnedReadHalf,
        mut to: OwnedWriteHalf,
        between: &Between,
    ) -> io::Result<()> {
        let mut buffer = Vec::new();
        loop {
            while let Some(reply) = wire.next(&mut buffer) {
                self.through().await;
                if between.cut.load(Ordering::SeqCst) {
                    return Ok(());
                }
                let due = between.due.lock().unwrap().pop_front();
                match due {
                    Some(Due::Cut) => return Ok(()),
                    Some(Due::Hide(from)) => {
                        self.recorder.line(Line::Doubled { from, until: now() });
                        continue;
                    }
                    Some(Due::Deliver) | None => {}
                }
                if !between.mute.load(Ordering::SeqCst) {
                    to.write_all(&reply).await?;
                }
            }
            if from.read_buf(&mut buffer).await? == 0 {
                // A last word, such as that the server is going down.
                if !between.mute.load(Ordering::SeqCst) {
                    to.write_all(&buffer).await?;
                }
                return Ok(());
            }
        }
    }

    /// Returns as long as there is no black hole.
    async fn through(&self) {
        let _ = self.hole.subscribe().wait_for(|open| !open).await;
    }

    fn fate(&self, may_double: bool) -> Fate {
        let each = self.odds.load(Ordering::SeqCst);
        if each == 0 {
            return Fate::Pass;
        }
        let drawn = self.random.lock().unwrap().below(1000);
        let chosen = usize::try_from(drawn / each).unwrap_or(usize::MAX);
        let Some(&(fate, name)) = FATES.get(chosen) else { return Fate::Pass };
        if fate == Fate::Double && !(may_double && self.may_double) {
            return Fate::Pass;
        }
        self.recorder.fault(name);
        fate
    }
}
