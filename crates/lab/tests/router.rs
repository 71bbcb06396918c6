//! Scripted routers in a chain forward, answer and change what they were told to.

#![expect(clippy::unwrap_used, reason = "a step that fails fails the test")]

mod common;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use fathom_lab::traffic::probe::Prober;
use fathom_lab::traffic::tcp;
use fathom_lab::{
    Answers, Chain, ChainBuilder, Error, Family, InterfaceInformation, Layer, LinkConfig,
    MplsLabel, ScriptedRouter, Translation,
};

use common::alone;

const PATIENCE: Duration = Duration::from_secs(3);
/// How long nothing may come before it is believed that nothing does.
const SILENCE: Duration = Duration::from_millis(100);

fn prober(chain: &Chain, family: Family) -> Prober {
    Prober::new(&chain.client, chain.server_address(family), 0).unwrap()
}

/// Every hop of the main way answers as documented, the server too.
fn assert_whole(chain: &Chain, family: Family) {
    let prober = prober(chain, family);
    for (hop, responder) in (1..).zip(chain.path(0, family)) {
        let answer = prober.probe(hop, PATIENCE).unwrap();
        let answer = answer.unwrap_or_else(|| panic!("{family:?} hop {hop} is silent"));
        assert_eq!(answer.responder, responder, "{family:?} hop {hop}");
    }
}

/// A TCP connection through the chain works, with segments of full size.
fn assert_transparent(chain: &Chain, family: Family) {
    let address = SocketAddr::new(chain.server_address(family), 80);
    let _server = tcp::Server::start(&chain.server, address).unwrap();
    let client = tcp::Client {
        requests: 3,
        request_bytes: 20_000,
        response_bytes: 50_000,
        ..tcp::Client::new(address)
    };
    assert_eq!(client.run(&chain.client).unwrap().len(), 3);
}

/// A directory that is gone with the value.
struct Directory(PathBuf);

