//! A problem of a node or of a set of nodes: its reason, and its fix.

/// The severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Locks are refused, or are not safe.
    Error,
    /// They will be once something else goes wrong too.
    Warning,
    /// An improvement is possible.
    Hint,
}

impl Severity {
    /// As it is printed.
    pub fn name(self) -> &'static str {
        match self {
            Severity::Error => "error",
            Severity::Warning => "warning",
            Severity::Hint => "hint",
        }
    }
}

/// One finding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The severity.
    pub severity: Severity,
    /// The name of the check, for programs.
    pub check: &'static str,
    /// The nodes that it is about.
    pub nodes: Vec<String>,
    /// The problem.
    pub found: String,
    /// The reason why it matters.
    pub why: String,
    /// The fix: a command or a line of the configuration to paste, wherever there is one.
    pub fix: String,
}

impl Finding {
    pub fn error(check: &'static str, found: impl Into<String>) -> Finding {
        Finding::new(Severity::Error, check, found.into())
    }

    pub fn warning(check: &'static str, found: impl Into<String>) -> Finding {
        Finding::new(Severity::Warning, check, found.into())
    }

    pub fn hint(check: &'static str, found: impl Into<String>) -> Finding {
        Finding::new(Severity::Hint, check, found.into())
    }

    pub fn new(severity: Severity, check: &'static str, found: String) -> Finding {
        let (nodes, why, fix) = (Vec::new(), String::new(), String::new());
        Finding { severity, check, nodes, found, why, fix }
    }

    /// Says why it matters.
    pub fn why(mut self, why: impl Into<String>) -> Finding {
        self.why = why.into();
        self
    }

    /// Says what to do.
    pub fn fix(mut self, fix: impl Into<String>) -> Finding {
        self.fix = fix.into();
        self
    }

    /// Says which node it is about.
    pub fn about(mut self, node: &str) -> Finding {
        self.nodes.push(node.to_owned());
        self
    }

    /// True if only the nodes differ.
    fn says_the_same_as(&self, other: &Finding) -> bool {
        let words = |finding: &Finding| {
            (finding.check, finding.found.clone(), finding.why.clone(), finding.fix.clone())
        };
        self.severity == other.severity && words(self) == words(other)
    }
}

/// The worst first. Equal findings about several nodes become one.
pub fn merged(findings: Vec<Finding>) -> Vec<Finding> {
    let mut merged: Vec<Finding> = Vec::new();
    for finding in findings {
        match merged.iter_mut().find(|known| known.says_the_same_as(&finding)) {
            Some(known) => known.nodes.extend(finding.nodes),
            None => merged.push(finding),
        }
    }
    merged.sort_by_key(|finding| finding.severity);
    merged
}
