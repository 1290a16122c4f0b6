//! The options of every command.

use std::time::Duration;

use dlock_core::limits::MAX_NODE_TIMEOUT;

use crate::say::duration;

/// Options of every subcommand.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Options of every command")]
pub struct Global {
    /// The nodes, separated by commas: redis://, rediss:// or unix:// URLs, or HOST:PORT;
    /// redis+sentinel://HOST,HOST/NAME for a primary and its Sentinels; redis+cluster://HOST,HOST
    ///
    /// User and password belong in the URL: redis://user:password@host:port. All users of this
    /// machine can read the arguments of a program, so put URLs with passwords into DLOCK_NODES.
    /// A cluster is one node, and so is a primary with its Sentinels: between their hosts a comma begins a
    /// new node only where a scheme:// follows.
    /// There is no default: --nodes or DLOCK_NODES has to name them.
    #[arg(long, global = true, value_name = "URL,…")]
    #[arg(env = "DLOCK_NODES", hide_env_values = true)]
    pub nodes: Option<Vec<String>>,

    /// Time-out of a request to a node [default: a twentieth of the ttl, between 50ms and 1s; at most 1h, and for a lock a quarter of its ttl]
    #[arg(long, global = true, value_name = "TIME", value_parser = parse_node_timeout)]
    pub node_timeout: Option<Duration>,

    /// Print JSON, one object a line
    #[arg(long, global = true)]
    pub json: bool,

    /// Report on stderr what happens
    #[arg(long, global = true)]
    pub verbose: bool,
}

fn parse_node_timeout(text: &str) -> Result<Duration, String> {
    match duration::parse_positive(text)? {
        timeout if timeout > Duration::from_millis(MAX_NODE_TIMEOUT) => {
            Err("must be at most 1h".to_owned())
        }
        timeout => Ok(timeout),
    }
}
