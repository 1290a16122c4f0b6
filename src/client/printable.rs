//! Untrusted bytes, shown safely to people.

use std::fmt::{self, Write};

/// Any bytes, shown on one line. Bytes that cannot be printed are escaped as in `\x00`, and so is the
/// backslash: a text cannot forge a line, and no two texts look the same.
#[derive(Clone, Copy, Debug)]
pub struct Printable<'a>(pub &'a [u8]);

impl fmt::Display for Printable<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for chunk in self.0.utf8_chunks() {
            for letter in chunk.valid().chars() {
                match letter {
                    '\\' => f.write_str("\\\\")?,
                    letter if is_invisible(letter) => {
                        escape(f, letter.encode_utf8(&mut [0; 4]).as_bytes())?;
                    }
                    letter => f.write_char(letter)?,
                }
            }
            escape(f, chunk.invalid())?;
        }
        Ok(())
    }
}

/// True for control characters, characters that change the direction of writing, and invisible ones (Unicode's
/// Default_Ignorable_Code_Point): they could disguise a key as another one.
pub fn is_invisible(letter: char) -> bool {
    letter.is_control()
        || matches!(letter, '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}'..='\u{1160}' | '\u{17b4}'..='\u{17b5}')
        || matches!(letter, '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}')
        || matches!(letter, '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}')
        || matches!(letter, '\u{ffa0}' | '\u{fff0}'..='\u{fffb}' | '\u{1bca0}'..='\u{1bca3}')
        || matches!(letter, '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}')
}

fn escape(f: &mut fmt::Formatter<'_>, bytes: &[u8]) -> fmt::Result {
    bytes.iter().try_for_each(|byte| write!(f, "\\x{byte:02x}"))
}

/// The beginning of a server's text, without control characters, so that it fits on a few lines of a
/// terminal.
pub(crate) fn brief(said: impl fmt::Display) -> String {
    let mut brief = Brief(String::new());
    if write!(brief, "{said}").is_err() {
        brief.0.push('…');
    }
    brief.0
}

struct Brief(String);

impl Write for Brief {
    /// Fails when the limit is reached, so that the rest is not formatted.
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for letter in text.chars() {
            if self.0.len() >= LONGEST {
                return Err(fmt::Error);
            }
            self.0.push(if is_invisible(letter) { char::REPLACEMENT_CHARACTER } else { letter });
        }
        Ok(())
    }
}

/// Limit of a server's text that is shown, in bytes.
const LONGEST: usize = 500;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_printed_is_escaped() {
        let shown = |bytes| Printable(bytes).to_string();
        assert_eq!(shown("job:42 süß".as_bytes()), "job:42 süß");
        assert_eq!(shown(b"a\0\xff\n\x1b[2J"), "a\\x00\\xff\\x0a\\x1b[2J");
        assert_eq!(shown(b"C:\\x41"), "C:\\\\x41");
        assert_eq!(shown("\u{202e}gnp".as_bytes()), "\\xe2\\x80\\xaegnp");
    }

    #[test]
    fn no_letter_is_invisible() {
        for letter in
            ['\u{ad}', '\u{61c}', '\u{180e}', '\u{2060}', '\u{3164}', '\u{fe00}', '\u{e0041}']
        {
            let text = format!("a{letter}b");
            let shown = Printable(text.as_bytes()).to_string();
            assert!(shown.is_ascii() && shown.starts_with("a\\x"), "{shown}");
            assert_eq!(brief(&text), "a\u{fffd}b");
        }
    }

    #[test]
    fn of_what_a_server_says_the_beginning_is_shown() {
        assert_eq!(brief("ERR süß C:\\x"), "ERR süß C:\\x");
        assert_eq!(brief("a\x1b[2J\nb"), "a\u{fffd}[2J\u{fffd}b");
        let long = brief("x".repeat(1_000_000));
        assert_eq!(long, format!("{}…", "x".repeat(LONGEST)));
    }
}
