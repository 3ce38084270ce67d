//! The state of an authority as a value, and as bytes.

use core::fmt;
use core::time::Duration;

use crate::{FencingToken, Lease, OwnerId};

/// The whole state of an authority.
///
/// # Wire form
///
/// [`to_bytes`](Self::to_bytes) gives [`Checkpoint::LEN`] bytes, all integers little-endian:
///
/// | offset | bytes | field |
/// | --- | --- | --- |
/// | 0 | 2 | the letters `LM` |
/// | 2 | 1 | version of this layout: 1 |
/// | 3 | 1 | 1 where there is a lease, else 0 |
/// | 4 | 8 | last issued token, 0 for none |
/// | 12 | 8 | lease: owner |
/// | 20 | 8 | lease: token |
/// | 28 | 8 + 4 | lease: expires at, seconds and nanoseconds |
/// | 40 | 8 + 4 | observed, seconds and nanoseconds |
/// | 52 | 4 | CRC-32 (IEEE 802.3, as in zlib) of the 52 bytes before it |
///
/// Without a lease its fields are zero, so one state has exactly one encoding.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Checkpoint {
    last_issued: Option<FencingToken>,
    lease: Option<Lease>,
    observed: Duration,
}

/// Why bytes are no checkpoint.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum CheckpointError {
    /// There are not exactly [`Checkpoint::LEN`] bytes.
    Length {
        /// How many there are.
        found: usize,
    },
    /// They do not begin with `LM`: something else altogether.
    Magic {
        /// What they begin with.
        found: [u8; 2],
    },
    /// The layout is of another version.
    Version {
        /// Which.
        found: u8,
    },
    /// The checksum does not match: bits were flipped.
    Checksum {
        /// What the bytes carry.
        found: u32,
        /// What they amount to.
        computed: u32,
    },
    /// The checksum matches, but no authority was ever in this state.
    Impossible(&'static str),
}

const MAGIC: [u8; 2] = *b"LM";
const VERSION: u8 = 1;
const NANOS_PER_SEC: u32 = 1_000_000_000;

impl Checkpoint {
    /// The length of the wire form in bytes.
    pub const LEN: usize = 56;

    /// Puts the parts together; `None` where the lease is under a token that was never issued.
    ///
    /// A lease under a token *below* the last issued one is accepted, though the authority itself never makes it.
    #[must_use]
    pub fn from_parts(
        last_issued: Option<FencingToken>,
        lease: Option<Lease>,
        observed: Duration,
    ) -> Option<Self> {
        if lease.is_some_and(|lease| Some(lease.token()) > last_issued) {
            return None;
        }
        Some(Self { last_issued, lease, observed })
    }

    /// For an authority, whose own parts always fit together.
    pub(crate) const fn of_authority(
        last_issued: Option<FencingToken>,
        lease: Option<Lease>,
        observed: Duration,
    ) -> Self {
        Self { last_issued, lease, observed }
    }

    /// The greatest token issued or burnt so far.
    #[must_use]
    pub const fn last_issued(&self) -> Option<FencingToken> {
        self.last_issued
    }

    /// The current lease, which may be over.
    #[must_use]
    pub const fn lease(&self) -> Option<Lease> {
        self.lease
    }

    /// The latest time that was observed.
    #[must_use]
    pub const fn observed(&self) -> Duration {
        self.observed
    }

