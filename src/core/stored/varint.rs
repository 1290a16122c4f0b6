//! Numbers and texts in as few bytes as they need: seven bits a byte, the lowest first.

use alloc::vec::Vec;

pub(crate) fn put(out: &mut Vec<u8>, mut n: u64) {
    while n >= 0x80 {
        out.push(n as u8 | 0x80);
        n >>= 7;
    }
    out.push(n as u8);
}

/// The lowest `N` bytes of a number, for numbers that always need about as many.
pub(crate) fn put_fixed<const N: usize>(out: &mut Vec<u8>, n: u64) {
    out.extend(n.to_le_bytes().iter().take(N));
}

/// Bytes read from the left. Every read is `None` when they run out.
#[derive(Clone, Copy)]
pub(crate) struct Reader<'a>(pub &'a [u8]);

impl<'a> Reader<'a> {
    pub fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    /// Reads a number; `None` also for one in more bytes than it needs, which [`put`] never writes.
    pub fn number(&mut self) -> Option<u64> {
        let mut n = 0_u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            if (shift == 63 && bits > 1) || (shift > 0 && byte == 0) {
                return None;
            }
            n |= bits << shift;
            if byte < 0x80 {
                return Some(n);
            }
        }
        None
    }

    pub fn fixed<const N: usize>(&mut self) -> Option<u64> {
        let bytes = self.bytes(N)?;
        Some(bytes.iter().rev().fold(0, |n, byte| n << 8 | u64::from(*byte)))
    }

    pub fn bytes(&mut self, len: usize) -> Option<&'a [u8]> {
        let (head, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(head)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_number_of_more_than_64_bits_is_none() {
        let most = [&[0xff; 9][..], &[1]].concat();
        assert_eq!(Reader(&most).number(), Some(u64::MAX));
        for last in [&[2][..], &[0x81, 1]] {
            assert_eq!(Reader(&[&[0xff; 9], last].concat()).number(), None, "{last:?}");
        }
    }

    proptest! {
        #[test]
        fn what_is_put_is_read(n: u64, m in 0_u64..1 << 56) {
            let mut out = Vec::new();
            put(&mut out, n);
            put_fixed::<7>(&mut out, m);
            let mut reader = Reader(&out);
            prop_assert_eq!(reader.number(), Some(n));
            prop_assert_eq!(reader.fixed::<7>(), Some(m));
            prop_assert_eq!(reader.byte(), None);
        }

        #[test]
        fn garbage_never_panics(bytes: Vec<u8>) {
            let mut reader = Reader(&bytes);
            while reader.number().is_some() {}
        }
    }
}
