//! The page of `dlock exporter` in Chromium: what a person sees.

use harness::browser::{Browser, Scheme};
use harness::exporter::Exporter;
use harness::quarantine::CRASHED;
use harness::{Client, Kind, Server, apply, eventually, on_every_server};

const DESK: (u32, u32) = (1280, 800);
const TELEPHONE: (u32, u32) = (375, 812);

fn address(server: &Server) -> String {
    format!("127.0.0.1:{}", server.port())
}

/// A lock that somebody waits for.
fn contended(server: &Server) -> Client {
    server.run("DLOCK.ACQUIRE job:42 alice 600000 META host=web1");
    server.waiter("DLOCK.ACQUIRE job:42 bob 600000 WAIT 0")
}

/// A browser that shows the page.
#[track_caller]
fn shown(exporter: &Exporter, size: (u32, u32), scheme: Scheme) -> Browser {
    let mut browser = Browser::start();
    browser.open(&exporter.url, size, scheme);
    browser.until_it_shows("live, ");
    browser
}

#[apply(on_every_server)]
fn a_person_sees_nodes_and_locks_and_what_changes(kind: Kind) {
    let mut servers = [Server::start(kind), Server::start(kind)];
    let exporter = Exporter::start(&servers.each_ref().map(address), &["--meta"]);
    let mut bob = contended(&servers[0]);
    let mut browser = shown(&exporter, DESK, Scheme::Light);
    browser.until_it_shows("job:42");
    let text = browser.text();
    assert!(text.contains("live, 2 nodes"), "{text}");
    assert_eq!(text.matches("grants").count(), 2, "{text}");
    assert!(text.contains(&address(&servers[0])) && text.contains("web1"), "{text}");
    assert!(!text.contains("Nobody waits"), "{text}");

    servers[0].run("DLOCK.RELEASE job:42 alice");
    bob.recv();
    let hand_overs =
        "document.querySelector('#hot tbody td[data-name=\"hand-overs\"]').textContent";
    eventually("the hand-over is seen", || browser.value(hand_overs) == "1");

    // This many long leases are usual ones: after a crash they keep all keys waiting.
    let long = (0..20).map(|n| format!("DLOCK.ACQUIRE long:{n} alice 600000"));
    servers[0].client().pipeline(long);
    servers[0].kill();
    servers[0].start_again();
    servers[0].assert_in_quarantine(CRASHED);
    browser.until_it_shows("quarantine, ");
    let countdown = "document.querySelector('.wait').textContent";
    let before = browser.value(countdown);
    eventually("it counts down", || browser.value(countdown) != before);

    servers[1].stop();
    eventually("who is away is bad", || {
        browser.value("document.querySelectorAll('#nodes .bad').length") == 1
    });
    assert_eq!(browser.complaints, [] as [String; 0]);
}

#[test]
fn a_page_whose_exporter_is_gone_says_how_old_it_is() {
    let server = Server::start(Kind::Redis82);
    let exporter = Exporter::start(&[address(&server)], &[]);
    let _bob = contended(&server);
    let mut browser = shown(&exporter, DESK, Scheme::Light);
    browser.until_it_shows("job:42");
    assert_eq!(exporter.end(), Some(0));
    browser.until_it_shows("dlock exporter does not answer: this is ");
    assert!(browser.text().contains("job:42"), "what was seen stays");
}

