//! Numbers of autonomous systems, from a file in the format of `MaxMind`.

use std::net::IpAddr;
use std::path::Path;

use anyhow::Context;
use maxminddb::{Reader, geoip2};

/// Which system an address is in.
pub(super) struct Systems {
    reader: Reader<Vec<u8>>,
}

impl Systems {
    /// Reads the file whole.
    ///
    /// # Errors
    /// When it cannot be read, or is no such file.
    pub(super) fn open(file: &Path) -> anyhow::Result<Self> {
        let reader = Reader::open_readfile(file)
            .with_context(|| format!("cannot read numbers of systems from {}", file.display()))?;
        Ok(Self { reader })
    }

    /// The number; none where the file has none.
    pub(super) fn of(&self, address: IpAddr) -> Option<u32> {
        let found = self.reader.lookup(address).ok()?;
        let system: geoip2::Asn<'_> = found.decode().ok()??;
        system.autonomous_system_number
    }
}

#[cfg(test)]
mod tests {
    use maxminddb_writer::Database;
    use maxminddb_writer::metadata::IpVersion;
    use maxminddb_writer::paths::IpAddrWithMask;

    use super::*;

    #[test]
    fn numbers_are_read() {
        let mut database = Database::default();
        database.metadata.binary_format_major_version = 2;
        database.metadata.ip_version = IpVersion::V6;
        database.metadata.database_type = "test ASN".to_owned();
        let system = std::collections::BTreeMap::from([("autonomous_system_number", 64_500_u32)]);
        let system = database.insert_value(system).unwrap();
        let network: IpAddr = [0xfd78, 1, 0, 0, 0, 0, 0, 0].into();
        database.insert_node(IpAddrWithMask::new(network, 32), system);
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("systems.mmdb");
        database
            .write_to(std::fs::File::create(&file).unwrap())
            .unwrap();
        let systems = Systems::open(&file).unwrap();
        assert_eq!(systems.of("fd78:1::1".parse().unwrap()), Some(64_500));
        assert_eq!(systems.of("fd79::1".parse().unwrap()), None);
        std::fs::write(&file, "nonsense").unwrap();
        let error = Systems::open(&file).err().unwrap();
        assert!(error.to_string().contains("systems.mmdb"));
    }
}
