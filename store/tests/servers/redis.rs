//! A Redis or Valkey server.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::guard::{Guarded, free_port};

/// A server is waited for at most this long; only a failure takes it.
const PATIENCE: Duration = Duration::from_secs(20);

/// Writes everything down before it answers.
pub const DURABLE: &[&str] = &["--appendonly", "yes", "--appendfsync", "always"];

/// Keeps everything in memory.
pub const FORGETFUL: &[&str] = &["--appendonly", "no"];

pub struct RedisServer {
    process: Guarded,
    program: &'static str,
    args: Vec<String>,
    pub port: u16,
}

impl RedisServer {
    pub fn start(args: &[&str]) -> Self {
        Self::start_as("redis-server", args)
    }

    pub fn start_as(program: &'static str, args: &[&str]) -> Self {
        Self::start_in(program, args, &[])
    }

    /// The same, with variables in its environment.
    pub fn start_in(program: &'static str, args: &[&str], environment: &[String]) -> Self {
        Self::start_at(|| Guarded::folder(program).with(environment), program, args)
    }

    /// The same in a folder that is made for it, which may have an environment.
    pub fn start_at(folder: impl Fn() -> Guarded, program: &'static str, args: &[&str]) -> Self {
        let args: Vec<String> = args.iter().map(|&arg| arg.to_owned()).collect();
        loop {
            let process = folder();
            let mut server = Self { process, program, args: args.clone(), port: free_port() };
            if server.launch() {
                return server;
            }
            let said = server.process.log();
            assert!(said.contains("already in use"), "{program}: {said}");
        }
    }

    /// The process, and the folder that it keeps its data in.
    pub fn guarded(&self) -> &Guarded {
        &self.process
    }

    /// Ends it at once, without letting it write anything down.
    pub fn kill(&mut self) {
        self.process.stop();
    }

    /// The same server on the same files, after it was killed.
    pub fn restart(&mut self) {
        self.kill();
        assert!(self.launch(), "it did not start again: {}", self.process.log());
    }

    /// Keeps a copy of its log as it is now, while nobody asks anything.
    pub fn keep(&self) {
        self.copy("appendonlydir", "kept");
    }

    /// The same server on the log that was kept, after it was killed.
    pub fn put_back(&mut self) {
        self.kill();
        self.copy("kept", "appendonlydir");
        assert!(self.launch(), "it did not start again: {}", self.process.log());
    }

    fn copy(&self, from: &str, to: &str) {
        let [from, to] = [from, to].map(|name| self.process.path().join(name));
        let _ = std::fs::remove_dir_all(&to);
        assert!(Command::new("cp").arg("-a").arg(&from).arg(&to).status().unwrap().success());
    }

    /// The same server on the same files, which it is reading still.
    pub fn restart_loading(&mut self) {
        self.kill();
        self.spawn();
        self.is_loading();
    }

    /// Waits until it reads data.
    pub fn is_loading(&self) {
        self.says("loading:1");
    }

    /// Waits until it has read all.
    pub fn has_loaded(&self) {
        self.says("loading:0");
    }

    fn says(&self, what: &str) {
        let start = Instant::now();
        let what = format!("\r\n{what}\r\n");
        while !ask(self.port, &["INFO", "persistence"]).is_ok_and(|said| said.contains(&what)) {
            assert!(start.elapsed() < PATIENCE, "{} does not say {what:?}", self.program);
            thread::sleep(Duration::from_millis(1));
        }
    }

    fn spawn(&mut self) {
        let (port, folder) = (self.port.to_string(), self.process.path().to_str().unwrap().to_owned());
        let mut all = vec!["--port", &port, "--bind", "127.0.0.1", "--save", "", "--dir", &folder];
        all.extend(self.args.iter().map(String::as_str));
        self.process.start(Path::new(self.program), &all, "KILL");
    }

    /// Starts it, and waits until it has read its data; says no where it has ended instead.
    fn launch(&mut self) -> bool {
        self.spawn();
        let start = Instant::now();
        loop {
            // Somebody else's server may have got the port.
            let own = self.process.pid().map(|pid| format!("process_id:{pid}\r\n"));
            match (own, ask(self.port, &["INFO"])) {
                (Some(own), Ok(said)) if said.contains(&own) && said.contains("\r\nloading:0\r\n") => {
                    return true;
                }
                _ => {}
            }
            if self.process.log().contains("already in use") {
                return false;
            }
            assert!(start.elapsed() < PATIENCE, "{} does not answer: {}", self.program, self.process.log());
            thread::sleep(Duration::from_millis(5));
        }
    }

    pub fn freeze(&self) {
        self.signal(Signal::STOP);
    }

    pub fn thaw(&self) {
        self.signal(Signal::CONT);
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_raw(self.process.pid().unwrap()).unwrap(), signal).unwrap();
    }

    /// What an application opens.
    pub fn url(&self, options: &str) -> String {
        format!("redis://127.0.0.1:{}/0?{options}", self.port)
    }

    /// One command by hand; of the answer, a string or the first line.
    pub fn command(&self, words: &[&str]) -> String {
        ask(self.port, words).unwrap()
    }
}

/// One command by hand; of the answer, a string or the first line.
pub fn ask(port: u16, words: &[&str]) -> io::Result<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut text = format!("*{}\r\n", words.len());
    for word in words {
        text.push_str(&format!("${}\r\n{word}\r\n", word.len()));
    }
    stream.write_all(text.as_bytes())?;
    let (mut stream, mut line) = (BufReader::new(stream), String::new());
    stream.read_line(&mut line)?;
    let Some(Ok(length)) = line.trim_end().strip_prefix('$').map(str::parse) else {
        return Ok(line.trim_end().to_owned());
    };
    let mut bytes = vec![0; length];
    stream.read_exact(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
