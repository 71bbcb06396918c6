//! An explanation for people.

use std::io::{self, Write};

use super::explanation::{Confidence, Explanation, Finding, duration};

/// Characters of the longest bar.
const BAR: f64 = 32.0;

impl Explanation {
    /// Without the statements that show the evidence.
    pub(crate) fn in_brief(&self) -> String {
        let mut brief = self.clone();
        for finding in &mut brief.findings {
            finding.evidence.clear();
        }
        let mut text = Vec::new();
        // Memory takes all that is written.
        let _ = write(&brief, &mut text);
        String::from_utf8_lossy(&text).into_owned()
    }
}

/// # Errors
/// When it cannot be written.
pub(super) fn write(explanation: &Explanation, to: &mut impl Write) -> io::Result<()> {
    let Explanation {
        subject,
        from,
        to: until,
        flows,
        ..
    } = explanation;
    writeln!(to, "{subject}, {flows} flows, {from} to {until}")?;
    if let Some(ns) = explanation.latency_ns {
        writeln!(to, "a response takes {}", duration(ns))?;
    }
    writeln!(to, "\n{}\n", explanation.verdict.text)?;
    let widths = explanation
        .parts
        .iter()
        .map(|part| part.name.chars().count());
    let width = widths.max().unwrap_or_default();
    for part in &explanation.parts {
        let bar = "█".repeat((part.share * BAR).round() as usize);
        let before = part
            .before_ns
            .map(|ns| format!(" ({} before)", duration(ns)));
        let before = before.unwrap_or_default();
        writeln!(
            to,
            "{:width$} {:>7} {bar}{before}",
            part.name,
            duration(part.now_ns)
        )?;
    }
    for (number, finding) in (1..).zip(&explanation.findings) {
        write_finding(number, finding, to)?;
    }
    if !explanation.missing.is_empty() {
        writeln!(to, "\nNot measured:")?;
    }
    for missing in &explanation.missing {
        writeln!(to, "  {}: {}", missing.what, missing.remedy)?;
    }
    Ok(())
}

fn write_finding(number: usize, finding: &Finding, to: &mut impl Write) -> io::Result<()> {
    let sure = match finding.confidence {
        Confidence::High => "sure",
        Confidence::Medium => "likely",
        Confidence::Low => "possible",
    };
    let since = finding
        .since
        .as_ref()
        .map(|since| format!(", since {since}"));
    let since = since.unwrap_or_default();
    writeln!(
        to,
        "\n{number}. {} (+{}, {sure}{since})",
        finding.text,
        duration(finding.amount_ns)
    )?;
    if let Some(shared) = &finding.shared_by {
        writeln!(to, "   {}", shared.text)?;
    }
    for statement in &finding.evidence {
        writeln!(to, "   fathom query \"{statement}\"")?;
    }
    Ok(())
}
