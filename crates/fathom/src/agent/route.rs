//! The interface of the default route.

use std::fs::read_to_string;

/// That of the least metric; `None`: there is no default route.
pub(super) fn interface_of_default() -> Option<String> {
    let v4 = read_to_string("/proc/net/route").unwrap_or_default();
    let v6 = read_to_string("/proc/net/ipv6_route").unwrap_or_default();
    of_v4(&v4).or_else(|| of_v6(&v6))
}

/// `Iface Destination Gateway Flags RefCnt Use Metric Mask …`, numbers but the metric in
/// hexadecimal.
fn of_v4(table: &str) -> Option<String> {
    let routes = table.lines().skip(1).filter_map(|line| {
        let words: Vec<_> = line.split_whitespace().collect();
        let [name, destination, _, _, _, _, metric, mask, ..] = words[..] else {
            return None;
        };
        let metric: u32 = metric.parse().ok()?;
        (destination == "00000000" && mask == "00000000").then(|| (metric, name.to_owned()))
    });
    routes.min().map(|(_, name)| name)
}

/// `destination length source length next-hop metric references use flags interface`. Routes that
/// refuse packets are those of `lo`.
fn of_v6(table: &str) -> Option<String> {
    let routes = table.lines().filter_map(|line| {
        let words: Vec<_> = line.split_whitespace().collect();
        let [_, length, _, _, _, metric, _, _, _, name] = words[..] else {
            return None;
        };
        let metric = u32::from_str_radix(metric, 16).ok()?;
        (length == "00" && name != "lo").then(|| (metric, name.to_owned()))
    });
    routes.min().map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_metric_wins() {
        let table = "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n\
            wlan0\t00000000\t010010AC\t0003\t0\t0\t600\t00000000\t0\t0\t0\n\
            eth0\t00000000\t010010AC\t0003\t0\t0\t100\t00000000\t0\t0\t0\n\
            eth1\t000010AC\t00000000\t0001\t0\t0\t0\t0000FFFF\t0\t0\t0\n";
        assert_eq!(of_v4(table).as_deref(), Some("eth0"));
        assert_eq!(of_v4(""), None);
    }

    #[test]
    fn ipv6_has_a_table_of_its_own() {
        let none = "00000000000000000000000000000000";
        let route = |length: &str, metric: &str, name: &str| {
            format!(
                "{none} {length} {none} 00 {none} {metric} 00000001 00000000 00000003     {name}\n"
            )
        };
        let table = route("00", "ffffffff", "lo")
            + &route("00", "00000400", "eth0")
            + &route("40", "00000100", "eth1");
        assert_eq!(of_v6(&table).as_deref(), Some("eth0"));
        assert_eq!(of_v6(&route("00", "ffffffff", "lo")), None);
    }
}
