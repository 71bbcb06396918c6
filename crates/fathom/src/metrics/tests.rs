use std::io::{Read, Write};
use std::net::TcpStream;

use fathom_record::{
    Count, FlowKey, Histogram, Metric, Nanoseconds, Protocol, Schema, Time, Unit, record,
};

use super::*;

record! {
    /// A flow, over an interval.
    #[record = "walk_aggregate"]
    #[derive(Debug, Clone)]
    struct Walk {
        /// Which.
        pub flow: FlowKey,
        /// Where.
        #[field(metric = Metric::Label)]
        pub interface: &'static str,
        /// Steps.
        #[field(unit = Unit::Packets, metric = Metric::Increase)]
        pub steps: Option<u32>,
        /// How long.
        #[field(metric = Metric::Distribution)]
        pub step_histogram: Histogram,
    }
}

record! {
    /// A part of a flow.
    #[record = "walk"]
    #[derive(Debug, Clone)]
    struct Part {
        /// Which.
        pub flow: FlowKey,
        /// Where.
        #[field(metric = Metric::Label)]
        pub interface: &'static str,
        /// How it ended.
        #[field(metric = Metric::Outcome)]
        pub end: &'static str,
        /// How long.
        #[field(metric = Metric::Mean("steps"))]
        pub step_ns: Nanoseconds,
        /// Of how many it is the mean.
        pub steps: u32,
    }
}

record! {
    /// Who walks.
    #[record = "walker"]
    struct Walker {
        /// What else it is called.
        #[field(metric = Metric::Target)]
        pub labels: &'static str,
    }
}

fn flow(network: u16, port: u16) -> FlowKey {
    let [high, low] = network.to_be_bytes();
    FlowKey {
        protocol: Protocol::TCP,
        source: [192, 0, 2, 1].into(),
        source_port: 40_000,
        destination: [10, high, low, 7].into(),
        destination_port: port,
    }
}

fn walk(network: u16, samples: &[u64]) -> Walk {
    let mut step_histogram = Histogram::new();
    for &sample in samples {
        step_histogram.record(sample);
    }
    Walk {
        flow: flow(network, 443),
        interface: "eth0",
        steps: Some(7),
        step_histogram,
    }
}

fn lines(registry: &mut Registry) -> Vec<String> {
    let page = text::page(&registry.families()).unwrap();
    let page = String::from_utf8(page).unwrap();
    page.lines().map(str::to_owned).collect()
}

#[test]
fn the_page_reads_like_this() {
    let mut registry = Registry::default();
    registry.put(&walk(1, &[3_000_000; 7]));
    registry.put(&walk(1, &[30_000_000]));
    registry.put(&Count::new(Time(0), "walk", "not IP", 3));
    registry.put(&Count::new(Time(0), "walk", "not IP", 4));
    let lines = lines(&mut registry);
    let labels = "interface=\"eth0\",network=\"10.0.1.0/24\",service=\"tcp/443\"";
    for line in [
        "# HELP fathom_walk_steps_total Steps.".to_owned(),
        "# TYPE fathom_walk_steps_total counter".to_owned(),
        format!("fathom_walk_steps_total{{{labels}}} 14"),
        "# TYPE fathom_walk_step_seconds histogram".to_owned(),
        format!("fathom_walk_step_seconds_bucket{{{labels},le=\"0.0025\"}} 0"),
        format!("fathom_walk_step_seconds_bucket{{{labels},le=\"0.005\"}} 7"),
        format!("fathom_walk_step_seconds_bucket{{{labels},le=\"+Inf\"}} 8"),
        format!("fathom_walk_step_seconds_sum{{{labels}}} 0.051"),
        "fathom_count_total{measurement=\"walk\",name=\"not IP\"} 4".to_owned(),
        "fathom_metrics_other_total{kind=\"walk\"} 0".to_owned(),
    ] {
        assert!(lines.contains(&line), "{line}\n{lines:#?}");
    }
}

