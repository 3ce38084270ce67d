//! The scripts, and the keys that they work on.

use std::sync::LazyLock;

use redis::Cmd;

use crate::ResourceName;
use crate::version::Known;

/// A script, and what the server calls it.
pub(super) struct Script(LazyLock<Told>);

struct Told {
    text: String,
    hash: String,
}

impl Script {
    const fn new(told: fn() -> Told) -> Self {
        Self(LazyLock::new(told))
    }

    pub(super) fn text(&self) -> &str {
        &self.0.text
    }

    fn hash(&self) -> &str {
        &self.0.hash
    }
}

macro_rules! script {
    ($file:literal) => {
        Script::new(|| told(include_str!($file)))
    };
}

fn told(text: &str) -> Told {
    let text = expanded(text);
    let hash = redis::Script::new(&text).get_hash().to_owned();
    Told { text, hash }
}

/// What several decisions have in common.
const PARTS: [(&str, &str); 14] = [
    ("current", include_str!("decide/current.lua")),
    ("entry", include_str!("decide/entry.lua")),
    ("epoch", include_str!("decide/epoch.lua")),
    ("loss", include_str!("decide/loss.lua")),
    ("past", include_str!("decide/past.lua")),
    ("refusal", include_str!("decide/refusal.lua")),
    ("remember", include_str!("decide/remember.lua")),
    ("row", include_str!("decide/row.lua")),
    ("runs", include_str!("runs.lua")),
    ("slot-index", include_str!("slot/index.lua")),
    ("slot-rows", include_str!("slot/rows.lua")),
    ("standing", include_str!("decide/standing.lua")),
    ("token", include_str!("decide/token.lua")),
    ("write", include_str!("decide/write.lua")),
];

/// Puts the parts in place of the lines that include them. Parts have parts.
fn expanded(text: &str) -> String {
    let part = |line: &str| {
        let name = line.trim_start().strip_prefix("-- include ")?;
        PARTS.iter().find(|(part, _)| *part == name).map(|(_, text)| expanded(text))
    };
    text.lines().map(|line| part(line).unwrap_or_else(|| format!("{line}\n"))).collect()
}

/// What is asked about one resource: a script each, of the parts that it needs.
pub(super) static ACQUIRE: Script = script!("decide/acquire.lua");
pub(super) static RENEW: Script = script!("decide/renew.lua");
pub(super) static RELEASE: Script = script!("decide/release.lua");
pub(super) static WITHDRAW: Script = script!("decide/withdraw.lua");
pub(super) static REVOKE: Script = script!("decide/revoke.lua");
pub(super) static INSPECT: Script = script!("decide/inspect.lua");
pub(super) static HISTORY: Script = script!("decide/history.lua");
/// One decision about a pool.
pub(super) static SLOT: Script = script!("slot/ask.lua");
/// What is done to one bucket.
pub(super) static BUCKET: Script = script!("bucket.lua");
/// Setting up, and opening an epoch.
pub(super) static EPOCH: Script = script!("epoch.lua");
/// What is asked first on a new connection.
pub(super) static HELLO: Script = script!("hello.lua");
/// The look at a mark, and the commands behind it.
pub(super) static FENCE: Script = script!("fence.lua");
/// All of them.
pub(super) static ALL: [&Script; 12] = [
    &ACQUIRE, &RENEW, &RELEASE, &WITHDRAW, &REVOKE, &INSPECT, &HISTORY, &SLOT, &BUCKET, &EPOCH, &HELLO,
    &FENCE,
];

/// The versions of what the scripts store that this program writes and uses. A later one that still admits programs of this one may
/// add kinds of fields and keys, and what stands behind the last field of a row: whoever writes a row anew passes that on. A
/// connection looks at the two numbers (`v` and `u` of the first bucket) when it is made, and not again. So a version that does
/// not admit this one also takes a field away that each script asks a bucket for: those that are connected hear of it then.
pub(super) const KNOWN: Known = Known::alone(1);

/// How many hashes the rows are spread over: enough to keep each of a million resources' hashes small, and few enough to
/// write them all at once.
pub(super) const BUCKETS: usize = 1_024;

