//! What others know of routers: names from the DNS, numbers of systems from a file.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::Path;
use std::process::Stdio;

use fathom_lab::traffic::tools;
use fathom_lab::{Chain, Family, Process};
use fathom_tests::{Record, binary};
use maxminddb_writer::Database;
use maxminddb_writer::metadata::IpVersion;
use maxminddb_writer::paths::IpAddrWithMask;
use tempfile::TempDir;

use crate::stage::{MILLISECOND, PATIENCE, beside_others, chain};

const ROUTERS: usize = 3;
/// The system of router 1; each has its own.
const FIRST_SYSTEM: u32 = 64_500;
/// Runs a command so that it finds these files in /etc, in a mount namespace of its own.
const WITH_FILES: &str = "for file in resolv.conf nsswitch.conf; do mount --bind $0/$file /etc/$file || exit; done; exec \"$@\"";

fn write_systems(chain: &Chain, file: &Path) {
    let mut database = Database::default();
    database.metadata.binary_format_major_version = 2;
    database.metadata.ip_version = IpVersion::V6;
    "test ASN".clone_into(&mut database.metadata.database_type);
    for hop in 1..=ROUTERS {
        let number = FIRST_SYSTEM + hop as u32 - 1;
        let system = BTreeMap::from([("autonomous_system_number", number)]);
        let system = database.insert_value(system).unwrap();
        let router = chain.responder(hop, Family::V6);
        database.insert_node(IpAddrWithMask::new(router, 128), system);
    }
    let file = std::fs::File::create(file).unwrap();
    database.write_to(file).unwrap();
}

#[fathom_lab::test]
fn routers_have_names_and_systems() {
    let _turn = beside_others();
    if !["/etc/resolv.conf", "/etc/nsswitch.conf"]
        .iter()
        .all(|file| Path::new(file).exists())
    {
        println!("skipped: /etc lacks the files that name resolvers");
        return;
    }
    let chain = chain(ROUTERS, |_| MILLISECOND).build().unwrap();
    let folder = TempDir::new().unwrap();
    let resolver = chain.client_address(Family::V4);
    let names = (1..=ROUTERS).map(|hop| {
        let router = chain.responder(hop, Family::V6);
        format!("--host-record=router-{hop}.test,{router}")
    });
    let _dns = tools::dnsmasq(&chain.client, (resolver, 53).into(), names).unwrap();
    let resolver = format!("nameserver {resolver}\n");
    std::fs::write(folder.path().join("resolv.conf"), resolver).unwrap();
    std::fs::write(folder.path().join("nsswitch.conf"), "hosts: dns\n").unwrap();
    let systems = folder.path().join("systems.mmdb");
    write_systems(&chain, &systems);

    let mut command = chain.client.command("unshare");
    command
        .args(["--mount", "sh", "-c", WITH_FILES])
        .arg(folder.path())
        .arg(binary().unwrap())
        .args(["hops", "--interface", Chain::HOST_INTERFACE])
        .args(["--format", "json", "--rate", "20", "--names", "--asn"])
        .arg(&systems)
        .args(["--", "ping", "-i", "0.1", "-c", "30"])
        .arg(chain.server_address(Family::V6).to_string())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let output = Process::start(&mut command)
        .unwrap()
        .output(PATIENCE)
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");

    let mut told = BTreeMap::<IpAddr, (Option<String>, Option<u32>)>::new();
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        if let Record::Hop(hop) = serde_json::from_str(line).unwrap()
            && let Some(router) = hop.responder
        {
            told.insert(router, (hop.name, hop.as_number));
        }
    }
    println!("{told:?}");
    for hop in 1..=ROUTERS {
        let known = (
            Some(format!("router-{hop}.test")),
            Some(FIRST_SYSTEM + hop as u32 - 1),
        );
        assert_eq!(
            told[&chain.responder(hop, Family::V6)],
            known,
            "{told:?} {errors}"
        );
    }
}
