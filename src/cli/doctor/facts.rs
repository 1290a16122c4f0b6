//! The answers of one node: the input of the checks.

use std::collections::BTreeMap;

/// One server: a node, or a member of a cluster.
#[derive(Clone, Debug)]
pub struct Facts {
    /// Address of the server, without secrets.
    pub name: String,
    /// Index of its node in the list.
    pub node: usize,
    /// True if that node is a cluster.
    pub in_cluster: bool,
    /// Its answers, or the error.
    pub answers: Result<NodeAnswers, String>,
}

/// A node that fails over by Sentinels.
#[derive(Clone, Debug)]
pub struct Reserve {
    pub primary: Facts,
    pub replicas: Vec<(String, Result<NodeAnswers, String>)>,
    /// Each Sentinel's report about the primary.
    pub sentinels: Vec<(String, Asked)>,
}

/// A node's answers. Any part can be missing, because this user may not ask for it.
#[derive(Clone, Debug)]
pub struct NodeAnswers {
    /// INFO.
    pub info: Asked,
    /// CONFIG GET of the settings that the checks need.
    pub config: Asked,
    /// DLOCK.NODE.
    pub node: Asked,
    /// CLUSTER INFO, of a server in cluster mode.
    pub cluster: Asked,
    /// The commands that a lock needs and this user may not run.
    pub denied: Vec<&'static str>,
    /// The rights for requests of the checks that the server refuses.
    pub lacks: Vec<&'static str>,
    /// Its wall clock.
    pub clock: Option<Clock>,
}

/// The fields of an answer, or the error.
pub type Asked = Result<Fields, String>;

/// A node's wall clock, compared with this machine's.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    /// In µs since 1970.
    pub time: i64,
    /// Lead over this machine's clock, in µs.
    pub ahead: i64,
    /// Limit of that figure's error: half of the round trip, in µs.
    pub uncertainty: i64,
}

/// Named values, as text.
#[derive(Clone, Debug, Default)]
pub struct Fields(BTreeMap<String, String>);

impl Fields {
    /// The lines `name:value` of INFO and its like.
    pub fn of_lines(text: &str) -> Fields {
        let pairs = text.lines().filter_map(|line| line.split_once(':'));
        pairs.map(|(name, value)| (name.to_owned(), value.trim_end().to_owned())).collect()
    }

    #[cfg(test)]
    pub fn set(&mut self, name: &str, value: &str) {
        self.0.insert(name.to_owned(), value.to_owned());
    }

    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }
}

impl FromIterator<(String, String)> for Fields {
    fn from_iter<I: IntoIterator<Item = (String, String)>>(pairs: I) -> Fields {
        Fields(pairs.into_iter().collect())
    }
}

impl NodeAnswers {
    /// A field of INFO.
    pub fn info(&self, name: &str) -> Option<&str> {
        self.info.as_ref().ok()?.get(name)
    }

    /// A number of INFO.
    pub fn info_number(&self, name: &str) -> Option<i64> {
        self.info(name)?.parse().ok()
    }

    /// A setting.
    pub fn config(&self, name: &str) -> Option<&str> {
        self.config.as_ref().ok()?.get(name)
    }

    /// A setting that is a number.
    pub fn config_number(&self, name: &str) -> Option<i64> {
        self.config(name)?.parse().ok()
    }

    /// A field of DLOCK.NODE, or of INFO if this user may not ask for the former.
    pub fn node(&self, name: &str) -> Option<&str> {
        match &self.node {
            Ok(fields) => fields.get(name),
            Err(_) => self.info(&format!("dlock_{}", name.replace('-', "_"))),
        }
    }

    /// A number of DLOCK.NODE.
    pub fn node_number(&self, name: &str) -> Option<i64> {
        self.node(name)?.parse().ok()
    }

    /// A field of CLUSTER INFO.
    pub fn cluster(&self, name: &str) -> Option<&str> {
        self.cluster.as_ref().ok()?.get(name)
    }

    /// The settings of the module, as far as they are known.
    pub fn settings(&self) -> impl Iterator<Item = (&str, &str)> {
        let all = self.config.iter().flat_map(|config| &config.0);
        let own = all.filter(|(name, _)| name.starts_with("dlock."));
        own.map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// True if it has the module, as far as this user can see.
    pub fn has_module(&self) -> bool {
        !matches!(&self.node, Err(error) if error.contains("unknown command"))
    }

    /// True if it is an agent, which asks nodes of its own.
    pub fn is_agent(&self) -> bool {
        self.node("role") == Some("agent")
    }

    /// True if it follows another server.
    pub fn is_replica(&self) -> bool {
        self.info("role") == Some("slave") || self.node("role") == Some("replica")
    }

    /// True if it grants now.
    pub fn grants(&self) -> bool {
        self.node("granting") == Some("yes")
    }

    /// True if it is a server of a cluster.
    pub fn is_part_of_a_cluster(&self) -> bool {
        self.info_number("cluster_enabled") == Some(1)
            && self.cluster("cluster_known_nodes").is_none_or(|nodes| nodes != "1")
    }
}
