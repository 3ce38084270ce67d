//! Unique, and impossible to guess or to count.

use std::fmt;
use std::sync::Arc;

use aes::Aes256;
use speck_cipher::cipher::{Array, BlockCipherDecrypt, BlockCipherEncrypt, KeyInit};
use speck_cipher::{Speck64_128, Speck96_144};

use super::{batch, room};
use crate::source::Source;
use crate::{Clock, Id, Id64, Id96, Id128, IdError, Layout, SystemClock};

/// A width for which there is a block cipher.
pub trait Encrypt: Id {
    /// The key: 16 bytes (Speck64/128), 18 bytes (Speck96/144) or 32 bytes (AES-256).
    type Key: AsRef<[u8]>;

    #[doc(hidden)]
    type Cipher: Send + Sync + Clone;

    #[doc(hidden)]
    fn cipher(key: &Self::Key) -> Self::Cipher;

    #[doc(hidden)]
    fn encrypt(self, cipher: &Self::Cipher) -> Self;

    #[doc(hidden)]
    fn decrypt(self, cipher: &Self::Cipher) -> Self;
}

macro_rules! encrypt {
    ($id:ty, $cipher:ty, $key:literal, $block:literal) => {
        impl Encrypt for $id {
            type Key = [u8; $key];
            type Cipher = $cipher;

            fn cipher(key: &Self::Key) -> Self::Cipher {
                <$cipher>::new(&Array(*key))
            }

            #[inline]
            fn encrypt(self, cipher: &Self::Cipher) -> Self {
                let mut block = Array(<[u8; $block]>::from(Bytes(self.value())));
                cipher.encrypt_block(&mut block);
                Bytes::join(&block.0)
            }

            #[inline]
            fn decrypt(self, cipher: &Self::Cipher) -> Self {
                let mut block = Array(<[u8; $block]>::from(Bytes(self.value())));
                cipher.decrypt_block(&mut block);
                Bytes::join(&block.0)
            }
        }

        impl From<Bytes> for [u8; $block] {
            #[inline]
            fn from(bytes: Bytes) -> Self {
                let mut block = [0; $block];
                let all = bytes.0.to_be_bytes();
                block.iter_mut().zip(all.iter().skip(16 - $block)).for_each(|(to, from)| *to = *from);
                block
            }
        }
    };
}

/// A number as the block of a cipher, the most significant byte first.
struct Bytes(u128);

impl Bytes {
    #[inline]
    fn join<I: Id>(block: &[u8]) -> I {
        let value = block.iter().fold(0_u128, |value, byte| value << 8 | u128::from(*byte));
        // A block has exactly the width of its ID; cut off or not, it is one.
        I::assemble_whole(value)
    }
}

encrypt!(Id64, Speck64_128, 16, 8);
encrypt!(Id96, Speck96_144, 18, 12);
encrypt!(Id128, Aes256, 32, 16);

/// Encrypts and decrypts IDs under one key.
///
/// It is a permutation of all IDs of the width: different IDs stay different *under the same key*. All machines whose IDs share a
/// column need one key, and that column holds no plain IDs and none of another key. It hides what an ID says, it does not
/// authenticate: any number decrypts to something.
#[derive(Clone)]
pub struct IdCipher<I: Encrypt>(I::Cipher);

impl<I: Encrypt> IdCipher<I> {
    /// For this key.
    #[must_use]
    pub fn new(key: &I::Key) -> Self {
        Self(I::cipher(key))
    }

    /// What a plain ID becomes.
    #[must_use]
    #[inline]
    pub fn encrypt(&self, id: I) -> I {
        id.encrypt(&self.0)
    }

    /// The plain ID, for [`Layout::decode`](crate::Layout::decode).
    #[must_use]
    #[inline]
    pub fn decrypt(&self, id: I) -> I {
        id.decrypt(&self.0)
    }
}

impl<I: Encrypt> fmt::Debug for IdCipher<I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("IdCipher(..)")
    }
}

/// Makes IDs that are unique, and that tell neither time nor machine nor number to whoever has no key. They are a
/// [`Counter`](crate::Counter)'s, encrypted; see [`IdCipher`] for what has to share the key.
#[derive(Debug)]
pub struct Encrypted<I: Encrypt, C = SystemClock> {
    source: Arc<Source<I, C>>,
    cipher: IdCipher<I>,
}

