//! The codes of errors.

use crate::page;

#[test]
fn each_code_of_a_refusal_has_a_row() {
    let errors = page::read("docs/commands.md").text;
    let errors = errors.split("\n## Errors\n").nth(1).expect("there is such a section");
    let rows = errors.lines().filter_map(|line| line.strip_prefix("| ")?.split(" | ").next());
    let rows: Vec<&str> = rows.flat_map(|codes| codes.split(", ")).collect();
    let mut seen = 0;
    for file in ["reason.rs", "command/refusal.rs"] {
        let text = page::read(format!("src/core/{file}")).text;
        let code = text.split("#[cfg(test)]").next().unwrap_or_default();
        let literals = code.split('"').skip(1).step_by(2);
        let firsts = literals.filter_map(|literal| literal.split(' ').next());
        let is_code =
            |word: &&str| word.len() > 2 && word.bytes().all(|letter| letter.is_ascii_uppercase());
        for code in firsts.filter(is_code) {
            assert!(rows.contains(&&*format!("`{code}`")), "{file}: {code}");
            seen += 1;
        }
    }
    assert!(seen > 20, "only {seen} were found");
}
