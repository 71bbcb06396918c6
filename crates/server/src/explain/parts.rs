//! What the latency is made of.

use super::evidence::Evidence;
use super::explanation::{Cause, Part};
use super::judge::Judged;
use super::{dns, profile};

/// Findings that are parts of their own.
const OF_FINDINGS: [(Cause, &str); 3] = [
    (Cause::Loss, "loss recovery"),
    (Cause::ReceiveBuffer, "closed window"),
    (Cause::Dns, "DNS, beyond the usual"),
];

/// Those that were measured, in the order of a request.
pub(super) fn of(judged: &Judged, evidence: &Evidence) -> Vec<Part> {
    let mut parts = Vec::new();
    let mut add = |name: &str, now: f64, before: Option<f64>| {
        let before_ns = before.map(|ns| ns.max(0.0) as u64);
        let now_ns = now.max(0.0) as u64;
        parts.push(Part {
            name: name.to_owned(),
            now_ns,
            before_ns,
            share: 0.0,
        });
    };
    if let Some((_, good_ns)) = dns::usual_ns(&evidence.dns.rows) {
        add("DNS", good_ns, None);
    }
    if let Some(establishment) = profile::usual_establishment_ns(&evidence.profiles.rows) {
        let beyond = establishment - judged.halves.least_ns().unwrap_or_default();
        add("establishment, beyond a round trip", beyond, None);
    }
    if let Some(waited) = judged.accepted {
        add("accept queue", waited.now_ns, Some(waited.before_ns));
    }
    if let Some(client) = &judged.halves.towards_client {
        let before = client.rise.map(|rise| rise.before - client.least_ns);
        add("client side", client.now_ns - client.least_ns, before);
    }
    if let Some(least_ns) = judged.halves.least_ns() {
        add("propagation", least_ns, None);
    }
    let mut named_ns = 0.0;
    let is_queue = |cause| matches!(cause, Cause::HopQueue | Cause::ClientSide);
    for finding in judged
        .findings
        .iter()
        .filter(|it| is_queue(it.cause) && it.place.is_some())
    {
        let name = format!("queue to {}", finding.place.as_deref().unwrap_or_default());
        named_ns += finding.amount_ns as f64;
        add(&name, finding.amount_ns as f64, Some(0.0));
    }
    if let Some(half) = &judged.halves.towards_server {
        let before = half.rise.map(|rise| rise.before - half.least_ns);
        add(
            "network, not told where",
            half.now_ns - half.least_ns - named_ns + judged.echo_ns,
            before,
        );
    }
    if let Some(server) = &judged.servers.all {
        let is_split = judged.halves.towards_server.is_some();
        let name = if is_split {
            "server"
        } else {
            "network and server together"
        };
        add(
            name,
            server.now_ns - judged.echo_ns,
            server.rise.map(|rise| rise.before),
        );
    }
    for (cause, name) in OF_FINDINGS {
        if let Some(finding) = judged.findings.iter().find(|it| it.cause == cause) {
            add(name, finding.amount_ns as f64, Some(0.0));
        }
    }
    let total: u64 = parts.iter().map(|part| part.now_ns).sum();
    for part in &mut parts {
        part.share = part.now_ns as f64 / total.max(1) as f64;
    }
    parts
}