impl<I: Encrypt, C: Clock> Encrypted<I, C> {
    pub(crate) fn new(source: Arc<Source<I, C>>, key: &I::Key) -> Self {
        Self { source, cipher: IdCipher::new(key) }
    }

    /// The next ID.
    ///
    /// # Errors
    ///
    /// As for [`Counter::next`](crate::Counter::next).
    #[inline]
    pub fn next(&self) -> Result<I, IdError> {
        let taken = self.source.take_counting(1)?;
        Ok(self.cipher.encrypt(self.source.id(taken, 0)))
    }

    /// The same without waiting for the clock.
    ///
    /// # Errors
    ///
    /// As for [`Counter::try_next`](crate::Counter::try_next).
    #[inline]
    pub fn try_next(&self) -> Result<I, IdError> {
        let taken = self.source.try_counting(1, 1)?;
        Ok(self.cipher.encrypt(self.source.id(taken, 0)))
    }

    /// The next `count` IDs, in no order.
    ///
    /// # Errors
    ///
    /// As for [`Counter::next_batch`](crate::Counter::next_batch).
    pub fn next_batch(&self, count: usize) -> Result<Vec<I>, IdError> {
        let mut ids = Vec::with_capacity(room(count));
        batch(
            &self.source,
            count,
            |part, _| self.source.take_counting(part),
            |id| ids.push(self.cipher.encrypt(id)),
        )?;
        Ok(ids)
    }

    /// The same without waiting for the clock.
    ///
    /// # Errors
    ///
    /// As for [`Counter::try_next_batch`](crate::Counter::try_next_batch).
    pub fn try_next_batch(&self, count: usize) -> Result<Vec<I>, IdError> {
        let mut ids = Vec::with_capacity(room(count));
        let take = |part, left| self.source.try_counting(part, left);
        batch(&self.source, count, take, |id| ids.push(self.cipher.encrypt(id)))?;
        Ok(ids)
    }

    /// The plain ID of one that was made under the same key.
    #[must_use]
    pub fn decrypt(&self, id: I) -> I {
        self.cipher.decrypt(id)
    }

    /// How its IDs are laid out once they are decrypted.
    #[must_use]
    pub fn layout(&self) -> &Layout<I> {
        self.source.layout()
    }
}

impl<I: Encrypt, C> Clone for Encrypted<I, C> {
    fn clone(&self) -> Self {
        Self { source: Arc::clone(&self.source), cipher: self.cipher.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn aes_and_speck_are_those_of_their_papers() {
        // FIPS 197, appendix C.3.
        let key: [u8; 32] = std::array::from_fn(|index| index as u8);
        let plain = Id128::new(0x0011_2233_4455_6677_8899_aabb_ccdd_eeff).expect("128 bits");
        let cipher = IdCipher::new(&key);
        assert_eq!(cipher.encrypt(plain).value(), 0x8ea2_b7ca_5167_45bf_eafc_4990_4b49_6089);
        // "The Simon and Speck families of lightweight block ciphers", appendix C: Speck64/128.
        let key = [0x1b1a_1918_u32, 0x1312_1110, 0x0b0a_0908, 0x0302_0100].map(u32::to_be_bytes).concat();
        let key = <[u8; 16]>::try_from(key).expect("16 bytes");
        let plain = Id64::new(0x3b72_6574_7475_432d).expect("64 bits");
        assert_eq!(IdCipher::new(&key).encrypt(plain).value(), 0x8c6f_a548_454e_028b);
        // And Speck96/144.
        let key = [0x1514_1312_1110_u64, 0x0d0c_0b0a_0908, 0x0504_0302_0100];
        let key = key.iter().flat_map(|word| word.to_be_bytes().into_iter().skip(2)).collect::<Vec<_>>();
        let key = <[u8; 18]>::try_from(key).expect("18 bytes");
        let plain = Id96::new(0x656d_6974_206e_6920_2c72_6576).expect("96 bits");
        let cipher = IdCipher::new(&key);
        assert_eq!(cipher.encrypt(plain).value(), 0x2bf3_1072_228a_7ae4_4025_2ee6);
        assert_eq!(cipher.decrypt(cipher.encrypt(plain)), plain);
    }

    #[test]
    fn a_key_is_never_shown() {
        assert_eq!(format!("{:?}", IdCipher::<Id64>::new(&[7; 16])), "IdCipher(..)");
    }
}