#[test]
fn what_is_put_together_later_is_the_same_family() {
    let mut registry = Registry::default();
    registry.put(&Part {
        flow: flow(1, 443),
        interface: "eth0",
        end: "tired",
        step_ns: Nanoseconds(2_000_000),
        steps: 5,
    });
    registry.put(&walk(1, &[]));
    let families = registry.families();
    let walks: Vec<_> = families
        .iter()
        .filter(|it| it.about.name == "fathom_walk_step_seconds")
        .collect();
    assert_eq!(walks.len(), 1);
    let Figure::Durations(durations) = &walks[0].series[0].figure else {
        panic!("{walks:?}");
    };
    assert_eq!((durations.count(), durations.sum()), (5, 10_000_000));
    let outcomes = families.iter();
    let mut outcomes = outcomes.filter(|it| it.about.name == "fathom_walk_records_total");
    assert_eq!(
        outcomes.next().unwrap().series[0].labels[0],
        ("end".into(), "tired".to_owned())
    );
}

#[test]
fn packets_to_a_client_are_of_the_service_too() {
    let mut registry = Registry::default();
    let to_client = FlowKey {
        source_port: 443,
        destination_port: 40_000,
        ..flow(1, 0)
    };
    registry.put(&Walk {
        flow: to_client,
        ..walk(1, &[])
    });
    let lines = lines(&mut registry);
    let is_there = lines
        .iter()
        .any(|line| line.contains("service=\"tcp/443\""));
    assert!(is_there, "{lines:#?}");
}

#[test]
fn networks_with_names_are_called_by_them() {
    let mut registry = Registry::default();
    let names = NetworkNames::parse("10.0.0.0/15,berlin\n10.0.2.0/24,\"lab \"\"2\"\"\"\n");
    registry.call(names.unwrap());
    for network in [1, 2, 3, 0x200] {
        registry.put(&walk(network, &[1_000_000]));
    }
    let families = registry.families();
    let steps = families
        .iter()
        .find(|it| it.about.name == "fathom_walk_steps_total");
    let told = steps.unwrap().series.iter().map(|series| {
        let mut labels = series.labels.iter();
        let (_, network) = labels.find(|(name, _)| name == "network").unwrap();
        (network.as_str(), number(&series.figure))
    });
    let expected = [("10.2.0.0/24", 7.0), ("berlin", 14.0), ("lab \"2\"", 7.0)];
    assert_eq!(told.collect::<Vec<_>>(), expected);
}

#[test]
fn series_are_bounded_and_what_has_no_room_is_counted() {
    let mut registry = Registry::default();
    let networks = 5_000;
    for network in 0..networks {
        registry.put(&walk(network, &[1_000_000]));
    }
    let families = registry.families();
    let of = |name: &str| families.iter().find(|it| it.about.name == name).unwrap();
    let steps = &of("fathom_walk_steps_total").series;
    assert_eq!(steps.len(), 1_001);
    let sum: f64 = steps.iter().map(|it| number(&it.figure)).sum();
    assert!((sum - 7.0 * f64::from(networks)).abs() < 0.5, "{sum}");
    let is_other =
        |it: &&family::Series| it.labels.contains(&("network".into(), "other".to_owned()));
    let other = steps.iter().find(is_other).unwrap();
    assert!(
        other
            .labels
            .contains(&("service".into(), "tcp/443".to_owned()))
    );
    let counted = number(&of("fathom_metrics_other_total").series[0].figure);
    assert!((counted - 4_000.0).abs() < 0.5, "{counted}");
}

fn number(figure: &Figure) -> f64 {
    match figure {
        Figure::Number(number) => *number,
        Figure::Durations(_) => f64::NAN,
    }
}

