//! Certificates for TLS on loopback.

use std::fs;
use std::path::Path;

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};

/// Makes a certificate authority, and certificates for 127.0.0.1 that it has signed, as PEM files:
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
        let parameters = CertificateParams::new(vec!["127.0.0.1".to_owned()])?;
        let signed = parameters.signed_by(&own_key, &issuer)?;
        fs::write(folder.join(format!("{name}.pem")), signed.pem())?;
        fs::write(folder.join(format!("{name}.key")), own_key.serialize_pem())?;
    }
    Ok(())
}