    /// The wire form, see the table above.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; Self::LEN] {
        let mut bytes = [0; Self::LEN];
        let mut rest = bytes.as_mut_slice();
        put(&mut rest, MAGIC);
        put(&mut rest, [VERSION, u8::from(self.lease.is_some())]);
        put(&mut rest, self.last_issued.map_or(0, FencingToken::value).to_le_bytes());
        let (owner, token, expires_at) = match self.lease {
            Some(lease) => (lease.owner().value(), lease.token().value(), lease.expires_at()),
            None => (0, 0, Duration::ZERO),
        };
        put(&mut rest, owner.to_le_bytes());
        put(&mut rest, token.to_le_bytes());
        put_time(&mut rest, expires_at);
        put_time(&mut rest, self.observed);
        let checksum = crc32(bytes.split_last_chunk::<4>().map_or(&[], |(body, _)| body));
        if let Some((_, tail)) = bytes.split_last_chunk_mut() {
            *tail = checksum.to_le_bytes();
        }
        bytes
    }

    /// Reads the wire form back.
    ///
    /// # Errors
    ///
    /// A [`CheckpointError`] that says what is wrong; bytes that [`to_bytes`](Self::to_bytes) did not make are never
    /// taken for a state.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, CheckpointError> {
        if bytes.len() != Self::LEN {
            return Err(CheckpointError::Length { found: bytes.len() });
        }
        let Some((body, checksum)) = bytes.split_last_chunk() else {
            return Err(CheckpointError::Length { found: bytes.len() });
        };
        let mut rest = body;
        let magic = take(&mut rest);
        if magic != MAGIC {
            return Err(CheckpointError::Magic { found: magic });
        }
        let [version, flag] = take(&mut rest);
        if version != VERSION {
            return Err(CheckpointError::Version { found: version });
        }
        let (found, computed) = (u32::from_le_bytes(*checksum), crc32(body));
        if found != computed {
            return Err(CheckpointError::Checksum { found, computed });
        }

        let last_issued = FencingToken::new(take_u64(&mut rest));
        let owner = OwnerId::new(take_u64(&mut rest));
        let token = take_u64(&mut rest);
        let expires_at = take_time(&mut rest)?;
        let observed = take_time(&mut rest)?;
        let lease = match (flag, FencingToken::new(token)) {
            (1, Some(token)) => Some(Lease::new(owner, token, expires_at)),
            (1, None) => return Err(CheckpointError::Impossible("a lease under token 0")),
            (0, None) if owner.value() == 0 && expires_at.is_zero() => None,
            (0, _) => return Err(CheckpointError::Impossible("fields of a lease where there is none")),
            _ => return Err(CheckpointError::Impossible("a lease flag that is neither 0 nor 1")),
        };
        Self::from_parts(last_issued, lease, observed)
            .ok_or(CheckpointError::Impossible("a lease under a token that was never issued"))
    }
}

impl fmt::Display for CheckpointError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Length { found } => {
                write!(f, "a checkpoint has {} bytes, found {found}", Checkpoint::LEN)
            }
            Self::Magic { found: [a, b] } => {
                write!(f, "a checkpoint begins with the bytes 4c 4d, found {a:02x} {b:02x}")
            }
            Self::Version { found } => {
                write!(f, "this program reads checkpoints of version {VERSION}, found version {found}")
            }
            Self::Checksum { found, computed } => {
                write!(
                    f,
                    "the checkpoint is damaged: checksum {found:08x}, its bytes amount to {computed:08x}"
                )
            }
            Self::Impossible(what) => write!(f, "the checkpoint holds an impossible state: {what}"),
        }
    }
}

impl core::error::Error for CheckpointError {}

/// Writes at the front of `rest` and moves it on. The layout's lengths add up, so there is always room.
fn put<const N: usize>(rest: &mut &mut [u8], value: [u8; N]) {
    if let Some((head, tail)) = core::mem::take(rest).split_first_chunk_mut() {
        *head = value;
        *rest = tail;
    }
}

fn put_time(rest: &mut &mut [u8], time: Duration) {
    put(rest, time.as_secs().to_le_bytes());
    put(rest, time.subsec_nanos().to_le_bytes());
}

/// Reads at the front of `rest` and moves it on; the length was checked before.
fn take<const N: usize>(rest: &mut &[u8]) -> [u8; N] {
    match rest.split_first_chunk() {
        Some((head, tail)) => {
            *rest = tail;
            *head
        }
        None => [0; N],
    }
}

fn take_u64(rest: &mut &[u8]) -> u64 {
    u64::from_le_bytes(take(rest))
}

fn take_time(rest: &mut &[u8]) -> Result<Duration, CheckpointError> {
    let secs = take_u64(rest);
    let nanos = u32::from_le_bytes(take(rest));
    if nanos >= NANOS_PER_SEC {
        return Err(CheckpointError::Impossible("a time with a full second of nanoseconds or more"));
    }
    Ok(Duration::new(secs, nanos))
}

/// CRC-32 as in IEEE 802.3: polynomial 0xEDB88320 (reflected), all ones at both ends. Without a table: 52 bytes are
/// read once per restore.
fn crc32(bytes: &[u8]) -> u32 {
    let mut crc = u32::MAX;
    for &byte in bytes {
        crc ^= u32::from(byte);
        for _ in 0..8 {
            let carry = if crc & 1 == 1 { 0xEDB8_8320 } else { 0 };
            crc = (crc >> 1) ^ carry;
        }
    }
    !crc
}
