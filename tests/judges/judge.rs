//! Judges histories: `judge FILE…`. Prints the reason for each that cannot be true, and leaves a page beside
//! it that shows how far the checker came.

use std::fs::File;
use std::io::{self, BufReader};
use std::path::Path;
use std::process::ExitCode;

use dlock_judges::verdict::{draw, holds};
use dlock_judges::{judge, read};

fn main() -> ExitCode {
    let files: Vec<String> = std::env::args().skip(1).collect();
    if files.is_empty() {
        eprintln!("judge FILE…");
        return ExitCode::FAILURE;
    }
    let mut all_kept = true;
    for file in &files {
        match verdict(Path::new(file)) {
            Ok(kept) => all_kept &= kept,
            Err(error) => {
                eprintln!("judge: {file}: {error}");
                all_kept = false;
            }
        }
    }
    if all_kept { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn verdict(file: &Path) -> io::Result<bool> {
    let lines = read(BufReader::new(File::open(file)?))?;
    let accused = judge(&lines);
    println!("{}: {} holds, {} accusations", file.display(), holds(&lines), accused.len());
    for (number, accusation) in accused.iter().enumerate() {
        let page = file.with_extension(format!("{number}.html"));
        draw(&lines, accusation, &page)?;
        println!("  {accusation}: see {}", page.display());
    }
    Ok(accused.is_empty())
}
