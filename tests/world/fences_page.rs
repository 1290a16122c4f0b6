//! The statements of docs/fences.md.

use std::fs;
use std::path::Path;

/// The fence of the page's examples.
const FENCE: &str = "1795238075371227";

/// The statements of the page: for PostgreSQL the table, the transaction, and all in one; for
/// SQLite the transaction.
pub fn statements() -> [String; 4] {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/fences.md");
    let page = fs::read_to_string(page).expect("the page is there");
    let mut blocks = page.split("```sql\n").skip(1);
    let mut next = || {
        let block = blocks.next().and_then(|block| block.split("```").next());
        block.expect("the page has four examples").to_owned()
    };
    [next(), next(), next(), next()]
}

/// The statement of a transaction that shows its fence, and the one that writes.
pub fn parts(transaction: &str, fence: u64, balance: i64) -> (String, String) {
    let lines = transaction.lines().filter(|line| !line.starts_with("--"));
    let text = with(&lines.collect::<Vec<_>>().join("\n"), fence, balance);
    let mut parts = text.split(';').map(|part| part.trim().to_owned());
    assert!(parts.next().is_some_and(|first| first.starts_with("BEGIN")));
    let mut part = || parts.next().expect("there are four statements");
    (part(), part())
}

/// An example with another fence and another balance.
pub fn with(statement: &str, fence: u64, balance: i64) -> String {
    statement.replace(FENCE, &fence.to_string()).replace("120", &balance.to_string())
}