/// The keys of a namespace. What is in braces decides where a cluster puts a key: all of a bucket's go together.
#[derive(Clone, Debug)]
pub(super) struct Keys {
    namespace: String,
}

impl Keys {
    pub(super) fn new(namespace: &str) -> Self {
        Self { namespace: namespace.to_owned() }
    }

    pub(super) fn bucket(&self, index: usize) -> String {
        format!("{{lease:{}:{index}}}", self.namespace)
    }

    /// What the lists of a bucket's ended holds begin with; the resource's name follows.
    pub(super) fn past(&self, index: usize) -> String {
        format!("{}:past:", self.bucket(index))
    }

    /// The marks of all fences.
    pub(super) fn marks(&self) -> String {
        format!("{{lease:{}:marks}}", self.namespace)
    }

    pub(super) fn all(&self) -> impl Iterator<Item = String> + '_ {
        (0..BUCKETS).map(|index| self.bucket(index))
    }

    /// What an application's rights have to cover.
    pub(super) fn pattern(&self) -> String {
        format!("{{lease:{}:*", self.namespace)
    }
}

/// The bucket that a resource lies in: FNV-1a (Fowler, Noll, Vo), 64 bits, folded. It is part of what is stored.
pub(super) fn bucket_of(resource: &ResourceName) -> usize {
    let hash = resource.as_str().bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    let folded = hash ^ (hash >> 32);
    usize::try_from(folded % BUCKETS as u64).unwrap_or(0)
}

/// A script on some keys, which the server is expected to know.
pub(super) fn call<'a>(script: &Script, keys: impl IntoIterator<Item = &'a String>) -> Cmd {
    let keys: Vec<&String> = keys.into_iter().collect();
    let mut cmd = redis::cmd("EVALSHA");
    cmd.arg(script.hash()).arg(keys.len());
    for key in keys {
        cmd.arg(key.as_str());
    }
    cmd
}

/// The same, with the script's whole text.
pub(super) fn whole(sent: &Cmd) -> Cmd {
    let simple = |arg: redis::Arg<&[u8]>| match arg {
        redis::Arg::Simple(bytes) => bytes.to_vec(),
        redis::Arg::Cursor => Vec::new(),
    };
    let mut args = sent.args_iter().map(simple).skip(1);
    let hash = args.next().unwrap_or_default();
    let script = ALL.iter().find(|script| script.hash().as_bytes() == hash);
    let mut cmd = redis::cmd("EVAL");
    cmd.arg(script.map_or("", |script| script.text()));
    for arg in args {
        cmd.arg(arg);
    }
    cmd
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_keep_their_buckets() {
        let bucket = |name: &str| bucket_of(&ResourceName::new(name).unwrap());
        // They are stored data: another spread would lose every lease.
        assert_eq!([bucket("job"), bucket("a"), bucket("é")], [69, 192, 262]);
    }

    #[test]
    fn names_are_spread_evenly() {
        let mut counts = [0_u32; BUCKETS];
        for index in 0..100 * BUCKETS {
            counts[bucket_of(&ResourceName::new(format!("tenant-{}/job-{index}", index % 7)).unwrap())] += 1;
        }
        let (least, most) = (counts.iter().min().unwrap(), counts.iter().max().unwrap());
        assert!(*least > 50 && *most < 150, "{least} to {most} in a bucket, expected about 100");
    }

    #[test]
    fn every_part_is_put_in_its_place() {
        for script in ALL {
            assert!(!script.text().contains("-- include"), "{}", script.text());
        }
    }

    #[test]
    fn a_call_is_repeated_with_the_text_and_nothing_else_changed() {
        let mut sent = call(&HELLO, &["k".to_owned()]);
        sent.arg("x");
        let whole = whole(&sent);
        let args: Vec<Vec<u8>> = whole
            .args_iter()
            .map(|arg| match arg {
                redis::Arg::Simple(bytes) => bytes.to_vec(),
                redis::Arg::Cursor => Vec::new(),
            })
            .collect();
        assert_eq!(
            args,
            [b"EVAL".to_vec(), HELLO.text().as_bytes().to_vec(), b"1".to_vec(), b"k".to_vec(), b"x".to_vec()]
        );
    }
}
