//! No subcommand prints the password of its nodes, whatever happens to it, nor the token of a lock.

use harness::Kind;

use crate::{address, dlock_at, servers, take};

/// Subcommands, and their exit codes: if all is well, if the nodes refuse the password, and if no node
/// answers.
const COMMANDS: [(&str, [i32; 3]); 9] = [
    ("run -n --verbose job -- printenv DLOCK_TOKEN", [0, 77, 69]),
    ("run -n --json job -- printenv DLOCK_TOKEN", [0, 77, 69]),
    ("run -n --verbose --max-hold 300ms job -- sleep 20", [75, 77, 69]),
    ("run -n --verbose held -- true", [1, 77, 69]),
    ("acquire --json -n held", [1, 77, 69]),
    ("inspect held", [0, 77, 69]),
    ("ls", [0, 77, 69]),
    ("doctor", [1, 69, 69]),
    ("break -y held", [0, 77, 69]),
];

#[test]
fn passwords_and_tokens_are_never_shown() {
    let mut servers = servers(Kind::Redis82, 3);
    for server in &servers {
        server.run("ACL SETUSER app on >open-sesame ~* &* +@all");
    }
    let url = |address: String| format!("redis://app:open-sesame@{address}");
    let nodes: Vec<String> = servers.iter().map(address).map(url).collect();
    let told = |nodes: &[String], command: &str, code: i32| {
        let said = dlock_at(nodes, &command.split(' ').collect::<Vec<_>>()).with_code(code);
        assert!(!format!("{said:?}").contains("sesame"), "{command}: {said:?}");
        let token = said.out.trim();
        assert!(token.is_empty() || !said.err.contains(token), "{command}: {said:?}");
    };
    take(&servers, b"held", "somebody", "");
    for state in 0..3 {
        match state {
            1 => servers.iter().for_each(|one| drop(one.run("ACL SETUSER app resetpass >other"))),
            2 => servers.iter_mut().for_each(|one| one.kill()),
            _ => {}
        }
        COMMANDS.iter().for_each(|(command, codes)| told(&nodes, command, codes[state]));
    }
    for words in [
        &["doctor", "redis://:sesame@x"][..],
        &["redis://a:sesame@x", "run"],
        &["--port=redis://a:sesame@x"],
    ] {
        let said = dlock_at(&nodes, words).with_code(64);
        assert!(!format!("{said:?}").contains("sesame"), "{said:?}");
    }
    let wrong = [url("127.0.0.1:port".to_owned())];
    COMMANDS.iter().for_each(|(command, _)| told(&wrong, command, 64));
}
