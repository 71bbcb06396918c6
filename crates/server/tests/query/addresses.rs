//! What files of this machine say of addresses.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::net::IpAddr;
use std::path::Path;

use maxminddb_writer::Database;
use maxminddb_writer::metadata::IpVersion;
use maxminddb_writer::paths::IpAddrWithMask;

use super::{flow, histogram, keep, query, refusal, rtt};

/// Of two networks the numbers of their systems are known, of one only whose it is.
fn write_systems(file: &Path) {
    let mut database = Database::default();
    database.metadata.binary_format_major_version = 2;
    database.metadata.ip_version = IpVersion::V4;
    "test ASN".clone_into(&mut database.metadata.database_type);
    let name = BTreeMap::from([("autonomous_system_organization", "Example")]);
    let name = database.insert_value(name).unwrap();
    let office = IpAddr::from([10, 0, 1, 0]);
    database.insert_node(IpAddrWithMask::new(office, 24), name);
    for (network, number) in [([192, 0, 2, 0], 64_500_u32), ([10, 0, 2, 0], 64_501)] {
        let system = BTreeMap::from([("autonomous_system_number", number)]);
        let system = database.insert_value(system).unwrap();
        database.insert_node(IpAddrWithMask::new(IpAddr::from(network), 24), system);
    }
    database.write_to(File::create(file).unwrap()).unwrap();
}

#[test]
fn networks_and_systems_have_their_names_from_files() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let [networks, systems] = ["networks.csv", "systems.mmdb"].map(|name| path.join(name));
    fs::write(
        &networks,
        "prefix,name\n10.0.0.0/16,office\n10.0.2.0/24,lab\n",
    )
    .unwrap();
    write_systems(&systems);
    let [networks, systems] = [&networks, &systems].map(|path| path.to_str().unwrap());
    let store = path.join("store");
    for client in [1, 1, 2] {
        keep(&store, &[&rtt(0, flow(client, 1), histogram([5]))]);
    }
    let statement = "SELECT network_name(source), asn(source), as_name(source), network_name(destination), asn(destination), count(*) FROM rtt_aggregate GROUP BY 1, 2, 3, 4, 5 ORDER BY 6";
    let options = ["--networks", networks, "--asn", systems, "--format", "csv"];
    let answered = query(&store, &[&options[..], &[statement]].concat());
    assert!(answered.status.success(), "{answered:?}");
    let answer = String::from_utf8(answered.stdout).unwrap();
    let rows: Vec<_> = answer.lines().skip(1).collect();
    assert_eq!(rows, ["lab,64501,,,64500,1", "office,,Example,,64500,2"]);

    let no_file = refusal(&store, &["SELECT asn(source) FROM rtt_aggregate"]);
    assert!(no_file.contains("--asn or FATHOM_ASN"), "{no_file}");
    let no_file = refusal(&store, &["SELECT network_name('10.0.0.1')"]);
    assert!(no_file.contains("--networks"), "{no_file}");
    fs::write(networks, "10.0.0.0/8\n").unwrap();
    let wrong = refusal(&store, &["--networks", networks, "SELECT 1"]);
    assert!(wrong.contains("networks.csv: line 1"), "{wrong}");
    let wrong = refusal(&store, &["--asn", networks, "SELECT 1"]);
    assert!(wrong.contains("numbers of systems"), "{wrong}");
}
