//! What is counted, measured and told, under the names that the docs give.
#![allow(clippy::unwrap_used, reason = "a test's own helpers")]

mod support;

use std::collections::BTreeMap;
use std::fmt::{self, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use lease_machines_store::WorkResult;
use metrics::{
    Counter, CounterFn, Gauge, Histogram, HistogramFn, Key, KeyName, Metadata, SharedString, Unit,
};
use support::{Call, World, options, secs};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Subscriber};

/// One at a time: whether an event is wanted is remembered for the whole process.
static TURN: Mutex<()> = Mutex::new(());

fn run<F: Future>(future: F) -> F::Output {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(future)
}

/// A lease that is lost, one that is not got, and one that is released.
async fn three_leases() {
    let world = World::new();
    let lost = world.scheduler.hold("secret/lost", options()).await.unwrap();
    world.toy.revoke_now("secret/lost");
    world.clock.pass(secs(10)).await;
    drop(lost);
    let kept = world.scheduler.hold("secret/kept", options()).await.unwrap();
    world.scheduler.hold("secret/kept", options()).await.unwrap_err();
    world.clock.pass(secs(25)).await;
    assert!(kept.release(WorkResult::Good).await.stood());
    assert_eq!(world.toy.calls(Call::Renew), 3);
    world.scheduler.shutdown(secs(1)).await.unwrap();
}

#[test]
fn figures_are_kept_by_kind_and_never_by_resource() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let figures = Figures::default();
    metrics::with_local_recorder(&figures, || run(three_leases()));
    let figures = figures.0.lock().unwrap();
    let read = |name: &str| figures.get(name).map(|figure| figure.load(Ordering::Relaxed));
    assert_eq!(read("lease_granted_total"), Some(2));
    assert_eq!(read("lease_renewed_total"), Some(2));
    assert_eq!(read("lease_lost_total reason=revoked"), Some(1));
    assert_eq!(read("lease_attempts_total request=acquire"), Some(3));
    assert_eq!(read("lease_attempts_total request=renew"), Some(3));
    assert_eq!(read("lease_attempts_total request=release"), Some(1));
    assert_eq!(read("lease_answers_total answer=done"), Some(5));
    assert_eq!(read("lease_answers_total answer=occupied"), Some(1));
    assert_eq!(read("lease_answers_total answer=rejected"), Some(1));
    assert_eq!(read("lease_waited_seconds"), Some(0), "nobody had to wait");
    assert_eq!(read("lease_held_seconds"), Some(10 + 25), "added up");
    assert_eq!(read("lease_renewed_together"), Some(3), "added up");
    assert_eq!(figures.len(), 12, "{:?}", figures.keys());
    assert!(!figures.keys().any(|key| key.contains("secret")));
}

#[test]
fn each_hold_is_a_span_that_tells_its_story() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let story = Story::default();
    tracing::subscriber::with_default(story.clone(), || run(three_leases()));
    let told = story.told.lock().unwrap();
    let of = |span: u64| -> Vec<&str> {
        told.iter().filter(|(of, _)| *of == span).map(|(_, line)| line.as_str()).collect()
    };
    let lost = of(1);
    assert!(lost[0].starts_with("lease resource=secret/lost owner="), "{lost:?}");
    assert!(lost[1].starts_with(" token=") && lost[1].contains(" epoch="), "{lost:?}");
    assert_eq!(lost[2], "INFO message=granted waited=0ns");
    assert_eq!(lost[3], "ERROR message=lost reason=the lease was revoked");
    assert_eq!(lost[4], "INFO message=ended held=10s verdict=Lost(Revoked)");
    let refused = of(3);
    assert!(
        refused[1].starts_with("INFO message=not held waited=0ns error=\"secret/kept\" is held by owner "),
        "{refused:?}"
    );
    let kept = of(2);
    assert_eq!(kept.last(), Some(&"INFO message=ended held=25s verdict=Stood"));
}

/// Every figure under its name and labels; histograms are added up.
#[derive(Default)]
struct Figures(Mutex<BTreeMap<String, Arc<AtomicU64>>>);

impl Figures {
    fn figure(&self, key: &Key) -> Arc<Sum> {
        let mut name = key.name().to_owned();
        for label in key.labels() {
            write!(name, " {}={}", label.key(), label.value()).expect("a string");
        }
        Arc::new(Sum(Arc::clone(self.0.lock().unwrap().entry(name).or_default())))
    }
}

struct Sum(Arc<AtomicU64>);

impl CounterFn for Sum {
    fn increment(&self, value: u64) {
        self.0.fetch_add(value, Ordering::Relaxed);
    }

    fn absolute(&self, value: u64) {
        self.0.store(value, Ordering::Relaxed);
    }
}

impl HistogramFn for Sum {
    fn record(&self, value: f64) {
        self.0.fetch_add(value as u64, Ordering::Relaxed);
    }
}

impl metrics::Recorder for Figures {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        Counter::from_arc(self.figure(key))
    }

    fn register_gauge(&self, _: &Key, _: &Metadata<'_>) -> Gauge {
        unreachable!("there are none")
    }

    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::from_arc(self.figure(key))
    }
}

/// Lines, each with the span it belongs to.
#[derive(Clone, Default)]
struct Story {
    told: Arc<Mutex<Vec<(u64, String)>>>,
    spans: Arc<AtomicU64>,
}

struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        write!(self.0, " {}={value:?}", field.name()).expect("a string");
    }
}

impl Story {
    fn tell(&self, span: u64, line: Line) {
        self.told.lock().unwrap().push((span, line.0));
    }
}

impl Subscriber for Story {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        metadata.target() == "lease"
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        let id = self.spans.fetch_add(1, Ordering::Relaxed) + 1;
        let mut line = Line(span.metadata().name().to_owned());
        span.record(&mut line);
        self.tell(id, line);
        Id::from_u64(id)
    }

    fn record(&self, span: &Id, values: &Record<'_>) {
        let mut line = Line(String::new());
        values.record(&mut line);
        let mut told = self.told.lock().unwrap();
        match told.last_mut() {
            // Two fields that are recorded one after the other stand in one line.
            Some((of, last)) if *of == span.into_u64() && last.starts_with(' ') => last.push_str(&line.0),
            _ => told.push((span.into_u64(), line.0)),
        }
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut line = Line(event.metadata().level().to_string());
        event.record(&mut line);
        self.tell(event.parent().map_or(0, Id::into_u64), line);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}