/// An answer's head and body.
fn get(address: SocketAddr, accept: &str) -> (String, Vec<u8>) {
    let mut stream = TcpStream::connect(address).unwrap();
    let request = format!(
        "GET /metrics HTTP/1.1\r\nHost: x\r\nAccept: {accept}\r\nConnection: close\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    let end = answer.windows(4).position(|it| it == b"\r\n\r\n").unwrap();
    let head = String::from_utf8(answer[..end].to_vec()).unwrap();
    (head, answer[end + 4..].to_vec())
}

#[test]
fn the_page_is_served_in_both_formats() {
    let registry = Shared::default();
    registry.lock().put(&walk(1, &[3_000_000]));
    let page = Page::serve("127.0.0.1:0".parse().unwrap(), &registry).unwrap();
    let address = page.address().unwrap();
    // One that asks and does not read keeps nobody waiting.
    let mut idle = TcpStream::connect(address).unwrap();
    idle.write_all(b"GET /metrics HTTP/1.1\r\n").unwrap();
    let (head, body) = get(address, "text/plain");
    assert!(head.starts_with("HTTP/1.1 200 OK"), "{head}");
    assert!(head.contains("version=0.0.4"), "{head}");
    assert!(
        String::from_utf8(body)
            .unwrap()
            .contains("fathom_walk_step_seconds_count")
    );
    let protobuf = "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited";
    let (head, body) = get(address, protobuf);
    assert!(head.contains("encoding=delimited"), "{head}");
    assert_eq!(body, native::page(&registry.lock().families()));
}

#[test]
fn labels_of_all_are_told_beside_the_families() {
    let registry = Shared::default();
    assert!(registry.lock().target_info().is_none());
    for labels in ["site=ber1", "owner=a=b,rack=7"] {
        registry.lock().put(&Walker { labels });
    }
    let page = Page::serve("127.0.0.1:0".parse().unwrap(), &registry).unwrap();
    let (_, body) = get(page.address().unwrap(), "text/plain");
    let body = String::from_utf8(body).unwrap();
    let info = "target_info{owner=\"a=b\",rack=\"7\"} 1\n";
    assert!(body.contains(info) && !body.contains("ber1"), "{body}");
    let resource = otlp::resource("gateway", registry.lock().target());
    let names = resource.attributes.iter().map(|it| it.key.as_str());
    let expected = [
        "service.name",
        "service.version",
        "host.name",
        "owner",
        "rack",
    ];
    assert_eq!(names.collect::<Vec<_>>(), expected);
    registry.lock().put(&Walker { labels: "" });
    assert!(registry.lock().target_info().is_none());
}

#[test]
fn an_address_that_is_taken_is_an_error_only_where_it_was_named() {
    let page = Page::serve("127.0.0.1:0".parse().unwrap(), &Shared::default()).unwrap();
    let address = page.address().unwrap();
    let open = |place| {
        let arguments = MetricsArguments {
            metrics: Some(place),
            otlp: None,
            otlp_interval: std::time::Duration::from_secs(1),
        };
        Metrics::open(&arguments, || Ok("host".to_owned()))
    };
    let error = open(MetricsPlace::At(address)).map(drop).unwrap_err();
    assert!(error.to_string().contains(&address.to_string()), "{error}");
    assert!(open(MetricsPlace::IfFree(address)).unwrap().is_none());
}

/// Names of labels are names of fields, or stand in docs/metrics.md.
#[test]
fn families_are_named_after_their_records() {
    let names = |schema: &Schema| {
        let abouts = schema.fields.iter().filter_map(|it| About::of(schema, it));
        abouts.map(|about| about.name).collect::<Vec<_>>()
    };
    assert_eq!(names(Count::SCHEMA), ["fathom_count_total"]);
    assert_eq!(
        names(Walk::SCHEMA),
        ["fathom_walk_steps_total", "fathom_walk_step_seconds"]
    );
    assert_eq!(
        names(Part::SCHEMA),
        ["fathom_walk_records_total", "fathom_walk_step_seconds"]
    );
}
