//! Where a request and a reply end, in the protocols of the engines.

use super::mysql::Talk;

/// Whose protocol it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Wire {
    Postgres,
    Mysql,
    Redis,
    /// Not known: whatever arrives together counts as one, and nothing is doubled.
    Other,
}

pub(super) struct Request {
    pub(super) bytes: Vec<u8>,
    /// It may be sent twice: the server does not mind the second.
    pub(super) may_double: bool,
    /// Whether the connection has been set up.
    pub(super) has_begun: bool,
    /// How many replies it brings.
    pub(super) replies: usize,
}

impl Wire {
    /// Both directions of a new connection.
    pub(super) fn connection(self) -> (Requests, Replies) {
        let talk = Talk::default();
        (Requests { wire: self, begun: 0, talk: talk.clone() }, Replies { wire: self, talk })
    }
}

pub(super) struct Requests {
    wire: Wire,
    begun: u64,
    talk: Talk,
}

impl Requests {
    /// Takes a whole request off the beginning of the buffer, if there is one.
    pub(super) fn next(&mut self, buffer: &mut Vec<u8>) -> Option<Request> {
        match self.wire {
            Wire::Postgres => self.postgres(buffer),
            Wire::Mysql => {
                let command = self.talk.command(buffer)?;
                let bytes = buffer.drain(..command.length).collect();
                let is_answered = command.is_answered();
                Some(Request {
                    bytes,
                    may_double: command.may_double(),
                    has_begun: is_answered,
                    replies: usize::from(is_answered),
                })
            }
            Wire::Redis => {
                let length = resp(buffer, 0)?;
                let bytes: Vec<u8> = buffer.drain(..length).collect();
                let is_script = bytes.windows(4).take(24).any(|word| word.eq_ignore_ascii_case(b"eval"));
                self.begun += 1;
                Some(Request { bytes, may_double: is_script, has_begun: self.begun > 3, replies: 1 })
            }
            Wire::Other => {
                if buffer.is_empty() {
                    return None;
                }
                self.begun += 1;
                let bytes = std::mem::take(buffer);
                Some(Request { bytes, may_double: false, has_begun: self.begun > 3, replies: 0 })
            }
        }
    }

    /// It is sent, once or twice: each time it is answered.
    pub(super) fn sent(&self, request: &Request) {
        if self.wire == Wire::Mysql && request.replies > 0 {
            self.talk.sent(request.bytes[4]);
        }
    }

    /// Everything up to what is answered by *ready for query*. The first message of a connection has no kind.
    fn postgres(&mut self, buffer: &mut Vec<u8>) -> Option<Request> {
        if self.begun == 0 {
            let length = number(buffer, 0)?;
            if buffer.len() < length {
                return None;
            }
            self.begun = 1;
            let bytes = buffer.drain(..length).collect();
            return Some(Request { bytes, may_double: false, has_begun: false, replies: 1 });
        }
        let mut at = 0;
        let mut named = false;
        loop {
            let kind = *buffer.get(at)?;
            let length = number(buffer, at + 1)?;
            if buffer.len() < at + 1 + length {
                return None;
            }
            named |= kind == b'P' && buffer.get(at + 5) != Some(&0);
            at += 1 + length;
            if matches!(kind, b'S' | b'Q' | b'X' | b'p') {
                let bytes: Vec<u8> = buffer.drain(..at).collect();
                let answered = matches!(kind, b'S' | b'Q');
                let may_double = kind == b'S' && matches!(bytes[0], b'B' | b'P') && !named;
                return Some(Request {
                    bytes,
                    may_double,
                    has_begun: answered,
                    replies: usize::from(answered),
                });
            }
        }
    }
}

pub(super) struct Replies {
    wire: Wire,
    talk: Talk,
}

impl Replies {
    /// Takes a whole reply off the beginning of the buffer, if there is one.
    pub(super) fn next(&mut self, buffer: &mut Vec<u8>) -> Option<Vec<u8>> {
        let length = match self.wire {
            Wire::Redis => resp(buffer, 0)?,
            Wire::Mysql => self.talk.reply(buffer)?,
            Wire::Other if buffer.is_empty() => return None,
            Wire::Other => buffer.len(),
            Wire::Postgres => {
                let mut at = 0;
                loop {
                    let kind = *buffer.get(at)?;
                    let length = number(buffer, at + 1)?;
                    if buffer.len() < at + 1 + length {
                        return None;
                    }
                    at += 1 + length;
                    // A demand for a password is answered before anything else comes.
                    if matches!(kind, b'Z' | b'R') {
                        break at;
                    }
                }
            }
        };
        Some(buffer.drain(..length).collect())
    }
}

