//! A lock's DUMP, taken apart and put together again with a correct checksum.

use crate::value::Value;

/// The type byte of a module's value.
const MODULE: u8 = 7;
/// The opcodes before a string of the module, and at the end of the module's data.
const STRING: u8 = 5;
const END: u8 = 0;

/// A payload without its checksum.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Payload {
    /// The server's version of the format.
    version: [u8; 2],
    /// The type and the module's data, framed by the server.
    pub body: Vec<u8>,
}

impl Payload {
    /// Reads the answer to DUMP.
    #[track_caller]
    pub fn read(dump: &Value) -> Payload {
        let bytes = dump.bytes();
        let (rest, checksum) = bytes.split_at(bytes.len() - 8);
        assert_eq!(checksum, checksum_of(rest), "this is not how the server makes checksums");
        let (body, version) = rest.split_at(rest.len() - 2);
        assert_eq!(body[0], MODULE);
        Payload { version: [version[0], version[1]], body: body.to_vec() }
    }

    /// The body with other bytes.
    pub fn with_body(&self, body: Vec<u8>) -> Payload {
        Payload { body, ..*self }
    }

    /// The id and version of the module's type, if the type byte says that it is a module's value.
    pub fn id(&self) -> u64 {
        let bytes: [u8; 8] = self.body[2..10].try_into().expect("eight bytes");
        u64::from_be_bytes(bytes)
    }

    /// The same type in another version, with this data of the module.
    pub fn with_content(&self, type_version: u64, content: &[u8]) -> Payload {
        let id = (self.id() & !0x3ff) | type_version;
        let mut body = self.body[..2].to_vec();
        body.extend_from_slice(&id.to_be_bytes());
        body.push(STRING);
        put_string(&mut body, content);
        body.push(END);
        self.with_body(body)
    }

    /// The module's data, if the server did not compress them.
    pub fn content(&self) -> &[u8] {
        assert_eq!(self.body[10], STRING);
        let (start, len) = match self.body[11] >> 6 {
            0 => (12, usize::from(self.body[11])),
            1 => (13, (usize::from(self.body[11] & 0x3f) << 8) | usize::from(self.body[12])),
            _ => panic!("compressed, or too long: {:?}", self.body),
        };
        &self.body[start..start + len]
    }

    /// The payload for RESTORE.
    pub fn bytes(&self) -> Vec<u8> {
        let mut bytes = [&self.body[..], &self.version].concat();
        let checksum = checksum_of(&bytes);
        bytes.extend_from_slice(&checksum);
        bytes
    }
}

fn put_string(out: &mut Vec<u8>, text: &[u8]) {
    let len = u16::try_from(text.len()).expect("a short text");
    match len {
        0..64 => out.push(len as u8),
        64..0x4000 => out.extend_from_slice(&(len | 0x4000).to_be_bytes()),
        _ => {
            out.push(0x80);
            out.extend_from_slice(&u32::from(len).to_be_bytes());
        }
    }
    out.extend_from_slice(text);
}

/// CRC-64 as the servers use it: Jones's polynomial, reflected, from zero.
fn checksum_of(bytes: &[u8]) -> [u8; 8] {
    const POLYNOMIAL: u64 = 0x95ac_9329_ac4b_c9b5;
    let mut crc = 0_u64;
    for byte in bytes {
        crc ^= u64::from(*byte);
        for _ in 0..8 {
            crc = if crc & 1 == 1 { (crc >> 1) ^ POLYNOMIAL } else { crc >> 1 };
        }
    }
    crc.to_le_bytes()
}