/// Whatever clients put into keys and META is text: no tag of theirs is in the page, no script of theirs
/// has run, and the page's policy has had nothing to forbid.
#[test]
fn what_clients_put_into_keys_and_meta_is_text() {
    let server = Server::start(Kind::Redis82);
    let exporter = Exporter::start(&[address(&server)], &["--meta"]);
    let hostile: [&[u8]; 4] = [
        b"<script>document.title='owned'</script>",
        b"<img src=x onerror=\"document.title='owned'\"><h1>big</h1>",
        b"\x1b[2J\xff\xfe\x00\xe2\x80\xae\"'&lt;",
        &b"long:".repeat(40_000),
    ];
    let mut client = server.client();
    for key in hostile {
        client.run_args(&[
            b"DLOCK.ACQUIRE",
            key,
            b"alice",
            b"600000",
            b"META",
            &key[..key.len().min(40)],
        ]);
        for token in [b"bob", b"eve"].repeat(20) {
            client.run_args(&[b"DLOCK.ACQUIRE", key, token, b"600000"]);
        }
    }
    let mut browser = shown(&exporter, TELEPHONE, Scheme::Dark);
    let rows = "document.querySelectorAll('#hot tbody tr').length";
    eventually("all keys are seen", || browser.value(rows) == hostile.len());
    let text = browser.text();
    assert!(text.contains("<script>document.title='owned'</script>"), "{text}");
    assert!(text.contains("<h1>big</h1>"), "{text}");
    assert!(text.contains("\\x1b[2J\\xff\\xfe\\x00"), "{text}");
    assert!(text.contains("long:long:") && text.contains('…'), "{text}");
    assert!(!text.contains('\u{202e}'), "nothing turns the text around: {text}");
    assert_eq!(browser.value("document.title"), "dlock");
    assert_eq!(browser.value("document.scripts.length"), 1);
    assert_eq!(browser.value("document.querySelectorAll('img, h1 ~ h1, td *').length"), 0);
    assert_eq!(browser.complaints, [] as [String; 0]);
    assert_fits(&mut browser);
}

#[test]
fn it_can_be_read_in_the_light_in_the_dark_and_on_a_telephone() {
    let servers = [Server::start(Kind::Redis82), Server::start(Kind::Valkey91)];
    let exporter = Exporter::start(&servers.each_ref().map(address), &[]);
    let _bob = contended(&servers[0]);
    let mut browser = Browser::start();
    for (size, scheme) in [
        (DESK, Scheme::Light),
        (DESK, Scheme::Dark),
        (TELEPHONE, Scheme::Light),
        (TELEPHONE, Scheme::Dark),
        // A factor that magnifies to 400 %.
        ((320, 400), Scheme::Light),
    ] {
        browser.open(&exporter.url, size, scheme);
        browser.until_it_shows("job:42");
        assert_fits(&mut browser);
        let worst = browser.value(LEAST_CONTRAST).as_f64().expect("it is a number");
        // The least that the guidelines for accessible pages want (WCAG 2, AA).
        assert!(worst >= 4.5, "{size:?} {scheme:?}: a contrast of {worst}");
        let light = browser.value("getComputedStyle(document.body).backgroundColor");
        let is_light = light.as_str().is_some_and(|colour| colour.starts_with("rgb(24"));
        assert_eq!(is_light, scheme == Scheme::Light, "{light}");
        // On a telephone there are no headings above columns: each value has its own.
        let head = browser.value("getComputedStyle(document.querySelector('thead')).display");
        assert_eq!(head == "none", size.0 < 640, "{size:?}: {head}");
    }
    assert_eq!(browser.complaints, [] as [String; 0]);
}

/// Nobody has to scroll sideways.
#[track_caller]
fn assert_fits(browser: &mut Browser) {
    let width = browser.value("document.documentElement.scrollWidth - window.innerWidth");
    assert!(width.as_i64().is_some_and(|over| over <= 0), "{width} pixels are too wide");
}

/// The least contrast of all text that is seen with what is behind it, as WCAG 2 counts it.
const LEAST_CONTRAST: &str = r#"(() => {
  const numbers = colour => colour.match(/[\d.]+/g).map(Number);
  const light = colour => {
    const [r, g, b] = numbers(colour).map(n => n / 255)
      .map(n => n <= 0.03928 ? n / 12.92 : ((n + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const behind = element => {
    for (; element; element = element.parentElement) {
      const colour = getComputedStyle(element).backgroundColor;
      if (numbers(colour)[3] !== 0) return colour;
    }
    return "rgb(255, 255, 255)";
  };
  const texts = [...document.querySelectorAll("body *")].filter(element =>
    element.offsetParent && [...element.childNodes].some(node => node.nodeType === 3 && node.data.trim()));
  return Math.min(...texts.map(element => {
    const [one, other] = [light(getComputedStyle(element).color), light(behind(element))].sort((a, b) => b - a);
    return (one + 0.05) / (other + 0.05);
  }));
})()"#;
