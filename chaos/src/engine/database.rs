//! What clients write with at a server: a connection that is made when it is needed, and given up when nothing is known of
//! its state.

use std::future::Future;

use lease_machines_store::{LeaseRef, MarkKey};
use tokio::runtime::Handle;
use tokio::time::timeout;

use super::{Job, Later, PATIENCE, Writer};
use crate::history::Answer;
use crate::proxy::{Proxy, Wire};
use crate::random::Random;
use crate::record::Recorder;

/// How a kind of server is written to.
pub(super) trait Database {
    type Connection: Send;

    /// As [`Writer::ways`].
    const WAYS: &'static [(&'static str, bool)];

    fn connect(place: &str) -> impl Future<Output = Result<Self::Connection, String>> + Send;

    /// Whether it is known that nothing can be asked there any more.
    fn is_closed(_: &Self::Connection) -> bool {
        false
    }

    /// As [`Writer::write`].
    fn write(
        connection: &mut Self::Connection,
        job: &Job,
    ) -> impl Future<Output = (Option<u64>, Answer)> + Send;

    /// Raises the mark, or says what became of it.
    fn advance(
        connection: &mut Self::Connection,
        key: &MarkKey,
        lease: &LeaseRef,
    ) -> impl Future<Output = Result<(), Answer>> + Send;
}

pub(super) struct ServerWriter<D: Database> {
    place: String,
    connection: Option<D::Connection>,
}

impl<D: Database> ServerWriter<D> {
    pub(super) fn new(place: &str) -> Self {
        Self { place: place.to_owned(), connection: None }
    }

    /// The connection, which is given up unless it is put back.
    async fn connection(&mut self) -> Result<D::Connection, Answer> {
        if let Some(connection) = self.connection.take().filter(|connection| !D::is_closed(connection)) {
            return Ok(connection);
        }
        match timeout(PATIENCE, D::connect(&self.place)).await {
            Ok(connected) => connected.map_err(Answer::NotDone),
            Err(_) => Err(Answer::NotDone("no connection".to_owned())),
        }
    }
}

impl<D: Database> Writer for ServerWriter<D> {
    fn ways(&self) -> &'static [(&'static str, bool)] {
        D::WAYS
    }

    fn write<'a>(&'a mut self, job: &'a Job) -> Later<'a, (Option<u64>, Answer)> {
        Box::pin(async move {
            let mut connection = match self.connection().await {
                Ok(connection) => connection,
                Err(answer) => return (None, answer),
            };
            let (guarded, answer) = D::write(&mut connection, job).await;
            if !matches!(answer, Answer::NotDone(_) | Answer::Unknown(_)) {
                self.connection = Some(connection);
            }
            (guarded, answer)
        })
    }

    fn advance<'a>(&'a mut self, key: &'a MarkKey, lease: &'a LeaseRef) -> Later<'a, Answer> {
        Box::pin(async move {
            let mut connection = match self.connection().await {
                Ok(connection) => connection,
                Err(answer) => return answer,
            };
            match timeout(PATIENCE, D::advance(&mut connection, key, lease)).await {
                Ok(Ok(())) => {
                    self.connection = Some(connection);
                    Answer::Passed
                }
                Ok(Err(answer)) => answer,
                Err(_) => Answer::Unknown("no answer".to_owned()),
            }
        })
    }
}

/// What is its own commit may have been carried out although it failed.
pub(super) fn unknown(answer: Answer) -> Answer {
    match answer {
        Answer::NotDone(why) => Answer::Unknown(why),
        answer => answer,
    }
}

/// A proxy for the requests of stores, some of which it sends twice where `may_double`, and one for clients that write, whose
/// own transactions are not made for that.
pub(super) fn proxies(
    wire: Wire,
    may_double: bool,
    port: u16,
    mut random: Random,
    recorder: &Recorder,
) -> Result<Vec<Proxy>, String> {
    let mut start = |may_double| {
        let random = Random::new(random.next(), 0);
        Handle::current().block_on(Proxy::start(wire, may_double, port, random, recorder))
    };
    let started = [start(may_double), start(false)];
    started.into_iter().collect::<Result<_, _>>().map_err(|error| error.to_string())
}
