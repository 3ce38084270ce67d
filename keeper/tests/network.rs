//! Two processes that want the same lease, on a network that loses, doubles and delays what they say.
#![allow(clippy::unwrap_used, reason = "a test's own helpers")]

mod support;

use std::sync::{Arc, Mutex};

use lease_machines::{Fence, FencingToken};
use lease_machines_keeper::{Clock, Guard, HoldError, Lease, ManualClock, Scheduler, sleep_until};
use lease_machines_store::{FaultStore, MemoryStore, Odds, Store, WorkResult};
use support::{ms, options, secs};

/// What the holders saw, and what the resource made of it.
#[derive(Default)]
struct Resource {
    fence: Option<Fence>,
    /// Who believes that it may act.
    acting: Vec<Lease>,
    accepted: Vec<FencingToken>,
    held: usize,
    lost: usize,
}

impl Resource {
    fn begin(&mut self, guard: &Guard) {
        self.acting.retain(Lease::may_act);
        assert!(self.acting.is_empty(), "{guard:?} began while {:?} could act", self.acting);
        self.acting.push(guard.lease());
        self.held += 1;
    }

    fn write(&mut self, guard: &Guard) {
        if guard.may_act() && self.fence.get_or_insert_with(|| Fence::new(None)).accept(guard.token()) {
            self.accepted.push(guard.token());
        }
    }
}

async fn worker(scheduler: Scheduler, clock: ManualClock, resource: Arc<Mutex<Resource>>) {
    loop {
        match scheduler.hold("a", options().wait(secs(60))).await {
            Ok(guard) => {
                resource.lock().unwrap().begin(&guard);
                // Some work is shorter than a term, some longer.
                let end = clock.now() + ms(guard.owner().value() % 40_000);
                while guard.may_act() && clock.now() < end {
                    resource.lock().unwrap().write(&guard);
                    sleep_until(&clock, (clock.now() + ms(700)).min(end)).await;
                }
                let stood = guard.release(WorkResult::Good).await.stood();
                resource.lock().unwrap().lost += usize::from(!stood);
            }
            Err(HoldError::Occupied(_) | HoldError::Unreachable { .. }) => {}
            Err(error) => unreachable!("nothing else goes wrong here: {error}"),
        }
        sleep_until(&clock, clock.now() + ms(10)).await;
    }
}

#[tokio::test]
async fn no_two_act_at_once_whatever_the_network_does() {
    let (mut held, mut lost) = (0, 0);
    for seed in 0..16 {
        let memory = Arc::new(MemoryStore::new().unwrap());
        let moved = Arc::clone(&memory);
        let clock = ManualClock::new().with_other(move |span| moved.advance(span));
        let faults: Vec<_> = [seed, seed + 1_000]
            .map(|seed| {
                let store: Arc<dyn Store> = Arc::<MemoryStore>::clone(&memory);
                Arc::new(FaultStore::seeded(store, seed, Odds::each(8)))
            })
            .into();
        let resource = Arc::new(Mutex::new(Resource::default()));
        let workers: Vec<_> = faults
            .iter()
            .map(|store| {
                let store: Arc<dyn Store> = Arc::<FaultStore>::clone(store);
                let scheduler = Scheduler::with_clock(store, Arc::new(clock.clone()));
                tokio::spawn(worker(scheduler, clock.clone(), Arc::clone(&resource)))
            })
            .collect();
        for step in 0_u64..60 {
            clock.pass(ms(1_000 + (step * seed * 37) % 4_000)).await;
            // What was delayed arrives in the middle of other things; now and then nothing gets through at all.
            let which = &faults[usize::from(step % 2 == 1)];
            which.deliver_late().await;
            if step % 20 == seed % 20 {
                which.black_hole();
                clock.pass(secs(40)).await;
                which.heal();
            }
        }
        for worker in workers {
            assert!(!worker.is_finished(), "seed {seed}: a worker failed");
            worker.abort();
        }
        let resource = resource.lock().unwrap();
        assert!(resource.accepted.is_sorted(), "seed {seed}: {:?}", resource.accepted);
        held += resource.held;
        lost += resource.lost;
    }
    println!("{held} leases held, {lost} of them lost or unconfirmed");
    assert!(held > 150 && lost > 10, "{held} held, {lost} lost: too little happened");
}
