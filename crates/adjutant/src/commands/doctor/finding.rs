use serde_json::{Value, json};

use crate::output::Shown;
use crate::table::{Column, OutputStyle, table};

/// The result of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    Ok,
    /// Not possible from this machine.
    Skipped,
    Warning,
    Wrong,
}

impl Verdict {
    fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Skipped => "skipped",
            Self::Warning => "warning",
            Self::Wrong => "wrong",
        }
    }
}

/// What a check found, and what to do about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    pub check: &'static str,
    pub verdict: Verdict,
    pub found: String,
    pub advice: Option<String>,
}

impl Finding {
    pub fn ok(check: &'static str, found: impl Into<String>) -> Self {
        Self { check, verdict: Verdict::Ok, found: found.into(), advice: None }
    }

    pub fn skipped(check: &'static str, found: impl Into<String>) -> Self {
        Self { check, verdict: Verdict::Skipped, found: found.into(), advice: None }
    }

    pub fn warning(
        check: &'static str,
        found: impl Into<String>,
        advice: impl Into<String>,
    ) -> Self {
        Self { check, verdict: Verdict::Warning, found: found.into(), advice: Some(advice.into()) }
    }

    pub fn wrong(check: &'static str, found: impl Into<String>, advice: impl Into<String>) -> Self {
        Self { check, verdict: Verdict::Wrong, found: found.into(), advice: Some(advice.into()) }
    }

    pub fn as_json(&self) -> Value {
        json!({"check": self.check, "verdict": self.verdict.as_str(), "found": self.found, "advice": self.advice})
    }
}

/// One line for each check, followed by the advice if there is one.
pub fn as_text(findings: &[Finding], style: OutputStyle) -> Shown {
    let columns = [Column::State("VERDICT"), Column::Word("CHECK"), Column::Text("FOUND")];
    let mut rows = Vec::new();
    for finding in findings {
        rows.push(vec![
            finding.verdict.as_str().to_owned(),
            finding.check.to_owned(),
            finding.found.clone(),
        ]);
        rows.extend(
            finding
                .advice
                .iter()
                .map(|advice| vec![String::new(), String::new(), format!("-> {advice}")]),
        );
    }
    table(&columns, &rows, style).above(format!("\n{}", summary(findings)))
}

fn summary(findings: &[Finding]) -> String {
    let count = |verdict| findings.iter().filter(|finding| finding.verdict == verdict).count();
    match (count(Verdict::Wrong), count(Verdict::Warning)) {
        (0, 0) => "Everything is fine.".to_owned(),
        (0, 1) => "No check failed, but there is 1 warning.".to_owned(),
        (0, warnings) => format!("No check failed, but there are {warnings} warnings."),
        (1, _) => "1 check failed.".to_owned(),
        (wrong, _) => format!("{wrong} checks failed."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::Colors;

    #[test]
    fn a_failed_check_has_an_advice() {
        let findings = [
            Finding::ok("cap", "5 tasks at once"),
            Finding::wrong("workers", "none is alive", "start one with `adjutant work`"),
        ];
        let shown = as_text(&findings, OutputStyle { width: 80, colors: Colors::Off });
        assert_eq!(
            shown.lines().collect::<Vec<_>>(),
            [
                "VERDICT  CHECK    FOUND",
                "ok       cap      5 tasks at once",
                "wrong    workers  none is alive",
                "                  -> start one with `adjutant work`",
                "",
                "1 check failed.",
            ]
        );
    }

    #[test]
    fn warnings_are_not_called_fine() {
        let fine = Finding::ok("cap", "5 tasks at once");
        let warning = || Finding::warning("models", "the config has no models", "add one");
        assert_eq!(summary(&[fine]), "Everything is fine.");
        assert_eq!(summary(&[warning()]), "No check failed, but there is 1 warning.");
        assert_eq!(summary(&[warning(), warning()]), "No check failed, but there are 2 warnings.");
    }
}
