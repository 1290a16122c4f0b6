//! `dlock bench` on a terminal: a line of progress that is written again and again, and gone at the
//! end.

use harness::Quorum;

use crate::bench::until_contended;
use crate::run_terminal::on_a_terminal;

const CTRL_C: &[u8] = b"\x03";

/// The lines that a terminal shows in the end, without those that are empty at the end.
fn screen(bytes: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<Vec<char>> = vec![Vec::new()];
    let (mut row, mut column) = (0, 0);
    let mut characters = bytes.chars();
    while let Some(character) = characters.next() {
        match character {
            '\r' => column = 0,
            '\n' => row += 1,
            '\x1b' => erase(&mut lines[row], column, &escape(&mut characters)),
            _ => {
                if column == width {
                    (row, column) = (row + 1, 0);
                }
                lines.resize(lines.len().max(row + 1), Vec::new());
                let line = &mut lines[row];
                line.resize(line.len().max(column + 1), ' ');
                line[column] = character;
                column += 1;
            }
        }
        lines.resize(lines.len().max(row + 1), Vec::new());
    }
    let text = |line: &Vec<char>| line.iter().collect::<String>().trim_end().to_owned();
    let mut lines: Vec<String> = lines.iter().map(text).collect();
    while lines.last().is_some_and(String::is_empty) {
        lines.pop();
    }
    lines
}

/// The rest of an escape sequence.
fn escape(characters: &mut impl Iterator<Item = char>) -> String {
    let mut sequence = String::new();
    for character in characters {
        sequence.push(character);
        if character.is_ascii_alphabetic() {
            break;
        }
    }
    sequence
}

fn erase(line: &mut Vec<char>, column: usize, sequence: &str) {
    match sequence {
        "[K" | "[0K" => line.truncate(column),
        "[2K" => line.clear(),
        // The cursor is hidden and shown again.
        "[?25l" | "[?25h" => {}
        other => panic!("what does a terminal do with {other:?}?"),
    }
}

#[test]
fn progress_is_one_line_that_is_gone_at_the_end() {
    let quorum = Quorum::start(1);
    let typed = on_a_terminal(&quorum, "$DLOCK bench --time 300ms --json >/dev/null");
    let said = typed.ended().with_code(0);
    assert!(said.out.matches('\r').count() > 3, "it is written again: {:?}", said.out);
    for part in ["cycle", "quorum", "contended"] {
        assert!(said.out.contains(part), "no {part}: {:?}", said.out);
    }
    assert!(!said.out.contains('\n'), "{:?}", said.out);
    assert_eq!(screen(&said.out, 80), [] as [String; 0], "{:?}", said.out);
}

#[test]
fn progress_does_not_run_over_the_edge_of_a_narrow_terminal() {
    let quorum = Quorum::start(1);
    let script = "stty rows 24 cols 24; $DLOCK bench --time 300ms --json >/dev/null";
    let said = on_a_terminal(&quorum, script).ended().with_code(0);
    assert!(said.out.contains('\r'), "{:?}", said.out);
    assert_eq!(screen(&said.out, 24), [] as [String; 0], "{:?}", said.out);
}

#[test]
fn tables_stand_alone_on_a_terminal() {
    let quorum = Quorum::start(1);
    // Those that contend may have more to say on a busy machine.
    let bench = "stty rows 24 cols 200; $DLOCK bench --time 100ms --only cycle,quorum";
    let typed = on_a_terminal(&quorum, bench);
    let lines = screen(&typed.ended().with_code(0).out, 200);
    let silent = on_a_terminal(&quorum, &format!("{bench} 2>/dev/null"));
    let expected = screen(&silent.ended().with_code(0).out, 200);
    // All figures differ from run to run, and nothing else.
    let words = |lines: &[String]| -> Vec<String> {
        let no_digit = |word: &&str| !word.contains(|c: char| c.is_ascii_digit());
        let units = ["ms", "µs", "s"];
        let words = lines.iter().flat_map(|line| line.split_whitespace());
        words.filter(no_digit).filter(|word| !units.contains(word)).map(str::to_owned).collect()
    };
    assert_eq!(words(&lines), words(&expected), "{lines:#?}");
    assert_eq!(lines.len(), expected.len(), "{lines:#?}");
}

#[test]
fn ctrl_c_gives_everything_back_and_clears_the_line() {
    let quorum = Quorum::start(3);
    let script = "stty -echo -echoctl; $DLOCK bench --time 10m --only contended; echo code=$?";
    let mut typed = on_a_terminal(&quorum, script);
    until_contended(&quorum[0]);
    typed.until_it_prints("contended");
    typed.write(CTRL_C);
    let said = typed.ended();
    quorum.until_released();
    let lines = screen(&said.out, 80);
    assert!(lines.iter().all(|line| !line.contains("contended")), "{lines:?}");
}
