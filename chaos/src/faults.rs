//! What goes wrong in a run, and when.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::crew::{Apart, EACH};
use crate::engine::{Engine, Server};
use crate::history::{Line, now};
use crate::random::Random;
use crate::record::Recorder;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Fault {
    KillServer,
    FreezeServer,
    StepClock,
    Storm,
    BlackHole,
    CutAll,
    KillClients,
    FreezeClients,
    StepClients,
}

pub(crate) struct Faults<'a> {
    pub(crate) engine: &'a dyn Engine,
    pub(crate) apart: &'a mut [Apart],
    pub(crate) random: Random,
    pub(crate) recorder: &'a Recorder,
    pub(crate) stop: &'a AtomicBool,
}

impl Faults<'_> {
    /// Injects one fault after the other until then, and leaves everything well. Blocks.
    pub(crate) fn run(mut self, until: Instant) -> Result<(), String> {
        let possible = self.possible();
        let mut stepped = Instant::now();
        while self.wait(300, 2_500) && Instant::now() < until {
            let mut fault = self.random.of(&possible);
            // Once an hour off, what is hot only has its clock back with the next generation.
            if matches!(fault, Fault::StepClock) && stepped.elapsed() < Duration::from_secs(15) {
                fault = Fault::KillClients;
            }
            match (fault, self.engine.server()) {
                (Fault::KillServer, Some(server)) => self.kill(server),
                (Fault::FreezeServer, Some(server)) => self.freeze(server),
                (Fault::StepClock, Some(server)) => {
                    stepped = Instant::now();
                    self.step(server);
                }
                (Fault::Storm, _) => self.storm(),
                (Fault::BlackHole, _) => self.black_hole(),
                (Fault::CutAll, _) => {
                    self.recorder.fault("all connections cut");
                    self.engine.proxies().iter().for_each(|proxy| proxy.cut());
                }
                (Fault::FreezeClients, _) => self.freeze_clients(),
                (Fault::StepClients, _) => {
                    let ahead = self.random.of(&[-3600, 0, 3600]);
                    self.recorder.fault("wall clock of clients stepped");
                    self.engine.set_client_clock(ahead);
                }
                _ => self.kill_clients()?,
            }
        }
        Ok(())
    }

    /// Each as often as it stands there.
    fn possible(&self) -> Vec<Fault> {
        let mut possible = vec![Fault::KillClients, Fault::FreezeClients];
        if self.engine.server().is_some() {
            possible.extend([Fault::KillServer, Fault::KillServer, Fault::FreezeServer]);
        } else {
            possible.push(Fault::KillClients);
        }
        if self.engine.steps_clients() {
            possible.push(Fault::StepClients);
        } else {
            possible.extend([Fault::StepClock, Fault::StepClock]);
        }
        if !self.engine.proxies().is_empty() {
            possible.extend([Fault::Storm, Fault::Storm, Fault::Storm, Fault::BlackHole, Fault::CutAll]);
        }
        possible
    }

    /// For a random time; no where the run is to stop.
    fn wait(&mut self, least: u64, most: u64) -> bool {
        let until = Instant::now() + Duration::from_millis(least + self.random.below(most - least));
        while Instant::now() < until {
            if self.stop.load(Ordering::SeqCst) {
                return false;
            }
            sleep(Duration::from_millis(20));
        }
        true
    }

    fn kill(&mut self, server: &dyn Server) {
        self.recorder.fault("server killed");
        let from = now();
        server.kill();
        self.wait(1, 800);
        server.restart();
        self.recorder.line(Line::Away { from, until: now() });
    }

    fn freeze(&mut self, server: &dyn Server) {
        self.recorder.fault("server frozen");
        let from = now();
        server.freeze();
        self.wait(100, 2_500);
        server.thaw();
        self.recorder.line(Line::Away { from, until: now() });
    }

    fn step(&mut self, server: &dyn Server) {
        let ahead = self.random.of(&[-3600, 0, 3600]);
        self.recorder.fault("server clock stepped");
        let from = now();
        server.set_clock(ahead);
        self.recorder.line(Line::Stepped { from, until: now(), ahead });
    }

    fn storm(&mut self) {
        let each = self.random.of(&[3, 8, 25]);
        self.recorder.fault("storm on the network");
        self.engine.proxies().iter().for_each(|proxy| proxy.storm(each));
        self.wait(500, 4_000);
        self.engine.proxies().iter().for_each(|proxy| proxy.calm());
    }

    fn black_hole(&mut self) {
        self.recorder.fault("black hole on the network");
        self.engine.proxies().iter().for_each(|proxy| proxy.hole(true));
        self.wait(100, 2_500);
        // What was in it arrives now, or never.
        if self.random.percent(50) {
            self.engine.proxies().iter().for_each(|proxy| proxy.cut());
        }
        self.engine.proxies().iter().for_each(|proxy| proxy.hole(false));
    }

    fn kill_clients(&mut self) -> Result<(), String> {
        self.recorder.fault("process with clients killed");
        let which = self.random.below(self.apart.len() as u64) as usize;
        self.apart[which].kill()
    }

    fn freeze_clients(&mut self) {
        self.recorder.fault("process with clients frozen");
        let which = self.random.below(self.apart.len() as u64) as usize;
        self.apart[which].freeze();
        self.wait(100, 2_500);
        self.apart[which].thaw();
    }
}

/// The numbers of the clients in the processes.
pub(crate) fn first_of(process: u32, in_this: u32) -> u32 {
    in_this + process * EACH
}
