//! The versions of the nodes: server and module.

use dlock_client::operator::Fields;
use redis::{Value, cmd, pipe};

use crate::nodes::ask::{Answers, Node, Nodes, Trouble};

/// A node that answers.
#[derive(Clone)]
pub struct Met {
    pub node: Node,
    /// Its name and version.
    pub server: Option<String>,
    /// Its version; or what DLOCK.NODE is answered with.
    pub module: Result<String, String>,
}

/// Connects to all of them.
pub async fn all(nodes: &Nodes) -> Answers<Met> {
    nodes.each(greet).await
}

async fn greet(mut node: Node) -> Result<Met, Trouble> {
    let mut questions = pipe();
    // Every user may say HELLO, and not every user may say INFO.
    questions.add_command(cmd("HELLO"));
    questions.add_command(cmd("DLOCK.NODE"));
    let answers = node.run_all(questions).await?;
    let [hello, about] = answers.as_slice() else {
        return Err("it answers another number of questions than it was asked".into());
    };
    let server = field(hello, "server").zip(field(hello, "version"));
    let server = server.map(|(name, version)| format!("{name} {version}"));
    let module = match (field(about, "version"), about) {
        (Some(version), _) => Ok(version),
        (None, Value::ServerError(error)) => Err(Trouble::said(error).words),
        (None, _) => Err("unknown".to_owned()),
    };
    Ok(Met { node, server, module })
}

fn field(answer: &Value, name: &str) -> Option<String> {
    Fields::of(answer)?.text(name)
}