impl Directory {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("fathom-lab-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// What tshark makes of `fields` of the packets in `file` that `filter` selects, one line a packet;
/// `None` without tshark.
fn dissect(file: &Path, filter: &str, fields: &[&str]) -> Option<Vec<String>> {
    let mut command = Command::new("tshark");
    command.args(["-n", "-r"]).arg(file).args(["-Y", filter]);
    command.args(["-T", "fields", "-E", "separator=|", "-E", "occurrence=a"]);
    for field in fields {
        command.args(["-e", field]);
    }
    let output = match command.output() {
        Ok(output) => output,
        Err(error) => {
            println!("skipped: tshark: {error}");
            return None;
        }
    };
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    let text = String::from_utf8_lossy(&output.stdout);
    Some(text.lines().map(str::to_owned).collect())
}

fn with_extensions() -> ScriptedRouter {
    let label = |label, traffic_class, ttl| MplsLabel {
        label,
        traffic_class,
        ttl,
    };
    ScriptedRouter {
        labels: vec![label(24_001, 5, 1), label(16, 0, 254)],
        interface: Some(InterfaceInformation {
            index: 7,
            name: "ge-0/0/1".into(),
            mtu_bytes: 9100,
        }),
        ..ScriptedRouter::default()
    }
}

#[fathom_lab::test]
fn scripted_routers_are_hops_like_others() {
    let _turn = alone();
    let usual = || Chain::builder(4).scripted(2, ScriptedRouter::default());
    let delayed = LinkConfig::symmetric(Duration::from_millis(3));
    let builders: [ChainBuilder; 4] = [
        usual().link(3, delayed),
        usual().layer(Layer::Ethernet),
        usual().plain(2).plain(3),
        usual()
            .scripted(1, with_extensions())
            .scripted(4, with_extensions()),
    ];
    for builder in builders {
        let chain = builder.build().unwrap();
        for family in Family::BOTH {
            assert_whole(&chain, family);
            assert_transparent(&chain, family);
        }
    }
}

#[fathom_lab::test]
fn extensions_are_what_tshark_reads() {
    let _turn = alone();
    let directory = Directory::new("extensions");
    let chain = Chain::builder(2)
        .scripted(1, with_extensions())
        .scripted(
            2,
            ScriptedRouter {
                is_length_stated: false,
                ..with_extensions()
            },
        )
        .captures(&directory.0)
        .build()
        .unwrap();
    for family in Family::BOTH {
        assert_whole(&chain, family);
    }
    chain.link(1).flush_captures().unwrap();
    let file = directory.0.join("client-eth0.pcap");
    let common = [
        "icmp.mpls.label",
        "icmp.mpls.exp",
        "icmp.mpls.ttl",
        "icmp.int_info.index",
        "icmp.int_info.name",
        "icmp.int_info.mtu",
        "icmp.ext.checksum.status",
    ];
    let expected = "24001,16|5,0|1,254|7|ge-0/0/1|9100|1";
    let v4 = [&["icmp.length", "icmp.checksum.status"], &common[..]].concat();
    // A length of zero is none to tshark.
    let Some(lines) = dissect(&file, "icmp.type == 11", &v4) else {
        return;
    };
    assert_eq!(
        lines,
        [format!("32|1|{expected}"), format!("|1|{expected}")]
    );
    let v6 = [&["icmpv6.length", "icmpv6.checksum.status"], &common[..]].concat();
    let lines = dissect(&file, "icmpv6.type == 3", &v6).unwrap();
    // Without a length tshark looks for no extensions in ICMPv6.
    assert_eq!(lines.len(), 2);
    assert_eq!(lines[0], format!("16|1|{expected}"));
}

#[fathom_lab::test]
fn translation_and_marks_show_behind_it() {
    let _turn = alone();
    let directory = Directory::new("translation");
    let translating = |restores_quotes| ScriptedRouter {
        dscp: Some(10),
        ecn: Some(2),
        translation: Some(Translation {
            port_offset: 1_000,
            restores_quotes,
        }),
        ..ScriptedRouter::default()
    };
    let chain = Chain::builder(4)
        .scripted(2, translating(true))
        .captures(&directory.0)
        .build()
        .unwrap();
    for family in Family::BOTH {
        assert_whole(&chain, family);
        assert_transparent(&chain, family);
    }
    chain
        .links()
        .for_each(|link| link.flush_captures().unwrap());
    let fields = ["udp.srcport", "ip.src", "ip.dsfield"];
    let file = directory.0.join("router1-link2.pcap");
    let Some(before) = dissect(&file, "udp && ip && !icmp && ip.ttl > 1", &fields) else {
        return;
    };
    let file = directory.0.join("router2-link3.pcap");
    let behind = dissect(&file, "udp && ip && !icmp", &fields).unwrap();
    assert_eq!((before.len(), behind.len()), (3, 3));
    for (before, behind) in before.iter().zip(&behind) {
        let port: u16 = before.split('|').next().unwrap().parse().unwrap();
        assert_eq!(*before, format!("{port}|10.78.1.1|0x00"));
        let port = port.wrapping_add(1_000);
        assert_eq!(*behind, format!("{port}|10.78.3.1|0x2a"));
    }

    let chain = Chain::builder(4)
        .scripted(2, translating(false))
        .build()
        .unwrap();
    for family in Family::BOTH {
        let prober = prober(&chain, family);
        assert!(prober.probe(2, PATIENCE).unwrap().is_some());
        // The client cannot tell whose packet the answer is about.
        let before = chain.link(1).truth().len();
        assert_eq!(prober.probe(3, SILENCE).unwrap(), None);
        assert_eq!(chain.link(1).truth().len() - before, 2);
    }
    let builder = Chain::builder(4)
        .scripted(1, translating(true))
        .branch(3, [LinkConfig::default()]);
    assert!(matches!(builder.build(), Err(Error::Arrangement { .. })));
}

#[fathom_lab::test]
fn some_answer_seldom_or_never() {
    let _turn = alone();
    let answering = |answers| ScriptedRouter {
        answers,
        quoted_payload_bytes: 8,
        ..ScriptedRouter::default()
    };
    let chain = Chain::builder(3)
        .scripted(1, answering(Answers::EveryNth(3)))
        .scripted(3, answering(Answers::Never))
        .build()
        .unwrap();
    for family in Family::BOTH {
        let prober = prober(&chain, family);
        let answers = |hop| -> Vec<_> {
            let probe = |_| prober.probe(hop, SILENCE).unwrap().is_some();
            (0..6).map(probe).collect()
        };
        let third = [true, false, false, true, false, false];
        assert_eq!(answers(1), third);
        assert_eq!(answers(2), [true; 6]);
        assert_eq!(answers(3), [false; 6]);
    }
}
