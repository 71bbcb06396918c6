//! Certificates for TLS on loopback.

use std::fs;
use std::path::Path;

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};

/// Whom certificates are for.
const NAMES: [&str; 4] = ["127.0.0.1", "collector", "collector.example", "example.org"];

/// Makes a certificate authority, and certificates for `NAMES` that it has signed, as PEM files:
/// `authority`, and of each name `NAME.pem` and `NAME.key`.
pub fn certificates(folder: &Path, authority: &str, names: &[&str]) -> anyhow::Result<()> {
    let mut parameters = CertificateParams::new(Vec::new())?;
    parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate()?;
    let certificate = parameters.self_signed(&key)?;
    fs::write(folder.join(authority), certificate.pem())?;
    let issuer = Issuer::new(parameters, key);
    for name in names {
        let own_key = KeyPair::generate()?;
        let parameters = CertificateParams::new(NAMES.map(str::to_owned))?;
        let signed = parameters.signed_by(&own_key, &issuer)?;
        fs::write(folder.join(format!("{name}.pem")), signed.pem())?;
        fs::write(folder.join(format!("{name}.key")), own_key.serialize_pem())?;
    }
    Ok(())
}
