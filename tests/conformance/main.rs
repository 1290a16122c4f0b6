//! The scenarios that the libraries for all languages run, here for Rust. `scenarios.json` has them, and
//! docs/contributing/conformance.md explains their steps. [`run`] runs a scenario, [`judge`] compares its
//! results. [`agent`]: the same over plain RESP, for every other language.

mod agent;
mod judge;
mod run;

use std::path::Path;

use harness::wait::PATIENCE;
use harness::{Kind, Server, apply, library, on_every_server, on_two_servers};
use serde_json::Value as Json;

use crate::run::Run;

/// They share a server, and have keys of their own.
#[apply(on_every_server)]
fn scenarios_with_one_node_are_as_they_must_be(kind: Kind) {
    let mut servers = vec![Server::start(kind)];
    for scenario in scenarios().iter().filter(|scenario| scenario["nodes"].is_null()) {
        servers = play(scenario, servers);
    }
}

#[apply(on_two_servers)]
fn scenarios_with_one_node_are_as_they_must_be_through_an_agent(kind: Kind) {
    let mut servers = vec![Server::start(kind)];
    for scenario in scenarios().iter().filter(|scenario| scenario["nodes"].is_null()) {
        println!("{}", scenario["name"]);
        servers = agent::play(scenario, servers);
    }
}

#[test]
fn scenarios_with_nodes_that_fail_are_as_they_must_be() {
    for scenario in scenarios().iter().filter(|scenario| !scenario["nodes"].is_null()) {
        play(scenario, servers_of(scenario));
    }
}

#[test]
fn scenarios_with_nodes_that_fail_are_as_they_must_be_through_an_agent() {
    for scenario in scenarios().iter().filter(|scenario| !scenario["nodes"].is_null()) {
        println!("{}", scenario["name"]);
        agent::play(scenario, servers_of(scenario));
    }
}

#[test]
fn the_page_of_others_tests_quotes_scenarios_that_are_there() {
    let page = include_str!("../../docs/contributing/others-tests.md").replace('\n', " ");
    let scenarios = scenarios();
    for quoted in page.split('"').skip(1).step_by(2) {
        let is_there = |scenario: &Json| {
            let name = scenario["name"].as_str().unwrap();
            quoted.strip_suffix(" …").map_or(name == quoted, |begin| name.starts_with(begin))
        };
        assert!(scenarios.iter().any(is_there), "{quoted}");
    }
}

/// The nodes of a scenario that has some of its own.
fn servers_of(scenario: &Json) -> Vec<Server> {
    let start = |_| {
        let options = scenario["options"].as_array().into_iter().flatten();
        let words: Vec<&str> = options.filter_map(Json::as_str).collect();
        let describe = |builder: harness::Builder, option: &[&str]| {
            builder.config(&option.join(" ").replacen("--", "", 1))
        };
        words.chunks(2).fold(Server::build(Kind::Redis82), describe).start()
    };
    (0..scenario["nodes"].as_u64().unwrap()).map(start).collect()
}

fn play(scenario: &Json, servers: Vec<Server>) -> Vec<Server> {
    let name = scenario["name"].as_str().unwrap();
    let timeout = scenario["nodeTimeout"].as_u64().map_or(PATIENCE, library::ms);
    println!("{name}");
    library::run(async {
        let mut run = Run::new(servers, name, timeout);
        for (at, step) in scenario["steps"].as_array().unwrap().iter().enumerate() {
            println!("  step {}: {step}", at + 1);
            run.step(step).await;
        }
        run.servers
    })
}

fn scenarios() -> Vec<Json> {
    let file = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/conformance/scenarios.json"));
    let text = std::fs::read_to_string(file).unwrap();
    let read: Json = serde_json::from_str(&text).unwrap();
    read["scenarios"].as_array().unwrap().clone()
}
