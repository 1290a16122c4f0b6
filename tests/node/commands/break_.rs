//! DLOCK.BREAK: an operator ends leases.

use harness::{Kind, Server, apply, on_one_server};

#[apply(on_one_server)]
fn it_ends_every_lease_on_the_key_and_counts_them(kind: Kind) {
    let server = Server::start(kind);
    server.run("DLOCK.ACQUIRE job alice 60000");
    assert_eq!(server.run("DLOCK.BREAK job").int(), 1);
    assert_eq!(server.run("DLOCK.BREAK job").int(), 0);
    assert_eq!(server.run("EXISTS job").int(), 0);
    assert!(server.run("DLOCK.CHECK job alice").is_null());
    assert_eq!(server.run("DLOCK.EXTEND job alice 60000").int(), 0);

    for token in ["t1", "t2", "t3"] {
        server.run(&format!("DLOCK.ACQUIRE pool {token} 60000 LIMIT 3"));
    }
    assert_eq!(server.run("DLOCK.BREAK pool").int(), 3);
    assert_eq!(server.node("leases").int(), 0);
    assert_eq!(server.run("DBSIZE").int(), 0);
}
