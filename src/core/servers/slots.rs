//! The slot of a key in a cluster.

/// The slot of a key: the hash of its part in braces, if there is one, else of the whole key.
#[must_use]
pub fn slot_of(key: &[u8]) -> u16 {
    let position = |bytes: &[u8], brace| bytes.iter().position(|byte| *byte == brace);
    let tag = position(key, b'{').and_then(|open| {
        let after = key.get(open + 1..)?;
        after.get(..position(after, b'}')?).filter(|tag| !tag.is_empty())
    });
    crc16(tag.unwrap_or(key)) % SLOTS as u16
}

/// A key name in the slot, for an effect that concerns the slot and no key.
#[must_use]
pub fn name_in(slot: u16) -> [u8; 2] {
    // Two bytes have each remainder once: the division's steps, backwards, find the bytes.
    let step_back =
        |crc: u16, _| if crc & 1 == 0 { crc >> 1 } else { (crc ^ POLYNOMIAL) >> 1 | 0x8000 };
    (0..16).fold(slot, step_back).to_be_bytes()
}

/// CRC16 (XMODEM), as Redis Cluster specifies.
fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc, byte| {
        let mixed = crc ^ (u16::from(*byte) << 8);
        (0..8).fold(
            mixed,
            |crc, _| if crc & 0x8000 == 0 { crc << 1 } else { (crc << 1) ^ POLYNOMIAL },
        )
    })
}

const POLYNOMIAL: u16 = 0x1021;

/// The number of slots in a cluster.
pub const SLOTS: usize = 16_384;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_those_of_the_specification() {
        assert_eq!(crc16(b"123456789"), 0x31c3);
        for (key, slot) in [("foo", 12182), ("bar", 5061), ("", 0), ("{user1000}.following", 3443)]
        {
            assert_eq!(slot_of(key.as_bytes()), slot, "{key}");
        }
    }

    #[test]
    fn every_slot_has_a_name() {
        for slot in 0..SLOTS as u16 {
            assert_eq!(slot_of(&name_in(slot)), slot);
        }
    }

    #[test]
    fn keys_with_the_same_part_in_braces_are_together() {
        let same = |one: &str, other: &str| slot_of(one.as_bytes()) == slot_of(other.as_bytes());
        assert!(same("{user1000}.following", "{user1000}.followers"));
        assert!(same("foo{bar}{zap}", "bar") && same("foo{{bar}}zap", "{bar"));
        assert!(!same("foo{}{bar}", "bar"));
    }
}
