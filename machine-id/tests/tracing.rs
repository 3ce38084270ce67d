//! What a manager notices, as events.

use std::fmt::{self, Write};
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

use lease_machines_id::{Fixed, Manager, Options};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

/// Writes each event of ours in a line.
struct Lines(Sender<String>);

struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let _ = write!(self.0, " {}={value:?}", field.name());
    }
}

impl Subscriber for Lines {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == "lease_id"
    }

    fn event(&self, event: &Event<'_>) {
        let mut line = Line(event.metadata().level().to_string());
        event.record(&mut line);
        let _ = self.0.send(line.0);
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

#[test]
fn what_a_manager_notices_is_told_as_events() {
    let (sender, lines) = channel();
    tracing::subscriber::set_global_default(Lines(sender)).expect("the first");
    let next = || lines.recv_timeout(Duration::from_secs(60)).expect("another event");
    let manager = Manager::start(Fixed(7), Options::new()).expect("it starts");
    assert_eq!(next(), "INFO message=acquired machine_id=7 ttl=28800s");
    manager.report_lost();
    let lost = next();
    assert!(lost.starts_with("ERROR message=lost machine_id=7 reason=Signalled error="), "{lost}");
    assert_eq!(next(), "INFO message=released machine_id=7");
}
