//! Programs to copy: what a page shows of them is what is tested, and each can be found.

use std::fs;

use crate::page;

#[test]
fn a_program_on_a_page_is_the_file_that_is_tested() {
    let page = page::read("docs/any-client.md");
    let shown = page.text.split("```python\n").nth(1).and_then(|rest| rest.split("```").next());
    let file = page::read("docs/examples/redis_py.py");
    assert!(shown == Some(&file.text), "copy {} into {}", file.path.display(), page.path.display());
}

#[test]
fn each_program_is_named_by_its_page() {
    for (page, folder) in [("docs/any-client.md", "examples"), ("docs/agent.md", "agent")] {
        let page = page::read(page);
        for file in fs::read_dir(page::top().join("docs").join(folder)).expect("it is there") {
            let name = file.expect("it can be read").file_name();
            let link = format!("]({folder}/{})", name.to_string_lossy());
            assert!(page.text.contains(&link), "no link to {name:?}");
        }
    }
}
