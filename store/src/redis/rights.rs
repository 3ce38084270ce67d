//! What a user needs who may not do everything, and what of it one lacks.

use redis::aio::MultiplexedConnection;
use redis::{Cmd, RedisError, Value};

use super::answer::text;
use super::link::asked;
use super::script::{BUCKETS, Keys};

/// What the scripts call, and what is asked without one.
const COMMANDS: [&str; 28] = [
    "time",
    "hmget",
    "hget",
    "hset",
    "hsetnx",
    "hgetall",
    "hdel",
    "hkeys",
    "lpush",
    "ltrim",
    "lrange",
    "llen",
    "lindex",
    "rpop",
    "rpush",
    "del",
    "set",
    "exists",
    "zadd",
    "zrem",
    "zrange",
    "zrangebyscore",
    "zrevrangebyscore",
    "zcard",
    "zcount",
    "setbit",
    "getbit",
    "bitpos",
];

/// The command that gives a user what the store needs.
pub(super) fn printed(namespace: &str) -> String {
    let pattern = Keys::new(namespace).pattern();
    let commands = COMMANDS.map(|command| format!("+{command}")).join(" ");
    format!(
        "# Redis has no tables: migrating writes {BUCKETS} hashes with a random epoch. A user who may not do everything needs:\n\
         ACL SETUSER lease on >PASSWORD resetkeys ~{pattern} -@all +evalsha +eval +script|load +info +config|get +wait +select \
         {commands}\n\
         # +config|get is used for appendfsync and dir alone: without it every restart of the server opens a new epoch.\n",
    )
}

/// What of that the user of a connection lacks, as the printed command has it. Nothing is changed by asking; where something
/// else is in the way, nothing is said here.
pub(super) async fn lacking(connection: &mut MultiplexedConnection, keys: &Keys) -> Vec<String> {
    const ASK: &str = include_str!("rights.lua");
    let mut lacking = Vec::new();
    let mut load = redis::cmd("SCRIPT");
    // A script that there is not: whoever may ask for it is told so.
    let mut by_hash = redis::cmd("EVALSHA");
    for (right, ask) in
        [("+script|load", load.arg("LOAD").arg(ASK)), ("+evalsha", by_hash.arg("0".repeat(40)).arg(0))]
    {
        if asked(connection, ask).await.is_err_and(|error| is_denied(&error)) {
            lacking.push(right.to_owned());
        }
    }
    let mut eval: Cmd = redis::cmd("EVAL");
    eval.arg(ASK).arg(1).arg(keys.bucket(0)).arg(&COMMANDS[..]);
    match asked(connection, &eval).await {
        Ok(Value::Array(commands)) => {
            lacking.extend(commands.iter().filter_map(text).map(|command| format!("+{command}")));
        }
        Err(error) if is_denied(&error) && error.to_string().contains("key") => {
            lacking.push(format!("~{}", keys.pattern()));
        }
        Err(error) if is_denied(&error) => lacking.push("+eval".to_owned()),
        Ok(_) | Err(_) => {}
    }
    lacking
}

fn is_denied(error: &RedisError) -> bool {
    error.code() == Some("NOPERM")
}
