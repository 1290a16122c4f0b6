//! Histories: a line of JSON for each request of a program, as docs/contributing/histories.md describes.

use std::io::{self, BufRead, Write};

use serde::{Deserialize, Serialize};

/// One request, and its answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Line {
    /// The program that asked.
    pub process: String,
    /// The lock, or the data.
    pub key: String,
    /// The name of the hold that it asked for: another one for each.
    pub who: String,
    /// The time of the request, in microseconds of the machine's monotonic clock.
    pub invoke: u64,
    /// The time of the answer, or of giving up.
    #[serde(rename = "return")]
    pub returned: Option<u64>,
    /// The answer.
    pub heard: Heard,
    /// The request.
    #[serde(flatten)]
    pub asked: Asked,
}

/// A request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "asked", rename_all = "lowercase")]
pub enum Asked {
    /// For a lock.
    Acquire {
        /// The mode of the hold.
        mode: Mode,
        /// The fence of the grant, if this lock has any.
        #[serde(skip_serializing_if = "Option::is_none")]
        fence: Option<u64>,
        /// The end of the validity, as it was stated last: after the last renewal, if there was one.
        #[serde(skip_serializing_if = "Option::is_none")]
        until: Option<u64>,
    },
    /// To give it back.
    Release,
    /// By an operator, to end all holds.
    Break,
    /// To replace a value that was read by another, both under the lock.
    Change {
        /// The former value; empty where there was none.
        read: String,
        /// The new one, which is unique.
        wrote: String,
    },
}

/// The mode of a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// One holder alone.
    Exclusive,
    /// Others that share it may hold it.
    Shared,
    /// This many may hold it.
    Permits(u32),
}

/// An answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Heard {
    /// The program holds, has given it back, has written.
    Done,
    /// The program does not hold, or has not written.
    Refused,
    /// No answer: it may have happened or not.
    Nothing,
}

/// The first line.
#[derive(Serialize, Deserialize)]
struct Header {
    history: String,
    version: u32,
}

const VERSION: u32 = 1;

/// Writes a history. `about` names it.
///
/// # Errors
/// Fails when it cannot be written.
pub fn write(to: &mut impl Write, about: &str, lines: &[Line]) -> io::Result<()> {
    let header = Header { history: about.to_owned(), version: VERSION };
    writeln!(to, "{}", serde_json::to_string(&header)?)?;
    for line in lines {
        writeln!(to, "{}", serde_json::to_string(line)?)?;
    }
    Ok(())
}

/// Reads a history.
///
/// # Errors
///
/// Fails if it cannot be read, or is none.
pub fn read(from: impl BufRead) -> io::Result<Vec<Line>> {
    let mut lines = from.lines();
    let first = lines.next().ok_or(io::ErrorKind::UnexpectedEof)??;
    let Header { version, .. } = serde_json::from_str(&first)?;
    if version != VERSION {
        let why = format!("a history of version {version}; this reads {VERSION}");
        return Err(io::Error::new(io::ErrorKind::InvalidData, why));
    }
    lines.map(|line| Ok(serde_json::from_str(&line?)?)).collect()
}
