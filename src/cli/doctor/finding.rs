//! A problem of a node or of a set of nodes: its reason, and its fix.

/// The severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Locks are refused, or are not safe.
    Error,
    /// Locks are refused or unsafe after one more failure.
    Warning,
    /// An improvement is possible.
    Hint,
}

impl Severity {
    /// The printed name.
    pub fn name(self) -> &'static str {
        match self {
            Severity::Error => "error",
            Severity::Warning => "warning",
            Severity::Hint => "hint",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The severity.
    pub severity: Severity,
    /// The name of the check, for programs.
    pub check: &'static str,
    /// The affected nodes.
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

    /// Sets the reason why it matters.
    pub fn why(mut self, why: impl Into<String>) -> Finding {
        self.why = why.into();
        self
    }

    /// Sets the fix.
    pub fn fix(mut self, fix: impl Into<String>) -> Finding {
        self.fix = fix.into();
        self
    }

    /// Sets the affected node.
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

/// Sorts findings, the worst first, and merges equal ones about several nodes.
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
