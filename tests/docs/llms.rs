//! The list of pages for language models, as <https://llmstxt.org> wants it.

use crate::page;

/// `llms.txt` is docs/README.md without its pictures, with addresses from the top of the tree. To write it anew:
/// `DLOCK_WRITE=1 cargo test -p dlock-tests --test docs llms`.
#[test]
fn the_list_for_language_models_is_that_of_the_docs() {
    let want = llms(&page::read("docs/README.md").text);
    let path = page::top().join("llms.txt");
    if std::env::var_os("DLOCK_WRITE").is_some() {
        std::fs::write(&path, &want).expect("there is room");
    }
    assert_eq!(page::read("llms.txt").text, want, "write it anew: see tests/docs/llms.rs");
}

fn llms(text: &str) -> String {
    let mut in_picture = false;
    let mut lines = Vec::new();
    for line in text.lines() {
        let fence = line.starts_with("```");
        in_picture ^= fence;
        if !fence && !in_picture {
            lines.push(line.replace("](", "](docs/").replace("](docs/../", "]("));
        }
    }
    let list = lines.join("\n") + "\n";
    list.replacen("\n\n\n", "\n\n", 1).replacen("\n\nDistributed", "\n\n> Distributed", 1)
}
