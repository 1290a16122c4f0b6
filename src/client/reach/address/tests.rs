//! Reading addresses, and showing them without secrets.

use proptest::prelude::*;

use super::access::Map;
use super::*;

fn refused(text: &str) -> String {
    read(text).expect_err(text).to_string()
}

fn named(text: &str) -> String {
    read(text).expect(text).name
}

fn settings(text: &str) -> (Option<String>, Option<String>) {
    let Place::Server(endpoint) = read(text).expect(text).place else { panic!("{text}") };
    let login = endpoint.info().redis_settings();
    (login.username().map(str::to_owned), login.password().map(str::to_owned))
}

fn some(user: &str, password: &str) -> (Option<String>, Option<String>) {
    (Some(user.to_owned()), Some(password.to_owned()))
}

#[test]
fn an_address_is_named_without_its_secrets() {
    for (text, name) in [
        ("redis://10.0.0.1", "redis://10.0.0.1:6379"),
        ("redis://me:secret@host:7000/3", "redis://host:7000 (db 3)"),
        ("redis://[::1]:7000", "redis://[::1]:7000"),
        ("//me:secret@host/3", "redis://host:6379 (db 3)"),
        ("rediss://:secret@host", "rediss://host:6379"),
        ("unix:///run/redis.sock?pass=secret&db=1", "unix:///run/redis.sock (db 1)"),
        ("redis+sentinel://me:secret@a,b:1/main", "redis+sentinel://a:26379,b:1/main"),
        ("rediss+sentinel://[::1],b/main/2", "rediss+sentinel://[::1]:26379,b:26379/main/2"),
        ("redis+cluster://me:secret@a, b:7000/", "redis+cluster://a:6379,b:7000"),
    ] {
        assert_eq!(named(text), name);
    }
}

#[test]
fn user_and_password_are_decoded() {
    assert_eq!(settings("redis://me:p%40ss%2Cw@host"), some("me", "p@ss,w"));
    assert_eq!(settings("unix:///s?user=me&password=secret"), some("me", "secret"));
    // An option is no field of a form: a + is a plus.
    assert_eq!(settings("unix:///s?user=m%2Be&&pass=a+b/c=%26%20"), some("m+e", "a+b/c=& "));
    assert!(!format!("{:?}", read("unix:///s?password=secret")).contains("secret"));
}

#[test]
fn sentinels_have_a_login_of_their_own() {
    let logins = |text: &str| {
        let Place::Sentinel(watched) = read(text).expect(text).place else { panic!("{text}") };
        assert!(!format!("{watched:?}").contains("secret"));
        [watched.servers.login, watched.access.login].map(|login| (login.user, login.password))
    };
    let own = "redis+sentinel://me:secret@a/main?sentinel-user=s&sentinel-pass=t";
    assert_eq!(logins(own), [some("me", "secret"), some("s", "t")]);
    assert_eq!(logins("redis+sentinel://me:secret@a/main"), [some("me", "secret"), (None, None)]);
}

#[test]
fn what_is_wrong_with_an_address_is_said_without_its_secrets() {
    for (text, what) in [
        ("x:y", "redis://x:… cannot be understood"),
        ("::1", "understood"),
        ("http://host", "does not begin with"),
        ("redis://me:secret@/1", "names no host"),
        ("redis://me:secret@host/one", "number of a database"),
        ("redis://me:secret@host/-1", "number of a database"),
        ("redis://me:secret@host:70000", "understood"),
        ("redis://me:secret@host:0", "understood"),
        ("redis://me:sec/ret@host", "the node address redis://"),
        ("redis://:secret", "%2C for a comma"),
        ("me:secret@a/b,redis://c", "…://c does not begin with"),
        ("redis://me:secret", "redis://me:… cannot be understood"),
        ("rediss://[::1]:70000", "rediss://[::1]:70000 cannot"),
        ("redis://host?ca=x", "only rediss://"),
        ("rediss://host?cert=x", "cert and key together"),
        ("rediss://host?ca=missing.pem", "cannot be read"),
        ("rediss://host?ca=Cargo.toml", "holds no 'BEGIN CERTIFICATE'"),
        ("rediss://host?certs=x", "rediss://host has an unknown option; valid options: user, "),
        ("redis://host?pass=a&secret", "has an unknown option"),
        ("redis://me:2024?secret@host", "redis://… has an unknown option"),
        ("redis://:a@secret?secret@host", "redis://… has an unknown option"),
        ("redis+cluster://:a@secret#secret@host", "redis+cluster://… has a # part"),
        ("me:secret@host:7000", "redis://host:7000 has a login and no scheme"),
        ("rediss://host#insecure", "always checked"),
        ("unix://", "names no socket"),
        ("redis+sentinel://me:secret@a,b", "does not say which primary"),
        ("redis+sentinel:///main", "names an empty host"),
        ("redis+cluster://a,,b", "names an empty host"),
        ("", "an empty entry"),
        ("redis+sentinel://a,a:26379/main", "names a:26379 twice"),
        ("redis+sentinel://a:b/main", "understood"),
        ("redis+sentinel://a/main,b:6379", "needs its scheme"),
        ("redis+sentinel://a/main/x", "number of a database"),
        ("redis+cluster://a/1", "only one"),
        ("redis+cluster://a:0", "understood"),
        ("redis+cluster://a?sentinel-pass=x", "no redis+sentinel://"),
        ("redis+cluster://a?map=x", "told:port=reached:port"),
        ("redis://a?map=x=y", "use one"),
    ] {
        let said = refused(text);
        assert!(said.contains(what), "{text}: {said}");
        assert!(!said.contains("secret") && !said.contains("sec/"), "{said}");
    }
}

