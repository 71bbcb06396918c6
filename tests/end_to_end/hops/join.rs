//! Records of all measurements of one flow join by its Community ID, in the words of
//! docs/joining.md.

use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use fathom_lab::{Chain, Family, Process};
use fathom_record::{FlowKey, Protocol};
use fathom_tests::{binary, repository};
use serde_json::Value;

use crate::stage::{MILLISECOND, PATIENCE, beside_others, chain, connect};

const MESSAGE: [u8; 200] = [7; 200];

/// A client that asks again when it is answered, until it is dropped.
struct Exchanges {
    flow: FlowKey,
    stop: Arc<AtomicBool>,
    client: Option<JoinHandle<()>>,
}

impl Exchanges {
    fn start(chain: &Chain) -> Self {
        let listener = chain
            .server
            .enter(|| TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)).unwrap())
            .unwrap();
        let port = listener.local_addr().unwrap().port();
        let address = chain.server_address(Family::V4);
        let mut stream = connect(&chain.client, (address, port).into());
        let (mut accepted, _) = listener.accept().unwrap();
        std::thread::spawn(move || {
            let mut message = MESSAGE;
            while accepted.read_exact(&mut message).is_ok() && accepted.write_all(&message).is_ok()
            {
            }
        });
        let own = stream.local_addr().unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let should_end = Arc::clone(&stop);
        let client = std::thread::spawn(move || {
            let mut message = MESSAGE;
            while !should_end.load(Ordering::Relaxed) {
                stream.write_all(&message).unwrap();
                stream.read_exact(&mut message).unwrap();
            }
        });
        let flow = FlowKey {
            protocol: Protocol::TCP,
            source: own.ip(),
            source_port: own.port(),
            destination: address,
            destination_port: port,
        };
        Self {
            flow,
            stop,
            client: Some(client),
        }
    }
}

impl Drop for Exchanges {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(client) = self.client.take() {
            // Its panic has been printed.
            let _ = client.join();
        }
    }
}

/// The command of the page about joining, as it stands there.
fn command_of_the_page() -> String {
    let page = repository().join("docs/joining.md");
    let page = fs::read_to_string(page).unwrap();
    let (_, code) = page.split_once("\n```sh\n").unwrap();
    let (code, _) = code.split_once("\n```").unwrap();
    code.to_owned()
}

#[test]
fn the_command_of_the_page_joins_all_measurements_of_a_flow() {
    let _turn = beside_others();
    let chain = chain(2, |_| 2 * MILLISECOND).build().unwrap();
    let exchanges = Exchanges::start(&chain);
    let directory = tempfile::tempdir().unwrap();
    let path = binary().unwrap();
    let commands: [(&str, &str, &[&str]); 4] = [
        ("rtt", "gateway", &["-i", Chain::HOST_INTERFACE]),
        (
            "hops",
            "gateway",
            &["-i", Chain::HOST_INTERFACE, "--rate", "20"],
        ),
        ("response", "gateway", &["-i", Chain::HOST_INTERFACE]),
        ("profile", "web1", &["--active-timeout", "1s"]),
    ];
    let mut processes: Vec<_> = commands
        .iter()
        .map(|(name, host, options)| {
            let output = directory.path().join(format!("{name}.json"));
            let mut command = chain.client.command(path.to_str().unwrap());
            command
                .args([name, "--format", "json", "--duration", "4s"])
                .args(["--host", host, "--output"])
                .arg(output)
                .args(*options);
            Process::start(&mut command).unwrap()
        })
        .collect();
    for process in &mut processes {
        let status = process.wait_with_deadline(PATIENCE).unwrap();
        assert!(status.success());
    }
    // The balancer tells of servers, by the names that its configuration gives them.
    let balance = r#"{"kind":"balance","host":"balancer","time":"2026-11-20T12:00:00Z","service":"web","server":"web1","share":0.25}"#;
    fs::write(directory.path().join("balance.json"), balance).unwrap();

    let output = Command::new("bash")
        .args(["-c", &command_of_the_page()])
        .current_dir(directory.path())
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    let text = String::from_utf8(output.stdout).unwrap();
    let rows: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let id = exchanges.flow.community_id().to_string();
    let row = rows.iter().find(|row| row["community_id"] == id.as_str());
    let row = row.unwrap_or_else(|| panic!("{text}{errors}"));
    assert_eq!(row["hosts"], serde_json::json!(["gateway", "web1"]));
    assert_eq!(row["share"], 0.25);
    for figure in ["rtt_ms", "farthest_hop_ms", "response_ms", "srtt_ms"] {
        let ms = row[figure].as_f64().unwrap_or_else(|| {
            let hops = fs::read_to_string(directory.path().join("hops.json"));
            panic!("{figure}: {text}{}", hops.unwrap_or_default())
        });
        // Three links of 2 ms there and back, two of them to the last router.
        assert!((4.0..60.0).contains(&ms), "{figure}: {text}");
    }
}