fn number(buffer: &[u8], at: usize) -> Option<usize> {
    let bytes = buffer.get(at..at + 4)?;
    usize::try_from(u32::from_be_bytes(bytes.try_into().ok()?)).ok()
}

/// Where a value of Redis's protocol ends that begins at `at`.
fn resp(buffer: &[u8], at: usize) -> Option<usize> {
    let line = at + buffer.get(at..)?.windows(2).position(|two| two == b"\r\n")? + 2;
    let count = || std::str::from_utf8(&buffer[at + 1..line - 2]).ok()?.parse::<i64>().ok();
    match *buffer.get(at)? {
        b'$' => match usize::try_from(count()?) {
            Ok(length) => (buffer.len() >= line + length + 2).then_some(line + length + 2),
            Err(_) => Some(line),
        },
        b'*' => {
            let mut end = line;
            for _ in 0..count()?.max(0) {
                end = resp(buffer, end)?;
            }
            Some(end)
        }
        _ => Some(line),
    }
}

#[cfg(test)]
mod tests {
    use super::Wire;

    #[test]
    fn requests_and_replies_of_redis_are_told_apart() {
        let mut sent =
            b"*2\r\n$4\r\nECHO\r\n$3\r\n\r\n!\r\n*3\r\n$7\r\nEVALSHA\r\n$1\r\nx\r\n$1\r\n0\r\n*1\r\n$4\r\nPI"
                .to_vec();
        let (mut requests, mut replies) = Wire::Redis.connection();
        let first = requests.next(&mut sent).unwrap();
        assert_eq!((first.bytes.len(), first.may_double), (23, false));
        assert!(requests.next(&mut sent).unwrap().may_double);
        assert!(requests.next(&mut sent).is_none(), "half a request");
        sent.extend_from_slice(b"NG\r\n");
        assert_eq!(requests.next(&mut sent).unwrap().bytes, b"*1\r\n$4\r\nPING\r\n");

        let mut said = b"*3\r\n$-1\r\n:7\r\n*1\r\n+x\r\n-no\r\n$2\r\nok\r".to_vec();
        assert_eq!(replies.next(&mut said).unwrap(), b"*3\r\n$-1\r\n:7\r\n*1\r\n+x\r\n");
        assert_eq!(replies.next(&mut said).unwrap(), b"-no\r\n");
        assert!(replies.next(&mut said).is_none(), "half a reply");
    }

    #[test]
    fn requests_and_replies_of_postgresql_are_told_apart() {
        let message = |kind: u8, body: &[u8]| {
            let mut bytes = vec![kind];
            bytes.extend_from_slice(&u32::try_from(body.len() + 4).unwrap().to_be_bytes());
            bytes.extend_from_slice(body);
            bytes
        };
        let (mut requests, mut replies) = Wire::Postgres.connection();
        let mut sent = message(b'!', b"start")[1..].to_vec();
        sent.extend([message(b'P', b"\0select\0"), message(b'B', b"\0"), message(b'S', b"")].concat());
        sent.extend([message(b'P', b"s1\0select\0"), message(b'S', b"")].concat());
        let start = requests.next(&mut sent).unwrap();
        assert_eq!((start.bytes.len(), start.has_begun, start.replies), (9, false, 1));
        let unnamed = requests.next(&mut sent).unwrap();
        assert_eq!((unnamed.may_double, unnamed.has_begun, unnamed.replies), (true, true, 1));
        assert!(!requests.next(&mut sent).unwrap().may_double, "a second statement of that name is an error");
        assert!(requests.next(&mut sent).is_none());

        let mut said = [message(b'D', b"row"), message(b'C', b"done"), message(b'Z', b"I")].concat();
        let all = said.clone();
        said.extend_from_slice(b"D");
        assert_eq!(replies.next(&mut said).unwrap(), all);
        assert!(replies.next(&mut said).is_none());
    }
}