#[test]
fn a_list_has_commas_and_no_address_twice() {
    let read = |text: &str| read_all(&[text.to_owned()]);
    assert_eq!(read("redis://a, redis://b").unwrap().len(), 2);
    // A smaller set of nodes would have a smaller majority.
    for text in ["redis://a,", "redis://a,,redis://b", ",redis://a", "redis+cluster://a,", " ,"] {
        assert!(read(text).unwrap_err().to_string().contains("an empty "), "{text}");
    }
    assert!(read_all(&["redis://a".to_owned(), String::new()]).is_err());
    // The password has a comma.
    for text in ["redis://:secret@secret,secret@a", "redis://me:1234,secret@a:7000"] {
        let said = read(text).unwrap_err().to_string();
        assert!(said.contains("%2C") && !said.contains("secret"), "{said}");
    }
    assert!(read("redis://a,redis://x@a:6379").unwrap_err().to_string().contains("twice"));
}

/// Clients with the same nodes have the same gate.
#[test]
fn a_list_has_the_same_order_however_it_is_written() {
    let (server, unix) = ("redis://me:secret@10.0.0.2:6379", "unix:///run/redis.sock");
    let (primary, cluster) = ("redis+sentinel://s1,s2/main/1", "redis+cluster://c1,c2");
    let orders = [
        [server, "redis://10.0.0.1", unix, primary, cluster],
        [
            "redis+cluster://c2:6379,c1",
            unix,
            "redis+sentinel://s2,s1/main/1",
            server,
            "redis://10.0.0.1:6379",
        ],
    ];
    let orders = orders.map(|order| read_all(&[order.join(",")]).unwrap());
    let [one, other] = orders.map(|order| order.iter().map(Address::identity).collect::<Vec<_>>());
    assert_eq!(one, other);
    for twice in [[primary, "redis+sentinel://s2,s1/main/1"], [cluster, "redis+cluster://c2,c1"]] {
        assert!(read_all(&[twice.join(",")]).unwrap_err().to_string().contains("twice"));
    }
    assert_eq!(
        read_all(&["redis+sentinel://s/a,redis+sentinel://s/a/1".to_owned()]).unwrap().len(),
        2
    );
}

#[test]
fn a_node_without_a_scheme_is_a_host_or_a_path() {
    for (text, name) in [
        ("10.0.0.1", "redis://10.0.0.1:6379"),
        ("[::1]:7000", "redis://[::1]:7000"),
        ("redis:6379", "redis://redis:6379"),
        ("/run/redis.sock", "unix:///run/redis.sock"),
        ("unix:/run/redis.sock", "unix:///run/redis.sock"),
    ] {
        assert_eq!(named(text), name);
    }
    for none in [None, Some(""), Some(" ")] {
        let refused = Address::of_environment(none).unwrap_err().to_string();
        assert!(refused.contains("DLOCK_NODES"), "{refused}");
    }
}

#[test]
fn commas_inside_of_a_node_separate_its_hosts() {
    let split = |text| Address::split(text).collect::<Vec<_>>();
    assert_eq!(split("a:1, b:2,/run/x"), ["a:1", "b:2", "/run/x"]);
    assert_eq!(
        split("redis+sentinel://a,b/main, redis://c,redis+cluster://d,e:1,unix:///x"),
        ["redis+sentinel://a,b/main", "redis://c", "redis+cluster://d,e:1", "unix:///x"]
    );
    assert_eq!(split("a,,redis+cluster://b,c,"), ["a", "", "redis+cluster://b,c,"]);
}

#[test]
fn servers_are_reached_where_the_map_says() {
    let mut map = Map::default();
    assert!(map.add("10.0.0.1:6379=localhost:7001") && map.add("10.0.0.2=docker"));
    assert!(!map.add("10.0.0.3=docker:7000") && !map.add("nothing"));
    let reached = |name, port| map.reached(Host::new(name, port)).to_string();
    assert_eq!(reached("10.0.0.1", 6379), "localhost:7001");
    assert_eq!(reached("10.0.0.1", 6380), "10.0.0.1:6380");
    assert_eq!(reached("10.0.0.2", 6380), "docker:6380");
}

proptest! {
    #[test]
    fn nothing_that_is_typed_makes_it_panic(text in ".{0,40}", scheme in 0..4usize) {
        let scheme = ["", "redis://", "redis+sentinel://", "redis+cluster://"][scheme];
        let _ = read(&format!("{scheme}{text}"));
        let _ = Address::split(&text).count();
    }
}
