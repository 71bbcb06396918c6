//! Records made up for the purpose: fields of every type, values that can be told from each other.

use std::net::UdpSocket;

use fathom_ipfix::{Counters, Export, ExporterSettings, SenderSettings, TemplateSet};
use fathom_lab::Namespace;
use fathom_record::{FlowKey, Nanoseconds, Protocol, Time, Unit, record};

use crate::collectors::{PATIENCE, PORT};

/// The enterprise number of own elements in these tests.
pub(crate) const ENTERPRISE: u32 = 32_473;
/// Who observes.
pub(crate) const OBSERVER: &str = "gateway";
/// Records of an export.
pub(crate) const RECORDS: u64 = 50;

record! {
    /// What a connection did: a field of every type there is.
    #[record = "profile"]
    #[derive(Debug, Clone)]
    pub struct Profile {
        /// When it ended, in milliseconds: nfdump knows no other flow times before version 1.7.9.
        #[field(ipfix = 153)]
        pub time: Time,
        /// When it began.
        #[field(ipfix = 152)]
        pub start_time: Time,
        /// Whose it was.
        pub flow: FlowKey,
        /// What it carried.
        #[field(ipfix = 1, unit = Unit::Bytes)]
        pub bytes_received: u64,
        /// In so many packets.
        #[field(ipfix = 2, unit = Unit::Packets)]
        pub packets_received: u64,
        /// The next hop.
        #[field(ipfix = 15)]
        pub next_hop: Option<std::net::IpAddr>,
        /// Where it went out.
        #[field(ipfix = 82)]
        pub interface: Option<&'static str>,
        /// The number of the connection.
        #[field(own_ipfix = 1)]
        pub connection: u64,
        /// The state at the start.
        #[field(own_ipfix = 2)]
        pub start_state: &'static str,
        /// The state at the end.
        #[field(own_ipfix = 3)]
        pub end_state: &'static str,
        /// The smoothed round-trip time.
        #[field(own_ipfix = 4)]
        pub srtt_ns: Option<Nanoseconds>,
        /// Its variance.
        #[field(own_ipfix = 5)]
        pub rtt_variance_us2: f64,
        /// Whether it was there before.
        #[field(own_ipfix = 6)]
        pub is_existing: bool,
        /// When it last stalled.
        #[field(own_ipfix = 7)]
        pub stalled_at: Option<Time>,
        /// The router it went by.
        #[field(own_ipfix = 8)]
        pub router: std::net::IpAddr,
        /// Not for collectors.
        pub secret: u64,
    }
}

/// The record of this number: every third one of IPv6, every second one without some fields.
pub(crate) fn profile(number: u64) -> Profile {
    let is_ipv6 = number.is_multiple_of(3);
    let address = |host: u64| -> std::net::IpAddr {
        let text = if is_ipv6 {
            format!("fd77::{host:x}")
        } else {
            format!("10.77.0.{host}")
        };
        text.parse().unwrap()
    };
    let is_full = number.is_multiple_of(2);
    let time = Time::now();
    Profile {
        time,
        start_time: Time(time.0 - 1_500_000_000),
        flow: FlowKey {
            protocol: Protocol::TCP,
            source: address(1 + number),
            source_port: 5_000 + number as u16,
            destination: address(200),
            destination_port: 443,
        },
        bytes_received: 1_000_000 + number,
        packets_received: 700 + number,
        next_hop: is_full.then(|| address(254)),
        interface: is_full.then_some("eth0"),
        connection: 0x8000_0000_0000_0000 + number,
        start_state: "NEW",
        end_state: "ESTABLISHED",
        srtt_ns: is_full.then_some(Nanoseconds(20_000_000 + number)),
        rtt_variance_us2: 0.5 + number as f64,
        is_existing: is_full,
        stalled_at: is_full.then_some(Time(1_795_176_000_123_456_789)),
        router: address(253),
        secret: 7,
    }
}

/// Sends the records from within the namespace.
pub(crate) fn export(namespace: &Namespace, url: &str, templates: TemplateSet) -> Counters {
    export_all(namespace, url, templates, None)
}

pub(crate) fn export_all(
    namespace: &Namespace,
    url: &str,
    templates: TemplateSet,
    text_bytes: Option<u16>,
) -> Counters {
    let destination = url.parse().unwrap();
    let settings = ExporterSettings {
        domain_name: Some(OBSERVER.to_owned()),
        enterprise: ENTERPRISE,
        text_bytes,
        ..ExporterSettings::new(templates)
    };
    let counters = namespace.enter(|| {
        let sender = SenderSettings::default();
        let mut export = Export::open(&destination, settings, &sender).unwrap();
        for number in 0..RECORDS {
            export.record(&profile(number), Time::now());
        }
        assert_eq!(export.records().records, RECORDS);
        assert_eq!(export.records().omitted_values, 0);
        export.close(PATIENCE)
    });
    let counters = counters.unwrap();
    assert_eq!((counters.dropped_records, counters.failures), (0, 0));
    counters
}

/// The messages of an export over UDP, as the kernel delivers them.
pub(crate) fn datagrams(
    namespace: &Namespace,
    templates: TemplateSet,
    text_bytes: Option<u16>,
) -> Vec<Vec<u8>> {
    let address = format!("127.0.0.1:{PORT}");
    let socket = namespace
        .enter(|| UdpSocket::bind(&address).unwrap())
        .unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    let url = format!("ipfix+udp://{address}");
    let sent = export_all(namespace, &url, templates, text_bytes);
    let mut buffer = vec![0; 1 << 16];
    let receive = |_| {
        let length = socket.recv(&mut buffer).unwrap();
        buffer[..length].to_vec()
    };
    (0..sent.messages).map(receive).collect()
}
