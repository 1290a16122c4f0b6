//! Who the nodes are: which server, which module.

use redis::{Value, cmd, pipe};

use crate::ask::{Answers, Node, Nodes};
use crate::inspection::text;

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

async fn greet(mut node: Node) -> Result<Met, String> {
    let mut questions = pipe();
    // Every user may say HELLO, and not every user may say INFO.
    questions.add_command(cmd("HELLO"));
    questions.add_command(cmd("DLOCK.NODE"));
    let answers = node.run_all(questions).await?;
    let [hello, about] = answers.as_slice() else {
        return Err("it answers another number of questions than it was asked".to_owned());
    };
    let server = field(hello, "server").zip(field(hello, "version"));
    let server = server.map(|(name, version)| format!("{name} {version}"));
    let module = match (field(about, "version"), about) {
        (Some(version), _) => Ok(version),
        (None, Value::ServerError(error)) => {
            let line = format!("{} {}", error.code(), error.details().unwrap_or_default());
            Err(without_arguments(line))
        }
        (None, _) => Err("unknown".to_owned()),
    };
    Ok(Met { node, server, module })
}

/// Servers repeat an unknown command with all that came with it; what is missing is the module.
pub fn without_arguments(error: String) -> String {
    if error.starts_with("ERR unknown command") { NO_MODULE.to_owned() } else { error }
}

fn field(answer: &Value, name: &str) -> Option<String> {
    let mut pairs = answer.as_map_iter()?;
    pairs.find(|(key, _)| text(key).as_deref() == Some(name)).and_then(|(_, value)| text(value))
}

const NO_MODULE: &str = "unknown command: the dlock module is not loaded";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_found_in_either_protocol() {
        let bulk = |text: &str| Value::BulkString(text.as_bytes().to_vec());
        let map = Value::Map(vec![(bulk("server"), bulk("redis")), (bulk("proto"), Value::Int(3))]);
        let list = Value::Array(vec![bulk("proto"), Value::Int(2), bulk("server"), bulk("redis")]);
        for answer in [map, list] {
            assert_eq!(field(&answer, "server").as_deref(), Some("redis"));
            assert_eq!(field(&answer, "version"), None);
        }
    }
}
