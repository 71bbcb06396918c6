//! What a balancer serves as metrics.

use fathom_balance::balancer::Balancer;
use fathom_balance::record::BalanceServer;
use fathom_record::{Count, Histogram, Time};

use crate::metrics::{About, Family, FamilyKind, Figure, Registry, Series, own_family};

/// Puts where it stands in place of what was there before.
///
/// # Errors
/// When what it counts cannot be read.
pub(super) fn publish(balancer: &Balancer, registry: &mut Registry) -> anyhow::Result<()> {
    registry.replace(&balancer.services()?);
    registry.replace(&balancer.weights());
    for (name, count) in balancer.counts()? {
        registry.put(&Count::new(Time::now(), "balance", name, count));
    }
    let servers = balancer.servers()?;
    registry.replace(&servers);
    registry.give(vec![up(&servers), response_seconds(balancer.latencies())]);
    Ok(())
}

/// Besides what their records say.
fn up(servers: &[BalanceServer]) -> Family {
    let numbers = servers.iter().map(|server| {
        let labels = vec![
            ("address".into(), server.address.to_string()),
            ("server".into(), server.server.to_string()),
        ];
        (labels, f64::from(u8::from(server.state.is_up())))
    });
    own_family(
        "fathom_balance_server_up",
        FamilyKind::Gauge,
        "1: it is healthy and can be reached.",
        numbers,
    )
}

fn response_seconds(latencies: Vec<(String, String, Histogram)>) -> Family {
    let series = latencies
        .into_iter()
        .map(|(service, server, latencies)| Series {
            labels: [("server".into(), server), ("service".into(), service)].into(),
            since: 0,
            figure: Figure::Durations(latencies),
        });
    Family {
        about: About {
            name: "fathom_balance_response_seconds".to_owned(),
            kind: FamilyKind::Histogram,
            unit: "s",
            help: "What clients waited for responses, averaged over epochs of a connection, since the process began.".to_owned(),
        },
        series: series.collect(),
    }
}
